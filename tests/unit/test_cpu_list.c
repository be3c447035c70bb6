#include "node-agent/cpu_list.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>

static void reads_numbers_and_ranges(void **state)
{
    (void)state;
    struct cpu_list list;
    assert_int_equal(cpu_list_parse("0-2,64,1023\n", &list, NULL), 0);
    assert_int_equal(cpu_list_count(&list), 5);
    assert_true(cpu_list_has(&list, 0) && cpu_list_has(&list, 2) && cpu_list_has(&list, 64));
    assert_true(cpu_list_has(&list, 1023));
    assert_false(cpu_list_has(&list, 3) || cpu_list_has(&list, 63) || cpu_list_has(&list, 1024));
    assert_int_equal(cpu_list_parse("0-1023", &list, NULL), 0);
    assert_int_equal(cpu_list_count(&list), 1024);
}

static void refuses_what_is_no_list(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "a", "1-", "-1", "3-1", "1,,2", "1,", "1 2", "0-1x", "1\n2"};
    struct cpu_list list;
    struct err err;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(cpu_list_parse(bad[i], &list, &err), -EINVAL);
    assert_int_equal(cpu_list_parse("1024", &list, &err), -E2BIG);
    assert_int_equal(cpu_list_parse("0-99999999999999999999", &list, &err), -E2BIG);
}

static void reads_the_list_of_this_machine(void **state)
{
    (void)state;
    struct cpu_list list;
    assert_int_equal(cpu_list_read("/sys/devices/system/cpu/online", &list, NULL), 0);
    assert_int_equal(cpu_list_count(&list), sysconf(_SC_NPROCESSORS_ONLN));
    assert_int_equal(cpu_list_read("/nowhere", &list, NULL), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_numbers_and_ranges),
        cmocka_unit_test(refuses_what_is_no_list),
        cmocka_unit_test(reads_the_list_of_this_machine),
    };
    return cmocka_run_group_tests_name("cpu_list", tests, NULL, NULL);
}
