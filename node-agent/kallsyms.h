/* kallsyms: kernel addresses -> (function, module).
 * Shapes:    module "[kernel]", "[name]" for modules, "[bpf]" for BPF programs. Absolute addresses stay
 *            inside.
 * Rules:     sorted here; null and non-text entries skipped; at one address global over weak over local,
 *            then fewer leading underscores, then the first in the file; a function reaches to the next
 *            one, at most KALLSYMS_FUNCTION_BYTES, so that an address in a gap gets no name. Re-read on a
 *            miss at most every KALLSYMS_REREAD_MS, each time in vain twice as long after (up to
 *            KALLSYMS_REREAD_MAX_MS); KSYMBOL events add and remove at once. Hidden addresses
 *            (kptr_restrict, no CAP_SYSLOG) or no table: kallsyms_hidden() is true and every look-up
 *            answers -EACCES: the frame is shown as one marked unknown. The padding before a function
 *            ("__pfx_NAME") counts as the function.
 * Limits:    KALLSYMS_MAX symbols, KALLSYMS_NAME_BYTES names, KALLSYMS_ADDED_MAX from events between two
 *            reads. Memory 12 bytes a symbol + its name.
 * Threads:   collector only.
 * Source:    kernel/kallsyms.c; proc(5). */
#ifndef NODE_AGENT_KALLSYMS_H
#define NODE_AGENT_KALLSYMS_H

#include "common/err.h"

#include <stdbool.h>
#include <stdint.h>

#define KALLSYMS_MAX            1000000u
#define KALLSYMS_NAME_BYTES     512u
#define KALLSYMS_REREAD_MS      10000u
#define KALLSYMS_REREAD_MAX_MS  640000u
#define KALLSYMS_FUNCTION_BYTES (256u << 10)
#define KALLSYMS_ADDED_MAX      8192u
#define KALLSYMS_MODULES_MAX    4096u

struct kallsyms;
/* path: "/proc/kallsyms", or a file of the same form in tests. Nothing is read before the first find. */
struct kallsyms *kallsyms_new(const char *path);
void kallsyms_free(struct kallsyms *kallsyms);
/* Borrowed strings, valid until the next call; a name may hold any byte but NUL. -ENOENT not in any symbol;
 * -EACCES hidden. */
int kallsyms_find(struct kallsyms *kallsyms, uint64_t address, const char **ret_function,
                  const char **ret_module);
/* A KSYMBOL event: names that begin with "bpf_" are of module "[bpf]", others (trampolines) of "[kernel]". */
void kallsyms_add(struct kallsyms *kallsyms, uint64_t address, uint32_t bytes, const char *symbol);
void kallsyms_remove(struct kallsyms *kallsyms, uint64_t address);
/* As the last read found it; false before the first. */
bool kallsyms_hidden(const struct kallsyms *kallsyms);

#endif
