#include "aggregator/crew.h"

#include "common/clock.h"
#include "common/xalloc.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORKERS 3u

static struct crew *open_crew(struct symbol_packs *packs)
{
    struct crew_settings settings = {
        .worker_count = WORKERS,
        .partition = {.shard = "here",
                      .nodes = 10,
                      .window_bytes = 3u << 20,
                      .retention_ms = 60000,
                      .dictionary = {3000, 300, 3000, 3000, 3000, 300, 1u << 20}}};
    return crew_open(&settings, packs);
}

static uint64_t in_ms(uint64_t ms)
{
    return clock_mono_ns() + ms * CLOCK_NS_PER_MS;
}

struct visits {
    atomic_uint by_index[WORKERS];
    struct partition *partitions[WORKERS];
};

static void visit(struct partition *partition, unsigned index, void *ctx)
{
    struct visits *visits = ctx;
    atomic_fetch_add(&visits->by_index[index], 1);
    visits->partitions[index] = partition;
}

static void a_job_runs_once_on_every_partition(void **state)
{
    (void)state;
    struct symbol_packs *packs = symbol_packs_new(1u << 20);
    struct crew *crew = open_crew(packs);
    struct visits *visits = xcalloc(1, sizeof(*visits));
    for (unsigned i = 1; i <= 100; i++)
        assert_int_equal(crew_ask(crew, visit, visits, free, in_ms(20000)), 0);
    for (unsigned i = 0; i < WORKERS; i++) {
        assert_int_equal(atomic_load(&visits->by_index[i]), 100);
        assert_int_equal(visits->partitions[i]->settings.index, i);
        assert_int_equal(visits->partitions[i]->settings.window_bytes, 1u << 20); /* a third */
    }
    free(visits);
    crew_stop(crew);
    crew_free(crew);
    symbol_packs_free(packs);
}

struct blocker {
    sem_t entered, go_on;
    atomic_uint freed_count;
};

/* What the job owns: it must live until the last worker is through with it. */
struct blocking {
    struct blocker *blocker;
    char written[WORKERS];
};

static void block_first(struct partition *partition, unsigned index, void *ctx)
{
    (void)partition;
    struct blocking *blocking = ctx;
    if (index == 0) {
        sem_post(&blocking->blocker->entered);
        sem_wait(&blocking->blocker->go_on);
    }
    blocking->written[index] = 1;
}

static void free_blocking(void *ctx)
{
    struct blocking *blocking = ctx;
    atomic_fetch_add(&blocking->blocker->freed_count, 1);
    free(blocking);
}

static void an_asker_that_left_frees_nothing_under_a_worker(void **state)
{
    (void)state;
    struct symbol_packs *packs = symbol_packs_new(1u << 20);
    struct crew *crew = open_crew(packs);
    struct blocker blocker = {0};
    sem_init(&blocker.entered, 0, 0);
    sem_init(&blocker.go_on, 0, 0);
    struct blocking *blocking = xcalloc(1, sizeof(*blocking));
    blocking->blocker = &blocker;
    assert_int_equal(crew_ask(crew, block_first, blocking, free_blocking, in_ms(300)), -ETIMEDOUT);
    sem_wait(&blocker.entered);
    assert_int_equal(atomic_load(&blocker.freed_count), 0);
    /* The next question waits in the same inbox and leaves too; the worker will skip it. */
    struct visits *visits = xcalloc(1, sizeof(*visits));
    assert_int_equal(crew_ask(crew, visit, visits, free, in_ms(50)), -ETIMEDOUT);
    struct err err = {0};
    assert_int_equal(crew_health(crew, clock_mono_ns() + (CREW_STUCK_MS + 1000) * CLOCK_NS_PER_MS, &err),
                     -ETIME);
    assert_non_null(strstr(err.text, "worker 0"));
    sem_post(&blocker.go_on);
    visits = xcalloc(1, sizeof(*visits));
    assert_int_equal(crew_ask(crew, visit, visits, free, in_ms(20000)), 0);
    free(visits);
    assert_int_equal(atomic_load(&blocker.freed_count), 1);
    assert_int_equal(crew_health(crew, clock_mono_ns(), NULL), 0);
    crew_stop(crew);
    visits = xcalloc(1, sizeof(*visits));
    assert_int_equal(crew_ask(crew, visit, visits, free, in_ms(50)), -ECANCELED);
    crew_free(crew);
    sem_destroy(&blocker.entered);
    sem_destroy(&blocker.go_on);
    symbol_packs_free(packs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_runs_once_on_every_partition),
        cmocka_unit_test(an_asker_that_left_frees_nothing_under_a_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
