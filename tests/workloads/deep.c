/* deep DEPTH SECONDS: recursion of deep_step DEPTH times, then work in deep_leaf.
 * Truth: {"depth": N, "cpu_ns": {"deep_leaf": N}}: the stack is main, DEPTH times deep_step, deep_leaf. */
#include "workload.h"

static uint64_t spent_ns;

NOINLINE uint64_t deep_leaf(uint64_t x);
NOINLINE uint64_t deep_leaf(uint64_t x)
{
    uint64_t start = thread_cpu_ns();
    for (int i = 0; i < 4000000; i++)
        x = workload_step(x);
    spent_ns += thread_cpu_ns() - start;
    return x;
}

NOINLINE uint64_t deep_step(int depth, uint64_t x);
NOINLINE uint64_t deep_step(int depth, uint64_t x)
{
    x = depth <= 1 ? deep_leaf(x) : deep_step(depth - 1, x);
    __asm__ volatile("" : "+r"(x)); /* no tail call */
    return x;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: deep DEPTH SECONDS\n");
        return 2;
    }
    uint64_t x = 9;
    workload_start(argv[2]);
    while (workload_runs())
        x = deep_step(atoi(argv[1]), x);
    printf("{\"depth\": %d, \"cpu_ns\": {\"deep_leaf\": %ju}, \"x\": %u}\n", atoi(argv[1]),
           (uintmax_t)spent_ns, (unsigned)(x & 1));
    return 0;
}
