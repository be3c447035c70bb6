#include "node-agent/cpu_clock.h"

#include "bpf/sample_abi.h"
#include "common/cleanup.h"
#include "common/clock.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LN_3       1.0986122886681098 /* mean of 1/x over 0.5..1.5 */
#define MEASURE_NS (5 * CLOCK_NS_PER_MS)

uint64_t cpu_clock_draw_period_ns(unsigned hz, uint64_t restart_ns, uint64_t random)
{
    double nominal_ns = (double)CLOCK_NS_PER_S / hz;
    double factor = 0.5 + (double)(random >> 11) * 0x1p-53;
    /* Of n = restart/nominal fires due between two changes, changing costs half a fire on average, and
     * drawing periods evenly makes LN_3 times as many fires as drawing rates evenly. */
    double due = (double)restart_ns / nominal_ns;
    return (uint64_t)(nominal_ns * factor * LN_3 * due / (due + 0.5));
}

uint64_t cpu_clock_carry_ns(uint64_t start_ns, uint64_t period_ns, uint64_t now_ns)
{
    if (period_ns == 0 || now_ns <= start_ns)
        return 0;
    return (now_ns - start_ns) % period_ns;
}

static int open_event(struct perf_event_attr *attr, int pid, int cpu)
{
    attr->size = sizeof(*attr);
    long fd = syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

int cpu_clock_open(unsigned cpu, bool cycles, uint64_t rate, int program_fd, int *ret_fd)
{
    struct perf_event_attr attr = {.disabled = 1};
    if (cycles) {
        attr.type = PERF_TYPE_HARDWARE;
        attr.config = PERF_COUNT_HW_CPU_CYCLES;
        attr.freq = 1;
        attr.sample_freq = rate;
    } else {
        attr.type = PERF_TYPE_SOFTWARE;
        attr.config = PERF_COUNT_SW_CPU_CLOCK;
        attr.sample_period = rate;
    }
    int fd = open_event(&attr, -1, (int)cpu);
    if (cycles && (fd == -ENOENT || fd == -ENODEV))
        return -EOPNOTSUPP;
    if (fd < 0)
        return fd;
    if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, program_fd) == -1) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    *ret_fd = fd;
    return 0;
}

int cpu_clock_start(int fd)
{
    return ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) == -1 ? -errno : 0;
}

int cpu_clock_stop(int fd)
{
    return ioctl(fd, PERF_EVENT_IOC_DISABLE, 0) == -1 ? -errno : 0;
}

int cpu_clock_set_rate(int fd, uint64_t rate)
{
    return ioctl(fd, PERF_EVENT_IOC_PERIOD, &rate) == -1 ? -errno : 0;
}

int cpu_clock_measure_cycle(uint64_t *ret_cycle_ns)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_CPU_CYCLES};
    int fd AUTO_CLOSE = open_event(&attr, 0, -1);
    if (fd < 0)
        return fd == -ENOENT || fd == -ENODEV ? -EOPNOTSUPP : fd;

    uint64_t start_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID), ns, before, after;
    if (read(fd, &before, sizeof(before)) != (ssize_t)sizeof(before))
        return -EIO;
    do
        ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns;
    while (ns < MEASURE_NS);
    if (read(fd, &after, sizeof(after)) != (ssize_t)sizeof(after) || after <= before)
        return -EIO;
    *ret_cycle_ns = (ns << SAMPLE_CYCLE_SHIFT) / (after - before);
    return 0;
}
