#include "common/labels.h"

#include "common/xalloc.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define REGEX_MAX_GROUPS 64u    /* nested */
#define REGEX_STEPS      10000u /* of one match: an expression that needs more matches nothing */
#define REGEX_HEAP_KIB   1024u

/* ---- regular expressions ---- */

/* PCRE2 bounds what an expression may cost, compiled (64 KiB of code, its default link size) and matched; the C
 * library's regcomp takes unbounded memory for a few bytes of nested repeats. */
static pcre2_compile_context *compile_limits(void)
{
    pcre2_compile_context *limits = pcre2_compile_context_create(NULL);
    if (!limits)
        abort();
    pcre2_set_parens_nest_limit(limits, REGEX_MAX_GROUPS);
    return limits;
}

static int compile(const char *regex, pcre2_code **ret_regex, struct err *err)
{
    const uint32_t options = PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOTALL | PCRE2_NO_AUTO_CAPTURE |
                             PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C;
    if (strlen(regex) > LABELS_REGEX_BYTES)
        return err_say(err, -E2BIG, "regular expression longer than %d bytes", LABELS_REGEX_BYTES);
    pcre2_compile_context *limits = compile_limits();
    int fault;
    size_t at;
    *ret_regex = pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED, options, &fault, &at, limits);
    pcre2_compile_context_free(limits);
    if (*ret_regex)
        return 0;
    char text[128];
    pcre2_get_error_message(fault, (PCRE2_UCHAR *)text, sizeof(text));
    bool too_big = fault == PCRE2_ERROR_PATTERN_TOO_LARGE || fault == PCRE2_ERROR_PARENTHESES_NEST_TOO_DEEP ||
                   fault == PCRE2_ERROR_PATTERN_TOO_COMPLICATED;
    return err_say(err, too_big ? -E2BIG : -EINVAL, "regular expression \"%.100s\", position %zu: %s", regex,
                   at, text);
}

/* 1 it matches, 0 it does not, negative: it needs more than it may. */
static int run(const pcre2_code *regex, const char *value)
{
    pcre2_match_context *limits = pcre2_match_context_create(NULL);
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    if (!limits || !data)
        abort();
    pcre2_set_match_limit(limits, REGEX_STEPS);
    pcre2_set_depth_limit(limits, REGEX_STEPS);
    pcre2_set_heap_limit(limits, REGEX_HEAP_KIB);
    int rc = pcre2_match(regex, (PCRE2_SPTR)value, strlen(value), 0, 0, data, limits);
    pcre2_match_data_free(data);
    pcre2_match_context_free(limits);
    return rc >= 0 ? 1 : rc == PCRE2_ERROR_NOMATCH ? 0 : -E2BIG;
}

/* ---- matchers ---- */

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name(const char *name)
{
    if (!is_name_start(*name))
        return false;
    while (is_name_start(*name) || isdigit((unsigned char)*name))
        name++;
    return *name == '\0';
}

int labels_add(struct label_matchers *matchers, const char *name, enum label_op op, const char *value,
               struct err *err)
{
    if (matchers->count == LABELS_MAX_MATCHERS)
        return err_say(err, -E2BIG, "more than %d label matchers", LABELS_MAX_MATCHERS);
    if (!is_name(name))
        return err_say(err, -EINVAL, "\"%s\" is not a label name ([a-zA-Z_][a-zA-Z0-9_]*)", name);
    if (op > LABEL_NOT_REGEX)
        return err_say(err, -EINVAL, "unknown matcher operator %d", (int)op);
    struct label_matcher *matcher = &matchers->items[matchers->count];
    if (op == LABEL_REGEX || op == LABEL_NOT_REGEX) {
        int rc = compile(value, &matcher->regex, err);
        if (rc < 0)
            return rc;
    }
    matcher->name = xstrdup(name);
    matcher->value = xstrdup(value);
    matcher->op = op;
    matchers->count++;
    return 0;
}

bool label_match(const struct label_matcher *matcher, const char *value)
{
    switch (matcher->op) {
    case LABEL_EQUAL:
        return strcmp(matcher->value, value) == 0;
    case LABEL_NOT_EQUAL:
        return strcmp(matcher->value, value) != 0;
    case LABEL_REGEX:
        return run(matcher->regex, value) == 1;
    default:
        return run(matcher->regex, value) == 0;
    }
}

/* Drops the matchers from first on. */
static void drop_from(struct label_matchers *matchers, size_t first)
{
    while (matchers->count > first) {
        struct label_matcher *matcher = &matchers->items[--matchers->count];
        pcre2_code_free(matcher->regex);
        free(matcher->name);
        free(matcher->value);
        *matcher = (struct label_matcher){0};
    }
}

void labels_fini(struct label_matchers *matchers)
{
    drop_from(matchers, 0);
}

/* ---- text ---- */

struct cursor {
    const char *at, *start; /* NUL-terminated */
    char *scratch;          /* room for the longest name or value */
    struct err *err;
};

static int fault(struct cursor *c, const char *what)
{
    return err_say(c->err, -EINVAL, "label matchers, position %zu: %s", (size_t)(c->at - c->start) + 1, what);
}

static void skip_space(struct cursor *c)
{
    while (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')
        c->at++;
}

static int read_name(struct cursor *c, char **ret_name)
{
    const char *start = c->at;
    if (!is_name_start(*c->at))
        return fault(c, "a label name was expected ([a-zA-Z_][a-zA-Z0-9_]*)");
    while (is_name_start(*c->at) || isdigit((unsigned char)*c->at))
        c->at++;
    *ret_name = xmemdup_text(start, (size_t)(c->at - start));
    return 0;
}

static int read_op(struct cursor *c, enum label_op *ret_op)
{
    static const struct {
        char text[3];
        enum label_op op;
    } ops[] = {{"=~", LABEL_REGEX}, {"!=", LABEL_NOT_EQUAL}, {"!~", LABEL_NOT_REGEX}, {"=", LABEL_EQUAL}};
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        if (strncmp(c->at, ops[i].text, strlen(ops[i].text)) == 0) {
            c->at += strlen(ops[i].text);
            if (*c->at == '=')
                return fault(c, "one of = != =~ !~ was expected, equality is a single =");
            *ret_op = ops[i].op;
            return 0;
        }
    }
    return fault(c, "one of = != =~ !~ was expected");
}

static int read_quoted(struct cursor *c)
{
    char quote = *c->at;
    const char *open = c->at++;
    size_t used = 0;
    while (*c->at != quote) {
        if (*c->at == '\0') {
            c->at = open;
            return fault(c, "this quote is not closed");
        }
        char byte = *c->at;
        if (byte == '\\') {
            c->at++;
            if (*c->at == '\0' || !strchr("\\\"'n", *c->at))
                return fault(c, "only \\\\, \\\", \\' and \\n are escapes");
            byte = *c->at == 'n' ? '\n' : *c->at;
        }
        c->scratch[used++] = byte;
        c->at++;
    }
    c->at++;
    c->scratch[used] = '\0';
    return 0;
}

static int read_value(struct cursor *c)
{
    if (*c->at == '"' || *c->at == '\'')
        return read_quoted(c);
    size_t bytes = strcspn(c->at, ",}\"' \t\r\n");
    memcpy(c->scratch, c->at, bytes);
    c->scratch[bytes] = '\0';
    c->at += bytes;
    return 0;
}

static int read_matcher(struct cursor *c, struct label_matchers *matchers)
{
    char *name = NULL;
    enum label_op op = LABEL_EQUAL;
    int rc = read_name(c, &name);
    if (rc < 0)
        return rc;
    skip_space(c);
    rc = read_op(c, &op);
    if (rc == 0) {
        skip_space(c);
        rc = read_value(c);
    }
    if (rc == 0)
        rc = labels_add(matchers, name, op, c->scratch, c->err);
    free(name);
    return rc;
}

static int read_list(struct cursor *c, struct label_matchers *matchers)
{
    skip_space(c);
    bool braces = *c->at == '{';
    if (braces)
        c->at++;
    skip_space(c);
    while (*c->at != '\0' && *c->at != '}') {
        int rc = read_matcher(c, matchers);
        if (rc < 0)
            return rc;
        skip_space(c);
        if (*c->at != ',')
            break;
        c->at++; /* one after the last is fine, as in Prometheus */
        skip_space(c);
    }
    if (braces && *c->at != '}')
        return fault(c, "\",\" or \"}\" was expected");
    c->at += braces;
    skip_space(c);
    return *c->at == '\0' ? 0 : fault(c, braces ? "nothing may follow \"}\"" : "\",\" was expected");
}

int labels_parse(const char *text, size_t bytes, struct label_matchers *matchers, struct err *err)
{
    if (bytes > LABELS_TEXT_BYTES)
        return err_say(err, -E2BIG, "label matchers longer than %d bytes", LABELS_TEXT_BYTES);
    if (bytes > 0 && memchr(text, '\0', bytes))
        return err_say(err, -EINVAL, "label matchers with a NUL byte");
    char *copy = xmemdup_text(text, bytes);
    struct cursor c = {.at = copy, .start = copy, .scratch = xmalloc(bytes + 1), .err = err};
    size_t before = matchers->count;
    int rc = read_list(&c, matchers);
    if (rc < 0)
        drop_from(matchers, before);
    free(c.scratch);
    free(copy);
    return rc;
}
