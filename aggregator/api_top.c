#include "aggregator/api_top.h"

#include "aggregator/api_json.h"
#include "aggregator/interval.h"

#include <string.h>

static json_t *row_keys(const struct api_params *params, const struct query_top_row *row)
{
    json_t *keys = json_object();
    for (size_t i = 0; i < params->group_count; i++) {
        json_object_set_new_nocheck(keys, params->groups[i], api_json_string(row->keys[i]));
        if (strcmp(params->groups[i], "function") == 0)
            json_object_set_new_nocheck(keys, "module", api_json_string(row->module));
    }
    return keys;
}

static json_t *figure(uint64_t value, uint64_t count, const char *unit, uint64_t low, uint64_t high)
{
    json_t *object = json_object();
    json_object_set_new(object, "value", api_json_number(value));
    json_object_set_new(object, "unit", api_json_string(unit));
    json_object_set_new(object, "count", api_json_number(count));
    json_object_set_new(object, "interval", api_json_interval(api_json_number(low), api_json_number(high)));
    return object;
}

static json_t *row_json(const struct api_params *params, const struct query_top *top,
                        const struct query_top_row *row)
{
    json_t *object = figure(row->value, row->count, top->unit, row->low, row->high);
    json_object_set_new(object, "keys", row_keys(params, row));
    json_object_set_new(object, "share", api_json_share(row->share));
    json_object_set_new(object, "share_interval",
                        api_json_interval(api_json_share(row->share_low), api_json_share(row->share_high)));
    return object;
}

static json_t *top_json(const struct api_params *params, const struct query_top *top)
{
    json_t *object = json_object(), *rows = json_array(), *groups = json_array();
    uint64_t low, high;
    for (size_t i = 0; i < top->row_count; i++)
        json_array_append_new(rows, row_json(params, top, &top->rows[i]));
    for (size_t i = 0; i < params->group_count; i++)
        json_array_append_new(groups, api_json_string(params->groups[i]));
    interval_scale(top->total_value, top->total_count, &low, &high);
    json_object_set_new(object, "kind", api_json_string(params->kind));
    json_object_set_new(object, "unit", api_json_string(top->unit));
    json_object_set_new(object, "group", groups);
    json_object_set_new(object, "cumulative", json_boolean(params->cumulative));
    json_object_set_new(object, "limit", api_json_number(params->limit));
    json_object_set_new(object, "from_ms", api_json_number(params->from_ms));
    json_object_set_new(object, "to_ms", api_json_number(params->to_ms));
    json_object_set_new(object, "total", figure(top->total_value, top->total_count, top->unit, low, high));
    json_object_set_new(object, "rows", rows);
    return object;
}

void api_top(struct query *query, const struct api_params *params, struct http_response *response)
{
    struct query_top *top;
    struct err err = {0};
    int rc = query_top(query, &params->selection, params->groups, params->group_count, params->cumulative,
                       params->limit, &top, &err);
    if (rc < 0) {
        api_json_error(response, rc, &err, NULL);
        return;
    }
    api_json_send(response, top_json(params, top), &top->completeness);
    query_top_free(top);
}
