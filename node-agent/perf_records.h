/* perf_records: bytes of a perf ring -> struct sampler_event. Pure: no system call, no state.
 * Shapes:    records as perf_event_open(2) lays them out, of an event opened with sample_id_all and
 *            sample_type TID|TIME: every record but those ends in {u32 pid, tid; u64 time}.
 * Limits:    PERF_RECORD_MAX_BYTES a record (its size field has 16 bits).
 * Errors:    -ENOENT a kind nobody asked for; -EBADMSG lengths that contradict each other.
 * Threads:   any.
 * Source:    include/uapi/linux/perf_event.h (6.x), enum perf_event_type. */
#ifndef NODE_AGENT_PERF_RECORDS_H
#define NODE_AGENT_PERF_RECORDS_H

#include "node-agent/sampler.h"

#include <stddef.h>
#include <stdint.h>

#define PERF_RECORD_MAX_BYTES 65536u

/* Copies the record at tail of a ring of ring_bytes (power of two) whose writer stands at head into record
 * (PERF_RECORD_MAX_BYTES), across the ring's end if need be. Returns its length; 0 when tail == head;
 * -EBADMSG when the bytes there are no record: nothing before head can be trusted then. */
int perf_ring_read(const uint8_t *ring, uint64_t ring_bytes, uint64_t tail, uint64_t head, uint8_t *record);

/* When the record was made: the end of its sample id. */
int perf_record_time(const uint8_t *record, size_t bytes, uint64_t *ret_time_ns);

/* Strings of the event point into record. */
int perf_record_parse(const uint8_t *record, size_t bytes, struct sampler_event *ret_event);

#endif
