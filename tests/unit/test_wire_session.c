#include "common/wire.h"
#include "tests/unit/random_stackset.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define LIMIT      (16u << 20)
#define MAX_STRING 20000

/* A shard as simple as can be: what one dictionary session has defined so far, translated into one set of
 * sums. */
struct receiver {
    uint64_t session;
    struct stackset *sums;
    struct wire_have have;
    uint32_t strings[MAX_STRING], executables[MAX_STRING], frames[MAX_STRING], nodes[MAX_STRING],
        series[MAX_STRING];
};

static struct receiver *receiver_new(void)
{
    struct receiver *receiver = calloc(1, sizeof(*receiver));
    receiver->sums = stackset_new(&STACKSET_DEFAULT_LIMITS);
    return receiver;
}

static void receiver_free(struct receiver *receiver)
{
    stackset_free(receiver->sums);
    free(receiver);
}

static void define_frames(struct receiver *r, const Fleetprof__Dictionary *d)
{
    size_t line = 0;
    for (size_t i = 0; i < d->n_frame_head; i++) {
        uint64_t ref = d->frame_head[i] >> 3, body = d->frame_body[i];
        unsigned kind = d->frame_head[i] & 7;
        uint32_t own = kind == FRAME_NATIVE ? r->executables[ref] : r->strings[ref];
        if (kind == FRAME_KERNEL || kind == FRAME_INTERPRETED)
            body = r->strings[body];
        r->frames[r->have.frames++] =
            stackset_frame(r->sums, kind, own, body, kind == FRAME_INTERPRETED ? d->frame_line[line++] : 0);
    }
}

static void define(struct receiver *r, const Fleetprof__Dictionary *d)
{
    assert_int_equal(wire_check_dictionary(d, &r->have, NULL), 0);
    for (size_t i = 0; i < d->n_strings; i++)
        r->strings[r->have.strings++] = stackset_string(r->sums, d->strings[i].data, d->strings[i].len);
    for (size_t i = 0; i < d->n_executables; i++) {
        const Fleetprof__Executable *e = d->executables[i];
        r->executables[r->have.executables++] = stackset_executable(
            r->sums, e->id.data, e->id.len, (enum executable_id_kind)e->id_kind, r->strings[e->name]);
    }
    define_frames(r, d);
    for (size_t i = 0; i < d->n_node_up; i++, r->have.nodes++)
        r->nodes[r->have.nodes] =
            stackset_node(r->sums, r->nodes[r->have.nodes - d->node_up[i]], r->frames[d->node_frame[i]]);
    for (size_t i = 0; i < d->n_series; i++) {
        struct stackset_label labels[STACKSET_MAX_LABELS];
        for (size_t k = 0; k < d->series[i]->n_label; k++)
            *(k % 2 ? &labels[k / 2].value : &labels[k / 2].name) = r->strings[d->series[i]->label[k]];
        r->series[r->have.series++] = stackset_series(r->sums, labels, (uint32_t)d->series[i]->n_label / 2);
    }
    assert_true(r->have.strings < MAX_STRING && r->have.frames < MAX_STRING && r->have.nodes < MAX_STRING);
}

/* Decodes one message; the batch is the caller's (wire_free). */
static Fleetprof__Batch *receive(struct receiver *r, const struct buf *message)
{
    ProtobufCMessage *unpacked;
    assert_int_equal(wire_unpack(message->data, message->used_bytes, WIRE_BATCH, &unpacked, NULL), 0);
    Fleetprof__Batch *batch = (Fleetprof__Batch *)unpacked;
    if (batch->session != r->session) { /* a new session forgets the one before */
        r->session = batch->session;
        r->have = WIRE_HAVE_NOTHING;
    }
    define(r, batch->dictionary);
    const Fleetprof__Samples *s = batch->samples[0];
    assert_int_equal(wire_check_samples(s, r->have.nodes, r->have.series, NULL), 0);
    uint64_t series = 0, node = 0;
    for (size_t i = 0; i < s->n_value; i++) {
        node = (i > 0 && s->series_step[i] == 0 ? node : 0) + (uint64_t)s->node_step[i];
        series += s->series_step[i];
        stackset_add(r->sums, r->series[series], r->nodes[node], s->value[i], s->count[i]);
    }
    return batch;
}

static struct buf encode(struct wire_session *session, uint64_t sequence, const struct stackset *set)
{
    const struct wire_batch batch = {
        .sequence = sequence, .kind = "cpu", .unit = "nanoseconds", .scale = 1000};
    struct buf out = buf_init(LIMIT);
    assert_int_equal(wire_encode_batch(session, &batch, set, 5, &out, NULL), 0);
    return out;
}

static void sums_are_equal_after_many_batches_and_reopened_sessions(void **state)
{
    (void)state;
    uint64_t seed = 0x5eed;
    struct stackset *expected = stackset_new(&STACKSET_DEFAULT_LIMITS);
    struct receiver *receiver = receiver_new();
    struct wire_session *session = wire_session_new(1, 3000);
    unsigned reopened = 0;
    for (uint64_t window = 1; window <= 60; window++) {
        struct stackset *set = random_stackset(&seed, random_below(&seed, 150));
        bool lost =
            random_below(&seed, 10) == 0; /* a batch that did not get through: its session is thrown away */
        if (lost) {
            struct buf message = encode(session, window, set);
            buf_fini(&message);
        }
        if (lost || !wire_session_fits(session, set)) {
            uint64_t next = wire_session_id(session) + 1;
            wire_session_free(session);
            session = wire_session_new(next, 3000);
            reopened++;
        }
        struct buf message = encode(session, window, set);
        wire_free(&receive(receiver, &message)->base);
        buf_fini(&message);
        assert_int_equal(stackset_merge(expected, set, NULL), 0);
        stackset_free(set);
    }
    assert_true(reopened >= 5);
    char *want = stackset_as_text(expected), *got = stackset_as_text(receiver->sums);
    assert_string_equal(want, got);
    free(want);
    free(got);
    wire_session_free(session);
    receiver_free(receiver);
    stackset_free(expected);
}

static void only_new_definitions_are_sent(void **state)
{
    (void)state;
    uint64_t seed = 11;
    struct stackset *set = random_stackset(&seed, 80);
    struct receiver *receiver = receiver_new();
    struct wire_session *session = wire_session_new(9, 100000);
    struct buf message = encode(session, 1, set);
    Fleetprof__Batch *batch = receive(receiver, &message);
    assert_int_equal(batch->dictionary->n_strings, set->string_count - 1);
    assert_int_equal(batch->dictionary->n_node_up, set->node_count - 1);
    wire_free(&batch->base);
    buf_fini(&message);

    uint32_t marker = stackset_frame(set, FRAME_MARKER, stackset_cstring(set, "[new]"), 0, 0);
    stackset_add(set, 0, stackset_node(set, STACKSET_ROOT, marker), 1, 1);
    message = encode(session, 2, set);
    batch = receive(receiver, &message);
    assert_int_equal(batch->dictionary->n_strings, 1);
    assert_int_equal(batch->dictionary->n_executables, 0);
    assert_int_equal(batch->dictionary->n_frame_head, 1);
    assert_int_equal(batch->dictionary->n_node_up, 1);
    assert_int_equal(batch->dictionary->n_series, 0);
    wire_free(&batch->base);
    buf_fini(&message);
    wire_session_free(session);
    receiver_free(receiver);
    stackset_free(set);
}

static void the_windows_ledger_travels_with_the_rows(void **state)
{
    (void)state;
    const struct wire_counter lost[] = {{"ring_full", 3}, {"nested", 0}}, gauges[] = {{"hz", 99}};
    const struct wire_batch ledger = {.sequence = 7,
                                      .window_start_ms = 1700000000000,
                                      .window_ms = 10000,
                                      .taken_count = 4,
                                      .kind = "cpu",
                                      .unit = "nanoseconds",
                                      .scale = 1000,
                                      .lost = lost,
                                      .lost_count = 2,
                                      .gauges = gauges,
                                      .gauge_count = 1};
    struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
    stackset_add(set, stackset_series(set, NULL, 0), STACKSET_ROOT, 10101, 1);
    struct wire_session *session = wire_session_new(0xfedcba9876543210, 10);
    struct buf message = buf_init(LIMIT);
    assert_int_equal(wire_encode_batch(session, &ledger, set, 5, &message, NULL), 0);
    struct receiver *receiver = receiver_new();
    Fleetprof__Batch *batch = receive(receiver, &message);
    assert_true(batch->session == 0xfedcba9876543210);
    assert_int_equal(batch->sequence, 7);
    assert_int_equal(batch->window_start_ms, 1700000000000);
    assert_int_equal(batch->window_ms, 10000);
    assert_int_equal(batch->taken, 4);
    assert_int_equal(batch->n_lost, 2);
    assert_string_equal(batch->lost[0]->name, "ring_full");
    assert_int_equal(batch->lost[0]->value, 3);
    assert_string_equal(batch->gauges[0]->name, "hz");
    assert_int_equal(batch->samples[0]->value[0], 10101);
    wire_free(&batch->base);
    buf_fini(&message);
    receiver_free(receiver);
    wire_session_free(session);
    stackset_free(set);
}

static void an_empty_window_is_a_small_message(void **state)
{
    (void)state;
    struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS);
    struct wire_session *session = wire_session_new(1, 10);
    struct buf message = encode(session, 1, set);
    assert_true(message.used_bytes < 100);
    struct receiver *receiver = receiver_new();
    wire_free(&receive(receiver, &message)->base);
    assert_int_equal(receiver->sums->row_count, 0);
    buf_fini(&message);
    receiver_free(receiver);
    wire_session_free(session);
    wire_session_free(NULL);
    stackset_free(set);
}

static void a_set_that_is_known_fits_a_full_session(void **state)
{
    (void)state;
    uint64_t seed = 4;
    struct stackset *set = random_stackset(&seed, 60);
    struct wire_session *session = wire_session_new(1, set->node_count + 1);
    struct buf message = encode(session, 1, set);
    buf_fini(&message);
    assert_true(wire_session_fits(session, set));
    uint32_t marker = stackset_frame(set, FRAME_MARKER, stackset_cstring(set, "[new]"), 0, 0);
    uint32_t node = stackset_node(set, STACKSET_ROOT, marker);
    assert_true(wire_session_fits(session, set));
    stackset_node(set, node, marker);
    assert_false(wire_session_fits(session, set));
    wire_session_free(session);
    stackset_free(set);
}

static void a_session_is_bounded_and_takes_at_most_24_bytes_a_node(void **state)
{
    (void)state;
    const uint32_t limit = 200000;
    struct wire_session *session = wire_session_new(1, limit);
    struct stackset *set = NULL;
    uint32_t marks = 0;
    for (;;) {
        stackset_free(set);
        set = stackset_new(&STACKSET_DEFAULT_LIMITS);
        char name[16];
        snprintf(name, sizeof(name), "%u", marks++);
        uint32_t node = stackset_node(set, STACKSET_ROOT,
                                      stackset_frame(set, FRAME_MARKER, stackset_cstring(set, name), 0, 0));
        for (uint32_t i = 1; i < 1000; i++)
            node = stackset_node(set, node, 0);
        if (!wire_session_fits(session, set))
            break;
        struct buf message = encode(session, marks, set);
        buf_fini(&message);
        size_t nodes = (size_t)marks * 1000;
        assert_true(wire_session_memory_bytes(session) < 16384 + 24 * nodes);
    }
    assert_int_equal(marks, 200); /* the root takes one place of the 200,000 */
    struct wire_session *empty = wire_session_new(2, 10);
    assert_true(wire_session_fits(empty, set));
    wire_session_free(empty);
    wire_session_free(session);
    stackset_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_equal_after_many_batches_and_reopened_sessions),
        cmocka_unit_test(only_new_definitions_are_sent),
        cmocka_unit_test(the_windows_ledger_travels_with_the_rows),
        cmocka_unit_test(an_empty_window_is_a_small_message),
        cmocka_unit_test(a_set_that_is_known_fits_a_full_session),
        cmocka_unit_test(a_session_is_bounded_and_takes_at_most_24_bytes_a_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
