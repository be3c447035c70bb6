/* cpu_clock: the perf event that makes one CPU's sampling program fire, and the randomness of its period.
 * Shapes:    "cpu-clock" (PERF_COUNT_SW_CPU_CLOCK, period in ns) or "cycles" (PERF_COUNT_HW_CPU_CYCLES,
 *            frequency mode).
 * Rules:     a fixed period blinds the sampler to work in step with it (measured: 1 of 54 bursts of a 99 Hz
 *            job seen at 99 Hz). The period is therefore drawn anew at each poll, uniform in 0.5..1.5 of
 *            the nominal: a job of the nominal rate is then met in every phase already by the first fire. A
 *            change restarts the running period: the mean rate is corrected for that, and
 *            cpu_clock_carry_ns says what the restart cut off.
 * Threads:   any.
 * Errors:    negative errno of perf_event_open(2); -EOPNOTSUPP no such counter here.
 * Source:    kernel/events/core.c (6.x): __perf_event_period, perf_swevent_hrtimer. */
#ifndef NODE_AGENT_CPU_CLOCK_H
#define NODE_AGENT_CPU_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Period to set now: nominal rate hz, drawn by random (uniform 64 bits), next change expected in restart_ns.
 */
uint64_t cpu_clock_draw_period_ns(unsigned hz, uint64_t restart_ns, uint64_t random);

/* Of a grid start + n * period that ends now: the time since its last point. */
uint64_t cpu_clock_carry_ns(uint64_t start_ns, uint64_t period_ns, uint64_t now_ns);

/* Opens, but does not start, the clock of a CPU and ties the BPF program to it. rate: a period in ns, or Hz
 * for cycles. */
int cpu_clock_open(unsigned cpu, bool cycles, uint64_t rate, int program_fd, int *ret_fd);
int cpu_clock_start(int fd);
int cpu_clock_stop(int fd);
int cpu_clock_set_rate(int fd, uint64_t rate);

/* ns per cycle << SAMPLE_CYCLE_SHIFT, measured for a few ms on this thread. */
int cpu_clock_measure_cycle(uint64_t *ret_cycle_ns);

#endif
