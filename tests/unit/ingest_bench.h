/* ingest_bench: one partition, and agents that speak to it without a network. For tests.
 * Threads: the test's. */
#ifndef TESTS_UNIT_INGEST_BENCH_H
#define TESTS_UNIT_INGEST_BENCH_H

#include "aggregator/ingest.h"

#include "aggregator/top.h"
#include "common/clock.h"
#include "common/link.h"
#include "common/xalloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EPOCH  77u
#define MINUTE 60000u

static inline struct partition_settings roomy(void)
{
    return (struct partition_settings){.shard = "tcp://here:1",
                                       .shard_epoch = EPOCH,
                                       .count = 1,
                                       .nodes = 10,
                                       .window_bytes = 64u << 20,
                                       .retention_ms = 15 * MINUTE,
                                       .session_bytes = 1u << 20,
                                       .dictionary = {100000, 1000, 100000, 100000, 100000, 1000, 10u << 20}};
}

struct bench {
    struct symbol_packs *packs;
    struct partition *partition;
    struct wire_session *session;
    const char *node;
    uint64_t now_ms, sequence, next_session;
};

static inline void open_bench(struct bench *bench, const struct partition_settings *settings)
{
    struct partition_settings plain = roomy();
    *bench = (struct bench){.packs = symbol_packs_new(1u << 20), .node = "node-a", .next_session = 1};
    bench->partition = partition_new(settings ? settings : &plain, bench->packs);
    bench->now_ms = clock_wall_ns() / CLOCK_NS_PER_MS; /* the encoder stamps messages with the real time */
}

static inline void close_bench(struct bench *bench)
{
    wire_session_free(bench->session);
    partition_free(bench->partition);
    symbol_packs_free(bench->packs);
}

/* The reply; the caller frees it. */
static inline ProtobufCMessage *say(struct bench *bench, const struct buf *message, enum wire_type reply_type)
{
    struct buf reply = buf_init(LINK_MESSAGE_BYTES);
    ProtobufCMessage *out = NULL;
    struct err err = {0};
    ingest(bench->partition, message->data, message->used_bytes, bench->now_ms, &reply);
    if (wire_unpack(reply.data, reply.used_bytes, reply_type, &out, &err) < 0)
        fail_msg("%s", err.text);
    buf_fini(&reply);
    return out;
}

static inline int hello_with(struct bench *bench, uint64_t boot_epoch, Fleetprof__Hello *hello,
                             uint64_t *ret_last)
{
    wire_session_free(bench->session);
    bench->session = wire_session_new(bench->next_session++, 100000);
    hello->node = (char *)(uintptr_t)bench->node;
    hello->boot_epoch = boot_epoch;
    hello->session = wire_session_id(bench->session);
    struct buf out = buf_init(LINK_MESSAGE_BYTES);
    assert_int_equal(wire_pack(&hello->base, WIRE_HELLO, wire_route(bench->node), &out, NULL), 0);
    Fleetprof__HelloReply *reply = (Fleetprof__HelloReply *)say(bench, &out, WIRE_HELLO_REPLY);
    int verdict = (int)reply->verdict;
    if (verdict == FLEETPROF__VERDICT__STORED)
        assert_int_equal(reply->shard_epoch, EPOCH);
    else
        assert_true(strlen(reply->reason) > 10);
    if (ret_last)
        *ret_last = reply->last_sequence;
    wire_free(&reply->base);
    buf_fini(&out);
    return verdict;
}

static inline int hello(struct bench *bench, uint64_t boot_epoch)
{
    Fleetprof__Hello message = FLEETPROF__HELLO__INIT;
    return hello_with(bench, boot_epoch, &message, NULL);
}

static inline uint32_t stack_of(struct stackset *set, const char *function)
{
    uint32_t module = stackset_cstring(set, "app");
    uint32_t root = stackset_node(
        set, STACKSET_ROOT, stackset_frame(set, FRAME_KERNEL, stackset_cstring(set, "main"), module, 0));
    return stackset_node(set, root,
                         stackset_frame(set, FRAME_KERNEL, stackset_cstring(set, function), module, 0));
}

static inline void add(struct stackset *set, const char *process, const char *function, uint64_t value,
                       uint64_t count)
{
    struct stackset_label label = {stackset_cstring(set, "process"), stackset_cstring(set, process)};
    stackset_add(set, stackset_series(set, &label, 1), stack_of(set, function), value, count);
}

/* change (may be NULL) alters the message before it goes out. */
typedef void (*change_fn)(Fleetprof__Batch *batch, uint64_t argument);

static inline struct buf encode(struct bench *bench, uint64_t sequence, uint64_t start_ms,
                                struct stackset *set, change_fn change, uint64_t argument)
{
    const struct wire_counter lost = {"ring_full", 3};
    struct wire_batch batch = {.sequence = sequence,
                               .window_start_ms = start_ms,
                               .window_ms = 10000,
                               .kind = "cpu",
                               .unit = "nanoseconds",
                               .scale = 1000,
                               .lost = &lost,
                               .lost_count = 1};
    for (uint32_t i = 0; i < set->row_count; i++)
        batch.taken_count += set->rows[i].count;
    batch.taken_count += lost.value;
    struct buf out = buf_init(LINK_MESSAGE_BYTES);
    stackset_sort_rows(set);
    assert_int_equal(wire_encode_batch(bench->session, &batch, set, wire_route(bench->node), &out, NULL), 0);
    if (change) {
        ProtobufCMessage *message;
        assert_int_equal(wire_unpack(out.data, out.used_bytes, WIRE_BATCH, &message, NULL), 0);
        change((Fleetprof__Batch *)message, argument);
        buf_clear(&out);
        assert_int_equal(wire_pack(message, WIRE_BATCH, wire_route(bench->node), &out, NULL), 0);
        wire_free(message);
    }
    return out;
}

static inline int send_message(struct bench *bench, struct buf *message)
{
    Fleetprof__Ack *ack = (Fleetprof__Ack *)say(bench, message, WIRE_ACK);
    int verdict = (int)ack->verdict;
    wire_free(&ack->base);
    return verdict;
}

static inline int send_set(struct bench *bench, uint64_t sequence, uint64_t start_ms, struct stackset *set)
{
    struct buf message = encode(bench, sequence, start_ms, set, NULL, 0);
    int verdict = send_message(bench, &message);
    buf_fini(&message);
    stackset_free(set);
    return verdict;
}

/* One window with one row of function f. */
static inline int send_one(struct bench *bench, uint64_t sequence, uint64_t start_ms, const char *function,
                           uint64_t count)
{
    struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
    add(set, "p", function, count * 100, count);
    return send_set(bench, sequence, start_ms, set);
}

/* ---- what is there ---- */

struct found {
    struct top_table table;
    struct completeness completeness;
};

static inline struct found ask(struct bench *bench, const char *group, uint64_t from_ms, uint64_t to_ms)
{
    struct found found = {0};
    struct top_request request = {.group_count = 1};
    request.selection.from_ms = from_ms;
    request.selection.to_ms = to_ms;
    snprintf(request.groups[0], sizeof(request.groups[0]), "%s", group);
    top_of_partition(&request, bench->partition, bench->now_ms, &found.table, &found.completeness);
    top_table_sort(&found.table);
    return found;
}

static inline uint64_t samples_between(struct bench *bench, uint64_t from_ms, uint64_t to_ms)
{
    struct found found = ask(bench, "function", from_ms, to_ms);
    top_table_fini(&found.table);
    return found.completeness.samples;
}

static inline uint64_t all_samples(struct bench *bench)
{
    return samples_between(bench, 0, UINT64_MAX);
}

static inline uint64_t lost_by(const struct completeness *completeness, const char *cause)
{
    for (uint32_t i = 0; i < completeness->loss_count; i++)
        if (strcmp(completeness->losses[i].cause, cause) == 0)
            return completeness->losses[i].samples;
    return 0;
}

static inline uint64_t all_lost_by(struct bench *bench, const char *cause)
{
    struct found found = ask(bench, "function", 0, UINT64_MAX);
    top_table_fini(&found.table);
    return lost_by(&found.completeness, cause);
}

#endif
