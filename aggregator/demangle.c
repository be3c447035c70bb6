#include "aggregator/demangle.h"

#include "aggregator/rust_v0.h"
#include "common/str.h"

#include <libiberty/demangle.h>

#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

/* libiberty's callback variants print piece by piece into the callback and allocate nothing on the heap:
 * d_demangle_callback and rust_demangle_callback keep all they need on the stack (tests/unit/test_demangle.c
 * holds them to that under the leak checker). So the callback may leave them by longjmp, which is the only
 * way to end a name that would expand to gigabytes. */
struct output {
    char text[DEMANGLE_OUTPUT_BYTES];
    size_t bytes;
    jmp_buf full;
};

static void on_piece(const char *piece, size_t bytes, void *ctx)
{
    struct output *output = ctx;
    if (bytes == 0) /* an empty Rust name comes as NULL */
        return;
    if (bytes > sizeof(output->text) - output->bytes)
        longjmp(output->full, 1);
    memcpy(output->text + output->bytes, piece, bytes);
    output->bytes += bytes;
}

typedef int (*demangle_fn)(const char *mangled, int options, demangle_callbackref callback, void *opaque);

/* options: DMGL_VERBOSE is what c++filt uses. For C++ it writes std::string and its kin out in full; for Rust
 * it would add the hashes that differ from build to build. False when it is not a name of this language, or
 * its text is longer than the limit. */
static bool expand(demangle_fn demangle_name, int options, const char *name, struct output *output)
{
    output->bytes = 0;
    if (setjmp(output->full))
        return false;
    return demangle_name(name, DMGL_PARAMS | DMGL_ANSI | options, on_piece, output) != 0 && output->bytes > 0;
}

/* Each of these costs libiberty time, printed or not; compilers write one or two. */
#define MAX_LIFETIMES 256u

static bool expand_rust_v0(const char *name, struct output *output)
{
    uint32_t lifetimes;
    return rust_v0_lifetimes(name, strlen(name), &lifetimes) == 0 && lifetimes <= MAX_LIFETIMES &&
           expand(rust_demangle_callback, 0, name, output);
}

/* LLVM appends ".llvm." and a hash of the module to local names that it exports: another one in every build.
 */
static void cut_llvm_suffix(char *name)
{
    char *suffix = strstr(name, ".llvm.");
    if (suffix)
        *suffix = '\0';
}

static bool expand_any(const char *name, struct output *output)
{
    char rust[DEMANGLE_INPUT_BYTES + 1];
    memcpy(rust, name, strlen(name) + 1);
    cut_llvm_suffix(rust);
    if (str_starts(name, "_R"))
        return expand_rust_v0(rust, output);
    if (!str_starts(name, "_Z"))
        return false;
    return expand(rust_demangle_callback, 0, rust, output) ||
           expand(cplus_demangle_v3_callback, DMGL_VERBOSE, name, output);
}

size_t demangle(const char *raw, size_t raw_bytes, char *out, size_t out_bytes)
{
    struct output output;
    char name[DEMANGLE_INPUT_BYTES + 1];
    if (raw_bytes <= DEMANGLE_INPUT_BYTES && raw_bytes > 2 && raw[0] == '_' &&
        !memchr(raw, '\0', raw_bytes)) {
        memcpy(name, raw, raw_bytes);
        name[raw_bytes] = '\0';
        if (expand_any(name, &output))
            return str_printable(out, out_bytes, output.text, output.bytes);
    }
    return str_printable(out, out_bytes, raw, raw_bytes);
}
