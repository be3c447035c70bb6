#include "common/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_tail(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

size_t str_utf8_length(const void *text, size_t bytes)
{
    const unsigned char *p = text;
    if (bytes == 0)
        return 0;
    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xc2 && p[0] <= 0xdf)
        return bytes >= 2 && is_tail(p[1]) ? 2 : 0;
    if ((p[0] & 0xf0) == 0xe0) {
        if (bytes < 3 || !is_tail(p[1]) || !is_tail(p[2]))
            return 0;
        bool overlong = p[0] == 0xe0 && p[1] < 0xa0;
        bool surrogate = p[0] == 0xed && p[1] > 0x9f;
        return overlong || surrogate ? 0 : 3;
    }
    if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        if (bytes < 4 || !is_tail(p[1]) || !is_tail(p[2]) || !is_tail(p[3]))
            return 0;
        bool overlong = p[0] == 0xf0 && p[1] < 0x90;
        bool beyond = p[0] == 0xf4 && p[1] > 0x8f; /* U+10FFFF is the last */
        return overlong || beyond ? 0 : 4;
    }
    return 0;
}

/* C0, DEL and C1: what a terminal would obey rather than show. */
static bool is_control(const unsigned char *p, size_t length)
{
    if (length == 1)
        return p[0] < 0x20 || p[0] == 0x7f;
    return length == 2 && p[0] == 0xc2 && p[1] < 0xa0;
}

/* Writes the form of the character or byte at text to piece; returns how much of text it stands for. */
static size_t show_one(const unsigned char *text, size_t bytes, char piece[9], size_t *ret_piece_bytes)
{
    size_t length = str_utf8_length(text, bytes);
    if (length > 0 && !is_control(text, length)) {
        memcpy(piece, text, length);
        *ret_piece_bytes = length;
        if (text[0] == '\\')
            piece[(*ret_piece_bytes)++] = '\\';
        return length;
    }
    snprintf(piece, 9, "\\x%02x", text[0]);
    *ret_piece_bytes = 4;
    if (length < 2)
        return 1;
    snprintf(piece + 4, 5, "\\x%02x", text[1]);
    *ret_piece_bytes = 8;
    return 2;
}

size_t str_printable(char *out, size_t out_bytes, const void *text, size_t bytes)
{
    if (out_bytes == 0)
        return 0;
    const unsigned char *from = text;
    size_t used = 0;
    while (bytes > 0) {
        char piece[9];
        size_t piece_bytes;
        size_t taken = show_one(from, bytes, piece, &piece_bytes);
        if (used + piece_bytes >= out_bytes)
            break;
        memcpy(out + used, piece, piece_bytes);
        used += piece_bytes;
        from += taken;
        bytes -= taken;
    }
    out[used] = '\0';
    return used;
}

size_t str_shown(char *out, size_t out_bytes, const void *text, size_t bytes)
{
    const unsigned char *from = text;
    for (size_t at = 0, length; at < bytes; at += length) {
        length = str_utf8_length(from + at, bytes - at);
        if (length == 0 || is_control(from + at, length))
            return str_printable(out, out_bytes, text, bytes);
    }
    if (bytes >= out_bytes) /* cut at a character: not every day */
        return str_printable(out, out_bytes, text, bytes);
    memcpy(out, text, bytes);
    out[bytes] = '\0';
    return bytes;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 16;
}

int str_u64(const char *text, size_t bytes, int base, uint64_t *ret_value)
{
    if (bytes == 0 || base < 2 || base > 16)
        return -EINVAL;
    uint64_t value = 0;
    int rc = 0;
    for (size_t i = 0; i < bytes; i++) {
        int digit = digit_of(text[i]);
        if (digit >= base)
            return -EINVAL;
        if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
            __builtin_add_overflow(value, (uint64_t)digit, &value))
            rc = -ERANGE; /* read on: text that is no number at all stays -EINVAL */
    }
    if (rc == 0)
        *ret_value = value;
    return rc;
}

void str_hex(char *out, const void *data, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *from = data;
    for (size_t i = 0; i < bytes; i++) {
        out[2 * i] = digits[from[i] >> 4];
        out[2 * i + 1] = digits[from[i] & 15];
    }
    out[2 * bytes] = '\0';
}

int str_unhex(const char *hex, void *out, size_t out_bytes)
{
    size_t digits = strlen(hex);
    if (digits % 2 != 0 || digits / 2 > out_bytes || digits / 2 > INT32_MAX)
        return -EINVAL;
    unsigned char *to = out;
    for (size_t i = 0; i < digits; i++)
        if (digit_of(hex[i]) > 15)
            return -EINVAL;
    for (size_t i = 0; i < digits / 2; i++)
        to[i] = (unsigned char)(digit_of(hex[2 * i]) << 4 | digit_of(hex[2 * i + 1]));
    return (int)(digits / 2);
}

bool str_starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

const char *str_basename(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
