/* The collector with a scripted sampler in the real one's place. */
#include "common/clock.h"
#include "node-agent/collector.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_MS 20000u

/* What the scripted sampler does; one test at a time. */
static struct script {
    _Atomic unsigned poll_count;
    _Atomic int poll_rc; /* of every poll */
    _Atomic uint64_t bad_sample_count, ring_full_count;
    _Atomic bool stopped;
} script;

struct sampler {
    struct script *script;
};

int sampler_open(const struct sampler_settings *settings, struct sampler **ret_sampler, struct err *err)
{
    (void)settings;
    (void)err;
    *ret_sampler = calloc(1, sizeof(**ret_sampler));
    assert_non_null(*ret_sampler);
    (*ret_sampler)->script = &script;
    return 0;
}

int sampler_poll(struct sampler *sampler, const struct sampler_handlers *handlers, struct err *err)
{
    struct sample_record record = {.time_ns = clock_mono_ns(), .weight_ns = 1000000, .tid = 1, .tgid = 1};
    int rc = atomic_load(&sampler->script->poll_rc);
    handlers->on_sample(&record, handlers->ctx);
    atomic_fetch_add(&sampler->script->poll_count, 1);
    return rc < 0 ? err_say(err, rc, "scripted") : 0;
}

unsigned sampler_poll_delay_ms(struct sampler *sampler)
{
    (void)sampler;
    return 1;
}

int sampler_counters(const struct sampler *sampler, uint64_t counters[SAMPLE_COUNTER_COUNT], struct err *err)
{
    (void)err;
    memset(counters, 0, SAMPLE_COUNTER_COUNT * sizeof(uint64_t));
    counters[SAMPLE_COUNTER_lost_ring_full] = atomic_load(&sampler->script->ring_full_count);
    return 0;
}

uint64_t sampler_bad_sample_count(const struct sampler *sampler)
{
    return atomic_load(&sampler->script->bad_sample_count);
}

void sampler_stop(struct sampler *sampler)
{
    atomic_store(&sampler->script->stopped, true);
}

void sampler_close(struct sampler *sampler)
{
    free(sampler);
}

void sampler_set_hz(struct sampler *sampler, unsigned hz)
{
    (void)sampler;
    (void)hz;
}

unsigned sampler_hz(const struct sampler *sampler)
{
    (void)sampler;
    return 99;
}

unsigned sampler_cpu_count(const struct sampler *sampler)
{
    (void)sampler;
    return 1;
}

unsigned sampler_cpu_absent_count(const struct sampler *sampler)
{
    (void)sampler;
    return 3;
}

const char *sampler_event_name(const struct sampler *sampler)
{
    (void)sampler;
    return "scripted";
}

void sampler_bpf_cost(const struct sampler *sampler, uint64_t *ret_run_ns, uint64_t *ret_run_count)
{
    (void)sampler;
    *ret_run_ns = *ret_run_count = 0;
}

/* Sums over all windows; read after collector_stop. */
struct sums {
    uint64_t taken_count, lost_count[TALLY_LOSS_COUNT];
    unsigned window_count;
};

static void on_window(struct tally_window *window, void *ctx)
{
    struct sums *sums = ctx;
    sums->taken_count += window->taken_count;
    for (int i = 0; i < TALLY_LOSS_COUNT; i++)
        sums->lost_count[i] += window->lost_count[i];
    sums->window_count++;
    tally_window_free(window);
}

struct scene {
    struct images *images;
    struct collector *collector;
    struct sums sums;
};

static int set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));
    const struct collector_settings settings = {
        .node = "node", .window_ms = 60000, .sampler = {.hz = 99, .event = "cpu-clock"}};
    memset((void *)&script, 0, sizeof(script));
    scene->images = images_new();
    assert_int_equal(
        collector_open(&settings, scene->images, on_window, &scene->sums, &scene->collector, NULL), 0);
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    collector_close(scene->collector);
    images_free(scene->images);
    free(scene);
    return 0;
}

/* Until the collector has polled so many times more. */
static void wait_for_polls(unsigned count)
{
    unsigned until = atomic_load(&script.poll_count) + count;
    for (unsigned waited_ms = 0; atomic_load(&script.poll_count) < until; waited_ms++) {
        assert_true(waited_ms < WAIT_MS);
        usleep(1000);
    }
}

static void every_sample_is_in_a_window_and_the_last_one_comes_with_the_stop(void **state)
{
    struct scene *scene = *state;
    wait_for_polls(3);
    collector_stop(scene->collector);
    assert_true(atomic_load(&script.stopped));
    assert_true(scene->sums.window_count >= 1);
    assert_int_equal(scene->sums.taken_count, atomic_load(&script.poll_count));
}

static void records_that_make_no_sense_end_nothing_and_are_counted(void **state)
{
    struct scene *scene = *state;
    atomic_store(&script.bad_sample_count, 2);
    atomic_store(&script.poll_rc, -EBADMSG);
    wait_for_polls(3);
    assert_true(collector_idle_ms(scene->collector) < WAIT_MS / 2);
    atomic_store(&script.poll_rc, 0);
    wait_for_polls(2);
    assert_int_equal(collector_figures(scene->collector).lost[TALLY_LOSS_bad_record], 2);
    collector_stop(scene->collector);
    assert_int_equal(scene->sums.lost_count[TALLY_LOSS_bad_record], 2);
    assert_int_equal(scene->sums.taken_count, atomic_load(&script.poll_count) + 2);
}

static void losses_in_the_kernel_are_in_the_ledger_once(void **state)
{
    struct scene *scene = *state;
    atomic_store(&script.ring_full_count, 7);
    wait_for_polls(3);
    atomic_store(&script.ring_full_count, 9);
    wait_for_polls(3);
    collector_stop(scene->collector);
    assert_int_equal(scene->sums.lost_count[TALLY_LOSS_ring_full], 9);
    assert_int_equal(scene->sums.taken_count, atomic_load(&script.poll_count) + 9);
    struct collector_figures figures = collector_figures(scene->collector);
    assert_int_equal(figures.lost[TALLY_LOSS_ring_full], 9);
    assert_int_equal(figures.cpu_absent_count, 3);
}

static void a_poll_that_fails_ends_sampling_and_shows_in_the_idle_time(void **state)
{
    struct scene *scene = *state;
    wait_for_polls(1);
    atomic_store(&script.poll_rc, -EIO);
    for (unsigned waited_ms = 0; collector_idle_ms(scene->collector) < 300; waited_ms++) {
        assert_true(waited_ms < WAIT_MS);
        usleep(1000);
    }
    collector_stop(scene->collector); /* of a thread that has ended already */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_sample_is_in_a_window_and_the_last_one_comes_with_the_stop),
        TEST(records_that_make_no_sense_end_nothing_and_are_counted),
        TEST(losses_in_the_kernel_are_in_the_ledger_once),
        TEST(a_poll_that_fails_ends_sampling_and_shows_in_the_idle_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
