/* Any pod can have any file mapped: thousands of broken ELF files, each of which may cost its own names and
 * nothing else (no crash, no endless loop, no large allocation). Mutated from real programs with a fixed
 * seed, so that a failure repeats. */
#include "node-agent/symbols.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/go_pclntab.h"
#include "tests/unit/elf_maker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define BUDGET_MS   2000u
#define MAX_CHANGES 8u
#define MAX_BYTES   (16u << 20)
#define MAX_PLACES  64u

struct random {
    uint64_t state;
};

/* splitmix64 */
static uint64_t next_random(struct random *random)
{
    uint64_t z = (random->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

struct place {
    uint64_t offset, bytes;
};

/* A real file, and where in it a change is most likely to matter. */
struct base {
    uint8_t *data;
    size_t bytes;
    struct place places[MAX_PLACES];
    size_t place_count;
};

static void add_place(struct base *base, uint64_t offset, uint64_t bytes)
{
    if (offset < base->bytes && bytes && base->place_count < MAX_PLACES)
        base->places[base->place_count++] =
            (struct place){offset, bytes < base->bytes - offset ? bytes : base->bytes - offset};
}

static struct base base_load(const char *path)
{
    struct base base = {.data = malloc(MAX_BYTES)};
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = read(fd, base.data, MAX_BYTES);
    if (got < (ssize_t)sizeof(Elf64_Ehdr))
        fail_msg("cannot read %s", path);
    base.bytes = (size_t)got;
    const Elf64_Ehdr *header = (const void *)base.data;
    add_place(&base, 0, sizeof(*header));
    add_place(&base, header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr));
    add_place(&base, header->e_shoff, header->e_shnum * sizeof(Elf64_Shdr));
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        memcpy(&segment, base.data + header->e_phoff + i * sizeof(segment), sizeof(segment));
        if (segment.p_type == PT_NOTE || segment.p_type == PT_GNU_EH_FRAME || segment.p_type == PT_DYNAMIC)
            add_place(&base, segment.p_offset, segment.p_filesz < 256 ? segment.p_filesz : 256);
    }
    for (unsigned i = 0; i < header->e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, base.data + header->e_shoff + i * sizeof(section), sizeof(section));
        if (section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM || section.sh_type == SHT_PROGBITS)
            add_place(&base, section.sh_offset, section.sh_size < 4096 ? section.sh_size : 4096);
    }
    return base;
}

static void change(struct random *random, const struct base *base, int fd)
{
    static const uint64_t EDGES[] = {0,         1,          0x7f,           0x80,       0xff,
                                     0x7fff,    0xffff,     0x7fffffff,     0x80000000, 0xffffffff,
                                     INT64_MAX, UINT64_MAX, UINT64_MAX - 7, 1ull << 40};
    const struct place *place = &base->places[next_random(random) % base->place_count];
    uint64_t offset = place->offset + next_random(random) % place->bytes;
    uint64_t value = next_random(random) % 3 ? EDGES[next_random(random) % (sizeof(EDGES) / sizeof(EDGES[0]))]
                                             : next_random(random);
    size_t bytes = (size_t)1 << next_random(random) % 4;
    if (next_random(random) % 2)
        offset = offset / bytes * bytes; /* the whole of a field */
    if (bytes > base->bytes - offset)
        bytes = base->bytes - offset;
    assert_int_equal(bytes, pwrite(fd, &value, bytes, (off_t)offset));
}

/* Builds the table and checks what its header promises. */
static int build_and_check(int fd)
{
    struct symbols symbols;
    struct err err = {0};
    uint64_t before_ns = clock_mono_ns();
    int rc = symbols_build(fd, BUDGET_MS, &symbols, &err);
    assert_true(clock_mono_ns() - before_ns < 2 * BUDGET_MS * CLOCK_NS_PER_MS);
    if (rc < 0) {
        assert_true(rc == -ENOEXEC || rc == -EBADMSG || rc == -E2BIG || rc == -ENODATA || rc == -ETIME);
        assert_int_equal(rc, err.code);
        return rc;
    }
    for (size_t i = 0; i + 1 < symbols.count; i++) {
        const struct symbol *symbol = &symbols.items[i];
        if (symbol[1].start <= symbol->start || symbol[1].start - symbol->start < symbol->bytes)
            fail_msg("functions overlap");
    }
    symbols_fini(&symbols);
    return 0;
}

/* Each file: the base with one to MAX_CHANGES places changed, then made whole again. */
static void mutate(const char *path, size_t files, uint64_t seed)
{
    struct base base = base_load(path);
    struct random random = {seed};
    int fd = elf_maker_memfd(base.data, base.bytes);
    size_t read_count = 0;
    for (size_t i = 0; i < files; i++) {
        for (uint64_t n = 1 + next_random(&random) % MAX_CHANGES; n > 0; n--)
            change(&random, &base, fd);
        read_count += build_and_check(fd) == 0;
        assert_int_equal(base.bytes, pwrite(fd, base.data, base.bytes, 0));
    }
    assert_int_equal(0, build_and_check(fd));
    print_message("%s: %zu files, %zu of them still had functions\n", path, files, read_count);
    close(fd);
    free(base.data);
}

static char folder[] = "/tmp/test_hostile_XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static int make_programs(void **state)
{
    (void)state;
    char command[1024];
    if (!mkdtemp(folder))
        return -1;
    snprintf(
        command, sizeof(command),
        "cd %s && echo 'int g(int a) { return a * 2; } int main(void) { return g(1); }' > c.c && gcc -O1 -o "
        "c c.c && "
        "printf 'package main\\nfunc main() { println(1) }\\n' > g.go && PATH=$PATH:/usr/local/go/bin && "
        "CGO_ENABLED=0 GO111MODULE=off GOFLAGS= go build -buildmode=pie -ldflags '-s -w' -o g g.go",
        folder);
    return system(command) == 0 ? 0 : -1;
}

static int remove_programs(void **state)
{
    (void)state;
    char command[256];
    snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

static void thousands_of_changed_c_programs_cost_only_their_names(void **state)
{
    (void)state;
    mutate(in_folder("c"), 4000, 1);
    mutate("/bin/true", 2000, 2);
}

static void hundreds_of_changed_go_programs_cost_only_their_names(void **state)
{
    (void)state;
    mutate(in_folder("g"), 300, 3);
}

static void files_of_every_length_cost_only_their_names(void **state)
{
    (void)state;
    struct base base = base_load(in_folder("c"));
    int fd = elf_maker_memfd(base.data, base.bytes);
    for (size_t bytes = base.bytes; bytes > 37; bytes -= 37) {
        assert_int_equal(0, ftruncate(fd, (off_t)bytes));
        build_and_check(fd);
    }
    close(fd);
    free(base.data);
}

struct truncator {
    const struct base *base;
    int fd;
    atomic_bool stop;
};

static void *truncate_and_restore(void *ctx)
{
    struct truncator *truncator = ctx;
    struct random random = {4};
    while (!atomic_load(&truncator->stop)) {
        if (ftruncate(truncator->fd, (off_t)(next_random(&random) % truncator->base->bytes)) == -1 ||
            pwrite(truncator->fd, truncator->base->data, truncator->base->bytes, 0) < 0)
            break;
    }
    return NULL;
}

static void a_file_cut_and_written_again_while_it_is_read_costs_only_its_names(void **state)
{
    (void)state;
    struct base base = base_load(in_folder("g"));
    struct truncator truncator = {.base = &base, .fd = elf_maker_memfd(base.data, base.bytes)};
    pthread_t thread;
    assert_int_equal(0, pthread_create(&thread, NULL, truncate_and_restore, &truncator));
    for (int i = 0; i < 200; i++)
        build_and_check(truncator.fd);
    atomic_store(&truncator.stop, true);
    pthread_join(thread, NULL);
    close(truncator.fd);
    free(base.data);
}

/* A table of symbols as large as a section header can say, in a file of holes: time and memory stay within
 * their limits. */
static void a_huge_empty_table_ends_with_its_time(void **state)
{
    (void)state;
    struct elf_maker maker = elf_maker_new();
    elf_maker_segment(&maker, PT_LOAD, PF_R | PF_X, 0, 0, 1ull << 40);
    elf_maker_section(&maker, ".strtab", SHT_STRTAB, 0, 0, 0, 1ull << 40, 0);
    elf_maker_section(&maker, ".symtab", SHT_SYMTAB, 0, 0, 0x10000, 1ull << 40, 1);
    int fd = elf_maker_fd(&maker);
    assert_int_equal(0, ftruncate(fd, 1ll << 40));
    struct symbols symbols;
    uint64_t before_ns = clock_mono_ns();
    assert_int_equal(-ETIME, symbols_build(fd, 100, &symbols, NULL));
    assert_true(clock_mono_ns() - before_ns < 2000 * CLOCK_NS_PER_MS);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thousands_of_changed_c_programs_cost_only_their_names),
        cmocka_unit_test(hundreds_of_changed_go_programs_cost_only_their_names),
        cmocka_unit_test(files_of_every_length_cost_only_their_names),
        cmocka_unit_test(a_file_cut_and_written_again_while_it_is_read_costs_only_its_names),
        cmocka_unit_test(a_huge_empty_table_ends_with_its_time),
    };
    return cmocka_run_group_tests(tests, make_programs, remove_programs);
}
