#include "common/str.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char *shown(const void *text, size_t bytes)
{
    static char out[256];
    size_t length = str_printable(out, sizeof(out), text, bytes);
    assert_int_equal(length, strlen(out));
    return out;
}

static void shows_plain_and_non_latin_text_unchanged(void **state)
{
    (void)state;
    assert_string_equal(shown("main.run", 8), "main.run");
    assert_string_equal(shown("\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\xa5", 9),
                        "\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\xa5");
    assert_string_equal(shown("", 0), "");
}

static void escapes_controls_backslash_and_bytes_that_are_not_utf8(void **state)
{
    (void)state;
    assert_string_equal(shown("a\nb\x7f", 4), "a\\x0ab\\x7f");
    assert_string_equal(shown("a\0b", 3), "a\\x00b");
    assert_string_equal(shown("c:\\d", 4), "c:\\\\d");
    assert_string_equal(shown("\xff\xfe", 2), "\\xff\\xfe");
    assert_string_equal(shown("\xc2\x9b", 2), "\\xc2\\x9b"); /* U+009B starts a terminal's control sequence */
    assert_string_equal(shown("\xc0\xaf", 2), "\\xc0\\xaf"); /* overlong */
    assert_string_equal(shown("\xed\xa0\x80", 3), "\\xed\\xa0\\x80");          /* surrogate */
    assert_string_equal(shown("\xf4\x90\x80\x80", 4), "\\xf4\\x90\\x80\\x80"); /* over U+10FFFF */
    assert_string_equal(shown("\xe2\x82", 2), "\\xe2\\x82");                   /* cut short */
}

static void cuts_at_a_character_and_never_inside_an_escape(void **state)
{
    (void)state;
    char out[6];
    assert_int_equal(str_printable(out, sizeof(out), "abc\xe2\x82\xac", 6), 3);
    assert_string_equal(out, "abc");
    assert_int_equal(str_printable(out, sizeof(out), "ab\n", 3), 2);
    assert_string_equal(out, "ab");
    assert_int_equal(str_printable(out, sizeof(out), "abcde", 5), 5);
    assert_int_equal(str_printable(out, sizeof(out), "abcdef", 6), 5);
    out[0] = 'x';
    assert_int_equal(str_printable(out, 0, "a", 1), 0);
    assert_int_equal(out[0], 'x');
    assert_int_equal(str_printable(out, 1, "a", 1), 0);
    assert_string_equal(out, "");
}

static void shows_clean_text_as_it_is_and_twice_like_once(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"C:\\dir", "C:\\dir"}, {"a\xff", "a\\xff"}, {"a\\xff", "a\\xff"}, {"\xff\\", "\\xff\\\\"}, {"", ""}};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char once[32], twice[32];
        size_t bytes = str_shown(once, sizeof(once), texts[i][0], strlen(texts[i][0]));
        assert_string_equal(once, texts[i][1]);
        assert_int_equal(str_shown(twice, sizeof(twice), once, bytes), bytes);
        assert_string_equal(twice, once);
    }
    char small[5];
    assert_int_equal(str_shown(small, sizeof(small), "abcdefg", 7), 4);
}

static void reads_whole_numbers_only(void **state)
{
    (void)state;
    uint64_t value = 7;
    assert_int_equal(str_u64("18446744073709551615", 20, 10, &value), 0);
    assert_true(value == UINT64_MAX);
    assert_int_equal(str_u64("ffFF", 4, 16, &value), 0);
    assert_int_equal(value, 65535);
    assert_int_equal(str_u64("755x", 3, 8, &value), 0);
    assert_int_equal(value, 0755);
    assert_int_equal(str_u64("18446744073709551616", 20, 10, &value), -ERANGE);
    assert_int_equal(str_u64("99999999999999999999x", 21, 10, &value), -EINVAL);
    const char *const bad[] = {"", " 1", "1 ", "-1", "+1", "0x1", "1.0", "a"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(str_u64(bad[i], strlen(bad[i]), 10, &value), -EINVAL);
    assert_int_equal(value, 0755);
}

static void hex_goes_there_and_back(void **state)
{
    (void)state;
    char hex[9];
    str_hex(hex, "\x00\x7f\xab\xff", 4);
    assert_string_equal(hex, "007fabff");
    uint8_t bytes[4];
    assert_int_equal(str_unhex("007FABff", bytes, sizeof(bytes)), 4);
    assert_memory_equal(bytes, "\x00\x7f\xab\xff", 4);
    assert_int_equal(str_unhex("", bytes, sizeof(bytes)), 0);
    assert_int_equal(str_unhex("abc", bytes, sizeof(bytes)), -EINVAL);
    assert_int_equal(str_unhex("0g", bytes, sizeof(bytes)), -EINVAL);
    assert_int_equal(str_unhex("0011223344", bytes, sizeof(bytes)), -EINVAL);
}

static void knows_prefixes_and_last_path_components(void **state)
{
    (void)state;
    assert_true(str_starts("tcp://host", "tcp://"));
    assert_true(str_starts("x", ""));
    assert_false(str_starts("tc", "tcp"));
    assert_string_equal(str_basename("/usr/bin/env"), "env");
    assert_string_equal(str_basename("env"), "env");
    assert_string_equal(str_basename("dir/"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_plain_and_non_latin_text_unchanged),
        cmocka_unit_test(escapes_controls_backslash_and_bytes_that_are_not_utf8),
        cmocka_unit_test(cuts_at_a_character_and_never_inside_an_escape),
        cmocka_unit_test(shows_clean_text_as_it_is_and_twice_like_once),
        cmocka_unit_test(reads_whole_numbers_only),
        cmocka_unit_test(hex_goes_there_and_back),
        cmocka_unit_test(knows_prefixes_and_last_path_components),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
