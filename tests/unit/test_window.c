#include "aggregator/window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct drops {
    uint64_t start_ms[64];
    enum window_drop why[64];
    unsigned count;
};

static void on_drop(uint64_t start_ms, enum window_drop why, void *ctx)
{
    struct drops *drops = ctx;
    assert_in_range(drops->count, 0, 63);
    drops->start_ms[drops->count] = start_ms;
    drops->why[drops->count++] = why;
}

static void add(struct windows *windows, uint64_t time_ms, uint32_t series, uint32_t node, uint64_t value,
                uint64_t count)
{
    windows_add_row(windows, windows_bucket(windows, 0, time_ms), series, node, value, count);
}

static void sum(const struct windows *windows, uint64_t *ret_value, uint64_t *ret_count)
{
    *ret_value = *ret_count = 0;
    for (uint32_t b = 0; b < windows->bucket_count; b++) {
        struct window_segment segment;
        for (struct window_cursor c = window_cursor(windows->buckets[b]); window_next(&c, &segment);) {
            for (uint32_t i = 0; i < segment.row_count; i++) {
                *ret_value += segment.value[i];
                *ret_count += segment.count[i];
            }
        }
    }
}

static void rows_come_back_in_order_with_their_series(void **state)
{
    (void)state;
    struct windows windows;
    windows_init(&windows, 1u << 30, 60000, NULL, NULL);
    struct window_bucket *bucket = windows_bucket(&windows, 0, 123456);
    assert_int_equal(bucket->start_ms, 120000);
    uint32_t made = 0;
    for (uint32_t n = 1; n <= WINDOW_SEGMENT_ROWS; n = n * 3 + 1) { /* odd and even sizes, over many chunks */
        for (uint32_t again = 0; again < 5; again++) {
            struct window_segment segment = windows_add(&windows, bucket, made, n);
            for (uint32_t i = 0; i < n; i++) {
                segment.node[i] = made * 7 + i;
                segment.value[i] = i * 3;
                segment.count[i] = (uint16_t)(i + 1);
            }
            made++;
        }
    }
    struct window_segment segment;
    uint32_t seen = 0;
    for (struct window_cursor c = window_cursor(bucket); window_next(&c, &segment); seen++) {
        assert_int_equal(segment.series, seen);
        for (uint32_t i = 0; i < segment.row_count; i++) {
            assert_int_equal(segment.node[i], seen * 7 + i);
            assert_int_equal(segment.value[i], i * 3);
            assert_int_equal(segment.count[i], (uint16_t)(i + 1));
        }
    }
    assert_int_equal(seen, made);
    assert_true(windows.used_bytes < windows.row_count * 11 + 2 * WINDOW_CHUNK_BYTES);
    windows_fini(&windows);
}

static void values_over_a_column_are_split_without_loss(void **state)
{
    (void)state;
    struct windows windows;
    uint64_t value, count;
    windows_init(&windows, 1u << 30, 60000, NULL, NULL);
    add(&windows, 0, 1, 1, 3ULL * UINT32_MAX + 5, 2 * 65535 + 7);
    add(&windows, 0, 1, 1, 0, 0);
    sum(&windows, &value, &count);
    assert_int_equal(value, 3ULL * UINT32_MAX + 5);
    assert_int_equal(count, 2 * 65535 + 7);
    assert_int_equal(windows.row_count, 5);
    windows_fini(&windows);
}

static void buckets_are_sorted_whatever_the_order_of_arrival(void **state)
{
    (void)state;
    struct windows windows;
    windows_init(&windows, 1u << 30, 600000, NULL, NULL);
    const uint64_t times_ms[] = {50000, 10000, 30001, 39999, 20000, 10000, 0};
    for (size_t i = 0; i < sizeof(times_ms) / sizeof(times_ms[0]); i++)
        add(&windows, times_ms[i], 1, 1, 1, 1);
    assert_int_equal(windows.bucket_count, 5);
    for (uint32_t i = 1; i < windows.bucket_count; i++)
        assert_true(windows.buckets[i - 1]->start_ms < windows.buckets[i]->start_ms);
    assert_int_equal(windows_first_in_range(&windows, 0), 0);
    assert_int_equal(windows_first_in_range(&windows, 10001), 1); /* the bucket that 10001 lies in */
    assert_int_equal(windows_first_in_range(&windows, 40000), 4);
    assert_int_equal(windows_first_in_range(&windows, 60000), 5);
    windows_fini(&windows);
}

static void old_buckets_expire_and_say_so(void **state)
{
    (void)state;
    struct windows windows;
    struct drops drops = {0};
    windows_init(&windows, 1u << 30, 60000, on_drop, &drops);
    add(&windows, 100000, 1, 1, 1, 1);
    add(&windows, 110000, 1, 1, 1, 1);
    windows_trim(&windows, 100000 + 10000 + 59999);
    assert_int_equal(drops.count, 0);
    windows_trim(&windows, 100000 + 10000 + 60000);
    assert_int_equal(drops.count, 1);
    assert_int_equal(drops.start_ms[0], 100000);
    assert_int_equal(drops.why[0], WINDOW_DROP_EXPIRED);
    assert_int_equal(windows.bucket_count, 1);
    windows_fini(&windows);
    assert_int_equal(windows.used_bytes, 0);
}

static void over_the_byte_limit_the_oldest_go(void **state)
{
    (void)state;
    struct windows windows;
    struct drops drops = {0};
    windows_init(&windows, 4 * (WINDOW_FIRST_BYTES + 200), 1u << 30, on_drop, &drops);
    for (uint64_t i = 0; i < 10; i++) {
        add(&windows, i * 10000, 1, 1, 1, 1);
        windows_trim(&windows, i * 10000);
        assert_true(windows.used_bytes <= windows.limit_bytes);
    }
    assert_int_equal(windows.bucket_count, 4);
    assert_int_equal(drops.count, 6);
    for (unsigned i = 0; i < drops.count; i++) {
        assert_int_equal(drops.start_ms[i], i * 10000);
        assert_int_equal(drops.why[i], WINDOW_DROP_BYTES);
    }
    add(&windows, 0, 1, 1, 1, 1); /* late for a bucket that is gone: there again, and first to go */
    windows_trim(&windows, 90000);
    assert_int_equal(drops.start_ms[6], 0);
    windows_fini(&windows);
}

/* What is said to be missing must be missing, and all of it. */
static void over_the_byte_limit_all_kinds_of_a_time_go(void **state)
{
    (void)state;
    struct windows windows;
    struct drops drops = {0};
    windows_init(&windows, 4 * (WINDOW_FIRST_BYTES + 200), 1u << 30, on_drop, &drops);
    for (uint64_t i = 0; i < 5; i++) { /* two kinds at each of two times, then one more */
        struct window_bucket *bucket = windows_bucket(&windows, i % 2, i / 2 * 10000);
        windows_add_row(&windows, bucket, 1, 1, 1, 1);
    }
    windows_trim(&windows, 20000);
    assert_int_equal(drops.count, 2);
    assert_int_equal(windows.bucket_count, 3);
    assert_int_equal(windows.buckets[0]->start_ms, 10000);
    windows_fini(&windows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_back_in_order_with_their_series),
        cmocka_unit_test(values_over_a_column_are_split_without_loss),
        cmocka_unit_test(buckets_are_sorted_whatever_the_order_of_arrival),
        cmocka_unit_test(old_buckets_expire_and_say_so),
        cmocka_unit_test(over_the_byte_limit_the_oldest_go),
        cmocka_unit_test(over_the_byte_limit_all_kinds_of_a_time_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
