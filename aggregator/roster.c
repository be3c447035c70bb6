#include "aggregator/roster.h"

#include "aggregator/window.h"
#include "common/wire.h"
#include "common/xalloc.h"

#include <stdlib.h>
#include <string.h>

void roster_init(struct roster *roster, uint32_t limit_count)
{
    *roster = (struct roster){.limit_count = limit_count, .ledger_limit = ROSTER_LEDGER};
    roster_cause(roster, "stored");
    roster_cause(roster, "other");
    roster_cause(roster, "shard_restart");
    roster_cause(roster, "window_bytes");
    roster_cause(roster, "expired");
}

void roster_keep(struct roster *roster, uint32_t window_count)
{
    if (window_count > roster->ledger_limit)
        roster->ledger_limit = window_count;
}

static void free_node(struct roster_node *node)
{
    free(node->name);
    free(node->gauges);
    free(node->ledger);
    free(node->losses);
    free(node);
}

void roster_fini(struct roster *roster)
{
    for (uint32_t i = 0; i < roster->count; i++)
        free_node(roster->nodes[i]);
    free(roster->nodes);
    table_fini(&roster->index);
    *roster = (struct roster){0};
}

static uint32_t find(const struct roster *roster, const char *name, uint64_t route)
{
    for (struct table_probe p = table_probe(&roster->index, route); table_next(&roster->index, &p);)
        if (strcmp(roster->nodes[p.value]->name, name) == 0)
            return p.value;
    return ROSTER_NONE;
}

uint32_t roster_find(const struct roster *roster, const char *name)
{
    return find(roster, name, wire_route(name));
}

uint32_t roster_add(struct roster *roster, const char *name, uint64_t now_ms)
{
    uint64_t route = wire_route(name);
    uint32_t at = find(roster, name, route);
    if (at != ROSTER_NONE)
        return at;
    size_t bytes = strlen(name);
    if (roster->count >= roster->limit_count || bytes == 0 || bytes > ROSTER_NODE_BYTES)
        return ROSTER_NONE;
    if (roster->count == roster->room) {
        roster->room = roster->room ? roster->room * 2 : 16;
        roster->nodes = xrealloc_array(roster->nodes, roster->room, sizeof(struct roster_node *));
    }
    struct roster_node *node = xcalloc(1, sizeof(*node));
    node->name = xstrdup(name);
    node->route = route;
    node->first_seen_ms = node->last_seen_ms = now_ms;
    roster->nodes[roster->count] = node;
    table_insert(&roster->index, route, roster->count);
    return roster->count++;
}

uint32_t roster_remove(struct roster *roster, uint32_t at)
{
    uint32_t last = --roster->count;
    struct roster_node *gone = roster->nodes[at];
    table_remove(&roster->index, gone->route, at);
    free_node(gone);
    if (at == last)
        return ROSTER_NONE;
    table_remove(&roster->index, roster->nodes[last]->route, last);
    roster->nodes[at] = roster->nodes[last];
    table_insert(&roster->index, roster->nodes[at]->route, at);
    return last;
}

uint32_t roster_cause(struct roster *roster, const char *name)
{
    for (uint32_t i = 0; i < roster->cause_count; i++)
        if (strcmp(roster->causes[i], name) == 0)
            return i;
    size_t bytes = strlen(name);
    if (roster->cause_count == ROSTER_CAUSES || bytes == 0 || bytes >= ROSTER_CAUSE_BYTES)
        return ROSTER_OTHER;
    memcpy(roster->causes[roster->cause_count], name, bytes + 1);
    return roster->cause_count++;
}

/* ---- who speaks ---- */

/* epochs[at] becomes epochs[0], those before it move down by one. */
static void move_to_front(struct roster_node *node, uint32_t at)
{
    struct roster_epoch epoch = node->epochs[at];
    memmove(node->epochs + 1, node->epochs, at * sizeof(epoch));
    node->epochs[0] = epoch;
}

static enum roster_claim adopt(struct roster_node *node, uint64_t epoch, uint64_t now_ms)
{
    if (node->epoch_count < ROSTER_EPOCHS)
        node->epoch_count++;
    memmove(node->epochs + 1, node->epochs, (node->epoch_count - 1) * sizeof(*node->epochs));
    node->epochs[0] = (struct roster_epoch){.epoch = epoch, .since_ms = now_ms};
    return ROSTER_SPEAKS;
}

enum roster_claim roster_claim(struct roster_node *node, uint64_t epoch, uint64_t now_ms)
{
    uint32_t at = 0;
    while (at < node->epoch_count && node->epochs[at].epoch != epoch)
        at++;
    if (at == node->epoch_count)
        return adopt(node, epoch, now_ms);
    if (at == 0)
        return ROSTER_SPEAKS;
    bool silent = now_ms >= node->last_seen_ms + ROSTER_RIVAL_MS;
    if (node->epochs[at].rival) {
        if (!silent)
            return ROSTER_RIVAL_ALIVE;
        node->epochs[at].rival = false;
        move_to_front(node, at);
        return ROSTER_SPEAKS;
    }
    if (now_ms < node->epochs[0].since_ms + ROSTER_IN_FLIGHT_MS)
        return ROSTER_RETIRED;
    for (uint32_t i = 0; i < at; i++)
        node->epochs[i].rival = true;
    move_to_front(node, at);
    return ROSTER_RETURNED;
}

/* ---- ledger ---- */

static uint32_t ledger_place(const struct roster_node *node, uint64_t start_ms)
{
    /* Windows come in time order: look from the end. */
    uint32_t at = node->ledger_count;
    while (at > 0 && node->ledger[at - 1].start_ms >= start_ms)
        at--;
    return at;
}

static uint64_t end_of(const struct roster_window *window)
{
    return window->start_ms + window->window_ms;
}

/* Adds to an entry that is there, if one is this window's or goes on into it. */
static bool join_window(struct roster_node *node, uint32_t at, const struct roster_window *window, bool known)
{
    struct roster_window *old = at > 0 ? &node->ledger[at - 1] : NULL;
    if (at < node->ledger_count && node->ledger[at].start_ms == window->start_ms)
        old = &node->ledger[at];
    else if (!old || old->cause != ROSTER_STORED)
        return false;
    else if (known)
        return window->start_ms < end_of(old);
    else if (window_bucket_start_ms(old->start_ms) != window_bucket_start_ms(window->start_ms) ||
             window->start_ms > end_of(old) + ROSTER_JOIN_MS)
        return false;
    if (known)
        return true;
    if (old->cause != window->cause)
        return false;
    old->samples += window->samples;
    if (end_of(old) < end_of(window))
        old->window_ms = (uint32_t)(end_of(window) - old->start_ms);
    return true;
}

void roster_note_window(const struct roster *roster, struct roster_node *node,
                        const struct roster_window *window, bool known)
{
    uint32_t at = ledger_place(node, window->start_ms);
    if (join_window(node, at, window, known))
        return;
    if (node->ledger_count >= roster->ledger_limit) {
        if (at == 0)
            return;
        memmove(node->ledger, node->ledger + 1, (node->ledger_count - 1) * sizeof(*node->ledger));
        node->ledger_count--;
        at--;
    }
    if (node->ledger_count == node->ledger_room) {
        node->ledger_room = node->ledger_room ? node->ledger_room * 2 : 16;
        node->ledger = xrealloc_array(node->ledger, node->ledger_room, sizeof(*node->ledger));
    }
    memmove(node->ledger + at + 1, node->ledger + at, (node->ledger_count - at) * sizeof(*node->ledger));
    node->ledger[at] = *window;
    node->ledger_count++;
}

/* Of the last few entries, the one of this bucket and cause. */
static struct roster_loss *find_loss(struct roster_node *node, uint64_t start_ms, uint32_t cause)
{
    uint32_t oldest = node->loss_count > ROSTER_CAUSES ? node->loss_count - ROSTER_CAUSES : 0;
    for (uint32_t i = node->loss_count; i > oldest; i--) {
        struct roster_loss *loss = &node->losses[i - 1];
        if (loss->cause == cause &&
            window_bucket_start_ms(loss->start_ms) == window_bucket_start_ms(start_ms))
            return loss;
    }
    return NULL;
}

void roster_note_loss(const struct roster *roster, struct roster_node *node, uint64_t start_ms,
                      uint32_t cause, uint64_t count)
{
    if (count == 0)
        return;
    node->lost[cause] += count;
    struct roster_loss *old = find_loss(node, start_ms, cause);
    if (old) {
        old->count += count;
        return;
    }
    uint32_t limit = 2 * roster->ledger_limit;
    if (node->loss_count >= limit) {
        memmove(node->losses, node->losses + limit / 4, (limit - limit / 4) * sizeof(*node->losses));
        node->loss_count -= limit / 4;
    }
    if (node->loss_count == node->loss_room) {
        node->loss_room = node->loss_room ? node->loss_room * 2 : 8;
        node->losses = xrealloc_array(node->losses, node->loss_room, sizeof(*node->losses));
    }
    node->losses[node->loss_count++] =
        (struct roster_loss){.start_ms = start_ms, .count = count, .cause = cause};
}

uint64_t roster_drop_bucket(struct roster *roster, uint64_t start_ms, uint32_t bucket_ms, uint32_t cause)
{
    uint64_t samples = 0;
    for (uint32_t i = 0; i < roster->count; i++) {
        struct roster_node *node = roster->nodes[i];
        for (uint32_t at = 0; at < node->ledger_count && node->ledger[at].start_ms < start_ms + bucket_ms;
             at++) {
            if (node->ledger[at].start_ms < start_ms || node->ledger[at].cause != ROSTER_STORED)
                continue;
            node->ledger[at].cause = cause;
            samples += node->ledger[at].samples;
        }
    }
    return samples;
}

void roster_forget(struct roster *roster, uint64_t before_ms)
{
    for (uint32_t i = 0; i < roster->count; i++) {
        struct roster_node *node = roster->nodes[i];
        uint32_t old = 0;
        while (old < node->ledger_count && node->ledger[old].start_ms < before_ms)
            old++;
        if (old) {
            node->ledger_count -= old;
            memmove(node->ledger, node->ledger + old, node->ledger_count * sizeof(*node->ledger));
        }
        uint32_t kept = 0;
        for (uint32_t at = 0; at < node->loss_count; at++)
            if (node->losses[at].start_ms >= before_ms)
                node->losses[kept++] = node->losses[at];
        node->loss_count = kept;
    }
}
