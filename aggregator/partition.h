/* partition: the part of a shard's state that one worker owns: the nodes routed to it and all they sent.
 * Rules:     a node is in exactly one partition (wire_route % count), so partitions add up and never overlap.
 * Limits:    struct partition_settings (already divided by the number of partitions).
 * Threads:   the worker's only; questions run on it as jobs (crew.h). */
#ifndef AGGREGATOR_PARTITION_H
#define AGGREGATOR_PARTITION_H

#include "aggregator/dictionary.h"
#include "aggregator/roster.h"
#include "aggregator/session.h"
#include "aggregator/symbol_pack.h"
#include "aggregator/window.h"

#include "common/metrics.h"

#define PARTITION_SKEW_MS    (5u * 60 * 1000)
#define PARTITION_SESSION_MS (15u * 60 * 1000) /* a silent agent's session is dropped */
#define PARTITION_NODE_MS    (60u * 60 * 1000) /* a silent node is forgotten, if its windows are gone too */

struct partition_settings {
    const char *shard; /* this shard's link address; borrowed */
    uint64_t shard_epoch;
    uint32_t index, count; /* of the partitions of the shard */
    struct dictionary_limits dictionary;
    uint32_t nodes;
    uint64_t window_bytes, retention_ms;
    uint64_t session_bytes; /* of all sessions together: over it the largest end */
};

struct partition {
    struct partition_settings settings;
    struct dictionary dictionary;
    struct windows windows;
    struct roster roster;
    struct table sessions; /* session id -> roster index */
    uint32_t session_count;
    uint64_t session_bytes;
    struct symbol_packs *packs;
    uint64_t compact_after_ms;
    uint64_t forgotten_ms; /* when old ledger entries were last dropped */
    uint64_t skewed_batches;
    struct partition_metrics {
        struct metric *batches, *duplicates, *rows, *samples, *refused, *no_session, *skewed,
            *dictionary_full, *compactions, *expired_samples, *window_bytes_samples, *rivals,
            *ledger_mismatch, *ended_sessions;
        struct metric *window_bytes, *window_rows, *dictionary_bytes, *stacks, *series, *nodes, *sessions,
            *session_bytes;
    } metrics;
};

struct partition *partition_new(const struct partition_settings *settings, struct symbol_packs *packs);
void partition_free(struct partition *partition);

/* Retention, byte limits, silent agents, gauges: about once a second. */
void partition_tend(struct partition *partition, uint64_t now_ms);

/* Sessions by id: NULL when there is none. */
struct session *partition_session(struct partition *partition, uint64_t id);
/* Takes session; the node's one before it is dropped. */
void partition_put_session(struct partition *partition, struct session *session);
void partition_drop_session(struct partition *partition, uint32_t node);
/* Call when a session has grown. The largest sessions end (agents get NO_SESSION and send again what their
 * next window needs) until the limit holds; this one may be among them. */
void partition_limit_sessions(struct partition *partition, struct session *grown);

/* Throws out of the dictionary what no window refers to any more; all sessions end (agents get NO_SESSION
 * and send their dictionaries again). */
void partition_compact(struct partition *partition, uint64_t now_ms);

#endif
