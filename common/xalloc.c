#include "common/xalloc.h"

#include "common/log.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *or_abort(void *block, size_t bytes)
{
    if (!block) {
        log_error("out of memory: %zu bytes", bytes);
        abort();
    }
    return block;
}

void *xcalloc(size_t count, size_t bytes)
{
    return or_abort(calloc(count ? count : 1, bytes ? bytes : 1), bytes);
}

void *xmalloc(size_t bytes)
{
    return or_abort(malloc(bytes ? bytes : 1), bytes);
}

void *xrealloc_array(void *old, size_t count, size_t bytes)
{
    return or_abort(reallocarray(old, count ? count : 1, bytes ? bytes : 1), bytes);
}

char *xstrdup(const char *text)
{
    return xmemdup_text(text, strlen(text));
}

char *xmemdup_text(const void *data, size_t bytes)
{
    char *copy = xmalloc(bytes + 1);
    if (bytes)
        memcpy(copy, data, bytes);
    copy[bytes] = '\0';
    return copy;
}
