#include "common/wire.h"
#include "tests/unit/random_stackset.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define LIMIT (16u << 20)

static struct buf pack_reply(const struct stackset *set)
{
    Fleetprof__StacksReply *reply = calloc(1, sizeof(*reply));
    fleetprof__stacks_reply__init(reply);
    assert_int_equal(wire_from_stackset(set, "cpu", "nanoseconds", 1000, &reply->dictionary, &reply->samples),
                     0);
    struct buf out = buf_init(LIMIT);
    assert_int_equal(wire_pack(&reply->base, WIRE_STACKS_REPLY, 0, &out, NULL), 0);
    wire_free(&reply->base);
    return out;
}

static int unpack_reply(const struct buf *message, const struct stackset_limits *limits,
                        struct stackset **ret_set)
{
    ProtobufCMessage *reply;
    assert_int_equal(wire_unpack(message->data, message->used_bytes, WIRE_STACKS_REPLY, &reply, NULL), 0);
    const Fleetprof__StacksReply *r = (const Fleetprof__StacksReply *)reply;
    assert_string_equal(r->samples->kind, "cpu");
    assert_int_equal(r->samples->scale, 1000);
    int rc = wire_to_stackset(r->dictionary, r->samples, limits, ret_set, NULL);
    wire_free(reply);
    return rc;
}

static void a_set_comes_back_with_equal_content(void **state)
{
    (void)state;
    uint64_t seed = 20240601;
    for (uint32_t stacks = 0; stacks < 200; stacks += 19) {
        struct stackset *set = random_stackset(&seed, stacks), *back = NULL;
        struct buf message = pack_reply(set);
        assert_int_equal(unpack_reply(&message, &STACKSET_DEFAULT_LIMITS, &back), 0);
        char *before = stackset_as_text(set), *after = stackset_as_text(back);
        assert_string_equal(before, after);
        assert_int_equal(set->node_count, back->node_count);
        free(before);
        free(after);
        buf_fini(&message);
        stackset_free(set);
        stackset_free(back);
    }
}

static void function_names_travel_along(void **state)
{
    (void)state;
    uint64_t seed = 7;
    struct stackset *set = random_stackset(&seed, 50), *back = NULL;
    for (uint32_t i = 0; i < set->frame_count; i += 2)
        set->frames[i].function =
            i % 4 == 0 ? stackset_cstring(set, "known") + 1 : 1; /* 1: known to be nameless */
    struct buf message = pack_reply(set);
    assert_int_equal(unpack_reply(&message, &STACKSET_DEFAULT_LIMITS, &back), 0);
    char *before = stackset_as_text(set), *after = stackset_as_text(back);
    assert_string_equal(before, after);
    assert_non_null(strstr(after, "function 6b6e6f776e"));
    free(before);
    free(after);
    buf_fini(&message);
    stackset_free(set);
    stackset_free(back);
}

static void a_set_over_the_receivers_limits_is_refused(void **state)
{
    (void)state;
    uint64_t seed = 7;
    struct stackset *set = random_stackset(&seed, 50), *back = NULL;
    struct buf message = pack_reply(set);
    for (int i = 0; i < 7; i++) {
        struct stackset_limits limits = STACKSET_DEFAULT_LIMITS;
        uint32_t *const counts[] = {&limits.strings, &limits.executables, &limits.frames,
                                    &limits.nodes,   &limits.series,      &limits.rows};
        if (i < 6)
            *counts[i] = 3;
        else
            limits.string_bytes = 20;
        assert_int_equal(unpack_reply(&message, &limits, &back), -E2BIG);
    }
    assert_null(back);
    buf_fini(&message);
    stackset_free(set);
}

static void a_stack_deeper_than_the_limit_is_refused(void **state)
{
    (void)state;
    for (uint32_t depth = WIRE_MAX_DEPTH; depth <= WIRE_MAX_DEPTH + 1; depth++) {
        struct stackset *set = stackset_new(&STACKSET_DEFAULT_LIMITS), *back = NULL;
        uint32_t frame = stackset_frame(set, FRAME_MARKER, stackset_cstring(set, "[x]"), 0, 0),
                 node = STACKSET_ROOT;
        for (uint32_t i = 0; i < depth; i++)
            node = stackset_node(set, node, frame);
        stackset_add(set, stackset_series(set, NULL, 0), node, 1, 1);
        struct buf message = pack_reply(set);
        bool fits = depth <= WIRE_MAX_DEPTH;
        assert_int_equal(unpack_reply(&message, &STACKSET_DEFAULT_LIMITS, &back), fits ? 0 : -EPROTO);
        assert_int_equal(back != NULL, fits);
        buf_fini(&message);
        stackset_free(set);
        stackset_free(back);
    }
}

static void a_reply_without_columns_is_refused(void **state)
{
    (void)state;
    struct stackset *back = NULL;
    assert_int_equal(wire_to_stackset(NULL, NULL, &STACKSET_DEFAULT_LIMITS, &back, NULL), -EPROTO);
    assert_null(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_comes_back_with_equal_content),
        cmocka_unit_test(function_names_travel_along),
        cmocka_unit_test(a_set_over_the_receivers_limits_is_refused),
        cmocka_unit_test(a_stack_deeper_than_the_limit_is_refused),
        cmocka_unit_test(a_reply_without_columns_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
