#include "common/buf.h"

#include "common/xalloc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *buf_reserve(struct buf *buf, size_t bytes)
{
    if (bytes > buf->limit_bytes || buf->used_bytes > buf->limit_bytes - bytes)
        return NULL;
    size_t need = buf->used_bytes + bytes;
    if (need > buf->room_bytes) {
        size_t room = buf->room_bytes ? buf->room_bytes : 256;
        while (room < need)
            room *= 2;
        buf->data = xrealloc_array(buf->data, room, 1);
        buf->room_bytes = room;
    }
    return buf->data ? buf->data + buf->used_bytes : NULL;
}

int buf_append(struct buf *buf, const void *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    void *place = buf_reserve(buf, bytes);
    if (!place)
        return -E2BIG;
    memcpy(place, data, bytes);
    buf->used_bytes += bytes;
    return 0;
}

int buf_printf(struct buf *buf, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int rc = -E2BIG;
    int bytes = vsnprintf(NULL, 0, fmt, args);
    char *place = bytes < 0 ? NULL : buf_reserve(buf, (size_t)bytes + 1);
    if (place) {
        vsnprintf(place, (size_t)bytes + 1, fmt, again);
        buf->used_bytes += (size_t)bytes;
        rc = 0;
    }
    va_end(again);
    va_end(args);
    return rc;
}

char *buf_take(struct buf *buf, size_t *ret_bytes)
{
    char *data = buf->data;
    *ret_bytes = buf->used_bytes;
    *buf = (struct buf){.limit_bytes = buf->limit_bytes};
    return data;
}

void buf_fini(struct buf *buf)
{
    free(buf->data);
    *buf = (struct buf){.limit_bytes = buf->limit_bytes};
}
