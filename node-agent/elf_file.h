/* elf_file: the parts of an ELF file the agent needs, read by pread in small blocks, every count and offset
 * checked. Own reader because files come from containers (hostile) and tables can be hundreds of MB: it
 * never maps or loads a whole section, so memory stays flat and a file truncated meanwhile costs only its
 * names.
 * Shapes:    little-endian ELF, 64-bit, or 32-bit widened to that; three address spaces: file offset, ELF address (p_vaddr), process
 *            address. A section table that makes no sense counts as none: the program headers are what the
 *            kernel goes by.
 * Limits:    ELF_MAX_SEGMENTS, ELF_MAX_SECTIONS, ELF_NOTE_BYTES.
 * Threads:   one per object.
 * Errors:    -ENOEXEC not such an ELF; -EBADMSG inconsistent; -E2BIG over a limit.
 * Source:    System V gABI chapters 4-5; elf(5). */
#ifndef NODE_AGENT_ELF_FILE_H
#define NODE_AGENT_ELF_FILE_H

#include "common/err.h"

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_MAX_SEGMENTS 128u
#define ELF_MAX_SECTIONS 65536u
#define ELF_NOTE_BYTES   (1u << 20) /* of all notes of a file */

struct elf_file;
int elf_file_open(int fd, struct elf_file **ret_elf, struct err *err); /* fd stays the caller's and open */
void elf_file_close(struct elf_file *elf);

/* GNU build id from the program headers' notes, else the sections'. Returns its length (a longer one is cut
 * to out_bytes), 0 for none. */
size_t elf_file_build_id(struct elf_file *elf, uint8_t *out, size_t out_bytes);
/* Go's own build id text (.note.go.buildid). Returns its length, 0 for none. */
size_t elf_file_go_build_id(struct elf_file *elf, char *out, size_t out_bytes);

/* ELF address -> file offset through the PT_LOAD that covers it. -ENOENT when none does. */
int elf_file_offset_of(const struct elf_file *elf, uint64_t address, uint64_t *ret_offset);
int elf_file_address_of(const struct elf_file *elf, uint64_t offset, uint64_t *ret_address);

struct elf_section {
    uint32_t type, link;
    uint64_t flags, address, offset, bytes, entry_bytes;
};
/* By name, -ENOENT when there is none. */
int elf_file_section(struct elf_file *elf, const char *name, struct elf_section *ret_section);
int elf_file_section_at(struct elf_file *elf, uint32_t index, struct elf_section *ret_section);
/* One record of a symbol table at a file offset, and how far apart they are. */
int elf_file_symbol(struct elf_file *elf, uint64_t offset, Elf64_Sym *ret_symbol);
size_t elf_file_symbol_bytes(const struct elf_file *elf);
uint32_t elf_file_sections(const struct elf_file *elf); /* how many, number 0 included */
uint64_t elf_file_bytes(const struct elf_file *elf);
/* Exactly bytes from offset of the file; -EBADMSG when they are not there. */
int elf_file_read(struct elf_file *elf, uint64_t offset, void *out, size_t bytes);
/* As many of the bytes as the file has; returns how many. */
size_t elf_file_read_some(struct elf_file *elf, uint64_t offset, void *out, size_t bytes);
/* Executable PT_LOADs, for range checks. */
size_t elf_file_segments(const struct elf_file *elf, const Elf64_Phdr **ret_segments);
/* All program headers whose ranges do not wrap around. */
size_t elf_file_headers(const struct elf_file *elf, const Elf64_Phdr **ret_headers);

#endif
