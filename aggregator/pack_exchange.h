/* pack_exchange: who fetches which symbol pack from where. Each executable has one keeper among the shards
 * (rendezvous hashing of its id): the keeper asks one of its own agents, or tells the first other shard
 * that asks to do so; that one brings the pack to the keeper, and the rest get it from there. So a file is
 * read once in the fleet.
 * Rules:   looks every PACK_EXCHANGE_MS for what is to be done; the keeper is asked again after
 *          PACK_POLL_MS. A keeper that does not answer is left alone for PACK_POLL_MS, and our own agents
 *          are asked in its stead.
 * Threads: one of its own; open and close from one. */
#ifndef AGGREGATOR_PACK_EXCHANGE_H
#define AGGREGATOR_PACK_EXCHANGE_H

#include "aggregator/peers.h"
#include "aggregator/symbol_pack.h"

#define PACK_EXCHANGE_MS 200
#define PACK_POLL_MS     2000u
#define PACK_CALL_MS     2000

struct pack_exchange;
/* Borrows both. NULL when its thread does not start. */
struct pack_exchange *pack_exchange_open(struct symbol_packs *packs, struct peers *peers);
void pack_exchange_close(struct pack_exchange *exchange); /* NULL is fine; waits for a call under way */

#endif
