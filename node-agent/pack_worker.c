#include "node-agent/pack_worker.h"

#include "common/clock.h"
#include "common/inbox.h"
#include "common/log.h"
#include "common/xalloc.h"
#include "node-agent/pack.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

struct pack_wish {
    uint8_t id[EXECUTABLE_ID_BYTES];
    size_t id_bytes;
};

struct pack_part {
    size_t bytes;
    char data[];
};

struct pack_worker {
    struct images *images;
    pack_worker_part_fn on_part;
    void *ctx;
    struct inbox *wishes;
    struct inbox *parts;
    pthread_t thread;
    _Atomic bool stopping;
    _Atomic uint64_t busy_since_ns; /* 0: waits */

    pthread_mutex_t lock; /* of the two below */
    pthread_cond_t done;
    unsigned parts_under_way;
    bool failed; /* a part of the pack in work was not taken */
};

static void on_part_ready(void *message, void *ctx)
{
    struct pack_worker *worker = ctx;
    struct pack_part *part = message;
    worker->on_part(part->data, part->bytes, worker->ctx);
    free(part);
}

/* Blocks the worker thread until fewer than limit parts are on their way. */
static bool wait_for_room(struct pack_worker *worker, unsigned limit)
{
    pthread_mutex_lock(&worker->lock);
    while (worker->parts_under_way >= limit && !atomic_load(&worker->stopping))
        pthread_cond_wait(&worker->done, &worker->lock);
    bool go_on = !worker->failed && !atomic_load(&worker->stopping);
    if (go_on && limit == PACK_WORKER_PARTS)
        worker->parts_under_way++;
    pthread_mutex_unlock(&worker->lock);
    return go_on;
}

static int on_packed(const struct buf *message, void *ctx)
{
    struct pack_worker *worker = ctx;
    atomic_store(&worker->busy_since_ns, 0);
    bool go_on = wait_for_room(worker, PACK_WORKER_PARTS);
    atomic_store(&worker->busy_since_ns, clock_mono_ns());
    if (!go_on)
        return -ECANCELED;
    struct pack_part *part = xmalloc(sizeof(*part) + message->used_bytes);
    part->bytes = message->used_bytes;
    memcpy(part->data, message->data, message->used_bytes);
    int rc = inbox_put(worker->parts, part);
    if (rc < 0) {
        free(part);
        pack_worker_part_done(worker, rc);
    }
    return rc;
}

static void build(struct pack_worker *worker, const struct pack_wish *wish)
{
    struct err err = {.code = 0};
    char name[64] = "";
    int fd = -1;
    worker->failed = false;
    atomic_store(&worker->busy_since_ns, clock_mono_ns());
    int rc = images_open_file(worker->images, wish->id, wish->id_bytes, &fd, name, sizeof(name), &err);
    if (rc == 0)
        rc = pack_each(fd, wish->id, wish->id_bytes, name, on_packed, worker, &err);
    else
        rc = pack_unavailable(wish->id, wish->id_bytes, name, err.text, on_packed, worker, &err);
    atomic_store(&worker->busy_since_ns, 0);
    bool delivered = wait_for_room(worker, 1);
    if (rc == 0 && delivered)
        images_names_done(worker->images, wish->id, wish->id_bytes);
    else if (rc < 0)
        log_debug("symbol pack of %s: %s", name[0] ? name : "an executable that is gone", err.text);
    if (fd >= 0)
        close(fd);
    malloc_trim(0); /* a big executable's tables were just freed: give the pages back */
}

static void *run(void *ctx)
{
    struct pack_worker *worker = ctx;
    pthread_setname_np(pthread_self(), "symbols");
    /* setpriority on a thread id sets the thread's own nice value: sched(7). */
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19);
    while (!atomic_load(&worker->stopping)) {
        struct pack_wish *wish = inbox_wait(worker->wishes, -1);
        if (wish)
            build(worker, wish);
        free(wish);
    }
    return NULL;
}

struct pack_worker *pack_worker_open(uv_loop_t *loop, struct images *images, pack_worker_part_fn on_part,
                                     void *ctx)
{
    struct pack_worker *worker = xcalloc(1, sizeof(*worker));
    worker->images = images;
    worker->on_part = on_part;
    worker->ctx = ctx;
    worker->wishes = inbox_open_thread(PACK_WORKER_QUEUE);
    worker->parts = inbox_open_loop(loop, PACK_WORKER_PARTS, on_part_ready, worker);
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->done, NULL);
    if (pthread_create(&worker->thread, NULL, run, worker) != 0) {
        log_error("cannot start the symbol thread");
        abort();
    }
    return worker;
}

void pack_worker_want(struct pack_worker *worker, const void *id, size_t id_bytes)
{
    if (id_bytes > EXECUTABLE_ID_BYTES)
        return;
    struct pack_wish *wish = xcalloc(1, sizeof(*wish));
    memcpy(wish->id, id, id_bytes);
    wish->id_bytes = id_bytes;
    if (inbox_put(worker->wishes, wish) < 0)
        free(wish);
}

void pack_worker_part_done(struct pack_worker *worker, int rc)
{
    pthread_mutex_lock(&worker->lock);
    worker->parts_under_way--;
    if (rc < 0)
        worker->failed = true;
    pthread_cond_signal(&worker->done);
    pthread_mutex_unlock(&worker->lock);
}

uint64_t pack_worker_busy_ms(const struct pack_worker *worker)
{
    uint64_t since_ns = atomic_load(&worker->busy_since_ns);
    return since_ns ? (clock_mono_ns() - since_ns) / CLOCK_NS_PER_MS : 0;
}

static void drop(void *message, void *ctx)
{
    (void)ctx;
    free(message);
}

void pack_worker_close(struct pack_worker *worker)
{
    if (!worker)
        return;
    atomic_store(&worker->stopping, true);
    pthread_mutex_lock(&worker->lock);
    pthread_cond_signal(&worker->done);
    pthread_mutex_unlock(&worker->lock);
    inbox_wake(worker->wishes);
    pthread_join(worker->thread, NULL);
    inbox_close(worker->wishes, drop, NULL);
    inbox_close(worker->parts, drop, NULL);
    pthread_mutex_destroy(&worker->lock);
    pthread_cond_destroy(&worker->done);
    free(worker);
}
