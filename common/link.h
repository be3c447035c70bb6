/* link: nng request/reply with deadlines, receive limits and no shared state. The only file that knows nng.
 * Shapes:   addresses "tcp://host:port" (tls+tcp:// comes with the security work). A message is bytes;
 *           wire.h says what is in it.
 * Limits:   LINK_MESSAGE_BYTES is set as receive limit on every socket (nng's default is none);
 *           a peer that claims more loses its own connection. LINK_CALLS_MAX calls under way per client,
 *           LINK_CONNECTIONS_MAX connections per server (more are closed at once).
 * Threads:  callbacks run on nng's own threads: they hand the message over (inbox_put) and return; they must
 *           not block, free or close anything of link.
 * Errors:   -ECONNREFUSED no connection within the deadline, nothing was sent; -ETIMEDOUT sent, no reply;
 *           -ECONNRESET sent, then the connection was lost: in these two cases the peer may have acted on the
 *           request; -EADDRINUSE, -ECANCELED (closing), -EMSGSIZE, -EINVAL (address), -ENOMEM, -EIO.
 * Source:   nng 1.5.2 src/sp/protocol/reqrep0/req.c, src/core/{socket,aio,taskq}.c:
 *           - With NNG_OPT_REQ_RESENDTIME infinite a request is sent once; when its connection dies it fails
 *             at once and is not sent on the next one. With any other value it is sent again there.
 *           - The redial delay is random() % step, step doubling from 100 ms to 10 s, but the random number
 *             is signed there: half of the redials come at once, the others uniform in [0, step). Bounded (at
 *             10 s a dial every 2.5 s on average) and well spread, but there is no least delay.
 *           - A TCP connection whose peer vanished without a word stays "ready" until the kernel gives it up
 *             (about 15 minutes); a dial into a black hole takes the kernel about 2 minutes. So link drops a
 *             connection on which nothing came back for LINK_SILENT_MS when a call's deadline passes, and
 *             starts a new dial after LINK_STUCK_MS without a connection (looked at when a call is made).
 *           - Threads: 2 per CPU (at most 16) for callbacks, one per CPU for timeouts, 4 resolvers, poller,
 *             reaper, timer; per process, started with the first socket, fixed when nng is built. Measured:
 *             13 threads and 0.7 MB RSS on 2 CPUs, 151 threads and 2.0 MB on 128. */
#ifndef COMMON_LINK_H
#define COMMON_LINK_H

#include "common/err.h"

#include <stddef.h>
#include <stdint.h>

#define LINK_MESSAGE_BYTES   (16u << 20)
#define LINK_CALLS_MAX       8192u
#define LINK_CONNECTIONS_MAX 16384u
#define LINK_SILENT_MS       3000u
#define LINK_STUCK_MS        20000u
#define LINK_REPLY_MS        10000u /* a reply its connection does not take within this time is dropped */

/* ---- server ---- */
struct link_server;
struct link_request; /* one received request waiting for its reply */

/* The request belongs to the receiver until link_reply. */
typedef void (*link_request_fn)(struct link_request *request, void *ctx);

/* Listens with in_flight_count contexts: at most that many requests are inside the program at once. */
int link_server_open(const char *address, unsigned in_flight_count, link_request_fn on_request, void *ctx,
                     struct link_server **ret_server, struct err *err);
const void *link_request_data(const struct link_request *request, size_t *ret_bytes);
/* Sends the reply and gives the request back. data is copied. Call exactly once; from any thread. A reply
 * over LINK_MESSAGE_BYTES is a bug of the caller: the peer gets an empty one. */
void link_reply(struct link_request *request, const void *data, size_t bytes);
/* The port in use (for address ...:0). */
int link_server_port(const struct link_server *server);
/* Stops receiving and sending, then frees. Requests not replied to yet must be replied to first or never
 * again. */
void link_server_close(struct link_server *server);

/* ---- client ---- */
struct link_client;
/* rc 0 with the reply's bytes (valid during the call only), else a negative errno and NULL. */
typedef void (*link_reply_fn)(int rc, const void *data, size_t bytes, void *ctx);

/* Dials in the background and keeps redialling with back-off and jitter (see above); the name is resolved
 * again at every dial. A call made without a connection waits for one until its deadline. */
int link_client_open(const char *address, struct link_client **ret_client, struct err *err);
/* One request, its reply or failure to on_reply exactly once, within timeout_ms. Several may be under way at
 * once. nng's own resend is off: a request is sent once, the caller decides about again. data is copied. When
 * the call itself fails (-EMSGSIZE, -EAGAIN over LINK_CALLS_MAX, -ECANCELED, -ENOMEM) on_reply does not run.
 * From any thread. */
int link_call(struct link_client *client, const void *data, size_t bytes, int timeout_ms,
              link_reply_fn on_reply, void *ctx);
/* Cancels what is under way (on_reply runs with -ECANCELED), then frees. Not from a callback; no link_call
 * may run. */
void link_client_close(struct link_client *client);

/* Blocking form for threads that may wait (query workers, tests): the reply is the caller's (free). */
int link_call_wait(struct link_client *client, const void *data, size_t bytes, int timeout_ms,
                   void **ret_data, size_t *ret_bytes);

#endif
