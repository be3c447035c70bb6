/* symbols: an executable's function table, by file offset, for a symbol pack.
 * Shapes:   functions sorted by start, not overlapping; names raw (mangled). Sources joined: .symtab, .dynsym,
 *           .gopclntab (Go, stripped too); where none covers an address, function starts from .eh_frame_hdr give
 *           nameless ranges, so that samples in unnamed code are grouped by function (shown as module+0xstart).
 * Rules:    at one address: sized over sizeless, global over weak over local, shorter name last resort; $x/$d mapping
 *           symbols, .L labels, STT_SECTION/FILE/TLS/OBJECT skipped; STT_NOTYPE only exact; a symbol covers its own
 *           size only; a sizeless one only its exact address (unless it is a function label in a file whose symbols
 *           have no sizes at all, hand-written assembly: up to the next symbol within the section).
 * Limits:   SYMBOLS_MAX functions (over it the smallest ranges go, counted); names cut at SYMBOLS_NAME_BYTES; a time
 *           budget per file. Memory about 24 bytes a function + its name while building.
 * Threads:  one per object; any thread.   Errors: -ENOEXEC, -EBADMSG, -ENODATA (no functions), -ETIME. */
#ifndef NODE_AGENT_SYMBOLS_H
#define NODE_AGENT_SYMBOLS_H

#include "common/err.h"

#include <stddef.h>
#include <stdint.h>

#define SYMBOLS_MAX        1000000u
#define SYMBOLS_NAME_BYTES 4096u

struct symbol {
    uint64_t start; /* file offset */
    uint64_t bytes; /* 0: exact address only */
    uint32_t name_at;    /* into names[] */
    uint32_t name_bytes; /* 0: nameless function */
};

struct symbols {
    struct symbol *items;
    size_t count;
    char *names;
    size_t names_bytes;
    uint64_t dropped_count;
};

int symbols_build(int fd, uint64_t budget_ms, struct symbols *ret_symbols, struct err *err);
void symbols_fini(struct symbols *symbols);
/* For tests and the agent's own use: the symbol covering a file offset, NULL for none. */
const struct symbol *symbols_find(const struct symbols *symbols, uint64_t file_offset);

#endif
