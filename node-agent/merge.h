/* merge: records of several rings, kept until their time has come and handed out in order of time.
 * Shapes:    a record is bytes of the caller's with a time and a kind; at equal times the lower kind comes
 *            first, then the one added first.
 * Limits:    byte_limit of record bytes: merge_add refuses what is over it, nothing is dropped.
 * Threads:   one. */
#ifndef NODE_AGENT_MERGE_H
#define NODE_AGENT_MERGE_H

#include <stddef.h>
#include <stdint.h>

struct merge;

typedef void (*merge_record_fn)(unsigned kind, const void *record, size_t bytes, void *ctx);

struct merge *merge_new(void);
void merge_free(struct merge *merge);
void merge_set_limit(struct merge *merge, size_t byte_limit);
/* Bytes that merge_add will still take. */
size_t merge_room(const struct merge *merge);
/* Copies the record (8-aligned inside). -ENOSPC over the limit. */
int merge_add(struct merge *merge, uint64_t time_ns, unsigned kind, const void *record, size_t bytes);
/* Hands out, in order, all records whose time is <= until_ns; the rest stays. Records must not be added
 * meanwhile. */
void merge_deliver(struct merge *merge, uint64_t until_ns, merge_record_fn on_record, void *ctx);
size_t merge_count(const struct merge *merge);

#endif
