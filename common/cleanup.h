/* cleanup: automatic release of locals at scope end (gcc and clang `cleanup` attribute).
 * A function uses either these or one `goto fail`, not both. */
#ifndef COMMON_CLEANUP_H
#define COMMON_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *slot)
{
    free(*(void **)slot);
}

static inline void cleanup_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline void cleanup_fclose(FILE **file)
{
    if (*file)
        fclose(*file);
}

#define AUTO_FREE   __attribute__((cleanup(cleanup_free)))
#define AUTO_CLOSE  __attribute__((cleanup(cleanup_close)))
#define AUTO_FCLOSE __attribute__((cleanup(cleanup_fclose)))

#endif
