/* fuzz_wire: every byte a peer can send, from the header to the stackset it becomes.
 * Input: byte 0 = 0: a whole message follows, header included; else the payload of a message of type (byte 0
 * - 1) % 16 + 1 follows, to which the header is made here, so that the fuzzer need not learn to get lengths
 * right. Corpus: small replies and batches of the sets in tests/unit/random_stackset.h, and a header of
 * another version. */
#include "common/wire.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const struct stackset_limits small_limits = {.strings = 1000,
                                                    .executables = 100,
                                                    .frames = 1000,
                                                    .nodes = 10000,
                                                    .series = 100,
                                                    .rows = 1000,
                                                    .string_bytes = 65536};

static void must(bool condition)
{
    if (!condition)
        abort();
}

/* What was accepted must encode, and come back the same size. */
static void send_again(const struct stackset *set)
{
    Fleetprof__StacksReply *reply = malloc(sizeof(*reply));
    must(reply != NULL);
    fleetprof__stacks_reply__init(reply);
    must(wire_from_stackset(set, "cpu", "nanoseconds", 1, &reply->dictionary, &reply->samples) == 0);
    struct buf out = buf_init(WIRE_PAYLOAD_BYTES);
    must(wire_pack(&reply->base, WIRE_STACKS_REPLY, 0, &out, NULL) == 0);
    wire_free(&reply->base);
    ProtobufCMessage *back;
    must(wire_unpack(out.data, out.used_bytes, WIRE_STACKS_REPLY, &back, NULL) == 0);
    reply = (Fleetprof__StacksReply *)back;
    struct stackset *again;
    must(wire_to_stackset(reply->dictionary, reply->samples, &small_limits, &again, NULL) == 0);
    must(again->node_count == set->node_count && again->row_count == set->row_count);
    wire_free(back);
    stackset_free(again);
    buf_fini(&out);
}

static void encode_as_batch(const struct stackset *set)
{
    struct wire_session *session = wire_session_new(1, 100);
    const struct wire_batch batch = {.kind = "cpu", .unit = "nanoseconds", .scale = 1};
    struct buf out = buf_init(WIRE_PAYLOAD_BYTES);
    must(wire_session_fits(session, set));
    must(wire_encode_batch(session, &batch, set, 0, &out, NULL) == 0);
    buf_fini(&out);
    wire_session_free(session);
}

static void use_stacks(const Fleetprof__Dictionary *dictionary, const Fleetprof__Samples *samples)
{
    struct err err;
    struct stackset *set;
    if (wire_to_stackset(dictionary, samples, &small_limits, &set, &err) < 0)
        return;
    send_again(set);
    encode_as_batch(set);
    stackset_free(set);
}

static void use_batch(const Fleetprof__Batch *batch)
{
    struct err err;
    const struct wire_have have = {.strings = 5, .executables = 2, .frames = 3, .nodes = 4, .series = 1};
    wire_check_dictionary(batch->dictionary, &have, &err);
    for (size_t i = 0; i < batch->n_samples; i++) {
        wire_check_samples(batch->samples[i], 10, 3, &err);
        use_stacks(batch->dictionary, batch->samples[i]);
    }
}

static void receive(const uint8_t *message, size_t bytes)
{
    struct wire_header header;
    struct err err;
    ProtobufCMessage *unpacked;
    if (wire_peek(message, bytes, &header, &err) < 0 ||
        wire_unpack(message, bytes, (enum wire_type)header.type, &unpacked, &err) < 0)
        return;
    if (header.type == WIRE_BATCH)
        use_batch((const Fleetprof__Batch *)unpacked);
    if (header.type == WIRE_STACKS_REPLY) {
        const Fleetprof__StacksReply *reply = (const Fleetprof__StacksReply *)unpacked;
        use_stacks(reply->dictionary, reply->samples);
    }
    wire_free(unpacked);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    if (data[0] == 0) {
        receive(data + 1, bytes - 1);
        return 0;
    }
    uint32_t payload_bytes = (uint32_t)bytes - 1, sent = htole32(payload_bytes);
    uint8_t *message = calloc(1, WIRE_HEADER_BYTES + payload_bytes);
    must(message != NULL);
    memcpy(message, "flpf", 4);
    message[4] = WIRE_VERSION;
    message[6] = (uint8_t)((data[0] - 1) % 16 + 1);
    memcpy(message + 8, &sent, sizeof(sent));
    memcpy(message + WIRE_HEADER_BYTES, data + 1, payload_bytes);
    receive(message, WIRE_HEADER_BYTES + payload_bytes);
    free(message);
    return 0;
}
