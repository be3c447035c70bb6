#include "common/labels.h"

#include "common/xalloc.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* glibc compiles a{m,n} and a+ by copying a, so nested repeats multiply, and its tables are quadratic in the
 * number of states: what an expression may unfold to at most, in atoms. */
#define REGEX_UNFOLDED_ATOMS 2048u
#define REGEX_MAX_GROUPS     64u /* nested */

/* ---- regular expressions ---- */

/* Past a bracket expression that begins at p ('['); an unclosed one ends with the text (regcomp refuses it).
 */
static const char *skip_bracket(const char *p)
{
    p++;
    if (*p == '^')
        p++;
    if (*p == ']')
        p++;
    while (*p && *p != ']') {
        if (*p == '[' && p[1] && strchr(":.=", p[1])) {
            const char close[] = {p[1], ']', '\0'};
            const char *end = strstr(p + 2, close);
            p = end ? end + 2 : p + 1;
        } else {
            p++;
        }
    }
    return *p ? p + 1 : p;
}

/* Upper bound of an interval whose '{' is at *p, at least 2; moves *p to its last character. */
static uint64_t read_interval(const char **p)
{
    uint64_t bound = 2, number = 0;
    const char *end = *p + strcspn(*p, "}");
    for (const char *at = *p + 1; at < end; at++) {
        number = isdigit((unsigned char)*at) ? number * 10 + (uint64_t)(*at - '0') : 0;
        bound = number > bound ? number : bound;
        if (bound > REGEX_UNFOLDED_ATOMS)
            break;
    }
    *p = *end ? end : end - 1;
    return bound;
}

/* Refuses what the C library would take unbounded memory or time for; the rest is a small finite automaton.
 * An expression is read as atoms (a character, a bracket, a group) with repeats after them; groups[] holds,
 * for each open group, the atoms before its last atom; last is what the last atom unfolds to. */
static int check_regex_cost(const char *regex, struct err *err)
{
    uint64_t groups[REGEX_MAX_GROUPS] = {0}, last = 0;
    uint32_t depth = 0;
    if (strlen(regex) > LABELS_REGEX_BYTES)
        return err_say(err, -E2BIG, "regular expression longer than %d bytes", LABELS_REGEX_BYTES);
    for (const char *p = regex; *p; p++) {
        if (*p == '*' || *p == '?' || *p == '+' || *p == '{') {
            last *= *p == '{' ? read_interval(&p) : 2;
        } else if (*p == ')') {
            if (depth == 0) /* it would close the group that anchors the expression */
                return err_say(err, -EINVAL, "regular expression \"%s\": unmatched )", regex);
            last += groups[depth--] + 1;
        } else {
            groups[depth] += last;
            last = 1;
        }
        if (groups[depth] + last > REGEX_UNFOLDED_ATOMS)
            return err_say(err, -E2BIG, "the repeats in regular expression \"%s\" multiply to too much",
                           regex);
        if (*p == '(') {
            if (++depth == REGEX_MAX_GROUPS)
                return err_say(err, -E2BIG, "more than %u nested groups in a regular expression",
                               REGEX_MAX_GROUPS);
            groups[depth] = last = 0;
        } else if (*p == '[') {
            p = skip_bracket(p) - 1;
        } else if (*p == '\\' && p[1]) {
            p++;
            if (isdigit((unsigned char)*p))
                return err_say(err, -EINVAL, "back-references (\\%c) are not supported in \"%s\"", *p, regex);
        }
    }
    return 0;
}

static int compile(const char *regex, regex_t *ret_regex, struct err *err)
{
    int rc = check_regex_cost(regex, err);
    if (rc < 0)
        return rc;
    char anchored[LABELS_REGEX_BYTES + 8];
    size_t bytes = strlen(regex);
    memcpy(anchored, "^(", 2);
    memcpy(anchored + 2, regex, bytes);
    memcpy(anchored + 2 + bytes, ")$", 3);
    int fault = regcomp(ret_regex, anchored, REG_EXTENDED | REG_NOSUB);
    if (fault != 0) {
        char text[128];
        regerror(fault, ret_regex, text, sizeof(text));
        return err_say(err, -EINVAL, "regular expression \"%s\": %s", regex, text);
    }
    return 0;
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
        return regexec(&matcher->regex, value, 0, NULL, 0) == 0;
    default:
        return regexec(&matcher->regex, value, 0, NULL, 0) == REG_NOMATCH;
    }
}

/* Drops the matchers from first on. */
static void drop_from(struct label_matchers *matchers, size_t first)
{
    while (matchers->count > first) {
        struct label_matcher *matcher = &matchers->items[--matchers->count];
        if (matcher->op == LABEL_REGEX || matcher->op == LABEL_NOT_REGEX)
            regfree(&matcher->regex);
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
