#include "common/inbox.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/xalloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct inbox {
    pthread_mutex_t lock;
    pthread_cond_t filled; /* thread kind; waits on CLOCK_MONOTONIC */
    void **ring;
    size_t limit_count, first, count;
    bool woken;
    /* Loop kind; the owner's thread only. */
    bool has_loop, closing;
    uv_async_t async;
    inbox_message_fn on_message;
    void *ctx;
};

static struct inbox *inbox_new(size_t limit_count)
{
    struct inbox *inbox = xcalloc(1, sizeof(*inbox));
    inbox->limit_count = limit_count ? limit_count : 1;
    inbox->ring = xcalloc(inbox->limit_count, sizeof(*inbox->ring));
    pthread_mutex_init(&inbox->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&inbox->filled, &attr);
    pthread_condattr_destroy(&attr);
    return inbox;
}

static void inbox_free(struct inbox *inbox)
{
    pthread_cond_destroy(&inbox->filled);
    pthread_mutex_destroy(&inbox->lock);
    free(inbox->ring);
    free(inbox);
}

static void *take_locked(struct inbox *inbox)
{
    if (inbox->count == 0)
        return NULL;
    void *message = inbox->ring[inbox->first];
    inbox->first = (inbox->first + 1) % inbox->limit_count;
    inbox->count--;
    return message;
}

static void *take(struct inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    void *message = take_locked(inbox);
    pthread_mutex_unlock(&inbox->lock);
    return message;
}

/* One wake-up may stand for many messages (libuv merges them), and messages may arrive while it runs: what
 * was inside at the start is handed over, the rest is left to another wake-up so that the loop's other
 * handles get their turn. */
static void on_async(uv_async_t *async)
{
    struct inbox *inbox = async->data;
    size_t turns = inbox_count(inbox);
    while (turns-- > 0 && !inbox->closing) {
        void *message = take(inbox);
        if (!message)
            return;
        inbox->on_message(message, inbox->ctx);
    }
    if (!inbox->closing && inbox_count(inbox) > 0)
        uv_async_send(&inbox->async);
}

struct inbox *inbox_open_loop(uv_loop_t *loop, size_t limit_count, inbox_message_fn on_message, void *ctx)
{
    struct inbox *inbox = inbox_new(limit_count);
    inbox->has_loop = true;
    inbox->on_message = on_message;
    inbox->ctx = ctx;
    int rc = uv_async_init(loop, &inbox->async, on_async);
    if (rc < 0) { /* only out of descriptors, at start-up */
        log_error("inbox: %s", uv_strerror(rc));
        abort();
    }
    inbox->async.data = inbox;
    return inbox;
}

struct inbox *inbox_open_thread(size_t limit_count)
{
    return inbox_new(limit_count);
}

int inbox_put(struct inbox *inbox, void *message)
{
    pthread_mutex_lock(&inbox->lock);
    if (inbox->count == inbox->limit_count) {
        pthread_mutex_unlock(&inbox->lock);
        return -EAGAIN;
    }
    inbox->ring[(inbox->first + inbox->count) % inbox->limit_count] = message;
    inbox->count++;
    /* Inside the lock: the owner must not be able to take the message and close the inbox before the wake-up
     * is out. */
    if (inbox->has_loop)
        uv_async_send(&inbox->async);
    else
        pthread_cond_signal(&inbox->filled);
    pthread_mutex_unlock(&inbox->lock);
    return 0;
}

void *inbox_wait(struct inbox *inbox, int timeout_ms)
{
    struct timespec until = {0};
    if (timeout_ms >= 0) {
        uint64_t at_ns = clock_mono_ns() + (uint64_t)timeout_ms * CLOCK_NS_PER_MS;
        until.tv_sec = (time_t)(at_ns / CLOCK_NS_PER_S);
        until.tv_nsec = (long)(at_ns % CLOCK_NS_PER_S);
    }
    pthread_mutex_lock(&inbox->lock);
    int rc = 0;
    while (inbox->count == 0 && !inbox->woken && rc != ETIMEDOUT) {
        if (timeout_ms < 0)
            pthread_cond_wait(&inbox->filled, &inbox->lock);
        else
            rc = pthread_cond_timedwait(&inbox->filled, &inbox->lock, &until);
    }
    void *message = inbox->woken ? NULL : take_locked(inbox);
    inbox->woken = false;
    pthread_mutex_unlock(&inbox->lock);
    return message;
}

void inbox_wake(struct inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    inbox->woken = true;
    pthread_cond_signal(&inbox->filled);
    pthread_mutex_unlock(&inbox->lock);
}

size_t inbox_count(struct inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    size_t count = inbox->count;
    pthread_mutex_unlock(&inbox->lock);
    return count;
}

static void on_closed(uv_handle_t *handle)
{
    inbox_free(handle->data);
}

void inbox_close(struct inbox *inbox, inbox_message_fn on_left, void *ctx)
{
    if (!inbox)
        return;
    for (void *message; (message = take(inbox)) != NULL;)
        if (on_left)
            on_left(message, ctx);
    if (!inbox->has_loop) {
        inbox_free(inbox);
        return;
    }
    inbox->closing = true;
    uv_close((uv_handle_t *)&inbox->async, on_closed);
}
