#include "common/backoff.h"

#include "common/clock.h"

#include <sys/random.h>

void backoff_init(struct backoff *backoff, uint64_t min_ms, uint64_t max_ms, uint64_t seed)
{
    backoff->min_ms = min_ms ? min_ms : 1;
    backoff->max_ms = max_ms > backoff->min_ms ? max_ms : backoff->min_ms;
    backoff->step_ms = backoff->min_ms;
    backoff->random = seed;
    if (seed == 0 && getrandom(&backoff->random, sizeof(backoff->random), 0) != sizeof(backoff->random))
        backoff->random = clock_mono_ns(); /* jitter only: a weak seed still spreads */
    if (backoff->random == 0)
        backoff->random = 1;
}

/* Marsaglia's xorshift64: enough to spread clients, not for anything secret. */
static uint64_t random_next(struct backoff *backoff)
{
    uint64_t x = backoff->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return backoff->random = x;
}

uint64_t backoff_next_ms(struct backoff *backoff)
{
    uint64_t step_ms = backoff->step_ms;
    backoff->step_ms = step_ms > backoff->max_ms / 2 ? backoff->max_ms : step_ms * 2;
    uint64_t least_ms = step_ms - step_ms / 2;
    return least_ms + random_next(backoff) % (step_ms / 2 + 1);
}

void backoff_reset(struct backoff *backoff)
{
    backoff->step_ms = backoff->min_ms;
}
