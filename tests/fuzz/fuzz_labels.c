/* fuzz_labels: matcher texts as users type them into queries. Input: the text, and after a NUL a value to
 * match. */
#include "common/labels.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const uint8_t *nul = memchr(data, 0, bytes);
    size_t text_bytes = nul ? (size_t)(nul - data) : bytes;
    char value[64] = "value";
    if (nul) {
        size_t left = bytes - text_bytes - 1;
        memcpy(value, nul + 1, left < sizeof(value) - 1 ? left : sizeof(value) - 1);
        value[left < sizeof(value) - 1 ? left : sizeof(value) - 1] = '\0';
    }
    struct label_matchers matchers = {.count = 0};
    struct err err;
    if (labels_parse((const char *)data, text_bytes, &matchers, &err) == 0) {
        for (size_t i = 0; i < matchers.count; i++)
            label_match(&matchers.items[i], value);
    } else if (matchers.count != 0 || err.code >= 0) {
        abort(); /* on error nothing is added, and the error says so */
    }
    labels_fini(&matchers);
    return 0;
}
