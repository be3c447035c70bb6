/* fuzz_ingest: whatever agents say, one after the other, to one small partition; then questions.
 * Input: records of kind (1 byte), length (2 bytes, little endian), payload. Kinds modulo 6: 0 Hello, 1
 * Batch, 2 symbol pack (payloads are protobuf; the header and the right route are made here), 3 a whole
 * message as it comes, 4 time goes on by payload[0] x 10 s, 5 compaction. Corpus: two agents with a few
 * windows, one pack, made by the encoder. */
#include "aggregator/ingest.h"
#include "aggregator/stacks.h"
#include "aggregator/top.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define START_MS 1700000000000ULL

static void must(bool condition)
{
    if (!condition)
        abort();
}

struct world {
    struct symbol_packs *packs;
    struct partition *partition;
    uint64_t now_ms;
};

/* A message of an uncompressed payload; the caller frees it. */
static uint8_t *message_of(enum wire_type type, uint64_t route, const uint8_t *payload, size_t bytes)
{
    uint8_t *out = calloc(1, WIRE_HEADER_BYTES + bytes);
    must(out != NULL);
    uint16_t type_le = htole16((uint16_t)type);
    uint32_t bytes_le = htole32((uint32_t)bytes);
    uint64_t route_le = htole64(route);
    memcpy(out, "flpf", 4);
    out[4] = WIRE_VERSION;
    memcpy(out + 6, &type_le, 2);
    memcpy(out + 8, &bytes_le, 4);
    memcpy(out + 16, &route_le, 8);
    memcpy(out + WIRE_HEADER_BYTES, payload, bytes);
    return out;
}

/* Every message is answered by one that can be read. */
static void say(struct world *world, const uint8_t *message, size_t bytes)
{
    struct buf reply = buf_init(16u << 20);
    struct wire_header header;
    ingest(world->partition, message, bytes, world->now_ms, &reply);
    must(wire_peek(reply.data, reply.used_bytes, &header, NULL) == 0);
    must(header.type == WIRE_HELLO_REPLY || header.type == WIRE_ACK || header.type == WIRE_REFUSAL);
    ProtobufCMessage *answer;
    must(wire_unpack(reply.data, reply.used_bytes, (enum wire_type)header.type, &answer, NULL) == 0);
    wire_free(answer);
    buf_fini(&reply);
}

static void say_payload(struct world *world, enum wire_type type, const uint8_t *payload, size_t bytes)
{
    uint8_t *message = message_of(type, 0, payload, bytes);
    ProtobufCMessage *hello = NULL;
    if (type == WIRE_HELLO &&
        wire_unpack(message, WIRE_HEADER_BYTES + bytes, WIRE_HELLO, &hello, NULL) == 0) {
        uint64_t route_le = htole64(wire_route(((Fleetprof__Hello *)hello)->node));
        memcpy(message + 16, &route_le, 8);
        wire_free(hello);
    }
    say(world, message, WIRE_HEADER_BYTES + bytes);
    free(message);
}

static void give_pack(struct world *world, const uint8_t *payload, size_t bytes)
{
    uint8_t *message = message_of(WIRE_PACK, 0, payload, bytes);
    ProtobufCMessage *pack = NULL;
    if (wire_unpack(message, WIRE_HEADER_BYTES + bytes, WIRE_PACK, &pack, NULL) == 0) {
        symbol_packs_add(world->packs, (Fleetprof__Pack *)pack, world->now_ms, NULL);
        wire_free(pack);
    }
    free(message);
}

static uint64_t stored_samples(const struct windows *windows)
{
    uint64_t count = 0;
    for (uint32_t b = 0; b < windows->bucket_count; b++) {
        struct window_segment segment;
        for (struct window_cursor c = window_cursor(windows->buckets[b]);
             windows->buckets[b]->kind == 0 && window_next(&c, &segment);)
            for (uint32_t i = 0; i < segment.row_count; i++)
                count += segment.count[i];
    }
    return count;
}

/* Answers speak for exactly what is stored, however they are grouped. */
static void ask(struct world *world, const char *group, bool cumulative)
{
    struct top_request request = {.group_count = 1, .cumulative = cumulative};
    request.selection.to_ms = UINT64_MAX;
    memcpy(request.groups[0], group, strlen(group) + 1);
    struct top_table table = {0};
    struct completeness completeness = {0};
    top_of_partition(&request, world->partition, world->now_ms, &table, &completeness);
    must(completeness.samples == stored_samples(&world->partition->windows));
    uint64_t count = 0;
    for (uint32_t i = 0; i < table.row_count; i++) {
        count += table.rows[i].count;
        must(table.rows[i].count <= completeness.samples);
    }
    must(cumulative || count <= completeness.samples);
    must(strcmp(group, "node") != 0 || count == completeness.samples);
    top_table_fini(&table);
}

static void ask_everything(struct world *world)
{
    ask(world, "function", false);
    ask(world, "function", true);
    ask(world, "node", false);
    struct selection selection = {.to_ms = UINT64_MAX};
    struct completeness completeness = {0};
    struct stackset *set = stacks_of_partition(&selection, world->partition, world->now_ms, &completeness);
    uint64_t count = 0;
    for (uint32_t i = 0; i < set->row_count; i++)
        count += set->rows[i].count;
    must(count == stored_samples(&world->partition->windows));
    stackset_free(set);
}

static void act(struct world *world, unsigned kind, const uint8_t *payload, size_t bytes)
{
    switch (kind) {
    case 0:
        say_payload(world, WIRE_HELLO, payload, bytes);
        break;
    case 1:
        say_payload(world, WIRE_BATCH, payload, bytes);
        break;
    case 2:
        give_pack(world, payload, bytes);
        break;
    case 3:
        say(world, payload, bytes);
        break;
    case 4:
        world->now_ms += bytes ? payload[0] * 10000ULL : 1;
        partition_tend(world->partition, world->now_ms);
        break;
    default:
        partition_compact(world->partition, world->now_ms);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct partition_settings settings = {.shard = "here",
                                                .session_bytes = 1u << 20,
                                                .shard_epoch = 1,
                                                .count = 1,
                                                .nodes = 3,
                                                .window_bytes = 1u << 20,
                                                .retention_ms = 900000,
                                                .dictionary = {64, 8, 64, 32, 64, 16, 2048}};
    struct world world = {.packs = symbol_packs_new(1u << 20), .now_ms = START_MS};
    world.partition = partition_new(&settings, world.packs);
    for (size_t at = 0; bytes - at >= 3;) {
        size_t length = data[at + 1] | (size_t)data[at + 2] << 8;
        unsigned kind = data[at] % 6;
        at += 3;
        if (length > bytes - at)
            length = bytes - at;
        act(&world, kind, data + at, length);
        at += length;
    }
    ask_everything(&world);
    partition_free(world.partition);
    symbol_packs_free(world.packs);
    return 0;
}
