/* process_state: what process.c, process_scan.c and process_events.c share; nobody else includes it. */
#ifndef NODE_AGENT_PROCESS_STATE_H
#define NODE_AGENT_PROCESS_STATE_H

#include "common/table.h"
#include "node-agent/cgroup.h"
#include "node-agent/mappings.h"
#include "node-agent/process.h"

#include <stdbool.h>
#include <stdint.h>

#define COMM_BYTES (SAMPLE_COMM_BYTES * 4 + 1) /* each byte as \xHH */

struct process_link {
    struct process_link *prev, *next;
};

struct process {
    struct process_link ended; /* in processes->ended once the exit of the main thread was seen */
    uint32_t tgid, slot;
    uint32_t lost_epoch;  /* processes->lost_epoch when the mappings were last known to be whole */
    uint64_t born;        /* the newest of a tgid is the current one */
    uint64_t start_ns;    /* as BPF says it; 0: no sample yet */
    uint64_t start_ticks; /* as /proc says it; 0: not known */
    uint64_t generation;
    uint64_t seen_ns, ended_ns; /* newest sample; exit */
    bool has_ended;
    bool replaced; /* its tgid belongs to another process now */
    bool gone;     /* /proc does not have it any more: no use to look again */
    bool kernel_thread;
    bool complete;       /* every mapping there is has been learned */
    bool awaits_program; /* between exec and the first mapping of the new image */
    uint64_t next_scan_ns;
    uint32_t scan_wait_ms;
    char raw_comm[SAMPLE_COMM_BYTES]; /* NUL-padded */
    char comm[COMM_BYTES];
    struct image *program;
    struct mappings mappings;
    uint64_t memcg_id, cgroup_id, container_check_ns;
    char container_id[CONTAINER_ID_BYTES];
};

struct processes {
    struct images *images;
    struct cgroups *cgroups;
    struct image *vsyscall;
    struct process **slots;
    uint32_t *free_slots;
    uint32_t slot_count, slot_room, free_count, count;
    struct table by_tgid;
    struct process_link ended; /* oldest first */
    uint64_t last_born, last_generation;
    uint64_t boot_offset_ns; /* CLOCK_BOOTTIME - CLOCK_MONOTONIC */
    uint64_t budget_second;
    uint32_t budget_used;
    uint32_t lost_epoch;
    uint32_t sweep_at;
    uint64_t counters[PROCESS_COUNTER_COUNT];
};

/* The living or last known process of a tgid, NULL for none. */
struct process *process_current(const struct processes *processes, uint32_t tgid);
/* A new one, which becomes the current one of its tgid. NULL when the table is full. */
struct process *process_add(struct processes *processes, uint32_t tgid);
void process_end(struct processes *processes, struct process *process, uint64_t time_ns);
void process_revive(struct processes *processes, struct process *process); /* takes back process_end */
void process_drop(struct processes *processes, struct process *process);
void process_changed(struct processes *processes, struct process *process);
void process_set_comm(struct processes *processes, struct process *process, const char *comm, size_t bytes);
/* Takes the reference. */
void process_set_program(struct processes *processes, struct process *process, struct image *program);
void process_put_mapping(struct processes *processes, struct process *process, const struct mapping *mapping);
/* As exactly as it is known; 0: not at all. */
uint64_t process_start_ns(const struct process *process);
/* Whether /proc's start time is this process's; learns it when none is known. */
bool process_started_at(struct process *process, uint64_t start_ticks);

/* Reads mappings, program and comm from /proc. spend: within the budget a second. -EAGAIN over the budget;
 * -ESRCH gone; -ESTALE /proc shows a later state than the process's newest sample. */
int process_scan(struct processes *processes, struct process *process, bool spend);
/* The same, unless it was done a moment ago. found: tells whether the re-read had what was missed. */
int process_rescan(struct processes *processes, struct process *process, uint64_t address);

#endif
