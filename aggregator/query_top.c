/* query_top: the exact top-N over all shards. Three phases (TPUT): 1. every shard's first N; the N-th best
 * partial sum is a lower bound of the N-th place. 2. every row of at least a share T of that bound: a row
 * that no shard names then is below it everywhere. 3. the exact sums of what can still be among the first
 * N. A shard that falls silent in between is taken out, with all it said, and phase 2 begins again with
 * those that are left. */
#include "aggregator/query_plan.h"

#include "aggregator/interval.h"
#include "aggregator/profile_kind.h"
#include "aggregator/top.h"
#include "common/clock.h"
#include "common/xalloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PHASES               3
#define FIRST_PHASE_PER_CENT 60 /* of the time for the whole question */

struct top_plan {
    struct plan plan;
    Fleetprof__TopRequest request;
    struct plan_selection selection;
    size_t limit, key_values;
    uint64_t deadline_ns;
    uint64_t at_least; /* of phase 2 */
    Fleetprof__TopReply *replies[PEERS_MAX][PHASES];
};

static void drop_shard(struct top_plan *top, size_t shard)
{
    top->plan.alive &= ~plan_bit(shard);
    for (int phase = 0; phase < PHASES; phase++) {
        if (top->replies[shard][phase])
            wire_free(&top->replies[shard][phase]->base);
        top->replies[shard][phase] = NULL;
    }
}

static bool is_alive(const struct top_plan *top, size_t shard)
{
    return top->plan.alive & plan_bit(shard);
}

/* Everything a shard has, so nothing more is to be asked. */
static bool has_said_all(const struct top_plan *top, size_t shard)
{
    const Fleetprof__TopReply *first = top->replies[shard][0], *second = top->replies[shard][1];
    return (first && first->all) || (second && second->all);
}

static bool is_sound(const struct top_plan *top, const Fleetprof__TopReply *reply)
{
    for (size_t i = 0; i < reply->n_rows; i++)
        if (!top_key_sound(reply->rows[i]->key.data, reply->rows[i]->key.len, top->key_values))
            return false;
    return true;
}

/* One phase: all shards in mask are asked, and their replies put in place. Shards that fail are dropped. */
static void ask_phase(struct top_plan *top, uint64_t mask, uint64_t deadline_ns, struct err *err)
{
    unsigned phase = top->request.phase;
    struct plan plan = top->plan;
    plan.alive &= mask;
    struct gather *gather = plan_send(&plan, &top->request.base, WIRE_TOP_REQUEST, deadline_ns);
    size_t self = top->plan.self;
    if (mask & plan_bit(self) && is_alive(top, self)) {
        Fleetprof__TopReply *own = NULL;
        if (answer_top(top->plan.query->answers, &top->request, deadline_ns, &own, err) == 0)
            top->replies[self][phase - 1] = own;
        else
            drop_shard(top, self);
    }
    gather_wait(gather);
    for (size_t i = 0; i < top->plan.shard_count; i++) {
        if (i == self || !(mask & plan_bit(i)) || !is_alive(top, i))
            continue;
        ProtobufCMessage *message = plan_reply(&top->plan, gather, i, WIRE_TOP_REPLY);
        top->replies[i][phase - 1] = (Fleetprof__TopReply *)message;
        if (!message || !is_sound(top, top->replies[i][phase - 1]))
            drop_shard(top, i);
    }
    gather_free(gather);
}

/* ---- sums ---- */

/* What the living shards have said so far, each share once. */
static void add_up(const struct top_plan *top, struct top_table *table)
{
    *table = (struct top_table){0};
    for (size_t i = 0; i < top->plan.shard_count; i++) {
        for (int phase = 0; is_alive(top, i) && phase < PHASES; phase++) {
            const Fleetprof__TopReply *reply = top->replies[i][phase];
            for (size_t k = 0; reply && k < reply->n_rows; k++) {
                const Fleetprof__TopRow *in = reply->rows[k];
                struct top_row *row = top_table_add(table, in->key.data, in->key.len, 0, 0);
                if (!row || row->known & plan_bit(i))
                    continue;
                row->known |= plan_bit(i);
                if (__builtin_add_overflow(row->value, in->value, &row->value))
                    row->value = UINT64_MAX;
                if (__builtin_add_overflow(row->count, in->count, &row->count))
                    row->count = UINT64_MAX;
            }
        }
    }
}

static int descending(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a < b) - (a > b);
}

/* The limit-th largest sum, 0 when there are fewer rows. */
static uint64_t bound_of(const struct top_plan *top, const struct top_table *table)
{
    if (table->row_count < top->limit)
        return 0;
    uint64_t *values = xcalloc(table->row_count, sizeof(*values));
    for (uint32_t i = 0; i < table->row_count; i++)
        values[i] = table->rows[i].value;
    qsort(values, table->row_count, sizeof(*values), descending);
    uint64_t bound = values[top->limit - 1];
    free(values);
    return bound;
}

static uint64_t living(const struct top_plan *top)
{
    return (uint64_t)__builtin_popcountll(top->plan.alive);
}

static uint64_t not_all_said(const struct top_plan *top)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < top->plan.shard_count; i++)
        if (is_alive(top, i) && !has_said_all(top, i))
            mask |= plan_bit(i);
    return mask;
}

/* ---- phases ---- */

/* Half of the time that is left: a shard that falls silent in one phase leaves the others time for the next.
 */
static uint64_t half_way_ns(const struct top_plan *top)
{
    uint64_t now_ns = clock_mono_ns();
    return top->deadline_ns > now_ns ? now_ns + (top->deadline_ns - now_ns) / 2 : top->deadline_ns;
}

static void forget_phases(struct top_plan *top, int from)
{
    for (size_t i = 0; i < top->plan.shard_count; i++) {
        for (int phase = from; phase < PHASES; phase++) {
            if (top->replies[i][phase])
                wire_free(&top->replies[i][phase]->base);
            top->replies[i][phase] = NULL;
        }
    }
}

static void second_phase(struct top_plan *top, struct err *err)
{
    struct top_table table;
    add_up(top, &table);
    uint64_t bound = bound_of(top, &table), shards = living(top);
    top_table_fini(&table);
    top->at_least = bound / shards + (bound % shards != 0);
    top->request.phase = 2;
    top->request.at_least = top->at_least;
    ask_phase(top, not_all_said(top), half_way_ns(top), err);
}

/* The most that a row can be worth: what is known, and less than at_least from each shard that did not name
 * it. */
static uint64_t upper_bound(const struct top_plan *top, const struct top_row *row, uint64_t open)
{
    uint64_t unknown = (uint64_t)__builtin_popcountll(open & ~row->known), upper;
    uint64_t most = top->at_least ? top->at_least - 1 : 0;
    return __builtin_mul_overflow(unknown, most, &upper) || __builtin_add_overflow(upper, row->value, &upper)
               ? UINT64_MAX
               : upper;
}

static void third_phase(struct top_plan *top, struct err *err)
{
    uint64_t open = not_all_said(top);
    if (!open || top->at_least == 0)
        return;
    struct top_table table;
    add_up(top, &table);
    uint64_t bound = bound_of(top, &table);
    ProtobufCBinaryData *keys = xcalloc(table.row_count + 1, sizeof(*keys));
    size_t count = 0;
    for (uint32_t i = 0; i < table.row_count; i++) {
        const struct top_row *row = &table.rows[i];
        if ((open & ~row->known) && upper_bound(top, row, open) >= bound)
            keys[count++] = (ProtobufCBinaryData){.len = row->key_bytes,
                                                  .data = (uint8_t *)(uintptr_t)top_row_key(&table, row)};
    }
    if (count) {
        top->request.phase = 3;
        top->request.n_keys = count;
        top->request.keys = keys;
        ask_phase(top, open, half_way_ns(top), err);
        top->request.n_keys = 0;
        top->request.keys = NULL;
    }
    free(keys);
    top_table_fini(&table);
}

static void ask_all(struct top_plan *top, uint64_t timeout_ms, struct err *err)
{
    uint64_t start_ns = clock_mono_ns();
    top->deadline_ns = start_ns + timeout_ms * CLOCK_NS_PER_MS;
    top->request.phase = 1;
    top->request.first = (uint32_t)top->limit;
    ask_phase(top, top->plan.alive, start_ns + timeout_ms * CLOCK_NS_PER_MS / 100 * FIRST_PHASE_PER_CENT,
              err);
    /* One shard's first rows are the answer. */
    while (living(top) > 1 && not_all_said(top)) {
        uint64_t alive = top->plan.alive;
        forget_phases(top, 1);
        second_phase(top, err);
        if (top->plan.alive == alive)
            third_phase(top, err);
        if (top->plan.alive == alive)
            break;
    }
}

/* ---- the answer ---- */

static void fill_row(struct query_top *out, struct query_top_row *row, const struct top_table *table,
                     const struct top_row *from, const Fleetprof__TopRequest *request)
{
    const uint8_t *key = top_row_key(table, from);
    size_t at = 0, bytes;
    for (size_t g = 0; g < request->n_group; g++) {
        const uint8_t *text = top_key_next(key, &at, &bytes);
        row->keys[g] = xmemdup_text(text, bytes);
        if (strcmp(request->group[g], "function") == 0) {
            text = top_key_next(key, &at, &bytes);
            free((char *)(uintptr_t)row->module); /* only when "function" is asked for twice */
            row->module = xmemdup_text(text, bytes);
        }
    }
    row->value = from->value;
    row->count = from->count;
    interval_scale(row->value, row->count, &row->low, &row->high);
    row->share = out->total_value ? (double)row->value / (double)out->total_value : 0;
    interval_wilson(row->count, out->total_count, &row->share_low, &row->share_high);
}

static struct query_top *build(struct top_plan *top)
{
    for (size_t i = 0; i < top->plan.shard_count; i++) {
        struct completeness part;
        if (!is_alive(top, i) || !top->replies[i][0])
            continue;
        completeness_from_wire(&part, top->replies[i][0]->completeness);
        completeness_add(&top->plan.completeness, &part);
    }
    struct query_top *out = xcalloc(1, sizeof(*out));
    plan_completeness(&top->plan, top->selection.kind, &out->completeness);
    out->total_value = out->completeness.value;
    out->total_count = out->completeness.samples;
    snprintf(out->unit, sizeof(out->unit), "%s", profile_kind(top->selection.kind)->unit);
    struct top_table table;
    add_up(top, &table);
    /* Sums that are still incomplete are below the bound of phase 3, and limit rows are not: they cannot come
     * first. */
    top_table_sort(&table);
    out->row_count = table.row_count < top->limit ? table.row_count : top->limit;
    out->rows = xcalloc(out->row_count + 1, sizeof(*out->rows));
    for (size_t i = 0; i < out->row_count; i++)
        fill_row(out, &out->rows[i], &table, &table.rows[i], &top->request);
    top_table_fini(&table);
    return out;
}

static int check(const char *const *groups, size_t group_count, size_t limit, struct err *err)
{
    if (group_count == 0 || group_count > QUERY_MAX_GROUPS)
        return err_say(err, -EINVAL, "group by 1 to %u names", QUERY_MAX_GROUPS);
    for (size_t g = 0; g < group_count; g++)
        if (groups[g][0] == '\0' || strlen(groups[g]) >= TOP_GROUP_BYTES)
            return err_say(err, -EINVAL, "a group's name has 1 to %u bytes", TOP_GROUP_BYTES - 1);
    if (limit == 0 || limit > QUERY_MAX_ROWS)
        return err_say(err, -EINVAL, "limit is 1 to %u rows", QUERY_MAX_ROWS);
    return 0;
}

int query_top(struct query *query, const struct query_selection *selection, const char *const *groups,
              size_t group_count, bool cumulative, size_t limit, struct query_top **ret_top, struct err *err)
{
    int rc = check(groups, group_count, limit, err);
    if (rc < 0)
        return rc;
    struct top_plan *top = xcalloc(1, sizeof(*top));
    char *names[QUERY_MAX_GROUPS];
    rc = plan_selection(&top->selection, selection, err);
    if (rc < 0)
        goto out;
    plan_init(&top->plan, query);
    fleetprof__top_request__init(&top->request);
    top->request.query =
        atomic_fetch_add(&query->next_number, 0x9e3779b97f4a7c15ULL); /* never the same again */
    top->request.selection = &top->selection.message;
    top->request.cumulative = cumulative;
    top->key_values = group_count;
    for (size_t g = 0; g < group_count; g++) {
        names[g] = (char *)(uintptr_t)groups[g];
        top->key_values += strcmp(groups[g], "function") == 0;
    }
    top->request.group = names;
    top->request.n_group = group_count;
    top->limit = limit;
    ask_all(top, query->timeout_ms, err);
    rc = plan_check(&top->plan, err);
    if (rc == 0)
        *ret_top = build(top);
    for (size_t i = 0; i < top->plan.shard_count; i++)
        drop_shard(top, i);
out:
    free(top);
    return rc;
}

void query_top_free(struct query_top *top)
{
    if (!top)
        return;
    for (size_t i = 0; i < top->row_count; i++) {
        for (size_t g = 0; g < QUERY_MAX_GROUPS; g++)
            free((char *)(uintptr_t)top->rows[i].keys[g]);
        free((char *)(uintptr_t)top->rows[i].module);
    }
    free(top->rows);
    query_completeness_fini(&top->completeness);
    free(top);
}
