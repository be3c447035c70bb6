/* clock: the two clocks the project uses, in nanoseconds.
 * mono is CLOCK_MONOTONIC, the clock of bpf_ktime_get_ns() and of perf records opened with use_clockid;
 * wall is CLOCK_REALTIME. The names say which. Threads: any. */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_NS_PER_S  1000000000ULL
#define CLOCK_NS_PER_MS 1000000ULL

static inline uint64_t clock_read_ns(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * CLOCK_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_mono_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

static inline uint64_t clock_wall_ns(void)
{
    return clock_read_ns(CLOCK_REALTIME);
}

#endif
