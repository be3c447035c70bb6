/* window: the rows of one partition, by profile kind and time bucket, for as long as memory and retention
 * allow.
 * Shapes:    a bucket holds segments: runs of rows of one series, as they came, columns side by side (10
 *            bytes a row). A value over 32 bits or a count over 16 bits is split over several rows; rows
 *            are only ever added up.
 * Units:     values in profile units / scale (cpu: microseconds); times ms since 1970 of the shard's clock.
 * Limits:    bytes of all chunks together: over it the oldest buckets go; older than retention goes too.
 *            Whoever drops is told the bucket's time and why.
 * Ownership: caller's storage.   Threads: the partition's worker only. */
#ifndef AGGREGATOR_WINDOW_H
#define AGGREGATOR_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WINDOW_BUCKET_MS    10000u
#define WINDOW_SEGMENT_ROWS 4096u
#define WINDOW_CHUNK_BYTES  (256u << 10)
#define WINDOW_FIRST_BYTES                                                                                   \
    (16u                                                                                                     \
     << 10) /* a bucket's first chunk; the next double up to WINDOW_CHUNK_BYTES                          \
                 */

struct window_chunk {
    struct window_chunk *next;
    uint32_t used_bytes, room_bytes;
    char data[];
};

struct window_segment {
    uint32_t series, row_count;
    uint32_t *node, *value;
    uint16_t *count;
};

struct window_bucket {
    uint64_t start_ms;
    uint32_t kind; /* profile_kind.h */
    uint32_t segment_count;
    uint64_t row_count;
    struct window_chunk *first, *last;
};

enum window_drop { WINDOW_DROP_EXPIRED, WINDOW_DROP_BYTES };
typedef void (*window_drop_fn)(uint64_t bucket_start_ms, enum window_drop why, void *ctx);

struct windows {
    uint64_t limit_bytes, retention_ms;
    uint64_t used_bytes, row_count;
    struct window_bucket **buckets; /* by start, then kind */
    uint32_t bucket_count, bucket_room;
    struct window_bucket *recent; /* the one written to last */
    window_drop_fn on_drop;
    void *ctx;
};

void windows_init(struct windows *windows, uint64_t limit_bytes, uint64_t retention_ms,
                  window_drop_fn on_drop, void *ctx);
void windows_fini(struct windows *windows);

static inline uint64_t window_bucket_start_ms(uint64_t time_ms)
{
    return time_ms - time_ms % WINDOW_BUCKET_MS;
}

/* The bucket that time_ms falls into, made when needed. */
struct window_bucket *windows_bucket(struct windows *windows, uint32_t kind, uint64_t time_ms);
/* Room for row_count (1..WINDOW_SEGMENT_ROWS) rows of one series; the caller fills all columns before the
 * next call. */
struct window_segment windows_add(struct windows *windows, struct window_bucket *bucket, uint32_t series,
                                  uint32_t row_count);
/* One row, split when it is larger than a column holds: callers bound value and count. */
void windows_add_row(struct windows *windows, struct window_bucket *bucket, uint32_t series, uint32_t node,
                     uint64_t value, uint64_t count);

/* Drops what is too old and what is over the byte limit. Call after adding, and now and then. */
void windows_trim(struct windows *windows, uint64_t now_ms);

/* ---- reading ---- */
struct window_cursor {
    const struct window_chunk *chunk;
    uint32_t at_bytes;
};

static inline struct window_cursor window_cursor(const struct window_bucket *bucket)
{
    return (struct window_cursor){.chunk = bucket->first};
}

static inline uint32_t window_segment_bytes(uint32_t row_count)
{
    return 8 + row_count * 8 + ((row_count + 1) & ~1u) * 2;
}

static inline bool window_next(struct window_cursor *cursor, struct window_segment *ret_segment)
{
    while (cursor->chunk && cursor->at_bytes >= cursor->chunk->used_bytes) {
        cursor->chunk = cursor->chunk->next;
        cursor->at_bytes = 0;
    }
    if (!cursor->chunk)
        return false;
    /* Chunks are malloc'ed and segments are multiples of 4 bytes long: every column is aligned. */
    uint32_t *head = (uint32_t *)(void *)((char *)(uintptr_t)cursor->chunk->data + cursor->at_bytes);
    ret_segment->series = head[0];
    ret_segment->row_count = head[1];
    ret_segment->node = head + 2;
    ret_segment->value = head + 2 + head[1];
    ret_segment->count = (uint16_t *)(void *)(head + 2 + 2 * (size_t)head[1]);
    cursor->at_bytes += window_segment_bytes(head[1]);
    return true;
}

/* Index of the first bucket that reaches beyond from_ms; the range goes on while start_ms < to_ms. */
uint32_t windows_first_in_range(const struct windows *windows, uint64_t from_ms);

#endif
