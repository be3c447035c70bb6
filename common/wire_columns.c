#include "common/wire_columns.h"

#include "common/xalloc.h"

#include <stdlib.h>
#include <string.h>

void wire_ids_alloc(struct wire_ids *ids, const struct stackset *set)
{
    size_t total = (size_t)set->string_count + set->executable_count + set->frame_count + set->node_count +
                   set->series_count;
    ids->strings = xmalloc(total * sizeof(*ids->strings));
    ids->executables = ids->strings + set->string_count;
    ids->frames = ids->executables + set->executable_count;
    ids->nodes = ids->frames + set->frame_count;
    ids->series = ids->nodes + set->node_count;
}

/* How many of count items are new: ids ascend over the new ones, the old ones lie anywhere between. */
static size_t count_new(const uint32_t *ids, uint32_t count, uint32_t first)
{
    size_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        found += ids[i] >= first;
    return found;
}

/* An array of a message; NULL when empty, as protobuf-c has it. */
static void *column(size_t count, size_t bytes)
{
    return count ? xcalloc(count, bytes) : NULL;
}

static ProtobufCBinaryData copy_bytes(const void *data, size_t bytes)
{
    return (ProtobufCBinaryData){.len = bytes, .data = (uint8_t *)xmemdup_text(data, bytes)};
}

static void define_strings(const struct stackset *set, const struct wire_ids *ids, Fleetprof__Dictionary *d)
{
    d->strings = column(count_new(ids->strings, set->string_count, ids->first_string), sizeof(*d->strings));
    for (uint32_t i = 1; i < set->string_count; i++) {
        if (ids->strings[i] < ids->first_string)
            continue;
        size_t bytes;
        const char *text = stackset_text(set, i, &bytes);
        d->strings[d->n_strings++] = copy_bytes(text, bytes);
    }
}

static void define_executables(const struct stackset *set, const struct wire_ids *ids,
                               Fleetprof__Dictionary *d)
{
    size_t count = count_new(ids->executables, set->executable_count, ids->first_executable);
    d->executables = column(count, sizeof(*d->executables));
    for (uint32_t i = 0; i < set->executable_count; i++) {
        if (ids->executables[i] < ids->first_executable)
            continue;
        const struct stackset_executable *from = &set->executables[i];
        Fleetprof__Executable *to = xmalloc(sizeof(*to));
        fleetprof__executable__init(to);
        to->id = copy_bytes(from->id, from->id_bytes);
        to->id_kind = (Fleetprof__ExecutableIdKind)from->id_kind;
        to->name = ids->strings[from->name];
        d->executables[d->n_executables++] = to;
    }
}

static void define_frame(const struct stackset *set, const struct wire_ids *ids, uint32_t i,
                         Fleetprof__Dictionary *d)
{
    const struct stackset_frame *frame = &set->frames[i];
    uint64_t ref = frame->kind == FRAME_NATIVE ? ids->executables[frame->ref] : ids->strings[frame->ref];
    bool body_is_string = frame->kind == FRAME_KERNEL || frame->kind == FRAME_INTERPRETED;
    d->frame_head[d->n_frame_head++] = ref << 3 | frame->kind;
    d->frame_body[d->n_frame_body++] = body_is_string ? ids->strings[frame->body] : frame->body;
    if (frame->kind == FRAME_INTERPRETED)
        d->frame_line[d->n_frame_line++] = frame->line;
    if (d->frame_function)
        d->frame_function[d->n_frame_function++] =
            frame->function ? ids->strings[frame->function - 1] + 1 : 0;
}

static void define_frames(const struct stackset *set, const struct wire_ids *ids, bool with_functions,
                          Fleetprof__Dictionary *d)
{
    size_t count = count_new(ids->frames, set->frame_count, ids->first_frame);
    d->frame_head = column(count, sizeof(*d->frame_head));
    d->frame_body = column(count, sizeof(*d->frame_body));
    d->frame_line = column(count, sizeof(*d->frame_line));
    d->frame_function = with_functions ? column(count, sizeof(*d->frame_function)) : NULL;
    for (uint32_t i = 0; i < set->frame_count; i++)
        if (ids->frames[i] >= ids->first_frame)
            define_frame(set, ids, i, d);
}

static void define_nodes(const struct stackset *set, const struct wire_ids *ids, Fleetprof__Dictionary *d)
{
    size_t count = count_new(ids->nodes, set->node_count, ids->first_node);
    d->node_up = column(count, sizeof(*d->node_up));
    d->node_frame = column(count, sizeof(*d->node_frame));
    for (uint32_t i = 1; i < set->node_count; i++) {
        if (ids->nodes[i] < ids->first_node)
            continue;
        d->node_up[d->n_node_up++] = ids->nodes[i] - ids->nodes[set->nodes[i].parent];
        d->node_frame[d->n_node_frame++] = ids->frames[set->nodes[i].frame];
    }
}

static void define_series(const struct stackset *set, const struct wire_ids *ids, Fleetprof__Dictionary *d)
{
    d->series = column(count_new(ids->series, set->series_count, ids->first_series), sizeof(*d->series));
    for (uint32_t i = 0; i < set->series_count; i++) {
        if (ids->series[i] < ids->first_series)
            continue;
        const struct stackset_series *from = &set->series[i];
        Fleetprof__Series *to = xmalloc(sizeof(*to));
        fleetprof__series__init(to);
        to->label = column(2 * (size_t)from->label_count, sizeof(*to->label));
        for (uint32_t k = 0; k < from->label_count; k++) {
            const struct stackset_label *label = &set->labels[from->first_label + k];
            to->label[to->n_label++] = ids->strings[label->name];
            to->label[to->n_label++] = ids->strings[label->value];
        }
        d->series[d->n_series++] = to;
    }
}

Fleetprof__Dictionary *wire_define(const struct stackset *set, const struct wire_ids *ids,
                                   bool with_functions)
{
    Fleetprof__Dictionary *d = xmalloc(sizeof(*d));
    fleetprof__dictionary__init(d);
    define_strings(set, ids, d);
    define_executables(set, ids, d);
    define_frames(set, ids, with_functions, d);
    define_nodes(set, ids, d);
    define_series(set, ids, d);
    return d;
}

struct row {
    uint64_t place; /* series << 32 | node, in wire ids */
    uint64_t value, count;
};

static int compare_rows(const void *a, const void *b)
{
    const struct row *left = a, *right = b;
    return (left->place > right->place) - (left->place < right->place);
}

static struct row *sorted_rows(const struct stackset *set, const struct wire_ids *ids)
{
    struct row *rows = xmalloc(set->row_count * sizeof(*rows));
    bool sorted = true;
    for (uint32_t i = 0; i < set->row_count; i++) {
        const struct stackset_row *from = &set->rows[i];
        uint64_t place = (uint64_t)ids->series[from->series] << 32 | ids->nodes[from->node];
        rows[i] = (struct row){.place = place, .value = from->value, .count = from->count};
        sorted = sorted && (i == 0 || rows[i - 1].place < place);
    }
    if (!sorted)
        qsort(rows, set->row_count, sizeof(*rows), compare_rows);
    return rows;
}

Fleetprof__Samples *wire_rows(const struct stackset *set, const struct wire_ids *ids, const char *kind,
                              const char *unit, uint64_t scale)
{
    Fleetprof__Samples *s = xmalloc(sizeof(*s));
    fleetprof__samples__init(s);
    s->kind = xstrdup(kind);
    s->unit = xstrdup(unit);
    s->scale = scale;
    s->n_series_step = s->n_node_step = s->n_value = s->n_count = set->row_count;
    s->series_step = column(set->row_count, sizeof(*s->series_step));
    s->node_step = column(set->row_count, sizeof(*s->node_step));
    s->value = column(set->row_count, sizeof(*s->value));
    s->count = column(set->row_count, sizeof(*s->count));
    struct row *rows = sorted_rows(set, ids);
    uint64_t series = 0, node = 0;
    for (uint32_t i = 0; i < set->row_count; i++) {
        uint64_t row_series = rows[i].place >> 32, row_node = rows[i].place & UINT32_MAX;
        bool same_series = i > 0 && row_series == series;
        s->series_step[i] = row_series - series;
        s->node_step[i] = (int64_t)(same_series ? row_node - node : row_node);
        s->value[i] = rows[i].value;
        s->count[i] = rows[i].count;
        series = row_series;
        node = row_node;
    }
    free(rows);
    return s;
}
