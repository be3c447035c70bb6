/* go_pclntab: functions of a Go binary from its runtime table, which stays when symbols are stripped.
 * Shapes:   magics 0xfffffffb (1.2), 0xfffffffa (1.16), 0xfffffff0 (1.18), 0xfffffff1 (1.20+); little endian,
 * pointer size 8. Section .gopclntab, else found by scanning read-only data for the header (externally linked
 * PIE builds before 1.26 keep it inside .data.rel.ro). From 1.18 on entries count from runtime.text, which is
 * not .text's start where C code was linked in: it is read from the module data, through relocations in PIE.
 * Limits:   GO_MAX_FUNCTIONS, GO_SCAN_BYTES.   Errors: -ENOENT not Go; -EBADMSG corrupt.   Threads: any.
 * Source:   Go source src/runtime/symtab.go (pcHeader, functab, moduledata),
 * src/debug/gosym/pclntab.go; 1.2-1.26. */
#ifndef NODE_AGENT_GO_PCLNTAB_H
#define NODE_AGENT_GO_PCLNTAB_H

#include "node-agent/elf_file.h"

#define GO_MAX_FUNCTIONS 1000000u
#define GO_SCAN_BYTES    (256ull << 20)

/* One function: ELF addresses [start, end); its name is the NUL-terminated text at name_offset of the file.
 * Anything but 0 ends the walk and is returned. */
typedef int (*go_function_fn)(uint64_t start, uint64_t end, uint64_t name_offset, void *ctx);
int go_pclntab_each(struct elf_file *elf, go_function_fn on_function, void *ctx, struct err *err);

#endif
