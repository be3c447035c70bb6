#define XXH_INLINE_ALL
#include "aggregator/top_table.h"

#include "common/xalloc.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

void top_table_fini(struct top_table *table)
{
    free(table->keys);
    free(table->rows);
    table_fini(&table->index);
    *table = (struct top_table){0};
}

static struct top_row *find(const struct top_table *table, const void *key, size_t key_bytes, uint64_t hash)
{
    for (struct table_probe p = table_probe(&table->index, hash); table_next(&table->index, &p);) {
        struct top_row *row = &table->rows[p.value];
        if (row->key_bytes == key_bytes &&
            (key_bytes == 0 || memcmp(top_row_key(table, row), key, key_bytes) == 0))
            return row;
    }
    return NULL;
}

static bool make_room(struct top_table *table, size_t key_bytes)
{
    if (table->row_count >= TOP_TABLE_ROWS || key_bytes > TOP_TABLE_BYTES - table->keys_used)
        return false;
    if (table->row_count == table->row_room) {
        table->row_room = table->row_room ? table->row_room * 2 : 64;
        table->rows = xrealloc_array(table->rows, table->row_room, sizeof(*table->rows));
    }
    if (table->keys_used + key_bytes > table->keys_room) {
        uint64_t room = table->keys_room ? table->keys_room : 4096;
        while (room < table->keys_used + key_bytes)
            room *= 2;
        table->keys = xrealloc_array(table->keys, room, 1);
        table->keys_room = (uint32_t)room;
    }
    return true;
}

struct top_row *top_table_add(struct top_table *table, const void *key, size_t key_bytes, uint64_t value,
                              uint64_t count)
{
    uint64_t hash = XXH3_64bits(key, key_bytes);
    struct top_row *row = find(table, key, key_bytes, hash);
    if (!row) {
        if (!make_room(table, key_bytes)) {
            table->dropped += count;
            return NULL;
        }
        if (key_bytes)
            memcpy(table->keys + table->keys_used, key, key_bytes);
        row = &table->rows[table->row_count];
        *row = (struct top_row){.key_at = table->keys_used, .key_bytes = (uint32_t)key_bytes};
        table->keys_used += (uint32_t)key_bytes;
        table_insert(&table->index, hash, table->row_count++);
    }
    if (__builtin_add_overflow(row->value, value, &row->value))
        row->value = UINT64_MAX;
    if (__builtin_add_overflow(row->count, count, &row->count))
        row->count = UINT64_MAX;
    return row;
}

const struct top_row *top_table_find(const struct top_table *table, const void *key, size_t key_bytes)
{
    return find(table, key, key_bytes, XXH3_64bits(key, key_bytes));
}

void top_table_merge(struct top_table *into, const struct top_table *from)
{
    for (uint32_t i = 0; i < from->row_count; i++)
        top_table_add(into, top_row_key(from, &from->rows[i]), from->rows[i].key_bytes, from->rows[i].value,
                      from->rows[i].count);
    into->dropped += from->dropped;
}

static int compare_bytes(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes)
{
    size_t shorter = a_bytes < b_bytes ? a_bytes : b_bytes;
    int order = shorter ? memcmp(a, b, shorter) : 0;
    return order ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

int top_key_compare(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes)
{
    size_t a_at = 0, b_at = 0;
    while (a_at < a_bytes && b_at < b_bytes) {
        size_t a_value_bytes, b_value_bytes;
        const uint8_t *a_value = top_key_next(a, &a_at, &a_value_bytes);
        const uint8_t *b_value = top_key_next(b, &b_at, &b_value_bytes);
        int order = compare_bytes(a_value, a_value_bytes, b_value, b_value_bytes);
        if (order)
            return order;
    }
    return (a_at < a_bytes) - (b_at < b_bytes);
}

bool top_key_sound(const uint8_t *key, size_t key_bytes, size_t value_count)
{
    size_t at = 0;
    for (size_t i = 0; i < value_count; i++) {
        if (key_bytes - at < 2)
            return false;
        size_t value_bytes;
        top_key_next(key, &at, &value_bytes);
        if (at > key_bytes)
            return false;
    }
    return at == key_bytes;
}

static int compare_rows(const void *left, const void *right, void *ctx)
{
    const struct top_table *table = ctx;
    const struct top_row *a = left, *b = right;
    if (a->value != b->value)
        return a->value < b->value ? 1 : -1;
    return top_key_compare(top_row_key(table, a), a->key_bytes, top_row_key(table, b), b->key_bytes);
}

void top_table_sort(struct top_table *table)
{
    table_fini(&table->index);
    if (table->row_count)
        qsort_r(table->rows, table->row_count, sizeof(*table->rows), compare_rows, table);
}

size_t top_table_bytes(const struct top_table *table)
{
    return table->keys_room + (size_t)table->row_room * sizeof(*table->rows) + table_bytes(&table->index);
}
