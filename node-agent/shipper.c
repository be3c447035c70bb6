#include "node-agent/shipper.h"

#include "common/backoff.h"
#include "common/clock.h"
#include "common/hashring.h"
#include "common/inbox.h"
#include "common/link.h"
#include "common/log.h"
#include "common/loop_call.h"
#include "common/metrics.h"
#include "common/version.h"
#include "common/wire.h"
#include "common/xalloc.h"
#include "node-agent/pack_sender.h"
#include "node-agent/ship_memory.h"
#include "node-agent/ship_queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/utsname.h>

#define PUT_LIMIT_COUNT    64u /* windows between other threads and the loop; one comes every 10 s */
#define CALL_LIMIT         (1u + PACK_SENDER_UNDER_WAY)
#define SESSION_NODES      (1u << 17) /* about 3 MB on this side when full */
#define FLUSH_RETRY_MS     200u       /* no longer waits while flushing */
#define OWN_GAUGES         5u
#define RETRY_AFTER_MAX_MS 60000u /* what a shard may ask for */
#define UNREADABLE_TRIES   2u

struct shipper_metrics {
    struct metric *sent_bytes, *acked_batches, *resent_batches, *refused_batches;
    struct metric *lost[SHIP_LOSS_COUNT];
    struct metric *waiting_bytes, *waiting_batches, *connected;
};

struct shipper {
    char *node, *address, *event;
    unsigned hz, cpus, call_ms;
    shipper_gauges_fn gauges;
    shipper_want_fn on_want;
    void *ctx;

    struct loop_calls *calls;
    struct inbox *windows;
    struct pack_sender *packs;
    uv_timer_t retry_timer, flush_timer;
    unsigned open_timers;

    struct wire_session *session; /* NULL: a Hello is due */
    uint64_t route, boot_epoch, shard_epoch;
    bool greeted;   /* the shard accepted the session */
    bool under_way; /* a Hello or a batch */
    bool waiting;   /* the retry timer runs */
    bool connected, closing;
    unsigned unknown_session_count; /* NO_SESSION in a row */
    struct backoff backoff;
    struct log_limit failure_limit, refusal_limit;

    struct ship_queue queue;
    struct ship_acked_list acked;
    struct ship_wants wants;
    uint64_t acked_batches, resent_batches, refused_batches, sent_bytes;

    /* Windows that found the inbox full, from any thread. */
    pthread_mutex_t overflow_lock;
    struct ship_debt overflow;
    uint64_t overflow_samples;

    void (*on_flushed)(void *ctx);
    void *flush_ctx;
    struct shipper_metrics metrics;
};

static void advance(struct shipper *shipper);

static uint64_t random_id(void)
{
    uint64_t id = 0;
    while (id == 0)
        if (getrandom(&id, sizeof(id), 0) != sizeof(id))
            id = clock_wall_ns() ^ clock_mono_ns() << 20; /* early boot only: still one of its kind */
    return id;
}

static void show_metrics(const struct shipper *shipper)
{
    const struct shipper_metrics *metrics = &shipper->metrics;
    metric_set(metrics->waiting_bytes, shipper->queue.waiting_bytes);
    metric_set(metrics->waiting_batches, shipper->queue.waiting_count);
    metric_set(metrics->connected, shipper->connected);
    metric_set(metrics->lost[SHIP_LOSS_QUEUE_FULL], shipper->queue.lost_samples[SHIP_LOSS_QUEUE_FULL]);
    metric_set(metrics->lost[SHIP_LOSS_REFUSED], shipper->queue.lost_samples[SHIP_LOSS_REFUSED]);
}

/* ---- waiting and giving up ------------------------------------------------------------------------------
 */

static void drop_session(struct shipper *shipper)
{
    wire_session_free(shipper->session);
    shipper->session = NULL;
    shipper->greeted = false;
}

static void on_retry(uv_timer_t *timer)
{
    struct shipper *shipper = timer->data;
    shipper->waiting = false;
    advance(shipper);
}

static void wait_for_retry(struct shipper *shipper, uint64_t least_ms)
{
    uint64_t delay_ms = backoff_next_ms(&shipper->backoff);
    if (delay_ms < least_ms)
        delay_ms = least_ms;
    if (shipper->on_flushed && delay_ms > FLUSH_RETRY_MS)
        delay_ms = FLUSH_RETRY_MS;
    shipper->waiting = true;
    uv_timer_start(&shipper->retry_timer, on_retry, delay_ms, 0);
}

/* The talk with the shard broke off: a new session after a while. */
static void break_off(struct shipper *shipper, uint64_t least_ms, const char *what, const char *why)
{
    drop_session(shipper);
    bool was_connected = shipper->connected;
    shipper->connected = false;
    pack_sender_run(shipper->packs, false);
    uint64_t held_count = 0;
    if (was_connected || log_limit_pass(&shipper->failure_limit, &held_count))
        log_warn("shard %s: %s: %s; %llu windows (%llu KiB) wait, trying again", shipper->address, what, why,
                 (unsigned long long)shipper->queue.waiting_count,
                 (unsigned long long)shipper->queue.waiting_bytes / 1024);
    wait_for_retry(shipper, least_ms);
}

/* Takes a reply apart: 0 with the message (wire_free), else what is wrong with it. -EPERM: the shard could
 * not read or will not take the request at all. */
static int read_reply(const void *data, size_t bytes, enum wire_type type, ProtobufCMessage **ret_message,
                      struct err *err)
{
    struct wire_header header;
    int rc = wire_peek(data, bytes, &header, err);
    if (rc == -EPROTONOSUPPORT)
        return err_say(err, rc,
                       "it speaks wire version %u and this agent version %u: one of the two must be upgraded",
                       header.version, WIRE_VERSION);
    if (rc < 0)
        return rc;
    if (header.type != WIRE_REFUSAL)
        return wire_unpack(data, bytes, type, ret_message, err);
    ProtobufCMessage *refusal;
    rc = wire_unpack(data, bytes, WIRE_REFUSAL, &refusal, err);
    if (rc < 0)
        return rc;
    err_say(err, -EPERM, "refused: %.200s", ((Fleetprof__HelloReply *)refusal)->reason);
    wire_free(refusal);
    return -EPERM;
}

/* ---- Hello ----------------------------------------------------------------------------------------------
 */

/* The shard has the batch whose Ack was lost. Only what was sent can be there, whatever the shard claims. */
static void settle_lost_ack(struct shipper *shipper, uint64_t last_sequence)
{
    struct ship_item *front = ship_queue_front(&shipper->queue);
    if (!front || front->sent_count == 0 || front->sequence > last_sequence)
        return;
    ship_acked_add(&shipper->acked,
                   (struct ship_acked){front->window->start_ms, front->sample_count, shipper->shard_epoch});
    ship_queue_acked(&shipper->queue);
    shipper->acked_batches++;
    metric_add(shipper->metrics.acked_batches, 1);
}

static void take_hello_reply(struct shipper *shipper, const Fleetprof__HelloReply *reply)
{
    if (reply->verdict != FLEETPROF__VERDICT__STORED) {
        break_off(shipper, 0, "does not take this agent",
                  reply->reason && reply->reason[0] ? reply->reason : "no reason given");
        return;
    }
    if (reply->shard_epoch != shipper->shard_epoch || !shipper->connected)
        log_info("shard %s (%.100s): connected, %llu windows to send", shipper->address,
                 reply->shard && reply->shard[0] ? reply->shard : "unnamed",
                 (unsigned long long)shipper->queue.waiting_count);
    shipper->shard_epoch = reply->shard_epoch;
    shipper->greeted = true;
    shipper->connected = true;
    settle_lost_ack(shipper, reply->last_sequence);
}

static void on_hello_reply(int rc, const void *data, size_t bytes, void *ctx)
{
    struct shipper *shipper = ctx;
    shipper->under_way = false;
    if (shipper->closing)
        return;
    struct err err = {0};
    ProtobufCMessage *message = NULL;
    if (rc < 0) {
        break_off(shipper, 0, "no connection", strerror(-rc));
    } else if (read_reply(data, bytes, WIRE_HELLO_REPLY, &message, &err) < 0) {
        break_off(shipper, 0, "no session", err.text);
    } else {
        take_hello_reply(shipper, (Fleetprof__HelloReply *)message);
        wire_free(message);
    }
    advance(shipper);
}

static void call_shard(struct shipper *shipper, const struct buf *out, loop_reply_fn on_reply)
{
    int rc = loop_call(shipper->calls, out->data, out->used_bytes, (int)shipper->call_ms, on_reply, shipper);
    if (rc < 0) {
        break_off(shipper, 0, "cannot send", strerror(-rc));
        return;
    }
    shipper->under_way = true;
    shipper->sent_bytes += out->used_bytes;
    metric_add(shipper->metrics.sent_bytes, out->used_bytes);
}

static void send_hello(struct shipper *shipper)
{
    drop_session(shipper);
    shipper->session = wire_session_new(random_id(), SESSION_NODES);
    uint64_t start_ms[SHIP_ACKED_MAX], sample_count[SHIP_ACKED_MAX], shard_epoch[SHIP_ACKED_MAX];
    size_t acked_count = ship_acked_columns(&shipper->acked, clock_wall_ns() / CLOCK_NS_PER_MS, start_ms,
                                            sample_count, shard_epoch);
    struct utsname kernel = {0};
    uname(&kernel);
    char version[] = FLEETPROF_VERSION;
    Fleetprof__Hello hello = FLEETPROF__HELLO__INIT;
    hello.node = shipper->node;
    hello.boot_epoch = shipper->boot_epoch;
    hello.session = wire_session_id(shipper->session);
    hello.agent_version = version;
    hello.kernel = kernel.release;
    hello.event = shipper->event;
    hello.hz = shipper->hz;
    hello.cpus = shipper->cpus;
    const struct ship_item *front = ship_queue_front(&shipper->queue);
    hello.next_sequence = front ? front->sequence : shipper->queue.next_sequence;
    hello.n_acked_window_start_ms = hello.n_acked_window_samples = hello.n_acked_shard_epoch = acked_count;
    hello.acked_window_start_ms = start_ms;
    hello.acked_window_samples = sample_count;
    hello.acked_shard_epoch = shard_epoch;

    struct buf out = buf_init(LINK_MESSAGE_BYTES);
    struct err err = {0};
    if (wire_pack(&hello.base, WIRE_HELLO, shipper->route, &out, &err) < 0)
        break_off(shipper, 0, "cannot greet", err.text);
    else
        call_shard(shipper, &out, on_hello_reply);
    buf_fini(&out);
}

/* ---- batches --------------------------------------------------------------------------------------------
 */

/* The front will never be stored. */
static void count_refused(struct shipper *shipper, const char *reason)
{
    const struct ship_item *front = ship_queue_front(&shipper->queue);
    if (log_limit_pass(&shipper->refusal_limit, NULL))
        log_warn("shard %s: window %llu with %llu samples was refused and is counted as lost: %s",
                 shipper->address, (unsigned long long)front->sequence,
                 (unsigned long long)front->sample_count, reason);
    ship_queue_refused(&shipper->queue);
    shipper->refused_batches++;
    metric_add(shipper->metrics.refused_batches, 1);
    drop_session(shipper);
}

/* The shard could not read the batch. It may have been replaced by another kind of shard since the Hello, so
 * that one is asked again before the window is given up. */
static void take_refusal(struct shipper *shipper, const char *reason)
{
    struct ship_item *front = ship_queue_front(&shipper->queue);
    if (++front->refusal_count >= UNREADABLE_TRIES)
        count_refused(shipper, reason);
    else
        break_off(shipper, 0, "batch not read", reason);
}

static void pass_on_wants(struct shipper *shipper, const Fleetprof__Ack *ack)
{
    uint64_t now_ms = clock_mono_ns() / CLOCK_NS_PER_MS;
    for (size_t i = 0; i < ack->n_want_executable && shipper->on_want && !shipper->closing; i++) {
        const ProtobufCBinaryData *id = &ack->want_executable[i];
        if (ship_wants_first(&shipper->wants, id->data, id->len, now_ms, SHIPPER_WANT_MS))
            shipper->on_want(id->data, id->len, shipper->ctx);
    }
}

static void take_ack(struct shipper *shipper, const Fleetprof__Ack *ack)
{
    const char *reason = ack->reason && ack->reason[0] ? ack->reason : "no reason given";
    switch (ack->verdict) {
    case FLEETPROF__VERDICT__STORED:
        settle_lost_ack(shipper, ack->sequence);
        backoff_reset(&shipper->backoff);
        shipper->unknown_session_count = 0;
        return;
    case FLEETPROF__VERDICT__REFUSED:
        count_refused(shipper, reason);
        return;
    case FLEETPROF__VERDICT__NO_SESSION:
        if (shipper->unknown_session_count++ == 0) {
            drop_session(shipper); /* a restarted shard: greet it at once */
            return;
        }
        break_off(shipper, 0, "does not know the session", reason);
        return;
    default: /* RETRY, and verdicts of the future: the window stays */
        break_off(shipper,
                  ack->retry_after_ms < RETRY_AFTER_MAX_MS ? ack->retry_after_ms : RETRY_AFTER_MAX_MS,
                  "asks to try later", reason);
        return;
    }
}

static void read_ack(struct shipper *shipper, const void *data, size_t bytes)
{
    struct err err = {0};
    ProtobufCMessage *message = NULL;
    int rc = read_reply(data, bytes, WIRE_ACK, &message, &err);
    if (rc == -EPERM) {
        take_refusal(shipper, err.text);
        return;
    }
    if (rc < 0) {
        break_off(shipper, 0, "answer not understood", err.text);
        return;
    }
    const Fleetprof__Ack *ack = (Fleetprof__Ack *)message;
    if (ack->sequence == ship_queue_front(&shipper->queue)->sequence) {
        take_ack(shipper, ack);
        pass_on_wants(shipper, ack);
    } else {
        break_off(shipper, 0, "answer not understood", "it is for another batch");
    }
    wire_free(message);
}

static void on_ack(int rc, const void *data, size_t bytes, void *ctx)
{
    struct shipper *shipper = ctx;
    shipper->under_way = false;
    if (shipper->closing)
        return;
    if (rc < 0)
        break_off(shipper, 0, "batch not acknowledged", strerror(-rc));
    else
        read_ack(shipper, data, bytes);
    advance(shipper);
}

static size_t fill_losses(const struct ship_item *item, struct wire_counter *out)
{
    size_t used = 0;
    for (unsigned cause = 0; cause < SHIP_LOSS_COUNT; cause++) {
        uint64_t count = item->debt.lost_count[cause];
        if (cause < TALLY_LOSS_COUNT)
            count += item->window->lost_count[cause];
        if (count)
            out[used++] = (struct wire_counter){ship_loss_name(cause), count};
    }
    return used;
}

static size_t fill_gauges(const struct shipper *shipper, struct wire_counter *out)
{
    struct shipper_gauge gauges[SHIPPER_GAUGES_MAX];
    size_t used = shipper->gauges ? shipper->gauges(gauges, SHIPPER_GAUGES_MAX, shipper->ctx) : 0;
    if (used > SHIPPER_GAUGES_MAX)
        used = SHIPPER_GAUGES_MAX;
    for (size_t i = 0; i < used; i++)
        out[i] = (struct wire_counter){gauges[i].name, gauges[i].value};
    const struct wire_counter own[OWN_GAUGES] = {
        {"shipper_waiting_bytes", shipper->queue.waiting_bytes},
        {"shipper_waiting_batches", shipper->queue.waiting_count},
        {"shipper_resent_batches", shipper->resent_batches},
        {"shipper_refused_batches", shipper->refused_batches},
        {"shipper_sent_bytes", shipper->sent_bytes},
    };
    memcpy(out + used, own, sizeof(own));
    return used + OWN_GAUGES;
}

static void send_batch(struct shipper *shipper)
{
    struct ship_item *item = ship_queue_front(&shipper->queue);
    ship_queue_sending(&shipper->queue);
    if (item->sent_count > 1) {
        shipper->resent_batches++;
        metric_add(shipper->metrics.resent_batches, 1);
    }
    struct wire_counter lost[SHIP_LOSS_COUNT], gauges[SHIPPER_GAUGES_MAX + OWN_GAUGES];
    const struct wire_batch batch = {
        .sequence = item->sequence,
        .window_start_ms = item->window->start_ms,
        .window_ms = item->window->window_ms,
        .taken_count = item->window->taken_count + item->debt.taken_count,
        .kind = "cpu",
        .unit = "nanoseconds",
        .scale = 1000,
        .lost = lost,
        .lost_count = fill_losses(item, lost),
        .gauges = gauges,
        .gauge_count = fill_gauges(shipper, gauges),
    };
    struct buf out = buf_init(LINK_MESSAGE_BYTES);
    struct err err = {0};
    if (wire_encode_batch(shipper->session, &batch, item->window->set, shipper->route, &out, &err) < 0)
        count_refused(shipper, err.text); /* it will not get smaller */
    else
        call_shard(shipper, &out, on_ack);
    buf_fini(&out);
}

/* ---- the next step --------------------------------------------------------------------------------------
 */

static void end_flush(struct shipper *shipper)
{
    void (*on_flushed)(void *ctx) = shipper->on_flushed;
    shipper->on_flushed = NULL;
    uv_timer_stop(&shipper->flush_timer);
    on_flushed(shipper->flush_ctx);
}

static void merge_overflow(struct shipper *shipper)
{
    pthread_mutex_lock(&shipper->overflow_lock);
    ship_queue_put_lost(&shipper->queue, &shipper->overflow, shipper->overflow_samples);
    shipper->overflow = (struct ship_debt){0};
    shipper->overflow_samples = 0;
    pthread_mutex_unlock(&shipper->overflow_lock);
}

/* Starts whatever can be started. Each turn of the loop sends something or takes a window off the queue. */
static void advance(struct shipper *shipper)
{
    if (shipper->closing)
        return;
    merge_overflow(shipper);
    while (!shipper->under_way && !shipper->waiting) {
        const struct ship_item *front = ship_queue_front(&shipper->queue);
        if (!shipper->greeted || (front && !wire_session_fits(shipper->session, front->window->set)))
            send_hello(shipper);
        else if (front)
            send_batch(shipper);
        else
            break;
    }
    show_metrics(shipper);
    pack_sender_run(shipper->packs, shipper->connected);
    if (!shipper->closing && shipper->on_flushed && !ship_queue_front(&shipper->queue) &&
        inbox_count(shipper->windows) == 0)
        end_flush(shipper); /* last: it may close the shipper */
}

static void on_window(void *message, void *ctx)
{
    struct shipper *shipper = ctx;
    ship_queue_put(&shipper->queue, message);
    advance(shipper);
}

void shipper_put(struct shipper *shipper, struct tally_window *window)
{
    stackset_seal(window->set);
    if (inbox_put(shipper->windows, window) == 0)
        return;
    pthread_mutex_lock(&shipper->overflow_lock);
    shipper->overflow_samples += ship_debt_add_window(&shipper->overflow, window, SHIP_LOSS_QUEUE_FULL);
    pthread_mutex_unlock(&shipper->overflow_lock);
    tally_window_free(window);
}

void shipper_send_pack(struct shipper *shipper, const void *message, size_t bytes, shipper_pack_fn on_done,
                       void *ctx)
{
    pack_sender_put(shipper->packs, message, bytes, on_done, ctx);
    if (!shipper->closing)
        pack_sender_run(shipper->packs, shipper->connected);
}

struct shipper_ledger shipper_ledger(const struct shipper *shipper)
{
    const struct ship_queue *queue = &shipper->queue;
    return (struct shipper_ledger){
        .put_samples = queue->put_samples,
        .acked_samples = queue->acked_samples,
        .waiting_samples = queue->waiting_samples,
        .lost_samples = queue->lost_samples[SHIP_LOSS_QUEUE_FULL] + queue->lost_samples[SHIP_LOSS_REFUSED],
        .acked_batches = shipper->acked_batches,
        .resent_batches = shipper->resent_batches,
        .refused_batches = shipper->refused_batches,
        .sent_bytes = shipper->sent_bytes,
        .waiting_bytes = queue->waiting_bytes,
        .connected = shipper->connected,
    };
}

/* ---- opening, flushing, closing -------------------------------------------------------------------------
 */

static void on_first_turn(uv_timer_t *timer)
{
    advance(timer->data);
}

static void on_flush_end(uv_timer_t *timer)
{
    struct shipper *shipper = timer->data;
    if (shipper->on_flushed)
        end_flush(shipper);
}

void shipper_flush(struct shipper *shipper, uint64_t timeout_ms, void (*on_flushed)(void *ctx), void *ctx)
{
    shipper->on_flushed = on_flushed;
    shipper->flush_ctx = ctx;
    uv_timer_start(&shipper->flush_timer, on_flush_end, timeout_ms, 0);
    /* Cuts a wait short, and gives on_flushed its own turn of the loop when there is nothing to wait for. */
    shipper->waiting = true;
    uv_timer_start(&shipper->retry_timer, on_retry, 0, 0);
}

static int check_settings(const struct shipper_settings *settings, struct err *err)
{
    if (!settings->node || !settings->node[0] || strlen(settings->node) > SHIPPER_NODE_BYTES)
        return err_say(err, -EINVAL, "the node's name must have 1 to %u bytes", SHIPPER_NODE_BYTES);
    if (settings->shard_count == 0)
        return err_say(err, -EINVAL, "no shard address is given");
    for (size_t i = 0; i < settings->shard_count; i++)
        if (!settings->shards[i] || !settings->shards[i][0])
            return err_say(err, -EINVAL, "shard address %zu is empty", i + 1);
    return 0;
}

static void open_metrics(struct shipper_metrics *metrics)
{
    metrics->sent_bytes =
        metrics_counter("fleetprof_shipper_sent_bytes_total",
                        "Bytes of messages sent to the shard, resent ones included.", NULL, NULL);
    const char *name = "fleetprof_shipper_batches_total";
    metrics->acked_batches =
        metrics_counter(name, "Batches by what became of them (resent: sendings again).", "result", "acked");
    metrics->resent_batches = metrics_counter(name, NULL, "result", "resent");
    metrics->refused_batches = metrics_counter(name, NULL, "result", "refused");
    name = "fleetprof_shipper_lost_samples_total";
    for (unsigned cause = SHIP_LOSS_QUEUE_FULL; cause < SHIP_LOSS_COUNT; cause++)
        metrics->lost[cause] =
            metrics_counter(name, "Samples that were lost between the agent's windows and the shard.",
                            "cause", ship_loss_name(cause));
    metrics->waiting_bytes = metrics_gauge("fleetprof_shipper_waiting_bytes",
                                           "Memory of windows not acknowledged yet.", NULL, NULL);
    metrics->waiting_batches =
        metrics_gauge("fleetprof_shipper_waiting_batches", "Windows not acknowledged yet.", NULL, NULL);
    metrics->connected = metrics_gauge("fleetprof_shipper_connected",
                                       "1 while the shard accepts this agent's batches.", NULL, NULL);
}

int shipper_open(uv_loop_t *loop, const struct shipper_settings *settings, shipper_gauges_fn gauges,
                 shipper_want_fn on_want, void *ctx, struct shipper **ret_shipper, struct err *err)
{
    int rc = check_settings(settings, err);
    if (rc < 0)
        return rc;
    size_t shard =
        hashring_pick(settings->node, strlen(settings->node), settings->shards, settings->shard_count);
    struct loop_calls *calls;
    rc = loop_calls_open(loop, settings->shards[shard], CALL_LIMIT, &calls, err);
    if (rc < 0)
        return rc;
    struct shipper *shipper = xcalloc(1, sizeof(*shipper));
    shipper->calls = calls;
    shipper->address = xstrdup(settings->shards[shard]);
    shipper->node = xstrdup(settings->node);
    shipper->event = xstrdup(settings->event ? settings->event : "");
    shipper->hz = settings->hz;
    shipper->cpus = settings->cpus;
    shipper->call_ms = settings->call_ms ? settings->call_ms : SHIPPER_CALL_MS;
    shipper->gauges = gauges;
    shipper->on_want = on_want;
    shipper->ctx = ctx;
    shipper->route = wire_route(settings->node);
    shipper->boot_epoch = random_id();
    backoff_init(&shipper->backoff, SHIPPER_RETRY_MIN_MS, SHIPPER_RETRY_MAX_MS, 0);
    ship_queue_init(&shipper->queue, settings->queue_bytes);
    pthread_mutex_init(&shipper->overflow_lock, NULL);
    open_metrics(&shipper->metrics);
    shipper->windows = inbox_open_loop(loop, PUT_LIMIT_COUNT, on_window, shipper);
    shipper->packs = pack_sender_new(calls, (int)shipper->call_ms);
    uv_timer_init(loop, &shipper->retry_timer);
    uv_timer_init(loop, &shipper->flush_timer);
    shipper->retry_timer.data = shipper->flush_timer.data = shipper;
    shipper->open_timers = 2;
    uv_timer_start(&shipper->retry_timer, on_first_turn, 0, 0);
    *ret_shipper = shipper;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct shipper *shipper = handle->data;
    if (--shipper->open_timers > 0)
        return;
    drop_session(shipper);
    ship_queue_fini(&shipper->queue);
    pack_sender_free(shipper->packs);
    pthread_mutex_destroy(&shipper->overflow_lock);
    free(shipper->address);
    free(shipper->node);
    free(shipper->event);
    free(shipper);
}

static void free_window(void *message, void *ctx)
{
    (void)ctx;
    tally_window_free(message);
}

void shipper_close(struct shipper *shipper)
{
    if (!shipper || shipper->closing)
        return;
    shipper->closing = true;
    shipper->connected = false;
    show_metrics(shipper);
    loop_calls_close(shipper->calls);
    pack_sender_cancel(shipper->packs);
    inbox_close(shipper->windows, free_window, NULL);
    uv_close((uv_handle_t *)&shipper->retry_timer, on_timer_closed);
    uv_close((uv_handle_t *)&shipper->flush_timer, on_timer_closed);
}
