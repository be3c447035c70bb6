/* roster: the nodes whose agents speak to one partition: who they are, what was stored of them, what is
 * missing.
 * Shapes:    one roster_node per node name; it outlives the agent processes (boot epochs) on that node. Its
 *            ledger has one entry per window: stored, or gone for a cause (stored ones that follow each other
 *            within a time bucket share one); its losses are the agent's own counts, per bucket.
 * Rules:     the newest boot epoch speaks for the node; the epoch before it is refused, unless it proves to
 *            be alive after it was replaced: then two agents claim one node name, and the newer one is
 *            refused (and may come back once the older has been silent for ROSTER_RIVAL_MS).
 * Limits:    limit_count nodes; ROSTER_LEDGER windows (more where the retention is longer: ledger_limit) and
 *            twice as many losses a node (the oldest go);
 *            ROSTER_CAUSES cause names, the rest is "other".
 * Times:     ms since 1970, the shard's clock.
 * Ownership: caller's storage.   Threads: the partition's worker only. */
#ifndef AGGREGATOR_ROSTER_H
#define AGGREGATOR_ROSTER_H

#include "common/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROSTER_NODE_BYTES   256u /* longest node name (253 in Kubernetes) */
#define ROSTER_LEDGER       512u
#define ROSTER_JOIN_MS      100u /* between windows that follow each other */
#define ROSTER_CAUSES       64u
#define ROSTER_CAUSE_BYTES  48u
#define ROSTER_EPOCHS       4u
#define ROSTER_GAUGES       64u
#define ROSTER_RIVAL_MS     60000u
#define ROSTER_IN_FLIGHT_MS 2000u /* what a dead agent's last messages may be late */
#define ROSTER_NONE         UINT32_MAX

struct session;

/* Causes that the shard itself gives; agents' causes follow in order of appearance. */
enum roster_cause {
    ROSTER_STORED, /* not lost */
    ROSTER_OTHER,
    ROSTER_SHARD_RESTART, /* acknowledged by a shard life that is over */
    ROSTER_WINDOW_BYTES,  /* dropped from memory: over --window-bytes */
    ROSTER_EXPIRED,       /* dropped from memory: older than --retention */
    ROSTER_OWN_CAUSES
};

struct roster_window {
    uint64_t start_ms;
    uint32_t window_ms;
    uint32_t cause; /* ROSTER_STORED, or where it went */
    uint64_t samples;
};

struct roster_loss {
    uint64_t start_ms;
    uint64_t count;
    uint32_t cause;
};

struct roster_epoch {
    uint64_t epoch, last_sequence, since_ms;
    bool rival; /* refused: an older agent of this node is alive */
};

struct roster_gauge {
    char name[ROSTER_CAUSE_BYTES];
    uint64_t value;
};

struct roster_node {
    char *name;
    uint64_t route;
    struct roster_epoch epochs[ROSTER_EPOCHS]; /* [0] speaks now, the others newest first */
    uint32_t epoch_count;
    struct session *session; /* NULL: none is open */
    char version[64], kernel[64], event[32];
    uint32_t hz, cpus;
    uint64_t first_seen_ms, last_seen_ms;
    int64_t skew_ms;
    bool skewed; /* its last batch was off by more than the limit */
    uint64_t samples, taken, duplicates;
    uint64_t lost[ROSTER_CAUSES]; /* since the shard started, by cause */
    struct roster_gauge *gauges;
    uint32_t gauge_count;
    struct roster_window *ledger; /* by start_ms */
    uint32_t ledger_count, ledger_room;
    struct roster_loss *losses; /* in order of arrival */
    uint32_t loss_count, loss_room;
};

struct roster {
    uint32_t limit_count, ledger_limit;
    struct roster_node **nodes;
    uint32_t count, room;
    struct table index;
    char causes[ROSTER_CAUSES][ROSTER_CAUSE_BYTES];
    uint32_t cause_count;
};

void roster_init(struct roster *roster, uint32_t limit_count);
/* So many windows of a node are kept when that is more than ROSTER_LEDGER. */
void roster_keep(struct roster *roster, uint32_t window_count);
/* Sessions are the caller's to free before. */
void roster_fini(struct roster *roster);

/* Takes a node out; the last one gets its number, and its old one is returned (ROSTER_NONE when it was the
 * last itself). Its session is the caller's to drop before. */
uint32_t roster_remove(struct roster *roster, uint32_t at);
/* ROSTER_NONE when unknown; roster_add also when there are too many nodes or the name is too long or empty.
 */
uint32_t roster_find(const struct roster *roster, const char *name);
uint32_t roster_add(struct roster *roster, const char *name, uint64_t now_ms);

/* The number of a cause name, made at first sight; ROSTER_OTHER when there are too many. */
uint32_t roster_cause(struct roster *roster, const char *name);

enum roster_claim {
    ROSTER_SPEAKS,      /* the epoch speaks for the node from now on; node->epochs[0] is it */
    ROSTER_RETIRED,     /* an agent that was replaced a moment ago: it may be its last message */
    ROSTER_RIVAL_ALIVE, /* another, older agent of that name is alive */
    ROSTER_RETURNED, /* as ROSTER_SPEAKS: this agent was replaced, and is alive: the newer one is refused from
                        now */
};
enum roster_claim roster_claim(struct roster_node *node, uint64_t epoch, uint64_t now_ms);

/* Adds a window to the ledger; one with the same start that is there already is added up (known == false)
 * or left as it is (known == true: for what may be told several times). */
void roster_note_window(const struct roster *roster, struct roster_node *node,
                        const struct roster_window *window, bool known);
void roster_note_loss(const struct roster *roster, struct roster_node *node, uint64_t start_ms,
                      uint32_t cause, uint64_t count);
/* Forgets ledger entries and losses from before before_ms. */
void roster_forget(struct roster *roster, uint64_t before_ms);
/* Every stored window whose bucket [start_ms, start_ms + bucket_ms) is, is gone. Returns the samples. */
uint64_t roster_drop_bucket(struct roster *roster, uint64_t start_ms, uint32_t bucket_ms, uint32_t cause);

#endif
