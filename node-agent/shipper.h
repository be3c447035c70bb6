/* shipper: sealed windows -> acknowledged by the shard this node belongs to; symbol packs on its wish.
 * Rules:    one batch under way at a time, in sequence order; a batch leaves the queue when its Ack says
 *           STORED or REFUSED (counted); RETRY and failures wait with back-off and jitter. After anything but
 *           STORED a new session is opened and the same window encoded again under the same sequence number;
 *           the HelloReply says what the shard has already. An unreadable batch (WIRE_REFUSAL) is tried
 *           twice, then counted as refused; a shard of another wire version is asked again with back-off and
 *           windows wait. The shard is hashring_pick(node, shards).
 * Limits:   queue_bytes of waiting windows (ship_queue.h): over it the oldest are dropped, their samples
 *           counted as lost "queue_full" in the next batch's ledger. SHIPPER_PACKS_BYTES and
 *           SHIPPER_PACKS_COUNT of waiting packs, two of them under way. SHIPPER_CALL_MS for each call.
 * Threads:  the loop's; shipper_put from any (an inbox inside).
 * Errors:   shipper_open: -EINVAL for settings and the address list, with text. */
#ifndef NODE_AGENT_SHIPPER_H
#define NODE_AGENT_SHIPPER_H

#include "common/err.h"
#include "node-agent/tally.h"

#include <stdbool.h>
#include <uv.h>

#define SHIPPER_CALL_MS      5000u
#define SHIPPER_RETRY_MIN_MS 200u
#define SHIPPER_RETRY_MAX_MS 10000u
#define SHIPPER_PACKS_BYTES  (8u << 20)
#define SHIPPER_PACKS_COUNT  256u
#define SHIPPER_GAUGES_MAX   48u    /* of the agent, in each batch */
#define SHIPPER_WANT_MS      30000u /* on_want runs at most once in this time for an executable */
#define SHIPPER_NODE_BYTES   253u   /* longest node name */

struct shipper_settings {
    const char *node;
    const char *const *shards; /* link addresses */
    size_t shard_count;
    uint64_t queue_bytes;
    unsigned call_ms; /* 0: SHIPPER_CALL_MS */
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
/* The shard wants the pack of this executable; the agent builds it off the loop and calls
 * shipper_send_pack. */
typedef void (*shipper_want_fn)(const void *id, size_t id_bytes, void *ctx);

struct shipper;
/* The settings are copied. gauges and on_want may be NULL. */
int shipper_open(uv_loop_t *loop, const struct shipper_settings *settings, shipper_gauges_fn gauges,
                 shipper_want_fn on_want, void *ctx, struct shipper **ret_shipper, struct err *err);
void shipper_put(struct shipper *shipper, struct tally_window *window); /* takes it; any thread */

/* 0 stored; -EAGAIN too many packs waiting (on_done runs inside the call then) or the shard said RETRY;
 * -EMSGSIZE (inside the call); -EPERM refused; -ECANCELED closing; others: the call failed. */
typedef void (*shipper_pack_fn)(int rc, void *ctx);
/* A packed WIRE_PACK message (bytes copied); from the loop. It is sent once, when the shard is there; after a
 * failure the shard asks again. Packs share the connection with the batches: keep one to about 1 MiB. */
void shipper_send_pack(struct shipper *shipper, const void *message, size_t bytes, shipper_pack_fn on_done,
                       void *ctx);

/* Samples: put = acked + waiting + lost. */
struct shipper_ledger {
    uint64_t put_samples, acked_samples, waiting_samples, lost_samples; /* lost: queue_full + refused */
    uint64_t acked_batches, resent_batches, refused_batches, sent_bytes;
    uint64_t waiting_bytes;
    bool connected; /* the shard accepted a Hello and no call failed since */
};
struct shipper_ledger shipper_ledger(const struct shipper *shipper);

/* Calls on_flushed once, later, when the queue is empty or after timeout_ms. Waiting for a retry is cut
 * short meanwhile. */
void shipper_flush(struct shipper *shipper, uint64_t timeout_ms, void (*on_flushed)(void *ctx), void *ctx);
/* No shipper_put may run any more. May be called from any of the callbacks. Frees in its handles' close
 * callbacks: run the loop until it ends. NULL is fine. */
void shipper_close(struct shipper *shipper);

#endif
