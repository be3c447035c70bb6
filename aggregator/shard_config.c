#include "aggregator/shard_config.h"

#include "common/options.h"
#include "common/str.h"
#include "common/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(field) offsetof(struct shard_config, field)
#define GIB       (1ULL << 30)
#define MIB       (1ULL << 20)
#define HOUR_MS   3600000ULL

static const struct option_def DEFS[] = {
    {.name = "http",
     .type = OPTION_STRING,
     .offset = AT(http),
     .fallback = "127.0.0.1:4040",
     .argument = "HOST:PORT",
     .help = "where questions are answered over HTTP"},
    {.name = "link",
     .type = OPTION_STRING,
     .offset = AT(link),
     .fallback = "tcp://127.0.0.1:4140",
     .argument = "tcp://HOST:PORT",
     .help = "where agents and other shards connect"},
    {.name = "shards",
     .type = OPTION_STRING,
     .offset = AT(shards),
     .argument = "ADDRESS,...",
     .help = "link addresses of all shards, the same list on each (default: this one alone)"},
    {.name = "self",
     .type = OPTION_STRING,
     .offset = AT(self),
     .argument = "ADDRESS",
     .help = "which of --shards this is (default: the one equal to --link)"},
    {.name = "workers",
     .type = OPTION_UINT,
     .offset = AT(workers),
     .fallback = "0",
     .min = 0,
     .max = 64,
     .argument = "N",
     .help = "worker threads; 0: one per CPU"},
    {.name = "retention",
     .type = OPTION_DURATION,
     .offset = AT(retention_ms),
     .fallback = "15m",
     .min = 60000,
     .max = 24 * HOUR_MS,
     .argument = "TIME",
     .help = "how long windows are kept in memory"},
    {.name = "window-bytes",
     .type = OPTION_BYTES,
     .offset = AT(window_bytes),
     .fallback = "512M",
     .min = MIB,
     .max = 1024 * GIB,
     .argument = "BYTES",
     .help = "memory for windows; over it the oldest go, counted"},
    {.name = "pack-bytes",
     .type = OPTION_BYTES,
     .offset = AT(pack_bytes),
     .fallback = "256M",
     .min = MIB,
     .max = 64 * GIB,
     .argument = "BYTES",
     .help = "memory for symbol packs; over it the least used go"},
    {.name = "query-timeout",
     .type = OPTION_DURATION,
     .offset = AT(query_timeout_ms),
     .fallback = "2s",
     .min = 50,
     .max = 60000,
     .argument = "TIME",
     .help = "how long a question waits for other shards"},
    {.name = "max-nodes",
     .type = OPTION_UINT,
     .offset = AT(max_nodes),
     .fallback = "20000",
     .min = 1,
     .max = 1000000,
     .argument = "N",
     .help = "nodes (agents) this shard takes"},
    {.name = "max-stacks",
     .type = OPTION_UINT,
     .offset = AT(max_stacks),
     .fallback = "8000000",
     .min = 1000,
     .max = 256000000,
     .argument = "N",
     .help = "distinct call-tree nodes in memory; over it: \"[stack lost: dictionary_full]\""},
    {.name = "max-series",
     .type = OPTION_UINT,
     .offset = AT(max_series),
     .fallback = "1000000",
     .min = 100,
     .max = 16000000,
     .argument = "N",
     .help = "distinct label sets in memory; over it: the node's remainder series"},
    {.name = "log-level",
     .type = OPTION_STRING,
     .offset = AT(log_level),
     .fallback = "info",
     .argument = "LEVEL",
     .help = "error, warn, info or debug"},
    {.name = NULL},
};

static const struct options_program PROGRAM = {
    .name = "aggregator",
    .summary = "Merges what fleetprof node-agents stream and answers for the whole fleet.",
    .usage = "[OPTION]...",
    .defs = DEFS,
};

static int split_shards(struct shard_config *config, struct err *err)
{
    const char *at = config->shards && config->shards[0] ? config->shards : config->link;
    while (*at) {
        size_t bytes = strcspn(at, ", ");
        if (bytes > 0) {
            if (config->address_count == SHARD_CONFIG_SHARDS)
                return err_say(err, -EINVAL, "--shards: at most %u", SHARD_CONFIG_SHARDS);
            char *address = xmemdup_text(at, bytes);
            config->addresses[config->address_count++] = address;
            for (size_t i = 0; i + 1 < config->address_count; i++)
                if (strcmp(config->addresses[i], address) == 0)
                    return err_say(err, -EINVAL, "--shards: %s is there twice", address);
        }
        at += bytes;
        at += strspn(at, ", ");
    }
    return 0;
}

static int find_self(struct shard_config *config, struct err *err)
{
    const char *self = config->self ? config->self : config->link;
    for (size_t i = 0; i < config->address_count; i++) {
        if (strcmp(config->addresses[i], self) == 0) {
            config->self_index = i;
            return 0;
        }
    }
    return err_say(err, -EINVAL, "%s is not in --shards: say with --self which of them this shard is", self);
}

int shard_config_read(int argc, char **argv, struct shard_config *config, struct err *err)
{
    *config = (struct shard_config){0};
    int rc = options_read(&PROGRAM, argc, argv, config, NULL, NULL, err);
    if (rc != OPTIONS_RUN)
        return rc;
    if (log_level_parse(config->log_level, &config->level) < 0)
        return err_say(err, -EINVAL, "--log-level: error, warn, info or debug");
    rc = split_shards(config, err);
    if (rc == 0)
        rc = find_self(config, err);
    if (config->workers == 0) {
        long cpus = sysconf(_SC_NPROCESSORS_ONLN);
        config->workers = cpus < 1 ? 1 : cpus > 64 ? 64 : (uint64_t)cpus;
    }
    return rc;
}

void shard_config_fini(struct shard_config *config)
{
    for (size_t i = 0; i < config->address_count; i++)
        free(config->addresses[i]);
    options_fini(&PROGRAM, config);
    *config = (struct shard_config){0};
}
