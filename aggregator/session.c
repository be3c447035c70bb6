#include "aggregator/session.h"

#include "common/xalloc.h"

#include <stdlib.h>
#include <string.h>

static void push(struct session_map *map, uint32_t id)
{
    if (map->count == map->room) {
        map->room = map->room ? map->room * 2 : 64;
        map->ids = xrealloc_array(map->ids, map->room, sizeof(*map->ids));
    }
    map->ids[map->count++] = id;
}

static uint32_t remainder_series(struct dictionary *dictionary, struct dictionary_label node_label)
{
    /* "node" sorts before "overflow". Without room even for these words the label set is empty: totals still
     * hold. */
    struct dictionary_label labels[2] = {node_label};
    labels[1].name = dictionary_cstring(dictionary, "overflow");
    labels[1].value = dictionary_cstring(dictionary, "series_full");
    uint32_t count = node_label.value == DICTIONARY_FULL || node_label.name == DICTIONARY_FULL ? 0
                     : labels[1].name == DICTIONARY_FULL || labels[1].value == DICTIONARY_FULL ? 1
                                                                                               : 2;
    return dictionary_series(dictionary, labels, count, true);
}

struct session *session_new(struct dictionary *dictionary, uint64_t id, uint32_t node, const char *node_name)
{
    struct session *session = xcalloc(1, sizeof(*session));
    session->id = id;
    session->node = node;
    session->ask_generation = UINT32_MAX;
    session->node_label.name = dictionary_cstring(dictionary, "node");
    session->node_label.value = dictionary_cstring(dictionary, node_name);
    session->remainder_series = remainder_series(dictionary, session->node_label);
    push(&session->strings, 0);
    push(&session->nodes, DICTIONARY_ROOT);
    return session;
}

void session_free(struct session *session)
{
    if (!session)
        return;
    free(session->strings.ids);
    free(session->executables.ids);
    free(session->frames.ids);
    free(session->nodes.ids);
    free(session->series.ids);
    free(session);
}

size_t session_memory_bytes(const struct session *session)
{
    uint64_t ids = (uint64_t)session->strings.room + session->executables.room + session->frames.room +
                   session->nodes.room + session->series.room;
    return sizeof(*session) + ids * sizeof(uint32_t);
}

struct wire_have session_have(const struct session *session)
{
    return (struct wire_have){
        .strings = session->strings.count,
        .executables = session->executables.count,
        .frames = session->frames.count,
        .nodes = session->nodes.count,
        .series = session->series.count,
    };
}

bool session_fits(const struct session *session, const Fleetprof__Dictionary *more)
{
    return session->strings.count + more->n_strings <= SESSION_MAX_ITEMS &&
           session->executables.count + more->n_executables <= SESSION_MAX_ITEMS &&
           session->frames.count + more->n_frame_head <= SESSION_MAX_ITEMS &&
           session->nodes.count + more->n_node_up <= SESSION_MAX_ITEMS &&
           session->series.count + more->n_series <= SESSION_MAX_ITEMS;
}

/* ---- applying ---- */

static uint32_t apply_executable(struct session *session, struct dictionary *dictionary,
                                 const Fleetprof__Executable *executable)
{
    uint32_t name = session->strings.ids[executable->name];
    return dictionary_executable(dictionary, executable->id.data, executable->id.len,
                                 (uint8_t)executable->id_kind, name == DICTIONARY_FULL ? 0 : name);
}

static uint32_t apply_frame(struct session *session, struct dictionary *dictionary, uint64_t head,
                            uint64_t body, uint32_t line)
{
    uint8_t kind = head & 7;
    uint32_t ref = (uint32_t)(head >> 3);
    ref = kind == FRAME_NATIVE ? session->executables.ids[ref] : session->strings.ids[ref];
    if (ref == DICTIONARY_FULL)
        return DICTIONARY_FULL;
    if (kind == FRAME_KERNEL || kind == FRAME_INTERPRETED) {
        body = session->strings.ids[body];
        if (body == DICTIONARY_FULL)
            return DICTIONARY_FULL;
    } else if (kind == FRAME_MARKER) {
        body = 0;
    }
    return dictionary_frame(dictionary, kind, ref, body, line);
}

static void apply_frames(struct session *session, struct dictionary *dictionary,
                         const Fleetprof__Dictionary *more)
{
    size_t lines = 0;
    for (size_t i = 0; i < more->n_frame_head; i++) {
        uint32_t line = 0;
        if ((more->frame_head[i] & 7) == FRAME_INTERPRETED)
            line = more->frame_line[lines++];
        push(&session->frames,
             apply_frame(session, dictionary, more->frame_head[i], more->frame_body[i], line));
    }
}

static void apply_nodes(struct session *session, struct dictionary *dictionary,
                        const Fleetprof__Dictionary *more)
{
    for (size_t i = 0; i < more->n_node_up; i++) {
        uint32_t parent = session->nodes.ids[session->nodes.count - (uint32_t)more->node_up[i]];
        uint32_t frame = session->frames.ids[more->node_frame[i]];
        uint32_t node = DICTIONARY_FULL;
        if (parent != DICTIONARY_LOST_NODE && frame != DICTIONARY_FULL)
            node = dictionary_node(dictionary, parent, frame);
        push(&session->nodes, node == DICTIONARY_FULL ? DICTIONARY_LOST_NODE : node);
    }
}

/* Keeps labels sorted by name; a name that is there already stays as it is. */
static uint32_t insert_label(const struct dictionary *dictionary, struct dictionary_label *labels,
                             uint32_t count, struct dictionary_label label)
{
    const char *name = dictionary_text(dictionary, label.name, NULL);
    uint32_t at = count;
    while (at > 0) {
        int order = strcmp(dictionary_text(dictionary, labels[at - 1].name, NULL), name);
        if (order == 0)
            return count;
        if (order < 0)
            break;
        at--;
    }
    memmove(labels + at + 1, labels + at, (count - at) * sizeof(*labels));
    labels[at] = label;
    return count + 1;
}

/* The agent's labels, with "node" as the shard knows it. */
static uint32_t apply_series(struct session *session, struct dictionary *dictionary,
                             const Fleetprof__Series *series)
{
    struct dictionary_label labels[DICTIONARY_MAX_LABELS];
    uint32_t count = 0;
    if (session->node_label.name != DICTIONARY_FULL && session->node_label.value != DICTIONARY_FULL)
        labels[count++] = session->node_label; /* first: it stays whatever the agent says */
    for (size_t i = 0; i + 1 < series->n_label && i < (size_t)2 * STACKSET_MAX_LABELS; i += 2) {
        struct dictionary_label label = {session->strings.ids[series->label[i]],
                                         session->strings.ids[series->label[i + 1]]};
        if (label.name == DICTIONARY_FULL || label.value == DICTIONARY_FULL)
            return DICTIONARY_FULL;
        count = insert_label(dictionary, labels, count, label);
    }
    return dictionary_series(dictionary, labels, count, false);
}

void session_apply(struct session *session, struct dictionary *dictionary, const Fleetprof__Dictionary *more,
                   session_executable_fn on_executable, void *ctx)
{
    for (size_t i = 0; i < more->n_strings; i++)
        push(&session->strings, dictionary_string(dictionary, more->strings[i].data, more->strings[i].len));
    for (size_t i = 0; i < more->n_executables; i++) {
        uint32_t id = apply_executable(session, dictionary, more->executables[i]);
        push(&session->executables, id);
        if (id != DICTIONARY_FULL && on_executable)
            on_executable(&dictionary->executables[id], ctx);
    }
    apply_frames(session, dictionary, more);
    apply_nodes(session, dictionary, more);
    for (size_t i = 0; i < more->n_series; i++) {
        uint32_t id = apply_series(session, dictionary, more->series[i]);
        push(&session->series, id == DICTIONARY_FULL ? session->remainder_series : id);
    }
}
