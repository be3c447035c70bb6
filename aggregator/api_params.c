#include "aggregator/api_params.h"

#include "aggregator/api_http.h"
#include "common/options.h"
#include "common/str.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MS_PER_DAY 86400000LL
#define UNIX_MS_FROM                                                                                         \
    100000000000ULL /* bare numbers from here are milliseconds: as seconds they lie in the year 5138 */
#define TIME_MAX_MS 253402300799999ULL /* end of the year 9999 */

/* ---- times ----------------------------------------------------------------------------------- */

/* Reads exactly count digits. */
static bool digits(const char **text, int count, int *ret_value)
{
    int value = 0;
    for (int i = 0; i < count; i++, (*text)++) {
        if (!isdigit((unsigned char)**text))
            return false;
        value = value * 10 + (**text - '0');
    }
    *ret_value = value;
    return true;
}

static bool expect(const char **text, const char *any_of)
{
    if (!**text || !strchr(any_of, **text))
        return false;
    (*text)++;
    return true;
}

/* Days from 1970-01-01 in the proleptic Gregorian calendar; years begin in March, so that leap days come
 * last. */
static int64_t days_from_civil(int year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400, in_era = y - era * 400;
    int64_t in_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719468;
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

/* ".25" -> 250; digits after the third are read over. Nothing there is 0. */
static bool fraction_ms(const char **text, int *ret_ms)
{
    *ret_ms = 0;
    if (**text != '.')
        return true;
    (*text)++;
    if (!isdigit((unsigned char)**text))
        return false;
    for (int scale = 100; isdigit((unsigned char)**text); scale /= 10, (*text)++)
        *ret_ms += (**text - '0') * scale;
    return true;
}

/* "Z" or "+02:00". A '+' that was sent as it is arrives as a blank. */
static bool zone_minutes(const char **text, int *ret_minutes)
{
    int hours, minutes;
    *ret_minutes = 0;
    if (expect(text, "Zz"))
        return true;
    bool west = **text == '-';
    if (!expect(text, "+- ") || !digits(text, 2, &hours) || !expect(text, ":") || !digits(text, 2, &minutes))
        return false;
    *ret_minutes = (hours * 60 + minutes) * (west ? -1 : 1);
    return hours <= 23 && minutes <= 59;
}

static int rfc3339(const char *text, uint64_t *ret_ms)
{
    int year, month, day, hour, minute, second, ms, zone;
    if (!digits(&text, 4, &year) || !expect(&text, "-") || !digits(&text, 2, &month) || !expect(&text, "-") ||
        !digits(&text, 2, &day) || !expect(&text, "Tt ") || !digits(&text, 2, &hour) || !expect(&text, ":") ||
        !digits(&text, 2, &minute) || !expect(&text, ":") || !digits(&text, 2, &second) ||
        !fraction_ms(&text, &ms) || !zone_minutes(&text, &zone) || *text)
        return -EINVAL;
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || hour > 23 || minute > 59 ||
        second > 60)
        return -EINVAL;
    int64_t at = days_from_civil(year, month, day) * MS_PER_DAY +
                 (((int64_t)hour * 60 + minute - zone) * 60 + second) * 1000 + ms;
    if (at < 0)
        return -EINVAL;
    *ret_ms = (uint64_t)at;
    return 0;
}

static int unix_time(const char *text, uint64_t *ret_ms)
{
    size_t length = strspn(text, "0123456789");
    uint64_t value;
    int ms;
    if (str_u64(text, length, 10, &value) < 0)
        return -EINVAL;
    const char *rest = text + length;
    if (!fraction_ms(&rest, &ms) || *rest || (text[length] && value >= UNIX_MS_FROM) || value > TIME_MAX_MS)
        return -EINVAL;
    *ret_ms = value >= UNIX_MS_FROM ? value : value * 1000 + (uint64_t)ms;
    return 0;
}

int api_params_time(const char *text, uint64_t now_ms, uint64_t *ret_ms)
{
    if (!str_starts(text, "now"))
        return text[strspn(text, "0123456789.")] ? rfc3339(text, ret_ms) : unix_time(text, ret_ms);
    uint64_t ago_ms = 0;
    if (text[3] && (text[3] != '-' || options_parse_duration_ms(text + 4, &ago_ms) < 0 || ago_ms > now_ms))
        return -EINVAL;
    *ret_ms = now_ms - ago_ms;
    return 0;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static const char *const NAMES[][9] = {
    [API_PARAMS_STACKS] = {"kind", "match", "since", "from", "to"},
    [API_PARAMS_TOP] = {"kind", "match", "since", "from", "to", "group", "limit", "cumulative"},
    [API_PARAMS_LABELS] = {"kind", "match", "since", "from", "to", "limit"},
    [API_PARAMS_NONE] = {NULL},
};

struct reading {
    struct api_params *params;
    const char *const *names;
    uint64_t now_ms, since_ms;
    bool has_from, has_to, has_since;
    char seen[9][16]; /* names that came and may come once */
    size_t seen_count;
    struct err *err;
};

static int wrong(struct reading *reading, const char *name, const char *value, const char *hint)
{
    snprintf(reading->params->hint, sizeof(reading->params->hint), "%s", hint);
    return err_say(reading->err, -EINVAL, "parameter %s: \"%.80s\" is not understood", name, value);
}

static int unknown(struct reading *reading, const char *name)
{
    char *hint = reading->params->hint;
    size_t used = 0, room = sizeof(reading->params->hint);
    const char *nearest = options_nearest(name, reading->names);
    for (size_t i = 0; reading->names[i]; i++) {
        int n = snprintf(hint + used, room - used, "%s%s", i ? ", " : "allowed: ", reading->names[i]);
        used += n > 0 && (size_t)n < room - used ? (size_t)n : 0;
    }
    if (!used)
        snprintf(hint, room, "this page takes no parameters");
    return err_say(reading->err, -EINVAL, "unknown parameter \"%.80s\"%s%s%s", name,
                   nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
}

static int check_once(struct reading *reading, const char *name)
{
    for (size_t i = 0; i < reading->seen_count; i++)
        if (strcmp(reading->seen[i], name) == 0)
            return err_say(reading->err, -EINVAL, "parameter %s is given more than once", name);
    snprintf(reading->seen[reading->seen_count++], sizeof(reading->seen[0]), "%s", name);
    return 0;
}

/* A name that can be a kind or a label: [a-zA-Z_][a-zA-Z0-9_]*. */
static bool is_name(const char *text)
{
    return *text && !isdigit((unsigned char)*text) &&
           text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] == '\0';
}

static int read_groups(struct reading *reading, const char *value)
{
    static const char hint[] =
        "up to 4 of function, module, executable or label names (process, thread, node, "
        "container ...), separated by commas";
    struct api_params *params = reading->params;
    if (strlen(value) >= sizeof(params->group_text))
        return wrong(reading, "group", value, hint);
    snprintf(params->group_text, sizeof(params->group_text), "%s", value);
    params->group_count = 0;
    for (char *name = params->group_text, *next; name; name = next) {
        next = strchr(name, ',');
        if (next)
            *next++ = '\0';
        bool twice = false;
        for (size_t i = 0; i < params->group_count; i++)
            twice = twice || strcmp(params->groups[i], name) == 0;
        if (twice || !is_name(name) || params->group_count == QUERY_MAX_GROUPS)
            return wrong(reading, "group", value, hint);
        params->groups[params->group_count++] = name;
    }
    return 0;
}

static int read_limit(struct reading *reading, const char *value)
{
    char hint[64];
    uint64_t limit;
    snprintf(hint, sizeof(hint), "a whole number from 1 to %u", QUERY_MAX_ROWS);
    if (options_parse_uint(value, &limit) < 0 || limit < 1 || limit > QUERY_MAX_ROWS)
        return wrong(reading, "limit", value, hint);
    reading->params->limit = (size_t)limit;
    return 0;
}

static int read_time(struct reading *reading, const char *name, const char *value, uint64_t *ret_ms)
{
    if (api_params_time(value, reading->now_ms, ret_ms) < 0)
        return wrong(reading, name, value,
                     "RFC 3339 (2026-01-31T12:00:00Z), unix seconds or milliseconds, now, or now-5m");
    return 0;
}

static int read_match(struct reading *reading, const char *value)
{
    int rc = labels_parse(value, strlen(value), &reading->params->matchers, reading->err);
    if (rc < 0) {
        snprintf(reading->params->hint, sizeof(reading->params->hint),
                 "label matchers such as {node=\"a\",process=~\"api.*\",container!=\"\"}");
        err_wrap(reading->err, "parameter match");
        return -EINVAL;
    }
    return 0;
}

static int read_value(struct reading *reading, const char *name, const char *value)
{
    struct api_params *params = reading->params;
    if (strcmp(name, "group") == 0)
        return read_groups(reading, value);
    if (strcmp(name, "limit") == 0)
        return read_limit(reading, value);
    if (strcmp(name, "from") == 0) {
        reading->has_from = true;
        return read_time(reading, name, value, &params->from_ms);
    }
    if (strcmp(name, "to") == 0) {
        reading->has_to = true;
        return read_time(reading, name, value, &params->to_ms);
    }
    if (strcmp(name, "since") == 0) {
        reading->has_since = true;
        if (options_parse_duration_ms(value, &reading->since_ms) < 0 || reading->since_ms == 0)
            return wrong(reading, name, value, "a duration such as 30s, 5m or 1h30m");
        return 0;
    }
    if (strcmp(name, "cumulative") == 0) {
        params->cumulative = strcmp(value, "true") == 0 || strcmp(value, "1") == 0;
        bool no = strcmp(value, "false") == 0 || strcmp(value, "0") == 0;
        return params->cumulative || no ? 0 : wrong(reading, name, value, "true or false");
    }
    if (!is_name(value) || strlen(value) >= sizeof(params->kind)) /* kind is left */
        return wrong(reading, name, value, "a kind of profile, such as cpu");
    snprintf(params->kind, sizeof(params->kind), "%s", value);
    return 0;
}

static int on_param(const char *name, const char *value, void *ctx)
{
    struct reading *reading = ctx;
    size_t i = 0;
    while (reading->names[i] && strcmp(reading->names[i], name) != 0)
        i++;
    if (!reading->names[i])
        return unknown(reading, name);
    if (strcmp(name, "match") == 0)
        return read_match(reading, value);
    int rc = check_once(reading, name);
    return rc < 0 ? rc : read_value(reading, name, value);
}

static int settle_range(struct reading *reading)
{
    struct api_params *params = reading->params;
    if (reading->has_from && reading->has_since)
        return err_say(reading->err, -EINVAL,
                       "parameters from and since say the same thing; give one of them");
    if (!reading->has_to)
        params->to_ms = reading->now_ms;
    if (!reading->has_from)
        params->from_ms = params->to_ms > reading->since_ms ? params->to_ms - reading->since_ms : 0;
    if (params->from_ms >= params->to_ms)
        return err_say(reading->err, -EINVAL, "the time range is empty: from must be before to");
    if (params->to_ms - params->from_ms > API_RANGE_MS)
        return err_say(reading->err, -EINVAL, "the time range is longer than %llu days",
                       API_RANGE_MS / (unsigned long long)MS_PER_DAY);
    return 0;
}

int api_params_read(const struct http_request *request, enum api_param_set set, uint64_t now_ms,
                    struct api_params *params, struct err *err)
{
    struct reading reading = {.params = params, .names = NAMES[set], .now_ms = now_ms, .err = err};
    *params = (struct api_params){.kind = "cpu", .groups = {"function"}, .group_count = 1};
    params->limit = set == API_PARAMS_LABELS ? API_LIMIT_VALUES : API_LIMIT_ROWS;
    reading.since_ms = API_SINCE_MS;
    int rc = http_request_each_param(request, on_param, &reading);
    if (rc == 0)
        rc = settle_range(&reading);
    params->selection = (struct query_selection){.kind = params->kind,
                                                 .from_ms = params->from_ms,
                                                 .to_ms = params->to_ms,
                                                 .matchers = &params->matchers};
    return rc;
}

void api_params_fini(struct api_params *params)
{
    labels_fini(&params->matchers);
}
