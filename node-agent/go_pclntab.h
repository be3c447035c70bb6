/* go_pclntab: function names of a Go binary from its runtime table, which stays when symbols are stripped.
 * Shapes:   magics 0xfffffffb (1.2), 0xfffffffa (1.16), 0xfffffff0 (1.18), 0xfffffff1 (1.20+); both byte orders refused
 *           but little; pointer size 8.  Section .gopclntab, or found by scanning read-only data for the header (PIE
 *           and externally linked builds keep it in .data.rel.ro.gopclntab).
 * Limits:   GO_MAX_FUNCTIONS.   Errors: -ENOENT not Go; -EBADMSG corrupt.   Threads: any.
 * Source:   Go source src/runtime/symtab.go (pcHeader, functab), src/debug/gosym/pclntab.go; versions 1.2-1.26. */
#ifndef NODE_AGENT_GO_PCLNTAB_H
#define NODE_AGENT_GO_PCLNTAB_H

#include "node-agent/elf_file.h"

#define GO_MAX_FUNCTIONS 1000000u

/* One function: ELF addresses [start, end). */
typedef int (*go_function_fn)(uint64_t start, uint64_t end, const char *name, size_t name_bytes, void *ctx);
int go_pclntab_each(struct elf_file *elf, go_function_fn on_function, void *ctx, struct err *err);

#endif
