/* elf_file, symbols, fde_table and go_pclntab over a file of any bytes.
 * Seeds, tests/fuzz/corpus/elf: small and shared_stripped are two functions built by gcc -nostdlib
 * -Wl,-z,noseparate-code
 * (-static; -shared -s), go is the file that tests/unit/test_go_pclntab.c makes. */
#include "node-agent/symbols.c"

#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static int on_function(uint64_t start, uint64_t end, uint64_t name_offset, void *ctx)
{
    (void)name_offset;
    if (end <= start)
        __builtin_trap();
    return ++*(unsigned *)ctx > 100000 ? -E2BIG : 0;
}

static void walk(struct elf_file *elf)
{
    uint8_t id[32];
    char text[128];
    unsigned count = 0;
    uint64_t offset, address;
    elf_file_build_id(elf, id, sizeof(id));
    elf_file_go_build_id(elf, text, sizeof(text));
    go_pclntab_each(elf, on_function, &count, NULL);
    const Elf64_Phdr *segments;
    for (size_t i = elf_file_segments(elf, &segments); i-- > 0;) {
        if (elf_file_offset_of(elf, segments[i].p_vaddr, &offset) == 0)
            elf_file_address_of(elf, offset, &address);
    }
}

static void check(struct symbols *symbols)
{
    char name[SYMBOLS_NAME_BYTES];
    uint64_t names_bytes = 0;
    for (size_t i = 0; i < symbols->count; i++) {
        const struct symbol *symbol = &symbols->items[i];
        const struct symbol *next = symbol + 1;
        if (i + 1 < symbols->count &&
            (next->start <= symbol->start || next->start - symbol->start < symbol->bytes))
            __builtin_trap(); /* sorted, not overlapping */
        if (symbols_name(symbols, symbol, name) != symbol->name_bytes)
            __builtin_trap();
        names_bytes += symbol->name_bytes;
    }
    if (names_bytes != symbols->names_bytes)
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("fuzz_elf", MFD_CLOEXEC);
    if (ftruncate(fd, 0) == -1 || pwrite(fd, data, bytes, 0) != (ssize_t)bytes)
        return 0;
    struct elf_file *elf;
    struct err err;
    if (elf_file_open(fd, &elf, &err) == 0) {
        walk(elf);
        elf_file_close(elf);
    }
    /* A small limit now and then: the way a file with too many functions takes. */
    struct symbols symbols;
    if (build_limited(fd, 2000, bytes % 2 ? 16 : SYMBOLS_MAX, &symbols, &err) == 0) {
        check(&symbols);
        symbols_fini(&symbols);
    }
    return 0;
}
