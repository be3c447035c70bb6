#include "node-agent/tally.h"

#include "common/clock.h"
#include "common/str.h"
#include "common/xalloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define NS_PER_UNIT 1000u /* values are microseconds */
/* The first windows are short: a new agent shows in the fleet at once, and the wishes for names that its first batch
 * raises come back with the acknowledgement of its second. */
#define EARLY_WINDOWS      2u
#define EARLY_WINDOW_MS    1000u
#define FRAME_CACHE_SLOTS  8192u
#define SERIES_CACHE_SLOTS 1024u

/* One window of a node with 64 busy CPUs at 99 Hz has 63,000 samples; the set may take about 10 MB. */
static const struct stackset_limits window_limits = {
    .strings = 32768,
    .executables = 4096,
    .frames = 65536,
    .nodes = 131072,
    .series = 8192,
    .rows = 65536,
    .string_bytes = 2u << 20,
};

/* Direct-mapped: the same few thousand addresses come again and again within a window. */
struct cached_frame {
    uint64_t owner; /* process generation; KERNEL_OWNER for kernel addresses */
    uint64_t address;
    uint32_t window_number;
    uint32_t frame;
};
#define KERNEL_OWNER UINT64_MAX

struct cached_series {
    uint64_t owner;
    char thread_comm[SAMPLE_COMM_BYTES];
    uint32_t window_number;
    uint32_t series;
};

struct tally {
    char *node;
    struct processes *processes;
    struct kallsyms *kallsyms;
    uint32_t window_ms;
    struct tally_window *window;
    uint64_t window_start_mono_ns;
    uint64_t window_end_ms; /* wall clock */
    uint32_t window_number;
    uint64_t lost_count[TALLY_LOSS_COUNT]; /* since the start */
    uint64_t carry_ns; /* what the last rounding to microseconds left over: sums stay exact */
    struct cached_frame frames[FRAME_CACHE_SLOTS];
    struct cached_series series[SERIES_CACHE_SLOTS];
};

static void window_open(struct tally *tally, uint64_t now_wall_ms)
{
    tally->window = xcalloc(1, sizeof(*tally->window));
    tally->window->set = stackset_new(&window_limits);
    tally->window->start_ms = now_wall_ms;
    tally->window_end_ms = now_wall_ms - now_wall_ms % tally->window_ms + tally->window_ms;
    tally->window_start_mono_ns = clock_mono_ns();
    tally->window_number++;
    if (tally->window_number <= EARLY_WINDOWS && tally->window_end_ms > now_wall_ms + EARLY_WINDOW_MS)
        tally->window_end_ms = now_wall_ms + EARLY_WINDOW_MS;
}

struct tally *tally_new(const char *node, struct processes *processes, struct kallsyms *kallsyms,
                        uint32_t window_ms)
{
    struct tally *tally = xcalloc(1, sizeof(*tally));
    tally->node = xstrdup(node);
    tally->processes = processes;
    tally->kallsyms = kallsyms;
    tally->window_ms = window_ms;
    window_open(tally, clock_wall_ns() / CLOCK_NS_PER_MS);
    return tally;
}

void tally_free(struct tally *tally)
{
    if (!tally)
        return;
    tally_window_free(tally->window);
    free(tally->node);
    free(tally);
}

/* ---- series ---- */

static void label(struct stackset *set, struct stackset_label *labels, uint32_t *count, const char *name,
                  const char *value)
{
    if (value[0] == '\0')
        return;
    labels[*count].name = stackset_cstring(set, name);
    labels[*count].value = stackset_cstring(set, value);
    if (labels[*count].name != STACKSET_FULL && labels[*count].value != STACKSET_FULL)
        (*count)++;
}

static uint32_t series_build(struct tally *tally, const struct process *process, const char *thread_comm)
{
    struct stackset *set = tally->window->set;
    struct process_identity identity = process_identity(process);
    char thread[SAMPLE_COMM_BYTES * 4 + 1];
    str_shown(thread, sizeof(thread), thread_comm, strnlen(thread_comm, SAMPLE_COMM_BYTES));

    struct stackset_label labels[8];
    uint32_t count = 0;
    label(set, labels, &count, "node", tally->node);
    label(set, labels, &count, "process", identity.comm);
    label(set, labels, &count, "thread", thread);
    label(set, labels, &count, "container", identity.container_id);
    if (identity.kernel_thread) {
        label(set, labels, &count, "executable", "[kernel]");
    } else if (identity.program) {
        char hex[2 * EXECUTABLE_ID_BYTES + 1];
        str_hex(hex, identity.program->id, identity.program->id_bytes);
        label(set, labels, &count, "executable", identity.program->name);
        label(set, labels, &count, "executable_id", hex);
    }
    return stackset_series(set, labels, count);
}

static uint32_t series_of(struct tally *tally, const struct process *process, const char *thread_comm)
{
    uint64_t owner = process_generation(process);
    uint64_t hash = XXH3_64bits_withSeed(thread_comm, SAMPLE_COMM_BYTES, owner);
    struct cached_series *slot = &tally->series[hash % SERIES_CACHE_SLOTS];
    if (slot->owner == owner && slot->window_number == tally->window_number &&
        memcmp(slot->thread_comm, thread_comm, SAMPLE_COMM_BYTES) == 0)
        return slot->series;
    uint32_t series = series_build(tally, process, thread_comm);
    if (series != STACKSET_FULL) {
        *slot =
            (struct cached_series){.owner = owner, .window_number = tally->window_number, .series = series};
        memcpy(slot->thread_comm, thread_comm, SAMPLE_COMM_BYTES);
    }
    return series;
}

/* ---- frames ---- */

static uint32_t marker_frame(struct stackset *set, const char *text)
{
    uint32_t string = stackset_cstring(set, text);
    return string == STACKSET_FULL ? STACKSET_FULL : stackset_frame(set, FRAME_MARKER, string, 0, 0);
}

static uint32_t kernel_frame(struct tally *tally, uint64_t address)
{
    struct stackset *set = tally->window->set;
    const char *function = "[kernel symbols hidden]";
    const char *module = "[kernel]";
    int rc = kallsyms_find(tally->kallsyms, address, &function, &module);
    if (rc == -ENOENT)
        function = "[unknown kernel function]";
    uint32_t function_string = stackset_cstring(set, function);
    uint32_t module_string = stackset_cstring(set, module);
    if (function_string == STACKSET_FULL || module_string == STACKSET_FULL)
        return STACKSET_FULL;
    return stackset_frame(set, FRAME_KERNEL, function_string, module_string, 0);
}

/* FRAME_NONE: no mapping covers the address. */
#define FRAME_NONE (STACKSET_FULL - 1)

static uint32_t user_frame(struct tally *tally, struct process *process, uint64_t address)
{
    struct stackset *set = tally->window->set;
    const struct image *image;
    uint64_t file_offset;
    if (processes_resolve(tally->processes, process, address, &image, &file_offset) < 0)
        return FRAME_NONE;
    uint32_t name = stackset_cstring(set, image->name);
    if (name == STACKSET_FULL)
        return STACKSET_FULL;
    uint32_t executable =
        stackset_executable(set, image->id, image->id_bytes, (enum executable_id_kind)image->id_kind, name);
    if (executable == STACKSET_FULL)
        return STACKSET_FULL;
    return stackset_frame(set, FRAME_NATIVE, executable, file_offset, 0);
}

/* process NULL: a kernel address. */
static uint32_t frame_of(struct tally *tally, struct process *process, uint64_t address)
{
    uint64_t owner = process ? process_generation(process) : KERNEL_OWNER;
    uint64_t key[2] = {owner, address};
    struct cached_frame *slot = &tally->frames[XXH3_64bits(key, sizeof(key)) % FRAME_CACHE_SLOTS];
    if (slot->owner == owner && slot->address == address && slot->window_number == tally->window_number)
        return slot->frame;
    uint32_t frame = process ? user_frame(tally, process, address) : kernel_frame(tally, address);
    if (frame == STACKSET_FULL || frame == FRAME_NONE)
        return frame;
    if (process)
        owner = process_generation(process); /* the look-up may have re-read the mappings */
    *slot = (struct cached_frame){
        .owner = owner, .address = address, .window_number = tally->window_number, .frame = frame};
    return frame;
}

/* ---- stacks ---- */

/* A frame list, leaf -> root, as it will stand in the tree. */
struct frame_list {
    uint32_t ids[2 * SAMPLE_MAX_FRAMES + 4];
    size_t count;
    bool full;
    bool cut; /* carries a marker */
};

static void list_add(struct frame_list *list, uint32_t frame)
{
    if (frame == STACKSET_FULL)
        list->full = true;
    else if (list->count < sizeof(list->ids) / sizeof(list->ids[0]))
        list->ids[list->count++] = frame;
}

static void list_mark(struct frame_list *list, struct stackset *set, const char *text)
{
    list_add(list, marker_frame(set, text));
    list->cut = true;
}

static void add_kernel(struct tally *tally, const struct sample_record *record, struct frame_list *list)
{
    struct stackset *set = tally->window->set;
    for (uint16_t i = 0; i < record->kernel_count; i++)
        list_add(list, frame_of(tally, NULL, record->frames[i] - (i > 0)));
    if (record->flags & SAMPLE_KERNEL_CUT)
        list_mark(list, set, "[truncated]");
    if (record->flags & SAMPLE_KERNEL_FAILED)
        list_mark(list, set, "[unwind stopped: kernel stack not readable]");
}

/* Walks leaf -> root and stops at the first address that is no code of the process: what lies beyond it was
 * not called by anything, it is what a frame-pointer walk picks up in code built without frame pointers. */
static void add_user(struct tally *tally, struct process *process, const struct sample_record *record,
                     struct frame_list *list)
{
    struct stackset *set = tally->window->set;
    const uint64_t *addresses = record->frames + record->kernel_count;
    for (uint16_t i = 0; i < record->user_count; i++) {
        uint32_t frame = frame_of(tally, process, addresses[i] - (i > 0));
        if (frame == FRAME_NONE) {
            list_mark(list, set, i == 0 ? "[unknown code]" : "[unwind stopped: not code]");
            return;
        }
        list_add(list, frame);
    }
    if (record->flags & SAMPLE_USER_CUT)
        list_mark(list, set, "[truncated]");
    if (record->flags & SAMPLE_USER_FAILED)
        list_mark(list, set, "[unwind stopped: user stack not readable]");
}

static uint32_t stack_node(struct stackset *set, const struct frame_list *list)
{
    uint32_t node = STACKSET_ROOT;
    for (size_t i = list->count; i > 0 && node != STACKSET_FULL; i--)
        node = stackset_node(set, node, list->ids[i - 1]);
    return node;
}

/* The stack cannot be kept, its sample still counts. These few items fit since the limits leave room at the
 * first. */
static uint32_t lost_stack_node(struct stackset *set)
{
    uint32_t frame = marker_frame(set, "[stack lost: window_full]");
    return frame == STACKSET_FULL ? STACKSET_ROOT : stackset_node(set, STACKSET_ROOT, frame);
}

void tally_sample(struct tally *tally, const struct sample_record *record)
{
    struct tally_window *window = tally->window;
    struct process *process = processes_of_sample(tally->processes, record);
    if (!process) {
        tally_lost(tally, TALLY_LOSS_process_full, 1);
        return;
    }
    struct frame_list list = {.count = 0};
    add_kernel(tally, record, &list);
    add_user(tally, process, record, &list);

    uint32_t series = series_of(tally, process, record->thread_comm);
    uint32_t node = list.full ? STACKSET_FULL : stack_node(window->set, &list);
    if (node == STACKSET_FULL)
        node = lost_stack_node(window->set);
    uint64_t weight_ns = record->weight_ns + tally->carry_ns;
    if (series == STACKSET_FULL || node == STACKSET_FULL ||
        stackset_add(window->set, series, node, weight_ns / NS_PER_UNIT, 1) == STACKSET_FULL) {
        tally_lost(tally, TALLY_LOSS_series_full, 1);
        return;
    }
    tally->carry_ns = weight_ns % NS_PER_UNIT;
    window->taken_count++;
    window->truncated_count += list.cut;
}

void tally_lost(struct tally *tally, enum tally_loss cause, uint64_t count)
{
    tally->window->lost_count[cause] += count;
    tally->window->taken_count += count;
    tally->lost_count[cause] += count;
}

uint64_t tally_lost_count(const struct tally *tally, enum tally_loss cause)
{
    return tally->lost_count[cause];
}

struct tally_window *tally_take(struct tally *tally, uint64_t now_wall_ms, bool flush)
{
    struct tally_window *window = tally->window;
    bool clock_stepped_back = now_wall_ms < window->start_ms;
    if (!flush && now_wall_ms < tally->window_end_ms && !clock_stepped_back)
        return NULL;
    window->window_ms = (uint32_t)((clock_mono_ns() - tally->window_start_mono_ns) / CLOCK_NS_PER_MS);
    window_open(tally, now_wall_ms);
    stackset_seal(window->set);
    return window;
}
