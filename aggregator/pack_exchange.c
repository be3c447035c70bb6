#include "aggregator/pack_exchange.h"

#include "common/clock.h"
#include "common/inbox.h"
#include "common/link.h"
#include "common/wire.h"
#include "common/xalloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define TASKS 64u

struct pack_exchange {
    struct symbol_packs *packs;
    struct peers *peers;
    struct inbox *pause; /* nothing is ever put: a sleep that close can end */
    pthread_t thread;
    atomic_bool closing;
    uint64_t silent_until_ms[PEERS_MAX]; /* keepers that did not answer */
};

static uint64_t wall_ms(void)
{
    return clock_wall_ns() / CLOCK_NS_PER_MS;
}

/* One part from the keeper. */
static int get_part(struct pack_exchange *exchange, size_t keeper, const struct executable_id *id,
                    uint32_t part, Fleetprof__Pack **ret_pack)
{
    Fleetprof__PackGet get = FLEETPROF__PACK_GET__INIT;
    get.executable.data = (uint8_t *)(uintptr_t)id->data;
    get.executable.len = id->bytes;
    get.part = part;
    struct buf out = buf_init(LINK_MESSAGE_BYTES);
    void *data = NULL;
    size_t bytes = 0;
    ProtobufCMessage *message = NULL;
    int rc = wire_pack(&get.base, WIRE_PACK_GET, 0, &out, NULL);
    if (rc == 0)
        rc = peers_call(exchange->peers, keeper, &out, PACK_CALL_MS, &data, &bytes);
    if (rc == 0)
        rc = wire_unpack(data, bytes, WIRE_PACK, &message, NULL);
    free(data);
    buf_fini(&out);
    if (rc == 0)
        *ret_pack = (Fleetprof__Pack *)message;
    return rc;
}

/* All parts after the first, which is here. */
static int get_rest(struct pack_exchange *exchange, size_t keeper, const struct executable_id *id,
                    Fleetprof__Pack *pack)
{
    uint32_t part_count = pack->parts;
    int rc = symbol_packs_add(exchange->packs, pack, wall_ms(), NULL);
    for (uint32_t part = 1; part < part_count && rc == 0 && !atomic_load(&exchange->closing); part++) {
        Fleetprof__Pack *next = NULL;
        rc = get_part(exchange, keeper, id, part, &next);
        if (rc == 0 && next->status != FLEETPROF__PACK_STATUS__PACK_OK)
            rc = -ENOENT;
        if (rc == 0)
            rc = symbol_packs_add(exchange->packs, next, wall_ms(), NULL);
        if (next)
            wire_free(&next->base);
    }
    if (rc == 0)
        symbol_packs_pushed(exchange->packs, id, 0); /* it came from the keeper */
    return rc;
}

static void ask_keeper(struct pack_exchange *exchange, size_t keeper, const struct executable_id *id)
{
    uint64_t now_ms = wall_ms();
    Fleetprof__Pack *pack = NULL;
    int rc = now_ms < exchange->silent_until_ms[keeper] ? -EAGAIN : get_part(exchange, keeper, id, 0, &pack);
    if (rc < 0) {
        if (rc != -EAGAIN)
            exchange->silent_until_ms[keeper] = wall_ms() + PACK_POLL_MS;
        symbol_packs_decide(exchange->packs, id, SYMBOL_ASK, wall_ms() + SYMBOL_PACK_GRANT_MS);
        return;
    }
    switch (pack->status) {
    case FLEETPROF__PACK_STATUS__PACK_OK:
        if (get_rest(exchange, keeper, id, pack) < 0)
            symbol_packs_decide(exchange->packs, id, SYMBOL_REMOTE, wall_ms() + PACK_POLL_MS);
        break;
    case FLEETPROF__PACK_STATUS__PACK_YOURS:
        symbol_packs_decide(exchange->packs, id, SYMBOL_ASK, wall_ms() + SYMBOL_PACK_GRANT_MS);
        break;
    case FLEETPROF__PACK_STATUS__PACK_UNAVAILABLE:
        symbol_packs_decide(exchange->packs, id, SYMBOL_UNAVAILABLE, wall_ms() + SYMBOL_PACK_RETRY_MS);
        break;
    default:
        symbol_packs_decide(exchange->packs, id, SYMBOL_REMOTE, wall_ms() + PACK_POLL_MS);
        break;
    }
    wire_free(&pack->base);
}

/* -ECONNREFUSED and such: try again later; everything else is the keeper's word. */
static int push_part(struct pack_exchange *exchange, size_t keeper, const Fleetprof__Pack *part)
{
    struct buf out = buf_init(LINK_MESSAGE_BYTES);
    void *data = NULL;
    size_t bytes = 0;
    int rc = wire_pack(&part->base, WIRE_PACK, 0, &out, NULL);
    if (rc == 0)
        rc = peers_call(exchange->peers, keeper, &out, PACK_CALL_MS, &data, &bytes);
    free(data);
    buf_fini(&out);
    return rc;
}

static void push(struct pack_exchange *exchange, size_t keeper, const struct executable_id *id)
{
    struct symbol_pack *pack = symbol_packs_find(exchange->packs, id);
    int rc = pack && wall_ms() >= exchange->silent_until_ms[keeper] ? 0 : -EAGAIN;
    uint32_t part_count = 1;
    for (uint32_t part = 0; part < part_count && rc == 0; part++) {
        Fleetprof__Pack message;
        rc = symbol_pack_part(pack, id, part, &message);
        if (rc < 0)
            break;
        part_count = message.parts;
        rc = push_part(exchange, keeper, &message);
        symbol_pack_part_fini(&message);
    }
    if (rc < 0 && rc != -EAGAIN)
        exchange->silent_until_ms[keeper] = wall_ms() + PACK_POLL_MS;
    symbol_packs_pushed(exchange->packs, id, rc == 0 ? 0 : wall_ms() + PACK_POLL_MS);
    symbol_pack_unref(pack);
}

static void do_task(struct pack_exchange *exchange, const struct symbol_task *task)
{
    size_t keeper = peers_keeper(exchange->peers, task->id.data, task->id.bytes);
    bool own = keeper == peers_self(exchange->peers);
    if (task->state == SYMBOL_HERE) {
        if (own)
            symbol_packs_pushed(exchange->packs, &task->id, 0);
        else
            push(exchange, keeper, &task->id);
    } else if (own) {
        symbol_packs_decide(exchange->packs, &task->id, SYMBOL_ASK, wall_ms() + SYMBOL_PACK_GRANT_MS);
    } else {
        ask_keeper(exchange, keeper, &task->id);
    }
}

static void *work(void *arg)
{
    struct pack_exchange *exchange = arg;
    while (!atomic_load(&exchange->closing)) {
        struct symbol_task tasks[TASKS];
        size_t count = symbol_packs_tasks(exchange->packs, wall_ms(), tasks, TASKS);
        for (size_t i = 0; i < count && !atomic_load(&exchange->closing); i++)
            do_task(exchange, &tasks[i]);
        inbox_wait(exchange->pause, PACK_EXCHANGE_MS);
    }
    return NULL;
}

struct pack_exchange *pack_exchange_open(struct symbol_packs *packs, struct peers *peers)
{
    struct pack_exchange *exchange = xcalloc(1, sizeof(*exchange));
    exchange->packs = packs;
    exchange->peers = peers;
    exchange->pause = inbox_open_thread(1);
    if (pthread_create(&exchange->thread, NULL, work, exchange) != 0) {
        inbox_close(exchange->pause, NULL, NULL);
        free(exchange);
        return NULL;
    }
    return exchange;
}

void pack_exchange_close(struct pack_exchange *exchange)
{
    if (!exchange)
        return;
    atomic_store(&exchange->closing, true);
    inbox_wake(exchange->pause);
    pthread_join(exchange->thread, NULL);
    inbox_close(exchange->pause, NULL, NULL);
    free(exchange);
}
