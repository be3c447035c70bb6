#include "node-agent/collector.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/xalloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SCAN_BUDGET_MS 300u

struct collector {
    struct sampler *sampler;
    struct processes *processes;
    struct kallsyms *kallsyms;
    struct tally *tally;
    collector_window_fn on_window;
    void *ctx;

    pthread_t thread;
    bool thread_started;
    pthread_mutex_t lock; /* of stopping and figures */
    pthread_cond_t wake;
    bool stopping;
    struct collector_figures figures;
    _Atomic uint64_t progress_ns;

    uint64_t counted[TALLY_LOSS_COUNT]; /* losses before the tally that are in a window's ledger already */
    uint64_t truncated_count;
    uint64_t next_expire_ns;
    bool hidden_told;
    struct log_limit bad_limit;
};

static void on_sample(const struct sample_record *record, void *ctx)
{
    struct collector *collector = ctx;
    tally_sample(collector->tally, record);
}

static void on_event(const struct sampler_event *event, void *ctx)
{
    struct collector *collector = ctx;
    if (event->type != SAMPLER_KSYMBOL) {
        processes_event(collector->processes, event);
        return;
    }
    if (event->ksymbol.removed)
        kallsyms_remove(collector->kallsyms, event->ksymbol.address);
    else
        kallsyms_add(collector->kallsyms, event->ksymbol.address, event->ksymbol.bytes,
                     event->ksymbol.symbol);
}

static void count_growth(struct collector *collector, enum tally_loss cause, uint64_t total)
{
    tally_lost(collector->tally, cause, total - collector->counted[cause]);
    collector->counted[cause] = total;
}

/* Losses before the tally have no sample to count: the counters' growth goes into the ledger of the window in
 * which it is seen. */
static int count_losses(struct collector *collector, struct collector_figures *figures, struct err *err)
{
    int rc = sampler_counters(collector->sampler, figures->sample, err);
    if (rc < 0)
        return rc;
    count_growth(collector, TALLY_LOSS_ring_full, figures->sample[SAMPLE_COUNTER_lost_ring_full]);
    count_growth(collector, TALLY_LOSS_nested, figures->sample[SAMPLE_COUNTER_lost_nested]);
    count_growth(collector, TALLY_LOSS_bad_record, sampler_bad_sample_count(collector->sampler));
    return 0;
}

static void take_window(struct collector *collector, bool flush)
{
    struct tally_window *window = tally_take(collector->tally, clock_wall_ns() / CLOCK_NS_PER_MS, flush);
    if (!window)
        return;
    collector->truncated_count += window->truncated_count;
    collector->on_window(window, collector->ctx);
}

static void publish(struct collector *collector, struct collector_figures *figures)
{
    for (int i = 0; i < PROCESS_COUNTER_COUNT; i++)
        figures->process[i] = processes_counter(collector->processes, (enum process_counter)i);
    for (int i = 0; i < TALLY_LOSS_COUNT; i++)
        figures->lost[i] = tally_lost_count(collector->tally, (enum tally_loss)i);
    figures->process_count = processes_count(collector->processes);
    figures->cpu_count = sampler_cpu_count(collector->sampler);
    figures->cpu_absent_count = sampler_cpu_absent_count(collector->sampler);
    figures->hz = sampler_hz(collector->sampler);
    sampler_bpf_cost(collector->sampler, &figures->bpf_run_ns, &figures->bpf_run_count);
    figures->truncated_count = collector->truncated_count;
    figures->kernel_symbols_hidden = kallsyms_hidden(collector->kallsyms);
    pthread_mutex_lock(&collector->lock);
    collector->figures = *figures;
    pthread_mutex_unlock(&collector->lock);
    atomic_store(&collector->progress_ns, clock_mono_ns());
}

static void tell_hidden(struct collector *collector)
{
    bool hidden = kallsyms_hidden(collector->kallsyms);
    if (hidden && !collector->hidden_told)
        log_warn(
            "the kernel hides its addresses (kernel.kptr_restrict, CAP_SYSLOG): its frames show as [kernel "
            "symbols hidden]");
    else if (!hidden && collector->hidden_told)
        log_info("kernel addresses are to be seen again");
    collector->hidden_told = hidden;
}

static int poll_once(struct collector *collector, bool last, struct err *err)
{
    const struct sampler_handlers handlers = {.on_sample = on_sample, .on_event = on_event, .ctx = collector};
    struct collector_figures figures = {.hz = 0};
    int rc = sampler_poll(collector->sampler, &handlers, err);
    if (rc == -EBADMSG && log_limit_pass(&collector->bad_limit, NULL))
        log_warn("%s; they are skipped and counted", err->text);
    if (rc < 0 && rc != -EBADMSG)
        return rc;
    rc = count_losses(collector, &figures, err);
    if (rc < 0)
        return rc;
    take_window(collector, last);
    uint64_t now_ns = clock_mono_ns();
    if (now_ns >= collector->next_expire_ns) {
        processes_expire(collector->processes, now_ns);
        tell_hidden(collector);
        collector->next_expire_ns = now_ns + CLOCK_NS_PER_S;
    }
    publish(collector, &figures);
    return 0;
}

/* True when it is time to end. */
static bool sleep_until(struct collector *collector, uint64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / CLOCK_NS_PER_S),
                                   .tv_nsec = (long)(until_ns % CLOCK_NS_PER_S)};
    pthread_mutex_lock(&collector->lock);
    while (!collector->stopping && clock_mono_ns() < until_ns)
        pthread_cond_timedwait(&collector->wake, &collector->lock, &until);
    bool stopping = collector->stopping;
    pthread_mutex_unlock(&collector->lock);
    return stopping;
}

static void *run(void *ctx)
{
    struct collector *collector = ctx;
    struct err err = {.code = 0};
    pthread_setname_np(pthread_self(), "collector");
    bool last = false;
    while (!last) {
        uint64_t delay_ns = sampler_poll_delay_ms(collector->sampler) * CLOCK_NS_PER_MS;
        last = sleep_until(collector, clock_mono_ns() + delay_ns);
        if (last)
            sampler_stop(collector->sampler);
        if (poll_once(collector, last, &err) < 0) {
            log_error("sampling ended: %s; the agent is no longer healthy", err.text);
            break;
        }
    }
    return NULL;
}

static int start_thread(struct collector *collector, struct err *err)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&collector->wake, &attr);
    pthread_condattr_destroy(&attr);
    int rc = pthread_create(&collector->thread, NULL, run, collector);
    if (rc != 0)
        return err_set(err, -rc, "start the collector thread");
    collector->thread_started = true;
    return 0;
}

int collector_open(const struct collector_settings *settings, struct images *images,
                   collector_window_fn on_window, void *ctx, struct collector **ret_collector,
                   struct err *err)
{
    struct collector *collector = xcalloc(1, sizeof(*collector));
    pthread_mutex_init(&collector->lock, NULL);
    collector->on_window = on_window;
    collector->ctx = ctx;
    atomic_store(&collector->progress_ns, clock_mono_ns());
    collector->processes = processes_new(images);
    collector->kallsyms = kallsyms_new("/proc/kallsyms");
    collector->tally =
        tally_new(settings->node, collector->processes, collector->kallsyms, settings->window_ms);
    int rc = sampler_open(&settings->sampler, &collector->sampler, err);
    if (rc < 0)
        goto fail;
    /* After the side band is on: a process that starts meanwhile is seen by one of the two. */
    processes_scan(collector->processes, SCAN_BUDGET_MS);
    rc = start_thread(collector, err);
    if (rc < 0)
        goto fail;
    *ret_collector = collector;
    return 0;
fail:
    collector_close(collector);
    return rc;
}

void collector_set_hz(struct collector *collector, unsigned hz)
{
    sampler_set_hz(collector->sampler, hz);
}

struct collector_figures collector_figures(struct collector *collector)
{
    pthread_mutex_lock(&collector->lock);
    struct collector_figures figures = collector->figures;
    pthread_mutex_unlock(&collector->lock);
    return figures;
}

const char *collector_event_name(const struct collector *collector)
{
    return sampler_event_name(collector->sampler);
}

uint64_t collector_idle_ms(const struct collector *collector)
{
    uint64_t progress_ns = atomic_load(&collector->progress_ns);
    uint64_t now_ns = clock_mono_ns();
    return now_ns > progress_ns ? (now_ns - progress_ns) / CLOCK_NS_PER_MS : 0;
}

void collector_stop(struct collector *collector)
{
    if (!collector->thread_started)
        return;
    pthread_mutex_lock(&collector->lock);
    collector->stopping = true;
    pthread_cond_signal(&collector->wake);
    pthread_mutex_unlock(&collector->lock);
    pthread_join(collector->thread, NULL);
    collector->thread_started = false;
}

void collector_close(struct collector *collector)
{
    if (!collector)
        return;
    collector_stop(collector);
    sampler_close(collector->sampler);
    tally_free(collector->tally);
    kallsyms_free(collector->kallsyms);
    processes_free(collector->processes);
    pthread_mutex_destroy(&collector->lock);
    free(collector);
}
