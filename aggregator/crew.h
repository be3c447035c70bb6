/* crew: the worker threads of a shard. Each owns one partition; agents' messages and questions reach it
 * through its inbox, so nothing on the way of a sample takes a lock.
 * Rules:   a job runs once on every partition, between messages. The one who asked waits with a deadline;
 *          when it is over he leaves, the job is abandoned: partitions that have not begun skip it, those
 *          that have finish into memory that the job owns until the last one lets go.
 * Limits:  CREW_MAX_WORKERS; each inbox CREW_INBOX messages, all together CREW_INBOX_BYTES.
 * Threads: crew_take and crew_ask from any but the workers; the rest from one.
 * Errors:  crew_ask: -ETIMEDOUT, -EAGAIN (an inbox is full), -ECANCELED (closing). */
#ifndef AGGREGATOR_CREW_H
#define AGGREGATOR_CREW_H

#include "aggregator/partition.h"
#include "common/err.h"
#include "common/link.h"

#include <stdint.h>

#define CREW_MAX_WORKERS 64u
#define CREW_INBOX       1024u
#define CREW_INBOX_BYTES (256u << 20) /* of requests waiting for all workers together */
#define CREW_STUCK_MS    20000u       /* a worker that made no progress for so long is taken for dead */

struct crew;
struct crew_settings {
    unsigned worker_count;
    struct partition_settings partition; /* limits of the whole shard: divided here */
};

struct crew *crew_open(const struct crew_settings *settings, struct symbol_packs *packs);
/* Joins the threads; what waits in the inboxes is never replied to (close the link server before
 * crew_free). */
void crew_stop(struct crew *crew);
void crew_free(struct crew *crew); /* after crew_stop. NULL is fine */
unsigned crew_count(const struct crew *crew);

/* A Hello or Batch for the partition of route; taken over, replied to by the worker. -EAGAIN: not taken. */
int crew_take(struct crew *crew, struct link_request *request, uint64_t route);

/* What a question does on one partition; index of the partition. Must not block. */
typedef void (*crew_run_fn)(struct partition *partition, unsigned index, void *ctx);
typedef void (*crew_free_fn)(void *ctx);
/* Runs run on all partitions. ctx belongs to the job from here on: 0 means all ran and ctx is the caller's
 * again (free_ctx was not and will not be called); on error free_ctx(ctx) is called by whoever is last. */
int crew_ask(struct crew *crew, crew_run_fn run, void *ctx, crew_free_fn free_ctx, uint64_t deadline_mono_ns);

/* 0, or -ETIME with text: a worker has not come back to its inbox for CREW_STUCK_MS. */
int crew_health(const struct crew *crew, uint64_t now_mono_ns, struct err *err);

#endif
