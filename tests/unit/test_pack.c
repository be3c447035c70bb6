#include "node-agent/pack.c"

#include "tests/unit/elf_maker.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static const uint8_t ID[20] = "0123456789abcdefghi";

/* All parts of a file, unpacked. */
struct parts {
    Fleetprof__Pack *items[64];
    size_t count;
    int answer; /* what on_part returns */
};

static int on_part(const struct buf *message, void *ctx)
{
    struct parts *parts = ctx;
    struct err err = {0};
    ProtobufCMessage *unpacked = NULL;
    assert_true(parts->count < 64);
    if (wire_unpack(message->data, message->used_bytes, WIRE_PACK, &unpacked, &err) < 0)
        fail_msg("%s", err.text);
    parts->items[parts->count++] = (Fleetprof__Pack *)unpacked;
    return parts->answer;
}

static void parts_fini(struct parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        wire_free(&parts->items[i]->base);
}

/* A file of count functions, 16 bytes apart, each of 8 bytes, named f000000 and so on. */
static int many_functions(uint32_t count, size_t name_bytes)
{
    const uint64_t text = 0x1000, text_bytes = count * 16ull, table = text + text_bytes;
    const uint64_t names = table + (count + 1) * sizeof(Elf64_Sym);
    const uint64_t sections = (names + 1 + count * (name_bytes + 1) + 7) / 8 * 8;
    int fd = elf_maker_memfd("", 0);
    Elf64_Shdr headers[3] = {
        {0},
        {.sh_type = SHT_STRTAB, .sh_offset = names, .sh_size = sections - names},
        {.sh_type = SHT_SYMTAB,
         .sh_offset = table,
         .sh_size = names - table,
         .sh_link = 1,
         .sh_entsize = sizeof(Elf64_Sym)},
    };
    Elf64_Phdr segment = {.p_type = PT_LOAD,
                          .p_flags = PF_R | PF_X,
                          .p_offset = text,
                          .p_vaddr = text,
                          .p_filesz = text_bytes,
                          .p_memsz = text_bytes};
    Elf64_Ehdr header = {
        .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_phoff = sizeof(header),
        .e_phentsize = sizeof(segment),
        .e_phnum = 1,
        .e_shoff = sections,
        .e_shentsize = sizeof(headers[0]),
        .e_shnum = 3,
    };
    FILE *file = fdopen(dup(fd), "w");
    fwrite(&header, sizeof(header), 1, file);
    fwrite(&segment, sizeof(segment), 1, file);
    fseek(file, (long)table + (long)sizeof(Elf64_Sym), SEEK_SET);
    for (uint32_t i = 0; i < count; i++) {
        Elf64_Sym symbol = {.st_name = (uint32_t)(1 + i * (name_bytes + 1)),
                            .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                            .st_shndx = 1,
                            .st_value = text + i * 16ull,
                            .st_size = 8};
        fwrite(&symbol, sizeof(symbol), 1, file);
    }
    fputc(0, file);
    for (uint32_t i = 0; i < count; i++) {
        fprintf(file, "f%0*u", (int)name_bytes - 1, i);
        fputc(0, file);
    }
    fseek(file, (long)sections, SEEK_SET);
    fwrite(headers, sizeof(headers), 1, file);
    assert_int_equal(0, fclose(file));
    return fd;
}

static void one_small_file_is_one_part(void **state)
{
    (void)state;
    int fd = many_functions(3, 7);
    struct parts parts = {0};
    assert_int_equal(0, pack_each(fd, ID, sizeof(ID), "small", on_part, &parts, NULL));
    assert_int_equal(1, parts.count);
    const Fleetprof__Pack *pack = parts.items[0];
    assert_int_equal(FLEETPROF__PACK_STATUS__PACK_OK, pack->status);
    assert_int_equal(0, pack->part);
    assert_int_equal(1, pack->parts);
    assert_string_equal("small", pack->name);
    assert_int_equal(sizeof(ID), pack->executable.len);
    assert_memory_equal(ID, pack->executable.data, sizeof(ID));
    assert_int_equal(3, pack->n_start_step);
    assert_int_equal(0x1000, pack->start_step[0]);
    assert_int_equal(16, pack->start_step[1]);
    assert_int_equal(16, pack->start_step[2]);
    assert_int_equal(8, pack->size[2]);
    assert_int_equal(7, pack->name_bytes[2]);
    assert_int_equal(21, pack->names.len);
    assert_memory_equal("f000000f000001f000002", pack->names.data, 21);
    parts_fini(&parts);
    close(fd);
}

static void assert_whole(const struct parts *parts, uint32_t count)
{
    uint32_t next = 0;
    for (size_t i = 0; i < parts->count; i++) {
        const Fleetprof__Pack *pack = parts->items[i];
        assert_int_equal(i, pack->part);
        assert_int_equal(parts->count, pack->parts);
        assert_true(pack->n_start_step <= PACK_PART_FUNCTIONS);
        assert_true(pack->names.len <= PACK_PART_NAMES_BYTES);
        assert_int_equal(pack->n_start_step, pack->n_size);
        assert_int_equal(pack->n_start_step, pack->n_name_bytes);
        assert_int_equal(0x1000 + next * 16ull, pack->start_step[0]); /* each part counts from 0 */
        uint64_t names_bytes = 0;
        for (size_t row = 0; row < pack->n_name_bytes; row++)
            names_bytes += pack->name_bytes[row];
        assert_int_equal(pack->names.len, names_bytes);
        next += (uint32_t)pack->n_start_step;
    }
    assert_int_equal(count, next);
}

static void many_functions_are_cut_into_parts_by_their_number(void **state)
{
    (void)state;
    int fd = many_functions(70000, 7);
    struct parts parts = {0};
    assert_int_equal(0, pack_each(fd, ID, sizeof(ID), "many", on_part, &parts, NULL));
    assert_int_equal(3, parts.count);
    assert_whole(&parts, 70000);
    parts_fini(&parts);
    close(fd);
}

static void long_names_are_cut_into_parts_by_their_bytes(void **state)
{
    (void)state;
    int fd = many_functions(1100, 3000); /* 349 names of 3000 bytes fit 1 MiB */
    struct parts parts = {0};
    assert_int_equal(0, pack_each(fd, ID, sizeof(ID), "long", on_part, &parts, NULL));
    assert_int_equal(4, parts.count);
    assert_int_equal(349, parts.items[0]->n_start_step);
    assert_whole(&parts, 1100);
    parts_fini(&parts);
    close(fd);
}

static void an_unreadable_file_is_one_message_with_the_reason(void **state)
{
    (void)state;
    int fd = elf_maker_memfd("#!/bin/sh\n", 10);
    struct parts parts = {0};
    assert_int_equal(0, pack_each(fd, ID, sizeof(ID), "script", on_part, &parts, NULL));
    assert_int_equal(
        0, pack_unavailable(ID, sizeof(ID), "gone", "no process maps it any more", on_part, &parts, NULL));
    assert_int_equal(2, parts.count);
    assert_int_equal(FLEETPROF__PACK_STATUS__PACK_UNAVAILABLE, parts.items[0]->status);
    assert_string_equal("too short for an ELF file", parts.items[0]->reason);
    assert_int_equal(1, parts.items[0]->parts);
    assert_int_equal(FLEETPROF__PACK_STATUS__PACK_UNAVAILABLE, parts.items[1]->status);
    assert_string_equal("no process maps it any more", parts.items[1]->reason);
    parts_fini(&parts);
    close(fd);
}

static void a_file_without_functions_is_one_empty_part(void **state)
{
    (void)state;
    int fd = many_functions(0, 7);
    struct parts parts = {0};
    assert_int_equal(0, pack_each(fd, ID, sizeof(ID), "none", on_part, &parts, NULL));
    assert_int_equal(1, parts.count);
    assert_int_equal(FLEETPROF__PACK_STATUS__PACK_OK, parts.items[0]->status);
    assert_int_equal(1, parts.items[0]->parts);
    assert_int_equal(0, parts.items[0]->n_start_step);
    parts_fini(&parts);
    close(fd);
}

static void the_receiver_of_parts_can_end_the_walk(void **state)
{
    (void)state;
    int fd = many_functions(70000, 7);
    struct parts parts = {.answer = -ECANCELED};
    assert_int_equal(-ECANCELED, pack_each(fd, ID, sizeof(ID), "many", on_part, &parts, NULL));
    assert_int_equal(1, parts.count);
    parts_fini(&parts);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_small_file_is_one_part),
        cmocka_unit_test(many_functions_are_cut_into_parts_by_their_number),
        cmocka_unit_test(long_names_are_cut_into_parts_by_their_bytes),
        cmocka_unit_test(an_unreadable_file_is_one_message_with_the_reason),
        cmocka_unit_test(a_file_without_functions_is_one_empty_part),
        cmocka_unit_test(the_receiver_of_parts_can_end_the_walk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
