/* metrics: named counters and gauges, shown in Prometheus text exposition format 0.0.4.
 * Shapes:    names are snake_case with unit, counters end in _total; one optional label (name, value).
 * Limits:    METRICS_MAX series; over it metrics_* return the one shared overflow cell
 *            "metrics_overflow_total".
 * Threads:   cells are atomics, any thread may add; registering takes a lock. The registry is process-wide. */
#ifndef COMMON_METRICS_H
#define COMMON_METRICS_H

#include "common/buf.h"

#include <stdatomic.h>
#include <stdint.h>

#define METRICS_MAX 4096

struct metric {
    _Atomic uint64_t value;
};

/* The cell of (name, label value), made at first use. All strings are copied. label may be NULL. help may be
 * NULL after the first cell of a name. Cells live for ever: keep the pointer. */
struct metric *metrics_counter(const char *name, const char *help, const char *label,
                               const char *label_value);
struct metric *metrics_gauge(const char *name, const char *help, const char *label, const char *label_value);

static inline void metric_add(struct metric *metric, uint64_t n)
{
    atomic_fetch_add_explicit(&metric->value, n, memory_order_relaxed);
}
static inline void metric_set(struct metric *metric, uint64_t n)
{
    atomic_store_explicit(&metric->value, n, memory_order_relaxed);
}
static inline uint64_t metric_get(const struct metric *metric)
{
    return atomic_load_explicit(&metric->value, memory_order_relaxed);
}

/* Process figures every program shows (process_cpu_seconds_total, process_resident_memory_bytes,
 * process_open_fds, fleetprof_build_info) are added by the call. */
int metrics_print(struct buf *out);

#endif
