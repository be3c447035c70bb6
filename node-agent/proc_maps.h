/* proc_maps: one line of /proc/PID/maps -> its fields. Any length, any byte in the path.
 * Shapes:   the kernel escapes newline in paths as \012; everything else is raw, " (deleted)" included.
 * Threads:  any; no state.
 * Errors:   -EINVAL for a line that is not one of maps.
 * Source:   proc_pid_maps(5), fs/proc/task_mmu.c. */
#ifndef NODE_AGENT_PROC_MAPS_H
#define NODE_AGENT_PROC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proc_map {
    uint64_t start, end, file_offset;
    uint64_t device; /* makedev() form */
    uint64_t inode;
    bool executable;
    const char *path; /* into the line, not terminated, still escaped; NULL for none */
    size_t path_bytes;
};

/* line without its newline. */
int proc_maps_parse_line(const char *line, size_t bytes, struct proc_map *ret_map);
/* Undoes \012; out always terminated; returns the length, or -E2BIG when it does not fit. */
int proc_maps_path(const struct proc_map *map, char *out, size_t out_bytes);

/* Calls back for each executable mapping of a process: PROCMAP_QUERY where the kernel has it, else the text.
 * path is unescaped, "" for none, "//toolong" when it is longer than PATH_MAX. build_id is NULL when the
 * kernel did not give one. A result other than 0 ends the reading and is returned. When the main thread has
 * exited another one's view is read. -ESRCH: the process is gone. */
typedef int (*proc_maps_fn)(const struct proc_map *map, const char *path, const uint8_t *build_id,
                            size_t build_id_bytes, void *ctx);
int proc_maps_each(int tgid, proc_maps_fn on_map, void *ctx);

#endif
