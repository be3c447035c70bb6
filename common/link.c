#include "common/link.h"

#include "common/clock.h"
#include "common/link_close.h"
#include "common/log.h"
#include "common/str.h"
#include "common/xalloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <nng/supplemental/util/platform.h>

#define REQUEST_ID_BYTES 64u /* room for nng's own header: 4 bytes without devices between */
#define RECONNECT_MIN_MS 100
#define RECONNECT_MAX_MS 10000
#define RECONNECT_SLOWER_MS                                                                                  \
    2000 /* least step after LINK_STUCK_MS: a new dialer must not start at the fast end again */

static int errno_of(int rv)
{
    switch (rv) {
    case 0:
        return 0;
    case NNG_ETIMEDOUT:
        return -ETIMEDOUT;
    case NNG_ECONNREFUSED:
        return -ECONNREFUSED;
    case NNG_ECONNRESET:
    case NNG_ECONNABORTED:
    case NNG_ECONNSHUT:
        return -ECONNRESET;
    case NNG_EADDRINUSE:
        return -EADDRINUSE;
    case NNG_ECLOSED:
    case NNG_ECANCELED:
        return -ECANCELED;
    case NNG_EMSGSIZE:
        return -EMSGSIZE;
    case NNG_ENOMEM:
        return -ENOMEM;
    case NNG_EPERM:
        return -EACCES;
    case NNG_EINVAL:
    case NNG_EADDRINVAL:
    case NNG_ENOTSUP:
        return -EINVAL;
    default:
        return rv & NNG_ESYSERR ? -(rv & ~NNG_ESYSERR) : -EIO;
    }
}

static int check_address(const char *address, struct err *err)
{
    if (!str_starts(address, "tcp://"))
        return err_say(err, -EINVAL, "address \"%.200s\" must have the form tcp://host:port", address);
    return 0;
}

/* ---- server
 * --------------------------------------------------------------------------------------------------- */

enum request_phase { REQUEST_RECEIVING, REQUEST_HELD, REQUEST_REPLYING };

struct link_request {
    struct link_server *server;
    nng_ctx ctx;
    nng_aio *aio;
    nng_msg *message; /* while HELD */
    enum request_phase phase;
};

struct link_server {
    nng_socket socket;
    bool has_socket;
    nng_listener listener;
    link_request_fn on_request;
    void *ctx;
    struct link_request *requests;
    unsigned request_count;
    atomic_bool closing;
    atomic_uint connection_count;
};

static void receive_next(struct link_request *request)
{
    if (atomic_load(&request->server->closing))
        return;
    request->phase = REQUEST_RECEIVING;
    nng_aio_set_timeout(request->aio, NNG_DURATION_INFINITE);
    nng_ctx_recv(request->ctx, request->aio);
}

static void on_server_aio(void *arg)
{
    struct link_request *request = arg;
    int rv = nng_aio_result(request->aio);
    if (request->phase == REQUEST_REPLYING) {
        if (rv != 0) { /* the connection is gone or stuck: the peer asks again */
            nng_msg_free(nng_aio_get_msg(request->aio));
            nng_aio_set_msg(request->aio, NULL);
        }
        receive_next(request);
        return;
    }
    if (rv == NNG_ECLOSED || rv == NNG_ECANCELED)
        return;
    if (rv != 0) {
        receive_next(request);
        return;
    }
    request->message = nng_aio_get_msg(request->aio);
    nng_aio_set_msg(request->aio, NULL);
    request->phase = REQUEST_HELD;
    /* From here on the request belongs to the receiver, who may reply on another thread before this returns.
     */
    request->server->on_request(request, request->server->ctx);
}

/* Counts connections; runs on nng's threads. */
static void on_server_connection(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct link_server *server = arg;
    if (event == NNG_PIPE_EV_REM_POST)
        atomic_fetch_sub(&server->connection_count, 1);
    else if (atomic_fetch_add(&server->connection_count, 1) >= LINK_CONNECTIONS_MAX)
        nng_pipe_close(pipe);
}

static int open_listener(struct link_server *server, const char *address)
{
    int rv = nng_rep0_open(&server->socket);
    if (rv != 0)
        return rv;
    server->has_socket = true;
    nng_pipe_notify(server->socket, NNG_PIPE_EV_ADD_PRE, on_server_connection, server);
    nng_pipe_notify(server->socket, NNG_PIPE_EV_REM_POST, on_server_connection, server);
    size_t limit_bytes = LINK_MESSAGE_BYTES + REQUEST_ID_BYTES;
    if ((rv = nng_socket_set_size(server->socket, NNG_OPT_RECVMAXSZ, limit_bytes)) != 0 ||
        (rv = nng_listener_create(&server->listener, server->socket, address)) != 0 ||
        (rv = nng_listener_set_size(server->listener, NNG_OPT_RECVMAXSZ, limit_bytes)) != 0 ||
        (rv = nng_listener_set_bool(server->listener, NNG_OPT_TCP_KEEPALIVE, true)) != 0)
        return rv;
    return nng_listener_start(server->listener, 0);
}

static int open_requests(struct link_server *server, unsigned count)
{
    server->requests = xcalloc(count, sizeof(*server->requests));
    for (unsigned i = 0; i < count; i++) {
        struct link_request *request = &server->requests[i];
        request->server = server;
        int rv = nng_ctx_open(&request->ctx, server->socket);
        if (rv != 0)
            return rv;
        if ((rv = nng_aio_alloc(&request->aio, on_server_aio, request)) != 0) {
            nng_ctx_close(request->ctx);
            return rv;
        }
        server->request_count++;
        receive_next(request);
    }
    return 0;
}

int link_server_open(const char *address, unsigned in_flight_count, link_request_fn on_request, void *ctx,
                     struct link_server **ret_server, struct err *err)
{
    int rc = check_address(address, err);
    if (rc < 0)
        return rc;
    struct link_server *server = xcalloc(1, sizeof(*server));
    server->on_request = on_request;
    server->ctx = ctx;
    rc = errno_of(open_listener(server, address));
    if (rc == 0)
        rc = errno_of(open_requests(server, in_flight_count ? in_flight_count : 1));
    if (rc < 0) {
        link_server_close(server);
        return err_set(err, rc, "listen on %.200s", address);
    }
    *ret_server = server;
    return 0;
}

const void *link_request_data(const struct link_request *request, size_t *ret_bytes)
{
    *ret_bytes = nng_msg_len(request->message);
    return nng_msg_body(request->message);
}

void link_reply(struct link_request *request, const void *data, size_t bytes)
{
    nng_msg_free(request->message);
    request->message = NULL;
    if (bytes > LINK_MESSAGE_BYTES) {
        static struct log_limit limit;
        if (log_limit_pass(&limit, NULL))
            log_error("link: a reply of %zu bytes is over the limit of %u: sending an empty one", bytes,
                      LINK_MESSAGE_BYTES);
        bytes = 0;
    }
    nng_msg *reply = NULL;
    if (nng_msg_alloc(&reply, bytes) != 0) { /* no memory: the peer's deadline tells it */
        receive_next(request);
        return;
    }
    if (bytes)
        memcpy(nng_msg_body(reply), data, bytes);
    request->phase = REQUEST_REPLYING;
    nng_aio_set_msg(request->aio, reply);
    nng_aio_set_timeout(request->aio, LINK_REPLY_MS);
    nng_ctx_send(request->ctx, request->aio);
}

int link_server_port(const struct link_server *server)
{
    int port = 0;
    int rv = nng_listener_get_int(server->listener, NNG_OPT_TCP_BOUND_PORT, &port);
    return rv == 0 ? port : errno_of(rv);
}

/* Two sweeps: nothing is freed while any callback may still run. An aio whose timeout passes at this moment may
 * be in the hands of nng's timeout thread, which then locks what the aio waits on: nng_aio_stop does not wait for
 * that, nng_aio_free does. So aios are freed before contexts and the socket are closed. */
void link_server_close(struct link_server *server)
{
    if (!server)
        return;
    atomic_store(&server->closing, true);
    for (unsigned i = 0; i < server->request_count; i++)
        nng_aio_stop(server->requests[i].aio);
    for (unsigned i = 0; i < server->request_count; i++) {
        struct link_request *request = &server->requests[i];
        nng_msg *unsent = nng_aio_get_msg(request->aio);
        if (unsent)
            nng_msg_free(unsent);
        nng_aio_free(request->aio);
        if (request->message)
            nng_msg_free(request->message);
        nng_ctx_close(request->ctx);
    }
    if (server->has_socket && !link_close(server->socket))
        return; /* its callbacks may still come */
    free(server->requests);
    free(server);
}

/* ---- client
 * --------------------------------------------------------------------------------------------------- */

struct call {
    struct link_client *client;
    nng_ctx ctx;
    nng_aio *aio;
    link_reply_fn on_reply;
    void *arg;
    uint64_t deadline_ns;
    bool active;  /* on_reply is still owed */
    bool waiting; /* sent, waiting for the reply */
    struct call *next_idle, *next;
};

struct link_client {
    nng_socket socket;
    bool has_socket;
    char *address;
    pthread_mutex_t lock; /* never held while an nng callback can run on this thread */
    nng_dialer dialer;
    uint64_t dialed_ns;  /* when the dialer was started or the connection was lost */
    nng_pipe connection; /* id 0: none */
    uint64_t
        unanswered_since_ns; /* first send since the last sign of life of the peer, 0 = nothing is owed */
    struct call *calls, *idle;
    unsigned call_count;
    bool closing;
};

static void on_client_connection(nng_pipe pipe, nng_pipe_ev event, void *arg)
{
    struct link_client *client = arg;
    pthread_mutex_lock(&client->lock);
    if (event == NNG_PIPE_EV_ADD_PRE) {
        client->connection = pipe;
        client->unanswered_since_ns = 0;
    } else if (nng_pipe_id(client->connection) == nng_pipe_id(pipe)) {
        client->connection = (nng_pipe)NNG_PIPE_INITIALIZER;
        client->dialed_ns = clock_mono_ns();
    }
    pthread_mutex_unlock(&client->lock);
}

static bool connected_locked(const struct link_client *client)
{
    return nng_pipe_id(client->connection) > 0;
}

static int start_dialer(struct link_client *client, nng_duration min_ms, nng_dialer *ret_dialer)
{
    nng_dialer dialer;
    int rv = nng_dialer_create(&dialer, client->socket, client->address);
    if (rv != 0)
        return rv;
    if ((rv = nng_dialer_set_ms(dialer, NNG_OPT_RECONNMINT, min_ms)) != 0 ||
        (rv = nng_dialer_set_ms(dialer, NNG_OPT_RECONNMAXT, RECONNECT_MAX_MS)) != 0 ||
        (rv = nng_dialer_set_size(dialer, NNG_OPT_RECVMAXSZ, LINK_MESSAGE_BYTES + REQUEST_ID_BYTES)) != 0 ||
        (rv = nng_dialer_set_bool(dialer, NNG_OPT_TCP_KEEPALIVE, true)) != 0 ||
        (rv = nng_dialer_start(dialer, NNG_FLAG_NONBLOCK)) != 0) {
        nng_dialer_close(dialer);
        return rv;
    }
    *ret_dialer = dialer;
    return 0;
}

static int open_client_socket(struct link_client *client)
{
    int rv = nng_req0_open(&client->socket);
    if (rv != 0)
        return rv;
    client->has_socket = true;
    nng_pipe_notify(client->socket, NNG_PIPE_EV_ADD_PRE, on_client_connection, client);
    nng_pipe_notify(client->socket, NNG_PIPE_EV_REM_POST, on_client_connection, client);
    if ((rv = nng_socket_set_size(client->socket, NNG_OPT_RECVMAXSZ,
                                  LINK_MESSAGE_BYTES + REQUEST_ID_BYTES)) != 0 ||
        (rv = nng_socket_set_ms(client->socket, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE)) != 0)
        return rv;
    nng_dialer dialer;
    if ((rv = start_dialer(client, RECONNECT_MIN_MS, &dialer)) != 0)
        return rv;
    pthread_mutex_lock(&client->lock);
    client->dialer = dialer;
    pthread_mutex_unlock(&client->lock);
    return 0;
}

int link_client_open(const char *address, struct link_client **ret_client, struct err *err)
{
    int rc = check_address(address, err);
    if (rc < 0)
        return rc;
    struct link_client *client = xcalloc(1, sizeof(*client));
    pthread_mutex_init(&client->lock, NULL);
    client->address = xstrdup(address);
    client->dialed_ns = clock_mono_ns();
    rc = errno_of(open_client_socket(client));
    if (rc < 0) {
        link_client_close(client);
        return err_set(err, rc, "dial %.200s", address);
    }
    *ret_client = client;
    return 0;
}

/* A dial into a black hole ends only with the kernel's patience; a new dialer also resolves the name again.
 */
static void redial_when_stuck(struct link_client *client)
{
    uint64_t now_ns = clock_mono_ns();
    pthread_mutex_lock(&client->lock);
    bool stuck = !connected_locked(client) && now_ns - client->dialed_ns >= LINK_STUCK_MS * CLOCK_NS_PER_MS;
    nng_dialer old = client->dialer;
    if (stuck)
        client->dialed_ns = now_ns; /* also keeps other threads out of here */
    pthread_mutex_unlock(&client->lock);
    if (!stuck)
        return;
    nng_dialer_close(old);
    nng_dialer fresh;
    if (start_dialer(client, RECONNECT_SLOWER_MS, &fresh) != 0)
        return; /* no memory: the next call tries again after LINK_STUCK_MS */
    pthread_mutex_lock(&client->lock);
    client->dialer = fresh;
    pthread_mutex_unlock(&client->lock);
}

static void note_sent(struct link_client *client)
{
    pthread_mutex_lock(&client->lock);
    if (client->unanswered_since_ns == 0)
        client->unanswered_since_ns = clock_mono_ns();
    pthread_mutex_unlock(&client->lock);
}

static void note_reply(struct link_client *client)
{
    pthread_mutex_lock(&client->lock);
    client->unanswered_since_ns = 0;
    pthread_mutex_unlock(&client->lock);
}

/* A call's deadline passed: is the connection dead without knowing it? */
static void drop_silent_connection(struct link_client *client)
{
    pthread_mutex_lock(&client->lock);
    nng_pipe connection = client->connection;
    uint64_t since_ns = client->unanswered_since_ns;
    bool silent = connected_locked(client) && since_ns != 0 &&
                  clock_mono_ns() - since_ns >= LINK_SILENT_MS * CLOCK_NS_PER_MS;
    if (silent)
        client->unanswered_since_ns = 0;
    pthread_mutex_unlock(&client->lock);
    if (silent)
        nng_pipe_close(connection);
}

static void call_end(struct call *call, int rc, const void *data, size_t bytes)
{
    struct link_client *client = call->client;
    call->active = false;
    call->on_reply(rc, data, bytes, call->arg);
    pthread_mutex_lock(&client->lock);
    call->next_idle = client->idle;
    client->idle = call;
    pthread_mutex_unlock(&client->lock);
}

static void on_sent(struct call *call, int rv)
{
    if (rv == 0) {
        note_sent(call->client);
        call->waiting = true;
        uint64_t now_ns = clock_mono_ns();
        uint64_t left_ms = call->deadline_ns > now_ns ? (call->deadline_ns - now_ns) / CLOCK_NS_PER_MS : 0;
        nng_aio_set_timeout(call->aio, left_ms ? (nng_duration)left_ms : 1);
        nng_ctx_recv(call->ctx, call->aio);
        return;
    }
    nng_msg *unsent = nng_aio_get_msg(call->aio);
    if (unsent)
        nng_msg_free(unsent);
    nng_aio_set_msg(call->aio, NULL);
    int rc = errno_of(rv);
    if (rv == NNG_ETIMEDOUT) {
        pthread_mutex_lock(&call->client->lock);
        rc = connected_locked(call->client) ? -ETIMEDOUT : -ECONNREFUSED;
        pthread_mutex_unlock(&call->client->lock);
        drop_silent_connection(call->client);
    }
    call_end(call, rc, NULL, 0);
}

static void on_client_aio(void *arg)
{
    struct call *call = arg;
    int rv = nng_aio_result(call->aio);
    if (!call->waiting) {
        on_sent(call, rv);
        return;
    }
    if (rv != 0) {
        if (rv == NNG_ETIMEDOUT)
            drop_silent_connection(call->client);
        call_end(call, errno_of(rv), NULL, 0);
        return;
    }
    note_reply(call->client);
    nng_msg *reply = nng_aio_get_msg(call->aio);
    nng_aio_set_msg(call->aio, NULL);
    call_end(call, 0, nng_msg_body(reply), nng_msg_len(reply));
    nng_msg_free(reply);
}

static struct call *new_call_locked(struct link_client *client, int *ret_rc)
{
    *ret_rc = -EAGAIN;
    if (client->call_count >= LINK_CALLS_MAX)
        return NULL;
    struct call *call = xcalloc(1, sizeof(*call));
    call->client = client;
    int rv = nng_ctx_open(&call->ctx, client->socket);
    if (rv == 0 && (rv = nng_aio_alloc(&call->aio, on_client_aio, call)) != 0)
        nng_ctx_close(call->ctx);
    if (rv != 0) {
        free(call);
        *ret_rc = errno_of(rv);
        return NULL;
    }
    call->next = client->calls;
    client->calls = call;
    client->call_count++;
    return call;
}

/* NULL: the reason is in ret_rc. */
static struct call *take_call(struct link_client *client, int *ret_rc)
{
    struct call *call = NULL;
    pthread_mutex_lock(&client->lock);
    if (client->closing) {
        *ret_rc = -ECANCELED;
    } else if (client->idle) {
        call = client->idle;
        client->idle = call->next_idle;
    } else {
        call = new_call_locked(client, ret_rc);
    }
    pthread_mutex_unlock(&client->lock);
    return call;
}

int link_call(struct link_client *client, const void *data, size_t bytes, int timeout_ms,
              link_reply_fn on_reply, void *ctx)
{
    if (bytes > LINK_MESSAGE_BYTES)
        return -EMSGSIZE;
    nng_msg *message;
    if (nng_msg_alloc(&message, bytes) != 0)
        return -ENOMEM;
    if (bytes)
        memcpy(nng_msg_body(message), data, bytes);
    int rc = 0;
    struct call *call = take_call(client, &rc);
    if (!call) {
        nng_msg_free(message);
        return rc;
    }
    redial_when_stuck(client);
    if (timeout_ms < 1)
        timeout_ms = 1;
    call->on_reply = on_reply;
    call->arg = ctx;
    call->active = true;
    call->waiting = false;
    call->deadline_ns = clock_mono_ns() + (uint64_t)timeout_ms * CLOCK_NS_PER_MS;
    nng_aio_set_msg(call->aio, message);
    nng_aio_set_timeout(call->aio, timeout_ms);
    nng_ctx_send(call->ctx, call->aio);
    return 0;
}

/* nng_aio_stop waits for a running callback; when that callback has just begun the second half of the call,
 * nng drops it without another callback, so a reply may still be owed afterwards. */
void link_client_close(struct link_client *client)
{
    if (!client)
        return;
    pthread_mutex_lock(&client->lock);
    client->closing = true;
    struct call *calls = client->calls;
    pthread_mutex_unlock(&client->lock);
    for (struct call *call = calls; call; call = call->next)
        nng_aio_stop(call->aio);
    for (struct call *call = calls; call; call = call->next) {
        if (call->active)
            call_end(call, -ECANCELED, NULL, 0);
        nng_msg *left = nng_aio_get_msg(call->aio);
        if (left)
            nng_msg_free(left);
        nng_aio_free(call->aio); /* before the context: see link_server_close */
        nng_ctx_close(call->ctx);
    }
    if (client->has_socket && !link_close(client->socket))
        return; /* its callbacks may still come */
    for (struct call *call = calls, *next; call; call = next) {
        next = call->next;
        free(call);
    }
    pthread_mutex_destroy(&client->lock);
    free(client->address);
    free(client);
}

/* ---- blocking form
 * -------------------------------------------------------------------------------------------- */

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t done_cond;
    bool done;
    int rc;
    void *data;
    size_t bytes;
};

static void on_waited(int rc, const void *data, size_t bytes, void *ctx)
{
    struct waiter *waiter = ctx;
    void *copy = NULL;
    if (rc == 0) {
        copy = malloc(bytes ? bytes : 1);
        if (!copy)
            rc = -ENOMEM;
        else if (bytes)
            memcpy(copy, data, bytes);
    }
    pthread_mutex_lock(&waiter->lock);
    waiter->rc = rc;
    waiter->data = copy;
    waiter->bytes = bytes;
    waiter->done = true;
    pthread_cond_signal(&waiter->done_cond);
    pthread_mutex_unlock(&waiter->lock);
}

int link_call_wait(struct link_client *client, const void *data, size_t bytes, int timeout_ms,
                   void **ret_data, size_t *ret_bytes)
{
    struct waiter waiter = {.lock = PTHREAD_MUTEX_INITIALIZER, .done_cond = PTHREAD_COND_INITIALIZER};
    int rc = link_call(client, data, bytes, timeout_ms, on_waited, &waiter);
    if (rc == 0) {
        pthread_mutex_lock(&waiter.lock);
        while (!waiter.done)
            pthread_cond_wait(&waiter.done_cond, &waiter.lock);
        pthread_mutex_unlock(&waiter.lock);
        rc = waiter.rc;
    }
    pthread_mutex_destroy(&waiter.lock);
    pthread_cond_destroy(&waiter.done_cond);
    if (rc < 0)
        return rc;
    *ret_data = waiter.data;
    *ret_bytes = waiter.bytes;
    return 0;
}
