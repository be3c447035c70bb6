/* cgroup: the text of /proc/PID/cgroup -> container id; and a cache from cgroup ids to container ids.
 * Shapes:   container ids are the runtime's bare id (64 hex usually), NUL-terminated, "" outside containers.
 *           Forms: cgroupfs and systemd drivers of containerd, CRI-O, docker, cri-dockerd, podman; ".scope"; the colon form
 *           (slice:prefix:id); kubepods static pods with a config hash; nested (kind: a container in a container: the
 *           innermost id). v2 line first, then name=systemd, then the v1 controllers, until one yields an id.
 *           Relative paths ("/../..") come from a private cgroup namespace: handled, and cgroup_private() tells.
 * Limits:   CGROUP_TEXT_BYTES of text; CGROUPS_MAX cache entries, oldest out.
 * Threads:  the parser is pure; the cache belongs to the collector.
 * Source:   cgroups(7), kernel Documentation/admin-guide/cgroup-v2.rst; forms listed in tests/unit/test_cgroup.c. */
#ifndef NODE_AGENT_CGROUP_H
#define NODE_AGENT_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CGROUP_TEXT_BYTES 65536u
#define CGROUP_ID_CHARS   72u
#define CGROUPS_MAX       16384u

struct cgroup_identity {
    char container_id[CGROUP_ID_CHARS]; /* "" = none */
    char pod_uid[CGROUP_ID_CHARS];      /* dashes as the API writes them; or the static pod's hash; "" = none */
};

/* Pure: the whole text of a /proc/PID/cgroup. 0, or -ENOENT when it names no container. */
int cgroup_parse(const char *text, size_t bytes, struct cgroup_identity *ret_identity);
/* One path, without the "N:controllers:" before it. */
int cgroup_parse_path(const char *path, size_t bytes, struct cgroup_identity *ret_identity);

struct cgroups;
struct cgroups *cgroups_new(void);
void cgroups_free(struct cgroups *cgroups);
/* Identity of a process: from the cache by memcg_id, else cgroup_id, else /proc/TGID/cgroup, else by searching the cgroup
 * file system for the directory with that inode. Never NULL; unknown = both fields "". */
const struct cgroup_identity *cgroups_get(struct cgroups *cgroups, int tgid, uint64_t memcg_id, uint64_t cgroup_id);
/* True when this process itself sits in a private cgroup namespace that hides the node's paths. */
bool cgroup_private(void);

#endif
