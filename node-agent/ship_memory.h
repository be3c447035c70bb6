/* ship_memory: what the shipper remembers of its talk with the shard: which windows were acknowledged (a
 * shard that starts with empty hands learns from the Hello what it lacks) and which packs were asked for
 * lately.
 * Limits:    SHIP_ACKED_MAX windows of at most SHIP_ACKED_MS; SHIP_WANTS_MAX executables (the oldest is
 *            forgotten, which costs one more question).
 * Units:     ms; wall clock for windows, monotonic for wants.
 * Threads:   one.
 * Errors:    none. */
#ifndef NODE_AGENT_SHIP_MEMORY_H
#define NODE_AGENT_SHIP_MEMORY_H

#include "common/stackset.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHIP_ACKED_MAX 360u
#define SHIP_ACKED_MS  (3600u * 1000u)
#define SHIP_WANTS_MAX 512u

struct ship_acked {
    uint64_t window_start_ms, sample_count, shard_epoch;
};
/* Zero-initialised is empty. */
struct ship_acked_list {
    struct ship_acked items[SHIP_ACKED_MAX]; /* a ring */
    size_t first, count;
};
void ship_acked_add(struct ship_acked_list *list, struct ship_acked acked);
/* The windows that began within SHIP_ACKED_MS before now, oldest first, as the Hello's three columns of
 * SHIP_ACKED_MAX each. Returns how many. */
size_t ship_acked_columns(const struct ship_acked_list *list, uint64_t now_wall_ms, uint64_t *start_ms,
                          uint64_t *sample_count, uint64_t *shard_epoch);

struct ship_wants {
    struct ship_want {
        uint8_t id[EXECUTABLE_ID_BYTES];
        uint8_t id_bytes; /* 0: unused */
        uint64_t asked_ms;
    } items[SHIP_WANTS_MAX];
    size_t next;
};
/* True when this id (1 to EXECUTABLE_ID_BYTES bytes) was not asked for in the last quiet_ms; it is noted
 * then. */
bool ship_wants_first(struct ship_wants *wants, const void *id, size_t id_bytes, uint64_t now_ms,
                      uint64_t quiet_ms);

#endif
