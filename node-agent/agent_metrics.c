#include "node-agent/agent_metrics.h"

#include "common/clock.h"
#include "common/metrics.h"

#include <stdio.h>
#include <unistd.h>

static const struct {
    const char *name, *help;
} sample_texts[] =
    {
#define X(name, text) {#name, text},
        SAMPLE_COUNTERS(X)
#undef X
},
  process_texts[] = {
#define X(name, text) {#name, text},
      PROCESS_COUNTERS(X)
#undef X
};

static void set_counter(const char *name, const char *help, uint64_t value)
{
    metric_set(metrics_counter(name, help, NULL, NULL), value);
}

static void set_gauge(const char *name, const char *help, uint64_t value)
{
    metric_set(metrics_gauge(name, help, NULL, NULL), value);
}

static void update_tables(const struct collector_figures *figures)
{
    for (int i = 0; i < SAMPLE_COUNTER_COUNT; i++)
        metric_set(metrics_counter("fleetprof_agent_samples_total",
                                   "Sampling clock fires and their fate, by BPF.", "state",
                                   sample_texts[i].name),
                   figures->sample[i]);
    for (int i = 0; i < TALLY_LOSS_COUNT; i++)
        metric_set(metrics_counter("fleetprof_agent_lost_samples_total",
                                   "Samples taken that are in no window, by cause.", "cause",
                                   TALLY_LOSS_NAMES[i]),
                   figures->lost[i]);
    for (int i = 0; i < PROCESS_COUNTER_COUNT; i++)
        metric_set(metrics_counter("fleetprof_agent_process_events_total",
                                   "Tracking of processes and their mappings.", "event",
                                   process_texts[i].name),
                   figures->process[i]);
}

void agent_metrics_sampling(const struct collector_figures *figures, struct images *images)
{
    update_tables(figures);
    uint64_t images_count, open_count, dropped_count;
    images_counts(images, &images_count, &open_count, &dropped_count);
    set_counter("fleetprof_agent_truncated_samples_total", "Samples whose stack carries a marker frame.",
                figures->truncated_count);
    set_gauge("fleetprof_agent_hz", "Sampling rate in force.", figures->hz);
    set_gauge("fleetprof_agent_cpus", "CPUs being sampled.", figures->cpu_count);
    set_gauge("fleetprof_agent_cpus_absent", "CPUs wanted that cannot be sampled.",
              figures->cpu_absent_count);
    set_gauge("fleetprof_agent_processes", "Processes known.", figures->process_count);
    set_gauge("fleetprof_agent_images", "Executables and libraries known.", images_count);
    set_gauge("fleetprof_agent_images_open", "Of them, files held open for their names.", open_count);
    set_counter("fleetprof_agent_images_dropped_total", "Executables forgotten: over the limit.",
                dropped_count);
    set_counter("fleetprof_agent_bpf_run_nanoseconds_total",
                "Run time of the sampling program (needs kernel.bpf_stats_enabled).", figures->bpf_run_ns);
    set_gauge("fleetprof_agent_kernel_symbols_hidden",
              "1 when the kernel hides its addresses from the agent.", figures->kernel_symbols_hidden);
}

void agent_metrics_shipping(const struct shipper_ledger *ledger)
{
    set_counter("fleetprof_agent_ledger_put_samples_total",
                "Samples in sealed windows, without those lost before.", ledger->put_samples);
    set_counter("fleetprof_agent_ledger_acked_samples_total", "Samples a shard has acknowledged.",
                ledger->acked_samples);
    set_counter("fleetprof_agent_ledger_lost_samples_total",
                "Samples dropped before a shard acknowledged them.", ledger->lost_samples);
    set_gauge("fleetprof_agent_ledger_waiting_samples", "Samples waiting for their acknowledgement.",
              ledger->waiting_samples);
    set_gauge("fleetprof_agent_connected", "1 while the last exchange with the shard went well.",
              ledger->connected);
}

void agent_metrics_symbols(uint64_t busy_ms)
{
    set_gauge("fleetprof_agent_symbols_busy_milliseconds",
              "Time since the symbol thread last got on with the executable it works at; 0 when it has none.",
              busy_ms);
}

static uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    unsigned long long size, resident = 0;
    if (fscanf(file, "%llu %llu", &size, &resident) != 2)
        resident = 0;
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

size_t agent_metrics_gauges(const struct collector_figures *figures, struct shipper_gauge *out, size_t room)
{
    const struct shipper_gauge all[] = {
        {"hz", figures->hz},
        {"cpus", figures->cpu_count},
        {"cpu_ns", clock_read_ns(CLOCK_PROCESS_CPUTIME_ID)},
        {"bpf_ns", figures->bpf_run_ns},
        {"rss_bytes", resident_bytes()},
        {"truncated", figures->truncated_count},
        {"processes", figures->process_count},
        {"kernel_symbols_hidden", figures->kernel_symbols_hidden},
    };
    size_t count = sizeof(all) / sizeof(all[0]);
    if (count > room)
        count = room;
    for (size_t i = 0; i < count; i++)
        out[i] = all[i];
    return count;
}
