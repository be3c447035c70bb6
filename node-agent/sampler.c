#include "node-agent/sampler.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/xalloc.h"
#include "node-agent/cpu_clock.h"
#include "node-agent/cpu_list.h"
#include "node-agent/merge.h"
#include "node-agent/perf_records.h"
#include "node-agent/rights.h"
#include "node-agent/sideband.h"

#include "bpf/sample.skel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#define ONLINE_PATH        "/sys/devices/system/cpu/online"
#define MAX_STACK_PATH     "/proc/sys/kernel/perf_event_max_stack"
#define ONLINE_REREAD_NS   (5 * CLOCK_NS_PER_S)
#define HOLD_NS            (SAMPLER_HOLD_MS * CLOCK_NS_PER_MS)
#define RENEW_PERIODS      3u          /* fires between two restarts of the period, at least */
#define RING_CPU_BYTES     (64u << 10) /* default share of one CPU in its ring: about 130 usual samples */
#define RING_MIN_BYTES     (256u << 10)
#define VERIFIER_LOG_BYTES (4u << 20) /* touched only when the verifier refuses */

/* Kinds in the merge: at equal times an event goes before a sample. */
enum { KIND_EVENT, KIND_SAMPLE };

struct cpu {
    bool open;
    uint64_t draw; /* state of this CPU's sequence of periods */
    int clock_fd;
    struct sideband *sideband; /* NULL: this CPU is sampled without */
};

struct sampler {
    struct sample_bpf *skel;
    struct ring_buffer *rings; /* libbpf's reader of all rings */
    int ring_fds[SAMPLE_MAX_RINGS];
    size_t ring_bytes, sideband_bytes;
    bool ring_made[SAMPLE_MAX_RINGS];
    struct merge *merge;
    uint8_t *scratch;
    struct sideband_features features;
    struct cpu cpus[SAMPLE_MAX_CPUS];
    struct cpu_list fixed; /* the user's list */
    bool fixed_given, cycles, stopped;
    unsigned cpu_count, absent_count;
    uint64_t bad_sample_count, bad_event_count;
    struct log_limit online_limit;
    _Atomic unsigned wanted_hz;
    unsigned hz;
    uint64_t next_online_ns, renewed_ns, renew_interval_ns;
    uint64_t random_state;
};

/* ---- rights and limits ---- */

static int refused(struct err *err, const char *what)
{
    return err_say(err, -EPERM,
                   "%s is not permitted although CAP_BPF and CAP_PERFMON are held: a seccomp profile, kernel "
                   "lockdown or a "
                   "user namespace forbids it",
                   what);
}

/* Kernels before 5.11 charge BPF memory to this limit, and perf rings may exceed their own limit by it. */
static void raise_memlock(void)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) == -1)
        log_debug("limit of locked memory stays as it is: %s", strerror(errno));
}

/* Two descriptors a CPU: the usual soft limit of 1024 is not enough for a large machine. */
static void raise_open_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == -1)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) == -1)
        log_debug("limit of open files stays as it is: %s", strerror(errno));
}

static unsigned stack_limit(void)
{
    unsigned limit = SAMPLE_MAX_FRAMES;
    FILE *file = fopen(MAX_STACK_PATH, "re");
    if (!file)
        return limit;
    if (fscanf(file, "%u", &limit) != 1 || limit > SAMPLE_MAX_FRAMES)
        limit = SAMPLE_MAX_FRAMES;
    fclose(file);
    return limit;
}

/* ---- the BPF program ---- */

static int on_libbpf_print(enum libbpf_print_level level, const char *fmt, va_list args)
    __attribute__((format(printf, 2, 0)));
static int on_libbpf_print(enum libbpf_print_level level, const char *fmt, va_list args)
{
    char text[512];
    (void)level;
    if (log_level_get() < LOG_LEVEL_DEBUG)
        return 0;
    vsnprintf(text, sizeof(text), fmt, args);
    log_debug("%s", text);
    return 0;
}

/* The last lines of the verifier's log, short enough for an error text, without its closing statistics. */
static void verifier_tail(const char *log, char *out, size_t out_bytes)
{
    size_t end = strlen(log);
    const char *statistics = strstr(log, "\nprocessed ");
    if (statistics)
        end = (size_t)(statistics - log);
    while (end > 0 && log[end - 1] == '\n')
        end--;
    size_t start = end >= out_bytes ? end - out_bytes + 1 : 0;
    size_t used = end - start;
    memcpy(out, log + start, used);
    out[used] = '\0';
    for (size_t i = 0; i < used; i++)
        if (out[i] == '\n')
            out[i] = '|';
}

static int load_failed(int rc, const char *log, struct err *err)
{
    struct utsname kernel = {0};
    char tail[200];
    uname(&kernel);
    if (rc == -EPERM && !log[0])
        return refused(err, "loading the BPF program");
    if (!log[0])
        return err_set(err, rc, "load the BPF program on kernel %s (log level debug says more)",
                       kernel.release);
    verifier_tail(log, tail, sizeof(tail));
    return err_say(err, -EOPNOTSUPP, "the verifier of kernel %s refuses the BPF program: %s", kernel.release,
                   tail);
}

static int load_program(struct sampler *sampler, struct err *err)
{
    char *log = xcalloc(1, VERIFIER_LOG_BYTES);
    bpf_program__set_log_buf(sampler->skel->progs.sample_cpu, log, VERIFIER_LOG_BYTES);
    int rc = sample_bpf__load(sampler->skel);
    if (rc < 0)
        rc = load_failed(rc, log, err);
    free(log);
    return rc;
}

static int no_cycles(int rc, struct err *err)
{
    return err_set(err, rc, "count CPU cycles (virtual machines usually cannot: use the event cpu-clock)");
}

static int open_program(struct sampler *sampler, struct err *err)
{
    uint64_t cycle_ns = 0;
    if (sampler->cycles) {
        int rc = cpu_clock_measure_cycle(&cycle_ns);
        if (rc < 0)
            return no_cycles(rc, err);
    }
    if (access("/sys/kernel/btf/vmlinux", R_OK) == -1)
        return err_set(err, -EOPNOTSUPP,
                       "the kernel does not tell its types (no /sys/kernel/btf/vmlinux; it needs "
                       "CONFIG_DEBUG_INFO_BTF)");
    sampler->skel = sample_bpf__open();
    if (!sampler->skel)
        return err_set(err, -errno, "open the BPF program");
    sampler->skel->rodata->frame_cap = stack_limit();
    sampler->skel->rodata->cycle_ns = cycle_ns;
    return load_program(sampler, err);
}

/* ---- rings ---- */

/* What a ring holds is trusted as little as any input: a length that contradicts its counts is refused. */
static bool record_sound(const struct sample_record *record, size_t bytes)
{
    if (bytes < SAMPLE_HEADER_BYTES || record->kernel_count > SAMPLE_MAX_FRAMES ||
        record->user_count > SAMPLE_MAX_FRAMES)
        return false;
    return bytes >=
           SAMPLE_HEADER_BYTES + ((size_t)record->kernel_count + record->user_count) * sizeof(abi_u64);
}

/* Stops the reader (negative return) before the merge would have to refuse a record: it stays in the ring. */
static int on_ring_record(void *ctx, void *data, size_t bytes)
{
    struct sampler *sampler = ctx;
    const struct sample_record *record = data;
    if (!record_sound(record, bytes) ||
        merge_add(sampler->merge, record->time_ns, KIND_SAMPLE, record, bytes) < 0)
        sampler->bad_sample_count++;
    return merge_room(sampler->merge) < sizeof(*record) ? -ENOSPC : 0;
}

static size_t default_ring_bytes(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    size_t sharing = cpus > 0 && cpus < SAMPLE_CPUS_A_RING ? (size_t)cpus : SAMPLE_CPUS_A_RING;
    size_t bytes = RING_MIN_BYTES;
    while (bytes < sharing * RING_CPU_BYTES)
        bytes *= 2;
    return bytes;
}

static int read_ring(struct sampler *sampler, int fd)
{
    if (sampler->rings)
        return ring_buffer__add(sampler->rings, fd, on_ring_record, sampler);
    sampler->rings = ring_buffer__new(fd, on_ring_record, sampler, NULL);
    return sampler->rings ? 0 : -errno;
}

static int make_ring(struct sampler *sampler, unsigned index)
{
    if (sampler->ring_made[index])
        return 0;
    int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "sample_ring", 0, 0, (__u32)sampler->ring_bytes, NULL);
    if (fd < 0)
        return fd;
    int rings_fd = bpf_map__fd(sampler->skel->maps.rings);
    int rc = bpf_map_update_elem(rings_fd, &index, &fd, BPF_ANY);
    if (rc == 0)
        rc = read_ring(sampler, fd);
    if (rc < 0) {
        bpf_map_delete_elem(rings_fd, &index);
        close(fd);
        return rc;
    }
    sampler->ring_fds[index] = fd;
    sampler->ring_made[index] = true;
    return 0;
}

/* Twice all rings: a poll's harvest beside what the poll before held back. */
static void update_merge_limit(struct sampler *sampler)
{
    size_t bytes = sampler->sideband_bytes;
    for (unsigned i = 0; i < SAMPLE_MAX_RINGS; i++)
        bytes += sampler->ring_made[i] ? sampler->ring_bytes : 0;
    merge_set_limit(sampler->merge, 2 * (bytes + sizeof(struct sample_record)));
}

/* ---- rate ---- */

#define GOLDEN_STEP 0x9e3779b97f4a7c15ULL /* 2^64 / golden ratio */

static uint64_t next_random(struct sampler *sampler)
{
    /* splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014. */
    uint64_t z = sampler->random_state += GOLDEN_STEP;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/* Steps of the golden ratio from a random start fill the range evenly: the mean rate comes out right within
 * seconds, where independent draws would be off by 5 % over ten. */
static uint64_t draw_rate(struct sampler *sampler, struct cpu *cpu)
{
    cpu->draw += GOLDEN_STEP;
    if (!sampler->cycles)
        return cpu_clock_draw_period_ns(sampler->hz, sampler->renew_interval_ns, cpu->draw);
    uint64_t rate = sampler->hz * (750 + (cpu->draw >> 32) % 501) / 1000;
    return rate ? rate : 1;
}

/* What the CPU's fires stand for from now on, written before the clock is told. */
static void write_plan(struct sampler *sampler, unsigned number, uint64_t rate, bool restart)
{
    struct sample_plan *plan = &sampler->skel->bss->plans[number];
    uint64_t now_ns = clock_mono_ns();
    uint64_t carry_ns = restart ? cpu_clock_carry_ns(plan->start_ns, plan->period_ns, now_ns) : 0;
    __atomic_store_n(&plan->carry_ns, carry_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&plan->period_ns, sampler->cycles ? 0 : rate, __ATOMIC_RELAXED);
    __atomic_store_n(&plan->start_ns, now_ns, __ATOMIC_RELEASE);
}

/* Gives every CPU a new period, and a changed rate at once. Not before RENEW_PERIODS periods have passed:
 * each change restarts the period, and a low rate would never fire. Comes after the poll's work: done first,
 * the restart would keep fires away from exactly the time in which the agent itself runs. */
static void renew_periods(struct sampler *sampler, uint64_t now_ns)
{
    unsigned wanted_hz = atomic_load(&sampler->wanted_hz), old_hz = sampler->hz;
    uint64_t interval_ns = now_ns - sampler->renewed_ns;
    if (wanted_hz == old_hz && interval_ns < RENEW_PERIODS * CLOCK_NS_PER_S / old_hz)
        return;
    sampler->hz = wanted_hz;
    sampler->renewed_ns = now_ns;
    if (wanted_hz == old_hz)
        sampler->renew_interval_ns = (3 * sampler->renew_interval_ns + interval_ns) / 4;
    for (unsigned i = 0; i < SAMPLE_MAX_CPUS; i++) {
        if (!sampler->cpus[i].open)
            continue;
        uint64_t rate = draw_rate(sampler, &sampler->cpus[i]);
        write_plan(sampler, i, rate, true);
        cpu_clock_set_rate(sampler->cpus[i].clock_fd, rate);
    }
}

void sampler_set_hz(struct sampler *sampler, unsigned hz)
{
    if (hz < SAMPLER_MIN_HZ)
        hz = SAMPLER_MIN_HZ;
    if (hz > SAMPLER_MAX_HZ)
        hz = SAMPLER_MAX_HZ;
    atomic_store(&sampler->wanted_hz, hz);
}

unsigned sampler_hz(const struct sampler *sampler)
{
    return atomic_load(&sampler->wanted_hz);
}

/* ---- CPUs ---- */

static void close_cpu(struct sampler *sampler, unsigned number)
{
    struct cpu *cpu = &sampler->cpus[number];
    if (!cpu->open)
        return;
    cpu_clock_stop(cpu->clock_fd); /* a process forked meanwhile holds the event open too */
    close(cpu->clock_fd);
    if (cpu->sideband) {
        sideband_stop(cpu->sideband);
        sideband_drain(cpu->sideband, sampler->merge, KIND_EVENT, sampler->scratch);
        sampler->sideband_bytes -= sideband_ring_bytes(cpu->sideband);
        sideband_close(cpu->sideband);
    }
    *cpu = (struct cpu){0};
    sampler->cpu_count--;
}

/* Side-band first: no sample of this CPU without the records of what it runs. */
static int open_cpu(struct sampler *sampler, unsigned number)
{
    struct cpu *cpu = &sampler->cpus[number];
    int rc = make_ring(sampler, number / SAMPLE_CPUS_A_RING);
    if (rc < 0)
        return rc;
    cpu->draw = next_random(sampler);
    uint64_t rate = draw_rate(sampler, cpu);
    rc = cpu_clock_open(number, sampler->cycles, rate, bpf_program__fd(sampler->skel->progs.sample_cpu),
                        &cpu->clock_fd);
    if (rc < 0)
        return rc;
    cpu->open = true;
    sampler->cpu_count++;
    int sideband_rc = sideband_open(number, &sampler->features, &cpu->sideband);
    if (sideband_rc < 0)
        log_warn(
            "CPU %u is sampled without records of process life (%s): new code is found by looking at /proc",
            number, strerror(-sideband_rc));
    else
        sampler->sideband_bytes += sideband_ring_bytes(cpu->sideband);

    write_plan(sampler, number, rate, false);
    rc = cpu_clock_start(cpu->clock_fd);
    if (rc < 0)
        close_cpu(sampler, number);
    return rc;
}

/* Opens what is there and was not, closes what is gone. Returns the first error of an open, for when none
 * succeeds. */
static int apply_cpus(struct sampler *sampler, const struct cpu_list *wanted, const struct cpu_list *online)
{
    int first_rc = 0;
    unsigned before = sampler->cpu_count, absent_before = sampler->absent_count;
    for (unsigned i = 0; i < SAMPLE_MAX_CPUS; i++) {
        if (sampler->cpus[i].open && !cpu_list_has(online, i))
            close_cpu(sampler, i);
        if (!cpu_list_has(wanted, i) || sampler->cpus[i].open)
            continue;
        int rc = open_cpu(sampler, i);
        if (rc < 0) {
            first_rc = first_rc ? first_rc : rc;
            log_debug("CPU %u cannot be sampled: %s", i, strerror(-rc));
        }
    }
    sampler->absent_count = cpu_list_count(wanted) - sampler->cpu_count;
    if (sampler->absent_count > absent_before && sampler->cpu_count > 0)
        log_warn("%u CPUs cannot be sampled (%s); trying again", sampler->absent_count, strerror(-first_rc));
    update_merge_limit(sampler);
    if (before && before != sampler->cpu_count)
        log_info("sampling %u CPUs now, %u before", sampler->cpu_count, before);
    return first_rc;
}

static int follow_cpus(struct sampler *sampler, struct err *err)
{
    struct cpu_list online;
    int rc = cpu_list_read(ONLINE_PATH, &online, err);
    if (rc < 0)
        return rc;
    rc = apply_cpus(sampler, sampler->fixed_given ? &sampler->fixed : &online, &online);
    if (sampler->cpu_count > 0)
        return 0;
    if (rc == -EPERM || rc == -EACCES)
        return refused(err, "perf_event_open on a CPU");
    if (rc == -EOPNOTSUPP)
        return no_cycles(rc, err);
    return err_set(err, rc ? rc : -ENODEV, "none of the CPUs can be sampled");
}

/* ---- open, poll, close ---- */

static int check_settings(struct sampler *sampler, const struct sampler_settings *settings, struct err *err)
{
    if (settings->hz < SAMPLER_MIN_HZ || settings->hz > SAMPLER_MAX_HZ)
        return err_say(err, -EINVAL, "rate %u Hz is outside %u..%u", settings->hz, SAMPLER_MIN_HZ,
                       SAMPLER_MAX_HZ);
    if (strcmp(settings->event, "cycles") == 0)
        sampler->cycles = true;
    else if (strcmp(settings->event, "cpu-clock") != 0)
        return err_say(err, -EINVAL, "event \"%.32s\" is neither cpu-clock nor cycles", settings->event);
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    sampler->ring_bytes = settings->ring_bytes ? settings->ring_bytes : default_ring_bytes();
    if (sampler->ring_bytes & (sampler->ring_bytes - 1) || sampler->ring_bytes < page_bytes ||
        sampler->ring_bytes > 1u << 30)
        return err_say(err, -EINVAL, "ring of %zu bytes: want a power of two from %zu to 1 GiB",
                       sampler->ring_bytes, page_bytes);
    if (!settings->cpus)
        return 0;
    sampler->fixed_given = true;
    return cpu_list_parse(settings->cpus, &sampler->fixed, err);
}

static int start(struct sampler *sampler, struct err *err)
{
    const struct rights rights = rights_read();
    int rc = rights_check(&rights, err);
    if (rc < 0)
        return rc;
    raise_memlock();
    raise_open_files();
    rc = open_program(sampler, err);
    if (rc < 0)
        return rc;
    return follow_cpus(sampler, err);
}

int sampler_open(const struct sampler_settings *settings, struct sampler **ret_sampler, struct err *err)
{
    struct sampler *sampler = xcalloc(1, sizeof(*sampler));
    sampler->merge = merge_new();
    sampler->scratch = xmalloc(PERF_RECORD_MAX_BYTES);
    libbpf_set_print(on_libbpf_print);

    int rc = check_settings(sampler, settings, err);
    if (rc < 0)
        goto fail;
    uint64_t now_ns = clock_mono_ns();
    atomic_init(&sampler->wanted_hz, settings->hz);
    sampler->hz = settings->hz;
    sampler->renewed_ns = now_ns;
    sampler->renew_interval_ns = SAMPLER_POLL_MS * CLOCK_NS_PER_MS;
    sampler->next_online_ns = now_ns + ONLINE_REREAD_NS;
    if (getrandom(&sampler->random_state, sizeof(sampler->random_state), 0) < 0)
        sampler->random_state = now_ns;
    rc = start(sampler, err);
    if (rc < 0)
        goto fail;
    *ret_sampler = sampler;
    return 0;
fail:
    sampler_close(sampler);
    return rc;
}

static void deliver(unsigned kind, const void *record, size_t bytes, void *ctx)
{
    const struct sampler_handlers *handlers = ctx;
    struct sampler_event event;
    if (kind == KIND_SAMPLE)
        handlers->on_sample(record, handlers->ctx);
    else if (perf_record_parse(record, bytes, &event) == 0)
        handlers->on_event(&event, handlers->ctx);
}

/* A list that cannot be read just now is no reason to leave the CPUs that are being sampled. */
static int renew_cpus(struct sampler *sampler, struct err *err)
{
    int rc = follow_cpus(sampler, err);
    if (rc == 0 || sampler->cpu_count == 0)
        return rc;
    if (log_limit_pass(&sampler->online_limit, NULL))
        log_warn("CPUs that come and go are not followed, trying again: %s", err->text);
    return 0;
}

/* Why this order is right. A process runs code of a mapping only after the kernel has written the mapping's
 * record (it does so before mmap, exec or fork return), so a sample found in a ring has the records of its
 * mappings already in theirs: reading the side-band AFTER the samples cannot miss them. It can, however, find
 * records younger than samples not read yet (an exec, whose process was sampled just before on another CPU):
 * therefore only what is older than HOLD_NS before the reading began is handed out. By then every program
 * that took an older time stamp has long put its record into the ring; the younger rest waits for the next
 * poll. */
int sampler_poll(struct sampler *sampler, const struct sampler_handlers *handlers, struct err *err)
{
    uint64_t now_ns = clock_mono_ns();
    uint64_t bad_before = sampler->bad_sample_count + sampler->bad_event_count;

    int rc = ring_buffer__consume(sampler->rings);
    if (rc < 0 && rc != -ENOSPC)
        return err_set(err, rc, "read the sample rings");
    for (unsigned i = 0; i < SAMPLE_MAX_CPUS; i++)
        if (sampler->cpus[i].sideband &&
            sideband_drain(sampler->cpus[i].sideband, sampler->merge, KIND_EVENT, sampler->scratch) < 0)
            sampler->bad_event_count++;
    merge_deliver(sampler->merge, sampler->stopped ? UINT64_MAX : now_ns - HOLD_NS, deliver,
                  (void *)handlers);
    if (!sampler->stopped && now_ns >= sampler->next_online_ns) {
        sampler->next_online_ns = now_ns + ONLINE_REREAD_NS;
        rc = renew_cpus(sampler, err);
        if (rc < 0)
            return rc;
    }
    if (!sampler->stopped)
        renew_periods(sampler, clock_mono_ns());
    if (sampler->bad_sample_count + sampler->bad_event_count != bad_before)
        return err_say(err, -EBADMSG, "a ring held records that contradict themselves");
    return 0;
}

uint64_t sampler_bad_sample_count(const struct sampler *sampler)
{
    return sampler->bad_sample_count;
}

unsigned sampler_poll_delay_ms(struct sampler *sampler)
{
    return SAMPLER_POLL_MS * 3 / 4 + (unsigned)(next_random(sampler) % (SAMPLER_POLL_MS / 2 + 1));
}

unsigned sampler_cpu_count(const struct sampler *sampler)
{
    return sampler->cpu_count;
}

unsigned sampler_cpu_absent_count(const struct sampler *sampler)
{
    return sampler->absent_count;
}

const char *sampler_event_name(const struct sampler *sampler)
{
    return sampler->cycles ? "cycles" : "cpu-clock";
}

int sampler_counters(const struct sampler *sampler, uint64_t counters[SAMPLE_COUNTER_COUNT], struct err *err)
{
    int cpus = libbpf_num_possible_cpus();
    if (cpus < 0)
        return err_set(err, cpus, "count the possible CPUs");
    uint32_t zero = 0;
    uint64_t *values = xcalloc((size_t)cpus, SAMPLE_COUNTER_COUNT * sizeof(uint64_t));
    int rc = bpf_map_lookup_elem(bpf_map__fd(sampler->skel->maps.counters), &zero, values);
    if (rc < 0) {
        err_set(err, rc, "read the sample counters");
    } else {
        memset(counters, 0, SAMPLE_COUNTER_COUNT * sizeof(uint64_t));
        for (size_t i = 0; i < (size_t)cpus * SAMPLE_COUNTER_COUNT; i++)
            counters[i % SAMPLE_COUNTER_COUNT] += values[i];
    }
    free(values);
    return rc;
}

void sampler_bpf_cost(const struct sampler *sampler, uint64_t *ret_run_ns, uint64_t *ret_run_count)
{
    struct bpf_prog_info info = {0};
    __u32 bytes = sizeof(info);
    if (bpf_obj_get_info_by_fd(bpf_program__fd(sampler->skel->progs.sample_cpu), &info, &bytes) < 0)
        memset(&info, 0, sizeof(info));
    *ret_run_ns = info.run_time_ns;
    *ret_run_count = info.run_cnt;
}

void sampler_stop(struct sampler *sampler)
{
    if (sampler->stopped)
        return;
    sampler->stopped = true;
    for (unsigned i = 0; i < SAMPLE_MAX_CPUS; i++) {
        if (sampler->cpus[i].open)
            cpu_clock_stop(sampler->cpus[i].clock_fd);
        if (sampler->cpus[i].sideband)
            sideband_stop(sampler->cpus[i].sideband);
    }
}

void sampler_close(struct sampler *sampler)
{
    if (!sampler)
        return;
    for (unsigned i = 0; i < SAMPLE_MAX_CPUS; i++)
        close_cpu(sampler, i);
    ring_buffer__free(sampler->rings);
    for (unsigned i = 0; i < SAMPLE_MAX_RINGS; i++)
        if (sampler->ring_made[i])
            close(sampler->ring_fds[i]);
    sample_bpf__destroy(sampler->skel);
    merge_free(sampler->merge);
    free(sampler->scratch);
    free(sampler);
}
