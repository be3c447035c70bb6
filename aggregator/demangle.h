/* demangle: the display name of a raw symbol.
 * Shapes:    C++ (_Z), Rust v0 (_R) and legacy (_ZN..17h<16 hex>E, the hash cut); anything else comes back
 *            as it is. Output is printable UTF-8.
 * Limits:    DEMANGLE_INPUT_BYTES in, DEMANGLE_OUTPUT_BYTES out, recursion as libiberty's own limit; over
 *            any of them the raw name, cut.
 * Threads:   any.
 * Source:    libiberty (binutils) cp-demangle.c, rust-demangle.c; Rust RFC 2603. */
#ifndef AGGREGATOR_DEMANGLE_H
#define AGGREGATOR_DEMANGLE_H

#include <stddef.h>

#define DEMANGLE_INPUT_BYTES  4096u
#define DEMANGLE_OUTPUT_BYTES 4096u

/* Returns the length written to out (NUL-terminated). */
size_t demangle(const char *raw, size_t raw_bytes, char *out, size_t out_bytes);

#endif
