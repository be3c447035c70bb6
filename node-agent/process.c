#include "node-agent/process.h"

#include "common/clock.h"
#include "common/str.h"
#include "common/xalloc.h"
#include "node-agent/proc_stat.h"
#include "node-agent/process_state.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

/* The page every x86-64 process has at a fixed address; it is in no list of mappings but the text. */
#define VSYSCALL_START 0xffffffffff600000ULL
#define VSYSCALL_END   0xffffffffff601000ULL
/* Addresses that nothing can be mapped at are garbage of a broken stack: no reason to read anything again. */
#define USER_START 4096u
#define USER_END   (1ULL << 56)
/* Each process is looked after once in so many calls of processes_expire. */
#define SWEEP_CALLS 30u

static uint64_t hash_of(uint32_t tgid)
{
    return XXH3_64bits(&tgid, sizeof(tgid));
}

static struct process *process_of_link(struct process_link *link)
{
    return (struct process *)((char *)link - offsetof(struct process, ended));
}

static void link_out(struct process_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->prev = link->next = link;
}

static void link_last(struct process_link *list, struct process_link *link)
{
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

static uint64_t boot_offset_ns(void)
{
    return clock_read_ns(CLOCK_BOOTTIME) - clock_mono_ns();
}

struct processes *processes_new(struct images *images)
{
    struct processes *processes = xcalloc(1, sizeof(*processes));
    processes->images = images;
    processes->cgroups = cgroups_new();
    processes->vsyscall = images_get_synthetic(images, "[vsyscall]");
    processes->ended.prev = processes->ended.next = &processes->ended;
    processes->boot_offset_ns = boot_offset_ns();
    return processes;
}

void processes_free(struct processes *processes)
{
    if (!processes)
        return;
    for (uint32_t i = 0; i < processes->slot_count; i++)
        if (processes->slots[i])
            process_drop(processes, processes->slots[i]);
    images_put(processes->images, processes->vsyscall);
    cgroups_free(processes->cgroups);
    table_fini(&processes->by_tgid);
    free(processes->slots);
    free(processes->free_slots);
    free(processes);
}

struct process *process_current(const struct processes *processes, uint32_t tgid)
{
    struct process *newest = NULL;
    for (struct table_probe p = table_probe(&processes->by_tgid, hash_of(tgid));
         table_next(&processes->by_tgid, &p);) {
        struct process *process = processes->slots[p.value];
        if (process->tgid == tgid && (!newest || process->born > newest->born))
            newest = process;
    }
    return newest;
}

static uint32_t take_slot(struct processes *processes)
{
    if (processes->free_count > 0)
        return processes->free_slots[--processes->free_count];
    if (processes->slot_count == processes->slot_room) {
        processes->slot_room = processes->slot_room ? processes->slot_room * 2 : 256;
        processes->slots = xrealloc_array(processes->slots, processes->slot_room, sizeof(struct process *));
        processes->free_slots = xrealloc_array(processes->free_slots, processes->slot_room, sizeof(uint32_t));
    }
    return processes->slot_count++;
}

struct process *process_add(struct processes *processes, uint32_t tgid)
{
    if (processes->count >= PROCESSES_MAX) {
        if (processes->ended.next == &processes->ended) {
            processes->counters[PROCESS_COUNTER_full]++;
            return NULL;
        }
        process_drop(processes, process_of_link(processes->ended.next));
    }
    struct process *process = xcalloc(1, sizeof(*process));
    process->ended.prev = process->ended.next = &process->ended;
    process->tgid = tgid;
    process->born = ++processes->last_born;
    process->generation = ++processes->last_generation;
    process->lost_epoch = processes->lost_epoch;
    process->slot = take_slot(processes);
    processes->slots[process->slot] = process;
    processes->count++;
    table_insert(&processes->by_tgid, hash_of(tgid), process->slot);
    return process;
}

void process_drop(struct processes *processes, struct process *process)
{
    link_out(&process->ended);
    mappings_fini(&process->mappings, processes->images);
    images_put(processes->images, process->program);
    table_remove(&processes->by_tgid, hash_of(process->tgid), process->slot);
    processes->slots[process->slot] = NULL;
    processes->free_slots[processes->free_count++] = process->slot;
    processes->count--;
    free(process);
}

void process_end(struct processes *processes, struct process *process, uint64_t time_ns)
{
    link_out(&process->ended);
    link_last(&processes->ended, &process->ended);
    process->has_ended = true;
    process->ended_ns = time_ns;
}

void process_revive(struct processes *processes, struct process *process)
{
    (void)processes;
    link_out(&process->ended);
    process->has_ended = process->gone = false;
}

void process_changed(struct processes *processes, struct process *process)
{
    process->generation = ++processes->last_generation;
}

void process_set_comm(struct processes *processes, struct process *process, const char *comm, size_t bytes)
{
    char raw[SAMPLE_COMM_BYTES] = "";
    bytes = strnlen(comm, bytes < sizeof(raw) - 1 ? bytes : sizeof(raw) - 1);
    memcpy(raw, comm, bytes);
    if (memcmp(raw, process->raw_comm, sizeof(raw)) == 0)
        return;
    memcpy(process->raw_comm, raw, sizeof(raw));
    str_shown(process->comm, sizeof(process->comm), raw, bytes);
    process_changed(processes, process);
}

void process_set_program(struct processes *processes, struct process *process, struct image *program)
{
    bool changed = process->program != program;
    images_put(processes->images, process->program);
    process->program = program;
    if (changed)
        process_changed(processes, process);
}

void process_put_mapping(struct processes *processes, struct process *process, const struct mapping *mapping)
{
    int rc = mappings_put(&process->mappings, processes->images, mapping);
    if (rc < 0)
        processes->counters[PROCESS_COUNTER_mappings_full]++;
    if (rc > 0)
        process_changed(processes, process);
}

uint64_t process_start_ns(const struct process *process)
{
    return process->start_ns ? process->start_ns : process->start_ticks * PROC_STAT_TICK_NS;
}

bool process_started_at(struct process *process, uint64_t start_ticks)
{
    if (process->start_ticks == 0)
        process->start_ticks = start_ticks;
    return process->start_ticks == start_ticks;
}

/* The known process a sample is of, NULL for none. */
static struct process *find(struct processes *processes, const struct sample_record *record)
{
    struct process *newest = NULL;
    for (struct table_probe p = table_probe(&processes->by_tgid, hash_of(record->tgid));
         table_next(&processes->by_tgid, &p);) {
        struct process *process = processes->slots[p.value];
        if (process->tgid != record->tgid)
            continue;
        if (process->start_ns == record->start_time_ns)
            return process;
        if (!newest || process->born > newest->born)
            newest = process;
    }
    if (!newest || newest->start_ns)
        return NULL;
    /* Known from /proc or from events only, which do not say the exact start. */
    if (!process_started_at(newest, record->start_time_ns / PROC_STAT_TICK_NS))
        return NULL;
    newest->start_ns = record->start_time_ns;
    return newest;
}

static struct process *add_sampled(struct processes *processes, const struct sample_record *record)
{
    struct process *before = process_current(processes, record->tgid);
    if (before && process_start_ns(before) < record->start_time_ns) {
        before->replaced = before->gone = true;
        if (!before->has_ended)
            process_end(processes, before, record->time_ns);
    }
    bool is_late = before && !before->replaced; /* of a process that was before the one we know */
    struct process *process = process_add(processes, record->tgid);
    if (!process)
        return NULL;
    process->start_ns = record->start_time_ns;
    process->start_ticks = record->start_time_ns / PROC_STAT_TICK_NS;
    if (is_late) {
        process->born = 0;
        process->replaced = process->gone = true;
        process_end(processes, process, record->time_ns);
    }
    return process;
}

static void refresh_container(struct processes *processes, struct process *process,
                              const struct sample_record *record)
{
    bool same = process->memcg_id == record->memcg_id && process->cgroup_id == record->cgroup_id;
    if (process->kernel_thread || (same && record->time_ns < process->container_check_ns))
        return;
    const struct cgroup_identity *identity =
        cgroups_get(processes->cgroups, (int)process->tgid, record->memcg_id, record->cgroup_id);
    bool lasting = identity->container_id[0] && (record->memcg_id > 1 || record->cgroup_id > 1);
    process->memcg_id = record->memcg_id;
    process->cgroup_id = record->cgroup_id;
    process->container_check_ns =
        lasting ? UINT64_MAX : record->time_ns + CGROUP_UNKNOWN_MS * CLOCK_NS_PER_MS;
    if (strcmp(process->container_id, identity->container_id) == 0)
        return;
    snprintf(process->container_id, sizeof(process->container_id), "%s", identity->container_id);
    process_changed(processes, process);
}

struct process *processes_of_sample(struct processes *processes, const struct sample_record *record)
{
    struct process *process = find(processes, record);
    if (!process)
        process = add_sampled(processes, record);
    if (!process)
        return NULL;
    process->seen_ns = record->time_ns;
    bool kernel_thread = record->flags & SAMPLE_KERNEL_THREAD;
    if (process->kernel_thread != kernel_thread) {
        process->kernel_thread = kernel_thread;
        process_changed(processes, process);
    }
    process_set_comm(processes, process, record->process_comm, sizeof(record->process_comm));
    refresh_container(processes, process, record);
    bool whole = process->complete && process->lost_epoch == processes->lost_epoch;
    if (!whole && !process->gone && !kernel_thread && clock_mono_ns() >= process->next_scan_ns)
        process_scan(processes, process, true);
    return process;
}

struct process_identity process_identity(const struct process *process)
{
    return (struct process_identity){
        .comm = process->comm,
        .program = process->kernel_thread ? NULL : process->program,
        .container_id = process->container_id,
        .kernel_thread = process->kernel_thread,
    };
}

uint64_t process_generation(const struct process *process)
{
    return process->generation;
}

int processes_resolve(struct processes *processes, struct process *process, uint64_t address,
                      const struct image **ret_image, uint64_t *ret_file_offset)
{
    const struct mapping *mapping = mappings_find(&process->mappings, address);
    if (!mapping && address >= VSYSCALL_START && address < VSYSCALL_END) {
        *ret_image = processes->vsyscall;
        *ret_file_offset = 0;
        return 0;
    }
    bool missed = !mapping && address >= USER_START && address < USER_END;
    if (missed || (mapping && images_retry_due(processes->images, mapping->image))) {
        process_rescan(processes, process, address);
        mapping = mappings_find(&process->mappings, address);
    }
    if (!mapping)
        return -ENOENT;
    *ret_image = mapping->image;
    *ret_file_offset = mapping_offset_of(mapping, address);
    return 0;
}

/* The main thread has exited; whether others of the process go on. */
static bool lives_on(struct process *process)
{
    char path[64];
    struct proc_stat now;
    struct stat st;
    if (process->replaced || proc_stat_read((int)process->tgid, &now) < 0 ||
        !process_started_at(process, now.start_ticks))
        return false;
    if (now.state != 'Z' && now.state != 'X')
        return true;
    snprintf(path, sizeof(path), "/proc/%u/task", process->tgid);
    return stat(path, &st) == 0 && st.st_nlink > 3; /* "." and ".." and the dead main thread, and one more */
}

static void expire_ended(struct processes *processes, uint64_t now_ns)
{
    uint64_t linger_ns = PROCESS_LINGER_MS * CLOCK_NS_PER_MS;
    while (processes->ended.next != &processes->ended) {
        struct process *process = process_of_link(processes->ended.next);
        if (process->ended_ns + linger_ns > now_ns)
            return;
        if (process->seen_ns + linger_ns > now_ns || lives_on(process))
            process_end(processes, process, now_ns); /* asked again after as long */
        else
            process_drop(processes, process);
    }
}

/* Exits whose records were lost. */
static void sweep(struct processes *processes, uint64_t now_ns)
{
    for (uint32_t n = processes->slot_count / SWEEP_CALLS + 1; n > 0 && processes->slot_count > 0; n--) {
        processes->sweep_at = (processes->sweep_at + 1) % processes->slot_count;
        struct process *process = processes->slots[processes->sweep_at];
        if (process && !process->has_ended && kill((pid_t)process->tgid, 0) == -1 && errno == ESRCH)
            process_end(processes, process, now_ns);
    }
}

void processes_expire(struct processes *processes, uint64_t now_ns)
{
    processes->boot_offset_ns = boot_offset_ns();
    expire_ended(processes, now_ns);
    sweep(processes, now_ns);
}

uint64_t processes_counter(const struct processes *processes, enum process_counter counter)
{
    return processes->counters[counter];
}

uint64_t processes_count(const struct processes *processes)
{
    return processes->count;
}
