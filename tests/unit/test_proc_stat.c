#include "node-agent/proc_stat.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define NUMBERS " 1 2 3 4 5 2129984 7 8 9 10 11 12 13 14 15 16 17 18 987654321 20\n"

static int parse(const char *text, struct proc_stat *stat)
{
    return proc_stat_parse(text, strlen(text), stat);
}

static void reads_name_state_flags_and_start(void **state)
{
    (void)state;
    struct proc_stat stat;
    assert_int_equal(parse("17 (kworker/u8:1-events) I" NUMBERS, &stat), 0);
    assert_string_equal(stat.comm, "kworker/u8:1-events");
    assert_int_equal(stat.comm_bytes, 19);
    assert_int_equal(stat.state, 'I');
    assert_int_equal(stat.flags, 2129984);
    assert_int_equal(stat.start_ticks, 987654321);
}

static void the_name_may_hold_anything(void **state)
{
    (void)state;
    struct proc_stat stat;
    assert_int_equal(parse("17 (a) S 1 (\n) b) R" NUMBERS, &stat), 0);
    assert_string_equal(stat.comm, "a) S 1 (\n) b");
    assert_int_equal(stat.state, 'R');
    assert_int_equal(parse("17 () R" NUMBERS, &stat), 0);
    assert_int_equal(stat.comm_bytes, 0);
}

static void refuses_a_text_that_is_cut(void **state)
{
    (void)state;
    struct proc_stat stat;
    assert_int_equal(parse("", &stat), -EINVAL);
    assert_int_equal(parse("17 (name", &stat), -EINVAL);
    assert_int_equal(parse("17 )name(", &stat), -EINVAL);
    assert_int_equal(parse("17 (name) R 1 2 3", &stat), -EINVAL);
    assert_int_equal(parse("17 (name) R 1 2 3 4 5 x 7 8 9 10 11 12 13 14 15 16 17 18 19", &stat), -EINVAL);
    assert_int_equal(parse("17 (name)  R" NUMBERS, &stat), -EINVAL);
}

static void our_own_start_lies_in_the_past(void **state)
{
    (void)state;
    struct proc_stat stat;
    struct timespec now;
    assert_int_equal(proc_stat_read(getpid(), &stat), 0);
    clock_gettime(CLOCK_BOOTTIME, &now);
    uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    assert_true(stat.start_ticks * PROC_STAT_TICK_NS <= now_ns);
    assert_true(now_ns - stat.start_ticks * PROC_STAT_TICK_NS < 600ULL * 1000000000);
    assert_memory_equal(stat.comm, "test_proc_stat", 14);
    assert_int_equal(proc_stat_read(0x7ffffff0, &stat), -ESRCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_name_state_flags_and_start),
        cmocka_unit_test(the_name_may_hold_anything),
        cmocka_unit_test(refuses_a_text_that_is_cut),
        cmocka_unit_test(our_own_start_lies_in_the_past),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
