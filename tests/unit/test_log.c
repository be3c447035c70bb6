#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char caught[4096];

/* Runs emit with standard error led into a file, whose content lands in caught. */
static void catch_stderr(void (*emit)(void))
{
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    assert_non_null(file);
    assert_true(saved >= 0);
    dup2(fileno(file), STDERR_FILENO);
    emit();
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    caught[fread(caught, 1, sizeof(caught) - 1, file)] = '\0';
    fclose(file);
}

static void emit_all(void)
{
    log_error("e%d", 1);
    log_warn("w");
    log_info("i");
    log_debug("d");
}

static void lines_up_to_the_level_name_level_and_program(void **state)
{
    (void)state;
    log_init("tester", LOG_LEVEL_INFO);
    catch_stderr(emit_all);
    assert_string_equal(caught, "error tester: e1\nwarn tester: w\ninfo tester: i\n");
    log_init("tester", LOG_LEVEL_ERROR);
    catch_stderr(emit_all);
    assert_string_equal(caught, "error tester: e1\n");
    log_init("tester", LOG_LEVEL_DEBUG);
    assert_int_equal(log_level_get(), LOG_LEVEL_DEBUG);
    catch_stderr(emit_all);
    assert_non_null(strstr(caught, "debug tester: d\n"));
}

/* Else the first socket of a program started with 2>&- would be its standard error. */
static void closed_standard_files_become_dev_null(void **state)
{
    (void)state;
    int saved[3], target[3], writes;
    for (int fd = 0; fd < 3; fd++) {
        saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        close(fd);
    }
    log_init("tester", LOG_LEVEL_INFO);
    log_info("to nobody");
    int next = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    struct stat null_stat, stat[3];
    for (int fd = 0; fd < 3; fd++)
        target[fd] = fstat(fd, &stat[fd]);
    writes = fcntl(2, F_GETFL) & O_ACCMODE;
    for (int fd = 0; fd < 3; fd++) {
        dup2(saved[fd], fd);
        close(saved[fd]);
    }
    assert_true(next > 2);
    close(next);
    assert_int_equal(lstat("/dev/null", &null_stat), 0);
    for (int fd = 0; fd < 3; fd++) {
        assert_int_equal(target[fd], 0);
        assert_int_equal(stat[fd].st_rdev, null_stat.st_rdev);
    }
    assert_int_equal(writes, O_WRONLY);
}

static void emit_hostile(void)
{
    log_error("%s", "a\nerror tester: forged\x1b[2J");
}

static void emit_long(void)
{
    char longer[3000];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    log_error("%s", longer);
}

static void a_line_stays_one_line_whatever_is_in_it(void **state)
{
    (void)state;
    catch_stderr(emit_hostile);
    assert_string_equal(caught, "error tester: a error tester: forged [2J\n");
    catch_stderr(emit_long);
    assert_int_equal(strlen(caught), 1023);
    assert_int_equal(caught[1022], '\n');
}

static void levels_are_known_by_name(void **state)
{
    (void)state;
    enum log_level level = LOG_LEVEL_ERROR;
    assert_int_equal(log_level_parse("warn", &level), 0);
    assert_int_equal(level, LOG_LEVEL_WARN);
    assert_int_equal(log_level_parse("WARN", &level), -EINVAL);
    assert_int_equal(log_level_parse("", &level), -EINVAL);
    assert_int_equal(level, LOG_LEVEL_WARN);
}

static void a_limit_lets_one_pass_and_counts_the_others(void **state)
{
    (void)state;
    struct log_limit limit = {0};
    uint64_t held = 99;
    assert_true(log_limit_pass(&limit, &held));
    assert_int_equal(held, 0);
    assert_false(log_limit_pass(&limit, &held));
    assert_false(log_limit_pass(&limit, NULL));
    limit.next_ns = 0; /* as if the time were over */
    assert_true(log_limit_pass(&limit, &held));
    assert_int_equal(held, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_standard_files_become_dev_null),
        cmocka_unit_test(lines_up_to_the_level_name_level_and_program),
        cmocka_unit_test(a_line_stays_one_line_whatever_is_in_it),
        cmocka_unit_test(levels_are_known_by_name),
        cmocka_unit_test(a_limit_lets_one_pass_and_counts_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
