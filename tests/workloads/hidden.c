/* hidden SECONDS: linked with -rdynamic and stripped: two exported functions with hidden code between them
 *. The time is burnt in hidden_hot, which has no name once stripped; only an exported function
 * may be named, and none of them is where the time goes. Truth: {"cpu_ns": {"hidden_hot": N}}; the name must
 * not be export_low or export_high. */
#include "workload.h"

#define EXPORT __attribute__((visibility("default"), noinline, noclone, used))

EXPORT int export_low(int x);
EXPORT int export_low(int x)
{
    return x * 3 + 1;
}

static NOINLINE void gap_below(void)
{
    __asm__ volatile(".skip 262144, 0x90");
}

static NOINLINE uint64_t hidden_hot(uint64_t x)
{
    KEEP_FRAME();
    for (int i = 0; i < 400000; i++)
        x = workload_step(x);
    return x;
}

static NOINLINE void gap_above(void)
{
    __asm__ volatile(".skip 262144, 0x90");
}

EXPORT int export_high(int x);
EXPORT int export_high(int x)
{
    return x * 5 + 1;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    if (argc > 1000) { /* keeps the gaps in the file */
        gap_below();
        gap_above();
    }
    uint64_t x = 7;
    workload_start(argv[1]);
    uint64_t start = thread_cpu_ns();
    while (workload_runs())
        x = hidden_hot(x);
    printf("{\"cpu_ns\": {\"hidden_hot\": %ju}, \"x\": %u}\n", (uintmax_t)(thread_cpu_ns() - start),
           (unsigned)(x & 1));
    return 0;
}
