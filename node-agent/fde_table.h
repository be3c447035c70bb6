/* fde_table: where functions begin and end by .eh_frame_hdr's search table, for code that no symbol names.
 * Shapes:    ELF addresses. Only the form every linker writes is read: version 1, entries of two signed
 *            32-bit numbers relative to the table (DW_EH_PE_datarel | DW_EH_PE_sdata4).
 * Limits:    the table ends with its segment.
 * Threads:   one per object.
 * Errors:    -ENOENT no such table; -EBADMSG inconsistent.
 * Source:    Linux Standard Base Core 5.0, chapter 10.6; DWARF 4 section 6.4.1. */
#ifndef NODE_AGENT_FDE_TABLE_H
#define NODE_AGENT_FDE_TABLE_H

#include "node-agent/elf_file.h"

struct fde_table {
    struct elf_file *elf; /* borrowed */
    uint64_t address;     /* of the header: what entries are relative to */
    uint64_t offset;      /* of the first entry in the file */
    uint64_t count;
    uint64_t cie_offset; /* the CIE read last, 0 for none, and its pointer encoding */
    uint8_t cie_encoding;
};

int fde_table_open(struct elf_file *elf, struct fde_table *ret_table);
/* Entry index: a function's start, and where its FDE is. */
int fde_table_get(const struct fde_table *table, uint64_t index, uint64_t *ret_start,
                  uint64_t *ret_fde_address);
/* The number of bytes that FDE covers. */
int fde_table_length(struct fde_table *table, uint64_t fde_address, uint64_t *ret_bytes);

#endif
