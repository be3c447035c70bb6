#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/xalloc.h"
#include "node-agent/ship_queue.h"

#include <string.h>

/* A window of `samples` samples in one row that also lost some itself. */
static struct tally_window *window_of(uint64_t samples, uint64_t ring_full, uint64_t nested)
{
    struct tally_window *window = xcalloc(1, sizeof(*window));
    window->set = stackset_new(&STACKSET_DEFAULT_LIMITS);
    uint32_t frame = stackset_frame(window->set, FRAME_KERNEL, stackset_cstring(window->set, "f"), 0, 0);
    uint32_t series = stackset_series(window->set, NULL, 0);
    stackset_add(window->set, series, stackset_node(window->set, STACKSET_ROOT, frame), samples * 10000,
                 samples);
    stackset_seal(window->set);
    window->lost_count[TALLY_LOSS_ring_full] = ring_full;
    window->lost_count[TALLY_LOSS_nested] = nested;
    window->taken_count = samples + ring_full + nested;
    return window;
}

static uint64_t bytes_of_one(void)
{
    struct ship_queue queue;
    ship_queue_init(&queue, UINT64_MAX);
    ship_queue_put(&queue, window_of(1, 0, 0));
    uint64_t bytes = queue.waiting_bytes;
    ship_queue_fini(&queue);
    return bytes;
}

static void assert_balanced(const struct ship_queue *queue)
{
    assert_int_equal(queue->put_samples, queue->acked_samples + queue->waiting_samples +
                                             queue->lost_samples[SHIP_LOSS_QUEUE_FULL] +
                                             queue->lost_samples[SHIP_LOSS_REFUSED]);
}

static void windows_leave_in_order_with_numbers_from_one(void **state)
{
    (void)state;
    struct ship_queue queue;
    ship_queue_init(&queue, UINT64_MAX);
    assert_null(ship_queue_front(&queue));
    for (uint64_t i = 1; i <= 3; i++)
        ship_queue_put(&queue, window_of(i, 0, 0));
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(ship_queue_front(&queue)->sequence, i);
        assert_int_equal(ship_queue_front(&queue)->sample_count, i);
        ship_queue_sending(&queue);
        assert_int_equal(queue.sent_sequence, i);
        ship_queue_acked(&queue);
        assert_balanced(&queue);
    }
    assert_int_equal(queue.acked_samples, 6);
    assert_int_equal(queue.waiting_bytes, 0);
    assert_int_equal(queue.waiting_count, 0);
    ship_queue_fini(&queue);
}

static void full_queue_drops_the_oldest_and_the_next_batch_carries_the_debt(void **state)
{
    (void)state;
    struct ship_queue queue;
    ship_queue_init(&queue, 2 * bytes_of_one());
    ship_queue_put(&queue, window_of(100, 7, 2));
    ship_queue_put(&queue, window_of(50, 0, 1));
    ship_queue_put(&queue, window_of(20, 0, 0)); /* the first goes */
    ship_queue_put(&queue, window_of(10, 0, 0)); /* the second goes */
    assert_int_equal(ship_queue_front(&queue)->sequence, 3);
    assert_int_equal(queue.lost_samples[SHIP_LOSS_QUEUE_FULL], 150);
    assert_int_equal(queue.put_samples, 180);
    assert_balanced(&queue);
    ship_queue_sending(&queue);
    const struct ship_debt *debt = &ship_queue_front(&queue)->debt;
    assert_int_equal(debt->lost_count[SHIP_LOSS_QUEUE_FULL], 150);
    assert_int_equal(debt->lost_count[TALLY_LOSS_ring_full], 7);
    assert_int_equal(debt->lost_count[TALLY_LOSS_nested], 3);
    assert_int_equal(debt->taken_count, 160);
    ship_queue_acked(&queue);
    ship_queue_sending(&queue); /* once is enough */
    assert_int_equal(ship_queue_front(&queue)->debt.taken_count, 0);
    ship_queue_fini(&queue);
}

static void sent_window_is_never_dropped_and_keeps_its_contents(void **state)
{
    (void)state;
    struct ship_queue queue;
    ship_queue_init(&queue, bytes_of_one());
    ship_queue_put(&queue, window_of(5, 0, 0));
    ship_queue_sending(&queue);
    for (int i = 0; i < 10; i++)
        ship_queue_put(&queue, window_of(1, 0, 0));
    assert_int_equal(queue.waiting_count, 2); /* the sent one and the newest */
    assert_int_equal(ship_queue_front(&queue)->sequence, 1);
    ship_queue_sending(&queue);
    assert_int_equal(ship_queue_front(&queue)->sent_count, 2);
    assert_int_equal(ship_queue_front(&queue)->debt.taken_count, 0);
    ship_queue_acked(&queue);
    assert_int_equal(ship_queue_front(&queue)->sequence, 11);
    ship_queue_sending(&queue);
    assert_int_equal(ship_queue_front(&queue)->debt.lost_count[SHIP_LOSS_QUEUE_FULL], 9);
    assert_balanced(&queue);
    ship_queue_fini(&queue);
}

static void refused_window_hands_on_the_debt_it_carried(void **state)
{
    (void)state;
    struct ship_queue queue;
    ship_queue_init(&queue, bytes_of_one());
    ship_queue_put(&queue, window_of(100, 4, 0));
    ship_queue_put(&queue, window_of(30, 0, 2)); /* the first goes: queue full */
    ship_queue_sending(&queue);
    ship_queue_refused(&queue);
    assert_null(ship_queue_front(&queue));
    ship_queue_put(&queue, window_of(1, 0, 0));
    ship_queue_sending(&queue);
    const struct ship_debt *debt = &ship_queue_front(&queue)->debt;
    assert_int_equal(debt->lost_count[SHIP_LOSS_QUEUE_FULL], 100);
    assert_int_equal(debt->lost_count[SHIP_LOSS_REFUSED], 30);
    assert_int_equal(debt->lost_count[TALLY_LOSS_ring_full], 4);
    assert_int_equal(debt->lost_count[TALLY_LOSS_nested], 2);
    assert_int_equal(debt->taken_count, 136);
    assert_balanced(&queue);
    ship_queue_fini(&queue);
}

static void window_larger_than_the_queue_still_gets_its_turn(void **state)
{
    (void)state;
    struct ship_queue queue;
    ship_queue_init(&queue, 1);
    ship_queue_put(&queue, window_of(8, 0, 0));
    assert_int_equal(ship_queue_front(&queue)->sample_count, 8);
    ship_queue_put(&queue, window_of(9, 0, 0));
    assert_int_equal(ship_queue_front(&queue)->sample_count, 9);
    assert_int_equal(queue.waiting_count, 1);
    assert_balanced(&queue);
    ship_queue_fini(&queue);
}

static void losses_on_the_way_into_the_queue_are_in_the_books(void **state)
{
    (void)state;
    struct ship_queue queue;
    ship_queue_init(&queue, UINT64_MAX);
    struct tally_window *window = window_of(40, 3, 0);
    struct ship_debt debt = {0};
    assert_int_equal(ship_debt_add_window(&debt, window, SHIP_LOSS_QUEUE_FULL), 40);
    assert_int_equal(debt.taken_count, 43);
    tally_window_free(window);
    ship_queue_put_lost(&queue, &debt, 40);
    assert_int_equal(queue.put_samples, 40);
    assert_balanced(&queue);
    ship_queue_put(&queue, window_of(1, 0, 0));
    ship_queue_sending(&queue);
    assert_int_equal(ship_queue_front(&queue)->debt.taken_count, 43);
    ship_queue_fini(&queue);
}

static void causes_have_names(void **state)
{
    (void)state;
    assert_string_equal(ship_loss_name(TALLY_LOSS_ring_full), "ring_full");
    assert_string_equal(ship_loss_name(SHIP_LOSS_QUEUE_FULL), "queue_full");
    assert_string_equal(ship_loss_name(SHIP_LOSS_REFUSED), "refused");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_leave_in_order_with_numbers_from_one),
        cmocka_unit_test(full_queue_drops_the_oldest_and_the_next_batch_carries_the_debt),
        cmocka_unit_test(sent_window_is_never_dropped_and_keeps_its_contents),
        cmocka_unit_test(refused_window_hands_on_the_debt_it_carried),
        cmocka_unit_test(window_larger_than_the_queue_still_gets_its_turn),
        cmocka_unit_test(losses_on_the_way_into_the_queue_are_in_the_books),
        cmocka_unit_test(causes_have_names),
    };
    return cmocka_run_group_tests_name("ship_queue", tests, NULL, NULL);
}
