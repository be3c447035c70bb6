/* bench_load: a fleet of synthetic agents over real connections: hello, windows in order, acknowledgements,
 * symbol packs. Prints one JSON object with what was sent and how long it took; the caller reads the shards'
 * CPU time around it. bench_load --shards tcp://...,tcp://... [--agents 100] [--windows 90] [--rows 500]
 * [--in-flight 64] [--seed 1] Windows end now and reach windows * 10 s into the past. Every batch must be
 * STORED, else the exit status is 1. */
#include "common/clock.h"
#include "common/hashring.h"
#include "common/inbox.h"
#include "common/link.h"
#include "common/wire.h"
#include "common/xalloc.h"
#include "tests/bench/fleet_model.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_MS     10000u
#define CALL_MS       30000
#define MAX_SHARDS    64u
#define SESSION_NODES 262144u

struct settings {
    char *shards;
    uint32_t agents, windows, rows, in_flight;
    uint64_t seed;
};

struct load;

struct agent {
    struct load *load;
    struct fleet_node *node;
    struct wire_session *session;
    struct link_client *shard;
    uint64_t route, boot_epoch, samples_under_way, rows_under_way;
    uint32_t sent_windows;
    bool greeted;
};

struct reply {
    struct agent *agent;
    bool pack;
    int rc;
    size_t bytes;
    char data[];
};

struct load {
    struct settings settings;
    const char *addresses[MAX_SHARDS];
    struct link_client *clients[MAX_SHARDS];
    size_t shard_count;
    struct agent *agents;
    struct inbox *inbox;
    struct buf buf;
    uint64_t base_ms;
    uint64_t batches, rows, samples, first_bytes, first_rows, steady_bytes, steady_rows, steady_samples,
        packs, reopened, failures;
    uint32_t under_way, finished;
};

static void post(struct agent *agent, bool pack, int rc, const void *data, size_t bytes)
{
    struct reply *reply = xmalloc(sizeof(*reply) + bytes);
    *reply = (struct reply){.agent = agent, .pack = pack, .rc = rc, .bytes = bytes};
    if (bytes)
        memcpy(reply->data, data, bytes);
    if (inbox_put(agent->load->inbox, reply) < 0)
        abort(); /* sized for everything that can be under way */
}

static void on_reply(int rc, const void *data, size_t bytes, void *ctx)
{
    post(ctx, false, rc, data, bytes);
}

static void on_pack_reply(int rc, const void *data, size_t bytes, void *ctx)
{
    post(ctx, true, rc, data, bytes);
}

static void fail(struct load *load, const char *what, const char *why)
{
    if (load->failures++ < 5)
        fprintf(stderr, "bench_load: %s: %s\n", what, why);
}

static void send_hello(struct agent *agent)
{
    struct load *load = agent->load;
    Fleetprof__Hello hello = FLEETPROF__HELLO__INIT;
    hello.node = (char *)fleet_node_name(agent->node);
    hello.boot_epoch = agent->boot_epoch;
    hello.session = wire_session_id(agent->session);
    hello.agent_version = (char *)"bench";
    hello.kernel = (char *)"model";
    hello.event = (char *)"cpu-clock";
    hello.hz = 99;
    hello.cpus = 2;
    hello.next_sequence = 1;
    struct err err;
    buf_clear(&load->buf);
    if (wire_pack(&hello.base, WIRE_HELLO, agent->route, &load->buf, &err) < 0)
        fail(load, "pack hello", err.text);
    load->under_way++;
    link_call(agent->shard, load->buf.data, load->buf.used_bytes, CALL_MS, on_reply, agent);
}

static void send_batch(struct agent *agent)
{
    struct load *load = agent->load;
    uint64_t samples;
    struct stackset *set = fleet_node_window(agent->node, &samples);
    const struct wire_batch batch = {
        .sequence = agent->sent_windows + 1,
        .window_start_ms = load->base_ms + (uint64_t)agent->sent_windows * WINDOW_MS,
        .window_ms = WINDOW_MS,
        .taken_count = samples,
        .kind = "cpu",
        .unit = "nanoseconds",
        .scale = 1000,
    };
    struct err err;
    buf_clear(&load->buf);
    if (wire_encode_batch(agent->session, &batch, set, agent->route, &load->buf, &err) < 0)
        fail(load, "encode batch", err.text);
    agent->rows_under_way = set->row_count;
    agent->samples_under_way = samples;
    if (agent->sent_windows < 3) { /* by then a session has seen nearly every stack of its node */
        load->first_bytes += load->buf.used_bytes;
        load->first_rows += set->row_count;
    } else {
        load->steady_bytes += load->buf.used_bytes;
        load->steady_rows += set->row_count;
        load->steady_samples += samples;
    }
    agent->sent_windows++;
    load->under_way++;
    link_call(agent->shard, load->buf.data, load->buf.used_bytes, CALL_MS, on_reply, agent);
}

/* One pack for the whole executable: its functions of the model, 1 KiB each. */
static void send_pack(struct agent *agent, const ProtobufCBinaryData *id)
{
    struct load *load = agent->load;
    if (id->len < 3)
        return;
    uint32_t number = id->data[2];
    static uint64_t steps[MODEL_FUNCTIONS], sizes[MODEL_FUNCTIONS];
    static uint32_t name_bytes[MODEL_FUNCTIONS];
    static char names[MODEL_FUNCTIONS * 32];
    size_t count = 0, used = 0;
    uint64_t last = 0;
    for (uint32_t f = number; f < MODEL_FUNCTIONS; f += MODEL_EXECUTABLES) {
        uint64_t start = 0x1000 + f * 1024ULL;
        steps[count] = start - last;
        last = start;
        sizes[count] = 1024;
        int n = snprintf(names + used, 32, "service%u::function_%04u", number, f);
        name_bytes[count++] = (uint32_t)n;
        used += (size_t)n;
    }
    Fleetprof__Pack pack = FLEETPROF__PACK__INIT;
    pack.executable = *id;
    pack.name = (char *)"service";
    pack.parts = 1;
    pack.n_start_step = pack.n_size = pack.n_name_bytes = count;
    pack.start_step = steps;
    pack.size = sizes;
    pack.name_bytes = name_bytes;
    pack.names = (ProtobufCBinaryData){.len = used, .data = (uint8_t *)names};
    struct err err;
    buf_clear(&load->buf);
    if (wire_pack(&pack.base, WIRE_PACK, agent->route, &load->buf, &err) < 0)
        fail(load, "pack", err.text);
    load->packs++;
    load->under_way++;
    link_call(agent->shard, load->buf.data, load->buf.used_bytes, CALL_MS, on_pack_reply, agent);
}

static void go_on(struct agent *agent)
{
    struct load *load = agent->load;
    if (agent->sent_windows < load->settings.windows)
        send_batch(agent);
    else
        load->finished++;
}

static void take_hello_reply(struct agent *agent, const struct reply *reply)
{
    struct err err;
    ProtobufCMessage *message;
    if (wire_unpack(reply->data, reply->bytes, WIRE_HELLO_REPLY, &message, &err) < 0) {
        fail(agent->load, "hello reply", err.text);
        return;
    }
    const Fleetprof__HelloReply *hello = (const Fleetprof__HelloReply *)message;
    if (hello->verdict != FLEETPROF__VERDICT__STORED)
        fail(agent->load, "hello refused", hello->reason);
    agent->greeted = true;
    wire_free(message);
    go_on(agent);
}

/* The shard has let the session go: as agents do, open another one and send that window again. */
static void greet_again(struct agent *agent)
{
    agent->load->reopened++;
    uint64_t id = wire_session_id(agent->session) + (1ULL << 32);
    wire_session_free(agent->session);
    agent->session = wire_session_new(id, SESSION_NODES);
    agent->greeted = false;
    agent->sent_windows--;
    send_hello(agent);
}

static void take_ack(struct agent *agent, const struct reply *reply)
{
    struct load *load = agent->load;
    struct err err;
    ProtobufCMessage *message;
    if (wire_unpack(reply->data, reply->bytes, WIRE_ACK, &message, &err) < 0) {
        fail(load, "ack", err.text);
        return;
    }
    const Fleetprof__Ack *ack = (const Fleetprof__Ack *)message;
    if (ack->verdict == FLEETPROF__VERDICT__STORED) {
        load->batches++;
        load->rows += agent->rows_under_way;
        load->samples += agent->samples_under_way;
    } else if (ack->verdict == FLEETPROF__VERDICT__NO_SESSION) {
        wire_free(message);
        greet_again(agent);
        return;
    } else {
        fail(load, "batch not stored", ack->reason);
    }
    for (size_t i = 0; i < ack->n_want_executable; i++)
        send_pack(agent, &ack->want_executable[i]);
    wire_free(message);
    go_on(agent);
}

static void take(struct load *load, struct reply *reply)
{
    load->under_way--;
    if (reply->rc < 0)
        fail(load, "call", strerror(-reply->rc));
    else if (reply->pack)
        ;
    else if (!reply->agent->greeted)
        take_hello_reply(reply->agent, reply);
    else
        take_ack(reply->agent, reply);
    free(reply);
}

static void open_fleet(struct load *load)
{
    char *at = load->settings.shards;
    for (char *address; (address = strsep(&at, ",")) && load->shard_count < MAX_SHARDS;) {
        struct err err;
        load->addresses[load->shard_count] = address;
        if (link_client_open(address, &load->clients[load->shard_count++], &err) < 0) {
            fprintf(stderr, "bench_load: %s\n", err.text);
            exit(2);
        }
    }
    struct fleet_model *model = fleet_model_new(load->settings.seed, load->settings.rows);
    load->agents = xcalloc(load->settings.agents, sizeof(*load->agents));
    for (uint32_t i = 0; i < load->settings.agents; i++) {
        struct agent *agent = &load->agents[i];
        agent->load = load;
        agent->node = fleet_node_new(model, i);
        agent->session = wire_session_new(i + 1, SESSION_NODES);
        agent->route = wire_route(fleet_node_name(agent->node));
        agent->boot_epoch = clock_wall_ns() + i;
        const char *name = fleet_node_name(agent->node);
        agent->shard = load->clients[hashring_pick(name, strlen(name), load->addresses, load->shard_count)];
    }
    /* The model stays: the nodes borrow it. */
}

static double run(struct load *load)
{
    uint64_t start_ns = clock_mono_ns();
    uint32_t started = 0;
    while (load->finished < load->settings.agents && load->failures == 0) {
        while (started < load->settings.agents && started - load->finished < load->settings.in_flight)
            send_hello(&load->agents[started++]);
        struct reply *reply = inbox_wait(load->inbox, 60000);
        if (!reply) {
            fail(load, "waiting", "no reply for 60 s");
            break;
        }
        take(load, reply);
    }
    double seconds = (double)(clock_mono_ns() - start_ns) / 1e9;
    for (struct reply *reply; load->under_way > 0 && (reply = inbox_wait(load->inbox, 5000));)
        take(load, reply);
    return seconds;
}

static double ratio(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : 0;
}

int main(int argc, char **argv)
{
    struct load load = {
        .settings = {.agents = 100, .windows = 90, .rows = 500, .in_flight = 64, .seed = 1},
        .buf = buf_init(LINK_MESSAGE_BYTES),
    };
    static const struct option options[] = {{"shards", required_argument, NULL, 's'},
                                            {"agents", required_argument, NULL, 'a'},
                                            {"windows", required_argument, NULL, 'w'},
                                            {"rows", required_argument, NULL, 'r'},
                                            {"in-flight", required_argument, NULL, 'i'},
                                            {"seed", required_argument, NULL, 'S'},
                                            {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        uint64_t number = optarg ? strtoull(optarg, NULL, 10) : 0;
        if (c == 's')
            load.settings.shards = xstrdup(optarg);
        else if (c == 'a')
            load.settings.agents = (uint32_t)number;
        else if (c == 'w')
            load.settings.windows = (uint32_t)number;
        else if (c == 'r')
            load.settings.rows = (uint32_t)number;
        else if (c == 'i')
            load.settings.in_flight = (uint32_t)number;
        else if (c == 'S')
            load.settings.seed = number;
        else
            return 2;
    }
    if (!load.settings.shards) {
        fprintf(stderr, "bench_load: --shards is needed\n");
        return 2;
    }
    load.base_ms = clock_wall_ns() / CLOCK_NS_PER_MS - (uint64_t)load.settings.windows * WINDOW_MS;
    load.inbox = inbox_open_thread(1 << 20);
    open_fleet(&load);
    double seconds = run(&load);
    printf(
        "{\"agents\": %u, \"batches\": %llu, \"rows\": %llu, \"samples\": %llu, \"packs\": %llu, "
        "\"seconds\": %.3f, "
        "\"bytes_per_row_first\": %.2f, \"bytes_per_row_steady\": %.2f, \"bytes_per_sample_steady\": %.2f, "
        "\"reopened\": %llu, \"failures\": %llu}\n",
        load.settings.agents, (unsigned long long)load.batches, (unsigned long long)load.rows,
        (unsigned long long)load.samples, (unsigned long long)load.packs, seconds,
        ratio(load.first_bytes, load.first_rows), ratio(load.steady_bytes, load.steady_rows),
        ratio(load.steady_bytes, load.steady_samples), (unsigned long long)load.reopened,
        (unsigned long long)load.failures);
    return load.failures ? 1 : 0;
}
