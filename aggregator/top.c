#include "aggregator/top.h"

#include "aggregator/naming.h"
#include "aggregator/pairs.h"
#include "aggregator/profile_kind.h"
#include "common/str.h"
#include "common/xalloc.h"

#include <stdlib.h>
#include <string.h>

#define NO_ENTITY UINT32_MAX       /* not looked at yet */
#define UNRANKED  (UINT32_MAX - 1) /* a marker */

enum group_kind { GROUP_LABEL, GROUP_FUNCTION, GROUP_MODULE, GROUP_BUILD };

/* What frames are called in this question: a distinct tuple of frame groups is an entity. */
struct entity {
    uint32_t parts[QUERY_MAX_GROUPS];
};

struct run {
    const struct top_request *request;
    struct partition *partition;
    struct naming naming;
    enum group_kind kinds[QUERY_MAX_GROUPS];
    bool by_frame, by_label;
    uint64_t scale;
    uint8_t *series_in;
    /* Label keys: distinct tuples of label groups. */
    uint32_t *label_key_of_series;
    uint32_t *label_key_series; /* a series that has it */
    uint32_t label_key_count;
    struct pair_cell *cells;       /* by call-tree node */
    struct pair_cell *label_cells; /* by label key */
    struct pairs node_pairs;       /* (label key, node) */
    struct pairs entity_pairs;     /* (label key, entity) */
    uint32_t *entity_of_frame;
    struct entity *entities;
    struct pair_cell *entity_cells;
    uint32_t *stamps;
    uint32_t entity_count, entity_room, stamp;
    struct table entity_index;
};

size_t top_key_values(const char groups[][TOP_GROUP_BYTES], size_t group_count)
{
    size_t count = group_count;
    for (size_t i = 0; i < group_count; i++)
        count += strcmp(groups[i], "function") == 0;
    return count;
}

static uint64_t mix(uint32_t a, uint32_t b)
{
    uint64_t x = ((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15ULL;
    return x ^ x >> 32;
}

/* ---- label keys ---- */

static void label_tuple(const struct run *run, uint32_t series, uint32_t *out)
{
    const struct dictionary *dictionary = &run->partition->dictionary;
    for (size_t g = 0; g < run->request->group_count; g++) {
        const char *name = run->request->groups[g];
        out[g] = 0; /* the empty string: frame groups, missing labels */
        if (run->kinds[g] != GROUP_LABEL)
            continue;
        uint32_t string = dictionary_find_string(dictionary, name, strlen(name));
        uint32_t value =
            string == DICTIONARY_NONE ? DICTIONARY_NONE : dictionary_label_value(dictionary, series, string);
        if (value != DICTIONARY_NONE)
            out[g] = value;
    }
}

static void number_label_keys(struct run *run)
{
    const struct dictionary *dictionary = &run->partition->dictionary;
    uint32_t count = dictionary->series_count;
    struct table index = {0};
    uint32_t(*tuples)[QUERY_MAX_GROUPS] = xcalloc(count + 1, sizeof(*tuples));
    run->label_key_of_series = xcalloc(count + 1, sizeof(uint32_t));
    run->label_key_series = xcalloc(count + 1, sizeof(uint32_t));
    for (uint32_t series = 0; series < count; series++) {
        uint32_t tuple[QUERY_MAX_GROUPS] = {0};
        label_tuple(run, series, tuple);
        uint64_t hash = mix(tuple[0], tuple[1]) * 31 + mix(tuple[2], tuple[3]);
        uint32_t key = NO_ENTITY;
        for (struct table_probe p = table_probe(&index, hash); key == NO_ENTITY && table_next(&index, &p);)
            if (memcmp(tuples[p.value], tuple, sizeof(tuple)) == 0)
                key = p.value;
        if (key == NO_ENTITY) {
            key = run->label_key_count++;
            memcpy(tuples[key], tuple, sizeof(tuple));
            run->label_key_series[key] = series;
            table_insert(&index, hash, key);
        }
        run->label_key_of_series[series] = key;
    }
    table_fini(&index);
    free(tuples);
    run->label_cells = xcalloc(run->label_key_count + 1, sizeof(*run->label_cells));
}

/* ---- the scan: the only part that touches every row ---- */

static struct pair_cell scan_segment(struct pair_cell *cells, const struct window_segment *segment)
{
    struct pair_cell sum = {0};
    for (uint32_t i = 0; i < segment->row_count; i++) {
        struct pair_cell *cell = &cells[segment->node[i]];
        cell->value += segment->value[i];
        cell->count += segment->count[i];
        sum.value += segment->value[i];
        sum.count += segment->count[i];
    }
    return sum;
}

static void scan(struct run *run)
{
    const struct selection *selection = &run->request->selection;
    const struct windows *windows = &run->partition->windows;
    for (uint32_t b = windows_first_in_range(windows, selection->from_ms);
         b < windows->bucket_count && windows->buckets[b]->start_ms < selection->to_ms; b++) {
        if (windows->buckets[b]->kind != selection->kind)
            continue;
        struct window_segment segment;
        for (struct window_cursor c = window_cursor(windows->buckets[b]); window_next(&c, &segment);) {
            if (!run->series_in[segment.series])
                continue;
            struct pair_cell sum = scan_segment(run->cells, &segment);
            if (!run->by_label)
                continue;
            uint32_t key = run->label_key_of_series[segment.series];
            run->label_cells[key].value += sum.value;
            run->label_cells[key].count += sum.count;
            for (uint32_t i = 0; run->by_frame && i < segment.row_count; i++)
                pairs_add(&run->node_pairs, key, segment.node[i], segment.value[i], segment.count[i]);
        }
    }
}

/* ---- frames to entities ---- */

static uint32_t entity_add(struct run *run, const struct entity *entity)
{
    uint64_t hash = mix(entity->parts[0], entity->parts[1]) * 31 + mix(entity->parts[2], entity->parts[3]);
    for (struct table_probe p = table_probe(&run->entity_index, hash); table_next(&run->entity_index, &p);)
        if (memcmp(&run->entities[p.value], entity, sizeof(*entity)) == 0)
            return p.value;
    if (run->entity_count == run->entity_room) {
        uint32_t room = run->entity_room ? run->entity_room * 2 : 1024;
        run->entities = xrealloc_array(run->entities, room, sizeof(*run->entities));
        run->entity_cells = xrealloc_array(run->entity_cells, room, sizeof(*run->entity_cells));
        run->stamps = xrealloc_array(run->stamps, room, sizeof(*run->stamps));
        run->entity_room = room;
    }
    uint32_t at = run->entity_count++;
    run->entities[at] = *entity;
    run->entity_cells[at] = (struct pair_cell){0};
    run->stamps[at] = 0;
    table_insert(&run->entity_index, hash, at);
    return at;
}

static uint32_t entity_of(struct run *run, uint32_t frame)
{
    if (run->entity_of_frame[frame] != NO_ENTITY)
        return run->entity_of_frame[frame];
    const struct dictionary *dictionary = &run->partition->dictionary;
    uint32_t function = naming_function(&run->naming, frame);
    if (function == DICTIONARY_UNRANKED)
        return run->entity_of_frame[frame] = UNRANKED;
    struct entity entity = {{0}};
    for (size_t g = 0; g < run->request->group_count; g++) {
        const struct dictionary_frame *entry = &dictionary->frames[frame];
        if (run->kinds[g] == GROUP_FUNCTION)
            entity.parts[g] = function;
        else if (run->kinds[g] == GROUP_MODULE)
            entity.parts[g] = dictionary->functions[function].module;
        else if (run->kinds[g] == GROUP_BUILD)
            entity.parts[g] = entry->kind == FRAME_NATIVE ? entry->ref : DICTIONARY_NONE;
    }
    return run->entity_of_frame[frame] = entity_add(run, &entity);
}

static void credit(struct run *run, uint32_t label_key, uint32_t entity, const struct pair_cell *cell)
{
    if (run->by_label) {
        pairs_add(&run->entity_pairs, label_key, entity, cell->value, cell->count);
        return;
    }
    run->entity_cells[entity].value += cell->value;
    run->entity_cells[entity].count += cell->count;
}

static void credit_stack(struct run *run, uint32_t label_key, uint32_t leaf, const struct pair_cell *cell)
{
    const struct dictionary_node *nodes = run->partition->dictionary.nodes;
    if (!run->request->cumulative) {
        uint32_t entity = leaf == DICTIONARY_ROOT ? UNRANKED : entity_of(run, nodes[leaf].frame);
        if (entity != UNRANKED)
            credit(run, label_key, entity, cell);
        return;
    }
    run->stamp++;
    for (uint32_t node = leaf; node != DICTIONARY_ROOT; node = nodes[node].parent) {
        uint32_t entity = entity_of(run, nodes[node].frame);
        if (entity == UNRANKED || run->stamps[entity] == run->stamp)
            continue;
        run->stamps[entity] = run->stamp;
        credit(run, label_key, entity, cell);
    }
}

/* Totals, and rows when no labels are asked for, from the sums by node. */
static void credit_nodes(struct run *run, struct completeness *completeness)
{
    const struct dictionary *dictionary = &run->partition->dictionary;
    for (uint32_t node = 0; node < dictionary->node_count; node++) {
        const struct pair_cell *cell = &run->cells[node];
        if (cell->count == 0 && cell->value == 0)
            continue;
        completeness->samples += cell->count;
        completeness->value += cell->value * run->scale;
        if (dictionary->shapes[node].marked)
            completeness->truncated += cell->count;
        uint32_t function = node == DICTIONARY_ROOT
                                ? DICTIONARY_UNRANKED
                                : naming_function(&run->naming, dictionary->nodes[node].frame);
        completeness_leaf(completeness, dictionary, function, cell->count, cell->value * run->scale);
        if (run->by_frame && !run->by_label)
            credit_stack(run, 0, node, cell);
    }
    for (uint32_t i = 0; i < run->node_pairs.count; i++) {
        struct pair pair = run->node_pairs.items[i];
        credit_stack(run, pair.first, pair.second, &pair.cell);
    }
}

/* ---- rows ---- */

struct key {
    uint8_t bytes[(QUERY_MAX_GROUPS * 2) * (2 + STACKSET_STRING_BYTES)];
    size_t used;
};

static void key_append(struct key *key, const void *text, size_t bytes)
{
    key->bytes[key->used++] = bytes & 0xff;
    key->bytes[key->used++] = (bytes >> 8) & 0xff;
    memcpy(key->bytes + key->used, text, bytes);
    key->used += bytes;
}

static void key_string(struct key *key, const struct dictionary *dictionary, uint32_t string)
{
    size_t bytes;
    const char *text = dictionary_text(dictionary, string, &bytes);
    key_append(key, text, bytes);
}

static void key_build(struct key *key, const struct dictionary *dictionary, uint32_t executable)
{
    char hex[2 * EXECUTABLE_ID_BYTES + 1] = "";
    if (executable != DICTIONARY_NONE)
        str_hex(hex, dictionary->executables[executable].id, dictionary->executables[executable].id_bytes);
    key_append(key, hex, strlen(hex));
}

static void add_row(struct run *run, struct top_table *table, uint32_t label_key, uint32_t entity,
                    const struct pair_cell *cell)
{
    const struct dictionary *dictionary = &run->partition->dictionary;
    uint32_t labels[QUERY_MAX_GROUPS] = {0};
    if (run->by_label)
        label_tuple(run, run->label_key_series[label_key], labels);
    struct key key;
    key.used = 0;
    for (size_t g = 0; g < run->request->group_count; g++) {
        uint32_t part = run->by_frame ? run->entities[entity].parts[g] : 0;
        switch (run->kinds[g]) {
        case GROUP_LABEL:
            key_string(&key, dictionary, labels[g]);
            break;
        case GROUP_FUNCTION:
            key_string(&key, dictionary, dictionary->functions[part].name);
            key_string(&key, dictionary, dictionary->functions[part].module);
            break;
        case GROUP_MODULE:
            key_string(&key, dictionary, part);
            break;
        case GROUP_BUILD:
            key_build(&key, dictionary, part);
            break;
        }
    }
    top_table_add(table, key.bytes, key.used, cell->value * run->scale, cell->count);
}

static void add_rows(struct run *run, struct top_table *table)
{
    if (!run->by_frame) {
        for (uint32_t i = 0; i < run->label_key_count; i++)
            if (run->label_cells[i].count || run->label_cells[i].value)
                add_row(run, table, i, 0, &run->label_cells[i]);
        return;
    }
    for (uint32_t i = 0; i < run->entity_pairs.count; i++)
        add_row(run, table, run->entity_pairs.items[i].first, run->entity_pairs.items[i].second,
                &run->entity_pairs.items[i].cell);
    for (uint32_t i = 0; i < run->entity_count; i++)
        if (run->entity_cells[i].count || run->entity_cells[i].value)
            add_row(run, table, 0, i, &run->entity_cells[i]);
}

/* ---- all ---- */

static void run_init(struct run *run, const struct top_request *request, struct partition *partition,
                     uint64_t now_ms)
{
    const struct dictionary *dictionary = &partition->dictionary;
    *run = (struct run){
        .request = request, .partition = partition, .scale = profile_kind(request->selection.kind)->scale};
    for (size_t g = 0; g < request->group_count; g++) {
        const char *name = request->groups[g];
        run->kinds[g] = strcmp(name, "function") == 0   ? GROUP_FUNCTION
                        : strcmp(name, "module") == 0   ? GROUP_MODULE
                        : strcmp(name, "build_id") == 0 ? GROUP_BUILD
                                                        : GROUP_LABEL;
        run->by_label |= run->kinds[g] == GROUP_LABEL;
        run->by_frame |= run->kinds[g] != GROUP_LABEL;
    }
    naming_begin(&run->naming, partition, now_ms);
    run->series_in = selection_series(&request->selection, dictionary);
    run->cells = xcalloc(dictionary->node_count, sizeof(*run->cells));
    run->entity_of_frame = xmalloc((dictionary->frame_count + 1) * sizeof(uint32_t));
    memset(run->entity_of_frame, 0xff, (dictionary->frame_count + 1) * sizeof(uint32_t));
    if (run->by_label)
        number_label_keys(run);
}

static void run_fini(struct run *run)
{
    naming_end(&run->naming);
    pairs_fini(&run->node_pairs);
    pairs_fini(&run->entity_pairs);
    table_fini(&run->entity_index);
    free(run->series_in);
    free(run->label_key_of_series);
    free(run->label_key_series);
    free(run->cells);
    free(run->label_cells);
    free(run->entity_of_frame);
    free(run->entities);
    free(run->entity_cells);
    free(run->stamps);
}

void top_of_partition(const struct top_request *request, struct partition *partition, uint64_t now_ms,
                      struct top_table *table, struct completeness *completeness)
{
    struct run run;
    run_init(&run, request, partition, now_ms);
    scan(&run);
    credit_nodes(&run, completeness);
    add_rows(&run, table);
    completeness_of_partition(completeness, partition, &request->selection);
    run_fini(&run);
}
