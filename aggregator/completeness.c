#include "aggregator/completeness.h"

#include "common/xalloc.h"

#include <stdlib.h>
#include <string.h>

static uint64_t add_capped(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

void completeness_lose(struct completeness *into, const char *cause, uint64_t samples)
{
    if (samples == 0)
        return;
    uint32_t at = 0;
    while (at < into->loss_count && strcmp(into->losses[at].cause, cause) != 0)
        at++;
    if (at == ROSTER_CAUSES)
        at--; /* more causes than there is room for: counted under the last one */
    if (at == into->loss_count) {
        size_t bytes = strnlen(cause, ROSTER_CAUSE_BYTES - 1);
        memcpy(into->losses[at].cause, cause, bytes);
        into->losses[at].cause[bytes] = '\0';
        into->losses[at].samples = 0;
        into->loss_count++;
    }
    into->losses[at].samples = add_capped(into->losses[at].samples, samples);
}

void completeness_leaf(struct completeness *into, const struct dictionary *dictionary, uint32_t function,
                       uint64_t samples, uint64_t value)
{
    if (function == DICTIONARY_UNRANKED) {
        into->unranked = add_capped(into->unranked, samples);
        into->unranked_value = add_capped(into->unranked_value, value);
    } else if (dictionary->functions[function].unnamed) {
        into->unnamed = add_capped(into->unnamed, samples);
    }
}

static uint64_t overlap_ms(uint64_t a_from, uint64_t a_to, uint64_t b_from, uint64_t b_to)
{
    uint64_t from = a_from > b_from ? a_from : b_from, to = a_to < b_to ? a_to : b_to;
    return to > from ? to - from : 0;
}

static void add_node(struct completeness *into, const struct partition *partition,
                     const struct roster_node *node, const struct selection *selection)
{
    uint64_t first_ms = UINT64_MAX, last_ms = 0, covered_ms = 0;
    uint64_t lost[ROSTER_CAUSES] = {0};
    /* As for the rows: a window counts when its bucket is in the range. */
    uint64_t from_ms = window_bucket_start_ms(selection->from_ms);
    bool any = false;
    for (uint32_t i = 0; i < node->ledger_count; i++) {
        const struct roster_window *window = &node->ledger[i];
        uint64_t end_ms = window->start_ms + window->window_ms;
        if (window->start_ms < selection->to_ms && end_ms > selection->from_ms) {
            first_ms = window->start_ms < first_ms ? window->start_ms : first_ms;
            last_ms = end_ms > last_ms ? end_ms : last_ms;
            if (window->cause == ROSTER_STORED)
                covered_ms += overlap_ms(window->start_ms, end_ms, selection->from_ms, selection->to_ms);
        }
        uint64_t bucket_ms = window_bucket_start_ms(window->start_ms);
        if (bucket_ms < from_ms || bucket_ms >= selection->to_ms)
            continue;
        any = true;
        lost[window->cause] = add_capped(lost[window->cause], window->samples);
    }
    for (uint32_t i = 0; i < node->loss_count; i++) {
        uint64_t bucket_ms = window_bucket_start_ms(node->losses[i].start_ms);
        if (bucket_ms >= from_ms && bucket_ms < selection->to_ms)
            lost[node->losses[i].cause] = add_capped(lost[node->losses[i].cause], node->losses[i].count);
    }
    for (uint32_t cause = ROSTER_STORED + 1; cause < partition->roster.cause_count; cause++)
        completeness_lose(into, partition->roster.causes[cause], lost[cause]);
    uint64_t expected_ms =
        last_ms > first_ms ? overlap_ms(first_ms, last_ms, selection->from_ms, selection->to_ms) : 0;
    into->nodes += any;
    into->node_samples = add_capped(into->node_samples, lost[ROSTER_STORED]);
    into->expected_ms += expected_ms;
    into->covered_ms += covered_ms < expected_ms ? covered_ms : expected_ms;
    into->skewed |= node->skewed;
}

void completeness_of_partition(struct completeness *into, const struct partition *partition,
                               const struct selection *selection)
{
    for (uint32_t i = 0; i < partition->roster.count; i++)
        if (selection_has_node(selection, partition->roster.nodes[i]->name))
            add_node(into, partition, partition->roster.nodes[i], selection);
}

void completeness_add(struct completeness *into, const struct completeness *from)
{
    into->samples = add_capped(into->samples, from->samples);
    into->value = add_capped(into->value, from->value);
    into->truncated = add_capped(into->truncated, from->truncated);
    into->unnamed = add_capped(into->unnamed, from->unnamed);
    into->unranked = add_capped(into->unranked, from->unranked);
    into->unranked_value = add_capped(into->unranked_value, from->unranked_value);
    into->nodes = add_capped(into->nodes, from->nodes);
    into->node_samples = add_capped(into->node_samples, from->node_samples);
    into->covered_ms = add_capped(into->covered_ms, from->covered_ms);
    into->expected_ms = add_capped(into->expected_ms, from->expected_ms);
    into->skewed |= from->skewed;
    for (uint32_t i = 0; i < from->loss_count; i++)
        completeness_lose(into, from->losses[i].cause, from->losses[i].samples);
}

bool completeness_forgot(const struct completeness *completeness)
{
    static const char *const CAUSES[] = {"shard_restart", "window_bytes", "expired", "answer_full"};
    for (uint32_t i = 0; i < completeness->loss_count; i++)
        for (size_t k = 0; k < sizeof(CAUSES) / sizeof(CAUSES[0]); k++)
            if (strcmp(completeness->losses[i].cause, CAUSES[k]) == 0)
                return true;
    return false;
}

/* ---- wire ---- */

Fleetprof__Completeness *completeness_to_wire(const struct completeness *completeness, const char *shard)
{
    Fleetprof__Completeness *message = xmalloc(sizeof(*message));
    fleetprof__completeness__init(message);
    message->samples = completeness->samples;
    message->value = completeness->value;
    message->truncated = completeness->truncated;
    message->unnamed = completeness->unnamed;
    message->unranked = completeness->unranked;
    message->unranked_value = completeness->unranked_value;
    message->nodes = completeness->nodes;
    message->node_samples = completeness->node_samples;
    message->covered_ms = completeness->covered_ms;
    message->expected_ms = completeness->expected_ms;
    message->skewed = completeness->skewed;
    message->shard = xstrdup(shard);
    message->lost = xcalloc(completeness->loss_count + 1, sizeof(Fleetprof__Counter *));
    for (uint32_t i = 0; i < completeness->loss_count; i++) {
        Fleetprof__Counter *counter = xmalloc(sizeof(*counter));
        fleetprof__counter__init(counter);
        counter->name = xstrdup(completeness->losses[i].cause);
        counter->value = completeness->losses[i].samples;
        message->lost[message->n_lost++] = counter;
    }
    return message;
}

void completeness_from_wire(struct completeness *into, const Fleetprof__Completeness *message)
{
    *into = (struct completeness){0};
    if (!message)
        return;
    into->samples = message->samples;
    into->value = message->value;
    into->truncated = message->truncated;
    into->unnamed = message->unnamed;
    into->unranked = message->unranked;
    into->unranked_value = message->unranked_value;
    into->nodes = message->nodes;
    into->node_samples = message->node_samples;
    into->covered_ms = message->covered_ms;
    into->expected_ms = message->expected_ms;
    into->skewed = message->skewed;
    for (size_t i = 0; i < message->n_lost; i++)
        completeness_lose(into, message->lost[i]->name, message->lost[i]->value);
}
