/* tally: samples -> counts of (series, stack) per window, and the window's ledger.
 * Shapes:    windows end at multiples of window_ms of the wall clock, the first two after a second each;
 *            values in microseconds of CPU time (scale 1000).
 * Limits:    stackset limits; what does not fit becomes the marker stack "[stack lost: window_full]" of the
 *            same series, so totals hold; over the series limit the sample is lost and counted.
 * Threads:   collector only; a sealed window belongs to whoever took it. */
#ifndef NODE_AGENT_TALLY_H
#define NODE_AGENT_TALLY_H

#include "common/stackset.h"
#include "node-agent/kallsyms.h"
#include "node-agent/process.h"

#include <stdint.h>

/* Causes a sample can be lost for between BPF and the shard; X(name, help). Those of BPF itself:
 * SAMPLE_COUNTERS. */
#define TALLY_LOSSES(X)                                                                                      \
    X(ring_full, "ring buffer full")                                                                         \
    X(nested, "sample inside another sample's work")                                                         \
    X(series_full, "too many label sets in one window")                                                      \
    X(process_full, "process table full")                                                                    \
    X(bad_record, "record that contradicts itself")
enum tally_loss {
#define X(name, text) TALLY_LOSS_##name,
    TALLY_LOSSES(X)
#undef X
        TALLY_LOSS_COUNT
};
extern const char *const TALLY_LOSS_NAMES[TALLY_LOSS_COUNT];

struct tally_window {
    struct stackset *set;
    uint64_t start_ms; /* wall clock */
    uint32_t window_ms;
    uint64_t taken_count; /* = sum of row counts + sum of lost_count */
    uint64_t lost_count[TALLY_LOSS_COUNT];
    uint64_t truncated_count;
};

struct tally;
struct tally *tally_new(const char *node, struct processes *processes, struct kallsyms *kallsyms,
                        uint32_t window_ms);
void tally_free(struct tally *tally);
void tally_sample(struct tally *tally, const struct sample_record *record);
/* Adds to the window's ledger: samples that BPF took and lost. */
void tally_lost(struct tally *tally, enum tally_loss cause, uint64_t count);
/* Samples lost since the start, by any cause. */
uint64_t tally_lost_count(const struct tally *tally, enum tally_loss cause);
/* The window that ended before now_wall_ms, NULL when the current one still runs; flush ends it at once. A
 * window with nothing in it is returned too: it says "alive, nothing ran". */
struct tally_window *tally_take(struct tally *tally, uint64_t now_wall_ms, bool flush);
void tally_window_free(struct tally_window *window);

#endif
