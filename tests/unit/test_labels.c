#include "common/labels.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int parse(const char *text, struct label_matchers *matchers, struct err *err)
{
    return labels_parse(text, strlen(text), matchers, err);
}

static void expect(const char *text, size_t count, ...)
{
    struct label_matchers matchers = {.count = 0};
    struct err err = {0};
    assert_int_equal(parse(text, &matchers, &err), 0);
    assert_int_equal(matchers.count, count);
    va_list args;
    va_start(args, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(matchers.items[i].name, va_arg(args, const char *));
        assert_int_equal(matchers.items[i].op, va_arg(args, int));
        assert_string_equal(matchers.items[i].value, va_arg(args, const char *));
    }
    va_end(args);
    labels_fini(&matchers);
    assert_int_equal(matchers.count, 0);
}

static void refuse(const char *text, int code, const char *cause)
{
    struct label_matchers matchers = {.count = 0};
    struct err err = {0};
    assert_int_equal(labels_add(&matchers, "kept", LABEL_REGEX, "x", &err), 0);
    assert_int_equal(parse(text, &matchers, &err), code);
    if (!strstr(err.text, cause))
        fail_msg("\"%s\" does not say \"%s\"", err.text, cause);
    assert_int_equal(matchers.count, 1);
    labels_fini(&matchers);
}

static void reads_prometheus_matchers(void **state)
{
    (void)state;
    expect("", 0);
    expect(" { } ", 0);
    expect("{a=\"b\"}", 1, "a", LABEL_EQUAL, "b");
    expect("{a=\"1\", b!='2' ,c=~\"3|4\",_d9!~\"5.*\",}", 4, "a", LABEL_EQUAL, "1", "b", LABEL_NOT_EQUAL, "2",
           "c", LABEL_REGEX, "3|4", "_d9", LABEL_NOT_REGEX, "5.*");
    expect("a = \"x,}=\"", 1, "a", LABEL_EQUAL, "x,}=");
    expect("a=\"\\\\ \\\" \\' \\n\"", 1, "a", LABEL_EQUAL, "\\ \" ' \n");
    expect("a=\"\"", 1, "a", LABEL_EQUAL, "");
}

static void reads_bare_values(void **state)
{
    (void)state;
    expect("process=nginx,node!=n-1.example", 2, "process", LABEL_EQUAL, "nginx", "node", LABEL_NOT_EQUAL,
           "n-1.example");
    expect("{process=nginx}", 1, "process", LABEL_EQUAL, "nginx");
    expect("process=~ng.* ", 1, "process", LABEL_REGEX, "ng.*");
    expect("process=", 1, "process", LABEL_EQUAL, "");
}

static void says_where_and_why_a_text_is_refused(void **state)
{
    (void)state;
    refuse("9a=b", -EINVAL, "position 1: a label name");
    refuse("a", -EINVAL, "position 2: one of");
    refuse("a=b,c", -EINVAL, "position 6: one of");
    refuse("{a=\"b\"", -EINVAL, "position 7: \",\" or \"}\"");
    refuse("a=\"b", -EINVAL, "position 3: this quote");
    refuse("a=\"\\x\"", -EINVAL, "escapes");
    refuse("a=b c=d", -EINVAL, "position 5: \",\" was expected");
    refuse("{a=b}}", -EINVAL, "position 6: nothing may follow");
    refuse("a=b,,c=d", -EINVAL, "position 5");
    refuse("process==x", -EINVAL, "single =");
    refuse("a=~\"(\"", -EINVAL, "regular expression \"(\"");
    refuse("a=~\"b)|(c\"", -EINVAL, "unmatched"); /* would break out of the anchors */
    struct label_matchers matchers = {.count = 0};
    assert_int_equal(labels_parse("a=b\0", 4, &matchers, NULL), -EINVAL);
    assert_int_equal(labels_add(&matchers, "a b", LABEL_EQUAL, "", NULL), -EINVAL);
    assert_int_equal(labels_add(&matchers, "", LABEL_EQUAL, "", NULL), -EINVAL);
}

static void limits_hold(void **state)
{
    (void)state;
    char *text = calloc(1, LABELS_TEXT_BYTES + 2);
    memset(text, ' ', LABELS_TEXT_BYTES + 1);
    refuse(text, -E2BIG, "8192");
    memcpy(text, "a=~", 3);
    memset(text + 3, 'x', LABELS_REGEX_BYTES + 1);
    text[3 + LABELS_REGEX_BYTES + 1] = '\0';
    refuse(text, -E2BIG, "1024");
    text[0] = '\0';
    for (int i = 0; i < LABELS_MAX_MATCHERS; i++)
        memcpy(text + 4 * i, "a=b,", 5); /* with the one refuse() adds itself: one too many */
    refuse(text, -E2BIG, "32");
    free(text);
}

static void costly_expressions_are_refused(void **state)
{
    (void)state;
    refuse("a=~\"((a{1,255}){1,255}){1,255}\"", -E2BIG, "too large");
    refuse("a=~\"a{99999}\"", -EINVAL, "quantifier");
    refuse("a=~1+++++++++++++++++++++", -EINVAL, "quantifier");
    refuse("a=~\"((((((a|b){99}){99}){99}){99}){99})\"", -E2BIG, "too large");
    expect("a=~\"[0-9a-f]{64}\"", 1, "a", LABEL_REGEX, "[0-9a-f]{64}");
    const char *many = "a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+p+q+r+s+t+(u+|v+)?[]+++++++++++++++++++]";
    char text[128] = "a=~";
    memcpy(text + 3, many, strlen(many));
    expect(text, 1, "a", LABEL_REGEX, many);
}

static bool matches(const char *text, const char *value)
{
    struct label_matchers matchers = {.count = 0};
    assert_int_equal(parse(text, &matchers, NULL), 0);
    bool result = label_match(&matchers.items[0], value);
    labels_fini(&matchers);
    return result;
}

static void expressions_match_the_whole_value(void **state)
{
    (void)state;
    assert_true(matches("a=~\"b|cd\"", "cd"));
    assert_false(matches("a=~\"b|cd\"", "bcd"));
    assert_false(matches("a!~\"b.*\"", "bcd"));
    assert_true(matches("a!~\"b.*\"", "abc"));
    assert_false(matches("a=~\".+\"", ""));
    assert_true(matches("a=~\".*\"", ""));
    /* cheap to compile, endless to match for a backtracker without a limit */
    assert_false(
        matches("a=~\"(x+x+)+(y|zz)\"", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"));
    assert_false(
        matches("a!~\"(x+x+)+(y|zz)\"", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"));
    assert_true(matches("a=\"x\"", "x"));
    assert_true(matches("a!=\"x\"", ""));
    assert_true(matches("a=\"\"", ""));
    assert_true(matches("a=~\".\xff.\"", "x\xff\x01"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_prometheus_matchers),
        cmocka_unit_test(reads_bare_values),
        cmocka_unit_test(says_where_and_why_a_text_is_refused),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(costly_expressions_are_refused),
        cmocka_unit_test(expressions_match_the_whole_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
