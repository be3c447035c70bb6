/* sampler_kit: what the sampler's tests on the real kernel share: children that burn CPU, and a poll loop. */
#ifndef TESTS_BPF_SAMPLER_KIT_H
#define TESTS_BPF_SAMPLER_KIT_H

#include "common/clock.h"
#include "node-agent/sampler.h"

#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Exit status of main when the machine cannot run these tests; REQUIRE=1 makes that a failure. */
static inline int kit_cannot_run(void)
{
    if (geteuid() == 0)
        return 0;
    printf("1..0 # SKIP needs CAP_BPF and CAP_PERFMON (root)\n");
    return getenv("REQUIRE") ? 1 : 77;
}

/* A child that runs body(arg) until killed. It goes with its parent, and ahead of other jobs of the machine,
 * so that the figures do not depend on what else runs. cpu -1: any. */
static inline pid_t kit_fork(int cpu, void (*body)(unsigned), unsigned arg)
{
    fflush(stdout);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpriority(PRIO_PROCESS, 0, -20);
    if (cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        sched_setaffinity(0, sizeof(set), &set);
    }
    body(arg);
    _exit(0);
}

static inline void kit_spin(unsigned unused)
{
    (void)unused;
    for (volatile uint64_t i = 0;; i++)
        ;
}

/* Ends the child; the CPU time of its whole life. */
static inline uint64_t kit_reap_ns(pid_t pid)
{
    struct rusage usage;
    kill(pid, SIGKILL);
    assert_int_equal(wait4(pid, NULL, 0, &usage), pid);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * CLOCK_NS_PER_S +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

static inline struct sampler *kit_open(unsigned hz, size_t ring_bytes)
{
    struct sampler_settings settings = {.hz = hz, .event = "cpu-clock", .ring_bytes = ring_bytes};
    struct sampler *sampler = NULL;
    struct err err = {0};
    if (sampler_open(&settings, &sampler, &err) < 0)
        fail_msg("sampler_open: %s", err.text);
    return sampler;
}

static inline void kit_poll(struct sampler *sampler, const struct sampler_handlers *handlers)
{
    struct err err = {0};
    if (sampler_poll(sampler, handlers, &err) < 0)
        fail_msg("sampler_poll: %s", err.text);
}

/* Polls as the agent does, for so long. */
static inline void kit_run(struct sampler *sampler, const struct sampler_handlers *handlers, uint64_t run_ns)
{
    for (uint64_t end_ns = clock_mono_ns() + run_ns; clock_mono_ns() < end_ns;) {
        struct timespec delay = {.tv_nsec = (long)(sampler_poll_delay_ms(sampler) * CLOCK_NS_PER_MS)};
        nanosleep(&delay, NULL);
        kit_poll(sampler, handlers);
    }
}

static inline void kit_finish(struct sampler *sampler, const struct sampler_handlers *handlers)
{
    sampler_stop(sampler);
    kit_poll(sampler, handlers);
}

#endif
