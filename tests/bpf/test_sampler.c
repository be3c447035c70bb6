/* The sampler on the running kernel. Sees its statics: some failures cannot be had from outside. */
#include "node-agent/sampler.c"

#include "tests/bpf/sampler_kit.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <math.h>
#include <pthread.h>
#include <sys/syscall.h>

#define INSN_BUDGET 200000u

/* What the handlers note down. */
struct note {
    struct sampler_event event;
    char text[64];
};

struct notes {
    pid_t pid; /* of interest; 0: all */
    uint64_t weight_ns, total_weight_ns, sample_count, total_count;
    uint64_t split_ns, late_count; /* samples of pid after split_ns */
    uint64_t last_time_ns, disorder_count;
    uint64_t deep_count, kernel_frame_count, record_fault_count;
    size_t note_count;
    struct note notes[512];
};

static void note_time(struct notes *notes, uint64_t time_ns)
{
    if (time_ns < notes->last_time_ns)
        notes->disorder_count++;
    notes->last_time_ns = time_ns;
}

static void on_sample(const struct sample_record *record, void *ctx)
{
    struct notes *notes = ctx;
    note_time(notes, record->time_ns);
    notes->total_weight_ns += record->weight_ns;
    notes->total_count++;
    if (record->weight_ns == 0 || record->start_time_ns == 0 || record->thread_comm[0] == '\0' ||
        record->process_comm[0] == '\0' || record->tgid == 0)
        notes->record_fault_count++;
    if (record->tgid != (uint32_t)notes->pid)
        return;
    notes->weight_ns += record->weight_ns;
    notes->sample_count++;
    notes->late_count += record->time_ns > notes->split_ns;
    notes->deep_count += record->user_count > 1;
    notes->kernel_frame_count += record->kernel_count;
}

static void on_event(const struct sampler_event *event, void *ctx)
{
    struct notes *notes = ctx;
    note_time(notes, event->time_ns);
    if (notes->note_count == sizeof(notes->notes) / sizeof(notes->notes[0]))
        return;
    if (event->type != SAMPLER_KSYMBOL && event->tgid != (uint32_t)notes->pid)
        return;
    struct note *note = &notes->notes[notes->note_count++];
    note->event = *event;
    const char *text = event->type == SAMPLER_MMAP                                  ? event->mmap.path
                       : event->type == SAMPLER_EXEC || event->type == SAMPLER_COMM ? event->name.comm
                       : event->type == SAMPLER_KSYMBOL                             ? event->ksymbol.symbol
                                                                                    : "";
    snprintf(note->text, sizeof(note->text), "%s", text);
}

static struct sampler_handlers handlers_of(struct notes *notes)
{
    return (struct sampler_handlers){.on_sample = on_sample, .on_event = on_event, .ctx = notes};
}

static size_t open_fd_count(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* ---- time ---- */

/* Ahead of all other jobs, so that the CPU is its own but for the few per cent the kernel keeps for them. */
static void spin_alone(unsigned unused)
{
    struct sched_param param = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_FIFO, &param) == -1)
        printf("# no real-time priority: %s\n", strerror(errno));
    kit_spin(unused);
}

/* 1 % for the method; chance on top where the child did not have its CPU to itself: 4 standard deviations of
 * a count. */
static void check_busy(unsigned hz)
{
    struct notes notes = {0};
    struct sampler_handlers handlers = handlers_of(&notes);
    struct sampler *sampler = kit_open(hz, 0);
    uint64_t start_ns = clock_mono_ns();
    notes.pid = kit_fork(1, spin_alone, 0);
    kit_run(sampler, &handlers, 10 * CLOCK_NS_PER_S);
    double own = (double)kit_reap_ns(notes.pid);
    double wall = (double)(clock_mono_ns() - start_ns);
    kit_finish(sampler, &handlers);
    sampler_close(sampler);

    double share = own / wall < 1 ? own / wall : 1;
    double chance = 4 * sqrt(share * (1 - share) / (hz * wall / 1e9)) / share;
    double ratio = (double)notes.weight_ns / own;
    printf("# %u Hz: own %.4f s of %.4f, sampled %.4f s (%lu samples, %.3f of the rate), ratio %.4f, allowed "
           "%.4f\n",
           hz, own / 1e9, wall / 1e9, (double)notes.weight_ns / 1e9, (unsigned long)notes.sample_count,
           (double)notes.sample_count / (hz * own / 1e9), ratio, 0.01 + chance);
    assert_true(fabs(ratio - 1) < 0.01 + chance);
    assert_int_equal(notes.record_fault_count, 0);
}

static void a_busy_cpu_is_seen_whole_at_19_hz(void **state)
{
    (void)state;
    check_busy(19);
}

static void a_busy_cpu_is_seen_whole_at_99_hz(void **state)
{
    (void)state;
    check_busy(99);
}

static void a_busy_cpu_is_seen_whole_at_499_hz(void **state)
{
    (void)state;
    check_busy(499);
}

/* Idle time of all CPUs by the kernel's books; exact, since an idle CPU stops its tick. */
static double idle_seconds(void)
{
    char line[256];
    unsigned long long user, nice, system, idle, iowait;
    FILE *file = fopen("/proc/stat", "re");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof(line), file));
    fclose(file);
    assert_int_equal(sscanf(line, "cpu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &iowait), 5);
    return (double)(idle + iowait) / (double)sysconf(_SC_CLK_TCK);
}

/* Whatever else the machine does: the sum of all samples is the time that was not idle. */
static void idle_time_is_in_nobodys_account(void **state)
{
    (void)state;
    struct notes notes = {0};
    struct sampler_handlers handlers = handlers_of(&notes);
    struct sampler *sampler = kit_open(99, 0);
    double cpus = sampler_cpu_count(sampler), idle = idle_seconds();
    uint64_t start_ns = clock_mono_ns();
    kit_run(sampler, &handlers, 6 * CLOCK_NS_PER_S);
    double wall = (double)(clock_mono_ns() - start_ns) / 1e9 * cpus;
    double busy = wall - (idle_seconds() - idle);
    kit_finish(sampler, &handlers);
    sampler_close(sampler);

    double share = busy / wall < 0 ? 0 : busy / wall > 1 ? 1 : busy / wall;
    double chance = 4 * sqrt(share * (1 - share) / (99 * wall)) * wall;
    double sampled = (double)notes.total_weight_ns / 1e9;
    /* 1 % for fires that meet another BPF program's run and are not delivered; 50 ms for both ends. */
    double allowed = chance + 0.01 * busy + 0.05;
    printf("# busy %.3f s of %.3f CPU-seconds, sampled %.3f s, allowed difference %.3f s\n", busy, wall,
           sampled, allowed);
    assert_true(fabs(sampled - busy) < allowed);
}

static void a_changed_rate_takes_effect_and_loses_nothing(void **state)
{
    (void)state;
    struct notes notes = {0};
    struct sampler_handlers handlers = handlers_of(&notes);
    struct sampler *sampler = kit_open(19, 0);
    uint64_t start_ns = clock_mono_ns();
    notes.pid = kit_fork(1, kit_spin, 0);
    notes.split_ns = UINT64_MAX;
    kit_run(sampler, &handlers, 3 * CLOCK_NS_PER_S);
    unsigned slow_count = (unsigned)notes.sample_count;
    sampler_set_hz(sampler, 499);
    assert_int_equal(sampler_hz(sampler), 499);
    kit_poll(sampler, &handlers);
    notes.split_ns = clock_mono_ns();
    kit_run(sampler, &handlers, 3 * CLOCK_NS_PER_S);
    double own = (double)kit_reap_ns(notes.pid), wall = (double)(clock_mono_ns() - start_ns);
    kit_finish(sampler, &handlers);
    sampler_set_hz(sampler, 100000);
    assert_int_equal(sampler_hz(sampler), SAMPLER_MAX_HZ);
    sampler_close(sampler);

    double share = own / wall < 1 ? own / wall : 1, ratio = (double)notes.weight_ns / own;
    printf("# %u samples in 3 s at 19 Hz, %lu in 3 s at 499 Hz; own %.3f s, ratio %.3f\n", slow_count,
           (unsigned long)notes.late_count, own / 1e9, ratio);
    assert_in_range(slow_count, (unsigned)(3 * 19 * share * 0.7), 3 * 19 * 13 / 10);
    assert_in_range(notes.late_count, (unsigned)(3 * 499 * share * 0.7), 3 * 499 * 13 / 10);
    assert_true(fabs(ratio - 1) < 0.05 + 4 * sqrt((1 - share) / (3 * 19)));
}

/* ---- books ---- */

static void check_books(struct sampler *sampler, const struct notes *notes, uint64_t *ret_lost)
{
    uint64_t counters[SAMPLE_COUNTER_COUNT];
    assert_int_equal(sampler_counters(sampler, counters, NULL), 0);
    uint64_t lost = counters[SAMPLE_COUNTER_lost_ring_full] + counters[SAMPLE_COUNTER_lost_nested];
    printf("# taken %lu = submitted %lu + lost %lu; delivered %lu\n",
           (unsigned long)counters[SAMPLE_COUNTER_taken], (unsigned long)counters[SAMPLE_COUNTER_submitted],
           (unsigned long)lost, (unsigned long)notes->total_count);
    assert_int_equal(counters[SAMPLE_COUNTER_taken], counters[SAMPLE_COUNTER_submitted] + lost);
    assert_int_equal(notes->total_count, counters[SAMPLE_COUNTER_submitted]);
    *ret_lost = lost;
}

static void the_books_balance_when_the_ring_is_one_page(void **state)
{
    (void)state;
    struct notes notes = {0};
    struct sampler_handlers handlers = handlers_of(&notes);
    struct sampler *sampler = kit_open(999, 4096);
    pid_t first = kit_fork(0, kit_spin, 0), second = kit_fork(1, kit_spin, 0);
    kit_run(sampler, &handlers, 3 * CLOCK_NS_PER_S);
    kit_reap_ns(first);
    kit_reap_ns(second);
    kit_finish(sampler, &handlers);
    uint64_t lost;
    check_books(sampler, &notes, &lost);
    assert_true(lost > 1000);
    sampler_close(sampler);
}

static void read_zeros(unsigned unused)
{
    (void)unused;
    static char block[1 << 16];
    int fd = open("/dev/zero", O_RDONLY);
    while (read(fd, block, sizeof(block)) > 0)
        ;
}

static void nothing_is_lost_with_the_default_ring_and_both_halves_of_a_stack_come(void **state)
{
    (void)state;
    struct notes notes = {0};
    struct sampler_handlers handlers = handlers_of(&notes);
    struct sampler *sampler = kit_open(999, 0);
    notes.pid = kit_fork(0, read_zeros, 0);
    pid_t spinner = kit_fork(1, kit_spin, 0);
    kit_run(sampler, &handlers, 2 * CLOCK_NS_PER_S);
    kit_reap_ns(notes.pid);
    kit_reap_ns(spinner);
    kit_finish(sampler, &handlers);
    uint64_t lost;
    check_books(sampler, &notes, &lost);
    assert_int_equal(lost, 0);
    assert_true(notes.sample_count > 100);
    assert_true(notes.kernel_frame_count > notes.sample_count);
    assert_true(notes.deep_count > notes.sample_count / 2);
    sampler_close(sampler);
}

/* ---- process life ---- */

static void live(unsigned unused)
{
    (void)unused;
    prctl(PR_SET_NAME, "renamed");
    if (!dlopen("libbfd-2.40-system.so", RTLD_NOW) && !dlopen("libcurl.so.4", RTLD_NOW))
        dlopen("libutil.so.1", RTLD_NOW);
    execl("/usr/bin/env", "env", "/usr/bin/true", (char *)NULL);
}

/* Index of the next note of that type (and text, unless NULL) from *at on; *at moves behind it. */
static bool next_note(const struct notes *notes, size_t *at, enum sampler_event_type type, const char *text)
{
    for (; *at < notes->note_count; (*at)++) {
        const struct note *note = &notes->notes[*at];
        if (note->event.type == type && (!text || strcmp(note->text, text) == 0)) {
            (*at)++;
            return true;
        }
    }
    return false;
}

/* The build id of a file by looking for its note: owner "GNU", type 3. */
static void file_build_id(const char *path, uint8_t id[20])
{
    static const uint8_t note[] = {4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0};
    static uint8_t head[8192];
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    size_t bytes = fread(head, 1, sizeof(head), file);
    fclose(file);
    uint8_t *found = memmem(head, bytes - 20, note, sizeof(note));
    assert_non_null(found);
    memcpy(id, found + sizeof(note), 20);
}

static void the_life_of_a_process_comes_in_order_with_build_ids(void **state)
{
    (void)state;
    static struct notes notes;
    memset(&notes, 0, sizeof(notes));
    struct sampler_handlers handlers = handlers_of(&notes);
    struct sampler *sampler = kit_open(99, 0);
    notes.pid = kit_fork(-1, live, 0);
    assert_int_equal(waitpid(notes.pid, NULL, 0), notes.pid);
    kit_finish(sampler, &handlers);
    sampler_close(sampler);

    size_t at = 0;
    assert_true(next_note(&notes, &at, SAMPLER_FORK, NULL));
    assert_int_equal(notes.notes[at - 1].event.fork.parent_tgid, getpid());
    assert_true(next_note(&notes, &at, SAMPLER_COMM, "renamed"));
    assert_true(next_note(&notes, &at, SAMPLER_MMAP, NULL));
    assert_true(next_note(&notes, &at, SAMPLER_EXEC, "env"));
    assert_true(next_note(&notes, &at, SAMPLER_MMAP, "/usr/bin/env"));
    assert_true(next_note(&notes, &at, SAMPLER_EXEC, "true"));
    assert_true(next_note(&notes, &at, SAMPLER_MMAP, "/usr/bin/true"));
    const struct sampler_event *event = &notes.notes[at - 1].event;
    uint8_t id[20];
    file_build_id("/usr/bin/true", id);
    assert_int_equal(event->mmap.build_id_bytes, 20);
    assert_memory_equal(event->mmap.build_id, id, 20);
    assert_true(event->mmap.start && event->mmap.bytes);
    assert_true(next_note(&notes, &at, SAMPLER_EXIT, NULL));
    assert_int_equal(notes.disorder_count, 0);
}

static void storm(unsigned unused)
{
    (void)unused;
    for (;;) {
        pid_t pid = vfork();
        if (pid == 0) {
            execl("/usr/bin/true", "true", (char *)NULL);
            _exit(1);
        }
        if (pid > 0)
            waitpid(pid, NULL, 0);
    }
}

/* Samples and events of all CPUs over many polls, time never going back. */
static void a_storm_of_processes_comes_in_order_of_time(void **state)
{
    (void)state;
    struct notes notes = {0};
    struct sampler_handlers handlers = handlers_of(&notes);
    struct sampler *sampler = kit_open(499, 0);
    pid_t first = kit_fork(0, storm, 0), second = kit_fork(1, storm, 0);
    kit_run(sampler, &handlers, 2 * CLOCK_NS_PER_S);
    kit_reap_ns(first);
    kit_reap_ns(second);
    kit_finish(sampler, &handlers);
    uint64_t lost;
    check_books(sampler, &notes, &lost);
    assert_int_equal(notes.disorder_count, 0);
    sampler_close(sampler);
}

/* ---- CPUs ---- */

static void absent_cpus_are_skipped_and_counted(void **state)
{
    (void)state;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    struct sampler_settings settings = {.hz = 99, .event = "cpu-clock", .cpus = "0-1023"};
    struct sampler *sampler = NULL;
    struct err err = {0};
    assert_int_equal(sampler_open(&settings, &sampler, &err), 0);
    assert_int_equal(sampler_cpu_count(sampler), online);
    assert_int_equal(sampler_cpu_absent_count(sampler), 1024 - online);
    sampler_close(sampler);

    size_t fds = open_fd_count();
    settings.cpus = "1020-1023";
    assert_true(sampler_open(&settings, &sampler, &err) < 0);
    assert_non_null(strstr(err.text, "none of the CPUs"));
    assert_int_equal(open_fd_count(), fds);
}

static void a_cpu_that_goes_and_comes_back_is_sampled_again(void **state)
{
    (void)state;
    struct notes notes = {0};
    struct sampler_handlers handlers = handlers_of(&notes);
    struct sampler *sampler = kit_open(199, 0);
    struct cpu_list both = {{3}}, first = {{1}};
    assert_int_equal(sampler_cpu_count(sampler), 2);
    size_t fds = open_fd_count();
    notes.pid = kit_fork(1, kit_spin, 0);

    assert_int_equal(apply_cpus(sampler, &first, &first), 0);
    assert_int_equal(sampler_cpu_count(sampler), 1);
    kit_run(sampler, &handlers, CLOCK_NS_PER_S / 2);
    uint64_t before = notes.sample_count; /* what came before it was closed */
    kit_run(sampler, &handlers, CLOCK_NS_PER_S / 2);
    assert_int_equal(notes.sample_count, before);

    assert_int_equal(apply_cpus(sampler, &both, &both), 0);
    assert_int_equal(sampler_cpu_count(sampler), 2);
    assert_int_equal(open_fd_count(), fds);
    kit_run(sampler, &handlers, CLOCK_NS_PER_S);
    assert_true(notes.sample_count > before + 50);
    kit_reap_ns(notes.pid);
    sampler_close(sampler);
}

/* ---- refusals ---- */

static int without_capability(unsigned capability, struct err *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    syscall(SYS_capget, &header, data);
    data[CAP_SYS_ADMIN / 32].effective &= ~(1u << CAP_SYS_ADMIN % 32);
    data[capability / 32].effective &= ~(1u << capability % 32);
    if (syscall(SYS_capset, &header, data) == -1)
        return 1;
    struct sampler_settings settings = {.hz = 99, .event = "cpu-clock"};
    struct sampler *sampler = NULL;
    return sampler_open(&settings, &sampler, err);
}

/* In a child, since rights do not come back. */
static void check_capability(unsigned capability, const char *name, int wanted_rc)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct err err = {0};
        int rc = without_capability(capability, &err);
        printf("# without %s: %d %s\n", name, rc, err.text);
        fflush(stdout);
        _exit(rc == wanted_rc && (rc == 0 || strstr(err.text, name)) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void a_missing_capability_is_named(void **state)
{
    (void)state;
    check_capability(CAP_BPF, "CAP_BPF", -EPERM);
    check_capability(CAP_PERFMON, "CAP_PERFMON", -EPERM);
    check_capability(CAP_SYS_ADMIN, "CAP_SYS_ADMIN", 0); /* not needed */
}

static void the_limit_of_open_files_is_raised_as_far_as_it_may(void **state)
{
    (void)state;
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = (struct rlimit){.rlim_cur = 256, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    sampler_close(kit_open(99, 0));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(limit.rlim_cur, limit.rlim_max);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void wrong_settings_are_refused_with_a_reason(void **state)
{
    (void)state;
    static const struct sampler_settings wrong[] = {
        {.hz = 0, .event = "cpu-clock"},
        {.hz = 1001, .event = "cpu-clock"},
        {.hz = 99, .event = "instructions"},
        {.hz = 99, .event = "cpu-clock", .ring_bytes = 5000},
        {.hz = 99, .event = "cpu-clock", .cpus = "all"},
    };
    size_t fds = open_fd_count();
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct sampler *sampler = NULL;
        struct err err = {0};
        assert_int_equal(sampler_open(&wrong[i], &sampler, &err), -EINVAL);
        assert_true(err.text[0]);
    }
    assert_int_equal(open_fd_count(), fds);
}

static void cycles_work_or_are_refused_with_advice(void **state)
{
    (void)state;
    struct sampler_settings settings = {.hz = 99, .event = "cycles"};
    struct sampler *sampler = NULL;
    struct err err = {0};
    size_t fds = open_fd_count();
    int rc = sampler_open(&settings, &sampler, &err);
    if (rc < 0) {
        assert_int_equal(rc, -EOPNOTSUPP);
        assert_non_null(strstr(err.text, "use the event cpu-clock"));
    } else {
        assert_string_equal(sampler_event_name(sampler), "cycles");
        sampler_close(sampler);
    }
    assert_int_equal(open_fd_count(), fds);
}

static void a_refusal_by_the_verifier_carries_the_end_of_its_log(void **state)
{
    (void)state;
    struct sampler sampler = {.skel = sample_bpf__open()};
    struct err err = {0};
    assert_non_null(sampler.skel);
    libbpf_set_print(on_libbpf_print);
    /* The first instruction becomes an exit: the others cannot be reached. */
    struct bpf_program *program = sampler.skel->progs.sample_cpu;
    size_t count = bpf_program__insn_cnt(program);
    struct bpf_insn *insns = test_malloc(count * sizeof(*insns));
    memcpy(insns, bpf_program__insns(program), count * sizeof(*insns));
    insns[0] = (struct bpf_insn){.code = BPF_JMP | BPF_EXIT};
    assert_int_equal(bpf_program__set_insns(program, insns, count), 0);
    test_free(insns);
    assert_int_equal(load_program(&sampler, &err), -EOPNOTSUPP);
    printf("# %s\n", err.text);
    assert_non_null(strstr(err.text, "unreachable insn"));
    sample_bpf__destroy(sampler.skel);
}

static void opening_and_closing_leaves_nothing(void **state)
{
    (void)state;
    sampler_close(kit_open(99, 0)); /* what libraries keep for good is there after the first */
    size_t fds = open_fd_count();
    for (int i = 0; i < 5; i++)
        sampler_close(kit_open(99, 0));
    assert_int_equal(open_fd_count(), fds);
    sampler_close(NULL);
}

/* ---- cost ---- */

static void the_verifier_needs_few_instructions(void **state)
{
    (void)state;
    struct sampler *sampler = kit_open(99, 0);
    struct bpf_prog_info info = {0};
    __u32 bytes = sizeof(info);
    assert_int_equal(bpf_obj_get_info_by_fd(bpf_program__fd(sampler->skel->progs.sample_cpu), &info, &bytes),
                     0);
    printf("# sample_cpu: processed %u insns, budget %u\n", info.verified_insns, INSN_BUDGET);
    assert_in_range(info.verified_insns, 1, INSN_BUDGET);
    sampler_close(sampler);
}

static void the_cost_is_known_when_the_kernel_keeps_statistics(void **state)
{
    (void)state;
    struct notes notes = {0};
    struct sampler_handlers handlers = handlers_of(&notes);
    int statistics = bpf_enable_stats(BPF_STATS_RUN_TIME);
    assert_true(statistics >= 0);
    struct sampler *sampler = kit_open(499, 0);
    pid_t pid = kit_fork(1, kit_spin, 0);
    kit_run(sampler, &handlers, CLOCK_NS_PER_S);
    uint64_t run_ns, run_count;
    sampler_bpf_cost(sampler, &run_ns, &run_count);
    kit_reap_ns(pid);
    assert_true(run_count > 100);
    printf("# %.0f ns a fire\n", (double)run_ns / (double)run_count);
    assert_in_range(run_ns / run_count, 100, 1000000);
    sampler_close(sampler);
    close(statistics);
}

int main(void)
{
    int rc = kit_cannot_run();
    if (rc)
        return rc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_busy_cpu_is_seen_whole_at_19_hz),
        cmocka_unit_test(a_busy_cpu_is_seen_whole_at_99_hz),
        cmocka_unit_test(a_busy_cpu_is_seen_whole_at_499_hz),
        cmocka_unit_test(idle_time_is_in_nobodys_account),
        cmocka_unit_test(a_changed_rate_takes_effect_and_loses_nothing),
        cmocka_unit_test(the_books_balance_when_the_ring_is_one_page),
        cmocka_unit_test(nothing_is_lost_with_the_default_ring_and_both_halves_of_a_stack_come),
        cmocka_unit_test(the_life_of_a_process_comes_in_order_with_build_ids),
        cmocka_unit_test(a_storm_of_processes_comes_in_order_of_time),
        cmocka_unit_test(absent_cpus_are_skipped_and_counted),
        cmocka_unit_test(a_cpu_that_goes_and_comes_back_is_sampled_again),
        cmocka_unit_test(a_missing_capability_is_named),
        cmocka_unit_test(the_limit_of_open_files_is_raised_as_far_as_it_may),
        cmocka_unit_test(wrong_settings_are_refused_with_a_reason),
        cmocka_unit_test(cycles_work_or_are_refused_with_advice),
        cmocka_unit_test(a_refusal_by_the_verifier_carries_the_end_of_its_log),
        cmocka_unit_test(opening_and_closing_leaves_nothing),
        cmocka_unit_test(the_verifier_needs_few_instructions),
        cmocka_unit_test(the_cost_is_known_when_the_kernel_keeps_statistics),
    };
    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
