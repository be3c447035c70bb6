#include "aggregator/api_json.h"

#include "common/cleanup.h"
#include "common/str.h"
#include "common/xalloc.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define SHARE_DIGITS 9

json_t *api_json_text(const void *text, size_t bytes)
{
    size_t room = bytes * 4 + 1; /* every byte may become \xHH */
    AUTO_FREE char *printable = xmalloc(room);
    size_t length = str_shown(printable, room, text, bytes);
    return json_stringn_nocheck(printable, length);
}

json_t *api_json_string(const char *text)
{
    return text ? api_json_text(text, strlen(text)) : json_null();
}

json_t *api_json_number(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

json_t *api_json_counters(const struct query_counter *counters, size_t count)
{
    json_t *object = json_object();
    for (size_t i = 0; i < count; i++) {
        char name[256];
        str_printable(name, sizeof(name), counters[i].name, strlen(counters[i].name));
        json_object_set_new_nocheck(object, name, api_json_number(counters[i].value));
    }
    return object;
}

json_t *api_json_share(double share)
{
    return isfinite(share) ? json_real(share) : json_null();
}

json_t *api_json_interval(json_t *low, json_t *high)
{
    json_t *interval = json_object();
    json_object_set_new(interval, "low", low);
    json_object_set_new(interval, "high", high);
    return interval;
}

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

/* Samples of a kind, and their share of all. */
static json_t *portion(uint64_t part, uint64_t whole)
{
    json_t *object = json_object();
    json_object_set_new(object, "samples", api_json_number(part));
    json_object_set_new(object, "share", api_json_share(ratio((double)part, (double)whole)));
    return object;
}

static json_t *shards(const struct query_completeness *completeness)
{
    json_t *object = json_object(), *missing = json_array();
    uint32_t asked = completeness->shards_asked, answered = completeness->shards_answered;
    for (uint32_t i = 0; completeness->missing_shards && asked > answered && i < asked - answered; i++)
        json_array_append_new(missing, api_json_string(completeness->missing_shards[i]));
    json_object_set_new(object, "asked", api_json_number(asked));
    json_object_set_new(object, "answered", api_json_number(answered));
    json_object_set_new(object, "missing", missing);
    return object;
}

static uint64_t lost_samples(const struct query_completeness *completeness)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < completeness->lost_count; i++)
        sum += completeness->lost[i].value;
    return sum;
}

static bool is_partial(const struct query_completeness *completeness)
{
    return completeness->partial || completeness->shards_answered < completeness->shards_asked;
}

static json_t *lost(const struct query_completeness *completeness)
{
    uint64_t sum = lost_samples(completeness);
    json_t *object = portion(sum, completeness->node_samples + sum);
    json_object_set_new(object, "by_cause", api_json_counters(completeness->lost, completeness->lost_count));
    return object;
}

static json_t *coverage(const struct query_completeness *completeness)
{
    double covered = (double)completeness->covered_ms, expected = (double)completeness->expected_ms;
    json_t *object = json_object();
    json_object_set_new(object, "covered_ms", api_json_number(completeness->covered_ms));
    json_object_set_new(object, "expected_ms", api_json_number(completeness->expected_ms));
    json_object_set_new(object, "share", api_json_share(ratio(covered, expected)));
    return object;
}

json_t *api_json_completeness(const struct query_completeness *completeness)
{
    json_t *object = json_object();
    json_object_set_new(object, "partial", json_boolean(is_partial(completeness)));
    json_object_set_new(object, "shards", shards(completeness));
    json_object_set_new(object, "nodes", api_json_number(completeness->nodes));
    json_object_set_new(object, "samples", api_json_number(completeness->samples));
    json_object_set_new(object, "value", api_json_number(completeness->value));
    json_object_set_new(object, "unit", api_json_string(completeness->unit));
    json_object_set_new(object, "lost", lost(completeness));
    json_object_set_new(object, "truncated", portion(completeness->truncated, completeness->samples));
    json_object_set_new(object, "unnamed", portion(completeness->unnamed, completeness->samples));
    json_t *unranked = portion(completeness->unranked, completeness->samples);
    json_object_set_new(unranked, "value", api_json_number(completeness->unranked_value));
    json_object_set_new(object, "unranked", unranked);
    json_object_set_new(object, "coverage", coverage(completeness));
    json_object_set_new(object, "skewed", json_boolean(completeness->skewed));
    return object;
}

static int on_chunk(const char *data, size_t bytes, void *ctx)
{
    return buf_append(ctx, data, bytes) < 0 ? -1 : 0;
}

void api_json_send(struct http_response *response, json_t *data,
                   const struct query_completeness *completeness)
{
    json_t *answer = json_object();
    json_object_set_new(answer, "data", data);
    json_object_set_new(answer, "completeness", api_json_completeness(completeness));
    int rc = json_dump_callback(answer, on_chunk, &response->body,
                                JSON_COMPACT | JSON_REAL_PRECISION(SHARE_DIGITS));
    json_decref(answer);
    if (rc == 0 && buf_append(&response->body, "\n", 1) == 0)
        response->content_type = "application/json";
    else
        http_response_error(response, 500, "the answer does not fit", "ask for fewer rows or a shorter time");
}

void api_json_note(struct http_response *response, const struct query_completeness *completeness)
{
    json_t *block = api_json_completeness(completeness);
    response->note_name = "X-Fleetprof-Completeness";
    response->note = json_dumps(block, JSON_COMPACT | JSON_REAL_PRECISION(SHARE_DIGITS));
    json_decref(block);
}

int api_json_sentence(const struct query_completeness *completeness, struct buf *out)
{
    double samples = (double)completeness->samples, lost_count = (double)lost_samples(completeness);
    double node_samples = (double)completeness->node_samples;
    return buf_printf(
        out, "%s%u of %u shards, %llu node%s, %llu samples; lost %.1f %%, truncated %.1f %%, unnamed %.1f %%",
        is_partial(completeness) ? "PARTIAL: " : "", completeness->shards_answered,
        completeness->shards_asked, (unsigned long long)completeness->nodes,
        completeness->nodes == 1 ? "" : "s", (unsigned long long)completeness->samples,
        100 * ratio(lost_count, node_samples + lost_count),
        100 * ratio((double)completeness->truncated, samples),
        100 * ratio((double)completeness->unnamed, samples));
}

void api_json_error(struct http_response *response, int code, const struct err *err, const char *hint)
{
    static const struct {
        int code, status;
        const char *hint;
    } rows[] = {
        {-EINVAL, 400, "see docs/api.md"},
        {-E2BIG, 400, "ask for a shorter time, or narrow the question with match"},
        {-ETIMEDOUT, 504, "ask for a shorter time, or look at /readyz"},
        {-EBUSY, 503, "ask again in a moment"},
    };
    int status = 500;
    const char *fallback = "the log of the aggregator may say more";
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].code == code) {
            status = rows[i].status;
            fallback = rows[i].hint;
        }
    http_response_error(response, status, err->text[0] ? err->text : strerror(-code),
                        hint && *hint ? hint : fallback);
}
