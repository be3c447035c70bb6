#include "node-agent/ship_memory.h"

#include <string.h>

void ship_acked_add(struct ship_acked_list *list, struct ship_acked acked)
{
    list->items[(list->first + list->count) % SHIP_ACKED_MAX] = acked;
    if (list->count < SHIP_ACKED_MAX)
        list->count++;
    else
        list->first = (list->first + 1) % SHIP_ACKED_MAX;
}

size_t ship_acked_columns(const struct ship_acked_list *list, uint64_t now_wall_ms, uint64_t *start_ms,
                          uint64_t *sample_count, uint64_t *shard_epoch)
{
    size_t used = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct ship_acked *acked = &list->items[(list->first + i) % SHIP_ACKED_MAX];
        if (acked->window_start_ms + SHIP_ACKED_MS < now_wall_ms)
            continue;
        start_ms[used] = acked->window_start_ms;
        sample_count[used] = acked->sample_count;
        shard_epoch[used] = acked->shard_epoch;
        used++;
    }
    return used;
}

bool ship_wants_first(struct ship_wants *wants, const void *id, size_t id_bytes, uint64_t now_ms,
                      uint64_t quiet_ms)
{
    if (id_bytes == 0 || id_bytes > EXECUTABLE_ID_BYTES)
        return false;
    for (size_t i = 0; i < SHIP_WANTS_MAX; i++) {
        struct ship_want *want = &wants->items[i];
        if (want->id_bytes != id_bytes || memcmp(want->id, id, id_bytes) != 0)
            continue;
        if (now_ms - want->asked_ms < quiet_ms)
            return false;
        want->asked_ms = now_ms;
        return true;
    }
    struct ship_want *want = &wants->items[wants->next];
    wants->next = (wants->next + 1) % SHIP_WANTS_MAX;
    memcpy(want->id, id, id_bytes);
    want->id_bytes = (uint8_t)id_bytes;
    want->asked_ms = now_ms;
    return true;
}
