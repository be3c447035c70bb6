/* pairs: sums by a pair of small integers, where a dense array would be too large.
 * Ownership: caller's storage, zero-initialised is empty.   Threads: one. */
#ifndef AGGREGATOR_PAIRS_H
#define AGGREGATOR_PAIRS_H

#include "common/table.h"

#include <stdint.h>

struct pair_cell {
    uint64_t value, count;
};

struct pairs {
    struct pair {
        uint32_t first, second;
        struct pair_cell cell;
    } * items; /* in order of first appearance */
    uint32_t count, room;
    struct table index;
};

void pairs_add(struct pairs *pairs, uint32_t first, uint32_t second, uint64_t value, uint64_t count);
void pairs_fini(struct pairs *pairs);

#endif
