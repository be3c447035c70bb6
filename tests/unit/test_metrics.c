#include "common/metrics.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char *print(void)
{
    struct buf out = buf_init(4u << 20);
    assert_int_equal(metrics_print(&out), 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    size_t bytes;
    return buf_take(&out, &bytes);
}

static void expect(const char *part)
{
    char *page = print();
    if (!strstr(page, part))
        fail_msg("no \"%s\" in:\n%s", part, page);
    free(page);
}

static void a_cell_is_found_again_by_name_and_label(void **state)
{
    (void)state;
    struct metric *one = metrics_counter("test_found_total", "Help.", "cause", "a");
    assert_ptr_equal(metrics_counter("test_found_total", NULL, "cause", "a"), one);
    assert_ptr_not_equal(metrics_counter("test_found_total", NULL, "cause", "b"), one);
    assert_ptr_not_equal(metrics_counter("test_found_total", NULL, NULL, NULL), one);
    metric_add(one, 2);
    metric_add(one, 3);
    assert_int_equal(metric_get(one), 5);
    metric_set(one, 1);
    assert_int_equal(metric_get(one), 1);
}

static void cells_of_a_name_stand_together_under_one_head(void **state)
{
    (void)state;
    metric_add(metrics_counter("test_group_total", "What it counts.", "cause", "first"), 1);
    metric_set(metrics_gauge("test_another_bytes", "Two lines\nand a \\.", NULL, NULL), 12);
    metric_add(metrics_counter("test_group_total", NULL, "cause", "second"), 18446744073709551615u);
    expect("# HELP test_group_total What it counts.\n# TYPE test_group_total counter\n"
           "test_group_total{cause=\"first\"} 1\ntest_group_total{cause=\"second\"} 18446744073709551615\n");
    expect("# HELP test_another_bytes Two lines\\nand a \\\\.\n# TYPE test_another_bytes "
           "gauge\ntest_another_bytes 12\n");
}

static void label_values_are_escaped_and_valid_utf8(void **state)
{
    (void)state;
    metrics_counter("test_escape_total", "x", "v", "a\"b\\c\nd\xc3\xa9");
    expect("test_escape_total{v=\"a\\\"b\\\\c\\nd\xc3\xa9\"} 0\n");
    struct metric *bad = metrics_counter("test_utf8_total", "x", "v", "\xff!");
    assert_ptr_equal(metrics_counter("test_utf8_total", NULL, "v", "\xff!"), bad);
    expect("test_utf8_total{v=\"\\\\xff!\"} 0\n");
}

static void every_page_has_the_process_figures(void **state)
{
    (void)state;
    expect("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total ");
    expect("# TYPE process_open_fds gauge\nprocess_open_fds ");
    expect("# TYPE fleetprof_build_info gauge\nfleetprof_build_info{version=\"");
    char *page = print();
    unsigned long long bytes = 0;
    const char *line = strstr(page, "\nprocess_resident_memory_bytes ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "\nprocess_resident_memory_bytes %llu", &bytes), 1);
    assert_true(bytes > 100000);
    free(page);
}

static void a_page_that_does_not_fit_is_an_error(void **state)
{
    (void)state;
    struct buf out = buf_init(50);
    assert_int_equal(metrics_print(&out), -E2BIG);
    buf_fini(&out);
}

static void *add_many(void *ctx)
{
    (void)ctx;
    for (int i = 0; i < 1000; i++) {
        char value[16];
        snprintf(value, sizeof(value), "%d", i % 10);
        metric_add(metrics_counter("test_threads_total", "x", "n", value), 1);
    }
    free(print());
    return NULL;
}

static void threads_may_register_add_and_print_at_once(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 10; i++) {
        char value[16];
        snprintf(value, sizeof(value), "%d", i);
        assert_int_equal(metric_get(metrics_counter("test_threads_total", NULL, "n", value)), 400);
    }
}

/* Last: it fills the registry. */
static void over_the_limit_there_is_one_shared_cell(void **state)
{
    (void)state;
    struct metric *last = NULL, *cell = NULL;
    for (int i = 0; i <= METRICS_MAX; i++) {
        char value[16];
        snprintf(value, sizeof(value), "%d", i);
        last = cell;
        cell = metrics_counter("test_many_total", "x", "n", value);
    }
    assert_ptr_equal(cell, last);
    metric_add(cell, 7);
    expect("# TYPE metrics_overflow_total counter\nmetrics_overflow_total 7\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_is_found_again_by_name_and_label),
        cmocka_unit_test(cells_of_a_name_stand_together_under_one_head),
        cmocka_unit_test(label_values_are_escaped_and_valid_utf8),
        cmocka_unit_test(every_page_has_the_process_figures),
        cmocka_unit_test(a_page_that_does_not_fit_is_an_error),
        cmocka_unit_test(threads_may_register_add_and_print_at_once),
        cmocka_unit_test(over_the_limit_there_is_one_shared_cell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
