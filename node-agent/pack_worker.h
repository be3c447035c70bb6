/* pack_worker: builds symbol packs off the loop, at idle priority, one executable at a time.
 * Limits:   PACK_WORKER_QUEUE wishes waiting (more are forgotten: the shard asks again); PACK_WORKER_PARTS
 * parts on their way at once, so memory stays flat whatever the size of the executable. Threads:
 * open/want/part_done/close from the loop thread; on_part runs on the loop thread.  */
#ifndef NODE_AGENT_PACK_WORKER_H
#define NODE_AGENT_PACK_WORKER_H

#include "node-agent/image.h"

#include <stddef.h>
#include <uv.h>

#define PACK_WORKER_QUEUE 256u
#define PACK_WORKER_PARTS 2u

struct pack_worker;
/* One packed WIRE_PACK message; valid during the call. Each is answered later by pack_worker_part_done. */
typedef void (*pack_worker_part_fn)(const void *message, size_t bytes, void *ctx);

struct pack_worker *pack_worker_open(uv_loop_t *loop, struct images *images, pack_worker_part_fn on_part,
                                     void *ctx);
void pack_worker_want(struct pack_worker *worker, const void *id, size_t id_bytes);
/* rc as from shipper_send_pack: a negative one gives the rest of that pack up; the shard will ask again. */
void pack_worker_part_done(struct pack_worker *worker, int rc);
/* How long the thread has been at one executable without handing over a part; 0 when it waits for work or for
 * the shard. Many seconds: its file does not answer. From any thread. */
uint64_t pack_worker_busy_ms(const struct pack_worker *worker);
void pack_worker_close(struct pack_worker *worker); /* joins the thread; the inbox frees itself on the loop */

#endif
