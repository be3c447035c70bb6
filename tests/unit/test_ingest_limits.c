/* What a partition does when something is too much: memory lost, caps, and that the books say so. */
#include "tests/unit/ingest_bench.h"

/* ---- what memory lost ---- */

static void windows_of_another_life_are_missing_once(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, NULL);
    uint64_t starts_ms[] = {bench.now_ms - 20 * MINUTE, bench.now_ms - 3 * MINUTE, bench.now_ms - 2 * MINUTE,
                            bench.now_ms - MINUTE};
    uint64_t samples[] = {1000, 10, 20, 40}, epochs[] = {5, 5, 5, EPOCH};
    for (int again = 0; again < 3; again++) {
        Fleetprof__Hello message = FLEETPROF__HELLO__INIT;
        message.n_acked_window_start_ms = message.n_acked_window_samples = message.n_acked_shard_epoch = 4;
        message.acked_window_start_ms = starts_ms;
        message.acked_window_samples = samples;
        message.acked_shard_epoch = epochs;
        hello_with(&bench, 1, &message, NULL);
    }
    /* Not the one that would have expired, nor the one this life took. */
    assert_int_equal(all_lost_by(&bench, "shard_restart"), 30);
    struct found found = ask(&bench, "function", bench.now_ms - 3 * MINUTE, bench.now_ms - 150000);
    assert_int_equal(lost_by(&found.completeness, "shard_restart"), 10);
    assert_true(completeness_forgot(&found.completeness));
    top_table_fini(&found.table);
    close_bench(&bench);
}

static void windows_over_the_byte_limit_are_missing_by_name(void **state)
{
    (void)state;
    struct bench bench;
    struct partition_settings settings = roomy();
    settings.window_bytes = 3 * (WINDOW_FIRST_BYTES + 200);
    open_bench(&bench, &settings);
    hello(&bench, 1);
    uint64_t start_ms = (bench.now_ms - 2 * MINUTE) / 10000 * 10000;
    for (uint64_t w = 0; w < 8; w++)
        send_one(&bench, w + 1, start_ms + w * 10000, "f", 1);
    assert_int_equal(all_samples(&bench), 3);
    assert_int_equal(all_lost_by(&bench, "window_bytes"), 5);
    struct found found = ask(&bench, "function", start_ms + 50000, UINT64_MAX); /* what is there is whole */
    assert_false(completeness_forgot(&found.completeness));
    assert_int_equal(found.completeness.samples, 3);
    top_table_fini(&found.table);
    close_bench(&bench);
}

static void windows_past_the_retention_are_missing_by_name(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, NULL);
    hello(&bench, 1);
    send_one(&bench, 1, bench.now_ms - 10000, "f", 7);
    bench.now_ms += 16 * MINUTE;
    partition_tend(bench.partition, bench.now_ms);
    assert_int_equal(all_samples(&bench), 0);
    assert_int_equal(all_lost_by(&bench, "expired"), 7);
    bench.now_ms += 30 * MINUTE;
    partition_tend(bench.partition, bench.now_ms);
    assert_int_equal(all_lost_by(&bench, "expired"), 0); /* forgotten altogether */
    close_bench(&bench);
}

/* ---- caps ---- */

static struct stackset *many(unsigned first, unsigned count, bool processes)
{
    struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
    for (unsigned i = first; i < first + count; i++) {
        char name[32];
        snprintf(name, sizeof(name), "x%u", i);
        add(set, processes ? name : "p", processes ? "f" : name, 100, 1);
    }
    return set;
}

static uint64_t value_sum(struct bench *bench, const char *group)
{
    struct found found = ask(bench, group, 0, UINT64_MAX);
    uint64_t value = 0;
    for (uint32_t i = 0; i < found.table.row_count; i++)
        value += found.table.rows[i].value;
    top_table_fini(&found.table);
    return value;
}

static void over_the_cap_of_stacks_totals_hold(void **state)
{
    (void)state;
    struct bench bench;
    struct partition_settings settings = roomy();
    settings.dictionary.nodes = 500;
    open_bench(&bench, &settings);
    bench.partition->compact_after_ms = UINT64_MAX; /* what is live does not shrink: straight to the marker */
    hello(&bench, 1);
    assert_int_equal(send_set(&bench, 1, bench.now_ms - 10000, many(0, 2000, false)),
                     FLEETPROF__VERDICT__STORED);
    assert_int_equal(send_set(&bench, 2, bench.now_ms - 10000, many(1000, 2000, false)),
                     FLEETPROF__VERDICT__STORED);
    struct found found = ask(&bench, "function", 0, UINT64_MAX);
    assert_int_equal(found.completeness.samples, 4000);
    assert_int_equal(found.completeness.value, 4000 * 100 * 1000);
    assert_int_equal(found.table.row_count, 497); /* 500 less root, lost, main */
    assert_int_equal(found.completeness.truncated, 4000 - 497);
    top_table_fini(&found.table);
    assert_int_equal(value_sum(&bench, "process"), 4000 * 100 * 1000);
    assert_true(bench.partition->dictionary.node_count <= 500);
    close_bench(&bench);
}

static void over_the_cap_of_series_totals_hold(void **state)
{
    (void)state;
    struct bench bench;
    struct partition_settings settings = roomy();
    settings.dictionary.series = 50;
    open_bench(&bench, &settings);
    bench.partition->compact_after_ms = UINT64_MAX;
    hello(&bench, 1);
    assert_int_equal(send_set(&bench, 1, bench.now_ms - 10000, many(0, 300, true)),
                     FLEETPROF__VERDICT__STORED);
    assert_int_equal(value_sum(&bench, "function"), 300 * 100 * 1000);
    assert_int_equal(value_sum(&bench, "node"), 300 * 100 * 1000);
    struct found found = ask(&bench, "overflow", 0, UINT64_MAX);
    assert_int_equal(found.table.row_count, 2); /* "" and "series_full" */
    top_table_fini(&found.table);
    found = ask(&bench, "node", 0, UINT64_MAX);
    assert_int_equal(found.table.row_count, 1); /* the remainder is this node's */
    top_table_fini(&found.table);
    close_bench(&bench);
}

static void compaction_makes_room_when_windows_have_gone(void **state)
{
    (void)state;
    struct bench bench;
    struct partition_settings settings = roomy();
    settings.dictionary.nodes = 1200;
    open_bench(&bench, &settings);
    hello(&bench, 1);
    assert_int_equal(send_set(&bench, 1, bench.now_ms - 10000, many(0, 1000, false)),
                     FLEETPROF__VERDICT__STORED);
    bench.now_ms += 16 * MINUTE;
    partition_tend(bench.partition, bench.now_ms);
    assert_null(bench.partition->roster.nodes[0]->session); /* silent for too long */
    hello(&bench, 1);
    /* 1,000 new ones: over the cap with the old, so the old go and the agent has to say everything again. */
    assert_int_equal(send_set(&bench, 2, bench.now_ms - 10000, many(1000, 1000, false)),
                     FLEETPROF__VERDICT__NO_SESSION);
    assert_int_equal(hello(&bench, 1), FLEETPROF__VERDICT__STORED);
    assert_int_equal(send_set(&bench, 2, bench.now_ms - 10000, many(1000, 1000, false)),
                     FLEETPROF__VERDICT__STORED);
    struct found found = ask(&bench, "function", 0, UINT64_MAX);
    assert_int_equal(found.completeness.samples, 1000);
    assert_int_equal(found.completeness.truncated, 0);
    assert_int_equal(found.table.row_count, 1000);
    top_table_fini(&found.table);
    close_bench(&bench);
}

static void compaction_does_not_change_answers(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, NULL);
    hello(&bench, 1);
    assert_int_equal(send_set(&bench, 1, bench.now_ms - 10000, many(0, 300, false)),
                     FLEETPROF__VERDICT__STORED);
    assert_int_equal(send_set(&bench, 2, bench.now_ms - 10000, many(5, 40, true)),
                     FLEETPROF__VERDICT__STORED);
    struct found before = ask(&bench, "function", 0, UINT64_MAX);
    partition_compact(bench.partition, bench.now_ms);
    struct found after = ask(&bench, "function", 0, UINT64_MAX);
    assert_int_equal(before.table.row_count, after.table.row_count);
    for (uint32_t i = 0; i < before.table.row_count; i++) {
        const struct top_row *a = &before.table.rows[i], *b = &after.table.rows[i];
        assert_int_equal(a->value, b->value);
        assert_int_equal(a->key_bytes, b->key_bytes);
        assert_memory_equal(top_row_key(&before.table, a), top_row_key(&after.table, b), a->key_bytes);
    }
    assert_int_equal(value_sum(&bench, "process"), 340 * 100 * 1000);
    top_table_fini(&before.table);
    top_table_fini(&after.table);
    close_bench(&bench);
}

/* Agents by the thousand must not fill the memory with what they may refer to. */
static void over_the_limit_of_bytes_the_largest_session_ends(void **state)
{
    (void)state;
    struct bench bench;
    struct partition_settings settings = roomy();
    settings.session_bytes = 20000; /* two sessions of 1000 stacks and 1000 names are too much */
    open_bench(&bench, &settings);
    assert_int_equal(hello(&bench, 1), FLEETPROF__VERDICT__STORED);
    assert_int_equal(send_one(&bench, 1, bench.now_ms - 20000, "small", 1), FLEETPROF__VERDICT__STORED);
    struct wire_session *small = bench.session;
    bench.session = NULL;
    for (uint64_t node = 0; node < 2; node++) {
        struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
        bench.node = node ? "node-c" : "node-b";
        assert_int_equal(hello(&bench, 1), FLEETPROF__VERDICT__STORED);
        for (int i = 0; i < 1000; i++) {
            char function[32];
            snprintf(function, sizeof(function), "f%d", i);
            add(set, "p", function, 100, 1);
        }
        assert_int_equal(send_set(&bench, 1, bench.now_ms - 20000, set), FLEETPROF__VERDICT__STORED);
        assert_true(bench.partition->session_bytes <= settings.session_bytes);
    }
    assert_int_equal(all_samples(&bench), 2001);
    assert_int_equal(bench.partition->session_count, 2);
    /* The small one goes on. */
    wire_session_free(bench.session);
    bench.node = "node-a";
    bench.session = small;
    assert_int_equal(send_one(&bench, 2, bench.now_ms - 10000, "small", 1), FLEETPROF__VERDICT__STORED);
    close_bench(&bench);
}

static void the_books_reach_as_far_back_as_the_retention(void **state)
{
    (void)state;
    struct bench bench;
    struct partition_settings settings = roomy();
    settings.retention_ms = 4 * 60 * MINUTE;
    open_bench(&bench, &settings);
    assert_int_equal(hello(&bench, 1), FLEETPROF__VERDICT__STORED);
    uint64_t from_ms = window_bucket_start_ms(bench.now_ms) - 1000 * 10000;
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(send_one(&bench, i + 1, from_ms + i * 10000, "f", 1), FLEETPROF__VERDICT__STORED);
    struct found found = ask(&bench, "function", 0, UINT64_MAX);
    assert_int_equal(found.completeness.samples, 1000);
    assert_int_equal(found.completeness.covered_ms, 1000 * 10000);
    assert_int_equal(lost_by(&found.completeness, "ring_full"), 3000);
    top_table_fini(&found.table);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_the_limit_of_bytes_the_largest_session_ends),
        cmocka_unit_test(the_books_reach_as_far_back_as_the_retention),
        cmocka_unit_test(windows_of_another_life_are_missing_once),
        cmocka_unit_test(windows_over_the_byte_limit_are_missing_by_name),
        cmocka_unit_test(windows_past_the_retention_are_missing_by_name),
        cmocka_unit_test(over_the_cap_of_stacks_totals_hold),
        cmocka_unit_test(over_the_cap_of_series_totals_hold),
        cmocka_unit_test(compaction_makes_room_when_windows_have_gone),
        cmocka_unit_test(compaction_does_not_change_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
