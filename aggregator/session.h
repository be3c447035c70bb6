/* session: one agent's dictionary session: its small integers -> the partition's ids.
 * Rules:   what found no room in the partition's dictionary is mapped to its stand-in (the lost stack, the
 *          node's remainder series), so every row that comes later still counts. The shard, not the agent,
 *          says which node a series belongs to: the label "node" is set here.
 * Limits:  SESSION_MAX_ITEMS of each kind: over it session_fits is false and the agent has to open a new
 *          one.
 * Threads: the partition's worker only. */
#ifndef AGGREGATOR_SESSION_H
#define AGGREGATOR_SESSION_H

#include "aggregator/dictionary.h"
#include "common/wire.h"

#include <stdbool.h>
#include <stdint.h>

#define SESSION_MAX_ITEMS (4u << 20)

struct session_map {
    uint32_t *ids;
    uint32_t count, room;
};

struct session {
    uint64_t id;
    uint32_t node;           /* roster index */
    uint64_t last_sequence;  /* whose definitions were applied */
    uint32_t ask_generation; /* symbol_packs_generation when its executables were last looked through */
    uint64_t asked_ms;
    uint64_t counted_bytes; /* the partition's: of session_bytes there */
    struct session_map strings, executables, frames, nodes, series;
    struct dictionary_label node_label;
    uint32_t remainder_series;
};

/* node_name's label and remainder series are made in the dictionary. */
struct session *session_new(struct dictionary *dictionary, uint64_t id, uint32_t node, const char *node_name);
void session_free(struct session *session); /* NULL is fine */

size_t session_memory_bytes(const struct session *session);
struct wire_have session_have(const struct session *session);
bool session_fits(const struct session *session, const Fleetprof__Dictionary *more);

/* more has passed wire_check_dictionary against session_have. on_executable (may be NULL) is told each new
 * one. */
typedef void (*session_executable_fn)(const struct dictionary_executable *executable, void *ctx);
void session_apply(struct session *session, struct dictionary *dictionary, const Fleetprof__Dictionary *more,
                   session_executable_fn on_executable, void *ctx);

#endif
