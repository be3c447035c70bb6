#include "aggregator/rust_v0.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct walk {
    const char *at, *end;
    uint64_t lifetimes;
    uint32_t depth;
};

static bool walk_path(struct walk *walk);
static bool walk_type(struct walk *walk);

static char peek(const struct walk *walk)
{
    return walk->at < walk->end ? *walk->at : '\0';
}

static bool take(struct walk *walk, char tag)
{
    if (peek(walk) != tag || tag == '\0')
        return false;
    walk->at++;
    return true;
}

static bool enter(struct walk *walk)
{
    return ++walk->depth <= RUST_V0_DEPTH;
}

static bool leave(struct walk *walk, bool ok)
{
    walk->depth--;
    return ok;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'Z')
        return c - 'A' + 36;
    return -1;
}

/* Digits to the base of 62 and "_": "_" is 0, "0_" is 1. */
static bool take_base62(struct walk *walk, uint64_t *ret_value)
{
    uint64_t value = 0;
    bool any = false;
    for (int digit; (digit = digit_of(peek(walk))) >= 0; walk->at++, any = true)
        value = value < UINT32_MAX ? value * 62 + (uint64_t)digit : UINT32_MAX;
    *ret_value = any ? value + 1 : 0;
    return take(walk, '_');
}

static bool walk_disambiguator(struct walk *walk)
{
    uint64_t ignored;
    return !take(walk, 's') || take_base62(walk, &ignored);
}

static bool walk_plain_identifier(struct walk *walk)
{
    size_t bytes = 0;
    take(walk, 'u');
    char first = peek(walk);
    if (first < '0' || first > '9')
        return false;
    do {
        bytes = bytes * 10 + (size_t)(*walk->at++ - '0');
        if (bytes > (size_t)(walk->end - walk->at))
            return false;
    } while (first != '0' && peek(walk) >= '0' && peek(walk) <= '9');
    take(walk, '_');
    if (bytes > (size_t)(walk->end - walk->at))
        return false;
    walk->at += bytes;
    return true;
}

static bool walk_identifier(struct walk *walk)
{
    return walk_disambiguator(walk) && walk_plain_identifier(walk);
}

static bool walk_binder(struct walk *walk)
{
    uint64_t count;
    if (!take(walk, 'G'))
        return true;
    if (!take_base62(walk, &count))
        return false;
    walk->lifetimes += count + 1;
    return true;
}

static bool walk_constant(struct walk *walk)
{
    uint64_t ignored;
    if (take(walk, 'p'))
        return true;
    if (take(walk, 'B'))
        return take_base62(walk, &ignored);
    char type = peek(walk);
    if (type == '\0' || !strchr("htmyojaslxnibc", type))
        return false;
    walk->at++;
    take(walk, 'n');
    while ((peek(walk) >= '0' && peek(walk) <= '9') || (peek(walk) >= 'a' && peek(walk) <= 'f'))
        walk->at++;
    return take(walk, '_');
}

static bool walk_argument(struct walk *walk)
{
    uint64_t ignored;
    if (take(walk, 'L'))
        return take_base62(walk, &ignored);
    if (take(walk, 'K'))
        return walk_constant(walk);
    return walk_type(walk);
}

/* Up to the "E" that closes a list. */
static bool walk_list(struct walk *walk, bool (*walk_item)(struct walk *))
{
    while (!take(walk, 'E')) {
        if (!walk_item(walk))
            return false;
    }
    return true;
}

static bool walk_function(struct walk *walk)
{
    if (!walk_binder(walk))
        return false;
    take(walk, 'U');
    if (take(walk, 'K') && !take(walk, 'C') && !walk_plain_identifier(walk))
        return false;
    return walk_list(walk, walk_type) && walk_type(walk);
}

static bool walk_trait(struct walk *walk)
{
    if (!walk_path(walk))
        return false;
    while (take(walk, 'p')) {
        if (!walk_plain_identifier(walk) || !walk_type(walk))
            return false;
    }
    return true;
}

static bool walk_type_inside(struct walk *walk)
{
    uint64_t ignored;
    char tag = peek(walk);
    if (tag >= 'a' && tag <= 'z')
        return take(walk, tag); /* a basic type */
    if (tag == '\0' || !strchr("ASTRQPOFD", tag))
        return walk_path(walk);
    walk->at++;
    switch (tag) {
    case 'A':
        return walk_type(walk) && walk_constant(walk);
    case 'T':
        return walk_list(walk, walk_type);
    case 'R':
    case 'Q':
        return (!take(walk, 'L') || take_base62(walk, &ignored)) && walk_type(walk);
    case 'F':
        return walk_function(walk);
    case 'D':
        return walk_binder(walk) && walk_list(walk, walk_trait) && take(walk, 'L') &&
               take_base62(walk, &ignored);
    default: /* S P O */
        return walk_type(walk);
    }
}

static bool walk_type(struct walk *walk)
{
    return leave(walk, enter(walk) && walk_type_inside(walk));
}

static bool walk_path_inside(struct walk *walk)
{
    uint64_t ignored;
    if (take(walk, 'C'))
        return walk_identifier(walk);
    if (take(walk, 'B'))
        return take_base62(walk, &ignored);
    if (take(walk, 'M'))
        return walk_disambiguator(walk) && walk_path(walk) && walk_type(walk);
    if (take(walk, 'X'))
        return walk_disambiguator(walk) && walk_path(walk) && walk_type(walk) && walk_path(walk);
    if (take(walk, 'Y'))
        return walk_type(walk) && walk_path(walk);
    if (take(walk, 'I'))
        return walk_path(walk) && walk_list(walk, walk_argument);
    if (!take(walk, 'N') || walk->at == walk->end)
        return false;
    walk->at++; /* the namespace: any letter */
    return walk_path(walk) && walk_identifier(walk);
}

static bool walk_path(struct walk *walk)
{
    return leave(walk, enter(walk) && walk_path_inside(walk));
}

int rust_v0_lifetimes(const char *name, size_t bytes, uint32_t *ret_count)
{
    if (bytes < 3 || memcmp(name, "_R", 2) != 0)
        return -EINVAL;
    struct walk walk = {.at = name + 2, .end = name + 2};
    while (walk.end < name + bytes && *walk.end != '.' && *walk.end != '$')
        walk.end++;
    if (!walk_path(&walk) || (walk.at < walk.end && !walk_path(&walk)) || walk.at < walk.end)
        return -EINVAL;
    *ret_count = walk.lifetimes < UINT32_MAX ? (uint32_t)walk.lifetimes : UINT32_MAX;
    return 0;
}
