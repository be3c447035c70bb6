/* burst HZ SECONDS: one millisecond of CPU at every tick of an absolute clock: the work that a sampler with a
 * fixed period of the same length never sees, or sees every time. Truth: {"cpu_ns":
 * {"burst_work": N}, "ticks": N}. */
#include "workload.h"

#define BURST_NS 1000000u

NOINLINE uint64_t burst_work(uint64_t x);
NOINLINE uint64_t burst_work(uint64_t x)
{
    uint64_t until = thread_cpu_ns() + BURST_NS;
    while (thread_cpu_ns() < until)
        for (int i = 0; i < 2000; i++)
            x = workload_step(x);
    return x;
}

int main(int argc, char **argv)
{
    if (argc < 3 || atoi(argv[1]) < 1) {
        fprintf(stderr, "usage: burst HZ SECONDS\n");
        return 2;
    }
    uint64_t period_ns = (uint64_t)(1e9 / strtod(argv[1], NULL)), spent_ns = 0, ticks = 0, x = 1;
    workload_start(argv[2]);
    uint64_t next_ns = clock_ns(CLOCK_MONOTONIC);
    while (workload_runs()) {
        uint64_t start = thread_cpu_ns();
        x = burst_work(x);
        spent_ns += thread_cpu_ns() - start;
        ticks++;
        next_ns += period_ns;
        struct timespec at = {.tv_sec = (time_t)(next_ns / 1000000000u),
                              .tv_nsec = (long)(next_ns % 1000000000u)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    }
    printf("{\"cpu_ns\": {\"burst_work\": %ju}, \"ticks\": %ju}\n", (uintmax_t)spent_ns, (uintmax_t)ticks);
    return 0;
}
