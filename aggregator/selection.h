/* selection: which samples a question is about: kind, time range, label matchers.
 * Rules:   a bucket belongs to the range when any part of it does. Matchers look at series' labels; a
 *          missing label is the empty value. Books (losses, coverage) are kept per node: there only
 *          matchers on "node" count.
 * Threads: read-only once made; any thread may use it. */
#ifndef AGGREGATOR_SELECTION_H
#define AGGREGATOR_SELECTION_H

#include "aggregator/partition.h"
#include "common/labels.h"
#include "common/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct selection {
    uint32_t kind;
    uint64_t from_ms, to_ms;
    struct label_matchers matchers;
};

/* Takes over what it needs by copying. -EINVAL with text. */
int selection_init(struct selection *selection, const Fleetprof__Selection *message, struct err *err);
void selection_fini(struct selection *selection);

/* One byte per series of the partition: 1 = in. The caller frees. */
uint8_t *selection_series(const struct selection *selection, const struct dictionary *dictionary);
bool selection_has_node(const struct selection *selection, const char *node);

#endif
