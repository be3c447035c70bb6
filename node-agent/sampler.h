/* sampler: the BPF program, its perf events and the side-band records of process life, as one stream in
 * time order.
 * Shapes:    struct sample_record (bpf/sample_abi.h); struct sampler_event below. Times CLOCK_MONOTONIC ns.
 * Limits:    hz 1..SAMPLER_MAX_HZ; rings as bpf/sample_abi.h; side-band ring 256 KiB a CPU.
 * Threads:   all calls from the collector thread, but sampler_set_hz from any.
 * Errors:    sampler_open: -EPERM (names the missing capability), -EOPNOTSUPP (kernel feature, named),
 *            others; nothing stays attached after a failure.
 * Source:    perf_event_open(2); include/uapi/linux/perf_event.h (6.x); kernel/events/core.c. */
#ifndef NODE_AGENT_SAMPLER_H
#define NODE_AGENT_SAMPLER_H

#include "bpf/sample_abi.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAMPLER_MAX_HZ 1000u
#define SAMPLER_MIN_HZ 1u

struct sampler_settings {
    unsigned hz;
    const char *event; /* "cpu-clock" or "cycles" */
    size_t ring_bytes; /* of one ring, power of two; 0 = by CPU count */
    const char
        *cpus; /* NULL: the online ones; else a list such as "0-7" (absent ones are skipped and counted) */
};

/* What happened to a process, from perf side-band records. */
enum sampler_event_type {
    SAMPLER_MMAP,
    SAMPLER_EXEC,
    SAMPLER_COMM,
    SAMPLER_FORK,
    SAMPLER_EXIT,
    SAMPLER_KSYMBOL,
    SAMPLER_LOST
};

struct sampler_event {
    enum sampler_event_type type;
    uint64_t time_ns;
    uint32_t tgid, tid;
    union {
        struct { /* executable mappings only */
            uint64_t start, bytes, file_offset;
            uint64_t inode, inode_generation; /* when build_id_bytes is 0 */
            uint32_t device_major, device_minor;
            uint8_t build_id[20];
            uint8_t build_id_bytes;
            const char *path; /* as the kernel saw it; "//anon", "[vdso]" ... valid during the call */
        } mmap;
        struct {
            const char *comm; /* EXEC and COMM */
        } name;
        struct {
            uint32_t parent_tgid, parent_tid;
        } fork;
        struct {
            uint64_t address;
            uint32_t bytes;
            bool removed;
            const char *symbol;
        } ksymbol;
        uint64_t lost_count;
    };
};

struct sampler_handlers {
    void (*on_sample)(const struct sample_record *record, void *ctx);
    void (*on_event)(const struct sampler_event *event, void *ctx);
    void *ctx;
};

struct sampler;
int sampler_open(const struct sampler_settings *settings, struct sampler **ret_sampler, struct err *err);
/* Everything recorded until SAMPLER_HOLD_MS ago (after sampler_stop: everything), samples and events merged
 * by time. Call about every SAMPLER_POLL_MS. Also: gives every CPU a new random period (0.5..1.5 of the
 * nominal, cpu_clock.h), opens CPUs that came online, closes those that went. Handlers must not call the
 * sampler. -EBADMSG: some records made no sense and were skipped; the poll was done. */
#define SAMPLER_POLL_MS 200
#define SAMPLER_HOLD_MS 5
int sampler_poll(struct sampler *sampler, const struct sampler_handlers *handlers, struct err *err);
/* How long to wait for the next poll: SAMPLER_POLL_MS +- a random quarter. Polls restart the periods, so
 * polls in step with a job (every 200 ms is, with all of 5, 10, 20, 50, 100 Hz) would bring back a little of
 * the lockstep. */
unsigned sampler_poll_delay_ms(struct sampler *sampler);
void sampler_set_hz(struct sampler *sampler,
                    unsigned hz); /* clamped to the limits; applies at the next poll */
unsigned sampler_hz(const struct sampler *sampler);
unsigned sampler_cpu_count(const struct sampler *sampler);        /* CPUs being sampled */
unsigned sampler_cpu_absent_count(const struct sampler *sampler); /* CPUs wanted that could not be opened */
/* Samples that BPF counts as submitted and that were skipped, see sampler_poll. */
uint64_t sampler_bad_sample_count(const struct sampler *sampler);
const char *sampler_event_name(const struct sampler *sampler); /* "cpu-clock" or "cycles" */
/* Sums over the CPUs since the start, SAMPLE_COUNTER_COUNT of them. */
int sampler_counters(const struct sampler *sampler, uint64_t counters[SAMPLE_COUNTER_COUNT], struct err *err);
/* BPF run time and run count when kernel.bpf_stats_enabled is on; both 0 otherwise. */
void sampler_bpf_cost(const struct sampler *sampler, uint64_t *ret_run_ns, uint64_t *ret_run_count);
/* Stops the clocks; what is in the rings can still be polled once. */
void sampler_stop(struct sampler *sampler);
void sampler_close(struct sampler *sampler); /* NULL and half-open are fine */

#endif
