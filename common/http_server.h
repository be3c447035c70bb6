/* http_server: a small HTTP/1.1 server on libmicrohttpd. The only file that knows microhttpd.
 * Limits:    HTTP_CONNECTIONS at once, half of them from one address; HTTP_REQUEST_BYTES of request head, no
 *            request body; HTTP_BODY_BYTES of answer, HTTP_HELD_BYTES of all answers not read yet;
 *            HTTP_IDLE_SECONDS without a byte, HTTP_HEAD_SECONDS for a head and HTTP_SEND_SECONDS for reading
 *            an answer however the bytes drip: a client that is slow on purpose keeps its place no longer.
 * Threads:   each connection has a thread of its own, so that a handler may block for the time of a query
 *            without holding up /healthz; thread_count limits the handlers that run at once.
 * Errors:    http_server_open: -EADDRINUSE, -EACCES, -EINVAL with text. */
#ifndef COMMON_HTTP_SERVER_H
#define COMMON_HTTP_SERVER_H

#include "common/buf.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>

#define HTTP_CONNECTIONS   256
#define HTTP_REQUEST_BYTES 32768
#define HTTP_BODY_BYTES    (256u << 20)
#define HTTP_HELD_BYTES    (512u << 20)
#define HTTP_IDLE_SECONDS  10
#define HTTP_HEAD_SECONDS  15 /* longer than idle: a connection kept alive begins its next request late */
#define HTTP_SEND_SECONDS  120

struct http_server;
struct http_request; /* valid during the handler */

struct http_response {
    int status;               /* 200 when the handler leaves it 0 */
    const char *content_type; /* static; "text/plain; charset=utf-8" when NULL */
    const char *file_name;    /* static or NULL: Content-Disposition */
    const char *note_name;    /* static or NULL: one more header, with note as its value (one line) */
    char *note;               /* heap; the server frees it */
    bool gzip;                /* body is gzip already: Content-Encoding is NOT set, the type says so */
    struct buf body;          /* limit set by the server; the server frees it */
};

/* GET and HEAD only reach the handler; other methods and requests with a body are answered by the server. */
typedef void (*http_handler_fn)(const struct http_request *request, struct http_response *response,
                                void *ctx);

/* address "host:port"; port 0 picks one. thread_count 0: as many handlers at once as there are connections.
 */
int http_server_open(const char *address, unsigned thread_count, http_handler_fn handler, void *ctx,
                     struct http_server **ret_server, struct err *err);
int http_server_port(const struct http_server *server);
/* Other patience than HTTP_HEAD_SECONDS, HTTP_SEND_SECONDS and HTTP_HELD_BYTES; for what comes from now on. */
void http_server_set_limits(struct http_server *server, unsigned head_ms, unsigned send_ms,
                            size_t held_bytes);
/* Waits for the handlers under way. NULL is fine. */
void http_server_close(struct http_server *server);

/* Makes the response an error: {"error": "...", "hint": "..."}; hint may be NULL. What the body held is
 * dropped. */
void http_response_error(struct http_response *response, int status, const char *error, const char *hint);

/* Decoded; a path or value with %00 in it stays as it was sent. */
const char *http_request_path(const struct http_request *request);
/* The n-th value of a query parameter (n from 0), NULL when there is none. */
const char *http_request_param(const struct http_request *request, const char *name, size_t n);
/* Calls back for every query parameter, in order: so that unknown ones can be refused. Stops at a non-zero
 * result. */
int http_request_each_param(const struct http_request *request,
                            int (*on_param)(const char *name, const char *value, void *ctx), void *ctx);

/* Splits "host:port" or "[v6]:port" or ":port" (all addresses). -EINVAL with text. */
int http_split_address(const char *address, char *ret_host, size_t host_bytes, int *ret_port,
                       struct err *err);

#endif
