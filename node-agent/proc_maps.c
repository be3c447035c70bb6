#include "node-agent/proc_maps.h"

#include "common/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

/* The kernel allows 65530 mappings of a process by default (vm.max_map_count); twice that ends any race with
 * one that maps as fast as we read. */
#define MAPS_MAX 131072u
/* A path can be longer than PATH_MAX (mapped through a relative open), its newlines take four bytes each. */
#define LINE_BYTES      65536u
#define TASKS_TRIED     16
#define QUERY_BID_BYTES 20u

/* include/uapi/linux/fs.h (6.11): struct procmap_query. Declared here because the floor's headers do not have
 * it. */
struct map_query {
    uint64_t size, query_flags, query_addr;
    uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset;
    uint64_t inode;
    uint32_t dev_major, dev_minor;
    uint32_t vma_name_size, build_id_size;
    uint64_t vma_name_addr, build_id_addr;
};
#define MAP_QUERY              _IOWR('f', 17, struct map_query)
#define MAP_QUERY_EXECUTABLE   0x04u
#define MAP_QUERY_THIS_OR_NEXT 0x10u
_Static_assert(sizeof(struct map_query) == 104, "struct procmap_query of the first version");

struct cursor {
    const char *at, *end;
};

static int take_number(struct cursor *cursor, unsigned base, uint64_t *ret_value)
{
    uint64_t value = 0;
    const char *first = cursor->at;
    for (; cursor->at < cursor->end; cursor->at++) {
        char c = *cursor->at;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                : base;
        if (digit >= base)
            break;
        if (value > (UINT64_MAX - digit) / base)
            return -EINVAL;
        value = value * base + digit;
    }
    if (cursor->at == first)
        return -EINVAL;
    *ret_value = value;
    return 0;
}

static int take_char(struct cursor *cursor, char c)
{
    if (cursor->at == cursor->end || *cursor->at != c)
        return -EINVAL;
    cursor->at++;
    return 0;
}

static int take_permissions(struct cursor *cursor, bool *ret_executable)
{
    static const char SET[] = "rwx";
    if (cursor->end - cursor->at < 4)
        return -EINVAL;
    for (int i = 0; i < 3; i++)
        if (cursor->at[i] != SET[i] && cursor->at[i] != '-')
            return -EINVAL;
    if (cursor->at[3] != 'p' && cursor->at[3] != 's')
        return -EINVAL;
    *ret_executable = cursor->at[2] == 'x';
    cursor->at += 4;
    return 0;
}

static int take_numbers(struct cursor *cursor, struct proc_map *map)
{
    uint64_t major_number, minor_number;
    if (take_number(cursor, 16, &map->start) || take_char(cursor, '-') ||
        take_number(cursor, 16, &map->end) || take_char(cursor, ' ') ||
        take_permissions(cursor, &map->executable) || take_char(cursor, ' ') ||
        take_number(cursor, 16, &map->file_offset) || take_char(cursor, ' ') ||
        take_number(cursor, 16, &major_number) || take_char(cursor, ':') ||
        take_number(cursor, 16, &minor_number) || take_char(cursor, ' ') ||
        take_number(cursor, 10, &map->inode))
        return -EINVAL;
    if (map->start >= map->end || major_number > UINT32_MAX || minor_number > UINT32_MAX)
        return -EINVAL;
    map->device = makedev((unsigned)major_number, (unsigned)minor_number);
    return 0;
}

int proc_maps_parse_line(const char *line, size_t bytes, struct proc_map *ret_map)
{
    struct cursor cursor = {.at = line, .end = line + bytes};
    struct proc_map map = {0};
    int rc = take_numbers(&cursor, &map);
    if (rc)
        return rc;
    if (cursor.at < cursor.end && *cursor.at != ' ')
        return -EINVAL;
    while (cursor.at < cursor.end && *cursor.at == ' ')
        cursor.at++;
    if (cursor.at < cursor.end) {
        map.path = cursor.at;
        map.path_bytes = (size_t)(cursor.end - cursor.at);
    }
    *ret_map = map;
    return 0;
}

int proc_maps_path(const struct proc_map *map, char *out, size_t out_bytes)
{
    size_t used = 0;
    if (!out_bytes)
        return -E2BIG;
    out[0] = '\0';
    for (size_t i = 0; i < map->path_bytes; i++) {
        char c = map->path[i];
        if (map->path_bytes - i >= 4 && memcmp(map->path + i, "\\012", 4) == 0) {
            c = '\n';
            i += 3;
        }
        if (used + 1 >= out_bytes) {
            out[0] = '\0';
            return -E2BIG;
        }
        out[used++] = c;
    }
    out[used] = '\0';
    return (int)used;
}

static int report(const struct proc_map *map, const uint8_t *build_id, size_t build_id_bytes,
                  proc_maps_fn on_map, void *ctx)
{
    char path[PATH_MAX];
    /* The kernel's own word for such a path in perf records. */
    if (proc_maps_path(map, path, sizeof(path)) < 0)
        snprintf(path, sizeof(path), "//toolong");
    return on_map(map, path, build_id, build_id_bytes, ctx);
}

static int each_by_text(int fd, proc_maps_fn on_map, void *ctx)
{
    AUTO_FREE char *text = malloc(LINE_BYTES);
    size_t have = 0, line_count = 0;
    bool skipping = false;
    if (!text)
        return -ENOMEM;
    for (;;) {
        ssize_t got = read(fd, text + have, LINE_BYTES - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            return line_count ? 0 : -ESRCH;
        have += (size_t)got;
        char *at = text, *newline;
        while ((newline = memchr(at, '\n', have - (size_t)(at - text)))) {
            struct proc_map map;
            bool usable = !skipping && proc_maps_parse_line(at, (size_t)(newline - at), &map) == 0;
            skipping = false;
            at = newline + 1;
            if (++line_count > MAPS_MAX)
                return -E2BIG;
            int rc = usable && map.executable ? report(&map, NULL, 0, on_map, ctx) : 0;
            if (rc)
                return rc;
        }
        have -= (size_t)(at - text);
        memmove(text, at, have);
        if (have ==
            LINE_BYTES) { /* no newline in all of it: not a line we can use, drop up to the next one */
            have = 0;
            skipping = true;
        }
    }
}

/* One executable mapping at or after address. -ENOENT: no more; -ENOTTY: this kernel has no such query. */
static int query(int fd, uint64_t address, char name[PATH_MAX], uint8_t *build_id,
                 struct map_query *ret_query)
{
    struct map_query q = {
        .size = sizeof(q),
        .query_flags = MAP_QUERY_EXECUTABLE | MAP_QUERY_THIS_OR_NEXT,
        .query_addr = address,
        .vma_name_size = PATH_MAX,
        .build_id_size = QUERY_BID_BYTES,
        .vma_name_addr = (uintptr_t)name,
        .build_id_addr = (uintptr_t)build_id,
    };
    struct map_query bare = q;
    bare.vma_name_size = 0;
    bare.vma_name_addr = 0;
    int failed = ioctl(fd, MAP_QUERY, &q);
    if (failed && errno == ENAMETOOLONG) { /* a path over PATH_MAX: its ranges still count */
        q = bare;
        failed = ioctl(fd, MAP_QUERY, &q);
        snprintf(name, PATH_MAX, "//toolong");
    } else if (!failed && (q.vma_name_size == 0 || q.vma_name_size > PATH_MAX)) {
        name[0] = '\0';
    }
    if (failed)
        return -errno;
    name[PATH_MAX - 1] = '\0';
    *ret_query = q;
    return 0;
}

static int each_by_query(int fd, proc_maps_fn on_map, void *ctx)
{
    char name[PATH_MAX];
    uint8_t build_id[QUERY_BID_BYTES];
    uint64_t address = 0;
    for (unsigned i = 0; i < MAPS_MAX; i++) {
        struct map_query q = {0};
        int rc = query(fd, address, name, build_id, &q);
        if (rc == -ENOENT)
            return 0;
        if (rc)
            return rc;
        if (q.vma_end <= address || q.vma_start >= q.vma_end)
            return -EIO;
        struct proc_map map = {
            .start = q.vma_start,
            .end = q.vma_end,
            .file_offset = q.vma_offset,
            .device = makedev(q.dev_major, q.dev_minor),
            .inode = q.inode,
            .executable = true,
            .path = name[0] ? name : NULL,
            .path_bytes = strlen(name),
        };
        bool has_id = q.build_id_size > 0 && q.build_id_size <= QUERY_BID_BYTES;
        rc = on_map(&map, name, has_id ? build_id : NULL, has_id ? q.build_id_size : 0, ctx);
        if (rc)
            return rc;
        address = q.vma_end;
    }
    return -E2BIG;
}

static int each_of_file(const char *path, proc_maps_fn on_map, void *ctx)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    int rc = each_by_query(fd, on_map, ctx);
    return rc == -ENOTTY || rc == -EINVAL ? each_by_text(fd, on_map, ctx) : rc;
}

/* The main thread has exited while others go on: only theirs can still be read. */
static int each_of_tasks(int tgid, proc_maps_fn on_map, void *ctx)
{
    char path[64];
    int rc = -ESRCH, tried = 0;
    snprintf(path, sizeof(path), "/proc/%d/task", tgid);
    DIR *dir = opendir(path);
    if (!dir)
        return -ESRCH;
    for (struct dirent *entry; rc == -ESRCH && tried < TASKS_TRIED && (entry = readdir(dir));) {
        int tid = (int)strtol(entry->d_name, NULL, 10);
        if (tid <= 0 || tid == tgid)
            continue;
        tried++;
        snprintf(path, sizeof(path), "/proc/%d/task/%d/maps", tgid, tid);
        rc = each_of_file(path, on_map, ctx);
    }
    closedir(dir);
    return rc;
}

int proc_maps_each(int tgid, proc_maps_fn on_map, void *ctx)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/maps", tgid);
    int rc = each_of_file(path, on_map, ctx);
    return rc == -ESRCH ? each_of_tasks(tgid, on_map, ctx) : rc;
}
