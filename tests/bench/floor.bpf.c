/* floor: the least a frame-pointer profiler can do at a fire: both stacks into a ring buffer, nothing else.
 * What sample.bpf.c is measured against (docs/performance.md). */
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <linux/types.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define FRAMES 127
#define HALF   (FRAMES * 8)

struct stacks {
    __u64 frames[2 * FRAMES];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct stacks);
} scratch SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4 << 20);
} ring SEC(".maps");

SEC("perf_event")
int floor_sample(struct bpf_perf_event_data *ctx)
{
    __u32 zero = 0;
    struct stacks *stacks = bpf_map_lookup_elem(&scratch, &zero);
    if (!stacks)
        return 0;
    long kernel = bpf_get_stack(ctx, stacks->frames, HALF, 0);
    if (kernel < 0 || kernel > HALF)
        kernel = 0;
    long user = bpf_get_stack(ctx, (void *)stacks->frames + kernel, HALF, BPF_F_USER_STACK);
    if (user < 0 || user > HALF)
        user = 0;
    bpf_ringbuf_output(&ring, stacks, kernel + user, BPF_RB_NO_WAKEUP);
    return 0;
}
