#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/clock.h"
#include "common/link.h"
#include "common/xalloc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ANY_PORT "tcp://127.0.0.1:0"
#define HELD_MAX 4096
#define CALL_MS  20000 /* for calls that are expected to be answered: generous, the machine may be busy */

static void pause_ms(long ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

static void wait_for(const atomic_uint *count, unsigned want)
{
    uint64_t end_ns = clock_mono_ns() + 60 * CLOCK_NS_PER_S;
    while (atomic_load(count) < want && clock_mono_ns() < end_ns)
        pause_ms(2);
    assert_int_equal(atomic_load(count), want);
}

static void address_of(char *out, size_t bytes, int port)
{
    snprintf(out, bytes, "tcp://127.0.0.1:%d", port);
}

/* ---- servers ---- */

struct held {
    pthread_mutex_t lock;
    struct link_request *requests[HELD_MAX];
    atomic_uint count;
};

static void hold_request(struct link_request *request, void *ctx)
{
    struct held *held = ctx;
    pthread_mutex_lock(&held->lock);
    unsigned at = atomic_load(&held->count);
    assert_true(at < HELD_MAX);
    held->requests[at] = request;
    atomic_store(&held->count, at + 1);
    pthread_mutex_unlock(&held->lock);
}

static void echo(struct link_request *request, void *ctx)
{
    if (ctx)
        atomic_fetch_add((atomic_uint *)ctx, 1);
    size_t bytes;
    const void *data = link_request_data(request, &bytes);
    void *copy = xmemdup_text(data, bytes);
    link_reply(request, copy, bytes);
    free(copy);
}

static struct link_server *open_server(const char *address, unsigned in_flight, link_request_fn on_request,
                                       void *ctx)
{
    struct link_server *server = NULL;
    struct err err = {0};
    if (link_server_open(address, in_flight, on_request, ctx, &server, &err) < 0)
        fail_msg("%s", err.text);
    return server;
}

static struct link_client *open_client(int port)
{
    char address[64];
    address_of(address, sizeof(address), port);
    struct link_client *client = NULL;
    struct err err = {0};
    if (link_client_open(address, &client, &err) < 0)
        fail_msg("%s", err.text);
    return client;
}

/* ---- replies ---- */

struct replies {
    atomic_uint count, ok_count, canceled_count;
    atomic_int last_rc;
};

static void count_reply(int rc, const void *data, size_t bytes, void *ctx)
{
    (void)data;
    (void)bytes;
    struct replies *replies = ctx;
    atomic_store(&replies->last_rc, rc);
    atomic_fetch_add(&replies->ok_count, rc == 0);
    atomic_fetch_add(&replies->canceled_count, rc == -ECANCELED);
    atomic_fetch_add(&replies->count, 1);
}

static void assert_echoes(struct link_client *client, const char *text)
{
    void *reply = NULL;
    size_t bytes = 0;
    int rc, tries = 0;
    do /* the end of a connection may still be on its way to the client */
        rc = link_call_wait(client, text, strlen(text), CALL_MS, &reply, &bytes);
    while (rc == -ECONNRESET && ++tries < 3);
    assert_int_equal(rc, 0);
    assert_int_equal(bytes, strlen(text));
    assert_memory_equal(reply, text, bytes);
    free(reply);
}

/* ---- tests ---- */

static void reply_comes_back_to_its_call(void **state)
{
    (void)state;
    struct link_server *server = open_server(ANY_PORT, 2, echo, NULL);
    struct link_client *client = open_client(link_server_port(server));
    char text[32];
    for (int i = 0; i < 200; i++) {
        snprintf(text, sizeof(text), "question %d", i);
        assert_echoes(client, text);
    }
    assert_echoes(client, "");
    link_client_close(client);
    link_server_close(server);
}

static void *answer_held(void *arg)
{
    struct held *held = arg;
    for (unsigned i = atomic_load(&held->count); i-- > 0;) {
        size_t bytes;
        link_request_data(held->requests[i], &bytes);
        assert_int_equal(bytes, 4);
        link_reply(held->requests[i], &i, sizeof(i));
    }
    return NULL;
}

/* As the controller will hold its agents' requests until the policy changes. */
static void four_thousand_requests_can_be_held_and_answered_later(void **state)
{
    (void)state;
    struct held *held = xcalloc(1, sizeof(*held));
    pthread_mutex_init(&held->lock, NULL);
    struct link_server *server = open_server(ANY_PORT, HELD_MAX, hold_request, held);
    struct link_client *client = open_client(link_server_port(server));
    struct replies replies = {0};
    for (unsigned i = 0; i < 4000; i++)
        assert_int_equal(link_call(client, &i, sizeof(i), 60000, count_reply, &replies), 0);
    wait_for(&held->count, 4000);
    assert_int_equal(atomic_load(&replies.count), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, answer_held, held), 0);
    pthread_join(thread, NULL);
    wait_for(&replies.count, 4000);
    assert_int_equal(atomic_load(&replies.ok_count), 4000);
    link_client_close(client);
    link_server_close(server);
    pthread_mutex_destroy(&held->lock);
    free(held);
}

static void call_without_a_server_fails_at_its_deadline(void **state)
{
    (void)state;
    struct link_server *server = open_server(ANY_PORT, 1, echo, NULL);
    int port = link_server_port(server);
    link_server_close(server);
    struct link_client *client = open_client(port);
    uint64_t before_ns = clock_mono_ns();
    void *reply;
    size_t bytes;
    assert_int_equal(link_call_wait(client, "a", 1, 200, &reply, &bytes), -ECONNREFUSED);
    assert_in_range((clock_mono_ns() - before_ns) / CLOCK_NS_PER_MS, 190, 10000);
    link_client_close(client);
}

static void call_waits_for_a_server_that_comes_later(void **state)
{
    (void)state;
    struct link_server *server = open_server(ANY_PORT, 1, echo, NULL);
    char address[64];
    address_of(address, sizeof(address), link_server_port(server));
    int port = link_server_port(server);
    link_server_close(server);
    struct link_client *client = open_client(port);
    struct replies replies = {0};
    assert_int_equal(link_call(client, "a", 1, CALL_MS, count_reply, &replies), 0);
    pause_ms(300);
    assert_int_equal(atomic_load(&replies.count), 0);
    server = open_server(address, 1, echo, NULL);
    wait_for(&replies.ok_count, 1);
    link_client_close(client);
    link_server_close(server);
}

static void late_reply_is_dropped_and_the_next_call_gets_its_own(void **state)
{
    (void)state;
    struct held *held = xcalloc(1, sizeof(*held));
    pthread_mutex_init(&held->lock, NULL);
    struct link_server *server = open_server(ANY_PORT, 4, hold_request, held);
    struct link_client *client = open_client(link_server_port(server));
    void *reply = NULL;
    size_t bytes;
    assert_int_equal(link_call_wait(client, "one", 3, 300, &reply, &bytes), -ETIMEDOUT);
    wait_for(&held->count, 1);
    struct replies replies = {0};
    assert_int_equal(link_call(client, "two", 3, CALL_MS, count_reply, &replies), 0);
    wait_for(&held->count, 2);
    link_reply(held->requests[0], "late", 4);
    pause_ms(50);
    assert_int_equal(atomic_load(&replies.count), 0);
    link_reply(held->requests[1], "mine", 4);
    wait_for(&replies.ok_count, 1);
    link_client_close(client);
    link_server_close(server);
    pthread_mutex_destroy(&held->lock);
    free(held);
}

/* nng would send it again on the next connection unless told otherwise: the layer above must be the one to
 * decide. */
static void request_whose_connection_dies_fails_and_is_not_sent_again(void **state)
{
    (void)state;
    struct held *held = xcalloc(1, sizeof(*held));
    pthread_mutex_init(&held->lock, NULL);
    struct link_server *server = open_server(ANY_PORT, 1, hold_request, held);
    char address[64];
    address_of(address, sizeof(address), link_server_port(server));
    struct link_client *client = open_client(link_server_port(server));
    struct replies replies = {0};
    assert_int_equal(link_call(client, "once", 4, CALL_MS, count_reply, &replies), 0);
    wait_for(&held->count, 1);
    link_server_close(server);
    wait_for(&replies.count, 1);
    assert_int_equal(atomic_load(&replies.last_rc), -ECONNRESET);
    atomic_uint second_life_count = 0;
    server = open_server(address, 1, echo, &second_life_count);
    assert_echoes(client, "after the restart");
    assert_int_equal(atomic_load(&second_life_count), 1);
    link_client_close(client);
    link_server_close(server);
    pthread_mutex_destroy(&held->lock);
    free(held);
}

static void client_finds_a_server_again_after_each_restart(void **state)
{
    (void)state;
    struct link_server *server = open_server(ANY_PORT, 2, echo, NULL);
    char address[64];
    address_of(address, sizeof(address), link_server_port(server));
    struct link_client *client = open_client(link_server_port(server));
    for (int i = 0; i < 10; i++) {
        assert_echoes(client, "alive");
        link_server_close(server);
        server = open_server(address, 2, echo, NULL);
    }
    assert_echoes(client, "still");
    link_client_close(client);
    link_server_close(server);
}

static void port_in_use_is_named(void **state)
{
    (void)state;
    struct link_server *server = open_server(ANY_PORT, 1, echo, NULL);
    char address[64];
    address_of(address, sizeof(address), link_server_port(server));
    struct link_server *second = NULL;
    struct err err = {0};
    assert_int_equal(link_server_open(address, 1, echo, NULL, &second, &err), -EADDRINUSE);
    assert_null(second);
    assert_non_null(strstr(err.text, address));
    assert_non_null(strstr(err.text, "in use"));
    link_server_close(server);
}

static void bad_address_is_refused_with_its_text(void **state)
{
    (void)state;
    const char *const bad[] = {"",       "127.0.0.1:4140", "inproc://x",      "ipc:///x",
                               "tcp://", "tcp://host",     "tcp://host:99999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = {0};
        struct link_client *client = NULL;
        int rc = link_client_open(bad[i], &client, &err);
        if (rc == 0) { /* known only once it is resolved */
            link_client_close(client);
            assert_string_equal(bad[i], "tcp://host:99999");
            continue;
        }
        assert_int_equal(rc, -EINVAL);
        assert_null(client);
        assert_non_null(strstr(err.text, bad[i]));
    }
}

static void message_over_the_limit_is_refused_and_one_at_the_limit_passes(void **state)
{
    (void)state;
    struct link_server *server = open_server(ANY_PORT, 1, echo, NULL);
    struct link_client *client = open_client(link_server_port(server));
    char *big = xcalloc(1, LINK_MESSAGE_BYTES + 1);
    struct replies replies = {0};
    assert_int_equal(link_call(client, big, LINK_MESSAGE_BYTES + 1, CALL_MS, count_reply, &replies),
                     -EMSGSIZE);
    void *reply = NULL;
    size_t bytes;
    assert_int_equal(link_call_wait(client, big, LINK_MESSAGE_BYTES, CALL_MS, &reply, &bytes), 0);
    assert_int_equal(bytes, LINK_MESSAGE_BYTES);
    free(reply);
    free(big);
    assert_int_equal(atomic_load(&replies.count), 0);
    link_client_close(client);
    link_server_close(server);
}

static void answer_too_much(struct link_request *request, void *ctx)
{
    link_reply(request, ctx, LINK_MESSAGE_BYTES + 1);
}

static void reply_over_the_limit_arrives_empty(void **state)
{
    (void)state;
    char *big = xcalloc(1, LINK_MESSAGE_BYTES + 1);
    struct link_server *server = open_server(ANY_PORT, 1, answer_too_much, big);
    struct link_client *client = open_client(link_server_port(server));
    void *reply = NULL;
    size_t bytes = 1;
    assert_int_equal(link_call_wait(client, "a", 1, CALL_MS, &reply, &bytes), 0);
    assert_int_equal(bytes, 0);
    free(reply);
    link_client_close(client);
    link_server_close(server);
    free(big);
}

static void close_ends_every_call_once(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        struct held *held = xcalloc(1, sizeof(*held));
        pthread_mutex_init(&held->lock, NULL);
        struct link_server *server = open_server(ANY_PORT, 64, hold_request, held);
        struct link_client *client = open_client(link_server_port(server));
        struct replies replies = {0};
        for (unsigned i = 0; i < 100; i++)
            assert_int_equal(link_call(client, &i, sizeof(i), 60000, count_reply, &replies), 0);
        if (round % 2) /* else: closed while they are being sent */
            wait_for(&held->count, 64);
        link_client_close(client);
        assert_int_equal(atomic_load(&replies.count), 100);
        assert_int_equal(atomic_load(&replies.canceled_count), 100);
        link_server_close(server);
        pthread_mutex_destroy(&held->lock);
        free(held);
    }
    link_client_close(NULL);
    link_server_close(NULL);
}

/* ---- strangers on the wire ---- */

static int connect_raw(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    struct timeval limit = {.tv_sec = 20};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* True when the server closed the connection (after its 8 greeting bytes). */
static bool is_closed(int fd)
{
    char bytes[64];
    ssize_t got;
    while ((got = recv(fd, bytes, sizeof(bytes), 0)) > 0)
        continue;
    return got == 0 || errno == ECONNRESET;
}

static size_t resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %lu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* nng's timeout thread is then just about to cancel some of the calls. */
static void close_at_the_deadline_of_calls_is_clean(void **state)
{
    (void)state;
    struct held *held = xcalloc(1, sizeof(*held));
    pthread_mutex_init(&held->lock, NULL);
    struct link_server *server = open_server(ANY_PORT, 1, hold_request, held);
    for (int round = 0; round < 100; round++) {
        struct link_client *client = open_client(link_server_port(server));
        struct replies replies = {0};
        for (int i = 0; i < 32; i++)
            assert_int_equal(link_call(client, "x", 1, 8 + i % 4, count_reply, &replies), 0);
        pause_ms(9);
        link_client_close(client);
        assert_int_equal(atomic_load(&replies.count), 32);
    }
    link_server_close(server);
    pthread_mutex_destroy(&held->lock);
    free(held);
}

static void huge_claim_costs_only_its_own_connection(void **state)
{
    (void)state;
    struct link_server *server = open_server(ANY_PORT, 2, echo, NULL);
    int port = link_server_port(server);
    struct link_client *client = open_client(port);
    assert_echoes(client, "before");
    size_t before_bytes = resident_bytes();
    static const unsigned char greeting[8] = {0, 'S', 'P', 0, 0, 0x30, 0, 0}; /* a req0 peer */
    static const unsigned char claims[3][8] = {
        {0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, /* 8 EiB */
        {0, 0, 0, 1, 0, 0, 0, 0},                         /* 4 GiB */
        {0, 0, 0, 0, 1, 0, 0, 65},                        /* one byte over what is allowed */
    };
    for (int i = 0; i < 3; i++) {
        int fd = connect_raw(port);
        assert_int_equal(send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL), 8);
        assert_int_equal(send(fd, claims[i], sizeof(claims[i]), MSG_NOSIGNAL), 8);
        assert_true(is_closed(fd));
        close(fd);
        assert_echoes(client, "in between");
    }
    assert_true(resident_bytes() < before_bytes + (32u << 20));
    link_client_close(client);
    link_server_close(server);
}

static void noise_on_the_port_does_not_disturb_others(void **state)
{
    (void)state;
    struct link_server *server = open_server(ANY_PORT, 2, echo, NULL);
    int port = link_server_port(server);
    struct link_client *client = open_client(port);
    assert_echoes(client, "before");
    int silent = connect_raw(port);
    int http = connect_raw(port);
    assert_true(send(http, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL) == 18);
    assert_true(is_closed(http));
    close(http);
    /* Another protocol's greeting (pub), then a request without its id. */
    int other = connect_raw(port);
    assert_true(send(other, "\0SP\0\0\x20\0\0", 8, MSG_NOSIGNAL) == 8);
    assert_true(is_closed(other));
    close(other);
    int shorty = connect_raw(port);
    assert_true(send(shorty,
                     "\0SP\0\0\x30\0\0"
                     "\0\0\0\0\0\0\0\x02hi",
                     18, MSG_NOSIGNAL) == 18);
    assert_true(is_closed(shorty));
    close(shorty);
    assert_echoes(client, "after");
    close(silent);
    assert_echoes(client, "at the end");
    link_client_close(client);
    link_server_close(server);
}

/* A peer whose machine is gone says nothing; the kernel would keep the connection for a quarter of an hour.
 */
static void silent_connection_is_given_up_and_dialed_again(void **state)
{
    (void)state;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_bytes = sizeof(at);
    struct timeval limit = {.tv_sec = 30};
    assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &at_bytes), 0);
    struct link_client *client = open_client(ntohs(at.sin_port));
    struct replies replies = {0};
    assert_int_equal(link_call(client, "hear me", 7, LINK_SILENT_MS + 500, count_reply, &replies), 0);
    int first = accept(listener, NULL, NULL);
    assert_true(first >= 0);
    assert_int_equal(send(first, "\0SP\0\0\x31\0\0", 8, MSG_NOSIGNAL), 8);
    wait_for(&replies.count, 1);
    assert_int_equal(atomic_load(&replies.last_rc), -ETIMEDOUT);
    int second = accept(listener, NULL, NULL);
    assert_true(second >= 0);
    close(first);
    close(second);
    close(listener);
    link_client_close(client);
}

/* A port where somebody accepts and hangs up at once must not make the agents spin. */
static void many_clients_come_back_without_a_storm(void **state)
{
    (void)state;
    enum { CLIENTS = 50 };
    struct link_client *clients[CLIENTS];
    struct link_server *server = open_server(ANY_PORT, 8, echo, NULL);
    int port = link_server_port(server);
    char address[64];
    address_of(address, sizeof(address), port);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = open_client(port);
        assert_echoes(clients[i], "before");
    }
    link_server_close(server);

    int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct timeval limit = {.tv_usec = 50000};
    assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listener, 256), 0);
    unsigned dial_count = 0;
    for (uint64_t end_ns = clock_mono_ns() + 2 * CLOCK_NS_PER_S; clock_mono_ns() < end_ns;) {
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0) {
            dial_count++;
            close(fd);
        }
    }
    close(listener);
    /* Steps of 100, 200, 400, 800, 1600 ms, about two dials each: 7 to 10 for a client, measured 330 in all.
     */
    assert_in_range(dial_count, 1, CLIENTS * 30);
    server = open_server(address, 8, echo, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        assert_echoes(clients[i], "after");
        link_client_close(clients[i]);
    }
    link_server_close(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reply_comes_back_to_its_call),
        cmocka_unit_test(four_thousand_requests_can_be_held_and_answered_later),
        cmocka_unit_test(call_without_a_server_fails_at_its_deadline),
        cmocka_unit_test(call_waits_for_a_server_that_comes_later),
        cmocka_unit_test(late_reply_is_dropped_and_the_next_call_gets_its_own),
        cmocka_unit_test(request_whose_connection_dies_fails_and_is_not_sent_again),
        cmocka_unit_test(client_finds_a_server_again_after_each_restart),
        cmocka_unit_test(port_in_use_is_named),
        cmocka_unit_test(bad_address_is_refused_with_its_text),
        cmocka_unit_test(message_over_the_limit_is_refused_and_one_at_the_limit_passes),
        cmocka_unit_test(reply_over_the_limit_arrives_empty),
        cmocka_unit_test(close_ends_every_call_once),
        cmocka_unit_test(close_at_the_deadline_of_calls_is_clean),
        cmocka_unit_test(huge_claim_costs_only_its_own_connection),
        cmocka_unit_test(noise_on_the_port_does_not_disturb_others),
        cmocka_unit_test(silent_connection_is_given_up_and_dialed_again),
        cmocka_unit_test(many_clients_come_back_without_a_storm),
    };
    return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
