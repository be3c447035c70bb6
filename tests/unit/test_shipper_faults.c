/* What the shipper does when the shard dies, answers late, refuses, puts off or lies. */
#include "tests/unit/shipper_fixture.c"

/* ---- lost and late answers ---- */

static void shard_killed_again_and_again_has_every_window_once(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    open_shipper(f, PLENTY_BYTES, 2000);
    for (unsigned life = 0; life < 12; life++) {
        put_windows(f, 4);
        if (life % 3 == 0) /* dies between storing and answering */
            SCRIPT(f, f->shard.swallow_count = 1);
        unsigned want = f->windows_put - (life % 4);
        RUN_UNTIL(f, f->shard.stored_count >= want || f->shard.held_count > 0);
        scripted_shard_stop(&f->shard);
        SCRIPT(f, f->shard.swallow_count = 0);
        put_windows(f, 1);
        assert_int_equal(scripted_shard_start(&f->shard), 0);
    }
    RUN_UNTIL(f, all_settled(f));
    assert_all_stored_once(f);
    tear_down(f);
}

static void window_whose_ack_was_lost_is_not_sent_again(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    f->shard.swallow_count = 2;
    open_shipper(f, PLENTY_BYTES, SHORT_MS);
    put_windows(f, 6);
    RUN_UNTIL(f, all_settled(f));
    assert_all_stored_once(f);
    assert_int_equal(shipper_ledger(f->shipper).resent_batches, 0);
    SCRIPT(f, {
        assert_int_equal(f->shard.batch_count, 6);
        assert_int_equal(f->shard.hello_count, 3);
    });
    tear_down(f);
}

static void window_sent_again_after_a_late_ack_is_counted_once(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    f->shard.swallow_count = 2;
    f->shard.forgetful = true;
    open_shipper(f, PLENTY_BYTES, SHORT_MS);
    put_windows(f, 6);
    RUN_UNTIL(f, all_settled(f));
    assert_all_stored_once(f);
    assert_int_equal(shipper_ledger(f->shipper).resent_batches, 2);
    SCRIPT(f, assert_int_equal(f->shard.duplicate_count, 2));
    tear_down(f);
}

static void hello_tells_a_new_shard_life_what_was_acknowledged(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    open_shipper(f, PLENTY_BYTES, SHORT_MS);
    put_windows(f, 4);
    RUN_UNTIL(f, all_settled(f));
    scripted_shard_stop(&f->shard);
    assert_int_equal(scripted_shard_start(&f->shard), 0);
    put_windows(f, 1);
    RUN_UNTIL(f, all_settled(f));
    SCRIPT(f, {
        assert_int_equal(f->shard.acked_window_count, 4);
        assert_int_equal(f->shard.acked_samples, 4 * 210);
        assert_int_equal(f->shard.acked_shard_epoch, 1);
        assert_int_equal(f->shard.next_sequence, 5);
    });
    assert_all_stored_once(f);
    tear_down(f);
}

/* ---- a shard that refuses, puts off, lies ---- */

static void refused_windows_are_counted_and_later_ones_go_on(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    f->shard.refuse_from = 7;
    f->shard.refuse_to = 9;
    open_shipper(f, PLENTY_BYTES, 0);
    put_windows(f, 12);
    RUN_UNTIL(f, all_settled(f));
    struct shipper_ledger ledger = shipper_ledger(f->shipper);
    assert_int_equal(ledger.refused_batches, 2);
    assert_int_equal(ledger.acked_batches, 10);
    assert_int_equal(ledger.lost_samples, 2 * 210);
    assert_ledger_balances(f);
    SCRIPT(f, {
        assert_int_equal(f->shard.samples, 10 * 210);
        assert_int_equal(f->shard.lost_refused, 2 * 210);
        assert_int_equal(f->shard.lost_ring_full, 12 * 3);
        assert_int_equal(f->shard.taken, f->taken_put);
    });
    tear_down(f);
}

static void retry_keeps_the_window_and_the_time_asked_for(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    f->shard.retry_count = 2;
    f->shard.retry_after_ms = 400;
    open_shipper(f, PLENTY_BYTES, 0);
    uint64_t before_ns = clock_mono_ns();
    put_windows(f, 3);
    RUN_UNTIL(f, all_settled(f));
    assert_true(clock_mono_ns() - before_ns >= 790 * CLOCK_NS_PER_MS);
    assert_all_stored_once(f);
    assert_int_equal(shipper_ledger(f->shipper).resent_batches, 2);
    tear_down(f);
}

static void unknown_session_is_opened_again_at_once(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    f->shard.no_session_count = 1;
    open_shipper(f, PLENTY_BYTES, 0);
    put_windows(f, 3);
    RUN_UNTIL(f, all_settled(f));
    assert_all_stored_once(f);
    SCRIPT(f, assert_int_equal(f->shard.hello_count, 2));
    tear_down(f);
}

static void shard_that_never_knows_the_session_does_not_make_the_agent_spin(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    f->shard.no_session_count = 1000000;
    open_shipper(f, PLENTY_BYTES, 0);
    put_windows(f, 3);
    run_for(f, 1500);
    /* at once, once more, then after 100, 200, 400 ms at the least ... */
    SCRIPT(f, assert_in_range(f->shard.batch_count, 2, 7));
    SCRIPT(f, f->shard.no_session_count = 0);
    RUN_UNTIL(f, all_settled(f));
    assert_all_stored_once(f);
    tear_down(f);
}

static void lies_and_garbage_do_not_lose_or_double_a_window(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    f->shard.hello_garbage_count = 1;
    f->shard.hello_refuse_count = 1;
    f->shard.garbage_count = 1;
    f->shard.mismatch_count = 1;
    open_shipper(f, PLENTY_BYTES, 0);
    put_windows(f, 2);
    RUN_UNTIL(f, all_settled(f));
    assert_all_stored_once(f);
    tear_down(f);
}

static void boast_settles_nothing_that_was_never_sent(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    f->shard.boastful = true;
    open_shipper(f, PLENTY_BYTES, 0);
    put_windows(f, 5);
    RUN_UNTIL(f, all_settled(f));
    assert_all_stored_once(f);
    tear_down(f);
}

static void unreadable_window_is_tried_twice_then_counted(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    f->shard.unreadable_count = 3; /* the first window twice, the second once */
    open_shipper(f, PLENTY_BYTES, 0);
    put_windows(f, 4);
    RUN_UNTIL(f, all_settled(f));
    assert_int_equal(shipper_ledger(f->shipper).refused_batches, 1);
    assert_int_equal(shipper_ledger(f->shipper).lost_samples, 210);
    SCRIPT(f, {
        assert_int_equal(f->shard.samples, 3 * 210);
        assert_int_equal(f->shard.lost_refused, 210);
        assert_int_equal(f->shard.taken, f->taken_put);
    });
    tear_down(f);
}

/* Runs the loop with standard error in a file; the caller frees the text. */
static char *log_of(struct fixture *f, uint64_t ms)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    fflush(stderr);
    int old = dup(STDERR_FILENO);
    assert_true(old >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    run_for(f, ms);
    assert_true(dup2(old, STDERR_FILENO) >= 0);
    close(old);
    char *text = xcalloc(1, 65536);
    rewind(file);
    text[fread(text, 1, 65535, file)] = '\0';
    fclose(file);
    return text;
}

static void shard_of_another_version_is_named_and_windows_wait(void **state)
{
    (void)state;
    struct fixture *f = set_up();
    f->shard.other_version = WIRE_VERSION + 1;
    open_shipper(f, PLENTY_BYTES, 0);
    put_windows(f, 3);
    char *text = log_of(f, 1000);
    assert_non_null(strstr(text, f->shard.address));
    assert_non_null(strstr(text, "wire version 2 and this agent version 1"));
    assert_non_null(strstr(text, "3 windows"));
    free(text);
    assert_false(shipper_ledger(f->shipper).connected);
    assert_int_equal(shipper_ledger(f->shipper).waiting_samples, f->samples_put);
    SCRIPT(f, {
        assert_in_range(f->shard.hello_count, 2, 6);
        f->shard.other_version = 0; /* upgraded */
    });
    RUN_UNTIL(f, all_settled(f));
    assert_all_stored_once(f);
    /* And a shard that is replaced by another version in the middle of a session costs no window either. */
    SCRIPT(f, f->shard.other_version = WIRE_VERSION + 1);
    put_windows(f, 2);
    run_for(f, 700);
    SCRIPT(f, f->shard.other_version = 0);
    RUN_UNTIL(f, all_settled(f));
    assert_all_stored_once(f);
    tear_down(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shard_killed_again_and_again_has_every_window_once),
        cmocka_unit_test(window_whose_ack_was_lost_is_not_sent_again),
        cmocka_unit_test(window_sent_again_after_a_late_ack_is_counted_once),
        cmocka_unit_test(hello_tells_a_new_shard_life_what_was_acknowledged),
        cmocka_unit_test(refused_windows_are_counted_and_later_ones_go_on),
        cmocka_unit_test(retry_keeps_the_window_and_the_time_asked_for),
        cmocka_unit_test(unknown_session_is_opened_again_at_once),
        cmocka_unit_test(shard_that_never_knows_the_session_does_not_make_the_agent_spin),
        cmocka_unit_test(lies_and_garbage_do_not_lose_or_double_a_window),
        cmocka_unit_test(boast_settles_nothing_that_was_never_sent),
        cmocka_unit_test(unreadable_window_is_tried_twice_then_counted),
        cmocka_unit_test(shard_of_another_version_is_named_and_windows_wait),
    };
    return cmocka_run_group_tests_name("shipper_faults", tests, NULL, NULL);
}
