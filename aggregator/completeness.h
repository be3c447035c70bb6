/* completeness: what an answer speaks for and what is missing from it: counted per partition, added up per
 * shard, then over the shards.
 * Threads: completeness_of_partition the partition's worker; the rest any, one at a time per object. */
#ifndef AGGREGATOR_COMPLETENESS_H
#define AGGREGATOR_COMPLETENESS_H

#include "aggregator/query.h"
#include "aggregator/selection.h"

#include <stdbool.h>
#include <stdint.h>

struct completeness {
    uint64_t samples, value; /* value in profile units */
    uint64_t truncated, unnamed;
    uint64_t unranked, unranked_value; /* leaf is a marker: in the totals, in no row by function */
    uint64_t nodes, covered_ms, expected_ms;
    uint64_t node_samples; /* stored, of these nodes in the range: what the losses are a share of */
    bool skewed;
    uint32_t loss_count;
    struct completeness_loss {
        char cause[ROSTER_CAUSE_BYTES];
        uint64_t samples;
    } losses[ROSTER_CAUSES];
};

void completeness_lose(struct completeness *into, const char *cause, uint64_t samples);
/* Samples whose leaf is this function of the dictionary (DICTIONARY_UNRANKED: a marker, or no frame at all). */
void completeness_leaf(struct completeness *into, const struct dictionary *dictionary, uint32_t function,
                       uint64_t samples, uint64_t value);
/* The books' part: losses, nodes, coverage. */
void completeness_of_partition(struct completeness *into, const struct partition *partition,
                               const struct selection *selection);
void completeness_add(struct completeness *into, const struct completeness *from);
/* True when samples that were stored are no longer in memory. */
bool completeness_forgot(const struct completeness *completeness);

/* shard borrowed. The caller frees with wire_free. */
Fleetprof__Completeness *completeness_to_wire(const struct completeness *completeness, const char *shard);
void completeness_from_wire(struct completeness *into,
                            const Fleetprof__Completeness *message); /* NULL: nothing */

#endif
