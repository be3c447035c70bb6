#include "aggregator/api_http.h"
#include "common/http.h"

#include "tests/unit/fake_query.c"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

struct world {
    struct query query;
    struct api *api;
    int port;
    int alive_rc;
};

static int on_alive(void *ctx, struct err *err)
{
    struct world *world = ctx;
    return world->alive_rc < 0 ? err_say(err, world->alive_rc, "worker 1 stands still") : 0;
}

static int setup(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    struct api_hooks hooks = {.alive = on_alive, .ctx = world};
    struct err err = {0};
    if (api_open("127.0.0.1:0", &world->query, &hooks, &world->api, &err) < 0)
        fail_msg("%s", err.text);
    world->port = api_port(world->api);
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

static struct http_reply get(int port, const char *target)
{
    char url[2048];
    struct http_reply reply;
    struct err err = {0};
    struct http_get_options options = {
        .timeout_ms = 30000, .limit_bytes = 1 << 20, .note_name = "X-Fleetprof-Completeness"};
    snprintf(url, sizeof(url), "http://127.0.0.1:%d%s", port, target);
    if (http_get(url, &options, &reply, &err) < 0)
        fail_msg("%s", err.text);
    return reply;
}

static json_t *parse(const char *text)
{
    json_error_t error;
    json_t *json = json_loads(text, 0, &error);
    if (!json)
        fail_msg("no JSON: %s in %s", error.text, text);
    return json;
}

static json_t *get_json(int port, const char *target, int status)
{
    struct http_reply reply = get(port, target);
    if (reply.status != status)
        fail_msg("%s: status %d: %s", target, reply.status, reply.body.data);
    assert_string_equal(reply.content_type, "application/json");
    json_t *json = parse(reply.body.data);
    http_reply_fini(&reply);
    return json;
}

/* The thing at a path such as "data.rows.0.value". */
static json_t *at(json_t *json, const char *path)
{
    char step[64];
    for (const char *p = path; *p && json;) {
        size_t length = strcspn(p, ".");
        snprintf(step, sizeof(step), "%.*s", (int)length, p);
        json = json_is_array(json) ? json_array_get(json, (size_t)strtoul(step, NULL, 10))
                                   : json_object_get(json, step);
        p += length + (p[length] == '.');
    }
    if (!json)
        fail_msg("nothing at %s", path);
    return json;
}

#define TEXT(json, path)   json_string_value(at(json, path))
#define NUMBER(json, path) json_integer_value(at(json, path))
#define REAL(json, path)   json_real_value(at(json, path))

static void top_has_rows_with_intervals_and_completeness(void **state)
{
    struct world *world = *state;
    json_t *json = get_json(world->port, "/api/v1/top?group=function,node&limit=2", 200);
    assert_string_equal(TEXT(json, "data.kind"), "cpu");
    assert_string_equal(TEXT(json, "data.group.1"), "node");
    assert_int_equal(json_array_size(at(json, "data.rows")), 2);
    assert_string_equal(TEXT(json, "data.rows.0.keys.function"), "busy_loop");
    assert_string_equal(TEXT(json, "data.rows.0.keys.module"), "spin");
    assert_string_equal(TEXT(json, "data.rows.0.keys.node"), "n1");
    assert_string_equal(TEXT(json, "data.rows.0.unit"), "nanoseconds");
    assert_int_equal(NUMBER(json, "data.rows.0.value"), 5050505000);
    assert_int_equal(NUMBER(json, "data.rows.0.count"), 500);
    assert_int_equal(NUMBER(json, "data.rows.0.interval.low"), 4600000000);
    assert_int_equal(NUMBER(json, "data.rows.0.interval.high"), 5500000000);
    assert_true(REAL(json, "data.rows.0.share") == 0.5);
    assert_true(REAL(json, "data.rows.0.share_interval.high") == 0.53);
    assert_int_equal(NUMBER(json, "data.total.count"), 1000);
    /* Garwood of 1000: 938.973 to 1063.952 samples of 10101010 ns */
    assert_int_equal(NUMBER(json, "data.total.interval.low") / 1000000, 9484);
    assert_int_equal(NUMBER(json, "data.total.interval.high") / 1000000, 10746);
    assert_int_equal(NUMBER(json, "completeness.shards.answered"), 3);
    assert_true(json_is_false(at(json, "completeness.partial")));
    assert_int_equal(NUMBER(json, "completeness.lost.samples"), 100);
    assert_int_equal(NUMBER(json, "completeness.lost.by_cause.ring_full"), 60);
    assert_true(REAL(json, "completeness.lost.share") > 0.0909 &&
                REAL(json, "completeness.lost.share") < 0.091);
    assert_true(REAL(json, "completeness.truncated.share") == 0.01);
    assert_true(REAL(json, "completeness.coverage.share") == 0.9);
    assert_true(json_is_true(at(json, "completeness.skewed")));
    json_decref(json);
    assert_string_equal(world->query.groups, "function;node;");
    assert_int_equal(world->query.limit, 2);
    assert_int_equal(world->query.to_ms - world->query.from_ms, 300000);
}

static void a_missing_shard_is_named(void **state)
{
    struct world *world = *state;
    world->query.partial = true;
    json_t *json = get_json(world->port, "/api/v1/top", 200);
    assert_true(json_is_true(at(json, "completeness.partial")));
    assert_string_equal(TEXT(json, "completeness.shards.missing.0"), "tcp://127.0.0.1:4142");
    json_decref(json);
    world->query.partial = false;
}

static void hostile_names_and_numbers_do_not_break_json(void **state)
{
    struct world *world = *state;
    world->query.loud = true;
    json_t *json = get_json(world->port, "/api/v1/top?group=function,node", 200);
    assert_string_equal(TEXT(json, "data.rows.1.keys.function"), "a\\xff\\xfe\"b\\x0ac\\\\d<script>;e");
    assert_string_equal(TEXT(json, "data.rows.1.keys.module"), "lib\\xff.so");
    assert_string_equal(TEXT(json, "data.rows.1.keys.node"), "n\\x0a2");
    assert_true(NUMBER(json, "data.rows.2.interval.high") == INT64_MAX);
    assert_true(json_is_null(at(json, "data.rows.0.share")));
    json_decref(json);
    json = get_json(world->port, "/api/v1/labels/process/values", 200);
    assert_string_equal(TEXT(json, "data.values.0"), "a\\xff\\xfe\"b\\x0ac\\\\d<script>;e");
    json_decref(json);
    world->query.loud = false;
}

static void the_question_reaches_the_engine(void **state)
{
    struct world *world = *state;
    json_decref(get_json(
        world->port,
        "/api/v1/top?kind=cpu&group=process&cumulative=true&limit=7&from=1000&to=2026-01-31T12:00:00Z"
        "&to=x",
        400));
    json_decref(get_json(world->port,
                         "/api/v1/top?kind=offcpu&group=process&cumulative=true&limit=7&from=1769860000&"
                         "to=2026-01-31T12:00:00Z&match=%7Bnode%3D%22a%22%7D&match=process%3D~%22x.%2A%22",
                         200));
    assert_string_equal(world->query.kind, "offcpu");
    assert_string_equal(world->query.groups, "process;");
    assert_true(world->query.cumulative);
    assert_int_equal(world->query.limit, 7);
    assert_int_equal(world->query.from_ms, 1769860000000);
    assert_int_equal(world->query.to_ms, 1769860800000);
    assert_string_equal(world->query.matcher, "node(0)a;process(2)x.*;");
}

static void wrong_parameters_are_named_with_what_is_allowed(void **state)
{
    struct world *world = *state;
    static const struct {
        const char *target, *error, *hint;
    } rows[] = {
        {"/api/v1/top?sinse=5m", "unknown parameter \"sinse\"; did you mean \"since\"?",
         "allowed: kind, match, since, from, to, group, limit, cumulative"},
        {"/api/v1/agents?limit=5", "unknown parameter \"limit\"", "this page takes no parameters"},
        {"/api/v1/folded?group=function", "unknown parameter \"group\"",
         "allowed: kind, match, since, from, to"},
        {"/api/v1/top?limit=0", "parameter limit: \"0\" is not understood", "a whole number from 1 to 10000"},
        {"/api/v1/top?limit=10001", "parameter limit: \"10001\" is not understood",
         "a whole number from 1 to 10000"},
        {"/api/v1/top?limit=5&limit=6", "parameter limit is given more than once", NULL},
        {"/api/v1/top?since=5x", "parameter since: \"5x\" is not understood",
         "a duration such as 30s, 5m or 1h30m"},
        {"/api/v1/top?since=0s", "parameter since: \"0s\" is not understood",
         "a duration such as 30s, 5m or 1h30m"},
        {"/api/v1/top?from=noon", "parameter from: \"noon\" is not understood",
         "RFC 3339 (2026-01-31T12:00:00Z), unix seconds or milliseconds, now, or now-5m"},
        {"/api/v1/top?from=now-5m&since=5m", "parameters from and since say the same thing; give one of them",
         NULL},
        {"/api/v1/top?from=200&to=100", "the time range is empty: from must be before to", NULL},
        {"/api/v1/top?from=0", "the time range is longer than 366 days", NULL},
        {"/api/v1/top?cumulative=maybe", "parameter cumulative: \"maybe\" is not understood",
         "true or false"},
        {"/api/v1/top?group=a,b,c,d,e", "parameter group: \"a,b,c,d,e\" is not understood", NULL},
        {"/api/v1/top?group=node,node", "parameter group: \"node,node\" is not understood", NULL},
        {"/api/v1/top?group=", "parameter group: \"\" is not understood", NULL},
        {"/api/v1/top?kind=c%22pu", "parameter kind: \"c\"pu\" is not understood",
         "a kind of profile, such as cpu"},
        {"/api/v1/top?%ff=1", "unknown parameter \"\\xff\"", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *json = get_json(world->port, rows[i].target, 400);
        assert_string_equal(TEXT(json, "error"), rows[i].error);
        if (rows[i].hint)
            assert_string_equal(TEXT(json, "hint"), rows[i].hint);
        json_decref(json);
    }
    json_t *json = get_json(world->port, "/api/v1/top?match=%7Bnode%3D", 400);
    assert_non_null(strstr(TEXT(json, "error"), "parameter match: "));
    assert_non_null(strstr(TEXT(json, "hint"), "label matchers such as"));
    json_decref(json);
}

static void failures_of_the_engine_become_status_codes(void **state)
{
    struct world *world = *state;
    static const struct {
        int rc, status;
    } rows[] = {{-ETIMEDOUT, 504}, {-EINVAL, 400}, {-E2BIG, 400}, {-EBUSY, 503}, {-EIO, 500}};
    static const char *const doors[] = {"/api/v1/top", "/api/v1/folded", "/api/v1/profile", "/api/v1/labels",
                                        "/api/v1/agents"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t d = 0; d < sizeof(doors) / sizeof(doors[0]); d++) {
            world->query.rc = rows[i].rc;
            json_t *json = get_json(world->port, doors[d], rows[i].status);
            assert_string_equal(TEXT(json, "error"), "the fake says no");
            assert_true(strlen(TEXT(json, "hint")) > 0);
            json_decref(json);
        }
    world->query.rc = 0;
}

static void folded_lines_are_escaped_merged_and_sorted(void **state)
{
    struct world *world = *state;
    struct http_reply reply = get(world->port, "/api/v1/folded");
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.content_type, "text/plain; charset=utf-8");
    assert_string_equal(reply.body.data,
                        "sp\\x3bin;main;a\\xff\\xfe\"b\\x0ac\\\\d<script>\\x3be;ksys_read 3030303000\n"
                        "sp\\x3bin;main;busy_loop 5050505000\n"
                        "sp\\x3bin;main;lib\\xff.so+0x1f40 1010101000\n"
                        "sp\\x3bin;main;work 1010101000\n");
    json_t *note = parse(reply.note);
    assert_int_equal(NUMBER(note, "shards.asked"), 3);
    json_decref(note);
    http_reply_fini(&reply);
}

static void labels_and_agents_are_listed(void **state)
{
    struct world *world = *state;
    json_t *json = get_json(world->port, "/api/v1/labels?limit=9", 200);
    assert_string_equal(TEXT(json, "data.labels.1"), "process");
    assert_true(json_is_true(at(json, "data.cut")));
    assert_string_equal(world->query.label, "(names)");
    assert_int_equal(world->query.limit, 9);
    json_decref(json);
    json = get_json(world->port, "/api/v1/labels/node/values", 200);
    assert_string_equal(TEXT(json, "data.label"), "node");
    assert_string_equal(world->query.label, "node");
    json_decref(json);
    json = get_json(world->port, "/api/v1/agents", 200);
    assert_string_equal(TEXT(json, "data.agents.0.node"), "n1");
    assert_int_equal(NUMBER(json, "data.agents.0.clock_skew_ms"), -3);
    assert_int_equal(NUMBER(json, "data.agents.0.lost.ring_full"), 10);
    json_decref(json);
}

static void unknown_pages_are_404_with_the_list(void **state)
{
    struct world *world = *state;
    static const char *const rows[] = {"/api/v1/tops",           "/api/v1/labels/",
                                       "/api/v1/labels//values", "/api/v1/labels/a/b/values",
                                       "/api/v1/labels/x",       "/x%00"};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *json = get_json(world->port, rows[i], 404);
        assert_non_null(strstr(TEXT(json, "hint"), "/api/v1/top"));
        json_decref(json);
    }
}

static void health_readiness_and_metrics_are_told(void **state)
{
    struct world *world = *state;
    struct http_reply reply = get(world->port, "/healthz");
    assert_int_equal(reply.status, 200);
    http_reply_fini(&reply);
    world->alive_rc = -EIO;
    json_t *json = get_json(world->port, "/healthz", 503);
    assert_string_equal(TEXT(json, "error"), "worker 1 stands still");
    json_decref(json);
    world->alive_rc = 0;
    reply = get(world->port, "/readyz"); /* no hook: ready */
    assert_int_equal(reply.status, 200);
    http_reply_fini(&reply);
    reply = get(world->port, "/metrics");
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.content_type, "version=0.0.4"));
    assert_non_null(strstr(reply.body.data, "fleetprof_http_requests_total{page=\"/healthz\"}"));
    http_reply_fini(&reply);
}

struct asker {
    int port;
    pthread_t thread;
};

static void *ask_agents(void *ctx)
{
    struct asker *asker = ctx;
    struct http_reply reply = get(asker->port, "/api/v1/agents");
    http_reply_fini(&reply);
    return NULL;
}

static void health_is_answered_while_every_turn_is_taken(void **state)
{
    struct world *world = *state;
    pthread_barrier_t meet;
    struct asker askers[API_QUERIES];
    pthread_barrier_init(&meet, NULL, API_QUERIES + 1);
    world->query.meet = &meet;
    for (size_t i = 0; i < API_QUERIES; i++) {
        askers[i].port = world->port;
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask_agents, &askers[i]), 0);
    }
    struct http_reply reply = get(world->port, "/healthz");
    assert_int_equal(reply.status, 200);
    http_reply_fini(&reply);
    pthread_barrier_wait(&meet);
    for (size_t i = 0; i < API_QUERIES; i++)
        pthread_join(askers[i].thread, NULL);
    world->query.meet = NULL;
    pthread_barrier_destroy(&meet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(top_has_rows_with_intervals_and_completeness),
        cmocka_unit_test(a_missing_shard_is_named),
        cmocka_unit_test(hostile_names_and_numbers_do_not_break_json),
        cmocka_unit_test(the_question_reaches_the_engine),
        cmocka_unit_test(wrong_parameters_are_named_with_what_is_allowed),
        cmocka_unit_test(failures_of_the_engine_become_status_codes),
        cmocka_unit_test(folded_lines_are_escaped_merged_and_sorted),
        cmocka_unit_test(labels_and_agents_are_listed),
        cmocka_unit_test(unknown_pages_are_404_with_the_list),
        cmocka_unit_test(health_readiness_and_metrics_are_told),
        cmocka_unit_test(health_is_answered_while_every_turn_is_taken),
    };
    return cmocka_run_group_tests_name("api_http", tests, setup, teardown);
}
