#include "common/clock.h"
#include "node-agent/patience.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <unistd.h>

#define LONG_MS 20000u

/* A job that waits at a gate the way a read of a hung file would. */
struct gated {
    struct patience_job job;
    sem_t *gate, *discarded;
    int done;
};

static void pass(struct patience_job *job)
{
    struct gated *gated = (struct gated *)job;
    if (gated->gate)
        sem_wait(gated->gate);
    gated->done = 1;
}

static void discard(struct patience_job *job)
{
    struct gated *gated = (struct gated *)job;
    sem_t *discarded = gated->discarded;
    free(gated);
    sem_post(discarded);
}

static struct gated *gated_new(sem_t *gate, sem_t *discarded)
{
    struct gated *gated = calloc(1, sizeof(*gated));
    assert_non_null(gated);
    *gated = (struct gated){.job = {pass, discard}, .gate = gate, .discarded = discarded};
    return gated;
}

static void a_job_that_ends_is_the_callers_again(void **state)
{
    (void)state;
    struct patience *patience = patience_new();
    struct gated *gated = gated_new(NULL, NULL);
    for (int i = 0; i < 1000; i++) {
        gated->done = 0;
        assert_int_equal(patience_run(patience, &gated->job, LONG_MS), 0);
        assert_int_equal(gated->done, 1);
    }
    assert_int_equal(patience_left_count(patience), 0);
    free(gated);
    patience_free(patience);
}

static void a_job_that_hangs_is_left_behind_and_freed_when_it_comes_back(void **state)
{
    (void)state;
    sem_t gate, discarded;
    sem_init(&gate, 0, 0);
    sem_init(&discarded, 0, 0);
    struct patience *patience = patience_new();
    uint64_t before_ns = clock_mono_ns();
    assert_int_equal(patience_run(patience, &gated_new(&gate, &discarded)->job, 30), -ETIMEDOUT);
    assert_true(clock_mono_ns() - before_ns >= 30 * CLOCK_NS_PER_MS);
    assert_int_equal(patience_left_count(patience), 1);

    struct gated *next = gated_new(NULL, NULL); /* others get on */
    assert_int_equal(patience_run(patience, &next->job, LONG_MS), 0);
    free(next);

    sem_post(&gate);
    sem_wait(&discarded);
    for (unsigned i = 0; patience_left_count(patience) > 0; i++) {
        assert_true(i < LONG_MS);
        usleep(1000);
    }
    patience_free(patience);
    sem_destroy(&gate);
    sem_destroy(&discarded);
}

static void no_more_than_the_limit_hang_and_all_can_outlive_it(void **state)
{
    (void)state;
    static sem_t gate, discarded; /* the threads may still be inside sem_post when this returns */
    sem_init(&gate, 0, 0);
    sem_init(&discarded, 0, 0);
    struct patience *patience = patience_new();
    for (unsigned i = 0; i < PATIENCE_MAX_LEFT; i++)
        assert_int_equal(patience_run(patience, &gated_new(&gate, &discarded)->job, 1), -ETIMEDOUT);
    struct gated *refused = gated_new(&gate, &discarded);
    assert_int_equal(patience_run(patience, &refused->job, 1), -EBUSY);
    free(refused);
    patience_free(patience); /* waits for none of them */
    for (unsigned i = 0; i < PATIENCE_MAX_LEFT; i++)
        sem_post(&gate);
    for (unsigned i = 0; i < PATIENCE_MAX_LEFT; i++)
        sem_wait(&discarded);
}

static void one_that_was_never_used_has_no_thread_to_end(void **state)
{
    (void)state;
    patience_free(patience_new());
    patience_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_ends_is_the_callers_again),
        cmocka_unit_test(a_job_that_hangs_is_left_behind_and_freed_when_it_comes_back),
        cmocka_unit_test(no_more_than_the_limit_hang_and_all_can_outlive_it),
        cmocka_unit_test(one_that_was_never_used_has_no_thread_to_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
