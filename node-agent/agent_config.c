#include "node-agent/agent_config.h"

#include "common/log.h"
#include "common/str.h"
#include "common/xalloc.h"
#include "node-agent/rights.h"
#include "node-agent/sampler.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIELD(name) offsetof(struct agent_config, name)

static const struct option_def defs[] = {
    {.name = "node",
     .type = OPTION_STRING,
     .offset = FIELD(node),
     .argument = "NAME",
     .letter = 'n',
     .help = "name of this node; default: the host's name"},
    {.name = "shards",
     .type = OPTION_STRING,
     .offset = FIELD(shards),
     .fallback = "tcp://127.0.0.1:4140",
     .argument = "ADDRESS,...",
     .letter = 's',
     .help = "all aggregator shards; the node's name decides which one it streams to"},
    {.name = "hz",
     .type = OPTION_UINT,
     .offset = FIELD(hz),
     .fallback = "99",
     .min = SAMPLER_MIN_HZ,
     .max = SAMPLER_MAX_HZ,
     .argument = "HZ",
     .help = "samples per second and busy CPU; read again on SIGHUP"},
    {.name = "event",
     .type = OPTION_STRING,
     .offset = FIELD(event),
     .fallback = "cpu-clock",
     .argument = "NAME",
     .help = "sampling clock: cpu-clock, or cycles where the hardware counts them"},
    {.name = "window",
     .type = OPTION_DURATION,
     .offset = FIELD(window_ms),
     .fallback = "10s",
     .min = 1000,
     .max = 60000,
     .argument = "TIME",
     .help = "samples are counted and sent per window of this length"},
    {.name = "queue-bytes",
     .type = OPTION_BYTES,
     .offset = FIELD(queue_bytes),
     .fallback = "16M",
     .min = 1 << 16,
     .max = 1ULL << 34,
     .argument = "BYTES",
     .help = "memory for windows no shard has acknowledged yet; over it the oldest are dropped and counted"},
    {.name = "ring-bytes",
     .type = OPTION_BYTES,
     .offset = FIELD(ring_bytes),
     .fallback = "0",
     .max = 1 << 26,
     .argument = "BYTES",
     .help = "size of one kernel ring buffer, a power of two; 0: by the number of CPUs"},
    {.name = "cpus",
     .type = OPTION_STRING,
     .offset = FIELD(cpus),
     .argument = "LIST",
     .help = "CPUs to sample, such as 0-3,8; default: all that are online, new ones too"},
    {.name = "http",
     .type = OPTION_STRING,
     .offset = FIELD(http),
     .fallback = "127.0.0.1:7071",
     .argument = "HOST:PORT",
     .help = "where /metrics and /healthz are served; empty: nowhere"},
    {.name = "log-level",
     .type = OPTION_STRING,
     .offset = FIELD(log_level),
     .fallback = "info",
     .argument = "LEVEL",
     .help = "error, warn, info or debug"},
    {.name = NULL},
};

static const struct options_program program = {
    .name = "node-agent",
    .summary =
        "Samples every process of this machine with eBPF and streams the counted stacks to fleetprof shards.",
    .usage = "[OPTION]...",
    .footer = "Needs root, or " RIGHTS_TEXT ".\n"
              "SIGHUP reads --hz from the config file again; SIGTERM sends what is waiting, then ends.",
    .defs = defs,
};

static int split_shards(struct agent_config *config, struct err *err)
{
    config->shard_list = xcalloc(AGENT_MAX_SHARDS, sizeof(*config->shard_list));
    const char *at = config->shards ? config->shards : "";
    while (*at) {
        size_t bytes = strcspn(at, ", ");
        if (bytes > 0) {
            if (config->shard_count == AGENT_MAX_SHARDS)
                return err_say(err, -EINVAL, "--shards: more than %u addresses", AGENT_MAX_SHARDS);
            config->shard_list[config->shard_count++] = xmemdup_text(at, bytes);
        }
        at += bytes + (at[bytes] != '\0');
    }
    if (config->shard_count == 0)
        return err_say(err, -EINVAL, "--shards: at least one address such as tcp://127.0.0.1:4140 is needed");
    return 0;
}

/* It is a label value that every answer shows. */
static int check_node(const char *node, struct err *err)
{
    char shown[64];
    size_t bytes = strlen(node), at = 0;
    while (at < bytes) {
        size_t length = str_utf8_length(node + at, bytes - at);
        if (length == 0 || (unsigned char)node[at] < 0x20 || node[at] == 0x7f) {
            str_printable(shown, sizeof(shown), node, bytes);
            return err_say(err, -EINVAL, "--node: '%s' is not printable UTF-8", shown);
        }
        at += length;
    }
    return 0;
}

static int check(struct agent_config *config, struct err *err)
{
    enum log_level level;
    if (log_level_parse(config->log_level, &level) < 0)
        return err_say(err, -EINVAL, "--log-level: '%s' is not error, warn, info or debug",
                       config->log_level);
    log_init("node-agent", level);
    if (strcmp(config->event, "cpu-clock") != 0 && strcmp(config->event, "cycles") != 0)
        return err_say(err, -EINVAL, "--event: '%s' is not cpu-clock or cycles", config->event);
    if (config->ring_bytes & (config->ring_bytes - 1))
        return err_say(err, -EINVAL, "--ring-bytes: %llu is not a power of two",
                       (unsigned long long)config->ring_bytes);
    if (!config->node || !config->node[0]) {
        char host[256] = "";
        if (gethostname(host, sizeof(host) - 1) == -1)
            return err_set(err, -errno, "read the host's name (or give --node)");
        free(config->node);
        config->node = xstrdup(host);
    }
    int rc = check_node(config->node, err);
    return rc < 0 ? rc : split_shards(config, err);
}

int agent_config_read(int argc, char **argv, struct agent_config *ret_config, struct err *err)
{
    *ret_config = (struct agent_config){.hz = 0};
    int rc = options_read(&program, argc, argv, ret_config, NULL, NULL, err);
    return rc == OPTIONS_RUN ? check(ret_config, err) : rc;
}

void agent_config_fini(struct agent_config *config)
{
    for (size_t i = 0; i < config->shard_count; i++)
        free(config->shard_list[i]);
    free(config->shard_list);
    options_fini(&program, config);
}
