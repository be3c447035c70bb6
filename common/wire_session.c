/* wire_session: what the sender of a dictionary session remembers: which item has which session id.
 * The ids are found by content. Small items (nodes, frames, executables) are kept as they are; strings and
 * series as 128-bit hashes, so that a session's memory does not grow with the length of texts. */
#define XXH_INLINE_ALL
#include "common/wire_columns.h"

#include "common/clock.h"
#include "common/xalloc.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Items of one kind in order of their ids, and an index of u32 ids over them: 4 bytes a slot, where
 * common/table.h takes 16. Slots hold id + 1, 0 = free. */
struct known {
    uint8_t *items;
    uint32_t *slots;
    uint32_t count, room, mask;
};

struct key_hash {
    XXH128_hash_t hash;
};
struct key_executable {
    uint8_t id[EXECUTABLE_ID_BYTES];
    uint16_t id_bytes, id_kind;
    uint32_t name; /* string */
};
struct key_frame {
    uint64_t body;
    uint32_t ref, line;
    uint64_t kind;
};
struct key_node {
    uint32_t parent, frame;
};
/* Keys are compared and hashed as bytes: no padding. */
_Static_assert(sizeof(struct key_hash) == 16 && sizeof(struct key_executable) == 40 &&
                   sizeof(struct key_frame) == 24 && sizeof(struct key_node) == 8,
               "keys without padding");

struct wire_session {
    uint64_t id;
    uint32_t node_limit;
    bool looking; /* know_all gives out no ids */
    struct known strings, executables, frames, nodes, series;
};

static void link_slot(struct known *known, uint32_t id, size_t item_bytes)
{
    uint32_t at = (uint32_t)XXH3_64bits(known->items + id * item_bytes, item_bytes) & known->mask;
    while (known->slots[at] != 0)
        at = (at + 1) & known->mask;
    known->slots[at] = id + 1;
}

static void grow_slots(struct known *known, uint32_t first, size_t item_bytes)
{
    uint32_t slot_count = known->slots ? (known->mask + 1) * 2 : 16;
    free(known->slots);
    known->slots = xcalloc(slot_count, sizeof(*known->slots));
    known->mask = slot_count - 1;
    for (uint32_t id = first; id < known->count; id++)
        link_slot(known, id, item_bytes);
}

static void append_item(struct known *known, const void *key, size_t item_bytes)
{
    if (known->count == known->room) {
        known->room += known->room / 2 + 8;
        known->items = xrealloc_array(known->items, known->room, item_bytes);
    }
    memcpy(known->items + known->count * item_bytes, key, item_bytes);
    known->count++;
}

/* What know() says in place of an id while the session is only looking. No id is as large, so nothing that
 * refers to an unknown item is found either. */
#define UNKNOWN UINT32_MAX

static inline uint32_t find(const struct known *known, const void *key, size_t item_bytes)
{
    if (!known->slots)
        return UNKNOWN;
    uint32_t at = (uint32_t)XXH3_64bits(key, item_bytes) & known->mask;
    for (; known->slots[at] != 0; at = (at + 1) & known->mask)
        if (memcmp(known->items + (known->slots[at] - 1) * item_bytes, key, item_bytes) == 0)
            return known->slots[at] - 1;
    return UNKNOWN;
}

/* The id of key, given out now if it is new (UNKNOWN when looking). first: ids below it are not in the index
 * (string 0, the root). */
static inline uint32_t know(struct known *known, const void *key, size_t item_bytes, uint32_t first,
                            bool looking)
{
    uint32_t there = find(known, key, item_bytes);
    if (there != UNKNOWN || looking)
        return there;
    append_item(known, key, item_bytes);
    if (!known->slots || (uint64_t)known->count * 4 > ((uint64_t)known->mask + 1) * 3)
        grow_slots(known, first, item_bytes);
    else
        link_slot(known, known->count - 1, item_bytes);
    return known->count - 1;
}

struct wire_session *wire_session_new(uint64_t id, uint32_t node_limit)
{
    struct wire_session *session = xcalloc(1, sizeof(*session));
    session->id = id;
    session->node_limit = node_limit;
    append_item(&session->strings, &(struct key_hash){0}, sizeof(struct key_hash));
    append_item(&session->nodes, &(struct key_node){0}, sizeof(struct key_node));
    return session;
}

static void known_fini(struct known *known)
{
    free(known->items);
    free(known->slots);
}

void wire_session_free(struct wire_session *session)
{
    if (!session)
        return;
    known_fini(&session->strings);
    known_fini(&session->executables);
    known_fini(&session->frames);
    known_fini(&session->nodes);
    known_fini(&session->series);
    free(session);
}

uint64_t wire_session_id(const struct wire_session *session)
{
    return session->id;
}

static size_t known_bytes(const struct known *known, size_t item_bytes)
{
    return known->room * item_bytes + (known->slots ? ((size_t)known->mask + 1) * sizeof(*known->slots) : 0);
}

size_t wire_session_memory_bytes(const struct wire_session *session)
{
    return sizeof(*session) + known_bytes(&session->strings, sizeof(struct key_hash)) +
           known_bytes(&session->executables, sizeof(struct key_executable)) +
           known_bytes(&session->frames, sizeof(struct key_frame)) +
           known_bytes(&session->nodes, sizeof(struct key_node)) +
           known_bytes(&session->series, sizeof(struct key_hash));
}

static void know_strings(struct wire_session *session, const struct stackset *set, struct wire_ids *ids)
{
    ids->first_string = session->strings.count;
    ids->strings[0] = 0;
    for (uint32_t i = 1; i < set->string_count; i++) {
        size_t bytes;
        const char *text = stackset_text(set, i, &bytes);
        struct key_hash key = {.hash = XXH3_128bits(text, bytes)};
        ids->strings[i] = know(&session->strings, &key, sizeof(key), 1, session->looking);
    }
}

static void know_executables(struct wire_session *session, const struct stackset *set, struct wire_ids *ids)
{
    ids->first_executable = session->executables.count;
    for (uint32_t i = 0; i < set->executable_count; i++) {
        const struct stackset_executable *e = &set->executables[i];
        struct key_executable key = {
            .id_bytes = e->id_bytes, .id_kind = e->id_kind, .name = ids->strings[e->name]};
        memcpy(key.id, e->id, e->id_bytes);
        ids->executables[i] = know(&session->executables, &key, sizeof(key), 0, session->looking);
    }
}

static void know_frames(struct wire_session *session, const struct stackset *set, struct wire_ids *ids)
{
    ids->first_frame = session->frames.count;
    for (uint32_t i = 0; i < set->frame_count; i++) {
        const struct stackset_frame *frame = &set->frames[i];
        struct key_frame key = {.body = frame->body, .line = frame->line, .kind = frame->kind};
        key.ref = frame->kind == FRAME_NATIVE ? ids->executables[frame->ref] : ids->strings[frame->ref];
        if (frame->kind == FRAME_KERNEL || frame->kind == FRAME_INTERPRETED)
            key.body = ids->strings[frame->body];
        ids->frames[i] = know(&session->frames, &key, sizeof(key), 0, session->looking);
    }
}

static void know_nodes(struct wire_session *session, const struct stackset *set, struct wire_ids *ids)
{
    ids->first_node = session->nodes.count;
    ids->nodes[STACKSET_ROOT] = STACKSET_ROOT;
    for (uint32_t i = 1; i < set->node_count; i++) {
        const struct stackset_node *node = &set->nodes[i];
        struct key_node key = {.parent = ids->nodes[node->parent], .frame = ids->frames[node->frame]};
        ids->nodes[i] = know(&session->nodes, &key, sizeof(key), 1, session->looking);
    }
}

static void know_series(struct wire_session *session, const struct stackset *set, struct wire_ids *ids)
{
    ids->first_series = session->series.count;
    for (uint32_t i = 0; i < set->series_count; i++) {
        const struct stackset_series *series = &set->series[i];
        struct stackset_label labels[STACKSET_MAX_LABELS];
        for (uint32_t k = 0; k < series->label_count; k++) {
            const struct stackset_label *label = &set->labels[series->first_label + k];
            labels[k] = (struct stackset_label){ids->strings[label->name], ids->strings[label->value]};
        }
        struct key_hash key = {.hash = XXH3_128bits(labels, series->label_count * sizeof(*labels))};
        ids->series[i] = know(&session->series, &key, sizeof(key), 0, session->looking);
    }
}

/* The session ids of everything in set (free ids->strings). */
static void know_all(struct wire_session *session, const struct stackset *set, struct wire_ids *ids)
{
    wire_ids_alloc(ids, set);
    know_strings(session, set, ids);
    know_executables(session, set, ids);
    know_frames(session, set, ids);
    know_nodes(session, set, ids);
    know_series(session, set, ids);
}

static bool has_room(const struct known *known, const uint32_t *ids, uint32_t count, uint32_t limit)
{
    uint64_t total = known->count;
    for (uint32_t i = 0; i < count; i++)
        total += ids[i] == UNKNOWN;
    return total <= limit;
}

bool wire_session_fits(struct wire_session *session, const struct stackset *set)
{
    if (session->nodes.count == 1 && session->strings.count == 1 && session->series.count == 0 &&
        session->frames.count == 0 && session->executables.count == 0)
        return true;
    struct wire_ids ids;
    session->looking = true;
    know_all(session, set, &ids);
    session->looking = false;
    uint32_t limit = session->node_limit;
    bool fits = has_room(&session->nodes, ids.nodes, set->node_count, limit) &&
                has_room(&session->frames, ids.frames, set->frame_count, limit) &&
                has_room(&session->strings, ids.strings, set->string_count, limit) &&
                has_room(&session->series, ids.series, set->series_count, limit / 4) &&
                has_room(&session->executables, ids.executables, set->executable_count, limit / 4);
    free(ids.strings);
    return fits;
}

static Fleetprof__Counter **copy_counters(const struct wire_counter *counters, size_t count)
{
    if (count == 0)
        return NULL;
    Fleetprof__Counter **copies = xcalloc(count, sizeof(*copies));
    for (size_t i = 0; i < count; i++) {
        copies[i] = xmalloc(sizeof(*copies[i]));
        fleetprof__counter__init(copies[i]);
        copies[i]->name = xstrdup(counters[i].name);
        copies[i]->value = counters[i].value;
    }
    return copies;
}

int wire_encode_batch(struct wire_session *session, const struct wire_batch *batch,
                      const struct stackset *set, uint64_t route, struct buf *out, struct err *err)
{
    struct wire_ids ids;
    know_all(session, set, &ids);
    Fleetprof__Batch *message = xmalloc(sizeof(*message));
    fleetprof__batch__init(message);
    message->session = session->id;
    message->sequence = batch->sequence;
    message->window_start_ms = batch->window_start_ms;
    message->window_ms = batch->window_ms;
    message->sent_ms = clock_wall_ns() / CLOCK_NS_PER_MS;
    message->taken = batch->taken_count;
    message->dictionary = wire_define(set, &ids, false);
    message->samples = xcalloc(1, sizeof(Fleetprof__Samples *));
    message->samples[message->n_samples++] = wire_rows(set, &ids, batch->kind, batch->unit, batch->scale);
    message->lost = copy_counters(batch->lost, batch->lost_count);
    message->n_lost = batch->lost_count;
    message->gauges = copy_counters(batch->gauges, batch->gauge_count);
    message->n_gauges = batch->gauge_count;
    free(ids.strings);

    int rc = wire_pack(&message->base, WIRE_BATCH, route, out, err);
    wire_free(&message->base);
    return rc;
}
