/* rust_v0: how many lifetimes a Rust v0 symbol binds ("for<'a, 'b ...>"), by walking its grammar without
 * expanding it. Why:      libiberty counts bound lifetimes through one by one, also where it prints nothing
 * and so cannot be stopped: a name of 30 bytes keeps it busy for years.
 * Limits:    RUST_V0_DEPTH.
 * Threads:   any; pure.
 * Errors:    -EINVAL not of the grammar (as libiberty knows it: constants are numbers, bools and chars).
 * Source:    Rust RFC 2603; rustc book, "v0 symbol format". */
#ifndef AGGREGATOR_RUST_V0_H
#define AGGREGATOR_RUST_V0_H

#include <stddef.h>
#include <stdint.h>

#define RUST_V0_DEPTH 512u

/* name: with its "_R"; what follows a '.' or '$' is not looked at. The count stops at UINT32_MAX. */
int rust_v0_lifetimes(const char *name, size_t bytes, uint32_t *ret_count);

#endif
