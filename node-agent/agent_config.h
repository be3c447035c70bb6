/* agent_config: the agent's settings from file and command line.
 * Errors: -EINVAL with the option and what is allowed.  Threads: one. */
#ifndef NODE_AGENT_AGENT_CONFIG_H
#define NODE_AGENT_AGENT_CONFIG_H

#include "common/err.h"
#include "common/options.h"

#include <stdbool.h>
#include <stdint.h>

#define AGENT_MAX_SHARDS 256u

struct agent_config {
    char *node;
    char *shards;
    char *http;
    char *event;
    char *cpus;
    char *log_level;
    uint64_t hz;
    uint64_t window_ms;
    uint64_t queue_bytes;
    uint64_t ring_bytes;

    char **shard_list;
    size_t shard_count;
};

/* Returns OPTIONS_RUN, OPTIONS_EXIT or a negative error. */
int agent_config_read(int argc, char **argv, struct agent_config *ret_config, struct err *err);
void agent_config_fini(struct agent_config *config);

#endif
