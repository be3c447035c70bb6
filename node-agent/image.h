/* image: the files that processes map as code, each with an identity that survives its path, its inode and its processes.
 * Shapes:   identity = GNU build id (20 bytes usually), else Go build id hashed, else a hash of first and last 4 KiB and
 *           size (docs/wire.md), never a path. Not-files ("[vdso]", "[anon]", "//anon") are synthetic images.
 *           An image is reference-counted; the registry keeps unreferenced ones for a while so that a short-lived
 *           process's binary can still be read for its names.
 * Limits:   IMAGES_MAX images, IMAGES_MAX_OPEN descriptors, an image's file is held open until image_names_done or
 *           IMAGES_HOLD_MS; over a limit the least recently used is dropped and counted.
 * Threads:  images_get_* from the collector thread; images_open_file from any (a lock inside).
 * Hostile:  every byte of a file comes from a container: headers are bounds-checked, read by pread (never mapped: a
 *           truncated file must not raise SIGBUS).
 * Source:   elf(5); System V gABI; kernel include/uapi/linux/fs.h (PROCMAP_QUERY). */
#ifndef NODE_AGENT_IMAGE_H
#define NODE_AGENT_IMAGE_H

#include "common/err.h"
#include "common/stackset.h"

#include <stdint.h>
#include <sys/types.h>

#define IMAGES_MAX      16384u
#define IMAGES_MAX_OPEN 256u
#define IMAGES_HOLD_MS  600000u

struct images;

struct image {
    uint8_t id[EXECUTABLE_ID_BYTES];
    uint8_t id_bytes;
    uint8_t id_kind;  /* enum executable_id_kind */
    char name[64];    /* last path component without " (deleted)", printable, for people */
    uint32_t number;  /* unique for the agent's life: a cheap key */
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

struct images *images_new(void);
void images_free(struct images *images);

/* The image of a mapping, with one reference for the caller; never NULL: a file that cannot be read at all gets an
 * identity from device and inode, marked EXECUTABLE_SYNTHETIC, and costs only its names. */
struct image *images_get(struct images *images, const struct image_origin *origin);
struct image *images_get_synthetic(struct images *images, const char *name);
struct image *image_ref(struct image *image);
void images_put(struct images *images, struct image *image);

/* A descriptor (caller closes) on the file with this id: the held one, else reopened through a process that maps it or
 * the path it had, its identity checked again. -ENOENT: it cannot be found any more. The vdso is a memfd copy. */
int images_open_file(struct images *images, const void *id, size_t id_bytes, int *ret_fd, char *ret_name,
                     size_t name_bytes, struct err *err);
/* The names have been delivered: the held descriptor may go. */
void images_names_done(struct images *images, const void *id, size_t id_bytes);

void images_counts(struct images *images, uint64_t *ret_count, uint64_t *ret_open_count, uint64_t *ret_dropped_count);

#endif
