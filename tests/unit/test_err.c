#include "common/err.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void set_says_what_and_why(void **state)
{
    (void)state;
    struct err err;
    assert_int_equal(err_set(&err, -ENOENT, "open %s", "/x"), -ENOENT);
    assert_int_equal(err.code, -ENOENT);
    assert_string_equal(err.text, "open /x: No such file or directory");
    assert_int_equal(err_set(&err, 0, "fine"), 0);
    assert_string_equal(err.text, "fine");
}

static void say_leaves_the_errno_text_out(void **state)
{
    (void)state;
    struct err err;
    assert_int_equal(err_say(&err, -EPROTO, "column %d", 3), -EPROTO);
    assert_string_equal(err.text, "column 3");
}

static void wrap_puts_context_in_front(void **state)
{
    (void)state;
    struct err err;
    err_set(&err, -EACCES, "read");
    assert_int_equal(err_wrap(&err, "file %d", 1), -EACCES);
    assert_string_equal(err.text, "file 1: read: Permission denied");
}

static void nobody_need_ask_for_the_text(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, -EIO, "x"), -EIO);
    assert_int_equal(err_say(NULL, -EIO, "x"), -EIO);
    assert_int_equal(err_wrap(NULL, "x"), 0);
}

static void long_texts_are_cut_and_terminated(void **state)
{
    (void)state;
    char longer[2 * ERR_TEXT_BYTES];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    struct err err;
    err_set(&err, -EIO, "%s", longer);
    assert_int_equal(strlen(err.text), ERR_TEXT_BYTES - 1);
    err_wrap(&err, "context");
    assert_int_equal(strlen(err.text), ERR_TEXT_BYTES - 1);
    assert_memory_equal(err.text, "context: xxx", 12);
    err_wrap(&err, "%s", longer);
    assert_int_equal(strlen(err.text), ERR_TEXT_BYTES - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_says_what_and_why),
        cmocka_unit_test(say_leaves_the_errno_text_out),
        cmocka_unit_test(wrap_puts_context_in_front),
        cmocka_unit_test(nobody_need_ask_for_the_text),
        cmocka_unit_test(long_texts_are_cut_and_terminated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
