/* rename SECONDS FIRST SECOND [THREAD]...: the process is called FIRST for the first half and SECOND for the
 * second; each THREAD is one more thread with that name, burning all the time. Names are any bytes (`\xNN` in
 * an argument is one byte, so that a test can pass FF, FE, quotes and newlines through any shell). Truth:
 * {"first_ns": N, "second_ns": N, "thread_ns": [N, ...]}. */
#include "workload.h"

#include <pthread.h>
#include <sys/prctl.h>

#define MAX_THREADS 16

struct named {
    char name[64];
    uint64_t ns;
};

static void unescape(const char *from, char *to, size_t room)
{
    size_t at = 0;
    while (*from != '\0' && at + 1 < room) {
        unsigned byte;
        if (sscanf(from, "\\x%2x", &byte) == 1) {
            to[at++] = (char)byte;
            from += 4;
        } else {
            to[at++] = *from++;
        }
    }
    to[at] = '\0';
}

NOINLINE void named_burn(uint64_t until_ns);
NOINLINE void named_burn(uint64_t until_ns)
{
    uint64_t x = 3;
    while (!workload_stop && clock_ns(CLOCK_MONOTONIC) < until_ns)
        for (int i = 0; i < 20000; i++)
            x = workload_step(x);
    __asm__ volatile("" ::"r"(x));
}

static void *named_thread(void *arg)
{
    struct named *named = arg;
    prctl(PR_SET_NAME, named->name);
    named_burn(workload_end_ns);
    named->ns = thread_cpu_ns();
    return NULL;
}

static uint64_t burn_as(const char *name, uint64_t until_ns)
{
    char raw[64];
    unescape(name, raw, sizeof(raw));
    prctl(PR_SET_NAME, raw);
    uint64_t start = thread_cpu_ns();
    named_burn(until_ns);
    return thread_cpu_ns() - start;
}

int main(int argc, char **argv)
{
    static struct named threads[MAX_THREADS];
    pthread_t ids[MAX_THREADS];
    int count = argc - 4;
    if (argc < 4 || count > MAX_THREADS) {
        fprintf(stderr, "usage: rename SECONDS FIRST SECOND [THREAD]...\n");
        return 2;
    }
    workload_start(argv[1]);
    for (int i = 0; i < count; i++) {
        unescape(argv[4 + i], threads[i].name, sizeof(threads[i].name));
        if (pthread_create(&ids[i], NULL, named_thread, &threads[i]) != 0)
            return 1;
    }
    uint64_t half_ns = (clock_ns(CLOCK_MONOTONIC) + workload_end_ns) / 2;
    uint64_t first_ns = burn_as(argv[2], half_ns);
    uint64_t second_ns = burn_as(argv[3], workload_end_ns);
    printf("{\"first_ns\": %ju, \"second_ns\": %ju, \"thread_ns\": [", (uintmax_t)first_ns,
           (uintmax_t)second_ns);
    for (int i = 0; i < count; i++) {
        pthread_join(ids[i], NULL);
        printf("%s%ju", i > 0 ? ", " : "", (uintmax_t)threads[i].ns);
    }
    printf("]}\n");
    return 0;
}
