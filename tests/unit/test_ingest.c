/* Hello and Batch against one partition: what counts, what does not, and that the books say so. */
#include "tests/unit/ingest_bench.h"

/* ---- stories ---- */

static void a_repeated_batch_counts_once(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, NULL);
    assert_int_equal(hello(&bench, 1), FLEETPROF__VERDICT__STORED);
    struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
    add(set, "p", "f", 1000, 10);
    struct buf message = encode(&bench, 1, bench.now_ms - 10000, set, NULL, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(send_message(&bench, &message), FLEETPROF__VERDICT__STORED);
    buf_fini(&message);
    stackset_free(set);
    assert_int_equal(all_samples(&bench), 10);
    assert_int_equal(bench.partition->roster.nodes[0]->duplicates, 2);
    /* In a new session: its definitions count, its rows do not. */
    uint64_t last = 0;
    Fleetprof__Hello again = FLEETPROF__HELLO__INIT;
    assert_int_equal(hello_with(&bench, 1, &again, &last), FLEETPROF__VERDICT__STORED);
    assert_int_equal(last, 1);
    assert_int_equal(send_one(&bench, 1, bench.now_ms - 10000, "f", 10), FLEETPROF__VERDICT__STORED);
    assert_int_equal(all_samples(&bench), 10);
    assert_int_equal(send_one(&bench, 2, bench.now_ms - 10000, "f", 5), FLEETPROF__VERDICT__STORED);
    assert_int_equal(all_samples(&bench), 15);
    close_bench(&bench);
}

static void batches_without_a_session_are_sent_back(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, NULL);
    bench.session = wire_session_new(99, 1000);
    assert_int_equal(send_one(&bench, 1, bench.now_ms, "f", 1), FLEETPROF__VERDICT__NO_SESSION);
    close_bench(&bench);
}

static void a_new_agent_on_the_node_begins_anew(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, NULL);
    hello(&bench, 1);
    assert_int_equal(send_one(&bench, 1, bench.now_ms - 10000, "f", 1), FLEETPROF__VERDICT__STORED);
    uint64_t last = 9;
    Fleetprof__Hello message = FLEETPROF__HELLO__INIT;
    assert_int_equal(hello_with(&bench, 2, &message, &last), FLEETPROF__VERDICT__STORED);
    assert_int_equal(last, 0);
    assert_int_equal(send_one(&bench, 1, bench.now_ms - 10000, "f", 2), FLEETPROF__VERDICT__STORED);
    assert_int_equal(all_samples(&bench), 3);
    close_bench(&bench);
}

static void of_two_agents_with_one_name_the_older_stays(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, NULL);
    hello(&bench, 1);
    assert_int_equal(send_one(&bench, 1, bench.now_ms - 10000, "f", 1), FLEETPROF__VERDICT__STORED);
    bench.now_ms += MINUTE;
    assert_int_equal(hello(&bench, 2), FLEETPROF__VERDICT__STORED); /* looks like a restart */
    bench.now_ms += 500;
    assert_int_equal(hello(&bench, 1), FLEETPROF__VERDICT__RETRY); /* may be the dead one's last message */
    bench.now_ms += 5000;
    uint64_t last = 0;
    Fleetprof__Hello message = FLEETPROF__HELLO__INIT;
    assert_int_equal(hello_with(&bench, 1, &message, &last), FLEETPROF__VERDICT__STORED); /* it is alive */
    assert_int_equal(last, 1);
    bench.now_ms += 5000;
    assert_int_equal(hello(&bench, 2), FLEETPROF__VERDICT__REFUSED);
    bench.now_ms += ROSTER_RIVAL_MS; /* the older one has gone silent */
    assert_int_equal(hello(&bench, 2), FLEETPROF__VERDICT__STORED);
    close_bench(&bench);
}

static void broken_messages_change_nothing(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, NULL);
    hello(&bench, 1);
    struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
    add(set, "p", "f", 1000, 10);
    struct buf message = encode(&bench, 1, bench.now_ms - 10000, set, NULL, 0);
    stackset_free(set);
    for (size_t cut = 0; cut < message.used_bytes; cut += 3) {
        struct buf part = message, reply = buf_init(LINK_MESSAGE_BYTES);
        part.used_bytes = cut;
        ingest(bench.partition, part.data, part.used_bytes, bench.now_ms, &reply);
        assert_true(reply.used_bytes >= WIRE_HEADER_BYTES);
        buf_fini(&reply);
    }
    assert_int_equal(all_samples(&bench), 0);
    assert_int_equal(bench.partition->roster.nodes[0]->epochs[0].last_sequence, 0);
    assert_int_equal(send_message(&bench, &message), FLEETPROF__VERDICT__STORED);
    assert_int_equal(all_samples(&bench), 10);
    buf_fini(&message);
    close_bench(&bench);
}

static void set_kind(Fleetprof__Batch *batch, uint64_t unknown)
{
    free(batch->samples[0]->kind);
    batch->samples[0]->kind = xstrdup(unknown ? "gpu" : "alloc_space");
}

static void set_value(Fleetprof__Batch *batch, uint64_t value)
{
    batch->samples[0]->value[0] = value;
}

static void senseless_samples_are_refused(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, NULL);
    const struct {
        change_fn change;
        uint64_t argument;
    } cases[] = {{set_kind, 1}, {set_kind, 0}, {set_value, INGEST_VALUE + 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        hello(&bench, 1);
        struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
        add(set, "p", "f", 1000, 10);
        struct buf message = encode(&bench, 1, bench.now_ms - 10000, set, cases[i].change, cases[i].argument);
        assert_int_equal(send_message(&bench, &message), FLEETPROF__VERDICT__REFUSED);
        buf_fini(&message);
        stackset_free(set);
    }
    assert_int_equal(all_samples(&bench), 0);
    close_bench(&bench);
}

static void repeat_samples(Fleetprof__Batch *batch, uint64_t argument)
{
    (void)argument;
    /* The same column twice: an agent sends each kind once. */
    Fleetprof__Samples **twice = xcalloc(2, sizeof(*twice));
    Fleetprof__Samples *copy = xmalloc(sizeof(*copy));
    fleetprof__samples__init(copy);
    copy->kind = xstrdup("cpu");
    copy->unit = xstrdup("nanoseconds");
    copy->scale = 1000;
    twice[0] = batch->samples[0];
    twice[1] = copy;
    free(batch->samples);
    batch->samples = twice;
    batch->n_samples = 2;
}

/* Else a batch of many small Samples, each with the largest sums, would fill gigabytes with split rows. */
static void a_kind_twice_in_one_batch_is_refused(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, NULL);
    assert_int_equal(hello(&bench, 1), FLEETPROF__VERDICT__STORED);
    struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
    add(set, "p", "f", 100, 1);
    struct buf message = encode(&bench, 1, bench.now_ms - 10000, set, repeat_samples, 0);
    assert_int_equal(send_message(&bench, &message), FLEETPROF__VERDICT__REFUSED);
    assert_int_equal(all_samples(&bench), 0);
    buf_fini(&message);
    stackset_free(set);
    close_bench(&bench);
}

/* A Hello that comes twice, the second one late: what the agent has defined since must still hold. */
static void a_hello_that_comes_again_changes_nothing(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, NULL);
    assert_int_equal(hello(&bench, 1), FLEETPROF__VERDICT__STORED);
    assert_int_equal(send_one(&bench, 1, bench.now_ms - 20000, "f", 2), FLEETPROF__VERDICT__STORED);
    Fleetprof__Hello again = FLEETPROF__HELLO__INIT;
    again.node = (char *)(uintptr_t)bench.node;
    again.boot_epoch = 1;
    again.session = wire_session_id(bench.session);
    struct buf out = buf_init(LINK_MESSAGE_BYTES);
    assert_int_equal(wire_pack(&again.base, WIRE_HELLO, wire_route(bench.node), &out, NULL), 0);
    Fleetprof__HelloReply *reply = (Fleetprof__HelloReply *)say(&bench, &out, WIRE_HELLO_REPLY);
    assert_int_equal(reply->verdict, FLEETPROF__VERDICT__STORED);
    assert_int_equal(reply->last_sequence, 1);
    wire_free(&reply->base);
    buf_fini(&out);
    /* The same stack once more: the session does not send it again. */
    assert_int_equal(send_one(&bench, 2, bench.now_ms - 10000, "f", 3), FLEETPROF__VERDICT__STORED);
    assert_int_equal(all_samples(&bench), 5);
    close_bench(&bench);
}

/* The rows of a batch are followed unchecked only when they will not be stored. */
static void another_life_cannot_take_over_a_session(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, NULL);
    assert_int_equal(hello(&bench, 1), FLEETPROF__VERDICT__STORED);
    assert_int_equal(send_one(&bench, 5, bench.now_ms - 20000, "f", 2), FLEETPROF__VERDICT__STORED);
    bench.next_session--; /* the same id */
    assert_int_equal(hello(&bench, 2), FLEETPROF__VERDICT__STORED);
    struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
    add(set, "p", "f", 100, 1);
    struct buf first = encode(&bench, 1, bench.now_ms - 10000, set, NULL, 0);
    struct buf second = encode(&bench, 2, bench.now_ms - 10000, set, NULL, 0);
    assert_int_equal(send_message(&bench, &second), FLEETPROF__VERDICT__REFUSED); /* nothing is defined */
    assert_int_equal(send_message(&bench, &first), FLEETPROF__VERDICT__STORED);
    assert_int_equal(all_samples(&bench), 3);
    buf_fini(&first);
    buf_fini(&second);
    stackset_free(set);
    close_bench(&bench);
}

static void a_node_on_the_wrong_route_is_refused(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, NULL);
    Fleetprof__Hello message = FLEETPROF__HELLO__INIT;
    message.node = (char *)(uintptr_t) "node-a";
    struct buf out = buf_init(LINK_MESSAGE_BYTES);
    assert_int_equal(wire_pack(&message.base, WIRE_HELLO, wire_route("node-b"), &out, NULL), 0);
    Fleetprof__HelloReply *reply = (Fleetprof__HelloReply *)say(&bench, &out, WIRE_HELLO_REPLY);
    assert_int_equal(reply->verdict, FLEETPROF__VERDICT__REFUSED);
    wire_free(&reply->base);
    buf_fini(&out);
    assert_int_equal(bench.partition->roster.count, 0);
    close_bench(&bench);
}

/* ---- time ---- */

static void set_sent(Fleetprof__Batch *batch, uint64_t sent_ms)
{
    batch->sent_ms = sent_ms;
}

/* A wrong clock. */
static void windows_of_wrong_clocks_land_where_questions_look(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, NULL);
    const int64_t off_ms[] = {-3600000, 600000, -(int64_t)bench.now_ms, 75LL * 365 * 86400000};
    for (size_t i = 0; i < 4; i++) {
        hello(&bench, i + 1);
        bench.now_ms += 10;
        uint64_t agent_now_ms =
            bench.now_ms + (uint64_t)off_ms[i] + (off_ms[i] == -(int64_t)bench.now_ms ? 20000 : 0);
        struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
        add(set, "p", "f", 1000, 10);
        struct buf message = encode(&bench, 1, agent_now_ms - 10000, set, set_sent, agent_now_ms);
        assert_int_equal(send_message(&bench, &message), FLEETPROF__VERDICT__STORED);
        assert_int_equal(samples_between(&bench, bench.now_ms - 10000, bench.now_ms), 10 * (i + 1));
        assert_true(bench.partition->roster.nodes[0]->skewed);
        buf_fini(&message);
        stackset_free(set);
    }
    struct found found = ask(&bench, "function", 0, UINT64_MAX);
    assert_true(found.completeness.skewed);
    top_table_fini(&found.table);
    close_bench(&bench);
}

static void a_late_window_of_a_right_clock_keeps_its_time(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, NULL);
    hello(&bench, 1);
    uint64_t start_ms = (bench.now_ms - 10 * MINUTE) / 10000 * 10000; /* waited ten minutes in a queue */
    assert_int_equal(send_one(&bench, 1, start_ms, "f", 4), FLEETPROF__VERDICT__STORED);
    assert_int_equal(samples_between(&bench, start_ms, start_ms + 10000), 4);
    assert_false(bench.partition->roster.nodes[0]->skewed);
    /* Slightly fast clocks do not reach into the future. */
    assert_int_equal(send_one(&bench, 2, bench.now_ms + MINUTE, "f", 5), FLEETPROF__VERDICT__STORED);
    assert_int_equal(samples_between(&bench, bench.now_ms - 10000, bench.now_ms + 1), 5);
    close_bench(&bench);
}

static void coverage_shows_the_gap_between_two_lives(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, NULL);
    hello(&bench, 1);
    uint64_t start_ms = (bench.now_ms - 5 * MINUTE) / 10000 * 10000;
    for (uint64_t w = 0; w < 3; w++)
        send_one(&bench, w + 1, start_ms + w * 10000, "f", 1);
    hello(&bench, 2); /* was away for 20 s */
    send_one(&bench, 1, start_ms + 50000, "f", 1);
    struct found found = ask(&bench, "function", start_ms, start_ms + 5 * MINUTE);
    assert_int_equal(found.completeness.nodes, 1);
    assert_int_equal(found.completeness.covered_ms, 40000);
    assert_int_equal(found.completeness.expected_ms, 60000);
    assert_int_equal(lost_by(&found.completeness, "ring_full"), 4 * 3);
    top_table_fini(&found.table);
    /* Half a range, half the books. */
    found = ask(&bench, "function", start_ms, start_ms + 20000);
    assert_int_equal(found.completeness.covered_ms, 20000);
    assert_int_equal(lost_by(&found.completeness, "ring_full"), 2 * 3);
    top_table_fini(&found.table);
    close_bench(&bench);
}

/* ---- names ---- */

static void a_pack_names_the_samples_that_were_there_before(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, NULL);
    hello(&bench, 1);
    struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
    uint32_t program = stackset_executable(set, "ABCDEFGH", 8, EXECUTABLE_GNU, stackset_cstring(set, "prog"));
    struct stackset_label label = {stackset_cstring(set, "process"), stackset_cstring(set, "prog")};
    uint32_t series = stackset_series(set, &label, 1);
    for (uint64_t i = 0; i < 3; i++) {
        uint32_t frame = stackset_frame(set, FRAME_NATIVE, program, 0x1000 + i * 0x10, 0);
        stackset_add(set, series, stackset_node(set, STACKSET_ROOT, frame), 100, 1);
    }
    assert_int_equal(send_set(&bench, 1, bench.now_ms - 10000, set), FLEETPROF__VERDICT__STORED);
    struct found found = ask(&bench, "function", 0, UINT64_MAX);
    assert_int_equal(found.table.row_count, 3);
    assert_int_equal(found.completeness.unnamed, 3);
    assert_memory_equal(top_row_key(&found.table, &found.table.rows[0]), "\x0b\0prog+0x1000\x04\0prog", 19);
    top_table_fini(&found.table);

    Fleetprof__Pack pack = FLEETPROF__PACK__INIT;
    uint64_t steps[] = {0x1000, 0x20}, sizes[] = {0x20, 0x10};
    uint32_t name_bytes[] = {10, 0};
    pack.executable = (ProtobufCBinaryData){8, (uint8_t *)(uintptr_t) "ABCDEFGH"};
    pack.parts = 1;
    pack.n_start_step = pack.n_size = pack.n_name_bytes = 2;
    pack.start_step = steps;
    pack.size = sizes;
    pack.name_bytes = name_bytes;
    pack.names = (ProtobufCBinaryData){10, (uint8_t *)(uintptr_t) "_ZN1a1bEiv"};
    assert_int_equal(symbol_packs_add(bench.packs, &pack, bench.now_ms, NULL), 0);
    found = ask(&bench, "function", 0, UINT64_MAX);
    assert_int_equal(found.table.row_count, 2);
    assert_int_equal(found.table.rows[0].count, 2);
    assert_int_equal(found.completeness.unnamed, 1); /* a function without a name: by its start */
    assert_memory_equal(top_row_key(&found.table, &found.table.rows[1]), "\x0b\0prog+0x1020\x04\0prog", 19);
    top_table_fini(&found.table);
    close_bench(&bench);
}

static void the_agent_that_has_the_file_is_asked_once(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, NULL);
    hello(&bench, 1);
    struct executable_id id = {.bytes = 8};
    memcpy(id.data, "ABCDEFGH", 8);
    for (uint64_t w = 0; w < 4; w++) {
        struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
        uint32_t program =
            stackset_executable(set, "ABCDEFGH", 8, EXECUTABLE_GNU, stackset_cstring(set, "prog"));
        struct stackset_label label = {stackset_cstring(set, "process"), stackset_cstring(set, "prog")};
        stackset_add(set, stackset_series(set, &label, 1),
                     stackset_node(set, STACKSET_ROOT, stackset_frame(set, FRAME_NATIVE, program, 0x1000, 0)),
                     1, 1);
        struct buf message = encode(&bench, w + 1, bench.now_ms - 10000, set, NULL, 0);
        Fleetprof__Ack *ack = (Fleetprof__Ack *)say(&bench, &message, WIRE_ACK);
        /* The exchange decides after the first one; the second Ack asks, the third does not. */
        assert_int_equal(ack->n_want_executable, w == 1);
        if (w == 1)
            assert_memory_equal(ack->want_executable[0].data, "ABCDEFGH", 8);
        wire_free(&ack->base);
        buf_fini(&message);
        stackset_free(set);
        if (w == 0)
            symbol_packs_decide(bench.packs, &id, SYMBOL_ASK, UINT64_MAX);
    }
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_repeated_batch_counts_once),
        cmocka_unit_test(batches_without_a_session_are_sent_back),
        cmocka_unit_test(a_new_agent_on_the_node_begins_anew),
        cmocka_unit_test(of_two_agents_with_one_name_the_older_stays),
        cmocka_unit_test(broken_messages_change_nothing),
        cmocka_unit_test(senseless_samples_are_refused),
        cmocka_unit_test(a_kind_twice_in_one_batch_is_refused),
        cmocka_unit_test(a_hello_that_comes_again_changes_nothing),
        cmocka_unit_test(another_life_cannot_take_over_a_session),
        cmocka_unit_test(a_node_on_the_wrong_route_is_refused),
        cmocka_unit_test(windows_of_wrong_clocks_land_where_questions_look),
        cmocka_unit_test(a_late_window_of_a_right_clock_keeps_its_time),
        cmocka_unit_test(coverage_shows_the_gap_between_two_lives),
        cmocka_unit_test(a_pack_names_the_samples_that_were_there_before),
        cmocka_unit_test(the_agent_that_has_the_file_is_asked_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
