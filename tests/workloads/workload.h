/* workload: what the small test programs share: a clock of own CPU time, a loop that burns a stated amount
 * of it, an end by time or by SIGTERM.
 * Rules:     functions whose cost is the truth of a test are NOINLINE and kept apart by different code, so
 *            that neither the compiler nor the linker may fold them; every workload prints its truth as one
 *            JSON object when it ends.
 * Units:     nanoseconds of CLOCK_THREAD_CPUTIME_ID where not said otherwise. */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

/* gcc leaves the frame out of a function that calls nothing and keeps nothing on the stack, whatever its
 * flags say, and a walk by frame pointers then misses its caller. Asking for the frame's address makes one.
 */
#define KEEP_FRAME() __asm__ volatile("" ::"r"(__builtin_frame_address(0)))

static volatile sig_atomic_t workload_stop;
static uint64_t workload_end_ns;

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t thread_cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline void on_workload_signal(int number)
{
    (void)number;
    workload_stop = 1;
}

/* The workload runs until seconds have passed or SIGTERM or SIGINT comes. */
static inline void workload_start(const char *seconds)
{
    signal(SIGTERM, on_workload_signal);
    signal(SIGINT, on_workload_signal);
    workload_end_ns = clock_ns(CLOCK_MONOTONIC) + (uint64_t)(strtod(seconds, NULL) * 1e9);
}

static inline int workload_runs(void)
{
    return !workload_stop && clock_ns(CLOCK_MONOTONIC) < workload_end_ns;
}

/* One step of work that no compiler can shorten: a few nanoseconds. */
static inline uint64_t workload_step(uint64_t x)
{
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    __asm__ volatile("" : "+r"(x));
    return x;
}

/* Steps in a microsecond on this machine, now: good to some percent, enough to choose loop lengths. */
static inline uint64_t workload_steps_per_us(void)
{
    uint64_t x = 88172645463325252u, best = UINT64_MAX;
    for (int round = 0; round < 5; round++) {
        uint64_t start = thread_cpu_ns();
        for (int i = 0; i < 200000; i++)
            x = workload_step(x);
        uint64_t took = thread_cpu_ns() - start;
        best = took < best ? took : best;
    }
    return best > 0 ? 200000u * 1000u / best + 1 : 1;
}

#endif
