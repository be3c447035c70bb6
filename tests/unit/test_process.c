#include "node-agent/process.h"

#include "common/clock.h"
#include "node-agent/proc_stat.h"
#include "node-agent/process_state.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* No process has such a number (pid_max is 2^22 at most): what /proc says can not get in the way. */
#define NOBODY 0x7f000000u
#define START  5000000000ULL /* boot time */

static struct images *images;
static struct processes *processes;
static uint64_t now_ns;

static int set_up(void **state)
{
    (void)state;
    images = images_new();
    processes = processes_new(images);
    now_ns = clock_mono_ns();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    processes_free(processes);
    images_free(images);
    return 0;
}

static void event(enum sampler_event_type type, uint32_t tgid, uint32_t tid, const char *comm)
{
    struct sampler_event e = {.type = type, .time_ns = now_ns, .tgid = tgid, .tid = tid};
    if (comm)
        e.name.comm = comm;
    processes_event(processes, &e);
}

static void fork_event(uint32_t parent, uint32_t child)
{
    struct sampler_event e = {.type = SAMPLER_FORK, .time_ns = now_ns, .tgid = child, .tid = child};
    e.fork.parent_tgid = e.fork.parent_tid = parent;
    processes_event(processes, &e);
}

/* A file's build id is its first letter, twenty times. */
static void mmap_event(uint32_t tgid, uint64_t start, uint64_t bytes, uint64_t file_offset, const char *path)
{
    struct sampler_event e = {.type = SAMPLER_MMAP, .time_ns = now_ns, .tgid = tgid, .tid = tgid};
    e.mmap.start = start;
    e.mmap.bytes = bytes;
    e.mmap.file_offset = file_offset;
    e.mmap.path = path;
    if (path[0] == '/' && path[1] != '/') {
        e.mmap.build_id_bytes = 20;
        memset(e.mmap.build_id, path[1], 20);
    }
    processes_event(processes, &e);
}

static struct sample_record record_of(uint32_t tgid, uint64_t start_time_ns, const char *comm)
{
    struct sample_record record = {
        .time_ns = now_ns, .tgid = tgid, .tid = tgid, .start_time_ns = start_time_ns, .cgroup_id = 1};
    snprintf(record.process_comm, sizeof(record.process_comm), "%s", comm);
    return record;
}

static struct process *sample(uint32_t tgid, uint64_t start_time_ns, const char *comm)
{
    struct sample_record record = record_of(tgid, start_time_ns, comm);
    return processes_of_sample(processes, &record);
}

/* "name+offset", or "-" for no mapping. */
static const char *resolved(struct process *process, uint64_t address)
{
    static char out[128];
    const struct image *image;
    uint64_t offset;
    int rc = processes_resolve(processes, process, address, &image, &offset);
    if (rc < 0)
        return rc == -ENOENT ? "-" : "?";
    snprintf(out, sizeof(out), "%s+%llx", image->name, (unsigned long long)offset);
    return out;
}

static const char *program_of(const struct process *process)
{
    const struct image *program = process_identity(process).program;
    return program ? program->name : "-";
}

static void an_exec_and_its_mappings_make_a_process(void **state)
{
    (void)state;
    fork_event(NOBODY, NOBODY + 1);
    event(SAMPLER_EXEC, NOBODY + 1, NOBODY + 1, "prog");
    mmap_event(NOBODY + 1, 0x400000, 0x2000, 0x1000, "/prog");
    mmap_event(NOBODY + 1, 0x7f0000, 0x1000, 0, "/ld.so");
    struct process *process = sample(NOBODY + 1, START, "prog");
    assert_string_equal(process_identity(process).comm, "prog");
    assert_string_equal(program_of(process), "prog");
    assert_string_equal(resolved(process, 0x400000), "prog+1000");
    assert_string_equal(resolved(process, 0x401fff), "prog+2fff");
    assert_string_equal(resolved(process, 0x7f0010), "ld.so+10");
    assert_string_equal(resolved(process, 0x402000), "-");
    assert_false(process_identity(process).kernel_thread);
    assert_int_equal(processes_counter(processes, PROCESS_COUNTER_gone),
                     0); /* a miss of what is known, not a loss */
    assert_int_equal(processes_count(processes), 1);
}

static void a_newer_mapping_wins_where_ranges_overlap(void **state)
{
    (void)state;
    event(SAMPLER_EXEC, NOBODY, NOBODY, "p");
    mmap_event(NOBODY, 0x10000, 0x4000, 0, "/a.so");
    struct process *process = sample(NOBODY, START, "p");
    assert_string_equal(resolved(process, 0x12000), "a.so+2000");
    mmap_event(NOBODY, 0x11000, 0x2000, 0x500, "/b.so"); /* dlclose, dlopen of another there */
    assert_string_equal(resolved(process, 0x10fff), "a.so+fff");
    assert_string_equal(resolved(process, 0x12000), "b.so+1500");
    assert_string_equal(resolved(process, 0x13000), "a.so+3000");
}

static void the_generation_tells_every_change_and_nothing_else(void **state)
{
    (void)state;
    event(SAMPLER_EXEC, NOBODY, NOBODY, "p");
    mmap_event(NOBODY, 0x10000, 0x4000, 0, "/a.so");
    struct process *process = sample(NOBODY, START, "p");
    uint64_t before = process_generation(process);
    mmap_event(NOBODY, 0x10000, 0x4000, 0, "/a.so");
    event(SAMPLER_COMM, NOBODY, NOBODY, "p");
    assert_ptr_equal(sample(NOBODY, START, "p"), process);
    assert_int_equal(process_generation(process), before);
    mmap_event(NOBODY, 0x10000, 0x1000, 0, "/b.so");
    uint64_t mapped = process_generation(process);
    assert_int_not_equal(mapped, before);
    event(SAMPLER_COMM, NOBODY, NOBODY, "q");
    assert_int_not_equal(process_generation(process), mapped);
}

static void a_fork_copies_and_an_exec_leaves_the_parent_alone(void **state)
{
    (void)state;
    event(SAMPLER_EXEC, NOBODY, NOBODY, "shell");
    mmap_event(NOBODY, 0x10000, 0x1000, 0, "/shell");
    fork_event(NOBODY, NOBODY + 1);
    fork_event(NOBODY, NOBODY); /* a thread */
    struct process *child = sample(NOBODY + 1, START + 1, "shell");
    assert_string_equal(resolved(child, 0x10004), "shell+4"); /* between fork and exec */
    assert_string_equal(program_of(child), "shell");
    event(SAMPLER_EXEC, NOBODY + 1, NOBODY + 1, "tool");
    assert_string_equal(resolved(child, 0x10004), "-");
    assert_string_equal(program_of(child), "-");
    mmap_event(NOBODY + 1, 0x10000, 0x1000, 0x40, "/tool");
    assert_string_equal(resolved(child, 0x10004), "tool+44");
    assert_ptr_equal(sample(NOBODY + 1, START + 1, "tool"), child);
    assert_string_equal(program_of(child), "tool");
    struct process *parent = sample(NOBODY, START, "shell");
    assert_string_equal(resolved(parent, 0x10004), "shell+4");
    assert_int_equal(processes_count(processes), 2);
}

static void an_exited_process_stays_for_a_while(void **state)
{
    (void)state;
    event(SAMPLER_EXEC, NOBODY, NOBODY, "p");
    mmap_event(NOBODY, 0x10000, 0x1000, 0, "/p");
    struct process *process = sample(NOBODY, START, "p");
    event(SAMPLER_EXIT, NOBODY, NOBODY + 5, NULL); /* a thread: nothing */
    event(SAMPLER_EXIT, NOBODY, NOBODY, NULL);
    processes_expire(processes, now_ns + 1);
    assert_ptr_equal(sample(NOBODY, START, "p"), process); /* read late */
    assert_string_equal(resolved(process, 0x10000), "p+0");
    processes_expire(processes, now_ns + PROCESS_LINGER_MS * CLOCK_NS_PER_MS + 1);
    assert_int_equal(processes_count(processes), 0);
}

static void a_reused_pid_inherits_nothing(void **state)
{
    (void)state;
    event(SAMPLER_EXEC, NOBODY, NOBODY, "old");
    mmap_event(NOBODY, 0x10000, 0x1000, 0, "/old");
    struct process *old = sample(NOBODY, START, "old");
    event(SAMPLER_EXIT, NOBODY, NOBODY, NULL);
    now_ns += CLOCK_NS_PER_MS;
    fork_event(NOBODY + 9, NOBODY);
    event(SAMPLER_EXEC, NOBODY, NOBODY, "new");
    mmap_event(NOBODY, 0x10000, 0x1000, 0, "/new");
    struct process *new = sample(NOBODY, START + 77, "new");
    assert_ptr_not_equal(new, old);
    assert_string_equal(resolved(new, 0x10000), "new+0");
    /* the start time alone tells, when every record was lost */
    struct process *newest = sample(NOBODY, START + 9000000000, "newest");
    assert_string_equal(resolved(newest, 0x10000), "-");
    assert_string_equal(program_of(newest), "-");
    /* and a sample of the first that comes late finds the first */
    assert_ptr_equal(sample(NOBODY, START, "old"), old);
    assert_string_equal(resolved(old, 0x10000), "old+0");
}

static void records_from_before_a_process_began_are_not_about_it(void **state)
{
    (void)state;
    uint64_t start = clock_read_ns(CLOCK_BOOTTIME);
    struct process *process = sample(NOBODY, start, "p");
    mmap_event(NOBODY, 0x10000, 0x1000, 0, "/p");
    uint64_t present = now_ns;
    now_ns -= 10 * CLOCK_NS_PER_S; /* waited in the ring while /proc was read */
    mmap_event(NOBODY, 0x10000, 0x1000, 0, "/before");
    event(SAMPLER_EXEC, NOBODY, NOBODY, "before");
    event(SAMPLER_COMM, NOBODY, NOBODY, "before");
    event(SAMPLER_EXIT, NOBODY, NOBODY, NULL);
    fork_event(NOBODY + 1, NOBODY);
    now_ns = present;
    assert_ptr_equal(sample(NOBODY, start, "p"), process);
    assert_string_equal(resolved(process, 0x10000), "p+0");
    assert_false(process->has_ended);
    assert_int_equal(processes_count(processes), 1);
}

static void an_exec_by_another_thread_takes_the_exit_of_the_main_one_back(void **state)
{
    (void)state;
    event(SAMPLER_EXEC, NOBODY, NOBODY, "p");
    struct process *process = sample(NOBODY, START, "p");
    event(SAMPLER_EXIT, NOBODY, NOBODY, NULL);
    event(SAMPLER_EXEC, NOBODY, NOBODY, "q");
    mmap_event(NOBODY, 0x10000, 0x1000, 0, "/q");
    assert_ptr_equal(sample(NOBODY, START, "q"), process);
    assert_false(process->has_ended);
    assert_string_equal(program_of(process), "q");
}

static void names_follow_the_main_thread_and_are_fit_to_show(void **state)
{
    (void)state;
    event(SAMPLER_EXEC, NOBODY, NOBODY, "server");
    struct process *process = sample(NOBODY, START, "server");
    event(SAMPLER_COMM, NOBODY, NOBODY + 1, "worker"); /* a thread */
    assert_string_equal(process_identity(process).comm, "server");
    event(SAMPLER_COMM, NOBODY, NOBODY, "\xff\xfe\"\n");
    assert_string_equal(process_identity(process).comm, "\\xff\\xfe\"\\x0a");
    sample(NOBODY, START, "told by sample");
    assert_string_equal(process_identity(process).comm, "told by sample");
    event(SAMPLER_COMM, NOBODY, NOBODY, "123456789012345678901234567890");
    assert_string_equal(process_identity(process).comm, "123456789012345");
}

static void code_without_files_resolves_to_its_kind(void **state)
{
    (void)state;
    event(SAMPLER_EXEC, NOBODY, NOBODY, "p");
    mmap_event(NOBODY, 0x10000, 0x1000, 0x10000, "//anon");
    mmap_event(NOBODY, 0x7ffff0000000, 0x2000, 0x7ffff0000000, "[vdso]");
    struct process *process = sample(NOBODY, START, "p");
    assert_string_equal(resolved(process, 0x10123), "[anon]+0");
    assert_string_equal(resolved(process, 0x7ffff0000a10), "[vdso]+a10");
    assert_string_equal(resolved(process, 0xffffffffff600400), "[vsyscall]+0");
    assert_string_equal(program_of(process), "-"); /* neither is a program */
    mmap_event(NOBODY, 0x400000, 0x1000, 0, "/p");
    assert_string_equal(program_of(process), "p");
    mmap_event(NOBODY, UINT64_MAX - 10, 100, 0, "/wraps");
    mmap_event(NOBODY, 0x500000, 0, 0, "/empty");
    assert_string_equal(resolved(process, 0x500000), "-");
}

static void kernel_threads_are_never_looked_up(void **state)
{
    (void)state;
    struct sample_record record = record_of(NOBODY, START, "kworker/0:1");
    record.flags = SAMPLE_KERNEL_THREAD;
    struct process *process = processes_of_sample(processes, &record);
    struct process_identity identity = process_identity(process);
    assert_true(identity.kernel_thread);
    assert_null(identity.program);
    assert_string_equal(identity.container_id, "");
    assert_string_equal(resolved(process, 0x10000), "-");
    assert_int_equal(processes_counter(processes, PROCESS_COUNTER_scans), 0);
}

/* ---- with real processes ---------------------------------------------------------------------- */

static uint64_t start_of(pid_t pid)
{
    struct proc_stat stat;
    assert_int_equal(proc_stat_read(pid, &stat), 0);
    return stat.start_ticks * PROC_STAT_TICK_NS + 1234; /* BPF knows it to the nanosecond */
}

static const char *comm_of(pid_t pid)
{
    static struct proc_stat stat;
    assert_int_equal(proc_stat_read(pid, &stat), 0);
    return stat.comm;
}

static struct process *sample_real(pid_t pid)
{
    return sample((uint32_t)pid, start_of(pid), comm_of(pid));
}

static void our_own_code_resolves_to_the_bytes_of_our_own_file(void **state)
{
    (void)state;
    struct process *process = sample_real(getpid());
    const struct image *image;
    uint64_t offset, address = (uintptr_t)our_own_code_resolves_to_the_bytes_of_our_own_file;
    assert_int_equal(processes_resolve(processes, process, address, &image, &offset), 0);
    assert_string_equal(image->name, "test_process");
    assert_int_equal(image->id_kind, EXECUTABLE_GNU);
    assert_ptr_equal(process_identity(process).program, image);
    uint8_t bytes[16];
    int fd;
    char name[64];
    assert_int_equal(images_open_file(images, image->id, image->id_bytes, &fd, name, sizeof(name), NULL), 0);
    assert_int_equal(pread(fd, bytes, sizeof(bytes), (off_t)offset), sizeof(bytes));
    assert_memory_equal(bytes, (const void *)(uintptr_t)address, sizeof(bytes));
    close(fd);
    assert_int_equal(processes_counter(processes, PROCESS_COUNTER_scans), 1);
    uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
    assert_string_equal(resolved(process, vdso + 0x123), "[vdso]+123");
}

static void the_start_up_scan_and_the_first_sample_are_of_one_process(void **state)
{
    (void)state;
    processes_scan(processes, 10000);
    uint64_t count = processes_count(processes);
    struct process *process = process_current(processes, (uint32_t)getpid());
    assert_true(count >= 2);
    assert_non_null(process);
    assert_string_equal(program_of(process), "test_process");
    assert_ptr_equal(sample_real(getpid()), process);
    assert_int_equal(processes_count(processes), count);
    /* its fork record comes after the scan that found it */
    now_ns = start_of(getpid()) - processes->boot_offset_ns + CLOCK_NS_PER_MS;
    fork_event(1, (uint32_t)getpid());
    assert_ptr_equal(process_current(processes, (uint32_t)getpid()), process);
    assert_false(process->replaced);
}

static void a_late_sample_of_a_pids_earlier_owner_does_not_displace_one_known_from_proc_only(void **state)
{
    (void)state;
    struct proc_stat stat;
    assert_int_equal(proc_stat_read(getpid(), &stat), 0);
    processes_scan(processes, 2000);
    const struct process *known = process_current(processes, (uint32_t)getpid());
    assert_non_null(known);
    uint64_t start_ns = stat.start_ticks * PROC_STAT_TICK_NS;
    assert_ptr_not_equal(sample((uint32_t)getpid(), start_ns - 10 * PROC_STAT_TICK_NS, "earlier"), known);
    assert_ptr_equal(process_current(processes, (uint32_t)getpid()), known);
    assert_ptr_equal(sample((uint32_t)getpid(), start_ns + 1, "test_process"), known);
}

static void what_proc_says_of_another_process_or_another_time_is_not_used(void **state)
{
    (void)state;
    uint64_t address = (uintptr_t)start_of;
    struct process *other =
        sample((uint32_t)getpid(), start_of(getpid()) - CLOCK_NS_PER_S, comm_of(getpid()));
    assert_string_equal(resolved(other, address), "-");
    assert_int_equal(processes_counter(processes, PROCESS_COUNTER_gone), 1);
    /* sampled before an exec, /proc read after it */
    struct process *earlier = sample((uint32_t)getpid(), start_of(getpid()), "shell");
    assert_ptr_not_equal(earlier, other);
    assert_string_equal(resolved(earlier, address), "-");
    earlier->next_scan_ns = 0;
    sample_real(getpid());
    assert_memory_equal(resolved(earlier, address), "test_process+", 13);
}

static void a_mapping_no_record_told_of_is_found_on_a_miss(void **state)
{
    (void)state;
    struct process *process = sample_real(getpid());
    void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(code, MAP_FAILED);
    process->next_scan_ns = 0;
    assert_string_equal(resolved(process, (uintptr_t)code), "[anon]+0");
    munmap(code, 4096);
}

static void addresses_that_are_nowhere_do_not_cost_a_read_each(void **state)
{
    (void)state;
    struct process *process = sample_real(getpid());
    for (uint64_t i = 0; i < 1000; i++) {
        process->next_scan_ns = i == 0 ? 0 : process->next_scan_ns;
        assert_string_equal(resolved(process, 0x123456000 + i * 8), "-");
        assert_string_equal(resolved(process, i), "-");
        assert_string_equal(resolved(process, 0xffff800000000000 + i), "-");
    }
    assert_in_range(processes_counter(processes, PROCESS_COUNTER_scans), 2, 3);
    assert_int_equal(process->scan_wait_ms, 1000);
    process->next_scan_ns = 0;
    resolved(process, 0x123456000);
    assert_int_equal(process->scan_wait_ms, 2000);
}

static void after_lost_records_a_process_is_read_again_whole(void **state)
{
    (void)state;
    struct process *process = sample_real(getpid());
    mmap_event((uint32_t)getpid(), 0x10000, 0x1000, 0, "/unmapped long ago");
    assert_string_equal(resolved(process, 0x10000), "unmapped long ago+0");
    struct sampler_event lost = {.type = SAMPLER_LOST, .time_ns = now_ns, .lost_count = 7};
    processes_event(processes, &lost);
    process->next_scan_ns = 0;
    assert_ptr_equal(sample_real(getpid()), process);
    assert_string_equal(resolved(process, 0x10000), "-");
    assert_memory_equal(resolved(process, (uintptr_t)start_of), "test_process+", 13);
    assert_int_equal(processes_counter(processes, PROCESS_COUNTER_records_lost), 7);
    assert_int_equal(processes_counter(processes, PROCESS_COUNTER_scans), 2);
}

static void *wait_for_ever(void *ctx)
{
    for (;;)
        pause();
    return ctx;
}

/* The main thread exits, another goes on burning CPU. */
/* The child of this test starts a thread; the sanitizer would end it, since this process has threads itself.
 */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}

static void a_process_outlives_its_main_thread(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, wait_for_ever, NULL) == 0)
            pthread_exit(NULL);
        _exit(1);
    }
    struct proc_stat stat = {0};
    for (int i = 0; i < 2000 && stat.state != 'Z'; i++) {
        assert_int_equal(proc_stat_read(pid, &stat), 0);
        usleep(1000);
    }
    assert_int_equal(stat.state, 'Z');
    struct process *process = sample_real(pid);
    assert_memory_equal(resolved(process, (uintptr_t)wait_for_ever), "test_process+", 13);
    event(SAMPLER_EXIT, (uint32_t)pid, (uint32_t)pid, NULL);
    uint64_t later_ns = now_ns;
    for (int i = 0; i < 3; i++)
        processes_expire(processes, later_ns += 2 * PROCESS_LINGER_MS * CLOCK_NS_PER_MS);
    assert_ptr_equal(process_current(processes, (uint32_t)pid), process);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    for (int i = 0; i < 3; i++)
        processes_expire(processes, later_ns += 2 * PROCESS_LINGER_MS * CLOCK_NS_PER_MS);
    assert_int_equal(processes_count(processes), 0);
}

static void exits_without_a_record_are_noticed(void **state)
{
    (void)state;
    uint64_t later_ns = now_ns;
    for (uint32_t i = 0; i < 100; i++)
        event(SAMPLER_EXEC, NOBODY + i, NOBODY + i, "p");
    assert_int_equal(processes_count(processes), 100);
    for (int second = 0; second < 100; second++)
        processes_expire(processes, later_ns += CLOCK_NS_PER_S);
    assert_int_equal(processes_count(processes), 0);
}

static void a_storm_of_new_processes_costs_a_bounded_number_of_reads(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1000; i++)
        assert_non_null(sample(NOBODY + i, START, "storm"));
    uint64_t scans = processes_counter(processes, PROCESS_COUNTER_scans);
    uint64_t refused = processes_counter(processes, PROCESS_COUNTER_scans_refused);
    assert_int_equal(scans + refused, 1000);
    assert_true(scans <= 3 * PROCESS_SCANS_A_SECOND); /* a slow machine may pass two full seconds here */
    assert_true(refused > 0);
}

static void the_table_is_bounded_and_gives_up_the_dead_first(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PROCESSES_MAX; i++)
        event(SAMPLER_EXEC, NOBODY + i, NOBODY + i, "p");
    assert_null(sample(NOBODY + PROCESSES_MAX, START, "one more"));
    assert_int_equal(processes_counter(processes, PROCESS_COUNTER_full), 1);
    event(SAMPLER_EXIT, NOBODY + 7, NOBODY + 7, NULL);
    assert_non_null(sample(NOBODY + PROCESSES_MAX, START, "one more"));
    assert_null(process_current(processes, NOBODY + 7));
    assert_int_equal(processes_count(processes), PROCESSES_MAX);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_exec_and_its_mappings_make_a_process),
        TEST(a_newer_mapping_wins_where_ranges_overlap),
        TEST(the_generation_tells_every_change_and_nothing_else),
        TEST(a_fork_copies_and_an_exec_leaves_the_parent_alone),
        TEST(an_exited_process_stays_for_a_while),
        TEST(a_reused_pid_inherits_nothing),
        TEST(records_from_before_a_process_began_are_not_about_it),
        TEST(an_exec_by_another_thread_takes_the_exit_of_the_main_one_back),
        TEST(names_follow_the_main_thread_and_are_fit_to_show),
        TEST(code_without_files_resolves_to_its_kind),
        TEST(kernel_threads_are_never_looked_up),
        TEST(our_own_code_resolves_to_the_bytes_of_our_own_file),
        TEST(the_start_up_scan_and_the_first_sample_are_of_one_process),
        TEST(a_late_sample_of_a_pids_earlier_owner_does_not_displace_one_known_from_proc_only),
        TEST(what_proc_says_of_another_process_or_another_time_is_not_used),
        TEST(a_mapping_no_record_told_of_is_found_on_a_miss),
        TEST(addresses_that_are_nowhere_do_not_cost_a_read_each),
        TEST(after_lost_records_a_process_is_read_again_whole),
        TEST(a_process_outlives_its_main_thread),
        TEST(exits_without_a_record_are_noticed),
        TEST(a_storm_of_new_processes_costs_a_bounded_number_of_reads),
        TEST(the_table_is_bounded_and_gives_up_the_dead_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
