#include "node-agent/cgroup.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ID   "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970"
#define ID2  "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9"
#define UID  "2f5b1a3c-9d8e-4f70-8a1b-c2d3e4f50617"
#define UIDU "2f5b1a3c_9d8e_4f70_8a1b_c2d3e4f50617"
#define HASH "3c28a2fd8e2f4b0ea5c1b7d9e6f40321"

struct fixture {
    const char *path, *id, *pod; /* id "": no container */
};

static const struct fixture FIXTURES[] = {
    /* containerd */
    {"/kubepods/burstable/pod" UID "/" ID, ID, UID},
    {"/kubepods/pod" UID "/" ID, ID, UID},
    {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UIDU ".slice/cri-containerd-" ID
     ".scope",
     ID, UID},
    {"/kubepods.slice/kubepods-pod" UIDU ".slice/cri-containerd-" ID ".scope", ID, UID},
    /* colon form: the systemd driver asked for, the runtime without it; under the runtime's own service too
     */
    {"/kubepods-besteffort-pod" UIDU ".slice:cri-containerd:" ID, ID, UID},
    {"/system.slice/containerd.service/kubepods-besteffort-pod" UIDU ".slice:cri-containerd:" ID, ID, UID},
    /* CRI-O, its inner "container" group, cgroupfs driver, its monitor */
    {"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UIDU ".slice/crio-" ID ".scope", ID,
     UID},
    {"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UIDU ".slice/crio-" ID
     ".scope/container",
     ID, UID},
    {"/kubepods/besteffort/pod" UID "/crio-" ID, ID, UID},
    {"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UIDU ".slice/crio-conmon-" ID
     ".scope",
     "", ""},
    /* docker, cri-dockerd */
    {"/docker/" ID, ID, ""},
    {"/system.slice/docker-" ID ".scope", ID, ""},
    {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UIDU ".slice/docker-" ID ".scope", ID,
     UID},
    {"/kubepods/besteffort/pod" UID "/" ID "/", ID, UID},
    {"/" ID, ID, ""},
    /* podman: root, rootless, in a pod */
    {"/machine.slice/libpod-" ID ".scope", ID, ""},
    {"/machine.slice/libpod-" ID ".scope/container", ID, ""},
    {"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope/container", ID, ""},
    {"/machine.slice/machine-libpod_pod_" ID2 ".slice/libpod-" ID ".scope", ID, ""},
    {"/libpod_parent/libpod-" ID, ID, ""},
    {"/libpod_parent/libpod-conmon-" ID, "", ""},
    {"/libpod_parent/libpod_pod_" ID2, "", ""},
    {"/machine.slice/machine-libpod_pod_" ID2 ".slice", "", ""},
    /* static pods: a hash where others have a UID */
    {"/kubepods/burstable/pod" HASH "/" ID, ID, HASH},
    {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" HASH ".slice/cri-containerd-" ID
     ".scope",
     ID, HASH},
    /* nested: kind, systemd inside a container, docker in a pod */
    {"/docker/" ID2 "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
     "kubelet-kubepods-burstable-pod" UIDU ".slice/cri-containerd-" ID ".scope",
     ID, UID},
    {"/docker/" ID2 "/kubelet/kubepods/besteffort/pod" UID "/" ID, ID, UID},
    {"/docker/" ID2 "/kubelet.slice/kubelet.service", ID2, ""},
    {"/kubepods/burstable/pod" UID "/" ID "/system.slice/nginx.service", ID, UID},
    {"/kubepods/burstable/pod" UID "/" ID2 "/docker/" ID, ID, UID},
    /* containerd without Kubernetes, runc by hand, kata, buildkit, lxc, ecs */
    {"/default/redis-1", "redis-1", ""},
    {"/default/" ID, ID, ""},
    {"/k8s.io/" ID, ID, ""},
    {"/system.slice/nerdctl-" ID ".scope", ID, ""},
    {"/kata_overhead/" ID, ID, ""},
    {"/docker/buildkit/abc123def", "abc123def", ""},
    {"/lxc/web", "web", ""},
    {"/lxc.payload.web/system.slice/ssh.service", "web", ""},
    {"/ecs/f0e1d2c3b4a5968778695a4b3c2d1e0f/" ID, ID, ""},
    {"/ecs/f0e1d2c3b4a5968778695a4b3c2d1e0f/f0e1d2c3b4a5968778695a4b3c2d1e0f-1234567890",
     "f0e1d2c3b4a5968778695a4b3c2d1e0f-1234567890", ""},
    /* seen from a private cgroup namespace */
    {"/../../burstable/pod" UID "/" ID, ID, UID},
    {"/../cri-containerd-" ID ".scope", ID, ""},
    {"/../..", "", ""},
    /* no containers */
    {"/", "", ""},
    {"", "", ""},
    {"/init.scope", "", ""},
    {"/user.slice/user-1000.slice/session-2.scope", "", ""},
    {"/system.slice/containerd.service", "", ""},
    {"/system.slice/docker.service", "", ""},
    {"/process_api/305c681ddc0f7c0ae16cbb4d216296bb", "", ""},
    {"/kubepods/burstable/pod" UID, "", ""},
    {"/a/default/redis-1", "", ""},
    {"/default/x.service", "", ""},
    {"/system.slice/run-" ID ".mount", "", ""},
    {"/app/" ID "0", "", ""}, /* 65 digits */
    {"/app/4F797C539E6C745DE61A93CA3FF892358ECBCACCD8414D5DB545C38428142970", "", ""},
};

static void reads_the_path_forms_of_all_runtimes_and_drivers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(FIXTURES) / sizeof(FIXTURES[0]); i++) {
        const struct fixture *fixture = &FIXTURES[i];
        struct cgroup_identity identity = {0};
        int rc = cgroup_parse_path(fixture->path, strlen(fixture->path), &identity);
        if (rc != (fixture->id[0] ? 0 : -ENOENT))
            print_message("# %s gave %d %s\n", fixture->path, rc, identity.container_id);
        assert_int_equal(rc, fixture->id[0] ? 0 : -ENOENT);
        assert_string_equal(identity.container_id, fixture->id);
        assert_string_equal(identity.pod_uid, fixture->pod);
    }
}

static const char *id_of(const char *text)
{
    static struct cgroup_identity identity;
    int rc = cgroup_parse(text, strlen(text), &identity);
    return rc == 0 ? identity.container_id : rc == -ENOENT ? "" : "?";
}

static void tries_v2_then_systemd_then_the_controllers(void **state)
{
    (void)state;
    assert_string_equal(id_of("0::/system.slice/docker-" ID ".scope\n"), ID);
    /* hybrid: v2 says nothing, name=systemd does, whatever the order of lines */
    assert_string_equal(id_of("12:pids:/docker/" ID2 "\n1:name=systemd:/docker/" ID "\n0::/\n"), ID);
    assert_string_equal(id_of("12:pids:/docker/" ID2 "\n1:name=systemd:/docker/" ID2 "\n0::/docker/" ID "\n"),
                        ID);
    /* only one controller's hierarchy has it; the number before the colon means nothing */
    assert_string_equal(id_of("9:name=systemd:/\n8:pids:/\n4:memory:/docker/" ID "\n0::/\n"), ID);
    assert_string_equal(id_of("4:memory:/docker/" ID), ID); /* no newline at the end */
    assert_string_equal(id_of("3:cpu,cpuacct:/kubepods-besteffort-pod" UIDU ".slice:cri-containerd:" ID "\n"),
                        ID);
}

static void a_hybrid_host_without_containers_has_none(void **state)
{
    (void)state;
    assert_string_equal(
        id_of("9:name=systemd:/\n8:pids:/\n7:blkio:/\n6:freezer:/\n5:devices:/\n"
              "4:memory:/process_api/305c681ddc0f7c0ae16cbb4d216296bb\n3:cpuset:/\n2:cpuacct:/\n"
              "1:cpu:/\n0::/\n"),
        "");
    assert_string_equal(id_of(""), "");
    assert_string_equal(id_of("\n\n"), "");
    assert_string_equal(id_of("0:"), "");
    assert_string_equal(id_of("no colons at all\n0::/docker/" ID "\n"), ID);
}

static void a_path_deeper_than_the_limit_keeps_its_leaf(void **state)
{
    (void)state;
    char path[4096] = "";
    struct cgroup_identity identity;
    for (int i = 0; i < 200; i++)
        memcpy(path + 2 * i, "/d", 3);
    snprintf(path + 400, sizeof(path) - 400, "/kubepods/pod%s/%s/x", UID, ID);
    assert_int_equal(cgroup_parse_path(path, strlen(path), &identity), 0);
    assert_string_equal(identity.container_id, ID);
    assert_string_equal(identity.pod_uid, UID);
}

static void names_too_long_to_be_an_id_are_none(void **state)
{
    (void)state;
    char path[128] = "/default/";
    struct cgroup_identity identity;
    memset(path + 9, 'n', 71);
    assert_int_equal(cgroup_parse_path(path, 9 + 71, &identity), 0);
    memset(path + 9, 'n', 72);
    assert_int_equal(cgroup_parse_path(path, 9 + 72, &identity), -ENOENT);
}

/* ---- the cache, on real cgroups -------------------------------------------------------------- */

static char parent[256], inside[512];

static int put_self(const char *directory)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/cgroup.procs", directory);
    FILE *file = fopen(path, "we");
    if (!file)
        return -1;
    int rc = fprintf(file, "%d\n", getpid()) > 0 ? 0 : -1;
    return fclose(file) == 0 ? rc : -1;
}

/* A memory (v1) or unified (v2) cgroup of the test's own; skips without the rights. */
static bool make_groups(void)
{
    static const char *const ROOTS[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(parent, sizeof(parent), "%s/fleetprof-test-%d", ROOTS[i], getpid());
        if (mkdir(parent, 0700) == -1)
            continue;
        snprintf(inside, sizeof(inside), "%s/docker-%s.scope", parent, ID);
        if (mkdir(inside, 0700) == 0)
            return true;
        rmdir(parent);
    }
    return false;
}

static uint64_t id_of_directory(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_ino;
}

/* Sampled in the runtime's group, read after the move into the container's (and the other way round): each id
 * must keep its own answer. */
static void an_id_is_never_given_the_place_the_process_moved_to(void **state)
{
    (void)state;
    if (!make_groups()) {
        print_message("needs root and a writable cgroup file system\n");
        skip();
    }
    uint64_t outer_id = id_of_directory(parent), inner_id = id_of_directory(inside);
    int stop[2];
    assert_int_equal(pipe(stop), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        close(stop[1]);
        _exit(put_self(inside) == 0 && read(stop[0], &byte, 1) >= 0 ? 0 : 1);
    }
    struct cgroups *cgroups = cgroups_new();
    assert_string_equal(cgroups_get(cgroups, pid, 0, inner_id)->container_id, ID);
    assert_string_equal(cgroups_get(cgroups, pid, 0, outer_id)->container_id, "");
    assert_string_equal(cgroups_get(cgroups, pid, outer_id, 1)->container_id, "");
    close(stop[1]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    rmdir(inside);
    rmdir(parent);
    /* both are gone: what was known stays known */
    assert_string_equal(cgroups_get(cgroups, pid, 0, inner_id)->container_id, ID);
    close(stop[0]);
    cgroups_free(cgroups);
}

static void without_ids_the_text_of_the_process_is_read(void **state)
{
    (void)state;
    struct cgroups *cgroups = cgroups_new();
    char text[8192] = "";
    FILE *file = fopen("/proc/self/cgroup", "re");
    assert_non_null(file);
    size_t bytes = fread(text, 1, sizeof(text), file);
    fclose(file);
    struct cgroup_identity expected = {0};
    cgroup_parse(text, bytes, &expected);
    assert_string_equal(cgroups_get(cgroups, getpid(), 0, 1)->container_id, expected.container_id);
    assert_string_equal(cgroups_get(cgroups, getpid(), 1, 0)->container_id, expected.container_id);
    assert_string_equal(cgroups_get(cgroups, 0x7ffffff0, 0, 0)->container_id, "");
    cgroups_free(cgroups);
    cgroups_free(NULL);
}

static void the_cache_stays_within_its_limit(void **state)
{
    (void)state;
    struct cgroups *cgroups = cgroups_new();
    for (uint64_t id = 1; id <= CGROUPS_MAX + 100; id++)
        assert_string_equal(cgroups_get(cgroups, -1, id << 40, 0)->container_id, "");
    cgroups_free(cgroups);
}

static void tells_a_private_cgroup_namespace(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(stat("/proc/self/ns/cgroup", &st), 0);
    assert_int_equal(cgroup_private(), st.st_ino != 0xEFFFFFFB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_path_forms_of_all_runtimes_and_drivers),
        cmocka_unit_test(tries_v2_then_systemd_then_the_controllers),
        cmocka_unit_test(a_hybrid_host_without_containers_has_none),
        cmocka_unit_test(a_path_deeper_than_the_limit_keeps_its_leaf),
        cmocka_unit_test(names_too_long_to_be_an_id_are_none),
        cmocka_unit_test(an_id_is_never_given_the_place_the_process_moved_to),
        cmocka_unit_test(without_ids_the_text_of_the_process_is_read),
        cmocka_unit_test(the_cache_stays_within_its_limit),
        cmocka_unit_test(tells_a_private_cgroup_namespace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
