/* scripted_shard: a shard for tests of its agents: a real link_server that keeps exact books, recognises
 * batches it has, forgets sessions when it is restarted, and misbehaves as told. Threads: requests are
 * handled on nng's threads under the lock; the test reads and sets fields under it too. */
#ifndef TESTS_UNIT_SCRIPTED_SHARD_H
#define TESTS_UNIT_SCRIPTED_SHARD_H

#include "common/link.h"
#include "common/wire.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define SHARD_SEQUENCES  4096u
#define SHARD_HELD       256u
#define SHARD_WANTED_ID  "0123456789abcdef"
#define SHARD_LAST_GAUGE "test_gauge_count"

struct scripted_shard {
    pthread_mutex_t lock;
    struct link_server *server;
    char address[64];
    const char *fault; /* something an agent must never do */

    /* What survives a restart. */
    uint64_t boot_epoch, last_sequence;
    bool stored[SHARD_SEQUENCES];
    uint64_t samples, value, taken, lost, lost_queue_full, lost_refused, lost_ring_full, last_gauge;
    unsigned hello_count, batch_count, stored_count, duplicate_count, pack_count;
    unsigned acked_window_count; /* in the newest Hello */
    uint64_t acked_samples, acked_shard_epoch, next_sequence;

    /* This life. */
    uint64_t epoch, session;

    /* The script: numbers count down with each use. */
    bool silent;                     /* no batch is answered nor stored */
    unsigned swallow_count;          /* stored, but not answered */
    bool forgetful;                  /* Hello does not say what is stored */
    bool boastful;                   /* Hello says that everything is stored */
    uint64_t refuse_from, refuse_to; /* sequences */
    unsigned retry_count, retry_after_ms, no_session_count, garbage_count, mismatch_count, unreadable_count;
    unsigned hello_refuse_count, hello_garbage_count;
    uint8_t other_version; /* of the wire: answers everything so */
    bool wants;
    bool hold_packs;
    Fleetprof__Verdict pack_verdict;

    struct link_request *held[SHARD_HELD]; /* silent, swallowed and held packs */
    unsigned held_count, held_pack_count;
};

/* On a free port at first, on the same one afterwards. The mutex is made by the test. 0 or a negative errno.
 */
int scripted_shard_start(struct scripted_shard *shard);
void scripted_shard_stop(struct scripted_shard *shard);
/* Answers everything that is held with the pack verdict. */
void scripted_shard_release_packs(struct scripted_shard *shard);

#endif
