/* log: lines for operators on standard error: "level program: text".
 * Modules return errors, programs log them, at the place that decides.
 * Threads: any; a line is written by one write(2). */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* program is kept, not copied. Call before the first thread starts and the first file is opened: standard input,
 * output and error that are closed become /dev/null, or the next socket would get their number, and the lines. */
void log_init(const char *program, enum log_level level);
enum log_level log_level_get(void);

/* level by name; returns -EINVAL for an unknown one. */
int log_level_parse(const char *name, enum log_level *ret_level);

void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* At most one line per LOG_LIMIT_SECONDS for each struct log_limit (zero-initialised, static storage is
 * usual); true when the caller may log now. The number held back since the last line goes to ret_suppressed
 * (may be NULL). */
#define LOG_LIMIT_SECONDS 10
struct log_limit {
    uint64_t next_ns;
    uint64_t suppressed_count;
};
int log_limit_pass(struct log_limit *limit, uint64_t *ret_suppressed);

#endif
