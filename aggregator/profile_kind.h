/* profile_kind: the kinds of profile a shard takes, and what their values mean. One list for agents'
 * batches and for questions; a kind outside it is refused.   Threads: any. */
#ifndef AGGREGATOR_PROFILE_KIND_H
#define AGGREGATOR_PROFILE_KIND_H

#include <stdint.h>

#define PROFILE_KIND_NONE UINT32_MAX

struct profile_kind {
    const char *name, *unit;
    uint64_t scale; /* a stored value stands for value * scale units */
};

/* The kind's number, PROFILE_KIND_NONE when there is none of that name. */
uint32_t profile_kind_find(const char *name);
const struct profile_kind *profile_kind(uint32_t number);

#endif
