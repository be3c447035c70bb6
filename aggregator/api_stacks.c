#include "aggregator/api_stacks.h"

#include "aggregator/api_json.h"
#include "common/cleanup.h"
#include "common/str.h"
#include "common/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES (64u << 10)

static int append_string(const struct stackset *set, uint32_t string, struct buf *out)
{
    size_t bytes;
    const char *text = stackset_text(set, string, &bytes);
    return buf_append(out, text, bytes);
}

int api_stacks_frame(const struct stackset *set, uint32_t frame_id, struct buf *out)
{
    const struct stackset_frame *frame = &set->frames[frame_id];
    if (frame->function)
        return append_string(set, frame->function - 1, out);
    if (frame->kind != FRAME_NATIVE)
        return append_string(set, frame->ref, out);
    const char *path = stackset_text(set, set->executables[frame->ref].name, NULL);
    return buf_printf(out, "%s+0x%llx", *path ? str_basename(path) : "[unknown]",
                      (unsigned long long)frame->body);
}

/* Appends name as it may stand between two ';'. */
static int append_escaped(const char *name, size_t bytes, struct buf *out)
{
    while (bytes > 0) {
        const char *separator = memchr(name, ';', bytes);
        size_t part = separator ? (size_t)(separator - name) : bytes;
        char *place = buf_reserve(out, part * 4 + 1);
        if (!place)
            return -E2BIG;
        out->used_bytes += str_printable(place, part * 4 + 1, name, part);
        if (!separator)
            break;
        if (buf_append(out, "\\x3b", 4) < 0)
            return -E2BIG;
        name += part + 1;
        bytes -= part + 1;
    }
    return 0;
}

struct line {
    const char *text;
    size_t at, bytes; /* of the buffer of lines; text is set when that no longer moves */
    uint64_t value;
};

static int append_stack(const struct stackset *set, const struct stackset_row *row, struct buf *name,
                        struct buf *lines)
{
    static const char nobody[] = "[unknown]";
    uint32_t path[STACKSET_MAX_DEPTH], depth = 0;
    uint32_t process = stackset_label_value(set, row->series, "process");
    size_t bytes = sizeof(nobody) - 1;
    const char *text = process == STACKSET_FULL ? nobody : stackset_text(set, process, &bytes);
    int rc = append_escaped(text, bytes, lines);
    for (uint32_t node = row->node; node != STACKSET_ROOT && depth < STACKSET_MAX_DEPTH;
         node = set->nodes[node].parent)
        path[depth++] = set->nodes[node].frame;
    while (depth > 0 && rc == 0) {
        buf_clear(name);
        rc = api_stacks_frame(set, path[--depth], name);
        if (rc == 0)
            rc = buf_append(lines, ";", 1);
        if (rc == 0)
            rc = append_escaped(name->data, name->used_bytes, lines);
    }
    return rc;
}

static int compare_lines(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    size_t shorter = x->bytes < y->bytes ? x->bytes : y->bytes;
    int order = memcmp(x->text, y->text, shorter);
    return order ? order : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Writes sorted lines, equal ones as one. */
static int write_lines(const struct line *lines, size_t count, struct buf *out)
{
    for (size_t i = 0, next; i < count; i = next) {
        uint64_t value = lines[i].value;
        for (next = i + 1; next < count && compare_lines(&lines[i], &lines[next]) == 0; next++)
            if (__builtin_add_overflow(value, lines[next].value, &value))
                value = UINT64_MAX;
        if (buf_append(out, lines[i].text, lines[i].bytes) < 0 ||
            buf_printf(out, " %llu\n", (unsigned long long)value) < 0)
            return -E2BIG;
    }
    return 0;
}

int api_stacks_folded(const struct stackset *set, struct buf *out)
{
    struct line *lines = xcalloc(set->row_count ? set->row_count : 1, sizeof(*lines));
    struct buf name = buf_init(NAME_BYTES), text = buf_init(HTTP_BODY_BYTES);
    int rc = 0;
    for (uint32_t i = 0; i < set->row_count && rc == 0; i++) {
        lines[i] = (struct line){.at = text.used_bytes, .value = set->rows[i].value};
        rc = append_stack(set, &set->rows[i], &name, &text);
        lines[i].bytes = text.used_bytes - lines[i].at;
    }
    for (uint32_t i = 0; i < set->row_count && rc == 0; i++)
        lines[i].text = text.data + lines[i].at;
    if (rc == 0) {
        qsort(lines, set->row_count, sizeof(*lines), compare_lines);
        rc = write_lines(lines, set->row_count, out);
    }
    buf_fini(&name);
    buf_fini(&text);
    free(lines);
    return rc;
}

void api_folded(struct query *query, const struct api_params *params, struct http_response *response)
{
    struct query_completeness completeness = {0};
    struct stackset *set;
    struct err err = {0};
    int rc = query_stacks(query, &params->selection, &set, &completeness, &err);
    if (rc == 0) {
        rc = api_stacks_folded(set, &response->body);
        if (rc < 0)
            err_say(&err, rc, "the stacks do not fit into one answer");
        api_json_note(response, &completeness);
        stackset_free(set);
        query_completeness_fini(&completeness);
    }
    if (rc < 0)
        api_json_error(response, rc, &err, NULL);
}
