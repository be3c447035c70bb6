/* str: text from outside made fit to show, and exact number parsing.
 * Threads: any. */
#ifndef COMMON_STR_H
#define COMMON_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies text to valid, printable UTF-8: bytes that are not UTF-8 and control characters become \xHH
 * (reversible, since a backslash is written as \\). Always NUL-terminates; returns the length, cut at a
 * character boundary to fit. */
size_t str_printable(char *out, size_t out_bytes, const void *text, size_t bytes);

/* The same for text that is read rather than decoded: what is clean already stays as it is, backslashes
 * included, so that showing twice changes nothing. */
size_t str_shown(char *out, size_t out_bytes, const void *text, size_t bytes);

/* Length (1-4) of the UTF-8 character at text, 0 when the bytes there are not one (RFC 3629: no surrogates,
 * shortest form). bytes is what is left of the text. */
size_t str_utf8_length(const void *text, size_t bytes);

/* The whole of text must be digits of the base (2..16; no sign, prefix or space). 0 or -EINVAL / -ERANGE. */
int str_u64(const char *text, size_t bytes, int base, uint64_t *ret_value);

/* Lower-case hex of bytes; out has 2 * bytes + 1. */
void str_hex(char *out, const void *data, size_t bytes);
/* Returns the number of bytes, or -EINVAL (odd length, other characters, more than out_bytes). */
int str_unhex(const char *hex, void *out, size_t out_bytes);

bool str_starts(const char *text, const char *prefix);

/* After the last '/' (the whole text without one). */
const char *str_basename(const char *path);

#endif
