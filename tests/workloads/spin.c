/* spin SECONDS [THREADS]: burns CPU in four functions at 50 : 30 : 15 : 5.
 * Truth: {"cpu_ns": {"spin_50": N, ...}, "process_cpu_ns": N}: CPU time inside each function as the threads
 * measured it themselves, and the whole process's. The ratio holds within a few percent; the measured figures
 * are exact. */
#include "workload.h"

#include <pthread.h>

#define MAX_THREADS 64
#define UNIT_US     40 /* a round of 100 units is 4 ms */

struct spent {
    uint64_t ns[4];
};

static uint64_t steps_a_unit;

/* Four bodies that differ, so that each keeps its own address. */
#define SPIN(name, constant)                                                                                 \
    NOINLINE uint64_t name(uint64_t x, uint64_t steps);                                                      \
    NOINLINE uint64_t name(uint64_t x, uint64_t steps)                                                       \
    {                                                                                                        \
        KEEP_FRAME();                                                                                        \
        for (uint64_t i = 0; i < steps; i++)                                                                 \
            x = workload_step(x + (constant));                                                               \
        return x;                                                                                            \
    }
SPIN(spin_50, 11)
SPIN(spin_30, 22)
SPIN(spin_15, 33)
SPIN(spin_5, 44)

static void *spin_thread(void *arg)
{
    struct spent *spent = arg;
    uint64_t x = 1;
    while (workload_runs()) {
        uint64_t at[5];
        at[0] = thread_cpu_ns();
        x = spin_50(x, 50 * steps_a_unit);
        at[1] = thread_cpu_ns();
        x = spin_30(x, 30 * steps_a_unit);
        at[2] = thread_cpu_ns();
        x = spin_15(x, 15 * steps_a_unit);
        at[3] = thread_cpu_ns();
        x = spin_5(x, 5 * steps_a_unit);
        at[4] = thread_cpu_ns();
        for (int i = 0; i < 4; i++)
            spent->ns[i] += at[i + 1] - at[i];
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct spent spent[MAX_THREADS];
    pthread_t threads[MAX_THREADS];
    int count = argc > 2 ? atoi(argv[2]) : 1;
    if (argc < 2 || count < 1 || count > MAX_THREADS) {
        fprintf(stderr, "usage: spin SECONDS [THREADS]\n");
        return 2;
    }
    steps_a_unit = workload_steps_per_us() * UNIT_US;
    workload_start(argv[1]);
    for (int i = 1; i < count; i++)
        if (pthread_create(&threads[i], NULL, spin_thread, &spent[i]) != 0)
            return 1;
    spin_thread(&spent[0]);
    for (int i = 1; i < count; i++) {
        pthread_join(threads[i], NULL);
        for (int f = 0; f < 4; f++)
            spent[0].ns[f] += spent[i].ns[f];
    }
    printf("{\"cpu_ns\": {\"spin_50\": %ju, \"spin_30\": %ju, \"spin_15\": %ju, \"spin_5\": %ju}, "
           "\"process_cpu_ns\": %ju}\n",
           (uintmax_t)spent[0].ns[0], (uintmax_t)spent[0].ns[1], (uintmax_t)spent[0].ns[2],
           (uintmax_t)spent[0].ns[3], (uintmax_t)clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
