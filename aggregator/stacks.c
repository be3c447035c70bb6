#include "aggregator/stacks.h"

#include "aggregator/naming.h"
#include "aggregator/pairs.h"
#include "aggregator/profile_kind.h"
#include "common/xalloc.h"

#include <stdlib.h>
#include <string.h>

const struct stackset_limits STACKS_LIMITS = {
    .strings = 1u << 20,
    .executables = 1u << 16,
    .frames = 2u << 20,
    .nodes = 4u << 20,
    .series = 1u << 18,
    .rows = 4u << 20,
    .string_bytes = 128u << 20,
};

#define NOT_YET (UINT32_MAX - 1) /* beside STACKSET_FULL, which is remembered too */

/* Partition ids -> ids of the answer, filled as needed. */
struct translation {
    struct partition *partition;
    struct naming naming;
    struct stackset *set;
    uint32_t *frames, *nodes, *series;
};

static uint32_t *blank(uint32_t count)
{
    uint32_t *ids = xmalloc((count + 1) * sizeof(*ids));
    for (uint32_t i = 0; i < count; i++)
        ids[i] = NOT_YET;
    return ids;
}

static void translation_init(struct translation *t, struct partition *partition, uint64_t now_ms)
{
    const struct dictionary *dictionary = &partition->dictionary;
    t->partition = partition;
    naming_begin(&t->naming, partition, now_ms);
    t->set = stackset_new(&STACKS_LIMITS);
    t->frames = blank(dictionary->frame_count);
    t->nodes = blank(dictionary->node_count);
    t->series = blank(dictionary->series_count);
    t->nodes[DICTIONARY_ROOT] = STACKSET_ROOT;
}

static uint32_t string_of(struct translation *t, uint32_t string)
{
    size_t bytes;
    const char *text = dictionary_text(&t->partition->dictionary, string, &bytes);
    return stackset_string(t->set, text, bytes);
}

static uint32_t make_frame(struct translation *t, uint32_t frame)
{
    const struct dictionary *dictionary = &t->partition->dictionary;
    uint32_t function = naming_function(&t->naming, frame);
    struct dictionary_frame entry = dictionary->frames[frame];
    uint64_t body = entry.body;
    uint32_t ref;
    if (entry.kind == FRAME_NATIVE) {
        const struct dictionary_executable *executable = &dictionary->executables[entry.ref];
        uint32_t name = string_of(t, executable->name);
        if (name == STACKSET_FULL)
            return STACKSET_FULL;
        ref = stackset_executable(t->set, executable->id, executable->id_bytes,
                                  (enum executable_id_kind)executable->id_kind, name);
    } else {
        ref = string_of(t, entry.ref);
        if (entry.kind != FRAME_MARKER) {
            uint32_t second = string_of(t, (uint32_t)entry.body);
            if (second == STACKSET_FULL)
                return STACKSET_FULL;
            body = second;
        }
    }
    if (ref == STACKSET_FULL)
        return STACKSET_FULL;
    uint32_t id = stackset_frame(t->set, (enum frame_kind)entry.kind, ref, body, entry.line);
    if (id != STACKSET_FULL && function != DICTIONARY_UNRANKED) {
        uint32_t name = string_of(t, dictionary->functions[function].name);
        t->set->frames[id].function = name == STACKSET_FULL ? 0 : name + 1;
    }
    return id;
}

/* Root first, so that parents are there before their children. */
static uint32_t node_of(struct translation *t, uint32_t leaf)
{
    const struct dictionary *dictionary = &t->partition->dictionary;
    uint32_t path[DICTIONARY_MAX_DEPTH + 1], depth = 0, node = leaf;
    while (t->nodes[node] == NOT_YET) {
        path[depth++] = node;
        node = dictionary->nodes[node].parent;
    }
    uint32_t id = t->nodes[node];
    while (depth > 0) {
        node = path[--depth];
        uint32_t frame = dictionary->nodes[node].frame;
        if (t->frames[frame] == NOT_YET)
            t->frames[frame] = make_frame(t, frame);
        id = id == STACKSET_FULL || t->frames[frame] == STACKSET_FULL
                 ? STACKSET_FULL
                 : stackset_node(t->set, id, t->frames[frame]);
        t->nodes[node] = id;
    }
    return id;
}

static uint32_t series_of(struct translation *t, uint32_t series)
{
    if (t->series[series] != NOT_YET)
        return t->series[series];
    const struct dictionary *dictionary = &t->partition->dictionary;
    const struct dictionary_series *entry = &dictionary->series[series];
    struct stackset_label labels[DICTIONARY_MAX_LABELS];
    uint32_t count = 0;
    bool fits = true;
    for (uint32_t i = 0; i < entry->label_count && count < STACKSET_MAX_LABELS; i++, count++) {
        labels[count].name = string_of(t, dictionary->labels[entry->first_label + i].name);
        labels[count].value = string_of(t, dictionary->labels[entry->first_label + i].value);
        fits = fits && labels[count].name != STACKSET_FULL && labels[count].value != STACKSET_FULL;
    }
    return t->series[series] = fits ? stackset_series(t->set, labels, count) : STACKSET_FULL;
}

static void sum_rows(const struct selection *selection, const struct partition *partition,
                     struct pairs *pairs)
{
    const struct windows *windows = &partition->windows;
    uint8_t *series_in = selection_series(selection, &partition->dictionary);
    for (uint32_t b = windows_first_in_range(windows, selection->from_ms);
         b < windows->bucket_count && windows->buckets[b]->start_ms < selection->to_ms; b++) {
        if (windows->buckets[b]->kind != selection->kind)
            continue;
        struct window_segment segment;
        for (struct window_cursor c = window_cursor(windows->buckets[b]); window_next(&c, &segment);)
            for (uint32_t i = 0; series_in[segment.series] && i < segment.row_count; i++)
                pairs_add(pairs, segment.series, segment.node[i], segment.value[i], segment.count[i]);
    }
    free(series_in);
}

static void add_row(struct translation *t, const struct pair *pair, uint64_t scale,
                    struct completeness *completeness)
{
    const struct dictionary *dictionary = &t->partition->dictionary;
    uint64_t value = pair->cell.value * scale;
    completeness->samples += pair->cell.count;
    completeness->value += value;
    if (dictionary->shapes[pair->second].marked)
        completeness->truncated += pair->cell.count;
    uint32_t function = pair->second == DICTIONARY_ROOT
                            ? DICTIONARY_UNRANKED
                            : naming_function(&t->naming, dictionary->nodes[pair->second].frame);
    completeness_leaf(completeness, dictionary, function, pair->cell.count, value);
    uint32_t series = series_of(t, pair->first), node = node_of(t, pair->second);
    if (series == STACKSET_FULL || node == STACKSET_FULL ||
        stackset_add(t->set, series, node, value, pair->cell.count) == STACKSET_FULL)
        completeness_lose(completeness, "answer_full", pair->cell.count);
}

struct stackset *stacks_of_partition(const struct selection *selection, struct partition *partition,
                                     uint64_t now_ms, struct completeness *completeness)
{
    struct pairs pairs = {0};
    struct translation t = {0};
    sum_rows(selection, partition, &pairs);
    translation_init(&t, partition, now_ms);
    uint64_t scale = profile_kind(selection->kind)->scale;
    for (uint32_t i = 0; i < pairs.count; i++)
        add_row(&t, &pairs.items[i], scale, completeness);
    completeness_of_partition(completeness, partition, selection);
    naming_end(&t.naming);
    free(t.frames);
    free(t.nodes);
    free(t.series);
    pairs_fini(&pairs);
    return t.set;
}
