#include "node-agent/proc_stat.h"

#include "common/cleanup.h"
#include "common/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* Numbers of the fields in proc_pid_stat(5). */
enum { FIELD_STATE = 3, FIELD_FLAGS = 9, FIELD_START = 22 };

int proc_stat_parse(const char *text, size_t bytes, struct proc_stat *ret_stat)
{
    struct proc_stat stat = {0};
    const char *open_at = memchr(text, '(', bytes), *close_at = memrchr(text, ')', bytes),
               *end = text + bytes;
    if (!open_at || !close_at || close_at < open_at)
        return -EINVAL;
    stat.comm_bytes = (size_t)(close_at - open_at) - 1;
    if (stat.comm_bytes > sizeof(stat.comm) - 1)
        stat.comm_bytes = sizeof(stat.comm) - 1;
    memcpy(stat.comm, open_at + 1, stat.comm_bytes);
    const char *at = close_at + 1;
    for (int field = FIELD_STATE; field <= FIELD_START; field++) {
        if (at == end || *at != ' ')
            return -EINVAL;
        const char *first = ++at;
        while (at < end && *at != ' ' && *at != '\n')
            at++;
        size_t length = (size_t)(at - first);
        if (length == 0)
            return -EINVAL;
        if (field == FIELD_STATE)
            stat.state = *first;
        if ((field == FIELD_FLAGS && str_u64(first, length, 10, &stat.flags) < 0) ||
            (field == FIELD_START && str_u64(first, length, 10, &stat.start_ticks) < 0))
            return -EINVAL;
    }
    *ret_stat = stat;
    return 0;
}

int proc_stat_read(int tgid, struct proc_stat *ret_stat)
{
    char text[1024]; /* 52 numbers of at most 20 digits; what we need is in the first half */
    snprintf(text, sizeof(text), "/proc/%d/stat", tgid);
    AUTO_CLOSE int fd = open(text, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    ssize_t got = read(fd, text, sizeof(text));
    if (got < 0)
        return -errno;
    return proc_stat_parse(text, (size_t)got, ret_stat);
}
