#include "aggregator/demangle.h"

#include "common/clock.h"
#include "common/str.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *shown(const char *raw)
{
    static char out[DEMANGLE_OUTPUT_BYTES];
    size_t bytes = demangle(raw, strlen(raw), out, sizeof(out));
    assert_int_equal(strlen(out), bytes);
    return out;
}

static void cplusplus_names_are_expanded(void **state)
{
    (void)state;
    assert_string_equal("foo()", shown("_Z3foov"));
    assert_string_equal("foo() [clone .cold]", shown("_Z3foov.cold"));
    assert_string_equal("std::vector<int, std::allocator<int> >::push_back(int const&)",
                        shown("_ZNSt6vectorIiSaIiEE9push_backERKi"));
    assert_string_equal("main::{lambda(int)#1}::operator()(int) const", shown("_ZZ4mainENKUliE_clEi"));
}

static void rust_legacy_names_lose_their_hash(void **state)
{
    (void)state;
    assert_string_equal("core::fmt::Write::write_fmt",
                        shown("_ZN4core3fmt5Write9write_fmt17h03d3fa13d410497fE"));
    assert_string_equal(
        "<alloc::string::String as core::fmt::Debug>::fmt",
        shown("_ZN58_$LT$alloc..string..String$u20$as$u20$core..fmt..Debug$GT$3fmt17h0123456789abcdefE"));
    assert_string_equal("core::fmt::Write::write_fmt",
                        shown("_ZN4core3fmt5Write9write_fmt17h03d3fa13d410497fE.llvm.1234567890123"));
    assert_string_equal("app::main::{{closure}}",
                        shown("_ZN3app4main28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE"));
}

static void rust_v0_names_are_expanded_without_hashes(void **state)
{
    (void)state;
    assert_string_equal("rust_out::main", shown("_RNvCs1234_8rust_out4main"));
    assert_string_equal("<regex_automata::hybrid::dfa::Cache>::new",
                        shown("_RNvMs1_NtNtCs5wpeUTfK1SV_14regex_automata6hybrid3dfaNtB5_5Cache3new"));
    assert_string_equal("::a", shown("_RNvC01a"));
    assert_string_equal("app::run::<u32>::{closure#0}", shown("_RNCINvC3app3runmE0B3_"));
}

static void other_names_come_back_as_they_are(void **state)
{
    (void)state;
    assert_string_equal("malloc", shown("malloc"));
    assert_string_equal("main.(*server).run", shown("main.(*server).run"));
    assert_string_equal("_Zfoo", shown("_Zfoo"));
    assert_string_equal("_", shown("_"));
    assert_string_equal("", shown(""));
    assert_string_equal("_GLOBAL__sub_I_main.cpp", shown("_GLOBAL__sub_I_main.cpp"));
}

static void what_cannot_be_shown_is_escaped(void **state)
{
    (void)state;
    char out[64];
    assert_string_equal("bad\\xff\\x1b[0m", shown("bad\xff\x1b[0m"));
    assert_int_equal(strlen("_Z1f\\x00v"), demangle("_Z1f\0v", 6, out, sizeof(out)));
    assert_string_equal("_Z1f\\x00v", out);
}

static void output_is_cut_to_the_room_there_is(void **state)
{
    (void)state;
    char out[8];
    assert_int_equal(7, demangle("_ZNSt6vectorIiSaIiEE9push_backERKi", 34, out, sizeof(out)));
    assert_string_equal("std::ve", out);
}

/* ---- against c++filt, over every name of the C++ library ---- */

static void agrees_with_cxxfilt_on_the_cplusplus_library(void **state)
{
    (void)state;
    FILE *pairs = popen(
        "f=$(ls /usr/lib/*/libstdc++.so.6 | head -1);"
        "nm -D --defined-only $f | sed 's/@.*//; s/.* //' | grep ^_Z | sort -u > /tmp/test_demangle.$$;"
        "c++filt < /tmp/test_demangle.$$ | paste -d '\\n' /tmp/test_demangle.$$ -; rm /tmp/test_demangle.$$",
        "r");
    static char raw[1 << 16], wanted[1 << 16], printable[1 << 16];
    size_t count = 0;
    while (fgets(raw, sizeof(raw), pairs) && fgets(wanted, sizeof(wanted), pairs)) {
        raw[strcspn(raw, "\n")] = '\0';
        wanted[strcspn(wanted, "\n")] = '\0';
        if (strlen(wanted) >= DEMANGLE_OUTPUT_BYTES)
            continue;
        str_printable(printable, sizeof(printable), wanted, strlen(wanted));
        assert_string_equal(printable, shown(raw));
        count++;
    }
    assert_int_equal(0, pclose(pairs));
    print_message("%zu names\n", count);
    assert_true(count > 1000);
}

/* ---- hostile names ---- */

#define HOSTILE_MS 100u /* a thousand times what they take, for busy machines */

static size_t timed(const char *raw)
{
    char out[DEMANGLE_OUTPUT_BYTES];
    uint64_t before_ns = clock_mono_ns();
    size_t bytes = demangle(raw, strlen(raw), out, sizeof(out));
    uint64_t took_ms = (clock_mono_ns() - before_ns) / CLOCK_NS_PER_MS;
    if (took_ms > HOSTILE_MS)
        fail_msg("%llu ms for %.60s", (unsigned long long)took_ms, raw);
    return bytes;
}

static char *repeated(const char *head, const char *part, size_t count, const char *tail)
{
    size_t bytes = strlen(head) + strlen(part) * count + strlen(tail) + 1, used;
    char *text = malloc(bytes);
    used = (size_t)snprintf(text, bytes, "%s", head);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s", part);
    snprintf(text + used, bytes - used, "%s", tail);
    return text;
}

static void long_and_deep_names_are_answered_at_once(void **state)
{
    (void)state;
    static const struct {
        const char *head, *part;
        size_t count;
        const char *tail;
    } NAMES[] = {
        {"_Z1f", "I1A", 40, "vEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEEE"},
        {"_Z1f", "P", 1000, "i"},
        {"_Z1f", "P", 4000, "i"},
        {"_Z", "N", 4000, ""},
        {"_ZN", "1a", 30000, "E"}, /* 60 kB */
        {"_R", "NvC1a1b", 9000, ""},
        {"_R", "I", 4000, ""},
        {"_RNvC1a", "T", 4000, ""},
        {"", "_ZZ", 300, "1fv"},
    };
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        char *name = repeated(NAMES[i].head, NAMES[i].part, NAMES[i].count, NAMES[i].tail);
        timed(name);
        free(name);
    }
}

/* pair<int, int>, then each type is the pair of two of the one before: twice as long each time. */
static void a_name_that_doubles_sixty_times_comes_back_raw(void **state)
{
    (void)state;
    static const char DIGITS[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char name[2048], of[8] = "S0_";
    size_t used = (size_t)snprintf(name, sizeof(name), "_Z1f4pairIiiE");
    for (size_t i = 1; i <= 60; i++) {
        used += (size_t)snprintf(name + used, sizeof(name) - used, "S_I%s%sE", of, of);
        if (i < 36)
            snprintf(of, sizeof(of), "S%c_", DIGITS[i]);
        else
            snprintf(of, sizeof(of), "S1%c_", DIGITS[i - 36]);
    }
    for (int again = 0; again < 100; again++) /* left by longjmp each time: nothing may leak */
        assert_int_equal(strlen(name), timed(name));
    assert_string_equal(name, shown(name));
}

static void a_rust_name_with_endless_lifetimes_comes_back_raw(void **state)
{
    (void)state;
    assert_string_equal("_RNvMINvC1a1bFGzzzzzzz_EuEh1c", shown("_RNvMINvC1a1bFGzzzzzzz_EuEh1c"));
    assert_string_equal("_RNvMINvC1a1bDGzzzzzzz_EL_Eh1c", shown("_RNvMINvC1a1bDGzzzzzzz_EL_Eh1c"));
    timed("_RINvC1a1bFGzzzzzzz_EuE");
    timed("_RNvMINvC1a1bFGzz_EuEh1c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cplusplus_names_are_expanded),
        cmocka_unit_test(rust_legacy_names_lose_their_hash),
        cmocka_unit_test(rust_v0_names_are_expanded_without_hashes),
        cmocka_unit_test(other_names_come_back_as_they_are),
        cmocka_unit_test(what_cannot_be_shown_is_escaped),
        cmocka_unit_test(output_is_cut_to_the_room_there_is),
        cmocka_unit_test(agrees_with_cxxfilt_on_the_cplusplus_library),
        cmocka_unit_test(long_and_deep_names_are_answered_at_once),
        cmocka_unit_test(a_name_that_doubles_sixty_times_comes_back_raw),
        cmocka_unit_test(a_rust_name_with_endless_lifetimes_comes_back_raw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
