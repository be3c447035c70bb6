/* shard: one aggregator: workers with their partitions, the desk, the links to agents and other shards, the
 * planner.
 * Threads: open and close from one; the rest from any.
 * Errors:  shard_open: those of link_server_open and peers_open, with text. */
#ifndef AGGREGATOR_SHARD_H
#define AGGREGATOR_SHARD_H

#include "aggregator/query.h"
#include "common/err.h"

#include <stddef.h>
#include <stdint.h>

#define SHARD_IN_FLIGHT 256u /* requests of agents and shards inside at once */

struct shard_settings {
    const char *listen;        /* "tcp://host:port" */
    const char *const *shards; /* all link addresses, the same list on every shard */
    size_t shard_count, self;  /* self: which of them I am */
    unsigned workers;          /* 1..64 */
    uint64_t retention_ms, window_bytes, pack_bytes, query_timeout_ms;
    uint32_t max_nodes;  /* agents */
    uint32_t max_stacks; /* distinct call-tree nodes; frames, strings, functions, sessions' bytes follow */
    uint32_t max_series;
};

struct shard;
int shard_open(const struct shard_settings *settings, struct shard **ret_shard, struct err *err);
/* Nobody may ask any more. NULL is fine. */
void shard_close(struct shard *shard);

struct query *shard_query(struct shard *shard);
/* 0, or negative with a text for the operator: a worker makes no progress. */
int shard_health(struct shard *shard, struct err *err);
/* 0 when questions and batches are taken. */
int shard_ready(struct shard *shard, struct err *err);

#endif
