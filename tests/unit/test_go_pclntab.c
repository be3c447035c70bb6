#include "node-agent/go_pclntab.c"

#include "common/cleanup.h"
#include "node-agent/symbols.h"
#include "tests/unit/elf_maker.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define PF_RX         (PF_R | PF_X)
#define TEXT_OFFSET   0x1000u
#define TEXT_ADDRESS  0x401000u
#define GO_TEXT       0x401200u /* C code before it, as cgo links it */
#define TABLE_OFFSET  0x2000u
#define TABLE_ADDRESS 0x402000u
#define DATA_OFFSET   0x3000u
#define DATA_ADDRESS  0x503000u
#define RELA_OFFSET   0x2800u

static void put64(struct elf_maker *maker, uint64_t offset, uint64_t value)
{
    elf_maker_put(maker, offset, &value, sizeof(value));
}

static void put32(struct elf_maker *maker, uint64_t offset, uint32_t value)
{
    elf_maker_put(maker, offset, &value, sizeof(value));
}

/* main.a at [GO_TEXT, +0x20), main.b at [+0x20, +0x50). The table is laid out as the linker of each version
 * does. */
static struct elf_maker go_file(uint32_t magic, uint64_t header_text)
{
    struct elf_maker maker = elf_maker_new();
    elf_maker_segment(&maker, PT_LOAD, PF_RX, TEXT_OFFSET, TEXT_ADDRESS, 0x1000);
    elf_maker_segment(&maker, PT_LOAD, PF_R, TABLE_OFFSET, TABLE_ADDRESS, 0x1000);
    elf_maker_segment(&maker, PT_LOAD, PF_R | PF_W, DATA_OFFSET, DATA_ADDRESS, 0x1000);
    elf_maker_put(&maker, DATA_OFFSET + 0xfff, "", 1);
    put32(&maker, TABLE_OFFSET, magic);
    elf_maker_put(&maker, TABLE_OFFSET + 4, "\0\0\1\10", 4);
    put64(&maker, TABLE_OFFSET + 8, 2);
    const bool old = magic == MAGIC_1_2, relative = magic == MAGIC_1_18 || magic == MAGIC_1_20;
    const uint64_t names = old ? 0 : 0x80, functions = old ? 16 : 0x100, records = old ? 0 : 0x100;
    if (relative) {
        put64(&maker, TABLE_OFFSET + 24, header_text);
        put64(&maker, TABLE_OFFSET + 32, names);
        put64(&maker, TABLE_OFFSET + 64, functions);
    } else if (!old) {
        put64(&maker, TABLE_OFFSET + 24, names);
        put64(&maker, TABLE_OFFSET + 56, functions);
    }
    static const uint64_t STARTS[3] = {0, 0x20, 0x50};
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t entry = TABLE_OFFSET + functions + i * (relative ? 8 : 16), record = 0x200 + i * 0x20;
        if (relative) {
            put32(&maker, entry, (uint32_t)STARTS[i]);
            put32(&maker, entry + 4, i < 2 ? (uint32_t)record : 0);
        } else {
            put64(&maker, entry, GO_TEXT + STARTS[i]);
            if (i < 2)
                put64(&maker, entry + 8, record);
        }
        if (i < 2)
            put32(&maker, TABLE_OFFSET + records + record + (relative ? 4 : 8),
                  (uint32_t)(0x10 + i * 8 + (old ? 0x380 : 0)));
    }
    elf_maker_put(&maker, TABLE_OFFSET + names + 0x10 + (old ? 0x380 : 0), "main.a\0\0main.b", 15);
    return maker;
}

static void put_module(struct elf_maker *maker)
{
    put64(maker, DATA_OFFSET + 0x100, TABLE_ADDRESS);
    put64(maker, DATA_OFFSET + 0x100 + MODULE_MIN_PC, GO_TEXT);
    put64(maker, DATA_OFFSET + 0x100 + MODULE_TEXT, GO_TEXT);
}

struct seen {
    struct elf_file *elf;
    char text[256];
};

static int on_function(uint64_t start, uint64_t end, uint64_t name_offset, void *ctx)
{
    struct seen *seen = ctx;
    char name[64] = {0};
    elf_file_read_some(seen->elf, name_offset, name, sizeof(name) - 1);
    size_t used = strlen(seen->text);
    snprintf(seen->text + used, sizeof(seen->text) - used, "%llx-%llx %s ", (unsigned long long)start,
             (unsigned long long)end, name);
    return 0;
}

static const char *listing(struct elf_maker *maker)
{
    static struct seen seen;
    int fd = elf_maker_fd(maker);
    seen.text[0] = '\0';
    assert_int_equal(0, elf_file_open(fd, &seen.elf, NULL));
    int rc = go_pclntab_each(seen.elf, on_function, &seen, NULL);
    elf_file_close(seen.elf);
    close(fd);
    if (rc < 0)
        snprintf(seen.text, sizeof(seen.text), "%d", rc);
    return seen.text;
}

static void add_table_section(struct elf_maker *maker)
{
    elf_maker_section(maker, ".gopclntab", SHT_PROGBITS, SHF_ALLOC, TABLE_ADDRESS, TABLE_OFFSET, 0x700, 0);
}

#define BOTH "401200-401220 main.a 401220-401250 main.b "

static void reads_the_tables_of_all_versions(void **state)
{
    (void)state;
    static const uint32_t MAGICS[] = {MAGIC_1_2, MAGIC_1_16, MAGIC_1_18, MAGIC_1_20};
    for (size_t i = 0; i < 4; i++) {
        struct elf_maker maker = go_file(MAGICS[i], GO_TEXT);
        add_table_section(&maker);
        assert_string_equal(BOTH, listing(&maker));
    }
}

static void takes_the_text_address_from_the_module_data(void **state)
{
    (void)state;
    struct elf_maker maker = go_file(MAGIC_1_20, 0); /* 1.26 leaves the header's field empty */
    add_table_section(&maker);
    put_module(&maker);
    assert_string_equal(BOTH, listing(&maker));

    maker = go_file(MAGIC_1_20, 0);
    add_table_section(&maker);
    put_module(&maker);
    put64(&maker, DATA_OFFSET + 0x80,
          TABLE_ADDRESS); /* another pointer to the table, with no module behind it */
    elf_maker_section(&maker, ".go.module", SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, DATA_ADDRESS + 0x100,
                      DATA_OFFSET + 0x100, 0x250, 0);
    assert_string_equal(BOTH, listing(&maker));
}

static void takes_the_text_address_through_relocations(void **state)
{
    (void)state;
    struct elf_maker maker = go_file(MAGIC_1_18, 0);
    add_table_section(&maker);
    const Elf64_Rela relocations[] = {
        {.r_offset = DATA_ADDRESS + 0x40, .r_addend = TABLE_ADDRESS}, /* not the module data */
        {.r_offset = DATA_ADDRESS + 0x100, .r_addend = TABLE_ADDRESS},
        {.r_offset = DATA_ADDRESS + 0x100 + MODULE_MIN_PC, .r_addend = GO_TEXT},
        {.r_offset = DATA_ADDRESS + 0x100 + MODULE_TEXT, .r_addend = GO_TEXT},
    };
    const Elf64_Dyn dynamic[] = {
        {.d_tag = DT_RELA, .d_un.d_ptr = TABLE_ADDRESS + RELA_OFFSET - TABLE_OFFSET},
        {.d_tag = DT_RELASZ, .d_un.d_val = sizeof(relocations)},
        {.d_tag = DT_NULL},
    };
    elf_maker_put(&maker, RELA_OFFSET, relocations, sizeof(relocations));
    elf_maker_put(&maker, DATA_OFFSET + 0x800, dynamic, sizeof(dynamic));
    elf_maker_segment(&maker, PT_DYNAMIC, PF_R | PF_W, DATA_OFFSET + 0x800, DATA_ADDRESS + 0x800,
                      sizeof(dynamic));
    assert_string_equal(BOTH, listing(&maker));
}

static void without_module_data_counts_from_the_text_section(void **state)
{
    (void)state;
    struct elf_maker maker = go_file(MAGIC_1_20, 0);
    add_table_section(&maker);
    elf_maker_section(&maker, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, GO_TEXT, 0x1200, 0x100, 0);
    assert_string_equal(BOTH, listing(&maker));
}

static void finds_a_table_that_has_no_section(void **state)
{
    (void)state;
    struct elf_maker maker = go_file(MAGIC_1_20, GO_TEXT);
    elf_maker_section(&maker, ".go.buildinfo", SHT_PROGBITS, SHF_ALLOC, DATA_ADDRESS, DATA_OFFSET, 16, 0);
    assert_string_equal(BOTH, listing(&maker));
}

static void other_programs_are_not_searched(void **state)
{
    (void)state;
    struct elf_maker maker = go_file(MAGIC_1_20, GO_TEXT); /* a table, but nothing says Go */
    assert_string_equal("-2", listing(&maker));            /* ENOENT */
}

static void refuses_tables_that_make_no_sense(void **state)
{
    (void)state;
    static const struct {
        uint64_t offset, value;
    } BAD[] = {
        {0, 0},           {4, 0x0401ull << 16}, {8, 0},      {8, UINT64_MAX}, {8, GO_MAX_FUNCTIONS + 1},
        {32, UINT64_MAX}, {64, UINT64_MAX},     {64, 0x6fc},
    };
    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        struct elf_maker maker = go_file(MAGIC_1_20, GO_TEXT);
        add_table_section(&maker);
        put64(&maker, TABLE_OFFSET + BAD[i].offset, BAD[i].value);
        assert_string_equal("-74", listing(&maker)); /* EBADMSG */
    }
}

static void a_broken_entry_costs_its_own_function_only(void **state)
{
    (void)state;
    struct elf_maker maker = go_file(MAGIC_1_20, GO_TEXT);
    add_table_section(&maker);
    put32(&maker, TABLE_OFFSET + 0x100 + 4, 0x7fffffff);
    assert_string_equal("401220-401250 main.b ", listing(&maker));
}

/* ---- against the Go toolchain ---- */

static const char PROGRAM[] = "package main\nimport (\"fmt\"; \"os\")\n"
                              "//go:noinline\nfunc burn(n int) int { t := 0; for i := 0; i < n; i++ { t += i "
                              "* len(os.Args) }; return t }\n"
                              "func main() { fmt.Println(burn(10)) }\n";
static const char C_PROGRAM[] =
    "package main\n/*\nint twice(int n);\nint twice(int n) { return 2 * n; }\n*/\nimport \"C\"\n"
    "//go:noinline\nfunc burn(n int) int { return int(C.twice(C.int(n))) }\n"
    "func main() { println(burn(10)) }\n";

/* Builds the program, strips a copy, and looks up each text symbol of the whole one (by nm) in the stripped
 * one. */
static void compare_build(const char *program, const char *cgo, const char *flags)
{
    char folder[] = "/tmp/test_go_XXXXXX", command[1024], path[128], line[4096];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/main.go", folder);
    FILE *source = fopen(path, "w");
    fputs(program, source);
    fclose(source);
    snprintf(command, sizeof(command),
             "cd %s && PATH=$PATH:/usr/local/go/bin && CGO_ENABLED=%s GOFLAGS= GO111MODULE=off go build %s "
             "-o whole main.go && "
             "strip -s -o stripped whole && go tool nm -size whole",
             folder, cgo, flags);
    FILE *nm = popen(command, "r");
    snprintf(path, sizeof(path), "%s/stripped", folder);
    size_t compared_count = 0, wrong_count = 0;
    struct symbols symbols = {0};
    AUTO_CLOSE int fd = -1;
    while (fgets(line, sizeof(line), nm)) {
        unsigned long address, bytes;
        char kind[2], wanted[2048], name[SYMBOLS_NAME_BYTES];
        if (sscanf(line, "%lx %lu %1[Tt] main.%2047s", &address, &bytes, kind, wanted) != 4 ||
            strchr(wanted, '['))
            continue;
        if (fd < 0) {
            fd = open(path, O_RDONLY | O_CLOEXEC);
            assert_int_equal(0, symbols_build(fd, 10000, &symbols, NULL));
        }
        char *abi = strstr(wanted, ".abi0"); /* nm's mark of the calling convention */
        if (abi)
            *abi = '\0';
        uint64_t offset = 0;
        assert_int_equal(0, elf_file_offset_of(symbols.elf, address, &offset));
        const struct symbol *symbol = symbols_find(&symbols, offset + bytes / 2);
        size_t name_bytes = symbol ? symbols_name(&symbols, symbol, name) : 0;
        compared_count++;
        if (!symbol || symbol->start != offset || name_bytes != strlen("main.") + strlen(wanted) ||
            memcmp(name + strlen("main."), wanted, strlen(wanted)) != 0) {
            print_message("%s: main.%s is %.*s\n", flags, wanted, (int)name_bytes, name);
            wrong_count++;
        }
    }
    int rc = pclose(nm);
    if (fd >= 0)
        symbols_fini(&symbols);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(0, system(command));
    if (rc != 0)
        fail_msg("go build %s failed", flags);
    assert_int_equal(0, wrong_count);
    assert_true(compared_count >= 2);
}

static void names_stripped_go_programs_of_every_build_mode(void **state)
{
    (void)state;
    compare_build(PROGRAM, "0", "");
    compare_build(PROGRAM, "0", "-ldflags '-s=0 -w' -buildmode=pie");
    compare_build(C_PROGRAM, "1", "");
    compare_build(C_PROGRAM, "1", "-buildmode=pie");
    compare_build(PROGRAM, "1", "-ldflags -linkmode=external");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_tables_of_all_versions),
        cmocka_unit_test(takes_the_text_address_from_the_module_data),
        cmocka_unit_test(takes_the_text_address_through_relocations),
        cmocka_unit_test(without_module_data_counts_from_the_text_section),
        cmocka_unit_test(finds_a_table_that_has_no_section),
        cmocka_unit_test(other_programs_are_not_searched),
        cmocka_unit_test(refuses_tables_that_make_no_sense),
        cmocka_unit_test(a_broken_entry_costs_its_own_function_only),
        cmocka_unit_test(names_stripped_go_programs_of_every_build_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
