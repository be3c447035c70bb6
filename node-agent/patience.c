#include "node-agent/patience.h"

#include "common/clock.h"
#include "common/xalloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* Outlives its patience while a thread hangs. */
struct tally_of_left {
    _Atomic unsigned left_count, ref_count;
};

/* One thread and its hand-over; the thread frees it when it was left behind, else patience_free does. */
struct runner {
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t work, done;
    struct patience_job *job;
    bool left, ending;
    struct tally_of_left *tally;
};

struct patience {
    struct runner *runner; /* NULL: the next job starts one */
    struct tally_of_left *tally;
};

static void unref(struct tally_of_left *tally)
{
    if (atomic_fetch_sub(&tally->ref_count, 1) == 1)
        free(tally);
}

static void runner_free(struct runner *runner)
{
    pthread_cond_destroy(&runner->work);
    pthread_cond_destroy(&runner->done);
    pthread_mutex_destroy(&runner->lock);
    unref(runner->tally);
    free(runner);
}

static void *run(void *ctx)
{
    struct runner *runner = ctx;
    pthread_setname_np(pthread_self(), "files");
    pthread_mutex_lock(&runner->lock);
    for (;;) {
        while (!runner->job && !runner->ending)
            pthread_cond_wait(&runner->work, &runner->lock);
        struct patience_job *job = runner->job;
        if (!job)
            break;
        pthread_mutex_unlock(&runner->lock);
        job->run(job);
        pthread_mutex_lock(&runner->lock);
        if (runner->left)
            break;
        runner->job = NULL;
        pthread_cond_signal(&runner->done);
    }
    bool left = runner->left;
    pthread_mutex_unlock(&runner->lock);
    if (left) {
        runner->job->discard(runner->job);
        atomic_fetch_sub(&runner->tally->left_count, 1);
        runner_free(runner);
    }
    return NULL;
}

static struct runner *runner_start(struct tally_of_left *tally)
{
    struct runner *runner = xcalloc(1, sizeof(*runner));
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&runner->lock, NULL);
    pthread_cond_init(&runner->work, NULL);
    pthread_cond_init(&runner->done, &attr);
    pthread_condattr_destroy(&attr);
    runner->tally = tally;
    atomic_fetch_add(&tally->ref_count, 1);
    if (pthread_create(&runner->thread, NULL, run, runner) == 0)
        return runner;
    runner_free(runner);
    return NULL;
}

struct patience *patience_new(void)
{
    struct patience *patience = xcalloc(1, sizeof(*patience));
    patience->tally = xcalloc(1, sizeof(*patience->tally));
    atomic_store(&patience->tally->ref_count, 1);
    return patience;
}

void patience_free(struct patience *patience)
{
    if (!patience)
        return;
    struct runner *runner = patience->runner;
    if (runner) {
        pthread_mutex_lock(&runner->lock);
        runner->ending = true;
        pthread_cond_signal(&runner->work);
        pthread_mutex_unlock(&runner->lock);
        pthread_join(runner->thread, NULL);
        runner_free(runner);
    }
    unref(patience->tally);
    free(patience);
}

int patience_run(struct patience *patience, struct patience_job *job, unsigned wait_ms)
{
    if (!patience->runner) {
        if (atomic_load(&patience->tally->left_count) >= PATIENCE_MAX_LEFT)
            return -EBUSY;
        patience->runner = runner_start(patience->tally);
        if (!patience->runner)
            return -EAGAIN;
    }
    struct runner *runner = patience->runner;
    uint64_t until_ns = clock_mono_ns() + wait_ms * CLOCK_NS_PER_MS;
    const struct timespec until = {.tv_sec = (time_t)(until_ns / CLOCK_NS_PER_S),
                                   .tv_nsec = (long)(until_ns % CLOCK_NS_PER_S)};
    int rc = 0;
    pthread_mutex_lock(&runner->lock);
    runner->job = job;
    pthread_cond_signal(&runner->work);
    while (runner->job && rc == 0)
        rc = pthread_cond_timedwait(&runner->done, &runner->lock, &until);
    bool left = runner->job;
    if (left) {
        runner->left = true;
        patience->runner = NULL;
        atomic_fetch_add(&runner->tally->left_count, 1);
        pthread_detach(runner->thread);
    }
    pthread_mutex_unlock(&runner->lock);
    return left ? -ETIMEDOUT : 0;
}

unsigned patience_left_count(const struct patience *patience)
{
    return atomic_load(&patience->tally->left_count);
}
