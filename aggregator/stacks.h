/* stacks: all stacks of a selection in one partition, as a stackset of their own, functions named.
 * Units:     row values in profile units.
 * Limits:    STACKS_LIMITS; samples of what does not fit are lost for the cause "answer_full".
 * Threads:   the partition's worker only. */
#ifndef AGGREGATOR_STACKS_H
#define AGGREGATOR_STACKS_H

#include "aggregator/completeness.h"
#include "aggregator/selection.h"

extern const struct stackset_limits STACKS_LIMITS;

struct stackset *stacks_of_partition(const struct selection *selection, struct partition *partition,
                                     uint64_t now_ms, struct completeness *completeness);

#endif
