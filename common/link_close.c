#include "common/link_close.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/xalloc.h"

#include <pthread.h>
#include <stdlib.h>

/* Belongs to both threads; the last of the two frees it. */
struct closing {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    nng_socket socket;
    bool done, left;
};

static void closing_free(struct closing *closing)
{
    pthread_cond_destroy(&closing->ended);
    pthread_mutex_destroy(&closing->lock);
    free(closing);
}

static void *run(void *ctx)
{
    struct closing *closing = ctx;
    nng_close(closing->socket);
    pthread_mutex_lock(&closing->lock);
    closing->done = true;
    bool left = closing->left;
    pthread_cond_signal(&closing->ended);
    pthread_mutex_unlock(&closing->lock);
    if (left)
        closing_free(closing);
    return NULL;
}

static struct closing *closing_new(nng_socket socket)
{
    struct closing *closing = xcalloc(1, sizeof(*closing));
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&closing->ended, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&closing->lock, NULL);
    closing->socket = socket;
    return closing;
}

bool link_close(nng_socket socket)
{
    struct closing *closing = closing_new(socket);
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, closing) != 0) {
        closing_free(closing);
        nng_close(socket);
        return true;
    }
    uint64_t until_ns = clock_mono_ns() + LINK_CLOSE_MS * CLOCK_NS_PER_MS;
    const struct timespec until = {.tv_sec = (time_t)(until_ns / CLOCK_NS_PER_S),
                                   .tv_nsec = (long)(until_ns % CLOCK_NS_PER_S)};
    pthread_mutex_lock(&closing->lock);
    while (!closing->done && clock_mono_ns() < until_ns)
        pthread_cond_timedwait(&closing->ended, &closing->lock, &until);
    bool done = closing->done;
    closing->left = !done;
    pthread_mutex_unlock(&closing->lock);
    if (done) {
        pthread_join(thread, NULL);
        closing_free(closing);
    } else {
        pthread_detach(thread);
        log_warn("a connection did not close within %u ms; it is left to itself", LINK_CLOSE_MS);
    }
    return done;
}
