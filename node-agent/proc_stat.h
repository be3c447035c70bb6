/* proc_stat: the fields the agent needs of /proc/PID/stat.
 * Shapes:   the command name may hold any byte, ")" and newline included: it ends at the last ")".
 *           start_ticks in clock ticks (PROC_STAT_TICK_NS) since boot, suspend included: CLOCK_BOOTTIME.
 * Threads:  any.   Errors: -EINVAL not such a text; -ESRCH no such process.   Source: proc_pid_stat(5). */
#ifndef NODE_AGENT_PROC_STAT_H
#define NODE_AGENT_PROC_STAT_H

#include <stddef.h>
#include <stdint.h>

/* USER_HZ is 100 on every architecture we run on (include/asm-generic/param.h). */
#define PROC_STAT_TICK_NS    10000000u
#define PROC_STAT_COMM_BYTES 64u

struct proc_stat {
    char comm[PROC_STAT_COMM_BYTES];
    size_t comm_bytes;
    char state;
    uint64_t flags; /* PF_* of the kernel */
    uint64_t start_ticks;
};

int proc_stat_parse(const char *text, size_t bytes, struct proc_stat *ret_stat);
int proc_stat_read(int tgid, struct proc_stat *ret_stat);

#endif
