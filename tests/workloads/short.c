/* short COUNT MILLISECONDS [PARALLEL]: runs COUNT processes one after the other, PARALLEL at a time, that
 * each burn MILLISECONDS of CPU in short_burn and exit. The processes are this file under its
 * second name, `shortjob`, beside it: made by exec, not only by fork. Truth: {"processes": N, "cpu_ns":
 * {"short_burn": N}, "all_cpu_ns": N}; all_cpu_ns has exec and exit in it. */
#include "workload.h"

#include <libgen.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

NOINLINE uint64_t short_burn(uint64_t until_thread_cpu_ns);
NOINLINE uint64_t short_burn(uint64_t until_thread_cpu_ns)
{
    uint64_t x = 5;
    while (thread_cpu_ns() < until_thread_cpu_ns)
        for (int i = 0; i < 20000; i++)
            x = workload_step(x);
    __asm__ volatile("" : "+r"(x));
    return x;
}

static pid_t start_job(const char *self, const char *milliseconds)
{
    char copy[PATH_MAX], path[PATH_MAX + 16];
    snprintf(copy, sizeof(copy), "%s", self);
    snprintf(path, sizeof(path), "%s/shortjob", dirname(copy));
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    execl(path, "shortjob", "job", milliseconds, (char *)NULL);
    perror(path);
    _exit(127);
}

static int run_jobs(const char *self, int count, const char *milliseconds, int parallel)
{
    int started = 0, ended = 0, failed = 0;
    while (ended < count && !failed) {
        while (started < count && started - ended < parallel) {
            if (start_job(self, milliseconds) < 0)
                return -1;
            started++;
        }
        int status;
        if (wait(&status) > 0) {
            ended++;
            failed |= status != 0;
        }
    }
    return failed ? -1 : ended;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "job") == 0) {
        short_burn(thread_cpu_ns() + strtoull(argv[2], NULL, 10) * 1000000u);
        return 0;
    }
    if (argc < 3) {
        fprintf(stderr, "usage: short COUNT MILLISECONDS [PARALLEL]\n");
        return 2;
    }
    int ended = run_jobs(argv[0], atoi(argv[1]), argv[2], argc > 3 ? atoi(argv[3]) : 1);
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    uint64_t all_us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000u +
                      (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    printf("{\"processes\": %d, \"cpu_ns\": {\"short_burn\": %ju}, \"all_cpu_ns\": %ju}\n", ended,
           (uintmax_t)(ended > 0 ? (uint64_t)ended * strtoull(argv[2], NULL, 10) * 1000000u : 0),
           (uintmax_t)all_us * 1000u);
    return ended < 0;
}
