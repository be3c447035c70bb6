#include "aggregator/answer.h"

#include "aggregator/kept.h"
#include "aggregator/stacks.h"
#include "aggregator/top.h"
#include "common/clock.h"
#include "common/xalloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLY_BYTES (48u << 20) /* of rows before compression: under WIRE_PAYLOAD_BYTES */

struct answers {
    struct crew *crew;
    char *shard;
    struct kept *kept;
};

struct answers *answers_new(struct crew *crew, const char *shard)
{
    struct answers *answers = xcalloc(1, sizeof(*answers));
    answers->crew = crew;
    answers->shard = xstrdup(shard);
    answers->kept = kept_new(ANSWER_KEPT, ANSWER_KEPT_BYTES, ANSWER_KEEP_MS);
    return answers;
}

void answers_free(struct answers *answers)
{
    if (!answers)
        return;
    kept_free(answers->kept);
    free(answers->shard);
    free(answers);
}

static uint64_t wall_ms(void)
{
    return clock_wall_ns() / CLOCK_NS_PER_MS;
}

static uint64_t mono_ms(void)
{
    return clock_mono_ns() / CLOCK_NS_PER_MS;
}

/* ---- top ---- */

/* The job's memory: one part per partition, each written by its worker alone. */
struct top_ask {
    struct top_request request;
    uint64_t now_ms;
    unsigned part_count;
    struct top_part {
        struct top_table table;
        struct completeness completeness;
    } parts[];
};

static void free_top(void *ctx)
{
    struct top_ask *ask = ctx;
    for (unsigned i = 0; i < ask->part_count; i++)
        top_table_fini(&ask->parts[i].table);
    selection_fini(&ask->request.selection);
    free(ask);
}

static void run_top(struct partition *partition, unsigned index, void *ctx)
{
    struct top_ask *ask = ctx;
    top_of_partition(&ask->request, partition, ask->now_ms, &ask->parts[index].table,
                     &ask->parts[index].completeness);
}

static struct top_ask *new_top(const struct answers *answers, const Fleetprof__TopRequest *message,
                               struct err *err)
{
    unsigned count = crew_count(answers->crew);
    struct top_ask *ask = xcalloc(1, sizeof(*ask) + count * sizeof(ask->parts[0]));
    ask->part_count = count;
    ask->now_ms = wall_ms();
    if (selection_init(&ask->request.selection, message->selection, err) < 0)
        goto fail;
    if (message->n_group == 0 || message->n_group > QUERY_MAX_GROUPS) {
        err_say(err, -EINVAL, "1 to %u groups", QUERY_MAX_GROUPS);
        goto fail;
    }
    for (size_t g = 0; g < message->n_group; g++) {
        if (message->group[g][0] == '\0' || strlen(message->group[g]) >= TOP_GROUP_BYTES) {
            err_say(err, -EINVAL, "a group's name has 1 to %u bytes", TOP_GROUP_BYTES - 1);
            goto fail;
        }
        memcpy(ask->request.groups[g], message->group[g], strlen(message->group[g]) + 1);
    }
    ask->request.group_count = message->n_group;
    ask->request.cumulative = message->cumulative;
    return ask;
fail:
    free_top(ask);
    return NULL;
}

static Fleetprof__TopReply *new_reply(void)
{
    Fleetprof__TopReply *reply = xmalloc(sizeof(*reply));
    fleetprof__top_reply__init(reply);
    return reply;
}

/* Room for count rows; rows are pushed in their order. */
static void push_row(Fleetprof__TopReply *reply, const struct top_table *table, const struct top_row *row)
{
    Fleetprof__TopRow *out = xmalloc(sizeof(*out));
    fleetprof__top_row__init(out);
    out->key.len = row->key_bytes;
    out->key.data = (uint8_t *)xmemdup_text(top_row_key(table, row), row->key_bytes);
    out->value = row->value;
    out->count = row->count;
    reply->rows[reply->n_rows++] = out;
}

/* The first count rows of the order. */
static int push_rows(Fleetprof__TopReply *reply, const struct top_table *table, uint32_t count,
                     struct err *err)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += table->rows[i].key_bytes + 32;
    if (bytes > REPLY_BYTES)
        return err_say(err, -E2BIG,
                       "the rows have too long names for one answer: narrow the question, or ask for fewer");
    reply->rows = xcalloc(count + 1, sizeof(Fleetprof__TopRow *));
    for (uint32_t i = 0; i < count; i++)
        push_row(reply, table, &table->rows[i]);
    reply->all = count == table->row_count;
    return 0;
}

static struct kept_result *add_up(struct top_ask *ask, struct completeness *completeness)
{
    struct top_table *table = &ask->parts[0].table;
    *completeness = ask->parts[0].completeness;
    for (unsigned i = 1; i < ask->part_count; i++) {
        top_table_merge(table, &ask->parts[i].table);
        completeness_add(completeness, &ask->parts[i].completeness);
    }
    completeness_lose(completeness, "answer_full", table->dropped);
    return kept_result_new(table);
}

static int first_phase(struct answers *answers, const Fleetprof__TopRequest *request,
                       uint64_t deadline_mono_ns, Fleetprof__TopReply *reply, struct err *err)
{
    struct err why = {0};
    struct top_ask *ask = new_top(answers, request, &why);
    if (!ask)
        return err_say(err, why.code, "%s", why.text);
    int rc = crew_ask(answers->crew, run_top, ask, free_top, deadline_mono_ns);
    if (rc < 0)
        return err_set(err, rc, "top");
    struct completeness completeness;
    struct kept_result *result = add_up(ask, &completeness);
    free_top(ask);
    reply->completeness = completeness_to_wire(&completeness, answers->shard);
    const struct top_table *table = kept_result_table(result);
    uint32_t count = request->first < table->row_count ? request->first : table->row_count;
    rc = push_rows(reply, table, count, err);
    if (rc == 0 && !reply->all) /* else nothing is left to be asked */
        kept_put(answers->kept, request->query, result, mono_ms());
    kept_result_unref(result);
    return rc;
}

static int second_phase(const struct kept_result *result, uint64_t at_least, Fleetprof__TopReply *reply,
                        struct err *err)
{
    const struct top_table *table = kept_result_table(result);
    uint32_t count = 0;
    while (count < table->row_count && table->rows[count].value >= at_least)
        count++;
    return push_rows(reply, table, count, err);
}

static int third_phase(const struct kept_result *result, const Fleetprof__TopRequest *request,
                       Fleetprof__TopReply *reply)
{
    reply->rows = xcalloc(request->n_keys + 1, sizeof(Fleetprof__TopRow *));
    for (size_t i = 0; i < request->n_keys; i++) {
        const struct top_row *row = kept_result_find(result, request->keys[i].data, request->keys[i].len);
        if (row)
            push_row(reply, kept_result_table(result), row);
    }
    return 0;
}

int answer_top(struct answers *answers, const Fleetprof__TopRequest *request, uint64_t deadline_mono_ns,
               Fleetprof__TopReply **ret_reply, struct err *err)
{
    Fleetprof__TopReply *reply = new_reply();
    int rc;
    if (request->phase == 1) {
        rc = first_phase(answers, request, deadline_mono_ns, reply, err);
    } else {
        struct kept_result *result = kept_find(answers->kept, request->query, mono_ms());
        if (!result)
            rc = err_say(err, -ENOENT, "the question is not remembered here");
        else if (request->phase == 2)
            rc = second_phase(result, request->at_least, reply, err);
        else if (request->phase == 3)
            rc = third_phase(result, request, reply);
        else
            rc = err_say(err, -EINVAL, "phase %u", request->phase);
        kept_result_unref(result);
    }
    if (rc < 0)
        wire_free(&reply->base);
    else
        *ret_reply = reply;
    return rc;
}

/* ---- stacks ---- */

struct stacks_ask {
    struct selection selection;
    uint64_t now_ms;
    unsigned part_count;
    struct stacks_part {
        struct stackset *set;
        struct completeness completeness;
    } parts[];
};

static void free_stacks(void *ctx)
{
    struct stacks_ask *ask = ctx;
    for (unsigned i = 0; i < ask->part_count; i++)
        stackset_free(ask->parts[i].set);
    selection_fini(&ask->selection);
    free(ask);
}

static void run_stacks(struct partition *partition, unsigned index, void *ctx)
{
    struct stacks_ask *ask = ctx;
    ask->parts[index].set =
        stacks_of_partition(&ask->selection, partition, ask->now_ms, &ask->parts[index].completeness);
}

int answer_stacks(struct answers *answers, const Fleetprof__Selection *selection, uint64_t deadline_mono_ns,
                  struct stackset **ret_set, struct completeness *ret_completeness, struct err *err)
{
    unsigned count = crew_count(answers->crew);
    struct stacks_ask *ask = xcalloc(1, sizeof(*ask) + count * sizeof(ask->parts[0]));
    ask->part_count = count;
    ask->now_ms = wall_ms();
    int rc = selection_init(&ask->selection, selection, err);
    if (rc < 0) {
        free_stacks(ask);
        return rc;
    }
    rc = crew_ask(answers->crew, run_stacks, ask, free_stacks, deadline_mono_ns);
    if (rc < 0)
        return err_set(err, rc, "stacks");
    *ret_completeness = ask->parts[0].completeness;
    for (unsigned i = 1; i < count; i++) {
        uint64_t lost = 0;
        stackset_merge(ask->parts[0].set, ask->parts[i].set, &lost);
        completeness_add(ret_completeness, &ask->parts[i].completeness);
        completeness_lose(ret_completeness, "answer_full", lost);
    }
    *ret_set = ask->parts[0].set;
    ask->parts[0].set = NULL;
    free_stacks(ask);
    return 0;
}

/* ---- labels ---- */

struct labels_ask {
    struct selection selection;
    char *label; /* "": the names */
    unsigned part_count;
    struct top_table parts[]; /* keys of one value each: a sorted set of texts */
};

static void free_labels(void *ctx)
{
    struct labels_ask *ask = ctx;
    for (unsigned i = 0; i < ask->part_count; i++)
        top_table_fini(&ask->parts[i]);
    selection_fini(&ask->selection);
    free(ask->label);
    free(ask);
}

static void add_text(struct top_table *set, const struct dictionary *dictionary, uint32_t string)
{
    uint8_t key[2 + STACKSET_STRING_BYTES];
    size_t bytes;
    const char *text = dictionary_text(dictionary, string, &bytes);
    key[0] = bytes & 0xff;
    key[1] = (bytes >> 8) & 0xff;
    memcpy(key + 2, text, bytes);
    top_table_add(set, key, 2 + bytes, 0, 0);
}

static void add_series(struct top_table *set, const struct dictionary *dictionary, uint32_t series,
                       const char *label)
{
    const struct dictionary_series *entry = &dictionary->series[series];
    for (uint32_t i = 0; i < entry->label_count; i++) {
        struct dictionary_label pair = dictionary->labels[entry->first_label + i];
        if (label[0] == '\0')
            add_text(set, dictionary, pair.name);
        else if (strcmp(dictionary_text(dictionary, pair.name, NULL), label) == 0)
            add_text(set, dictionary, pair.value);
    }
}

static void run_labels(struct partition *partition, unsigned index, void *ctx)
{
    struct labels_ask *ask = ctx;
    const struct windows *windows = &partition->windows;
    uint8_t *in = selection_series(&ask->selection, &partition->dictionary);
    for (uint32_t b = windows_first_in_range(windows, ask->selection.from_ms);
         b < windows->bucket_count && windows->buckets[b]->start_ms < ask->selection.to_ms; b++) {
        if (windows->buckets[b]->kind != ask->selection.kind)
            continue;
        struct window_segment segment;
        for (struct window_cursor c = window_cursor(windows->buckets[b]); window_next(&c, &segment);) {
            if (!in[segment.series])
                continue;
            in[segment.series] = 0; /* once is enough */
            add_series(&ask->parts[index], &partition->dictionary, segment.series, ask->label);
        }
    }
    free(in);
}

static Fleetprof__LabelsReply *labels_reply(struct top_table *set, uint32_t limit)
{
    Fleetprof__LabelsReply *reply = xmalloc(sizeof(*reply));
    fleetprof__labels_reply__init(reply);
    top_table_sort(set);
    uint32_t count = set->row_count < limit ? set->row_count : limit;
    reply->cut = count < set->row_count;
    reply->values = xcalloc(count + 1, sizeof(char *));
    for (uint32_t i = 0; i < count; i++)
        reply->values[reply->n_values++] =
            xmemdup_text(top_row_key(set, &set->rows[i]) + 2, set->rows[i].key_bytes - 2);
    return reply;
}

int answer_labels(struct answers *answers, const Fleetprof__LabelsRequest *request, uint64_t deadline_mono_ns,
                  Fleetprof__LabelsReply **ret_reply, struct err *err)
{
    unsigned count = crew_count(answers->crew);
    struct labels_ask *ask = xcalloc(1, sizeof(*ask) + count * sizeof(ask->parts[0]));
    ask->part_count = count;
    ask->label = xstrdup(request->label);
    int rc = selection_init(&ask->selection, request->selection, err);
    if (rc < 0) {
        free_labels(ask);
        return rc;
    }
    rc = crew_ask(answers->crew, run_labels, ask, free_labels, deadline_mono_ns);
    if (rc < 0)
        return err_set(err, rc, "labels");
    for (unsigned i = 1; i < count; i++)
        top_table_merge(&ask->parts[0], &ask->parts[i]);
    *ret_reply = labels_reply(&ask->parts[0], request->limit);
    free_labels(ask);
    return 0;
}

/* ---- agents ---- */

struct agents_ask {
    const char *shard; /* lives as long as the shard */
    unsigned part_count;
    Fleetprof__AgentsReply parts[];
};

static void free_agents(void *ctx)
{
    struct agents_ask *ask = ctx;
    for (unsigned i = 0; i < ask->part_count; i++) {
        for (size_t k = 0; k < ask->parts[i].n_agents; k++)
            wire_free(&ask->parts[i].agents[k]->base);
        free(ask->parts[i].agents);
    }
    free(ask);
}

static void push_counter(Fleetprof__Counter **list, size_t *count, const char *name, uint64_t value)
{
    list[*count] = xmalloc(sizeof(**list));
    fleetprof__counter__init(list[*count]);
    list[*count]->name = xstrdup(name);
    list[(*count)++]->value = value;
}

static Fleetprof__AgentState *agent_state(const struct partition *partition, const struct roster_node *node,
                                          const char *shard)
{
    Fleetprof__AgentState *state = xmalloc(sizeof(*state));
    fleetprof__agent_state__init(state);
    state->node = xstrdup(node->name);
    state->version = xstrdup(node->version);
    state->kernel = xstrdup(node->kernel);
    state->event = xstrdup(node->event);
    state->shard = xstrdup(shard);
    state->hz = node->hz;
    state->cpus = node->cpus;
    state->last_seen_ms = node->last_seen_ms;
    state->clock_skew_ms = node->skew_ms;
    state->samples = node->samples;
    state->taken = node->taken;
    state->duplicates = node->duplicates;
    state->lost = xcalloc(ROSTER_CAUSES, sizeof(Fleetprof__Counter *));
    for (uint32_t cause = 0; cause < partition->roster.cause_count; cause++)
        if (node->lost[cause])
            push_counter(state->lost, &state->n_lost, partition->roster.causes[cause], node->lost[cause]);
    state->gauges = xcalloc(node->gauge_count + 1, sizeof(Fleetprof__Counter *));
    for (uint32_t i = 0; i < node->gauge_count; i++)
        push_counter(state->gauges, &state->n_gauges, node->gauges[i].name, node->gauges[i].value);
    return state;
}

static void run_agents(struct partition *partition, unsigned index, void *ctx)
{
    struct agents_ask *ask = ctx;
    const struct roster *roster = &partition->roster;
    Fleetprof__AgentsReply *part = &ask->parts[index];
    part->agents = xcalloc(roster->count + 1, sizeof(Fleetprof__AgentState *));
    for (uint32_t i = 0; i < roster->count; i++)
        if (roster->nodes[i]->epoch_count > 0)
            part->agents[part->n_agents++] = agent_state(partition, roster->nodes[i], ask->shard);
}

int answer_agents(struct answers *answers, uint64_t deadline_mono_ns, Fleetprof__AgentsReply **ret_reply,
                  struct err *err)
{
    unsigned count = crew_count(answers->crew);
    struct agents_ask *ask = xcalloc(1, sizeof(*ask) + count * sizeof(ask->parts[0]));
    ask->part_count = count;
    ask->shard = answers->shard;
    int rc = crew_ask(answers->crew, run_agents, ask, free_agents, deadline_mono_ns);
    if (rc < 0)
        return err_set(err, rc, "agents");
    Fleetprof__AgentsReply *reply = xmalloc(sizeof(*reply));
    fleetprof__agents_reply__init(reply);
    size_t total = 0;
    for (unsigned i = 0; i < count; i++)
        total += ask->parts[i].n_agents;
    reply->agents = xcalloc(total + 1, sizeof(Fleetprof__AgentState *));
    for (unsigned i = 0; i < count; i++) {
        for (size_t k = 0; k < ask->parts[i].n_agents; k++)
            reply->agents[reply->n_agents++] = ask->parts[i].agents[k];
        ask->parts[i].n_agents = 0;
    }
    free_agents(ask);
    *ret_reply = reply;
    return 0;
}
