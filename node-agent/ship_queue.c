#include "node-agent/ship_queue.h"

#include "common/xalloc.h"

#include <stdlib.h>
#include <string.h>

const char *ship_loss_name(unsigned cause)
{
    if (cause < TALLY_LOSS_COUNT)
        return TALLY_LOSS_NAMES[cause];
    return cause == SHIP_LOSS_QUEUE_FULL ? "queue_full" : "refused";
}

/* The window's rows; what it lost itself is no sample of its. */
static uint64_t sample_count_of(const struct tally_window *window)
{
    uint64_t lost_count = 0;
    for (int i = 0; i < TALLY_LOSS_COUNT; i++)
        lost_count += window->lost_count[i];
    return window->taken_count > lost_count ? window->taken_count - lost_count : 0;
}

uint64_t ship_debt_add_window(struct ship_debt *debt, const struct tally_window *window, enum ship_loss cause)
{
    uint64_t sample_count = sample_count_of(window);
    debt->taken_count += sample_count;
    debt->lost_count[cause] += sample_count;
    for (int i = 0; i < TALLY_LOSS_COUNT; i++) {
        debt->taken_count += window->lost_count[i];
        debt->lost_count[i] += window->lost_count[i];
    }
    return sample_count;
}

void ship_debt_add(struct ship_debt *to, const struct ship_debt *from)
{
    to->taken_count += from->taken_count;
    for (int i = 0; i < SHIP_LOSS_COUNT; i++)
        to->lost_count[i] += from->lost_count[i];
}

void ship_queue_init(struct ship_queue *queue, uint64_t limit_bytes)
{
    *queue = (struct ship_queue){.limit_bytes = limit_bytes, .next_sequence = 1};
}

static void item_free(struct ship_item *item)
{
    tally_window_free(item->window);
    free(item);
}

void ship_queue_fini(struct ship_queue *queue)
{
    for (struct ship_item *item = queue->first, *next; item; item = next) {
        next = item->next;
        item_free(item);
    }
    queue->first = queue->last = NULL;
}

/* Takes *link's item out of the list and the waiting figures. */
static struct ship_item *unlink_item(struct ship_queue *queue, struct ship_item *before)
{
    struct ship_item *item = before ? before->next : queue->first;
    if (before)
        before->next = item->next;
    else
        queue->first = item->next;
    if (queue->last == item)
        queue->last = before;
    queue->waiting_count--;
    queue->waiting_bytes -= item->bytes;
    queue->waiting_samples -= item->sample_count;
    return item;
}

static void lose_item(struct ship_queue *queue, struct ship_item *item, enum ship_loss cause)
{
    ship_debt_add(&queue->debt, &item->debt);
    queue->lost_samples[cause] += ship_debt_add_window(&queue->debt, item->window, cause);
    item_free(item);
}

void ship_queue_put(struct ship_queue *queue, struct tally_window *window)
{
    struct ship_item *item = xcalloc(1, sizeof(*item));
    item->window = window;
    item->sequence = queue->next_sequence++;
    item->sample_count = sample_count_of(window);
    item->bytes = stackset_memory_bytes(window->set) + sizeof(*window) + sizeof(*item);
    if (queue->last)
        queue->last->next = item;
    else
        queue->first = item;
    queue->last = item;
    queue->waiting_count++;
    queue->waiting_bytes += item->bytes;
    queue->waiting_samples += item->sample_count;
    queue->put_samples += item->sample_count;
    while (queue->waiting_bytes > queue->limit_bytes) {
        struct ship_item *sent = queue->first->sent_count ? queue->first : NULL;
        struct ship_item *oldest = sent ? sent->next : queue->first;
        if (oldest == queue->last)
            break;
        lose_item(queue, unlink_item(queue, sent), SHIP_LOSS_QUEUE_FULL);
    }
}

void ship_queue_put_lost(struct ship_queue *queue, const struct ship_debt *debt, uint64_t sample_count)
{
    ship_debt_add(&queue->debt, debt);
    queue->put_samples += sample_count;
    queue->lost_samples[SHIP_LOSS_QUEUE_FULL] += sample_count;
}

void ship_queue_sending(struct ship_queue *queue)
{
    struct ship_item *item = queue->first;
    if (item->sent_count++ == 0) {
        item->debt = queue->debt;
        memset(&queue->debt, 0, sizeof(queue->debt));
    }
    queue->sent_sequence = item->sequence;
}

void ship_queue_acked(struct ship_queue *queue)
{
    struct ship_item *item = unlink_item(queue, NULL);
    queue->acked_samples += item->sample_count;
    item_free(item);
}

void ship_queue_refused(struct ship_queue *queue)
{
    lose_item(queue, unlink_item(queue, NULL), SHIP_LOSS_REFUSED);
}
