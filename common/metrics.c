#define XXH_INLINE_ALL
#include "common/metrics.h"

#include "common/cleanup.h"
#include "common/str.h"
#include "common/table.h"
#include "common/version.h"
#include "common/xalloc.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>

struct entry {
    struct metric cell;
    char *name, *help, *label,
        *label_value; /* help, label: NULL when there is none; label_value: valid UTF-8 */
    bool gauge;
};

/* The registry is the one piece of process-wide state there is beside the log level. */
static struct {
    pthread_mutex_t lock;
    struct table index; /* over name, label, label_value */
    uint32_t count;
    struct entry entries[METRICS_MAX];
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct metric overflow;

static char *copy_or_null(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

/* One byte that is not UTF-8 would make a scraper refuse the whole page. */
static char *copy_as_utf8(const char *text)
{
    size_t bytes = strlen(text), at = 0;
    while (at < bytes) {
        size_t length = str_utf8_length(text + at, bytes - at);
        if (length == 0)
            break;
        at += length;
    }
    if (at == bytes)
        return xstrdup(text);
    size_t room = 4 * bytes + 1; /* \xHH for each byte at worst */
    char *copy = xmalloc(room);
    str_printable(copy, room, text, bytes);
    return copy;
}

static uint64_t hash_of(const char *name, const char *label, const char *label_value)
{
    XXH64_hash_t hash = XXH3_64bits(name, strlen(name));
    if (label) {
        hash = XXH3_64bits_withSeed(label, strlen(label), hash);
        hash = XXH3_64bits_withSeed(label_value, strlen(label_value), hash);
    }
    return hash;
}

static bool is_entry(const struct entry *entry, const char *name, const char *label, const char *label_value)
{
    if (strcmp(entry->name, name) != 0 || !entry->label != !label)
        return false;
    return !label || (strcmp(entry->label, label) == 0 && strcmp(entry->label_value, label_value) == 0);
}

static struct metric *find_or_add(const char *name, const char *help, const char *label,
                                  const char *label_value, bool gauge)
{
    uint64_t hash = hash_of(name, label, label_value);
    for (struct table_probe p = table_probe(&registry.index, hash); table_next(&registry.index, &p);)
        if (is_entry(&registry.entries[p.value], name, label, label_value))
            return &registry.entries[p.value].cell;
    if (registry.count == METRICS_MAX)
        return &overflow;
    struct entry *entry = &registry.entries[registry.count];
    entry->name = xstrdup(name);
    entry->help = copy_or_null(help);
    entry->label = copy_or_null(label);
    entry->label_value = copy_or_null(label_value);
    entry->gauge = gauge;
    table_insert(&registry.index, hash, registry.count++);
    return &entry->cell;
}

static struct metric *get(const char *name, const char *help, const char *label, const char *label_value,
                          bool gauge)
{
    AUTO_FREE char *value = label ? copy_as_utf8(label_value ? label_value : "") : NULL;
    pthread_mutex_lock(&registry.lock);
    struct metric *cell = find_or_add(name, help, label, value, gauge);
    pthread_mutex_unlock(&registry.lock);
    return cell;
}

struct metric *metrics_counter(const char *name, const char *help, const char *label, const char *label_value)
{
    return get(name, help, label, label_value, false);
}

struct metric *metrics_gauge(const char *name, const char *help, const char *label, const char *label_value)
{
    return get(name, help, label, label_value, true);
}

/* Backslash and newline; in label values the quote too. */
static int print_escaped(struct buf *out, const char *text, bool quote)
{
    int rc = 0;
    for (; *text && rc == 0; text++) {
        if (*text == '\n')
            rc = buf_append(out, "\\n", 2);
        else if (*text == '\\')
            rc = buf_append(out, "\\\\", 2);
        else if (*text == '"' && quote)
            rc = buf_append(out, "\\\"", 2);
        else
            rc = buf_append(out, text, 1);
    }
    return rc;
}

static int print_head(struct buf *out, const char *name, const char *help, bool gauge)
{
    int rc = 0;
    if (help) {
        rc = buf_printf(out, "# HELP %s ", name);
        if (rc == 0)
            rc = print_escaped(out, help, false);
        if (rc == 0)
            rc = buf_append(out, "\n", 1);
    }
    return rc < 0 ? rc : buf_printf(out, "# TYPE %s %s\n", name, gauge ? "gauge" : "counter");
}

static int print_name(struct buf *out, const char *name, const char *label, const char *label_value)
{
    if (!label)
        return buf_printf(out, "%s ", name);
    int rc = buf_printf(out, "%s{%s=\"", name, label);
    if (rc == 0)
        rc = print_escaped(out, label_value, true);
    return rc < 0 ? rc : buf_append(out, "\"} ", 3);
}

static int print_cell(struct buf *out, const struct entry *entry)
{
    int rc = print_name(out, entry->name, entry->label, entry->label_value);
    return rc < 0 ? rc : buf_printf(out, "%" PRIu64 "\n", metric_get(&entry->cell));
}

/* By name, then in order of registration: the format wants a name's cells together. */
static int compare_entries(const void *a, const void *b)
{
    const struct entry *left = *(const struct entry *const *)a, *right = *(const struct entry *const *)b;
    int order = strcmp(left->name, right->name);
    return order != 0 ? order : (left > right) - (left < right);
}

static int print_entries(struct buf *out)
{
    const struct entry *sorted[METRICS_MAX];
    pthread_mutex_lock(&registry.lock);
    size_t count = registry.count;
    pthread_mutex_unlock(&registry.lock);
    for (size_t i = 0; i < count; i++) /* entries below count do not change any more */
        sorted[i] = &registry.entries[i];
    qsort(sorted, count, sizeof(sorted[0]), compare_entries);

    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (i == 0 || strcmp(sorted[i - 1]->name, sorted[i]->name) != 0)
            rc = print_head(out, sorted[i]->name, sorted[i]->help, sorted[i]->gauge);
        if (rc == 0)
            rc = print_cell(out, sorted[i]);
    }
    return rc;
}

static uint64_t resident_bytes(void)
{
    AUTO_FCLOSE FILE *file = fopen("/proc/self/statm", "re");
    uint64_t size_pages = 0, resident_pages = 0;
    if (!file || fscanf(file, "%" SCNu64 " %" SCNu64, &size_pages, &resident_pages) != 2)
        return 0;
    return resident_pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return 0;
    uint64_t count = 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count > 3 ? count - 3 : 0; /* ".", ".." and the directory itself */
}

static double cpu_seconds(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == -1)
        return 0;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static int print_process(struct buf *out)
{
    int rc = print_head(out, "process_cpu_seconds_total", "User and system CPU time of this process.", false);
    if (rc == 0)
        rc = buf_printf(out, "process_cpu_seconds_total %.6f\n", cpu_seconds());
    if (rc == 0)
        rc = print_head(out, "process_resident_memory_bytes", "Resident memory of this process.", true);
    if (rc == 0)
        rc = buf_printf(out, "process_resident_memory_bytes %" PRIu64 "\n", resident_bytes());
    if (rc == 0)
        rc = print_head(out, "process_open_fds", "Open file descriptors of this process.", true);
    if (rc == 0)
        rc = buf_printf(out, "process_open_fds %" PRIu64 "\n", open_fds());
    if (rc == 0)
        rc = print_head(out, "fleetprof_build_info", "Always 1; the label says which build this is.", true);
    if (rc == 0)
        rc = print_name(out, "fleetprof_build_info", "version", FLEETPROF_VERSION);
    return rc < 0 ? rc : buf_append(out, "1\n", 2);
}

int metrics_print(struct buf *out)
{
    int rc = print_process(out);
    if (rc == 0)
        rc = print_entries(out);
    if (rc == 0 && metric_get(&overflow) > 0) {
        rc =
            print_head(out, "metrics_overflow_total", "Added to cells that did not fit the registry.", false);
        if (rc == 0)
            rc = buf_printf(out, "metrics_overflow_total %" PRIu64 "\n", metric_get(&overflow));
    }
    return rc;
}
