#include "common/buf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void bytes_and_text_are_appended(void **state)
{
    (void)state;
    struct buf buf = buf_init(1000);
    assert_int_equal(buf_append(&buf, "ab\0", 3), 0);
    assert_int_equal(buf_append(&buf, NULL, 0), 0);
    assert_int_equal(buf_printf(&buf, "%d-%s", 42, "x"), 0);
    assert_int_equal(buf.used_bytes, 7);
    assert_memory_equal(buf.data,
                        "ab\0"
                        "42-x",
                        7);
    buf_fini(&buf);
    assert_null(buf.data);
    assert_int_equal(buf.limit_bytes, 1000);
}

static void past_the_limit_nothing_changes(void **state)
{
    (void)state;
    struct buf buf = buf_init(10);
    assert_int_equal(buf_append(&buf, "123456789", 9), 0);
    assert_int_equal(buf_append(&buf, "ab", 2), -E2BIG);
    assert_int_equal(buf_printf(&buf, "%s", "ab"), -E2BIG);
    assert_null(buf_reserve(&buf, SIZE_MAX));
    assert_int_equal(buf.used_bytes, 9);
    assert_memory_equal(buf.data, "123456789", 9);
    assert_int_equal(buf_append(&buf, "0", 1), 0);
    buf_fini(&buf);
}

static void it_grows_over_many_appends(void **state)
{
    (void)state;
    struct buf buf = buf_init(1u << 20);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(buf_printf(&buf, "%04d", i), 0);
    assert_int_equal(buf.used_bytes, 40000);
    assert_memory_equal(buf.data + 39996, "9999", 4);
    buf_clear(&buf);
    assert_int_equal(buf.used_bytes, 0);
    buf_fini(&buf);
}

static void reserved_bytes_are_the_callers_to_fill(void **state)
{
    (void)state;
    struct buf buf = buf_init(100);
    memcpy(buf_reserve(&buf, 100), "abc", 3);
    buf.used_bytes += 3;
    size_t bytes;
    char *data = buf_take(&buf, &bytes);
    assert_int_equal(bytes, 3);
    assert_memory_equal(data, "abc", 3);
    assert_null(buf.data);
    assert_int_equal(buf_append(&buf, "again", 5), 0);
    free(data);
    buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_and_text_are_appended),
        cmocka_unit_test(past_the_limit_nothing_changes),
        cmocka_unit_test(it_grows_over_many_appends),
        cmocka_unit_test(reserved_bytes_are_the_callers_to_fill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
