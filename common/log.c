#include "common/log.h"

#include "common/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *log_program = "fleetprof";
static enum log_level log_level = LOG_LEVEL_INFO;
static const char *const level_names[] = {"error", "warn", "info", "debug"};

static void fill_standard_fds(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY); /* gets the lowest: fd */
}

void log_init(const char *program, enum log_level level)
{
    fill_standard_fds();
    log_program = program;
    log_level = level;
}

enum log_level log_level_get(void)
{
    return log_level;
}

int log_level_parse(const char *name, enum log_level *ret_level)
{
    for (int i = 0; i <= LOG_LEVEL_DEBUG; i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *ret_level = (enum log_level)i;
            return 0;
        }
    }
    return -EINVAL;
}

static void write_line(enum log_level level, const char *fmt, va_list args)
    __attribute__((format(printf, 2, 0)));

static void write_line(enum log_level level, const char *fmt, va_list args)
{
    if (level > log_level)
        return;
    char line[1024];
    int head = snprintf(line, sizeof(line), "%s %s: ", level_names[level], log_program);
    int body = vsnprintf(line + head, sizeof(line) - (size_t)head - 1, fmt, args);
    size_t used = (size_t)head + (body < 0 ? 0 : (size_t)body);
    if (used > sizeof(line) - 2)
        used = sizeof(line) - 2;
    for (size_t i = 0; i < used; i++)
        if ((unsigned char)line[i] < 0x20)
            line[i] = ' ';
    line[used] = '\n';
    if (write(STDERR_FILENO, line, used + 1) < 0)
        return;
}

#define LOG_FUNCTION(name, level)                                                                            \
    void name(const char *fmt, ...)                                                                          \
    {                                                                                                        \
        va_list args;                                                                                        \
        va_start(args, fmt);                                                                                 \
        write_line(level, fmt, args);                                                                        \
        va_end(args);                                                                                        \
    }

LOG_FUNCTION(log_error, LOG_LEVEL_ERROR)
LOG_FUNCTION(log_warn, LOG_LEVEL_WARN)
LOG_FUNCTION(log_info, LOG_LEVEL_INFO)
LOG_FUNCTION(log_debug, LOG_LEVEL_DEBUG)

int log_limit_pass(struct log_limit *limit, uint64_t *ret_suppressed)
{
    uint64_t now_ns = clock_mono_ns();
    uint64_t next_ns = __atomic_load_n(&limit->next_ns, __ATOMIC_RELAXED);
    if (now_ns < next_ns ||
        !__atomic_compare_exchange_n(&limit->next_ns, &next_ns, now_ns + LOG_LIMIT_SECONDS * CLOCK_NS_PER_S,
                                     0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        __atomic_add_fetch(&limit->suppressed_count, 1, __ATOMIC_RELAXED);
        return 0;
    }
    uint64_t held = __atomic_exchange_n(&limit->suppressed_count, 0, __ATOMIC_RELAXED);
    if (ret_suppressed)
        *ret_suppressed = held;
    return 1;
}
