/* desk: requests that are not for one partition: questions of other shards, symbol packs. A few threads of
 * their own, which may wait for the workers.
 * Limits:  DESK_THREADS, DESK_INBOX requests and DESK_INBOX_BYTES waiting.
 * Threads: desk_take from any; the rest from one. */
#ifndef AGGREGATOR_DESK_H
#define AGGREGATOR_DESK_H

#include "aggregator/answer.h"
#include "aggregator/symbol_pack.h"
#include "common/link.h"
#include "common/wire.h"

#define DESK_THREADS     2u
#define DESK_INBOX       256u
#define DESK_INBOX_BYTES (128u << 20)

struct desk;
/* Borrows answers and packs. timeout_ms: for one question. NULL when no thread starts. */
struct desk *desk_open(struct answers *answers, struct symbol_packs *packs, uint64_t timeout_ms);
/* Joins the threads; what waits is never replied to (close the link server before desk_free). */
void desk_stop(struct desk *desk);
void desk_free(struct desk *desk); /* after desk_stop. NULL is fine */
/* The reply that says RETRY, of the type that the asker waits for. */
void desk_put_off(enum wire_type type, const char *reason, struct buf *out);
/* -EAGAIN: not taken. */
int desk_take(struct desk *desk, struct link_request *request, enum wire_type type);

#endif
