/* shard_config: the settings of the aggregator program, from the command line and the config file.
 * Ownership: shard_config_fini frees what shard_config_read made.
 * Errors:    as options_read; also -EINVAL when --self cannot be found among --shards. */
#ifndef AGGREGATOR_SHARD_CONFIG_H
#define AGGREGATOR_SHARD_CONFIG_H

#include "common/err.h"
#include "common/log.h"

#include <stddef.h>
#include <stdint.h>

#define SHARD_CONFIG_SHARDS 64u

struct shard_config {
    char *http, *link, *shards, *self, *log_level;
    uint64_t workers; /* 0: as many as CPUs */
    uint64_t retention_ms, window_bytes, pack_bytes, query_timeout_ms, max_nodes, max_stacks, max_series;
    /* Worked out. */
    enum log_level level;
    char *addresses[SHARD_CONFIG_SHARDS];
    size_t address_count, self_index;
};

/* OPTIONS_RUN, OPTIONS_EXIT or negative (options.h). */
int shard_config_read(int argc, char **argv, struct shard_config *config, struct err *err);
void shard_config_fini(struct shard_config *config);

#endif
