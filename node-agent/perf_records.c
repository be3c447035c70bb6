#include "node-agent/perf_records.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <string.h>

/* Each struct is the fixed part of a record; members as the kernel documents them. */
struct sample_id {
    uint32_t pid, tid;
    uint64_t time;
};

struct mmap2_record {
    struct perf_event_header header;
    uint32_t pid, tid;
    uint64_t address, bytes, page_offset;
    union {
        struct {
            uint32_t device_major, device_minor;
            uint64_t inode, inode_generation;
        } file;
        struct {
            uint8_t bytes, reserved[3];
            uint8_t data[20];
        } build_id;
    } who;
    uint32_t protection, flags;
};

struct comm_record {
    struct perf_event_header header;
    uint32_t pid, tid;
};

struct task_record { /* fork and exit */
    struct perf_event_header header;
    uint32_t pid, parent_pid, tid, parent_tid;
    uint64_t time;
};

struct lost_record {
    struct perf_event_header header;
    uint64_t id, lost;
};

struct ksymbol_record {
    struct perf_event_header header;
    uint64_t address;
    uint32_t bytes;
    uint16_t type, flags;
};

_Static_assert(sizeof(struct sample_id) == 16, "sample id of TID|TIME");
_Static_assert(sizeof(struct mmap2_record) == 72, "MMAP2");
_Static_assert(sizeof(struct task_record) == 32, "FORK, EXIT");
_Static_assert(sizeof(struct ksymbol_record) == 24, "KSYMBOL");

int perf_ring_read(const uint8_t *ring, uint64_t ring_bytes, uint64_t tail, uint64_t head, uint8_t *record)
{
    uint64_t available = head - tail;
    if (available == 0)
        return 0;
    if (available > ring_bytes || available < sizeof(struct perf_event_header))
        return -EBADMSG;

    uint64_t at = tail & (ring_bytes - 1), until_end = ring_bytes - at;
    struct perf_event_header header;
    if (until_end < sizeof(header)) /* records are 8-byte aligned, as the header is long */
        return -EBADMSG;
    memcpy(&header, ring + at, sizeof(header));
    if (header.size < sizeof(header) || header.size > available)
        return -EBADMSG;

    uint64_t first = header.size < until_end ? header.size : until_end;
    memcpy(record, ring + at, first);
    memcpy(record + first, ring, header.size - first);
    return header.size;
}

/* A NUL-terminated string that begins at offset and ends before the sample id. */
static int text_at(const uint8_t *record, size_t bytes, size_t offset, const char **ret_text)
{
    if (offset >= bytes - sizeof(struct sample_id))
        return -EBADMSG;
    if (!memchr(record + offset, '\0', bytes - sizeof(struct sample_id) - offset))
        return -EBADMSG;
    *ret_text = (const char *)record + offset;
    return 0;
}

/* The fixed part, when the record is long enough to hold it and a sample id. */
static int fixed_part(const uint8_t *record, size_t bytes, void *ret_part, size_t part_bytes)
{
    if (bytes < part_bytes + sizeof(struct sample_id))
        return -EBADMSG;
    memcpy(ret_part, record, part_bytes);
    return 0;
}

static int parse_mmap2(const uint8_t *record, size_t bytes, struct sampler_event *event)
{
    struct mmap2_record mmap2;
    int rc = fixed_part(record, bytes, &mmap2, sizeof(mmap2));
    if (rc < 0)
        return rc;
    event->type = SAMPLER_MMAP;
    event->tgid = mmap2.pid;
    event->tid = mmap2.tid;
    event->mmap.start = mmap2.address;
    event->mmap.bytes = mmap2.bytes;
    event->mmap.file_offset = mmap2.page_offset;
    if (!(mmap2.header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID)) {
        event->mmap.device_major = mmap2.who.file.device_major;
        event->mmap.device_minor = mmap2.who.file.device_minor;
        event->mmap.inode = mmap2.who.file.inode;
        event->mmap.inode_generation = mmap2.who.file.inode_generation;
    } else {
        if (mmap2.who.build_id.bytes > sizeof(mmap2.who.build_id.data))
            return -EBADMSG;
        event->mmap.build_id_bytes = mmap2.who.build_id.bytes;
        memcpy(event->mmap.build_id, mmap2.who.build_id.data, mmap2.who.build_id.bytes);
    }
    return text_at(record, bytes, sizeof(mmap2), &event->mmap.path);
}

static int parse_comm(const uint8_t *record, size_t bytes, struct sampler_event *event)
{
    struct comm_record comm;
    int rc = fixed_part(record, bytes, &comm, sizeof(comm));
    if (rc < 0)
        return rc;
    event->type = comm.header.misc & PERF_RECORD_MISC_COMM_EXEC ? SAMPLER_EXEC : SAMPLER_COMM;
    event->tgid = comm.pid;
    event->tid = comm.tid;
    return text_at(record, bytes, sizeof(comm), &event->name.comm);
}

static int parse_task(const uint8_t *record, size_t bytes, enum sampler_event_type type,
                      struct sampler_event *event)
{
    struct task_record task;
    int rc = fixed_part(record, bytes, &task, sizeof(task));
    if (rc < 0)
        return rc;
    event->type = type;
    event->tgid = task.pid;
    event->tid = task.tid;
    event->fork.parent_tgid = task.parent_pid;
    event->fork.parent_tid = task.parent_tid;
    return 0;
}

static int parse_ksymbol(const uint8_t *record, size_t bytes, struct sampler_event *event)
{
    struct ksymbol_record ksymbol;
    int rc = fixed_part(record, bytes, &ksymbol, sizeof(ksymbol));
    if (rc < 0)
        return rc;
    event->type = SAMPLER_KSYMBOL;
    event->ksymbol.address = ksymbol.address;
    event->ksymbol.bytes = ksymbol.bytes;
    event->ksymbol.removed = ksymbol.flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER;
    return text_at(record, bytes, sizeof(ksymbol), &event->ksymbol.symbol);
}

static int parse_lost(const uint8_t *record, size_t bytes, struct sampler_event *event)
{
    struct lost_record lost;
    int rc = fixed_part(record, bytes, &lost, sizeof(lost));
    if (rc < 0)
        return rc;
    event->type = SAMPLER_LOST;
    event->lost_count = lost.lost;
    return 0;
}

int perf_record_time(const uint8_t *record, size_t bytes, uint64_t *ret_time_ns)
{
    struct sample_id id;
    if (bytes < sizeof(struct perf_event_header) + sizeof(id))
        return -EBADMSG;
    memcpy(&id, record + bytes - sizeof(id), sizeof(id));
    *ret_time_ns = id.time;
    return 0;
}

int perf_record_parse(const uint8_t *record, size_t bytes, struct sampler_event *ret_event)
{
    struct sampler_event event = {0};
    int rc = perf_record_time(record, bytes, &event.time_ns);
    if (rc < 0)
        return rc;

    struct perf_event_header header;
    memcpy(&header, record, sizeof(header));
    if (header.size != bytes)
        return -EBADMSG;
    switch (header.type) {
    case PERF_RECORD_MMAP2:
        rc = parse_mmap2(record, bytes, &event);
        break;
    case PERF_RECORD_COMM:
        rc = parse_comm(record, bytes, &event);
        break;
    case PERF_RECORD_FORK:
        rc = parse_task(record, bytes, SAMPLER_FORK, &event);
        break;
    case PERF_RECORD_EXIT:
        rc = parse_task(record, bytes, SAMPLER_EXIT, &event);
        break;
    case PERF_RECORD_KSYMBOL:
        rc = parse_ksymbol(record, bytes, &event);
        break;
    case PERF_RECORD_LOST:
        rc = parse_lost(record, bytes, &event);
        break;
    default:
        rc = -ENOENT;
    }
    if (rc < 0)
        return rc;
    *ret_event = event;
    return 0;
}
