#include "aggregator/ingest.h"

#include "aggregator/profile_kind.h"
#include "common/log.h"
#include "common/xalloc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* reason's text must live until the reply is packed. */
static void reply_hello(const struct partition *partition, Fleetprof__Verdict verdict, const char *reason,
                        uint64_t last_sequence, struct buf *reply)
{
    Fleetprof__HelloReply message = FLEETPROF__HELLO_REPLY__INIT;
    message.verdict = verdict;
    message.reason = (char *)(uintptr_t)reason; /* protobuf-c has no const; packing only reads */
    message.last_sequence = last_sequence;
    if (partition) {
        message.shard_epoch = partition->settings.shard_epoch;
        message.shard = (char *)(uintptr_t)partition->settings.shard;
    }
    wire_pack(&message.base, WIRE_HELLO_REPLY, 0, reply, NULL);
}

static void reply_ack(Fleetprof__Verdict verdict, const char *reason, uint64_t sequence,
                      uint32_t retry_after_ms, struct buf *reply)
{
    Fleetprof__Ack message = FLEETPROF__ACK__INIT;
    message.verdict = verdict;
    message.reason = (char *)(uintptr_t)reason;
    message.sequence = sequence;
    message.retry_after_ms = retry_after_ms;
    wire_pack(&message.base, WIRE_ACK, 0, reply, NULL);
}

void ingest_put_off(enum wire_type type, uint32_t retry_after_ms, const char *reason, struct buf *reply)
{
    if (type == WIRE_HELLO)
        reply_hello(NULL, FLEETPROF__VERDICT__RETRY, reason, 0, reply);
    else
        reply_ack(FLEETPROF__VERDICT__RETRY, reason, 0, retry_after_ms, reply);
}

/* ---- hello ---- */

static void copy_text(char *out, size_t out_bytes, const char *text)
{
    snprintf(out, out_bytes, "%s", text);
}

/* Windows that another shard life acknowledged and that would still be in memory if it lived. */
static void note_lost_windows(struct partition *partition, struct roster_node *node,
                              const Fleetprof__Hello *hello, uint64_t now_ms)
{
    if (hello->n_acked_window_samples != hello->n_acked_window_start_ms ||
        hello->n_acked_shard_epoch != hello->n_acked_window_start_ms)
        return;
    for (size_t i = 0; i < hello->n_acked_window_start_ms && i < ROSTER_LEDGER; i++) {
        uint64_t start_ms = hello->acked_window_start_ms[i];
        if (hello->acked_shard_epoch[i] == partition->settings.shard_epoch ||
            start_ms > now_ms + PARTITION_SKEW_MS || start_ms + partition->settings.retention_ms < now_ms)
            continue;
        /* Agents do not say how long these windows were; they align to the bucket. */
        struct roster_window window = {.start_ms = start_ms,
                                       .window_ms = WINDOW_BUCKET_MS,
                                       .cause = ROSTER_SHARD_RESTART,
                                       .samples = hello->acked_window_samples[i]};
        roster_note_window(&partition->roster, node, &window, true);
    }
}

static const char *claim_refusal(enum roster_claim claim)
{
    switch (claim) {
    case ROSTER_RETIRED:
        return "another agent has just opened this node's session; try again";
    case ROSTER_RIVAL_ALIVE:
        return "an older agent with the same node name is alive: give each agent its own --node";
    case ROSTER_SPEAKS:
    case ROSTER_RETURNED:
        break;
    }
    return NULL;
}

static const char *check_hello(const struct partition *partition, const Fleetprof__Hello *hello,
                               uint64_t route)
{
    if (hello->node[0] == '\0' || strlen(hello->node) > ROSTER_NODE_BYTES)
        return "the node's name must have 1 to 256 bytes";
    /* Or the node could be in two partitions and count twice. */
    if (route != wire_route(hello->node))
        return "the message's route does not belong to its node";
    const struct session *same = partition_session((struct partition *)(uintptr_t)partition, hello->session);
    if (same && strcmp(partition->roster.nodes[same->node]->name, hello->node) != 0)
        return "the session id is in use";
    return NULL;
}

static void open_session(struct partition *partition, uint32_t at, const Fleetprof__Hello *hello,
                         uint64_t now_ms, struct buf *reply)
{
    struct roster_node *node = partition->roster.nodes[at];
    /* Session ids are never used twice: one that is open already is a Hello that came again. What was defined
     * since must stay. */
    bool again =
        node->session && node->session->id == hello->session && node->epochs[0].epoch == hello->boot_epoch;
    enum roster_claim claim = roster_claim(node, hello->boot_epoch, now_ms);
    const char *refusal = claim_refusal(claim);
    if (refusal) {
        if (claim == ROSTER_RIVAL_ALIVE)
            metric_add(partition->metrics.rivals, 1);
        reply_hello(partition,
                    claim == ROSTER_RETIRED ? FLEETPROF__VERDICT__RETRY : FLEETPROF__VERDICT__REFUSED,
                    refusal, 0, reply);
        return;
    }
    static struct log_limit limit; /* the lines are about all nodes together */
    if (claim == ROSTER_RETURNED && log_limit_pass(&limit, NULL))
        log_warn("two agents are alive that call themselves node %s; the newer one is refused", node->name);
    if (!again)
        partition_put_session(partition, session_new(&partition->dictionary, hello->session, at, node->name));
    copy_text(node->version, sizeof(node->version), hello->agent_version);
    copy_text(node->kernel, sizeof(node->kernel), hello->kernel);
    copy_text(node->event, sizeof(node->event), hello->event);
    node->hz = hello->hz;
    node->cpus = hello->cpus;
    node->last_seen_ms = now_ms;
    note_lost_windows(partition, node, hello, now_ms);
    reply_hello(partition, FLEETPROF__VERDICT__STORED, NULL, node->epochs[0].last_sequence, reply);
}

static void ingest_hello(struct partition *partition, const void *data, size_t bytes, uint64_t route,
                         uint64_t now_ms, struct buf *reply)
{
    struct err err = {0};
    ProtobufCMessage *message;
    if (wire_unpack(data, bytes, WIRE_HELLO, &message, &err) < 0) {
        reply_hello(partition, FLEETPROF__VERDICT__REFUSED, err.text, 0, reply);
        return;
    }
    const Fleetprof__Hello *hello = (const Fleetprof__Hello *)message;
    const char *refusal = check_hello(partition, hello, route);
    uint32_t at = ROSTER_NONE;
    if (!refusal) {
        at = roster_add(&partition->roster, hello->node, now_ms);
        if (at == ROSTER_NONE)
            refusal = "this shard has its limit of nodes (--max-nodes)";
    }
    if (refusal)
        reply_hello(partition, FLEETPROF__VERDICT__REFUSED, refusal, 0, reply);
    else
        open_session(partition, at, hello, now_ms, reply);
    wire_free(message);
}

/* ---- batch: checks ---- */

/* wire_check_samples has made sure that the sums do not overflow. */
static int check_sums(const Fleetprof__Samples *samples, struct err *err)
{
    uint64_t value = 0, count = 0;
    for (size_t i = 0; i < samples->n_value; i++) {
        value += samples->value[i];
        count += samples->count[i];
    }
    if (value > INGEST_VALUE || count > INGEST_COUNT)
        return err_say(err, -EPROTO, "samples: more than one window can hold");
    return 0;
}

static int check_samples(const Fleetprof__Samples *samples, const struct wire_have *have, struct err *err)
{
    int rc = wire_check_samples(samples, have->nodes, have->series, err);
    if (rc < 0)
        return rc;
    uint32_t number = profile_kind_find(samples->kind);
    if (number == PROFILE_KIND_NONE)
        return err_say(err, -EPROTO, "samples: profile kind \"%.40s\" is not known here", samples->kind);
    const struct profile_kind *kind = profile_kind(number);
    if (samples->scale != kind->scale || strcmp(samples->unit, kind->unit) != 0)
        return err_say(err, -EPROTO, "samples: %s must come in %s times %" PRIu64, kind->name, kind->unit,
                       kind->scale);
    return check_sums(samples, err);
}

static int check_batch(const struct session *session, const Fleetprof__Batch *batch, struct err *err)
{
    struct wire_have have = session_have(session);
    if (batch->sequence == 0)
        return err_say(err, -EPROTO, "batch: sequence numbers begin with 1");
    int rc = batch->dictionary ? wire_check_dictionary(batch->dictionary, &have, err) : 0;
    if (batch->dictionary) {
        have.nodes += (uint32_t)batch->dictionary->n_node_up;
        have.series += (uint32_t)batch->dictionary->n_series;
    }
    uint32_t seen = 0; /* kinds: each at most once, or the limits of their sums would bound nothing */
    for (size_t i = 0; i < batch->n_samples && rc == 0; i++) {
        rc = check_samples(batch->samples[i], &have, err);
        if (rc < 0)
            break;
        uint32_t kind = 1u << profile_kind_find(batch->samples[i]->kind);
        if (seen & kind)
            rc = err_say(err, -EPROTO, "batch: profile kind %s comes twice", batch->samples[i]->kind);
        seen |= kind;
    }
    return rc;
}

/* Would the definitions bring the dictionary over a limit? (Most are there already: an upper bound.) */
static bool may_overflow(const struct dictionary *dictionary, const Fleetprof__Dictionary *more)
{
    const struct dictionary_limits *limits = &dictionary->limits;
    return dictionary->string_count + more->n_strings > limits->strings ||
           dictionary->executable_count + more->n_executables > limits->executables ||
           dictionary->frame_count + more->n_frame_head > limits->frames ||
           dictionary->node_count + more->n_node_up > limits->nodes ||
           dictionary->series_count + more->n_series > limits->series ||
           dictionary->bytes_used > limits->string_bytes - limits->string_bytes / 16 ||
           dictionary->function_count >= limits->functions;
}

/* ---- batch: rows ---- */

struct placed_run {
    uint32_t series;
    size_t first, count;
    int64_t node; /* session node before the first row */
};

/* Rows first.. of one series, at most WINDOW_SEGMENT_ROWS, into one segment. Rows over a column's size are
 * cut here and the rest added by themselves. Returns the session node of the last row. */
static int64_t store_run(struct partition *partition, struct window_bucket *bucket,
                         const struct session *session, const Fleetprof__Samples *samples,
                         const struct placed_run *run)
{
    struct window_segment segment =
        windows_add(&partition->windows, bucket, run->series, (uint32_t)run->count);
    const uint32_t *ids = session->nodes.ids;
    const int64_t *steps = samples->node_step + run->first;
    const uint64_t *values = samples->value + run->first, *counts = samples->count + run->first;
    int64_t node = run->node;
    uint64_t large = 0;
    for (size_t i = 0; i < run->count; i++) {
        node += steps[i];
        segment.node[i] = ids[node];
        segment.value[i] = (uint32_t)values[i];
        segment.count[i] = (uint16_t)counts[i];
        large |= values[i] >> 32 | counts[i] >> 16;
    }
    for (size_t i = 0; large && i < run->count; i++) {
        if (values[i] <= UINT32_MAX && counts[i] <= UINT16_MAX)
            continue;
        /* The columns hold the low bits; what is above them goes into rows of its own. */
        windows_add_row(&partition->windows, bucket, run->series, segment.node[i],
                        values[i] - (uint32_t)values[i], counts[i] - (uint16_t)counts[i]);
    }
    return node;
}

static uint64_t store_samples(struct partition *partition, const struct session *session,
                              const Fleetprof__Samples *samples, uint64_t start_ms)
{
    uint32_t kind = profile_kind_find(samples->kind);
    if (samples->n_value == 0)
        return 0;
    struct window_bucket *bucket = windows_bucket(&partition->windows, kind, start_ms);
    uint64_t series = 0, total_count = 0;
    size_t row_count = samples->n_value;
    struct placed_run run = {0};
    for (size_t at = 0; at < row_count; at += run.count) {
        if (at == 0 || samples->series_step[at] != 0) {
            series += samples->series_step[at];
            run.node = 0;
        }
        run.series = session->series.ids[series];
        run.first = at;
        run.count = 1;
        while (at + run.count < row_count && run.count < WINDOW_SEGMENT_ROWS &&
               samples->series_step[at + run.count] == 0)
            run.count++;
        run.node = store_run(partition, bucket, session, samples, &run);
    }
    for (size_t i = 0; i < row_count; i++)
        total_count += samples->count[i];
    metric_add(partition->metrics.rows, row_count);
    return total_count;
}

/* ---- batch: time and ledger ---- */

/* When the window began by the shard's clock. */
static uint64_t place_in_time(struct partition *partition, struct roster_node *node,
                              const Fleetprof__Batch *batch, uint64_t now_ms)
{
    uint64_t said_ms = batch->sent_ms ? batch->sent_ms : batch->window_start_ms + batch->window_ms;
    node->skew_ms = (int64_t)(said_ms - now_ms);
    uint64_t off_ms = said_ms > now_ms ? said_ms - now_ms : now_ms - said_ms;
    uint64_t start_ms = batch->window_start_ms;
    node->skewed = off_ms > PARTITION_SKEW_MS;
    if (node->skewed) {
        metric_add(partition->metrics.skewed, 1);
        partition->skewed_batches++;
        start_ms += now_ms - said_ms; /* modulo 2^64: right for both signs */
    }
    if (start_ms > now_ms) /* also whatever nonsense the correction gave */
        start_ms = now_ms;
    return start_ms;
}

static void take_gauges(struct roster_node *node, const Fleetprof__Batch *batch)
{
    uint32_t count = batch->n_gauges > ROSTER_GAUGES ? ROSTER_GAUGES : (uint32_t)batch->n_gauges;
    if (count != node->gauge_count) {
        free(node->gauges);
        node->gauges = xcalloc(count + 1, sizeof(*node->gauges));
        node->gauge_count = count;
    }
    for (uint32_t i = 0; i < count; i++) {
        copy_text(node->gauges[i].name, sizeof(node->gauges[i].name), batch->gauges[i]->name);
        node->gauges[i].value = batch->gauges[i]->value;
        if (strcmp(node->gauges[i].name, "hz") == 0 && node->gauges[i].value <= UINT32_MAX)
            node->hz = (uint32_t)node->gauges[i].value; /* changed since Hello */
    }
}

static void keep_books(struct partition *partition, struct roster_node *node, const Fleetprof__Batch *batch,
                       uint64_t start_ms, uint64_t stored)
{
    uint32_t window_ms = batch->window_ms > PARTITION_SKEW_MS ? PARTITION_SKEW_MS : batch->window_ms;
    struct roster_window window = {.start_ms = start_ms, .window_ms = window_ms, .samples = stored};
    roster_note_window(&partition->roster, node, &window, false);
    uint64_t lost = 0;
    for (size_t i = 0; i < batch->n_lost; i++) {
        uint64_t count = batch->lost[i]->value;
        if (__builtin_add_overflow(lost, count, &lost))
            break;
        roster_note_loss(&partition->roster, node, start_ms,
                         roster_cause(&partition->roster, batch->lost[i]->name), count);
    }
    node->samples += stored;
    node->taken += batch->taken;
    if (batch->taken != stored + lost)
        metric_add(partition->metrics.ledger_mismatch, 1);
    take_gauges(node, batch);
}

/* ---- batch: the answer ---- */

static size_t collect_wants(struct partition *partition, struct session *session, uint64_t now_ms,
                            ProtobufCBinaryData *wants)
{
    uint32_t generation = symbol_packs_generation(partition->packs);
    if (generation == session->ask_generation && now_ms < session->asked_ms + SYMBOL_PACK_ASK_MS)
        return 0;
    size_t count = 0;
    uint32_t at = 0;
    for (; at < session->executables.count && count < INGEST_WANTS; at++) {
        if (session->executables.ids[at] == DICTIONARY_FULL)
            continue;
        struct dictionary_executable *executable =
            &partition->dictionary.executables[session->executables.ids[at]];
        struct executable_id id = {.bytes = executable->id_bytes};
        memcpy(id.data, executable->id, sizeof(id.data));
        if (executable->id_kind == EXECUTABLE_SYNTHETIC || executable->named ||
            !symbol_packs_should_ask(partition->packs, &id, now_ms))
            continue;
        wants[count].data = executable->id;
        wants[count++].len = executable->id_bytes;
    }
    if (at == session->executables.count) { /* else the next Ack goes on */
        session->ask_generation = generation;
        session->asked_ms = now_ms;
    }
    return count;
}

static void reply_stored(struct partition *partition, struct session *session, uint64_t sequence,
                         uint64_t now_ms, struct buf *reply)
{
    ProtobufCBinaryData wants[INGEST_WANTS];
    Fleetprof__Ack message = FLEETPROF__ACK__INIT;
    message.verdict = FLEETPROF__VERDICT__STORED;
    message.sequence = sequence;
    message.n_want_executable = collect_wants(partition, session, now_ms, wants);
    message.want_executable = wants;
    wire_pack(&message.base, WIRE_ACK, 0, reply, NULL);
}

struct wanting {
    struct symbol_packs *packs;
    uint64_t now_ms;
};

static void on_executable(const struct dictionary_executable *executable, void *ctx)
{
    const struct wanting *wanting = ctx;
    if (executable->id_kind == EXECUTABLE_SYNTHETIC || executable->named)
        return;
    struct executable_id id = {.bytes = executable->id_bytes};
    memcpy(id.data, executable->id, sizeof(id.data));
    symbol_packs_want(wanting->packs, &id, wanting->now_ms);
}

static void apply_definitions(struct partition *partition, struct session *session,
                              const Fleetprof__Batch *batch, uint64_t now_ms)
{
    uint64_t full_before = partition->dictionary.full_count;
    struct wanting wanting = {partition->packs, now_ms};
    if (batch->dictionary)
        session_apply(session, &partition->dictionary, batch->dictionary, on_executable, &wanting);
    session->last_sequence = batch->sequence;
    metric_add(partition->metrics.dictionary_full, partition->dictionary.full_count - full_before);
}

/* The batch is sound and its session is open. */
static void store_batch(struct partition *partition, struct session *session, const Fleetprof__Batch *batch,
                        uint64_t now_ms)
{
    struct roster_node *node = partition->roster.nodes[session->node];
    /* A repeated batch may be new to this session: its definitions are then needed though its rows are not.
     */
    if (batch->sequence > session->last_sequence)
        apply_definitions(partition, session, batch, now_ms);
    if (batch->sequence <= node->epochs[0].last_sequence) {
        node->duplicates++;
        metric_add(partition->metrics.duplicates, 1);
        return;
    }
    uint64_t start_ms = place_in_time(partition, node, batch, now_ms);
    uint64_t stored = 0;
    for (size_t i = 0; i < batch->n_samples; i++)
        stored += store_samples(partition, session, batch->samples[i], start_ms);
    keep_books(partition, node, batch, start_ms, stored);
    node->epochs[0].last_sequence = batch->sequence;
    metric_add(partition->metrics.batches, 1);
    metric_add(partition->metrics.samples, stored);
    windows_trim(&partition->windows, now_ms);
}

static void no_session(struct partition *partition, uint64_t sequence, const char *reason, struct buf *reply)
{
    metric_add(partition->metrics.no_session, 1);
    reply_ack(FLEETPROF__VERDICT__NO_SESSION, reason, sequence, 0, reply);
}

static void refuse_batch(struct partition *partition, uint64_t sequence, const char *reason,
                         struct buf *reply)
{
    metric_add(partition->metrics.refused, 1);
    reply_ack(FLEETPROF__VERDICT__REFUSED, reason, sequence, 0, reply);
}

static void take_batch(struct partition *partition, const Fleetprof__Batch *batch, uint64_t now_ms,
                       struct buf *reply)
{
    struct session *session = partition_session(partition, batch->session);
    if (!session) {
        no_session(partition, batch->sequence, "no such session here", reply);
        return;
    }
    /* The definitions of a batch that this session has seen refer to ids from before it: they cannot be
     * checked again. */
    uint64_t stored = partition->roster.nodes[session->node]->epochs[0].last_sequence;
    bool seen = batch->sequence != 0 && batch->sequence <= session->last_sequence &&
                batch->sequence <= stored; /* its rows will not be looked at */
    struct err err = {0};
    if (!seen && check_batch(session, batch, &err) < 0) {
        refuse_batch(partition, batch->sequence, err.text, reply);
        return;
    }
    const Fleetprof__Dictionary *more = seen ? NULL : batch->dictionary;
    if (more && !session_fits(session, more)) {
        partition_drop_session(partition, session->node);
        no_session(partition, batch->sequence, "the session is full", reply);
        return;
    }
    if (more && may_overflow(&partition->dictionary, more) && now_ms >= partition->compact_after_ms) {
        partition_compact(partition, now_ms);
        no_session(partition, batch->sequence, "the dictionary was compacted", reply);
        return;
    }
    partition->roster.nodes[session->node]->last_seen_ms = now_ms;
    store_batch(partition, session, batch, now_ms);
    reply_stored(partition, session, batch->sequence, now_ms, reply);
    if (more)
        partition_limit_sessions(partition, session);
}

static void ingest_batch(struct partition *partition, const void *data, size_t bytes, uint64_t now_ms,
                         struct buf *reply)
{
    struct err err = {0};
    ProtobufCMessage *message;
    if (wire_unpack(data, bytes, WIRE_BATCH, &message, &err) < 0) {
        refuse_batch(partition, 0, err.text, reply);
        return;
    }
    take_batch(partition, (const Fleetprof__Batch *)message, now_ms, reply);
    wire_free(message);
}

void ingest(struct partition *partition, const void *data, size_t bytes, uint64_t now_ms, struct buf *reply)
{
    struct err err = {0};
    struct wire_header header;
    int rc = wire_peek(data, bytes, &header, &err);
    if (rc == 0 && header.type == WIRE_HELLO) {
        ingest_hello(partition, data, bytes, header.route, now_ms, reply);
    } else if (rc == 0 && header.type == WIRE_BATCH) {
        ingest_batch(partition, data, bytes, now_ms, reply);
    } else {
        Fleetprof__HelloReply message = FLEETPROF__HELLO_REPLY__INIT;
        message.verdict = FLEETPROF__VERDICT__REFUSED;
        message.reason = rc < 0 ? err.text : (char *)(uintptr_t) "not a message for this door";
        wire_pack(&message.base, WIRE_REFUSAL, 0, reply, NULL);
    }
}
