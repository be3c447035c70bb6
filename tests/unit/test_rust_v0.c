#include "aggregator/rust_v0.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static long lifetimes(const char *name)
{
    uint32_t count = 0;
    int rc = rust_v0_lifetimes(name, strlen(name), &count);
    return rc < 0 ? rc : (long)count;
}

static void names_without_binders_bind_nothing(void **state)
{
    (void)state;
    assert_int_equal(0, lifetimes("_RNvC1a1b"));
    assert_int_equal(0, lifetimes("_RNvMs1_NtNtCs5wpeUTfK1SV_14regex_automata6hybrid3dfaNtB5_5Cache3new"));
    assert_int_equal(0, lifetimes("_RNCINvC3app3runmE0B3_")); /* with an instantiating crate */
    assert_int_equal(
        0, lifetimes("_RINvC1a1bAhj8_Kb1_L_NtB2_7FGzzzz_E")); /* looks like one inside an identifier */
    assert_int_equal(0, lifetimes("_RNvXs_C1aNtC1b1SNtC1c1T3run.llvm.123")); /* a suffix is not looked at */
}

static void binders_of_functions_and_traits_add_up(void **state)
{
    (void)state;
    assert_int_equal(1, lifetimes("_RINvC1a1bFG_RL0_hEuE"));
    assert_int_equal(2, lifetimes("_RINvC1a1bFG0_RL0_hEuE"));
    assert_int_equal(1 + 63, lifetimes("_RINvC1a1bFG_EuDGZ_NtC1c1TEL_E")); /* Z is 61 */
    assert_int_equal(UINT32_MAX, lifetimes("_RNvMINvC1a1bFGzzzzzzzzzzzzzzzzzzzz_EuEh1c"));
}

static void what_is_not_of_the_grammar_is_refused(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"",          "_R",          "_RN",        "_RNv",  "_RC",
                                        "_RC9short", "_RNvC1a",     "_RNvC1a1bx", "_Z1fv", "_RIC1a",
                                        "_RIC1aL",   "_RIC1aKq0_E", "_RIC1aKj0"};
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++)
        assert_int_equal(-EINVAL, lifetimes(NAMES[i]));
}

static void depth_is_limited(void **state)
{
    (void)state;
    char name[2 * RUST_V0_DEPTH + 32] = "_RIC1a";
    size_t used = strlen(name);
    memset(name + used, 'S', RUST_V0_DEPTH - 2);
    memcpy(name + used + RUST_V0_DEPTH - 2, "hE", 3);
    assert_int_equal(0, lifetimes(name));
    memset(name + used, 'S', RUST_V0_DEPTH);
    memcpy(name + used + RUST_V0_DEPTH, "hE", 3);
    assert_int_equal(-EINVAL, lifetimes(name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_without_binders_bind_nothing),
        cmocka_unit_test(binders_of_functions_and_traits_add_up),
        cmocka_unit_test(what_is_not_of_the_grammar_is_refused),
        cmocka_unit_test(depth_is_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
