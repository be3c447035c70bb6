/* cgroup: the text of /proc/PID/cgroup -> container id; and a cache from cgroup ids to container ids.
 * Shapes:   container ids are the runtime's bare id (64 hex usually), NUL-terminated, "" outside containers.
 *           Forms: cgroupfs and systemd drivers of containerd, CRI-O, docker, cri-dockerd, podman; ".scope";
 *           the colon form (slice:prefix:id); kubepods static pods with a config hash; nested (kind: a
 *           container in a container: the innermost id). v2 line first, then name=systemd, then the v1
 *           controllers, until one yields an id.
 *           A bare component of exactly 64 hex digits is a container wherever it stands; any other name only
 *           below a directory known to hold containers ("/default", "/lxc", "/ecs" ...).
 *           Relative paths ("/../..") come from a private cgroup namespace: handled, and cgroup_private()
 *           tells.
 * Limits:   CGROUP_TEXT_BYTES of text; CGROUPS_MAX cache entries, oldest out; what could not be told is asked
 *           again after CGROUP_UNKNOWN_MS.
 * Threads:  the parser is pure; the cache belongs to the collector.
 * Source:   cgroups(7), kernel Documentation/admin-guide/cgroup-v2.rst; forms in tests/unit/test_cgroup.c. */
#ifndef NODE_AGENT_CGROUP_H
#define NODE_AGENT_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CGROUP_TEXT_BYTES 65536u
#define CGROUP_ID_CHARS   72u
#define CGROUPS_MAX       16384u
#define CGROUP_UNKNOWN_MS 10000u

struct cgroup_identity {
    char container_id[CGROUP_ID_CHARS]; /* "" = none */
    char pod_uid[CGROUP_ID_CHARS]; /* dashes as the API writes them; or the static pod's hash; "" = none */
};

/* Pure: the whole text of a /proc/PID/cgroup. 0, or -ENOENT when it names no container. */
int cgroup_parse(const char *text, size_t bytes, struct cgroup_identity *ret_identity);
/* One path, without the "N:controllers:" before it. */
int cgroup_parse_path(const char *path, size_t bytes, struct cgroup_identity *ret_identity);

struct cgroups;
struct cgroups *cgroups_new(void);
void cgroups_free(struct cgroups *cgroups); /* NULL is fine */
/* Identity of a process whose sample carried these ids (memory cgroup, v2 cgroup; 0 and 1 = none and root).
 * The ids say where the process was when it was sampled, /proc/TGID/cgroup where it is now: so the ids are
 * turned into paths by file handle first, and the text counts only where it agrees with them, or where there
 * are no ids. Never NULL; unknown = both fields "". Borrowed until the next call. */
const struct cgroup_identity *cgroups_get(struct cgroups *cgroups, int tgid, uint64_t memcg_id,
                                          uint64_t cgroup_id);
/* True when this process itself sits in a private cgroup namespace that hides the node's paths. */
bool cgroup_private(void);

#endif
