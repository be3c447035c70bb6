/* hashring: rendezvous (highest random weight) hashing of a key over a list of names.
 * Shapes:  the weight of (key, name) is xxh3-64 over "key\0name"; ties go to the smaller name. The order of
 * the list does not matter; a list that gains or loses one of n names moves about 1/n of the keys. Source:
 * Thaler & Ravishankar, "Using name-based mappings to increase hit rates", IEEE/ACM ToN 1998.  Threads: any.
 */
#ifndef COMMON_HASHRING_H
#define COMMON_HASHRING_H

#include <stddef.h>

/* The chosen index; count must be at least 1. */
size_t hashring_pick(const void *key, size_t key_bytes, const char *const *names, size_t count);

#endif
