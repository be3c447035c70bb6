#include "node-agent/image_look.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/xalloc.h"
#include "node-agent/patience.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum look_kind { LOOK_OPEN, LOOK_STAT, LOOK_PROGRAM };

struct look_job {
    struct patience_job job; /* first */
    enum look_kind kind;
    struct image_origin origin; /* path is the job's own copy */
    char *path;
    bool has_given;
    struct image_look look;
    int rc;
};

struct place {
    uint64_t device, tgid; /* one of them is 0 */
};

struct image_looks {
    struct patience *patience;
    struct {
        struct place place;
        uint64_t until_ns;
    } avoided[IMAGE_LOOK_AVOIDED];
    unsigned next;
    struct log_limit limit;
};

struct image_looks *image_looks_new(void)
{
    struct image_looks *looks = xcalloc(1, sizeof(*looks));
    looks->patience = patience_new();
    return looks;
}

void image_looks_free(struct image_looks *looks)
{
    if (!looks)
        return;
    patience_free(looks->patience);
    free(looks);
}

/* ---- the job ---- */

static void look_open(struct look_job *job)
{
    struct image_look *look = &job->look;
    const struct image_identity *given = job->has_given ? &look->identity : NULL;
    look->identify_rc = -ENOENT;
    if (image_file_open(&job->origin, given, &look->fd) < 0)
        return;
    if (fstat(look->fd, &look->st) == -1) {
        close(look->fd);
        look->fd = -1;
        return;
    }
    look->identify_rc = given ? 0 : image_file_identify(look->fd, &look->identity);
}

static void run(struct patience_job *base)
{
    struct look_job *job = (struct look_job *)base;
    char link[64];
    switch (job->kind) {
    case LOOK_OPEN:
        look_open(job);
        break;
    case LOOK_STAT:
        job->rc = image_file_stat(&job->origin, &job->look.st);
        break;
    case LOOK_PROGRAM:
        snprintf(link, sizeof(link), "/proc/%d/exe", (int)job->origin.tgid);
        job->rc = stat(link, &job->look.st) == -1 ? -errno : 0;
        break;
    }
}

static void job_free(struct look_job *job)
{
    free(job->path);
    free(job);
}

static void discard(struct patience_job *base)
{
    struct look_job *job = (struct look_job *)base;
    if (job->look.fd >= 0)
        close(job->look.fd);
    job_free(job);
}

static struct look_job *job_new(enum look_kind kind, const struct image_origin *origin)
{
    struct look_job *job = xcalloc(1, sizeof(*job));
    job->job = (struct patience_job){run, discard};
    job->kind = kind;
    job->origin = *origin;
    job->origin.build_id = NULL; /* not needed to find a file, and not ours to keep */
    job->origin.build_id_bytes = 0;
    job->origin.path = job->path = origin->path ? xstrdup(origin->path) : NULL;
    job->look.fd = -1;
    return job;
}

/* ---- what hangs ---- */

static struct place place_of(const struct image_origin *origin)
{
    return origin->device ? (struct place){.device = origin->device}
                          : (struct place){.tgid = (uint64_t)origin->tgid};
}

static bool is_avoided(const struct image_looks *looks, struct place place)
{
    uint64_t now_ns = clock_mono_ns();
    for (unsigned i = 0; i < IMAGE_LOOK_AVOIDED; i++)
        if (looks->avoided[i].until_ns > now_ns && looks->avoided[i].place.device == place.device &&
            looks->avoided[i].place.tgid == place.tgid)
            return true;
    return false;
}

static void avoid(struct image_looks *looks, struct place place, const struct image_origin *origin)
{
    looks->avoided[looks->next].place = place;
    looks->avoided[looks->next].until_ns = clock_mono_ns() + IMAGE_LOOK_AVOID_MS * CLOCK_NS_PER_MS;
    looks->next = (looks->next + 1) % IMAGE_LOOK_AVOIDED;
    if (log_limit_pass(&looks->limit, NULL))
        log_warn("%.200s of process %d: its file system does not answer; files there have no names for %u s",
                 origin->path ? origin->path : "a file", (int)origin->tgid, IMAGE_LOOK_AVOID_MS / 1000);
}

/* After an error the job is gone. */
static int do_look(struct image_looks *looks, struct look_job *job, const struct image_origin *origin)
{
    struct place place = place_of(origin);
    int rc = is_avoided(looks, place) ? -EBUSY : patience_run(looks->patience, &job->job, IMAGE_LOOK_MS);
    if (rc == -ETIMEDOUT)
        avoid(looks, place, origin);
    else if (rc < 0)
        job_free(job);
    return rc;
}

int image_look_open(struct image_looks *looks, const struct image_origin *origin,
                    const struct image_identity *given, struct image_look *ret_look)
{
    struct look_job *job = job_new(LOOK_OPEN, origin);
    job->has_given = given != NULL;
    if (given)
        job->look.identity = *given;
    int rc = do_look(looks, job, origin);
    if (rc < 0)
        return rc;
    *ret_look = job->look;
    job_free(job);
    return 0;
}

static int look_stat(struct image_looks *looks, enum look_kind kind, const struct image_origin *origin,
                     struct stat *ret_stat)
{
    struct look_job *job = job_new(kind, origin);
    int rc = do_look(looks, job, origin);
    if (rc < 0)
        return rc;
    rc = job->rc;
    if (rc == 0)
        *ret_stat = job->look.st;
    job_free(job);
    return rc;
}

int image_look_stat(struct image_looks *looks, const struct image_origin *origin, struct stat *ret_stat)
{
    return look_stat(looks, LOOK_STAT, origin, ret_stat);
}

int image_look_program(struct image_looks *looks, pid_t tgid, struct stat *ret_stat)
{
    const struct image_origin origin = {.tgid = tgid};
    return look_stat(looks, LOOK_PROGRAM, &origin, ret_stat);
}
