#include "node-agent/rights.h"

#include "node-agent/cgroup.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST_PID_NAMESPACE  0xEFFFFFFCu
#define FIRST_TIME_NAMESPACE 0xEFFFFFFAu

static uint64_t effective_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    if (syscall(SYS_capget, &header, data) == -1)
        return UINT64_MAX;
    return data[0].effective | (uint64_t)data[1].effective << 32;
}

static bool is_other_namespace(const char *path, ino_t first)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_ino != first;
}

static bool proc_is_foreign(void)
{
    char link[32];
    ssize_t length = readlink("/proc/self", link, sizeof(link) - 1);
    link[length > 0 ? length : 0] = '\0';
    return strtol(link, NULL, 10) != (long)getpid();
}

struct rights rights_read(void)
{
    return (struct rights){
        .capabilities = effective_capabilities(),
        .own_pid_namespace = is_other_namespace("/proc/self/ns/pid", FIRST_PID_NAMESPACE),
        .own_time_namespace = is_other_namespace("/proc/self/ns/time", FIRST_TIME_NAMESPACE),
        .own_cgroup_namespace = cgroup_private(),
        .foreign_proc = proc_is_foreign(),
    };
}

/* SYS_ADMIN stands for those split off from it. */
static bool has(const struct rights *rights, unsigned capability)
{
    uint64_t wanted = 1ULL << capability;
    if (capability == CAP_BPF || capability == CAP_PERFMON || capability == CAP_CHECKPOINT_RESTORE)
        wanted |= 1ULL << CAP_SYS_ADMIN;
    return rights->capabilities & wanted;
}

static int capability_missing(struct err *err, const char *name)
{
    return err_say(err, -EPERM,
                   "%s is missing: run as root, or give the program BPF and PERFMON (container: "
                   "securityContext.capabilities.add; systemd: AmbientCapabilities=CAP_BPF CAP_PERFMON)",
                   name);
}

int rights_check(const struct rights *rights, struct err *err)
{
    if (!has(rights, CAP_BPF))
        return capability_missing(err, "CAP_BPF");
    if (!has(rights, CAP_PERFMON))
        return capability_missing(err, "CAP_PERFMON");
    if (rights->own_pid_namespace || rights->foreign_proc)
        return err_say(err, -EINVAL,
                       "this process is not in the node's pid namespace, or /proc is not the node's: run the "
                       "agent there (Kubernetes: hostPID: true; docker: --pid=host)");
    if (rights->own_time_namespace)
        return err_say(err, -EINVAL,
                       "this process has a time namespace of its own: start times of processes cannot be "
                       "compared; run the agent in the node's");
    return 0;
}

void rights_gaps(const struct rights *rights, void (*on_gap)(const char *text, void *ctx), void *ctx)
{
    static const struct {
        unsigned capability;
        const char *text;
    } LESSER[] = {
        {CAP_SYS_PTRACE,
         "CAP_SYS_PTRACE is missing: what processes of others have mapped cannot be read; what "
         "they mapped before the start shows as [unknown code]"},
        {CAP_DAC_READ_SEARCH,
         "CAP_DAC_READ_SEARCH is missing: files closed to this user have no function names, "
         "and some containers no id"},
        {CAP_SYSLOG, "CAP_SYSLOG is missing: kernel frames may have no names"},
        {CAP_CHECKPOINT_RESTORE,
         "CAP_CHECKPOINT_RESTORE is missing: a file deleted or replaced while it runs "
         "has no function names"},
    };
    for (size_t i = 0; i < sizeof(LESSER) / sizeof(LESSER[0]); i++)
        if (!has(rights, LESSER[i].capability))
            on_gap(LESSER[i].text, ctx);
    if (rights->own_cgroup_namespace)
        on_gap("this process has a cgroup namespace of its own: some containers have no id (run the agent in "
               "the node's; docker: --cgroupns=host)",
               ctx);
}
