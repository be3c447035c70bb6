/* wire: bytes <-> messages. Every message of the project is a 24-byte header and a protobuf payload
 * (common/wire/fleetprof.proto), compressed with zstd when that is smaller.
 * Shapes:    header, little endian: "flpf" | u8 version | u8 flags (1 = zstd) | u16 type | u32 payload
 *            bytes unpacked | u32 reserved 0 | u64 route (xxh3 of the node name: which worker of a shard; 0
 *            where it does not matter).
 * Limits:    WIRE_PAYLOAD_BYTES unpacked; a message that claims more is refused before anything is
 *            allocated.
 * Errors:    -EPROTO not ours or corrupt; -EPROTONOSUPPORT another version (text says which we speak);
 *            -E2BIG.
 * Threads:   any; no state but struct wire_session.
 * Files:     wire.c framing, wire_check.c checks, wire_session.c the sender's side, wire_stackset.c whole
 *            sets. */
#ifndef COMMON_WIRE_H
#define COMMON_WIRE_H

#include "common/buf.h"
#include "common/err.h"
#include "common/stackset.h"

#include "common/wire/fleetprof.pb-c.h"

#define WIRE_VERSION        1
#define WIRE_HEADER_BYTES   24u
#define WIRE_PAYLOAD_BYTES  (64u << 20)
#define WIRE_COMPRESS_BYTES 256u /* smaller payloads are sent as they are */
#define WIRE_UNPACK_BYTES                                                                                    \
    (256u << 20) /* memory one unpacked message may take, and WIRE_UNPACK_RATIO x its payload */
#define WIRE_UNPACK_RATIO 32u
#define WIRE_MAX_DEPTH    (STACKSET_MAX_DEPTH + 16u) /* of a node: the root has depth 0 */
#define WIRE_NAME_BYTES   64u                        /* kind, unit */

enum wire_type {
    WIRE_HELLO = 1,
    WIRE_HELLO_REPLY,
    WIRE_BATCH,
    WIRE_ACK,
    WIRE_PACK,
    WIRE_PACK_REPLY,
    WIRE_PACK_GET,
    WIRE_TOP_REQUEST,
    WIRE_TOP_REPLY,
    WIRE_STACKS_REQUEST,
    WIRE_STACKS_REPLY,
    WIRE_LABELS_REQUEST,
    WIRE_LABELS_REPLY,
    WIRE_AGENTS_REQUEST,
    WIRE_AGENTS_REPLY,
    WIRE_REFUSAL, /* payload: HelloReply; answers whatever could not be read or is of another version */
};

struct wire_header {
    uint8_t version;
    uint8_t flags;
    uint16_t type;
    uint32_t payload_bytes;
    uint64_t route;
};

/* Reads and checks the header only. -EPROTONOSUPPORT still fills ret_header. */
int wire_peek(const void *data, size_t bytes, struct wire_header *ret_header, struct err *err);

/* Packs message into out (appended; unchanged on error). -EINVAL when message is not of that type. */
int wire_pack(const ProtobufCMessage *message, enum wire_type type, uint64_t route, struct buf *out,
              struct err *err);

/* Unpacks a message of the expected type: the caller frees with wire_free. Nested column lengths are NOT
 * checked here. */
int wire_unpack(const void *data, size_t bytes, enum wire_type type, ProtobufCMessage **ret_message,
                struct err *err);
void wire_free(ProtobufCMessage *message); /* NULL is fine */

uint64_t wire_route(const char *node);

/* ---- sender's side of a dictionary session ---- */
struct wire_session;
/* A session holds at most node_limit call-tree nodes, as many frames and strings, a quarter as many series
 * and executables; wire_session_fits says when to open the next one. Memory: 14 to 23 bytes a node. */
struct wire_session *wire_session_new(uint64_t id, uint32_t node_limit);
void wire_session_free(struct wire_session *session); /* NULL is fine */
uint64_t wire_session_id(const struct wire_session *session);
/* Would what is new in set fit? A set always fits an empty session. */
bool wire_session_fits(struct wire_session *session, const struct stackset *set);
size_t wire_session_memory_bytes(const struct wire_session *session);

struct wire_batch {
    uint64_t sequence, window_start_ms, taken_count;
    uint32_t window_ms;
    const char *kind, *unit;
    uint64_t scale;
    const struct wire_counter {
        const char *name;
        uint64_t value;
    } * lost, *gauges;
    size_t lost_count, gauge_count;
};

/* Encodes set's rows in the session's ids, sending only definitions the session has not sent. Definitions
 * count as sent at once: when the batch is not STORED afterwards, the session must be thrown away. */
int wire_encode_batch(struct wire_session *session, const struct wire_batch *batch,
                      const struct stackset *set, uint64_t route, struct buf *out, struct err *err);

/* ---- receiver's side ---- */
/* Checks every column of a Dictionary (NULL: an empty one) that extends a session with `have` items: lengths,
 * references to earlier items, string sizes, label order (by bytes where both names are in this dictionary,
 * else only that the ids differ: the checker does not know older strings). The depth of nodes is the
 * receiver's to check (WIRE_MAX_DEPTH). -EPROTO with the first fault's text. */
struct wire_have {
    uint32_t strings, executables, frames, nodes, series; /* counts incl. string 0 and node 0 */
};
#define WIRE_HAVE_NOTHING ((struct wire_have){.strings = 1, .nodes = 1})
int wire_check_dictionary(const Fleetprof__Dictionary *dictionary, const struct wire_have *have,
                          struct err *err);
/* Checks columns and ids of Samples against the counts after the dictionary was applied: equal lengths, rows
 * strictly ascending by (series, node), sum of values x scale and sum of counts <= INT64_MAX. */
int wire_check_samples(const Fleetprof__Samples *samples, uint32_t node_count, uint32_t series_count,
                       struct err *err);

/* ---- whole stacksets between shards ---- */
/* Both results are the caller's (wire_free each, or as parts of a message). Takes function names along. */
int wire_from_stackset(const struct stackset *set, const char *kind, const char *unit, uint64_t scale,
                       Fleetprof__Dictionary **ret_dictionary, Fleetprof__Samples **ret_samples);
/* Checks everything, depth included, then builds. -EPROTO, or -E2BIG when limits are too small. */
int wire_to_stackset(const Fleetprof__Dictionary *dictionary, const Fleetprof__Samples *samples,
                     const struct stackset_limits *limits, struct stackset **ret_set, struct err *err);

#endif
