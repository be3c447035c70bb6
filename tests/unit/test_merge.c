#include "node-agent/merge.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

struct seen {
    char text[256];
};

static void on_record(unsigned kind, const void *record, size_t bytes, void *ctx)
{
    struct seen *seen = ctx;
    size_t used = strlen(seen->text);
    snprintf(seen->text + used, sizeof(seen->text) - used, "%u:%.*s ", kind, (int)bytes,
             (const char *)record);
}

static void add(struct merge *merge, uint64_t time_ns, unsigned kind, const char *text)
{
    assert_int_equal(merge_add(merge, time_ns, kind, text, strlen(text)), 0);
}

static void hands_out_by_time_then_kind_then_order_of_arrival(void **state)
{
    (void)state;
    struct merge *merge = merge_new();
    struct seen seen = {0};
    merge_set_limit(merge, 1000);
    add(merge, 30, 1, "late");
    add(merge, 20, 1, "sample");
    add(merge, 20, 0, "event-a");
    add(merge, 20, 0, "event-b");
    add(merge, 10, 1, "early");
    merge_deliver(merge, UINT64_MAX, on_record, &seen);
    assert_string_equal(seen.text, "1:early 0:event-a 0:event-b 1:sample 1:late ");
    assert_int_equal(merge_count(merge), 0);
    merge_free(merge);
}

static void keeps_what_is_too_young_and_merges_it_with_what_comes(void **state)
{
    (void)state;
    struct merge *merge = merge_new();
    struct seen seen = {0};
    merge_set_limit(merge, 1000);
    add(merge, 12, 1, "c");
    add(merge, 9, 1, "a");
    add(merge, 13, 1, "d");
    merge_deliver(merge, 10, on_record, &seen);
    assert_string_equal(seen.text, "1:a ");
    assert_int_equal(merge_count(merge), 2);
    add(merge, 11, 0, "b");
    merge_deliver(merge, 12, on_record, &seen);
    assert_string_equal(seen.text, "1:a 0:b 1:c ");
    merge_deliver(merge, 12, on_record, &seen);
    assert_int_equal(merge_count(merge), 1);
    merge_deliver(merge, 13, on_record, &seen);
    assert_string_equal(seen.text, "1:a 0:b 1:c 1:d ");
    merge_free(merge);
}

static void refuses_over_its_limit_and_takes_again_after_delivery(void **state)
{
    (void)state;
    struct merge *merge = merge_new();
    struct seen seen = {0};
    merge_set_limit(merge, 16);
    add(merge, 1, 0, "12345"); /* takes 8: records are aligned */
    assert_int_equal(merge_room(merge), 8);
    assert_int_equal(merge_add(merge, 1, 0, "123456789", 9), -ENOSPC);
    add(merge, 2, 0, "x");
    assert_int_equal(merge_add(merge, 3, 0, "y", 1), -ENOSPC);
    merge_deliver(merge, 1, on_record, &seen);
    assert_int_equal(merge_room(merge), 8);
    merge_free(merge);
}

static void a_burst_does_not_stay_in_memory_nor_harm_what_is_kept(void **state)
{
    (void)state;
    struct merge *merge = merge_new();
    struct seen seen = {0};
    char block[1024] = {0};
    merge_set_limit(merge, 4u << 20);
    add(merge, 9, 1, "kept");
    for (int i = 0; i < 2000; i++)
        assert_int_equal(merge_add(merge, 1, 1, block, sizeof(block)), 0);
    struct seen ignored = {0};
    merge_deliver(merge, 5, on_record, &ignored);
    assert_int_equal(merge_count(merge), 1);
    assert_int_equal(merge_room(merge), (4u << 20) - 8);
    merge_deliver(merge, 9, on_record, &seen);
    assert_string_equal(seen.text, "1:kept ");
    merge_free(merge);
    merge_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hands_out_by_time_then_kind_then_order_of_arrival),
        cmocka_unit_test(keeps_what_is_too_young_and_merges_it_with_what_comes),
        cmocka_unit_test(refuses_over_its_limit_and_takes_again_after_delivery),
        cmocka_unit_test(a_burst_does_not_stay_in_memory_nor_harm_what_is_kept),
    };
    return cmocka_run_group_tests_name("merge", tests, NULL, NULL);
}
