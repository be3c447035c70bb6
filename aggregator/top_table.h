/* top_table: rows of a top-N answer by key: where partial sums meet.
 * Shapes:    key = the group values in order, each with its u16 length before it, little endian
 *            (fleetprof.proto TopRow).
 * Order:     value descending, then the group values ascending by bytes, first group first.
 * Limits:    TOP_TABLE_BYTES of keys and TOP_TABLE_ROWS: top_table_add is then false and nothing changed.
 * Ownership: caller's storage, zero-initialised is empty.   Threads: one. */
#ifndef AGGREGATOR_TOP_TABLE_H
#define AGGREGATOR_TOP_TABLE_H

#include "common/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TOP_TABLE_ROWS  4000000u
#define TOP_TABLE_BYTES (512u << 20)

struct top_row {
    uint32_t key_at, key_bytes;
    uint64_t value, count;
    uint64_t known; /* the merge's: one bit per shard whose share is inside */
};

struct top_table {
    uint8_t *keys;
    uint32_t keys_used, keys_room;
    struct top_row *rows;
    uint32_t row_count, row_room;
    struct table index;
    uint64_t dropped; /* counts of the rows that found no room */
};

void top_table_fini(struct top_table *table);
/* Adds to the row of key, made when needed. The row is borrowed until the next add; NULL when there is no
 * room. */
struct top_row *top_table_add(struct top_table *table, const void *key, size_t key_bytes, uint64_t value,
                              uint64_t count);
/* NULL when there is none. */
const struct top_row *top_table_find(const struct top_table *table, const void *key, size_t key_bytes);
void top_table_merge(struct top_table *into, const struct top_table *from);
/* Puts the rows in order; no add or find afterwards. */
void top_table_sort(struct top_table *table);
size_t top_table_bytes(const struct top_table *table);

int top_key_compare(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes);
/* Whether key is made of exactly value_count values. */
bool top_key_sound(const uint8_t *key, size_t key_bytes, size_t value_count);
/* The next value of a sound key; moves *at. */
static inline const uint8_t *top_key_next(const uint8_t *key, size_t *at, size_t *ret_bytes)
{
    *ret_bytes = (size_t)key[*at] | (size_t)key[*at + 1] << 8;
    const uint8_t *value = key + *at + 2;
    *at += 2 + *ret_bytes;
    return value;
}
static inline const uint8_t *top_row_key(const struct top_table *table, const struct top_row *row)
{
    return table->keys + row->key_at;
}

#endif
