/* err: one error a person can read, kept in the caller's storage.
 * Shapes:  code 0 or negative errno; text UTF-8, NUL-terminated, cut at ERR_TEXT_BYTES.
 * Threads: an object belongs to one thread.  Errors: none; no allocation on the error path. */
#ifndef COMMON_ERR_H
#define COMMON_ERR_H

#define ERR_TEXT_BYTES 320

struct err {
    int code;
    char text[ERR_TEXT_BYTES];
};

/* Fills err (may be NULL) and returns code, so that `return err_set(err, -errno, "open %s", path);` is one
 * line. A negative errno's own text is appended after ": ". */
int err_set(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same without the errno's text: for conditions that errno does not describe. */
int err_say(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts context in front: "context: old text". Returns err's code (0 when err is NULL). */
int err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
