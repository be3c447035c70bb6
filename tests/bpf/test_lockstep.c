/* Five jobs of 1 ms bursts at 97..101 Hz, sampled at 99 Hz for a minute: work in step with the clock. */
#include "tests/bpf/sampler_kit.h"

#include <math.h>

#define RUN_S     60
#define FIRST_HZ  97u
#define JOB_COUNT 5u

struct jobs {
    pid_t pids[JOB_COUNT];
    uint64_t weight_ns[JOB_COUNT];
    unsigned sample_count[JOB_COUNT];
};

static void burst(unsigned hz)
{
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (;;) {
        uint64_t end_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID) + CLOCK_NS_PER_MS;
        while (clock_read_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns)
            ;
        next.tv_nsec += 1000000000L / (long)hz;
        if (next.tv_nsec >= 1000000000L) {
            next.tv_nsec -= 1000000000L;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
}

static void on_sample(const struct sample_record *record, void *ctx)
{
    struct jobs *jobs = ctx;
    for (unsigned i = 0; i < JOB_COUNT; i++) {
        if (record->tgid != (uint32_t)jobs->pids[i])
            continue;
        jobs->weight_ns[i] += record->weight_ns;
        jobs->sample_count[i]++;
    }
}

static void on_event(const struct sampler_event *event, void *ctx)
{
    (void)event;
    (void)ctx;
}

static void bursts_in_step_with_the_clock_get_their_share(void **state)
{
    (void)state;
    struct jobs jobs = {0};
    struct sampler_handlers handlers = {.on_sample = on_sample, .on_event = on_event, .ctx = &jobs};
    struct sampler *sampler = kit_open(99, 0);
    for (unsigned i = 0; i < JOB_COUNT; i++)
        jobs.pids[i] = kit_fork(-1, burst, FIRST_HZ + i);
    kit_run(sampler, &handlers, RUN_S * CLOCK_NS_PER_S);
    uint64_t own_ns[JOB_COUNT];
    for (unsigned i = 0; i < JOB_COUNT; i++)
        own_ns[i] = kit_reap_ns(jobs.pids[i]);
    kit_finish(sampler, &handlers);
    sampler_close(sampler);

    bool good = true;
    for (unsigned i = 0; i < JOB_COUNT; i++) {
        double ratio = (double)jobs.weight_ns[i] / (double)own_ns[i];
        /* A job that other work of the machine starved has too few samples for 15 %: four standard deviations
         * then. */
        double count = jobs.sample_count[i], allowed = count < 500 ? 4 / sqrt(count) : 0.15;
        printf("# %u Hz bursts: own CPU time %.3f s, sampled %.3f s (%u samples), ratio %.3f, allowed %.3f\n",
               FIRST_HZ + i, (double)own_ns[i] / 1e9, (double)jobs.weight_ns[i] / 1e9, jobs.sample_count[i],
               ratio, allowed);
        good = good && count > 100 && fabs(ratio - 1) < allowed;
    }
    assert_true(good);
}

int main(void)
{
    int rc = kit_cannot_run();
    if (rc)
        return rc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bursts_in_step_with_the_clock_get_their_share),
    };
    return cmocka_run_group_tests_name("lockstep", tests, NULL, NULL);
}
