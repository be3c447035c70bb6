/* Included by the tests of the shipper: one agent's shipper on a loop, its scripted shard, and the books of
 * what was put.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "node-agent/shipper.h"
#include "tests/unit/scripted_shard.c"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PLENTY_BYTES (64u << 20)
#define LIMIT_S      60 /* for what must happen: generous, the machine may be busy */
#define SHORT_MS     300

struct fixture {
    struct scripted_shard shard;
    uv_loop_t loop;
    struct shipper *shipper;
    unsigned windows_put;
    uint64_t samples_put, taken_put, value_put;
    unsigned want_count, pack_done_count, flushed_count;
    int last_pack_rc;
    bool close_when_flushed;
};

static size_t give_gauges(struct shipper_gauge *out, size_t room, void *ctx)
{
    (void)ctx;
    assert_true(room >= 1);
    out[0] = (struct shipper_gauge){SHARD_LAST_GAUGE, 4711};
    return 1;
}

static void on_want(const void *id, size_t id_bytes, void *ctx)
{
    struct fixture *f = ctx;
    assert_int_equal(id_bytes, 16);
    assert_memory_equal(id, SHARD_WANTED_ID, 16);
    f->want_count++;
}

static void open_shipper(struct fixture *f, uint64_t queue_bytes, unsigned call_ms)
{
    const char *shards[] = {f->shard.address};
    const struct shipper_settings settings = {
        .node = "node-1",
        .shards = shards,
        .shard_count = 1,
        .queue_bytes = queue_bytes,
        .call_ms = call_ms,
        .event = "cpu-clock",
        .hz = 99,
        .cpus = 2,
    };
    struct err err = {0};
    if (shipper_open(&f->loop, &settings, give_gauges, on_want, f, &f->shipper, &err) < 0)
        fail_msg("%s", err.text);
}

static struct fixture *set_up(void)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    pthread_mutex_init(&f->shard.lock, NULL);
    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(scripted_shard_start(&f->shard), 0);
    return f;
}

static void tear_down(struct fixture *f)
{
    shipper_close(f->shipper);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    if (f->shard.server)
        scripted_shard_stop(&f->shard);
    pthread_mutex_destroy(&f->shard.lock);
    if (f->shard.fault)
        fail_msg("the agent did what it must not: %s", f->shard.fault);
    free(f);
}

static void run_for(struct fixture *f, uint64_t ms)
{
    uint64_t end_ns = clock_mono_ns() + ms * CLOCK_NS_PER_MS;
    while (clock_mono_ns() < end_ns) {
        uv_run(&f->loop, UV_RUN_NOWAIT);
        struct timespec pause = {.tv_nsec = 500000};
        nanosleep(&pause, NULL);
    }
}

/* Runs the loop until condition (looked at under the shard's lock) holds. */
#define RUN_UNTIL(f, condition)                                                                              \
    do {                                                                                                     \
        uint64_t end_ns_ = clock_mono_ns() + LIMIT_S * CLOCK_NS_PER_S;                                       \
        for (bool done_ = false; !done_;) {                                                                  \
            run_for((f), 1);                                                                                 \
            pthread_mutex_lock(&(f)->shard.lock);                                                            \
            done_ = (condition);                                                                             \
            pthread_mutex_unlock(&(f)->shard.lock);                                                          \
            if (!done_ && clock_mono_ns() > end_ns_)                                                         \
                fail_msg("not within %d s: %s", LIMIT_S, #condition);                                        \
        }                                                                                                    \
    } while (0)

/* Tells the shard something while it runs. */
#define SCRIPT(f, statement)                                                                                 \
    do {                                                                                                     \
        pthread_mutex_lock(&(f)->shard.lock);                                                                \
        statement;                                                                                           \
        pthread_mutex_unlock(&(f)->shard.lock);                                                              \
    } while (0)

/* One window: samples in a few stacks, some of them new, some as in the window before, and 3 lost ones. */
static void put_window(struct fixture *f)
{
    unsigned n = f->windows_put++;
    struct tally_window *window = xcalloc(1, sizeof(*window));
    window->set = stackset_new(&STACKSET_DEFAULT_LIMITS);
    window->start_ms = clock_wall_ns() / CLOCK_NS_PER_MS;
    window->window_ms = 10000;
    struct stackset_label label = {stackset_cstring(window->set, "process"),
                                   stackset_cstring(window->set, "test")};
    uint32_t series = stackset_series(window->set, &label, 1);
    for (unsigned i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof(name), "function_%u", n + i);
        uint32_t string = stackset_cstring(window->set, name);
        uint32_t frame = stackset_frame(window->set, FRAME_KERNEL, string, 0, 0);
        uint32_t node = stackset_node(window->set, STACKSET_ROOT, frame);
        stackset_add(window->set, series, node, 10101 * (i + 1), i + 1);
        window->taken_count += i + 1;
        f->value_put += 10101 * (i + 1);
    }
    f->samples_put += window->taken_count;
    window->lost_count[TALLY_LOSS_ring_full] = 3;
    window->taken_count += 3;
    f->taken_put += window->taken_count;
    shipper_put(f->shipper, window);
}

static void put_windows(struct fixture *f, unsigned count)
{
    while (count-- > 0) {
        put_window(f);
        uv_run(&f->loop, UV_RUN_NOWAIT);
    }
}

static bool all_settled(const struct fixture *f)
{
    struct shipper_ledger ledger = shipper_ledger(f->shipper);
    return ledger.put_samples == f->samples_put && ledger.waiting_samples == 0;
}

static void assert_ledger_balances(const struct fixture *f)
{
    struct shipper_ledger ledger = shipper_ledger(f->shipper);
    assert_int_equal(ledger.put_samples, ledger.acked_samples + ledger.waiting_samples + ledger.lost_samples);
}

/* Nothing lost, nothing twice: the shard's sums are those that were put, and the agent knows it. */
static void assert_all_stored_once(struct fixture *f)
{
    struct shipper_ledger ledger = shipper_ledger(f->shipper);
    assert_int_equal(ledger.put_samples, f->samples_put);
    assert_int_equal(ledger.acked_samples, f->samples_put);
    assert_int_equal(ledger.lost_samples, 0);
    assert_int_equal(ledger.waiting_bytes, 0);
    assert_int_equal(ledger.acked_batches, f->windows_put);
    SCRIPT(f, {
        assert_int_equal(f->shard.samples, f->samples_put);
        assert_int_equal(f->shard.value, f->value_put);
        assert_int_equal(f->shard.taken, f->taken_put);
        assert_int_equal(f->shard.lost_ring_full, 3 * f->windows_put);
        assert_int_equal(f->shard.stored_count, f->windows_put);
    });
}
