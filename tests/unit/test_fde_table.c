#include "node-agent/fde_table.h"

#include "tests/unit/elf_maker.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define HEADER_OFFSET  0x1000u
#define HEADER_ADDRESS 0x3000u /* further in memory than in the file */
#define FRAMES_OFFSET  0x1100u
#define FRAMES_ADDRESS 0x3100u

/* The header with one entry: code at 0x2010, its FDE right behind a CIE of cie_bytes. */
static struct elf_file *open_frames(const uint8_t *cie, uint32_t cie_bytes, const void *length,
                                    size_t length_bytes, const uint8_t head[4], int *ret_fd)
{
    struct elf_maker maker = elf_maker_new();
    const uint32_t count = 1;
    const int32_t entry[2] = {0x2010 - (int32_t)HEADER_ADDRESS,
                              (int32_t)(FRAMES_ADDRESS + cie_bytes - HEADER_ADDRESS)};
    const uint32_t fde[2] = {28, cie_bytes + 4};
    elf_maker_put(&maker, HEADER_OFFSET, head, 4);
    elf_maker_put(&maker, HEADER_OFFSET + 8, &count, sizeof(count));
    elf_maker_put(&maker, HEADER_OFFSET + 12, entry, sizeof(entry));
    elf_maker_put(&maker, FRAMES_OFFSET, cie, cie_bytes);
    elf_maker_put(&maker, FRAMES_OFFSET + cie_bytes, fde, sizeof(fde));
    elf_maker_put(&maker, FRAMES_OFFSET + cie_bytes + 8 + length_bytes, length, length_bytes);
    elf_maker_put(&maker, 0x1fff, "", 1);
    elf_maker_segment(&maker, PT_LOAD, PF_R, HEADER_OFFSET, HEADER_ADDRESS, 0x1000);
    elf_maker_segment(&maker, PT_GNU_EH_FRAME, PF_R, HEADER_OFFSET, HEADER_ADDRESS, 20);
    *ret_fd = elf_maker_fd(&maker);
    struct elf_file *elf = NULL;
    assert_int_equal(0, elf_file_open(*ret_fd, &elf, NULL));
    return elf;
}

static const uint8_t HEAD[4] = {1, 0x1b, 3, 0x3b};

static int length_of(const uint8_t *cie, uint32_t cie_bytes, const void *length, size_t length_bytes,
                     uint64_t *ret_bytes)
{
    int fd;
    struct elf_file *elf = open_frames(cie, cie_bytes, length, length_bytes, HEAD, &fd);
    struct fde_table table;
    uint64_t start, fde;
    assert_int_equal(0, fde_table_open(elf, &table));
    assert_int_equal(1, table.count);
    assert_int_equal(0, fde_table_get(&table, 0, &start, &fde));
    assert_int_equal(0x2010, start);
    assert_int_equal(FRAMES_ADDRESS + cie_bytes, fde);
    int rc = fde_table_length(&table, fde, ret_bytes);
    elf_file_close(elf);
    close(fd);
    return rc;
}

static void reads_the_length_in_the_form_the_cie_names(void **state)
{
    (void)state;
    static const uint8_t SHORT_FORM[] = {20, 0,    0,  0, 0,    0, 0, 0, 1, 'z', 'R', 0,
                                         1,  0x78, 16, 1, 0x1b, 0, 0, 0, 0, 0,   0,   0};
    static const uint8_t LONG_FORM[] = {20, 0,    0,  0, 0,    0, 0, 0, 1, 'z', 'R', 0,
                                        1,  0x78, 16, 1, 0x1c, 0, 0, 0, 0, 0,   0,   0};
    static const uint8_t NO_FORM[] = {20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0x78,
                                      16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    const uint32_t four = 0x345;
    const uint64_t eight = 0x123456;
    uint64_t bytes = 0;
    assert_int_equal(0, length_of(SHORT_FORM, sizeof(SHORT_FORM), &four, 4, &bytes));
    assert_int_equal(0x345, bytes);
    assert_int_equal(0, length_of(LONG_FORM, sizeof(LONG_FORM), &eight, 8, &bytes));
    assert_int_equal(0x123456, bytes);
    assert_int_equal(0, length_of(NO_FORM, sizeof(NO_FORM), &eight, 8, &bytes));
    assert_int_equal(0x123456, bytes);
}

static void passes_over_personality_and_language_data(void **state)
{
    (void)state;
    static const uint8_t CIE[] = {28, 0, 0,    0, 0, 0, 0, 0,    1,    'z', 'P', 'L', 'R', 0, 1, 0x78,
                                  16, 7, 0x9b, 1, 2, 3, 4, 0x1b, 0x1b, 0,   0,   0,   0,   0, 0, 0};
    const uint32_t four = 99;
    uint64_t bytes = 0;
    assert_int_equal(0, length_of(CIE, sizeof(CIE), &four, 4, &bytes));
    assert_int_equal(99, bytes);
}

static void refuses_records_that_make_no_sense(void **state)
{
    (void)state;
    static const uint8_t UNKNOWN[] = {20, 0,    0,  0, 0,    0, 0, 0, 1, 'z', 'Q', 0,
                                      1,  0x78, 16, 1, 0x1b, 0, 0, 0, 0, 0,   0,   0};
    static const uint8_t NOT_A_CIE[] = {20, 0,    0,  0, 9,    0, 0, 0, 1, 'z', 'R', 0,
                                        1,  0x78, 16, 1, 0x1b, 0, 0, 0, 0, 0,   0,   0};
    static const uint8_t NO_END[] = {20,   0,    0,    0,    0,    0,    0,    0,    1,    'z',  'R',  0,
                                     0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80};
    const uint32_t four = 99;
    uint64_t bytes = 0;
    assert_int_equal(-EBADMSG, length_of(UNKNOWN, sizeof(UNKNOWN), &four, 4, &bytes));
    assert_int_equal(-EBADMSG, length_of(NOT_A_CIE, sizeof(NOT_A_CIE), &four, 4, &bytes));
    assert_int_equal(-EBADMSG, length_of(NO_END, sizeof(NO_END), &(uint32_t){0}, 4, &bytes));
}

static void only_the_searchable_form_is_a_table(void **state)
{
    (void)state;
    static const uint8_t HEADS[][4] = {{2, 0x1b, 3, 0x3b}, {1, 0x1b, 0xff, 0xff}, {1, 0x1b, 3, 0x1b}};
    static const uint8_t CIE[8] = {0};
    for (size_t i = 0; i < 3; i++) {
        int fd;
        struct fde_table table;
        struct elf_file *elf = open_frames(CIE, sizeof(CIE), "", 1, HEADS[i], &fd);
        assert_int_equal(-ENOENT, fde_table_open(elf, &table));
        elf_file_close(elf);
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_length_in_the_form_the_cie_names),
        cmocka_unit_test(passes_over_personality_and_language_data),
        cmocka_unit_test(refuses_records_that_make_no_sense),
        cmocka_unit_test(only_the_searchable_form_is_a_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
