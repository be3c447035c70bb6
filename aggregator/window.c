#include "aggregator/window.h"

#include "common/xalloc.h"

#include <stdlib.h>
#include <string.h>

void windows_init(struct windows *windows, uint64_t limit_bytes, uint64_t retention_ms,
                  window_drop_fn on_drop, void *ctx)
{
    *windows = (struct windows){
        .limit_bytes = limit_bytes, .retention_ms = retention_ms, .on_drop = on_drop, .ctx = ctx};
}

static void free_bucket(struct windows *windows, struct window_bucket *bucket)
{
    while (bucket->first) {
        struct window_chunk *next = bucket->first->next;
        windows->used_bytes -= sizeof(*bucket->first) + bucket->first->room_bytes;
        free(bucket->first);
        bucket->first = next;
    }
    windows->row_count -= bucket->row_count;
    windows->used_bytes -= sizeof(*bucket);
    free(bucket);
}

void windows_fini(struct windows *windows)
{
    for (uint32_t i = 0; i < windows->bucket_count; i++)
        free_bucket(windows, windows->buckets[i]);
    free(windows->buckets);
    *windows = (struct windows){0};
}

/* ---- buckets ---- */

/* The first bucket that is not before (start_ms, kind). */
static uint32_t lower_bound(const struct windows *windows, uint64_t start_ms, uint32_t kind)
{
    uint32_t low = 0, high = windows->bucket_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct window_bucket *bucket = windows->buckets[middle];
        if (bucket->start_ms < start_ms || (bucket->start_ms == start_ms && bucket->kind < kind))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t windows_first_in_range(const struct windows *windows, uint64_t from_ms)
{
    return lower_bound(windows, window_bucket_start_ms(from_ms), 0);
}

struct window_bucket *windows_bucket(struct windows *windows, uint32_t kind, uint64_t time_ms)
{
    uint64_t start_ms = window_bucket_start_ms(time_ms);
    if (windows->recent && windows->recent->start_ms == start_ms && windows->recent->kind == kind)
        return windows->recent;
    uint32_t at = lower_bound(windows, start_ms, kind);
    if (at < windows->bucket_count && windows->buckets[at]->start_ms == start_ms &&
        windows->buckets[at]->kind == kind)
        return windows->recent = windows->buckets[at];
    if (windows->bucket_count == windows->bucket_room) {
        windows->bucket_room = windows->bucket_room ? windows->bucket_room * 2 : 128;
        windows->buckets = xrealloc_array(windows->buckets, windows->bucket_room, sizeof(*windows->buckets));
    }
    struct window_bucket *bucket = xcalloc(1, sizeof(*bucket));
    bucket->start_ms = start_ms;
    bucket->kind = kind;
    memmove(windows->buckets + at + 1, windows->buckets + at,
            (windows->bucket_count - at) * sizeof(*windows->buckets));
    windows->buckets[at] = bucket;
    windows->bucket_count++;
    windows->used_bytes += sizeof(*bucket);
    return windows->recent = bucket;
}

/* ---- rows ---- */

static char *room(struct windows *windows, struct window_bucket *bucket, uint32_t bytes)
{
    struct window_chunk *last = bucket->last;
    if (!last || last->room_bytes - last->used_bytes < bytes) {
        uint32_t room_bytes = last ? last->room_bytes * 2 : WINDOW_FIRST_BYTES;
        if (room_bytes > WINDOW_CHUNK_BYTES)
            room_bytes = WINDOW_CHUNK_BYTES;
        if (room_bytes < bytes)
            room_bytes = bytes;
        struct window_chunk *chunk = xmalloc(sizeof(*chunk) + room_bytes);
        *chunk = (struct window_chunk){.room_bytes = room_bytes};
        windows->used_bytes += sizeof(*chunk) + room_bytes;
        if (last)
            last->next = chunk;
        else
            bucket->first = chunk;
        bucket->last = last = chunk;
    }
    char *place = last->data + last->used_bytes;
    last->used_bytes += bytes;
    return place;
}

_Static_assert(8 + WINDOW_SEGMENT_ROWS * 10 <= WINDOW_CHUNK_BYTES, "a segment fits a chunk");

struct window_segment windows_add(struct windows *windows, struct window_bucket *bucket, uint32_t series,
                                  uint32_t row_count)
{
    uint32_t *head = (uint32_t *)(void *)room(windows, bucket, window_segment_bytes(row_count));
    head[0] = series;
    head[1] = row_count;
    bucket->segment_count++;
    bucket->row_count += row_count;
    windows->row_count += row_count;
    uint16_t *count = (uint16_t *)(void *)(head + 2 + 2 * (size_t)row_count);
    if (row_count & 1)
        count[row_count] = 0; /* padding: defined bytes */
    return (struct window_segment){.series = series,
                                   .row_count = row_count,
                                   .node = head + 2,
                                   .value = head + 2 + row_count,
                                   .count = count};
}

void windows_add_row(struct windows *windows, struct window_bucket *bucket, uint32_t series, uint32_t node,
                     uint64_t value, uint64_t count)
{
    do {
        struct window_segment segment = windows_add(windows, bucket, series, 1);
        uint32_t value_part = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
        uint16_t count_part = count > UINT16_MAX ? UINT16_MAX : (uint16_t)count;
        segment.node[0] = node;
        segment.value[0] = value_part;
        segment.count[0] = count_part;
        value -= value_part;
        count -= count_part;
    } while (value || count);
}

/* ---- dropping ---- */

static void drop_oldest(struct windows *windows, enum window_drop why)
{
    struct window_bucket *bucket = windows->buckets[0];
    uint64_t start_ms = bucket->start_ms;
    if (windows->recent == bucket)
        windows->recent = NULL;
    windows->bucket_count--;
    memmove(windows->buckets, windows->buckets + 1, windows->bucket_count * sizeof(*windows->buckets));
    free_bucket(windows, bucket);
    if (windows->on_drop)
        windows->on_drop(start_ms, why, windows->ctx);
}

void windows_trim(struct windows *windows, uint64_t now_ms)
{
    while (windows->bucket_count &&
           windows->buckets[0]->start_ms + WINDOW_BUCKET_MS + windows->retention_ms <= now_ms)
        drop_oldest(windows, WINDOW_DROP_EXPIRED);
    while (windows->bucket_count && windows->used_bytes > windows->limit_bytes) {
        /* All kinds of the time: the books know windows, not kinds. */
        uint64_t start_ms = windows->buckets[0]->start_ms;
        while (windows->bucket_count && windows->buckets[0]->start_ms == start_ms)
            drop_oldest(windows, WINDOW_DROP_BYTES);
    }
}
