/* pack_sender: symbol packs on their way to the shard: a bounded list, few at a time, each tried once.
 * Limits:   SHIPPER_PACKS_BYTES and SHIPPER_PACKS_COUNT waiting (one pack always fits when none waits),
 *           PACK_SENDER_UNDER_WAY sent and not answered.
 * Threads:  the loop's.   Errors: those of shipper_pack_fn. */
#ifndef NODE_AGENT_PACK_SENDER_H
#define NODE_AGENT_PACK_SENDER_H

#include "common/loop_call.h"
#include "node-agent/shipper.h"

#define PACK_SENDER_UNDER_WAY 2u

struct pack_sender;
/* calls is borrowed. */
struct pack_sender *pack_sender_new(struct loop_calls *calls, int call_ms);
/* Copies message; on_done may run inside (see shipper_pack_fn). */
void pack_sender_put(struct pack_sender *sender, const void *message, size_t bytes, shipper_pack_fn on_done,
                     void *ctx);
/* Sends what may be sent; call after each put and when the shard has come back. */
void pack_sender_run(struct pack_sender *sender, bool connected);
/* Ends what waits with -ECANCELED. To be called after loop_calls_close (which ends what is under way); the
 * sender takes no more packs afterwards. */
void pack_sender_cancel(struct pack_sender *sender);
void pack_sender_free(struct pack_sender *sender); /* NULL is fine */

#endif
