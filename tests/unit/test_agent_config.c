#include "node-agent/agent_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

/* Reads "node-agent" and up to three arguments; the texts are only read. */
static int read_config(const char *a, const char *b, const char *c, struct agent_config *config,
                       struct err *err)
{
    char name[] = "node-agent", texts[3][128];
    char *argv[5] = {name};
    int argc = 1;
    const char *given[] = {a, b, c};
    for (int i = 0; i < 3 && given[i]; i++) {
        assert_true(strlen(given[i]) < sizeof(texts[i]));
        memcpy(texts[i], given[i], strlen(given[i]) + 1);
        argv[argc++] = texts[i];
    }
    return agent_config_read(argc, argv, config, err);
}

static void refused(const char *argument, const char *reason)
{
    struct agent_config config;
    struct err err = {0};
    assert_int_equal(read_config(argument, NULL, NULL, &config, &err), -EINVAL);
    if (!strstr(err.text, reason))
        fail_msg("%s: %s", argument, err.text);
    agent_config_fini(&config);
}

static void the_defaults_are_those_the_manual_names(void **state)
{
    (void)state;
    struct agent_config config;
    assert_int_equal(read_config(NULL, NULL, NULL, &config, NULL), OPTIONS_RUN);
    assert_int_equal(config.hz, 99);
    assert_int_equal(config.window_ms, 10000);
    assert_string_equal(config.http, "127.0.0.1:7071");
    assert_string_equal(config.event, "cpu-clock");
    assert_int_equal(config.shard_count, 1);
    assert_string_equal(config.shard_list[0], "tcp://127.0.0.1:4140");
    assert_true(config.node[0] != '\0'); /* the host's name */
    agent_config_fini(&config);
}

static void shards_are_split_at_commas_and_spaces(void **state)
{
    (void)state;
    struct agent_config config;
    assert_int_equal(read_config("--shards", "tcp://a:1, tcp://b:2,,tcp://c:3", NULL, &config, NULL),
                     OPTIONS_RUN);
    assert_int_equal(config.shard_count, 3);
    assert_string_equal(config.shard_list[1], "tcp://b:2");
    assert_string_equal(config.shard_list[2], "tcp://c:3");
    agent_config_fini(&config);
}

static void values_that_cannot_be_are_refused_by_the_options_name(void **state)
{
    (void)state;
    refused("--shards=,", "--shards");
    refused("--event=clock", "--event");
    refused("--ring-bytes=12345", "--ring-bytes");
    refused("--log-level=loud", "--log-level");
}

static void a_node_name_is_printable_utf8(void **state)
{
    (void)state;
    refused("--node=a\xff", "--node: 'a\\xff'");
    refused("--node=a\nb", "--node: 'a\\x0ab'");
    struct agent_config config;
    assert_int_equal(read_config("--node=k\xc3\xb6ln-1", NULL, NULL, &config, NULL), OPTIONS_RUN);
    assert_string_equal(config.node, "k\xc3\xb6ln-1");
    agent_config_fini(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_are_those_the_manual_names),
        cmocka_unit_test(shards_are_split_at_commas_and_spaces),
        cmocka_unit_test(values_that_cannot_be_are_refused_by_the_options_name),
        cmocka_unit_test(a_node_name_is_printable_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
