#include "node-agent/symbols.c"

#include "common/cleanup.h"
#include "tests/unit/elf_maker.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define PF_RX        (PF_R | PF_X)
#define TEXT_OFFSET  0x1000u
#define TEXT_ADDRESS 0x5000u /* the lld way: further in memory than in the file */
#define TEXT_BYTES   0x1000u
#define TABLE_OFFSET 0x4000u
#define NAMES_OFFSET 0x8000u
#define FRAME_OFFSET 0xc000u
#define BUDGET_MS    10000u

/* A file under construction: one text segment, a symbol table, .eh_frame_hdr. */
struct file {
    struct elf_maker maker;
    uint64_t symbols_bytes, names_bytes;
    uint32_t frames;
};

static struct file file_new(void)
{
    struct file file = {.maker = elf_maker_new(), .symbols_bytes = sizeof(Elf64_Sym), .names_bytes = 1};
    elf_maker_segment(&file.maker, PT_LOAD, PF_R, 0, 0, TEXT_OFFSET);
    elf_maker_segment(&file.maker, PT_LOAD, PF_RX, TEXT_OFFSET, TEXT_ADDRESS, TEXT_BYTES);
    elf_maker_put(&file.maker, FRAME_OFFSET, "", 1);
    return file;
}

static void add_symbol(struct file *file, const char *name, unsigned binding, unsigned type, uint64_t at,
                       uint64_t bytes)
{
    Elf64_Sym symbol = {
        .st_name = (uint32_t)file->names_bytes,
        .st_info = (unsigned char)ELF64_ST_INFO(binding, type),
        .st_shndx = 1,
        .st_value = TEXT_ADDRESS + at,
        .st_size = bytes,
    };
    elf_maker_put(&file->maker, TABLE_OFFSET + file->symbols_bytes, &symbol, sizeof(symbol));
    elf_maker_put(&file->maker, NAMES_OFFSET + file->names_bytes, name, strlen(name) + 1);
    file->symbols_bytes += sizeof(symbol);
    file->names_bytes += strlen(name) + 1;
}

/* One FDE over [at, at + bytes); the CIE stands at the beginning of .eh_frame, which is read at its own
 * address. */
static void add_fde(struct file *file, uint64_t at, uint32_t bytes)
{
    static const uint8_t CIE[] = {20, 0,    0,  0, 0,    0, 0, 0, 1, 'z', 'R', 0,
                                  1,  0x78, 16, 1, 0x1b, 0, 0, 0, 0, 0,   0,   0};
    const uint64_t frames_at = FRAME_OFFSET + 0x800;
    elf_maker_put(&file->maker, frames_at, CIE, sizeof(CIE));
    uint64_t fde_at = frames_at + sizeof(CIE) + file->frames * 20ull;
    uint32_t fde[5] = {16, (uint32_t)(fde_at + 4 - frames_at), 0, bytes, 0};
    elf_maker_put(&file->maker, fde_at, fde, sizeof(fde));
    int32_t pair[2] = {(int32_t)(TEXT_ADDRESS + at - FRAME_OFFSET), (int32_t)(fde_at - FRAME_OFFSET)};
    elf_maker_put(&file->maker, FRAME_OFFSET + 12 + file->frames * 8ull, pair, sizeof(pair));
    file->frames++;
}

static int build_file(struct file *file, size_t limit, struct symbols *ret_symbols, int *ret_fd)
{
    elf_maker_section(&file->maker, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT_ADDRESS,
                      TEXT_OFFSET, TEXT_BYTES, 0);
    elf_maker_section(&file->maker, ".strtab", SHT_STRTAB, 0, 0, NAMES_OFFSET, file->names_bytes, 0);
    elf_maker_section(&file->maker, ".symtab", SHT_SYMTAB, 0, 0, TABLE_OFFSET, file->symbols_bytes, 2);
    if (file->frames) {
        uint8_t head[12] = {1, 0x1b, 3, 0x3b};
        memcpy(head + 8, &file->frames, 4);
        elf_maker_put(&file->maker, FRAME_OFFSET, head, sizeof(head));
        elf_maker_segment(&file->maker, PT_LOAD, PF_R, FRAME_OFFSET, FRAME_OFFSET, 0x1000);
        elf_maker_segment(&file->maker, PT_GNU_EH_FRAME, PF_R, FRAME_OFFSET, FRAME_OFFSET, 0x800);
    }
    *ret_fd = elf_maker_fd(&file->maker);
    return build_limited(*ret_fd, BUDGET_MS, limit, ret_symbols, NULL);
}

/* Writes "offset+bytes name" of every function, offsets counted from the text's start. */
static const char *listing(struct file *file, size_t limit)
{
    static char text[4096];
    struct symbols symbols;
    int fd;
    size_t used = 0;
    text[0] = '\0';
    int rc = build_file(file, limit, &symbols, &fd);
    if (rc == 0) {
        for (size_t i = 0; i < symbols.count; i++) {
            char name[SYMBOLS_NAME_BYTES];
            const struct symbol *symbol = &symbols.items[i];
            int name_bytes = (int)(symbol->name_bytes ? symbols_name(&symbols, symbol, name) : 0);
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%x+%x %.*s", i ? ", " : "",
                                     (unsigned)(symbol->start - TEXT_OFFSET), (unsigned)symbol->bytes,
                                     name_bytes, name);
        }
        symbols_fini(&symbols);
    } else {
        snprintf(text, sizeof(text), "error %d", rc);
    }
    close(fd);
    return text;
}

static void lists_functions_by_file_offset_in_order(void **state)
{
    (void)state;
    struct file file = file_new();
    add_symbol(&file, "second", STB_GLOBAL, STT_FUNC, 0x40, 0x20);
    add_symbol(&file, "first", STB_LOCAL, STT_FUNC, 0x10, 0x20);
    add_symbol(&file, "third", STB_WEAK, STT_GNU_IFUNC, 0x60, 8);
    assert_string_equal("10+20 first, 40+20 second, 60+8 third", listing(&file, SYMBOLS_MAX));
}

/* A 32-bit program's file: text at 0x1000, in memory at 0x8049000; sections, symbols and names behind. */
static void reads_32_bit_files_too(void **state)
{
    (void)state;
    struct {
        Elf32_Ehdr header;
        Elf32_Phdr segment;
        Elf32_Shdr sections[4];
        Elf32_Sym symbols[3];
        char names[24];
    } file = {
        .header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT},
                   .e_phoff = sizeof(Elf32_Ehdr),
                   .e_phnum = 1,
                   .e_phentsize = sizeof(Elf32_Phdr),
                   .e_shoff = sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr),
                   .e_shnum = 4,
                   .e_shentsize = sizeof(Elf32_Shdr)},
        .segment = {PT_LOAD, 0x1000, 0x8049000, 0x8049000, 0x1000, 0x1000, PF_RX, 0x1000},
        .sections = {[1] = {.sh_type = SHT_PROGBITS,
                            .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                            .sh_addr = 0x8049000,
                            .sh_offset = 0x1000,
                            .sh_size = 0x1000},
                     [2] = {.sh_type = SHT_STRTAB,
                            .sh_offset = sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr) + 4 * sizeof(Elf32_Shdr) +
                                         3 * sizeof(Elf32_Sym),
                            .sh_size = 24},
                     [3] = {.sh_type = SHT_SYMTAB,
                            .sh_offset = sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr) + 4 * sizeof(Elf32_Shdr),
                            .sh_size = 3 * sizeof(Elf32_Sym),
                            .sh_link = 2,
                            .sh_entsize = sizeof(Elf32_Sym)}},
        .symbols = {[1] = {1, 0x8049010, 0x20, ELF32_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 1},
                    [2] = {8, 0x8049040, 0x10, ELF32_ST_INFO(STB_LOCAL, STT_FUNC), 0, 1}},
        .names = "\0narrow\0second",
    };
    char path[] = "/tmp/fleetprof-elf32-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    assert_int_equal(pwrite(fd, &file, sizeof(file), 0), sizeof(file));
    assert_int_equal(ftruncate(fd, 0x2000), 0);
    struct symbols symbols;
    assert_int_equal(build_limited(fd, BUDGET_MS, SYMBOLS_MAX, &symbols, NULL), 0);
    assert_int_equal(symbols.count, 2);
    char name[SYMBOLS_NAME_BYTES];
    const struct symbol *found = symbols_find(&symbols, 0x102f);
    assert_non_null(found);
    assert_int_equal(symbols_name(&symbols, found, name), 6);
    assert_memory_equal(name, "narrow", 6);
    assert_null(symbols_find(&symbols, 0x1030));
    assert_int_equal(symbols_find(&symbols, 0x104f)->start, 0x1040);
    symbols_fini(&symbols);
    close(fd);
}

static void a_symbol_covers_its_own_bytes_only(void **state)
{
    (void)state;
    struct file file = file_new();
    add_symbol(&file, "only", STB_GLOBAL, STT_FUNC, 0x10, 0x20);
    add_symbol(&file, "label", STB_GLOBAL, STT_NOTYPE, 0x80, 0x40);
    struct symbols symbols;
    int fd;
    assert_int_equal(0, build_file(&file, SYMBOLS_MAX, &symbols, &fd));
    assert_null(symbols_find(&symbols, TEXT_OFFSET + 0x0f));
    assert_non_null(symbols_find(&symbols, TEXT_OFFSET + 0x10));
    assert_non_null(symbols_find(&symbols, TEXT_OFFSET + 0x2f));
    assert_null(symbols_find(&symbols, TEXT_OFFSET + 0x30));
    assert_non_null(symbols_find(&symbols, TEXT_OFFSET + 0x80));
    assert_null(symbols_find(&symbols, TEXT_OFFSET + 0x81));
    assert_int_equal(strlen("only") + strlen("label"), symbols.names_bytes);
    symbols_fini(&symbols);
    close(fd);
}

static void prefers_sized_then_global_then_weak_then_local_then_short(void **state)
{
    (void)state;
    struct file file = file_new();
    add_symbol(&file, "sizeless", STB_GLOBAL, STT_FUNC, 0x10, 0);
    add_symbol(&file, "local", STB_LOCAL, STT_FUNC, 0x10, 0x10);
    add_symbol(&file, "local2", STB_LOCAL, STT_FUNC, 0x20, 0x10);
    add_symbol(&file, "weak2", STB_WEAK, STT_FUNC, 0x20, 0x10);
    add_symbol(&file, "weak3", STB_WEAK, STT_FUNC, 0x30, 0x10);
    add_symbol(&file, "a_global_with_a_long_name", STB_GLOBAL, STT_FUNC, 0x30, 0x10);
    add_symbol(&file, "short@@V1", STB_GLOBAL, STT_FUNC, 0x40, 0x10);
    add_symbol(&file, "short", STB_GLOBAL, STT_FUNC, 0x40, 0x10);
    add_symbol(&file, "shore", STB_GLOBAL, STT_FUNC, 0x40, 0x10);
    assert_string_equal("10+10 local, 20+10 weak2, 30+10 a_global_with_a_long_name, 40+10 shore",
                        listing(&file, SYMBOLS_MAX));
}

static void skips_what_is_no_function(void **state)
{
    (void)state;
    struct file file = file_new();
    add_symbol(&file, "f", STB_GLOBAL, STT_FUNC, 0, 4);
    add_symbol(&file, "object", STB_GLOBAL, STT_OBJECT, 0x10, 4);
    add_symbol(&file, "file.c", STB_LOCAL, STT_FILE, 0x20, 0);
    add_symbol(&file, "tls", STB_GLOBAL, STT_TLS, 0x30, 4);
    add_symbol(&file, "section", STB_LOCAL, STT_SECTION, 0x40, 4);
    add_symbol(&file, "$x", STB_LOCAL, STT_NOTYPE, 0x50, 0);
    add_symbol(&file, "$d.7", STB_LOCAL, STT_NOTYPE, 0x51, 0);
    add_symbol(&file, ".L12", STB_LOCAL, STT_NOTYPE, 0x52, 0);
    add_symbol(&file, "$price", STB_LOCAL, STT_NOTYPE, 0x53, 0);
    add_symbol(&file, "outside", STB_GLOBAL, STT_FUNC, TEXT_BYTES, 4);
    assert_string_equal("0+4 f, 53+0 $price", listing(&file, SYMBOLS_MAX));
}

static void a_range_inside_another_has_its_own_bytes(void **state)
{
    (void)state;
    struct file file = file_new();
    add_symbol(&file, "outer", STB_GLOBAL, STT_FUNC, 0, 0x100);
    add_symbol(&file, "inner", STB_GLOBAL, STT_FUNC, 0x40, 0x20);
    add_symbol(&file, "innermost", STB_GLOBAL, STT_FUNC, 0x48, 0x8);
    add_symbol(&file, "label", STB_LOCAL, STT_NOTYPE, 0x80, 0);
    add_symbol(&file, "across", STB_GLOBAL, STT_FUNC, 0xf0, 0x20);
    assert_string_equal("0+40 outer, 40+8 inner, 48+8 innermost, 50+10 inner, 60+90 outer, f0+20 across",
                        listing(&file, SYMBOLS_MAX));
}

static void a_size_ends_with_the_segment(void **state)
{
    (void)state;
    struct file file = file_new();
    add_symbol(&file, "huge", STB_GLOBAL, STT_FUNC, 0xff0, UINT64_MAX);
    assert_string_equal("ff0+10 huge", listing(&file, SYMBOLS_MAX));
}

static void frames_give_nameless_functions_where_no_symbol_is(void **state)
{
    (void)state;
    struct file file = file_new();
    add_symbol(&file, "named", STB_GLOBAL, STT_FUNC, 0x100, 0x40);
    add_symbol(&file, "sizeless", STB_GLOBAL, STT_FUNC, 0x200, 0);
    add_fde(&file, 0x20, 0x30);
    add_fde(&file, 0xf0, 0x30); /* runs into the named one */
    add_fde(&file, 0x100, 0x40);
    add_fde(&file, 0x110, 0x10);
    add_fde(&file, 0x200, 0x18);
    assert_string_equal("20+30 , f0+10 , 100+40 named, 200+18 sizeless", listing(&file, SYMBOLS_MAX));
}

static void labels_reach_to_the_next_one_when_nothing_has_a_size(void **state)
{
    (void)state;
    struct file file = file_new();
    add_symbol(&file, "_start", STB_GLOBAL, STT_NOTYPE, 0, 0);
    add_symbol(&file, "loop", STB_LOCAL, STT_NOTYPE, 0x10, 0);
    add_symbol(&file, "last", STB_LOCAL, STT_NOTYPE, 0xf00, 0);
    assert_string_equal("0+10 _start, 10+ef0 loop, f00+100 last", listing(&file, SYMBOLS_MAX));
}

static void over_the_limit_the_smallest_ranges_go(void **state)
{
    (void)state;
    struct file file = file_new();
    for (unsigned i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof(name), "f%u", i);
        add_symbol(&file, name, STB_GLOBAL, STT_FUNC, i * 0x40, 1 + i % 4 * 8);
    }
    struct symbols symbols;
    int fd;
    assert_int_equal(0, build_file(&file, 10, &symbols, &fd));
    assert_int_equal(10, symbols.count);
    assert_int_equal(30, symbols.dropped_count);
    for (size_t i = 0; i < symbols.count; i++)
        assert_int_equal(25, symbols.items[i].bytes);
    symbols_fini(&symbols);
    close(fd);
}

static void the_same_function_from_two_tables_does_not_count_twice_against_the_limit(void **state)
{
    (void)state;
    struct file file = file_new();
    for (unsigned i = 0; i < 60; i++) {
        char name[16];
        snprintf(name, sizeof(name), "f%u", i % 20);
        add_symbol(&file, name, STB_GLOBAL, STT_FUNC, i % 20 * 0x40, 8);
    }
    struct symbols symbols;
    int fd;
    assert_int_equal(0, build_file(&file, 30, &symbols, &fd));
    assert_int_equal(20, symbols.count);
    assert_int_equal(0, symbols.dropped_count);
    symbols_fini(&symbols);
    close(fd);
}

static void cuts_names_at_the_limit(void **state)
{
    (void)state;
    struct file file = file_new();
    char *name = malloc(SYMBOLS_NAME_BYTES + 100);
    memset(name, 'n', SYMBOLS_NAME_BYTES + 99);
    name[SYMBOLS_NAME_BYTES + 99] = '\0';
    add_symbol(&file, name, STB_GLOBAL, STT_FUNC, 0, 8);
    free(name);
    struct symbols symbols;
    int fd;
    assert_int_equal(0, build_file(&file, SYMBOLS_MAX, &symbols, &fd));
    assert_int_equal(SYMBOLS_NAME_BYTES, symbols.items[0].name_bytes);
    symbols_fini(&symbols);
    close(fd);
}

static void says_when_there_are_no_functions(void **state)
{
    (void)state;
    struct file file = file_new();
    assert_string_equal("error -61", listing(&file, SYMBOLS_MAX)); /* ENODATA */
}

static void gives_up_when_its_time_is_over(void **state)
{
    (void)state;
    struct symbols symbols;
    struct err err;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_int_equal(-ETIME, symbols_build(fd, 0, &symbols, &err));
    close(fd);
}

/* ---- against other programs' reading of real files ---- */

/* Every sized function readelf prints for path must be found at its address under one of its names. */
static void compare_with_readelf(const char *path)
{
    char command[512];
    snprintf(command, sizeof(command), "readelf -W -s '%s' 2>/dev/null", path);
    FILE *readelf = popen(command, "r");
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct symbols symbols;
    assert_int_equal(0, symbols_build(fd, BUDGET_MS, &symbols, NULL));
    char line[8192], name[SYMBOLS_NAME_BYTES];
    size_t compared_count = 0, differ_count = 0;
    while (fgets(line, sizeof(line), readelf)) {
        unsigned long address, bytes;
        char type[16], section[16], wanted[4096];
        if (sscanf(line, " %*u: %lx %li %15s %*s %*s %15s %4095s", &address, &bytes, type, section, wanted) !=
                5 ||
            bytes == 0 || strcmp(type, "FUNC") != 0 || strcmp(section, "UND") == 0)
            continue;
        wanted[strcspn(wanted, "@")] = '\0'; /* readelf adds the version of dynamic ones */
        uint64_t offset = 0;
        assert_int_equal(0, elf_file_offset_of(symbols.elf, address, &offset));
        const struct symbol *symbol = symbols_find(&symbols, offset);
        assert_non_null(symbol);
        assert_int_equal(offset, symbol->start);
        compared_count++;
        size_t name_bytes = symbols_name(&symbols, symbol, name);
        if (strlen(wanted) != name_bytes || memcmp(wanted, name, name_bytes) != 0)
            differ_count++; /* an alias: the address was right */
    }
    assert_int_equal(0, pclose(readelf));
    print_message("%s: %zu functions, %zu of them under an alias\n", path, compared_count, differ_count);
    assert_true(compared_count > 50);
    assert_true(differ_count < compared_count / 2);
    symbols_fini(&symbols);
}

static void agrees_with_readelf_on_this_program_and_the_c_library(void **state)
{
    (void)state;
    char self[4096] = {0}; /* readelf's own /proc/self would be another */
    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    compare_with_readelf(self);
    compare_with_readelf("/lib/x86_64-linux-gnu/libc.so.6");
}

static const char SOURCE[] = "int hot(int n) { return n * 3; }\n"
                             "__attribute__((section(\"other_code\"))) int cold(int n) { return n + 1; }\n"
                             "int main(void) { return hot(2) + cold(3); }\n";

/* Builds SOURCE with the flags; checks hot, cold and main against nm. */
static void compare_build(const char *flags)
{
    char path[] = "/tmp/test_symbols_XXXXXX", command[512], line[512];
    AUTO_CLOSE int fd = mkostemp(path, O_CLOEXEC);
    snprintf(command, sizeof(command), "gcc -O1 -w -x c %s -o %s -", flags, path);
    FILE *compiler = popen(command, "w");
    fputs(SOURCE, compiler);
    int built = pclose(compiler);
    close(fd);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    struct symbols symbols;
    int rc = symbols_build(fd, BUDGET_MS, &symbols, NULL);
    snprintf(command, sizeof(command), "nm %s", path);
    FILE *nm = popen(command, "r");
    unsigned found_count = 0;
    while (rc == 0 && fgets(line, sizeof(line), nm)) {
        unsigned long address;
        char name[256];
        uint64_t offset;
        if (sscanf(line, "%lx T %255s", &address, name) != 2 || (strcmp(name, "hot") && strcmp(name, "cold")))
            continue;
        char got[SYMBOLS_NAME_BYTES];
        const struct symbol *symbol =
            elf_file_offset_of(symbols.elf, address, &offset) == 0 ? symbols_find(&symbols, offset) : NULL;
        if (symbol && symbols_name(&symbols, symbol, got) == strlen(name) &&
            memcmp(got, name, strlen(name)) == 0)
            found_count++;
    }
    pclose(nm);
    if (rc == 0)
        symbols_fini(&symbols);
    unlink(path);
    if (built != 0)
        fail_msg("gcc %s failed", flags);
    assert_int_equal(0, rc);
    assert_int_equal(2, found_count);
}

static void names_functions_in_every_link_layout(void **state)
{
    (void)state;
    compare_build("-no-pie");
    compare_build("-pie -fPIE");
    compare_build("-static-pie -fPIE");
    compare_build("-static");
    compare_build("-fuse-ld=lld -pie -fPIE");
    compare_build("-fuse-ld=lld -no-pie");
    /* two executable segments: a section far away from .text */
    compare_build("-no-pie -Wl,--section-start=other_code=0x10000000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_functions_by_file_offset_in_order),
        cmocka_unit_test(reads_32_bit_files_too),
        cmocka_unit_test(a_symbol_covers_its_own_bytes_only),
        cmocka_unit_test(prefers_sized_then_global_then_weak_then_local_then_short),
        cmocka_unit_test(skips_what_is_no_function),
        cmocka_unit_test(a_range_inside_another_has_its_own_bytes),
        cmocka_unit_test(a_size_ends_with_the_segment),
        cmocka_unit_test(frames_give_nameless_functions_where_no_symbol_is),
        cmocka_unit_test(labels_reach_to_the_next_one_when_nothing_has_a_size),
        cmocka_unit_test(over_the_limit_the_smallest_ranges_go),
        cmocka_unit_test(the_same_function_from_two_tables_does_not_count_twice_against_the_limit),
        cmocka_unit_test(cuts_names_at_the_limit),
        cmocka_unit_test(says_when_there_are_no_functions),
        cmocka_unit_test(gives_up_when_its_time_is_over),
        cmocka_unit_test(agrees_with_readelf_on_this_program_and_the_c_library),
        cmocka_unit_test(names_functions_in_every_link_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
