#define XXH_INLINE_ALL
#include "aggregator/kept.h"

#include "common/xalloc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct kept_result {
    atomic_uint reference_count;
    struct top_table table;
    struct table index; /* key hash -> row, over the sorted rows */
};

struct kept_entry {
    uint64_t number, put_ms;
    size_t bytes;
    struct kept_result *result;
};

struct kept {
    pthread_mutex_t lock;
    uint32_t limit_count, count;
    uint64_t limit_bytes, limit_ms, used_bytes;
    struct kept_entry *entries; /* oldest first */
};

struct kept_result *kept_result_new(struct top_table *table)
{
    struct kept_result *result = xcalloc(1, sizeof(*result));
    atomic_init(&result->reference_count, 1);
    top_table_sort(table);
    result->table = *table;
    *table = (struct top_table){0};
    for (uint32_t i = 0; i < result->table.row_count; i++) {
        const struct top_row *row = &result->table.rows[i];
        table_insert(&result->index, XXH3_64bits(top_row_key(&result->table, row), row->key_bytes), i);
    }
    return result;
}

const struct top_table *kept_result_table(const struct kept_result *result)
{
    return &result->table;
}

const struct top_row *kept_result_find(const struct kept_result *result, const void *key, size_t key_bytes)
{
    for (struct table_probe p = table_probe(&result->index, XXH3_64bits(key, key_bytes));
         table_next(&result->index, &p);) {
        const struct top_row *row = &result->table.rows[p.value];
        if (row->key_bytes == key_bytes && memcmp(top_row_key(&result->table, row), key, key_bytes) == 0)
            return row;
    }
    return NULL;
}

void kept_result_unref(struct kept_result *result)
{
    if (!result || atomic_fetch_sub(&result->reference_count, 1) != 1)
        return;
    top_table_fini(&result->table);
    table_fini(&result->index);
    free(result);
}

struct kept *kept_new(uint32_t limit_count, uint64_t limit_bytes, uint64_t limit_ms)
{
    struct kept *kept = xcalloc(1, sizeof(*kept));
    pthread_mutex_init(&kept->lock, NULL);
    kept->limit_count = limit_count;
    kept->limit_bytes = limit_bytes;
    kept->limit_ms = limit_ms;
    kept->entries = xcalloc(limit_count, sizeof(*kept->entries));
    return kept;
}

static void drop_oldest(struct kept *kept)
{
    kept->used_bytes -= kept->entries[0].bytes;
    kept_result_unref(kept->entries[0].result);
    kept->count--;
    memmove(kept->entries, kept->entries + 1, kept->count * sizeof(*kept->entries));
}

static void expire(struct kept *kept, uint64_t now_ms)
{
    while (kept->count && now_ms >= kept->entries[0].put_ms + kept->limit_ms)
        drop_oldest(kept);
}

void kept_free(struct kept *kept)
{
    if (!kept)
        return;
    while (kept->count)
        drop_oldest(kept);
    free(kept->entries);
    pthread_mutex_destroy(&kept->lock);
    free(kept);
}

void kept_put(struct kept *kept, uint64_t number, struct kept_result *result, uint64_t now_mono_ms)
{
    size_t bytes = top_table_bytes(&result->table) + table_bytes(&result->index);
    pthread_mutex_lock(&kept->lock);
    expire(kept, now_mono_ms);
    while (kept->count && (kept->count == kept->limit_count || kept->used_bytes + bytes > kept->limit_bytes))
        drop_oldest(kept);
    if (kept->count < kept->limit_count && bytes <= kept->limit_bytes) {
        atomic_fetch_add(&result->reference_count, 1);
        kept->entries[kept->count++] =
            (struct kept_entry){.number = number, .put_ms = now_mono_ms, .bytes = bytes, .result = result};
        kept->used_bytes += bytes;
    }
    pthread_mutex_unlock(&kept->lock);
}

struct kept_result *kept_find(struct kept *kept, uint64_t number, uint64_t now_mono_ms)
{
    struct kept_result *found = NULL;
    pthread_mutex_lock(&kept->lock);
    expire(kept, now_mono_ms);
    for (uint32_t i = 0; i < kept->count && !found; i++)
        if (kept->entries[i].number == number)
            found = kept->entries[i].result;
    if (found)
        atomic_fetch_add(&found->reference_count, 1);
    pthread_mutex_unlock(&kept->lock);
    return found;
}
