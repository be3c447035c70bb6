/* symbols: an executable's function table, by file offset, for a symbol pack.
 * Shapes:    functions sorted by start, not overlapping; names raw (mangled), left in the file and read one
 *            by one, so that memory does not grow with them. Sources joined: .symtab, .dynsym, .gopclntab
 *            (Go, stripped too); where none covers an address, function starts from .eh_frame_hdr give
 *            nameless ranges, so that samples in unnamed code are grouped by function (shown as
 *            module+0xstart).
 * Rules:     at one address: Go's own name over ELF symbols (with the ELF symbol's size), sized over
 *            sizeless, global over weak over local, shorter name last resort; $x/$d mapping symbols, .L
 *            labels, STT_SECTION/FILE/TLS/OBJECT skipped; STT_NOTYPE only exact; a symbol covers its own
 *            size only; a sizeless one only its exact address, unless an FDE starts there (it covers what
 *            the FDE does) or it is a label in a file whose symbols have no sizes at all, hand-written
 *            assembly (up to the next symbol within the section). Of ranges that lie in each other the
 *            inner one has its bytes, the outer one is cut in pieces around it.
 * Limits:    SYMBOLS_MAX functions (over it the smallest ranges go, counted); names cut at
 *            SYMBOLS_NAME_BYTES; a time budget per file. Memory 24 bytes a function, 128 KiB of file
 *            blocks.
 * Threads:   one per object; any thread.
 * Errors:    -ENOEXEC, -EBADMSG, -ENODATA (no functions), -ETIME. */
#ifndef NODE_AGENT_SYMBOLS_H
#define NODE_AGENT_SYMBOLS_H

#include "node-agent/elf_file.h"

#include <stddef.h>
#include <stdint.h>

#define SYMBOLS_MAX        1000000u
#define SYMBOLS_NAME_BYTES 4096u

struct symbol {
    uint64_t start;      /* file offset */
    uint64_t name_at;    /* file offset */
    uint32_t bytes;      /* 0: exact address only */
    uint16_t name_bytes; /* 0: nameless function */
    uint16_t rank;       /* which source, best first; only of use while building */
};

struct symbols {
    struct symbol *items;
    size_t count;
    uint64_t names_bytes; /* of all names together */
    uint64_t dropped_count;
    struct elf_file *elf;
};

/* fd stays the caller's, open until symbols_fini. */
int symbols_build(int fd, uint64_t budget_ms, struct symbols *ret_symbols, struct err *err);
void symbols_fini(struct symbols *symbols);
/* Reads a name into out, not terminated; fewer bytes than name_bytes when the file has changed since. */
size_t symbols_name(struct symbols *symbols, const struct symbol *symbol, char out[SYMBOLS_NAME_BYTES]);
/* For tests and the agent's own use: the symbol covering a file offset, NULL for none. */
const struct symbol *symbols_find(const struct symbols *symbols, uint64_t file_offset);

#endif
