/* sample: one fire of a CPU's sampling clock -> one record in the ring buffer of that CPU's group.
 * Shapes:   sample_abi.h; raw process addresses, resolved by the agent against mappings merged by time.
 * Rules:    the order of work is: time, whose it is, counters, [policy: before any stack is read], stacks,
 * hand over. Every fire ends in exactly one of idle, submitted, lost_*. Context:  hrtimer interrupt
 * (cpu-clock) or NMI (cycles): no locks, no allocation, per-CPU memory only. Source:   bpf-helpers(7);
 * kernel/trace/bpf_trace.c, kernel/bpf/{stackmap,ringbuf}.c (6.x). */
#include "bpf/kernel.h"
#include "bpf/sample_abi.h"

#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define FRAME_BYTES ((__u64)sizeof(__u64))
#define HALF_BYTES  (SAMPLE_MAX_FRAMES * sizeof(__u64))

struct counters {
    __u64 value[SAMPLE_COUNTER_COUNT];
};

struct cpu_state {
    struct sample_clock clock;
    __u64 in_use; /* record is being filled: a fire that interrupts must not touch it */
    struct sample_record record;
};

struct ring {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4096);
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct counters);
} counters SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct cpu_state);
} cpu_states SEC(".maps");

/* Several rings, since a ring has one lock for all its writers. The agent makes them: their size depends on
 * the node. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, SAMPLE_MAX_RINGS);
    __type(key, __u32);
    __array(values, struct ring);
} rings SEC(".maps");

struct sample_plan plans[SAMPLE_MAX_CPUS]; /* live: the agent writes them while the program runs */
const volatile __u64 cycle_ns = 0;         /* ns per CPU cycle << SAMPLE_CYCLE_SHIFT, for clocks of cycles */
const volatile __u32 frame_cap = SAMPLE_MAX_FRAMES; /* min(SAMPLE_MAX_FRAMES, kernel.perf_event_max_stack) */

#define COUNT(counts, name, n) ((counts)->value[SAMPLE_COUNTER_##name] += (n))

/* The CPU time this fire stands for. Cycles stand still while a CPU is idle, so there the gap holds idle time
 * too, and the cycles bound the busy part of it. */
static __always_inline __u64 take_weight(const struct bpf_perf_event_data *ctx, struct sample_clock *clock,
                                         __u32 cpu, __u64 now_ns)
{
    __u64 last_ns = clock->last_fire_ns;
    clock->last_fire_ns = now_ns;
    if (cpu >= SAMPLE_MAX_CPUS)
        return 0;
    const struct sample_plan *plan = &plans[cpu];
    __u64 period_ns = plan->period_ns, start_ns = plan->start_ns;
    if (period_ns == 0) {
        __u64 busy_ns = (ctx->sample_period * cycle_ns) >> SAMPLE_CYCLE_SHIFT;
        __u64 gap_ns = now_ns - (last_ns ? last_ns : start_ns);
        return gap_ns < busy_ns ? gap_ns : busy_ns;
    }
    /* The grid's first point, unless its fire was not delivered and this is a later one. */
    if (last_ns < start_ns && now_ns - start_ns < period_ns + period_ns / 2)
        return period_ns + plan->carry_ns;
    return period_ns;
}

static __always_inline __u64 memory_cgroup_id(struct task_struct *task)
{
    if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id))
        return 0;
    struct cgroup_subsys_state *state =
        task->cgroups->subsys[bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id)];
    return state->cgroup->kn->id;
}

/* Who was running. The pointers come from bpf_get_current_task_btf(): plain loads, and a bad one reads as
 * zero. */
static __always_inline void fill_identity(struct sample_record *record, struct task_struct *task,
                                          __u64 pid_tgid)
{
    struct task_struct *leader = task->group_leader;

    record->start_time_ns = leader->start_boottime;
    record->cgroup_id = bpf_get_current_cgroup_id();
    record->memcg_id = memory_cgroup_id(task);
    record->tgid = pid_tgid >> 32;
    record->tid = (__u32)pid_tgid;
    record->flags = task->flags & PF_KTHREAD ? SAMPLE_KERNEL_THREAD : 0;
    bpf_get_current_comm(record->thread_comm, sizeof(record->thread_comm));
    if (record->tid == record->tgid)
        __builtin_memcpy(record->process_comm, record->thread_comm, sizeof(record->process_comm));
    else
        bpf_probe_read_kernel(record->process_comm, sizeof(record->process_comm), leader->comm);
}

/* Whether the fire interrupted user code: then there is no kernel stack to ask for. Elsewhere bpf_get_stack
 * finds out. */
#if defined(__TARGET_ARCH_x86)
#define FIRED_IN_USER(ctx) (((ctx)->regs.cs & 3) == 3)
#else
#define FIRED_IN_USER(ctx) 0
#endif

static __always_inline void kernel_stack(struct bpf_perf_event_data *ctx, struct sample_record *record,
                                         struct counters *counts)
{
    record->kernel_count = 0;
    if (FIRED_IN_USER(ctx))
        return;
    long bytes = bpf_get_stack(ctx, record->frames, HALF_BYTES, 0);
    if (bytes < 0) {
        record->flags |= SAMPLE_KERNEL_FAILED;
        COUNT(counts, kernel_failed, 1);
        return;
    }
    record->kernel_count = bytes / FRAME_BYTES;
    if (record->kernel_count >= frame_cap) {
        record->flags |= SAMPLE_KERNEL_CUT;
        COUNT(counts, kernel_cut, 1);
    }
}

static __always_inline void user_stack(struct bpf_perf_event_data *ctx, struct sample_record *record,
                                       struct counters *counts)
{
    record->user_count = 0;
    if (record->flags & SAMPLE_KERNEL_THREAD)
        return;
    __u32 kernel_count = record->kernel_count;
    if (kernel_count > SAMPLE_MAX_FRAMES) /* never: for the verifier */
        return;
    long bytes = bpf_get_stack(ctx, &record->frames[kernel_count], HALF_BYTES, BPF_F_USER_STACK);
    if (bytes < 0) {
        record->flags |= SAMPLE_USER_FAILED;
        COUNT(counts, user_failed, 1);
        return;
    }
    record->user_count = bytes / FRAME_BYTES;
    if (record->user_count >= frame_cap) {
        record->flags |= SAMPLE_USER_CUT;
        COUNT(counts, user_cut, 1);
    }
}

static __always_inline void submit(struct sample_record *record, struct counters *counts)
{
    __u32 ring_index = record->cpu / SAMPLE_CPUS_A_RING;
    void *ring = bpf_map_lookup_elem(&rings, &ring_index);
    __u64 bytes = SAMPLE_HEADER_BYTES + ((__u64)record->kernel_count + record->user_count) * FRAME_BYTES;

    if (bytes > sizeof(*record)) /* never: for the verifier */
        bytes = sizeof(*record);
    if (ring && bpf_ringbuf_output(ring, record, bytes, BPF_RB_NO_WAKEUP) == 0)
        COUNT(counts, submitted, 1);
    else
        COUNT(counts, lost_ring_full, 1);
}

SEC("perf_event")
int sample_cpu(struct bpf_perf_event_data *ctx)
{
    __u32 zero = 0;
    struct cpu_state *cpu = bpf_map_lookup_elem(&cpu_states, &zero);
    struct counters *counts = bpf_map_lookup_elem(&counters, &zero);
    if (!cpu || !counts)
        return 0;

    __u64 now_ns = bpf_ktime_get_ns();
    __u32 cpu_number = bpf_get_smp_processor_id();
    __u64 weight_ns = take_weight(ctx, &cpu->clock, cpu_number, now_ns);
    __u64 pid_tgid = bpf_get_current_pid_tgid();
    if ((__u32)pid_tgid == 0) {
        COUNT(counts, idle, 1);
        return 0;
    }
    COUNT(counts, taken, 1);
    if (cpu->in_use) {
        COUNT(counts, lost_nested, 1);
        return 0;
    }
    cpu->in_use = 1;

    struct sample_record *record = &cpu->record;
    record->time_ns = now_ns;
    record->weight_ns = weight_ns;
    record->cpu = cpu_number;
    fill_identity(record, bpf_get_current_task_btf(), pid_tgid);
    /* Selection by policy belongs here: identity is known, nothing costly has been done. */
    kernel_stack(ctx, record, counts);
    user_stack(ctx, record, counts);
    submit(record, counts);
    cpu->in_use = 0;
    return 0;
}
