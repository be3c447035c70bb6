/* symbol_pack: the function tables of executables, once per process, shared by all partitions.
 * Shapes:  a pack is sorted by start (file offset), names raw; slices ("parts") of SYMBOL_PACK_PART_BYTES
 *          or less go over the wire in order 0..parts-1, functions do not cross them.
 * Rules:   one entry per executable id (bytes and nothing else). Somebody wants it (symbol_packs_want); the
 *          exchange (pack_exchange) decides whom to ask; whoever is to ask an agent of this shard gets true
 *          from symbol_packs_should_ask once per SYMBOL_PACK_ASK_MS. A pack that could not be had is
 *          unavailable for SYMBOL_PACK_RETRY_MS, then forgotten, so that it can be wanted again. Packs that nobody asked for are refused. Parts may come in any order. A wish that no agent
 *          fulfils is forgotten when nobody has repeated it for SYMBOL_PACK_IDLE_MS.
 * Limits:  limit_bytes of packs and unfinished ones, SYMBOL_PACK_ENTRIES ids (over both the least recently
 *          used packs go, counted), SYMBOL_PACK_FUNCTIONS and SYMBOL_PACK_NAME_BYTES per function; one
 * assembly per executable. Threads: any (one mutex inside; never held while decoding or searching a pack).
 * Errors:  -EPROTO malformed, -ENOENT not asked for, -E2BIG over a limit. */
#ifndef AGGREGATOR_SYMBOL_PACK_H
#define AGGREGATOR_SYMBOL_PACK_H

#include "common/err.h"
#include "common/stackset.h"
#include "common/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYMBOL_PACK_ENTRIES    65536u
#define SYMBOL_PACK_FUNCTIONS  2000000u
#define SYMBOL_PACK_NAME_BYTES 4096u
#define SYMBOL_PACK_PART_BYTES (2u << 20)
#define SYMBOL_PACK_PARTS      512u
#define SYMBOL_PACK_ASK_MS     20000u
#define SYMBOL_PACK_RETRY_MS   60000u
#define SYMBOL_PACK_GRANT_MS   30000u  /* how long another shard may take to fetch what it was told to */
#define SYMBOL_PACK_IDLE_MS    600000u /* an unanswered wish that nobody repeats is forgotten */
#define SYMBOL_PACK_SLICES_MS  60000u  /* an unfinished pack without a new part for this long is dropped */

struct executable_id {
    uint8_t data[EXECUTABLE_ID_BYTES];
    uint8_t bytes;
};

struct symbol_function {
    uint64_t start;
    uint64_t bytes; /* 0: exact address only */
    uint32_t name_at;
    uint32_t name_bytes; /* 0: nameless */
};

struct symbol_pack;                               /* read-only once made */
void symbol_pack_unref(struct symbol_pack *pack); /* NULL is fine */
/* The function covering a file offset, NULL for none; its raw name (not NUL-terminated) to ret_name. */
const struct symbol_function *symbol_pack_find(const struct symbol_pack *pack, uint64_t file_offset,
                                               const char **ret_name);
size_t symbol_pack_function_count(const struct symbol_pack *pack);

struct symbol_packs;
struct symbol_packs *symbol_packs_new(uint64_t limit_bytes);
void symbol_packs_free(struct symbol_packs *packs);

/* ---- for partitions ---- */
struct symbol_pack *symbol_packs_find(struct symbol_packs *packs,
                                      const struct executable_id *id); /* a reference */
/* Rises whenever a pack arrives or an agent is to be asked: a cheap "is there anything to do". */
uint32_t symbol_packs_generation(const struct symbol_packs *packs);
void symbol_packs_want(struct symbol_packs *packs, const struct executable_id *id, uint64_t now_ms);
bool symbol_packs_should_ask(struct symbol_packs *packs, const struct executable_id *id, uint64_t now_ms);

/* ---- for the doors of the wire ---- */
int symbol_packs_add(struct symbol_packs *packs, const Fleetprof__Pack *part, uint64_t now_ms,
                     struct err *err);
/* Another shard asks its keeper: fills status, and the part (caller frees with symbol_packs_part_fini) when
 * PACK_OK. The first one to ask for an unknown executable is told PACK_YOURS. */
void symbol_packs_get(struct symbol_packs *packs, const struct executable_id *id, uint32_t part,
                      uint64_t now_ms, Fleetprof__Pack *ret_pack);
/* Fills one part of a pack, PACK_OK; -ENOENT when there is no such part. */
int symbol_pack_part(const struct symbol_pack *pack, const struct executable_id *id, uint32_t part,
                     Fleetprof__Pack *ret_pack);
void symbol_pack_part_fini(Fleetprof__Pack *pack);

/* ---- for the exchange ---- */
enum symbol_state {
    SYMBOL_WANTED,  /* nobody decided yet */
    SYMBOL_REMOTE,  /* its keeper was asked; ask again at next_ms */
    SYMBOL_ASK,     /* our agents are to be asked */
    SYMBOL_GRANTED, /* we keep it, another shard fetches it */
    SYMBOL_HERE,
    SYMBOL_UNAVAILABLE, /* until next_ms */
};
struct symbol_task {
    struct executable_id id;
    enum symbol_state state;
    bool push; /* here, and its keeper does not have it yet */
};
/* Entries that something should be done about now; at most room of them. */
size_t symbol_packs_tasks(struct symbol_packs *packs, uint64_t now_ms, struct symbol_task *out, size_t room);
/* What was decided, and until when it holds. */
void symbol_packs_decide(struct symbol_packs *packs, const struct executable_id *id, enum symbol_state state,
                         uint64_t next_ms);
/* again_ms 0: the keeper has it, or will not take it. Else: not pushed, to be tried again then. */
void symbol_packs_pushed(struct symbol_packs *packs, const struct executable_id *id, uint64_t again_ms);

struct symbol_packs_figures {
    uint64_t bytes, packs, wanted, unavailable, evicted;
};
struct symbol_packs_figures symbol_packs_figures(struct symbol_packs *packs);

#endif
