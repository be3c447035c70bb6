/* xalloc: allocation for sizes the program itself chose; out of memory ends the process with a log line.
 * Sizes that come from input are checked against a stated limit before they get here. Threads: any. */
#ifndef COMMON_XALLOC_H
#define COMMON_XALLOC_H

#include <stddef.h>

void *xcalloc(size_t count, size_t bytes) __attribute__((malloc, returns_nonnull, warn_unused_result));
void *xmalloc(size_t bytes) __attribute__((malloc, returns_nonnull, warn_unused_result));
/* Grows an array to count items of bytes each; the old block is freed. */
void *xrealloc_array(void *old, size_t count, size_t bytes)
    __attribute__((returns_nonnull, warn_unused_result));
char *xstrdup(const char *text) __attribute__((malloc, returns_nonnull, warn_unused_result));
/* A copy of bytes with a NUL after it. */
char *xmemdup_text(const void *data, size_t bytes)
    __attribute__((malloc, returns_nonnull, warn_unused_result));

#endif
