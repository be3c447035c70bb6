#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/backoff.h"

static void delays_double_from_the_least_to_the_most(void **state)
{
    (void)state;
    struct backoff backoff;
    backoff_init(&backoff, 200, 10000, 7);
    const uint64_t step_ms[] = {200, 400, 800, 1600, 3200, 6400, 10000, 10000, 10000};
    for (size_t i = 0; i < sizeof(step_ms) / sizeof(step_ms[0]); i++) {
        uint64_t delay_ms = backoff_next_ms(&backoff);
        assert_in_range(delay_ms, step_ms[i] / 2, step_ms[i]);
    }
}

static void reset_starts_again_from_the_least(void **state)
{
    (void)state;
    struct backoff backoff;
    backoff_init(&backoff, 100, 10000, 7);
    for (int i = 0; i < 10; i++)
        backoff_next_ms(&backoff);
    backoff_reset(&backoff);
    assert_in_range(backoff_next_ms(&backoff), 50, 100);
    assert_in_range(backoff_next_ms(&backoff), 100, 200);
}

static void jitter_spreads_over_the_upper_half(void **state)
{
    (void)state;
    struct backoff backoff;
    backoff_init(&backoff, 1000, 1000, 7);
    unsigned quarter_count[4] = {0};
    for (int i = 0; i < 4000; i++) {
        uint64_t delay_ms = backoff_next_ms(&backoff);
        assert_in_range(delay_ms, 500, 1000);
        quarter_count[delay_ms == 1000 ? 3 : (delay_ms - 500) / 125]++;
    }
    for (int i = 0; i < 4; i++) /* 1000 each expected, standard deviation 27 */
        assert_in_range(quarter_count[i], 850, 1150);
}

static void two_clients_with_kernel_seeds_differ(void **state)
{
    (void)state;
    struct backoff a, b;
    backoff_init(&a, 1 << 20, 1 << 30, 0);
    backoff_init(&b, 1 << 20, 1 << 30, 0);
    int equal = 0;
    for (int i = 0; i < 8; i++)
        equal += backoff_next_ms(&a) == backoff_next_ms(&b);
    assert_in_range(equal, 0, 7);
}

static void odd_settings_give_a_usable_delay(void **state)
{
    (void)state;
    struct backoff backoff;
    backoff_init(&backoff, 0, 0, 7);
    for (int i = 0; i < 5; i++)
        assert_int_equal(backoff_next_ms(&backoff), 1);
    backoff_init(&backoff, 500, 100, 7); /* most below least: the least counts */
    assert_in_range(backoff_next_ms(&backoff), 250, 500);
    assert_in_range(backoff_next_ms(&backoff), 250, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delays_double_from_the_least_to_the_most),
        cmocka_unit_test(reset_starts_again_from_the_least),
        cmocka_unit_test(jitter_spreads_over_the_upper_half),
        cmocka_unit_test(two_clients_with_kernel_seeds_differ),
        cmocka_unit_test(odd_settings_give_a_usable_delay),
    };
    return cmocka_run_group_tests_name("backoff", tests, NULL, NULL);
}
