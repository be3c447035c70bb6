/* api_params: the query string of a question, checked: unknown, repeated and wrong parameters are refused
 * with a text that names them and what is allowed (docs/api.md lists them).
 * Shapes:    times: RFC 3339, unix seconds (fractions too) or milliseconds, "now", "now-5m"; durations as
 *            in options.h.
 * Errors:    -EINVAL with text and hint.
 * Threads:   any. */
#ifndef AGGREGATOR_API_PARAMS_H
#define AGGREGATOR_API_PARAMS_H

#include "aggregator/query.h"
#include "common/http_server.h"

#define API_HINT_BYTES   256
#define API_SINCE_MS     300000u /* when the question names no time */
#define API_LIMIT_ROWS   20u
#define API_LIMIT_VALUES 1000u

/* What a door takes besides kind, match, since, from and to. */
enum api_param_set { API_PARAMS_STACKS, API_PARAMS_TOP, API_PARAMS_LABELS, API_PARAMS_NONE };

struct api_params {
    char kind[32];
    uint64_t from_ms, to_ms;
    struct label_matchers matchers;
    char group_text[256]; /* what groups[] points into */
    const char *groups[QUERY_MAX_GROUPS];
    size_t group_count;
    bool cumulative;
    size_t limit;
    struct query_selection selection; /* of the above */
    char hint[API_HINT_BYTES];        /* "" or, after an error, what would be right */
};

/* Fills *params (fini it in any case). */
int api_params_read(const struct http_request *request, enum api_param_set set, uint64_t now_ms,
                    struct api_params *params, struct err *err);
void api_params_fini(struct api_params *params);

/* One point in time. -EINVAL. */
int api_params_time(const char *text, uint64_t now_ms, uint64_t *ret_ms);

#endif
