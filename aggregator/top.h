/* top: "what costs the most" over one partition: rows by group, exact.
 * Groups:  "function" (two key values: name, module), "module" and "build_id" (of the executable the
 *          function is in) look at frames; every other name is a label of the series ("" when it has none).
 * Rules:   self: a sample counts for its leaf; cumulative: once for every distinct group on its stack.
 *          Samples whose leaf is a marker, and markers themselves, make no rows: they are in the totals
 *          only.
 * Units:   rows in profile units.
 * Threads: top_of_partition the partition's worker only. */
#ifndef AGGREGATOR_TOP_H
#define AGGREGATOR_TOP_H

#include "aggregator/completeness.h"
#include "aggregator/selection.h"
#include "aggregator/top_table.h"

#include <stdbool.h>
#include <stddef.h>

#define TOP_GROUP_BYTES 128u

struct top_request {
    struct selection selection;
    char groups[QUERY_MAX_GROUPS][TOP_GROUP_BYTES];
    size_t group_count;
    bool cumulative;
};

/* How many values a key of these groups has. */
size_t top_key_values(const char groups[][TOP_GROUP_BYTES], size_t group_count);

/* Adds to table and completeness (books included). */
void top_of_partition(const struct top_request *request, struct partition *partition, uint64_t now_ms,
                      struct top_table *table, struct completeness *completeness);

#endif
