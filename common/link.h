/* link: nng request/reply with deadlines, receive limits and no shared state. The only file that knows nng.
 * Shapes:   addresses "tcp://host:port" (tls+tcp:// comes with the security work). A message is bytes; wire.h says
 *           what is in it.
 * Limits:   LINK_MESSAGE_BYTES is set as receive limit on every socket (nng's default is none, FAILURES T5).
 * Threads:  callbacks run on nng's own threads: they hand the message over (inbox_put) and return; they must not
 *           block, free or close anything of link.
 * Errors:   -ETIMEDOUT, -ECONNREFUSED, -EADDRINUSE, -ECANCELED (closing), -EMSGSIZE, -EIO. */
#ifndef COMMON_LINK_H
#define COMMON_LINK_H

#include "common/err.h"

#include <stddef.h>
#include <stdint.h>

#define LINK_MESSAGE_BYTES (16u << 20)

/* ---- server ---- */
struct link_server;
struct link_request; /* one received request waiting for its reply */

/* The request belongs to the receiver until link_reply. */
typedef void (*link_request_fn)(struct link_request *request, void *ctx);

/* Listens with in_flight_count contexts: at most that many requests are inside the program at once. */
int link_server_open(const char *address, unsigned in_flight_count, link_request_fn on_request, void *ctx,
                     struct link_server **ret_server, struct err *err);
const void *link_request_data(const struct link_request *request, size_t *ret_bytes);
/* Sends the reply and gives the request back. data is copied. Call exactly once; from any thread. */
void link_reply(struct link_request *request, const void *data, size_t bytes);
/* The port in use (for address ...:0). */
int link_server_port(const struct link_server *server);
/* Stops receiving and sending, then frees. Requests not replied to yet must be replied to first or never again. */
void link_server_close(struct link_server *server);

/* ---- client ---- */
struct link_client;
/* rc 0 with the reply's bytes (valid during the call only), else a negative errno and NULL. */
typedef void (*link_reply_fn)(int rc, const void *data, size_t bytes, void *ctx);

/* Dials in the background and keeps redialling with back-off and jitter (100 ms to 10 s); the name is resolved again
 * at every dial. */
int link_client_open(const char *address, struct link_client **ret_client, struct err *err);
/* One request, its reply or failure to on_reply exactly once, within timeout_ms. Several may be under way at once.
 * nng's own resend is off: a request is sent once, the caller decides about again. data is copied. */
int link_call(struct link_client *client, const void *data, size_t bytes, int timeout_ms, link_reply_fn on_reply,
              void *ctx);
/* Cancels what is under way (on_reply runs with -ECANCELED), then frees. Not from a callback. */
void link_client_close(struct link_client *client);

/* Blocking form for threads that may wait (query workers, tests): the reply is the caller's (free). */
int link_call_wait(struct link_client *client, const void *data, size_t bytes, int timeout_ms, void **ret_data,
                   size_t *ret_bytes);

#endif
