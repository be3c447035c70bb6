#include "node-agent/cpu_list.h"

#include "common/cleanup.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* One number at *text, which moves behind it. */
static int parse_number(const char **text, unsigned *ret_number)
{
    unsigned number = 0;
    if (!isdigit((unsigned char)**text))
        return -EINVAL;
    for (; isdigit((unsigned char)**text); (*text)++) {
        number = number * 10 + (unsigned)(**text - '0');
        if (number >= SAMPLE_MAX_CPUS)
            return -E2BIG;
    }
    *ret_number = number;
    return 0;
}

static int parse_range(const char **text, struct cpu_list *list)
{
    unsigned first, last;
    int rc = parse_number(text, &first);
    if (rc < 0)
        return rc;
    last = first;
    if (**text == '-') {
        (*text)++;
        rc = parse_number(text, &last);
        if (rc < 0)
            return rc;
    }
    if (last < first)
        return -EINVAL;
    for (unsigned cpu = first; cpu <= last; cpu++)
        list->bits[cpu / 64] |= 1ULL << (cpu % 64);
    return 0;
}

int cpu_list_parse(const char *text, struct cpu_list *ret_list, struct err *err)
{
    struct cpu_list list = {0};
    const char *at = text;
    for (;;) {
        int rc = parse_range(&at, &list);
        if (rc < 0)
            return err_set(err, rc, "CPU list \"%.64s\" (want numbers below %d such as 0-3,8)", text,
                           SAMPLE_MAX_CPUS);
        if (*at != ',')
            break;
        at++;
    }
    if (*at != '\0' && strcmp(at, "\n") != 0)
        return err_set(err, -EINVAL, "CPU list \"%.64s\" (want numbers such as 0-3,8)", text);
    *ret_list = list;
    return 0;
}

int cpu_list_read(const char *path, struct cpu_list *ret_list, struct err *err)
{
    char line[4096];
    FILE *file AUTO_FCLOSE = fopen(path, "re");
    if (!file)
        return err_set(err, -errno, "open %s", path);
    if (!fgets(line, sizeof(line), file))
        return err_set(err, -EIO, "read %s", path);
    return cpu_list_parse(line, ret_list, err);
}

unsigned cpu_list_count(const struct cpu_list *list)
{
    unsigned count = 0;
    for (unsigned i = 0; i < SAMPLE_MAX_CPUS / 64; i++)
        count += (unsigned)__builtin_popcountll(list->bits[i]);
    return count;
}
