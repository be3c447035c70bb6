/* fleet: whole shards in one process on loopback ports, agents that talk to them over real links, and the
 * sums that the answers must equal, kept beside in the simplest way. For tests. Threads: the test's. */
#ifndef TESTS_UNIT_FLEET_H
#define TESTS_UNIT_FLEET_H

#include "aggregator/query.h"
#include "aggregator/shard.h"
#include "common/clock.h"
#include "common/hashring.h"
#include "common/link.h"
#include "common/wire.h"
#include "common/xalloc.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define FLEET_SHARDS  8u
#define FLEET_CALL_MS 20000

struct fleet {
    size_t count;
    char addresses[FLEET_SHARDS][40];
    const char *list[FLEET_SHARDS];
    struct shard_settings settings;
    struct shard *shards[FLEET_SHARDS];
    struct link_client *clients[FLEET_SHARDS];
};

/* A port that nobody listens on at the moment. */
static inline int fleet_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static inline void fleet_start(struct fleet *fleet, size_t shard)
{
    struct err err = {0};
    fleet->settings.listen = fleet->list[shard];
    fleet->settings.self = shard;
    int rc = shard_open(&fleet->settings, &fleet->shards[shard], &err);
    if (rc < 0)
        fail_msg("shard_open: %s", err.text);
}

static inline void fleet_stop(struct fleet *fleet, size_t shard)
{
    shard_close(fleet->shards[shard]);
    fleet->shards[shard] = NULL;
}

/* settings may be NULL; listen, shards, self are filled in. */
static inline void fleet_open(struct fleet *fleet, size_t count, const struct shard_settings *settings)
{
    *fleet = (struct fleet){.count = count};
    if (settings)
        fleet->settings = *settings;
    else
        fleet->settings = (struct shard_settings){.workers = 2,
                                                  .retention_ms = 3600000,
                                                  .window_bytes = 64u << 20,
                                                  .pack_bytes = 64u << 20,
                                                  .query_timeout_ms = 20000,
                                                  .max_nodes = 1000,
                                                  .max_stacks = 1000000,
                                                  .max_series = 10000};
    for (size_t i = 0; i < count; i++) {
        snprintf(fleet->addresses[i], sizeof(fleet->addresses[i]), "tcp://127.0.0.1:%d", fleet_free_port());
        fleet->list[i] = fleet->addresses[i];
    }
    fleet->settings.shards = fleet->list;
    fleet->settings.shard_count = count;
    for (size_t i = 0; i < count; i++) {
        fleet_start(fleet, i);
        assert_int_equal(link_client_open(fleet->list[i], &fleet->clients[i], NULL), 0);
    }
}

static inline void fleet_close(struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->count; i++)
        link_client_close(fleet->clients[i]);
    for (size_t i = 0; i < fleet->count; i++)
        shard_close(fleet->shards[i]);
}

/* ---- agents ---- */
struct fleet_agent {
    const char *node;
    size_t shard;
    uint64_t epoch, sequence;
    struct wire_session *session;
};

static inline void *fleet_call(struct fleet *fleet, size_t shard, const struct buf *message,
                               enum wire_type type)
{
    void *data;
    size_t bytes;
    ProtobufCMessage *reply = NULL;
    assert_int_equal(link_call_wait(fleet->clients[shard], message->data, message->used_bytes, FLEET_CALL_MS,
                                    &data, &bytes),
                     0);
    struct err err = {0};
    if (wire_unpack(data, bytes, type, &reply, &err) < 0)
        fail_msg("reply: %s", err.text);
    free(data);
    return reply;
}

/* The caller frees the reply. */
static inline Fleetprof__HelloReply *fleet_hello(struct fleet *fleet, struct fleet_agent *agent,
                                                 Fleetprof__Hello *more)
{
    static uint64_t next_session = 1000;
    Fleetprof__Hello plain = FLEETPROF__HELLO__INIT;
    Fleetprof__Hello *hello = more ? more : &plain;
    wire_session_free(agent->session);
    agent->session = wire_session_new(next_session++, 1u << 20);
    hello->node = (char *)(uintptr_t)agent->node;
    hello->boot_epoch = agent->epoch;
    hello->session = wire_session_id(agent->session);
    hello->next_sequence = agent->sequence + 1;
    struct buf out = buf_init(LINK_MESSAGE_BYTES);
    assert_int_equal(wire_pack(&hello->base, WIRE_HELLO, wire_route(agent->node), &out, NULL), 0);
    Fleetprof__HelloReply *reply = fleet_call(fleet, agent->shard, &out, WIRE_HELLO_REPLY);
    buf_fini(&out);
    return reply;
}

static inline void fleet_agent_open(struct fleet *fleet, struct fleet_agent *agent, const char *node,
                                    uint64_t epoch)
{
    *agent = (struct fleet_agent){.node = node, .epoch = epoch};
    agent->shard = hashring_pick(node, strlen(node), fleet->list, fleet->count);
    Fleetprof__HelloReply *reply = fleet_hello(fleet, agent, NULL);
    assert_int_equal(reply->verdict, FLEETPROF__VERDICT__STORED);
    wire_free(&reply->base);
}

static inline void fleet_agent_close(struct fleet_agent *agent)
{
    wire_session_free(agent->session);
}

static inline uint64_t fleet_count_of(const struct stackset *set)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < set->row_count; i++)
        count += set->rows[i].count;
    return count;
}

/* Encodes the next window into out. */
static inline void fleet_encode(struct fleet_agent *agent, struct stackset *set, uint64_t start_ms,
                                struct buf *out)
{
    struct wire_batch batch = {.sequence = ++agent->sequence,
                               .window_start_ms = start_ms,
                               .window_ms = 10000,
                               .taken_count = fleet_count_of(set),
                               .kind = "cpu",
                               .unit = "nanoseconds",
                               .scale = 1000};
    stackset_sort_rows(set);
    assert_int_equal(wire_encode_batch(agent->session, &batch, set, wire_route(agent->node), out, NULL), 0);
}

static inline int fleet_send(struct fleet *fleet, struct fleet_agent *agent, struct stackset *set,
                             uint64_t start_ms)
{
    struct buf out = buf_init(LINK_MESSAGE_BYTES);
    fleet_encode(agent, set, start_ms, &out);
    Fleetprof__Ack *ack = fleet_call(fleet, agent->shard, &out, WIRE_ACK);
    int verdict = (int)ack->verdict;
    wire_free(&ack->base);
    buf_fini(&out);
    return verdict;
}

/* ---- sets ---- */
/* frames root first, ';' between: "main;a;b". A frame "[...]" is a marker, every other one a kernel function
 * of the module "app". */
static inline uint32_t fleet_stack(struct stackset *set, const char *frames)
{
    uint32_t node = STACKSET_ROOT, module = stackset_cstring(set, "app");
    while (*frames) {
        size_t bytes = strcspn(frames, ";");
        uint32_t text = stackset_string(set, frames, bytes);
        uint32_t frame = frames[0] == '[' ? stackset_frame(set, FRAME_MARKER, text, 0, 0)
                                          : stackset_frame(set, FRAME_KERNEL, text, module, 0);
        node = stackset_node(set, node, frame);
        frames += bytes + (frames[bytes] == ';');
    }
    return node;
}

static inline uint32_t fleet_series(struct stackset *set, const char *process)
{
    struct stackset_label label = {stackset_cstring(set, "process"), stackset_cstring(set, process)};
    return stackset_series(set, &label, 1);
}

static inline void fleet_add(struct stackset *set, const char *process, const char *frames, uint64_t value_us,
                             uint64_t count)
{
    assert_int_not_equal(
        stackset_add(set, fleet_series(set, process), fleet_stack(set, frames), value_us, count),
        STACKSET_FULL);
}

/* ---- questions ---- */

static inline struct query_top *fleet_top(struct fleet *fleet, size_t shard,
                                          const struct query_selection *selection, const char *groups,
                                          bool cumulative, size_t limit)
{
    char names[QUERY_MAX_GROUPS][64];
    const char *list[QUERY_MAX_GROUPS];
    size_t count = 0;
    for (const char *at = groups; *at && count < QUERY_MAX_GROUPS; count++) {
        size_t bytes = strcspn(at, ",");
        snprintf(names[count], sizeof(names[count]), "%.*s", (int)bytes, at);
        list[count] = names[count];
        at += bytes + (at[bytes] == ',');
    }
    struct query_top *top = NULL;
    struct err err = {0};
    if (query_top(shard_query(fleet->shards[shard]), selection, list, count, cumulative, limit, &top, &err) <
        0)
        fail_msg("query_top: %s", err.text);
    return top;
}

#endif
