/* layout SECONDS: burns in layout_hot, called by layout_middle, called by main. Built in many layouts
 * (workloads.mk): PIE, static PIE, fixed, static, lld, musl, text in two segments, stripped; the answer must
 * be the same from all. -DOTHER gives a different program with the names the first must
 * never be shown under. Truth: {"cpu_ns": {"layout_hot": N}}. */
#include "workload.h"

#ifdef OTHER
#define HOT    wrong_hot
#define MIDDLE wrong_middle
#else
#define HOT    layout_hot
#define MIDDLE layout_middle
#endif
#ifdef HOT_SECTION
#define PLACE __attribute__((section(HOT_SECTION)))
#else
#define PLACE
#endif

NOINLINE PLACE uint64_t HOT(uint64_t x);
NOINLINE PLACE uint64_t HOT(uint64_t x)
{
    KEEP_FRAME();
    for (int i = 0; i < 400000; i++)
        x = workload_step(x);
    return x;
}

#ifdef OTHER
/* Shifts everything behind it: equal offsets must not give equal names by luck. */
NOINLINE int padding(int x);
NOINLINE int padding(int x)
{
    __asm__ volatile(".skip 4096, 0x90" : "+r"(x));
    return x;
}
#endif

NOINLINE uint64_t MIDDLE(uint64_t x);
NOINLINE uint64_t MIDDLE(uint64_t x)
{
    x = HOT(x);
    __asm__ volatile("" : "+r"(x)); /* no tail call */
    return x;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: layout SECONDS\n");
        return 2;
    }
    uint64_t x = 7;
#ifdef OTHER
    x += (uint64_t)padding(argc);
#endif
    workload_start(argv[1]);
    uint64_t start = thread_cpu_ns();
    while (workload_runs())
        x = MIDDLE(x);
    printf("{\"cpu_ns\": {\"layout_hot\": %ju}, \"x\": %u}\n", (uintmax_t)(thread_cpu_ns() - start),
           (unsigned)(x & 1));
    return 0;
}
