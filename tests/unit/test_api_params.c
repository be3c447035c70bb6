#include "aggregator/api_params.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define NOW_MS 1769860800000ULL /* 2026-01-31T12:00:00Z, by date(1) */

static void points_in_time_are_read_in_every_form(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ms;
    } rows[] = {
        {"now", NOW_MS},
        {"now-5m", NOW_MS - 300000},
        {"now-1h30m", NOW_MS - 5400000},
        {"0", 0},
        {"1769860800", NOW_MS},
        {"1769860800000", NOW_MS},
        {"1769860800.25", NOW_MS + 250},
        {"99999999999", 99999999999000},
        {"100000000000", 100000000000},
        {"1970-01-01T00:00:00Z", 0},
        {"2026-01-31T12:00:00Z", NOW_MS},
        {"2026-01-31t12:00:00.123456789z", NOW_MS + 123},
        {"2026-01-31T14:00:00+02:00", NOW_MS},
        {"2026-01-31T14:00:00 02:00", NOW_MS}, /* '+' became a blank in the query string */
        {"2026-01-31T06:30:00-05:30", NOW_MS},
        {"2024-02-29T00:00:00Z", 1709164800000},
        {"2000-03-01T00:00:00Z", 951868800000},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t ms = 1;
        if (api_params_time(rows[i].text, NOW_MS, &ms) < 0 || ms != rows[i].ms)
            fail_msg("%s: got %llu", rows[i].text, (unsigned long long)ms);
    }
}

static void what_is_no_time_is_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {"",
                                       "yesterday",
                                       "now+5m",
                                       "now-",
                                       "now5m",
                                       "now-5x",
                                       "now-99999999d",
                                       "-5",
                                       "1.",
                                       "1..2",
                                       "1769860800000.5",
                                       "18446744073709551616",
                                       "9999999999999999",
                                       "2026-01-31",
                                       "2026-01-31T12:00:00",
                                       "2026-13-01T00:00:00Z",
                                       "2026-02-29T00:00:00Z",
                                       "2026-01-31T24:00:00Z",
                                       "2026-01-31T12:60:00Z",
                                       "2026-01-31T12:00:00Zx",
                                       "2026-01-31T12:00:00+2:00",
                                       "2026-01-31T12:00:00.Z",
                                       "1969-12-31T23:59:59Z",
                                       "0000-00-00T00:00:00Z",
                                       "2026-1-31T12:00:00Z"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t ms = 77;
        if (api_params_time(rows[i], NOW_MS, &ms) != -EINVAL || ms != 77)
            fail_msg("\"%s\" was taken: %llu", rows[i], (unsigned long long)ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_in_time_are_read_in_every_form),
        cmocka_unit_test(what_is_no_time_is_refused),
    };
    return cmocka_run_group_tests_name("api_params", tests, NULL, NULL);
}
