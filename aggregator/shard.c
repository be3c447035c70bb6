#include "aggregator/shard.h"

#include "aggregator/answer.h"
#include "aggregator/desk.h"
#include "aggregator/ingest.h"
#include "aggregator/pack_exchange.h"
#include "aggregator/peers.h"
#include "common/clock.h"
#include "common/link.h"
#include "common/xalloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define BUSY_RETRY_MS   1000u
#define MAX_EXECUTABLES 65536u
/* In proportion to call-tree nodes, as seen in real programs: about two nodes a frame, two frames a
 * function. */
#define NODES_A_FRAME       2u
#define STRING_BYTES_A_NODE 64u
/* Agents' sessions: an id is 4 bytes. An agent knows some 16,000 nodes and as many frames, 130 KB: room for 10,000 of
 * them, of which most nodes are known to many. */
#define SESSION_BYTES_A_NODE 160u

struct shard {
    struct symbol_packs *packs;
    struct crew *crew;
    struct peers *peers;
    struct answers *answers;
    struct query *query;
    struct desk *desk;
    struct pack_exchange *exchange;
    struct link_server *server;
    char *address;
    atomic_bool taking;
    struct metric *busy, *foreign;
};

/* ---- requests, on nng's threads ---- */

static void reply_refusal(struct link_request *request, const char *reason)
{
    Fleetprof__HelloReply message = FLEETPROF__HELLO_REPLY__INIT;
    struct buf out = buf_init(LINK_MESSAGE_BYTES);
    message.verdict = FLEETPROF__VERDICT__REFUSED;
    message.reason = (char *)(uintptr_t)reason; /* protobuf-c has no const; packing only reads */
    wire_pack(&message.base, WIRE_REFUSAL, 0, &out, NULL);
    link_reply(request, out.data, out.used_bytes);
    buf_fini(&out);
}

static void put_off(struct shard *shard, struct link_request *request, enum wire_type type)
{
    struct buf out = buf_init(LINK_MESSAGE_BYTES);
    metric_add(shard->busy, 1);
    if (type == WIRE_HELLO || type == WIRE_BATCH)
        ingest_put_off(type, BUSY_RETRY_MS, "the shard is busy", &out);
    else
        desk_put_off(type, "the shard is busy", &out);
    link_reply(request, out.data, out.used_bytes);
    buf_fini(&out);
}

static void on_request(struct link_request *request, void *ctx)
{
    struct shard *shard = ctx;
    struct wire_header header;
    struct err err = {0};
    size_t bytes;
    const void *data = link_request_data(request, &bytes);
    if (wire_peek(data, bytes, &header, &err) < 0) {
        metric_add(shard->foreign, 1);
        reply_refusal(request, err.text);
        return;
    }
    int rc = -EAGAIN;
    switch (header.type) {
    case WIRE_HELLO:
    case WIRE_BATCH:
        if (atomic_load(&shard->taking))
            rc = crew_take(shard->crew, request, header.route);
        break;
    case WIRE_PACK:
    case WIRE_PACK_GET:
    case WIRE_TOP_REQUEST:
    case WIRE_STACKS_REQUEST:
    case WIRE_LABELS_REQUEST:
    case WIRE_AGENTS_REQUEST:
        if (atomic_load(&shard->taking))
            rc = desk_take(shard->desk, request, (enum wire_type)header.type);
        break;
    default:
        metric_add(shard->foreign, 1);
        reply_refusal(request, "not a request that a shard answers");
        return;
    }
    if (rc < 0)
        put_off(shard, request, (enum wire_type)header.type);
}

/* ---- wiring ---- */

static struct crew_settings crew_settings(const struct shard *shard, const struct shard_settings *settings)
{
    uint32_t nodes = settings->max_stacks, frames = nodes / NODES_A_FRAME + 1;
    uint64_t string_bytes = (uint64_t)nodes * STRING_BYTES_A_NODE;
    struct crew_settings crew = {
        .worker_count = settings->workers,
        .partition =
            {
                .shard = shard->address,
                .dictionary =
                    {
                        .strings = nodes,
                        .executables = MAX_EXECUTABLES,
                        .frames = frames,
                        .functions = frames,
                        .nodes = nodes,
                        .series = settings->max_series,
                        .string_bytes = string_bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)string_bytes,
                    },
                .nodes = settings->max_nodes,
                .window_bytes = settings->window_bytes,
                .retention_ms = settings->retention_ms,
                .session_bytes = (uint64_t)nodes * SESSION_BYTES_A_NODE,
            },
    };
    /* Tells this life of the shard from every other. */
    if (getrandom(&crew.partition.shard_epoch, sizeof(crew.partition.shard_epoch), 0) !=
        sizeof(crew.partition.shard_epoch))
        crew.partition.shard_epoch = clock_wall_ns();
    return crew;
}

static int open_parts(struct shard *shard, const struct shard_settings *settings, struct err *err)
{
    shard->address = xstrdup(settings->shards[settings->self]);
    shard->packs = symbol_packs_new(settings->pack_bytes);
    struct crew_settings crew = crew_settings(shard, settings);
    shard->crew = crew_open(&crew, shard->packs);
    if (!shard->crew)
        return err_say(err, -EAGAIN, "worker threads cannot be started");
    int rc = peers_open(settings->shards, settings->shard_count, settings->self, &shard->peers, err);
    if (rc < 0)
        return rc;
    shard->answers = answers_new(shard->crew, shard->address);
    shard->query = query_new(shard->answers, shard->peers, settings->query_timeout_ms);
    shard->desk = desk_open(shard->answers, shard->packs, settings->query_timeout_ms);
    shard->exchange = shard->desk ? pack_exchange_open(shard->packs, shard->peers) : NULL;
    if (!shard->exchange)
        return err_say(err, -EAGAIN, "threads cannot be started");
    atomic_store(&shard->taking, true);
    return link_server_open(settings->listen, SHARD_IN_FLIGHT, on_request, shard, &shard->server, err);
}

int shard_open(const struct shard_settings *settings, struct shard **ret_shard, struct err *err)
{
    if (settings->workers == 0 || settings->workers > CREW_MAX_WORKERS)
        return err_say(err, -EINVAL, "1 to %u workers", CREW_MAX_WORKERS);
    struct shard *shard = xcalloc(1, sizeof(*shard));
    shard->busy = metrics_counter("fleetprof_shard_put_off_total",
                                  "Requests answered with RETRY: inboxes full", NULL, NULL);
    shard->foreign = metrics_counter("fleetprof_shard_foreign_requests_total",
                                     "Requests that could not be read or are of another version", NULL, NULL);
    int rc = open_parts(shard, settings, err);
    if (rc < 0) {
        shard_close(shard);
        return rc;
    }
    *ret_shard = shard;
    return 0;
}

void shard_close(struct shard *shard)
{
    if (!shard)
        return;
    atomic_store(&shard->taking, false);
    /* Those who wait for others first, so that nobody waits for a thread that is gone. */
    pack_exchange_close(shard->exchange);
    if (shard->desk)
        desk_stop(shard->desk);
    if (shard->crew)
        crew_stop(shard->crew);
    if (shard->server)
        link_server_close(shard->server);
    desk_free(shard->desk);
    crew_free(shard->crew);
    query_free(shard->query);
    answers_free(shard->answers);
    peers_close(shard->peers);
    symbol_packs_free(shard->packs);
    free(shard->address);
    free(shard);
}

struct query *shard_query(struct shard *shard)
{
    return shard->query;
}

int shard_health(struct shard *shard, struct err *err)
{
    return crew_health(shard->crew, clock_mono_ns(), err);
}

int shard_ready(struct shard *shard, struct err *err)
{
    return atomic_load(&shard->taking) ? shard_health(shard, err)
                                       : err_say(err, -EAGAIN, "the shard is stopping");
}
