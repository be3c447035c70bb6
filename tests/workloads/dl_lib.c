/* The library of dl.c, built twice: -DBURN=burn_a and -DBURN=burn_b, alike but for the name. */
#include "workload.h"

NOINLINE uint64_t BURN(uint64_t until_thread_cpu_ns);
NOINLINE uint64_t BURN(uint64_t until_thread_cpu_ns)
{
    uint64_t x = 5;
    while (thread_cpu_ns() < until_thread_cpu_ns)
        for (int i = 0; i < 20000; i++)
            x = workload_step(x);
    return x;
}
