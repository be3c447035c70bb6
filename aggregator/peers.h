/* peers: the shards of the fleet as one of them sees the others: one request to many, their replies
 * gathered until a deadline.
 * Shapes:  shards are numbered by their place in the list that all shards have alike; sets of them are bit
 *          masks.
 * Rules:   a shard that could not be connected to is given PEERS_DOWN_MS, not the whole time, for the next
 *          PEERS_REMEMBER_MS: questions of a fleet with a dead shard stay fast.
 * Limits:  PEERS_MAX shards.
 * Threads: any.
 * Errors:  per shard: those of link_call; -ECANCELED for those that were still out when the asker left. */
#ifndef AGGREGATOR_PEERS_H
#define AGGREGATOR_PEERS_H

#include "common/buf.h"
#include "common/err.h"

#include <stddef.h>
#include <stdint.h>

#define PEERS_MAX         64u
#define PEERS_DOWN_MS     200
#define PEERS_REMEMBER_MS 10000u

struct peers;
/* addresses are copied. self: my own number. */
int peers_open(const char *const *addresses, size_t count, size_t self, struct peers **ret_peers,
               struct err *err);
void peers_close(struct peers *peers); /* NULL is fine */
size_t peers_count(const struct peers *peers);
size_t peers_self(const struct peers *peers);
const char *peers_address(const struct peers *peers, size_t shard);
const char *const *peers_addresses(const struct peers *peers);

/* The shard that keeps an executable's symbol pack. */
size_t peers_keeper(const struct peers *peers, const void *executable_id, size_t bytes);

/* ---- one request to the shards in mask (my own bit is ignored) ---- */
struct gather;
struct gather *gather_send(struct peers *peers, uint64_t mask, const struct buf *message,
                           uint64_t deadline_mono_ns);
/* Until all are in or the deadline is over. */
void gather_wait(struct gather *gather);
/* After gather_wait: 0 and the reply (borrowed until gather_free), or why there is none. */
int gather_reply(const struct gather *gather, size_t shard, const void **ret_data, size_t *ret_bytes);
void gather_free(struct gather *gather); /* NULL is fine; replies that still come are thrown away */

/* One request to one other shard; the reply is the caller's (free). Blocks. */
int peers_call(struct peers *peers, size_t shard, const struct buf *message, int timeout_ms, void **ret_data,
               size_t *ret_bytes);

#endif
