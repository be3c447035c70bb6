/* query_plan: what the questions' planners (query.c, query_top.c) share: who was asked, who answered.
 * Threads:   a plan belongs to the thread that asks. */
#ifndef AGGREGATOR_QUERY_PLAN_H
#define AGGREGATOR_QUERY_PLAN_H

#include "aggregator/answer.h"
#include "aggregator/peers.h"
#include "aggregator/query.h"

#include <stdatomic.h>

struct query {
    struct answers *answers;
    struct peers *peers;
    uint64_t timeout_ms;
    atomic_uint_fast64_t next_number;
};

struct plan {
    struct query *query;
    size_t shard_count, self;
    uint64_t alive; /* shards whose part of the answer is in, or may still come */
    struct completeness completeness;
};

void plan_init(struct plan *plan, struct query *query);
static inline uint64_t plan_bit(size_t shard)
{
    return 1ULL << shard;
}
uint64_t plan_deadline_ns(uint64_t timeout_ms);

/* Sends message to the living others; they have until deadline. */
struct gather *plan_send(struct plan *plan, const ProtobufCMessage *message, enum wire_type type,
                         uint64_t deadline_mono_ns);
/* One shard's reply, unpacked; NULL and no longer alive when there is none, or none that makes sense. */
ProtobufCMessage *plan_reply(struct plan *plan, const struct gather *gather, size_t shard,
                             enum wire_type type);
/* When nobody answered: -ETIMEDOUT, or -E2BIG when err says so already (of this shard's own part). */
int plan_check(const struct plan *plan, struct err *err);
void plan_completeness(const struct plan *plan, uint32_t kind, struct query_completeness *out);

/* A message to send that borrows everything from selection; -EINVAL for an unknown kind. */
struct plan_selection {
    Fleetprof__Selection message;
    Fleetprof__Matcher matchers[LABELS_MAX_MATCHERS];
    Fleetprof__Matcher *list[LABELS_MAX_MATCHERS];
    uint32_t kind;
};
int plan_selection(struct plan_selection *out, const struct query_selection *selection, struct err *err);

#endif
