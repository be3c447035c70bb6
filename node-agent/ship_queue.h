/* ship_queue: sealed windows waiting for the shard, and the books of what became of them.
 * Shapes:   sequence numbers from 1, one per window put. A window that is dropped (queue full) or refused
 *           leaves a debt: its samples and its own losses, which travel in the next batch that is sent for
 *           the first time, so that the shard's ledger balances. A batch that was sent once keeps its
 *           contents: the shard may have stored it.
 * Limits:   limit_bytes over all windows; over it the oldest go, but never one that was sent (its fate is
 *           open), nor the newest. So at most limit_bytes plus two windows.
 * Threads:  one.   Errors: none. */
#ifndef NODE_AGENT_SHIP_QUEUE_H
#define NODE_AGENT_SHIP_QUEUE_H

#include "node-agent/tally.h"

#include <stdbool.h>
#include <stdint.h>

/* Goes on where the tally's causes end. */
enum ship_loss { SHIP_LOSS_QUEUE_FULL = TALLY_LOSS_COUNT, SHIP_LOSS_REFUSED, SHIP_LOSS_COUNT };
const char *ship_loss_name(unsigned cause);

struct ship_debt {
    uint64_t taken_count; /* = sum of lost_count */
    uint64_t lost_count[SHIP_LOSS_COUNT];
};
/* What a window that will not arrive leaves behind; its samples (not its own losses) go to cause. Returns the
 * samples. */
uint64_t ship_debt_add_window(struct ship_debt *debt, const struct tally_window *window,
                              enum ship_loss cause);
void ship_debt_add(struct ship_debt *to, const struct ship_debt *from);

struct ship_item {
    struct tally_window *window;
    struct ship_debt debt; /* travels with this window; fixed by the first sending */
    uint64_t sequence, sample_count, bytes;
    uint32_t sent_count, refusal_count;
    struct ship_item *next;
};

struct ship_queue {
    struct ship_item *first, *last;
    struct ship_debt debt; /* not with any batch yet */
    uint64_t limit_bytes, waiting_bytes, waiting_samples, waiting_count;
    uint64_t next_sequence, sent_sequence; /* sent_sequence: highest ever sent, 0 = none */
    uint64_t put_samples, acked_samples;
    uint64_t lost_samples[SHIP_LOSS_COUNT]; /* only QUEUE_FULL and REFUSED are used */
};

void ship_queue_init(struct ship_queue *queue, uint64_t limit_bytes);
void ship_queue_fini(struct ship_queue *queue);
void ship_queue_put(struct ship_queue *queue, struct tally_window *window); /* takes it */
/* Windows that were lost before they got here: their debt, and how many samples that were. */
void ship_queue_put_lost(struct ship_queue *queue, const struct ship_debt *debt, uint64_t sample_count);
/* The batch whose turn it is, NULL when there is none. */
static inline struct ship_item *ship_queue_front(const struct ship_queue *queue)
{
    return queue->first;
}
/* Call before each sending of the front: the first one takes the debt along. */
void ship_queue_sending(struct ship_queue *queue);
/* The front's fate; frees it. */
void ship_queue_acked(struct ship_queue *queue);
void ship_queue_refused(struct ship_queue *queue);

#endif
