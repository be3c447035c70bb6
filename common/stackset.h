/* stackset: a self-contained set of weighted call stacks with everything needed to read it: one window of an
 * agent, one answer of a shard. Nothing in it points outside, so it can cross threads, wait in a queue, be
 * written to disk or merged with another.
 * Shapes:  ids are indexes in order of first appearance: string 0 is "", node 0 the root (no frame, parent
 * 0). A stack is the node of its leaf; walking `parent` goes leaf -> root. Values are in profile units
 *          divided by the scale (cpu: microseconds, scale 1000, unit nanoseconds).
 * Limits:  struct stackset_limits; an item over its limit makes the call return STACKSET_FULL, changes
 * nothing. Threads: one at a time.   Errors: STACKSET_FULL only. */
#ifndef COMMON_STACKSET_H
#define COMMON_STACKSET_H

#include "common/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STACKSET_FULL         UINT32_MAX
#define STACKSET_ROOT         0u
#define STACKSET_MAX_DEPTH    512u  /* frames of one stack */
#define STACKSET_STRING_BYTES 4096u /* longest string; longer ones are cut */
#define EXECUTABLE_ID_BYTES   32u   /* longest executable id */
#define STACKSET_MAX_LABELS   32u

/* body and ref by kind. The numbers are on the wire: never reuse one. */
enum frame_kind {
    FRAME_NATIVE =
        0, /* ref = executable, body = file offset of the instruction (of the call for non-leaf frames) */
    FRAME_KERNEL = 1,      /* ref = function string, body = module string ("[kernel]", "[kvm]", "[bpf]") */
    FRAME_INTERPRETED = 2, /* ref = function string, body = file string, line = line */
    FRAME_MARKER = 3,      /* ref = text string: "[truncated]", "[stack lost: ring_full]" */
};
#define FRAME_KIND_COUNT 4

enum executable_id_kind { EXECUTABLE_GNU, EXECUTABLE_GO, EXECUTABLE_CONTENT, EXECUTABLE_SYNTHETIC };

struct stackset_executable {
    uint8_t id[EXECUTABLE_ID_BYTES];
    uint8_t id_bytes;
    uint8_t id_kind;
    uint32_t name; /* string */
};

struct stackset_frame {
    uint64_t body;
    uint32_t ref;
    uint32_t line; /* INTERPRETED only */
    uint8_t kind;
    uint32_t function; /* string id + 1 where the function's name is already known (answers), else 0 */
};

struct stackset_node {
    uint32_t parent;
    uint32_t frame;
};

struct stackset_label {
    uint32_t name;
    uint32_t value;
};

struct stackset_series {
    uint32_t first_label; /* into labels[], names ascending by bytes */
    uint32_t label_count;
};

struct stackset_row {
    uint32_t series;
    uint32_t node;
    uint64_t value;
    uint64_t count;
};

struct stackset_limits {
    uint32_t strings, executables, frames, nodes, series, rows;
    size_t string_bytes; /* sum of all strings */
};
extern const struct stackset_limits STACKSET_DEFAULT_LIMITS;

struct stackset {
    struct stackset_limits limits;
    char *bytes; /* the strings, each followed by a NUL (they may also contain NULs) */
    size_t bytes_used, bytes_room;
    struct stackset_string {
        uint32_t at, bytes;
    } * strings;
    struct stackset_executable *executables;
    struct stackset_frame *frames;
    struct stackset_node *nodes;
    struct stackset_label *labels;
    struct stackset_series *series;
    struct stackset_row *rows;
    uint32_t string_count, executable_count, frame_count, node_count, label_count, series_count, row_count;
    uint32_t string_room, executable_room, frame_room, node_room, label_room, series_room, row_room;
    struct table string_index, executable_index, frame_index, node_index, series_index, row_index;
};

struct stackset *stackset_new(const struct stackset_limits *limits);
void stackset_free(struct stackset *set); /* NULL is fine */
/* Drops the lookup indexes (about half of the memory) of a set that will only be read from now on. */
void stackset_seal(struct stackset *set);
size_t stackset_memory_bytes(const struct stackset *set);

/* Each returns the id of the equal item that is there, or of the new one, or STACKSET_FULL. */
uint32_t stackset_string(struct stackset *set, const void *text, size_t bytes);
uint32_t stackset_cstring(struct stackset *set, const char *text);
/* Equal id bytes, kind and name are one executable. The name belongs to it: copies of one build under two names on
 * two nodes must come out the same whichever shard, and whichever node, is merged first. */
uint32_t stackset_executable(struct stackset *set, const void *id, size_t id_bytes,
                             enum executable_id_kind kind, uint32_t name);
uint32_t stackset_frame(struct stackset *set, enum frame_kind kind, uint32_t ref, uint64_t body,
                        uint32_t line);
uint32_t stackset_node(struct stackset *set, uint32_t parent, uint32_t frame);
/* labels need not be sorted; count <= STACKSET_MAX_LABELS; names are distinct. */
uint32_t stackset_series(struct stackset *set, const struct stackset_label *labels, uint32_t count);
/* Adds to the row of (series, node). Values saturate at UINT64_MAX. */
uint32_t stackset_add(struct stackset *set, uint32_t series, uint32_t node, uint64_t value, uint64_t count);

/* Sorts rows by (series, node): the order of the wire. The row index is dropped: no stackset_add afterwards.
 */
void stackset_sort_rows(struct stackset *set);

/* Borrowed; NUL-terminated, length to ret_bytes when not NULL. */
const char *stackset_text(const struct stackset *set, uint32_t string, size_t *ret_bytes);
/* The value of a label of a series as string id, STACKSET_FULL when it has none of that name. */
uint32_t stackset_label_value(const struct stackset *set, uint32_t series, const char *name);

/* Adds every row of from to into (strings, frames, nodes and series are translated).
 * Returns 0, or -E2BIG when into is full: rows that did not fit are counted in ret_lost_count (sum of
 * counts). */
int stackset_merge(struct stackset *into, const struct stackset *from, uint64_t *ret_lost_count);

#endif
