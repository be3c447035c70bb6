#include "aggregator/partition.h"

#include "common/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORGET_EVERY_MS  10000u
#define COMPACT_AGAIN_MS 10000u
#define COMPACT_IN_VAIN_MS                                                                                   \
    120000u /* after one that freed little: sessions must not be thrown away all the time */

/* Of the books: what is gone from memory can still be named as missing. */
#define KEEP_RETENTIONS 2u

/* A bucket has one entry, or few where there are gaps; and there is what a shard's life before had. */
static uint32_t ledger_windows(uint64_t retention_ms)
{
    uint64_t buckets = KEEP_RETENTIONS * retention_ms / WINDOW_BUCKET_MS;
    return buckets < UINT32_MAX / 4 ? ROSTER_LEDGER + (uint32_t)buckets : UINT32_MAX / 4;
}

static void on_drop(uint64_t bucket_start_ms, enum window_drop why, void *ctx)
{
    struct partition *partition = ctx;
    uint32_t cause = why == WINDOW_DROP_BYTES ? ROSTER_WINDOW_BYTES : ROSTER_EXPIRED;
    uint64_t samples = roster_drop_bucket(&partition->roster, bucket_start_ms, WINDOW_BUCKET_MS, cause);
    metric_add(why == WINDOW_DROP_BYTES ? partition->metrics.window_bytes_samples
                                        : partition->metrics.expired_samples,
               samples);
}

static void open_counters(struct partition_metrics *metrics)
{
    const char *batches = "fleetprof_shard_batches_total", *dropped = "fleetprof_shard_dropped_samples_total";
    metrics->batches = metrics_counter(batches, "Batches by verdict", "verdict", "stored");
    metrics->duplicates = metrics_counter(batches, NULL, "verdict", "duplicate");
    metrics->refused = metrics_counter(batches, NULL, "verdict", "refused");
    metrics->no_session = metrics_counter(batches, NULL, "verdict", "no_session");
    metrics->rows = metrics_counter("fleetprof_shard_rows_total", "Rows (series, stack) stored", NULL, NULL);
    metrics->samples = metrics_counter("fleetprof_shard_samples_total", "Samples stored", NULL, NULL);
    metrics->skewed = metrics_counter("fleetprof_shard_skewed_batches_total",
                                      "Batches of agents whose clock is wrong", NULL, NULL);
    metrics->dictionary_full =
        metrics_counter("fleetprof_shard_dictionary_full_total",
                        "Definitions that found no room and became a remainder", NULL, NULL);
    metrics->compactions =
        metrics_counter("fleetprof_shard_compactions_total", "Dictionary compactions", NULL, NULL);
    metrics->expired_samples =
        metrics_counter(dropped, "Samples dropped from memory by cause", "cause", "expired");
    metrics->window_bytes_samples = metrics_counter(dropped, NULL, "cause", "window_bytes");
    metrics->rivals =
        metrics_counter("fleetprof_shard_rival_agents_total",
                        "Hellos refused because an older agent of that node name is alive", NULL, NULL);
    metrics->ended_sessions =
        metrics_counter("fleetprof_shard_ended_sessions_total",
                        "Agent sessions ended because all together took too much memory", NULL, NULL);
    metrics->ledger_mismatch = metrics_counter("fleetprof_shard_ledger_mismatch_total",
                                               "Batches where taken is not stored plus lost", NULL, NULL);
}

static void open_gauges(struct partition_metrics *metrics, uint32_t index)
{
    char worker[16];
    snprintf(worker, sizeof(worker), "%u", index);
    metrics->window_bytes =
        metrics_gauge("fleetprof_shard_window_bytes", "Memory of the windows, by worker", "worker", worker);
    metrics->window_rows =
        metrics_gauge("fleetprof_shard_window_rows", "Rows in memory, by worker", "worker", worker);
    metrics->dictionary_bytes = metrics_gauge("fleetprof_shard_dictionary_bytes",
                                              "Memory of the dictionary, by worker", "worker", worker);
    metrics->stacks = metrics_gauge("fleetprof_shard_stacks", "Call-tree nodes in the dictionary, by worker",
                                    "worker", worker);
    metrics->series =
        metrics_gauge("fleetprof_shard_series", "Label sets in the dictionary, by worker", "worker", worker);
    metrics->nodes = metrics_gauge("fleetprof_shard_nodes", "Nodes known, by worker", "worker", worker);
    metrics->sessions =
        metrics_gauge("fleetprof_shard_sessions", "Open agent sessions, by worker", "worker", worker);
    metrics->session_bytes = metrics_gauge("fleetprof_shard_session_bytes",
                                           "Memory of open agent sessions, by worker", "worker", worker);
}

struct partition *partition_new(const struct partition_settings *settings, struct symbol_packs *packs)
{
    struct partition *partition = xcalloc(1, sizeof(*partition));
    partition->settings = *settings;
    partition->packs = packs;
    dictionary_init(&partition->dictionary, &settings->dictionary);
    windows_init(&partition->windows, settings->window_bytes, settings->retention_ms, on_drop, partition);
    roster_init(&partition->roster, settings->nodes);
    roster_keep(&partition->roster, ledger_windows(settings->retention_ms));
    open_counters(&partition->metrics);
    open_gauges(&partition->metrics, settings->index);
    return partition;
}

void partition_free(struct partition *partition)
{
    if (!partition)
        return;
    for (uint32_t i = 0; i < partition->roster.count; i++)
        partition_drop_session(partition, i);
    table_fini(&partition->sessions);
    windows_fini(&partition->windows);
    roster_fini(&partition->roster);
    dictionary_fini(&partition->dictionary);
    free(partition);
}

static void set_gauges(const struct partition *partition)
{
    const struct partition_metrics *metrics = &partition->metrics;
    metric_set(metrics->window_bytes, partition->windows.used_bytes);
    metric_set(metrics->window_rows, partition->windows.row_count);
    metric_set(metrics->dictionary_bytes, dictionary_memory_bytes(&partition->dictionary));
    metric_set(metrics->stacks, partition->dictionary.node_count);
    metric_set(metrics->series, partition->dictionary.series_count);
    metric_set(metrics->nodes, partition->roster.count);
    metric_set(metrics->sessions, partition->session_count);
    metric_set(metrics->session_bytes, partition->session_bytes);
}

static void drop_silent_nodes(struct partition *partition, uint64_t now_ms)
{
    struct roster *roster = &partition->roster;
    for (uint32_t i = 0; i < roster->count;) {
        const struct roster_node *node = roster->nodes[i];
        bool silent = now_ms >= node->last_seen_ms + PARTITION_SESSION_MS;
        if (silent)
            partition_drop_session(partition, i);
        if (now_ms < node->last_seen_ms + PARTITION_NODE_MS || node->ledger_count > 0) {
            i++;
            continue;
        }
        uint32_t moved = roster_remove(roster, i);
        struct session *session = moved == ROSTER_NONE ? NULL : roster->nodes[i]->session;
        if (session) {
            table_remove(&partition->sessions, session->id, moved);
            table_insert(&partition->sessions, session->id, i);
            session->node = i;
        }
    }
}

void partition_tend(struct partition *partition, uint64_t now_ms)
{
    windows_trim(&partition->windows, now_ms);
    set_gauges(partition);
    if (now_ms < partition->forgotten_ms + FORGET_EVERY_MS)
        return;
    partition->forgotten_ms = now_ms;
    uint64_t keep_ms = KEEP_RETENTIONS * partition->settings.retention_ms;
    roster_forget(&partition->roster, now_ms > keep_ms ? now_ms - keep_ms : 0);
    drop_silent_nodes(partition, now_ms);
}

/* ---- sessions ---- */

struct session *partition_session(struct partition *partition, uint64_t id)
{
    for (struct table_probe p = table_probe(&partition->sessions, id); table_next(&partition->sessions, &p);)
        return partition->roster.nodes[p.value]->session;
    return NULL;
}

void partition_drop_session(struct partition *partition, uint32_t node)
{
    struct session *session = partition->roster.nodes[node]->session;
    if (!session)
        return;
    table_remove(&partition->sessions, session->id, node);
    partition->session_bytes -= session->counted_bytes;
    session_free(session);
    partition->roster.nodes[node]->session = NULL;
    partition->session_count--;
}

static void count_bytes(struct partition *partition, struct session *session)
{
    partition->session_bytes -= session->counted_bytes;
    session->counted_bytes = session_memory_bytes(session);
    partition->session_bytes += session->counted_bytes;
}

void partition_put_session(struct partition *partition, struct session *session)
{
    partition_drop_session(partition, session->node);
    partition->roster.nodes[session->node]->session = session;
    table_insert(&partition->sessions, session->id, session->node);
    partition->session_count++;
    count_bytes(partition, session);
}

static uint32_t largest_session(const struct roster *roster)
{
    uint32_t largest = ROSTER_NONE;
    for (uint32_t i = 0; i < roster->count; i++)
        if (roster->nodes[i]->session &&
            (largest == ROSTER_NONE ||
             roster->nodes[i]->session->counted_bytes > roster->nodes[largest]->session->counted_bytes))
            largest = i;
    return largest;
}

void partition_limit_sessions(struct partition *partition, struct session *grown)
{
    count_bytes(partition, grown);
    uint64_t limit_bytes = partition->settings.session_bytes;
    if (partition->session_bytes <= limit_bytes)
        return;
    /* A little more than needed, so that the next batch does not have to look again. */
    while (partition->session_bytes > limit_bytes - limit_bytes / 16) {
        uint32_t largest = largest_session(&partition->roster);
        if (largest == ROSTER_NONE)
            return;
        partition_drop_session(partition, largest);
        metric_add(partition->metrics.ended_sessions, 1);
    }
}

/* ---- compaction ---- */

static void mark_live(const struct partition *partition, uint8_t *nodes, uint8_t *series)
{
    for (uint32_t i = 0; i < partition->windows.bucket_count; i++) {
        struct window_segment segment;
        for (struct window_cursor c = window_cursor(partition->windows.buckets[i]);
             window_next(&c, &segment);) {
            series[segment.series] = 1;
            for (uint32_t row = 0; row < segment.row_count; row++)
                nodes[segment.node[row]] = 1;
        }
    }
}

static void renumber(struct partition *partition, const uint32_t *nodes, const uint32_t *series)
{
    for (uint32_t i = 0; i < partition->windows.bucket_count; i++) {
        struct window_segment segment;
        for (struct window_cursor c = window_cursor(partition->windows.buckets[i]);
             window_next(&c, &segment);) {
            segment.node[-2] = series[segment.series]; /* the segment's head lies before its first column */
            for (uint32_t row = 0; row < segment.row_count; row++)
                segment.node[row] = nodes[segment.node[row]];
        }
    }
}

void partition_compact(struct partition *partition, uint64_t now_ms)
{
    struct dictionary *dictionary = &partition->dictionary;
    uint32_t node_count = dictionary->node_count, string_count = dictionary->string_count;
    uint8_t *live_nodes = xcalloc(dictionary->node_count, 1);
    uint8_t *live_series = xcalloc(dictionary->series_count + 1, 1);
    uint32_t *nodes = xcalloc(dictionary->node_count, sizeof(*nodes));
    uint32_t *series = xcalloc(dictionary->series_count + 1, sizeof(*series));
    for (uint32_t i = 0; i < partition->roster.count; i++)
        partition_drop_session(partition, i);
    mark_live(partition, live_nodes, live_series);
    dictionary_compact(dictionary, live_nodes, live_series, nodes, series);
    renumber(partition, nodes, series);
    free(live_nodes);
    free(live_series);
    free(nodes);
    free(series);
    metric_add(partition->metrics.compactions, 1);
    bool worth =
        dictionary->node_count < node_count / 4 * 3 || dictionary->string_count < string_count / 4 * 3;
    partition->compact_after_ms = now_ms + (worth ? COMPACT_AGAIN_MS : COMPACT_IN_VAIN_MS);
}
