#include "node-agent/fde_table.h"

#include <errno.h>
#include <string.h>

/* DW_EH_PE_*: low four bits the form, next three what it is relative to. */
#define FORM_MASK        0x0fu
#define FORM_POINTER     0x00u
#define FORM_U16         0x02u
#define FORM_U32         0x03u
#define FORM_U64         0x04u
#define FORM_S16         0x0au
#define FORM_S32         0x0bu
#define FORM_S64         0x0cu
#define RELATIVE_TO_DATA 0x30u
#define ENCODING_ALIGNED 0x50u

#define AUGMENTATION_BYTES 64u

int fde_table_open(struct elf_file *elf, struct fde_table *ret_table)
{
    const Elf64_Phdr *headers;
    size_t header_count = elf_file_headers(elf, &headers);
    for (size_t i = 0; i < header_count; i++) {
        if (headers[i].p_type != PT_GNU_EH_FRAME)
            continue;
        struct {
            uint8_t version, frame_encoding, count_encoding, table_encoding;
            uint32_t frame, count;
        } head;
        if (elf_file_read(elf, headers[i].p_offset, &head, sizeof(head)) < 0)
            return -EBADMSG;
        if (head.version != 1 || (head.frame_encoding & FORM_MASK) != FORM_S32 ||
            head.count_encoding != FORM_U32 || head.table_encoding != (RELATIVE_TO_DATA | FORM_S32))
            return -ENOENT;
        uint64_t left = elf_file_bytes(elf) - headers[i].p_offset; /* the head was read: not less than that */
        left = headers[i].p_filesz < left ? headers[i].p_filesz : left;
        uint64_t room = left < sizeof(head) ? 0 : (left - sizeof(head)) / 8;
        *ret_table = (struct fde_table){
            .elf = elf,
            .address = headers[i].p_vaddr,
            .offset = headers[i].p_offset + sizeof(head),
            .count = head.count < room ? head.count : room,
        };
        return 0;
    }
    return -ENOENT;
}

int fde_table_get(const struct fde_table *table, uint64_t index, uint64_t *ret_start,
                  uint64_t *ret_fde_address)
{
    int32_t pair[2];
    int rc = elf_file_read(table->elf, table->offset + index * sizeof(pair), pair, sizeof(pair));
    if (rc < 0)
        return rc;
    *ret_start = table->address + (uint64_t)(int64_t)pair[0];
    *ret_fde_address = table->address + (uint64_t)(int64_t)pair[1];
    return 0;
}

static size_t skip_leb128(const uint8_t *data, size_t at, size_t bytes)
{
    while (at < bytes && (data[at] & 0x80))
        at++;
    return at + 1;
}

/* A CIE's pointer encoding: behind the 'R' of its augmentation string. */
static int read_encoding(struct fde_table *table, uint64_t cie_offset)
{
    uint8_t data[AUGMENTATION_BYTES] = {0};
    size_t bytes = elf_file_read_some(table->elf, cie_offset, data, sizeof(data));
    uint32_t id;
    if (bytes < 16)
        return -EBADMSG;
    memcpy(&id, data + 4, sizeof(id));
    size_t text = 9; /* after length, id and version */
    size_t end = text + strnlen((const char *)data + text, bytes - text);
    if (id != 0 || end >= bytes)
        return -EBADMSG;
    size_t at = skip_leb128(data, end + 1, bytes);             /* code alignment */
    at = skip_leb128(data, at, bytes);                         /* data alignment */
    at = data[8] == 1 ? at + 1 : skip_leb128(data, at, bytes); /* return address register */
    uint8_t encoding = FORM_POINTER;
    for (size_t i = text; i < end && at < bytes; i++) {
        switch (data[i]) {
        case 'z':
            at = skip_leb128(data, at, bytes);
            break;
        case 'R':
            encoding = data[at++];
            break;
        case 'L':
            at++;
            break;
        case 'P': {
            static const uint8_t FORM_BYTES[16] = {8, 0, 2, 4, 8, 0, 0, 0, 8, 0, 2, 4, 8, 0, 0, 0};
            size_t length = FORM_BYTES[data[at] & FORM_MASK];
            if (length == 0 || (data[at] & 0x70) == ENCODING_ALIGNED)
                return -EBADMSG;
            at += 1 + length;
            break;
        }
        case 'S':
        case 'B':
            break;
        default:
            return -EBADMSG;
        }
    }
    if (at > bytes)
        return -EBADMSG;
    table->cie_offset = cie_offset;
    table->cie_encoding = encoding;
    return 0;
}

static uint64_t take_length(const uint8_t *data, uint8_t form)
{
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (form) {
    case FORM_U16:
    case FORM_S16:
        memcpy(&two, data + 2, sizeof(two));
        return two;
    case FORM_U32:
    case FORM_S32:
        memcpy(&four, data + 4, sizeof(four));
        return four;
    case FORM_POINTER:
    case FORM_U64:
    case FORM_S64:
        memcpy(&eight, data + 8, sizeof(eight));
        return eight;
    default:
        return 0;
    }
}

int fde_table_length(struct fde_table *table, uint64_t fde_address, uint64_t *ret_bytes)
{
    uint64_t offset;
    uint8_t data[24] = {0}; /* length, CIE pointer, start, length in the CIE's form */
    if (elf_file_offset_of(table->elf, fde_address, &offset) < 0 ||
        elf_file_read_some(table->elf, offset, data, sizeof(data)) < 12)
        return -EBADMSG;
    uint32_t length, back;
    memcpy(&length, data, sizeof(length));
    memcpy(&back, data + 4, sizeof(back));
    if (length < 8 || length >= 0xfffffff0u || back == 0 || back > offset + 4)
        return -EBADMSG;
    uint64_t cie_offset = offset + 4 - back;
    if (cie_offset != table->cie_offset || cie_offset == 0) {
        int rc = read_encoding(table, cie_offset);
        if (rc < 0)
            return rc;
    }
    uint64_t bytes = take_length(data + 8, table->cie_encoding & FORM_MASK);
    if (bytes == 0)
        return -EBADMSG;
    *ret_bytes = bytes;
    return 0;
}
