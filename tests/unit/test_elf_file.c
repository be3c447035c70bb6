#include "node-agent/elf_file.h"
#include "tests/unit/elf_maker.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#define PF_RX (PF_R | PF_X)

static void put_note(struct elf_maker *maker, uint64_t offset, const char *owner, uint32_t type,
                     const void *body, uint32_t bytes)
{
    Elf64_Nhdr note = {.n_namesz = 4, .n_descsz = bytes, .n_type = type};
    char name[4] = {0};
    memcpy(name, owner, strnlen(owner, 4));
    elf_maker_put(maker, offset, &note, sizeof(note));
    elf_maker_put(maker, offset + 12, name, 4);
    elf_maker_put(maker, offset + 16, body, bytes);
}

static struct elf_file *open_fd(int fd)
{
    struct elf_file *elf = NULL;
    struct err err = {0};
    if (elf_file_open(fd, &elf, &err) < 0)
        fail_msg("%s", err.text);
    return elf;
}

static int open_code(const void *data, size_t bytes)
{
    int fd = elf_maker_memfd(data, bytes);
    struct elf_file *elf = NULL;
    struct err err = {0};
    int rc = elf_file_open(fd, &elf, &err);
    if (rc == 0)
        elf_file_close(elf);
    else
        assert_int_not_equal('\0', err.text[0]);
    close(fd);
    return rc;
}

static void refuses_what_is_not_a_little_endian_elf(void **state)
{
    (void)state;
    struct elf_maker maker = elf_maker_new();
    elf_maker_segment(&maker, PT_LOAD, PF_RX, 0, 0, 0x100);
    elf_maker_finish(&maker);
    assert_int_equal(0, open_code(maker.file, maker.bytes));
    assert_int_equal(-ENOEXEC, open_code("", 0));
    assert_int_equal(-ENOEXEC, open_code(maker.file, 63));
    assert_int_equal(
        -ENOEXEC,
        open_code("#!/bin/sh\necho this is longer than an ELF header, and a script for all that\n", 76));
    maker.file[EI_CLASS] = 3;
    assert_int_equal(-ENOEXEC, open_code(maker.file, maker.bytes));
    maker.file[EI_CLASS] = ELFCLASS64;
    maker.file[EI_DATA] = ELFDATA2MSB;
    assert_int_equal(-ENOEXEC, open_code(maker.file, maker.bytes));
    free(maker.file);
}

static void refuses_a_directory_and_a_pipe(void **state)
{
    (void)state;
    struct elf_file *elf = NULL;
    int directory = open("/", O_RDONLY | O_CLOEXEC);
    assert_int_equal(-ENOEXEC, elf_file_open(directory, &elf, NULL));
    close(directory);
    int pipes[2];
    assert_int_equal(0, pipe2(pipes, O_CLOEXEC));
    assert_int_equal(-ENOEXEC, elf_file_open(pipes[0], &elf, NULL));
    close(pipes[0]);
    close(pipes[1]);
}

static void refuses_more_headers_than_its_limits(void **state)
{
    (void)state;
    struct elf_maker maker = elf_maker_new();
    elf_maker_segment(&maker, PT_LOAD, PF_RX, 0, 0, 0x100);
    elf_maker_finish(&maker);
    Elf64_Ehdr *header = (Elf64_Ehdr *)maker.file;
    header->e_phnum = ELF_MAX_SEGMENTS + 1;
    assert_int_equal(-E2BIG, open_code(maker.file, maker.bytes));
    header->e_phnum = 1;
    header->e_phoff = UINT64_MAX - 8;
    assert_int_equal(-EBADMSG, open_code(maker.file, maker.bytes));
    header->e_phoff = sizeof(*header);
    header->e_phentsize = 32;
    assert_int_equal(-EBADMSG, open_code(maker.file, maker.bytes));
    free(maker.file);
}

static void takes_a_section_table_outside_the_file_as_none(void **state)
{
    (void)state;
    struct elf_maker maker = elf_maker_new();
    elf_maker_segment(&maker, PT_LOAD, PF_RX, 0, 0, 0x100);
    elf_maker_finish(&maker);
    ((Elf64_Ehdr *)maker.file)->e_shoff = UINT64_MAX - 64;
    int fd = elf_maker_memfd(maker.file, maker.bytes);
    struct elf_file *elf = open_fd(fd);
    struct elf_section section;
    assert_int_equal(0, elf_file_sections(elf));
    assert_int_equal(-ENOENT, elf_file_section(elf, ".text", &section));
    assert_int_equal(-ENOENT, elf_file_section_at(elf, 0, &section));
    elf_file_close(elf);
    close(fd);
    free(maker.file);
}

/* The layout lld makes: each segment one page further in memory than in the file. */
static void maps_addresses_through_the_segment_that_covers_them(void **state)
{
    (void)state;
    struct elf_maker maker = elf_maker_new();
    elf_maker_segment(&maker, PT_LOAD, PF_R, 0, 0, 0x600);
    elf_maker_segment(&maker, PT_LOAD, PF_RX, 0x600, 0x1600, 0x200);
    elf_maker_segment(&maker, PT_LOAD, PF_RX, 0x800, 0x402800, 0x100);
    elf_maker_put(&maker, 0x8ff, "", 1);
    int fd = elf_maker_fd(&maker);
    struct elf_file *elf = open_fd(fd);
    uint64_t got = 0;
    assert_int_equal(0, elf_file_offset_of(elf, 0x1610, &got));
    assert_int_equal(0x610, got);
    assert_int_equal(0, elf_file_offset_of(elf, 0x4028ff, &got));
    assert_int_equal(0x8ff, got);
    assert_int_equal(-ENOENT, elf_file_offset_of(elf, 0x402900, &got));
    assert_int_equal(-ENOENT, elf_file_offset_of(elf, 0x15ff, &got));
    assert_int_equal(0, elf_file_address_of(elf, 0x610, &got));
    assert_int_equal(0x1610, got);
    assert_int_equal(0, elf_file_address_of(elf, 0x800, &got));
    assert_int_equal(0x402800, got);
    assert_int_equal(0, elf_file_address_of(elf, 0x10, &got));
    assert_int_equal(0x10, got);
    assert_int_equal(-ENOENT, elf_file_address_of(elf, 0x900, &got));
    const Elf64_Phdr *segments;
    assert_int_equal(2, elf_file_segments(elf, &segments));
    assert_int_equal(0x1600, segments[0].p_vaddr);
    assert_int_equal(3, elf_file_headers(elf, &segments));
    elf_file_close(elf);
    close(fd);
}

static void prefers_code_where_two_segments_show_the_same_bytes(void **state)
{
    (void)state;
    struct elf_maker maker = elf_maker_new();
    elf_maker_segment(&maker, PT_LOAD, PF_R, 0, 0x10000, 0x1000);
    elf_maker_segment(&maker, PT_LOAD, PF_RX, 0, 0x20000, 0x1000);
    int fd = elf_maker_fd(&maker);
    struct elf_file *elf = open_fd(fd);
    uint64_t got = 0;
    assert_int_equal(0, elf_file_address_of(elf, 0x123, &got));
    assert_int_equal(0x20123, got);
    elf_file_close(elf);
    close(fd);
}

static void drops_segments_that_wrap_around(void **state)
{
    (void)state;
    struct elf_maker maker = elf_maker_new();
    elf_maker_segment(&maker, PT_LOAD, PF_RX, UINT64_MAX - 10, 0, 0x1000);
    elf_maker_segment(&maker, PT_LOAD, PF_RX, 0, UINT64_MAX - 10, 0x1000);
    elf_maker_segment(&maker, PT_LOAD, PF_RX, 0x100, 0x4100, 0x100);
    int fd = elf_maker_fd(&maker);
    struct elf_file *elf = open_fd(fd);
    const Elf64_Phdr *segments;
    assert_int_equal(1, elf_file_segments(elf, &segments));
    assert_int_equal(0x4100, segments[0].p_vaddr);
    elf_file_close(elf);
    close(fd);
}

static void reads_both_build_ids_from_the_note_segment(void **state)
{
    (void)state;
    struct elf_maker maker = elf_maker_new();
    put_note(&maker, 0x400, "XYZ", 3, "not this one", 12);
    put_note(&maker, 0x41c, "GNU", NT_GNU_BUILD_ID, "0123456789abcdefghij", 20);
    put_note(&maker, 0x440, "Go", 4, "actionid/contentid", 18);
    elf_maker_segment(&maker, PT_NOTE, PF_R, 0x400, 0x400, 0x440 + 16 + 18 - 0x400);
    int fd = elf_maker_fd(&maker);
    struct elf_file *elf = open_fd(fd);
    uint8_t id[32];
    char text[128];
    assert_int_equal(20, elf_file_build_id(elf, id, sizeof(id)));
    assert_memory_equal("0123456789abcdefghij", id, 20);
    assert_int_equal(8, elf_file_build_id(elf, id, 8));
    assert_int_equal(18, elf_file_go_build_id(elf, text, sizeof(text)));
    assert_memory_equal("actionid/contentid", text, 18);
    elf_file_close(elf);
    close(fd);
}

static void reads_the_build_id_from_a_section_when_no_segment_has_it(void **state)
{
    (void)state;
    struct elf_maker maker = elf_maker_new();
    put_note(&maker, 0x400, "GNU", NT_GNU_BUILD_ID, "0123456789abcdefghij", 20);
    elf_maker_section(&maker, ".note.gnu.build-id", SHT_NOTE, SHF_ALLOC, 0x400, 0x400, 36, 0);
    int fd = elf_maker_fd(&maker);
    struct elf_file *elf = open_fd(fd);
    uint8_t id[32];
    assert_int_equal(20, elf_file_build_id(elf, id, sizeof(id)));
    assert_int_equal(0, elf_file_go_build_id(elf, (char *)id, sizeof(id)));
    elf_file_close(elf);
    close(fd);
}

static void finds_no_build_id_in_notes_whose_lengths_lie(void **state)
{
    (void)state;
    struct elf_maker maker = elf_maker_new();
    put_note(&maker, 0x400, "GNU", NT_GNU_BUILD_ID, "0123456789abcdefghij", 20);
    elf_maker_segment(&maker, PT_NOTE, PF_R, 0x400, 0x400, 36);
    ((Elf64_Nhdr *)(void *)(maker.file + 0x400))->n_descsz = UINT32_MAX;
    int fd = elf_maker_fd(&maker);
    struct elf_file *elf = open_fd(fd);
    uint8_t id[32];
    assert_int_equal(0, elf_file_build_id(elf, id, sizeof(id)));
    elf_file_close(elf);
    close(fd);
}

static void finds_sections_by_their_whole_name(void **state)
{
    (void)state;
    struct elf_maker maker = elf_maker_new();
    elf_maker_section(&maker, ".text.hot", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0x1000, 0x400, 0x10, 0);
    elf_maker_section(&maker, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0x1010, 0x410, 0x20, 0);
    int fd = elf_maker_fd(&maker);
    struct elf_file *elf = open_fd(fd);
    struct elf_section section;
    assert_int_equal(0, elf_file_section(elf, ".text", &section));
    assert_int_equal(0x1010, section.address);
    assert_int_equal(0x410, section.offset);
    assert_int_equal(0x20, section.bytes);
    assert_int_equal(-ENOENT, elf_file_section(elf, ".tex", &section));
    assert_int_equal(4, elf_file_sections(elf));
    assert_int_equal(0, elf_file_section_at(elf, 1, &section));
    assert_int_equal(0x1000, section.address);
    elf_file_close(elf);
    close(fd);
}

static void reads_across_blocks_and_not_past_the_end(void **state)
{
    (void)state;
    struct elf_maker maker = elf_maker_new();
    uint8_t pattern[20000];
    for (size_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = (uint8_t)(i * 7 + i / 256);
    elf_maker_put(&maker, 1000, pattern, sizeof(pattern));
    int fd = elf_maker_fd(&maker);
    struct elf_file *elf = open_fd(fd);
    uint8_t back[sizeof(pattern)];
    assert_int_equal(0, elf_file_read(elf, 1000, back, sizeof(back)));
    assert_memory_equal(pattern, back, sizeof(back));
    uint64_t bytes = elf_file_bytes(elf);
    assert_int_equal(0, elf_file_read(elf, bytes - 1, back, 1));
    assert_int_equal(-EBADMSG, elf_file_read(elf, bytes - 1, back, 2));
    assert_int_equal(-EBADMSG, elf_file_read(elf, UINT64_MAX, back, 2));
    assert_int_equal(1, elf_file_read_some(elf, bytes - 1, back, 100));
    assert_int_equal(0, elf_file_read_some(elf, UINT64_MAX - 1, back, 100));
    elf_file_close(elf);
    close(fd);
}

static void a_file_cut_short_after_opening_is_an_error_not_a_signal(void **state)
{
    (void)state;
    struct elf_maker maker = elf_maker_new();
    elf_maker_put(&maker, 100000, "end", 3);
    elf_maker_put(&maker, 200000, "the tables come after this", 26);
    int fd = elf_maker_fd(&maker);
    struct elf_file *elf = open_fd(fd);
    assert_int_equal(0, ftruncate(fd, 50000));
    char back[3];
    assert_int_equal(-EBADMSG, elf_file_read(elf, 100000, back, 3));
    assert_int_equal(-EBADMSG, elf_file_read(elf, 49999, back, 3));
    assert_int_equal(0, elf_file_read(elf, 49997, back, 3));
    elf_file_close(elf);
    close(fd);
}

static void reads_this_program_itself(void **state)
{
    (void)state;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct elf_file *elf = open_fd(fd);
    struct elf_section text;
    uint64_t offset = 0, address = 0;
    assert_int_equal(0, elf_file_section(elf, ".text", &text));
    assert_int_equal(0, elf_file_offset_of(elf, text.address + 1, &offset));
    assert_int_equal(text.offset + 1, offset);
    assert_int_equal(0, elf_file_address_of(elf, offset, &address));
    assert_int_equal(text.address + 1, address);
    elf_file_close(elf);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_is_not_a_little_endian_elf),
        cmocka_unit_test(refuses_a_directory_and_a_pipe),
        cmocka_unit_test(refuses_more_headers_than_its_limits),
        cmocka_unit_test(takes_a_section_table_outside_the_file_as_none),
        cmocka_unit_test(maps_addresses_through_the_segment_that_covers_them),
        cmocka_unit_test(prefers_code_where_two_segments_show_the_same_bytes),
        cmocka_unit_test(drops_segments_that_wrap_around),
        cmocka_unit_test(reads_both_build_ids_from_the_note_segment),
        cmocka_unit_test(reads_the_build_id_from_a_section_when_no_segment_has_it),
        cmocka_unit_test(finds_no_build_id_in_notes_whose_lengths_lie),
        cmocka_unit_test(finds_sections_by_their_whole_name),
        cmocka_unit_test(reads_across_blocks_and_not_past_the_end),
        cmocka_unit_test(a_file_cut_short_after_opening_is_an_error_not_a_signal),
        cmocka_unit_test(reads_this_program_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
