#include "common/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static size_t append(char *text, size_t used, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static size_t append(char *text, size_t used, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int wrote = vsnprintf(text + used, ERR_TEXT_BYTES - used, fmt, args);
    va_end(args);
    size_t end = used + (wrote < 0 ? 0 : (size_t)wrote);
    return end < ERR_TEXT_BYTES ? end : ERR_TEXT_BYTES - 1;
}

static size_t format(struct err *err, int code, const char *fmt, va_list args)
    __attribute__((format(printf, 3, 0)));

static size_t format(struct err *err, int code, const char *fmt, va_list args)
{
    err->code = code;
    int wrote = vsnprintf(err->text, sizeof(err->text), fmt, args);
    if (wrote < 0)
        err->text[0] = '\0';
    return strlen(err->text);
}

int err_set(struct err *err, int code, const char *fmt, ...)
{
    if (!err)
        return code;
    va_list args;
    va_start(args, fmt);
    size_t used = format(err, code, fmt, args);
    va_end(args);
    if (code < 0)
        append(err->text, used, ": %s", strerror(-code));
    return code;
}

int err_say(struct err *err, int code, const char *fmt, ...)
{
    if (!err)
        return code;
    va_list args;
    va_start(args, fmt);
    format(err, code, fmt, args);
    va_end(args);
    return code;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
    if (!err)
        return 0;
    char old[ERR_TEXT_BYTES];
    memcpy(old, err->text, sizeof(old));
    va_list args;
    va_start(args, fmt);
    size_t used = format(err, err->code, fmt, args);
    va_end(args);
    append(err->text, used, ": %s", old);
    return err->code;
}
