/* wire_columns: a stackset's items -> the columns of a Dictionary and of Samples. Shared by wire_session.c
 * (some items are known to the other side) and wire_stackset.c (none are); nobody else includes it.
 * Ownership: results are as protobuf-c unpacks them: wire_free releases them.  Threads: any. */
#ifndef COMMON_WIRE_COLUMNS_H
#define COMMON_WIRE_COLUMNS_H

#include "common/wire.h"

/* Wire id of each item of a set, by its local id. An id below first_* is defined already; from there on ids
 * ascend in the set's own order. */
struct wire_ids {
    uint32_t *strings, *executables, *frames, *nodes, *series;
    uint32_t first_string, first_executable, first_frame, first_node, first_series;
};

/* One block for all five arrays (free ids->strings). Values are not set. */
void wire_ids_alloc(struct wire_ids *ids, const struct stackset *set);

Fleetprof__Dictionary *wire_define(const struct stackset *set, const struct wire_ids *ids,
                                   bool with_functions);
/* Rows sorted by wire ids. */
Fleetprof__Samples *wire_rows(const struct stackset *set, const struct wire_ids *ids, const char *kind,
                              const char *unit, uint64_t scale);

#endif
