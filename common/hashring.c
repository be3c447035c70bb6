#define XXH_INLINE_ALL
#include "common/hashring.h"

#include <string.h>
#include <xxhash.h>

static XXH64_hash_t weigh(const void *key, size_t key_bytes, const char *name)
{
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, key, key_bytes);
    XXH3_64bits_update(&state, "", 1); /* the NUL keeps ("a", "bc") and ("ab", "c") apart */
    XXH3_64bits_update(&state, name, strlen(name));
    return XXH3_64bits_digest(&state);
}

size_t hashring_pick(const void *key, size_t key_bytes, const char *const *names, size_t count)
{
    size_t best = 0;
    XXH64_hash_t best_weight = weigh(key, key_bytes, names[0]);
    for (size_t i = 1; i < count; i++) {
        XXH64_hash_t weight = weigh(key, key_bytes, names[i]);
        if (weight > best_weight || (weight == best_weight && strcmp(names[i], names[best]) < 0)) {
            best = i;
            best_weight = weight;
        }
    }
    return best;
}
