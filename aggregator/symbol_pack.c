/* symbol_pack: one pack: its slices, joining them, searching, cutting it up again for other shards. */
#include "aggregator/symbol_pack.h"

#include "aggregator/symbol_slice.h"
#include "common/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void symbol_slice_free(struct symbol_slice *slice)
{
    if (!slice)
        return;
    free(slice->functions);
    free(slice->names);
    free(slice);
}

size_t symbol_slice_bytes(const struct symbol_slice *slice)
{
    return sizeof(*slice) + slice->count * sizeof(*slice->functions) + slice->names_bytes;
}

static int check_columns(const Fleetprof__Pack *part, struct err *err)
{
    if (part->n_size != part->n_start_step || part->n_name_bytes != part->n_start_step)
        return err_say(err, -EPROTO, "pack: columns of %zu, %zu and %zu functions", part->n_start_step,
                       part->n_size, part->n_name_bytes);
    if (part->n_start_step > SYMBOL_PACK_FUNCTIONS)
        return err_say(err, -E2BIG, "pack: more than %u functions", SYMBOL_PACK_FUNCTIONS);
    size_t names = 0;
    for (size_t i = 0; i < part->n_name_bytes; i++) {
        if (part->name_bytes[i] > SYMBOL_PACK_NAME_BYTES)
            return err_say(err, -EPROTO, "pack: a name of %u bytes", part->name_bytes[i]);
        names += part->name_bytes[i];
    }
    if (names != part->names.len || names > UINT32_MAX)
        return err_say(err, -EPROTO, "pack: names of %zu bytes where %zu are announced", part->names.len,
                       names);
    return 0;
}

int symbol_slice_read(const Fleetprof__Pack *part, struct symbol_slice **ret_slice, struct err *err)
{
    int rc = check_columns(part, err);
    if (rc < 0)
        return rc;
    struct symbol_slice *slice = xcalloc(1, sizeof(*slice));
    slice->count = part->n_start_step;
    slice->functions = xcalloc(slice->count ? slice->count : 1, sizeof(*slice->functions));
    slice->names_bytes = part->names.len;
    slice->names = xmemdup_text(part->names.data, part->names.len);
    uint64_t start = 0;
    uint32_t name_at = 0;
    for (size_t i = 0; i < slice->count; i++) {
        if (__builtin_add_overflow(start, part->start_step[i], &start) ||
            (i > 0 && part->start_step[i] == 0) || part->size[i] > UINT64_MAX - start) {
            symbol_slice_free(slice);
            return err_say(err, -EPROTO, "pack: function %zu is not after the one before", i);
        }
        slice->functions[i] = (struct symbol_function){
            .start = start, .bytes = part->size[i], .name_at = name_at, .name_bytes = part->name_bytes[i]};
        name_at += part->name_bytes[i];
    }
    *ret_slice = slice;
    return 0;
}

/* ---- the whole ---- */

struct symbol_pack *symbol_pack_join(struct symbol_slice *const *slices, size_t slice_count)
{
    uint64_t count = 0, names = 0;
    for (size_t i = 0; i < slice_count; i++) {
        count += slices[i]->count;
        names += slices[i]->names_bytes;
    }
    if (count > SYMBOL_PACK_FUNCTIONS || names > UINT32_MAX)
        return NULL;
    struct symbol_pack *pack = xcalloc(1, sizeof(*pack));
    atomic_init(&pack->reference_count, 1);
    pack->functions = xcalloc(count ? count : 1, sizeof(*pack->functions));
    pack->names = xmalloc(names + 1);
    for (size_t i = 0; i < slice_count; i++) {
        for (size_t k = 0; k < slices[i]->count; k++) {
            struct symbol_function function = slices[i]->functions[k];
            if (pack->count && function.start <= pack->functions[pack->count - 1].start) {
                symbol_pack_unref(pack);
                return NULL;
            }
            function.name_at += (uint32_t)pack->names_bytes;
            pack->functions[pack->count++] = function;
        }
        memcpy(pack->names + pack->names_bytes, slices[i]->names, slices[i]->names_bytes);
        pack->names_bytes += slices[i]->names_bytes;
    }
    return pack;
}

size_t symbol_pack_bytes(const struct symbol_pack *pack)
{
    return sizeof(*pack) + pack->count * sizeof(*pack->functions) + pack->names_bytes;
}

struct symbol_pack *symbol_pack_ref(struct symbol_pack *pack)
{
    atomic_fetch_add_explicit(&pack->reference_count, 1, memory_order_relaxed);
    return pack;
}

void symbol_pack_unref(struct symbol_pack *pack)
{
    if (!pack || atomic_fetch_sub_explicit(&pack->reference_count, 1, memory_order_acq_rel) != 1)
        return;
    free(pack->functions);
    free(pack->names);
    free(pack);
}

size_t symbol_pack_function_count(const struct symbol_pack *pack)
{
    return pack->count;
}

const struct symbol_function *symbol_pack_find(const struct symbol_pack *pack, uint64_t file_offset,
                                               const char **ret_name)
{
    size_t low = 0, high = pack->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pack->functions[middle].start <= file_offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    const struct symbol_function *function = &pack->functions[low - 1];
    if (file_offset != function->start && file_offset - function->start >= function->bytes)
        return NULL;
    *ret_name = pack->names + function->name_at;
    return function;
}

/* ---- cutting up ---- */

#define FUNCTION_WIRE_BYTES 12u /* about what the three columns take */

/* Where the part after the one that begins at first begins. */
static size_t part_end(const struct symbol_pack *pack, size_t first)
{
    size_t bytes = 0, at = first;
    while (at < pack->count && (at == first || bytes < SYMBOL_PACK_PART_BYTES))
        bytes += FUNCTION_WIRE_BYTES + pack->functions[at++].name_bytes;
    return at;
}

int symbol_pack_part(const struct symbol_pack *pack, const struct executable_id *id, uint32_t part,
                     Fleetprof__Pack *ret_pack)
{
    size_t first = 0, end = 0, part_count = 0, at = 0;
    do { /* an empty pack is one empty part */
        size_t next = part_end(pack, at);
        if (part_count == part) {
            first = at;
            end = next;
        }
        at = next;
        part_count++;
    } while (at < pack->count);
    if (part >= part_count)
        return -ENOENT;
    size_t count = end - first;
    fleetprof__pack__init(ret_pack);
    ret_pack->status = FLEETPROF__PACK_STATUS__PACK_OK;
    ret_pack->part = part;
    ret_pack->parts = (uint32_t)part_count;
    ret_pack->executable.len = id->bytes;
    ret_pack->executable.data = (uint8_t *)xmemdup_text(id->data, id->bytes);
    ret_pack->n_start_step = ret_pack->n_size = ret_pack->n_name_bytes = count;
    ret_pack->start_step = xcalloc(count + 1, sizeof(*ret_pack->start_step));
    ret_pack->size = xcalloc(count + 1, sizeof(*ret_pack->size));
    ret_pack->name_bytes = xcalloc(count + 1, sizeof(*ret_pack->name_bytes));
    uint64_t before = 0;
    for (size_t i = 0; i < count; i++) {
        const struct symbol_function *function = &pack->functions[first + i];
        ret_pack->start_step[i] = function->start - before;
        ret_pack->size[i] = function->bytes;
        ret_pack->name_bytes[i] = function->name_bytes;
        ret_pack->names.len += function->name_bytes;
        before = function->start;
    }
    const char *names = count ? pack->names + pack->functions[first].name_at : "";
    ret_pack->names.data = (uint8_t *)xmemdup_text(names, ret_pack->names.len);
    return 0;
}

void symbol_pack_part_fini(Fleetprof__Pack *pack)
{
    free(pack->executable.data);
    free(pack->start_step);
    free(pack->size);
    free(pack->name_bytes);
    free(pack->names.data);
}
