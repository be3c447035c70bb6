#include "node-agent/mappings.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct images *images;
static struct mappings list;

static int set_up(void **state)
{
    (void)state;
    images = images_new();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mappings_fini(&list, images);
    images_free(images);
    return 0;
}

/* Not bracketed: an image with offsets, as a file has. */
static int put(const char *name, uint64_t start, uint64_t end, uint64_t file_offset)
{
    struct mapping mapping = {start, end, file_offset, images_get_synthetic(images, name)};
    return mappings_put(&list, images, &mapping);
}

/* "start-end name@offset ..." in order. */
static const char *shown(void)
{
    static char out[1024];
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < list.count; i++)
        used +=
            (size_t)snprintf(out + used, sizeof(out) - used, "%s%llx-%llx %s@%llx", i ? ", " : "",
                             (unsigned long long)list.items[i].start, (unsigned long long)list.items[i].end,
                             list.items[i].image->name, (unsigned long long)list.items[i].file_offset);
    return out;
}

static void keeps_ranges_sorted_and_finds_by_address(void **state)
{
    (void)state;
    assert_int_equal(put("b", 0x3000, 0x5000, 0x100), 1);
    assert_int_equal(put("a", 0x1000, 0x2000, 0), 1);
    assert_int_equal(put("c", 0x8000, 0x9000, 0), 1);
    assert_string_equal(shown(), "1000-2000 a@0, 3000-5000 b@100, 8000-9000 c@0");
    assert_null(mappings_find(&list, 0xfff));
    assert_null(mappings_find(&list, 0x2000)); /* the end is not part of it */
    assert_null(mappings_find(&list, 0x9000));
    assert_string_equal(mappings_find(&list, 0x1000)->image->name, "a");
    const struct mapping *b = mappings_find(&list, 0x4fff);
    assert_string_equal(b->image->name, "b");
    assert_int_equal(mapping_offset_of(b, 0x4fff), 0x100 + 0x1fff);
}

static void a_newer_range_cuts_splits_and_swallows_older_ones(void **state)
{
    (void)state;
    put("a", 0x1000, 0x5000, 0);
    assert_int_equal(put("b", 0x2000, 0x3000, 0x700), 1);
    assert_string_equal(shown(), "1000-2000 a@0, 2000-3000 b@700, 3000-5000 a@2000");
    assert_int_equal(put("c", 0x1800, 0x2800, 0), 1);
    assert_string_equal(shown(), "1000-1800 a@0, 1800-2800 c@0, 2800-3000 b@f00, 3000-5000 a@2000");
    assert_int_equal(put("d", 0x1000, 0x5000, 0), 1);
    assert_string_equal(shown(), "1000-5000 d@0");
}

static void the_same_again_changes_nothing(void **state)
{
    (void)state;
    put("a", 0x1000, 0x5000, 0x40);
    assert_int_equal(put("a", 0x1000, 0x5000, 0x40), 0);
    assert_int_equal(put("a", 0x2000, 0x3000, 0x1040), 0); /* a part of it */
    assert_int_equal(put("a", 0x2000, 0x3000, 0x2040), 1); /* the same file, another place in it */
    assert_string_equal(shown(), "1000-2000 a@40, 2000-3000 a@2040, 3000-5000 a@2040");
}

static void neighbours_that_continue_each_other_become_one(void **state)
{
    (void)state;
    put("a", 0x1000, 0x2000, 0);
    put("a", 0x3000, 0x4000, 0x2000);
    assert_int_equal(list.count, 2);
    put("a", 0x2000, 0x3000, 0x1000);
    assert_string_equal(shown(), "1000-4000 a@0");
    put("a", 0x4000, 0x5000, 0); /* adjacent, but not the next bytes of the file */
    assert_int_equal(list.count, 2);
}

static void code_without_a_file_joins_up_and_has_no_offsets(void **state)
{
    (void)state;
    for (uint64_t page = 0; page < 1000; page++)
        put("[anon]", 0x100000 + page * 0x1000, 0x101000 + page * 0x1000, page * 7);
    assert_int_equal(list.count, 1);
    assert_int_equal(mapping_offset_of(mappings_find(&list, 0x123456), 0x123456), 0);
}

static void over_the_limit_the_list_stays_as_it_is(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < PROCESS_MAX_MAPPINGS; i++)
        assert_int_equal(put("a", i * 0x2000 + 0x1000, i * 0x2000 + 0x2000, 0), 1);
    assert_int_equal(put("a", 0xf0000000, 0xf0001000, 0), -E2BIG);
    assert_int_equal(put("b", 0x1400, 0x1800, 0), -E2BIG); /* a split would make two more */
    assert_int_equal(list.count, PROCESS_MAX_MAPPINGS);
    assert_int_equal(put("b", 0x1000, 0x2000, 0), 1); /* one for one fits */
}

static void a_copy_lives_on_its_own(void **state)
{
    (void)state;
    struct mappings copy = {0};
    put("a", 0x1000, 0x2000, 0);
    mappings_copy(&copy, &list);
    mappings_fini(&list, images);
    assert_string_equal(mappings_find(&copy, 0x1000)->image->name, "a");
    mappings_fini(&copy, images);
}

/* Against a plain array of pages, 64 pages, many random ranges. */
static void agrees_with_a_page_by_page_model(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"a", "b", "c", "[anon]"};
    int owner[64];
    uint64_t offset[64];
    uint32_t seed = 12345;
    memset(owner, -1, sizeof(owner));
    for (int round = 0; round < 3000; round++) {
        seed = seed * 1664525 + 1013904223;
        unsigned first = seed >> 26, pages = (seed >> 20 & 7) + 1, name = seed >> 16 & 3;
        uint64_t base = (uint64_t)(seed >> 12 & 3) * 0x1000;
        unsigned end = first + pages > 64 ? 64 : first + pages;
        put(NAMES[name], first * 0x1000ULL, end * 0x1000ULL, base);
        for (unsigned i = first; i < end; i++) {
            owner[i] = (int)name;
            offset[i] = name == 3 ? 0 : base + (i - first) * 0x1000ULL;
        }
        for (unsigned i = 0; i < 64; i++) {
            const struct mapping *found = mappings_find(&list, i * 0x1000ULL + 5);
            assert_int_equal(found != NULL, owner[i] >= 0);
            if (!found)
                continue;
            assert_string_equal(found->image->name, NAMES[owner[i]]);
            assert_int_equal(mapping_offset_of(found, i * 0x1000ULL), offset[i]);
        }
        for (uint32_t i = 0; i + 1 < list.count; i++)
            assert_true(list.items[i].end <= list.items[i + 1].start);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keeps_ranges_sorted_and_finds_by_address, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_newer_range_cuts_splits_and_swallows_older_ones, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_same_again_changes_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(neighbours_that_continue_each_other_become_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(code_without_a_file_joins_up_and_has_no_offsets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(over_the_limit_the_list_stays_as_it_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_copy_lives_on_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(agrees_with_a_page_by_page_model, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
