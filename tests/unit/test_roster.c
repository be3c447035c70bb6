#include "aggregator/roster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void nodes_are_found_by_name_also_after_others_left(void **state)
{
    (void)state;
    struct roster roster;
    roster_init(&roster, 100);
    char name[16];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        assert_int_equal(roster_add(&roster, name, 1), i);
        assert_int_equal(roster_add(&roster, name, 2), i);
    }
    assert_int_equal(roster_add(&roster, "one too many", 1), ROSTER_NONE);
    assert_int_equal(roster_add(&roster, "", 1), ROSTER_NONE);
    assert_int_equal(roster_remove(&roster, roster_find(&roster, "n10")), 99); /* n99 moves there */
    assert_int_equal(roster_find(&roster, "n10"), ROSTER_NONE);
    assert_int_equal(roster_find(&roster, "n99"), 10);
    assert_int_equal(roster_remove(&roster, 98), ROSTER_NONE); /* the last one */
    for (int i = 0; i < 98; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        assert_int_equal(roster_find(&roster, name) == ROSTER_NONE, i == 10);
    }
    roster_fini(&roster);
}

static void causes_over_the_limit_are_other(void **state)
{
    (void)state;
    struct roster roster;
    roster_init(&roster, 1);
    assert_int_equal(roster_cause(&roster, "shard_restart"), ROSTER_SHARD_RESTART);
    assert_int_equal(roster_cause(&roster, "expired"), ROSTER_EXPIRED);
    uint32_t ring_full = roster_cause(&roster, "ring_full");
    assert_int_equal(roster_cause(&roster, "ring_full"), ring_full);
    char name[200];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "cause%d", i);
        roster_cause(&roster, name);
    }
    assert_int_equal(roster_cause(&roster, "never seen"), ROSTER_OTHER);
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(roster_cause(&roster, name), ROSTER_OTHER);
    roster_fini(&roster);
}

static struct roster_node *node_of(struct roster *roster, const char *name)
{
    uint32_t at = roster_add(roster, name, 1);
    assert_int_not_equal(at, ROSTER_NONE);
    return roster->nodes[at];
}

static struct roster_window window_at(uint64_t start_ms, uint32_t cause, uint64_t samples)
{
    return (struct roster_window){
        .start_ms = start_ms, .window_ms = 10000, .cause = cause, .samples = samples};
}

static void the_ledger_is_in_time_order_and_bounded(void **state)
{
    (void)state;
    struct roster roster;
    roster_init(&roster, 1);
    struct roster_node *node = node_of(&roster, "n");
    for (uint64_t i = 0; i < 2 * ROSTER_LEDGER; i++) {
        uint64_t start_ms = (i ^ 1) * 10000; /* neighbours swapped */
        struct roster_window window = window_at(start_ms, ROSTER_STORED, 1);
        roster_note_window(&roster, node, &window, false);
    }
    assert_int_equal(node->ledger_count, ROSTER_LEDGER);
    for (uint32_t i = 1; i < node->ledger_count; i++)
        assert_true(node->ledger[i - 1].start_ms < node->ledger[i].start_ms);
    assert_int_equal(node->ledger[ROSTER_LEDGER - 1].start_ms, (2 * ROSTER_LEDGER - 1) * 10000ULL);
    roster_fini(&roster);
}

/* Windows may be a second long: the books must reach as far back as with long ones. */
static void short_windows_that_follow_each_other_share_an_entry(void **state)
{
    (void)state;
    struct roster roster;
    roster_init(&roster, 1);
    struct roster_node *node = node_of(&roster, "n");
    for (uint64_t second = 0; second < 1800; second++) {
        struct roster_window window = window_at(second * 1000, ROSTER_STORED, 2);
        window.window_ms = 1000;
        if (second % 10 != 5) /* a gap in each bucket */
            roster_note_window(&roster, node, &window, false);
        roster_note_loss(&roster, node, second * 1000, ROSTER_OTHER, 1);
        roster_note_loss(&roster, node, second * 1000, ROSTER_OWN_CAUSES, 3);
    }
    assert_int_equal(node->ledger_count, 360);
    assert_int_equal(node->ledger[0].window_ms, 5000);
    assert_int_equal(node->ledger[0].samples, 10);
    assert_int_equal(node->ledger[1].start_ms, 6000);
    assert_int_equal(node->ledger[1].window_ms, 4000);
    assert_int_equal(node->ledger[1].samples, 8);
    assert_int_equal(node->loss_count, 360);
    assert_int_equal(node->losses[1].count, 30);
    struct roster_window gone = window_at(3000, ROSTER_SHARD_RESTART, 9);
    roster_note_window(&roster, node, &gone, true); /* we have it */
    assert_int_equal(node->ledger_count, 360);
    gone.start_ms = 5000;
    roster_note_window(&roster, node, &gone, true);
    assert_int_equal(node->ledger_count, 361);
    roster_fini(&roster);
}

static void what_is_told_again_is_noted_once(void **state)
{
    (void)state;
    struct roster roster;
    roster_init(&roster, 1);
    struct roster_node *node = node_of(&roster, "n");
    struct roster_window gone = window_at(10000, ROSTER_SHARD_RESTART, 9),
                         stored = window_at(20000, ROSTER_STORED, 5);
    roster_note_window(&roster, node, &gone, true);
    roster_note_window(&roster, node, &gone, true);
    roster_note_window(&roster, node, &stored, false);
    roster_note_window(&roster, node, &stored, false); /* two lives of an agent in one bucket: added */
    gone.start_ms = 20000;
    roster_note_window(&roster, node, &gone, true); /* we have it */
    assert_int_equal(node->ledger_count, 2);
    assert_int_equal(node->ledger[0].samples, 9);
    assert_int_equal(node->ledger[1].samples, 10);
    assert_int_equal(node->ledger[1].cause, ROSTER_STORED);
    roster_fini(&roster);
}

static void a_dropped_bucket_is_marked_in_every_ledger(void **state)
{
    (void)state;
    struct roster roster;
    roster_init(&roster, 2);
    for (int n = 0; n < 2; n++) {
        struct roster_node *node = node_of(&roster, n ? "a" : "b");
        for (uint64_t start_ms = 5000; start_ms < 50000; start_ms += 10000) {
            struct roster_window window = window_at(start_ms, ROSTER_STORED, 3);
            roster_note_window(&roster, node, &window, false);
        }
    }
    assert_int_equal(roster_drop_bucket(&roster, 10000, 10000, ROSTER_WINDOW_BYTES), 6);
    assert_int_equal(roster_drop_bucket(&roster, 10000, 10000, ROSTER_EXPIRED), 0);
    assert_int_equal(roster.nodes[1]->ledger[0].cause, ROSTER_STORED);
    assert_int_equal(roster.nodes[1]->ledger[1].cause, ROSTER_WINDOW_BYTES);
    assert_int_equal(roster.nodes[1]->ledger[2].cause, ROSTER_STORED);
    roster_forget(&roster, 25000);
    assert_int_equal(roster.nodes[0]->ledger_count, 3);
    roster_fini(&roster);
}

static void losses_are_bounded_and_forgotten_with_time(void **state)
{
    (void)state;
    struct roster roster;
    roster_init(&roster, 1);
    struct roster_node *node = node_of(&roster, "n");
    for (uint64_t i = 0; i < 6 * ROSTER_LEDGER; i++)
        roster_note_loss(&roster, node, i * 10000, ROSTER_OTHER, 1);
    assert_in_range(node->loss_count, ROSTER_LEDGER, 2 * ROSTER_LEDGER);
    assert_int_equal(node->losses[node->loss_count - 1].start_ms, (6 * ROSTER_LEDGER - 1) * 10000ULL);
    assert_int_equal(node->lost[ROSTER_OTHER], 6 * ROSTER_LEDGER); /* the total forgets nothing */
    roster_forget(&roster, UINT64_MAX);
    assert_int_equal(node->loss_count, 0);
    roster_fini(&roster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_found_by_name_also_after_others_left),
        cmocka_unit_test(causes_over_the_limit_are_other),
        cmocka_unit_test(the_ledger_is_in_time_order_and_bounded),
        cmocka_unit_test(short_windows_that_follow_each_other_share_an_entry),
        cmocka_unit_test(what_is_told_again_is_noted_once),
        cmocka_unit_test(a_dropped_bucket_is_marked_in_every_ledger),
        cmocka_unit_test(losses_are_bounded_and_forgotten_with_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
