#include "common/http.h"
#include "common/http_server.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

static void on_request(const struct http_request *request, struct http_response *response, void *ctx)
{
    const char *value = http_request_param(request, "a b", 0);
    (void)ctx;
    if (strcmp(http_request_path(request), "/error") == 0) {
        http_response_error(response, 404, "no", NULL);
        return;
    }
    buf_printf(&response->body, "%s|%s", http_request_path(request), value ? value : "(none)");
    response->note_name = "X-Note";
    response->note = strdup("  a note ");
}

struct world {
    struct http_server *server;
    char base[64];
};

static int setup(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    assert_int_equal(http_server_open("127.0.0.1:0", 0, on_request, NULL, &world->server, NULL), 0);
    snprintf(world->base, sizeof(world->base), "http://127.0.0.1:%d", http_server_port(world->server));
    *state = world;
    return 0;
}

static int teardown(void **state)
{
    struct world *world = *state;
    http_server_close(world->server);
    free(world);
    return 0;
}

static const struct http_get_options OPTIONS = {
    .timeout_ms = 30000, .limit_bytes = 4096, .note_name = "x-note"};

static void what_is_sent_arrives_whatever_its_bytes(void **state)
{
    struct world *world = *state;
    struct buf url = buf_init(4096);
    struct http_reply reply;
    struct err err = {0};
    assert_int_equal(buf_printf(&url, "%s/", world->base), 0);
    assert_int_equal(http_append_segment(&url, "x/y z"), 0);
    assert_int_equal(http_append_param(&url, "a b", "{n=\"1&2=3+4%\"}\xff"), 0);
    assert_int_equal(http_append_param(&url, "c", ""), 0);
    assert_int_equal(buf_append(&url, "", 1), 0);
    if (http_get(url.data, &OPTIONS, &reply, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.body.data, "/x/y z|{n=\"1&2=3+4%\"}\xff");
    assert_string_equal(reply.note, "a note");
    assert_string_equal(reply.content_type, "text/plain; charset=utf-8");
    http_reply_fini(&reply);
    buf_fini(&url);
}

static void an_http_error_is_an_answer(void **state)
{
    struct world *world = *state;
    char url[128];
    struct http_reply reply;
    snprintf(url, sizeof(url), "%s/error", world->base);
    assert_int_equal(http_get(url, &OPTIONS, &reply, NULL), 0);
    assert_int_equal(reply.status, 404);
    assert_null(reply.note);
    http_reply_fini(&reply);
}

static bool always(void)
{
    return true;
}

/* Takes one connection and greets as nng does. */
static void *greet(void *listener)
{
    char request[1024];
    int fd = accept(*(const int *)listener, NULL, NULL);
    assert_true(fd >= 0);
    assert_true(read(fd, request, sizeof(request)) > 0);
    assert_int_equal(write(fd, "\0SP\0\0\x31\0\0", 8), 8);
    close(fd);
    return NULL;
}

static void a_server_of_another_protocol_is_named(void **state)
{
    (void)state;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    char url[64], wanted[128];
    struct http_reply reply;
    struct err err = {0};
    pthread_t thread;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    assert_int_equal(pthread_create(&thread, NULL, greet, &listener), 0);
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", ntohs(address.sin_port));
    snprintf(wanted, sizeof(wanted), "%s does not speak HTTP", url);
    assert_int_equal(http_get(url, &OPTIONS, &reply, &err), -EINVAL);
    assert_string_equal(err.text, wanted);
    pthread_join(thread, NULL);
    close(listener);
}

static void failures_are_told_apart(void **state)
{
    struct world *world = *state;
    struct http_get_options small = OPTIONS, stopped = OPTIONS;
    struct http_reply reply;
    struct err err = {0};
    assert_int_equal(http_get("http://127.0.0.1:1/x?y", &OPTIONS, &reply, &err), -ECONNREFUSED);
    assert_string_equal(err.text, "cannot reach http://127.0.0.1:1: Connection refused");
    assert_int_equal(http_get("file:///etc/passwd", &OPTIONS, &reply, &err), -EINVAL);
    assert_int_equal(http_get("http://[", &OPTIONS, &reply, &err), -EINVAL);
    small.limit_bytes = 3;
    assert_int_equal(http_get(world->base, &small, &reply, &err), -EMSGSIZE);
    stopped.stop = always;
    assert_int_equal(http_get(world->base, &stopped, &reply, &err), -ECANCELED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sent_arrives_whatever_its_bytes),
        cmocka_unit_test(an_http_error_is_an_answer),
        cmocka_unit_test(a_server_of_another_protocol_is_named),
        cmocka_unit_test(failures_are_told_apart),
    };
    return cmocka_run_group_tests_name("http", tests, setup, teardown);
}
