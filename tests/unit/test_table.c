#include "common/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Sum of (value + 1) under a hash: order does not matter, an absent hash gives 0. */
static uint64_t sum_of(const struct table *table, uint64_t hash)
{
    uint64_t sum = 0;
    for (struct table_probe p = table_probe(table, hash); table_next(table, &p);)
        sum += p.value + 1ULL;
    return sum;
}

static void an_empty_table_finds_nothing(void **state)
{
    (void)state;
    struct table table = {0};
    assert_int_equal(sum_of(&table, 0), 0);
    assert_false(table_remove(&table, 0, 0));
    table_clear(&table);
    assert_int_equal(table_bytes(&table), 0);
    table_fini(&table);
}

static void equal_hashes_keep_all_their_values(void **state)
{
    (void)state;
    struct table table = {0};
    table_insert(&table, 5, 1);
    table_insert(&table, 5, 10);
    table_insert(&table, 5ULL << 32 | 5, 100); /* the same slot, another hash */
    assert_int_equal(sum_of(&table, 5), 2 + 11);
    assert_int_equal(sum_of(&table, 5ULL << 32 | 5), 101);
    assert_int_equal(sum_of(&table, 6), 0);
    assert_true(table_remove(&table, 5, 1));
    assert_false(table_remove(&table, 5, 1));
    assert_int_equal(sum_of(&table, 5), 11);
    assert_int_equal(sum_of(&table, 5ULL << 32 | 5), 101);
    table_fini(&table);
}

static void a_small_table_is_small(void **state)
{
    (void)state;
    struct table table = {0};
    for (uint32_t i = 0; i < 12; i++)
        table_insert(&table, i, i);
    assert_int_equal(table_bytes(&table), 16 * 16);
    table_insert(&table, 12, 12); /* over 3/4 */
    assert_int_equal(table_bytes(&table), 32 * 16);
    table_fini(&table);
}

/* Against an array as model: few distinct low bits make long runs that wrap around the end. */
static void random_inserts_and_removes_agree_with_a_plain_array(void **state)
{
    (void)state;
    enum { HASHES = 64, VALUES = 8 };
    bool model[HASHES][VALUES] = {{false}};
    struct table table = {0};
    uint32_t seed = 1;
    for (int step = 0; step < 20000; step++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t h = seed >> 16 & (HASHES - 1), v = seed >> 24 & (VALUES - 1);
        uint64_t hash = (uint64_t)h << 32 | (h % 4 == 0 ? UINT32_MAX : h % 16);
        if (model[h][v])
            assert_true(table_remove(&table, hash, v));
        else
            table_insert(&table, hash, v);
        model[h][v] = !model[h][v];
        uint64_t expected = 0;
        for (uint32_t i = 0; i < VALUES; i++)
            expected += model[h][i] ? i + 1 : 0;
        assert_int_equal(sum_of(&table, hash), expected);
    }
    uint32_t used = 0;
    for (int h = 0; h < HASHES; h++)
        for (int v = 0; v < VALUES; v++)
            used += model[h][v];
    assert_int_equal(table.used_count, used);
    table_clear(&table);
    assert_int_equal(table.used_count, 0);
    table_fini(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_table_finds_nothing),
        cmocka_unit_test(equal_hashes_keep_all_their_values),
        cmocka_unit_test(a_small_table_is_small),
        cmocka_unit_test(random_inserts_and_removes_agree_with_a_plain_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
