/* random_stackset: stacksets of every frame kind from a fixed seed, and a text form to compare two by
 * content. Threads: one. */
#ifndef TESTS_UNIT_RANDOM_STACKSET_H
#define TESTS_UNIT_RANDOM_STACKSET_H

#include "common/stackset.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline uint32_t random_below(uint64_t *seed, uint32_t n)
{
    *seed ^= *seed << 13; /* xorshift64 */
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (uint32_t)((*seed >> 32) % n);
}

static inline uint32_t random_string(struct stackset *set, uint64_t *seed, const char *what, uint32_t variety)
{
    char text[64];
    int bytes = snprintf(text, sizeof(text), "%s%" PRIu32, what, random_below(seed, variety));
    text[0] = random_below(seed, 50) ? text[0] : '\0'; /* strings are bytes: NULs included */
    return stackset_string(set, text, (size_t)bytes);
}

static inline uint32_t random_frame(struct stackset *set, uint64_t *seed)
{
    uint32_t kind = random_below(seed, FRAME_KIND_COUNT), a, b;
    char id[EXECUTABLE_ID_BYTES] = "executable-";
    switch (kind) {
    case FRAME_NATIVE:
        id[12] = (char)random_below(seed, 20);
        a = stackset_executable(set, id, 13 + random_below(seed, 20), random_below(seed, 4),
                                random_string(set, seed, "program", 20));
        return stackset_frame(set, FRAME_NATIVE, a,
                              (uint64_t)random_below(seed, 200) << random_below(seed, 50), 0);
    case FRAME_KERNEL:
    case FRAME_INTERPRETED:
        a = random_string(set, seed, "function", 50);
        b = random_string(set, seed, "file", 10);
        return stackset_frame(set, kind, a, b, random_below(seed, 100));
    default:
        return stackset_frame(set, FRAME_MARKER, random_string(set, seed, "marker", 3), 0, 0);
    }
}

static inline struct stackset *random_stackset(uint64_t *seed, uint32_t stacks)
{
    struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
    for (uint32_t i = 0; i < stacks; i++) {
        uint32_t node = STACKSET_ROOT, depth = random_below(seed, 12);
        for (uint32_t k = 0; k < depth; k++)
            node = k < 3 && set->node_count > 4 ? 1 + random_below(seed, set->node_count - 1)
                                                : stackset_node(set, node, random_frame(set, seed));
        struct stackset_label labels[3];
        uint32_t count = random_below(seed, 4);
        const char *const names[] = {"zone", "process", "container"};
        for (uint32_t k = 0; k < count; k++) {
            uint32_t name = stackset_cstring(set, names[k]);
            labels[k] = (struct stackset_label){name, random_string(set, seed, "value", 5)};
        }
        stackset_add(set, stackset_series(set, labels, count), node, random_below(seed, 1000000),
                     1 + random_below(seed, 3));
    }
    return set;
}

static inline void print_bytes(FILE *to, const char *mark, const void *data, size_t bytes)
{
    fprintf(to, "%s", mark);
    for (size_t i = 0; i < bytes; i++)
        fprintf(to, "%02x", ((const uint8_t *)data)[i]);
}

static inline void print_string(FILE *to, const char *mark, const struct stackset *set, uint64_t id)
{
    print_bytes(to, mark, set->bytes + set->strings[id].at, set->strings[id].bytes);
}

static inline void print_frame(FILE *to, const struct stackset *set, uint32_t id)
{
    const struct stackset_frame *frame = &set->frames[id];
    fprintf(to, "|%u", frame->kind);
    if (frame->kind == FRAME_NATIVE) {
        const struct stackset_executable *e = &set->executables[frame->ref];
        fprintf(to, " kind %u +%" PRIx64, e->id_kind, frame->body);
        print_bytes(to, " id ", e->id, e->id_bytes);
    } else {
        print_string(to, " ref ", set, frame->ref);
        if (frame->kind != FRAME_MARKER)
            print_string(to, " body ", set, frame->body);
        fprintf(to, ":%u", frame->line);
    }
    if (frame->function)
        print_string(to, " function ", set, frame->function - 1);
}

static inline int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* One line per row, sorted: equal texts mean equal content, whatever the ids. The caller frees. */
static inline char *stackset_as_text(const struct stackset *set)
{
    char **lines = calloc(set->row_count + 1, sizeof(*lines)), *text = NULL;
    size_t bytes;
    for (uint32_t i = 0; i < set->row_count; i++) {
        const struct stackset_row *row = &set->rows[i];
        const struct stackset_series *series = &set->series[row->series];
        FILE *to = open_memstream(&lines[i], &bytes);
        for (uint32_t k = 0; k < series->label_count; k++) {
            print_string(to, "{", set, set->labels[series->first_label + k].name);
            print_string(to, "=", set, set->labels[series->first_label + k].value);
        }
        for (uint32_t node = row->node; node != STACKSET_ROOT; node = set->nodes[node].parent)
            print_frame(to, set, set->nodes[node].frame);
        fprintf(to, " %" PRIu64 " %" PRIu64, row->value, row->count);
        fclose(to);
    }
    qsort(lines, set->row_count, sizeof(*lines), compare_lines);
    FILE *to = open_memstream(&text, &bytes);
    for (uint32_t i = 0; i < set->row_count; i++) {
        fprintf(to, "%s\n", lines[i]);
        free(lines[i]);
    }
    fclose(to);
    free(lines);
    return text;
}

#endif
