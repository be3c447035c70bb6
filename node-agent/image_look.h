/* image_look: image_file's work with patience: a file whose server hangs is given up after IMAGE_LOOK_MS, and
 * nothing else there is tried for IMAGE_LOOK_AVOID_MS.
 * Rules:    "there" is the mapping's device, or the process where the device is not known.
 * Limits:   PATIENCE_MAX_LEFT looks hang at a time, IMAGE_LOOK_AVOIDED places are remembered (oldest out).
 * Threads:  one.   Errors: those of image_file; -ETIMEDOUT gave up; -EBUSY not tried. */
#ifndef NODE_AGENT_IMAGE_LOOK_H
#define NODE_AGENT_IMAGE_LOOK_H

#include "node-agent/image_file.h"

#define IMAGE_LOOK_MS       250u
#define IMAGE_LOOK_AVOID_MS 60000u
#define IMAGE_LOOK_AVOIDED  16u

struct image_look {
    int fd; /* -1: could not be opened */
    struct stat st;
    int identify_rc;
    struct image_identity identity; /* when identify_rc is 0; the given one where one was given */
};

struct image_looks;
struct image_looks *image_looks_new(void);
void image_looks_free(struct image_looks *looks); /* NULL is fine */
/* Opens and, with none given, identifies the file behind a mapping. 0 also when it could not be opened. */
int image_look_open(struct image_looks *looks, const struct image_origin *origin,
                    const struct image_identity *given, struct image_look *ret_look);
int image_look_stat(struct image_looks *looks, const struct image_origin *origin, struct stat *ret_stat);
/* Stat of /proc/TGID/exe. */
int image_look_program(struct image_looks *looks, pid_t tgid, struct stat *ret_stat);

#endif
