#include "node-agent/symbols.h"

#include "common/clock.h"
#include "common/xalloc.h"
#include "node-agent/fde_table.h"
#include "node-agent/go_pclntab.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Lower is better. Within the sized, the sizeless and the untyped: global, weak, local. */
enum rank {
    RANK_GO,
    RANK_SIZED,
    RANK_SIZELESS = RANK_SIZED + 3,
    RANK_UNTYPED = RANK_SIZELESS + 3,
    RANK_NAMELESS = RANK_UNTYPED + 3
};

#define MAX_CODE_SECTIONS 64u
#define MAX_NESTING       32u /* ranges inside ranges; deeper ones lose what follows the inner range */
#define CLOCK_EVERY       1024u
#define FIRST_ROOM        1024u

struct range {
    uint64_t start, end;
};

struct builder {
    struct elf_file *elf;
    struct symbol *items;
    size_t count, room, limit;
    bool heap;  /* at the limit: items is a heap with the smallest range first */
    bool sized; /* some function has a size */
    uint64_t dropped_count;
    uint64_t deadline_ns;
    uint32_t until_clock;
    const Elf64_Phdr *segments;
    size_t segment_count, last_segment;
    struct range code[MAX_CODE_SECTIONS]; /* ELF addresses of executable sections */
    size_t code_count;
};

static bool out_of_time(struct builder *builder)
{
    if (builder->until_clock-- > 0)
        return false;
    builder->until_clock = CLOCK_EVERY;
    return clock_mono_ns() > builder->deadline_ns;
}

/* ---- in-place sorting: qsort of the C library would double the memory ---- */

typedef bool (*after_fn)(const struct symbol *a, const struct symbol *b);

static bool after_by_start(const struct symbol *a, const struct symbol *b)
{
    if (a->start != b->start)
        return a->start > b->start;
    if (a->rank != b->rank)
        return a->rank > b->rank;
    return a->name_at > b->name_at;
}

/* A heap by this has the smallest range on top. */
static bool after_by_size(const struct symbol *a, const struct symbol *b)
{
    return a->bytes < b->bytes;
}

static void sift_down(struct symbol *items, size_t at, size_t count, after_fn after)
{
    struct symbol moving = items[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count && after(&items[child + 1], &items[child]))
            child++;
        if (!after(&items[child], &moving))
            break;
        items[at] = items[child];
        at = child;
    }
    items[at] = moving;
}

static void make_heap(struct symbol *items, size_t count, after_fn after)
{
    for (size_t i = count / 2; i-- > 0;)
        sift_down(items, i, count, after);
}

static void sort(struct symbol *items, size_t count)
{
    make_heap(items, count, after_by_start);
    for (size_t last = count; last-- > 1;) {
        struct symbol largest = items[0];
        items[0] = items[last];
        items[last] = largest;
        sift_down(items, 0, last, after_by_start);
    }
}

/* ---- one symbol per address ---- */

static size_t read_name(struct elf_file *elf, uint64_t at, char *out, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) { /* mostly short: not all of bytes at once */
        size_t part = bytes - done < 128 ? bytes - done : 128;
        size_t got = elf_file_read_some(elf, at + done, out + done, part);
        size_t length = strnlen(out + done, got);
        done += length;
        if (length < part)
            break;
    }
    return done;
}

/* Is name a the better of two with equal rank? */
static bool better_name(struct elf_file *elf, uint64_t a_at, uint64_t b_at)
{
    char a[SYMBOLS_NAME_BYTES], b[SYMBOLS_NAME_BYTES];
    size_t a_bytes = read_name(elf, a_at, a, sizeof(a));
    size_t b_bytes = read_name(elf, b_at, b, sizeof(b));
    if (a_bytes != b_bytes)
        return a_bytes != 0 && (b_bytes == 0 || a_bytes < b_bytes);
    return memcmp(a, b, a_bytes) < 0;
}

/* b joins a, which stands at the same address and is no worse by rank. */
static void join(struct elf_file *elf, struct symbol *a, const struct symbol *b)
{
    if (a->rank == RANK_GO && b->rank >= RANK_SIZED && b->rank < RANK_SIZELESS && b->bytes)
        a->bytes = b->bytes; /* without the padding that the Go table counts in */
    else if (a->rank == b->rank && a->rank != RANK_GO && better_name(elf, b->name_at, a->name_at))
        *a = *b;
}

/* Sorts; one item stays for each address, and none without a size inside one that has. */
static int compact(struct builder *builder)
{
    sort(builder->items, builder->count);
    size_t kept = 0;
    uint64_t covered = 0; /* up to here by sized ones */
    bool go_joined = false;
    for (size_t i = 0; i < builder->count; i++) {
        const struct symbol *item = &builder->items[i];
        if (out_of_time(builder))
            return -ETIME;
        struct symbol *last = kept ? &builder->items[kept - 1] : NULL;
        if (last && last->start == item->start) {
            if (!(last->rank == RANK_GO && go_joined))
                join(builder->elf, last, item);
            go_joined = true;
            continue;
        }
        if (last && last->start + last->bytes > covered)
            covered = last->start + last->bytes;
        if (item->bytes == 0 && item->start < covered)
            continue;
        builder->items[kept++] = *item;
        go_joined = false;
    }
    builder->count = kept;
    return 0;
}

static int make_room(struct builder *builder)
{
    if (builder->count < builder->room)
        return 0;
    if (builder->room < builder->limit) {
        size_t room = builder->room ? builder->room * 2 : FIRST_ROOM;
        builder->room = room < builder->limit ? room : builder->limit;
        builder->items = xrealloc_array(builder->items, builder->room, sizeof(*builder->items));
        return 0;
    }
    int rc = compact(builder); /* the same functions from two tables? */
    if (rc == 0 && builder->count > builder->limit - builder->limit / 8) {
        make_heap(builder->items, builder->count, after_by_size);
        builder->heap = true;
    }
    return rc;
}

static int put(struct builder *builder, const struct symbol *symbol)
{
    if (!builder->heap) {
        int rc = make_room(builder);
        if (rc < 0)
            return rc;
    }
    if (builder->count < builder->limit && !builder->heap) {
        builder->items[builder->count++] = *symbol;
        return 0;
    }
    builder->dropped_count++;
    if (symbol->bytes <= builder->items[0].bytes)
        return 0;
    builder->items[0] = *symbol;
    sift_down(builder->items, 0, builder->count, after_by_size);
    return 0;
}

/* ELF address -> file offset, in executable segments only; also how many bytes the segment has from there. */
static bool to_offset(struct builder *builder, uint64_t address, uint64_t *ret_offset, uint64_t *ret_left)
{
    for (size_t n = 0; n < builder->segment_count; n++) {
        size_t i = (builder->last_segment + n) % builder->segment_count;
        const Elf64_Phdr *segment = &builder->segments[i];
        if (address < segment->p_vaddr || address - segment->p_vaddr >= segment->p_filesz)
            continue;
        builder->last_segment = i;
        *ret_offset = address - segment->p_vaddr + segment->p_offset;
        *ret_left = segment->p_filesz - (address - segment->p_vaddr);
        return true;
    }
    return false;
}

static int add(struct builder *builder, uint64_t address, uint64_t bytes, enum rank rank, uint64_t name_at)
{
    uint64_t left;
    struct symbol symbol = {.name_at = name_at, .rank = (uint16_t)rank};
    if (out_of_time(builder))
        return -ETIME;
    if (!to_offset(builder, address, &symbol.start, &left))
        return 0;
    if (bytes > left)
        bytes = left;
    symbol.bytes = bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
    return put(builder, &symbol);
}

/* ---- the sources ---- */

/* $x, $d, $x.foo (ARM, RISC-V: what kind of bytes follow) and .L (the assembler's own). */
static bool is_marker_name(struct elf_file *elf, uint64_t name_at)
{
    char name[3] = {0};
    size_t got = elf_file_read_some(elf, name_at, name, sizeof(name));
    if (got < 2)
        return true;
    if (name[0] == '.' && name[1] == 'L')
        return true;
    return name[0] == '$' && strchr("xdat", name[1]) && name[1] && (name[2] == '\0' || name[2] == '.');
}

static int add_elf_symbol(struct builder *builder, const Elf64_Sym *symbol, uint64_t name_at)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info);
    bool reserved = symbol->st_shndx >= SHN_LORESERVE && symbol->st_shndx != SHN_XINDEX;
    if (symbol->st_shndx == SHN_UNDEF || reserved ||
        (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
        return 0;
    unsigned weakness = binding == STB_LOCAL ? 2 : binding == STB_WEAK ? 1 : 0;
    if (type == STT_NOTYPE) {
        if (is_marker_name(builder->elf, name_at))
            return 0;
        return add(builder, symbol->st_value, 0, RANK_UNTYPED + weakness, name_at);
    }
    if (symbol->st_size == 0)
        return add(builder, symbol->st_value, 0, RANK_SIZELESS + weakness, name_at);
    builder->sized = true;
    return add(builder, symbol->st_value, symbol->st_size, RANK_SIZED + weakness, name_at);
}

static int add_table(struct builder *builder, const struct elf_section *table)
{
    struct elf_section strings;
    uint64_t file_bytes = elf_file_bytes(builder->elf);
    size_t each = elf_file_symbol_bytes(builder->elf);
    if (table->entry_bytes != each || table->offset >= file_bytes ||
        elf_file_section_at(builder->elf, table->link, &strings) < 0 || strings.offset >= file_bytes)
        return 0;
    uint64_t bytes = file_bytes - table->offset < table->bytes ? file_bytes - table->offset : table->bytes;
    for (uint64_t i = 1; i < bytes / each; i++) {
        Elf64_Sym symbol;
        if (out_of_time(builder))
            return -ETIME;
        if (elf_file_symbol(builder->elf, table->offset + i * each, &symbol) < 0)
            return 0; /* cut short: what was read stays */
        if (symbol.st_name == 0 || symbol.st_name >= strings.bytes)
            continue;
        int rc = add_elf_symbol(builder, &symbol, strings.offset + symbol.st_name);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Symbol tables, and on the way where the code is. */
static int add_sections(struct builder *builder)
{
    unsigned tables = 0;
    for (uint32_t i = 1; i < elf_file_sections(builder->elf); i++) {
        struct elf_section section;
        if (elf_file_section_at(builder->elf, i, &section) < 0)
            break;
        if (section.type != SHT_NOBITS && (section.flags & SHF_EXECINSTR) &&
            builder->code_count < MAX_CODE_SECTIONS && section.bytes <= UINT64_MAX - section.address)
            builder->code[builder->code_count++] =
                (struct range){section.address, section.address + section.bytes};
        if ((section.type != SHT_SYMTAB && section.type != SHT_DYNSYM) || ++tables > 4)
            continue;
        int rc = add_table(builder, &section);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int on_go_function(uint64_t start, uint64_t end, uint64_t name_offset, void *ctx)
{
    struct builder *builder = ctx;
    builder->sized = true;
    return add(builder, start, end - start, RANK_GO, name_offset);
}

/* ---- from a heap of ranges to a table ---- */

struct open_range {
    uint64_t end;
    uint64_t name_at;
    uint16_t rank;
};

static void append_piece(struct builder *builder, uint64_t start, uint64_t end, const struct open_range *of)
{
    bool full =
        builder->count == builder->room && (builder->room >= builder->limit || make_room(builder) < 0);
    if (full || !builder->items) {
        builder->dropped_count++;
        return;
    }
    builder->items[builder->count++] = (struct symbol){
        .start = start,
        .bytes = (uint32_t)(end - start),
        .name_at = of->name_at,
        .rank = of->rank,
    };
}

/* Items are sorted and have different starts. Cuts what overlaps: inner ranges keep their bytes, the outer
 * one goes on behind them as a piece of its own. */
static void flatten(struct builder *builder)
{
    struct open_range open[MAX_NESTING];
    size_t depth = 0, count = builder->count;
    for (size_t i = 0; i < count; i++) {
        struct symbol *item = &builder->items[i];
        uint64_t next = i + 1 < count ? builder->items[i + 1].start : UINT64_MAX;
        uint64_t at = item->start + item->bytes;
        if (item->bytes && depth < MAX_NESTING)
            open[depth++] = (struct open_range){at, item->name_at, item->rank};
        if (at > next) {
            item->bytes = (uint32_t)(next - item->start);
            at = next;
        }
        while (depth && at < next) {
            if (open[depth - 1].end <= at) {
                depth--;
                continue;
            }
            uint64_t end = open[depth - 1].end < next ? open[depth - 1].end : next;
            append_piece(builder, at, end, &open[depth - 1]);
            at = end;
        }
    }
    sort(builder->items, builder->count);
}

static size_t last_at_or_before(const struct symbol *items, size_t count, uint64_t offset)
{
    size_t low = 0, high = count; /* the answer + 1 */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (items[middle].start <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* One function start of .eh_frame_hdr: a size for a sizeless symbol, or a nameless range where nothing is
 * known. */
static void add_frame(struct builder *builder, struct fde_table *table, size_t named, uint64_t index)
{
    uint64_t address, fde, offset, left, bytes;
    if (fde_table_get(table, index, &address, &fde) < 0 || !to_offset(builder, address, &offset, &left))
        return;
    size_t place = last_at_or_before(builder->items, named, offset);
    struct symbol *before = place ? &builder->items[place - 1] : NULL;
    if (before && (offset < before->start + before->bytes))
        return;
    if (fde_table_length(table, fde, &bytes) < 0)
        return;
    uint64_t next = place < named ? builder->items[place].start : UINT64_MAX;
    bytes = bytes < left ? bytes : left;
    bytes = bytes < next - offset ? bytes : next - offset;
    if (bytes > UINT32_MAX)
        bytes = UINT32_MAX;
    if (before && before->start == offset)
        before->bytes = (uint32_t)bytes;
    else
        append_piece(builder, offset, offset + bytes, &(struct open_range){.rank = RANK_NAMELESS});
}

static int add_frames(struct builder *builder)
{
    struct fde_table table;
    if (fde_table_open(builder->elf, &table) < 0)
        return 0;
    size_t named = builder->count;
    for (uint64_t i = 0; i < table.count; i++) {
        if (out_of_time(builder))
            return -ETIME;
        add_frame(builder, &table, named, i);
    }
    if (builder->count > named)
        sort(builder->items, builder->count);
    size_t kept = 0;
    for (size_t i = 0; i < builder->count; i++) {
        struct symbol *last = kept ? &builder->items[kept - 1] : NULL;
        if (last && last->start == builder->items[i].start)
            continue;
        if (last && last->start + last->bytes > builder->items[i].start)
            last->bytes = (uint32_t)(builder->items[i].start - last->start);
        builder->items[kept++] = builder->items[i];
    }
    builder->count = kept;
    return 0;
}

/* In a file of hand-written assembly no symbol has a size: a label reaches to the next one in its section. */
static void extend_labels(struct builder *builder)
{
    for (size_t i = 0; i < builder->count; i++) {
        struct symbol *item = &builder->items[i];
        uint64_t address, end = 0;
        if (item->bytes || elf_file_address_of(builder->elf, item->start, &address) < 0)
            continue;
        for (size_t s = 0; s < builder->code_count; s++) {
            if (address >= builder->code[s].start && address < builder->code[s].end)
                end = item->start + (builder->code[s].end - address);
        }
        if (i + 1 < builder->count && builder->items[i + 1].start < end)
            end = builder->items[i + 1].start;
        if (end > item->start && end - item->start <= UINT32_MAX)
            item->bytes = (uint32_t)(end - item->start);
    }
}

static int measure_names(struct builder *builder, uint64_t *ret_names_bytes)
{
    char name[SYMBOLS_NAME_BYTES];
    uint64_t total = 0;
    for (size_t i = 0; i < builder->count; i++) {
        struct symbol *item = &builder->items[i];
        if (out_of_time(builder))
            return -ETIME;
        if (item->name_at)
            item->name_bytes = (uint16_t)read_name(builder->elf, item->name_at, name, sizeof(name));
        total += item->name_bytes;
    }
    *ret_names_bytes = total;
    return 0;
}

static int build(struct builder *builder, uint64_t *ret_names_bytes)
{
    builder->segment_count = elf_file_segments(builder->elf, &builder->segments);
    int rc = add_sections(builder);
    if (rc == 0)
        rc = go_pclntab_each(builder->elf, on_go_function, builder, NULL);
    if (rc == -ENOENT || rc == -EBADMSG)
        rc = 0; /* not Go, or its table is broken: the other names stay */
    if (rc == 0)
        rc = compact(builder);
    if (rc < 0)
        return rc;
    builder->heap = false;
    flatten(builder);
    rc = add_frames(builder);
    if (rc == 0 && !builder->sized)
        extend_labels(builder);
    if (rc == 0)
        rc = measure_names(builder, ret_names_bytes);
    if (rc == 0 && builder->count == 0)
        rc = -ENODATA;
    return rc;
}

static int build_limited(int fd, uint64_t budget_ms, size_t limit, struct symbols *ret_symbols,
                         struct err *err)
{
    struct builder builder = {.limit = limit, .deadline_ns = clock_mono_ns() + budget_ms * CLOCK_NS_PER_MS};
    int rc = elf_file_open(fd, &builder.elf, err);
    if (rc < 0)
        return rc;
    uint64_t names_bytes = 0;
    rc = build(&builder, &names_bytes);
    if (rc < 0) {
        free(builder.items);
        elf_file_close(builder.elf);
        if (rc == -ENODATA)
            return err_say(err, rc, "no function symbols");
        return err_set(err, rc, "read symbols for %llu ms", (unsigned long long)budget_ms);
    }
    *ret_symbols = (struct symbols){
        .items = builder.items,
        .count = builder.count,
        .names_bytes = names_bytes,
        .dropped_count = builder.dropped_count,
        .elf = builder.elf,
    };
    return 0;
}

int symbols_build(int fd, uint64_t budget_ms, struct symbols *ret_symbols, struct err *err)
{
    return build_limited(fd, budget_ms, SYMBOLS_MAX, ret_symbols, err);
}

void symbols_fini(struct symbols *symbols)
{
    free(symbols->items);
    elf_file_close(symbols->elf);
    *symbols = (struct symbols){0};
}

size_t symbols_name(struct symbols *symbols, const struct symbol *symbol, char out[SYMBOLS_NAME_BYTES])
{
    return read_name(symbols->elf, symbol->name_at, out, symbol->name_bytes);
}

const struct symbol *symbols_find(const struct symbols *symbols, uint64_t file_offset)
{
    size_t place = last_at_or_before(symbols->items, symbols->count, file_offset);
    if (place == 0)
        return NULL;
    const struct symbol *symbol = &symbols->items[place - 1];
    return file_offset - symbol->start < (symbol->bytes ? symbol->bytes : 1) ? symbol : NULL;
}
