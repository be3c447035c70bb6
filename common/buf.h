/* buf: a growable byte buffer with a stated limit.
 * Ownership: caller's storage (zero-initialised plus limit); buf_fini frees the bytes.
 * Errors:    -E2BIG past the limit; the buffer is then unchanged.  Threads: one. */
#ifndef COMMON_BUF_H
#define COMMON_BUF_H

#include <stddef.h>

struct buf {
    char *data;
    size_t used_bytes;
    size_t room_bytes;
    size_t limit_bytes;
};

static inline struct buf buf_init(size_t limit_bytes)
{
    return (struct buf){.limit_bytes = limit_bytes};
}

int buf_append(struct buf *buf, const void *data, size_t bytes);
int buf_printf(struct buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Makes room for bytes more and returns where they start, NULL past the limit; the caller then adds to
 * used_bytes. */
void *buf_reserve(struct buf *buf, size_t bytes);
static inline void buf_clear(struct buf *buf)
{
    buf->used_bytes = 0;
}
/* Gives the bytes to the caller (free), leaves the buffer empty. */
char *buf_take(struct buf *buf, size_t *ret_bytes);
void buf_fini(struct buf *buf);

#endif
