/* http: one GET, answered or failed when the call returns. The only file that knows libcurl.
 * Limits:    timeout_ms for the whole exchange, limit_bytes of body; no redirects; http and https only.
 * Errors:    -ECONNREFUSED, -EHOSTUNREACH (name or route), -ETIMEDOUT, -ECANCELED (stop), -EMSGSIZE,
 *            -EINVAL (not a URL), -EIO; the text says which URL. An HTTP status is no error: look at it.
 * Threads:   any; the call blocks. */
#ifndef COMMON_HTTP_H
#define COMMON_HTTP_H

#include "common/buf.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>

struct http_reply {
    int status;
    char content_type[128];
    char *note;      /* the value of the header asked for with note_name, else NULL */
    struct buf body; /* NUL-terminated (the NUL is not counted) */
};

struct http_get_options {
    long timeout_ms;
    size_t limit_bytes;
    const char *user_agent; /* may be NULL */
    const char *note_name;  /* a header to keep, may be NULL */
    bool (*stop)(void);     /* asked several times a second: true ends the call; may be NULL */
};

/* *ret_reply is written (http_reply_fini) on success only. */
int http_get(const char *url, const struct http_get_options *options, struct http_reply *ret_reply,
             struct err *err);
void http_reply_fini(struct http_reply *reply);

/* Appends "?name=value", or "&name=value" when the text has a '?', percent-encoded. -E2BIG. */
int http_append_param(struct buf *url, const char *name, const char *value);
/* Appends text as one segment of a path. -E2BIG. */
int http_append_segment(struct buf *url, const char *text);

#endif
