#include "aggregator/shard_config.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int read_config(struct shard_config *config, struct err *err, const char *a, const char *b,
                       const char *c)
{
    char *argv[] = {(char *)(uintptr_t) "aggregator", (char *)(uintptr_t)a, (char *)(uintptr_t)b,
                    (char *)(uintptr_t)c, NULL};
    int argc = 1 + (a != NULL) + (b != NULL) + (c != NULL);
    return shard_config_read(argc, argv, config, err);
}

static void without_options_it_is_the_only_shard(void **state)
{
    (void)state;
    struct shard_config config;
    struct err err = {0};
    assert_int_equal(read_config(&config, &err, NULL, NULL, NULL), 0);
    assert_string_equal(config.http, "127.0.0.1:4040");
    assert_int_equal(config.address_count, 1);
    assert_string_equal(config.addresses[0], "tcp://127.0.0.1:4140");
    assert_int_equal(config.self_index, 0);
    assert_int_equal(config.retention_ms, 900000);
    assert_int_equal(config.window_bytes, 512u << 20);
    assert_in_range(config.workers, 1, 64);
    shard_config_fini(&config);
}

static void it_finds_itself_in_the_list(void **state)
{
    (void)state;
    struct shard_config config;
    struct err err = {0};
    assert_int_equal(
        read_config(&config, &err, "--shards=tcp://a:1, tcp://b:1,,tcp://c:1", "--link=tcp://b:1", NULL), 0);
    assert_int_equal(config.address_count, 3);
    assert_int_equal(config.self_index, 1);
    shard_config_fini(&config);
    assert_int_equal(read_config(&config, &err, "--shards=tcp://a:1,tcp://b:1", "--link=tcp://0.0.0.0:1",
                                 "--self=tcp://a:1"),
                     0);
    assert_int_equal(config.self_index, 0);
    assert_string_equal(config.link, "tcp://0.0.0.0:1");
    shard_config_fini(&config);
}

static void contradictions_are_refused_with_a_reason(void **state)
{
    (void)state;
    const char *const cases[][2] = {{"--shards=tcp://a:1", "--link=tcp://b:1"},
                                    {"--shards=tcp://a:1,tcp://a:1", "--self=tcp://a:1"},
                                    {"--workers=65", NULL},
                                    {"--retention=1s", NULL},
                                    {"--log-level=loud", NULL}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct shard_config config;
        struct err err = {0};
        assert_int_equal(read_config(&config, &err, cases[i][0], cases[i][1], NULL), -EINVAL);
        assert_true(strlen(err.text) > 10);
        shard_config_fini(&config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_options_it_is_the_only_shard),
        cmocka_unit_test(it_finds_itself_in_the_list),
        cmocka_unit_test(contradictions_are_refused_with_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
