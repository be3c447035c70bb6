#include "common/stackset.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct stackset *new_set(void)
{
    return stackset_new(&STACKSET_DEFAULT_LIMITS);
}

static const char *text(const struct stackset *set, uint32_t id)
{
    return stackset_text(set, id, NULL);
}

static void a_new_set_holds_the_empty_string_and_the_root(void **state)
{
    (void)state;
    struct stackset *set = new_set();
    assert_int_equal(set->string_count, 1);
    assert_string_equal(text(set, 0), "");
    assert_int_equal(stackset_string(set, "", 0), 0);
    assert_int_equal(set->node_count, 1);
    assert_int_equal(set->nodes[STACKSET_ROOT].parent, STACKSET_ROOT);
    assert_int_equal(set->row_count, 0);
    stackset_free(set);
    stackset_free(NULL);
}

static void an_idle_window_costs_a_few_kilobytes(void **state)
{
    (void)state;
    struct stackset *set = new_set();
    assert_in_range(stackset_memory_bytes(set), 1, 1024);
    for (uint32_t i = 0; i < 10; i++) {
        char name[32];
        snprintf(name, sizeof(name), "function_%u", i);
        uint32_t frame = stackset_frame(set, FRAME_KERNEL, stackset_cstring(set, name), 0, 0);
        stackset_add(set, 0, stackset_node(set, STACKSET_ROOT, frame), 1, 1);
    }
    assert_in_range(stackset_memory_bytes(set), 1, 4096);
    stackset_free(set);
}

static void equal_items_get_one_id_and_different_ones_their_own(void **state)
{
    (void)state;
    struct stackset *set = new_set();
    uint32_t a = stackset_cstring(set, "a"), b = stackset_cstring(set, "b");
    assert_int_equal(a, 1);
    assert_int_equal(b, 2);
    assert_int_equal(stackset_string(set, "ab", 1), a);
    uint32_t nul = stackset_string(set, "a\0b", 3);
    assert_int_equal(nul, 3);
    size_t bytes;
    assert_memory_equal(stackset_text(set, nul, &bytes), "a\0b", 4);
    assert_int_equal(bytes, 3);

    assert_int_equal(stackset_executable(set, "12345678", 8, EXECUTABLE_GNU, a), 0);
    assert_int_equal(stackset_executable(set, "12345678", 8, EXECUTABLE_GNU, a), 0);
    assert_int_equal(stackset_executable(set, "12345678", 8, EXECUTABLE_CONTENT, a), 1);
    assert_int_equal(stackset_executable(set, "123456789", 9, EXECUTABLE_GNU, a), 2);
    assert_int_equal(stackset_executable(set, "12345678", 8, EXECUTABLE_GNU, b),
                     3); /* a copy's name is its own */
    assert_int_equal(set->executables[0].name, a);

    assert_int_equal(stackset_frame(set, FRAME_NATIVE, 0, 0x1000, 0), 0);
    assert_int_equal(stackset_frame(set, FRAME_NATIVE, 0, 0x1000, 9),
                     0); /* lines are for interpreted frames */
    assert_int_equal(stackset_frame(set, FRAME_NATIVE, 1, 0x1000, 0), 1);
    assert_int_equal(stackset_frame(set, FRAME_INTERPRETED, a, b, 1), 2);
    assert_int_equal(stackset_frame(set, FRAME_INTERPRETED, a, b, 2), 3);
    assert_int_equal(stackset_frame(set, FRAME_KERNEL, a, b, 0), 4);
    assert_int_equal(stackset_frame(set, FRAME_MARKER, a, 5, 0), 5);
    assert_int_equal(stackset_frame(set, FRAME_MARKER, a, 6, 0), 5);

    uint32_t one = stackset_node(set, STACKSET_ROOT, 0), two = stackset_node(set, one, 0);
    assert_int_equal(one, 1);
    assert_int_equal(two, 2);
    assert_int_equal(stackset_node(set, one, 0), two);
    assert_int_equal(stackset_node(set, STACKSET_ROOT, 1), 3);
    stackset_free(set);
}

static void a_part_of_a_string_in_the_set_can_be_added(void **state)
{
    (void)state;
    struct stackset *set = new_set();
    char path[40];
    for (uint32_t i = 0; i < 200; i++) { /* crosses several growths */
        snprintf(path, sizeof(path), "/usr/lib/directory/file-number-%u", i);
        uint32_t whole = stackset_cstring(set, path);
        uint32_t part = stackset_cstring(set, strrchr(text(set, whole), '/') + 1);
        assert_string_equal(text(set, part), path + strlen("/usr/lib/directory/"));
    }
    stackset_free(set);
}

static void long_strings_are_cut(void **state)
{
    (void)state;
    struct stackset *set = new_set();
    char *longer = malloc(STACKSET_STRING_BYTES + 10);
    memset(longer, 'x', STACKSET_STRING_BYTES + 10);
    uint32_t id = stackset_string(set, longer, STACKSET_STRING_BYTES + 10);
    assert_int_equal(stackset_string(set, longer, STACKSET_STRING_BYTES), id);
    size_t bytes;
    stackset_text(set, id, &bytes);
    assert_int_equal(bytes, STACKSET_STRING_BYTES);
    free(longer);
    stackset_free(set);
}

static void labels_are_sorted_by_name_whatever_order_they_come_in(void **state)
{
    (void)state;
    struct stackset *set = new_set();
    uint32_t z = stackset_cstring(set, "z"), a = stackset_cstring(set, "a"), ab = stackset_cstring(set, "ab");
    uint32_t v = stackset_cstring(set, "value");
    const struct stackset_label labels[] = {{z, 0}, {ab, v}, {a, z}}, turned[] = {{a, z}, {z, 0}, {ab, v}};
    uint32_t id = stackset_series(set, labels, 3);
    assert_int_equal(id, 0);
    assert_int_equal(stackset_series(set, turned, 3), id);
    assert_int_equal(stackset_series(set, labels, 2), 1);
    assert_int_equal(stackset_series(set, NULL, 0), 2);
    const struct stackset_label *sorted = set->labels + set->series[id].first_label;
    assert_int_equal(sorted[0].name, a);
    assert_int_equal(sorted[1].name, ab);
    assert_int_equal(sorted[2].name, z);
    assert_int_equal(stackset_label_value(set, id, "a"), z);
    assert_int_equal(stackset_label_value(set, id, "z"), 0);
    assert_int_equal(stackset_label_value(set, id, "b"), STACKSET_FULL);
    struct stackset_label many[STACKSET_MAX_LABELS + 1] = {{0, 0}};
    assert_int_equal(stackset_series(set, many, STACKSET_MAX_LABELS + 1), STACKSET_FULL);
    stackset_free(set);
}

static void rows_add_up_and_saturate(void **state)
{
    (void)state;
    struct stackset *set = new_set();
    assert_int_equal(stackset_add(set, 0, 0, 5, 1), 0);
    assert_int_equal(stackset_add(set, 1, 0, 7, 1), 1);
    assert_int_equal(stackset_add(set, 0, 0, 6, 2), 0);
    assert_int_equal(set->rows[0].value, 11);
    assert_int_equal(set->rows[0].count, 3);
    stackset_add(set, 1, 0, UINT64_MAX - 1, UINT64_MAX);
    assert_true(set->rows[1].value == UINT64_MAX);
    assert_true(set->rows[1].count == UINT64_MAX);
    stackset_free(set);
}

static void rows_sort_by_series_then_node(void **state)
{
    (void)state;
    struct stackset *set = new_set();
    const uint32_t pairs[][2] = {{1, 5}, {0, 9}, {1, 2}, {0, 3}};
    for (size_t i = 0; i < 4; i++)
        stackset_add(set, pairs[i][0], pairs[i][1], i, 1);
    stackset_sort_rows(set);
    const uint64_t order[] = {3, 1, 2, 0};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(set->rows[i].value, order[i]);
    stackset_free(set);
}

static void over_a_limit_an_item_is_refused_and_nothing_changes(void **state)
{
    (void)state;
    struct stackset_limits limits = {.strings = 3,
                                     .executables = 1,
                                     .frames = 1,
                                     .nodes = 2,
                                     .series = 1,
                                     .rows = 1,
                                     .string_bytes = 1 + 4};
    struct stackset *set = stackset_new(&limits);
    assert_int_equal(stackset_cstring(set, "abc"), 1); /* 4 bytes with its NUL */
    assert_int_equal(stackset_cstring(set, "d"), STACKSET_FULL);
    assert_int_equal(set->string_count, 2);
    assert_int_equal(stackset_cstring(set, "abc"), 1);
    assert_int_equal(stackset_executable(set, "12345678", 8, EXECUTABLE_GNU, 0), 0);
    assert_int_equal(stackset_executable(set, "1234567x", 8, EXECUTABLE_GNU, 0), STACKSET_FULL);
    assert_int_equal(stackset_frame(set, FRAME_NATIVE, 0, 1, 0), 0);
    assert_int_equal(stackset_frame(set, FRAME_NATIVE, 0, 2, 0), STACKSET_FULL);
    assert_int_equal(stackset_node(set, 0, 0), 1);
    assert_int_equal(stackset_node(set, 1, 0), STACKSET_FULL);
    assert_int_equal(stackset_series(set, NULL, 0), 0);
    const struct stackset_label label = {1, 0};
    assert_int_equal(stackset_series(set, &label, 1), STACKSET_FULL);
    assert_int_equal(set->label_count, 0);
    assert_int_equal(stackset_add(set, 0, 1, 1, 1), 0);
    assert_int_equal(stackset_add(set, 0, 0, 1, 1), STACKSET_FULL);
    assert_int_equal(stackset_add(set, 0, 1, 1, 1), 0);
    stackset_free(set);
}

/* a;b (native, named) of series {process="p"} with value, count. */
static struct stackset *two_frame_set(const char *padding, uint64_t value)
{
    struct stackset *set = new_set();
    stackset_cstring(set, padding); /* shifts the ids */
    uint32_t program = stackset_cstring(set, "program");
    uint32_t executable = stackset_executable(set, "0123456789", 10, EXECUTABLE_GO, program);
    uint32_t caller = stackset_frame(set, FRAME_NATIVE, executable, 0x10, 0);
    uint32_t leaf = stackset_frame(set, FRAME_INTERPRETED, stackset_cstring(set, "run"),
                                   stackset_cstring(set, "x.py"), 12);
    uint32_t node = stackset_node(set, stackset_node(set, STACKSET_ROOT, caller), leaf);
    const struct stackset_label label = {stackset_cstring(set, "process"), stackset_cstring(set, "p")};
    stackset_add(set, stackset_series(set, &label, 1), node, value, 1);
    return set;
}

static void merging_translates_ids_and_adds_values(void **state)
{
    (void)state;
    struct stackset *into = two_frame_set("x", 5), *from = two_frame_set("another", 7);
    from->frames[0].function = stackset_cstring(from, "main") + 1;
    uint64_t lost_count = 1;
    assert_int_equal(stackset_merge(into, from, &lost_count), 0);
    assert_int_equal(lost_count, 0);
    assert_int_equal(into->row_count, 1);
    assert_int_equal(into->rows[0].value, 12);
    assert_int_equal(into->rows[0].count, 2);
    assert_int_equal(into->node_count, 3);
    assert_int_equal(into->frame_count, 2);
    assert_string_equal(text(into, into->frames[0].function - 1), "main");
    assert_int_equal(into->frames[1].function, 0);
    assert_int_equal(into->frames[1].line, 12);
    assert_int_equal(stackset_merge(into, from, NULL), 0);
    assert_int_equal(into->rows[0].value, 19);
    stackset_free(into);
    stackset_free(from);
}

static void merging_into_a_full_set_says_how_much_was_lost(void **state)
{
    (void)state;
    struct stackset_limits limits = STACKSET_DEFAULT_LIMITS;
    limits.nodes = 2; /* the root and one frame */
    struct stackset *into = stackset_new(&limits), *from = two_frame_set("x", 5);
    stackset_add(from, 0, 1, 3, 4); /* the caller's node fits */
    uint64_t lost_count = 0;
    assert_int_equal(stackset_merge(into, from, &lost_count), -E2BIG);
    assert_int_equal(lost_count, 1);
    assert_int_equal(into->row_count, 1);
    assert_int_equal(into->rows[0].value, 3);
    assert_int_equal(into->rows[0].count, 4);
    stackset_free(into);
    stackset_free(from);
}

static void a_sealed_set_reads_the_same_and_is_smaller(void **state)
{
    (void)state;
    struct stackset *set = two_frame_set("x", 5), *into = new_set();
    size_t before = stackset_memory_bytes(set);
    stackset_seal(set);
    assert_true(stackset_memory_bytes(set) < before);
    assert_int_equal(stackset_merge(into, set, NULL), 0);
    assert_int_equal(into->rows[0].value, 5);
    stackset_free(set);
    stackset_free(into);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_set_holds_the_empty_string_and_the_root),
        cmocka_unit_test(an_idle_window_costs_a_few_kilobytes),
        cmocka_unit_test(equal_items_get_one_id_and_different_ones_their_own),
        cmocka_unit_test(a_part_of_a_string_in_the_set_can_be_added),
        cmocka_unit_test(long_strings_are_cut),
        cmocka_unit_test(labels_are_sorted_by_name_whatever_order_they_come_in),
        cmocka_unit_test(rows_add_up_and_saturate),
        cmocka_unit_test(rows_sort_by_series_then_node),
        cmocka_unit_test(over_a_limit_an_item_is_refused_and_nothing_changes),
        cmocka_unit_test(merging_translates_ids_and_adds_values),
        cmocka_unit_test(merging_into_a_full_set_says_how_much_was_lost),
        cmocka_unit_test(a_sealed_set_reads_the_same_and_is_smaller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
