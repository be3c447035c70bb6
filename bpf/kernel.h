/* kernel: the few kernel types the programs read, by CO-RE: field offsets come from the running kernel's BTF,
 * so only names and types matter here, not layout. Hand-written from
 * include/linux/{sched,cgroup,kernfs,perf_event}.h (6.x). */
#ifndef BPF_KERNEL_H
#define BPF_KERNEL_H

#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
    __u64 id;
};

struct cgroup {
    struct kernfs_node *kn;
};

struct cgroup_subsys_state {
    struct cgroup *cgroup;
};

/* Only the name counts: the value comes from the running kernel, which may lack it (CONFIG_MEMCG off). */
enum cgroup_subsys_id {
    memory_cgrp_id,
};

struct css_set {
    struct cgroup_subsys_state *subsys[16];
};

struct task_struct {
    unsigned int flags;
    int pid;
    int tgid;
    struct task_struct *group_leader;
    __u64 start_boottime;
    char comm[16];
    struct css_set *cgroups;
};

#pragma clang attribute pop

/* include/linux/sched.h: I am a kernel thread. */
#define PF_KTHREAD 0x00200000

#endif
