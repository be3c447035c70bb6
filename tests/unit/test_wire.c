#include "common/wire.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

#define LIMIT (1u << 20)

static struct buf pack_ack(const char *reason)
{
    Fleetprof__Ack ack = FLEETPROF__ACK__INIT;
    ack.sequence = 300;
    ack.verdict = FLEETPROF__VERDICT__RETRY;
    ack.reason = (char *)(uintptr_t)reason;
    struct buf out = buf_init(LIMIT);
    assert_int_equal(wire_pack(&ack.base, WIRE_ACK, 0x0123456789abcdef, &out, NULL), 0);
    return out;
}

static char *repeated(char c, size_t bytes)
{
    char *text = malloc(bytes + 1);
    memset(text, c, bytes);
    text[bytes] = '\0';
    return text;
}

static void a_header_is_24_little_endian_bytes(void **state)
{
    (void)state;
    struct buf out = pack_ack("x");
    const uint8_t expected[] = {'f', 'l', 'p', 'f', 1, 0, 4, 0, /* version, flags, type Ack */
                                8, 0, 0, 0, 0, 0, 0, 0,         /* payload bytes, reserved */
                                0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01,
                                /* field 1 varint 1, field 2 "x", field 3 varint 300 */
                                0x08, 1, 0x12, 1, 'x', 0x18, 0xac, 0x02};
    assert_int_equal(out.used_bytes, sizeof(expected));
    assert_memory_equal(out.data, expected, sizeof(expected));
    buf_fini(&out);
}

static void a_message_comes_back_as_it_was(void **state)
{
    (void)state;
    char *reason = repeated('r', 5000); /* long enough to be compressed */
    const char *const reasons[] = {"", "slow down", reason};
    for (size_t i = 0; i < 3; i++) {
        struct buf out = pack_ack(reasons[i]);
        struct wire_header header;
        assert_int_equal(wire_peek(out.data, out.used_bytes, &header, NULL), 0);
        assert_int_equal(header.type, WIRE_ACK);
        assert_true(header.route == 0x0123456789abcdef);
        assert_int_equal(header.flags, i == 2);
        ProtobufCMessage *message = NULL;
        assert_int_equal(wire_unpack(out.data, out.used_bytes, WIRE_ACK, &message, NULL), 0);
        const Fleetprof__Ack *ack = (const Fleetprof__Ack *)message;
        assert_string_equal(ack->reason, reasons[i]);
        assert_int_equal(ack->verdict, FLEETPROF__VERDICT__RETRY);
        assert_int_equal(ack->sequence, 300);
        wire_free(message);
        if (i == 2)
            assert_true(out.used_bytes < 200);
        buf_fini(&out);
    }
    free(reason);
    wire_free(NULL);
}

static void messages_are_appended_and_a_full_buffer_stays_as_it_was(void **state)
{
    (void)state;
    Fleetprof__PackGet get = FLEETPROF__PACK_GET__INIT;
    struct buf out = buf_init(100);
    struct err err;
    assert_int_equal(wire_pack(&get.base, WIRE_PACK_GET, 0, &out, NULL), 0);
    assert_int_equal(wire_pack(&get.base, WIRE_PACK_GET, 0, &out, NULL), 0);
    assert_int_equal(out.used_bytes, 2 * WIRE_HEADER_BYTES);
    uint8_t id[64] = {0};
    get.executable = (ProtobufCBinaryData){.len = sizeof(id), .data = id};
    assert_int_equal(wire_pack(&get.base, WIRE_PACK_GET, 0, &out, &err), -E2BIG);
    assert_int_equal(out.used_bytes, 2 * WIRE_HEADER_BYTES);
    assert_int_equal(wire_pack(&get.base, WIRE_ACK, 0, &out, &err), -EINVAL);
    buf_fini(&out);
}

static void another_version_is_told_apart_from_nonsense(void **state)
{
    (void)state;
    struct buf out = pack_ack("x");
    struct wire_header header = {0};
    struct err err;
    out.data[4] = 9;
    assert_int_equal(wire_peek(out.data, out.used_bytes, &header, &err), -EPROTONOSUPPORT);
    assert_string_equal(err.text, "wire version 9 is not spoken here, only 1");
    assert_int_equal(header.version, 9);
    assert_true(header.route == 0x0123456789abcdef);
    ProtobufCMessage *message = NULL;
    assert_int_equal(wire_unpack(out.data, out.used_bytes, WIRE_ACK, &message, &err), -EPROTONOSUPPORT);
    out.data[0] = 'F';
    assert_int_equal(wire_peek(out.data, out.used_bytes, &header, &err), -EPROTO);
    assert_null(message);
    buf_fini(&out);
}

static void a_broken_header_is_refused(void **state)
{
    (void)state;
    const struct {
        size_t at;
        uint8_t byte;
        int code;
    } faults[] = {{5, 2, -EPROTO}, {12, 1, -EPROTO}, {8, 7, -EPROTO}, {8, 9, -EPROTO}, {11, 0x7f, -E2BIG}};
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct buf out = pack_ack("x");
        struct wire_header header;
        out.data[faults[i].at] = (char)faults[i].byte;
        assert_int_equal(wire_peek(out.data, out.used_bytes, &header, NULL), faults[i].code);
        for (size_t bytes = 0; bytes < WIRE_HEADER_BYTES; bytes++)
            assert_int_equal(wire_peek(out.data, bytes, &header, NULL), -EPROTO);
        buf_fini(&out);
    }
}

static void a_broken_payload_is_refused(void **state)
{
    (void)state;
    ProtobufCMessage *message = NULL;
    struct buf out = pack_ack("x");
    assert_int_equal(wire_unpack(out.data, out.used_bytes, WIRE_HELLO, &message, NULL), -EPROTO);
    out.data[27] = 100; /* the string claims more than there is */
    assert_int_equal(wire_unpack(out.data, out.used_bytes, WIRE_ACK, &message, NULL), -EPROTO);
    buf_fini(&out);

    char *reason = repeated('r', 5000);
    out = pack_ack(reason);
    for (size_t bytes = WIRE_HEADER_BYTES; bytes < out.used_bytes; bytes++)
        assert_int_equal(wire_unpack(out.data, bytes, WIRE_ACK, &message, NULL), -EPROTO);
    out.data[8]++; /* header and zstd frame differ */
    assert_int_equal(wire_unpack(out.data, out.used_bytes, WIRE_ACK, &message, NULL), -EPROTO);
    assert_null(message);
    buf_fini(&out);
    free(reason);
}

/* A message of WIRE_TOP_REPLY's type whose payload is bytes of zstd of n times pattern. */
static struct buf bomb(enum wire_type type, const char *pattern, size_t pattern_bytes, size_t n)
{
    size_t bytes = pattern_bytes * n;
    char *plain = malloc(bytes);
    for (size_t i = 0; i < n; i++)
        memcpy(plain + i * pattern_bytes, pattern, pattern_bytes);
    struct buf out = buf_init(LIMIT);
    uint8_t header[WIRE_HEADER_BYTES] = {'f', 'l', 'p', 'f', WIRE_VERSION, 1, (uint8_t)type, 0};
    for (int i = 0; i < 4; i++)
        header[8 + i] = (uint8_t)(bytes >> (8 * i));
    buf_append(&out, header, sizeof(header));
    char *place = buf_reserve(&out, ZSTD_compressBound(bytes));
    assert_non_null(place);
    out.used_bytes += ZSTD_compress(place, ZSTD_compressBound(bytes), plain, bytes, 1);
    free(plain);
    return out;
}

static void a_small_message_cannot_take_much_memory(void **state)
{
    (void)state;
    struct err err;
    ProtobufCMessage *message = NULL;
    /* 100,000 empty rows of 2 bytes each would take some 100 bytes each unpacked. */
    struct buf out = bomb(WIRE_TOP_REPLY, "\x1a\x00", 2, 100000);
    assert_int_equal(wire_unpack(out.data, out.used_bytes, WIRE_TOP_REPLY, &message, &err), -E2BIG);
    assert_null(message);
    buf_fini(&out);
    /* The same number of honest names is fine. */
    out = bomb(WIRE_LABELS_REPLY, "\x1a\x06system", 8, 100000);
    assert_int_equal(wire_unpack(out.data, out.used_bytes, WIRE_LABELS_REPLY, &message, &err), 0);
    assert_int_equal(((const Fleetprof__LabelsReply *)message)->n_values, 100000);
    wire_free(message);
    buf_fini(&out);
}

static void the_route_is_the_same_in_every_build(void **state)
{
    (void)state;
    assert_true(wire_route("node-1") == wire_route("node-1"));
    assert_true(wire_route("") == 0x2d06800538d394c2); /* XXH3-64 of nothing, from its specification */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_is_24_little_endian_bytes),
        cmocka_unit_test(a_message_comes_back_as_it_was),
        cmocka_unit_test(messages_are_appended_and_a_full_buffer_stays_as_it_was),
        cmocka_unit_test(another_version_is_told_apart_from_nonsense),
        cmocka_unit_test(a_broken_header_is_refused),
        cmocka_unit_test(a_broken_payload_is_refused),
        cmocka_unit_test(a_small_message_cannot_take_much_memory),
        cmocka_unit_test(the_route_is_the_same_in_every_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
