/* The half of process.h that follows the sampler's events. */
#include "node-agent/process_state.h"

#include "node-agent/proc_stat.h"

#include <string.h>
#include <sys/sysmacros.h>

#define SAME_START_NS 1000000000ULL
#define LATE_NS       (2ULL * PROC_STAT_TICK_NS)

/* A record made before the process began is about an earlier one with its tgid: it waited in the ring while
 * /proc was read. */
static bool is_older_than(const struct processes *processes, const struct process *process, uint64_t time_ns)
{
    uint64_t start_ns = process_start_ns(process);
    return start_ns && time_ns + processes->boot_offset_ns + LATE_NS < start_ns;
}

/* The process an event is about; makes one when its fork was never seen. */
static struct process *process_of_event(struct processes *processes, const struct sampler_event *event)
{
    struct process *process = process_current(processes, event->tgid);
    struct proc_stat stat;
    if (process)
        return is_older_than(processes, process, event->time_ns) ? NULL : process;
    process = process_add(processes, event->tgid);
    if (process && proc_stat_read((int)event->tgid, &stat) == 0)
        process->start_ticks = stat.start_ticks;
    return process;
}

static void on_mmap(struct processes *processes, const struct sampler_event *event)
{
    struct process *process = process_of_event(processes, event);
    if (!process || event->mmap.bytes == 0 || event->mmap.start + event->mmap.bytes < event->mmap.start)
        return;
    struct image_origin origin = {
        .tgid = (pid_t)event->tgid,
        .start = event->mmap.start,
        .end = event->mmap.start + event->mmap.bytes,
        .device = makedev(event->mmap.device_major, event->mmap.device_minor),
        .inode = event->mmap.build_id_bytes ? 0 : event->mmap.inode,
        .build_id = event->mmap.build_id_bytes ? event->mmap.build_id : NULL,
        .build_id_bytes = event->mmap.build_id_bytes,
        .path = event->mmap.path,
    };
    struct mapping mapping = {
        .start = origin.start,
        .end = origin.end,
        .file_offset = event->mmap.file_offset,
        .image = images_get(processes->images, &origin),
    };
    bool is_file = origin.inode || origin.build_id_bytes;
    if (!is_file) /* special mappings such as the vdso begin at their own beginning */
        mapping.file_offset = 0;
    if (process->awaits_program && is_file) { /* the kernel maps the program before its interpreter */
        process_set_program(processes, process, image_ref(mapping.image));
        process->awaits_program = false;
    }
    process_put_mapping(processes, process, &mapping);
}

static void on_exec(struct processes *processes, const struct sampler_event *event)
{
    struct process *process = process_of_event(processes, event);
    if (!process)
        return;
    process_revive(processes, process); /* exec by another thread: the main one was ended first */
    mappings_fini(&process->mappings, processes->images);
    process_set_program(processes, process, NULL);
    process_set_comm(processes, process, event->name.comm, strlen(event->name.comm));
    process->awaits_program = true;
    process->complete = true;
    process->kernel_thread = false;
    process->lost_epoch = processes->lost_epoch;
    process->scan_wait_ms = 0;
    process->next_scan_ns = 0;
    process_changed(processes, process);
}

static void on_comm(struct processes *processes, const struct sampler_event *event)
{
    struct process *process = process_current(processes, event->tgid);
    if (process && event->tid == event->tgid && !is_older_than(processes, process, event->time_ns))
        process_set_comm(processes, process, event->name.comm, strlen(event->name.comm));
}

/* /proc was read after the fork and before its record: the same process. */
static bool began_then(const struct processes *processes, const struct process *process, uint64_t time_ns)
{
    uint64_t start_ns = process_start_ns(process);
    uint64_t fork_ns = time_ns + processes->boot_offset_ns;
    return start_ns && start_ns < fork_ns + SAME_START_NS && fork_ns < start_ns + SAME_START_NS;
}

static void on_fork(struct processes *processes, const struct sampler_event *event)
{
    if (event->tgid == event->fork.parent_tgid) /* a thread */
        return;
    struct process *before = process_current(processes, event->tgid);
    if (before && (is_older_than(processes, before, event->time_ns) ||
                   (!before->has_ended && began_then(processes, before, event->time_ns))))
        return;
    if (before) {
        before->replaced = before->gone = true;
        if (!before->has_ended)
            process_end(processes, before, event->time_ns);
    }
    struct process *child = process_add(processes, event->tgid);
    const struct process *parent = process_current(processes, event->fork.parent_tgid);
    if (!child || !parent || is_older_than(processes, parent, event->time_ns))
        return;
    mappings_copy(&child->mappings, &parent->mappings);
    child->program = image_ref(parent->program);
    child->complete = parent->complete;
    child->lost_epoch = parent->lost_epoch;
    child->kernel_thread = parent->kernel_thread;
    child->memcg_id = parent->memcg_id;
    child->cgroup_id = parent->cgroup_id;
    child->container_check_ns = parent->container_check_ns;
    memcpy(child->container_id, parent->container_id, sizeof(child->container_id));
    memcpy(child->raw_comm, parent->raw_comm, sizeof(child->raw_comm));
    memcpy(child->comm, parent->comm, sizeof(child->comm));
}

static void on_exit_of(struct processes *processes, const struct sampler_event *event)
{
    struct process *process = process_current(processes, event->tgid);
    if (process && event->tid == event->tgid && !process->has_ended &&
        !is_older_than(processes, process, event->time_ns))
        process_end(processes, process, event->time_ns);
}

void processes_event(struct processes *processes, const struct sampler_event *event)
{
    switch (event->type) {
    case SAMPLER_MMAP:
        on_mmap(processes, event);
        break;
    case SAMPLER_EXEC:
        on_exec(processes, event);
        break;
    case SAMPLER_COMM:
        on_comm(processes, event);
        break;
    case SAMPLER_FORK:
        on_fork(processes, event);
        break;
    case SAMPLER_EXIT:
        on_exit_of(processes, event);
        break;
    case SAMPLER_LOST:
        processes->counters[PROCESS_COUNTER_records_lost] += event->lost_count;
        processes->lost_epoch++;
        break;
    case SAMPLER_KSYMBOL:
        break;
    }
}
