#include "node-agent/go_pclntab.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define MAGIC_1_2  0xfffffffbu
#define MAGIC_1_16 0xfffffffau
#define MAGIC_1_18 0xfffffff0u
#define MAGIC_1_20 0xfffffff1u

/* runtime.moduledata since 1.16: the header's address, six slices, findfunctab, minpc, maxpc, text. */
#define MODULE_MIN_PC     160u
#define MODULE_TEXT       176u
#define MAX_MODULES       4u /* places that look like the module data */
#define MAX_DYNAMIC_BYTES 65536u
#define MAX_RELOCATIONS   (2u << 20)

struct table {
    uint64_t offset;                    /* of the header in the file */
    uint64_t address;                   /* of the header */
    uint64_t bytes;                     /* from the header to the end of its section or segment */
    uint64_t count;                     /* functions */
    uint64_t names, functions, records; /* from the header */
    uint64_t header_text;               /* what the header says, 0 from 1.26 on */
    bool relative;                      /* 1.18+: 32-bit entries that count from runtime.text */
};

struct entry {
    uint64_t pc, record;
};

static int read_entry(struct elf_file *elf, const struct table *table, uint64_t index, bool last,
                      struct entry *ret_entry)
{
    if (table->relative) {
        uint32_t words[2] = {0};
        int rc = elf_file_read(elf, table->offset + table->functions + index * sizeof(words), words,
                               last ? sizeof(words[0]) : sizeof(words));
        *ret_entry = (struct entry){.pc = words[0], .record = words[1]};
        return rc;
    }
    uint64_t words[2] = {0};
    int rc = elf_file_read(elf, table->offset + table->functions + index * sizeof(words), words,
                           last ? sizeof(words[0]) : sizeof(words));
    *ret_entry = (struct entry){.pc = words[0], .record = words[1]};
    return rc;
}

static bool is_magic(uint32_t magic)
{
    return magic == MAGIC_1_2 || magic == MAGIC_1_16 || magic == MAGIC_1_18 || magic == MAGIC_1_20;
}

/* Is there a table whose header is at offset? bytes: how far it can reach. */
static int read_header(struct elf_file *elf, uint64_t offset, uint64_t bytes, struct table *ret_table)
{
    struct {
        uint32_t magic;
        uint8_t zero[2], quantum, pointer_bytes;
        uint64_t words[8];
    } header = {0};
    if (elf_file_read(elf, offset, &header, 16) < 0 || !is_magic(header.magic) || header.zero[0] ||
        header.zero[1] || (header.quantum != 1 && header.quantum != 2 && header.quantum != 4) ||
        header.pointer_bytes != 8)
        return -EBADMSG;
    if (header.magic != MAGIC_1_2 && elf_file_read(elf, offset, &header, sizeof(header)) < 0)
        return -EBADMSG;
    struct table table = {.offset = offset, .bytes = bytes, .count = header.words[0]};
    if (header.magic == MAGIC_1_2) {
        table.functions = 16;
    } else if (header.magic == MAGIC_1_16) {
        table.names = header.words[2];
        table.functions = table.records = header.words[6];
    } else {
        table.relative = true;
        table.header_text = header.words[2];
        table.names = header.words[3];
        table.functions = table.records = header.words[7];
    }
    uint64_t entry_bytes = table.relative ? 8 : 16;
    if (table.count == 0 || table.count > GO_MAX_FUNCTIONS || table.names >= bytes ||
        table.functions >= bytes || (table.count * entry_bytes) > bytes - table.functions)
        return -EBADMSG;
    if (elf_file_address_of(elf, offset, &table.address) < 0)
        return -EBADMSG;
    *ret_table = table;
    return 0;
}

/* ---- finding the table ---- */

static bool is_go(struct elf_file *elf)
{
    char id[8];
    struct elf_section section;
    return elf_file_sections(elf) == 0 || elf_file_go_build_id(elf, id, sizeof(id)) > 0 ||
           elf_file_section(elf, ".go.buildinfo", &section) == 0;
}

static int scan_segment(struct elf_file *elf, const Elf64_Phdr *segment, uint64_t *budget_bytes,
                        struct table *ret_table)
{
    uint64_t words[512];
    uint64_t end = segment->p_offset + segment->p_filesz;
    for (uint64_t at = (segment->p_offset + 7) / 8 * 8; at < end && *budget_bytes >= sizeof(words);
         at += sizeof(words)) {
        size_t got = elf_file_read_some(elf, at, words, sizeof(words));
        *budget_bytes -= sizeof(words);
        for (size_t i = 0; i < got / 8; i++) {
            if (is_magic((uint32_t)words[i]) && at + i * 8 < end &&
                read_header(elf, at + i * 8, end - (at + i * 8), ret_table) == 0)
                return 0;
        }
        if (got < sizeof(words))
            break;
    }
    return -ENOENT;
}

static int find_table(struct elf_file *elf, struct table *ret_table)
{
    static const char *const NAMES[] = {".gopclntab", ".data.rel.ro.gopclntab"};
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        struct elf_section section;
        if (elf_file_section(elf, NAMES[i], &section) == 0)
            return read_header(elf, section.offset, section.bytes, ret_table);
    }
    if (!is_go(elf))
        return -ENOENT;
    const Elf64_Phdr *headers;
    size_t count = elf_file_headers(elf, &headers);
    uint64_t budget_bytes = GO_SCAN_BYTES;
    for (size_t i = 0; i < count; i++) {
        if (headers[i].p_type == PT_LOAD && !(headers[i].p_flags & PF_X) &&
            scan_segment(elf, &headers[i], &budget_bytes, ret_table) == 0)
            return 0;
    }
    return -ENOENT;
}

/* ---- runtime.text ---- */

struct relocations {
    uint64_t offset, count; /* of the Elf64_Rela table in the file */
};

static struct relocations find_relocations(struct elf_file *elf)
{
    struct relocations found = {0};
    const Elf64_Phdr *headers;
    size_t count = elf_file_headers(elf, &headers);
    uint64_t address = 0, bytes = 0;
    for (size_t i = 0; i < count; i++) {
        if (headers[i].p_type != PT_DYNAMIC)
            continue;
        for (uint64_t at = 0; at < MAX_DYNAMIC_BYTES && at < headers[i].p_filesz; at += sizeof(Elf64_Dyn)) {
            Elf64_Dyn item;
            if (elf_file_read(elf, headers[i].p_offset + at, &item, sizeof(item)) < 0 ||
                item.d_tag == DT_NULL)
                break;
            if (item.d_tag == DT_RELA)
                address = item.d_un.d_ptr;
            else if (item.d_tag == DT_RELASZ)
                bytes = item.d_un.d_val;
        }
        break;
    }
    if (bytes && elf_file_offset_of(elf, address, &found.offset) == 0)
        found.count =
            bytes / sizeof(Elf64_Rela) < MAX_RELOCATIONS ? bytes / sizeof(Elf64_Rela) : MAX_RELOCATIONS;
    return found;
}

/* The pointer that will be at address once the file is loaded (relative to the load base). */
static int pointer_at(struct elf_file *elf, const struct relocations *relocations, uint64_t address,
                      uint64_t *ret_pointer)
{
    for (uint64_t i = 0; i < relocations->count; i++) {
        Elf64_Rela item;
        if (elf_file_read(elf, relocations->offset + i * sizeof(item), &item, sizeof(item)) < 0)
            break;
        if (item.r_offset == address && item.r_addend != 0) {
            *ret_pointer = (uint64_t)item.r_addend;
            return 0;
        }
    }
    uint64_t offset;
    if (elf_file_offset_of(elf, address, &offset) < 0)
        return -ENOENT;
    return elf_file_read(elf, offset, ret_pointer, sizeof(*ret_pointer));
}

/* Reads runtime.text if module is the address of the module data: its first function must be the table's. */
static int text_of_module(struct elf_file *elf, const struct relocations *relocations,
                          const struct table *table, uint64_t module, uint64_t *ret_text)
{
    uint64_t min_pc, text;
    struct entry first;
    if (module > UINT64_MAX - MODULE_TEXT || read_entry(elf, table, 0, false, &first) < 0 ||
        pointer_at(elf, relocations, module + MODULE_MIN_PC, &min_pc) < 0 ||
        pointer_at(elf, relocations, module + MODULE_TEXT, &text) < 0 || text == 0 ||
        min_pc - text != first.pc)
        return -ENOENT;
    *ret_text = text;
    return 0;
}

/* Module data begins with a pointer to the table's header: among the relocations, or in plain data. */
static int find_module(struct elf_file *elf, const struct relocations *relocations, const struct table *table,
                       uint64_t *ret_text)
{
    unsigned tries = 0;
    for (uint64_t i = 0; i < relocations->count && tries < MAX_MODULES; i++) {
        Elf64_Rela item;
        if (elf_file_read(elf, relocations->offset + i * sizeof(item), &item, sizeof(item)) < 0)
            break;
        if ((uint64_t)item.r_addend != table->address)
            continue;
        tries++;
        if (text_of_module(elf, relocations, table, item.r_offset, ret_text) == 0)
            return 0;
    }
    const Elf64_Phdr *headers;
    size_t count = elf_file_headers(elf, &headers);
    uint64_t budget_bytes = GO_SCAN_BYTES;
    for (size_t h = 0; h < count; h++) {
        if (headers[h].p_type != PT_LOAD || !(headers[h].p_flags & PF_W))
            continue;
        uint64_t words[512];
        for (uint64_t at = 0; at < headers[h].p_filesz && budget_bytes >= sizeof(words);
             at += sizeof(words)) {
            size_t got = elf_file_read_some(elf, headers[h].p_offset + at, words, sizeof(words));
            budget_bytes -= sizeof(words);
            for (size_t i = 0; i < got / 8 && tries < MAX_MODULES; i++) {
                if (words[i] != table->address)
                    continue;
                tries++;
                if (text_of_module(elf, relocations, table, headers[h].p_vaddr + at + i * 8, ret_text) == 0)
                    return 0;
            }
            if (got < sizeof(words))
                break;
        }
    }
    return -ENOENT;
}

static int find_text(struct elf_file *elf, const struct table *table, uint64_t *ret_text)
{
    uint64_t offset;
    struct elf_section section;
    struct relocations relocations = find_relocations(elf);
    if (elf_file_section(elf, ".go.module", &section) == 0 &&
        text_of_module(elf, &relocations, table, section.address, ret_text) == 0)
        return 0;
    if (find_module(elf, &relocations, table, ret_text) == 0)
        return 0;
    if (table->header_text && elf_file_offset_of(elf, table->header_text, &offset) == 0) {
        *ret_text = table->header_text;
        return 0;
    }
    if (elf_file_section(elf, ".text", &section) == 0) {
        *ret_text = section.address;
        return 0;
    }
    return -ENOENT;
}

/* ---- walking it ---- */

static int name_of(struct elf_file *elf, const struct table *table, uint64_t record,
                   uint64_t *ret_name_offset)
{
    /* struct _func: the entry (32 bits from 1.18 on, a pointer before), then the name. */
    uint64_t at = table->records + record + (table->relative ? 4 : 8);
    uint32_t name;
    if (record >= table->bytes || at > table->bytes - sizeof(name) ||
        elf_file_read(elf, table->offset + at, &name, sizeof(name)) < 0 ||
        name >= table->bytes - table->names)
        return -EBADMSG;
    *ret_name_offset = table->offset + table->names + name;
    return 0;
}

int go_pclntab_each(struct elf_file *elf, go_function_fn on_function, void *ctx, struct err *err)
{
    struct table table;
    uint64_t text = 0;
    int rc = find_table(elf, &table);
    if (rc == -ENOENT)
        return err_say(err, rc, "not a Go binary");
    if (rc == 0 && table.relative)
        rc = find_text(elf, &table, &text);
    struct entry entry, next;
    if (rc < 0 || read_entry(elf, &table, 0, table.count == 0, &entry) < 0)
        return err_say(err, -EBADMSG, "the Go function table makes no sense");
    for (uint64_t i = 0; i < table.count; i++, entry = next) {
        uint64_t name_offset;
        if (read_entry(elf, &table, i + 1, i + 1 == table.count, &next) < 0)
            return err_say(err, -EBADMSG, "the Go function table is cut");
        if (next.pc <= entry.pc || entry.pc > UINT64_MAX - text || next.pc > UINT64_MAX - text ||
            name_of(elf, &table, entry.record, &name_offset) < 0)
            continue; /* costs this function only */
        rc = on_function(text + entry.pc, text + next.pc, name_offset, ctx);
        if (rc)
            return rc;
    }
    return 0;
}
