#include "aggregator/dictionary.h"

#include "common/xalloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct dictionary_limits ROOMY = {1000, 100, 1000, 1000, 1000, 100, 100000};

static uint32_t kernel_node(struct dictionary *d, uint32_t parent, const char *function)
{
    uint32_t name = dictionary_cstring(d, function), module = dictionary_cstring(d, "[kernel]");
    return dictionary_node(d, parent, dictionary_frame(d, FRAME_KERNEL, name, module, 0));
}

static uint32_t series_of(struct dictionary *d, const char *value, bool beyond_limit)
{
    struct dictionary_label label = {dictionary_cstring(d, "node"), dictionary_cstring(d, value)};
    return dictionary_series(d, &label, 1, beyond_limit);
}

static void equal_items_have_one_id(void **state)
{
    (void)state;
    struct dictionary d;
    dictionary_init(&d, &ROOMY);
    assert_int_equal(dictionary_cstring(&d, ""), 0);
    uint32_t a = dictionary_cstring(&d, "a");
    assert_int_equal(dictionary_cstring(&d, "a"), a);
    uint32_t b = dictionary_cstring(&d, "b");
    assert_int_not_equal(b, a);
    assert_int_equal(dictionary_find_string(&d, "a", 1), a);
    assert_int_equal(dictionary_find_string(&d, "c", 1), DICTIONARY_NONE);
    /* A name with a zero byte is not its beginning. */
    assert_int_not_equal(dictionary_string(&d, "a\0b", 3), a);

    uint32_t program = dictionary_executable(&d, "12345678", 8, EXECUTABLE_GNU, a);
    assert_int_equal(dictionary_executable(&d, "12345678", 8, EXECUTABLE_GNU, a), program);
    /* A copy under another name: which comes first must not decide what both are called. */
    assert_int_not_equal(dictionary_executable(&d, "12345678", 8, EXECUTABLE_GNU, b), program);
    assert_int_not_equal(dictionary_executable(&d, "12345678", 8, EXECUTABLE_GO, a), program);
    uint32_t frame = dictionary_frame(&d, FRAME_NATIVE, program, 0x1000, 0);
    assert_int_equal(dictionary_frame(&d, FRAME_NATIVE, program, 0x1000, 0), frame);
    assert_int_not_equal(dictionary_frame(&d, FRAME_NATIVE, program, 0x1001, 0), frame);
    uint32_t node = dictionary_node(&d, DICTIONARY_ROOT, frame);
    assert_int_equal(dictionary_node(&d, DICTIONARY_ROOT, frame), node);
    assert_int_not_equal(dictionary_node(&d, node, frame), node);
    assert_int_equal(series_of(&d, "n1", false), series_of(&d, "n1", false));
    assert_int_not_equal(series_of(&d, "n1", false), series_of(&d, "n2", false));
    dictionary_fini(&d);
}

static void the_lost_stack_is_always_there(void **state)
{
    (void)state;
    struct dictionary d;
    dictionary_init(&d, &(struct dictionary_limits){0});
    const struct dictionary_frame *frame = &d.frames[d.nodes[DICTIONARY_LOST_NODE].frame];
    assert_int_equal(frame->kind, FRAME_MARKER);
    assert_string_equal(dictionary_text(&d, frame->ref, NULL), DICTIONARY_LOST_TEXT);
    assert_true(d.shapes[DICTIONARY_LOST_NODE].marked);
    dictionary_fini(&d);
}

static void a_full_dictionary_refuses_and_still_finds(void **state)
{
    (void)state;
    struct dictionary d;
    struct dictionary_limits limits = ROOMY;
    limits.nodes = 4; /* root, lost, two more */
    limits.series = 1;
    dictionary_init(&d, &limits);
    uint32_t one = kernel_node(&d, DICTIONARY_ROOT, "one"), two = kernel_node(&d, one, "two");
    assert_int_not_equal(two, DICTIONARY_FULL);
    assert_int_equal(kernel_node(&d, two, "three"), DICTIONARY_FULL);
    assert_int_equal(kernel_node(&d, one, "two"), two);
    uint32_t first = series_of(&d, "n1", false);
    assert_int_equal(series_of(&d, "n2", false), DICTIONARY_FULL);
    assert_int_equal(series_of(&d, "n1", false), first);
    assert_int_not_equal(series_of(&d, "remainder", true), DICTIONARY_FULL);
    assert_int_equal(d.full_count, 2);
    dictionary_fini(&d);
}

static void string_bytes_are_limited(void **state)
{
    (void)state;
    struct dictionary d;
    struct dictionary_limits limits = ROOMY;
    limits.string_bytes = 200;
    dictionary_init(&d, &limits);
    char text[STACKSET_STRING_BYTES * 2];
    memset(text, 'x', sizeof(text));
    assert_int_equal(dictionary_string(&d, text, 190), DICTIONARY_FULL);
    assert_int_not_equal(dictionary_string(&d, text, 100), DICTIONARY_FULL);
    dictionary_fini(&d);
    dictionary_init(&d, &ROOMY); /* longer ones are cut */
    size_t bytes;
    dictionary_text(&d, dictionary_string(&d, text, sizeof(text)), &bytes);
    assert_int_equal(bytes, STACKSET_STRING_BYTES);
    dictionary_fini(&d);
}

static void stacks_deeper_than_the_limit_are_refused(void **state)
{
    (void)state;
    struct dictionary d;
    dictionary_init(&d, &ROOMY);
    uint32_t node = DICTIONARY_ROOT;
    for (uint32_t i = 0; i < DICTIONARY_MAX_DEPTH; i++) {
        node = kernel_node(&d, node, "again");
        assert_int_not_equal(node, DICTIONARY_FULL);
    }
    assert_int_equal(kernel_node(&d, node, "again"), DICTIONARY_FULL);
    dictionary_fini(&d);
}

static void a_marker_anywhere_marks_the_stacks_above_it(void **state)
{
    (void)state;
    struct dictionary d;
    dictionary_init(&d, &ROOMY);
    uint32_t frame = dictionary_frame(&d, FRAME_MARKER, dictionary_cstring(&d, "[truncated]"), 0, 0);
    uint32_t cut = dictionary_node(&d, DICTIONARY_ROOT, frame);
    assert_true(d.shapes[kernel_node(&d, cut, "leaf")].marked);
    assert_false(d.shapes[kernel_node(&d, DICTIONARY_ROOT, "leaf")].marked);
    dictionary_fini(&d);
}

static void compaction_keeps_what_lives_and_its_ancestors(void **state)
{
    (void)state;
    struct dictionary d;
    dictionary_init(&d, &ROOMY);
    uint32_t program =
        dictionary_executable(&d, "12345678", 8, EXECUTABLE_GNU, dictionary_cstring(&d, "prog"));
    uint32_t dead = kernel_node(&d, DICTIONARY_ROOT, "dead");
    uint32_t dead_leaf = kernel_node(&d, dead, "deeper");
    uint32_t root =
        dictionary_node(&d, DICTIONARY_ROOT, dictionary_frame(&d, FRAME_NATIVE, program, 0x42, 0));
    uint32_t leaf = kernel_node(&d, root, "leaf");
    uint32_t file = dictionary_cstring(&d, "a.py");
    uint32_t script = dictionary_node(
        &d, leaf, dictionary_frame(&d, FRAME_INTERPRETED, dictionary_cstring(&d, "f"), file, 7));
    uint32_t gone = series_of(&d, "gone", false), kept = series_of(&d, "kept", false);
    uint8_t *nodes = xcalloc(d.node_count, 1), *series = xcalloc(d.series_count, 1);
    uint32_t *new_nodes = xcalloc(d.node_count, 4), *new_series = xcalloc(d.series_count, 4);
    nodes[script] = 1;
    series[kept] = 1;
    dictionary_compact(&d, nodes, series, new_nodes, new_series);

    assert_int_equal(new_nodes[dead], DICTIONARY_NONE);
    assert_int_equal(new_nodes[dead_leaf], DICTIONARY_NONE);
    assert_int_equal(new_series[gone], DICTIONARY_NONE);
    assert_int_equal(new_nodes[DICTIONARY_LOST_NODE], DICTIONARY_LOST_NODE);
    assert_int_equal(d.node_count, 5); /* root, lost, three */
    uint32_t at = new_nodes[script];
    const struct dictionary_frame *frame = &d.frames[d.nodes[at].frame];
    assert_string_equal(dictionary_text(&d, frame->ref, NULL), "f");
    assert_string_equal(dictionary_text(&d, (uint32_t)frame->body, NULL), "a.py");
    assert_int_equal(frame->line, 7);
    at = d.nodes[at].parent;
    assert_int_equal(at, new_nodes[leaf]);
    at = d.nodes[at].parent;
    assert_int_equal(at, new_nodes[root]);
    frame = &d.frames[d.nodes[at].frame];
    assert_int_equal(frame->body, 0x42);
    assert_memory_equal(d.executables[frame->ref].id, "12345678", 8);
    assert_string_equal(dictionary_text(&d, d.executables[frame->ref].name, NULL), "prog");
    uint32_t name = dictionary_find_string(&d, "node", 4);
    assert_string_equal(dictionary_text(&d, dictionary_label_value(&d, new_series[kept], name), NULL),
                        "kept");
    assert_int_equal(dictionary_find_string(&d, "dead", 4), DICTIONARY_NONE);
    /* and it goes on as before */
    assert_int_equal(kernel_node(&d, new_nodes[root], "leaf"), new_nodes[leaf]);
    free(nodes);
    free(series);
    free(new_nodes);
    free(new_series);
    dictionary_fini(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_items_have_one_id),
        cmocka_unit_test(the_lost_stack_is_always_there),
        cmocka_unit_test(a_full_dictionary_refuses_and_still_finds),
        cmocka_unit_test(string_bytes_are_limited),
        cmocka_unit_test(stacks_deeper_than_the_limit_are_refused),
        cmocka_unit_test(a_marker_anywhere_marks_the_stacks_above_it),
        cmocka_unit_test(compaction_keeps_what_lives_and_its_ancestors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
