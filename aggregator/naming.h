/* naming: what a frame is called. Done when somebody asks, once per frame, and again when its executable's
 * symbol pack has arrived since.
 * Shapes:  native: the demangled name; without a name "module+0xSTART" of its function, without a function
 *          "module+0xOFFSET". Module is the executable's file name; kernel frames bring both; of
 *          interpreted frames the module is the file. Markers, and functions over the dictionary's limit,
 *          have no function (DICTIONARY_UNRANKED).
 * Threads: the partition's worker only. A naming belongs to one job. */
#ifndef AGGREGATOR_NAMING_H
#define AGGREGATOR_NAMING_H

#include "aggregator/partition.h"

#include <stdint.h>

struct naming {
    struct partition *partition;
    struct symbol_pack **packs; /* by executable; references held until naming_end */
    uint32_t pack_room;
    uint64_t now_ms;
};

void naming_begin(struct naming *naming, struct partition *partition, uint64_t now_ms);
void naming_end(struct naming *naming);
/* The frame's function: an id of the dictionary, or DICTIONARY_UNRANKED. */
uint32_t naming_function(struct naming *naming, uint32_t frame);

#endif
