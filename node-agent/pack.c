#include "node-agent/pack.h"

#include "common/wire.h"
#include "common/xalloc.h"
#include "node-agent/symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(PACK_PART_NAMES_BYTES >= SYMBOLS_NAME_BYTES, "every name must fit an empty part");

/* The columns of one part, reused for all of a file. */
struct part {
    uint64_t *start_step;
    uint64_t *size;
    uint32_t *name_bytes;
    uint8_t *names;
    size_t count, names_bytes;
};

static struct part part_new(size_t functions, uint64_t names_bytes)
{
    size_t rows = functions < PACK_PART_FUNCTIONS ? functions : PACK_PART_FUNCTIONS;
    size_t room = names_bytes < PACK_PART_NAMES_BYTES ? (size_t)names_bytes : PACK_PART_NAMES_BYTES;
    return (struct part){
        .start_step = xcalloc(rows, sizeof(uint64_t)),
        .size = xcalloc(rows, sizeof(uint64_t)),
        .name_bytes = xcalloc(rows, sizeof(uint32_t)),
        .names = xcalloc(room, 1),
    };
}

static void part_fini(struct part *part)
{
    free(part->start_step);
    free(part->size);
    free(part->name_bytes);
    free(part->names);
}

/* The first symbol behind the part that begins at from: decided by the lengths alone, so that the number of
 * parts is known before any name is read, and stays true when names come back shorter. */
static size_t part_end(const struct symbols *symbols, size_t from)
{
    size_t names_bytes = 0, i = from;
    while (i < symbols->count && i - from < PACK_PART_FUNCTIONS &&
           names_bytes + symbols->items[i].name_bytes <= PACK_PART_NAMES_BYTES)
        names_bytes += symbols->items[i++].name_bytes;
    return i;
}

static void fill(struct part *part, struct symbols *symbols, size_t from, size_t end)
{
    uint64_t before = 0;
    char name[SYMBOLS_NAME_BYTES];
    part->names_bytes = 0;
    part->count = end - from;
    for (size_t i = from; i < end; i++) {
        const struct symbol *symbol = &symbols->items[i];
        size_t bytes = symbol->name_bytes ? symbols_name(symbols, symbol, name) : 0;
        part->start_step[i - from] = symbol->start - before;
        part->size[i - from] = symbol->bytes;
        part->name_bytes[i - from] = (uint32_t)bytes;
        memcpy(part->names + part->names_bytes, name, bytes);
        part->names_bytes += bytes;
        before = symbol->start;
    }
}

static int send_pack(Fleetprof__Pack *pack, pack_part_fn on_part, void *ctx, struct err *err)
{
    struct buf message = buf_init(PACK_MESSAGE_BYTES);
    int rc = wire_pack(&pack->base, WIRE_PACK, 0, &message, err);
    if (rc == 0)
        rc = on_part(&message, ctx);
    buf_fini(&message);
    return rc;
}

/* protobuf-c's structs are not const; the texts are only read. */
static Fleetprof__Pack header(const void *id, size_t id_bytes, const char *name)
{
    Fleetprof__Pack pack = FLEETPROF__PACK__INIT;
    pack.executable = (ProtobufCBinaryData){.len = id_bytes, .data = (uint8_t *)id};
    pack.name = (char *)name;
    pack.parts = 1;
    return pack;
}

int pack_unavailable(const void *id, size_t id_bytes, const char *name, const char *reason,
                     pack_part_fn on_part, void *ctx, struct err *err)
{
    Fleetprof__Pack pack = header(id, id_bytes, name);
    pack.status = FLEETPROF__PACK_STATUS__PACK_UNAVAILABLE;
    pack.reason = (char *)reason;
    return send_pack(&pack, on_part, ctx, err);
}

static int send_parts(struct symbols *symbols, Fleetprof__Pack *pack, pack_part_fn on_part, void *ctx,
                      struct err *err)
{
    pack->parts = 0;
    for (size_t at = 0; at < symbols->count; at = part_end(symbols, at))
        pack->parts++;
    struct part part = part_new(symbols->count, symbols->names_bytes);
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < symbols->count;) {
        size_t end = part_end(symbols, at);
        fill(&part, symbols, at, end);
        pack->start_step = part.start_step;
        pack->size = part.size;
        pack->name_bytes = part.name_bytes;
        pack->names = (ProtobufCBinaryData){.len = part.names_bytes, .data = part.names};
        pack->n_start_step = pack->n_size = pack->n_name_bytes = part.count;
        rc = send_pack(pack, on_part, ctx, err);
        pack->part++;
        at = end;
    }
    part_fini(&part);
    return rc;
}

int pack_each(int fd, const void *id, size_t id_bytes, const char *name, pack_part_fn on_part, void *ctx,
              struct err *err)
{
    struct symbols symbols;
    struct err why = {0};
    int rc = symbols_build(fd, PACK_BUDGET_MS, &symbols, &why);
    if (rc < 0 && rc != -ENODATA)
        return pack_unavailable(id, id_bytes, name, why.text, on_part, ctx, err);
    Fleetprof__Pack pack = header(id, id_bytes, name);
    if (rc == -ENODATA)
        return send_pack(&pack, on_part, ctx, err);
    rc = send_parts(&symbols, &pack, on_part, ctx, err);
    symbols_fini(&symbols);
    return rc;
}
