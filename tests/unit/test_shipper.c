#include "tests/unit/shipper_fixture.c"

#include "common/hashring.h"
#include "node-agent/pack_sender.h"

/* ---- the straight way ---- */

static void every_window_arrives_once_in_order(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    open_shipper(f, PLENTY_BYTES, 0);
    put_windows(f, 50);
    RUN_UNTIL(f, all_settled(f));
    assert_all_stored_once(f);
    assert_true(shipper_ledger(f->shipper).connected);
    assert_int_equal(shipper_ledger(f->shipper).resent_batches, 0);
    SCRIPT(f, {
        assert_int_equal(f->shard.hello_count, 1);
        assert_int_equal(f->shard.last_gauge, 4711);
    });
    tear_down(f);
}

static void agent_says_hello_before_it_has_anything_to_send(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    open_shipper(f, PLENTY_BYTES, 0);
    RUN_UNTIL(f, shipper_ledger(f->shipper).connected);
    SCRIPT(f, {
        assert_int_equal(f->shard.next_sequence, 1);
        assert_int_equal(f->shard.acked_window_count, 0);
    });
    tear_down(f);
}

static void agent_may_start_before_any_shard(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    scripted_shard_stop(&f->shard);
    open_shipper(f, PLENTY_BYTES, SHORT_MS);
    put_windows(f, 5);
    run_for(f, 800);
    assert_false(shipper_ledger(f->shipper).connected);
    assert_int_equal(shipper_ledger(f->shipper).waiting_samples, f->samples_put);
    assert_int_equal(scripted_shard_start(&f->shard), 0);
    RUN_UNTIL(f, all_settled(f));
    assert_all_stored_once(f);
    tear_down(f);
}

static void node_belongs_to_the_shard_that_the_ring_says(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    struct fixture *other = set_up();
    const char *shards[] = {f->shard.address, other->shard.address};
    size_t mine = hashring_pick("node-7", 6, shards, 2);
    struct fixture *picked = mine == 0 ? f : other, *left = mine == 0 ? other : f;
    const struct shipper_settings settings = {
        .node = "node-7", .shards = shards, .shard_count = 2, .queue_bytes = 1 << 20};
    assert_int_equal(shipper_open(&picked->loop, &settings, NULL, NULL, NULL, &picked->shipper, NULL), 0);
    put_windows(picked, 3);
    RUN_UNTIL(picked, all_settled(picked));
    assert_int_equal(picked->shard.stored_count, 3);
    assert_int_equal(left->shard.hello_count, 0);
    tear_down(picked);
    tear_down(left);
}

static void bad_settings_are_named(void **state)
{
    (void)state;
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    static char long_name[SHIPPER_NODE_BYTES + 2];
    memset(long_name, 'n', sizeof(long_name) - 1);
    const char *good[] = {"tcp://127.0.0.1:1"}, *empty[] = {""}, *web[] = {"http://127.0.0.1:1"};
    const struct {
        struct shipper_settings settings;
        const char *text;
    } bad[] = {
        {{.node = "", .shards = good, .shard_count = 1}, "node"},
        {{.node = NULL, .shards = good, .shard_count = 1}, "node"},
        {{.node = long_name, .shards = good, .shard_count = 1}, "253"},
        {{.node = "n", .shards = good, .shard_count = 0}, "no shard"},
        {{.node = "n", .shards = empty, .shard_count = 1}, "empty"},
        {{.node = "n", .shards = web, .shard_count = 1}, "http://127.0.0.1:1"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct shipper *shipper = NULL;
        struct err err = {0};
        assert_int_equal(shipper_open(&loop, &bad[i].settings, NULL, NULL, NULL, &shipper, &err), -EINVAL);
        assert_null(shipper);
        assert_non_null(strstr(err.text, bad[i].text));
    }
    shipper_close(NULL);
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* ---- limits ---- */

static void queue_stays_bounded_while_no_batch_is_answered(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    f->shard.silent = true;
    open_shipper(f, PLENTY_BYTES, SHORT_MS);
    put_windows(f, 1);
    RUN_UNTIL(f, shipper_ledger(f->shipper).waiting_bytes > 0);
    uint64_t one_bytes = shipper_ledger(f->shipper).waiting_bytes;
    tear_down(f);

    f = set_up();
    f->shard.silent = true;
    open_shipper(f, 5 * one_bytes, SHORT_MS);
    for (int i = 0; i < 100; i++) {
        put_windows(f, 1);
        run_for(f, 10);
        assert_true(shipper_ledger(f->shipper).waiting_bytes <= 7 * one_bytes);
    }
    assert_ledger_balances(f);
    assert_true(shipper_ledger(f->shipper).lost_samples >= 90 * 210);
    SCRIPT(f, f->shard.silent = false);
    RUN_UNTIL(f, all_settled(f));
    assert_ledger_balances(f);
    uint64_t lost_samples = shipper_ledger(f->shipper).lost_samples;
    SCRIPT(f, {
        assert_int_equal(f->shard.samples + lost_samples, f->samples_put);
        assert_int_equal(f->shard.lost_queue_full, lost_samples);
        assert_int_equal(f->shard.lost_ring_full, 3 * f->windows_put);
        assert_int_equal(f->shard.taken, f->taken_put);
    });
    put_windows(f, 1); /* fresh again at once */
    RUN_UNTIL(f, all_settled(f));
    tear_down(f);
}

static void windows_put_faster_than_the_loop_runs_are_in_the_books(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    open_shipper(f, PLENTY_BYTES, 0);
    for (int i = 0; i < 100; i++) /* the inbox takes 64 */
        put_window(f);
    RUN_UNTIL(f, shipper_ledger(f->shipper).put_samples == f->samples_put &&
                     shipper_ledger(f->shipper).waiting_samples == 0);
    put_windows(f, 1);
    RUN_UNTIL(f, all_settled(f));
    assert_ledger_balances(f);
    assert_int_equal(shipper_ledger(f->shipper).lost_samples, 36 * 210);
    SCRIPT(f, {
        assert_int_equal(f->shard.samples, 65 * 210);
        assert_int_equal(f->shard.lost_queue_full, 36 * 210);
        assert_int_equal(f->shard.taken, f->taken_put);
    });
    tear_down(f);
}

/* ---- packs ---- */

static void on_pack_done(int rc, void *ctx)
{
    struct fixture *f = ctx;
    f->pack_done_count++;
    f->last_pack_rc = rc;
}

static void send_pack(struct fixture *f, size_t name_bytes)
{
    Fleetprof__Pack pack = FLEETPROF__PACK__INIT;
    char *name = xcalloc(1, name_bytes + 1);
    uint32_t random = 1;
    for (size_t i = 0; i < name_bytes; i++) { /* does not compress to nothing */
        random = random * 1664525 + 1013904223;
        name[i] = (char)('a' + (random >> 24) % 26);
    }
    pack.name = name;
    struct buf out = buf_init(LINK_MESSAGE_BYTES);
    assert_int_equal(wire_pack(&pack.base, WIRE_PACK, 0, &out, NULL), 0);
    shipper_send_pack(f->shipper, out.data, out.used_bytes, on_pack_done, f);
    buf_fini(&out);
    free(name);
}

static void executable_is_wanted_once_however_often_the_shard_says_so(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    f->shard.wants = true;
    open_shipper(f, PLENTY_BYTES, 0);
    put_windows(f, 10);
    RUN_UNTIL(f, all_settled(f));
    assert_int_equal(f->want_count, 1);
    tear_down(f);
}

static void packs_go_two_at_a_time_and_report_what_became_of_them(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    f->shard.hold_packs = true;
    open_shipper(f, PLENTY_BYTES, 0);
    for (int i = 0; i < 5; i++) /* before the shard is there */
        send_pack(f, 100);
    RUN_UNTIL(f, f->shard.held_pack_count == 2);
    put_windows(f, 2); /* packs do not hold up windows */
    RUN_UNTIL(f, all_settled(f));
    run_for(f, 50);
    SCRIPT(f, assert_int_equal(f->shard.pack_count, 2));
    assert_int_equal(f->pack_done_count, 0);
    scripted_shard_release_packs(&f->shard);
    RUN_UNTIL(f, f->pack_done_count == 5);
    assert_int_equal(f->last_pack_rc, 0);
    SCRIPT(f, f->shard.pack_verdict = FLEETPROF__VERDICT__REFUSED);
    send_pack(f, 100);
    RUN_UNTIL(f, f->pack_done_count == 6);
    assert_int_equal(f->last_pack_rc, -EPERM);
    SCRIPT(f, f->shard.pack_verdict = FLEETPROF__VERDICT__RETRY);
    send_pack(f, 100);
    RUN_UNTIL(f, f->pack_done_count == 7);
    assert_int_equal(f->last_pack_rc, -EAGAIN);
    tear_down(f);
}

static void waiting_packs_are_bounded_and_end_with_the_shipper(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    scripted_shard_stop(&f->shard);
    open_shipper(f, PLENTY_BYTES, 0);
    for (unsigned i = 0; i < SHIPPER_PACKS_COUNT; i++)
        send_pack(f, 10);
    assert_int_equal(f->pack_done_count, 0);
    send_pack(f, 10);
    assert_int_equal(f->pack_done_count, 1);
    assert_int_equal(f->last_pack_rc, -EAGAIN);
    char *big = xcalloc(1, LINK_MESSAGE_BYTES + 1);
    shipper_send_pack(f->shipper, big, LINK_MESSAGE_BYTES + 1, on_pack_done, f);
    free(big);
    assert_int_equal(f->last_pack_rc, -EMSGSIZE);
    shipper_close(f->shipper);
    f->shipper = NULL;
    assert_int_equal(f->pack_done_count, SHIPPER_PACKS_COUNT + 2);
    assert_int_equal(f->last_pack_rc, -ECANCELED);
    tear_down(f);

    f = set_up();
    scripted_shard_stop(&f->shard);
    open_shipper(f, PLENTY_BYTES, 0);
    for (int i = 0; i < 12 && f->pack_done_count == 0; i++)
        send_pack(f, 3u << 20);
    assert_int_equal(f->pack_done_count, 1);
    assert_int_equal(f->last_pack_rc, -EAGAIN);
    tear_down(f);
}

/* ---- the end ---- */

static void on_flushed(void *ctx)
{
    struct fixture *f = ctx;
    f->flushed_count++;
    if (f->close_when_flushed) {
        shipper_close(f->shipper);
        f->shipper = NULL;
    }
}

static void flush_ends_when_the_last_window_is_stored(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    open_shipper(f, PLENTY_BYTES, 0);
    for (int i = 0; i < 5; i++)
        put_window(f); /* still on their way to the loop */
    f->close_when_flushed = true;
    shipper_flush(f->shipper, LIMIT_S * 1000, on_flushed, f);
    assert_int_equal(f->flushed_count, 0);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(f->flushed_count, 1);
    SCRIPT(f, assert_int_equal(f->shard.samples, f->samples_put));
    tear_down(f);
}

static void flush_of_nothing_ends_at_once_but_later(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    scripted_shard_stop(&f->shard);
    open_shipper(f, PLENTY_BYTES, 0);
    run_for(f, 20);
    uint64_t before_ns = clock_mono_ns();
    shipper_flush(f->shipper, 30000, on_flushed, f);
    assert_int_equal(f->flushed_count, 0);
    RUN_UNTIL(f, f->flushed_count == 1);
    assert_true(clock_mono_ns() - before_ns < 10 * CLOCK_NS_PER_S);
    tear_down(f);
}

static void flush_with_a_dead_peer_ends_within_its_bound(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    scripted_shard_stop(&f->shard);
    open_shipper(f, PLENTY_BYTES, 0);
    put_windows(f, 2);
    uint64_t before_ns = clock_mono_ns();
    shipper_flush(f->shipper, 500, on_flushed, f);
    RUN_UNTIL(f, f->flushed_count == 1);
    assert_in_range((clock_mono_ns() - before_ns) / CLOCK_NS_PER_MS, 490, 20000);
    assert_int_equal(shipper_ledger(f->shipper).waiting_samples, f->samples_put);
    tear_down(f);
}

static void flush_does_not_sit_out_a_long_back_off(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    f->shard.retry_count = 1;
    f->shard.retry_after_ms = 50000;
    open_shipper(f, PLENTY_BYTES, 0);
    put_windows(f, 1);
    RUN_UNTIL(f, f->shard.retry_count == 0);
    run_for(f, 50);
    shipper_flush(f->shipper, 30000, on_flushed, f);
    RUN_UNTIL(f, f->flushed_count == 1);
    assert_all_stored_once(f);
    tear_down(f);
}

static void closing_with_a_batch_under_way_is_clean(void **state)
{
    (void)state;
    for (int round = 0; round < 5; round++) {
        struct fixture *f = set_up();
        f->shard.silent = true;
        open_shipper(f, PLENTY_BYTES, 0);
        put_windows(f, 3);
        if (round % 2)
            RUN_UNTIL(f, f->shard.held_count == 1);
        put_window(f); /* and one in the inbox */
        tear_down(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_window_arrives_once_in_order),
        cmocka_unit_test(agent_says_hello_before_it_has_anything_to_send),
        cmocka_unit_test(agent_may_start_before_any_shard),
        cmocka_unit_test(node_belongs_to_the_shard_that_the_ring_says),
        cmocka_unit_test(bad_settings_are_named),
        cmocka_unit_test(queue_stays_bounded_while_no_batch_is_answered),
        cmocka_unit_test(windows_put_faster_than_the_loop_runs_are_in_the_books),
        cmocka_unit_test(executable_is_wanted_once_however_often_the_shard_says_so),
        cmocka_unit_test(packs_go_two_at_a_time_and_report_what_became_of_them),
        cmocka_unit_test(waiting_packs_are_bounded_and_end_with_the_shipper),
        cmocka_unit_test(flush_ends_when_the_last_window_is_stored),
        cmocka_unit_test(flush_of_nothing_ends_at_once_but_later),
        cmocka_unit_test(flush_with_a_dead_peer_ends_within_its_bound),
        cmocka_unit_test(flush_does_not_sit_out_a_long_back_off),
        cmocka_unit_test(closing_with_a_batch_under_way_is_clean),
    };
    return cmocka_run_group_tests_name("shipper", tests, NULL, NULL);
}
