/* The input is a ring's content (its first byte says where the reader stands); records are read out and
 * parsed. */
#include "node-agent/perf_records.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t touch(const struct sampler_event *event)
{
    switch (event->type) {
    case SAMPLER_MMAP:
        return strlen(event->mmap.path) + event->mmap.build_id[event->mmap.build_id_bytes % 20];
    case SAMPLER_EXEC:
    case SAMPLER_COMM:
        return strlen(event->name.comm);
    case SAMPLER_KSYMBOL:
        return strlen(event->ksymbol.symbol);
    default:
        return 0;
    }
}

static void parse(const uint8_t *record, size_t bytes)
{
    /* Exactly as long as the record, so that reading beyond it is seen. */
    uint8_t *copy = malloc(bytes);
    struct sampler_event event;
    memcpy(copy, record, bytes);
    if (perf_record_parse(copy, bytes, &event) == 0 && touch(&event) == SIZE_MAX)
        abort();
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t record[PERF_RECORD_MAX_BYTES];
    if (size < 9)
        return 0;
    uint64_t ring_bytes = 8;
    while (ring_bytes < size - 1)
        ring_bytes *= 2;
    uint8_t *ring = calloc(1, ring_bytes);
    uint64_t tail = (uint64_t)data[0] * 8, head = tail + (size - 1) / 8 * 8;
    for (size_t i = 1; i < size; i++)
        ring[(tail + i - 1) & (ring_bytes - 1)] = data[i];
    int bytes;
    while ((bytes = perf_ring_read(ring, ring_bytes, tail, head, record)) > 0) {
        parse(record, (size_t)bytes);
        tail += (uint64_t)bytes;
    }
    free(ring);
    return 0;
}
