#include "node-agent/kallsyms.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES         (64u << 10)
#define LINE_BYTES         1024u /* of a line's beginning; the rest of a longer one is cut */
#define MODULE_NAME_BYTES  72u   /* MODULE_NAME_LEN of the kernel is 56 */
#define MODULE_KERNEL      0u
#define NAME_REMOVED       UINT32_MAX
#define HIDDEN_AFTER_BYTES (256u << 10) /* of lines without one address */
#define NAMES_MAX_BYTES    (256u << 20)

/* names[name_at] is the module's number (two bytes), the kind (one), then the name and its NUL. */
struct entry {
    uint64_t address;
    uint32_t name_at;
} __attribute__((packed, aligned(4)));

#define NAME_HEAD_BYTES 3u
#define PADDING         "__pfx_"

/* From an event, until the next read. */
struct added {
    uint64_t start, end;
    char *name;
};

struct kallsyms {
    char *path;
    struct entry *items;
    size_t count, room;
    char *names;
    size_t names_bytes, names_room;
    char (*modules)[MODULE_NAME_BYTES];
    size_t module_count, module_room;
    struct added *added;
    size_t added_count;
    bool hidden;
    bool was_read;
    uint64_t read_ns; /* when it was last read */
    uint64_t wait_ns; /* until it may be read again */
};

struct kallsyms *kallsyms_new(const char *path)
{
    struct kallsyms *kallsyms = xcalloc(1, sizeof(*kallsyms));
    kallsyms->path = xstrdup(path);
    return kallsyms;
}

static void forget_events(struct kallsyms *kallsyms)
{
    for (size_t i = 0; i < kallsyms->added_count; i++)
        free(kallsyms->added[i].name);
    free(kallsyms->added);
    kallsyms->added = NULL;
    kallsyms->added_count = 0;
}

static void forget(struct kallsyms *kallsyms)
{
    forget_events(kallsyms);
    free(kallsyms->items);
    free(kallsyms->names);
    free(kallsyms->modules);
    kallsyms->items = NULL;
    kallsyms->names = NULL;
    kallsyms->modules = NULL;
    kallsyms->count = kallsyms->room = 0;
    kallsyms->names_bytes = kallsyms->names_room = 0;
    kallsyms->module_count = kallsyms->module_room = 0;
}

void kallsyms_free(struct kallsyms *kallsyms)
{
    if (!kallsyms)
        return;
    forget(kallsyms);
    free(kallsyms->path);
    free(kallsyms);
}

/* ---- reading ---- */

static uint16_t module_number(struct kallsyms *kallsyms, const char *name, size_t bytes)
{
    if (bytes >= MODULE_NAME_BYTES)
        bytes = MODULE_NAME_BYTES - 1;
    /* Symbols of a module stand together: the last one met is nearly always the one. */
    for (size_t i = kallsyms->module_count; i-- > 0;) {
        if (strncmp(kallsyms->modules[i], name, bytes) == 0 && kallsyms->modules[i][bytes] == '\0')
            return (uint16_t)i;
    }
    if (kallsyms->module_count >= KALLSYMS_MODULES_MAX)
        return MODULE_KERNEL;
    if (kallsyms->module_count == kallsyms->module_room) {
        kallsyms->module_room = kallsyms->module_room ? kallsyms->module_room * 2 : 16;
        kallsyms->modules = xrealloc_array(kallsyms->modules, kallsyms->module_room, MODULE_NAME_BYTES);
    }
    char *slot = kallsyms->modules[kallsyms->module_count];
    memcpy(slot, name, bytes);
    slot[bytes] = '\0';
    return (uint16_t)kallsyms->module_count++;
}

static bool is_last_name(const struct kallsyms *kallsyms, char kind, uint16_t module, const char *name,
                         size_t name_bytes)
{
    if (kallsyms->count == 0)
        return false;
    const char *last = kallsyms->names + kallsyms->items[kallsyms->count - 1].name_at;
    return memcmp(last, &module, sizeof(module)) == 0 && last[2] == kind &&
           strncmp(last + NAME_HEAD_BYTES, name, name_bytes) == 0 &&
           last[NAME_HEAD_BYTES + name_bytes] == '\0';
}

static void add_entry(struct kallsyms *kallsyms, uint64_t address, char kind, uint16_t module,
                      const char *name, size_t name_bytes)
{
    /* The padding before a function (CONFIG_CALL_PADDING) is a symbol of its own: it goes under the
     * function's name, stored once, since the function is the next line of the table. */
    if (name_bytes > strlen(PADDING) && memcmp(name, PADDING, strlen(PADDING)) == 0) {
        name += strlen(PADDING);
        name_bytes -= strlen(PADDING);
    }
    if (name_bytes >= KALLSYMS_NAME_BYTES)
        name_bytes = KALLSYMS_NAME_BYTES - 1;
    size_t need = NAME_HEAD_BYTES + name_bytes + 1;
    if (kallsyms->count >= KALLSYMS_MAX || kallsyms->names_bytes + need > NAMES_MAX_BYTES)
        return;
    if (kallsyms->count == kallsyms->room) {
        kallsyms->room = kallsyms->room ? kallsyms->room * 2 : 4096;
        kallsyms->items = xrealloc_array(kallsyms->items, kallsyms->room, sizeof(*kallsyms->items));
    }
    if (is_last_name(kallsyms, kind, module, name, name_bytes)) {
        uint32_t name_at = kallsyms->items[kallsyms->count - 1].name_at;
        kallsyms->items[kallsyms->count++] = (struct entry){address, name_at};
        return;
    }
    if (kallsyms->names_bytes + need > kallsyms->names_room) {
        kallsyms->names_room = kallsyms->names_room ? kallsyms->names_room * 2 : READ_BYTES;
        kallsyms->names = xrealloc_array(kallsyms->names, kallsyms->names_room, 1);
    }
    char *place = kallsyms->names + kallsyms->names_bytes;
    memcpy(place, &module, sizeof(module));
    place[2] = kind;
    memcpy(place + NAME_HEAD_BYTES, name, name_bytes);
    place[NAME_HEAD_BYTES + name_bytes] = '\0';
    kallsyms->items[kallsyms->count++] = (struct entry){address, (uint32_t)kallsyms->names_bytes};
    kallsyms->names_bytes += need;
}

/* "ffffffff81000010 T name" or "ffffffffc0000010 t name\t[module]". */
static void take_line(struct kallsyms *kallsyms, char *line, size_t bytes)
{
    line[bytes] = '\0';
    char *end;
    uint64_t address = strtoull(line, &end, 16);
    if (end == line || end[0] != ' ' || end[1] == '\0' || end[2] != ' ')
        return;
    char kind = end[1];
    char *name = end + 3;
    size_t name_bytes = strcspn(name, "\t \r");
    if (address == 0 || name_bytes == 0 || !strchr("tTwW", kind))
        return;
    uint16_t module = MODULE_KERNEL;
    char *bracket = name + name_bytes + strspn(name + name_bytes, "\t ");
    size_t module_bytes = strcspn(bracket, "\r");
    if (bracket[0] == '[' && module_bytes > 2)
        module = module_number(kallsyms, bracket, module_bytes);
    add_entry(kallsyms, address, kind, module, name, name_bytes);
}

static int rank_of(char kind)
{
    return kind == 'T' ? 0 : kind == 't' ? 2 : 1;
}

/* Which of two symbols at one address is the name to show? < 0: a. */
static int compare_names(const struct kallsyms *kallsyms, const struct entry *a, const struct entry *b)
{
    const char *a_name = kallsyms->names + a->name_at, *b_name = kallsyms->names + b->name_at;
    int by_kind = rank_of(a_name[2]) - rank_of(b_name[2]);
    if (by_kind)
        return by_kind;
    size_t a_lines = strspn(a_name + NAME_HEAD_BYTES, "_"), b_lines = strspn(b_name + NAME_HEAD_BYTES, "_");
    if (a_lines != b_lines)
        return a_lines < b_lines ? -1 : 1;
    return a->name_at < b->name_at ? -1 : a->name_at > b->name_at;
}

static int compare_entries(const void *left, const void *right, void *ctx)
{
    const struct entry *a = left, *b = right;
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    return compare_names(ctx, a, b);
}

static void sort_entries(struct kallsyms *kallsyms)
{
    size_t i = 1, kept = 0;
    if (kallsyms->count == 0)
        return;
    while (i < kallsyms->count && compare_entries(&kallsyms->items[i - 1], &kallsyms->items[i], kallsyms) < 0)
        i++;
    if (i < kallsyms->count)
        qsort_r(kallsyms->items, kallsyms->count, sizeof(*kallsyms->items), compare_entries, kallsyms);
    for (i = 0; i < kallsyms->count; i++) {
        if (kept == 0 || kallsyms->items[kept - 1].address != kallsyms->items[i].address)
            kallsyms->items[kept++] = kallsyms->items[i];
    }
    kallsyms->count = kept;
    kallsyms->items = xrealloc_array(kallsyms->items, kept, sizeof(*kallsyms->items));
    kallsyms->room = kept;
    kallsyms->names = xrealloc_array(kallsyms->names, kallsyms->names_bytes, 1);
    kallsyms->names_room = kallsyms->names_bytes;
}

static void take_lines(struct kallsyms *kallsyms, int fd)
{
    AUTO_FREE char *block = xmalloc(READ_BYTES);
    char line[LINE_BYTES];
    size_t used = 0, seen_bytes = 0;
    while (kallsyms->count || seen_bytes < HIDDEN_AFTER_BYTES) {
        ssize_t got = read(fd, block, READ_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        seen_bytes += (size_t)got;
        for (const char *at = block, *end = block + got; at < end;) {
            const char *newline = memchr(at, '\n', (size_t)(end - at));
            size_t part = (size_t)((newline ? newline : end) - at);
            size_t fits = part < LINE_BYTES - 1 - used ? part : LINE_BYTES - 1 - used;
            memcpy(line + used, at, fits);
            used += fits;
            at += part;
            if (newline) {
                take_line(kallsyms, line, used);
                used = 0;
                at++;
            }
        }
    }
    if (used)
        take_line(kallsyms, line, used);
}

static void reread(struct kallsyms *kallsyms, uint64_t now_ns)
{
    kallsyms->read_ns = now_ns;
    AUTO_CLOSE int fd = open(kallsyms->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && kallsyms->count)
        return; /* what is known stays */
    forget(kallsyms);
    kallsyms->was_read = true;
    module_number(kallsyms, "[kernel]", strlen("[kernel]"));
    if (fd >= 0)
        take_lines(kallsyms, fd);
    sort_entries(kallsyms);
    /* All addresses read as zero without the right to see them. */
    kallsyms->hidden = kallsyms->count == 0;
}

/* ---- look-up ---- */

/* The last entry that begins at or before address; NULL for none. */
static struct entry *entry_before(const struct kallsyms *kallsyms, uint64_t address)
{
    size_t low = 0, high = kallsyms->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (kallsyms->items[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &kallsyms->items[low - 1] : NULL;
}

static int find_added(const struct kallsyms *kallsyms, uint64_t address, const char **ret_function,
                      const char **ret_module)
{
    for (size_t i = kallsyms->added_count; i-- > 0;) {
        const struct added *added = &kallsyms->added[i];
        if (address < added->start || address >= added->end)
            continue;
        *ret_function = added->name;
        *ret_module = strncmp(added->name, "bpf_", 4) == 0 ? "[bpf]" : "[kernel]";
        return 0;
    }
    return -ENOENT;
}

static int find_known(const struct kallsyms *kallsyms, uint64_t address, const char **ret_function,
                      const char **ret_module)
{
    if (find_added(kallsyms, address, ret_function, ret_module) == 0)
        return 0;
    const struct entry *entry = entry_before(kallsyms, address);
    if (!entry || !kallsyms->names || address - entry->address >= KALLSYMS_FUNCTION_BYTES ||
        entry->name_at == NAME_REMOVED)
        return -ENOENT;
    uint16_t module;
    memcpy(&module, kallsyms->names + entry->name_at, sizeof(module));
    *ret_function = kallsyms->names + entry->name_at + NAME_HEAD_BYTES;
    *ret_module = kallsyms->modules[module];
    return 0;
}

int kallsyms_find(struct kallsyms *kallsyms, uint64_t address, const char **ret_function,
                  const char **ret_module)
{
    if (find_known(kallsyms, address, ret_function, ret_module) == 0)
        return 0;
    uint64_t now_ns = clock_mono_ns();
    if (!kallsyms->was_read || now_ns - kallsyms->read_ns >= kallsyms->wait_ns) {
        reread(kallsyms, now_ns);
        if (find_known(kallsyms, address, ret_function, ret_module) == 0) {
            kallsyms->wait_ns = KALLSYMS_REREAD_MS * CLOCK_NS_PER_MS;
            return 0;
        }
        uint64_t wait_ns = kallsyms->wait_ns ? kallsyms->wait_ns * 2 : KALLSYMS_REREAD_MS * CLOCK_NS_PER_MS;
        uint64_t most_ns = (kallsyms->hidden ? KALLSYMS_REREAD_MS : KALLSYMS_REREAD_MAX_MS) * CLOCK_NS_PER_MS;
        kallsyms->wait_ns =
            wait_ns < most_ns ? wait_ns : most_ns; /* a hidden table is given up after a few lines */
    }
    return kallsyms->hidden ? -EACCES : -ENOENT;
}

/* ---- events ---- */

static void drop_added(struct kallsyms *kallsyms, uint64_t start, uint64_t end)
{
    size_t kept = 0;
    for (size_t i = 0; i < kallsyms->added_count; i++) {
        struct added added = kallsyms->added[i];
        if (added.start < end && added.end > start)
            free(added.name);
        else
            kallsyms->added[kept++] = added;
    }
    kallsyms->added_count = kept;
}

void kallsyms_add(struct kallsyms *kallsyms, uint64_t address, uint32_t bytes, const char *symbol)
{
    if (address == 0 || bytes == 0 || address > UINT64_MAX - bytes)
        return;
    drop_added(kallsyms, address, address + bytes); /* the newer one has the place */
    if (kallsyms->added_count == KALLSYMS_ADDED_MAX) {
        kallsyms->wait_ns = KALLSYMS_REREAD_MS * CLOCK_NS_PER_MS; /* the next miss reads them all */
        return;
    }
    if (!kallsyms->added)
        kallsyms->added = xcalloc(KALLSYMS_ADDED_MAX, sizeof(*kallsyms->added));
    size_t name_bytes = strnlen(symbol, KALLSYMS_NAME_BYTES - 1);
    kallsyms->added[kallsyms->added_count++] =
        (struct added){address, address + bytes, xmemdup_text(symbol, name_bytes)};
}

void kallsyms_remove(struct kallsyms *kallsyms, uint64_t address)
{
    drop_added(kallsyms, address, address + 1);
    struct entry *entry = entry_before(kallsyms, address);
    if (entry && entry->address == address)
        entry->name_at = NAME_REMOVED; /* keeps its place: the function before must not grow over it */
}

bool kallsyms_hidden(const struct kallsyms *kallsyms)
{
    return kallsyms->hidden;
}
