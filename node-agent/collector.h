/* collector: the thread that owns sampling: drains the rings, keeps processes and mappings true, counts,
 * seals windows.
 * Threads:   open/close from the loop thread; on_window runs on the collector thread and takes the window;
 *            the counters below are snapshots any thread may read.
 * Errors:    as sampler_open; a poll that fails ends the thread: collector_idle_ms then grows and health
 *            turns bad; after one that only met bad records (-EBADMSG) it goes on. */
#ifndef NODE_AGENT_COLLECTOR_H
#define NODE_AGENT_COLLECTOR_H

#include "common/err.h"
#include "node-agent/image.h"
#include "node-agent/process.h"
#include "node-agent/sampler.h"
#include "node-agent/tally.h"

struct collector_settings {
    const char *node;
    uint32_t window_ms;
    struct sampler_settings sampler;
};

typedef void (*collector_window_fn)(struct tally_window *window, void *ctx);

struct collector;
int collector_open(const struct collector_settings *settings, struct images *images,
                   collector_window_fn on_window, void *ctx, struct collector **ret_collector,
                   struct err *err);
void collector_set_hz(struct collector *collector, unsigned hz);

struct collector_figures {
    uint64_t sample[SAMPLE_COUNTER_COUNT];
    uint64_t process[PROCESS_COUNTER_COUNT];
    uint64_t lost[TALLY_LOSS_COUNT];
    uint64_t process_count, cpu_count, cpu_absent_count, hz;
    uint64_t bpf_run_ns, bpf_run_count;
    uint64_t truncated_count; /* samples with a marker frame */
    bool kernel_symbols_hidden;
};
/* Not older than one poll. */
struct collector_figures collector_figures(struct collector *collector);
const char *collector_event_name(const struct collector *collector);
/* Time since the last completed poll. */
uint64_t collector_idle_ms(const struct collector *collector);
/* Stops the clocks, counts what is left, hands over the last window, ends the thread. */
void collector_stop(struct collector *collector);
void collector_close(struct collector *collector); /* stops first; NULL is fine */

#endif
