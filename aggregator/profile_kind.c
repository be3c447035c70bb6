#include "aggregator/profile_kind.h"

#include <stddef.h>
#include <string.h>

static const struct profile_kind KINDS[] = {
    {"cpu", "nanoseconds", 1000}, {"offcpu", "nanoseconds", 1000}, {"lock", "nanoseconds", 1000},
    {"alloc_space", "bytes", 1},  {"alloc_objects", "objects", 1},
};

uint32_t profile_kind_find(const char *name)
{
    for (uint32_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++)
        if (strcmp(KINDS[i].name, name) == 0)
            return i;
    return PROFILE_KIND_NONE;
}

const struct profile_kind *profile_kind(uint32_t number)
{
    return &KINDS[number];
}
