/* table: an open-addressing index from a 64-bit hash to a u32, for dictionaries whose items live in arrays.
 * The table stores (hash, value) and never looks at items; the caller compares them in its own loop:
 *
 *     for (struct table_probe p = table_probe(&t, hash); table_next(&t, &p);)
 *         if (item_equals(items[p.value], key)) return p.value;
 *
 * Shapes:    value any u32 but TABLE_NONE.
 * Limits:    the caller's; the table grows at 3/4 full (16 bytes a slot).
 * Ownership: caller's storage, zero-initialised is an empty table; table_fini frees.
 * Threads:   one. */
#ifndef COMMON_TABLE_H
#define COMMON_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TABLE_NONE UINT32_MAX

struct table_slot {
    uint64_t hash;
    uint32_t value;
};

struct table {
    struct table_slot *slots;
    uint32_t mask;
    uint32_t used_count;
};

struct table_probe {
    uint64_t hash;
    uint32_t at;
    uint32_t value;
};

static inline struct table_probe table_probe(const struct table *table, uint64_t hash)
{
    return (struct table_probe){.hash = hash, .at = (uint32_t)hash & table->mask, .value = TABLE_NONE};
}

/* Moves to the next value stored under the probe's hash; false when there is none. */
static inline bool table_next(const struct table *table, struct table_probe *probe)
{
    if (!table->slots)
        return false;
    for (;;) {
        const struct table_slot *slot = &table->slots[probe->at];
        if (slot->value == TABLE_NONE)
            return false;
        probe->at = (probe->at + 1) & table->mask;
        if (slot->hash == probe->hash) {
            probe->value = slot->value;
            return true;
        }
    }
}

/* Adds a value that is not there yet. */
void table_insert(struct table *table, uint64_t hash, uint32_t value);
/* Removes (hash, value); false when it is not there. */
bool table_remove(struct table *table, uint64_t hash, uint32_t value);
void table_clear(struct table *table);
void table_fini(struct table *table);
size_t table_bytes(const struct table *table);

#endif
