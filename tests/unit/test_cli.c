/* The commands against the real doors with a fake engine behind them; their output goes to files. */
#include "aggregator/api_http.h"
#include "cli/cmd.h"
#include "cli/screen.h"
#include "cli/top_view.h"

#include "tests/unit/fake_query.c"

#include <jansson.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>
#include <cmocka.h>

struct world {
    struct query query;
    struct api *api;
    char url[64];
    char out[65536], told[8192]; /* of the last command */
};

static int setup(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    struct err err = {0};
    if (api_open("127.0.0.1:0", &world->query, NULL, &world->api, &err) < 0)
        fail_msg("%s", err.text);
    snprintf(world->url, sizeof(world->url), "http://127.0.0.1:%d", api_port(world->api));
    *state = world;
    return 0;
}

static int teardown(void **state)
{
    struct world *world = *state;
    api_close(world->api);
    free(world);
    return 0;
}

/* Sends what goes to a descriptor into a file until restore. */
static FILE *divert(int fd, int *ret_saved)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    *ret_saved = dup(fd);
    dup2(fileno(file), fd);
    return file;
}

static void restore(int fd, int saved, FILE *file, char *text, size_t room)
{
    dup2(saved, fd);
    close(saved);
    rewind(file);
    size_t used = fread(text, 1, room - 1, file);
    text[used] = '\0';
    fclose(file);
}

/* Runs "fleetprof ARGS..."; returns the exit status. */
static int run(struct world *world, const char *const *args)
{
    char *argv[32] = {(char *)(uintptr_t) "fleetprof"};
    int argc = 1, saved_out, saved_told;
    for (; args[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)args[argc - 1];
    fflush(stdout);
    FILE *out = divert(STDOUT_FILENO, &saved_out), *told = divert(STDERR_FILENO, &saved_told);
    int status = cmd_run(argc, argv);
    fflush(stdout);
    restore(STDOUT_FILENO, saved_out, out, world->out, sizeof(world->out));
    restore(STDERR_FILENO, saved_told, told, world->told, sizeof(world->told));
    return status;
}

#define RUN(world, ...) run(world, (const char *const[]){__VA_ARGS__, NULL})

static void expect_text(const char *got, const char *want)
{
    if (strcmp(got, want) != 0)
        fail_msg("got:\n%s\nwant:\n%s", got, want);
}

static void expect_part(const char *got, const char *part)
{
    if (!strstr(got, part))
        fail_msg("no \"%s\" in:\n%s", part, got);
}

static void top_is_a_table_with_a_line_on_what_is_missing(void **state)
{
    struct world *world = *state;
    assert_int_equal(RUN(world, "top", "--server", world->url, "--limit", "2", "--since", "1m30s"), CMD_OK);
    expect_text(world->out,
                " SELF        SHARE   FUNCTION                        MODULE\n"
                "5.05s   50.0% \xc2\xb1"
                "3.0   busy_loop                       spin\n"
                "3.03s   30.0% \xc2\xb1"
                "3.0   a\\xff\\xfe\"b\\x0ac\\\\d<script>;e   lib\\xff.so\n"
                "3 of 3 shards, 2 nodes, over 1m30s: 1000 samples, 10.1s; lost 9.1%, truncated 1.0%, "
                "unnamed 2.0%\n");
    expect_text(world->told, "");
    assert_int_equal(world->query.limit, 2);
    assert_int_equal(world->query.to_ms - world->query.from_ms, 90000);
}

static void wide_has_intervals_and_cuts_nothing(void **state)
{
    struct world *world = *state;
    setenv("COLUMNS", "60", 1);
    assert_int_equal(RUN(world, "--server", world->url, "top", "-o", "wide", "--cum", "-g", "function,node"),
                     CMD_OK);
    expect_part(world->out, "  CUM     LOW          HIGH   CORES   SAMPLES        SHARE   FUNCTION");
    expect_part(world->out, "5.05s   4.60s         5.50s   0.112       500   50.0% \xc2\xb1"
                            "3.0   busy_loop");
    expect_part(world->out,
                "std::allocator<std::basic_string<char> > >::operator[](unsigned long)   a            -\n");
    assert_true(world->query.cumulative);
    expect_text(world->query.groups, "function;node;");
    unsetenv("COLUMNS");
}

static void long_names_keep_their_start_and_end(void **state)
{
    struct world *world = *state;
    setenv("COLUMNS", "60", 1);
    assert_int_equal(RUN(world, "top", "-s", world->url), CMD_OK);
    unsetenv("COLUMNS");
    expect_part(world->out, "\n2.02s   20.0% \xc2\xb1"
                            "3.0   std::vector<s\xe2\x80\xa6signed long)   a\n");
}

static void json_is_the_server_s_answer(void **state)
{
    struct world *world = *state;
    assert_int_equal(RUN(world, "top", "-s", world->url, "-o", "json"), CMD_OK);
    json_t *json = json_loads(world->out, 0, NULL);
    assert_non_null(json);
    assert_int_equal(json_array_size(json_object_get(json_object_get(json, "data"), "rows")), 3);
    json_decref(json);
}

static void a_partial_answer_is_marked_loudly(void **state)
{
    struct world *world = *state;
    world->query.partial = true;
    assert_int_equal(RUN(world, "top", "-s", world->url), CMD_OK);
    expect_part(
        world->out,
        "\nPARTIAL ANSWER: no answer from shard tcp://127.0.0.1:4142; their samples are missing above\n"
        "2 of 3 shards");
    assert_int_equal(RUN(world, "folded", "-s", world->url), CMD_OK);
    expect_part(world->told, "PARTIAL ANSWER");
    world->query.partial = false;
}

static void watch_prints_successive_tables_where_there_is_no_terminal(void **state)
{
    struct world *world = *state;
    assert_int_equal(RUN(world, "top", "-s", world->url, "--watch=100ms", "--count=3", "-n1"), CMD_OK);
    size_t tables = 0;
    for (const char *p = world->out; (p = strstr(p, "FUNCTION")); p++)
        tables++;
    assert_int_equal(tables, 3);
    assert_null(strchr(world->out, '\x1b'));
    assert_int_equal(RUN(world, "top", "-s", world->url, "--watch=100ms", "--count=2", "-o", "json"), CMD_OK);
    char *second = strchr(world->out, '\n');
    assert_non_null(second);
    json_t *json = json_loads(second, 0, NULL);
    assert_non_null(json);
    json_decref(json);
    assert_int_equal(RUN(world, "top", "--count", "2"), CMD_USAGE);
}

static void folded_and_pprof_pass_the_answer_on(void **state)
{
    struct world *world = *state;
    assert_int_equal(RUN(world, "folded", "-s", world->url, "-l", "process=spin"), CMD_OK);
    expect_part(world->out, "sp\\x3bin;main;busy_loop 5050505000\n");
    expect_part(world->told, "3 of 3 shards, 2 nodes: 1000 samples");
    expect_text(world->query.matcher, "process(0)spin;");
    char path[] = "/tmp/test_cli.XXXXXX";
    close(mkstemp(path));
    assert_int_equal(RUN(world, "pprof", "-s", world->url, "-f", path), CMD_OK);
    FILE *file = fopen(path, "rb");
    assert_int_equal(fgetc(file), 0x1f);
    assert_int_equal(fgetc(file), 0x8b);
    fclose(file);
    unlink(path);
    expect_text(world->out, "");
    assert_int_equal(RUN(world, "pprof", "-s", world->url), CMD_OK); /* standard output is a file here */
    assert_int_equal((unsigned char)world->out[0], 0x1f);
}

static void agents_and_labels_are_listed(void **state)
{
    struct world *world = *state;
    assert_int_equal(RUN(world, "agents", "-s", world->url), CMD_OK);
    expect_part(world->out, "NODE");
    expect_part(world->out, "   99      2       990   10 (1.0%)   cpu-clock   1.0\n");
    assert_int_equal(RUN(world, "agents", "-s", world->url, "-o", "wide"), CMD_OK);
    expect_part(world->out, "-3ms   tcp://127.0.0.1:4140\n");
    assert_int_equal(RUN(world, "labels", "-s", world->url), CMD_OK);
    expect_text(world->out, "node\nprocess\n");
    expect_text(world->told, "there are more; see --limit\n");
    assert_int_equal(RUN(world, "labels", "process", "-s", world->url), CMD_OK);
    expect_text(world->out, "a\\xff\\xfe\"b\\x0ac\\\\d<script>;e\nspin\n");
    expect_text(world->query.label, "process");
}

static void versions_and_help_are_told(void **state)
{
    struct world *world = *state;
    assert_int_equal(RUN(world, "version", "-s", world->url), CMD_OK);
    expect_part(world->out, "client: fleetprof ");
    expect_part(world->out, "\nserver: fleetprof aggregator ");
    assert_int_equal(RUN(world, "version", "-s", "http://127.0.0.1:1"), CMD_ERROR);
    expect_part(world->out, "client: fleetprof ");
    expect_part(world->told, "is an aggregator running?");
    assert_int_equal(RUN(world, "version", "--client", "-s", "http://127.0.0.1:1"), CMD_OK);
    assert_int_equal(RUN(world, "--help"), CMD_OK);
    expect_part(world->out, "  top        ");
    assert_int_equal(RUN(world, "help", "top"), CMD_OK);
    expect_part(world->out, "Usage: fleetprof top [OPTION]...\n");
    expect_part(world->out, "  -n, --limit N               rows (default 20)\n");
    expect_part(world->out, "  -w, --watch[=TIME]          show it again");
    assert_int_equal(run(world, (const char *const[]){NULL}), CMD_USAGE);
    expect_part(world->told, "Usage: fleetprof COMMAND");
}

static void mistakes_say_what_to_do(void **state)
{
    struct world *world = *state;
    assert_int_equal(RUN(world, "tpo"), CMD_USAGE);
    expect_text(world->told,
                "error: unknown command \"tpo\" (did you mean \"top\"?); see 'fleetprof --help'\n");
    assert_int_equal(RUN(world, "--since", "5m", "top"), CMD_USAGE);
    expect_text(world->told, "error: option --since must stand behind the command; see 'fleetprof --help'\n");
    assert_int_equal(RUN(world, "top", "--since", "yesterday"), CMD_USAGE);
    expect_part(world->told, "error: --since must be a duration");
    assert_int_equal(RUN(world, "top", "-o", "xml"), CMD_USAGE);
    expect_text(world->told, "error: --output must be table, wide or json\n");
    assert_int_equal(RUN(world, "top", "-s", world->url, "-l", "process=\""), CMD_ERROR);
    expect_part(world->told, "error: parameter match: ");
    assert_int_equal(RUN(world, "top", "-s", "http://127.0.0.1:1"), CMD_ERROR);
    expect_text(world->told,
                "error: cannot reach http://127.0.0.1:1: Connection refused; is an aggregator running? set "
                "--server or FLEETPROF_SERVER\n");
    assert_int_equal(RUN(world, "top", "-s", "ftp://x"), CMD_ERROR);
    expect_part(world->told, "ftp://x is not an http or https address");
    char other[80];
    snprintf(other, sizeof(other), "%s/elsewhere", world->url);
    assert_int_equal(RUN(world, "top", "-s", other), CMD_ERROR);
    expect_part(world->told, "error: there is no such page");
    world->query.rc = -ETIMEDOUT;
    assert_int_equal(RUN(world, "agents", "-s", world->url), CMD_ERROR);
    expect_text(world->told, "error: the fake says no (ask for a shorter time, or look at /readyz)\n");
    world->query.rc = 0;
}

static void the_environment_names_the_server(void **state)
{
    struct world *world = *state;
    setenv("FLEETPROF_SERVER", world->url + strlen("http://"), 1); /* without the scheme */
    assert_int_equal(RUN(world, "labels"), CMD_OK);
    unsetenv("FLEETPROF_SERVER");
}

static void amounts_have_three_digits(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *unit, *text;
    } rows[] = {{0, "nanoseconds", "0ns"},
                {999, "nanoseconds", "999ns"},
                {1500, "nanoseconds", "1.50us"},
                {2.5e6, "nanoseconds", "2.50ms"},
                {12.34e9, "nanoseconds", "12.3s"},
                {123456e9, "nanoseconds", "123456s"},
                {42, "count", "42"},
                {12345, "count", "12.3k"},
                {5e9, "bytes", "5.00G"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[32];
        top_view_amount(rows[i].value, rows[i].unit, text, sizeof(text));
        assert_string_equal(text, rows[i].text);
    }
    char text[32];
    top_view_duration(5400000, text, sizeof(text));
    assert_string_equal(text, "1h30m");
    top_view_duration(300, text, sizeof(text));
    assert_string_equal(text, "300ms");
    top_view_duration(0, text, sizeof(text));
    assert_string_equal(text, "0s");
}

static void a_table_is_safe_for_a_terminal(void **state)
{
    (void)state;
    struct screen_table table = {0};
    struct buf out = buf_init(4096);
    screen_table_column(&table, "A", true, false);
    screen_table_column(&table, "B", false, true);
    screen_table_cell(&table, "1");
    screen_table_cell(&table, "x\x1b[2J\xff\xc2\x9by\\n");
    screen_table_cell(&table, "22");
    screen_table_cell(&table, "\xe6\xbc\xa2\xe5\xad\x97"); /* two wide characters */
    assert_int_equal(screen_table_print(&table, 0, &out), 0);
    assert_int_equal(buf_append(&out, "", 1), 0);
    assert_string_equal(out.data,
                        " A   B\n 1   x\\x1b[2J\\xff\\xc2\\x9by\\n\n22   \xe6\xbc\xa2\xe5\xad\x97\n");
    assert_int_equal(screen_width("\xe6\xbc\xa2\xe5\xad\x97", 6), 4);
    buf_fini(&out);
    screen_table_fini(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(top_is_a_table_with_a_line_on_what_is_missing),
        cmocka_unit_test(wide_has_intervals_and_cuts_nothing),
        cmocka_unit_test(long_names_keep_their_start_and_end),
        cmocka_unit_test(json_is_the_server_s_answer),
        cmocka_unit_test(a_partial_answer_is_marked_loudly),
        cmocka_unit_test(watch_prints_successive_tables_where_there_is_no_terminal),
        cmocka_unit_test(folded_and_pprof_pass_the_answer_on),
        cmocka_unit_test(agents_and_labels_are_listed),
        cmocka_unit_test(versions_and_help_are_told),
        cmocka_unit_test(mistakes_say_what_to_do),
        cmocka_unit_test(the_environment_names_the_server),
        cmocka_unit_test(amounts_have_three_digits),
        cmocka_unit_test(a_table_is_safe_for_a_terminal),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    unsetenv("COLUMNS");
    unsetenv("FLEETPROF_SERVER");
    return cmocka_run_group_tests_name("cli", tests, setup, teardown);
}
