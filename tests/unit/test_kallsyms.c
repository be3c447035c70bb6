#include "node-agent/kallsyms.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static char path[64];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/tmp/test_kallsyms_XXXXXX");
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return -1;
    return close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_table(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(0, fclose(file));
}

static void assert_found(struct kallsyms *kallsyms, uint64_t address, const char *wanted)
{
    const char *function = "", *module = "";
    char got[KALLSYMS_NAME_BYTES + 128];
    int rc = kallsyms_find(kallsyms, address, &function, &module);
    snprintf(got, sizeof(got), "%s%s", function, module);
    if (rc < 0)
        snprintf(got, sizeof(got), "%d", rc);
    assert_string_equal(wanted, got);
}

#define NOT_FOUND "-2"
#define HIDDEN    "-13"

static const char TABLE[] = "0000000000000000 A fixed_percpu_data\n"
                            "ffffffff81000100 T later\n"
                            "ffffffff81000000 T _stext\n" /* not sorted, several names at one address */
                            "ffffffff81000000 t a_local\n"
                            "ffffffff81000000 T first_code\n"
                            "ffffffff81000200 D some_data\n"
                            "ffffffff81000300 W a_weak_one\n"
                            "ffffffffc0001000 t kvm_run\t[kvm]\n"
                            "ffffffffc0002000 t nf_hook\t[nf_tables]\n"
                            "ffffffffc0003000 t bpf_prog_0123456789abcdef_count\t[bpf]\n";

static void names_addresses_of_an_unsorted_table(void **state)
{
    (void)state;
    write_table(TABLE);
    struct kallsyms *kallsyms = kallsyms_new(path);
    assert_found(kallsyms, 0xffffffff81000000, "first_code[kernel]");
    assert_found(kallsyms, 0xffffffff810000ff, "first_code[kernel]");
    assert_found(kallsyms, 0xffffffff81000100, "later[kernel]");
    assert_found(kallsyms, 0xffffffff81000210, "later[kernel]");
    assert_found(kallsyms, 0xffffffff81000300, "a_weak_one[kernel]");
    assert_found(kallsyms, 0xffffffffc0001fff, "kvm_run[kvm]");
    assert_found(kallsyms, 0xffffffffc0002001, "nf_hook[nf_tables]");
    assert_found(kallsyms, 0xffffffffc0003001, "bpf_prog_0123456789abcdef_count[bpf]");
    assert_found(kallsyms, 0xffffffff80ffffff, NOT_FOUND);
    assert_false(kallsyms_hidden(kallsyms));
    kallsyms_free(kallsyms);
}

static void padding_goes_under_its_functions_name(void **state)
{
    (void)state;
    write_table(
        "ffffffff81000000 T before\nffffffff81000ff0 T __pfx_schedule\nffffffff81001000 T schedule\n");
    struct kallsyms *kallsyms = kallsyms_new(path);
    assert_found(kallsyms, 0xffffffff81000fef, "before[kernel]");
    assert_found(kallsyms, 0xffffffff81000ff0, "schedule[kernel]");
    assert_found(kallsyms, 0xffffffff81001000, "schedule[kernel]");
    assert_int_equal(2 * NAME_HEAD_BYTES + sizeof("before") + sizeof("schedule"), kallsyms->names_bytes);
    kallsyms_free(kallsyms);
}

static void an_address_far_behind_a_symbol_has_no_name(void **state)
{
    (void)state;
    write_table(TABLE);
    struct kallsyms *kallsyms = kallsyms_new(path);
    assert_found(kallsyms, 0xffffffff81000300 + KALLSYMS_FUNCTION_BYTES - 1, "a_weak_one[kernel]");
    assert_found(kallsyms, 0xffffffff81000300 + KALLSYMS_FUNCTION_BYTES, NOT_FOUND);
    kallsyms_free(kallsyms);
}

static void hidden_addresses_answer_eacces_and_are_looked_at_again(void **state)
{
    (void)state;
    write_table(
        "0000000000000000 T _stext\n0000000000000000 T first_code\n0000000000000000 t kvm_run\t[kvm]\n");
    struct kallsyms *kallsyms = kallsyms_new(path);
    assert_found(kallsyms, 0xffffffff81000000, HIDDEN);
    assert_true(kallsyms_hidden(kallsyms));
    write_table(TABLE);
    assert_found(kallsyms, 0xffffffff81000000, HIDDEN); /* not so soon */
    kallsyms->read_ns -= KALLSYMS_REREAD_MS * CLOCK_NS_PER_MS;
    assert_found(kallsyms, 0xffffffff81000000, "first_code[kernel]");
    assert_false(kallsyms_hidden(kallsyms));
    kallsyms_free(kallsyms);
}

static void a_missing_table_is_a_hidden_one(void **state)
{
    (void)state;
    struct kallsyms *kallsyms = kallsyms_new("/nonexistent/kallsyms");
    assert_found(kallsyms, 0xffffffff81000000, HIDDEN);
    assert_true(kallsyms_hidden(kallsyms));
    kallsyms_free(kallsyms);
}

static void a_miss_reads_the_table_again_but_ever_more_rarely(void **state)
{
    (void)state;
    write_table(TABLE);
    struct kallsyms *kallsyms = kallsyms_new(path);
    assert_found(kallsyms, 0xffffffffd0000000, NOT_FOUND);
    assert_int_equal(10000000000, kallsyms->wait_ns);
    write_table("ffffffffd0000000 t bpf_prog_ff_new\t[bpf]\n");
    assert_found(kallsyms, 0xffffffffd0000000, NOT_FOUND);
    kallsyms->read_ns -= kallsyms->wait_ns;
    assert_found(kallsyms, 0xffffffffd0000000, "bpf_prog_ff_new[bpf]");
    kallsyms->read_ns -= kallsyms->wait_ns;
    assert_found(kallsyms, 0xffffffffe0000000, NOT_FOUND);
    assert_int_equal(20000000000, kallsyms->wait_ns);
    for (int i = 0; i < 10; i++) {
        kallsyms->read_ns -= kallsyms->wait_ns;
        assert_found(kallsyms, 0xffffffffe0000000, NOT_FOUND);
    }
    assert_int_equal(640000000000, kallsyms->wait_ns);
    kallsyms_free(kallsyms);
}

static void a_table_that_cannot_be_read_again_keeps_its_names(void **state)
{
    (void)state;
    write_table(TABLE);
    struct kallsyms *kallsyms = kallsyms_new(path);
    assert_found(kallsyms, 0xffffffff81000000, "first_code[kernel]");
    kallsyms->path[0] = '!';
    kallsyms->read_ns -= kallsyms->wait_ns;
    assert_found(kallsyms, 0xffffffffe0000000, NOT_FOUND);
    assert_found(kallsyms, 0xffffffff81000000, "first_code[kernel]");
    kallsyms_free(kallsyms);
}

static void events_add_and_remove_at_once(void **state)
{
    (void)state;
    write_table(TABLE);
    struct kallsyms *kallsyms = kallsyms_new(path);
    assert_found(kallsyms, 0xffffffff81000000, "first_code[kernel]");
    kallsyms_add(kallsyms, 0xffffffffc0008000, 0x100, "bpf_prog_aa_x");
    kallsyms_add(kallsyms, 0xffffffffc0009000, 0x100, "ftrace_trampoline");
    assert_found(kallsyms, 0xffffffffc0008000, "bpf_prog_aa_x[bpf]");
    assert_found(kallsyms, 0xffffffffc00080ff, "bpf_prog_aa_x[bpf]");
    assert_found(kallsyms, 0xffffffffc0009001, "ftrace_trampoline[kernel]");
    kallsyms_add(kallsyms, 0xffffffffc0008080, 0x100, "bpf_prog_bb_y"); /* its place was reused */
    assert_found(kallsyms, 0xffffffffc0008100, "bpf_prog_bb_y[bpf]");
    kallsyms_remove(kallsyms, 0xffffffffc0008080);
    kallsyms_remove(kallsyms, 0xffffffffc0003000); /* one of the table */
    assert_found(kallsyms, 0xffffffffc0003001, NOT_FOUND);
    assert_found(kallsyms, 0xffffffffc0002fff, "nf_hook[nf_tables]");
    kallsyms_free(kallsyms);
}

static void events_are_bounded_and_fresh_after_a_read(void **state)
{
    (void)state;
    write_table(TABLE);
    struct kallsyms *kallsyms = kallsyms_new(path);
    for (uint64_t i = 0; i < KALLSYMS_ADDED_MAX + 10; i++)
        kallsyms_add(kallsyms, 0xffffffffd0000000 + i * 64, 64, "bpf_prog_cc_z");
    kallsyms_add(kallsyms, UINT64_MAX - 5, 64, "bpf_prog_wraps");
    assert_int_equal(KALLSYMS_ADDED_MAX, kallsyms->added_count);
    assert_found(kallsyms, 0xffffffff81000000, "first_code[kernel]"); /* a miss: reads */
    assert_int_equal(0, kallsyms->added_count);
    kallsyms_free(kallsyms);
}

static void lines_of_any_form_are_taken_or_skipped(void **state)
{
    (void)state;
    FILE *file = fopen(path, "w");
    fputs("\n \nzzz\nffffffff81000000\nffffffff81000000 \nffffffff81000000 T\nffffffff81000000 T \n", file);
    fputs("ffffffff82000000 T ", file);
    for (int i = 0; i < 100000; i++)
        fputc('n', file);
    fputs("\nffffffff83000000 t in_odd_module\t[]\nffffffff84000000 T last_without_newline", file);
    fclose(file);
    struct kallsyms *kallsyms = kallsyms_new(path);
    assert_found(kallsyms, 0xffffffff81000000, NOT_FOUND);
    const char *function, *module;
    assert_int_equal(0, kallsyms_find(kallsyms, 0xffffffff82000000, &function, &module));
    assert_int_equal(KALLSYMS_NAME_BYTES - 1, strlen(function));
    assert_found(kallsyms, 0xffffffff83000000, "in_odd_module[kernel]");
    assert_found(kallsyms, 0xffffffff84000000, "last_without_newline[kernel]");
    kallsyms_free(kallsyms);
}

static void reads_this_kernel(void **state)
{
    (void)state;
    FILE *file = fopen("/proc/kallsyms", "r");
    char line[512], kind[2];
    unsigned long address = 0;
    while (file && fgets(line, sizeof(line), file) && sscanf(line, "%lx %1[TtWw]", &address, kind) != 2)
        ;
    if (file)
        fclose(file);
    struct kallsyms *kallsyms = kallsyms_new("/proc/kallsyms");
    const char *function, *module;
    if (address == 0) { /* without the right to see addresses */
        assert_int_equal(-EACCES, kallsyms_find(kallsyms, 1, &function, &module));
    } else {
        assert_int_equal(0, kallsyms_find(kallsyms, address, &function, &module));
        print_message("%zu symbols, %zu bytes\n", kallsyms->count,
                      kallsyms->count * sizeof(struct entry) + kallsyms->names_bytes);
    }
    kallsyms_free(kallsyms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_addresses_of_an_unsorted_table),
        cmocka_unit_test(padding_goes_under_its_functions_name),
        cmocka_unit_test(an_address_far_behind_a_symbol_has_no_name),
        cmocka_unit_test(hidden_addresses_answer_eacces_and_are_looked_at_again),
        cmocka_unit_test(a_missing_table_is_a_hidden_one),
        cmocka_unit_test(a_miss_reads_the_table_again_but_ever_more_rarely),
        cmocka_unit_test(a_table_that_cannot_be_read_again_keeps_its_names),
        cmocka_unit_test(events_add_and_remove_at_once),
        cmocka_unit_test(events_are_bounded_and_fresh_after_a_read),
        cmocka_unit_test(lines_of_any_form_are_taken_or_skipped),
        cmocka_unit_test(reads_this_kernel),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
