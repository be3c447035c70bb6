#include "node-agent/cpu_list.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct cpu_list list;
    struct err err;
    memcpy(text, data, size);
    text[size] = '\0';
    if (cpu_list_parse(text, &list, &err) == 0 && cpu_list_count(&list) == 0)
        abort();
    free(text);
    return 0;
}
