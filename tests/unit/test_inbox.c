#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/clock.h"
#include "common/inbox.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#define SENDERS         4
#define MESSAGES_EACH   5000
#define NUMBER(pointer) ((uintptr_t)(pointer))
#define MESSAGE(number) ((void *)(uintptr_t)(number))

struct receiver {
    struct inbox *inbox;
    uintptr_t last[SENDERS];
    size_t count, close_at;
    bool in_order;
};

static void on_message(void *message, void *ctx)
{
    struct receiver *receiver = ctx;
    uintptr_t sender = NUMBER(message) / MESSAGES_EACH % SENDERS, number = NUMBER(message) % MESSAGES_EACH;
    receiver->in_order = receiver->in_order && number == receiver->last[sender];
    receiver->last[sender] = number + 1;
    if (++receiver->count == receiver->close_at)
        inbox_close(receiver->inbox, NULL, NULL);
}

struct sender {
    struct inbox *inbox;
    uintptr_t index;
};

static void *send_all(void *arg)
{
    struct sender *sender = arg;
    for (uintptr_t i = 0; i < MESSAGES_EACH; i++)
        while (inbox_put(sender->inbox, MESSAGE((SENDERS + sender->index) * MESSAGES_EACH + i)) == -EAGAIN)
            sched_yield();
    return NULL;
}

static void loop_gets_every_message_of_every_thread_in_order(void **state)
{
    (void)state;
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    struct receiver receiver = {.in_order = true, .close_at = SENDERS * MESSAGES_EACH};
    receiver.inbox = inbox_open_loop(&loop, 64, on_message, &receiver);
    pthread_t threads[SENDERS];
    struct sender senders[SENDERS];
    for (uintptr_t i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){receiver.inbox, i};
        assert_int_equal(pthread_create(&threads[i], NULL, send_all, &senders[i]), 0);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(receiver.count, SENDERS * MESSAGES_EACH);
    assert_true(receiver.in_order);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void thread_gets_every_message_of_every_thread_in_order(void **state)
{
    (void)state;
    struct receiver receiver = {.in_order = true};
    receiver.inbox = inbox_open_thread(64);
    pthread_t threads[SENDERS];
    struct sender senders[SENDERS];
    for (uintptr_t i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){receiver.inbox, i};
        assert_int_equal(pthread_create(&threads[i], NULL, send_all, &senders[i]), 0);
    }
    while (receiver.count < SENDERS * MESSAGES_EACH) {
        void *message = inbox_wait(receiver.inbox, -1);
        assert_non_null(message);
        on_message(message, &receiver);
    }
    for (int i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
    assert_true(receiver.in_order);
    assert_int_equal(inbox_count(receiver.inbox), 0);
    inbox_close(receiver.inbox, NULL, NULL);
}

static void full_inbox_leaves_the_message_with_the_sender(void **state)
{
    (void)state;
    struct inbox *inbox = inbox_open_thread(2);
    assert_int_equal(inbox_put(inbox, MESSAGE(1)), 0);
    assert_int_equal(inbox_put(inbox, MESSAGE(2)), 0);
    assert_int_equal(inbox_put(inbox, MESSAGE(3)), -EAGAIN);
    assert_int_equal(inbox_count(inbox), 2);
    assert_int_equal(NUMBER(inbox_wait(inbox, 0)), 1);
    assert_int_equal(inbox_put(inbox, MESSAGE(4)), 0);
    assert_int_equal(NUMBER(inbox_wait(inbox, 0)), 2);
    assert_int_equal(NUMBER(inbox_wait(inbox, 0)), 4);
    assert_null(inbox_wait(inbox, 0));
    inbox_close(inbox, NULL, NULL);
}

static void waiting_ends_at_its_time(void **state)
{
    (void)state;
    struct inbox *inbox = inbox_open_thread(2);
    uint64_t before_ns = clock_mono_ns();
    assert_null(inbox_wait(inbox, 50));
    uint64_t took_ms = (clock_mono_ns() - before_ns) / CLOCK_NS_PER_MS;
    assert_in_range(took_ms, 49, 5000);
    inbox_close(inbox, NULL, NULL);
}

static void *wake_later(void *arg)
{
    struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    nanosleep(&pause, NULL);
    inbox_wake(arg);
    return NULL;
}

static void wake_returns_nothing_once_and_keeps_the_messages(void **state)
{
    (void)state;
    struct inbox *inbox = inbox_open_thread(2);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wake_later, inbox), 0);
    assert_null(inbox_wait(inbox, -1));
    pthread_join(thread, NULL);
    inbox_wake(inbox);
    inbox_wake(inbox);
    assert_int_equal(inbox_put(inbox, MESSAGE(9)), 0);
    assert_null(inbox_wait(inbox, -1));
    assert_int_equal(NUMBER(inbox_wait(inbox, -1)), 9);
    inbox_close(inbox, NULL, NULL);
}

static void on_left(void *message, void *ctx)
{
    *(uintptr_t *)ctx += NUMBER(message);
}

static void close_hands_back_what_was_left(void **state)
{
    (void)state;
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    struct receiver receiver = {.in_order = true};
    struct inbox *inbox = inbox_open_loop(&loop, 8, on_message, &receiver);
    assert_int_equal(inbox_put(inbox, MESSAGE(40)), 0);
    assert_int_equal(inbox_put(inbox, MESSAGE(2)), 0);
    uintptr_t sum = 0;
    inbox_close(inbox, on_left, &sum);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(sum, 42);
    assert_int_equal(receiver.count, 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    inbox_close(NULL, NULL, NULL);
}

/* The closing message is the third of five that one wake-up brings: the two after it must not reach the
 * receiver. */
static void close_inside_a_message_stops_the_rest(void **state)
{
    (void)state;
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    struct receiver receiver = {.in_order = true, .close_at = 3};
    receiver.inbox = inbox_open_loop(&loop, 8, on_message, &receiver);
    for (uintptr_t i = 0; i < 5; i++)
        assert_int_equal(inbox_put(receiver.inbox, MESSAGE(SENDERS * MESSAGES_EACH + i)), 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(receiver.count, 3);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loop_gets_every_message_of_every_thread_in_order),
        cmocka_unit_test(thread_gets_every_message_of_every_thread_in_order),
        cmocka_unit_test(full_inbox_leaves_the_message_with_the_sender),
        cmocka_unit_test(waiting_ends_at_its_time),
        cmocka_unit_test(wake_returns_nothing_once_and_keeps_the_messages),
        cmocka_unit_test(close_hands_back_what_was_left),
        cmocka_unit_test(close_inside_a_message_stops_the_rest),
    };
    return cmocka_run_group_tests_name("inbox", tests, NULL, NULL);
}
