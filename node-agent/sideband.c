#include "node-agent/sideband.h"

#include "common/xalloc.h"
#include "node-agent/perf_records.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct sideband {
    int fd;
    struct perf_event_mmap_page *page; /* followed by the ring */
    size_t page_bytes, ring_bytes;
};

/* Not asked for: bpf_event, since the kernel sends BPF programs' KSYMBOL records without it. */
static int open_event(unsigned cpu, const struct sideband_features *features)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof(attr),
        .config = PERF_COUNT_SW_DUMMY,
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
        .sample_id_all = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .mmap = 1, /* executable mappings only: mmap_data is not set */
        .mmap2 = 1,
        .comm = 1,
        .comm_exec = 1,
        .task = 1,
        .build_id = !features->no_build_id,
        .ksymbol = !features->no_ksymbol,
        .watermark = 1, /* nobody waits on this descriptor: no wake-ups */
        .wakeup_watermark = UINT32_MAX,
    };
    long fd = syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? -errno : (int)fd;
}

/* The newest feature first; an unknown attribute bit is EINVAL, and so is an absent CPU: only a success says
 * what the kernel lacks. */
static int open_with_features(unsigned cpu, struct sideband_features *features)
{
    struct sideband_features tried = *features;
    int fd = open_event(cpu, &tried);
    if (fd == -EINVAL && !tried.no_build_id) {
        tried.no_build_id = 1;
        fd = open_event(cpu, &tried);
    }
    if (fd == -EINVAL && !tried.no_ksymbol) {
        tried.no_ksymbol = 1;
        fd = open_event(cpu, &tried);
    }
    if (fd >= 0)
        *features = tried;
    return fd;
}

static int map_ring(struct sideband *sideband)
{
    sideband->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t bytes = SIDEBAND_RING_BYTES; bytes >= SIDEBAND_RING_MIN_BYTES; bytes /= 2) {
        void *map =
            mmap(NULL, sideband->page_bytes + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, sideband->fd, 0);
        if (map != MAP_FAILED) {
            sideband->page = map;
            sideband->ring_bytes = bytes;
            return 0;
        }
        if (errno != EPERM && errno != ENOMEM)
            break;
    }
    return -errno;
}

int sideband_open(unsigned cpu, struct sideband_features *features, struct sideband **ret_sideband)
{
    struct sideband *sideband = xcalloc(1, sizeof(*sideband));
    int rc;
    sideband->fd = rc = open_with_features(cpu, features);
    if (rc < 0)
        goto fail;
    rc = map_ring(sideband);
    if (rc < 0)
        goto fail;
    *ret_sideband = sideband;
    return 0;
fail:
    sideband_close(sideband);
    return rc;
}

void sideband_close(struct sideband *sideband)
{
    if (!sideband)
        return;
    if (sideband->page)
        munmap(sideband->page, sideband->page_bytes + sideband->ring_bytes);
    if (sideband->fd >= 0)
        close(sideband->fd);
    free(sideband);
}

size_t sideband_ring_bytes(const struct sideband *sideband)
{
    return sideband->ring_bytes;
}

void sideband_stop(struct sideband *sideband)
{
    ioctl(sideband->fd, PERF_EVENT_IOC_DISABLE, 0);
}

int sideband_drain(struct sideband *sideband, struct merge *merge, unsigned kind, uint8_t *scratch)
{
    const uint8_t *ring = (const uint8_t *)sideband->page + sideband->page_bytes;
    uint64_t head = __atomic_load_n(&sideband->page->data_head, __ATOMIC_ACQUIRE);
    uint64_t tail = sideband->page->data_tail; /* written by nobody but us */
    int rc = 0;

    while (tail != head) {
        uint64_t time_ns;
        int bytes = perf_ring_read(ring, sideband->ring_bytes, tail, head, scratch);
        if (bytes < 0) {
            tail = head;
            rc = bytes;
            break;
        }
        if (perf_record_time(scratch, (size_t)bytes, &time_ns) == 0 &&
            merge_add(merge, time_ns, kind, scratch, (size_t)bytes) < 0)
            break;
        tail += (uint64_t)bytes;
    }
    __atomic_store_n(&sideband->page->data_tail, tail, __ATOMIC_RELEASE);
    return rc;
}
