/* wire: bytes <-> messages. Every message of the project is a 24-byte header and a protobuf payload
 * (common/wire/fleetprof.proto), compressed with zstd when that is smaller.
 * Shapes:  header, little endian: "flpf" | u8 version | u8 flags (1 = zstd) | u16 type | u32 payload bytes unpacked |
 *          u32 reserved 0 | u64 route (xxh3 of the node name: which worker of a shard; 0 where it does not matter).
 * Limits:  WIRE_PAYLOAD_BYTES unpacked; a message that claims more is refused before anything is allocated.
 * Errors:  -EPROTO not ours or corrupt; -EPROTONOSUPPORT another version (text says which we speak); -E2BIG.
 * Threads: any; no state but struct wire_session. */
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

enum wire_type {
    WIRE_HELLO = 1, WIRE_HELLO_REPLY, WIRE_BATCH, WIRE_ACK, WIRE_PACK, WIRE_PACK_REPLY, WIRE_PACK_GET,
    WIRE_TOP_REQUEST, WIRE_TOP_REPLY, WIRE_STACKS_REQUEST, WIRE_STACKS_REPLY,
    WIRE_LABELS_REQUEST, WIRE_LABELS_REPLY, WIRE_AGENTS_REQUEST, WIRE_AGENTS_REPLY,
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

/* Packs message into out (appended). */
int wire_pack(const ProtobufCMessage *message, enum wire_type type, uint64_t route, struct buf *out, struct err *err);

/* Unpacks a message of the expected type: the caller frees with wire_free. Nested column lengths are NOT checked here. */
int wire_unpack(const void *data, size_t bytes, enum wire_type type, ProtobufCMessage **ret_message, struct err *err);
void wire_free(ProtobufCMessage *message); /* NULL is fine */

uint64_t wire_route(const char *node);

/* ---- sender's side of a dictionary session ---- */
struct wire_session;
/* A session holds at most node_limit call-tree nodes (and frames, strings in proportion); wire_session_full says when
 * to open the next one. */
struct wire_session *wire_session_new(uint64_t id, uint32_t node_limit);
void wire_session_free(struct wire_session *session);
uint64_t wire_session_id(const struct wire_session *session);
/* Would set fit? A set always fits an empty session. */
bool wire_session_fits(const struct wire_session *session, const struct stackset *set);

struct wire_batch {
    uint64_t sequence, window_start_ms, taken_count;
    uint32_t window_ms;
    const char *kind, *unit;
    uint64_t scale;
    const struct wire_counter {
        const char *name;
        uint64_t value;
    } *lost, *gauges;
    size_t lost_count, gauge_count;
};

/* Encodes set's rows in the session's ids, sending only definitions the session has not sent. Definitions count as sent
 * at once: when the batch is not STORED afterwards, the session must be thrown away. */
int wire_encode_batch(struct wire_session *session, const struct wire_batch *batch, struct stackset *set,
                      uint64_t route, struct buf *out, struct err *err);

/* ---- receiver's side ---- */
/* Checks every column of a Dictionary that extends a session with `have` items: lengths, references to earlier items,
 * string sizes, label order. -EPROTO with the first fault's text. */
struct wire_have {
    uint32_t strings, executables, frames, nodes, series; /* counts incl. string 0 and node 0 */
};
int wire_check_dictionary(const Fleetprof__Dictionary *dictionary, const struct wire_have *have, struct err *err);
/* Checks columns and ids of Samples against the counts after the dictionary was applied. */
int wire_check_samples(const Fleetprof__Samples *samples, uint32_t node_count, uint32_t series_count, struct err *err);

/* ---- whole stacksets between shards ---- */
int wire_from_stackset(struct stackset *set, const char *kind, const char *unit, uint64_t scale,
                       Fleetprof__Dictionary **ret_dictionary, Fleetprof__Samples **ret_samples);
int wire_to_stackset(const Fleetprof__Dictionary *dictionary, const Fleetprof__Samples *samples,
                     const struct stackset_limits *limits, struct stackset **ret_set, struct err *err);

#endif
