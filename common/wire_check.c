/* wire_check: the shape of a dictionary and of sample columns, before anyone follows an id in them. */
#include "common/wire.h"

#include <errno.h>
#include <string.h>

#define EXECUTABLE_ID_MIN_BYTES 8u
#define KIND_BITS               3u
#define KIND_MASK               7u

/* What is there once the dictionary is applied. */
struct totals {
    uint32_t strings, executables, frames, nodes, series;
};

static int add_count(uint32_t have, size_t more, const char *what, uint32_t *ret_total, struct err *err)
{
    if (more >= UINT32_MAX - have)
        return err_say(err, -EPROTO, "dictionary: too many %s", what);
    *ret_total = have + (uint32_t)more;
    return 0;
}

static int count_totals(const Fleetprof__Dictionary *d, const struct wire_have *have, struct totals *totals,
                        struct err *err)
{
    int rc = add_count(have->strings, d->n_strings, "strings", &totals->strings, err);
    if (rc == 0)
        rc = add_count(have->executables, d->n_executables, "executables", &totals->executables, err);
    if (rc == 0)
        rc = add_count(have->frames, d->n_frame_head, "frames", &totals->frames, err);
    if (rc == 0)
        rc = add_count(have->nodes, d->n_node_up, "nodes", &totals->nodes, err);
    if (rc == 0)
        rc = add_count(have->series, d->n_series, "series", &totals->series, err);
    return rc;
}

static int check_strings(const Fleetprof__Dictionary *d, struct err *err)
{
    for (size_t i = 0; i < d->n_strings; i++)
        if (d->strings[i].len == 0 || d->strings[i].len > STACKSET_STRING_BYTES)
            return err_say(err, -EPROTO, "dictionary: string %zu has %zu bytes", i, d->strings[i].len);
    return 0;
}

static int check_executables(const Fleetprof__Dictionary *d, const struct totals *totals, struct err *err)
{
    for (size_t i = 0; i < d->n_executables; i++) {
        const Fleetprof__Executable *e = d->executables[i];
        if (e->id.len < EXECUTABLE_ID_MIN_BYTES || e->id.len > EXECUTABLE_ID_BYTES)
            return err_say(err, -EPROTO, "dictionary: executable %zu has an id of %zu bytes", i, e->id.len);
        if ((unsigned)e->id_kind > EXECUTABLE_SYNTHETIC)
            return err_say(err, -EPROTO, "dictionary: executable %zu has an id of unknown kind", i);
        if (e->name >= totals->strings)
            return err_say(err, -EPROTO, "dictionary: executable %zu has a name that is not there", i);
    }
    return 0;
}

static bool frame_is_sound(uint64_t head, uint64_t body, const struct totals *totals)
{
    uint64_t ref = head >> KIND_BITS;
    switch (head & KIND_MASK) {
    case FRAME_NATIVE:
        return ref < totals->executables;
    case FRAME_KERNEL:
    case FRAME_INTERPRETED:
        return ref < totals->strings && body < totals->strings;
    case FRAME_MARKER:
        return ref < totals->strings && body == 0;
    default:
        return false;
    }
}

static int check_frames(const Fleetprof__Dictionary *d, const struct totals *totals, struct err *err)
{
    if (d->n_frame_body != d->n_frame_head)
        return err_say(err, -EPROTO, "dictionary: %zu frame heads, %zu bodies", d->n_frame_head,
                       d->n_frame_body);
    size_t interpreted = 0;
    for (size_t i = 0; i < d->n_frame_head; i++) {
        if (!frame_is_sound(d->frame_head[i], d->frame_body[i], totals))
            return err_say(err, -EPROTO, "dictionary: frame %zu is of unknown kind or refers to nothing", i);
        interpreted += (d->frame_head[i] & KIND_MASK) == FRAME_INTERPRETED;
    }
    if (d->n_frame_line != interpreted)
        return err_say(err, -EPROTO, "dictionary: %zu interpreted frames, %zu lines", interpreted,
                       d->n_frame_line);
    if (d->n_frame_function != 0 && d->n_frame_function != d->n_frame_head)
        return err_say(err, -EPROTO, "dictionary: %zu frames, %zu functions", d->n_frame_head,
                       d->n_frame_function);
    for (size_t i = 0; i < d->n_frame_function; i++)
        if (d->frame_function[i] > totals->strings)
            return err_say(err, -EPROTO, "dictionary: frame %zu has a function name that is not there", i);
    return 0;
}

static int check_nodes(const Fleetprof__Dictionary *d, const struct wire_have *have,
                       const struct totals *totals, struct err *err)
{
    if (d->n_node_frame != d->n_node_up)
        return err_say(err, -EPROTO, "dictionary: %zu node parents, %zu frames", d->n_node_up,
                       d->n_node_frame);
    for (size_t i = 0; i < d->n_node_up; i++) {
        if (d->node_up[i] == 0 || d->node_up[i] > have->nodes + i)
            return err_say(err, -EPROTO, "dictionary: node %zu has no parent before it", i);
        if (d->node_frame[i] >= totals->frames)
            return err_say(err, -EPROTO, "dictionary: node %zu has a frame that is not there", i);
    }
    return 0;
}

/* The bytes of a string of this dictionary; NULL for an older one. */
static const ProtobufCBinaryData *new_string(const Fleetprof__Dictionary *d, const struct wire_have *have,
                                             uint32_t id)
{
    return id < have->strings ? NULL : &d->strings[id - have->strings];
}

static bool names_ascend(const ProtobufCBinaryData *a, const ProtobufCBinaryData *b)
{
    size_t shorter = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->data, b->data, shorter);
    return order < 0 || (order == 0 && a->len < b->len);
}

static int check_one_series(const Fleetprof__Dictionary *d, size_t i, const struct wire_have *have,
                            const struct totals *totals, struct err *err)
{
    const Fleetprof__Series *series = d->series[i];
    if (series->n_label % 2 != 0 || series->n_label > 2 * STACKSET_MAX_LABELS)
        return err_say(err, -EPROTO, "dictionary: series %zu has %zu label columns", i, series->n_label);
    for (size_t k = 0; k < series->n_label; k += 2) {
        uint32_t name = series->label[k];
        if (name == 0 || name >= totals->strings || series->label[k + 1] >= totals->strings)
            return err_say(err, -EPROTO, "dictionary: series %zu has a label that is not there", i);
        for (size_t j = 0; j < k; j += 2)
            if (series->label[j] == name)
                return err_say(err, -EPROTO, "dictionary: series %zu has a label twice", i);
        const ProtobufCBinaryData *text = new_string(d, have, name);
        const ProtobufCBinaryData *before = k > 0 ? new_string(d, have, series->label[k - 2]) : NULL;
        if (text && before && !names_ascend(before, text))
            return err_say(err, -EPROTO, "dictionary: series %zu has labels out of order", i);
    }
    return 0;
}

int wire_check_dictionary(const Fleetprof__Dictionary *dictionary, const struct wire_have *have,
                          struct err *err)
{
    if (!dictionary)
        return 0;
    struct totals totals = {0};
    int rc = count_totals(dictionary, have, &totals, err);
    if (rc == 0)
        rc = check_strings(dictionary, err);
    if (rc == 0)
        rc = check_executables(dictionary, &totals, err);
    if (rc == 0)
        rc = check_frames(dictionary, &totals, err);
    if (rc == 0)
        rc = check_nodes(dictionary, have, &totals, err);
    for (size_t i = 0; rc == 0 && i < dictionary->n_series; i++)
        rc = check_one_series(dictionary, i, have, &totals, err);
    return rc;
}

static int check_sample_heads(const Fleetprof__Samples *s, struct err *err)
{
    size_t rows = s->n_series_step;
    if (s->n_node_step != rows || s->n_value != rows || s->n_count != rows)
        return err_say(err, -EPROTO, "samples: columns of %zu, %zu, %zu and %zu rows", rows, s->n_node_step,
                       s->n_value, s->n_count);
    size_t kind_bytes = strnlen(s->kind, WIRE_NAME_BYTES + 1),
           unit_bytes = strnlen(s->unit, WIRE_NAME_BYTES + 1);
    if (kind_bytes == 0 || kind_bytes > WIRE_NAME_BYTES || unit_bytes == 0 || unit_bytes > WIRE_NAME_BYTES)
        return err_say(err, -EPROTO, "samples: kind and unit need 1 to %u bytes", WIRE_NAME_BYTES);
    if (s->scale == 0)
        return err_say(err, -EPROTO, "samples: scale is 0");
    return 0;
}

static int check_sums(const Fleetprof__Samples *s, struct err *err)
{
    uint64_t value = 0, count = 0;
    bool over = false;
    for (size_t i = 0; i < s->n_value; i++) {
        over |= __builtin_add_overflow(value, s->value[i], &value);
        over |= __builtin_add_overflow(count, s->count[i], &count);
    }
    over |= __builtin_mul_overflow(value, s->scale, &value);
    if (over || value > INT64_MAX || count > INT64_MAX)
        return err_say(err, -EPROTO, "samples: the sum is too large to be true");
    return 0;
}

int wire_check_samples(const Fleetprof__Samples *samples, uint32_t node_count, uint32_t series_count,
                       struct err *err)
{
    if (!samples)
        return err_say(err, -EPROTO, "samples: none in the message");
    int rc = check_sample_heads(samples, err);
    if (rc < 0)
        return rc;
    uint64_t series = 0, node = 0;
    for (size_t i = 0; i < samples->n_series_step; i++) {
        uint64_t series_step = samples->series_step[i];
        int64_t node_step = samples->node_step[i];
        bool same_series = i > 0 && series_step == 0;
        if (series_step >= series_count || series + series_step >= series_count)
            return err_say(err, -EPROTO, "samples: row %zu has a series that is not there", i);
        if (node_step < (same_series ? 1 : 0) || node_step >= node_count)
            return err_say(err, -EPROTO, "samples: row %zu is out of order or out of range", i);
        series += series_step;
        node = same_series ? node + (uint64_t)node_step : (uint64_t)node_step;
        if (node >= node_count)
            return err_say(err, -EPROTO, "samples: row %zu has a stack that is not there", i);
    }
    return check_sums(samples, err);
}
