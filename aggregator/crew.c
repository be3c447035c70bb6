#include "aggregator/crew.h"

#include "aggregator/ingest.h"
#include "common/clock.h"
#include "common/inbox.h"
#include "common/xalloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define TEND_EVERY_MS 1000u
#define WAIT_MS       250

struct job {
    atomic_uint reference_count; /* the asker's and one per partition that has it in its inbox */
    atomic_bool abandoned;
    crew_run_fn run;
    crew_free_fn free_ctx;
    void *ctx; /* NULL once the asker has it back */
    pthread_mutex_t lock;
    pthread_cond_t done;
    unsigned pending_count;
};

/* What lies in an inbox. */
struct message {
    struct link_request *request; /* or */
    struct job *job;
};

struct worker {
    struct crew *crew;
    unsigned index;
    pthread_t thread;
    bool started;
    struct inbox *inbox;
    struct partition *partition;
    struct buf reply;
    _Atomic uint64_t progress_ns;
    uint64_t tended_ms;
};

struct crew {
    struct worker *workers;
    _Atomic size_t waiting_bytes;
    unsigned count;
    atomic_bool closing;
};

/* ---- jobs ---- */

static struct job *job_new(crew_run_fn run, void *ctx, crew_free_fn free_ctx)
{
    struct job *job = xcalloc(1, sizeof(*job));
    atomic_init(&job->reference_count, 1);
    job->run = run;
    job->free_ctx = free_ctx;
    job->ctx = ctx;
    pthread_mutex_init(&job->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&job->done, &attr);
    pthread_condattr_destroy(&attr);
    return job;
}

static void job_unref(struct job *job)
{
    if (atomic_fetch_sub(&job->reference_count, 1) != 1)
        return;
    if (job->ctx)
        job->free_ctx(job->ctx);
    pthread_cond_destroy(&job->done);
    pthread_mutex_destroy(&job->lock);
    free(job);
}

static void job_finish(struct job *job)
{
    pthread_mutex_lock(&job->lock);
    if (--job->pending_count == 0)
        pthread_cond_signal(&job->done);
    pthread_mutex_unlock(&job->lock);
    job_unref(job);
}

static void run_job(struct worker *worker, struct job *job)
{
    if (!atomic_load(&job->abandoned))
        job->run(worker->partition, worker->index, job->ctx);
    job_finish(job);
}

/* ---- the thread ---- */

static uint64_t now_ms(void)
{
    return clock_wall_ns() / CLOCK_NS_PER_MS;
}

static void handle(struct worker *worker, struct message *message)
{
    if (message->job) {
        run_job(worker, message->job);
    } else {
        size_t bytes;
        const void *data = link_request_data(message->request, &bytes);
        buf_clear(&worker->reply);
        ingest(worker->partition, data, bytes, now_ms(), &worker->reply);
        link_reply(message->request, worker->reply.data, worker->reply.used_bytes);
        atomic_fetch_sub(&worker->crew->waiting_bytes, bytes);
    }
    free(message);
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    while (!atomic_load(&worker->crew->closing)) {
        atomic_store(&worker->progress_ns, clock_mono_ns());
        struct message *message = inbox_wait(worker->inbox, WAIT_MS);
        if (message)
            handle(worker, message);
        uint64_t now = now_ms();
        if (now >= worker->tended_ms + TEND_EVERY_MS || now < worker->tended_ms) {
            worker->tended_ms = now;
            partition_tend(worker->partition, now);
        }
    }
    return NULL;
}

/* ---- crew ---- */

static struct partition_settings share_of(const struct crew_settings *settings, unsigned index)
{
    struct partition_settings share = settings->partition;
    unsigned count = settings->worker_count;
    share.index = index;
    share.count = count;
    struct dictionary_limits *limits = &share.dictionary;
    limits->strings = limits->strings / count + 16;
    limits->executables = limits->executables / count + 16;
    limits->frames = limits->frames / count + 16;
    limits->functions = limits->functions / count + 16;
    limits->nodes = limits->nodes / count + 16;
    limits->series = limits->series / count + 16;
    limits->string_bytes = limits->string_bytes / count + 4096;
    share.window_bytes /= count;
    share.session_bytes /= count;
    return share;
}

struct crew *crew_open(const struct crew_settings *settings, struct symbol_packs *packs)
{
    struct crew *crew = xcalloc(1, sizeof(*crew));
    crew->count = settings->worker_count;
    crew->workers = xcalloc(crew->count, sizeof(*crew->workers));
    for (unsigned i = 0; i < crew->count; i++) {
        struct worker *worker = &crew->workers[i];
        struct partition_settings share = share_of(settings, i);
        worker->crew = crew;
        worker->index = i;
        worker->inbox = inbox_open_thread(CREW_INBOX);
        worker->partition = partition_new(&share, packs);
        worker->reply = buf_init(LINK_MESSAGE_BYTES);
        atomic_init(&worker->progress_ns, clock_mono_ns());
    }
    for (unsigned i = 0; i < crew->count; i++) {
        if (pthread_create(&crew->workers[i].thread, NULL, work, &crew->workers[i]) != 0) {
            crew_stop(crew);
            crew_free(crew);
            return NULL;
        }
        crew->workers[i].started = true;
    }
    return crew;
}

void crew_stop(struct crew *crew)
{
    atomic_store(&crew->closing, true);
    for (unsigned i = 0; i < crew->count; i++)
        inbox_wake(crew->workers[i].inbox);
    for (unsigned i = 0; i < crew->count; i++) {
        if (crew->workers[i].started)
            pthread_join(crew->workers[i].thread, NULL);
        crew->workers[i].started = false;
    }
}

static void throw_away(void *left, void *ctx)
{
    (void)ctx;
    struct message *message = left;
    if (message->job)
        job_finish(message->job);
    free(message);
}

void crew_free(struct crew *crew)
{
    if (!crew)
        return;
    for (unsigned i = 0; i < crew->count; i++) {
        inbox_close(crew->workers[i].inbox, throw_away, NULL);
        partition_free(crew->workers[i].partition);
        buf_fini(&crew->workers[i].reply);
    }
    free(crew->workers);
    free(crew);
}

unsigned crew_count(const struct crew *crew)
{
    return crew->count;
}

int crew_take(struct crew *crew, struct link_request *request, uint64_t route)
{
    size_t bytes;
    link_request_data(request, &bytes);
    if (atomic_fetch_add(&crew->waiting_bytes, bytes) + bytes > CREW_INBOX_BYTES) {
        atomic_fetch_sub(&crew->waiting_bytes, bytes);
        return -EAGAIN;
    }
    struct message *message = xcalloc(1, sizeof(*message));
    message->request = request;
    int rc = inbox_put(crew->workers[route % crew->count].inbox, message);
    if (rc < 0) {
        atomic_fetch_sub(&crew->waiting_bytes, bytes);
        free(message);
    }
    return rc;
}

static int wait_for(struct job *job, uint64_t deadline_mono_ns)
{
    struct timespec until = {.tv_sec = (time_t)(deadline_mono_ns / CLOCK_NS_PER_S),
                             .tv_nsec = (long)(deadline_mono_ns % CLOCK_NS_PER_S)};
    int rc = 0;
    pthread_mutex_lock(&job->lock);
    while (job->pending_count > 0 && rc == 0)
        rc = pthread_cond_timedwait(&job->done, &job->lock, &until);
    rc = job->pending_count > 0 ? -ETIMEDOUT : 0;
    pthread_mutex_unlock(&job->lock);
    return rc;
}

int crew_ask(struct crew *crew, crew_run_fn run, void *ctx, crew_free_fn free_ctx, uint64_t deadline_mono_ns)
{
    struct job *job = job_new(run, ctx, free_ctx);
    job->pending_count = crew->count;
    atomic_fetch_add(&job->reference_count, crew->count);
    int rc = atomic_load(&crew->closing) ? -ECANCELED : 0;
    unsigned sent_count = 0;
    while (rc == 0 && sent_count < crew->count) {
        struct message *message = xcalloc(1, sizeof(*message));
        message->job = job;
        rc = inbox_put(crew->workers[sent_count].inbox, message);
        if (rc == 0)
            sent_count++;
        else
            free(message);
    }
    /* Those that will not see it; the asker's own reference keeps the job. */
    atomic_fetch_sub(&job->reference_count, crew->count - sent_count);
    if (rc == 0)
        rc = wait_for(job, deadline_mono_ns);
    if (rc == 0)
        job->ctx = NULL;
    else
        atomic_store(&job->abandoned, true);
    job_unref(job);
    return rc;
}

int crew_health(const struct crew *crew, uint64_t now_mono_ns, struct err *err)
{
    for (unsigned i = 0; i < crew->count; i++) {
        uint64_t progress_ns = atomic_load(&crew->workers[i].progress_ns);
        if (now_mono_ns > progress_ns && now_mono_ns - progress_ns > CREW_STUCK_MS * CLOCK_NS_PER_MS)
            return err_say(err, -ETIME, "worker %u made no progress for %llu s", i,
                           (unsigned long long)((now_mono_ns - progress_ns) / CLOCK_NS_PER_S));
    }
    return 0;
}
