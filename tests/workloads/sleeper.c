/* sleeper COUNT SECONDS: COUNT processes that do nothing: they cost an agent its tables and no samples.
 * Truth: {"processes": N}; the CPU time of each is about nothing. */
#include "workload.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_PROCESSES 20000

int main(int argc, char **argv)
{
    static pid_t pids[MAX_PROCESSES];
    if (argc < 3 || atoi(argv[1]) > MAX_PROCESSES) {
        fprintf(stderr, "usage: sleeper COUNT SECONDS\n");
        return 2;
    }
    int started = 0;
    workload_start(argv[2]);
    for (int i = 0; i < atoi(argv[1]); i++) {
        pid_t pid = fork();
        if (pid == 0) {
            signal(SIGTERM, SIG_DFL);
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            pause();
            _exit(0);
        }
        if (pid > 0)
            pids[started++] = pid;
    }
    printf("{\"processes\": %d}\n", started);
    fflush(stdout);
    while (workload_runs())
        usleep(100000);
    for (int i = 0; i < started; i++)
        kill(pids[i], SIGTERM);
    while (wait(NULL) > 0)
        ;
    return 0;
}
