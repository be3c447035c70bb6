/* cpu_list: the kernel's list form of CPU numbers ("0-3,8,10-11") <-> a set of bits.
 * Limits:   SAMPLE_MAX_CPUS; higher numbers are refused.   Threads: any.
 * Errors:   -EINVAL not such a list; -E2BIG a number over the limit.
 * Source:   kernel Documentation/admin-guide/cputopology.rst. */
#ifndef NODE_AGENT_CPU_LIST_H
#define NODE_AGENT_CPU_LIST_H

#include "bpf/sample_abi.h"
#include "common/err.h"

#include <stdbool.h>
#include <stdint.h>

struct cpu_list {
    uint64_t bits[SAMPLE_MAX_CPUS / 64];
};

int cpu_list_parse(const char *text, struct cpu_list *ret_list, struct err *err);
/* From a file of one line, such as /sys/devices/system/cpu/online. */
int cpu_list_read(const char *path, struct cpu_list *ret_list, struct err *err);

static inline bool cpu_list_has(const struct cpu_list *list, unsigned cpu)
{
    return cpu < SAMPLE_MAX_CPUS && (list->bits[cpu / 64] >> (cpu % 64) & 1);
}

unsigned cpu_list_count(const struct cpu_list *list);

#endif
