/* bench_job STEPS: a fixed amount of work, 12 calls deep; prints the wall and CPU seconds it took. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

uint64_t job(uint64_t x, uint64_t steps, int depth);

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

__attribute__((noinline)) uint64_t job(uint64_t x, uint64_t steps, int depth)
{
    if (depth > 0)
        return job(x, steps, depth - 1) + 1;
    for (uint64_t i = 0; i < steps; i++)
        x = x * 6364136223846793005ULL + 1442695040888963407ULL;
    return x;
}

int main(int argc, char **argv)
{
    uint64_t steps = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t x = 0;
    for (uint64_t left = steps; left > 0; left -= left < 100000 ? left : 100000)
        x = job(x, 100000, 12);
    printf("{\"wall\": %.6f, \"cpu\": %.6f, \"x\": %llu}\n", seconds(CLOCK_MONOTONIC) - wall,
           seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, (unsigned long long)x);
    return 0;
}
