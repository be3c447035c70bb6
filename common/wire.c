#define XXH_INLINE_ALL
#include "common/wire.h"

#include "common/cleanup.h"
#include "common/xalloc.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#define FLAG_ZSTD  1u
#define ZSTD_LEVEL 3 /* docs/wire.md has the measurement */

static const char magic[4] = {'f', 'l', 'p', 'f'};

static const ProtobufCMessageDescriptor *const descriptors[] = {
    [WIRE_HELLO] = &fleetprof__hello__descriptor,
    [WIRE_HELLO_REPLY] = &fleetprof__hello_reply__descriptor,
    [WIRE_BATCH] = &fleetprof__batch__descriptor,
    [WIRE_ACK] = &fleetprof__ack__descriptor,
    [WIRE_PACK] = &fleetprof__pack__descriptor,
    [WIRE_PACK_REPLY] = &fleetprof__pack_reply__descriptor,
    [WIRE_PACK_GET] = &fleetprof__pack_get__descriptor,
    [WIRE_TOP_REQUEST] = &fleetprof__top_request__descriptor,
    [WIRE_TOP_REPLY] = &fleetprof__top_reply__descriptor,
    [WIRE_STACKS_REQUEST] = &fleetprof__stacks_request__descriptor,
    [WIRE_STACKS_REPLY] = &fleetprof__stacks_reply__descriptor,
    [WIRE_LABELS_REQUEST] = &fleetprof__labels_request__descriptor,
    [WIRE_LABELS_REPLY] = &fleetprof__labels_reply__descriptor,
    [WIRE_AGENTS_REQUEST] = &fleetprof__agents_request__descriptor,
    [WIRE_AGENTS_REPLY] = &fleetprof__agents_reply__descriptor,
    [WIRE_REFUSAL] = &fleetprof__hello_reply__descriptor,
};
#define TYPE_COUNT (sizeof(descriptors) / sizeof(descriptors[0]))

static const ProtobufCMessageDescriptor *descriptor_of(unsigned type)
{
    return type < TYPE_COUNT ? descriptors[type] : NULL;
}

/* The header as it lies in a message. */
struct raw_header {
    char magic[4];
    uint8_t version;
    uint8_t flags;
    uint16_t type;
    uint32_t payload_bytes;
    uint32_t reserved;
    uint64_t route;
};
_Static_assert(sizeof(struct raw_header) == WIRE_HEADER_BYTES, "header layout");

int wire_peek(const void *data, size_t bytes, struct wire_header *ret_header, struct err *err)
{
    struct raw_header raw;
    if (bytes < sizeof(raw))
        return err_say(err, -EPROTO, "message of %zu bytes is shorter than its header", bytes);
    memcpy(&raw, data, sizeof(raw));
    if (memcmp(raw.magic, magic, sizeof(magic)) != 0)
        return err_say(err, -EPROTO, "message does not begin with \"flpf\"");
    struct wire_header header = {
        .version = raw.version,
        .flags = raw.flags,
        .type = le16toh(raw.type),
        .payload_bytes = le32toh(raw.payload_bytes),
        .route = le64toh(raw.route),
    };
    if (raw.version != WIRE_VERSION) {
        *ret_header = header;
        return err_say(err, -EPROTONOSUPPORT, "wire version %u is not spoken here, only %u", raw.version,
                       WIRE_VERSION);
    }
    if ((raw.flags & ~FLAG_ZSTD) != 0 || raw.reserved != 0)
        return err_say(err, -EPROTO, "message header with unknown flags");
    if (header.payload_bytes > WIRE_PAYLOAD_BYTES)
        return err_say(err, -E2BIG, "message claims %u bytes of payload, the limit is %u",
                       header.payload_bytes, WIRE_PAYLOAD_BYTES);
    if (!(raw.flags & FLAG_ZSTD) && header.payload_bytes != bytes - sizeof(raw))
        return err_say(err, -EPROTO, "message claims %u bytes of payload and has %zu", header.payload_bytes,
                       bytes - sizeof(raw));
    *ret_header = header;
    return 0;
}

/* Compressed size, or 0 when compressing does not help. out has room for bytes. */
static size_t compress_payload(const void *payload, size_t bytes, void *out)
{
    if (bytes < WIRE_COMPRESS_BYTES)
        return 0;
    size_t packed = ZSTD_compress(out, bytes - 1, payload, bytes, ZSTD_LEVEL);
    return ZSTD_isError(packed) ? 0 : packed; /* the only error left is "does not fit": not smaller */
}

int wire_pack(const ProtobufCMessage *message, enum wire_type type, uint64_t route, struct buf *out,
              struct err *err)
{
    if (message->descriptor != descriptor_of(type))
        return err_say(err, -EINVAL, "message is not of wire type %d", (int)type);
    size_t bytes = protobuf_c_message_get_packed_size(message);
    if (bytes > WIRE_PAYLOAD_BYTES)
        return err_say(err, -E2BIG, "message needs %zu bytes of payload, the limit is %u", bytes,
                       WIRE_PAYLOAD_BYTES);
    AUTO_FREE uint8_t *plain = xmalloc(bytes);
    AUTO_FREE uint8_t *small = xmalloc(bytes);
    protobuf_c_message_pack(message, plain);
    size_t small_bytes = compress_payload(plain, bytes, small);
    const uint8_t *payload = small_bytes ? small : plain;
    size_t sent_bytes = small_bytes ? small_bytes : bytes;

    struct raw_header raw = {
        .version = WIRE_VERSION,
        .flags = small_bytes ? FLAG_ZSTD : 0,
        .type = htole16((uint16_t)type),
        .payload_bytes = htole32((uint32_t)bytes),
        .route = htole64(route),
    };
    memcpy(raw.magic, magic, sizeof(magic));
    if (!buf_reserve(out, sizeof(raw) + sent_bytes))
        return err_say(err, -E2BIG, "message of %zu bytes is over the buffer's limit",
                       sizeof(raw) + sent_bytes);
    buf_append(out, &raw, sizeof(raw));
    buf_append(out, payload, sent_bytes);
    return 0;
}

/* protobuf-c allocates as the bytes tell it to; a budget keeps a small message from growing into a large one.
 * Freed blocks are not credited: it is a cap on all that was ever asked for. */
struct budget {
    size_t left_bytes;
    bool over;
};

static void *budget_alloc(void *ctx, size_t bytes)
{
    struct budget *budget = ctx;
    size_t cost = bytes + 16; /* what malloc itself takes */
    if (bytes > WIRE_UNPACK_BYTES || cost > budget->left_bytes) {
        budget->over = true;
        return NULL;
    }
    budget->left_bytes -= cost;
    return malloc(bytes ? bytes : 1);
}

static void budget_free(void *ctx, void *block)
{
    (void)ctx;
    free(block);
}

static int unpack_payload(const ProtobufCMessageDescriptor *descriptor, const uint8_t *payload, size_t bytes,
                          ProtobufCMessage **ret_message, struct err *err)
{
    size_t cap = 65536 + bytes * WIRE_UNPACK_RATIO; /* bytes <= WIRE_PAYLOAD_BYTES: no overflow in 64 bits */
    struct budget budget = {.left_bytes = cap < WIRE_UNPACK_BYTES ? cap : WIRE_UNPACK_BYTES};
    ProtobufCAllocator allocator = {.alloc = budget_alloc, .free = budget_free, .allocator_data = &budget};
    ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, &allocator, bytes, payload);
    if (!message && budget.over)
        return err_say(err, -E2BIG, "message of %zu bytes needs too much memory unpacked", bytes);
    if (!message)
        return err_say(err, -EPROTO, "payload is not a %s", descriptor->short_name);
    *ret_message = message;
    return 0;
}

static int decompress(const uint8_t *from, size_t bytes, uint8_t *to, size_t to_bytes, struct err *err)
{
    size_t got = ZSTD_decompress(to, to_bytes, from, bytes);
    if (ZSTD_isError(got))
        return err_say(err, -EPROTO, "zstd: %s", ZSTD_getErrorName(got));
    if (got != to_bytes)
        return err_say(err, -EPROTO, "zstd: %zu bytes instead of %zu", got, to_bytes);
    return 0;
}

int wire_unpack(const void *data, size_t bytes, enum wire_type type, ProtobufCMessage **ret_message,
                struct err *err)
{
    struct wire_header header;
    int rc = wire_peek(data, bytes, &header, err);
    if (rc < 0)
        return rc;
    const ProtobufCMessageDescriptor *descriptor = descriptor_of(type);
    if (!descriptor || header.type != type)
        return err_say(err, -EPROTO, "message of type %u where %d was due", header.type, (int)type);
    const uint8_t *payload = (const uint8_t *)data + WIRE_HEADER_BYTES;
    if (!(header.flags & FLAG_ZSTD))
        return unpack_payload(descriptor, payload, header.payload_bytes, ret_message, err);

    if (ZSTD_getFrameContentSize(payload, bytes - WIRE_HEADER_BYTES) != header.payload_bytes)
        return err_say(err, -EPROTO, "zstd frame and header differ in size");
    AUTO_FREE uint8_t *plain = xmalloc(header.payload_bytes);
    rc = decompress(payload, bytes - WIRE_HEADER_BYTES, plain, header.payload_bytes, err);
    if (rc < 0)
        return rc;
    return unpack_payload(descriptor, plain, header.payload_bytes, ret_message, err);
}

void wire_free(ProtobufCMessage *message)
{
    if (message)
        protobuf_c_message_free_unpacked(message, NULL);
}

uint64_t wire_route(const char *node)
{
    return XXH3_64bits(node, strlen(node));
}
