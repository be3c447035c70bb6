/* process: who lives on the node and what each has mapped as code, kept true by the sampler's events.
 * Shapes:   a process is (tgid, start time); exec makes a new image of the same process; addresses are
 *           process addresses. Start times from BPF are CLOCK_BOOTTIME ns; from /proc/PID/stat clock
 *           ticks: equal when they fall into the same tick.
 * Rules:    mappings are learned from MMAP2 records in time order, at start-up and on a miss from
 *           PROCMAP_QUERY (6.11+) or /proc/PID/maps; a newer mapping wins where ranges overlap; fork
 *           copies; exec and exit drop; a process that has exited stays resolvable for
 *           PROCESS_LINGER_MS, and lives on when only its main thread has gone. /proc shows now, a
 *           sample is of then: what it says counts only while start time and comm are those of the
 *           sample. After lost records each process is re-read once.
 * Limits:   PROCESSES_MAX (over it those that have exited go first), PROCESS_MAX_MAPPINGS each
 *           (mappings.h), PROCESS_SCANS_A_SECOND reads of /proc; over it: resolved by what is known,
 *           counted.
 * Threads:  collector only.
 * Source:   proc_pid_maps(5), proc_pid_stat(5), perf_event_open(2). */
#ifndef NODE_AGENT_PROCESS_H
#define NODE_AGENT_PROCESS_H

#include "node-agent/image.h"
#include "node-agent/sampler.h"

#include <stdbool.h>
#include <stdint.h>

#define PROCESSES_MAX          32768u
#define PROCESS_LINGER_MS      5000u
#define PROCESS_SCANS_A_SECOND 200u
#define CONTAINER_ID_BYTES     72u

struct processes;
struct process;

struct process_identity {
    const char *comm;            /* of the leader, printable */
    const struct image *program; /* main executable; NULL for kernel threads and when unknown */
    const char *container_id;    /* "" outside containers */
    bool kernel_thread;
};

struct processes *processes_new(struct images *images);
void processes_free(struct processes *processes);

/* Reads /proc once at start, for at most budget_ms; the rest is read when first sampled. Call it with the
 * sampler open and not yet polled: what changes meanwhile comes as events. */
void processes_scan(struct processes *processes, uint64_t budget_ms);
void processes_event(struct processes *processes, const struct sampler_event *event);
/* The process a sample belongs to, made (and read from /proc) when new. NULL only over PROCESSES_MAX. Also
 * refreshes the comm and the container from the record's ids. */
struct process *processes_of_sample(struct processes *processes, const struct sample_record *record);
struct process_identity process_identity(const struct process *process);
/* Number that changes whenever identity or mappings of the process change (cache key). */
uint64_t process_generation(const struct process *process);

/* Address -> (image, file offset). An address outside every known mapping triggers one re-read within the
 * budget; a process whose addresses keep missing is re-read less and less often. Memory without a file
 * (image_is_anonymous) resolves to offset 0: all of its code is one frame. -ENOENT: no mapping covers the
 * address. The image is borrowed until the next processes_* call. */
int processes_resolve(struct processes *processes, struct process *process, uint64_t address,
                      const struct image **ret_image, uint64_t *ret_file_offset);
/* Forgets what exited long ago; once a second. */
void processes_expire(struct processes *processes, uint64_t now_ns);

#define PROCESS_COUNTERS(X)                                                                                  \
    X(scans, "reads of a process's mappings")                                                                \
    X(scans_refused, "reads not done: over the budget a second")                                             \
    X(gone, "processes first seen after their exit")                                                         \
    X(full, "processes not kept: table full")                                                                \
    X(records_lost, "side-band records lost by the kernel")                                                  \
    X(mappings_full, "mappings not kept: too many in one process")
enum process_counter {
#define X(name, text) PROCESS_COUNTER_##name,
    PROCESS_COUNTERS(X)
#undef X
        PROCESS_COUNTER_COUNT
};
uint64_t processes_counter(const struct processes *processes, enum process_counter counter);
uint64_t processes_count(const struct processes *processes);

#endif
