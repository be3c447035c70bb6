/* sideband: one CPU's records of process life (exec, mmap, fork, exit, comm, kernel symbols), by a perf
 * event that counts nothing.
 * Shapes:    records as perf_records reads them; times CLOCK_MONOTONIC.
 * Limits:    a ring of SIDEBAND_RING_BYTES, smaller where the kernel's limit on locked memory refuses it
 *            (kernel.perf_event_mlock_kb: 516 KiB a CPU by default); what does not fit the kernel counts:
 *            SAMPLER_LOST.
 * Threads:   one.
 * Errors:    negative errno of perf_event_open(2) and mmap(2).
 * Source:    perf_event_open(2), section "MMAP layout". */
#ifndef NODE_AGENT_SIDEBAND_H
#define NODE_AGENT_SIDEBAND_H

#include "node-agent/merge.h"

#include <stdint.h>

#define SIDEBAND_RING_BYTES     (256u << 10)
#define SIDEBAND_RING_MIN_BYTES (16u << 10)

/* What the running kernel lacks; found out at the first open, shared by all CPUs. */
struct sideband_features {
    int no_build_id; /* before 5.12 */
    int no_ksymbol;  /* before 5.1 */
};

struct sideband;
int sideband_open(unsigned cpu, struct sideband_features *features, struct sideband **ret_sideband);
void sideband_close(struct sideband *sideband);
size_t sideband_ring_bytes(const struct sideband *sideband);
/* Moves what the kernel has written until now into merge, as kind; what merge refuses stays in the ring.
 * scratch: PERF_RECORD_MAX_BYTES. Returns 0, or -EBADMSG when the ring's content made no sense and was
 * skipped. */
int sideband_drain(struct sideband *sideband, struct merge *merge, unsigned kind, uint8_t *scratch);
void sideband_stop(struct sideband *sideband);

#endif
