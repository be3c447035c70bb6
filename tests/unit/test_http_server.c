#include "common/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

static int show_param(const char *name, const char *value, void *ctx)
{
    return buf_printf(ctx, "%s=%s|", name, value);
}

static void on_request(const struct http_request *request, struct http_response *response, void *ctx)
{
    const char *path = http_request_path(request);
    pthread_barrier_t *meet = ctx;
    if (strcmp(path, "/meet") == 0 && meet)
        pthread_barrier_wait(meet);
    if (strcmp(path, "/error") == 0) {
        buf_printf(&response->body, "half an answer");
        http_response_error(response, 404, "no \"such\" \\ page \xff\n", "look elsewhere");
        return;
    }
    if (strcmp(path, "/empty") == 0)
        return;
    if (strcmp(path, "/big") == 0) {
        char *room = buf_reserve(&response->body, 3 << 20);
        memset(room, 'x', 3 << 20);
        response->body.used_bytes += 3 << 20;
        return;
    }
    const char *second = http_request_param(request, "a", 1);
    buf_printf(&response->body, "%s ", path);
    http_request_each_param(request, show_param, &response->body);
    buf_printf(&response->body, " a1=%s", second ? second : "(none)");
    response->content_type = "text/x-test";
    response->file_name = "a.pb.gz";
}

/* Sends text, returns all that comes until the server closes. */
static char *talk(int port, const char *text)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    size_t bytes = strlen(text);
    assert_int_equal(send(fd, text, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
    struct buf got = buf_init(16 << 20);
    for (;;) {
        char chunk[65536];
        ssize_t n = recv(fd, chunk, sizeof(chunk), 0);
        if (n <= 0)
            break;
        assert_int_equal(buf_append(&got, chunk, (size_t)n), 0);
    }
    close(fd);
    assert_int_equal(buf_append(&got, "", 1), 0);
    size_t all;
    return buf_take(&got, &all);
}

static char *get(int port, const char *method, const char *target)
{
    char request[1024];
    snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", method,
             target);
    return talk(port, request);
}

static struct http_server *open_server(void *ctx)
{
    struct http_server *server = NULL;
    struct err err = {0};
    if (http_server_open("127.0.0.1:0", 0, on_request, ctx, &server, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(http_server_port(server) > 0);
    return server;
}

static const char *body_of(const char *answer)
{
    const char *end = strstr(answer, "\r\n\r\n");
    assert_non_null(end);
    return end + 4;
}

static void gives_the_decoded_path_and_parameters(void **state)
{
    (void)state;
    struct http_server *server = open_server(NULL);
    char *answer =
        get(http_server_port(server), "GET", "/p%20q?a=1&b=%7Bx%3D%22y%22%7D&a=two+words&flag&n=%00x");
    assert_true(strncmp(answer, "HTTP/1.1 200 ", 13) == 0);
    assert_string_equal(body_of(answer), "/p q a=1|b={x=\"y\"}|a=two words|flag=|n=%00x| a1=two words");
    assert_non_null(strstr(answer, "Content-Type: text/x-test\r\n"));
    assert_non_null(strstr(answer, "X-Content-Type-Options: nosniff\r\n"));
    assert_non_null(strstr(answer, "Content-Disposition: attachment; filename=\"a.pb.gz\"\r\n"));
    free(answer);
    http_server_close(server);
}

static void head_is_get_without_the_body(void **state)
{
    (void)state;
    struct http_server *server = open_server(NULL);
    char *answer = get(http_server_port(server), "HEAD", "/big");
    assert_non_null(strstr(answer, "Content-Length: 3145728\r\n"));
    assert_string_equal(body_of(answer), "");
    free(answer);
    answer = get(http_server_port(server), "GET", "/big");
    assert_int_equal(strlen(body_of(answer)), 3145728);
    free(answer);
    answer = get(http_server_port(server), "GET", "/empty");
    assert_true(strncmp(answer, "HTTP/1.1 200 ", 13) == 0);
    assert_string_equal(body_of(answer), "");
    free(answer);
    http_server_close(server);
}

static void errors_are_json_whatever_their_text(void **state)
{
    (void)state;
    struct http_server *server = open_server(NULL);
    char *answer = get(http_server_port(server), "GET", "/error");
    assert_true(strncmp(answer, "HTTP/1.1 404 ", 13) == 0);
    assert_string_equal(
        body_of(answer),
        "{\"error\": \"no \\\"such\\\" \\\\\\\\ page \\\\xff\\\\x0a\", \"hint\": \"look elsewhere\"}\n");
    assert_non_null(strstr(answer, "Content-Type: application/json\r\n"));
    free(answer);
    http_server_close(server);
}

static void other_methods_and_bodies_are_refused(void **state)
{
    (void)state;
    struct http_server *server = open_server(NULL);
    int port = http_server_port(server);
    char *answer = get(port, "DELETE", "/");
    assert_true(strncmp(answer, "HTTP/1.1 405 ", 13) == 0);
    assert_non_null(strstr(answer, "Allow: GET, HEAD\r\n"));
    assert_non_null(strstr(answer, "\"error\": \"only GET and HEAD"));
    free(answer);
    answer = talk(port, "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc");
    assert_true(strncmp(answer, "HTTP/1.1 405 ", 13) == 0);
    free(answer);
    answer = talk(port, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc");
    assert_true(strncmp(answer, "HTTP/1.1 413 ", 13) == 0);
    free(answer);
    http_server_close(server);
}

static void a_request_over_the_limit_is_refused(void **state)
{
    (void)state;
    struct http_server *server = open_server(NULL);
    size_t bytes = 2 * HTTP_REQUEST_BYTES;
    char *target = malloc(bytes + 1), *request = malloc(bytes + 100);
    memset(target, 'a', bytes);
    target[bytes] = '\0';
    snprintf(request, bytes + 100, "GET /%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", target);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)http_server_port(server))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    (void)!send(fd, request, strlen(request), MSG_NOSIGNAL);
    char head[16] = {0};
    ssize_t n = recv(fd, head, sizeof(head) - 1, MSG_WAITALL); /* a reset instead is as good */
    assert_true(n <= 0 || strncmp(head, "HTTP/1.1 4", 10) == 0);
    close(fd);
    free(target);
    free(request);
    char *answer = get(http_server_port(server), "GET", "/empty"); /* and the server lives */
    assert_true(strncmp(answer, "HTTP/1.1 200 ", 13) == 0);
    free(answer);
    http_server_close(server);
}

static void *ask_to_meet(void *ctx)
{
    free(get(*(int *)ctx, "GET", "/meet"));
    return NULL;
}

static void a_blocked_handler_does_not_hold_up_others(void **state)
{
    (void)state;
    pthread_barrier_t meet;
    pthread_barrier_init(&meet, NULL, 9); /* eight handlers wait for each other and for this test */
    struct http_server *server = open_server(&meet);
    int port = http_server_port(server);
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_to_meet, &port), 0);
    char *answer = get(port, "GET", "/empty");
    assert_true(strncmp(answer, "HTTP/1.1 200 ", 13) == 0);
    free(answer);
    pthread_barrier_wait(&meet);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    http_server_close(server);
    pthread_barrier_destroy(&meet);
}

static int connect_to(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), few = 4096;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &few, sizeof(few));
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* Sends a byte (or reads one, when it should) each 100 ms, as a client would that wants to keep its place; the
 * number of bytes until the server had enough, 100 at most. */
static int drip(int fd, bool reads)
{
    for (int i = 0; i < 100; i++) {
        char byte = 'x';
        ssize_t n = reads ? recv(fd, &byte, 1, 0) : send(fd, &byte, 1, MSG_NOSIGNAL);
        if (n != 1 || (!reads && recv(fd, &byte, 1, MSG_DONTWAIT) == 0))
            return i;
        usleep(100000);
    }
    return 100;
}

static void a_request_that_drips_in_is_cut_off(void **state)
{
    (void)state;
    struct http_server *server = open_server(NULL);
    http_server_set_limits(server, 500, 60000, 1u << 20);
    int fd = connect_to(http_server_port(server));
    const char head[] = "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ";
    assert_int_equal(send(fd, head, sizeof(head) - 1, MSG_NOSIGNAL), sizeof(head) - 1);
    int bytes = drip(fd, false);
    assert_in_range(bytes, 3, 40); /* cut at 0.5 to 1.5 s; idle for 10 s it never was */
    close(fd);
    http_server_close(server);
}

static void a_client_that_reads_too_slowly_is_cut_off(void **state)
{
    (void)state;
    struct http_server *server = open_server(NULL);
    http_server_set_limits(server, 60000, 500, 64u << 20);
    int fd = connect_to(http_server_port(server));
    const char head[] = "GET /big HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_int_equal(send(fd, head, sizeof(head) - 1, MSG_NOSIGNAL), sizeof(head) - 1);
    usleep(2000000);
    /* What the two kernels hold can still be read; the rest never comes. */
    size_t got = 0;
    char chunk[65536];
    for (ssize_t n; (n = recv(fd, chunk, sizeof(chunk), 0)) > 0;)
        got += (size_t)n;
    assert_true(got > 0);
    assert_true(got < 3u << 20);
    close(fd);
    http_server_close(server);
}

static void answers_that_nobody_takes_have_a_limit_together(void **state)
{
    (void)state;
    struct http_server *server = open_server(NULL);
    int port = http_server_port(server), slow[2];
    http_server_set_limits(server, 60000, 60000, 7u << 20); /* two of 3 MiB and no third */
    const char head[] = "GET /big HTTP/1.1\r\nHost: x\r\n\r\n";
    for (int i = 0; i < 2; i++) {
        char byte;
        slow[i] = connect_to(port);
        assert_int_equal(send(slow[i], head, sizeof(head) - 1, MSG_NOSIGNAL), sizeof(head) - 1);
        assert_int_equal(recv(slow[i], &byte, 1, 0), 1); /* its answer is on the way */
    }
    char *answer = get(port, "GET", "/big");
    assert_true(strncmp(answer, "HTTP/1.1 503 ", 13) == 0);
    free(answer);
    answer = get(port, "GET", "/a"); /* small ones find room */
    assert_true(strncmp(answer, "HTTP/1.1 200 ", 13) == 0);
    free(answer);
    close(slow[0]);
    bool back = false;
    for (int i = 0; i < 100 && !back; i++) {
        answer = get(port, "GET", "/big");
        back = strncmp(answer, "HTTP/1.1 200 ", 13) == 0;
        free(answer);
        usleep(back ? 0 : 50000);
    }
    assert_true(back);
    close(slow[1]);
    http_server_close(server);
}

static void one_address_does_not_get_all_connections(void **state)
{
    (void)state;
    struct http_server *server = open_server(NULL);
    int fds[HTTP_CONNECTIONS / 2 + 1];
    for (int i = 0; i < HTTP_CONNECTIONS / 2 + 1; i++)
        fds[i] = connect_to(http_server_port(server));
    char byte;
    assert_true(recv(fds[HTTP_CONNECTIONS / 2], &byte, 1, 0) <= 0); /* closed at once */
    assert_int_equal(recv(fds[0], &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    for (int i = 0; i < HTTP_CONNECTIONS / 2 + 1; i++)
        close(fds[i]);
    http_server_close(server);
}

static void a_taken_port_and_a_bad_address_are_told(void **state)
{
    (void)state;
    struct http_server *server = open_server(NULL), *second = NULL;
    char address[64];
    struct err err = {0};
    snprintf(address, sizeof(address), "127.0.0.1:%d", http_server_port(server));
    assert_int_equal(http_server_open(address, 1, on_request, NULL, &second, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, address));
    assert_int_equal(http_server_open("nowhere", 1, on_request, NULL, &second, &err), -EINVAL);
    assert_string_equal(err.text, "address \"nowhere\": expected HOST:PORT");
    assert_null(second);
    http_server_close(server);
    http_server_close(NULL);
}

static void addresses_are_split(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        int port;
    } good[] = {
        {"127.0.0.1:80", "127.0.0.1", 80}, {"[::1]:0", "::1", 0}, {":65535", "", 65535}, {"a.b:1", "a.b", 1}};
    static const char *const bad[] = {"",      "a",    "a:",   "a:65536", "a:-1", "::1:80",
                                      "[::1]", "[]:1", "[a:1", "a:1 ",    "a: 1", "a:1x"};
    char host[16];
    int port;
    struct err err;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(http_split_address(good[i].text, host, sizeof(host), &port, &err), 0);
        assert_string_equal(host, good[i].host);
        assert_int_equal(port, good[i].port);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(http_split_address(bad[i], host, sizeof(host), &port, &err), -EINVAL);
    assert_int_equal(http_split_address("much-too-long-a-name:1", host, sizeof(host), &port, &err), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_decoded_path_and_parameters),
        cmocka_unit_test(head_is_get_without_the_body),
        cmocka_unit_test(errors_are_json_whatever_their_text),
        cmocka_unit_test(other_methods_and_bodies_are_refused),
        cmocka_unit_test(a_request_over_the_limit_is_refused),
        cmocka_unit_test(a_blocked_handler_does_not_hold_up_others),
        cmocka_unit_test(a_request_that_drips_in_is_cut_off),
        cmocka_unit_test(a_client_that_reads_too_slowly_is_cut_off),
        cmocka_unit_test(answers_that_nobody_takes_have_a_limit_together),
        cmocka_unit_test(one_address_does_not_get_all_connections),
        cmocka_unit_test(a_taken_port_and_a_bad_address_are_told),
        cmocka_unit_test(addresses_are_split),
    };
    return cmocka_run_group_tests_name("http_server", tests, NULL, NULL);
}
