/* wire_stackset: a whole stackset <-> a Dictionary and Samples that stand alone. */
#include "common/wire_columns.h"

#include "common/cleanup.h"
#include "common/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool has_functions(const struct stackset *set)
{
    for (uint32_t i = 0; i < set->frame_count; i++)
        if (set->frames[i].function != 0)
            return true;
    return false;
}

int wire_from_stackset(const struct stackset *set, const char *kind, const char *unit, uint64_t scale,
                       Fleetprof__Dictionary **ret_dictionary, Fleetprof__Samples **ret_samples)
{
    struct wire_ids ids = {.first_string = 1, .first_node = 1};
    wire_ids_alloc(&ids, set);
    const struct {
        uint32_t *ids;
        uint32_t count;
    } kinds[] = {{ids.strings, set->string_count},
                 {ids.executables, set->executable_count},
                 {ids.frames, set->frame_count},
                 {ids.nodes, set->node_count},
                 {ids.series, set->series_count}};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (uint32_t i = 0; i < kinds[k].count; i++)
            kinds[k].ids[i] = i;
    *ret_dictionary = wire_define(set, &ids, has_functions(set));
    *ret_samples = wire_rows(set, &ids, kind, unit, scale);
    free(ids.strings);
    return 0;
}

/* One past the deepest node a stack may have: a receiver that walks a stack must be able to rely on it. */
static int check_depths(const Fleetprof__Dictionary *d, struct err *err)
{
    AUTO_FREE uint16_t *depths = xcalloc(d->n_node_up + 1, sizeof(*depths));
    for (size_t i = 1; i <= d->n_node_up; i++) {
        depths[i] = (uint16_t)(depths[i - d->node_up[i - 1]] + 1);
        if (depths[i] > WIRE_MAX_DEPTH)
            return err_say(err, -EPROTO, "dictionary: node %zu is deeper than %u", i - 1, WIRE_MAX_DEPTH);
    }
    return 0;
}

/* Wire id -> id in the set being built; STACKSET_FULL anywhere ends the building. */
struct builder {
    const Fleetprof__Dictionary *d;
    struct stackset *set;
    uint32_t *strings, *executables, *frames, *nodes, *series;
};

static bool build_strings(struct builder *b)
{
    b->strings[0] = 0;
    for (size_t i = 0; i < b->d->n_strings; i++) {
        b->strings[i + 1] = stackset_string(b->set, b->d->strings[i].data, b->d->strings[i].len);
        if (b->strings[i + 1] == STACKSET_FULL)
            return false;
    }
    return true;
}

static bool build_executables(struct builder *b)
{
    for (size_t i = 0; i < b->d->n_executables; i++) {
        const Fleetprof__Executable *e = b->d->executables[i];
        b->executables[i] = stackset_executable(b->set, e->id.data, e->id.len,
                                                (enum executable_id_kind)e->id_kind, b->strings[e->name]);
        if (b->executables[i] == STACKSET_FULL)
            return false;
    }
    return true;
}

static bool build_frames(struct builder *b)
{
    size_t lines = 0;
    for (size_t i = 0; i < b->d->n_frame_head; i++) {
        enum frame_kind kind = (enum frame_kind)(b->d->frame_head[i] & 7);
        uint64_t ref = b->d->frame_head[i] >> 3, body = b->d->frame_body[i];
        uint32_t line = kind == FRAME_INTERPRETED ? b->d->frame_line[lines++] : 0;
        if (kind == FRAME_KERNEL || kind == FRAME_INTERPRETED)
            body = b->strings[body];
        uint32_t own_ref = kind == FRAME_NATIVE ? b->executables[ref] : b->strings[ref];
        b->frames[i] = stackset_frame(b->set, kind, own_ref, body, line);
        if (b->frames[i] == STACKSET_FULL)
            return false;
        if (b->d->n_frame_function > 0 && b->d->frame_function[i] > 0)
            b->set->frames[b->frames[i]].function = b->strings[b->d->frame_function[i] - 1] + 1;
    }
    return true;
}

static bool build_nodes(struct builder *b)
{
    b->nodes[0] = STACKSET_ROOT;
    for (size_t i = 1; i <= b->d->n_node_up; i++) {
        b->nodes[i] =
            stackset_node(b->set, b->nodes[i - b->d->node_up[i - 1]], b->frames[b->d->node_frame[i - 1]]);
        if (b->nodes[i] == STACKSET_FULL)
            return false;
    }
    return true;
}

static bool build_series(struct builder *b)
{
    for (size_t i = 0; i < b->d->n_series; i++) {
        const Fleetprof__Series *series = b->d->series[i];
        struct stackset_label labels[STACKSET_MAX_LABELS];
        for (size_t k = 0; k < series->n_label; k += 2)
            labels[k / 2] =
                (struct stackset_label){b->strings[series->label[k]], b->strings[series->label[k + 1]]};
        b->series[i] = stackset_series(b->set, labels, (uint32_t)(series->n_label / 2));
        if (b->series[i] == STACKSET_FULL)
            return false;
    }
    return true;
}

static bool build_rows(struct builder *b, const Fleetprof__Samples *s)
{
    uint64_t series = 0, node = 0;
    for (size_t i = 0; i < s->n_series_step; i++) {
        node = i > 0 && s->series_step[i] == 0 ? node + (uint64_t)s->node_step[i] : (uint64_t)s->node_step[i];
        series += s->series_step[i];
        if (stackset_add(b->set, b->series[series], b->nodes[node], s->value[i], s->count[i]) ==
            STACKSET_FULL)
            return false;
    }
    return true;
}

static bool build(struct builder *b, const Fleetprof__Samples *samples)
{
    const Fleetprof__Dictionary *d = b->d;
    size_t total = d->n_strings + 1 + d->n_executables + d->n_frame_head + d->n_node_up + 1 + d->n_series;
    uint32_t *maps = xmalloc(total * sizeof(*maps));
    b->strings = maps;
    b->executables = b->strings + d->n_strings + 1;
    b->frames = b->executables + d->n_executables;
    b->nodes = b->frames + d->n_frame_head;
    b->series = b->nodes + d->n_node_up + 1;
    bool fits = build_strings(b) && build_executables(b) && build_frames(b) && build_nodes(b) &&
                build_series(b) && build_rows(b, samples);
    free(maps);
    return fits;
}

int wire_to_stackset(const Fleetprof__Dictionary *dictionary, const Fleetprof__Samples *samples,
                     const struct stackset_limits *limits, struct stackset **ret_set, struct err *err)
{
    const Fleetprof__Dictionary empty = FLEETPROF__DICTIONARY__INIT;
    const Fleetprof__Dictionary *d = dictionary ? dictionary : &empty;
    const struct wire_have nothing = WIRE_HAVE_NOTHING;
    int rc = wire_check_dictionary(d, &nothing, err);
    if (rc == 0)
        rc = wire_check_samples(samples, (uint32_t)d->n_node_up + 1, (uint32_t)d->n_series, err);
    if (rc == 0)
        rc = check_depths(d, err);
    if (rc < 0)
        return rc;
    struct builder b = {.d = d, .set = stackset_new(limits)};
    if (!build(&b, samples)) {
        stackset_free(b.set);
        return err_say(err, -E2BIG, "the stacks are over the limits set for them");
    }
    *ret_set = b.set;
    return 0;
}
