/* backoff: how long to wait before the next try: doubling from a least to a most, with jitter so that many
 * clients that failed together do not come back together.
 * Shapes:  the n-th delay is uniform in [d/2, d], d = min(max_ms, min_ms * 2^n); backoff_reset sets n to 0.
 * Units:   ms.   Threads: one.   Errors: none. */
#ifndef COMMON_BACKOFF_H
#define COMMON_BACKOFF_H

#include <stdint.h>

struct backoff {
    uint64_t min_ms, max_ms;
    uint64_t step_ms; /* d of the next delay */
    uint64_t random;  /* xorshift state, never 0 */
};

/* seed 0: the kernel's random numbers; tests give their own. min_ms is at least 1. */
void backoff_init(struct backoff *backoff, uint64_t min_ms, uint64_t max_ms, uint64_t seed);
uint64_t backoff_next_ms(struct backoff *backoff);
void backoff_reset(struct backoff *backoff);

#endif
