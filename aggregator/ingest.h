/* ingest: what agents say (Hello, Batch) applied to the partition their node belongs to.
 * Rules:   a batch is checked whole before anything of it is applied. It counts once per (node, boot epoch,
 *          sequence); a repeated one is answered STORED. Times more than PARTITION_SKEW_MS off the shard's
 *          clock are corrected by the difference and counted as skewed; windows that would begin in the
 *          future begin now. A Hello for the session that is open leaves it as it is.
 * Limits:  those of the partition; INGEST_WANTS executables asked for in one Ack; each kind once in one
 *          batch, its sums INGEST_VALUE and INGEST_COUNT (so that splitting large rows makes at most 128 Ki
 *          more).
 * Threads: the partition's worker only. */
#ifndef AGGREGATOR_INGEST_H
#define AGGREGATOR_INGEST_H

#include "aggregator/partition.h"
#include "common/buf.h"

#include <stddef.h>
#include <stdint.h>

#define INGEST_WANTS 16u
#define INGEST_VALUE (1ULL << 48) /* 9 years of CPU time */
#define INGEST_COUNT (1ULL << 32)

/* data is a WIRE_HELLO or WIRE_BATCH message; whatever it is, reply becomes the message to answer with. */
void ingest(struct partition *partition, const void *data, size_t bytes, uint64_t now_ms, struct buf *reply);

/* Answers without looking further: the shard is too busy, or closing. type WIRE_HELLO or WIRE_BATCH. */
void ingest_put_off(enum wire_type type, uint32_t retry_after_ms, const char *reason, struct buf *reply);

#endif
