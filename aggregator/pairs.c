#include "aggregator/pairs.h"

#include "common/xalloc.h"

#include <stdlib.h>

void pairs_add(struct pairs *pairs, uint32_t first, uint32_t second, uint64_t value, uint64_t count)
{
    /* One-to-one (odd multiplier, then a reversible fold): equal hashes are equal pairs. */
    uint64_t hash = ((uint64_t)first << 32 | second) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 32;
    struct table_probe probe = table_probe(&pairs->index, hash);
    if (table_next(&pairs->index, &probe)) {
        pairs->items[probe.value].cell.value += value;
        pairs->items[probe.value].cell.count += count;
        return;
    }
    if (pairs->count == pairs->room) {
        pairs->room = pairs->room ? pairs->room * 2 : 256;
        pairs->items = xrealloc_array(pairs->items, pairs->room, sizeof(*pairs->items));
    }
    pairs->items[pairs->count] = (struct pair){first, second, {value, count}};
    table_insert(&pairs->index, hash, pairs->count++);
}

void pairs_fini(struct pairs *pairs)
{
    free(pairs->items);
    table_fini(&pairs->index);
    *pairs = (struct pairs){0};
}
