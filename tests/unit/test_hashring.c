#include "common/hashring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define KEYS 10000

static const char *const five[] = {"tcp://a:1", "tcp://b:1", "tcp://c:1", "tcp://d:1", "tcp://e:1"};

static size_t pick(unsigned key, const char *const *names, size_t count)
{
    char text[32];
    int bytes = snprintf(text, sizeof(text), "node-%u", key);
    return hashring_pick(text, (size_t)bytes, names, count);
}

static void one_name_gets_everything(void **state)
{
    (void)state;
    for (unsigned key = 0; key < 100; key++)
        assert_int_equal(pick(key, five, 1), 0);
}

static void every_name_gets_about_its_share(void **state)
{
    (void)state;
    unsigned got[5] = {0};
    for (unsigned key = 0; key < KEYS; key++)
        got[pick(key, five, 5)]++;
    for (int i = 0; i < 5; i++) /* 2000 each, standard deviation 40 */
        assert_in_range(got[i], 1800, 2200);
}

static void order_of_the_list_does_not_matter(void **state)
{
    (void)state;
    const char *const turned[] = {five[3], five[0], five[4], five[2], five[1]};
    for (unsigned key = 0; key < 1000; key++)
        assert_string_equal(five[pick(key, five, 5)], turned[pick(key, turned, 5)]);
}

static void a_name_that_leaves_moves_only_its_own_keys(void **state)
{
    (void)state;
    unsigned moved = 0;
    for (unsigned key = 0; key < KEYS; key++) {
        size_t before = pick(key, five, 5), after = pick(key, five, 4);
        if (before == 4)
            moved++;
        else
            assert_int_equal(before, after);
    }
    assert_in_range(moved, 1800, 2200);
}

static void choice_is_the_same_in_every_build(void **state)
{
    (void)state;
    /* Agents of one version must agree with agents of another: values of XXH3-64 computed apart from this
     * code. */
    assert_int_equal(pick(1, five, 5), 1);
    assert_int_equal(pick(2, five, 5), 1);
    assert_int_equal(pick(3, five, 5), 0);
    assert_int_equal(pick(4, five, 5), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_name_gets_everything),
        cmocka_unit_test(every_name_gets_about_its_share),
        cmocka_unit_test(order_of_the_list_does_not_matter),
        cmocka_unit_test(a_name_that_leaves_moves_only_its_own_keys),
        cmocka_unit_test(choice_is_the_same_in_every_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
