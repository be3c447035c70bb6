#define XXH_INLINE_ALL
#include "aggregator/dictionary.h"

#include "common/xalloc.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Makes *items (of item_bytes each) hold at least one more than count. */
static void *grow(void *items, uint32_t count, uint32_t *room, size_t item_bytes)
{
    if (count < *room)
        return items;
    uint32_t next = *room ? *room + *room / 2 + 1 : 64;
    *room = next < *room ? UINT32_MAX - 1 : next;
    return xrealloc_array(items, *room, item_bytes);
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t words[2] = {a, b};
    return XXH3_64bits(words, sizeof(words));
}

static uint32_t full(struct dictionary *dictionary)
{
    dictionary->full_count++;
    return DICTIONARY_FULL;
}

void dictionary_init(struct dictionary *dictionary, const struct dictionary_limits *limits)
{
    *dictionary = (struct dictionary){.limits = *limits};
    /* The root, the lost stack and its text must always fit. */
    if (dictionary->limits.nodes < 2)
        dictionary->limits.nodes = 2;
    if (dictionary->limits.frames < 1)
        dictionary->limits.frames = 1;
    if (dictionary->limits.strings < 2)
        dictionary->limits.strings = 2;
    if (dictionary->limits.string_bytes < 64)
        dictionary->limits.string_bytes = 64;
    dictionary_string(dictionary, "", 0);
    dictionary->nodes = grow(NULL, 0, &dictionary->node_room, sizeof(*dictionary->nodes));
    dictionary->shapes = xrealloc_array(NULL, dictionary->node_room, sizeof(*dictionary->shapes));
    dictionary->nodes[0] = (struct dictionary_node){.parent = 0, .frame = DICTIONARY_NONE};
    dictionary->shapes[0] = (struct dictionary_shape){0};
    dictionary->node_count = 1;
    uint32_t text = dictionary_cstring(dictionary, DICTIONARY_LOST_TEXT);
    uint32_t frame = dictionary_frame(dictionary, FRAME_MARKER, text, 0, 0);
    dictionary_node(dictionary, DICTIONARY_ROOT, frame);
}

void dictionary_fini(struct dictionary *dictionary)
{
    free(dictionary->bytes);
    free(dictionary->strings);
    free(dictionary->executables);
    free(dictionary->frames);
    free(dictionary->functions);
    free(dictionary->nodes);
    free(dictionary->shapes);
    free(dictionary->labels);
    free(dictionary->series);
    table_fini(&dictionary->string_index);
    table_fini(&dictionary->executable_index);
    table_fini(&dictionary->frame_index);
    table_fini(&dictionary->function_index);
    table_fini(&dictionary->node_index);
    table_fini(&dictionary->series_index);
    *dictionary = (struct dictionary){0};
}

size_t dictionary_memory_bytes(const struct dictionary *d)
{
    return d->bytes_room + d->string_room * sizeof(*d->strings) +
           d->executable_room * sizeof(*d->executables) + d->frame_room * sizeof(*d->frames) +
           d->function_room * sizeof(*d->functions) +
           d->node_room * (sizeof(*d->nodes) + sizeof(*d->shapes)) + d->label_room * sizeof(*d->labels) +
           d->series_room * sizeof(*d->series) + table_bytes(&d->string_index) +
           table_bytes(&d->executable_index) + table_bytes(&d->frame_index) +
           table_bytes(&d->function_index) + table_bytes(&d->node_index) + table_bytes(&d->series_index);
}

/* ---- strings ---- */

static uint32_t find_string(const struct dictionary *dictionary, const void *text, size_t bytes,
                            uint64_t hash)
{
    for (struct table_probe p = table_probe(&dictionary->string_index, hash);
         table_next(&dictionary->string_index, &p);) {
        const struct dictionary_string *string = &dictionary->strings[p.value];
        if (string->bytes == bytes &&
            (bytes == 0 || memcmp(dictionary->bytes + string->at, text, bytes) == 0))
            return p.value;
    }
    return DICTIONARY_NONE;
}

uint32_t dictionary_find_string(const struct dictionary *dictionary, const void *text, size_t bytes)
{
    return find_string(dictionary, text, bytes, XXH3_64bits(text, bytes));
}

static void string_room(struct dictionary *dictionary, uint32_t more_bytes)
{
    uint64_t need = (uint64_t)dictionary->bytes_used + more_bytes;
    if (need <= dictionary->bytes_room)
        return;
    uint64_t room = dictionary->bytes_room ? dictionary->bytes_room : 4096;
    while (room < need)
        room += room / 2;
    if (room > UINT32_MAX)
        room = UINT32_MAX;
    dictionary->bytes = xrealloc_array(dictionary->bytes, room, 1);
    dictionary->bytes_room = (uint32_t)room;
}

uint32_t dictionary_string(struct dictionary *dictionary, const void *text, size_t bytes)
{
    if (bytes > STACKSET_STRING_BYTES)
        bytes = STACKSET_STRING_BYTES;
    uint64_t hash = XXH3_64bits(text, bytes);
    uint32_t id = find_string(dictionary, text, bytes, hash);
    if (id != DICTIONARY_NONE)
        return id;
    const struct dictionary_limits *limits = &dictionary->limits;
    if (dictionary->string_count >= limits->strings || dictionary->bytes_used >= limits->string_bytes ||
        bytes + 1 > limits->string_bytes - dictionary->bytes_used)
        return full(dictionary);
    string_room(dictionary, (uint32_t)bytes + 1);
    dictionary->strings = grow(dictionary->strings, dictionary->string_count, &dictionary->string_room,
                               sizeof(*dictionary->strings));
    id = dictionary->string_count++;
    dictionary->strings[id] =
        (struct dictionary_string){.at = dictionary->bytes_used, .bytes = (uint32_t)bytes};
    if (bytes)
        memcpy(dictionary->bytes + dictionary->bytes_used, text, bytes);
    dictionary->bytes[dictionary->bytes_used + bytes] = '\0';
    dictionary->bytes_used += (uint32_t)bytes + 1;
    table_insert(&dictionary->string_index, hash, id);
    return id;
}

uint32_t dictionary_cstring(struct dictionary *dictionary, const char *text)
{
    return dictionary_string(dictionary, text, strlen(text));
}

const char *dictionary_text(const struct dictionary *dictionary, uint32_t string, size_t *ret_bytes)
{
    const struct dictionary_string *entry = &dictionary->strings[string];
    if (ret_bytes)
        *ret_bytes = entry->bytes;
    return dictionary->bytes + entry->at;
}

/* ---- executables, frames, functions ---- */

uint32_t dictionary_executable(struct dictionary *dictionary, const void *id, size_t id_bytes,
                               uint8_t id_kind, uint32_t name)
{
    if (id_bytes > EXECUTABLE_ID_BYTES)
        return full(dictionary);
    uint64_t hash = XXH3_64bits_withSeed(id, id_bytes, (uint64_t)name << 8 | id_kind);
    for (struct table_probe p = table_probe(&dictionary->executable_index, hash);
         table_next(&dictionary->executable_index, &p);) {
        const struct dictionary_executable *old = &dictionary->executables[p.value];
        if (old->id_kind == id_kind && old->id_bytes == id_bytes && old->name == name &&
            memcmp(old->id, id, id_bytes) == 0)
            return p.value;
    }
    if (dictionary->executable_count >= dictionary->limits.executables)
        return full(dictionary);
    dictionary->executables = grow(dictionary->executables, dictionary->executable_count,
                                   &dictionary->executable_room, sizeof(*dictionary->executables));
    uint32_t at = dictionary->executable_count++;
    struct dictionary_executable *executable = &dictionary->executables[at];
    *executable =
        (struct dictionary_executable){.id_bytes = (uint8_t)id_bytes, .id_kind = id_kind, .name = name};
    memcpy(executable->id, id, id_bytes);
    table_insert(&dictionary->executable_index, hash, at);
    return at;
}

uint32_t dictionary_frame(struct dictionary *dictionary, uint8_t kind, uint32_t ref, uint64_t body,
                          uint32_t line)
{
    uint64_t hash = mix(body, (uint64_t)ref << 32 | line) + kind * 0x9e3779b97f4a7c15ULL;
    for (struct table_probe p = table_probe(&dictionary->frame_index, hash);
         table_next(&dictionary->frame_index, &p);) {
        const struct dictionary_frame *old = &dictionary->frames[p.value];
        if (old->body == body && old->ref == ref && old->line == line && old->kind == kind)
            return p.value;
    }
    if (dictionary->frame_count >= dictionary->limits.frames)
        return full(dictionary);
    dictionary->frames = grow(dictionary->frames, dictionary->frame_count, &dictionary->frame_room,
                              sizeof(*dictionary->frames));
    uint32_t id = dictionary->frame_count++;
    dictionary->frames[id] = (struct dictionary_frame){
        .body = body, .ref = ref, .line = line, .kind = kind, .function = DICTIONARY_UNRESOLVED};
    table_insert(&dictionary->frame_index, hash, id);
    return id;
}

uint32_t dictionary_function(struct dictionary *dictionary, uint32_t name, uint32_t module, bool unnamed)
{
    uint64_t hash = mix(name, module);
    for (struct table_probe p = table_probe(&dictionary->function_index, hash);
         table_next(&dictionary->function_index, &p);) {
        const struct dictionary_function *old = &dictionary->functions[p.value];
        if (old->name == name && old->module == module)
            return p.value;
    }
    if (dictionary->function_count >= dictionary->limits.functions)
        return full(dictionary);
    dictionary->functions = grow(dictionary->functions, dictionary->function_count,
                                 &dictionary->function_room, sizeof(*dictionary->functions));
    uint32_t id = dictionary->function_count++;
    dictionary->functions[id] =
        (struct dictionary_function){.name = name, .module = module, .unnamed = unnamed};
    table_insert(&dictionary->function_index, hash, id);
    return id;
}

/* ---- nodes ---- */

static void node_room(struct dictionary *dictionary)
{
    if (dictionary->node_count < dictionary->node_room)
        return;
    dictionary->nodes =
        grow(dictionary->nodes, dictionary->node_count, &dictionary->node_room, sizeof(*dictionary->nodes));
    dictionary->shapes =
        xrealloc_array(dictionary->shapes, dictionary->node_room, sizeof(*dictionary->shapes));
}

uint32_t dictionary_node(struct dictionary *dictionary, uint32_t parent, uint32_t frame)
{
    uint64_t hash = mix(parent, frame);
    for (struct table_probe p = table_probe(&dictionary->node_index, hash);
         table_next(&dictionary->node_index, &p);) {
        const struct dictionary_node *old = &dictionary->nodes[p.value];
        if (old->parent == parent && old->frame == frame)
            return p.value;
    }
    struct dictionary_shape above = dictionary->shapes[parent];
    if (dictionary->node_count >= dictionary->limits.nodes || above.depth >= DICTIONARY_MAX_DEPTH)
        return full(dictionary);
    node_room(dictionary);
    uint32_t id = dictionary->node_count++;
    dictionary->nodes[id] = (struct dictionary_node){.parent = parent, .frame = frame};
    dictionary->shapes[id] = (struct dictionary_shape){
        .depth = (uint16_t)(above.depth + 1),
        .marked = above.marked || dictionary->frames[frame].kind == FRAME_MARKER,
    };
    table_insert(&dictionary->node_index, hash, id);
    return id;
}

/* ---- series ---- */

uint32_t dictionary_series(struct dictionary *dictionary, const struct dictionary_label *labels,
                           uint32_t count, bool beyond_limit)
{
    uint64_t hash = XXH3_64bits(labels, count * sizeof(*labels));
    for (struct table_probe p = table_probe(&dictionary->series_index, hash);
         table_next(&dictionary->series_index, &p);) {
        const struct dictionary_series *old = &dictionary->series[p.value];
        if (old->label_count == count && (count == 0 || memcmp(dictionary->labels + old->first_label, labels,
                                                               count * sizeof(*labels)) == 0))
            return p.value;
    }
    if ((dictionary->series_count >= dictionary->limits.series && !beyond_limit) ||
        count > DICTIONARY_MAX_LABELS)
        return full(dictionary);
    dictionary->series = grow(dictionary->series, dictionary->series_count, &dictionary->series_room,
                              sizeof(*dictionary->series));
    uint32_t id = dictionary->series_count++;
    dictionary->series[id] =
        (struct dictionary_series){.first_label = dictionary->label_count, .label_count = count};
    for (uint32_t i = 0; i < count; i++) {
        dictionary->labels = grow(dictionary->labels, dictionary->label_count, &dictionary->label_room,
                                  sizeof(*dictionary->labels));
        dictionary->labels[dictionary->label_count++] = labels[i];
    }
    table_insert(&dictionary->series_index, hash, id);
    return id;
}

uint32_t dictionary_label_value(const struct dictionary *dictionary, uint32_t series, uint32_t name)
{
    const struct dictionary_series *entry = &dictionary->series[series];
    for (uint32_t i = 0; i < entry->label_count; i++)
        if (dictionary->labels[entry->first_label + i].name == name)
            return dictionary->labels[entry->first_label + i].value;
    return DICTIONARY_NONE;
}

/* ---- compaction ---- */

static uint32_t carry_string(struct dictionary *into, const struct dictionary *from, uint32_t string)
{
    size_t bytes;
    const char *text = dictionary_text(from, string, &bytes);
    return dictionary_string(into, text, bytes);
}

static uint32_t carry_frame(struct dictionary *into, const struct dictionary *from, uint32_t frame)
{
    const struct dictionary_frame *old = &from->frames[frame];
    uint32_t ref = old->ref;
    uint64_t body = old->body;
    if (old->kind == FRAME_NATIVE) {
        const struct dictionary_executable *executable = &from->executables[ref];
        ref = dictionary_executable(into, executable->id, executable->id_bytes, executable->id_kind,
                                    carry_string(into, from, executable->name));
    } else {
        ref = carry_string(into, from, ref);
        if (old->kind == FRAME_KERNEL || old->kind == FRAME_INTERPRETED)
            body = carry_string(into, from, (uint32_t)body);
    }
    return dictionary_frame(into, old->kind, ref, body, old->line);
}

static uint32_t carry_series(struct dictionary *into, const struct dictionary *from, uint32_t series)
{
    const struct dictionary_series *old = &from->series[series];
    struct dictionary_label labels[DICTIONARY_MAX_LABELS];
    for (uint32_t i = 0; i < old->label_count; i++) {
        labels[i].name = carry_string(into, from, from->labels[old->first_label + i].name);
        labels[i].value = carry_string(into, from, from->labels[old->first_label + i].value);
    }
    return dictionary_series(into, labels, old->label_count, true);
}

void dictionary_compact(struct dictionary *dictionary, uint8_t *live_nodes, const uint8_t *live_series,
                        uint32_t *ret_nodes, uint32_t *ret_series)
{
    live_nodes[DICTIONARY_ROOT] = live_nodes[DICTIONARY_LOST_NODE] = 1;
    for (uint32_t node = dictionary->node_count - 1; node > 0; node--)
        if (live_nodes[node])
            live_nodes[dictionary->nodes[node].parent] = 1;

    /* What is kept is a part of what fitted before, so nothing below can be full. */
    struct dictionary fresh;
    dictionary_init(&fresh, &dictionary->limits);
    fresh.full_count = dictionary->full_count;
    ret_nodes[DICTIONARY_ROOT] = DICTIONARY_ROOT;
    for (uint32_t node = 1; node < dictionary->node_count; node++) {
        const struct dictionary_node *old = &dictionary->nodes[node];
        ret_nodes[node] = !live_nodes[node] ? DICTIONARY_NONE
                                            : dictionary_node(&fresh, ret_nodes[old->parent],
                                                              carry_frame(&fresh, dictionary, old->frame));
    }
    for (uint32_t series = 0; series < dictionary->series_count; series++)
        ret_series[series] = live_series[series] ? carry_series(&fresh, dictionary, series) : DICTIONARY_NONE;
    dictionary_fini(dictionary);
    *dictionary = fresh;
}
