#include "node-agent/mappings.h"

#include "common/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t mapping_offset_of(const struct mapping *mapping, uint64_t address)
{
    return image_is_anonymous(mapping->image) ? 0 : mapping->file_offset + (address - mapping->start);
}

/* The first range that ends after address: the one holding it, or the next. */
static uint32_t first_after(const struct mappings *mappings, uint64_t address)
{
    uint32_t low = 0, high = mappings->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (mappings->items[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

const struct mapping *mappings_find(const struct mappings *mappings, uint64_t address)
{
    uint32_t at = first_after(mappings, address);
    return at < mappings->count && mappings->items[at].start <= address ? &mappings->items[at] : NULL;
}

static bool contains(const struct mapping *outer, const struct mapping *inner)
{
    return outer->image == inner->image && outer->start <= inner->start && outer->end >= inner->end &&
           mapping_offset_of(outer, inner->start) == mapping_offset_of(inner, inner->start);
}

static bool continues(const struct mapping *left, const struct mapping *right)
{
    return left->image == right->image && left->end == right->start &&
           mapping_offset_of(left, left->end) == mapping_offset_of(right, right->start);
}

/* Makes items[at..at+old_count) into new_count places. */
static void reshape(struct mappings *mappings, uint32_t at, uint32_t old_count, uint32_t new_count)
{
    uint32_t count = mappings->count - old_count + new_count;
    if (count > mappings->room) {
        mappings->room = count < 8 ? 8 : count + count / 2;
        mappings->items = xrealloc_array(mappings->items, mappings->room, sizeof(*mappings->items));
    }
    memmove(mappings->items + at + new_count, mappings->items + at + old_count,
            (mappings->count - at - old_count) * sizeof(*mappings->items));
    mappings->count = count;
}

static void join(struct mappings *mappings, struct images *images, uint32_t at)
{
    if (at + 1 >= mappings->count || !continues(&mappings->items[at], &mappings->items[at + 1]))
        return;
    mappings->items[at].end = mappings->items[at + 1].end;
    images_put(images, mappings->items[at + 1].image);
    reshape(mappings, at + 1, 1, 0);
}

int mappings_put(struct mappings *mappings, struct images *images, const struct mapping *mapping)
{
    uint32_t low = first_after(mappings, mapping->start), high = low, made = 0;
    struct mapping parts[3];
    while (high < mappings->count && mappings->items[high].start < mapping->end)
        high++;
    if (high == low + 1 && contains(&mappings->items[low], mapping)) {
        images_put(images, mapping->image);
        return 0;
    }
    if (low < high && mappings->items[low].start < mapping->start) {
        parts[made] = mappings->items[low];
        parts[made++].end = mapping->start;
    }
    parts[made++] = *mapping;
    if (low < high && mappings->items[high - 1].end > mapping->end) {
        parts[made] = mappings->items[high - 1];
        parts[made].file_offset = mapping_offset_of(&parts[made], mapping->end);
        parts[made++].start = mapping->end;
    }
    if (mappings->count - (high - low) + made > PROCESS_MAX_MAPPINGS) {
        images_put(images, mapping->image);
        return -E2BIG;
    }
    for (uint32_t i = 0; i < made; i++)
        if (parts[i].start != mapping->start)
            image_ref(parts[i].image);
    for (uint32_t i = low; i < high; i++)
        images_put(images, mappings->items[i].image);
    reshape(mappings, low, high - low, made);
    memcpy(mappings->items + low, parts, made * sizeof(parts[0]));
    uint32_t at = low + (parts[0].start != mapping->start);
    join(mappings, images, at);
    if (at > 0)
        join(mappings, images, at - 1);
    return 1;
}

void mappings_copy(struct mappings *into, const struct mappings *from)
{
    if (from->count == 0)
        return;
    into->items = xrealloc_array(NULL, from->count, sizeof(*into->items));
    into->count = into->room = from->count;
    memcpy(into->items, from->items, from->count * sizeof(*into->items));
    for (uint32_t i = 0; i < into->count; i++)
        image_ref(into->items[i].image);
}

void mappings_fini(struct mappings *mappings, struct images *images)
{
    for (uint32_t i = 0; i < mappings->count; i++)
        images_put(images, mappings->items[i].image);
    free(mappings->items);
    *mappings = (struct mappings){0};
}
