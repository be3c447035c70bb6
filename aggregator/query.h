/* query: questions about the whole fleet, answered by any shard: it plans, asks every shard (itself
 * directly, the others over link), merges, and says who did not answer.
 * Shapes:    times in ms since 1970 (shard's clock); values in profile units (cpu: nanoseconds).
 * Rules:     top-N is exact: three-phase uniform threshold over kept results; order is value descending,
 *            then key ascending bytewise; remainders ("[other]") are never ranked. Cumulative counts a
 *            function once per sample.
 * Limits:    limit <= QUERY_MAX_ROWS; one deadline over all phases; answers of peers are bounded by
 *            LINK_MESSAGE_BYTES.
 * Threads:   any thread may ask and is blocked until the answer; not from a worker.
 * Errors:    -EINVAL (text for the user), -E2BIG (rows with names too long for one message), -ETIMEDOUT
 *            when not even this shard answered. A missing shard is no error: completeness says it.
 * Source:    TPUT: Cao & Wang, "Efficient top-K query calculation in distributed networks", PODC 2004. */
#ifndef AGGREGATOR_QUERY_H
#define AGGREGATOR_QUERY_H

#include "common/err.h"
#include "common/labels.h"
#include "common/stackset.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUERY_MAX_ROWS   10000u
#define QUERY_MAX_GROUPS 4u

struct query; /* the planner of one shard process */

struct query_selection {
    const char *kind; /* "cpu" */
    uint64_t from_ms, to_ms;
    const struct label_matchers *matchers;
};

struct query_counter {
    char *name;
    uint64_t value;
};

/* What an answer speaks for and what is missing from it. */
struct query_completeness {
    uint32_t shards_asked, shards_answered;
    char **missing_shards;      /* addresses; shards_asked - shards_answered of them */
    uint64_t samples;           /* counts in the selection */
    uint64_t value;             /* in profile units */
    char unit[24];              /* of value ("nanoseconds"); "" when nothing was found */
    struct query_counter *lost; /* by cause, in the range, for the nodes that the matchers let through */
    size_t lost_count;
    uint64_t node_samples; /* stored samples of those nodes: losses are a share of these and themselves */
    uint64_t truncated, unnamed; /* samples */
    uint64_t unranked;       /* samples whose leaf is no function but a marker (stack lost, not readable): */
    uint64_t unranked_value; /* all rows by function, self, and this add up to the total */
    uint64_t nodes;
    uint64_t covered_ms, expected_ms; /* node-time */
    bool skewed;                      /* some agent's clock was wrong: its times were corrected */
    bool partial;                     /* a shard is missing, or samples were lost from memory in the range */
};

struct query_top_row {
    const char
        *keys[QUERY_MAX_GROUPS]; /* one per group; group "function" gives "name" and the row's module too */
    const char *module;          /* with group function: the library or program, else NULL */
    uint64_t value, count;
    uint64_t low, high;                  /* 95 % interval of value (Poisson by count) */
    double share, share_low, share_high; /* of the selection's value; 95 % Wilson by counts */
};

struct query_top {
    struct query_top_row *rows;
    size_t row_count;
    uint64_t total_value, total_count;
    char unit[24];
    struct query_completeness completeness;
};

/* Keys, like every text of an answer, are bytes as they were taken: the doors make them printable.
 * groups: "function", "module", "build_id" (of the code that runs), or any label name (process, executable,
 * thread, container, node ...). */
int query_top(struct query *query, const struct query_selection *selection, const char *const *groups,
              size_t group_count, bool cumulative, size_t limit, struct query_top **ret_top, struct err *err);
void query_top_free(struct query_top *top);

/* All stacks of the selection, with function names resolved (stackset_frame.function; display names, raw
 * bytes). Row values are in profile units: the scale is multiplied in. */
int query_stacks(struct query *query, const struct query_selection *selection, struct stackset **ret_set,
                 struct query_completeness *ret_completeness, struct err *err);
void query_completeness_fini(struct query_completeness *completeness);

/* label NULL: the label names. Values sorted; *ret_cut when there were more than limit. */
int query_labels(struct query *query, const char *label, const struct query_selection *selection,
                 size_t limit, char ***ret_values, size_t *ret_count, bool *ret_cut,
                 struct query_completeness *ret_completeness, struct err *err);
void query_labels_free(char **values, size_t count);

struct query_agent {
    char *node, *version, *kernel, *event, *shard;
    uint32_t hz, cpus;
    uint64_t last_seen_ms;
    int64_t clock_skew_ms;
    uint64_t samples, taken, duplicates;
    struct query_counter *lost, *gauges;
    size_t lost_count, gauge_count;
};
int query_agents(struct query *query, struct query_agent **ret_agents, size_t *ret_count,
                 struct query_completeness *ret_completeness, struct err *err);
void query_agents_free(struct query_agent *agents, size_t count);

/* ---- for the shard that owns the planner ---- */
struct answers;
struct peers;
/* answers and peers are borrowed until query_free. timeout_ms: for a whole question; stacks get
 * QUERY_STACKS_TIMES it. */
#define QUERY_STACKS_TIMES 5u
struct query *query_new(struct answers *answers, struct peers *peers, uint64_t timeout_ms);
void query_free(struct query *query); /* NULL is fine */

#endif
