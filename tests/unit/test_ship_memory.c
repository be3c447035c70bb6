#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "node-agent/ship_memory.h"

#include <string.h>

static uint64_t start_ms[SHIP_ACKED_MAX], sample_count[SHIP_ACKED_MAX], shard_epoch[SHIP_ACKED_MAX];

static void acked_windows_come_back_oldest_first(void **state)
{
    (void)state;
    struct ship_acked_list list = {0};
    assert_int_equal(ship_acked_columns(&list, 1000, start_ms, sample_count, shard_epoch), 0);
    ship_acked_add(&list, (struct ship_acked){10000, 5, 77});
    ship_acked_add(&list, (struct ship_acked){20000, 6, 78});
    assert_int_equal(ship_acked_columns(&list, 30000, start_ms, sample_count, shard_epoch), 2);
    assert_int_equal(start_ms[0], 10000);
    assert_int_equal(sample_count[0], 5);
    assert_int_equal(shard_epoch[0], 77);
    assert_int_equal(start_ms[1], 20000);
    assert_int_equal(sample_count[1], 6);
    assert_int_equal(shard_epoch[1], 78);
}

static void only_the_last_360_are_kept(void **state)
{
    (void)state;
    struct ship_acked_list list = {0};
    for (uint64_t i = 0; i < 1000; i++)
        ship_acked_add(&list, (struct ship_acked){i, i, 1});
    assert_int_equal(ship_acked_columns(&list, 1000, start_ms, sample_count, shard_epoch), 360);
    assert_int_equal(start_ms[0], 640);
    assert_int_equal(start_ms[359], 999);
}

static void windows_older_than_an_hour_are_left_out(void **state)
{
    (void)state;
    struct ship_acked_list list = {0};
    ship_acked_add(&list, (struct ship_acked){1000000, 1, 1});
    ship_acked_add(&list, (struct ship_acked){1000001, 2, 1});
    assert_int_equal(ship_acked_columns(&list, 1000001 + 3600 * 1000, start_ms, sample_count, shard_epoch),
                     1);
    assert_int_equal(sample_count[0], 2);
}

static void want_counts_once_in_its_time(void **state)
{
    (void)state;
    static struct ship_wants wants;
    memset(&wants, 0, sizeof(wants));
    assert_true(ship_wants_first(&wants, "abcdefgh", 8, 1000, 30000));
    assert_false(ship_wants_first(&wants, "abcdefgh", 8, 1001, 30000));
    assert_true(ship_wants_first(&wants, "abcdefgi", 8, 1001, 30000));
    assert_true(ship_wants_first(&wants, "abcdefg", 7, 1001, 30000));
    assert_false(ship_wants_first(&wants, "abcdefgh", 8, 30999, 30000));
    assert_true(ship_wants_first(&wants, "abcdefgh", 8, 31000, 30000));
    assert_false(ship_wants_first(&wants, "abcdefgh", 8, 31001, 30000));
}

static void ids_of_impossible_length_are_ignored(void **state)
{
    (void)state;
    static struct ship_wants wants;
    memset(&wants, 0, sizeof(wants));
    char id[EXECUTABLE_ID_BYTES + 1] = {1};
    assert_false(ship_wants_first(&wants, id, 0, 1, 1));
    assert_false(ship_wants_first(&wants, id, sizeof(id), 1, 1));
    assert_true(ship_wants_first(&wants, id, EXECUTABLE_ID_BYTES, 1, 1));
}

static void many_wants_forget_the_oldest(void **state)
{
    (void)state;
    static struct ship_wants wants;
    memset(&wants, 0, sizeof(wants));
    for (uint32_t i = 0; i < SHIP_WANTS_MAX + 1; i++)
        assert_true(ship_wants_first(&wants, &i, sizeof(i), 5, 30000));
    uint32_t last = SHIP_WANTS_MAX, first = 0;
    assert_false(ship_wants_first(&wants, &last, sizeof(last), 6, 30000));
    assert_true(ship_wants_first(&wants, &first, sizeof(first), 6, 30000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acked_windows_come_back_oldest_first),
        cmocka_unit_test(only_the_last_360_are_kept),
        cmocka_unit_test(windows_older_than_an_hour_are_left_out),
        cmocka_unit_test(want_counts_once_in_its_time),
        cmocka_unit_test(ids_of_impossible_length_are_ignored),
        cmocka_unit_test(many_wants_forget_the_oldest),
    };
    return cmocka_run_group_tests_name("ship_memory", tests, NULL, NULL);
}
