#include "common/http_server.h"

#include "common/clock.h"
#include "common/log.h"
#include "common/str.h"
#include "common/xalloc.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HTTP_STACK_BYTES (1u << 20) /* address space, taken up only as far as a handler goes */
#define HTTP_BACKLOG     128
#define ERROR_BYTES      2048

/* One connection. microhttpd counts only the time without any byte: a client that sends or reads a byte now
 * and then would keep its place for ever. */
struct talk {
    int fd;               /* -1: free */
    uint64_t deadline_ms; /* UINT64_MAX: the handler works */
    size_t held_bytes;    /* of the answer that is being sent */
};

struct http_server {
    struct MHD_Daemon *daemon;
    http_handler_fn handler;
    void *ctx;
    int port;
    sem_t turns; /* one for each handler that may run now */
    pthread_t watch_thread;
    bool watched; /* watch_thread runs */
    pthread_mutex_t lock;
    pthread_cond_t end;
    bool ending;
    unsigned head_ms, send_ms;
    size_t held_bytes, held_limit_bytes;
    struct talk talks[HTTP_CONNECTIONS];
};

struct http_request {
    struct MHD_Connection *connection;
    const char *path;
};

/* ---- the request ----------------------------------------------------------------------------- */

const char *http_request_path(const struct http_request *request)
{
    return request->path;
}

struct param_search {
    const char *name;
    size_t skip_count;
    const char *value;
};

static enum MHD_Result on_search(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct param_search *search = ctx;
    (void)kind;
    if (strcmp(name, search->name) != 0 || search->skip_count-- > 0)
        return MHD_YES;
    search->value = value ? value : "";
    return MHD_NO;
}

const char *http_request_param(const struct http_request *request, const char *name, size_t n)
{
    struct param_search search = {.name = name, .skip_count = n};
    MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, on_search, &search);
    return search.value;
}

struct param_walk {
    int (*on_param)(const char *name, const char *value, void *ctx);
    void *ctx;
    int rc;
};

static enum MHD_Result on_walk(void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct param_walk *walk = ctx;
    (void)kind;
    walk->rc = walk->on_param(name, value ? value : "", walk->ctx);
    return walk->rc ? MHD_NO : MHD_YES;
}

int http_request_each_param(const struct http_request *request,
                            int (*on_param)(const char *name, const char *value, void *ctx), void *ctx)
{
    struct param_walk walk = {.on_param = on_param, .ctx = ctx};
    MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, on_walk, &walk);
    return walk.rc;
}

/* C strings end at a NUL: a decoded %00 would cut the text silently. */
static size_t on_unescape(void *ctx, struct MHD_Connection *connection, char *text)
{
    (void)ctx;
    (void)connection;
    return strstr(text, "%00") ? strlen(text) : MHD_http_unescape(text);
}

/* ---- the response ---------------------------------------------------------------------------- */

static int append_json_string(struct buf *out, const char *text)
{
    char printable[ERROR_BYTES];
    str_printable(printable, sizeof(printable), text, strlen(text));
    int rc = buf_append(out, "\"", 1);
    for (const char *p = printable; *p && rc == 0; p++) {
        if (*p == '"' || *p == '\\')
            rc = buf_append(out, "\\", 1);
        if (rc == 0)
            rc = buf_append(out, p, 1);
    }
    return rc == 0 ? buf_append(out, "\"", 1) : rc;
}

void http_response_error(struct http_response *response, int status, const char *error, const char *hint)
{
    static const char error_key[] = "{\"error\": ", hint_key[] = ", \"hint\": ";
    struct buf *body = &response->body;
    response->status = status;
    response->content_type = "application/json";
    response->file_name = NULL;
    response->note_name = NULL;
    response->gzip = false;
    buf_clear(body);
    int rc = buf_append(body, error_key, sizeof(error_key) - 1);
    if (rc == 0)
        rc = append_json_string(body, error);
    if (rc == 0 && hint)
        rc = buf_append(body, hint_key, sizeof(hint_key) - 1);
    if (rc == 0 && hint)
        rc = append_json_string(body, hint);
    if (rc == 0)
        rc = buf_append(body, "}\n", 2);
    if (rc < 0)
        buf_clear(body); /* the status alone still tells */
}

static struct MHD_Response *make_response(struct http_response *response)
{
    size_t bytes;
    char *data = buf_take(&response->body, &bytes);
    static char nothing[] = "";
    struct MHD_Response *made = data ? MHD_create_response_from_buffer(bytes, data, MHD_RESPMEM_MUST_FREE)
                                     : MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
    if (!made)
        free(data);
    return made;
}

static enum MHD_Result send_response(struct MHD_Connection *connection, struct http_response *response)
{
    int status = response->status ? response->status : MHD_HTTP_OK;
    const char *type = response->content_type ? response->content_type : "text/plain; charset=utf-8";
    struct MHD_Response *made = make_response(response);
    if (!made)
        return MHD_NO;
    MHD_add_response_header(made, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(made, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    /* Names of functions and processes come from strangers: a browser must not guess them to be a page. */
    MHD_add_response_header(made, "X-Content-Type-Options", "nosniff");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(made, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    if (response->file_name) {
        char disposition[256];
        snprintf(disposition, sizeof(disposition), "attachment; filename=\"%s\"", response->file_name);
        MHD_add_response_header(made, MHD_HTTP_HEADER_CONTENT_DISPOSITION, disposition);
    }
    if (response->note_name && response->note)
        MHD_add_response_header(made, response->note_name, response->note);
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)status, made);
    MHD_destroy_response(made);
    return result;
}

/* ---- slow clients ---------------------------------------------------------------------------- */

static uint64_t now_ms(void)
{
    return clock_mono_ns() / CLOCK_NS_PER_MS;
}

static void on_connection(void *ctx, struct MHD_Connection *connection, void **slot,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http_server *server = ctx;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    pthread_mutex_lock(&server->lock);
    if (code == MHD_CONNECTION_NOTIFY_STARTED && info) {
        for (size_t i = 0; i < HTTP_CONNECTIONS && !*slot; i++)
            if (server->talks[i].fd == -1)
                *slot = &server->talks[i];
        if (*slot)
            *(struct talk *)*slot =
                (struct talk){.fd = info->connect_fd, .deadline_ms = now_ms() + server->head_ms};
    } else if (code == MHD_CONNECTION_NOTIFY_CLOSED && *slot) {
        struct talk *talk = *slot;
        server->held_bytes -= talk->held_bytes;
        *talk = (struct talk){.fd = -1};
        *slot = NULL;
    }
    pthread_mutex_unlock(&server->lock);
}

/* The connection enters a phase that may last so long. False: answers of that size have no room now. */
static bool set_phase(struct http_server *server, struct MHD_Connection *connection, uint64_t limit_ms,
                      size_t held_bytes)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct talk *talk = info ? info->socket_context : NULL;
    if (!talk)
        return true;
    pthread_mutex_lock(&server->lock);
    server->held_bytes -= talk->held_bytes;
    talk->held_bytes = 0;
    bool fits = held_bytes == 0 || server->held_bytes + held_bytes <= server->held_limit_bytes;
    if (fits) {
        server->held_bytes += held_bytes;
        talk->held_bytes = held_bytes;
    }
    talk->deadline_ms = limit_ms == UINT64_MAX ? UINT64_MAX : now_ms() + limit_ms;
    pthread_mutex_unlock(&server->lock);
    return fits;
}

static void on_completed(void *ctx, struct MHD_Connection *connection, void **slot,
                         enum MHD_RequestTerminationCode code)
{
    (void)slot;
    (void)code;
    set_phase(ctx, connection, ((struct http_server *)ctx)->head_ms, 0);
}

static void *watch(void *ctx)
{
    struct http_server *server = ctx;
    pthread_mutex_lock(&server->lock);
    while (!server->ending) {
        uint64_t now = now_ms();
        for (size_t i = 0; i < HTTP_CONNECTIONS; i++)
            if (server->talks[i].fd != -1 && now >= server->talks[i].deadline_ms)
                shutdown(server->talks[i].fd, SHUT_RDWR); /* its thread wakes up and ends */
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&server->end, &server->lock, &until);
    }
    pthread_mutex_unlock(&server->lock);
    return NULL;
}

/* ---- the server ------------------------------------------------------------------------------ */

static bool has_body(struct MHD_Connection *connection)
{
    const char *length =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return (length && strcmp(length, "0") != 0) ||
           MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_TRANSFER_ENCODING);
}

static enum MHD_Result refuse(struct MHD_Connection *connection, int status, const char *error,
                              const char *hint)
{
    struct http_response response = {.body = buf_init(HTTP_BODY_BYTES)};
    http_response_error(&response, status, error, hint);
    enum MHD_Result result = send_response(connection, &response);
    buf_fini(&response.body);
    return result;
}

/* microhttpd calls twice: when the head has come (slot empty), and when the request is whole. */
static enum MHD_Result on_access(void *ctx, struct MHD_Connection *connection, const char *path,
                                 const char *method, const char *version, const char *upload,
                                 size_t *upload_bytes, void **slot)
{
    struct http_server *server = ctx;
    (void)version;
    (void)upload;
    if (!*slot) {
        *slot = server;
        if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
            return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are answered here",
                          "parameters go into the query string");
        if (has_body(connection))
            return refuse(connection, MHD_HTTP_CONTENT_TOO_LARGE, "requests have no body here",
                          "parameters go into the query string");
        return MHD_YES;
    }
    *upload_bytes = 0;
    struct http_request request = {.connection = connection, .path = path};
    struct http_response response = {.body = buf_init(HTTP_BODY_BYTES)};
    set_phase(server, connection, UINT64_MAX, 0);
    while (sem_wait(&server->turns) == -1 && errno == EINTR) {
    }
    server->handler(&request, &response, server->ctx);
    sem_post(&server->turns);
    if (!set_phase(server, connection, server->send_ms, response.body.used_bytes))
        http_response_error(&response, MHD_HTTP_SERVICE_UNAVAILABLE,
                            "clients are too slow to take their answers",
                            "ask again in a moment, or for less");
    enum MHD_Result result = send_response(connection, &response);
    buf_fini(&response.body);
    free(response.note);
    return result;
}

static void on_log(void *ctx, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));

static void on_log(void *ctx, const char *fmt, va_list args)
{
    char line[512];
    (void)ctx;
    vsnprintf(line, sizeof(line), fmt, args);
    log_debug("http: %s", line);
}

int http_split_address(const char *address, char *ret_host, size_t host_bytes, int *ret_port, struct err *err)
{
    const char *host = address, *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : 0;
    uint64_t port;
    if (!colon)
        return err_say(err, -EINVAL, "address \"%s\": expected HOST:PORT", address);
    if (*host == '[' && length > 2 && host[length - 1] == ']') {
        host++;
        length -= 2;
    } else if (memchr(host, ':', length) || memchr(host, '[', length)) {
        return err_say(err, -EINVAL, "address \"%s\": write an IPv6 address as [ADDRESS]:PORT", address);
    }
    if (str_u64(colon + 1, strlen(colon + 1), 10, &port) < 0 || port > 65535)
        return err_say(err, -EINVAL, "address \"%s\": the port must be a number from 0 to 65535", address);
    if (length >= host_bytes)
        return err_say(err, -EINVAL, "address \"%s\": the host name is too long", address);
    memcpy(ret_host, host, length);
    ret_host[length] = '\0';
    *ret_port = (int)port;
    return 0;
}

/* A listening socket, or a negative errno. */
static int listen_on(const struct addrinfo *info)
{
    int on = 1, off = 0;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd == -1)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (info->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, HTTP_BACKLOG) == 0)
        return fd;
    int rc = errno ? -errno : -EIO;
    close(fd);
    return rc;
}

/* Tries every address of the name; for all addresses (no host) IPv6 first, which takes IPv4 with it. */
static int listen_at(const char *address, struct err *err)
{
    char host[256], service[8];
    int port = 0, fd = -EADDRNOTAVAIL;
    int rc = http_split_address(address, host, sizeof(host), &port, err);
    if (rc < 0)
        return rc;
    snprintf(service, sizeof(service), "%d", port);
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM},
                    *list = NULL;
    rc = getaddrinfo(*host ? host : NULL, service, &hints, &list);
    if (rc != 0)
        return err_say(err, -EINVAL, "address \"%s\": %s", address, gai_strerror(rc));
    for (int six = 1; six >= 0 && fd < 0; six--)
        for (const struct addrinfo *info = list; info && fd < 0; info = info->ai_next)
            if ((info->ai_family == AF_INET6) == six)
                fd = listen_on(info);
    freeaddrinfo(list);
    return fd < 0 ? err_set(err, fd, "listen on http://%s", address) : fd;
}

static int port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } name;
    socklen_t bytes = sizeof(name);
    memset(&name, 0, sizeof(name));
    if (getsockname(fd, &name.any, &bytes) == -1)
        return -1;
    in_port_t port = name.any.sa_family == AF_INET6 ? name.six.sin6_port : name.four.sin_port;
    return ntohs(port);
}

static void start_watch(struct http_server *server)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&server->end, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&server->lock, NULL);
    for (size_t i = 0; i < HTTP_CONNECTIONS; i++)
        server->talks[i].fd = -1;
    http_server_set_limits(server, HTTP_HEAD_SECONDS * 1000u, HTTP_SEND_SECONDS * 1000u, HTTP_HELD_BYTES);
    server->watched = pthread_create(&server->watch_thread, NULL, watch, server) == 0;
}

static void end_watch(struct http_server *server)
{
    pthread_mutex_lock(&server->lock);
    server->ending = true;
    pthread_cond_signal(&server->end);
    pthread_mutex_unlock(&server->lock);
    if (server->watched)
        pthread_join(server->watch_thread, NULL);
    pthread_cond_destroy(&server->end);
    pthread_mutex_destroy(&server->lock);
}

static struct MHD_Daemon *start_daemon(struct http_server *server, int fd)
{
    return MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC |
            MHD_USE_ERROR_LOG,
        0, NULL, NULL, on_access, server, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_LISTEN_SOCKET,
        fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_CONNECTIONS, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)HTTP_CONNECTIONS / 2, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_IDLE_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_REQUEST_BYTES, MHD_OPTION_THREAD_STACK_SIZE,
        (size_t)HTTP_STACK_BYTES, MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        server, MHD_OPTION_END);
}

int http_server_open(const char *address, unsigned thread_count, http_handler_fn handler, void *ctx,
                     struct http_server **ret_server, struct err *err)
{
    int fd = listen_at(address, err);
    if (fd < 0)
        return fd;
    struct http_server *server = xcalloc(1, sizeof(*server));
    server->handler = handler;
    server->ctx = ctx;
    server->port = port_of(fd);
    sem_init(&server->turns, 0, thread_count ? thread_count : HTTP_CONNECTIONS);
    start_watch(server);
    errno = 0;
    server->daemon = start_daemon(server, fd);
    if (!server->daemon) {
        int rc = err_set(err, errno ? -errno : -EIO, "start the HTTP server on %s", address);
        close(fd);
        http_server_close(server);
        return rc;
    }
    *ret_server = server;
    return 0;
}

void http_server_set_limits(struct http_server *server, unsigned head_ms, unsigned send_ms, size_t held_bytes)
{
    pthread_mutex_lock(&server->lock);
    server->head_ms = head_ms;
    server->send_ms = send_ms;
    server->held_limit_bytes = held_bytes;
    pthread_mutex_unlock(&server->lock);
}

int http_server_port(const struct http_server *server)
{
    return server->port;
}

void http_server_close(struct http_server *server)
{
    if (!server)
        return;
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    end_watch(server);
    sem_destroy(&server->turns);
    free(server);
}
