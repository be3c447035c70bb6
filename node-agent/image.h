/* image: the files that processes map as code, each with an identity that survives its path, inode and
 * processes.
 * Shapes:   identity = GNU build id (20 bytes usually, 8..32), else XXH128 of Go's build id text, else
 *           XXH128 over first 4 KiB, last 4 KiB and size (u64 little endian); 16 bytes, canonical (big-
 *           endian) form; never a path. Build ids that are shorter than 8 bytes or all zero count as
 *           none. "[vdso]" has its real build id. Memory without a file ("[anon]", "[stack]",
 *           "[memfd:name]" with code that is not ELF) is synthetic. An image is reference-counted; the
 *           registry keeps unreferenced ones until the room is needed, so that a short-lived process's
 *           binary can still be read for its names.
 * Limits:   IMAGES_MAX images, IMAGES_MAX_OPEN descriptors; a file is held open until images_names_done
 *           or IMAGES_HOLD_MS; over a limit the least recently used is dropped and counted. When every
 *           image is in use a further one is the shared "[images full]". A file that could not be read
 *           is tried again after IMAGES_RETRY_MS.
 * Threads:  images_get*, image_ref, images_put, images_stat_program and images_retry_due from the
 *           collector thread; images_open_file, images_names_done, images_counts from any (a lock inside,
 *           never held while a file is opened).
 * Hostile:  every byte of a file comes from a container: headers are bounds-checked, read by pread
 *           (never mapped: a truncated file must not raise SIGBUS). Only regular files are ever opened,
 *           symbolic links never followed. A file system that hangs costs IMAGE_LOOK_MS now and then,
 *           and the names of its files.
 * Source:   elf(5); System V gABI; kernel include/uapi/linux/fs.h (PROCMAP_QUERY). */
#ifndef NODE_AGENT_IMAGE_H
#define NODE_AGENT_IMAGE_H

#include "common/err.h"
#include "common/stackset.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define IMAGES_MAX      16384u
#define IMAGES_MAX_OPEN 256u
#define IMAGES_HOLD_MS  600000u
#define IMAGES_RETRY_MS 5000u

struct images;

struct image {
    uint8_t id[EXECUTABLE_ID_BYTES];
    uint8_t id_bytes;
    uint8_t id_kind; /* enum executable_id_kind */
    char name[64];   /* last path component without " (deleted)", printable, for people */
    uint32_t number; /* unique for the agent's life: a cheap key */
};

/* One file-backed mapping as the kernel describes it. Zero what is not known. */
struct image_origin {
    pid_t tgid;
    uint64_t start, end;    /* of the mapping: names /proc/PID/map_files/start-end */
    uint64_t device, inode; /* makedev() form */
    const uint8_t *build_id;
    size_t build_id_bytes;
    const char *path; /* in the process's mount namespace; may carry " (deleted)" */
};

/* Memory without a file: there is no offset to speak of, addresses in it resolve to offset 0. */
static inline bool image_is_anonymous(const struct image *image)
{
    return image->id_kind == EXECUTABLE_SYNTHETIC && image->name[0] == '[';
}

struct images *images_new(void);
void images_free(struct images *images); /* NULL is fine; frees the images that are still referenced too */

/* The image of a mapping, with one reference for the caller; never NULL: a file that cannot be read at all
 * gets an identity from device and inode, marked EXECUTABLE_SYNTHETIC, and costs only its names. */
struct image *images_get(struct images *images, const struct image_origin *origin);
struct image *images_get_synthetic(struct images *images, const char *name);
struct image *image_ref(struct image *image);                /* NULL gives NULL */
void images_put(struct images *images, struct image *image); /* NULL is fine */
/* Stat of a process's program file. Negative errno; -ETIMEDOUT and -EBUSY: its file system hangs. */
int images_stat_program(struct images *images, pid_t tgid, struct stat *ret_stat);
/* True for the image of a file that could not be read, once it is time to call images_get again. */
bool images_retry_due(struct images *images, const struct image *image);

/* A descriptor (caller closes) on the file with this id: the held one, else reopened through a process that
 * maps it or the path it had, its identity checked again. -ENOENT: it cannot be found any more; -EAGAIN: its file system hung lately. The vdso is a
 * memfd copy. */
int images_open_file(struct images *images, const void *id, size_t id_bytes, int *ret_fd, char *ret_name,
                     size_t name_bytes, struct err *err);
/* The names have been delivered: the held descriptor may go. */
void images_names_done(struct images *images, const void *id, size_t id_bytes);

void images_counts(struct images *images, uint64_t *ret_count, uint64_t *ret_open_count,
                   uint64_t *ret_dropped_count);

#endif
