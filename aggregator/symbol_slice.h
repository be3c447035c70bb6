/* symbol_slice: the insides of symbol packs, between symbol_pack.c (one pack) and symbol_store.c (all of
 * them).
 * Threads: a slice belongs to one thread; a joined pack is read-only and counted by references from any. */
#ifndef AGGREGATOR_SYMBOL_SLICE_H
#define AGGREGATOR_SYMBOL_SLICE_H

#include "aggregator/symbol_pack.h"

#include <stdatomic.h>

struct symbol_slice {
    struct symbol_function *functions;
    size_t count;
    char *names;
    size_t names_bytes;
};

struct symbol_pack {
    atomic_uint reference_count;
    struct symbol_function *functions;
    size_t count;
    char *names;
    size_t names_bytes;
};

/* Checks and copies one part. -EPROTO, -E2BIG with text. */
int symbol_slice_read(const Fleetprof__Pack *part, struct symbol_slice **ret_slice, struct err *err);
void symbol_slice_free(struct symbol_slice *slice); /* NULL is fine */
size_t symbol_slice_bytes(const struct symbol_slice *slice);

/* NULL when the slices do not fit together (starts not ascending) or are too much. */
struct symbol_pack *symbol_pack_join(struct symbol_slice *const *slices, size_t slice_count);
struct symbol_pack *symbol_pack_ref(struct symbol_pack *pack);
size_t symbol_pack_bytes(const struct symbol_pack *pack);

#endif
