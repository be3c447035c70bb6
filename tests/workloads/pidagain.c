/* pidagain ROUNDS SECONDS PROGRAM_A PROGRAM_B: runs A for SECONDS, then B under the very same process id,
 * ROUNDS times. Needs clone3 with a chosen id, which root may ask for. Truth: {"pid": N,
 * "rounds": N}: one process id for all runs of both programs. */
#include "workload.h"

#include <errno.h>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Forks; with *pid != 0 the child gets that process id. */
static pid_t fork_as(pid_t pid)
{
    struct clone_args args = {.exit_signal = SIGCHLD};
    if (pid != 0) {
        args.set_tid = (uint64_t)(uintptr_t)&pid;
        args.set_tid_size = 1;
    }
    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static pid_t run_as(pid_t pid, const char *program, const char *seconds)
{
    pid_t child = fork_as(pid);
    if (child == 0) {
        execl(program, program, seconds, (char *)NULL);
        _exit(127);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0) {
        fprintf(stderr, "pidagain: %s as %d: %s\n", program, pid, child < 0 ? strerror(errno) : "bad exit");
        return -1;
    }
    return child;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: pidagain ROUNDS SECONDS PROGRAM_A PROGRAM_B\n");
        return 2;
    }
    pid_t pid = 0;
    int rounds = 0;
    for (; rounds < atoi(argv[1]); rounds++) {
        pid = run_as(pid, argv[3], argv[2]);
        if (pid < 0 || run_as(pid, argv[4], argv[2]) < 0)
            return 1;
    }
    printf("{\"pid\": %d, \"rounds\": %d}\n", pid, rounds);
    return 0;
}
