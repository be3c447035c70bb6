/* options: one table of settings per program, read from the config file and the command line (which wins).
 * Shapes:   `--name VALUE`, `--name=VALUE`, `--name` for booleans (`--name=false` too), `-n VALUE`,
 *           `-nVALUE`; a name may be cut short while it is unique; `--` ends the options. In the file
 *           `name = value`, the same names, `#` at the start or after a blank begins a comment, "..." (with
 *           \" and \\) keeps blanks and `#`. The last of several wins. --config FILE, --help (-h) and
 *           --version are built in.
 * Limits:   OPTIONS_FILE_BYTES of config file.
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
    OPTION_BYTES,    /* uint64_t; K, M, G, T suffixes, also Ki, KiB ... (always 1024) */
    OPTION_DURATION, /* uint64_t milliseconds; ms, s, m, h, d, also joined ("1h30m"); a bare number is s */
    OPTION_BOOL,     /* bool: true, false, yes, no, on, off, 1, 0 */
};

#define OPTIONS_FILE_BYTES (1u << 20)

struct option_def {
    const char *name; /* NULL ends the table */
    enum option_type type;
    size_t offset;        /* of the field in the settings struct */
    const char *fallback; /* default, in the same syntax; NULL: no string, 0, false */
    uint64_t min, max;    /* numbers, in the field's unit; max 0: no upper bound */
    const char *argument; /* "HOST:PORT" in the help */
    const char *help;
    char letter;         /* short form, 0 = none */
    const char *implied; /* not NULL: what `--name` alone means; only `--name=VALUE` gives another value */
};

/* Results: OPTIONS_RUN go on; OPTIONS_EXIT help or version was printed, exit 0; negative: error. */
enum options_result { OPTIONS_RUN = 0, OPTIONS_EXIT = 1 };

struct options_program {
    const char *name;    /* "node-agent", "fleetprof top" */
    const char *summary; /* one line for --help */
    const char *usage;   /* "[OPTION]..." */
    const char *footer;  /* printed after the options, may be NULL */
    const struct option_def *defs;
    bool no_config; /* the program reads no config file: no --config */
};

/* argv[0] is skipped. Positional arguments, if the program takes any, go to ret_rest (borrowed pointers into
 * argv, room for argc of them; NULL to refuse them). Every field named by defs is written; on OPTIONS_EXIT
 * and on errors nothing is left to free. To read the file again (SIGHUP), call it again with the same argv
 * into fresh settings. */
int options_read(const struct options_program *program, int argc, char **argv, void *settings,
                 char **ret_rest, size_t *rest_count, struct err *err);
/* Frees the strings. A second call is harmless. */
void options_fini(const struct options_program *program, void *settings);

/* The name among names (NULL ends them) that text was probably meant to be, or NULL. */
const char *options_nearest(const char *text, const char *const *names);

/* The same syntaxes for values met elsewhere (query strings): the whole text, no blanks, no sign. 0, -EINVAL,
 * -ERANGE. */
int options_parse_duration_ms(const char *text, uint64_t *ret_ms);
int options_parse_bytes(const char *text, uint64_t *ret_bytes);
int options_parse_uint(const char *text, uint64_t *ret_value);

#endif
