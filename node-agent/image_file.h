/* image_file: finding, checking and identifying the file behind a mapping. No state; image.h keeps what
 * it finds.
 * Rules:    a file is tried through the kernel's own handle (/proc/PID/map_files), then by its path
 *           below the process's root, then by its path in our own mount namespace. One is accepted when
 *           it has the wanted identity; with none known, when device and inode are the mapped ones, or
 *           when the kernel says that the mapping's file is the one linked at that path (overlay and
 *           btrfs show other device numbers in mappings than in stat). Opened in two steps (O_PATH,
 *           fstat, then reading), so that a device or FIFO never is.
 * Threads:  any.
 * Errors:   -ENOENT no candidate was accepted; others from reading. */
#ifndef NODE_AGENT_IMAGE_FILE_H
#define NODE_AGENT_IMAGE_FILE_H

#include "node-agent/image.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct image_identity {
    uint8_t id[EXECUTABLE_ID_BYTES];
    uint8_t id_bytes, id_kind;
    bool elf;
};

/* False for what is no use as an identity: under 8 bytes, or nothing but zeroes. */
bool image_id_usable(const uint8_t *id, size_t id_bytes);
/* A 16-byte identity of this kind: XXH128 over kind-specific bytes. */
struct image_identity image_identity_of(const void *data, size_t bytes, uint8_t id_kind);
bool image_identity_equal(const struct image_identity *a, const struct image_identity *b);

int image_file_identify(int fd, struct image_identity *ret_identity);
/* wanted may be NULL. The descriptor is the caller's. */
int image_file_open(const struct image_origin *origin, const struct image_identity *wanted, int *ret_fd);
/* Stat of the file that is at the origin's path now, by map_files or the process's root. */
int image_file_stat(const struct image_origin *origin, struct stat *ret_stat);
/* A memfd with a copy of this machine's vdso, taken from our own memory. */
int image_file_vdso(int *ret_fd);

/* The name of memory that has no file behind it, by the mapping's path as the kernel writes it; NULL for a
 * file. */
const char *image_file_synthetic_name(const struct image_origin *origin);
/* Length of path without " (deleted)". */
size_t image_file_path_bytes(const char *path);

#endif
