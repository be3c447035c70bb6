/* labels: label matchers in Prometheus syntax: {name="value", other!="x", re=~"a|b", no!~"c.*"}.
 * Shapes:    label names [a-zA-Z_][a-zA-Z0-9_]*; values double- or single-quoted with \\ \" \n escapes;
 *            braces optional; regular expressions are PCRE2's, on bytes, anchored at both ends. A
 *            bare name=value (no quotes) is taken too.
 * Limits:    LABELS_MAX_MATCHERS, LABELS_TEXT_BYTES for the whole text, LABELS_REGEX_BYTES for one
 *            expression; a match that takes more than 10,000 steps matches neither =~ nor !~.
 * Errors:    -EINVAL with position and cause; -E2BIG.
 * Threads:   a parsed set may be read by any thread. */
#ifndef COMMON_LABELS_H
#define COMMON_LABELS_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>

#define LABELS_MAX_MATCHERS 32
#define LABELS_TEXT_BYTES   8192
#define LABELS_REGEX_BYTES  1024

enum label_op { LABEL_EQUAL, LABEL_NOT_EQUAL, LABEL_REGEX, LABEL_NOT_REGEX };

struct label_matcher {
    char *name;
    char *value;
    enum label_op op;
    struct pcre2_real_code_8 *regex; /* REGEX kinds only */
};

struct label_matchers {
    struct label_matcher items[LABELS_MAX_MATCHERS];
    size_t count;
};

/* Adds the matchers in text to *matchers (zero-initialised before the first call). On error nothing is added.
 */
int labels_parse(const char *text, size_t bytes, struct label_matchers *matchers, struct err *err);
int labels_add(struct label_matchers *matchers, const char *name, enum label_op op, const char *value,
               struct err *err);
/* A missing label is the empty value, as in Prometheus. */
bool label_match(const struct label_matcher *matcher, const char *value);
void labels_fini(struct label_matchers *matchers);

#endif
