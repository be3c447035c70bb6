#include "node-agent/merge.h"

#include "common/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What stays allocated after a burst. */
#define KEEP_BYTES (256u << 10)
#define KEEP_ITEMS 4096u

struct item {
    uint64_t time_ns;
    size_t offset;
    uint32_t bytes;
    uint32_t kind;
};

struct merge {
    uint8_t *bytes;
    size_t used, capacity, limit;
    struct item *items;
    size_t item_count, item_capacity;
};

static size_t aligned(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

struct merge *merge_new(void)
{
    return xcalloc(1, sizeof(struct merge));
}

void merge_free(struct merge *merge)
{
    if (!merge)
        return;
    free(merge->bytes);
    free(merge->items);
    free(merge);
}

void merge_set_limit(struct merge *merge, size_t byte_limit)
{
    merge->limit = byte_limit;
}

size_t merge_room(const struct merge *merge)
{
    return merge->limit > merge->used ? merge->limit - merge->used : 0;
}

size_t merge_count(const struct merge *merge)
{
    return merge->item_count;
}

static void make_room(struct merge *merge, size_t bytes)
{
    if (!merge->bytes || merge->used + bytes > merge->capacity) {
        size_t capacity = merge->capacity ? merge->capacity : KEEP_BYTES / 4;
        while (capacity < merge->used + bytes)
            capacity *= 2;
        merge->bytes = xrealloc_array(merge->bytes, capacity, 1);
        merge->capacity = capacity;
    }
    if (merge->item_count == merge->item_capacity) {
        merge->item_capacity = merge->item_capacity ? merge->item_capacity * 2 : 256;
        merge->items = xrealloc_array(merge->items, merge->item_capacity, sizeof(struct item));
    }
}

int merge_add(struct merge *merge, uint64_t time_ns, unsigned kind, const void *record, size_t bytes)
{
    if (bytes > UINT32_MAX - 8 || aligned(bytes) > merge_room(merge))
        return -ENOSPC;
    make_room(merge, aligned(bytes));
    memcpy(merge->bytes + merge->used, record, bytes);
    merge->items[merge->item_count++] =
        (struct item){.time_ns = time_ns, .offset = merge->used, .bytes = (uint32_t)bytes, .kind = kind};
    merge->used += aligned(bytes);
    return 0;
}

static int compare_items(const void *left, const void *right)
{
    const struct item *a = left, *b = right;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* The records from the first on become the whole content, in time order. */
static void keep_from(struct merge *merge, size_t first)
{
    if (first == 0)
        return;
    if (first == merge->item_count && merge->capacity <= KEEP_BYTES && merge->item_capacity <= KEEP_ITEMS) {
        merge->used = merge->item_count = 0;
        return;
    }
    struct merge kept = {.limit = SIZE_MAX};
    for (size_t i = first; i < merge->item_count; i++) {
        const struct item *item = &merge->items[i];
        merge_add(&kept, item->time_ns, item->kind, merge->bytes + item->offset, item->bytes);
    }
    kept.limit = merge->limit;
    free(merge->bytes);
    free(merge->items);
    *merge = kept;
}

void merge_deliver(struct merge *merge, uint64_t until_ns, merge_record_fn on_record, void *ctx)
{
    if (merge->item_count == 0)
        return;
    qsort(merge->items, merge->item_count, sizeof(struct item), compare_items);
    size_t i = 0;
    for (; i < merge->item_count && merge->items[i].time_ns <= until_ns; i++) {
        const struct item *item = &merge->items[i];
        on_record(item->kind, merge->bytes + item->offset, item->bytes, ctx);
    }
    keep_from(merge, i);
}
