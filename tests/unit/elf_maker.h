/* elf_maker: small ELF files made by hand for tests, so that every offset and address in an assertion is
 * known. The file: header at 0, program headers at 64, whatever the test puts in, section headers last.
 * Threads: one.  Used by tests of elf_file, symbols, go_pclntab and pack. */
#ifndef TESTS_UNIT_ELF_MAKER_H
#define TESTS_UNIT_ELF_MAKER_H

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ELF_MAKER_ROOM     (256u << 10)
#define ELF_MAKER_SECTIONS 16u

struct elf_maker {
    uint8_t *file;
    size_t bytes; /* used so far */
    Elf64_Phdr segments[8];
    size_t segment_count;
    Elf64_Shdr sections[ELF_MAKER_SECTIONS];
    size_t section_count;
    char names[1024];
    size_t names_bytes;
};

static inline struct elf_maker elf_maker_new(void)
{
    struct elf_maker maker = {.file = calloc(1, ELF_MAKER_ROOM), .section_count = 1, .names_bytes = 1};
    maker.bytes = sizeof(Elf64_Ehdr) + sizeof(maker.segments);
    return maker;
}

static inline void elf_maker_put(struct elf_maker *maker, uint64_t offset, const void *data, size_t bytes)
{
    if (offset + bytes > ELF_MAKER_ROOM)
        abort();
    memcpy(maker->file + offset, data, bytes);
    if (maker->bytes < offset + bytes)
        maker->bytes = offset + bytes;
}

static inline void elf_maker_segment(struct elf_maker *maker, uint32_t type, uint32_t flags, uint64_t offset,
                                     uint64_t address, uint64_t bytes)
{
    maker->segments[maker->segment_count++] = (Elf64_Phdr){
        .p_type = type,
        .p_flags = flags,
        .p_offset = offset,
        .p_vaddr = address,
        .p_filesz = bytes,
        .p_memsz = bytes,
        .p_align = type == PT_NOTE ? 4 : 4096,
    };
}

/* Returns the section's number. */
static inline uint32_t elf_maker_section(struct elf_maker *maker, const char *name, uint32_t type,
                                         uint64_t flags, uint64_t address, uint64_t offset, uint64_t bytes,
                                         uint32_t link)
{
    Elf64_Shdr *section = &maker->sections[maker->section_count];
    *section = (Elf64_Shdr){
        .sh_name = (uint32_t)maker->names_bytes,
        .sh_type = type,
        .sh_flags = flags,
        .sh_addr = address,
        .sh_offset = offset,
        .sh_size = bytes,
        .sh_link = link,
        .sh_addralign = 4,
        .sh_entsize = type == SHT_SYMTAB || type == SHT_DYNSYM ? sizeof(Elf64_Sym) : 0,
    };
    size_t length = strlen(name) + 1;
    memcpy(maker->names + maker->names_bytes, name, length);
    maker->names_bytes += length;
    return (uint32_t)maker->section_count++;
}

/* Writes header and tables; the file's bytes are then complete. */
static inline void elf_maker_finish(struct elf_maker *maker)
{
    uint64_t names_at = maker->bytes;
    uint32_t names = elf_maker_section(maker, ".shstrtab", SHT_STRTAB, 0, 0, names_at, 0, 0);
    maker->sections[names].sh_size = maker->names_bytes;
    elf_maker_put(maker, names_at, maker->names, maker->names_bytes);
    uint64_t table_at = (maker->bytes + 7) / 8 * 8;
    elf_maker_put(maker, table_at, maker->sections, maker->section_count * sizeof(Elf64_Shdr));
    Elf64_Ehdr header = {
        .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_DYN,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_phoff = sizeof(Elf64_Ehdr),
        .e_shoff = table_at,
        .e_ehsize = sizeof(Elf64_Ehdr),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = (uint16_t)maker->segment_count,
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = (uint16_t)maker->section_count,
        .e_shstrndx = (uint16_t)names,
    };
    memcpy(maker->file, &header, sizeof(header));
    memcpy(maker->file + sizeof(header), maker->segments, maker->segment_count * sizeof(Elf64_Phdr));
}

static inline int elf_maker_memfd(const void *data, size_t bytes)
{
    int fd = memfd_create("elf_maker", MFD_CLOEXEC);
    if (fd < 0 || (bytes && pwrite(fd, data, bytes, 0) != (ssize_t)bytes))
        abort();
    return fd;
}

/* Finishes, gives the file as a descriptor (caller closes) and frees the maker. */
static inline int elf_maker_fd(struct elf_maker *maker)
{
    elf_maker_finish(maker);
    int fd = elf_maker_memfd(maker->file, maker->bytes);
    free(maker->file);
    maker->file = NULL;
    return fd;
}

#endif
