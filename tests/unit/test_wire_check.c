#include "common/wire.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A sound dictionary over an empty session; each test breaks one thing of its own copy. Strings: 1 "a" 2 "b"
 * 3 "c". */
struct fixture {
    Fleetprof__Dictionary d;
    ProtobufCBinaryData strings[3];
    Fleetprof__Executable executable, *executables[1];
    uint64_t head[4], body[4], up[3], frame[3];
    uint32_t line[1], function[4], labels[4];
    Fleetprof__Series one, *series[1];
};

static void fill(struct fixture *f)
{
    static uint8_t text[] = "abc", id[] = "0123456789";
    *f = (struct fixture){
        .d = FLEETPROF__DICTIONARY__INIT,
        .strings = {{1, text}, {1, text + 1}, {1, text + 2}},
        .executable = FLEETPROF__EXECUTABLE__INIT,
        .head = {0 << 3 | FRAME_NATIVE, 1 << 3 | FRAME_KERNEL, 2 << 3 | FRAME_INTERPRETED,
                 3 << 3 | FRAME_MARKER},
        .body = {UINT64_MAX, 2, 3, 0},
        .line = {77},
        .up = {1, 1, 3},
        .frame = {0, 3, 1},
        .labels = {1, 3, 2, 0},
        .one = FLEETPROF__SERIES__INIT,
    };
    f->executable.id = (ProtobufCBinaryData){10, id};
    f->executable.name = 3;
    f->executables[0] = &f->executable;
    f->one.n_label = 4;
    f->one.label = f->labels;
    f->series[0] = &f->one;
    f->d.n_strings = 3, f->d.strings = f->strings;
    f->d.n_executables = 1, f->d.executables = f->executables;
    f->d.n_frame_head = 4, f->d.frame_head = f->head;
    f->d.n_frame_body = 4, f->d.frame_body = f->body;
    f->d.n_frame_line = 1, f->d.frame_line = f->line;
    f->d.n_node_up = 3, f->d.node_up = f->up;
    f->d.n_node_frame = 3, f->d.node_frame = f->frame;
    f->d.n_series = 1, f->d.series = f->series;
}

static int check(const struct fixture *f)
{
    return wire_check_dictionary(&f->d, &WIRE_HAVE_NOTHING, NULL);
}

#define REFUSED_AFTER(change)                                                                                \
    do {                                                                                                     \
        struct fixture f;                                                                                    \
        fill(&f);                                                                                            \
        change;                                                                                              \
        assert_int_equal(check(&f), -EPROTO);                                                                \
    } while (0)

static void a_sound_dictionary_passes(void **state)
{
    (void)state;
    struct fixture f;
    fill(&f);
    assert_int_equal(check(&f), 0);
    f.d.n_frame_function = 4, f.d.frame_function = f.function;
    f.function[2] = 4; /* string 3 */
    assert_int_equal(check(&f), 0);
    f.d.series = NULL, f.d.n_series = 0;
    assert_int_equal(check(&f), 0);
    assert_int_equal(wire_check_dictionary(NULL, &WIRE_HAVE_NOTHING, NULL), 0);
}

static void strings_have_1_to_4096_bytes(void **state)
{
    (void)state;
    static uint8_t longest[STACKSET_STRING_BYTES + 1];
    REFUSED_AFTER(f.strings[1].len = 0);
    REFUSED_AFTER((f.strings[2] = (ProtobufCBinaryData){sizeof(longest), longest}));
    struct fixture f;
    fill(&f);
    memset(longest, 'c', sizeof(longest));
    f.strings[2] = (ProtobufCBinaryData){sizeof(longest) - 1, longest};
    assert_int_equal(check(&f), 0);
}

static void executables_have_a_known_kind_a_name_and_8_to_32_bytes_of_id(void **state)
{
    (void)state;
    static uint8_t longest[EXECUTABLE_ID_BYTES + 1];
    REFUSED_AFTER(f.executable.id.len = 7);
    REFUSED_AFTER((f.executable.id = (ProtobufCBinaryData){sizeof(longest), longest}));
    REFUSED_AFTER(f.executable.id_kind = 4);
    REFUSED_AFTER(f.executable.id_kind = -1);
    REFUSED_AFTER(f.executable.name = 4);
}

static void frames_have_equal_columns_known_kinds_and_refer_to_what_is_there(void **state)
{
    (void)state;
    REFUSED_AFTER(f.d.n_frame_body = 3);
    REFUSED_AFTER(f.d.n_frame_line = 0);
    REFUSED_AFTER((f.d.n_frame_function = 3, f.d.frame_function = f.function));
    REFUSED_AFTER((f.d.n_frame_function = 4, f.d.frame_function = f.function, f.function[0] = 5));
    REFUSED_AFTER(f.head[0] = 4);                     /* kind */
    REFUSED_AFTER(f.head[0] = 1 << 3 | FRAME_NATIVE); /* executable */
    REFUSED_AFTER(f.head[1] = 4 << 3 | FRAME_KERNEL); /* function */
    REFUSED_AFTER(f.head[1] = UINT64_MAX - 7 + FRAME_KERNEL);
    REFUSED_AFTER(f.head[1] = (1ULL << 32 | 1) << 3 | FRAME_KERNEL); /* 1 when cut to 32 bits */
    REFUSED_AFTER(f.body[1] = 4);                                    /* module */
    REFUSED_AFTER(f.body[2] = 1ULL << 32 | 1);                       /* file */
    REFUSED_AFTER(f.head[3] = 4 << 3 | FRAME_MARKER);                /* text */
    REFUSED_AFTER(f.body[3] = 1);
}

static void nodes_have_an_earlier_parent_and_a_frame(void **state)
{
    (void)state;
    REFUSED_AFTER(f.d.n_node_frame = 2);
    REFUSED_AFTER(f.up[0] = 0);
    REFUSED_AFTER(f.up[0] = 2);
    REFUSED_AFTER(f.up[2] = 4);
    REFUSED_AFTER(f.up[2] = UINT64_MAX);
    REFUSED_AFTER(f.frame[1] = 4);
}

static void series_have_distinct_ascending_names_in_pairs(void **state)
{
    (void)state;
    static uint32_t many[2 * STACKSET_MAX_LABELS + 2];
    REFUSED_AFTER(f.one.n_label = 3);
    REFUSED_AFTER(f.labels[0] = 0);
    REFUSED_AFTER(f.labels[0] = 4);
    REFUSED_AFTER(f.labels[3] = 4);
    REFUSED_AFTER(f.labels[2] = 1);
    REFUSED_AFTER((f.labels[0] = 2, f.labels[2] = 1)); /* b before a */
    REFUSED_AFTER(f.strings[1] = f.strings[0]);        /* equal bytes under two ids */
    REFUSED_AFTER((f.one.n_label = 2 * STACKSET_MAX_LABELS + 2, f.one.label = many));
}

static void ids_go_on_from_what_the_session_has(void **state)
{
    (void)state;
    struct fixture f;
    fill(&f);
    f.d.n_strings = 0;
    assert_int_equal(check(&f), -EPROTO);
    const struct wire_have have = {.strings = 4, .executables = 0, .frames = 2, .nodes = 5, .series = 1};
    assert_int_equal(wire_check_dictionary(&f.d, &have, NULL), 0);
    f.frame[0] = 5; /* 2 there and 4 new ones */
    f.up[0] = 5;
    assert_int_equal(wire_check_dictionary(&f.d, &have, NULL), 0);
    f.up[0] = 6;
    assert_int_equal(wire_check_dictionary(&f.d, &have, NULL), -EPROTO);
    f.up[0] = 5;
    f.labels[2] = 1; /* known to be the same although its bytes are not here */
    assert_int_equal(wire_check_dictionary(&f.d, &have, NULL), -EPROTO);
    f.labels[2] = 2;
    const struct wire_have full = {.strings = 4, .nodes = UINT32_MAX - 3};
    assert_int_equal(wire_check_dictionary(&f.d, &full, NULL), -EPROTO);
}

struct rows {
    Fleetprof__Samples s;
    uint64_t series_step[3], value[3], count[3];
    int64_t node_step[3];
};

/* (0, 2), (0, 4), (2, 1) */
static void fill_rows(struct rows *r)
{
    *r = (struct rows){.s = FLEETPROF__SAMPLES__INIT,
                       .series_step = {0, 0, 2},
                       .node_step = {2, 2, 1},
                       .value = {10, 20, 30},
                       .count = {1, 1, 1}};
    static char kind[] = "cpu", unit[] = "nanoseconds";
    r->s.kind = kind, r->s.unit = unit, r->s.scale = 1000;
    r->s.n_series_step = r->s.n_node_step = r->s.n_value = r->s.n_count = 3;
    r->s.series_step = r->series_step, r->s.node_step = r->node_step, r->s.value = r->value,
    r->s.count = r->count;
}

#define ROWS_REFUSED_AFTER(change)                                                                           \
    do {                                                                                                     \
        struct rows r;                                                                                       \
        fill_rows(&r);                                                                                       \
        change;                                                                                              \
        assert_int_equal(wire_check_samples(&r.s, 5, 3, NULL), -EPROTO);                                     \
    } while (0)

static void sound_rows_pass(void **state)
{
    (void)state;
    struct rows r;
    fill_rows(&r);
    assert_int_equal(wire_check_samples(&r.s, 5, 3, NULL), 0);
    r.node_step[0] = r.node_step[2] = 0; /* the root: a sample without a stack */
    r.node_step[1] = 4;
    assert_int_equal(wire_check_samples(&r.s, 5, 3, NULL), 0);
    r.s.n_series_step = r.s.n_node_step = r.s.n_value = r.s.n_count = 0;
    assert_int_equal(wire_check_samples(&r.s, 1, 0, NULL), 0);
}

static void rows_ascend_within_what_is_there(void **state)
{
    (void)state;
    struct err err;
    assert_int_equal(wire_check_samples(NULL, 5, 3, &err), -EPROTO);
    ROWS_REFUSED_AFTER(r.s.n_value = 2);
    ROWS_REFUSED_AFTER(r.s.n_count = 2);
    ROWS_REFUSED_AFTER(r.s.n_node_step = 2);
    ROWS_REFUSED_AFTER(r.series_step[2] = 3);
    ROWS_REFUSED_AFTER(r.series_step[2] = UINT64_MAX);
    ROWS_REFUSED_AFTER(r.node_step[0] = -1);
    ROWS_REFUSED_AFTER(r.node_step[0] = 5);
    ROWS_REFUSED_AFTER(r.node_step[1] = 0); /* the same row twice */
    ROWS_REFUSED_AFTER(r.node_step[1] = -1);
    ROWS_REFUSED_AFTER(r.node_step[1] = 3);
    ROWS_REFUSED_AFTER(r.node_step[1] = INT64_MAX);
    ROWS_REFUSED_AFTER(r.node_step[2] = INT64_MIN);
}

static void heads_and_sums_are_believable(void **state)
{
    (void)state;
    static char empty[] = "", longer[WIRE_NAME_BYTES + 2];
    memset(longer, 'k', sizeof(longer) - 1);
    ROWS_REFUSED_AFTER(r.s.kind = empty);
    ROWS_REFUSED_AFTER(r.s.unit = longer);
    ROWS_REFUSED_AFTER(r.s.scale = 0);
    ROWS_REFUSED_AFTER(r.value[0] = UINT64_MAX);
    ROWS_REFUSED_AFTER(r.value[0] = INT64_MAX / 1000 - 49); /* 50 more are in the other rows */
    ROWS_REFUSED_AFTER(r.count[1] = INT64_MAX - 1);
    struct rows r;
    fill_rows(&r);
    r.value[0] = INT64_MAX / 1000 - 50;
    r.count[1] = INT64_MAX - 2;
    assert_int_equal(wire_check_samples(&r.s, 5, 3, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_dictionary_passes),
        cmocka_unit_test(strings_have_1_to_4096_bytes),
        cmocka_unit_test(executables_have_a_known_kind_a_name_and_8_to_32_bytes_of_id),
        cmocka_unit_test(frames_have_equal_columns_known_kinds_and_refer_to_what_is_there),
        cmocka_unit_test(nodes_have_an_earlier_parent_and_a_frame),
        cmocka_unit_test(series_have_distinct_ascending_names_in_pairs),
        cmocka_unit_test(ids_go_on_from_what_the_session_has),
        cmocka_unit_test(sound_rows_pass),
        cmocka_unit_test(rows_ascend_within_what_is_there),
        cmocka_unit_test(heads_and_sums_are_believable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
