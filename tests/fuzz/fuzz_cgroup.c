/* The text of /proc/PID/cgroup, and the same bytes as one path. */
#include "node-agent/cgroup_path.c"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(int rc, const struct cgroup_identity *identity)
{
    size_t id_bytes = strnlen(identity->container_id, CGROUP_ID_CHARS);
    if (rc != 0 && rc != -ENOENT)
        abort();
    if (rc == 0 &&
        (id_bytes == 0 || id_bytes == CGROUP_ID_CHARS || memchr(identity->container_id, '/', id_bytes)))
        abort();
    if (strnlen(identity->pod_uid, CGROUP_ID_CHARS) == CGROUP_ID_CHARS || (rc < 0 && id_bytes))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct cgroup_identity of_text = {0}, of_path = {0};
    check(cgroup_parse((const char *)data, bytes, &of_text), &of_text);
    check(cgroup_parse_path((const char *)data, bytes, &of_path), &of_path);
    return 0;
}
