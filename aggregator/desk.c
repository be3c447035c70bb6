#include "aggregator/desk.h"

#include "aggregator/query.h"
#include "common/clock.h"
#include "common/inbox.h"
#include "common/xalloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct letter {
    struct link_request *request;
    enum wire_type type;
};

struct desk {
    struct answers *answers;
    struct symbol_packs *packs;
    uint64_t timeout_ms;
    struct inbox *inboxes[DESK_THREADS];
    pthread_t threads[DESK_THREADS];
    unsigned started_count;
    atomic_uint turn;
    _Atomic size_t waiting_bytes;
    atomic_bool closing;
};

/* pthread_create hands over one pointer. */
struct seat {
    struct desk *desk;
    struct inbox *inbox;
};

static char *text(const char *literal)
{
    return (char *)(uintptr_t)literal; /* protobuf-c has no const; packing only reads */
}

/* Every reply has verdict and reason first; a refusal is sent as the type that the asker waits for. */
static void refuse(enum wire_type type, Fleetprof__Verdict verdict, const char *reason, struct buf *out)
{
    Fleetprof__TopReply top = FLEETPROF__TOP_REPLY__INIT;
    Fleetprof__StacksReply stacks = FLEETPROF__STACKS_REPLY__INIT;
    Fleetprof__LabelsReply labels = FLEETPROF__LABELS_REPLY__INIT;
    Fleetprof__AgentsReply agents = FLEETPROF__AGENTS_REPLY__INIT;
    Fleetprof__PackReply pack = FLEETPROF__PACK_REPLY__INIT;
    Fleetprof__Pack got = FLEETPROF__PACK__INIT;
    Fleetprof__HelloReply other = FLEETPROF__HELLO_REPLY__INIT;
    top.verdict = stacks.verdict = labels.verdict = agents.verdict = pack.verdict = other.verdict = verdict;
    top.reason = stacks.reason = labels.reason = agents.reason = pack.reason = other.reason = text(reason);
    got.status = FLEETPROF__PACK_STATUS__PACK_PENDING;
    switch (type) {
    case WIRE_TOP_REQUEST:
        wire_pack(&top.base, WIRE_TOP_REPLY, 0, out, NULL);
        break;
    case WIRE_STACKS_REQUEST:
        wire_pack(&stacks.base, WIRE_STACKS_REPLY, 0, out, NULL);
        break;
    case WIRE_LABELS_REQUEST:
        wire_pack(&labels.base, WIRE_LABELS_REPLY, 0, out, NULL);
        break;
    case WIRE_AGENTS_REQUEST:
        wire_pack(&agents.base, WIRE_AGENTS_REPLY, 0, out, NULL);
        break;
    case WIRE_PACK:
        wire_pack(&pack.base, WIRE_PACK_REPLY, 0, out, NULL);
        break;
    case WIRE_PACK_GET:
        wire_pack(&got.base, WIRE_PACK, 0, out, NULL);
        break;
    default:
        wire_pack(&other.base, WIRE_REFUSAL, 0, out, NULL);
        break;
    }
}

void desk_put_off(enum wire_type type, const char *reason, struct buf *out)
{
    refuse(type, FLEETPROF__VERDICT__RETRY, reason, out);
}

/* ---- the requests ---- */

static uint64_t deadline_ns(uint64_t timeout_ms)
{
    return clock_mono_ns() + timeout_ms * CLOCK_NS_PER_MS;
}

static int do_top(struct desk *desk, const ProtobufCMessage *request, struct buf *out, struct err *err)
{
    Fleetprof__TopReply *reply;
    int rc = answer_top(desk->answers, (const Fleetprof__TopRequest *)request, deadline_ns(desk->timeout_ms),
                        &reply, err);
    if (rc < 0)
        return rc;
    rc = wire_pack(&reply->base, WIRE_TOP_REPLY, 0, out, err);
    wire_free(&reply->base);
    return rc;
}

static int do_stacks(struct desk *desk, const ProtobufCMessage *request, struct buf *out, struct err *err)
{
    const Fleetprof__Selection *selection = ((const Fleetprof__StacksRequest *)request)->selection;
    struct stackset *set;
    struct completeness completeness;
    int rc = answer_stacks(desk->answers, selection, deadline_ns(desk->timeout_ms * QUERY_STACKS_TIMES), &set,
                           &completeness, err);
    if (rc < 0)
        return rc;
    Fleetprof__StacksReply reply = FLEETPROF__STACKS_REPLY__INIT;
    stackset_sort_rows(set);
    rc = wire_from_stackset(set, selection->kind, "units", 1, &reply.dictionary, &reply.samples);
    stackset_free(set);
    if (rc < 0)
        return err_set(err, rc, "stacks");
    reply.completeness = completeness_to_wire(&completeness, "");
    rc = wire_pack(&reply.base, WIRE_STACKS_REPLY, 0, out, err);
    wire_free(&reply.dictionary->base);
    wire_free(&reply.samples->base);
    wire_free(&reply.completeness->base);
    return rc;
}

static int do_labels(struct desk *desk, const ProtobufCMessage *request, struct buf *out, struct err *err)
{
    Fleetprof__LabelsReply *reply;
    int rc = answer_labels(desk->answers, (const Fleetprof__LabelsRequest *)request,
                           deadline_ns(desk->timeout_ms), &reply, err);
    if (rc < 0)
        return rc;
    rc = wire_pack(&reply->base, WIRE_LABELS_REPLY, 0, out, err);
    wire_free(&reply->base);
    return rc;
}

static int do_agents(struct desk *desk, struct buf *out, struct err *err)
{
    Fleetprof__AgentsReply *reply;
    int rc = answer_agents(desk->answers, deadline_ns(desk->timeout_ms), &reply, err);
    if (rc < 0)
        return rc;
    rc = wire_pack(&reply->base, WIRE_AGENTS_REPLY, 0, out, err);
    wire_free(&reply->base);
    return rc;
}

static int do_pack(struct desk *desk, const ProtobufCMessage *request, struct buf *out, struct err *err)
{
    int rc = symbol_packs_add(desk->packs, (const Fleetprof__Pack *)request,
                              clock_wall_ns() / CLOCK_NS_PER_MS, err);
    if (rc < 0)
        return rc;
    Fleetprof__PackReply reply = FLEETPROF__PACK_REPLY__INIT;
    return wire_pack(&reply.base, WIRE_PACK_REPLY, 0, out, err);
}

static int do_pack_get(struct desk *desk, const ProtobufCMessage *request, struct buf *out, struct err *err)
{
    const Fleetprof__PackGet *get = (const Fleetprof__PackGet *)request;
    if (get->executable.len == 0 || get->executable.len > EXECUTABLE_ID_BYTES)
        return err_say(err, -EINVAL, "an executable id of %zu bytes", get->executable.len);
    struct executable_id id = {.bytes = (uint8_t)get->executable.len};
    memcpy(id.data, get->executable.data, id.bytes);
    Fleetprof__Pack reply = FLEETPROF__PACK__INIT;
    symbol_packs_get(desk->packs, &id, get->part, clock_wall_ns() / CLOCK_NS_PER_MS, &reply);
    int rc = wire_pack(&reply.base, WIRE_PACK, 0, out, err);
    symbol_pack_part_fini(&reply);
    return rc;
}

static int handle(struct desk *desk, enum wire_type type, const void *data, size_t bytes, struct buf *out,
                  struct err *err)
{
    ProtobufCMessage *request = NULL;
    int rc = wire_unpack(data, bytes, type, &request, err);
    if (rc < 0)
        return rc;
    switch (type) {
    case WIRE_TOP_REQUEST:
        rc = do_top(desk, request, out, err);
        break;
    case WIRE_STACKS_REQUEST:
        rc = do_stacks(desk, request, out, err);
        break;
    case WIRE_LABELS_REQUEST:
        rc = do_labels(desk, request, out, err);
        break;
    case WIRE_AGENTS_REQUEST:
        rc = do_agents(desk, out, err);
        break;
    case WIRE_PACK:
        rc = do_pack(desk, request, out, err);
        break;
    case WIRE_PACK_GET:
        rc = do_pack_get(desk, request, out, err);
        break;
    default:
        rc = err_say(err, -EPROTO, "not a request");
        break;
    }
    wire_free(request);
    return rc;
}

/* ---- threads ---- */

static void answer_letter(struct desk *desk, struct letter *letter, struct buf *out)
{
    struct err err = {0};
    size_t bytes;
    const void *data = link_request_data(letter->request, &bytes);
    buf_clear(out);
    if (handle(desk, letter->type, data, bytes, out, &err) < 0) {
        buf_clear(out);
        refuse(letter->type, FLEETPROF__VERDICT__REFUSED, err.text, out);
    }
    link_reply(letter->request, out->data, out->used_bytes);
    atomic_fetch_sub(&desk->waiting_bytes, bytes);
    free(letter);
}

static void *work(void *arg)
{
    struct seat seat = *(struct seat *)arg;
    free(arg);
    while (!atomic_load(&seat.desk->closing)) {
        struct letter *letter = inbox_wait(seat.inbox, -1);
        if (!letter)
            continue;
        struct buf out = buf_init(LINK_MESSAGE_BYTES);
        answer_letter(seat.desk, letter, &out);
        buf_fini(&out);
    }
    return NULL;
}

struct desk *desk_open(struct answers *answers, struct symbol_packs *packs, uint64_t timeout_ms)
{
    struct desk *desk = xcalloc(1, sizeof(*desk));
    desk->answers = answers;
    desk->packs = packs;
    desk->timeout_ms = timeout_ms;
    for (unsigned i = 0; i < DESK_THREADS; i++)
        desk->inboxes[i] = inbox_open_thread(DESK_INBOX);
    for (; desk->started_count < DESK_THREADS; desk->started_count++) {
        struct seat *seat = xcalloc(1, sizeof(*seat));
        *seat = (struct seat){desk, desk->inboxes[desk->started_count]};
        if (pthread_create(&desk->threads[desk->started_count], NULL, work, seat) != 0) {
            free(seat);
            desk_stop(desk);
            desk_free(desk);
            return NULL;
        }
    }
    return desk;
}

void desk_stop(struct desk *desk)
{
    atomic_store(&desk->closing, true);
    for (unsigned i = 0; i < DESK_THREADS; i++)
        inbox_wake(desk->inboxes[i]);
    for (; desk->started_count > 0; desk->started_count--)
        pthread_join(desk->threads[desk->started_count - 1], NULL);
}

static void throw_away(void *left, void *ctx)
{
    (void)ctx;
    free(left);
}

void desk_free(struct desk *desk)
{
    if (!desk)
        return;
    for (unsigned i = 0; i < DESK_THREADS; i++)
        inbox_close(desk->inboxes[i], throw_away, NULL);
    free(desk);
}

int desk_take(struct desk *desk, struct link_request *request, enum wire_type type)
{
    size_t bytes;
    link_request_data(request, &bytes);
    struct letter *letter = xcalloc(1, sizeof(*letter));
    letter->request = request;
    letter->type = type;
    unsigned turn = atomic_fetch_add(&desk->turn, 1);
    int rc = -EAGAIN;
    bool fits = atomic_fetch_add(&desk->waiting_bytes, bytes) + bytes <= DESK_INBOX_BYTES;
    for (unsigned i = 0; fits && i < DESK_THREADS && rc < 0; i++)
        rc = inbox_put(desk->inboxes[(turn + i) % DESK_THREADS], letter);
    if (rc < 0) {
        atomic_fetch_sub(&desk->waiting_bytes, bytes);
        free(letter);
    }
    return rc;
}
