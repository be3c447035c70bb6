#include "aggregator/peers.h"

#include "common/clock.h"
#include "common/hashring.h"
#include "common/link.h"
#include "common/xalloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct peers {
    size_t count, self;
    char **addresses;
    struct link_client **clients; /* NULL for self */
    _Atomic uint64_t *refused_ns; /* when nobody could be connected to there, 0 = not lately */
};

int peers_open(const char *const *addresses, size_t count, size_t self, struct peers **ret_peers,
               struct err *err)
{
    if (count == 0 || count > PEERS_MAX || self >= count)
        return err_say(err, -EINVAL, "1 to %u shards", PEERS_MAX);
    struct peers *peers = xcalloc(1, sizeof(*peers));
    peers->count = count;
    peers->self = self;
    peers->addresses = xcalloc(count, sizeof(char *));
    peers->clients = xcalloc(count, sizeof(struct link_client *));
    peers->refused_ns = xcalloc(count, sizeof(*peers->refused_ns));
    for (size_t i = 0; i < count; i++)
        peers->addresses[i] = xstrdup(addresses[i]);
    for (size_t i = 0; i < count; i++) {
        int rc = i == self ? 0 : link_client_open(addresses[i], &peers->clients[i], err);
        if (rc < 0) {
            peers_close(peers);
            return rc;
        }
    }
    *ret_peers = peers;
    return 0;
}

void peers_close(struct peers *peers)
{
    if (!peers)
        return;
    for (size_t i = 0; i < peers->count; i++) {
        if (peers->clients[i])
            link_client_close(peers->clients[i]);
        free(peers->addresses[i]);
    }
    free(peers->addresses);
    free(peers->clients);
    free(peers->refused_ns);
    free(peers);
}

size_t peers_count(const struct peers *peers)
{
    return peers->count;
}

size_t peers_self(const struct peers *peers)
{
    return peers->self;
}

const char *peers_address(const struct peers *peers, size_t shard)
{
    return peers->addresses[shard];
}

const char *const *peers_addresses(const struct peers *peers)
{
    return (const char *const *)peers->addresses;
}

size_t peers_keeper(const struct peers *peers, const void *executable_id, size_t bytes)
{
    return hashring_pick(executable_id, bytes, peers_addresses(peers), peers->count);
}

/* ---- gather ---- */

/* Lives until the asker and every call under way have let go of it. */
struct gather {
    pthread_mutex_t lock;
    pthread_cond_t arrived;
    unsigned reference_count, waiting_count;
    bool left; /* the asker is gone: nobody reads replies */
    uint64_t deadline_mono_ns;
    struct gather_slot {
        struct gather *gather;
        _Atomic uint64_t *refused_ns;
        int rc;
        void *data;
        size_t bytes;
    } slots[PEERS_MAX];
};

static void unlock_and_unref(struct gather *gather)
{
    bool last = --gather->reference_count == 0;
    pthread_mutex_unlock(&gather->lock);
    if (!last)
        return;
    for (size_t i = 0; i < PEERS_MAX; i++)
        free(gather->slots[i].data);
    pthread_cond_destroy(&gather->arrived);
    pthread_mutex_destroy(&gather->lock);
    free(gather);
}

static void on_reply(int rc, const void *data, size_t bytes, void *ctx)
{
    struct gather_slot *slot = ctx;
    struct gather *gather = slot->gather;
    atomic_store(slot->refused_ns, rc == -ECONNREFUSED ? clock_mono_ns() : 0);
    pthread_mutex_lock(&gather->lock);
    if (!gather->left) {
        slot->rc = rc;
        if (rc == 0) {
            slot->data = xmemdup_text(data, bytes);
            slot->bytes = bytes;
        }
    }
    gather->waiting_count--;
    pthread_cond_signal(&gather->arrived);
    unlock_and_unref(gather);
}

static int remaining_ms(uint64_t deadline_mono_ns)
{
    uint64_t now_ns = clock_mono_ns();
    return deadline_mono_ns <= now_ns ? 1 : (int)((deadline_mono_ns - now_ns) / CLOCK_NS_PER_MS) + 1;
}

static int time_for(const struct peers *peers, size_t shard, uint64_t deadline_mono_ns)
{
    uint64_t refused_ns = atomic_load(&peers->refused_ns[shard]);
    int left_ms = remaining_ms(deadline_mono_ns);
    bool down = refused_ns && clock_mono_ns() < refused_ns + PEERS_REMEMBER_MS * CLOCK_NS_PER_MS;
    return down && left_ms > PEERS_DOWN_MS ? PEERS_DOWN_MS : left_ms;
}

struct gather *gather_send(struct peers *peers, uint64_t mask, const struct buf *message,
                           uint64_t deadline_mono_ns)
{
    struct gather *gather = xcalloc(1, sizeof(*gather));
    pthread_mutex_init(&gather->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&gather->arrived, &attr);
    pthread_condattr_destroy(&attr);
    gather->reference_count = 1;
    gather->deadline_mono_ns = deadline_mono_ns;
    for (size_t i = 0; i < peers->count; i++) {
        struct gather_slot *slot = &gather->slots[i];
        slot->gather = gather;
        slot->refused_ns = &peers->refused_ns[i];
        slot->rc = -ECANCELED;
        if (!(mask >> i & 1) || !peers->clients[i])
            continue;
        pthread_mutex_lock(&gather->lock);
        gather->reference_count++;
        gather->waiting_count++;
        pthread_mutex_unlock(&gather->lock);
        int rc = link_call(peers->clients[i], message->data, message->used_bytes,
                           time_for(peers, i, deadline_mono_ns), on_reply, slot);
        if (rc < 0)
            on_reply(rc, NULL, 0, slot);
    }
    return gather;
}

void gather_wait(struct gather *gather)
{
    struct timespec until = {.tv_sec = (time_t)(gather->deadline_mono_ns / CLOCK_NS_PER_S),
                             .tv_nsec = (long)(gather->deadline_mono_ns % CLOCK_NS_PER_S)};
    int rc = 0;
    pthread_mutex_lock(&gather->lock);
    while (gather->waiting_count > 0 && rc == 0)
        rc = pthread_cond_timedwait(&gather->arrived, &gather->lock, &until);
    gather->left = true;
    pthread_mutex_unlock(&gather->lock);
}

int gather_reply(const struct gather *gather, size_t shard, const void **ret_data, size_t *ret_bytes)
{
    const struct gather_slot *slot = &gather->slots[shard];
    if (slot->rc < 0)
        return slot->rc;
    *ret_data = slot->data;
    *ret_bytes = slot->bytes;
    return 0;
}

void gather_free(struct gather *gather)
{
    if (!gather)
        return;
    pthread_mutex_lock(&gather->lock);
    gather->left = true;
    unlock_and_unref(gather);
}

int peers_call(struct peers *peers, size_t shard, const struct buf *message, int timeout_ms, void **ret_data,
               size_t *ret_bytes)
{
    if (!peers->clients[shard])
        return -EINVAL;
    return link_call_wait(peers->clients[shard], message->data, message->used_bytes, timeout_ms, ret_data,
                          ret_bytes);
}
