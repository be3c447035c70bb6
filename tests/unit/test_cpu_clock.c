#include "node-agent/cpu_clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#define STEP 0x9e3779b97f4a7c15ULL /* golden ratio: even cover of the range */

static void the_mean_rate_is_the_nominal_one_in_spite_of_restarts(void **state)
{
    (void)state;
    static const unsigned rates[] = {19, 49, 99, 199, 499, 997};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        uint64_t restart_ns = 200000000, fires = 0, random = 12345;
        for (int poll = 0; poll < 10000; poll++) {
            /* Restarts come at uneven times, as polls do. */
            uint64_t length_ns = restart_ns * 3 / 4 + (uint64_t)poll * 7919 % 1000 * restart_ns / 2000;
            fires += length_ns / cpu_clock_draw_period_ns(rates[i], restart_ns, random += STEP);
        }
        double wanted = 10000 * 0.2 * rates[i];
        assert_true((double)fires > wanted * 0.98 && (double)fires < wanted * 1.02);
    }
}

static void periods_spread_over_the_whole_range(void **state)
{
    (void)state;
    /* 100 Hz, 200 ms: 10 ms * ln 3 * 20 / 20.5 = 10.718 ms, times 0.5 and 1.5. */
    assert_int_equal(cpu_clock_draw_period_ns(100, 200000000, 0) / 1000, 5359);
    assert_int_equal(cpu_clock_draw_period_ns(100, 200000000, UINT64_MAX) / 1000, 16077);
}

static void the_carry_is_the_time_since_the_last_point_of_the_grid(void **state)
{
    (void)state;
    assert_int_equal(cpu_clock_carry_ns(1000, 100, 1250), 50);
    assert_int_equal(cpu_clock_carry_ns(1000, 100, 1099), 99);
    assert_int_equal(cpu_clock_carry_ns(1000, 100, 1000), 0);
    assert_int_equal(cpu_clock_carry_ns(1000, 0, 1250), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_rate_is_the_nominal_one_in_spite_of_restarts),
        cmocka_unit_test(periods_spread_over_the_whole_range),
        cmocka_unit_test(the_carry_is_the_time_since_the_last_point_of_the_grid),
    };
    return cmocka_run_group_tests_name("cpu_clock", tests, NULL, NULL);
}
