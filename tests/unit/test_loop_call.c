#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/link.h"
#include "common/loop_call.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define CALL_MS 20000

struct fixture {
    uv_loop_t loop;
    pthread_t loop_thread;
    struct link_server *server;
    struct loop_calls *calls;
    unsigned count, ok_count, canceled_count, close_at;
    int last_rc;
    atomic_uint held_count;
};

static void answer(struct link_request *request, void *ctx)
{
    (void)ctx;
    link_reply(request, "pong", 4);
}

static void hold(struct link_request *request, void *ctx)
{
    (void)request;
    atomic_fetch_add(&((struct fixture *)ctx)->held_count, 1);
}

static void set_up(struct fixture *f, link_request_fn on_request, size_t limit_count)
{
    char address[64];
    f->loop_thread = pthread_self();
    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(link_server_open("tcp://127.0.0.1:0", 8, on_request, f, &f->server, NULL), 0);
    snprintf(address, sizeof(address), "tcp://127.0.0.1:%d", link_server_port(f->server));
    assert_int_equal(loop_calls_open(&f->loop, address, limit_count, &f->calls, NULL), 0);
}

static void tear_down(struct fixture *f)
{
    loop_calls_close(f->calls);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    link_server_close(f->server);
}

static void on_reply(int rc, const void *data, size_t bytes, void *ctx)
{
    struct fixture *f = ctx;
    assert_true(pthread_equal(pthread_self(), f->loop_thread));
    if (rc == 0) {
        assert_int_equal(bytes, 4);
        assert_memory_equal(data, "pong", 4);
        f->ok_count++;
    }
    f->canceled_count += rc == -ECANCELED;
    f->last_rc = rc;
    if (++f->count == f->close_at) {
        loop_calls_close(f->calls);
        f->calls = NULL;
    }
}

static void replies_come_on_the_loop_s_thread(void **state)
{
    (void)state;
    struct fixture f = {0};
    set_up(&f, answer, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(loop_call(f.calls, "ping", 4, CALL_MS, on_reply, &f), 0);
    while (f.count < 4)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_int_equal(f.ok_count, 4);
    tear_down(&f);
}

static void calls_over_the_limit_are_refused_until_one_ends(void **state)
{
    (void)state;
    struct fixture f = {0};
    set_up(&f, hold, 2);
    assert_int_equal(loop_call(f.calls, "ping", 4, 100, on_reply, &f), 0);
    assert_int_equal(loop_call(f.calls, "ping", 4, CALL_MS, on_reply, &f), 0);
    assert_int_equal(loop_call(f.calls, "ping", 4, CALL_MS, on_reply, &f), -EAGAIN);
    while (f.count < 1)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_true(f.last_rc == -ETIMEDOUT || f.last_rc == -ECONNREFUSED);
    assert_int_equal(loop_call(f.calls, "ping", 4, CALL_MS, on_reply, &f), 0);
    tear_down(&f);
    assert_int_equal(f.canceled_count, 2);
}

static void close_from_a_reply_ends_the_others(void **state)
{
    (void)state;
    struct fixture f = {.close_at = 1};
    set_up(&f, hold, 8);
    assert_int_equal(loop_call(f.calls, "ping", 4, 200, on_reply, &f), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(loop_call(f.calls, "ping", 4, CALL_MS, on_reply, &f), 0);
    uv_run(&f.loop, UV_RUN_DEFAULT);
    assert_int_equal(f.count, 5);
    assert_int_equal(f.canceled_count, 4);
    tear_down(&f);
}

static void bad_address_is_refused(void **state)
{
    (void)state;
    uv_loop_t loop;
    struct loop_calls *calls = NULL;
    struct err err = {0};
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(loop_calls_open(&loop, "nonsense", 1, &calls, &err), -EINVAL);
    assert_non_null(strstr(err.text, "nonsense"));
    assert_null(calls);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_come_on_the_loop_s_thread),
        cmocka_unit_test(calls_over_the_limit_are_refused_until_one_ends),
        cmocka_unit_test(close_from_a_reply_ends_the_others),
        cmocka_unit_test(bad_address_is_refused),
    };
    return cmocka_run_group_tests_name("loop_call", tests, NULL, NULL);
}
