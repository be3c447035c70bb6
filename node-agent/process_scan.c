/* The half of process.h that reads /proc. */
#include "node-agent/process_state.h"

#include "common/clock.h"
#include "node-agent/proc_maps.h"
#include "node-agent/proc_stat.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PF_KTHREAD 0x00200000u /* include/linux/sched.h */
/* After a miss that a re-read did not cure, the next waits this long, each time twice as long: code built
 * without frame pointers gives addresses that are nowhere, with every sample. */
#define SCAN_WAIT_MIN_MS   1000u
#define SCAN_WAIT_MAX_MS   64000u
#define SCAN_WAIT_STALE_MS 100u
/* From here on a re-read replaces the list instead of adding to it. */
#define MAPPINGS_MANY (PROCESS_MAX_MAPPINGS / 4 * 3)

struct scan {
    struct processes *processes;
    struct process *process;
    struct mappings mappings;
    struct image *program;
    char exe[PATH_MAX]; /* as the kernel writes it in the mappings too; "" unreadable */
};

static bool spend_scan(struct processes *processes)
{
    uint64_t second = clock_mono_ns() / CLOCK_NS_PER_S;
    if (second != processes->budget_second) {
        processes->budget_second = second;
        processes->budget_used = 0;
    }
    if (processes->budget_used >= PROCESS_SCANS_A_SECOND) {
        processes->counters[PROCESS_COUNTER_scans_refused]++;
        return false;
    }
    processes->budget_used++;
    return true;
}

static int on_map(const struct proc_map *map, const char *path, const uint8_t *build_id,
                  size_t build_id_bytes, void *ctx)
{
    struct scan *scan = ctx;
    struct images *images = scan->processes->images;
    struct image_origin origin = {
        .tgid = (pid_t)scan->process->tgid,
        .start = map->start,
        .end = map->end,
        .device = map->device,
        .inode = map->inode,
        .build_id = build_id,
        .build_id_bytes = build_id_bytes,
        .path = path,
    };
    struct mapping mapping = {map->start, map->end, map->file_offset, images_get(images, &origin)};
    if (!scan->program && scan->exe[0] && strcmp(scan->exe, path) == 0)
        scan->program = image_ref(mapping.image);
    if (mappings_put(&scan->mappings, images, &mapping) < 0)
        scan->processes->counters[PROCESS_COUNTER_mappings_full]++;
    return 0;
}

static void read_exe(struct scan *scan)
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/%u/exe", scan->process->tgid);
    ssize_t length = readlink(link, scan->exe, sizeof(scan->exe) - 1);
    scan->exe[length > 0 ? length : 0] = '\0';
}

/* A program none of whose mappings is executable under its own name (packed, or unmapped by itself). */
static void find_program(struct scan *scan)
{
    struct stat st;
    if (scan->program || !scan->exe[0] ||
        images_stat_program(scan->processes->images, (pid_t)scan->process->tgid, &st) < 0)
        return;
    struct image_origin origin = {
        .tgid = (pid_t)scan->process->tgid,
        .device = st.st_dev,
        .inode = st.st_ino,
        .path = scan->exe,
    };
    scan->program = images_get(scan->processes->images, &origin);
}

static bool same_comm(const struct process *process, const struct proc_stat *stat)
{
    size_t bytes = stat->comm_bytes < SAMPLE_COMM_BYTES - 1 ? stat->comm_bytes : SAMPLE_COMM_BYTES - 1;
    return !process->raw_comm[0] || (strnlen(process->raw_comm, SAMPLE_COMM_BYTES) == bytes &&
                                     memcmp(process->raw_comm, stat->comm, bytes) == 0);
}

/* Whether /proc still shows what the newest sample or event was about. */
static int check(struct processes *processes, struct process *process)
{
    struct proc_stat stat;
    int rc = proc_stat_read((int)process->tgid, &stat);
    if (rc == -ESRCH || (rc == 0 && !process_started_at(process, stat.start_ticks))) {
        process->gone = true;
        return -ESRCH;
    }
    if (rc < 0)
        return rc;
    if (!same_comm(process, &stat))
        return -ESTALE;
    if (!process->raw_comm[0])
        process_set_comm(processes, process, stat.comm, stat.comm_bytes);
    if (stat.flags & PF_KTHREAD)
        process->kernel_thread = true;
    return 0;
}

static void apply(struct scan *scan)
{
    struct processes *processes = scan->processes;
    struct process *process = scan->process;
    bool replace = process->lost_epoch != processes->lost_epoch || process->mappings.count == 0 ||
                   process->mappings.count >= MAPPINGS_MANY;
    if (replace) {
        struct mappings old = process->mappings;
        process->mappings = scan->mappings;
        scan->mappings = old;
        process_changed(processes, process);
    } else {
        for (uint32_t i = 0; i < scan->mappings.count; i++) {
            image_ref(scan->mappings.items[i].image);
            process_put_mapping(processes, process, &scan->mappings.items[i]);
        }
    }
    if (scan->program)
        process_set_program(processes, process, image_ref(scan->program));
    process->awaits_program = false;
    process->complete = true;
    process->lost_epoch = processes->lost_epoch;
}

int process_scan(struct processes *processes, struct process *process, bool spend)
{
    if (process->gone || process->kernel_thread)
        return -ESRCH;
    if (spend && !spend_scan(processes))
        return -EAGAIN;
    processes->counters[PROCESS_COUNTER_scans]++;
    struct scan scan = {.processes = processes, .process = process};
    int rc = check(processes, process);
    if (rc == 0 && !process->kernel_thread) {
        read_exe(&scan);
        rc = proc_maps_each((int)process->tgid, on_map, &scan);
        if (rc == 0)
            find_program(&scan);
        int again = check(processes, process); /* it may have been replaced under our hands */
        if (rc == 0)
            rc = again;
        if (rc == 0)
            apply(&scan);
    }
    if (rc == -ESRCH && !process->complete)
        processes->counters[PROCESS_COUNTER_gone]++;
    mappings_fini(&scan.mappings, processes->images);
    images_put(processes->images, scan.program);
    uint32_t wait_ms = rc == -ESTALE ? SCAN_WAIT_STALE_MS : SCAN_WAIT_MIN_MS;
    process->next_scan_ns = clock_mono_ns() + wait_ms * CLOCK_NS_PER_MS;
    return rc;
}

int process_rescan(struct processes *processes, struct process *process, uint64_t address)
{
    if (process->gone || process->kernel_thread || clock_mono_ns() < process->next_scan_ns)
        return -EAGAIN;
    int rc = process_scan(processes, process, true);
    if (rc == -EAGAIN || rc == -ESTALE)
        return rc;
    if (rc == 0 && mappings_find(&process->mappings, address)) {
        process->scan_wait_ms = SCAN_WAIT_MIN_MS;
        return 0;
    }
    process->scan_wait_ms = process->scan_wait_ms == 0                  ? SCAN_WAIT_MIN_MS
                            : process->scan_wait_ms >= SCAN_WAIT_MAX_MS ? SCAN_WAIT_MAX_MS
                                                                        : process->scan_wait_ms * 2;
    process->next_scan_ns = clock_mono_ns() + process->scan_wait_ms * CLOCK_NS_PER_MS;
    return rc < 0 ? rc : -ENOENT;
}

void processes_scan(struct processes *processes, uint64_t budget_ms)
{
    uint64_t deadline_ns = clock_mono_ns() + budget_ms * CLOCK_NS_PER_MS;
    DIR *dir = opendir("/proc");
    for (struct dirent *entry; dir && clock_mono_ns() < deadline_ns && (entry = readdir(dir));) {
        char *end;
        unsigned long tgid = strtoul(entry->d_name, &end, 10);
        struct proc_stat stat;
        if (tgid == 0 || *end || tgid > INT_MAX || process_current(processes, (uint32_t)tgid) ||
            proc_stat_read((int)tgid, &stat) < 0 || (stat.flags & PF_KTHREAD))
            continue;
        struct process *process = process_add(processes, (uint32_t)tgid);
        if (!process)
            break;
        process->start_ticks = stat.start_ticks;
        process_set_comm(processes, process, stat.comm, stat.comm_bytes);
        if (process_scan(processes, process, false) == -ESRCH)
            process_drop(processes, process);
    }
    if (dir)
        closedir(dir);
}
