/* options: one table of settings per program, read from the config file and the command line (which wins).
 * Shapes:   `--name VALUE`, `--name=VALUE`, `--name` for booleans; in the file `name = value`, `#` comments, the same
 *           names. --config FILE, --help and --version are built in.
 * Errors:   -EINVAL with text that names the option, its place (file:line or command line), what is allowed.
 * Threads:  one. Strings written to the target are heap copies, freed by options_fini. */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_type {
    OPTION_STRING,   /* char * */
    OPTION_UINT,     /* uint64_t, min..max */
    OPTION_BYTES,    /* uint64_t; K, M, G suffixes (1024) */
    OPTION_DURATION, /* uint64_t milliseconds; ms, s, m, h suffixes; a bare number is seconds */
    OPTION_BOOL,     /* bool */
};

struct option_def {
    const char *name; /* NULL ends the table */
    enum option_type type;
    size_t offset; /* of the field in the settings struct */
    const char *fallback; /* default, in the same syntax; NULL for a string: NULL */
    uint64_t min, max;    /* numbers, in the field's unit */
    const char *argument; /* "HOST:PORT" in the help */
    const char *help;
    char letter; /* short form, 0 = none */
};

/* Results: OPTIONS_RUN go on; OPTIONS_EXIT help or version was printed, exit 0; negative: error. */
enum options_result { OPTIONS_RUN = 0, OPTIONS_EXIT = 1 };

struct options_program {
    const char *name;    /* "node-agent" */
    const char *summary; /* one line for --help */
    const char *usage;   /* "[OPTION]..." or "top [OPTION]..." */
    const char *footer;  /* printed after the options, may be NULL */
    const struct option_def *defs;
};

/* Positional arguments, if the program takes any, go to ret_rest (borrowed pointers into argv, NULL to refuse them). */
int options_read(const struct options_program *program, int argc, char **argv, void *settings, char **ret_rest,
                 size_t *rest_count, struct err *err);
/* Reads the file given by --config again into fresh settings (for SIGHUP). Same results as options_read. */
void options_fini(const struct options_program *program, void *settings);

/* The same syntaxes for values met elsewhere (query strings). */
int options_parse_duration_ms(const char *text, uint64_t *ret_ms);
int options_parse_bytes(const char *text, uint64_t *ret_bytes);
int options_parse_uint(const char *text, uint64_t *ret_value);

#endif
