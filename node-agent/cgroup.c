#include "node-agent/cgroup.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/table.h"
#include "common/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define ROOT_ID 1u
/* include/linux/exportfs.h: FILEID_KERNFS; the handle is the node's 64-bit id, which is also its inode
 * number. */
#define HANDLE_TYPE_KERNFS 0xfe
/* include/linux/proc_ns.h: PROC_CGROUP_INIT_INO, the inode of the first cgroup namespace. */
#define FIRST_CGROUP_NAMESPACE 0xEFFFFFFBu

struct key {
    uint64_t memcg_id, cgroup_id;
    uint64_t tgid; /* only where both ids are none or root */
};

struct known {
    struct key key;
    struct cgroup_identity identity;
    uint64_t expires_ns; /* 0: never */
};

struct mount {
    char path[256];
    int fd; /* -1: there is none */
};

struct cgroups {
    struct known *known[CGROUPS_MAX];
    uint32_t count, oldest;
    struct table index;
    struct mount unified, memory;
    char text[CGROUP_TEXT_BYTES];
};

static void note_mount(struct mount *mount, const char *path)
{
    if (mount->fd >= 0 || strlen(path) >= sizeof(mount->path))
        return;
    mount->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    memcpy(mount->path, path, strlen(path) + 1);
}

static void find_mounts(struct cgroups *cgroups)
{
    struct mntent entry;
    char line[4096];
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    while (mounts && getmntent_r(mounts, &entry, line, sizeof(line))) {
        if (strcmp(entry.mnt_type, "cgroup2") == 0)
            note_mount(&cgroups->unified, entry.mnt_dir);
        else if (strcmp(entry.mnt_type, "cgroup") == 0 && hasmntopt(&entry, "memory"))
            note_mount(&cgroups->memory, entry.mnt_dir);
    }
    if (mounts)
        endmntent(mounts);
}

struct cgroups *cgroups_new(void)
{
    struct cgroups *cgroups = xcalloc(1, sizeof(*cgroups));
    cgroups->unified.fd = cgroups->memory.fd = -1;
    find_mounts(cgroups);
    return cgroups;
}

void cgroups_free(struct cgroups *cgroups)
{
    if (!cgroups)
        return;
    for (uint32_t i = 0; i < cgroups->count; i++)
        free(cgroups->known[i]);
    if (cgroups->unified.fd >= 0)
        close(cgroups->unified.fd);
    if (cgroups->memory.fd >= 0)
        close(cgroups->memory.fd);
    table_fini(&cgroups->index);
    free(cgroups);
}

/* The path of a cgroup below its mount by its id alone: no search, no race with a process that moves
 * meanwhile. Returns its length, or negative errno (-ESTALE: the cgroup is gone). */
static int path_of_id(const struct mount *mount, uint64_t id, char out[PATH_MAX])
{
    union {
        struct file_handle handle;
        char room[sizeof(struct file_handle) + sizeof(uint64_t)];
    } u = {.handle = {.handle_bytes = sizeof(id), .handle_type = HANDLE_TYPE_KERNFS}};
    char link[64];
    if (mount->fd < 0 || id <= ROOT_ID)
        return -ENOENT;
    memcpy(u.room + offsetof(struct file_handle, f_handle), &id, sizeof(id));
    AUTO_CLOSE int fd = open_by_handle_at(mount->fd, &u.handle, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, out, PATH_MAX - 1);
    if (length < 0)
        return -errno;
    size_t skip = strlen(mount->path);
    if ((size_t)length < skip || memcmp(out, mount->path, skip) != 0)
        return -EXDEV;
    memmove(out, out + skip, (size_t)length - skip);
    out[(size_t)length - skip] = '\0';
    return (int)((size_t)length - skip);
}

static size_t read_text(struct cgroups *cgroups, int tgid)
{
    char path[64];
    size_t have = 0;
    snprintf(path, sizeof(path), "/proc/%d/cgroup", tgid);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && have < sizeof(cgroups->text)) {
        ssize_t got = read(fd, cgroups->text + have, sizeof(cgroups->text) - have);
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    return have;
}

/* Whether some line's path is this one: then the process is still where it was sampled. */
static bool text_has_path(const char *text, size_t bytes, const char *path)
{
    for (size_t at = 0; at < bytes;) {
        const char *newline = memchr(text + at, '\n', bytes - at);
        size_t line_bytes = newline ? (size_t)(newline - text) - at : bytes - at, path_bytes = strlen(path);
        if (line_bytes > path_bytes && text[at + line_bytes - path_bytes - 1] == ':' &&
            memcmp(text + at + line_bytes - path_bytes, path, path_bytes) == 0)
            return true;
        at += line_bytes + 1;
    }
    return false;
}

/* 0 and the identity when the ids or the text tell one. *ret_lasting: it will not become another. */
static int find_out(struct cgroups *cgroups, const struct key *key, int tgid,
                    struct cgroup_identity *ret_identity, bool *ret_lasting)
{
    char unified[PATH_MAX], memory[PATH_MAX];
    const struct mount *memory_mount = cgroups->memory.fd >= 0 ? &cgroups->memory : &cgroups->unified;
    int unified_bytes = path_of_id(&cgroups->unified, key->cgroup_id, unified);
    int memory_bytes = path_of_id(memory_mount, key->memcg_id, memory);
    *ret_lasting = true;
    if (unified_bytes > 0 && cgroup_parse_path(unified, (size_t)unified_bytes, ret_identity) == 0)
        return 0;
    if (memory_bytes > 0 && cgroup_parse_path(memory, (size_t)memory_bytes, ret_identity) == 0)
        return 0;
    size_t bytes = read_text(cgroups, tgid);
    if ((unified_bytes > 0 && !text_has_path(cgroups->text, bytes, unified)) ||
        (memory_bytes > 0 && !text_has_path(cgroups->text, bytes, memory)))
        return -ENOENT; /* it has moved since: its new place says nothing about this sample */
    *ret_lasting = unified_bytes > 0 || memory_bytes > 0;
    return cgroup_parse(cgroups->text, bytes, ret_identity);
}

static uint64_t hash_of(const struct key *key)
{
    return XXH3_64bits(key, sizeof(*key));
}

static struct known *find_known(struct cgroups *cgroups, const struct key *key)
{
    for (struct table_probe p = table_probe(&cgroups->index, hash_of(key)); table_next(&cgroups->index, &p);)
        if (memcmp(&cgroups->known[p.value]->key, key, sizeof(*key)) == 0)
            return cgroups->known[p.value];
    return NULL;
}

static struct known *add_known(struct cgroups *cgroups, const struct key *key)
{
    uint32_t slot = cgroups->count;
    if (slot < CGROUPS_MAX) {
        cgroups->known[cgroups->count++] = xcalloc(1, sizeof(struct known));
    } else {
        slot = cgroups->oldest;
        cgroups->oldest = (cgroups->oldest + 1) % CGROUPS_MAX;
        table_remove(&cgroups->index, hash_of(&cgroups->known[slot]->key), slot);
    }
    cgroups->known[slot]->key = *key;
    table_insert(&cgroups->index, hash_of(key), slot);
    return cgroups->known[slot];
}

const struct cgroup_identity *cgroups_get(struct cgroups *cgroups, int tgid, uint64_t memcg_id,
                                          uint64_t cgroup_id)
{
    struct key key = {.memcg_id = memcg_id, .cgroup_id = cgroup_id};
    if (memcg_id <= ROOT_ID && cgroup_id <= ROOT_ID)
        key.tgid = (uint64_t)tgid;
    struct known *known = find_known(cgroups, &key);
    if (known && (known->expires_ns == 0 || clock_mono_ns() < known->expires_ns))
        return &known->identity;
    struct cgroup_identity identity = {0};
    bool lasting;
    bool found = find_out(cgroups, &key, tgid, &identity, &lasting) == 0;
    if (!known)
        known = add_known(cgroups, &key);
    known->identity = identity;
    known->expires_ns = found && lasting ? 0 : clock_mono_ns() + CGROUP_UNKNOWN_MS * CLOCK_NS_PER_MS;
    return &known->identity;
}

bool cgroup_private(void)
{
    struct stat st;
    return stat("/proc/self/ns/cgroup", &st) == 0 && st.st_ino != FIRST_CGROUP_NAMESPACE;
}
