#include "common/table.h"

#include "common/xalloc.h"

#include <stdlib.h>

static void put(struct table *table, uint64_t hash, uint32_t value)
{
    uint32_t at = (uint32_t)hash & table->mask;
    while (table->slots[at].value != TABLE_NONE)
        at = (at + 1) & table->mask;
    table->slots[at] = (struct table_slot){.hash = hash, .value = value};
}

static void resize(struct table *table, uint32_t slot_count)
{
    struct table old = *table;
    table->slots = xrealloc_array(NULL, slot_count, sizeof(*table->slots));
    table->mask = slot_count - 1;
    table_clear(table);
    table->used_count = old.used_count;
    for (size_t i = 0; old.slots && i <= old.mask; i++)
        if (old.slots[i].value != TABLE_NONE)
            put(table, old.slots[i].hash, old.slots[i].value);
    free(old.slots);
}

void table_insert(struct table *table, uint64_t hash, uint32_t value)
{
    if (!table->slots)
        resize(table, 16); /* a small set must stay small: 256 bytes */
    else if ((uint64_t)table->used_count * 4 >= (uint64_t)(table->mask + 1ULL) * 3)
        resize(table, (table->mask + 1) * 2);
    put(table, hash, value);
    table->used_count++;
}

bool table_remove(struct table *table, uint64_t hash, uint32_t value)
{
    if (!table->slots)
        return false;
    uint32_t hole = (uint32_t)hash & table->mask;
    while (table->slots[hole].hash != hash || table->slots[hole].value != value) {
        if (table->slots[hole].value == TABLE_NONE)
            return false;
        hole = (hole + 1) & table->mask;
    }
    /* Backward-shift deletion: close the hole so that no probe stops early. */
    for (uint32_t at = (hole + 1) & table->mask; table->slots[at].value != TABLE_NONE;
         at = (at + 1) & table->mask) {
        uint32_t home = (uint32_t)table->slots[at].hash & table->mask;
        if (((at - home) & table->mask) >= ((at - hole) & table->mask)) {
            table->slots[hole] = table->slots[at];
            hole = at;
        }
    }
    table->slots[hole].value = TABLE_NONE;
    table->used_count--;
    return true;
}

void table_clear(struct table *table)
{
    for (size_t i = 0; table->slots && i <= table->mask; i++)
        table->slots[i].value = TABLE_NONE;
    table->used_count = 0;
}

void table_fini(struct table *table)
{
    free(table->slots);
    *table = (struct table){0};
}

size_t table_bytes(const struct table *table)
{
    return table->slots ? (table->mask + (size_t)1) * sizeof(*table->slots) : 0;
}
