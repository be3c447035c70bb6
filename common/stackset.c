#define XXH_INLINE_ALL
#include "common/stackset.h"

#include "common/xalloc.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

const struct stackset_limits STACKSET_DEFAULT_LIMITS = {
    .strings = 1u << 18,
    .executables = 1u << 14,
    .frames = 1u << 19,
    .nodes = 1u << 20,
    .series = 1u << 16,
    .rows = 1u << 19,
    .string_bytes = 32u << 20,
};

/* A one-to-one mapping of 64-bit numbers (each step can be undone), so in an index over pairs of u32 equal
 * hashes mean equal pairs and the item itself, one cache miss more, need not be looked at. Constants:
 * splitmix64, Steele et al. 2014. */
static uint64_t mix_pair(uint32_t high, uint32_t low)
{
    uint64_t x = ((uint64_t)high << 32 | low) + 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

static uint32_t find_pair(const struct table *index, uint64_t hash)
{
    struct table_probe probe = table_probe(index, hash);
    return table_next(index, &probe) ? probe.value : STACKSET_FULL;
}

static void *grow(void *items, uint32_t *room, uint32_t count, size_t item_bytes)
{
    if (count < *room)
        return items;
    *room = *room ? (*room > UINT32_MAX / 2 ? UINT32_MAX : *room * 2) : 8;
    return xrealloc_array(items, *room, item_bytes);
}

/* Room for one more of set->items; false at the limit. A macro because the arrays differ in type. */
#define MAKE_ROOM(set, items, item, limit)                                                                   \
    ((set)->item##_count < (limit) && (set)->item##_count < STACKSET_FULL - 1 &&                             \
     ((set)->items = grow((set)->items, &(set)->item##_room, (set)->item##_count, sizeof(*(set)->items))) != \
         NULL)

struct stackset *stackset_new(const struct stackset_limits *limits)
{
    struct stackset *set = xcalloc(1, sizeof(*set));
    set->limits = *limits;
    if (set->limits.string_bytes > UINT32_MAX) /* positions in bytes[] are u32 */
        set->limits.string_bytes = UINT32_MAX;
    set->bytes_room = 64;
    set->bytes = xcalloc(1, set->bytes_room);
    set->bytes_used = 1; /* the NUL of string 0 */
    set->strings = grow(NULL, &set->string_room, 0, sizeof(*set->strings));
    set->strings[set->string_count++] = (struct stackset_string){0, 0};
    set->nodes = grow(NULL, &set->node_room, 0, sizeof(*set->nodes));
    set->nodes[set->node_count++] = (struct stackset_node){0, 0};
    return set;
}

void stackset_free(struct stackset *set)
{
    if (!set)
        return;
    stackset_seal(set);
    free(set->bytes);
    free(set->strings);
    free(set->executables);
    free(set->frames);
    free(set->nodes);
    free(set->labels);
    free(set->series);
    free(set->rows);
    free(set);
}

void stackset_seal(struct stackset *set)
{
    table_fini(&set->string_index);
    table_fini(&set->executable_index);
    table_fini(&set->frame_index);
    table_fini(&set->node_index);
    table_fini(&set->series_index);
    table_fini(&set->row_index);
}

size_t stackset_memory_bytes(const struct stackset *set)
{
    return sizeof(*set) + set->bytes_room + set->string_room * sizeof(*set->strings) +
           set->executable_room * sizeof(*set->executables) + set->frame_room * sizeof(*set->frames) +
           set->node_room * sizeof(*set->nodes) + set->label_room * sizeof(*set->labels) +
           set->series_room * sizeof(*set->series) + set->row_room * sizeof(*set->rows) +
           table_bytes(&set->string_index) + table_bytes(&set->executable_index) +
           table_bytes(&set->frame_index) + table_bytes(&set->node_index) + table_bytes(&set->series_index) +
           table_bytes(&set->row_index);
}

/* text may lie inside bytes[] itself (a part of a string that is there), which growing moves. */
static bool grow_bytes(struct stackset *set, const char **text, size_t bytes)
{
    if (bytes + 1 > set->limits.string_bytes || set->bytes_used > set->limits.string_bytes - bytes - 1)
        return false;
    size_t need = set->bytes_used + bytes + 1, room = set->bytes_room;
    if (need <= room)
        return true;
    while (room < need)
        room *= 2;
    uintptr_t at = (uintptr_t)*text - (uintptr_t)set->bytes;
    bool inside = at < set->bytes_used;
    set->bytes = xrealloc_array(set->bytes, room, 1);
    set->bytes_room = room;
    if (inside)
        *text = set->bytes + at;
    return true;
}

uint32_t stackset_string(struct stackset *set, const void *text, size_t bytes)
{
    if (bytes == 0)
        return 0;
    if (bytes > STACKSET_STRING_BYTES)
        bytes = STACKSET_STRING_BYTES;
    uint64_t hash = XXH3_64bits(text, bytes);
    for (struct table_probe p = table_probe(&set->string_index, hash); table_next(&set->string_index, &p);) {
        const struct stackset_string *string = &set->strings[p.value];
        if (string->bytes == bytes && memcmp(set->bytes + string->at, text, bytes) == 0)
            return p.value;
    }
    assert(set->string_index.slots || set->string_count == 1); /* nothing is added to a sealed set */
    const char *from = text;
    if (!MAKE_ROOM(set, strings, string, set->limits.strings) || !grow_bytes(set, &from, bytes))
        return STACKSET_FULL;
    uint32_t at = (uint32_t)set->bytes_used;
    memcpy(set->bytes + at, from, bytes);
    set->bytes[at + bytes] = '\0';
    set->bytes_used += bytes + 1;
    set->strings[set->string_count] = (struct stackset_string){at, (uint32_t)bytes};
    table_insert(&set->string_index, hash, set->string_count);
    return set->string_count++;
}

uint32_t stackset_cstring(struct stackset *set, const char *text)
{
    return stackset_string(set, text, strlen(text));
}

uint32_t stackset_executable(struct stackset *set, const void *id, size_t id_bytes,
                             enum executable_id_kind kind, uint32_t name)
{
    if (id_bytes > EXECUTABLE_ID_BYTES)
        id_bytes = EXECUTABLE_ID_BYTES;
    uint64_t hash = XXH3_64bits_withSeed(id, id_bytes, (uint64_t)name << 8 | (uint64_t)kind);
    for (struct table_probe p = table_probe(&set->executable_index, hash);
         table_next(&set->executable_index, &p);) {
        const struct stackset_executable *there = &set->executables[p.value];
        if (there->id_bytes == id_bytes && there->id_kind == kind && there->name == name &&
            memcmp(there->id, id, id_bytes) == 0)
            return p.value;
    }
    assert(set->executable_index.slots || set->executable_count == 0);
    if (!MAKE_ROOM(set, executables, executable, set->limits.executables))
        return STACKSET_FULL;
    struct stackset_executable *added = &set->executables[set->executable_count];
    *added =
        (struct stackset_executable){.id_bytes = (uint8_t)id_bytes, .id_kind = (uint8_t)kind, .name = name};
    memcpy(added->id, id, id_bytes);
    table_insert(&set->executable_index, hash, set->executable_count);
    return set->executable_count++;
}

uint32_t stackset_frame(struct stackset *set, enum frame_kind kind, uint32_t ref, uint64_t body,
                        uint32_t line)
{
    if (kind != FRAME_INTERPRETED)
        line = 0;
    if (kind == FRAME_MARKER)
        body = 0;
    const uint64_t key[2] = {body, (uint64_t)line << 32 | ref};
    uint64_t hash = XXH3_64bits_withSeed(key, sizeof(key), kind);
    for (struct table_probe p = table_probe(&set->frame_index, hash); table_next(&set->frame_index, &p);) {
        const struct stackset_frame *there = &set->frames[p.value];
        if (there->body == body && there->ref == ref && there->line == line && there->kind == kind)
            return p.value;
    }
    assert(set->frame_index.slots || set->frame_count == 0);
    if (!MAKE_ROOM(set, frames, frame, set->limits.frames))
        return STACKSET_FULL;
    set->frames[set->frame_count] =
        (struct stackset_frame){.body = body, .ref = ref, .line = line, .kind = (uint8_t)kind};
    table_insert(&set->frame_index, hash, set->frame_count);
    return set->frame_count++;
}

uint32_t stackset_node(struct stackset *set, uint32_t parent, uint32_t frame)
{
    uint64_t hash = mix_pair(parent, frame);
    uint32_t there = find_pair(&set->node_index, hash);
    if (there != STACKSET_FULL)
        return there;
    assert(set->node_index.slots || set->node_count == 1);
    if (!MAKE_ROOM(set, nodes, node, set->limits.nodes))
        return STACKSET_FULL;
    set->nodes[set->node_count] = (struct stackset_node){.parent = parent, .frame = frame};
    table_insert(&set->node_index, hash, set->node_count);
    return set->node_count++;
}

/* By bytes, as the wire wants it. */
static int compare_strings(const struct stackset *set, uint32_t a, uint32_t b)
{
    const struct stackset_string *left = &set->strings[a], *right = &set->strings[b];
    uint32_t shorter = left->bytes < right->bytes ? left->bytes : right->bytes;
    int order = memcmp(set->bytes + left->at, set->bytes + right->at, shorter);
    return order != 0 ? order : (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

static void sort_labels(const struct stackset *set, struct stackset_label *labels, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        struct stackset_label moving = labels[i];
        uint32_t at = i;
        for (; at > 0 && compare_strings(set, labels[at - 1].name, moving.name) > 0; at--)
            labels[at] = labels[at - 1];
        labels[at] = moving;
    }
}

static bool make_label_room(struct stackset *set, uint32_t count)
{
    if (count > UINT32_MAX / 2 - set->label_count)
        return false;
    uint32_t room = set->label_room ? set->label_room : 16;
    while (room < set->label_count + count)
        room *= 2;
    if (room != set->label_room)
        set->labels = xrealloc_array(set->labels, room, sizeof(*set->labels));
    set->label_room = room;
    return true;
}

uint32_t stackset_series(struct stackset *set, const struct stackset_label *labels, uint32_t count)
{
    if (count > STACKSET_MAX_LABELS)
        return STACKSET_FULL;
    struct stackset_label sorted[STACKSET_MAX_LABELS];
    const size_t bytes = count * sizeof(*labels);
    if (count > 0)
        memcpy(sorted, labels, bytes);
    sort_labels(set, sorted, count);
    uint64_t hash = XXH3_64bits(sorted, bytes);
    for (struct table_probe p = table_probe(&set->series_index, hash); table_next(&set->series_index, &p);) {
        const struct stackset_series *there = &set->series[p.value];
        if (there->label_count == count &&
            (count == 0 || memcmp(set->labels + there->first_label, sorted, bytes) == 0))
            return p.value;
    }
    assert(set->series_index.slots || set->series_count == 0);
    if (!MAKE_ROOM(set, series, series, set->limits.series) || !make_label_room(set, count))
        return STACKSET_FULL;
    if (count > 0)
        memcpy(set->labels + set->label_count, sorted, bytes);
    set->series[set->series_count] =
        (struct stackset_series){.first_label = set->label_count, .label_count = count};
    set->label_count += count;
    table_insert(&set->series_index, hash, set->series_count);
    return set->series_count++;
}

static uint64_t add_saturated(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

uint32_t stackset_add(struct stackset *set, uint32_t series, uint32_t node, uint64_t value, uint64_t count)
{
    uint64_t hash = mix_pair(series, node);
    uint32_t at = find_pair(&set->row_index, hash);
    if (at == STACKSET_FULL) {
        assert(set->row_index.slots || set->row_count == 0);
        if (!MAKE_ROOM(set, rows, row, set->limits.rows))
            return STACKSET_FULL;
        at = set->row_count++;
        set->rows[at] = (struct stackset_row){.series = series, .node = node};
        table_insert(&set->row_index, hash, at);
    }
    struct stackset_row *row = &set->rows[at];
    row->value = add_saturated(row->value, value);
    row->count = add_saturated(row->count, count);
    return at;
}

static int compare_rows(const void *a, const void *b)
{
    const struct stackset_row *left = a, *right = b;
    if (left->series != right->series)
        return left->series < right->series ? -1 : 1;
    return (left->node > right->node) - (left->node < right->node);
}

void stackset_sort_rows(struct stackset *set)
{
    table_fini(&set->row_index);
    for (uint32_t i = 1; i < set->row_count; i++) {
        if (compare_rows(&set->rows[i - 1], &set->rows[i]) > 0) {
            qsort(set->rows, set->row_count, sizeof(*set->rows), compare_rows);
            return;
        }
    }
}

const char *stackset_text(const struct stackset *set, uint32_t string, size_t *ret_bytes)
{
    if (ret_bytes)
        *ret_bytes = set->strings[string].bytes;
    return set->bytes + set->strings[string].at;
}

uint32_t stackset_label_value(const struct stackset *set, uint32_t series, const char *name)
{
    const struct stackset_series *entry = &set->series[series];
    size_t bytes = strlen(name);
    for (uint32_t i = 0; i < entry->label_count; i++) {
        const struct stackset_label *label = &set->labels[entry->first_label + i];
        const struct stackset_string *text = &set->strings[label->name];
        if (text->bytes == bytes && memcmp(set->bytes + text->at, name, bytes) == 0)
            return label->value;
    }
    return STACKSET_FULL;
}
