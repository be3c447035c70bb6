/* mappings: the executable ranges of one process, sorted, not overlapping.
 * Shapes:    a newer range wins: what it overlaps is cut or split. Neighbours that continue each other in the
 *            same image become one: code made writable and executable again in small steps does not pile up.
 *            Anonymous images have no offsets: every address in them resolves to offset 0.
 * Limits:    PROCESS_MAX_MAPPINGS; 32 bytes a range.
 * Ownership: caller's storage, zero-initialised is empty; each range holds one reference to its image.
 * Threads:   one.   Errors: -E2BIG, the list is then unchanged. */
#ifndef NODE_AGENT_MAPPINGS_H
#define NODE_AGENT_MAPPINGS_H

#include "node-agent/image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROCESS_MAX_MAPPINGS 4096u

struct mapping {
    uint64_t start, end, file_offset;
    struct image *image;
};
_Static_assert(sizeof(struct mapping) <= 48, "thousands of these in a process, hundreds of processes");

struct mappings {
    struct mapping *items;
    uint32_t count, room;
};

/* Takes the reference in mapping->image, also on failure. 1: something changed; 0: it was all known already.
 */
int mappings_put(struct mappings *mappings, struct images *images, const struct mapping *mapping);
/* The range that holds address, NULL for none. */
const struct mapping *mappings_find(const struct mappings *mappings, uint64_t address);
uint64_t mapping_offset_of(const struct mapping *mapping, uint64_t address);
/* into must be empty. */
void mappings_copy(struct mappings *into, const struct mappings *from);
void mappings_fini(struct mappings *mappings, struct images *images); /* leaves it empty */

#endif
