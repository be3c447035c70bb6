#define XXH_INLINE_ALL
/* symbol_store: all packs of the process, and who is to be asked for the missing ones. */
#include "aggregator/symbol_pack.h"
#include "aggregator/symbol_slice.h"
#include "common/table.h"
#include "common/xalloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct entry {
    struct executable_id id;
    enum symbol_state state;
    bool push;
    uint64_t next_ms;   /* until then nothing is to be done; ASK: until then only our agents are asked */
    uint64_t asked_ms;  /* ASK: an agent was asked then, 0 = not yet */
    uint64_t wanted_ms; /* when somebody last missed it */
    uint64_t used;      /* tick of the last use */
    struct symbol_pack *pack;
    struct symbol_slice **slices; /* of an unfinished pack */
    uint32_t slice_count, slice_have;
    uint64_t slice_ms;
};

struct symbol_packs {
    pthread_mutex_t lock;
    atomic_uint generation;
    uint64_t limit_bytes, used_bytes, tick, evicted;
    struct entry **entries;
    uint32_t count, room;
    struct table index;
};

struct symbol_packs *symbol_packs_new(uint64_t limit_bytes)
{
    struct symbol_packs *packs = xcalloc(1, sizeof(*packs));
    packs->limit_bytes = limit_bytes;
    pthread_mutex_init(&packs->lock, NULL);
    return packs;
}

static uint64_t hash_of(const struct executable_id *id)
{
    return XXH3_64bits(id->data, id->bytes);
}

static struct entry *find(const struct symbol_packs *packs, const struct executable_id *id)
{
    for (struct table_probe p = table_probe(&packs->index, hash_of(id)); table_next(&packs->index, &p);) {
        struct entry *entry = packs->entries[p.value];
        if (entry->id.bytes == id->bytes && memcmp(entry->id.data, id->data, id->bytes) == 0)
            return entry;
    }
    return NULL;
}

static void drop_slices(struct symbol_packs *packs, struct entry *entry)
{
    for (uint32_t i = 0; i < entry->slice_count; i++) {
        if (entry->slices[i])
            packs->used_bytes -= symbol_slice_bytes(entry->slices[i]);
        symbol_slice_free(entry->slices[i]);
    }
    free(entry->slices);
    entry->slices = NULL;
    entry->slice_count = entry->slice_have = 0;
}

static void drop_pack(struct symbol_packs *packs, struct entry *entry)
{
    if (entry->pack)
        packs->used_bytes -= symbol_pack_bytes(entry->pack);
    symbol_pack_unref(entry->pack);
    entry->pack = NULL;
}

/* The last entry takes the place of the one that goes. */
static void remove_entry(struct symbol_packs *packs, struct entry *entry)
{
    uint32_t at = 0;
    while (packs->entries[at] != entry)
        at++;
    table_remove(&packs->index, hash_of(&entry->id), at);
    uint32_t last = --packs->count;
    if (at != last) {
        table_remove(&packs->index, hash_of(&packs->entries[last]->id), last);
        packs->entries[at] = packs->entries[last];
        table_insert(&packs->index, hash_of(&packs->entries[at]->id), at);
    }
    drop_slices(packs, entry);
    drop_pack(packs, entry);
    free(entry);
}

void symbol_packs_free(struct symbol_packs *packs)
{
    if (!packs)
        return;
    while (packs->count)
        remove_entry(packs, packs->entries[packs->count - 1]);
    free(packs->entries);
    table_fini(&packs->index);
    pthread_mutex_destroy(&packs->lock);
    free(packs);
}

/* Of the finished ones; NULL when there is none but keep. */
static struct entry *least_used(const struct symbol_packs *packs, const struct entry *keep)
{
    struct entry *oldest = NULL;
    for (uint32_t i = 0; i < packs->count; i++) {
        struct entry *entry = packs->entries[i];
        if (entry != keep && entry->pack && (!oldest || entry->used < oldest->used))
            oldest = entry;
    }
    return oldest;
}

static struct entry *add(struct symbol_packs *packs, const struct executable_id *id, enum symbol_state state,
                         uint64_t now_ms)
{
    if (packs->count >= SYMBOL_PACK_ENTRIES) {
        struct entry *oldest = least_used(packs, NULL);
        if (!oldest)
            return NULL;
        packs->evicted++;
        remove_entry(packs, oldest);
    }
    if (packs->count == packs->room) {
        packs->room = packs->room ? packs->room * 2 : 64;
        packs->entries = xrealloc_array(packs->entries, packs->room, sizeof(struct entry *));
    }
    struct entry *entry = xcalloc(1, sizeof(*entry));
    entry->id = *id;
    entry->state = state;
    entry->wanted_ms = now_ms;
    table_insert(&packs->index, hash_of(id), packs->count);
    packs->entries[packs->count++] = entry;
    return entry;
}

/* A change that partitions should look at. */
static void announce(struct symbol_packs *packs)
{
    atomic_fetch_add_explicit(&packs->generation, 1, memory_order_release);
}

/* ---- partitions ---- */

uint32_t symbol_packs_generation(const struct symbol_packs *packs)
{
    return atomic_load_explicit(&packs->generation, memory_order_acquire);
}

struct symbol_pack *symbol_packs_find(struct symbol_packs *packs, const struct executable_id *id)
{
    pthread_mutex_lock(&packs->lock);
    struct entry *entry = find(packs, id);
    struct symbol_pack *pack = entry ? entry->pack : NULL;
    if (pack) {
        symbol_pack_ref(pack);
        entry->used = ++packs->tick;
    }
    pthread_mutex_unlock(&packs->lock);
    return pack;
}

void symbol_packs_want(struct symbol_packs *packs, const struct executable_id *id, uint64_t now_ms)
{
    pthread_mutex_lock(&packs->lock);
    struct entry *entry = find(packs, id);
    if (!entry)
        entry = add(packs, id, SYMBOL_WANTED, now_ms);
    else if (entry->state == SYMBOL_UNAVAILABLE && now_ms >= entry->next_ms)
        entry->state = SYMBOL_WANTED;
    if (entry)
        entry->wanted_ms = now_ms;
    pthread_mutex_unlock(&packs->lock);
}

bool symbol_packs_should_ask(struct symbol_packs *packs, const struct executable_id *id, uint64_t now_ms)
{
    pthread_mutex_lock(&packs->lock);
    struct entry *entry = find(packs, id);
    bool ask = entry && entry->state == SYMBOL_ASK &&
               (entry->asked_ms == 0 || now_ms >= entry->asked_ms + SYMBOL_PACK_ASK_MS);
    if (entry)
        entry->wanted_ms = now_ms;
    if (ask)
        entry->asked_ms = now_ms;
    pthread_mutex_unlock(&packs->lock);
    return ask;
}

/* ---- arrival ---- */

/* Least recently used packs go until there is room again; keep stays. */
static void evict(struct symbol_packs *packs, const struct entry *keep)
{
    while (packs->used_bytes > packs->limit_bytes) {
        struct entry *oldest = least_used(packs, keep);
        if (!oldest)
            return;
        packs->evicted++;
        remove_entry(packs, oldest);
    }
}

static void give_up(struct symbol_packs *packs, struct entry *entry, uint64_t now_ms)
{
    drop_slices(packs, entry);
    entry->state = SYMBOL_UNAVAILABLE;
    entry->next_ms = now_ms + SYMBOL_PACK_RETRY_MS;
}

static int complete(struct symbol_packs *packs, struct entry *entry, uint64_t now_ms, struct err *err)
{
    struct symbol_pack *pack = symbol_pack_join(entry->slices, entry->slice_count);
    drop_slices(packs, entry);
    if (!pack) {
        give_up(packs, entry, now_ms);
        return err_say(err, -EPROTO, "pack: the parts do not fit together");
    }
    entry->pack = pack;
    entry->state = SYMBOL_HERE;
    entry->used = ++packs->tick;
    entry->push = true;
    entry->next_ms = 0;
    packs->used_bytes += symbol_pack_bytes(pack);
    evict(packs, entry);
    announce(packs);
    return 0;
}

/* Takes the slice. */
static int add_slice(struct symbol_packs *packs, struct entry *entry, const Fleetprof__Pack *part,
                     struct symbol_slice *slice, uint64_t now_ms, struct err *err)
{
    if (entry->slice_count != part->parts) { /* the first part, or another agent's cut of the same file */
        drop_slices(packs, entry);
        entry->slices = xcalloc(part->parts, sizeof(struct symbol_slice *));
        entry->slice_count = part->parts;
    }
    entry->slice_ms = now_ms;
    if (entry->slices[part->part]) {
        symbol_slice_free(slice);
        return 0;
    }
    entry->slices[part->part] = slice;
    entry->slice_have++;
    packs->used_bytes += symbol_slice_bytes(slice);
    evict(packs, entry);
    if (packs->used_bytes > packs->limit_bytes) {
        give_up(packs, entry, now_ms);
        return err_say(err, -E2BIG, "pack: no room under --pack-bytes");
    }
    return entry->slice_have == entry->slice_count ? complete(packs, entry, now_ms, err) : 0;
}

static int add_locked(struct symbol_packs *packs, const struct executable_id *id, const Fleetprof__Pack *part,
                      struct symbol_slice **slice, uint64_t now_ms, struct err *err)
{
    struct entry *entry = find(packs, id);
    if (!entry)
        return err_say(err, -ENOENT, "pack: nobody asked for it");
    if (entry->state == SYMBOL_HERE)
        return 0;
    if (part->status == FLEETPROF__PACK_STATUS__PACK_UNAVAILABLE) {
        give_up(packs, entry, now_ms);
        return 0;
    }
    struct symbol_slice *taken = *slice;
    *slice = NULL;
    return add_slice(packs, entry, part, taken, now_ms, err);
}

int symbol_packs_add(struct symbol_packs *packs, const Fleetprof__Pack *part, uint64_t now_ms,
                     struct err *err)
{
    if (part->executable.len == 0 || part->executable.len > EXECUTABLE_ID_BYTES)
        return err_say(err, -EPROTO, "pack: an executable id of %zu bytes", part->executable.len);
    struct executable_id id = {.bytes = (uint8_t)part->executable.len};
    memcpy(id.data, part->executable.data, id.bytes);
    struct symbol_slice *slice = NULL;
    if (part->status == FLEETPROF__PACK_STATUS__PACK_OK) {
        if (part->parts == 0 || part->parts > SYMBOL_PACK_PARTS || part->part >= part->parts)
            return err_say(err, -EPROTO, "pack: part %u of %u", part->part, part->parts);
        int rc = symbol_slice_read(part, &slice, err);
        if (rc < 0)
            return rc;
    } else if (part->status != FLEETPROF__PACK_STATUS__PACK_UNAVAILABLE) {
        return err_say(err, -EPROTO, "pack: a status that says nothing");
    }
    pthread_mutex_lock(&packs->lock);
    int rc = add_locked(packs, &id, part, &slice, now_ms, err);
    pthread_mutex_unlock(&packs->lock);
    symbol_slice_free(slice);
    return rc;
}

/* ---- other shards ---- */

static enum symbol_state state_for_asker(struct symbol_packs *packs, const struct executable_id *id,
                                         uint64_t now_ms, struct symbol_pack **ret_pack)
{
    struct entry *entry = find(packs, id);
    if (!entry) {
        entry = add(packs, id, SYMBOL_GRANTED, now_ms);
        if (!entry)
            return SYMBOL_UNAVAILABLE;
        entry->next_ms = now_ms + SYMBOL_PACK_GRANT_MS;
        return SYMBOL_GRANTED;
    }
    entry->wanted_ms = now_ms;
    if (entry->pack) {
        entry->used = ++packs->tick;
        *ret_pack = symbol_pack_ref(entry->pack);
        return SYMBOL_HERE;
    }
    bool lapsed =
        (entry->state == SYMBOL_GRANTED || entry->state == SYMBOL_UNAVAILABLE) && now_ms >= entry->next_ms;
    if (lapsed) {
        entry->state = SYMBOL_GRANTED;
        entry->next_ms = now_ms + SYMBOL_PACK_GRANT_MS;
        return SYMBOL_GRANTED;
    }
    if (entry->state == SYMBOL_ASK && now_ms >= entry->next_ms) {
        /* Our own agents were asked in vain: the asker's may have the file. */
        entry->next_ms = now_ms + SYMBOL_PACK_GRANT_MS;
        return SYMBOL_GRANTED;
    }
    return entry->state == SYMBOL_UNAVAILABLE ? SYMBOL_UNAVAILABLE : SYMBOL_WANTED;
}

void symbol_packs_get(struct symbol_packs *packs, const struct executable_id *id, uint32_t part,
                      uint64_t now_ms, Fleetprof__Pack *ret_pack)
{
    struct symbol_pack *pack = NULL;
    pthread_mutex_lock(&packs->lock);
    enum symbol_state state = state_for_asker(packs, id, now_ms, &pack);
    pthread_mutex_unlock(&packs->lock);
    int rc = pack ? symbol_pack_part(pack, id, part, ret_pack) : -ENOENT;
    symbol_pack_unref(pack);
    if (rc == 0)
        return;
    fleetprof__pack__init(ret_pack);
    ret_pack->part = part;
    ret_pack->status = state == SYMBOL_GRANTED  ? FLEETPROF__PACK_STATUS__PACK_YOURS
                       : state == SYMBOL_WANTED ? FLEETPROF__PACK_STATUS__PACK_PENDING
                                                : FLEETPROF__PACK_STATUS__PACK_UNAVAILABLE;
}

/* ---- the exchange ---- */

static bool is_due(struct symbol_packs *packs, struct entry *entry, uint64_t now_ms)
{
    if (entry->slices && now_ms >= entry->slice_ms + SYMBOL_PACK_SLICES_MS)
        drop_slices(packs, entry);
    switch (entry->state) {
    case SYMBOL_WANTED:
        return true;
    case SYMBOL_REMOTE:
        return now_ms >= entry->next_ms;
    case SYMBOL_HERE:
        return entry->push && now_ms >= entry->next_ms;
    case SYMBOL_ASK:
    case SYMBOL_GRANTED:
    case SYMBOL_UNAVAILABLE:
        return false;
    }
    return false;
}

/* Nothing can come of it any more; who still misses it will say so again. */
static bool is_over(const struct entry *entry, uint64_t now_ms)
{
    switch (entry->state) {
    case SYMBOL_WANTED:
    case SYMBOL_REMOTE:
    case SYMBOL_ASK:
        return !entry->slices && now_ms >= entry->wanted_ms + SYMBOL_PACK_IDLE_MS;
    case SYMBOL_GRANTED:
    case SYMBOL_UNAVAILABLE:
        return now_ms >= entry->next_ms;
    case SYMBOL_HERE:
        return false;
    }
    return false;
}

size_t symbol_packs_tasks(struct symbol_packs *packs, uint64_t now_ms, struct symbol_task *out, size_t room)
{
    size_t count = 0;
    pthread_mutex_lock(&packs->lock);
    for (uint32_t i = 0; i < packs->count && count < room;) {
        struct entry *entry = packs->entries[i];
        if (is_over(entry, now_ms)) {
            remove_entry(packs, entry);
            continue;
        }
        if (is_due(packs, entry, now_ms))
            out[count++] = (struct symbol_task){.id = entry->id, .state = entry->state, .push = entry->push};
        i++;
    }
    pthread_mutex_unlock(&packs->lock);
    return count;
}

void symbol_packs_decide(struct symbol_packs *packs, const struct executable_id *id, enum symbol_state state,
                         uint64_t next_ms)
{
    pthread_mutex_lock(&packs->lock);
    struct entry *entry = find(packs, id);
    if (entry && entry->state != SYMBOL_HERE) {
        entry->state = state;
        entry->next_ms = next_ms;
        entry->asked_ms = 0;
        if (state == SYMBOL_ASK)
            announce(packs);
    }
    pthread_mutex_unlock(&packs->lock);
}

void symbol_packs_pushed(struct symbol_packs *packs, const struct executable_id *id, uint64_t again_ms)
{
    pthread_mutex_lock(&packs->lock);
    struct entry *entry = find(packs, id);
    if (entry && entry->state == SYMBOL_HERE) {
        entry->push = again_ms != 0;
        entry->next_ms = again_ms;
    }
    pthread_mutex_unlock(&packs->lock);
}

struct symbol_packs_figures symbol_packs_figures(struct symbol_packs *packs)
{
    pthread_mutex_lock(&packs->lock);
    struct symbol_packs_figures figures = {.bytes = packs->used_bytes, .evicted = packs->evicted};
    for (uint32_t i = 0; i < packs->count; i++) {
        figures.packs += packs->entries[i]->pack != NULL;
        figures.unavailable += packs->entries[i]->state == SYMBOL_UNAVAILABLE;
        figures.wanted +=
            packs->entries[i]->state != SYMBOL_HERE && packs->entries[i]->state != SYMBOL_UNAVAILABLE;
    }
    pthread_mutex_unlock(&packs->lock);
    return figures;
}
