/* Rows by key: their order, their sums, the keys of peers, results kept between phases. */
#include "aggregator/kept.h"
#include "aggregator/top_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static size_t key_of(uint8_t *out, const char *a, const char *b)
{
    size_t used = 0;
    const char *values[] = {a, b};
    for (size_t i = 0; i < 2 && values[i]; i++) {
        size_t bytes = strlen(values[i]);
        out[used++] = bytes & 0xff;
        out[used++] = (bytes >> 8) & 0xff;
        memcpy(out + used, values[i], bytes);
        used += bytes;
    }
    return used;
}

static void add(struct top_table *table, const char *a, const char *b, uint64_t value, uint64_t count)
{
    uint8_t key[256];
    assert_non_null(top_table_add(table, key, key_of(key, a, b), value, count));
}

static void assert_row(const struct top_table *table, uint32_t at, const char *a, const char *b,
                       uint64_t value)
{
    uint8_t key[256];
    size_t bytes = key_of(key, a, b);
    assert_int_equal(table->rows[at].value, value);
    assert_int_equal(table->rows[at].key_bytes, bytes);
    assert_memory_equal(top_row_key(table, &table->rows[at]), key, bytes);
}

static void rows_with_equal_keys_add_up(void **state)
{
    (void)state;
    struct top_table a = {0}, b = {0};
    for (int i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof(name), "f%d", i % 100);
        add(i % 2 ? &a : &b, name, NULL, (uint64_t)i, 1);
    }
    top_table_merge(&a, &b);
    assert_int_equal(a.row_count, 100);
    uint64_t value = 0, count = 0;
    for (uint32_t i = 0; i < a.row_count; i++) {
        value += a.rows[i].value;
        count += a.rows[i].count;
        assert_int_equal(a.rows[i].count, 10);
    }
    assert_int_equal(value, 999 * 1000 / 2);
    assert_int_equal(count, 1000);
    top_table_fini(&a);
    top_table_fini(&b);
}

static void sums_saturate(void **state)
{
    (void)state;
    struct top_table table = {0};
    add(&table, "f", NULL, UINT64_MAX - 1, UINT64_MAX);
    add(&table, "f", NULL, 5, 5);
    assert_int_equal(table.rows[0].value, UINT64_MAX);
    assert_int_equal(table.rows[0].count, UINT64_MAX);
    top_table_fini(&table);
}

static void equal_values_are_ordered_by_the_groups_texts(void **state)
{
    (void)state;
    struct top_table table = {0};
    add(&table, "b", "x", 5, 1);
    add(&table, "aa", "x", 5, 1); /* longer and still first */
    add(&table, "aa", "w", 5, 1);
    add(&table, "a", "z", 5, 1);
    add(&table, "zz", "z", 6, 1);
    add(&table, "\xff", "", 5, 1);
    top_table_sort(&table);
    assert_row(&table, 0, "zz", "z", 6);
    assert_row(&table, 1, "a", "z", 5);
    assert_row(&table, 2, "aa", "w", 5);
    assert_row(&table, 3, "aa", "x", 5);
    assert_row(&table, 4, "b", "x", 5);
    assert_row(&table, 5, "\xff", "", 5);
    top_table_fini(&table);
}

static void keys_of_peers_are_checked(void **state)
{
    (void)state;
    uint8_t key[64];
    size_t bytes = key_of(key, "name", "module");
    assert_true(top_key_sound(key, bytes, 2));
    assert_false(top_key_sound(key, bytes, 1));
    assert_false(top_key_sound(key, bytes, 3));
    for (size_t cut = 0; cut < bytes; cut++)
        assert_false(top_key_sound(key, cut, 2));
    key[0] = 0xff; /* longer than the rest */
    assert_false(top_key_sound(key, bytes, 2));
    assert_true(top_key_sound(key, 0, 0));
}

static struct kept_result *result_of(const char *name, uint64_t value)
{
    struct top_table table = {0};
    add(&table, name, NULL, value, 1);
    return kept_result_new(&table);
}

static void kept_results_are_found_by_number_until_they_are_old(void **state)
{
    (void)state;
    struct kept *kept = kept_new(2, 1u << 20, 1000);
    struct kept_result *result = result_of("f", 7);
    kept_put(kept, 11, result, 100);
    kept_result_unref(result);
    assert_null(kept_find(kept, 12, 100));
    result = kept_find(kept, 11, 1099);
    assert_non_null(result);
    uint8_t key[16];
    size_t bytes = key_of(key, "f", NULL);
    assert_int_equal(kept_result_find(result, key, bytes)->value, 7);
    assert_null(kept_result_find(result, key, bytes - 1));
    assert_null(kept_find(kept, 11, 1100)); /* expired: who holds it may go on with it */
    assert_int_equal(kept_result_find(result, key, bytes)->value, 7);
    kept_result_unref(result);
    for (uint64_t number = 1; number <= 3; number++) { /* two places: the oldest goes */
        result = result_of("g", number);
        kept_put(kept, number, result, 2000);
        kept_result_unref(result);
    }
    assert_null(kept_find(kept, 1, 2000));
    result = kept_find(kept, 3, 2000);
    assert_non_null(result);
    kept_result_unref(result);
    kept_free(kept);
}

static void results_too_large_are_not_kept(void **state)
{
    (void)state;
    struct kept *kept = kept_new(2, 100, 1000);
    struct kept_result *result = result_of("f", 7);
    kept_put(kept, 1, result, 0);
    kept_result_unref(result);
    assert_null(kept_find(kept, 1, 0));
    kept_free(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_with_equal_keys_add_up),
        cmocka_unit_test(sums_saturate),
        cmocka_unit_test(equal_values_are_ordered_by_the_groups_texts),
        cmocka_unit_test(keys_of_peers_are_checked),
        cmocka_unit_test(kept_results_are_found_by_number_until_they_are_old),
        cmocka_unit_test(results_too_large_are_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
