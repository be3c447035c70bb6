#include "common/options.h"

#include "common/cleanup.h"
#include "common/version.h"
#include "common/xalloc.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELP_COLUMN   30
#define HELP_WIDTH    96
#define NEAREST_CHARS 64  /* longer names are not guessed at */
#define QUOTE_CHARS   80  /* of a wrong value shown in an error */
#define MANY_LETTERS  512 /* room for the texts put together here */

/* ---- values ---------------------------------------------------------------------------------- */

struct suffix {
    const char *text;
    uint64_t factor;
};

/* Reads digits; *text is moved behind them. */
static int read_digits(const char **text, uint64_t *ret_value)
{
    const char *p = *text;
    uint64_t value = 0;
    if (!isdigit((unsigned char)*p))
        return -EINVAL;
    for (; isdigit((unsigned char)*p); p++) {
        unsigned digit = (unsigned)(*p - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return -ERANGE;
        value = value * 10 + digit;
    }
    *text = p;
    *ret_value = value;
    return 0;
}

int options_parse_uint(const char *text, uint64_t *ret_value)
{
    uint64_t value;
    int rc = read_digits(&text, &value);
    if (rc == 0 && *text)
        rc = -EINVAL;
    if (rc == 0)
        *ret_value = value;
    return rc;
}

int options_parse_bytes(const char *text, uint64_t *ret_bytes)
{
    static const char letters[] = "KMGT";
    uint64_t value;
    int rc = read_digits(&text, &value);
    if (rc < 0)
        return rc;
    const char *letter = *text ? strchr(letters, toupper((unsigned char)*text)) : NULL;
    if (letter) {
        unsigned shift = 10 * (unsigned)(letter - letters + 1);
        if (value > UINT64_MAX >> shift)
            return -ERANGE;
        value <<= shift;
        text++;
        if (*text == 'i')
            text++;
    }
    if (*text == 'B')
        text++;
    if (*text)
        return -EINVAL;
    *ret_bytes = value;
    return 0;
}

/* Units must go down ("1h30m"), so that "30m1h" is a typing error and not a duration. */
int options_parse_duration_ms(const char *text, uint64_t *ret_ms)
{
    static const struct suffix units[] = {
        {"d", 86400000}, {"h", 3600000}, {"ms", 1}, {"m", 60000}, {"s", 1000}};
    uint64_t total = 0, last_factor = UINT64_MAX;
    do {
        uint64_t value, factor = 0;
        int rc = read_digits(&text, &value);
        if (rc < 0)
            return rc;
        if (!*text && last_factor == UINT64_MAX)
            factor = 1000;
        for (size_t i = 0; !factor && i < sizeof(units) / sizeof(units[0]); i++) {
            size_t length = strlen(units[i].text);
            if (strncmp(text, units[i].text, length) == 0) {
                factor = units[i].factor;
                text += length;
            }
        }
        if (factor == 0 || factor >= last_factor)
            return -EINVAL;
        if (value > (UINT64_MAX - total) / factor)
            return -ERANGE;
        total += value * factor;
        last_factor = factor;
    } while (*text);
    *ret_ms = total;
    return 0;
}

static int parse_bool(const char *text, bool *ret_value)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(text, words[i]) == 0) {
            *ret_value = i & 1;
            return 0;
        }
    return -EINVAL;
}

/* Levenshtein's distance, rows of the matrix one after the other. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[NEAREST_CHARS + 1], length = strlen(b);
    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[length];
}

const char *options_nearest(const char *text, const char *const *names)
{
    const char *nearest = NULL;
    size_t length = strlen(text);
    size_t best = length / 3 + 2; /* further away is no guess but noise */
    if (length == 0 || length > NEAREST_CHARS)
        return NULL;
    for (; *names; names++) {
        if (strlen(*names) > NEAREST_CHARS)
            continue;
        size_t distance = edit_distance(text, *names);
        if (length >= 3 && strncmp(*names, text, length) == 0)
            distance = 1; /* an abbreviation */
        if (distance < best && distance < length) {
            best = distance;
            nearest = *names;
        }
    }
    return nearest;
}

/* ---- one setting ----------------------------------------------------------------------------- */

/* Where a value was met, for its error text: prefix "FILE:3: " and dashes "", or "" and "--". */
struct place {
    const char *prefix;
    const char *dashes;
};

static const struct place COMMAND_LINE = {"", "--"};

/* A wrong value as it may be shown: control characters and the rest of a long one left out. */
static const char *quoted(const char *text, char *out, size_t out_bytes)
{
    size_t n = 0;
    for (; *text && n + 5 < out_bytes; text++)
        out[n++] = iscntrl((unsigned char)*text) ? '?' : *text;
    snprintf(out + n, out_bytes - n, "%s", *text ? "..." : "");
    return out;
}

static void format_number(enum option_type type, uint64_t value, char *out, size_t out_bytes)
{
    static const struct suffix durations[] = {
        {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    static const struct suffix sizes[] = {
        {"T", 1ULL << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {"", 1}};
    const struct suffix *unit = type == OPTION_DURATION ? durations : sizes;
    if (type == OPTION_UINT) {
        snprintf(out, out_bytes, "%llu", (unsigned long long)value);
        return;
    }
    while (unit->factor > 1 && (value < unit->factor || value % unit->factor))
        unit++;
    snprintf(out, out_bytes, "%llu%s", (unsigned long long)(value / unit->factor), unit->text);
}

/* "a duration such as 500ms, 10s or 1h30m, from 1s to 5m" */
static void describe(const struct option_def *def, char *out, size_t out_bytes)
{
    static const char *const what[] = {"text", "a whole number", "a size such as 512K, 64M or 2G",
                                       "a duration such as 500ms, 10s or 1h30m", "true or false"};
    char low[32], high[32];
    int n = snprintf(out, out_bytes, "%s", what[def->type]);
    if (n < 0 || (size_t)n >= out_bytes || def->type == OPTION_STRING || def->type == OPTION_BOOL)
        return;
    format_number(def->type, def->min, low, sizeof(low));
    format_number(def->type, def->max, high, sizeof(high));
    if (def->max)
        snprintf(out + n, out_bytes - (size_t)n, ", from %s to %s", low, high);
    else if (def->min)
        snprintf(out + n, out_bytes - (size_t)n, ", at least %s", low);
}

static int parse_number(const struct option_def *def, const char *text, uint64_t *ret_value)
{
    int rc = def->type == OPTION_UINT    ? options_parse_uint(text, ret_value)
             : def->type == OPTION_BYTES ? options_parse_bytes(text, ret_value)
                                         : options_parse_duration_ms(text, ret_value);
    if (rc == 0 && (*ret_value < def->min || (def->max && *ret_value > def->max)))
        rc = -ERANGE;
    return rc;
}

/* settings NULL: the value is only checked. */
static int set_value(const struct option_def *def, void *settings, const char *text,
                     const struct place *place, struct err *err)
{
    void *field = settings ? (char *)settings + def->offset : NULL;
    uint64_t number = 0;
    bool truth = false;
    int rc = 0;
    if (def->type == OPTION_BOOL)
        rc = parse_bool(text, &truth);
    else if (def->type != OPTION_STRING)
        rc = parse_number(def, text, &number);
    if (rc < 0) {
        char allowed[MANY_LETTERS / 2], shown[QUOTE_CHARS];
        describe(def, allowed, sizeof(allowed));
        return err_say(err, -EINVAL, "%s%s%s must be %s; it is \"%s\"", place->prefix, place->dashes,
                       def->name, allowed, quoted(text, shown, sizeof(shown)));
    }
    if (!field)
        return 0;
    if (def->type == OPTION_STRING) {
        free(*(char **)field);
        *(char **)field = xstrdup(text);
    } else if (def->type == OPTION_BOOL) {
        *(bool *)field = truth;
    } else {
        *(uint64_t *)field = number;
    }
    return 0;
}

static const struct option_def *find_def(const struct options_program *program, const char *name,
                                         size_t length)
{
    for (const struct option_def *def = program->defs; def->name; def++)
        if (strlen(def->name) == length && memcmp(def->name, name, length) == 0)
            return def;
    return NULL;
}

/* On the command line a name may be cut short as long as one option alone begins so (as GNU programs do). */
static const struct option_def *find_short_def(const struct options_program *program, const char *name,
                                               size_t length)
{
    const struct option_def *found = find_def(program, name, length);
    if (found || length == 0)
        return found;
    for (const char *const *word = (const char *const[]){"help", "version", "config", NULL}; *word; word++)
        if (strncmp(*word, name, length) == 0)
            return NULL;
    for (const struct option_def *def = program->defs; def->name; def++) {
        if (strncmp(def->name, name, length) != 0)
            continue;
        if (found)
            return NULL;
        found = def;
    }
    return found;
}

static const char *nearest_def(const struct options_program *program, const char *name)
{
    const char *names[128];
    size_t count = 0;
    for (const struct option_def *def = program->defs; def->name && count < 120; def++)
        names[count++] = def->name;
    names[count++] = "help";
    names[count++] = "version";
    if (!program->no_config)
        names[count++] = "config";
    names[count] = NULL;
    return options_nearest(name, names);
}

static int set_defaults(const struct options_program *program, void *settings, struct err *err)
{
    for (const struct option_def *def = program->defs; def->name; def++) {
        void *field = (char *)settings + def->offset;
        if (def->type == OPTION_STRING)
            *(char **)field = NULL;
        else if (def->type == OPTION_BOOL)
            *(bool *)field = false;
        else
            *(uint64_t *)field = 0;
    }
    static const struct place built_in = {"default of ", "--"};
    for (const struct option_def *def = program->defs; def->name; def++) {
        int rc = def->fallback ? set_value(def, settings, def->fallback, &built_in, err) : 0;
        if (rc < 0)
            return rc;
    }
    return 0;
}

void options_fini(const struct options_program *program, void *settings)
{
    for (const struct option_def *def = program->defs; def->name; def++) {
        if (def->type != OPTION_STRING)
            continue;
        char **field = (char **)((char *)settings + def->offset);
        free(*field);
        *field = NULL;
    }
}

/* ---- the config file ------------------------------------------------------------------------- */

/* Cuts a value out of what stands behind '=': in place, unquoted, without the comment. NULL: a bad quote. */
static char *cut_value(char *text)
{
    text += strspn(text, " \t\r");
    if (*text != '"') {
        char *end = text;
        for (char *p = text; *p && !(*p == '#' && (p == text || isblank((unsigned char)p[-1]))); p++)
            if (!isspace((unsigned char)*p))
                end = p + 1;
        *end = '\0';
        return text;
    }
    char *in = text + 1, *out = text;
    for (; *in && *in != '"'; in++) {
        if (*in == '\\' && (in[1] == '"' || in[1] == '\\'))
            in++;
        *out++ = *in;
    }
    if (*in != '"')
        return NULL;
    in++;
    in += strspn(in, " \t\r");
    if (*in && *in != '#')
        return NULL;
    *out = '\0';
    return text;
}

/* line is changed. */
static int config_line(const struct options_program *program, void *settings, char *line, const char *where,
                       struct err *err)
{
    const struct place place = {where, ""};
    char *name = line + strspn(line, " \t\r");
    if (!*name || *name == '#')
        return 0;
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_");
    char *equals = name + length + strspn(name + length, " \t");
    if (length == 0 || *equals != '=')
        return err_say(err, -EINVAL, "%sexpected \"name = value\"", where);
    char *value = cut_value(equals + 1);
    if (!value)
        return err_say(err, -EINVAL, "%sthe quoted value must end with \" and be the last on its line",
                       where);
    const struct option_def *def = find_def(program, name, length);
    if (def)
        return set_value(def, settings, value, &place, err);
    char shown[QUOTE_CHARS];
    name[length] = '\0';
    const char *nearest = nearest_def(program, name);
    return err_say(err, -EINVAL, "%sunknown setting \"%s\"%s%s%s", where, quoted(name, shown, sizeof(shown)),
                   nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
}

/* The text of a config file; name is for the errors. */
static int config_text(const struct options_program *program, void *settings, const char *name,
                       const char *data, size_t bytes, struct err *err)
{
    AUTO_FREE char *copy = xmemdup_text(data, bytes);
    char *line = copy;
    for (unsigned number = 1; line < copy + bytes; number++) {
        char where[MANY_LETTERS];
        snprintf(where, sizeof(where), "%s:%u: ", name, number);
        size_t left = (size_t)(copy + bytes - line);
        char *end = memchr(line, '\n', left);
        size_t length = end ? (size_t)(end - line) : left;
        line[length] = '\0';
        if (strlen(line) != length)
            return err_say(err, -EINVAL, "%sthe line contains a NUL byte", where);
        int rc = config_line(program, settings, line, where, err);
        if (rc < 0)
            return rc;
        line += length + 1;
    }
    return 0;
}

static int config_file(const struct options_program *program, void *settings, const char *path,
                       struct err *err)
{
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1)
        return err_set(err, -errno, "open config file %s", path);
    AUTO_FREE char *data = xmalloc(OPTIONS_FILE_BYTES + 1);
    size_t used = 0;
    while (used <= OPTIONS_FILE_BYTES) {
        ssize_t n = read(fd, data + used, OPTIONS_FILE_BYTES + 1 - used);
        if (n == -1 && errno == EINTR)
            continue;
        if (n == -1)
            return err_set(err, -errno, "read config file %s", path);
        if (n == 0)
            return config_text(program, settings, path, data, used, err);
        used += (size_t)n;
    }
    return err_say(err, -E2BIG, "config file %s is larger than %u bytes", path, OPTIONS_FILE_BYTES);
}

/* ---- help ------------------------------------------------------------------------------------ */

/* Puts text at HELP_COLUMN, wrapped at blanks; left stands before it (or above, when it is too long). */
static void print_entry(const char *left, const char *text)
{
    size_t at = strlen(left);
    fputs(left, stdout);
    if (at + 2 > HELP_COLUMN) {
        putchar('\n');
        at = 0;
    }
    printf("%*s", (int)(HELP_COLUMN - at), "");
    at = HELP_COLUMN;
    while (*text) {
        size_t word = strcspn(text, " ");
        if (at > HELP_COLUMN && at + 1 + word > HELP_WIDTH) {
            printf("\n%*s", HELP_COLUMN, "");
            at = HELP_COLUMN;
        }
        at += (size_t)printf("%s%.*s", at > HELP_COLUMN ? " " : "", (int)word, text);
        text += word;
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void print_option(const struct option_def *def)
{
    char left[MANY_LETTERS], text[2 * MANY_LETTERS];
    char letter[8] = "    ";
    if (def->letter)
        snprintf(letter, sizeof(letter), "-%c, ", def->letter);
    const char *argument = def->type == OPTION_BOOL ? NULL : def->argument ? def->argument : "VALUE";
    snprintf(left, sizeof(left), "  %s--%s%s%s%s", letter, def->name,
             !argument      ? ""
             : def->implied ? "[="
                            : " ",
             argument ? argument : "", argument && def->implied ? "]" : "");
    bool plain =
        !def->fallback || !*def->fallback || (def->type == OPTION_BOOL && !strcmp(def->fallback, "false"));
    snprintf(text, sizeof(text), "%s%s%s%s", def->help ? def->help : "", plain ? "" : " (default ",
             plain ? "" : def->fallback, plain ? "" : ")");
    print_entry(left, text);
}

static void print_help(const struct options_program *program)
{
    printf("Usage: %s %s\n%s\n\nOptions:\n", program->name, program->usage, program->summary);
    for (const struct option_def *def = program->defs; def->name; def++)
        print_option(def);
    if (!program->no_config)
        print_entry("      --config FILE",
                    "read settings from FILE, lines of \"name = value\" with the names "
                    "above; the command line wins");
    print_entry("  -h, --help", "print this help and exit");
    print_entry("      --version", "print the version and exit");
    if (program->footer)
        printf("\n%s\n", program->footer);
}

/* ---- the command line ------------------------------------------------------------------------ */

/* One walk over argv. The first has settings NULL: it checks, and finds --config. */
struct walk {
    const struct options_program *program;
    void *settings;
    int argc;
    char **argv;
    int at; /* the argument being read */
    const char *config;
    char **rest;
    size_t rest_count;
};

static int missing_value(const struct walk *walk, const char *name, struct err *err)
{
    return err_say(err, -EINVAL, "option %s needs a value; see '%s --help'", name, walk->program->name);
}

/* The value of an option that must have one: behind '=' or the next argument. */
static int take_value(struct walk *walk, const char *attached, const char *name, const char **ret_value,
                      struct err *err)
{
    if (!attached && walk->at + 1 >= walk->argc)
        return missing_value(walk, name, err);
    *ret_value = attached ? attached : walk->argv[++walk->at];
    return 0;
}

static int apply(struct walk *walk, const struct option_def *def, const char *attached, struct err *err)
{
    char name[MANY_LETTERS];
    const char *value = attached;
    snprintf(name, sizeof(name), "--%s", def->name);
    if (!attached && def->type == OPTION_BOOL)
        value = "true";
    else if (!attached && def->implied)
        value = def->implied;
    int rc = value ? 0 : take_value(walk, NULL, name, &value, err);
    return rc < 0 ? rc : set_value(def, walk->settings, value, &COMMAND_LINE, err);
}

static int unknown_option(const struct walk *walk, const char *arg, struct err *err)
{
    char shown[QUOTE_CHARS], name[NEAREST_CHARS + 1];
    size_t length = strcspn(arg + 2, "=");
    const char *nearest = NULL;
    if (arg[1] == '-' && length < sizeof(name)) {
        snprintf(name, sizeof(name), "%.*s", (int)length, arg + 2);
        nearest = nearest_def(walk->program, name);
    }
    return err_say(err, -EINVAL, "unknown option %s%s%s%s; see '%s --help'",
                   quoted(arg, shown, sizeof(shown)), nearest ? " (did you mean --" : "",
                   nearest ? nearest : "", nearest ? "?)" : "", walk->program->name);
}

static int exit_after(void)
{
    return fflush(stdout) == 0 ? OPTIONS_EXIT : -errno;
}

static int long_option(struct walk *walk, char *arg, struct err *err)
{
    const char *name = arg + 2;
    size_t length = strcspn(name, "=");
    const char *attached = name[length] ? name + length + 1 : NULL;
    const struct option_def *def = find_short_def(walk->program, name, length);
    if (def)
        return apply(walk, def, attached, err);
    if (strcmp(name, "help") == 0) {
        print_help(walk->program);
        return exit_after();
    }
    if (strcmp(name, "version") == 0) {
        printf("%s %s\n", walk->program->name, FLEETPROF_VERSION);
        return exit_after();
    }
    if (!walk->program->no_config && length == 6 && memcmp(name, "config", 6) == 0)
        return take_value(walk, attached, "--config", &walk->config, err);
    return unknown_option(walk, arg, err);
}

/* "-n20", "-n 20", "-n=20", several booleans in one "-ab". */
static int short_options(struct walk *walk, char *arg, struct err *err)
{
    for (const char *p = arg + 1; *p; p++) {
        const struct option_def *def = walk->program->defs;
        while (def->name && def->letter != *p)
            def++;
        if (!def->name && *p == 'h') {
            print_help(walk->program);
            return exit_after();
        }
        if (!def->name) {
            const char letter[3] = {'-', *p, '\0'};
            return unknown_option(walk, letter, err);
        }
        if (def->type != OPTION_BOOL || p[1] == '=')
            return apply(walk, def, !p[1] ? NULL : p[1] == '=' ? p + 2 : p + 1, err);
        int rc = apply(walk, def, NULL, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int walk_arguments(struct walk *walk, struct err *err)
{
    bool options = true;
    for (walk->at = 1; walk->at < walk->argc && walk->argv[walk->at]; walk->at++) {
        char *arg = walk->argv[walk->at];
        int rc = 0;
        if (options && strcmp(arg, "--") == 0) {
            options = false;
        } else if (options && arg[0] == '-' && arg[1] == '-') {
            rc = long_option(walk, arg, err);
        } else if (options && arg[0] == '-' && arg[1]) {
            rc = short_options(walk, arg, err);
        } else if (walk->rest) {
            walk->rest[walk->rest_count++] = arg;
        } else {
            char shown[QUOTE_CHARS];
            rc = err_say(err, -EINVAL, "unexpected argument \"%s\"; see '%s --help'",
                         quoted(arg, shown, sizeof(shown)), walk->program->name);
        }
        if (rc != 0)
            return rc;
    }
    return 0;
}

int options_read(const struct options_program *program, int argc, char **argv, void *settings,
                 char **ret_rest, size_t *rest_count, struct err *err)
{
    struct walk look = {.program = program, .argc = argc, .argv = argv, .rest = ret_rest};
    int rc = walk_arguments(&look, err);
    if (rc != 0)
        return rc;
    struct walk set = {
        .program = program, .settings = settings, .argc = argc, .argv = argv, .rest = ret_rest};
    rc = set_defaults(program, settings, err);
    if (rc == 0 && look.config)
        rc = config_file(program, settings, look.config, err);
    if (rc == 0)
        rc = walk_arguments(&set, err);
    if (rc < 0)
        options_fini(program, settings);
    else if (ret_rest)
        *rest_count = set.rest_count;
    return rc;
}
