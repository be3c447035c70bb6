/* sample_abi: what sample.bpf.c and the agent share: record layout, limits, counters.
 * Records lie in ring buffers that are drained by time, without wake-ups (BPF_RB_NO_WAKEUP). */
#ifndef BPF_SAMPLE_ABI_H
#define BPF_SAMPLE_ABI_H

#ifdef __bpf__
#include <linux/types.h>
typedef __u64 abi_u64;
typedef __u32 abi_u32;
typedef __u16 abi_u16;
#else
#include <stdint.h>
typedef uint64_t abi_u64;
typedef uint32_t abi_u32;
typedef uint16_t abi_u16;
#endif

#define SAMPLE_MAX_FRAMES                                                                                    \
    127 /* of each half: kernel.perf_event_max_stack's default, the cap of bpf_get_stack */
#define SAMPLE_COMM_BYTES  16
#define SAMPLE_MAX_CPUS    1024
#define SAMPLE_CPUS_A_RING 16
#define SAMPLE_MAX_RINGS   (SAMPLE_MAX_CPUS / SAMPLE_CPUS_A_RING)

/* Every fire of the sampling clock ends in exactly one of these counters (idle fires apart: nobody's CPU):
 *     taken = submitted + lost_*
 * X(name, what it says to a person) */
#define SAMPLE_COUNTERS(X)                                                                                   \
    X(idle, "fires on an idle CPU: not samples")                                                             \
    X(taken, "samples taken")                                                                                \
    X(submitted, "samples handed to the agent")                                                              \
    X(lost_ring_full, "samples lost: ring buffer full")                                                      \
    X(lost_nested, "samples lost: scratch in use by an interrupted sample")                                  \
    X(user_failed, "samples whose user stack could not be read")                                             \
    X(kernel_failed, "samples whose kernel stack could not be read")                                         \
    X(user_cut, "samples whose user stack was deeper than the limit")                                        \
    X(kernel_cut, "samples whose kernel stack was deeper than the limit")

enum sample_counter {
#define X(name, text) SAMPLE_COUNTER_##name,
    SAMPLE_COUNTERS(X)
#undef X
        SAMPLE_COUNTER_COUNT
};

enum sample_flags {
    SAMPLE_KERNEL_THREAD = 1 << 0,
    SAMPLE_KERNEL_FAILED = 1 << 1,
    SAMPLE_KERNEL_CUT = 1 << 2,
    SAMPLE_USER_FAILED = 1 << 3,
    SAMPLE_USER_CUT = 1 << 4,
};

struct sample_record {
    abi_u64 time_ns;   /* CLOCK_MONOTONIC */
    abi_u64 weight_ns; /* the CPU time this sample stands for: see sample_plan */
    abi_u64
        start_time_ns; /* of the thread group leader, CLOCK_BOOTTIME: with tgid the identity of the process */
    abi_u64 cgroup_id; /* cgroup v2 id; 1 = root */
    abi_u64 memcg_id;  /* kernfs id of the memory cgroup (tells containers apart on v1 and hybrid nodes), 0 =
                          none */
    abi_u32 tgid;
    abi_u32 tid;
    abi_u32 cpu;
    abi_u16 flags;
    abi_u16 kernel_count;
    abi_u16 user_count;
    abi_u16 reserved[3];
    char thread_comm[SAMPLE_COMM_BYTES];
    char process_comm[SAMPLE_COMM_BYTES];  /* of the thread group leader */
    abi_u64 frames[2 * SAMPLE_MAX_FRAMES]; /* kernel leaf -> root, then user leaf -> root; only the used part
                                              is sent */
};

#define SAMPLE_HEADER_BYTES (sizeof(struct sample_record) - 2 * SAMPLE_MAX_FRAMES * sizeof(abi_u64))
_Static_assert(sizeof(struct sample_record) == 96 + 2 * SAMPLE_MAX_FRAMES * 8, "sample_record layout");

/* Per CPU, written by the agent at each change of the period: what a fire stands for. Not the time since the
 * fire before: some kernels do not deliver the fires of an idle CPU (seen on 6.18: none on CPU 1, all on CPU
 * 0), so a gap may hold idle time; but the clock's grid goes on, and each of its points stands for one
 * period. A change restarts the grid; what had passed since the old grid's last point is carried to the new
 * one's first. */
struct sample_plan {
    abi_u64 start_ns;  /* CLOCK_MONOTONIC: the grid is start + n * period, n = 1, 2, ... */
    abi_u64 period_ns; /* 0: the clock counts cycles */
    abi_u64 carry_ns;
};

/* Per CPU, kept by BPF. */
struct sample_clock {
    abi_u64 last_fire_ns;
};

#define SAMPLE_CYCLE_SHIFT 20

#endif
