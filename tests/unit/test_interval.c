/* Right values: Garwood's limits from chi-square tables, recomputed to 30 digits; Wilson's by hand from the
 * formula. */
#include "aggregator/interval.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void assert_near(double got, double want, double tolerance)
{
    if (fabs(got - want) > tolerance)
        fail_msg("got %.12g, want %.12g", got, want);
}

static void poisson_limits_equal_the_tables(void **state)
{
    (void)state;
    static const struct {
        uint64_t count;
        double low, high, tolerance;
    } rows[] = {
        {0, 0, 3.68887945411, 1e-9},
        {1, 0.0253178079843, 5.57164339094, 1e-9},
        {5, 1.62348639012, 11.6683320793, 1e-9},
        {10, 4.79538869613, 18.390356042, 1e-8},
        {100, 81.3639912509, 121.626793792, 1e-7},
        {1000, 938.973018408, 1063.95213602, 1e-6},
        {10000, 9804.95246726, 10197.9516247, 2e-3}, /* Byar's form: within 2e-5 * sqrt(n) */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double low, high;
        interval_poisson(rows[i].count, &low, &high);
        assert_near(low, rows[i].low, rows[i].tolerance);
        assert_near(high, rows[i].high, rows[i].tolerance);
    }
}

static void poisson_has_no_jump_where_the_method_changes(void **state)
{
    (void)state;
    double low_a, high_a, low_b, high_b;
    interval_poisson(INTERVAL_EXACT_COUNT, &low_a, &high_a);
    interval_poisson(INTERVAL_EXACT_COUNT + 1, &low_b, &high_b);
    assert_near(low_b - low_a, 1, 0.05);
    assert_near(high_b - high_a, 1, 0.05);
}

static void poisson_is_monotone_and_holds_the_count(void **state)
{
    (void)state;
    double last_low = -1, last_high = 0;
    for (uint64_t n = 0; n < 2000; n++) {
        double low, high;
        interval_poisson(n, &low, &high);
        assert_true(low > last_low && high > last_high);
        assert_true(low <= (double)n && high > (double)n);
        last_low = low;
        last_high = high;
    }
    double low, high;
    interval_poisson(UINT64_MAX, &low, &high);
    assert_true(isfinite(low) && isfinite(high) && low < high);
}

static void wilson_equals_the_formula(void **state)
{
    (void)state;
    static const struct {
        uint64_t part, whole;
        double low, high;
    } rows[] = {
        {0, 10, 0, 0.277532799863},
        {1, 10, 0.0178762130951, 0.404150026795},
        {5, 10, 0.236593090513, 0.763406909487},
        {10, 10, 0.722467200137, 1},
        {50, 100, 0.403831530366, 0.596168469634},
        {15, 300, 0.0305316406293, 0.0808470334727},
        {3000, 10000, 0.291096512595, 0.309057086754},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double low, high;
        interval_wilson(rows[i].part, rows[i].whole, &low, &high);
        assert_near(low, rows[i].low, 1e-11);
        assert_near(high, rows[i].high, 1e-11);
    }
}

static void wilson_of_nothing_is_everything(void **state)
{
    (void)state;
    double low, high;
    interval_wilson(0, 0, &low, &high);
    assert_true(low == 0 && high == 1);
    interval_wilson(7, 5, &low, &high); /* more than the whole: taken as the whole */
    assert_true(high == 1 && low > 0.5);
}

static void scaled_interval_speaks_the_value_s_unit(void **state)
{
    (void)state;
    uint64_t low, high;
    /* 10 samples of 10 ms each: 4.79538869613 and 18.390356042 samples' worth */
    interval_scale(100000000, 10, &low, &high);
    assert_int_equal(low, 47953887);
    assert_int_equal(high, 183903560);
    interval_scale(0, 0, &low, &high);
    assert_int_equal(low, 0);
    assert_int_equal(high, 0);
    interval_scale(UINT64_MAX, 1, &low, &high);
    assert_true(high == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(poisson_limits_equal_the_tables),
        cmocka_unit_test(poisson_has_no_jump_where_the_method_changes),
        cmocka_unit_test(poisson_is_monotone_and_holds_the_count),
        cmocka_unit_test(wilson_equals_the_formula),
        cmocka_unit_test(wilson_of_nothing_is_everything),
        cmocka_unit_test(scaled_interval_speaks_the_value_s_unit),
    };
    return cmocka_run_group_tests_name("interval", tests, NULL, NULL);
}
