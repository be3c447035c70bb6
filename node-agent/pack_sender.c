#include "node-agent/pack_sender.h"

#include "common/link.h"
#include "common/metrics.h"
#include "common/wire.h"
#include "common/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct pack {
    struct pack_sender *sender;
    shipper_pack_fn on_done;
    void *ctx;
    struct pack *next;
    size_t bytes;
    char message[];
};

struct pack_sender {
    struct loop_calls *calls;
    int call_ms;
    struct pack *first, *last; /* waiting */
    size_t waiting_count, waiting_bytes, under_way_count;
    bool connected, canceled;
    struct metric *stored, *failed, *rejected;
};

struct pack_sender *pack_sender_new(struct loop_calls *calls, int call_ms)
{
    struct pack_sender *sender = xcalloc(1, sizeof(*sender));
    sender->calls = calls;
    sender->call_ms = call_ms;
    const char *name = "fleetprof_shipper_packs_total";
    sender->stored = metrics_counter(name, "Symbol packs by what became of them.", "result", "stored");
    sender->failed = metrics_counter(name, NULL, "result", "failed");
    sender->rejected = metrics_counter(name, NULL, "result", "queue_full");
    return sender;
}

void pack_sender_put(struct pack_sender *sender, const void *message, size_t bytes, shipper_pack_fn on_done,
                     void *ctx)
{
    int rc = 0;
    if (sender->canceled)
        rc = -ECANCELED;
    else if (bytes > LINK_MESSAGE_BYTES)
        rc = -EMSGSIZE;
    else if (sender->waiting_count >= SHIPPER_PACKS_COUNT ||
             (sender->waiting_count > 0 && sender->waiting_bytes + bytes > SHIPPER_PACKS_BYTES))
        rc = -EAGAIN;
    if (rc < 0) {
        metric_add(sender->rejected, 1);
        on_done(rc, ctx);
        return;
    }
    struct pack *pack = xmalloc(sizeof(*pack) + bytes);
    *pack = (struct pack){.sender = sender, .on_done = on_done, .ctx = ctx, .bytes = bytes};
    memcpy(pack->message, message, bytes);
    if (sender->last)
        sender->last->next = pack;
    else
        sender->first = pack;
    sender->last = pack;
    sender->waiting_count++;
    sender->waiting_bytes += bytes;
}

static struct pack *take_waiting(struct pack_sender *sender)
{
    struct pack *pack = sender->first;
    if (!pack)
        return NULL;
    sender->first = pack->next;
    if (!sender->first)
        sender->last = NULL;
    sender->waiting_count--;
    sender->waiting_bytes -= pack->bytes;
    return pack;
}

static void finish(struct pack *pack, int rc)
{
    metric_add(rc == 0 ? pack->sender->stored : pack->sender->failed, 1);
    shipper_pack_fn on_done = pack->on_done;
    void *ctx = pack->ctx;
    free(pack);
    on_done(rc, ctx);
}

static int verdict_of(const void *data, size_t bytes)
{
    ProtobufCMessage *message = NULL;
    struct wire_header header;
    int rc = wire_peek(data, bytes, &header, NULL);
    if (rc == 0 && header.type == WIRE_REFUSAL)
        return -EPERM;
    if (rc == 0)
        rc = wire_unpack(data, bytes, WIRE_PACK_REPLY, &message, NULL);
    if (rc < 0 || !message)
        return rc < 0 ? rc : -EPROTO;
    Fleetprof__Verdict verdict = ((const Fleetprof__PackReply *)message)->verdict;
    wire_free(message);
    if (verdict == FLEETPROF__VERDICT__STORED)
        return 0;
    return verdict == FLEETPROF__VERDICT__RETRY ? -EAGAIN : -EPERM;
}

static void on_reply(int rc, const void *data, size_t bytes, void *ctx)
{
    struct pack *pack = ctx;
    struct pack_sender *sender = pack->sender;
    sender->under_way_count--;
    if (rc == 0)
        rc = verdict_of(data, bytes);
    pack_sender_run(sender, sender->connected && rc != -ECANCELED);
    finish(pack, rc); /* last: on_done may close everything */
}

void pack_sender_run(struct pack_sender *sender, bool connected)
{
    sender->connected = connected;
    while (connected && sender->first && sender->under_way_count < PACK_SENDER_UNDER_WAY) {
        struct pack *pack = take_waiting(sender);
        int rc = loop_call(sender->calls, pack->message, pack->bytes, sender->call_ms, on_reply, pack);
        if (rc == 0)
            sender->under_way_count++;
        else
            finish(pack, rc);
    }
}

void pack_sender_cancel(struct pack_sender *sender)
{
    sender->connected = false;
    sender->canceled = true;
    for (struct pack *pack; (pack = take_waiting(sender)) != NULL;)
        finish(pack, -ECANCELED);
}

void pack_sender_free(struct pack_sender *sender)
{
    free(sender);
}
