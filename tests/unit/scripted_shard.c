/* Included by the tests that need a shard (a test program is one file and the archives). */
#include "tests/unit/scripted_shard.h"

#include <stdio.h>
#include <string.h>

static bool shard_uses(unsigned *count)
{
    if (*count == 0)
        return false;
    (*count)--;
    return true;
}

static void shard_send(struct scripted_shard *shard, struct link_request *request,
                       const ProtobufCMessage *message, enum wire_type type)
{
    struct buf out = buf_init(LINK_MESSAGE_BYTES);
    if (wire_pack(message, type, 0, &out, NULL) < 0)
        shard->fault = "the shard cannot pack its answer";
    if (shard->other_version)
        out.data[4] = (char)shard->other_version;
    link_reply(request, out.data, out.used_bytes);
    buf_fini(&out);
}

static void shard_hold(struct scripted_shard *shard, struct link_request *request)
{
    if (shard->held_count < SHARD_HELD)
        shard->held[shard->held_count++] = request;
    else
        shard->fault = "too many requests under way";
}

static void shard_refuse(struct scripted_shard *shard, struct link_request *request, char *reason)
{
    Fleetprof__HelloReply refusal = FLEETPROF__HELLO_REPLY__INIT;
    refusal.verdict = FLEETPROF__VERDICT__REFUSED;
    refusal.reason = reason;
    shard_send(shard, request, &refusal.base, WIRE_REFUSAL);
}

static void shard_on_hello(struct scripted_shard *shard, struct link_request *request,
                           const Fleetprof__Hello *hello)
{
    shard->hello_count++;
    if (shard->boot_epoch != 0 && shard->boot_epoch != hello->boot_epoch)
        shard->fault = "the boot epoch changed";
    if (hello->boot_epoch == 0 || hello->session == 0 || hello->session == shard->session)
        shard->fault = "an id that is no id";
    if (hello->n_acked_window_samples != hello->n_acked_window_start_ms ||
        hello->n_acked_shard_epoch != hello->n_acked_window_start_ms)
        shard->fault = "acknowledged windows with unequal columns";
    shard->boot_epoch = hello->boot_epoch;
    shard->next_sequence = hello->next_sequence;
    shard->acked_window_count = (unsigned)hello->n_acked_window_start_ms;
    shard->acked_samples = 0;
    for (size_t i = 0; i < hello->n_acked_window_samples; i++) {
        shard->acked_samples += hello->acked_window_samples[i];
        shard->acked_shard_epoch = hello->acked_shard_epoch[i];
    }
    if (shard_uses(&shard->hello_garbage_count)) {
        link_reply(request,
                   "\x7f"
                   "garbage that is no message",
                   27);
        return;
    }
    char not_today[] = "not today";
    Fleetprof__HelloReply reply = FLEETPROF__HELLO_REPLY__INIT;
    reply.shard_epoch = shard->epoch;
    reply.last_sequence = shard->boastful ? UINT64_MAX : shard->forgetful ? 0 : shard->last_sequence;
    if (shard_uses(&shard->hello_refuse_count)) {
        reply.verdict = FLEETPROF__VERDICT__REFUSED;
        reply.reason = not_today;
    } else if (!shard->other_version) {
        shard->session = hello->session;
    }
    shard_send(shard, request, &reply.base, WIRE_HELLO_REPLY);
}

static void shard_store(struct scripted_shard *shard, const Fleetprof__Batch *batch)
{
    uint64_t samples = 0, lost = 0;
    if (batch->sequence == 0 || batch->sequence >= SHARD_SEQUENCES) {
        shard->fault = "an impossible sequence number";
        return;
    }
    if (shard->stored[batch->sequence]) {
        shard->duplicate_count++;
        return;
    }
    for (size_t i = 0; i < batch->n_samples; i++)
        for (size_t row = 0; row < batch->samples[i]->n_count; row++) {
            samples += batch->samples[i]->count[row];
            shard->value += batch->samples[i]->value[row];
        }
    for (size_t i = 0; i < batch->n_lost; i++) {
        const Fleetprof__Counter *counter = batch->lost[i];
        lost += counter->value;
        shard->lost_queue_full += strcmp(counter->name, "queue_full") == 0 ? counter->value : 0;
        shard->lost_refused += strcmp(counter->name, "refused") == 0 ? counter->value : 0;
        shard->lost_ring_full += strcmp(counter->name, "ring_full") == 0 ? counter->value : 0;
    }
    for (size_t i = 0; i < batch->n_gauges; i++)
        if (strcmp(batch->gauges[i]->name, SHARD_LAST_GAUGE) == 0)
            shard->last_gauge = batch->gauges[i]->value;
    if (batch->taken != samples + lost)
        shard->fault = "a batch whose ledger does not balance";
    if (batch->sequence < shard->last_sequence)
        shard->fault = "batches out of order";
    shard->stored[batch->sequence] = true;
    shard->last_sequence = batch->sequence;
    shard->stored_count++;
    shard->samples += samples;
    shard->lost += lost;
    shard->taken += batch->taken;
}

static void shard_judge(struct scripted_shard *shard, const Fleetprof__Batch *batch, Fleetprof__Ack *ack)
{
    if (batch->session != shard->session || shard_uses(&shard->no_session_count)) {
        ack->verdict = FLEETPROF__VERDICT__NO_SESSION;
    } else if (batch->sequence >= shard->refuse_from && batch->sequence < shard->refuse_to) {
        ack->verdict = FLEETPROF__VERDICT__REFUSED;
    } else if (shard_uses(&shard->retry_count)) {
        ack->verdict = FLEETPROF__VERDICT__RETRY;
        ack->retry_after_ms = shard->retry_after_ms;
    } else if (shard_uses(&shard->mismatch_count)) {
        ack->sequence = batch->sequence + 1000; /* claims to have stored what was never sent */
    } else {
        shard_store(shard, batch);
    }
}

static void shard_on_batch(struct scripted_shard *shard, struct link_request *request,
                           const Fleetprof__Batch *batch)
{
    shard->batch_count++;
    if (shard->silent) {
        shard_hold(shard, request);
        return;
    }
    if (shard->other_version || shard_uses(&shard->unreadable_count)) {
        shard_refuse(shard, request, (char[]){"cannot read it"});
        return;
    }
    if (shard_uses(&shard->garbage_count)) {
        link_reply(request, "flpf\1\0\4\0\xff\xff\xff\xff and more", 21);
        return;
    }
    Fleetprof__Ack ack = FLEETPROF__ACK__INIT;
    ack.sequence = batch->sequence;
    shard_judge(shard, batch, &ack);
    ProtobufCBinaryData wanted[3] = {{16, (uint8_t[]){SHARD_WANTED_ID}}, {0, NULL}, {33, (uint8_t[33]){1}}};
    if (shard->wants) {
        ack.n_want_executable = 3;
        ack.want_executable = wanted;
    }
    if (ack.verdict == FLEETPROF__VERDICT__STORED && shard_uses(&shard->swallow_count))
        shard_hold(shard, request);
    else
        shard_send(shard, request, &ack.base, WIRE_ACK);
}

static void shard_answer_pack(struct scripted_shard *shard, struct link_request *request)
{
    Fleetprof__PackReply reply = FLEETPROF__PACK_REPLY__INIT;
    reply.verdict = shard->pack_verdict;
    shard_send(shard, request, &reply.base, WIRE_PACK_REPLY);
}

static void shard_on_pack(struct scripted_shard *shard, struct link_request *request)
{
    shard->pack_count++;
    if (!shard->hold_packs) {
        shard_answer_pack(shard, request);
        return;
    }
    shard->held_pack_count++;
    shard_hold(shard, request);
}

static void shard_on_request(struct link_request *request, void *ctx)
{
    struct scripted_shard *shard = ctx;
    size_t bytes;
    const void *data = link_request_data(request, &bytes);
    struct wire_header header = {0};
    ProtobufCMessage *message = NULL;
    pthread_mutex_lock(&shard->lock);
    if (wire_peek(data, bytes, &header, NULL) < 0 ||
        wire_unpack(data, bytes, (enum wire_type)header.type, &message, NULL) < 0) {
        shard->fault = "a message that cannot be read";
        link_reply(request, NULL, 0);
    } else if (header.type == WIRE_HELLO) {
        shard_on_hello(shard, request, (Fleetprof__Hello *)message);
    } else if (header.type == WIRE_BATCH) {
        shard_on_batch(shard, request, (Fleetprof__Batch *)message);
    } else {
        shard_on_pack(shard, request);
    }
    pthread_mutex_unlock(&shard->lock);
    wire_free(message);
}

int scripted_shard_start(struct scripted_shard *shard)
{
    pthread_mutex_lock(&shard->lock);
    shard->epoch++;
    shard->session = 0;
    shard->held_count = 0;
    pthread_mutex_unlock(&shard->lock);
    const char *address = shard->address[0] ? shard->address : "tcp://127.0.0.1:0";
    int rc = link_server_open(address, SHARD_HELD, shard_on_request, shard, &shard->server, NULL);
    if (rc == 0)
        snprintf(shard->address, sizeof(shard->address), "tcp://127.0.0.1:%d",
                 link_server_port(shard->server));
    return rc;
}

void scripted_shard_stop(struct scripted_shard *shard)
{
    link_server_close(shard->server);
    shard->server = NULL;
}

void scripted_shard_release_packs(struct scripted_shard *shard)
{
    pthread_mutex_lock(&shard->lock);
    shard->hold_packs = false;
    for (unsigned i = 0; i < shard->held_count; i++)
        shard_answer_pack(shard, shard->held[i]);
    shard->held_count = 0;
    pthread_mutex_unlock(&shard->lock);
}
