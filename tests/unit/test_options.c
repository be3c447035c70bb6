#include "common/options.c"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

struct settings {
    char *name;
    uint64_t hz, room_bytes, window_ms, watch_ms;
    bool loud, kernel;
};

static const struct option_def DEFS[] = {
    {.name = "name",
     .type = OPTION_STRING,
     .offset = offsetof(struct settings, name),
     .letter = 'l',
     .help = "a name"},
    {.name = "hz",
     .type = OPTION_UINT,
     .offset = offsetof(struct settings, hz),
     .fallback = "99",
     .min = 1,
     .max = 1000,
     .argument = "HZ",
     .letter = 'n',
     .help = "samples per second"},
    {.name = "room",
     .type = OPTION_BYTES,
     .offset = offsetof(struct settings, room_bytes),
     .fallback = "64M",
     .help = "r"},
    {.name = "window",
     .type = OPTION_DURATION,
     .offset = offsetof(struct settings, window_ms),
     .fallback = "10s",
     .min = 1000,
     .max = 60000,
     .help = "w"},
    {.name = "watch",
     .type = OPTION_DURATION,
     .offset = offsetof(struct settings, watch_ms),
     .implied = "2s",
     .argument = "TIME",
     .help = "x"},
    {.name = "loud",
     .type = OPTION_BOOL,
     .offset = offsetof(struct settings, loud),
     .letter = 'v',
     .help = "y"},
    {.name = "kernel",
     .type = OPTION_BOOL,
     .offset = offsetof(struct settings, kernel),
     .fallback = "true",
     .letter = 'k',
     .help = "z"},
    {0},
};
static const struct options_program PROGRAM = {
    .name = "prog", .summary = "Does things.", .usage = "[OPTION]...", .defs = DEFS};

static int read_args(struct settings *settings, struct err *err, const char *const *args, char **rest,
                     size_t *rest_count)
{
    char *argv[16] = {(char *)(uintptr_t) "prog"};
    int argc = 1;
    while (args[argc - 1]) {
        argv[argc] = (char *)(uintptr_t)args[argc - 1];
        argc++;
    }
    memset(settings, 0xee, sizeof(*settings)); /* options_read must not lean on what was there */
    return options_read(&PROGRAM, argc, argv, settings, rest, rest_count, err);
}

#define ARGS(...)                                                                                            \
    (const char *const[])                                                                                    \
    {                                                                                                        \
        __VA_ARGS__, NULL                                                                                    \
    }

static void expect_error(const char *const *args, const char *text)
{
    struct settings settings;
    struct err err = {0};
    assert_true(read_args(&settings, &err, args, NULL, NULL) < 0);
    if (strcmp(err.text, text) != 0)
        fail_msg("got: %s\nwant: %s", err.text, text);
}

static void durations_are_read_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int rc;
        uint64_t ms;
    } rows[] = {
        {"5", 0, 5000},
        {"0", 0, 0},
        {"250ms", 0, 250},
        {"10s", 0, 10000},
        {"5m", 0, 300000},
        {"1h30m", 0, 5400000},
        {"2d", 0, 172800000},
        {"1m1s1ms", 0, 61001},
        {"", -EINVAL, 0},
        {"s", -EINVAL, 0},
        {"-5", -EINVAL, 0},
        {"+5", -EINVAL, 0},
        {" 5", -EINVAL, 0},
        {"5 ", -EINVAL, 0},
        {"5 s", -EINVAL, 0},
        {"1.5s", -EINVAL, 0},
        {"30m1h", -EINVAL, 0},
        {"1m1m", -EINVAL, 0},
        {"1h5", -EINVAL, 0},
        {"5S", -EINVAL, 0},
        {"5min", -EINVAL, 0},
        {"0x5", -EINVAL, 0},
        {"1e3", -EINVAL, 0},
        {"18446744073709551615ms", 0, UINT64_MAX},
        {"18446744073709551616", -ERANGE, 0},
        {"213503982335d", -ERANGE, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t ms = 77;
        int rc = options_parse_duration_ms(rows[i].text, &ms);
        if (rc != rows[i].rc || ms != (rc ? 77 : rows[i].ms))
            fail_msg("\"%s\": rc %d, %llu ms", rows[i].text, rc, (unsigned long long)ms);
    }
}

static void sizes_are_read_strictly(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int rc;
        uint64_t bytes;
    } rows[] = {
        {"0", 0, 0},           {"4096", 0, 4096},     {"1K", 0, 1024},           {"64M", 0, 67108864},
        {"2G", 0, 2147483648}, {"1T", 0, 1ULL << 40}, {"3Mi", 0, 3145728},       {"3MiB", 0, 3145728},
        {"1k", 0, 1024},       {"10B", 0, 10},        {"", -EINVAL, 0},          {"M", -EINVAL, 0},
        {"1MM", -EINVAL, 0},   {"1i", -EINVAL, 0},    {"1 M", -EINVAL, 0},       {"-1", -EINVAL, 0},
        {"1.5G", -EINVAL, 0},  {"1P", -EINVAL, 0},    {"16777216T", -ERANGE, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t bytes = 77;
        int rc = options_parse_bytes(rows[i].text, &bytes);
        if (rc != rows[i].rc || bytes != (rc ? 77 : rows[i].bytes))
            fail_msg("\"%s\": rc %d, %llu", rows[i].text, rc, (unsigned long long)bytes);
    }
}

static void defaults_fill_every_field(void **state)
{
    (void)state;
    struct settings s;
    assert_int_equal(read_args(&s, NULL, (const char *const[]){NULL}, NULL, NULL), OPTIONS_RUN);
    assert_null(s.name);
    assert_int_equal(s.hz, 99);
    assert_int_equal(s.room_bytes, 64 << 20);
    assert_int_equal(s.window_ms, 10000);
    assert_int_equal(s.watch_ms, 0);
    assert_false(s.loud);
    assert_true(s.kernel);
}

static void every_form_of_an_option_is_read(void **state)
{
    (void)state;
    struct settings s;
    struct err err = {0};
    assert_int_equal(
        read_args(&s, &err, ARGS("--hz", "19", "--room=1K", "-l", "x y", "-vk=false", "--watch"), NULL, NULL),
        0);
    assert_int_equal(s.hz, 19);
    assert_int_equal(s.room_bytes, 1024);
    assert_string_equal(s.name, "x y");
    assert_true(s.loud);
    assert_false(s.kernel);
    assert_int_equal(s.watch_ms, 2000);
    options_fini(&PROGRAM, &s);
    options_fini(&PROGRAM, &s);
    assert_int_equal(
        read_args(&s, &err, ARGS("-n20", "--loud=off", "--watch=500ms", "-lone", "--name=two"), NULL, NULL),
        0);
    assert_int_equal(s.hz, 20);
    assert_int_equal(s.watch_ms, 500);
    assert_string_equal(s.name, "two"); /* the last wins */
    options_fini(&PROGRAM, &s);
}

static void a_name_may_be_cut_short_while_it_is_unique(void **state)
{
    (void)state;
    struct settings s;
    struct err err = {0};
    assert_int_equal(read_args(&s, &err, ARGS("--win=20s", "--ro", "1K"), NULL, NULL), 0);
    assert_int_equal(s.window_ms, 20000);
    assert_int_equal(s.room_bytes, 1024);
    options_fini(&PROGRAM, &s);
    expect_error(ARGS("--w=5s"), "unknown option --w=5s; see 'prog --help'"); /* window or watch */
}

static void positional_arguments_may_stand_anywhere(void **state)
{
    (void)state;
    struct settings s;
    char *rest[16];
    size_t count = 0;
    assert_int_equal(read_args(&s, NULL, ARGS("one", "--hz", "5", "-", "--", "--hz"), rest, &count), 0);
    assert_int_equal(count, 3);
    assert_string_equal(rest[0], "one");
    assert_string_equal(rest[1], "-");
    assert_string_equal(rest[2], "--hz");
    assert_int_equal(s.hz, 5);
    options_fini(&PROGRAM, &s);
}

static void wrong_command_lines_are_told_what_is_allowed(void **state)
{
    (void)state;
    expect_error(ARGS("--hzz", "5"), "unknown option --hzz (did you mean --hz?); see 'prog --help'");
    expect_error(ARGS("--wndow=3s"), "unknown option --wndow=3s (did you mean --window?); see 'prog --help'");
    expect_error(ARGS("--halp"), "unknown option --halp (did you mean --help?); see 'prog --help'");
    expect_error(ARGS("--elephant"), "unknown option --elephant; see 'prog --help'");
    expect_error(ARGS("-q"), "unknown option -q; see 'prog --help'");
    expect_error(ARGS("--hz"), "option --hz needs a value; see 'prog --help'");
    expect_error(ARGS("--config"), "option --config needs a value; see 'prog --help'");
    expect_error(ARGS("stray"), "unexpected argument \"stray\"; see 'prog --help'");
    expect_error(ARGS("--hz=0"), "--hz must be a whole number, from 1 to 1000; it is \"0\"");
    expect_error(ARGS("--hz=99.5"), "--hz must be a whole number, from 1 to 1000; it is \"99.5\"");
    expect_error(ARGS("-n", "-1"), "--hz must be a whole number, from 1 to 1000; it is \"-1\"");
    expect_error(ARGS("--window=1h"),
                 "--window must be a duration such as 500ms, 10s or 1h30m, from 1s to 1m; it is \"1h\"");
    expect_error(ARGS("--room=lots"), "--room must be a size such as 512K, 64M or 2G; it is \"lots\"");
    expect_error(ARGS("--loud=maybe"), "--loud must be true or false; it is \"maybe\"");
    expect_error(ARGS("--hz=a\x1b[31m\n"), "--hz must be a whole number, from 1 to 1000; it is \"a?[31m?\"");
}

static int read_text(struct settings *s, const char *text, struct err *err)
{
    assert_int_equal(set_defaults(&PROGRAM, s, err), 0);
    int rc = config_text(&PROGRAM, s, "f.conf", text, strlen(text), err);
    if (rc < 0)
        options_fini(&PROGRAM, s);
    return rc;
}

static void the_config_file_is_read(void **state)
{
    (void)state;
    struct settings s;
    struct err err = {0};
    assert_int_equal(
        read_text(&s,
                  "# all\n\n  hz = 19  # why\r\nroom=2K\n\tname\t= \"a # \\\"b\\\" \\\\\" # c\nloud = yes",
                  &err),
        0);
    assert_int_equal(s.hz, 19);
    assert_int_equal(s.room_bytes, 2048);
    assert_string_equal(s.name, "a # \"b\" \\");
    assert_true(s.loud);
    options_fini(&PROGRAM, &s);
    assert_int_equal(read_text(&s, "name = a#b c  \n", &err), 0);
    assert_string_equal(s.name, "a#b c");
    options_fini(&PROGRAM, &s);
    assert_int_equal(read_text(&s, "name =", &err), 0);
    assert_string_equal(s.name, "");
    options_fini(&PROGRAM, &s);
}

static void wrong_config_files_are_told_by_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"hz = 5\nhz = x\n", "f.conf:2: hz must be a whole number, from 1 to 1000; it is \"x\""},
        {"\n\nhzz = 5\n", "f.conf:3: unknown setting \"hzz\"; did you mean \"hz\"?"},
        {"hz 5\n", "f.conf:1: expected \"name = value\""},
        {"= 5\n", "f.conf:1: expected \"name = value\""},
        {"loud\n", "f.conf:1: expected \"name = value\""},
        {"name = \"x\n", "f.conf:1: the quoted value must end with \" and be the last on its line"},
        {"name = \"x\" y\n", "f.conf:1: the quoted value must end with \" and be the last on its line"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct settings s;
        struct err err = {0};
        assert_int_equal(read_text(&s, rows[i].text, &err), -EINVAL);
        assert_string_equal(err.text, rows[i].error);
    }
    struct settings s;
    struct err err = {0};
    assert_int_equal(set_defaults(&PROGRAM, &s, NULL), 0);
    assert_int_equal(config_text(&PROGRAM, &s, "f.conf", "hz = 5\0\n", 8, &err), -EINVAL);
    assert_string_equal(err.text, "f.conf:1: the line contains a NUL byte");
}

static void the_command_line_wins_over_the_file(void **state)
{
    (void)state;
    char path[] = "/tmp/test_options.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "hz = 19\nroom = 1K\n", 18), 18);
    close(fd);
    struct settings s;
    struct err err = {0};
    assert_int_equal(read_args(&s, &err, ARGS("--hz=49", "--config", path), NULL, NULL), 0);
    assert_int_equal(s.hz, 49);
    assert_int_equal(s.room_bytes, 1024);
    options_fini(&PROGRAM, &s);
    unlink(path);
    assert_true(read_args(&s, &err, ARGS("--config", path), NULL, NULL) == -ENOENT);
    assert_non_null(strstr(err.text, path));
}

static void the_nearest_name_is_a_sensible_guess(void **state)
{
    (void)state;
    static const char *const names[] = {"since", "limit", "group", "cumulative", "match", NULL};
    assert_string_equal(options_nearest("sinse", names), "since");
    assert_string_equal(options_nearest("cum", names), "cumulative");
    assert_string_equal(options_nearest("groups", names), "group");
    assert_null(options_nearest("zzz", names));
    assert_null(options_nearest("", names));
    assert_null(options_nearest("x", names));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_read_strictly),
        cmocka_unit_test(sizes_are_read_strictly),
        cmocka_unit_test(defaults_fill_every_field),
        cmocka_unit_test(every_form_of_an_option_is_read),
        cmocka_unit_test(a_name_may_be_cut_short_while_it_is_unique),
        cmocka_unit_test(positional_arguments_may_stand_anywhere),
        cmocka_unit_test(wrong_command_lines_are_told_what_is_allowed),
        cmocka_unit_test(the_config_file_is_read),
        cmocka_unit_test(wrong_config_files_are_told_by_line),
        cmocka_unit_test(the_command_line_wins_over_the_file),
        cmocka_unit_test(the_nearest_name_is_a_sensible_guess),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
