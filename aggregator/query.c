#include "aggregator/query_plan.h"

#include "aggregator/profile_kind.h"
#include "aggregator/stacks.h"
#include "common/clock.h"
#include "common/xalloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct query *query_new(struct answers *answers, struct peers *peers, uint64_t timeout_ms)
{
    struct query *query = xcalloc(1, sizeof(*query));
    query->answers = answers;
    query->peers = peers;
    query->timeout_ms = timeout_ms;
    uint64_t seed = clock_mono_ns() ^ clock_wall_ns();
    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
        seed ^= (uint64_t)(uintptr_t)query << 20;
    atomic_init(&query->next_number, seed);
    return query;
}

void query_free(struct query *query)
{
    free(query);
}

/* ---- plan ---- */

void plan_init(struct plan *plan, struct query *query)
{
    *plan = (struct plan){
        .query = query, .shard_count = peers_count(query->peers), .self = peers_self(query->peers)};
    plan->alive = plan->shard_count == 64 ? UINT64_MAX : plan_bit(plan->shard_count) - 1;
}

uint64_t plan_deadline_ns(uint64_t timeout_ms)
{
    return clock_mono_ns() + timeout_ms * CLOCK_NS_PER_MS;
}

struct gather *plan_send(struct plan *plan, const ProtobufCMessage *message, enum wire_type type,
                         uint64_t deadline_mono_ns)
{
    struct buf out = buf_init(LINK_MESSAGE_BYTES);
    uint64_t mask = wire_pack(message, type, 0, &out, NULL) < 0 ? 0 : plan->alive;
    struct gather *gather = gather_send(plan->query->peers, mask, &out, deadline_mono_ns);
    buf_fini(&out);
    return gather;
}

/* Every reply of a shard begins with the same two fields. */
static bool is_stored(const ProtobufCMessage *message, enum wire_type type)
{
    switch (type) {
    case WIRE_TOP_REPLY:
        return ((const Fleetprof__TopReply *)message)->verdict == FLEETPROF__VERDICT__STORED;
    case WIRE_STACKS_REPLY:
        return ((const Fleetprof__StacksReply *)message)->verdict == FLEETPROF__VERDICT__STORED;
    case WIRE_LABELS_REPLY:
        return ((const Fleetprof__LabelsReply *)message)->verdict == FLEETPROF__VERDICT__STORED;
    case WIRE_AGENTS_REPLY:
        return ((const Fleetprof__AgentsReply *)message)->verdict == FLEETPROF__VERDICT__STORED;
    default:
        return false;
    }
}

ProtobufCMessage *plan_reply(struct plan *plan, const struct gather *gather, size_t shard,
                             enum wire_type type)
{
    const void *data;
    size_t bytes;
    ProtobufCMessage *message = NULL;
    if (gather_reply(gather, shard, &data, &bytes) == 0 &&
        wire_unpack(data, bytes, type, &message, NULL) == 0 && is_stored(message, type))
        return message;
    wire_free(message);
    plan->alive &= ~plan_bit(shard);
    return NULL;
}

int plan_check(const struct plan *plan, struct err *err)
{
    if (plan->alive)
        return 0;
    if (err && err->code == -E2BIG) /* what this shard said: the others cannot do better */
        return -E2BIG;
    return err_say(err, -ETIMEDOUT, "no shard answered in time, not even this one");
}

void plan_completeness(const struct plan *plan, uint32_t kind, struct query_completeness *out)
{
    const struct completeness *in = &plan->completeness;
    *out = (struct query_completeness){
        .shards_asked = (uint32_t)plan->shard_count,
        .samples = in->samples,
        .value = in->value,
        .truncated = in->truncated,
        .unnamed = in->unnamed,
        .unranked = in->unranked,
        .unranked_value = in->unranked_value,
        .nodes = in->nodes,
        .node_samples = in->node_samples,
        .covered_ms = in->covered_ms,
        .expected_ms = in->expected_ms,
        .skewed = in->skewed,
    };
    if (in->samples && kind != PROFILE_KIND_NONE)
        snprintf(out->unit, sizeof(out->unit), "%s", profile_kind(kind)->unit);
    out->missing_shards = xcalloc(plan->shard_count + 1, sizeof(char *));
    size_t missing = 0;
    for (size_t i = 0; i < plan->shard_count; i++) {
        if (plan->alive & plan_bit(i))
            out->shards_answered++;
        else
            out->missing_shards[missing++] = xstrdup(peers_address(plan->query->peers, i));
    }
    out->lost = xcalloc(in->loss_count + 1, sizeof(*out->lost));
    for (uint32_t i = 0; i < in->loss_count; i++)
        out->lost[out->lost_count++] =
            (struct query_counter){.name = xstrdup(in->losses[i].cause), .value = in->losses[i].samples};
    out->partial = missing > 0 || completeness_forgot(in);
}

void query_completeness_fini(struct query_completeness *completeness)
{
    uint32_t missing = completeness->shards_asked - completeness->shards_answered;
    for (uint32_t i = 0; completeness->missing_shards && i < missing; i++)
        free(completeness->missing_shards[i]);
    free(completeness->missing_shards);
    for (size_t i = 0; i < completeness->lost_count; i++)
        free(completeness->lost[i].name);
    free(completeness->lost);
    *completeness = (struct query_completeness){0};
}

int plan_selection(struct plan_selection *out, const struct query_selection *selection, struct err *err)
{
    fleetprof__selection__init(&out->message);
    out->kind = profile_kind_find(selection->kind);
    if (out->kind == PROFILE_KIND_NONE)
        return err_say(err, -EINVAL, "profile kind \"%.40s\" is not known", selection->kind);
    if (selection->from_ms >= selection->to_ms)
        return err_say(err, -EINVAL, "the time range is empty");
    out->message.kind = (char *)(uintptr_t)selection->kind; /* protobuf-c has no const; packing only reads */
    out->message.from_ms = selection->from_ms;
    out->message.to_ms = selection->to_ms;
    out->message.matchers = out->list;
    for (size_t i = 0; selection->matchers && i < selection->matchers->count; i++) {
        const struct label_matcher *matcher = &selection->matchers->items[i];
        fleetprof__matcher__init(&out->matchers[i]);
        out->matchers[i].label = matcher->name;
        out->matchers[i].value = matcher->value;
        out->matchers[i].op = matcher->op;
        out->list[i] = &out->matchers[i];
        out->message.n_matchers++;
    }
    return 0;
}

static void add_completeness(struct plan *plan, const Fleetprof__Completeness *message)
{
    struct completeness part;
    completeness_from_wire(&part, message);
    completeness_add(&plan->completeness, &part);
}

/* ---- stacks ---- */

static void merge_set(struct plan *plan, struct stackset **into, struct stackset *part)
{
    uint64_t lost = 0;
    if (*into) {
        stackset_merge(*into, part, &lost);
        stackset_free(part);
    } else {
        *into = part;
    }
    completeness_lose(&plan->completeness, "answer_full", lost);
}

static void merge_reply(struct plan *plan, struct stackset **into, const struct gather *gather, size_t shard)
{
    ProtobufCMessage *message = plan_reply(plan, gather, shard, WIRE_STACKS_REPLY);
    if (!message)
        return;
    const Fleetprof__StacksReply *reply = (const Fleetprof__StacksReply *)message;
    struct stackset *part = NULL;
    if (reply->dictionary && reply->samples &&
        wire_to_stackset(reply->dictionary, reply->samples, &STACKS_LIMITS, &part, NULL) == 0) {
        merge_set(plan, into, part);
        add_completeness(plan, reply->completeness);
    } else {
        plan->alive &= ~plan_bit(shard);
    }
    wire_free(message);
}

int query_stacks(struct query *query, const struct query_selection *selection, struct stackset **ret_set,
                 struct query_completeness *ret_completeness, struct err *err)
{
    struct plan_selection chosen;
    int rc = plan_selection(&chosen, selection, err);
    if (rc < 0)
        return rc;
    struct plan plan;
    plan_init(&plan, query);
    uint64_t deadline_ns = plan_deadline_ns(query->timeout_ms * QUERY_STACKS_TIMES);
    Fleetprof__StacksRequest request = FLEETPROF__STACKS_REQUEST__INIT;
    request.selection = &chosen.message;
    struct gather *gather = plan_send(&plan, &request.base, WIRE_STACKS_REQUEST, deadline_ns);
    struct stackset *set = NULL;
    struct completeness own;
    rc = answer_stacks(query->answers, &chosen.message, deadline_ns, &set, &own, err);
    if (rc == 0)
        completeness_add(&plan.completeness, &own);
    else
        plan.alive &= ~plan_bit(plan.self);
    gather_wait(gather);
    for (size_t i = 0; i < plan.shard_count; i++)
        if (i != plan.self)
            merge_reply(&plan, &set, gather, i);
    gather_free(gather);
    if (rc != -EINVAL)
        rc = plan_check(&plan, err);
    if (rc < 0) {
        stackset_free(set);
        return rc;
    }
    plan_completeness(&plan, chosen.kind, ret_completeness);
    *ret_set = set ? set : stackset_new(&STACKS_LIMITS);
    return 0;
}

/* ---- labels ---- */

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

struct texts {
    char **items;
    size_t count, room;
};

static void add_texts(struct texts *texts, Fleetprof__LabelsReply *reply)
{
    if (texts->count + reply->n_values > texts->room) {
        texts->room = texts->count + reply->n_values;
        texts->items = xrealloc_array(texts->items, texts->room + 1, sizeof(char *));
    }
    for (size_t i = 0; i < reply->n_values; i++)
        texts->items[texts->count++] = xstrdup(reply->values[i]);
}

/* Sorted, each once, at most limit. */
static bool tidy_texts(struct texts *texts, size_t limit)
{
    size_t kept = 0;
    bool cut = false;
    if (texts->count)
        qsort(texts->items, texts->count, sizeof(char *), compare_texts);
    for (size_t i = 0; i < texts->count; i++) {
        bool again = kept > 0 && strcmp(texts->items[kept - 1], texts->items[i]) == 0;
        if (again || kept == limit) {
            cut = cut || !again;
            free(texts->items[i]);
        } else {
            texts->items[kept++] = texts->items[i];
        }
    }
    texts->count = kept;
    return cut;
}

int query_labels(struct query *query, const char *label, const struct query_selection *selection,
                 size_t limit, char ***ret_values, size_t *ret_count, bool *ret_cut,
                 struct query_completeness *ret_completeness, struct err *err)
{
    struct plan_selection chosen;
    int rc = plan_selection(&chosen, selection, err);
    if (rc < 0)
        return rc;
    struct plan plan;
    plan_init(&plan, query);
    uint64_t deadline_ns = plan_deadline_ns(query->timeout_ms);
    Fleetprof__LabelsRequest request = FLEETPROF__LABELS_REQUEST__INIT;
    request.label = (char *)(uintptr_t)(label ? label : "");
    request.selection = &chosen.message;
    request.limit = limit > UINT32_MAX ? UINT32_MAX : (uint32_t)limit;
    struct gather *gather = plan_send(&plan, &request.base, WIRE_LABELS_REQUEST, deadline_ns);
    struct texts texts = {0};
    bool cut = false;
    Fleetprof__LabelsReply *own = NULL;
    rc = answer_labels(query->answers, &request, deadline_ns, &own, err);
    gather_wait(gather);
    for (size_t i = 0; i < plan.shard_count; i++) {
        ProtobufCMessage *message =
            i == plan.self ? (own ? &own->base : NULL) : plan_reply(&plan, gather, i, WIRE_LABELS_REPLY);
        if (!message) {
            plan.alive &= ~plan_bit(i);
            continue;
        }
        Fleetprof__LabelsReply *reply = (Fleetprof__LabelsReply *)message;
        add_texts(&texts, reply);
        cut = cut || reply->cut;
        wire_free(message);
    }
    gather_free(gather);
    cut = tidy_texts(&texts, limit) || cut;
    if (rc != -EINVAL)
        rc = plan_check(&plan, err);
    if (rc < 0) {
        query_labels_free(texts.items, texts.count);
        return rc;
    }
    plan_completeness(&plan, PROFILE_KIND_NONE, ret_completeness);
    *ret_values = texts.items;
    *ret_count = texts.count;
    *ret_cut = cut;
    return 0;
}

void query_labels_free(char **values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(values[i]);
    free(values);
}

/* ---- agents ---- */

static struct query_counter *copy_counters(Fleetprof__Counter *const *counters, size_t count)
{
    struct query_counter *out = xcalloc(count + 1, sizeof(*out));
    for (size_t i = 0; i < count; i++)
        out[i] = (struct query_counter){.name = xstrdup(counters[i]->name), .value = counters[i]->value};
    return out;
}

static struct query_agent copy_agent(const Fleetprof__AgentState *state, const char *shard)
{
    return (struct query_agent){
        .node = xstrdup(state->node),
        .version = xstrdup(state->version),
        .kernel = xstrdup(state->kernel),
        .event = xstrdup(state->event),
        .shard = xstrdup(shard),
        .hz = state->hz,
        .cpus = state->cpus,
        .last_seen_ms = state->last_seen_ms,
        .clock_skew_ms = state->clock_skew_ms,
        .samples = state->samples,
        .taken = state->taken,
        .duplicates = state->duplicates,
        .lost = copy_counters(state->lost, state->n_lost),
        .lost_count = state->n_lost,
        .gauges = copy_counters(state->gauges, state->n_gauges),
        .gauge_count = state->n_gauges,
    };
}

static int compare_agents(const void *left, const void *right)
{
    const struct query_agent *a = left, *b = right;
    int order = strcmp(a->node, b->node);
    return order ? order : strcmp(a->shard, b->shard);
}

int query_agents(struct query *query, struct query_agent **ret_agents, size_t *ret_count,
                 struct query_completeness *ret_completeness, struct err *err)
{
    struct plan plan;
    plan_init(&plan, query);
    uint64_t deadline_ns = plan_deadline_ns(query->timeout_ms);
    Fleetprof__AgentsRequest request = FLEETPROF__AGENTS_REQUEST__INIT;
    struct gather *gather = plan_send(&plan, &request.base, WIRE_AGENTS_REQUEST, deadline_ns);
    Fleetprof__AgentsReply *own = NULL;
    struct query_agent *agents = NULL;
    size_t count = 0;
    answer_agents(query->answers, deadline_ns, &own, err);
    gather_wait(gather);
    for (size_t i = 0; i < plan.shard_count; i++) {
        ProtobufCMessage *message =
            i == plan.self ? (own ? &own->base : NULL) : plan_reply(&plan, gather, i, WIRE_AGENTS_REPLY);
        if (!message) {
            plan.alive &= ~plan_bit(i);
            continue;
        }
        const Fleetprof__AgentsReply *reply = (const Fleetprof__AgentsReply *)message;
        agents = xrealloc_array(agents, count + reply->n_agents + 1, sizeof(*agents));
        for (size_t k = 0; k < reply->n_agents; k++)
            agents[count++] = copy_agent(reply->agents[k], peers_address(query->peers, i));
        wire_free(message);
    }
    gather_free(gather);
    int rc = plan_check(&plan, err);
    if (rc < 0) {
        query_agents_free(agents, count);
        return rc;
    }
    if (count)
        qsort(agents, count, sizeof(*agents), compare_agents);
    plan_completeness(&plan, PROFILE_KIND_NONE, ret_completeness);
    *ret_agents = agents;
    *ret_count = count;
    return 0;
}

void query_agents_free(struct query_agent *agents, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct query_agent *agent = &agents[i];
        free(agent->node);
        free(agent->version);
        free(agent->kernel);
        free(agent->event);
        free(agent->shard);
        for (size_t k = 0; k < agent->lost_count; k++)
            free(agent->lost[k].name);
        for (size_t k = 0; k < agent->gauge_count; k++)
            free(agent->gauges[k].name);
        free(agent->lost);
        free(agent->gauges);
    }
    free(agents);
}
