/* The pure half of cgroup.h: text -> identity. */
#include "node-agent/cgroup.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#define PATH_PARTS_MAX 64u
#define HEX_ID_CHARS   64u
#define UUID_CHARS     36u
#define POD_HASH_CHARS 32u

struct part {
    const char *text;
    size_t bytes;
};

static bool part_is(struct part part, const char *text)
{
    return part.bytes == strlen(text) && memcmp(part.text, text, part.bytes) == 0;
}

static bool part_starts(struct part part, const char *text)
{
    return part.bytes >= strlen(text) && memcmp(part.text, text, strlen(text)) == 0;
}

static bool part_ends(struct part part, const char *text)
{
    size_t bytes = strlen(text);
    return part.bytes >= bytes && memcmp(part.text + part.bytes - bytes, text, bytes) == 0;
}

static bool is_hex(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (!(text[i] >= '0' && text[i] <= '9') && !(text[i] >= 'a' && text[i] <= 'f'))
            return false;
    return true;
}

static bool is_unit(struct part part)
{
    static const char *const SUFFIXES[] = {".slice", ".service", ".scope", ".mount", ".socket", ".swap"};
    for (size_t i = 0; i < sizeof(SUFFIXES) / sizeof(SUFFIXES[0]); i++)
        if (part_ends(part, SUFFIXES[i]))
            return true;
    return false;
}

static int copy_id(char out[CGROUP_ID_CHARS], const char *text, size_t bytes)
{
    if (bytes == 0 || bytes >= CGROUP_ID_CHARS)
        return -ENOENT;
    memcpy(out, text, bytes);
    out[bytes] = '\0';
    return 0;
}

/* What stands before the 64 digits: "" or "cri-containerd-", "docker-", "slice:crio:" ... The monitor process
 * of a container (conmon) and the directory of a podman pod carry an id too, but are not the container. */
static bool is_container_prefix(struct part prefix)
{
    if (prefix.bytes == 0)
        return true;
    char last = prefix.text[prefix.bytes - 1];
    if (last != '-' && last != ':' && last != '_')
        return false;
    prefix.bytes--;
    return !part_ends(prefix, "conmon") && !part_ends(prefix, "libpod_pod");
}

/* A component that says by itself that it is a container's: it ends in exactly 64 hex digits. */
static int id_of_digits(struct part part, char out[CGROUP_ID_CHARS])
{
    if (part_ends(part, ".scope"))
        part.bytes -= strlen(".scope");
    else if (is_unit(part) && !memchr(part.text, ':', part.bytes))
        return -ENOENT;
    if (part.bytes < HEX_ID_CHARS)
        return -ENOENT;
    struct part prefix = {part.text, part.bytes - HEX_ID_CHARS};
    if (!is_hex(part.text + prefix.bytes, HEX_ID_CHARS) || !is_container_prefix(prefix))
        return -ENOENT;
    return copy_id(out, part.text + prefix.bytes, HEX_ID_CHARS);
}

/* containerd's rule for identifiers: alphanumeric runs joined by single '.', '_' or '-'. */
static bool is_name(struct part part)
{
    if (part.bytes == 0 || is_unit(part))
        return false;
    for (size_t i = 0; i < part.bytes; i++) {
        bool joint = part.text[i] == '.' || part.text[i] == '_' || part.text[i] == '-';
        if (!joint && !isalnum((unsigned char)part.text[i]))
            return false;
        if (joint && (i == 0 || i + 1 == part.bytes || !isalnum((unsigned char)part.text[i + 1])))
            return false;
    }
    return true;
}

/* Directories whose children are containers whatever they are called. */
static bool holds_containers(const struct part *parts, size_t at)
{
    static const char *const ANYWHERE[] = {"docker", "lxc", "lxc.payload", "buildkit", "garden"};
    if (at >= 2 && part_is(parts[at - 2], "ecs")) /* /ecs/<task>/<container> */
        return true;
    if (at == 1 &&
        (part_is(parts[0], "default") || part_is(parts[0], "k8s.io"))) /* containerd's namespaces */
        return true;
    for (size_t i = 0; at >= 1 && i < sizeof(ANYWHERE) / sizeof(ANYWHERE[0]); i++)
        if (part_is(parts[at - 1], ANYWHERE[i]))
            return true;
    return false;
}

static int id_of_part(const struct part *parts, size_t at, char out[CGROUP_ID_CHARS])
{
    struct part part = parts[at];
    if (id_of_digits(part, out) == 0)
        return 0;
    if (part_starts(part, "lxc.payload.")) {
        part.text += strlen("lxc.payload.");
        part.bytes -= strlen("lxc.payload.");
    } else if (part_starts(part, "libpod_pod_") || part_is(part, "buildkit") ||
               !holds_containers(parts, at)) {
        return -ENOENT;
    }
    if (!is_name(part))
        return -ENOENT;
    return copy_id(out, part.text, part.bytes);
}

static bool is_uuid(const char *text)
{
    for (size_t i = 0; i < UUID_CHARS; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text[i] != '-' && text[i] != '_' : !is_hex(text + i, 1))
            return false;
    }
    return true;
}

/* "pod<uid>", "kubepods-burstable-pod<uid>.slice", the same before a colon; uid a UUID or a static pod's
 * hash. */
static int pod_of_part(struct part part, char out[CGROUP_ID_CHARS])
{
    const char *colon = memchr(part.text, ':', part.bytes);
    if (colon)
        part.bytes = (size_t)(colon - part.text);
    if (part_ends(part, ".slice"))
        part.bytes -= strlen(".slice");
    size_t uid_bytes =
        part.bytes >= UUID_CHARS + 3 && is_uuid(part.text + part.bytes - UUID_CHARS) ? UUID_CHARS
        : part.bytes >= POD_HASH_CHARS + 3 && is_hex(part.text + part.bytes - POD_HASH_CHARS, POD_HASH_CHARS)
            ? POD_HASH_CHARS
            : 0;
    if (uid_bytes == 0 || memcmp(part.text + part.bytes - uid_bytes - 3, "pod", 3) != 0)
        return -ENOENT;
    if (part.bytes > uid_bytes + 3 && part.text[part.bytes - uid_bytes - 4] != '-')
        return -ENOENT;
    int rc = copy_id(out, part.text + part.bytes - uid_bytes, uid_bytes);
    for (char *c = out; rc == 0 && (c = strchr(c, '_'));)
        *c = '-';
    return rc;
}

/* Components without the empty ones and "..". Of a path deeper than the limit the leaf's end is what counts.
 */
static size_t split(const char *path, size_t bytes, struct part parts[PATH_PARTS_MAX])
{
    size_t count = 0;
    for (size_t at = 0; at < bytes;) {
        const char *slash = memchr(path + at, '/', bytes - at);
        struct part part = {path + at, slash ? (size_t)(slash - path) - at : bytes - at};
        at += part.bytes + 1;
        if (part.bytes == 0 || part_is(part, "..") || part_is(part, "."))
            continue;
        if (count == PATH_PARTS_MAX) {
            memmove(parts, parts + 1, (PATH_PARTS_MAX - 1) * sizeof(*parts));
            count--;
        }
        parts[count++] = part;
    }
    return count;
}

int cgroup_parse_path(const char *path, size_t bytes, struct cgroup_identity *ret_identity)
{
    struct part parts[PATH_PARTS_MAX];
    struct cgroup_identity identity = {0};
    size_t count = split(path, bytes, parts), at = count;
    while (at > 0 && id_of_part(parts, at - 1, identity.container_id) < 0)
        at--;
    if (at == 0)
        return -ENOENT;
    while (at > 0 && pod_of_part(parts[at - 1], identity.pod_uid) < 0)
        at--;
    *ret_identity = identity;
    return 0;
}

enum line_rank { RANK_UNIFIED, RANK_SYSTEMD, RANK_CONTROLLER, RANK_COUNT };

/* "N:controllers:path"; the path may hold colons itself. */
static int split_line(const char *line, size_t bytes, enum line_rank *ret_rank, struct part *ret_path)
{
    const char *first = memchr(line, ':', bytes);
    if (!first)
        return -EINVAL;
    size_t rest = bytes - (size_t)(first + 1 - line);
    const char *second = memchr(first + 1, ':', rest);
    if (!second)
        return -EINVAL;
    struct part names = {first + 1, (size_t)(second - first - 1)};
    *ret_rank = names.bytes == 0                 ? RANK_UNIFIED
                : part_is(names, "name=systemd") ? RANK_SYSTEMD
                                                 : RANK_CONTROLLER;
    *ret_path = (struct part){second + 1, bytes - (size_t)(second + 1 - line)};
    return 0;
}

int cgroup_parse(const char *text, size_t bytes, struct cgroup_identity *ret_identity)
{
    if (bytes > CGROUP_TEXT_BYTES)
        bytes = CGROUP_TEXT_BYTES;
    for (int wanted = RANK_UNIFIED; wanted < RANK_COUNT; wanted++) {
        for (size_t at = 0; at < bytes;) {
            const char *newline = memchr(text + at, '\n', bytes - at);
            size_t line_bytes = newline ? (size_t)(newline - text) - at : bytes - at;
            enum line_rank rank;
            struct part path;
            if (split_line(text + at, line_bytes, &rank, &path) == 0 && (int)rank == wanted &&
                cgroup_parse_path(path.text, path.bytes, ret_identity) == 0)
                return 0;
            at += line_bytes + 1;
        }
    }
    return -ENOENT;
}
