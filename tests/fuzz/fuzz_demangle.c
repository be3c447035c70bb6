/* demangle over any bytes: printable, terminated, and back within libFuzzer's -timeout. Seeds:
 * tests/fuzz/corpus/demangle. */
#include "aggregator/demangle.c"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char out[DEMANGLE_OUTPUT_BYTES], again[32];
    size_t length = demangle((const char *)data, bytes, out, sizeof(out));
    if (length >= sizeof(out) || strlen(out) != length)
        __builtin_trap();
    if (demangle((const char *)data, bytes, again, sizeof(again)) >= sizeof(again))
        __builtin_trap();
    return 0;
}
