/* dictionary: what one partition knows by small integers: strings, executables, frames, functions,
 * call-tree nodes and series (label sets), each stored once.
 * Shapes:    string 0 is "", node 0 the root; a node's parent has a smaller id; DICTIONARY_LOST_NODE is the
 *            stack "[stack lost: dictionary_full]" that stands for every stack that found no room, so
 *            totals hold. A series' labels are sorted by name bytes.
 * Limits:    struct dictionary_limits: an item over its limit is DICTIONARY_FULL and changes nothing.
 *            Stacks deeper than DICTIONARY_MAX_DEPTH are DICTIONARY_FULL too.
 * Ownership: caller's storage.   Threads: the partition's worker only. */
#ifndef AGGREGATOR_DICTIONARY_H
#define AGGREGATOR_DICTIONARY_H

#include "common/stackset.h"
#include "common/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DICTIONARY_FULL       UINT32_MAX
#define DICTIONARY_NONE       UINT32_MAX
#define DICTIONARY_ROOT       0u
#define DICTIONARY_LOST_NODE  1u
#define DICTIONARY_MAX_DEPTH  600u /* STACKSET_MAX_DEPTH frames and room for markers */
#define DICTIONARY_MAX_LABELS (STACKSET_MAX_LABELS + 2)
#define DICTIONARY_LOST_TEXT  "[stack lost: dictionary_full]"

/* functions[] of a frame beside a function's id. */
#define DICTIONARY_UNRESOLVED UINT32_MAX
#define DICTIONARY_UNRANKED   (UINT32_MAX - 1) /* a marker, or a function over the limit: never a row */

struct dictionary_limits {
    uint32_t strings, executables, frames, functions, nodes, series;
    uint32_t string_bytes; /* of all strings together */
};

struct dictionary_executable {
    uint8_t id[EXECUTABLE_ID_BYTES];
    uint8_t id_bytes;
    uint8_t id_kind;
    bool named;    /* its symbol pack was there when frames were last resolved */
    uint32_t name; /* string */
};

struct dictionary_frame {
    uint64_t body;
    uint32_t ref;
    uint32_t line;
    uint32_t function; /* id, DICTIONARY_UNRESOLVED or DICTIONARY_UNRANKED */
    uint8_t kind;      /* enum frame_kind; ref and body as stackset.h says */
};

struct dictionary_function {
    uint32_t name, module; /* strings */
    bool unnamed;          /* the name is made of module and offset */
};

struct dictionary_node {
    uint32_t parent, frame;
};

struct dictionary_label {
    uint32_t name, value; /* strings */
};

struct dictionary_series {
    uint32_t first_label, label_count;
};

struct dictionary {
    struct dictionary_limits limits;
    char *bytes; /* strings, each with a NUL after it */
    struct dictionary_string {
        uint32_t at, bytes;
    } * strings;
    struct dictionary_executable *executables;
    struct dictionary_frame *frames;
    struct dictionary_function *functions;
    struct dictionary_node *nodes;
    struct dictionary_shape {
        uint16_t depth;
        bool marked; /* a marker frame is somewhere in the stack */
    } * shapes;      /* one per node */
    struct dictionary_label *labels;
    struct dictionary_series *series;
    uint32_t bytes_used, string_count, executable_count, frame_count, function_count, node_count, label_count,
        series_count;
    uint32_t bytes_room, string_room, executable_room, frame_room, function_room, node_room, label_room,
        series_room;
    struct table string_index, executable_index, frame_index, function_index, node_index, series_index;
    uint64_t full_count; /* refusals since the start */
};

void dictionary_init(struct dictionary *dictionary, const struct dictionary_limits *limits);
void dictionary_fini(struct dictionary *dictionary);
size_t dictionary_memory_bytes(const struct dictionary *dictionary);

/* Each returns the id of the equal item that is there, or of the new one, or DICTIONARY_FULL. Ids given in
 * must exist. */
uint32_t dictionary_string(struct dictionary *dictionary, const void *text, size_t bytes);
uint32_t dictionary_cstring(struct dictionary *dictionary, const char *text);
/* The name is part of an executable, as in stackset.h: one build under two names is two. */
uint32_t dictionary_executable(struct dictionary *dictionary, const void *id, size_t id_bytes,
                               uint8_t id_kind, uint32_t name);
uint32_t dictionary_frame(struct dictionary *dictionary, uint8_t kind, uint32_t ref, uint64_t body,
                          uint32_t line);
uint32_t dictionary_function(struct dictionary *dictionary, uint32_t name, uint32_t module, bool unnamed);
uint32_t dictionary_node(struct dictionary *dictionary, uint32_t parent, uint32_t frame);
/* labels sorted by name, names distinct. beyond_limit: for the few series that must exist (an agent's
 * remainder). */
uint32_t dictionary_series(struct dictionary *dictionary, const struct dictionary_label *labels,
                           uint32_t count, bool beyond_limit);

/* Without adding: DICTIONARY_NONE when it is not there. */
uint32_t dictionary_find_string(const struct dictionary *dictionary, const void *text, size_t bytes);

/* Borrowed until the next dictionary_string. */
const char *dictionary_text(const struct dictionary *dictionary, uint32_t string, size_t *ret_bytes);
/* The value string of a label, DICTIONARY_NONE when the series has none of that name. */
uint32_t dictionary_label_value(const struct dictionary *dictionary, uint32_t series, uint32_t name);

/* Keeps the nodes and series marked in the arrays (one byte each; ancestors of a marked node are kept too)
 * and what they need; everything else goes. ret_nodes and ret_series (caller's arrays of node_count and
 * series_count) tell the new ids, DICTIONARY_NONE for the dropped. Functions are resolved anew afterwards. */
void dictionary_compact(struct dictionary *dictionary, uint8_t *live_nodes, const uint8_t *live_series,
                        uint32_t *ret_nodes, uint32_t *ret_series);

#endif
