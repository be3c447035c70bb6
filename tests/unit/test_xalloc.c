#include "common/xalloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void blocks_of_no_size_are_blocks(void **state)
{
    (void)state;
    void *a = xmalloc(0), *b = xcalloc(0, 8), *c = xrealloc_array(NULL, 0, 8);
    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    free(a);
    free(b);
    free(c);
}

static void cleared_and_grown_arrays_hold_what_they_should(void **state)
{
    (void)state;
    uint32_t *array = xcalloc(4, sizeof(*array));
    assert_int_equal(array[3], 0);
    array[3] = 7;
    array = xrealloc_array(array, 1000, sizeof(*array));
    assert_int_equal(array[3], 7);
    free(array);
}

static void copies_of_text_end_in_a_nul(void **state)
{
    (void)state;
    char *a = xstrdup("abc"), *b = xmemdup_text("abcdef", 2), *c = xmemdup_text(NULL, 0);
    assert_string_equal(a, "abc");
    assert_string_equal(b, "ab");
    assert_string_equal(c, "");
    free(a);
    free(b);
    free(c);
}

/* A size that overflows must end the process, not come back small. */
static void a_size_that_overflows_ends_the_process(void **state)
{
    (void)state;
    volatile size_t count = SIZE_MAX / 4;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(STDERR_FILENO);
        free(xrealloc_array(NULL, count, 16));
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_of_no_size_are_blocks),
        cmocka_unit_test(cleared_and_grown_arrays_hold_what_they_should),
        cmocka_unit_test(copies_of_text_end_in_a_nul),
        cmocka_unit_test(a_size_that_overflows_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
