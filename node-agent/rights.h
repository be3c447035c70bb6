/* rights: what the kernel lets this process do and see, and what follows from it.
 * Shapes:   struct rights is read once; the judgements below are pure.
 * Rules:    without BPF and PERFMON nothing is sampled, and in a process or time namespace of its own the
 * agent would take other processes for those it sampled: refused. Every other right that is missing costs
 *           some names: said once, by name.
 * Threads:  any.   Errors: -EPERM a capability, -EINVAL a namespace; both with text.
 * Source:   capabilities(7), namespaces(7); include/linux/proc_ns.h (6.x) for the first namespaces' inodes.
 */
#ifndef NODE_AGENT_RIGHTS_H
#define NODE_AGENT_RIGHTS_H

#include "common/err.h"

#include <stdbool.h>
#include <stdint.h>

#define RIGHTS_TEXT                                                                                          \
    "CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_SYSLOG and CAP_CHECKPOINT_RESTORE"

struct rights {
    uint64_t capabilities; /* bit n: capability n is effective */
    bool own_pid_namespace, own_time_namespace, own_cgroup_namespace;
    bool foreign_proc; /* /proc shows another process namespace than this process's */
};

/* What cannot be found out counts as there: the call that needs it will tell. */
struct rights rights_read(void);
int rights_check(const struct rights *rights, struct err *err);
/* Calls back with one line for each right that is missing and only costs something. */
void rights_gaps(const struct rights *rights, void (*on_gap)(const char *text, void *ctx), void *ctx);

#endif
