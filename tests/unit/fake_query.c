/* A query engine with fixed answers, for the doors in front of it. Include it once in a test: it defines
 * query.h. */

#include "aggregator/query.h"
#include "common/xalloc.h"

#include <errno.h>
#include <pthread.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOSTILE_NAME "a\xff\xfe\"b\nc\\d<script>;e"

struct query {
    int rc; /* the answer to everything, when not 0 */
    bool partial;
    bool loud; /* every share is no number */
    /* What was asked last. */
    char kind[32], groups[128], label[64], matcher[128];
    uint64_t from_ms, to_ms;
    bool cumulative;
    size_t limit, matcher_count;
    pthread_barrier_t *meet; /* query_agents waits here, when set */
};

static inline char *fake_copy(const char *text)
{
    return xstrdup(text);
}

static inline void fake_note(struct query *query, const struct query_selection *selection)
{
    const struct label_matchers *matchers = selection->matchers;
    snprintf(query->kind, sizeof(query->kind), "%s", selection->kind);
    query->from_ms = selection->from_ms;
    query->to_ms = selection->to_ms;
    query->matcher_count = matchers->count;
    query->matcher[0] = '\0';
    for (size_t i = 0; i < matchers->count; i++) {
        size_t used = strlen(query->matcher);
        snprintf(query->matcher + used, sizeof(query->matcher) - used, "%s(%d)%s;", matchers->items[i].name,
                 (int)matchers->items[i].op, matchers->items[i].value);
    }
}

/* 1000 samples kept of 1100, 10 truncated, 20 unnamed; with partial, one shard of three is away. */
static inline struct query_completeness fake_completeness(const struct query *query)
{
    struct query_completeness c = {.shards_asked = 3,
                                   .shards_answered = query->partial ? 2 : 3,
                                   .samples = 1000,
                                   .node_samples = 1000,
                                   .value = 10101010000,
                                   .unit = "nanoseconds",
                                   .truncated = 10,
                                   .unnamed = 20,
                                   .nodes = 2,
                                   .skewed = true,
                                   .covered_ms = 90000,
                                   .expected_ms = 100000,
                                   .partial = query->partial};
    c.lost = xcalloc(2, sizeof(*c.lost));
    c.lost[0] = (struct query_counter){fake_copy("ring_full"), 60};
    c.lost[1] = (struct query_counter){fake_copy("a \"cause\""), 40};
    c.lost_count = 2;
    if (query->partial) {
        c.missing_shards = xcalloc(1, sizeof(char *));
        c.missing_shards[0] = fake_copy("tcp://127.0.0.1:4142");
    }
    return c;
}

void query_completeness_fini(struct query_completeness *c)
{
    for (size_t i = 0; i < c->lost_count; i++)
        free(c->lost[i].name);
    for (uint32_t i = 0; c->missing_shards && i < c->shards_asked - c->shards_answered; i++)
        free(c->missing_shards[i]);
    free(c->lost);
    free(c->missing_shards);
    memset(c, 0, sizeof(*c));
}

int query_top(struct query *query, const struct query_selection *selection, const char *const *groups,
              size_t group_count, bool cumulative, size_t limit, struct query_top **ret_top, struct err *err)
{
    static const struct query_top_row rows[] = {
        {.keys = {"busy_loop", "n1"},
         .module = "spin",
         .value = 5050505000,
         .count = 500,
         .low = 4600000000,
         .high = 5500000000,
         .share = 0.5,
         .share_low = 0.47,
         .share_high = 0.53},
        {.keys = {HOSTILE_NAME, "n\n2"},
         .module = "lib\xff.so",
         .value = 3030303000,
         .count = 300,
         .low = 2700000000,
         .high = 3400000000,
         .share = 0.3,
         .share_low = 0.27,
         .share_high = 0.33},
        {.keys = {"std::vector<std::basic_string<char, std::char_traits<char>, std::allocator<char> >, "
                  "std::allocator<std::basic_string<char> > >::operator[](unsigned long)",
                  ""},
         .module = "a",
         .value = 2020202000,
         .count = 200,
         .low = 1,
         .high = UINT64_MAX,
         .share = 0.2,
         .share_low = 0.17,
         .share_high = 0.23},
    };
    fake_note(query, selection);
    query->cumulative = cumulative;
    query->limit = limit;
    query->groups[0] = '\0';
    for (size_t i = 0; i < group_count; i++) {
        size_t used = strlen(query->groups);
        snprintf(query->groups + used, sizeof(query->groups) - used, "%s;", groups[i]);
    }
    if (query->rc < 0)
        return err_say(err, query->rc, "the fake says no");
    struct query_top *top = xcalloc(1, sizeof(*top));
    top->row_count = limit < 3 ? limit : 3;
    top->rows = xcalloc(3, sizeof(*top->rows));
    memcpy(top->rows, rows, sizeof(rows));
    if (query->loud)
        top->rows[0].share = top->rows[0].share_low = NAN;
    top->total_value = 10101010000;
    top->total_count = 1000;
    snprintf(top->unit, sizeof(top->unit), "nanoseconds");
    top->completeness = fake_completeness(query);
    *ret_top = top;
    return 0;
}

void query_top_free(struct query_top *top)
{
    query_completeness_fini(&top->completeness);
    free(top->rows);
    free(top);
}

static inline uint32_t fake_native(struct stackset *set, uint32_t executable, uint64_t offset,
                                   const char *function)
{
    uint32_t frame = stackset_frame(set, FRAME_NATIVE, executable, offset, 0);
    set->frames[frame].function = function ? stackset_cstring(set, function) + 1 : 0;
    return frame;
}

/* main -> busy_loop (400 samples); main -> busy_loop at another offset (100); main -> hostile -> read in the
 * kernel (300); main -> no name (200, of a process on another node, half of them in python). */
static inline struct stackset *fake_stacks(void)
{
    struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
    uint32_t spin =
        stackset_executable(set, "\x12\x34\xab", 3, EXECUTABLE_GNU, stackset_cstring(set, "/usr/bin/spin"));
    uint32_t lib =
        stackset_executable(set, "\x01", 1, EXECUTABLE_CONTENT, stackset_cstring(set, "lib\xff.so"));
    uint32_t start = stackset_node(set, STACKSET_ROOT, fake_native(set, spin, 0x1040, "main"));
    uint32_t busy = stackset_node(set, start, fake_native(set, spin, 0x1100, "busy_loop"));
    uint32_t busy2 = stackset_node(set, start, fake_native(set, spin, 0x1108, "busy_loop"));
    uint32_t bad = stackset_node(set, start, fake_native(set, lib, 0x9f00, HOSTILE_NAME));
    uint32_t kernel = stackset_node(set, bad,
                                    stackset_frame(set, FRAME_KERNEL, stackset_cstring(set, "ksys_read"),
                                                   stackset_cstring(set, "[kernel]"), 0));
    uint32_t unnamed = stackset_node(set, start, fake_native(set, lib, 0x1f40, NULL));
    uint32_t python = stackset_node(set, start,
                                    stackset_frame(set, FRAME_INTERPRETED, stackset_cstring(set, "work"),
                                                   stackset_cstring(set, "w.py"), 17));
    struct stackset_label labels[2] = {{stackset_cstring(set, "node"), stackset_cstring(set, "n1")},
                                       {stackset_cstring(set, "process"), stackset_cstring(set, "sp;in")}};
    uint32_t one = stackset_series(set, labels, 2);
    labels[0].value = stackset_cstring(set, "n2");
    uint32_t two = stackset_series(set, labels, 2);
    const uint64_t each = 10101010;
    stackset_add(set, one, busy, 400 * each, 400);
    stackset_add(set, one, busy2, 100 * each, 100);
    stackset_add(set, one, kernel, 300 * each, 300);
    stackset_add(set, two, unnamed, 100 * each, 100);
    stackset_add(set, two, python, 100 * each, 100);
    return set;
}

int query_stacks(struct query *query, const struct query_selection *selection, struct stackset **ret_set,
                 struct query_completeness *ret_completeness, struct err *err)
{
    fake_note(query, selection);
    if (query->rc < 0)
        return err_say(err, query->rc, "the fake says no");
    *ret_set = fake_stacks();
    *ret_completeness = fake_completeness(query);
    return 0;
}

int query_labels(struct query *query, const char *label, const struct query_selection *selection,
                 size_t limit, char ***ret_values, size_t *ret_count, bool *ret_cut,
                 struct query_completeness *ret_completeness, struct err *err)
{
    fake_note(query, selection);
    query->limit = limit;
    snprintf(query->label, sizeof(query->label), "%s", label ? label : "(names)");
    if (query->rc < 0)
        return err_say(err, query->rc, "the fake says no");
    *ret_count = 2;
    *ret_values = xcalloc(2, sizeof(char *));
    (*ret_values)[0] = fake_copy(label ? HOSTILE_NAME : "node");
    (*ret_values)[1] = fake_copy(label ? "spin" : "process");
    *ret_cut = true;
    *ret_completeness = fake_completeness(query);
    return 0;
}

void query_labels_free(char **values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(values[i]);
    free(values);
}

int query_agents(struct query *query, struct query_agent **ret_agents, size_t *ret_count,
                 struct query_completeness *ret_completeness, struct err *err)
{
    if (query->meet)
        pthread_barrier_wait(query->meet);
    if (query->rc < 0)
        return err_say(err, query->rc, "the fake says no");
    struct query_agent *agent = xcalloc(1, sizeof(*agent));
    *agent = (struct query_agent){.node = fake_copy("n1"),
                                  .version = fake_copy("1.0"),
                                  .kernel = fake_copy("6.18"),
                                  .event = fake_copy("cpu-clock"),
                                  .shard = fake_copy("tcp://127.0.0.1:4140"),
                                  .hz = 99,
                                  .cpus = 2,
                                  .last_seen_ms = 1700000000000,
                                  .clock_skew_ms = -3,
                                  .samples = 990,
                                  .taken = 1000,
                                  .duplicates = 1,
                                  .lost_count = 1};
    agent->lost = xcalloc(1, sizeof(*agent->lost));
    agent->lost[0] = (struct query_counter){fake_copy("ring_full"), 10};
    *ret_agents = agent;
    *ret_count = 1;
    *ret_completeness = fake_completeness(query);
    return 0;
}

void query_agents_free(struct query_agent *agents, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(agents[i].node);
        free(agents[i].version);
        free(agents[i].kernel);
        free(agents[i].event);
        free(agents[i].shard);
        query_completeness_fini(
            &(struct query_completeness){.lost = agents[i].lost, .lost_count = agents[i].lost_count});
        query_completeness_fini(
            &(struct query_completeness){.lost = agents[i].gauges, .lost_count = agents[i].gauge_count});
    }
    free(agents);
}
