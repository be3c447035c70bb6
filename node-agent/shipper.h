/* shipper: sealed windows -> acknowledged by the shard this node belongs to; symbol packs on the shards' wish.
 * Rules:    one batch under way at a time, in sequence order; a batch leaves the queue when its Ack says STORED or
 *           REFUSED (counted); RETRY and failures wait with back-off and jitter; NO_SESSION opens a new session and encodes
 *           the same window again under the same sequence number. The shard is hashring_pick(node, shards).
 * Limits:   queue_bytes of waiting windows: over it the oldest are dropped, their samples counted as lost
 *           "queue_full" in the next batch's ledger.
 * Threads:  the loop's; shipper_put from any (an inbox inside).
 * Errors:   shipper_open: -EINVAL for the address list, with text. */
#ifndef NODE_AGENT_SHIPPER_H
#define NODE_AGENT_SHIPPER_H

#include "common/err.h"
#include "node-agent/tally.h"

#include <uv.h>

struct shipper_settings {
    const char *node;
    const char *const *shards; /* link addresses */
    size_t shard_count;
    uint64_t queue_bytes;
    /* For Hello. */
    const char *event;
    unsigned hz, cpus;
};

/* Figures that go with each batch and to /metrics; filled by the agent when asked. */
struct shipper_gauge {
    const char *name;
    uint64_t value;
};
typedef size_t (*shipper_gauges_fn)(struct shipper_gauge *out, size_t room, void *ctx);
/* A shard wants these packs (ids of id_bytes[i] each); the agent builds them off the loop and calls shipper_send_pack. */
typedef void (*shipper_want_fn)(const void *id, size_t id_bytes, void *ctx);

struct shipper;
int shipper_open(uv_loop_t *loop, const struct shipper_settings *settings, shipper_gauges_fn gauges,
                 shipper_want_fn on_want, void *ctx, struct shipper **ret_shipper, struct err *err);
void shipper_put(struct shipper *shipper, struct tally_window *window); /* takes it; any thread */
/* A packed WIRE_PACK message (bytes copied); from the loop. on_done(0) when stored. */
void shipper_send_pack(struct shipper *shipper, const void *message, size_t bytes, void (*on_done)(int rc, void *ctx), void *ctx);
/* Samples: put = acked + waiting + lost. */
struct shipper_ledger {
    uint64_t put_samples, acked_samples, waiting_samples, lost_samples; /* lost: queue_full + refused */
    uint64_t acked_batches, resent_batches, refused_batches, sent_bytes;
    uint64_t waiting_bytes;
    bool connected;
};
struct shipper_ledger shipper_ledger(const struct shipper *shipper);
/* Calls on_flushed when the queue is empty or after timeout_ms. */
void shipper_flush(struct shipper *shipper, uint64_t timeout_ms, void (*on_flushed)(void *ctx), void *ctx);
void shipper_close(struct shipper *shipper); /* frees in its handles' close callbacks; run the loop until it ends */

#endif
