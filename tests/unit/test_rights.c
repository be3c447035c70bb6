#include "common/err.h"
#include "node-agent/rights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#define BIT(name) (1ULL << (name))
#define ALL_NAMED                                                                                            \
    (BIT(CAP_BPF) | BIT(CAP_PERFMON) | BIT(CAP_SYS_PTRACE) | BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_SYSLOG) |    \
     BIT(CAP_CHECKPOINT_RESTORE))

struct seen {
    unsigned count;
    char last[200];
};

static void on_gap(const char *text, void *ctx)
{
    struct seen *seen = ctx;
    seen->count++;
    snprintf(seen->last, sizeof(seen->last), "%s", text);
}

static struct seen gaps_of(struct rights rights)
{
    struct seen seen = {0};
    rights_gaps(&rights, on_gap, &seen);
    return seen;
}

static void the_six_named_are_enough(void **state)
{
    (void)state;
    struct rights rights = {.capabilities = ALL_NAMED};
    assert_int_equal(rights_check(&rights, NULL), 0);
    assert_int_equal(gaps_of(rights).count, 0);
}

static void without_bpf_or_perfmon_it_is_refused_by_name(void **state)
{
    (void)state;
    struct err err = {0};
    struct rights rights = {.capabilities = ALL_NAMED & ~BIT(CAP_BPF)};
    assert_int_equal(rights_check(&rights, &err), -EPERM);
    assert_non_null(strstr(err.text, "CAP_BPF is missing"));
    rights.capabilities = ALL_NAMED & ~BIT(CAP_PERFMON);
    assert_int_equal(rights_check(&rights, &err), -EPERM);
    assert_non_null(strstr(err.text, "CAP_PERFMON is missing"));
}

static void sys_admin_stands_for_those_split_off_from_it(void **state)
{
    (void)state;
    struct rights rights = {.capabilities = BIT(CAP_SYS_ADMIN) | BIT(CAP_SYS_PTRACE) |
                                            BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_SYSLOG)};
    assert_int_equal(rights_check(&rights, NULL), 0);
    assert_int_equal(gaps_of(rights).count, 0);
    rights.capabilities = BIT(CAP_SYS_ADMIN) | BIT(CAP_SYS_PTRACE) | BIT(CAP_DAC_READ_SEARCH);
    assert_int_equal(gaps_of(rights).count, 1); /* SYSLOG was never part of it for addresses */
}

static void each_lesser_one_that_is_missing_is_told_once_by_name(void **state)
{
    (void)state;
    static const struct {
        unsigned number;
        const char *name;
    } LESSER[] = {{CAP_SYS_PTRACE, "CAP_SYS_PTRACE"},
                  {CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"},
                  {CAP_SYSLOG, "CAP_SYSLOG"},
                  {CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE"}};
    for (size_t i = 0; i < sizeof(LESSER) / sizeof(LESSER[0]); i++) {
        struct rights rights = {.capabilities = ALL_NAMED & ~BIT(LESSER[i].number)};
        struct seen seen = gaps_of(rights);
        assert_int_equal(rights_check(&rights, NULL), 0);
        assert_int_equal(seen.count, 1);
        assert_non_null(strstr(seen.last, LESSER[i].name));
    }
}

static void other_pid_and_time_namespaces_are_refused(void **state)
{
    (void)state;
    struct err err = {0};
    struct rights rights = {.capabilities = ALL_NAMED, .own_pid_namespace = true};
    assert_int_equal(rights_check(&rights, &err), -EINVAL);
    assert_non_null(strstr(err.text, "hostPID: true"));
    rights = (struct rights){.capabilities = ALL_NAMED, .foreign_proc = true};
    assert_int_equal(rights_check(&rights, &err), -EINVAL);
    rights = (struct rights){.capabilities = ALL_NAMED, .own_time_namespace = true};
    assert_int_equal(rights_check(&rights, &err), -EINVAL);
    assert_non_null(strstr(err.text, "time namespace"));
}

static void a_private_cgroup_namespace_is_told(void **state)
{
    (void)state;
    struct rights rights = {.capabilities = ALL_NAMED, .own_cgroup_namespace = true};
    assert_int_equal(rights_check(&rights, NULL), 0);
    struct seen seen = gaps_of(rights);
    assert_int_equal(seen.count, 1);
    assert_non_null(strstr(seen.last, "cgroup namespace"));
}

static void no_text_is_cut_by_the_error_buffer(void **state)
{
    (void)state;
    struct err err = {0};
    struct rights rights = {.capabilities = ALL_NAMED, .own_pid_namespace = true};
    rights_check(&rights, &err);
    assert_int_equal(err.text[strlen(err.text) - 1], ')');
    rights = (struct rights){.capabilities = BIT(CAP_BPF)};
    rights_check(&rights, &err);
    assert_int_equal(err.text[strlen(err.text) - 1], ')');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_six_named_are_enough),
        cmocka_unit_test(without_bpf_or_perfmon_it_is_refused_by_name),
        cmocka_unit_test(sys_admin_stands_for_those_split_off_from_it),
        cmocka_unit_test(each_lesser_one_that_is_missing_is_told_once_by_name),
        cmocka_unit_test(other_pid_and_time_namespaces_are_refused),
        cmocka_unit_test(a_private_cgroup_namespace_is_told),
        cmocka_unit_test(no_text_is_cut_by_the_error_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
