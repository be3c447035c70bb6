/* tally against scripted processes and kernel symbols: what a sample becomes in the window. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "node-agent/tally.c"

/* ---- the scripted world: code at 0x1000-0x1fff of "app" and 0x5000-0x5fff of "lib.so" ---- */

struct process {
    uint64_t generation;
};
static struct process the_process = {.generation = 7};
static const struct image app = {.id = {1}, .id_bytes = 20, .name = "app"};
static const struct image lib = {.id = {2}, .id_bytes = 20, .name = "lib.so"};

struct process *processes_of_sample(struct processes *processes, const struct sample_record *record)
{
    (void)processes;
    return record->tgid == 404 ? NULL : &the_process;
}

struct process_identity process_identity(const struct process *process)
{
    (void)process;
    return (struct process_identity){.comm = "app", .program = &app, .container_id = ""};
}

uint64_t process_generation(const struct process *process)
{
    return process->generation;
}

int processes_resolve(struct processes *processes, struct process *process, uint64_t address,
                      const struct image **ret_image, uint64_t *ret_file_offset)
{
    (void)processes;
    (void)process;
    uint64_t page = address & ~0xfffULL;
    if (page != 0x1000 && page != 0x5000)
        return -ENOENT;
    *ret_image = page == 0x1000 ? &app : &lib;
    *ret_file_offset = address & 0xfff;
    return 0;
}

int kallsyms_find(struct kallsyms *kallsyms, uint64_t address, const char **ret_function,
                  const char **ret_module)
{
    (void)kallsyms;
    *ret_module = "[kernel]";
    if (address == 0xffff0000)
        *ret_function = "do_read";
    else if (address == 0xffff1000 - 1)
        *ret_function = "entry";
    else
        return -ENOENT;
    return 0;
}

/* ---- helpers ---- */

static struct sample_record record_of(const uint64_t *kernel, uint16_t kernel_count, const uint64_t *user,
                                      uint16_t user_count)
{
    struct sample_record record = {.weight_ns = 10000000, .tgid = 1, .tid = 1, .thread_comm = "worker"};
    record.kernel_count = kernel_count;
    record.user_count = user_count;
    for (uint16_t i = 0; i < kernel_count; i++)
        record.frames[i] = kernel[i];
    for (uint16_t i = 0; i < user_count; i++)
        record.frames[kernel_count + i] = user[i];
    return record;
}

/* "root;...;leaf" of a node: native frames as name+offset. */
static void stack_text(const struct stackset *set, uint32_t node, char *out, size_t out_bytes)
{
    char parts[16][64];
    size_t count = 0;
    for (; node != STACKSET_ROOT && count < 16; node = set->nodes[node].parent) {
        const struct stackset_frame *frame = &set->frames[set->nodes[node].frame];
        if (frame->kind == FRAME_NATIVE)
            snprintf(parts[count++], 64, "%s+%llx",
                     stackset_text(set, set->executables[frame->ref].name, NULL),
                     (unsigned long long)frame->body);
        else
            snprintf(parts[count++], 64, "%s", stackset_text(set, frame->ref, NULL));
    }
    size_t used = 0;
    out[0] = '\0';
    while (count > 0)
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%s", used ? ";" : "", parts[--count]);
}

static struct tally_window *one_window(const struct sample_record *records, size_t count)
{
    struct tally *tally = tally_new("node-1", NULL, NULL, 10000);
    for (size_t i = 0; i < count; i++)
        tally_sample(tally, &records[i]);
    struct tally_window *window = tally_take(tally, clock_wall_ns() / CLOCK_NS_PER_MS, true);
    tally_free(tally);
    return window;
}

static void assert_only_stack(const struct sample_record *record, const char *expected)
{
    struct tally_window *window = one_window(record, 1);
    char text[512];
    assert_int_equal(window->set->row_count, 1);
    stack_text(window->set, window->set->rows[0].node, text, sizeof(text));
    assert_string_equal(text, expected);
    tally_window_free(window);
}

/* ---- tests ---- */

static void puts_the_kernel_half_on_the_user_half_once(void **state)
{
    (void)state;
    const uint64_t kernel[] = {0xffff0000, 0xffff1000};
    const uint64_t user[] = {0x5010, 0x1020};
    struct sample_record record = record_of(kernel, 2, user, 2);
    assert_only_stack(&record, "app+1f;lib.so+10;entry;do_read");
}

static void cuts_where_the_next_frame_is_no_code_and_says_so(void **state)
{
    (void)state;
    const uint64_t user[] = {0x1010, 0x5020, 0x7fff0000, 0x1030};
    struct sample_record record = record_of(NULL, 0, user, 4);
    assert_only_stack(&record, "[unwind stopped: not code];lib.so+1f;app+10");
}

static void marks_a_stack_that_was_deeper_than_the_limit_at_its_root(void **state)
{
    (void)state;
    const uint64_t user[] = {0x1010, 0x1020};
    struct sample_record record = record_of(NULL, 0, user, 2);
    record.flags = SAMPLE_USER_CUT;
    assert_only_stack(&record, "[truncated];app+1f;app+10");
}

static void keeps_the_sample_when_neither_half_could_be_read(void **state)
{
    (void)state;
    struct sample_record record = record_of(NULL, 0, NULL, 0);
    record.flags = SAMPLE_USER_FAILED | SAMPLE_KERNEL_FAILED;
    assert_only_stack(
        &record, "[unwind stopped: user stack not readable];[unwind stopped: kernel stack not readable]");
}

static void rounds_to_microseconds_without_losing_any(void **state)
{
    (void)state;
    const uint64_t user[] = {0x1010};
    struct sample_record records[1000];
    for (size_t i = 0; i < 1000; i++) {
        records[i] = record_of(NULL, 0, user, 1);
        records[i].weight_ns = 10000777;
    }
    struct tally_window *window = one_window(records, 1000);
    assert_int_equal(window->set->row_count, 1);
    assert_int_equal(window->set->rows[0].value, 10000777ULL * 1000 / 1000);
    assert_int_equal(window->set->rows[0].count, 1000);
    tally_window_free(window);
}

static void balances_taken_against_counted_and_lost(void **state)
{
    (void)state;
    const uint64_t user[] = {0x1010};
    struct tally *tally = tally_new("node-1", NULL, NULL, 10000);
    struct sample_record record = record_of(NULL, 0, user, 1);
    tally_sample(tally, &record);
    tally_sample(tally, &record);
    record.tgid = 404; /* no room in the process table */
    tally_sample(tally, &record);
    tally_lost(tally, TALLY_LOSS_ring_full, 5);
    struct tally_window *window = tally_take(tally, clock_wall_ns() / CLOCK_NS_PER_MS, true);
    assert_int_equal(window->taken_count, 8);
    assert_int_equal(window->lost_count[TALLY_LOSS_process_full], 1);
    assert_int_equal(window->lost_count[TALLY_LOSS_ring_full], 5);
    assert_int_equal(window->set->rows[0].count, 2);
    tally_window_free(window);
    tally_free(tally);
}

static void names_node_process_thread_and_executable_of_a_series(void **state)
{
    (void)state;
    const uint64_t user[] = {0x1010};
    struct sample_record record = record_of(NULL, 0, user, 1);
    struct tally_window *window = one_window(&record, 1);
    const struct stackset *set = window->set;
    uint32_t series = set->rows[0].series;
    assert_string_equal(stackset_text(set, stackset_label_value(set, series, "node"), NULL), "node-1");
    assert_string_equal(stackset_text(set, stackset_label_value(set, series, "process"), NULL), "app");
    assert_string_equal(stackset_text(set, stackset_label_value(set, series, "thread"), NULL), "worker");
    assert_string_equal(stackset_text(set, stackset_label_value(set, series, "executable"), NULL), "app");
    assert_int_equal(stackset_label_value(set, series, "container"), STACKSET_FULL);
    tally_window_free(window);
}

static void seals_a_window_at_its_boundary_even_when_nothing_ran(void **state)
{
    (void)state;
    struct tally *tally = tally_new("node-1", NULL, NULL, 10000);
    for (int early = 0; early < 2; early++) { /* the first two are short */
        assert_true(tally->window_end_ms <= tally->window->start_ms + 1000);
        tally_window_free(tally_take(tally, tally->window_end_ms, false));
    }
    uint64_t early_end_ms = tally->window->start_ms;
    uint64_t boundary_ms = early_end_ms - early_end_ms % 10000 + 10000;
    assert_null(tally_take(tally, boundary_ms - 1, false));
    struct tally_window *window = tally_take(tally, boundary_ms, false);
    assert_non_null(window);
    assert_int_equal(window->taken_count, 0);
    assert_int_equal(tally->window->start_ms, boundary_ms);
    tally_window_free(window);
    tally_free(tally);
}

static void seals_a_window_when_the_clock_was_set_back(void **state)
{
    (void)state;
    struct tally *tally = tally_new("node-1", NULL, NULL, 10000);
    struct tally_window *window = tally_take(tally, tally->window->start_ms - 3600000, false);
    assert_non_null(window);
    tally_window_free(window);
    tally_free(tally);
}

static void keeps_the_count_under_a_marker_when_the_window_is_full(void **state)
{
    (void)state;
    struct tally *tally = tally_new("node-1", NULL, NULL, 10000);
    const uint64_t user[] = {0x1010};
    struct sample_record record = record_of(NULL, 0, user, 1);
    tally_sample(tally, &record);
    lost_stack_node(tally->window->set);
    tally->window->set->limits.frames = tally->window->set->frame_count;
    record.frames[0] = 0x5010; /* a frame that no longer fits */
    tally_sample(tally, &record);
    struct tally_window *window = tally_take(tally, clock_wall_ns() / CLOCK_NS_PER_MS, true);
    char text[512];
    assert_int_equal(window->set->row_count, 2);
    stack_text(window->set, window->set->rows[1].node, text, sizeof(text));
    assert_string_equal(text, "[stack lost: window_full]");
    assert_int_equal(window->taken_count, 2);
    tally_window_free(window);
    tally_free(tally);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_the_kernel_half_on_the_user_half_once),
        cmocka_unit_test(cuts_where_the_next_frame_is_no_code_and_says_so),
        cmocka_unit_test(marks_a_stack_that_was_deeper_than_the_limit_at_its_root),
        cmocka_unit_test(keeps_the_sample_when_neither_half_could_be_read),
        cmocka_unit_test(rounds_to_microseconds_without_losing_any),
        cmocka_unit_test(balances_taken_against_counted_and_lost),
        cmocka_unit_test(names_node_process_thread_and_executable_of_a_series),
        cmocka_unit_test(seals_a_window_at_its_boundary_even_when_nothing_ran),
        cmocka_unit_test(seals_a_window_when_the_clock_was_set_back),
        cmocka_unit_test(keeps_the_count_under_a_marker_when_the_window_is_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
