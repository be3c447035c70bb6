#include "node-agent/image_file.h"

#include "common/cleanup.h"
#include "common/str.h"
#include "node-agent/elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xxhash.h>

#define ID_MIN_BYTES   8u
#define HASH_END_BYTES 4096u
#define VDSO_MAX_BYTES (1u << 20)
#define GO_ID_BYTES    512u
#define DELETED        " (deleted)"

bool image_id_usable(const uint8_t *id, size_t id_bytes)
{
    uint8_t any = 0;
    for (size_t i = 0; i < id_bytes; i++)
        any |= id[i];
    return id_bytes >= ID_MIN_BYTES && any;
}

static void set_hash(struct image_identity *identity, XXH128_hash_t hash, uint8_t id_kind)
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, hash);
    memcpy(identity->id, canonical.digest, sizeof(canonical.digest));
    identity->id_bytes = sizeof(canonical.digest);
    identity->id_kind = id_kind;
}

struct image_identity image_identity_of(const void *data, size_t bytes, uint8_t id_kind)
{
    struct image_identity identity = {0};
    set_hash(&identity, XXH3_128bits(data, bytes), id_kind);
    return identity;
}

bool image_identity_equal(const struct image_identity *a, const struct image_identity *b)
{
    return a->id_kind == b->id_kind && a->id_bytes == b->id_bytes && memcmp(a->id, b->id, a->id_bytes) == 0;
}

/* Reads until the file ends or the buffer is full. */
static ssize_t read_at(int fd, uint64_t offset, uint8_t *out, size_t bytes)
{
    size_t have = 0;
    while (have < bytes) {
        ssize_t got = pread(fd, out + have, bytes - have, (off_t)(offset + have));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}

static int identify_by_content(int fd, struct image_identity *identity)
{
    struct stat st;
    uint8_t block[2 * HASH_END_BYTES + sizeof(uint64_t)];
    if (fstat(fd, &st) == -1)
        return -errno;
    uint64_t size = (uint64_t)st.st_size, tail_at = size > HASH_END_BYTES ? size - HASH_END_BYTES : 0;
    ssize_t head = read_at(fd, 0, block, HASH_END_BYTES);
    if (head < 0)
        return (int)head;
    ssize_t tail = read_at(fd, tail_at, block + head, HASH_END_BYTES);
    if (tail < 0)
        return (int)tail;
    size_t used = (size_t)(head + tail);
    for (unsigned i = 0; i < sizeof(size); i++)
        block[used++] = (uint8_t)(size >> (8 * i));
    set_hash(identity, XXH3_128bits(block, used), EXECUTABLE_CONTENT);
    return 0;
}

int image_file_identify(int fd, struct image_identity *ret_identity)
{
    struct image_identity identity = {0};
    struct elf_file *elf;
    char go_id[GO_ID_BYTES];
    int rc = elf_file_open(fd, &elf, NULL);
    if (rc == 0) {
        identity.elf = true;
        size_t id_bytes = elf_file_build_id(elf, identity.id, sizeof(identity.id));
        size_t go_bytes = elf_file_go_build_id(elf, go_id, sizeof(go_id));
        elf_file_close(elf);
        identity.id_bytes = (uint8_t)id_bytes;
        identity.id_kind = EXECUTABLE_GNU;
        if (!image_id_usable(identity.id, id_bytes)) {
            memset(identity.id, 0, sizeof(identity.id));
            if (go_bytes > 0)
                set_hash(&identity, XXH3_128bits(go_id, go_bytes), EXECUTABLE_GO);
            else
                rc = identify_by_content(fd, &identity);
        }
    } else {
        rc = identify_by_content(fd, &identity);
    }
    if (rc == 0)
        *ret_identity = identity;
    return rc;
}

size_t image_file_path_bytes(const char *path)
{
    size_t bytes = strlen(path), suffix = strlen(DELETED);
    return bytes > suffix && memcmp(path + bytes - suffix, DELETED, suffix) == 0 ? bytes - suffix : bytes;
}

static bool is_deleted(const char *path)
{
    return image_file_path_bytes(path) != strlen(path);
}

static bool same_path(const char *a, const char *b)
{
    size_t bytes = image_file_path_bytes(a);
    return bytes == image_file_path_bytes(b) && memcmp(a, b, bytes) == 0;
}

/* For reading, from a descriptor that only names the file; refuses what is not a regular file. */
static int reopen(int path_fd)
{
    char link[64];
    struct stat st;
    if (fstat(path_fd, &st) == -1)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EACCES;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
    int fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return fd < 0 ? -errno : fd;
}

/* Below root as the process sees it: no symbolic link, mount handle or ".." leads out. The kernel's paths
 * have none of these in them, so one met on the way means that the path is another now. */
static int open_below(const char *root, const char *path, size_t path_bytes)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS,
    };
    char name[PATH_MAX];
    if (path_bytes == 0 || path_bytes >= sizeof(name) || path[0] != '/')
        return -ENOENT;
    memcpy(name, path, path_bytes);
    name[path_bytes] = '\0';
    int root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return -errno;
    int fd = (int)syscall(SYS_openat2, root_fd, name, &how, sizeof(how));
    int rc = fd < 0 ? -errno : fd;
    close(root_fd);
    return rc;
}

static int map_file_name(const struct image_origin *origin, char *out, size_t out_bytes)
{
    if (origin->tgid <= 0 || origin->start >= origin->end)
        return -ENOENT;
    snprintf(out, out_bytes, "/proc/%d/map_files/%llx-%llx", origin->tgid, (unsigned long long)origin->start,
             (unsigned long long)origin->end);
    return 0;
}

/* What the kernel calls the file of the mapping now. */
static int map_file_link(const struct image_origin *origin, char out[PATH_MAX])
{
    char name[96];
    if (map_file_name(origin, name, sizeof(name)) < 0)
        return -ENOENT;
    ssize_t length = readlink(name, out, PATH_MAX - 1);
    if (length < 0)
        return -errno;
    out[length] = '\0';
    return 0;
}

/* The three places to look in, most certain first. */
enum place { PLACE_MAP_FILES, PLACE_ROOT, PLACE_OURS, PLACE_COUNT };

static int open_place(const struct image_origin *origin, enum place place)
{
    char name[96];
    if (place == PLACE_MAP_FILES) {
        if (map_file_name(origin, name, sizeof(name)) < 0)
            return -ENOENT;
        int fd = open(name, O_PATH | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
    }
    if (!origin->path)
        return -ENOENT;
    if (place == PLACE_OURS)
        return open_below("/", origin->path, image_file_path_bytes(origin->path));
    snprintf(name, sizeof(name), "/proc/%d/root", origin->tgid);
    return origin->tgid > 0 ? open_below(name, origin->path, image_file_path_bytes(origin->path)) : -ENOENT;
}

static bool accepted(const struct image_origin *origin, const struct image_identity *wanted, int fd,
                     enum place place)
{
    struct stat st;
    struct image_identity found;
    char link[PATH_MAX];
    if (wanted)
        return image_file_identify(fd, &found) == 0 && image_identity_equal(&found, wanted);
    if (fstat(fd, &st) == 0 && origin->inode && st.st_ino == origin->inode && st.st_dev == origin->device)
        return true;
    if (place == PLACE_OURS || !origin->path || map_file_link(origin, link) < 0)
        return false;
    return place == PLACE_MAP_FILES ? same_path(link, origin->path)
                                    : !is_deleted(link) && strcmp(link, origin->path) == 0;
}

int image_file_open(const struct image_origin *origin, const struct image_identity *wanted, int *ret_fd)
{
    for (enum place place = PLACE_MAP_FILES; place < PLACE_COUNT; place++) {
        int path_fd = open_place(origin, place);
        if (path_fd < 0)
            continue;
        int fd = reopen(path_fd);
        close(path_fd);
        if (fd < 0)
            continue;
        if (accepted(origin, wanted, fd, place)) {
            *ret_fd = fd;
            return 0;
        }
        close(fd);
    }
    return -ENOENT;
}

int image_file_stat(const struct image_origin *origin, struct stat *ret_stat)
{
    int rc = -ENOENT;
    for (enum place place = PLACE_MAP_FILES; rc < 0 && place < PLACE_OURS; place++) {
        int fd = open_place(origin, place);
        if (fd < 0)
            continue;
        rc = fstat(fd, ret_stat) == -1 ? -errno : 0;
        close(fd);
    }
    return rc;
}

/* Where the image of an ELF object that is wholly mapped ends: its segments or its section table. */
static size_t extent(const Elf64_Ehdr *header)
{
    const Elf64_Phdr *segments = (const void *)((const char *)header + header->e_phoff);
    uint64_t end = header->e_shoff + (uint64_t)header->e_shnum * header->e_shentsize;
    for (unsigned i = 0; i < header->e_phnum; i++)
        if (segments[i].p_type == PT_LOAD && segments[i].p_offset + segments[i].p_filesz > end)
            end = segments[i].p_offset + segments[i].p_filesz;
    return end;
}

int image_file_vdso(int *ret_fd)
{
    const Elf64_Ehdr *header = (const void *)getauxval(AT_SYSINFO_EHDR);
    if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return -ENOENT;
    size_t bytes = extent(header);
    if (bytes > VDSO_MAX_BYTES)
        return -EBADMSG;
    int fd = memfd_create("vdso", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (write(fd, header, bytes) != (ssize_t)bytes) {
        close(fd);
        return -EIO;
    }
    *ret_fd = fd;
    return 0;
}

/* Memory that the kernel names like a file: shared anonymous memory is a file that was never linked anywhere.
 */
static bool is_shared_anonymous(const char *path)
{
    size_t bytes = image_file_path_bytes(path);
    bool deleted = is_deleted(path);
    if (bytes == strlen("/dev/zero") && memcmp(path, "/dev/zero", bytes) == 0)
        return true;
    if (deleted && bytes == strlen("/anon_hugepage") && memcmp(path, "/anon_hugepage", bytes) == 0)
        return true;
    return deleted && bytes == strlen("/SYSV") + 8 && str_starts(path, "/SYSV");
}

const char *image_file_synthetic_name(const struct image_origin *origin)
{
    static const char *const SPECIAL[] = {"[heap]", "[stack]", "[uprobes]", "[vsyscall]", "[vdso]"};
    const char *path = origin->path;
    bool is_file = origin->inode || origin->build_id_bytes;
    if (!path || !path[0] || strcmp(path, "//anon") == 0)
        return is_file ? NULL : "[anon]";
    if (path[0] == '/')
        return !origin->build_id_bytes && is_shared_anonymous(path) ? "[anon]" : NULL;
    for (size_t i = 0; i < sizeof(SPECIAL) / sizeof(SPECIAL[0]); i++)
        if (strcmp(path, SPECIAL[i]) == 0)
            return SPECIAL[i];
    if (str_starts(path, "[stack:"))
        return "[stack]";
    return is_file ? NULL : "[anon]"; /* "[anon:name]": names the process chose itself */
}
