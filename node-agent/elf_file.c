#include "node-agent/elf_file.h"

#include "common/xalloc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads go through a small direct-mapped cache of file blocks: tables are walked in order while their strings
 * and records are met almost in order, so that most reads of a few bytes cost no system call. */
#define BLOCK_BYTES  4096u
#define BLOCKS       32u
#define BLOCK_UNUSED UINT64_MAX

struct elf_file {
    int fd;
    uint64_t file_bytes;
    bool narrow;                          /* ELFCLASS32: its records are widened as they are read */
    Elf64_Phdr headers[ELF_MAX_SEGMENTS]; /* of the file; those that overflow are dropped */
    size_t header_count;
    Elf64_Phdr segments[ELF_MAX_SEGMENTS]; /* the executable PT_LOADs */
    size_t segment_count;
    uint64_t section_offset;
    uint32_t section_count;
    struct elf_section section_names;
    uint64_t block_number[BLOCKS];
    uint32_t block_bytes[BLOCKS]; /* fewer than BLOCK_BYTES at the end of the file */
    uint8_t blocks[BLOCKS][BLOCK_BYTES];
};

static size_t load_block(struct elf_file *elf, uint64_t number)
{
    size_t slot = number % BLOCKS;
    if (elf->block_number[slot] == number)
        return slot;
    size_t have = 0;
    while (have < BLOCK_BYTES) {
        ssize_t got = pread(elf->fd, elf->blocks[slot] + have, BLOCK_BYTES - have,
                            (off_t)(number * BLOCK_BYTES + have));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    elf->block_number[slot] = number;
    elf->block_bytes[slot] = (uint32_t)have;
    return slot;
}

size_t elf_file_read_some(struct elf_file *elf, uint64_t offset, void *out, size_t bytes)
{
    if (offset >= elf->file_bytes)
        return 0;
    if (bytes > elf->file_bytes - offset)
        bytes = (size_t)(elf->file_bytes - offset);
    size_t done = 0;
    while (done < bytes) {
        size_t slot = load_block(elf, (offset + done) / BLOCK_BYTES);
        size_t in_block = (offset + done) % BLOCK_BYTES;
        if (elf->block_bytes[slot] <= in_block)
            break; /* cut short since it was opened */
        size_t part = elf->block_bytes[slot] - in_block;
        if (part > bytes - done)
            part = bytes - done;
        memcpy((uint8_t *)out + done, elf->blocks[slot] + in_block, part);
        done += part;
    }
    return done;
}

int elf_file_read(struct elf_file *elf, uint64_t offset, void *out, size_t bytes)
{
    return elf_file_read_some(elf, offset, out, bytes) == bytes ? 0 : -EBADMSG;
}

uint64_t elf_file_bytes(const struct elf_file *elf)
{
    return elf->file_bytes;
}

static bool fits_u64(uint64_t start, uint64_t bytes)
{
    return bytes <= UINT64_MAX - start;
}

static size_t section_bytes(const struct elf_file *elf)
{
    return elf->narrow ? sizeof(Elf32_Shdr) : sizeof(Elf64_Shdr);
}

static int read_section(struct elf_file *elf, uint32_t index, Elf64_Shdr *ret_header)
{
    uint64_t at = elf->section_offset + (uint64_t)index * section_bytes(elf);
    if (!elf->narrow)
        return elf_file_read(elf, at, ret_header, sizeof(*ret_header));
    Elf32_Shdr narrow;
    int rc = elf_file_read(elf, at, &narrow, sizeof(narrow));
    if (rc == 0)
        *ret_header = (Elf64_Shdr){
            .sh_name = narrow.sh_name,
            .sh_type = narrow.sh_type,
            .sh_flags = narrow.sh_flags,
            .sh_addr = narrow.sh_addr,
            .sh_offset = narrow.sh_offset,
            .sh_size = narrow.sh_size,
            .sh_link = narrow.sh_link,
            .sh_info = narrow.sh_info,
            .sh_addralign = narrow.sh_addralign,
            .sh_entsize = narrow.sh_entsize,
        };
    return rc;
}

static size_t segment_bytes(const struct elf_file *elf)
{
    return elf->narrow ? sizeof(Elf32_Phdr) : sizeof(Elf64_Phdr);
}

static int read_segment(struct elf_file *elf, uint64_t at, Elf64_Phdr *ret_header)
{
    if (!elf->narrow)
        return elf_file_read(elf, at, ret_header, sizeof(*ret_header));
    Elf32_Phdr narrow;
    int rc = elf_file_read(elf, at, &narrow, sizeof(narrow));
    if (rc == 0)
        *ret_header = (Elf64_Phdr){
            .p_type = narrow.p_type,
            .p_flags = narrow.p_flags,
            .p_offset = narrow.p_offset,
            .p_vaddr = narrow.p_vaddr,
            .p_paddr = narrow.p_paddr,
            .p_filesz = narrow.p_filesz,
            .p_memsz = narrow.p_memsz,
            .p_align = narrow.p_align,
        };
    return rc;
}

size_t elf_file_symbol_bytes(const struct elf_file *elf)
{
    return elf->narrow ? sizeof(Elf32_Sym) : sizeof(Elf64_Sym);
}

int elf_file_symbol(struct elf_file *elf, uint64_t offset, Elf64_Sym *ret_symbol)
{
    if (!elf->narrow)
        return elf_file_read(elf, offset, ret_symbol, sizeof(*ret_symbol));
    Elf32_Sym narrow;
    int rc = elf_file_read(elf, offset, &narrow, sizeof(narrow));
    if (rc == 0)
        *ret_symbol = (Elf64_Sym){
            .st_name = narrow.st_name,
            .st_info = narrow.st_info,
            .st_other = narrow.st_other,
            .st_shndx = narrow.st_shndx,
            .st_value = narrow.st_value,
            .st_size = narrow.st_size,
        };
    return rc;
}

static struct elf_section section_of(const Elf64_Shdr *header)
{
    return (struct elf_section){
        .type = header->sh_type,
        .link = header->sh_link,
        .flags = header->sh_flags,
        .address = header->sh_addr,
        .offset = header->sh_offset,
        .bytes = header->sh_size,
        .entry_bytes = header->sh_entsize,
    };
}

/* A section table that makes no sense leaves a file without sections: program headers are what the kernel
 * goes by. */
static int open_sections(struct elf_file *elf, const Elf64_Ehdr *header, struct err *err)
{
    if (header->e_shoff == 0 || header->e_shentsize != section_bytes(elf) ||
        header->e_shoff >= elf->file_bytes)
        return 0;
    elf->section_offset = header->e_shoff;
    Elf64_Shdr first;
    if (read_section(elf, 0, &first) < 0)
        return 0;
    /* gABI: numbers that do not fit the header's 16 bits are in section 0. */
    uint64_t count = header->e_shnum ? header->e_shnum : first.sh_size;
    uint32_t names = header->e_shstrndx == SHN_XINDEX ? first.sh_link : header->e_shstrndx;
    if (count > ELF_MAX_SECTIONS)
        return err_say(err, -E2BIG, "%llu sections", (unsigned long long)count);
    uint64_t room = (elf->file_bytes - elf->section_offset) / section_bytes(elf);
    elf->section_count = (uint32_t)(count < room ? count : room);
    Elf64_Shdr strings;
    if (names != SHN_UNDEF && names < elf->section_count && read_section(elf, names, &strings) == 0)
        elf->section_names = section_of(&strings);
    return 0;
}

static int open_segments(struct elf_file *elf, const Elf64_Ehdr *header, struct err *err)
{
    if (header->e_phnum == 0)
        return 0;
    if (header->e_phnum > ELF_MAX_SEGMENTS)
        return err_say(err, -E2BIG, "%u program headers", (unsigned)header->e_phnum);
    if (header->e_phentsize != segment_bytes(elf))
        return err_say(err, -EBADMSG, "program headers of %u bytes", (unsigned)header->e_phentsize);
    for (uint32_t i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        uint64_t at = header->e_phoff + (uint64_t)i * segment_bytes(elf);
        if (!fits_u64(header->e_phoff, (uint64_t)i * segment_bytes(elf)) ||
            read_segment(elf, at, &segment) < 0)
            return err_say(err, -EBADMSG, "program header %u is outside the file", i);
        if (!fits_u64(segment.p_offset, segment.p_filesz) || !fits_u64(segment.p_vaddr, segment.p_memsz) ||
            !fits_u64(segment.p_vaddr, segment.p_filesz))
            continue;
        elf->headers[elf->header_count++] = segment;
        if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X))
            elf->segments[elf->segment_count++] = segment;
    }
    return 0;
}

static int widen_header(struct elf_file *elf, Elf64_Ehdr *ret_header)
{
    Elf32_Ehdr narrow;
    int rc = elf_file_read(elf, 0, &narrow, sizeof(narrow));
    if (rc < 0)
        return rc;
    elf->narrow = true;
    ret_header->e_phoff = narrow.e_phoff;
    ret_header->e_phnum = narrow.e_phnum;
    ret_header->e_phentsize = narrow.e_phentsize;
    ret_header->e_shoff = narrow.e_shoff;
    ret_header->e_shnum = narrow.e_shnum;
    ret_header->e_shentsize = narrow.e_shentsize;
    ret_header->e_shstrndx = narrow.e_shstrndx;
    return 0;
}

static int open_header(struct elf_file *elf, Elf64_Ehdr *ret_header, struct err *err)
{
    struct stat stat;
    if (fstat(elf->fd, &stat) == -1)
        return err_set(err, -errno, "stat");
    if (!S_ISREG(stat.st_mode))
        return err_say(err, -ENOEXEC, "not a regular file");
    elf->file_bytes = (uint64_t)stat.st_size;
    *ret_header = (Elf64_Ehdr){0};
    unsigned char *ident = ret_header->e_ident;
    if (elf_file_read(elf, 0, ident, EI_NIDENT) < 0)
        return err_say(err, -ENOEXEC, "too short for an ELF file");
    if (memcmp(ident, ELFMAG, SELFMAG) != 0)
        return err_say(err, -ENOEXEC, "not an ELF file");
    if ((ident[EI_CLASS] != ELFCLASS64 && ident[EI_CLASS] != ELFCLASS32) || ident[EI_DATA] != ELFDATA2LSB)
        return err_say(err, -ENOEXEC, "not a little-endian ELF file");
    int rc = ident[EI_CLASS] == ELFCLASS32 ? widen_header(elf, ret_header)
                                           : elf_file_read(elf, 0, ret_header, sizeof(*ret_header));
    return rc < 0 ? err_say(err, -ENOEXEC, "too short for an ELF file") : 0;
}

int elf_file_open(int fd, struct elf_file **ret_elf, struct err *err)
{
    struct elf_file *elf = xmalloc(sizeof(*elf)); /* not zeroed: the blocks are touched only when used */
    memset(elf, 0, offsetof(struct elf_file, blocks));
    for (size_t i = 0; i < BLOCKS; i++)
        elf->block_number[i] = BLOCK_UNUSED;
    elf->fd = fd;
    Elf64_Ehdr header;
    int rc = open_header(elf, &header, err);
    if (rc == 0)
        rc = open_segments(elf, &header, err);
    if (rc == 0)
        rc = open_sections(elf, &header, err);
    if (rc < 0) {
        elf_file_close(elf);
        return rc;
    }
    *ret_elf = elf;
    return 0;
}

void elf_file_close(struct elf_file *elf)
{
    free(elf);
}

/* ---- notes ---- */

struct note_wanted {
    const char *owner; /* 4 bytes with its NUL padding */
    uint32_t type;
};

struct note_block {
    uint64_t offset, bytes, align;
};

static const struct note_wanted GNU_BUILD_ID = {"GNU", NT_GNU_BUILD_ID};
static const struct note_wanted GO_BUILD_ID = {"Go\0", 4}; /* cmd/internal/buildid: ELF_NOTE_GOBUILDID_TAG */

static uint64_t note_pad(uint64_t bytes, uint64_t align)
{
    return (bytes + align - 1) / align * align;
}

/* One block of notes, at most *budget_bytes of it, which shrinks by what was read: many headers may show the
 * same bytes. Returns the wanted one's length (cut to out_bytes), 0 for none. */
static size_t find_note(struct elf_file *elf, const struct note_block *block, uint64_t *budget_bytes,
                        const struct note_wanted *wanted, void *out, size_t out_bytes)
{
    uint64_t align = block->align == 8 ? 8 : 4, offset = block->offset, at = 0;
    uint64_t bytes = block->bytes < *budget_bytes ? block->bytes : *budget_bytes;
    *budget_bytes -= bytes;
    while (bytes - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        if (elf_file_read(elf, offset + at, &note, sizeof(note)) < 0)
            return 0;
        uint64_t name_at = at + sizeof(note);
        uint64_t body_at = note_pad(name_at + note.n_namesz, align);
        if (body_at > bytes || note.n_descsz > bytes - body_at)
            return 0;
        char owner[4];
        if (note.n_type == wanted->type &&
            (note.n_namesz == 4 || note.n_namesz == strlen(wanted->owner) + 1) &&
            elf_file_read(elf, offset + name_at, owner, sizeof(owner)) == 0 &&
            memcmp(owner, wanted->owner, strlen(wanted->owner) + 1) == 0) {
            size_t length = note.n_descsz < out_bytes ? note.n_descsz : out_bytes;
            return elf_file_read(elf, offset + body_at, out, length) == 0 ? length : 0;
        }
        at = note_pad(body_at + note.n_descsz, align);
        if (at > bytes)
            return 0;
    }
    return 0;
}

static size_t note_of(struct elf_file *elf, const struct note_wanted *wanted, void *out, size_t out_bytes)
{
    uint64_t budget_bytes = ELF_NOTE_BYTES;
    for (size_t i = 0; i < elf->header_count; i++) {
        const Elf64_Phdr *header = &elf->headers[i];
        if (header->p_type != PT_NOTE)
            continue;
        struct note_block block = {header->p_offset, header->p_filesz, header->p_align};
        size_t found = find_note(elf, &block, &budget_bytes, wanted, out, out_bytes);
        if (found)
            return found;
    }
    for (uint32_t i = 1; i < elf->section_count; i++) {
        Elf64_Shdr header;
        if (read_section(elf, i, &header) < 0 || header.sh_type != SHT_NOTE ||
            !fits_u64(header.sh_offset, header.sh_size))
            continue;
        struct note_block block = {header.sh_offset, header.sh_size, header.sh_addralign};
        size_t found = find_note(elf, &block, &budget_bytes, wanted, out, out_bytes);
        if (found)
            return found;
    }
    return 0;
}

size_t elf_file_build_id(struct elf_file *elf, uint8_t *out, size_t out_bytes)
{
    return note_of(elf, &GNU_BUILD_ID, out, out_bytes);
}

size_t elf_file_go_build_id(struct elf_file *elf, char *out, size_t out_bytes)
{
    return note_of(elf, &GO_BUILD_ID, out, out_bytes);
}

/* ---- addresses ---- */

static bool in_addresses(const Elf64_Phdr *segment, uint64_t address)
{
    return address >= segment->p_vaddr && address - segment->p_vaddr < segment->p_filesz;
}

static bool in_offsets(const Elf64_Phdr *segment, uint64_t offset)
{
    return offset >= segment->p_offset && offset - segment->p_offset < segment->p_filesz;
}

int elf_file_offset_of(const struct elf_file *elf, uint64_t address, uint64_t *ret_offset)
{
    for (size_t i = 0; i < elf->header_count; i++) {
        const Elf64_Phdr *segment = &elf->headers[i];
        if (segment->p_type != PT_LOAD || !in_addresses(segment, address))
            continue;
        *ret_offset = address - segment->p_vaddr + segment->p_offset;
        return 0;
    }
    return -ENOENT;
}

int elf_file_address_of(const struct elf_file *elf, uint64_t offset, uint64_t *ret_address)
{
    /* Two segments may show the same part of the file; code is what is asked for. */
    for (int executable = 1; executable >= 0; executable--) {
        for (size_t i = 0; i < elf->header_count; i++) {
            const Elf64_Phdr *segment = &elf->headers[i];
            if (segment->p_type != PT_LOAD || !!(segment->p_flags & PF_X) != executable ||
                !in_offsets(segment, offset))
                continue;
            *ret_address = offset - segment->p_offset + segment->p_vaddr;
            return 0;
        }
    }
    return -ENOENT;
}

size_t elf_file_segments(const struct elf_file *elf, const Elf64_Phdr **ret_segments)
{
    *ret_segments = elf->segments;
    return elf->segment_count;
}

size_t elf_file_headers(const struct elf_file *elf, const Elf64_Phdr **ret_headers)
{
    *ret_headers = elf->headers;
    return elf->header_count;
}

/* ---- sections ---- */

int elf_file_section_at(struct elf_file *elf, uint32_t index, struct elf_section *ret_section)
{
    if (index >= elf->section_count)
        return -ENOENT;
    Elf64_Shdr header;
    int rc = read_section(elf, index, &header);
    if (rc < 0)
        return rc;
    *ret_section = section_of(&header);
    return 0;
}

uint32_t elf_file_sections(const struct elf_file *elf)
{
    return elf->section_count;
}

static bool is_named(struct elf_file *elf, uint32_t name_at, const char *name, size_t name_bytes)
{
    char text[64];
    const struct elf_section *names = &elf->section_names;
    if (name_bytes > sizeof(text) || name_at >= names->bytes || name_bytes > names->bytes - name_at ||
        !fits_u64(names->offset, names->bytes))
        return false;
    return elf_file_read(elf, names->offset + name_at, text, name_bytes) == 0 &&
           memcmp(text, name, name_bytes) == 0;
}

int elf_file_section(struct elf_file *elf, const char *name, struct elf_section *ret_section)
{
    size_t name_bytes = strlen(name) + 1; /* with its NUL: the whole name, not a prefix */
    for (uint32_t i = 1; i < elf->section_count; i++) {
        Elf64_Shdr header;
        if (read_section(elf, i, &header) < 0)
            return -EBADMSG;
        if (!is_named(elf, header.sh_name, name, name_bytes))
            continue;
        *ret_section = section_of(&header);
        return 0;
    }
    return -ENOENT;
}
