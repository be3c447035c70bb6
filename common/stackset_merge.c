/* stackset_merge: adds one stackset to another. Ids are translated kind by kind, each once; an item that does
 * not fit makes what refers to it not fit, down to the rows. */
#include "common/stackset.h"

#include "common/xalloc.h"

#include <errno.h>
#include <stdlib.h>

struct merge {
    struct stackset *into;
    const struct stackset *from;
    uint32_t *strings, *executables, *frames, *nodes, *series; /* id in from -> id in into */
};

static void translate_strings(struct merge *m)
{
    for (uint32_t i = 0; i < m->from->string_count; i++) {
        const struct stackset_string *string = &m->from->strings[i];
        m->strings[i] = stackset_string(m->into, m->from->bytes + string->at, string->bytes);
    }
}

static void translate_executables(struct merge *m)
{
    for (uint32_t i = 0; i < m->from->executable_count; i++) {
        const struct stackset_executable *e = &m->from->executables[i];
        uint32_t name = m->strings[e->name];
        m->executables[i] = name == STACKSET_FULL
                                ? STACKSET_FULL
                                : stackset_executable(m->into, e->id, e->id_bytes, e->id_kind, name);
    }
}

static uint32_t translate_frame(struct merge *m, const struct stackset_frame *frame)
{
    uint32_t ref = frame->kind == FRAME_NATIVE ? m->executables[frame->ref] : m->strings[frame->ref];
    uint64_t body = frame->body;
    if (frame->kind == FRAME_KERNEL || frame->kind == FRAME_INTERPRETED)
        body = m->strings[body];
    if (ref == STACKSET_FULL || (frame->kind != FRAME_NATIVE && body == STACKSET_FULL))
        return STACKSET_FULL;
    uint32_t id = stackset_frame(m->into, frame->kind, ref, body, frame->line);
    /* A known name is kept whichever side knew it; one that does not fit costs only the name. */
    if (id != STACKSET_FULL && frame->function != 0 && m->into->frames[id].function == 0) {
        uint32_t name = m->strings[frame->function - 1];
        m->into->frames[id].function = name == STACKSET_FULL ? 0 : name + 1;
    }
    return id;
}

static void translate_nodes(struct merge *m)
{
    m->nodes[STACKSET_ROOT] = STACKSET_ROOT;
    for (uint32_t i = 1; i < m->from->node_count; i++) {
        uint32_t parent = m->nodes[m->from->nodes[i].parent];
        uint32_t frame = m->frames[m->from->nodes[i].frame];
        bool fits = parent != STACKSET_FULL && frame != STACKSET_FULL;
        m->nodes[i] = fits ? stackset_node(m->into, parent, frame) : STACKSET_FULL;
    }
}

static uint32_t translate_series(struct merge *m, const struct stackset_series *series)
{
    struct stackset_label labels[STACKSET_MAX_LABELS];
    for (uint32_t i = 0; i < series->label_count; i++) {
        const struct stackset_label *label = &m->from->labels[series->first_label + i];
        labels[i] = (struct stackset_label){m->strings[label->name], m->strings[label->value]};
        if (labels[i].name == STACKSET_FULL || labels[i].value == STACKSET_FULL)
            return STACKSET_FULL;
    }
    return stackset_series(m->into, labels, series->label_count);
}

static int add_rows(struct merge *m, uint64_t *ret_lost_count)
{
    uint64_t lost_count = 0;
    int rc = 0;
    for (uint32_t i = 0; i < m->from->row_count; i++) {
        const struct stackset_row *row = &m->from->rows[i];
        uint32_t series = m->series[row->series], node = m->nodes[row->node];
        if (series == STACKSET_FULL || node == STACKSET_FULL ||
            stackset_add(m->into, series, node, row->value, row->count) == STACKSET_FULL) {
            lost_count += row->count;
            rc = -E2BIG;
        }
    }
    if (ret_lost_count)
        *ret_lost_count = lost_count;
    return rc;
}

int stackset_merge(struct stackset *into, const struct stackset *from, uint64_t *ret_lost_count)
{
    size_t total = (size_t)from->string_count + from->executable_count + from->frame_count +
                   from->node_count + from->series_count;
    uint32_t *maps = xmalloc(total * sizeof(*maps));
    struct merge m = {.into = into, .from = from};
    m.strings = maps;
    m.executables = m.strings + from->string_count;
    m.frames = m.executables + from->executable_count;
    m.nodes = m.frames + from->frame_count;
    m.series = m.nodes + from->node_count;

    translate_strings(&m);
    translate_executables(&m);
    for (uint32_t i = 0; i < from->frame_count; i++)
        m.frames[i] = translate_frame(&m, &from->frames[i]);
    translate_nodes(&m);
    for (uint32_t i = 0; i < from->series_count; i++)
        m.series[i] = translate_series(&m, &from->series[i]);
    int rc = add_rows(&m, ret_lost_count);
    free(maps);
    return rc;
}
