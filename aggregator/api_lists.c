#include "aggregator/api_lists.h"

#include "aggregator/api_json.h"

void api_labels(struct query *query, const char *label, const struct api_params *params,
                struct http_response *response)
{
    struct query_completeness completeness = {0};
    struct err err = {0};
    char **values;
    size_t count;
    bool cut;
    int rc = query_labels(query, label, &params->selection, params->limit, &values, &count, &cut,
                          &completeness, &err);
    if (rc < 0) {
        api_json_error(response, rc, &err, NULL);
        return;
    }
    json_t *data = json_object(), *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, api_json_string(values[i]));
    if (label)
        json_object_set_new(data, "label", api_json_string(label));
    json_object_set_new(data, label ? "values" : "labels", list);
    json_object_set_new(data, "cut", json_boolean(cut));
    api_json_send(response, data, &completeness);
    query_labels_free(values, count);
    query_completeness_fini(&completeness);
}

static json_t *agent_json(const struct query_agent *agent)
{
    json_t *object = json_object();
    json_object_set_new(object, "node", api_json_string(agent->node));
    json_object_set_new(object, "shard", api_json_string(agent->shard));
    json_object_set_new(object, "version", api_json_string(agent->version));
    json_object_set_new(object, "kernel", api_json_string(agent->kernel));
    json_object_set_new(object, "event", api_json_string(agent->event));
    json_object_set_new(object, "hz", api_json_number(agent->hz));
    json_object_set_new(object, "cpus", api_json_number(agent->cpus));
    json_object_set_new(object, "last_seen_ms", api_json_number(agent->last_seen_ms));
    json_object_set_new(object, "clock_skew_ms", json_integer(agent->clock_skew_ms));
    json_object_set_new(object, "samples", api_json_number(agent->samples));
    json_object_set_new(object, "taken", api_json_number(agent->taken));
    json_object_set_new(object, "duplicates", api_json_number(agent->duplicates));
    json_object_set_new(object, "lost", api_json_counters(agent->lost, agent->lost_count));
    json_object_set_new(object, "gauges", api_json_counters(agent->gauges, agent->gauge_count));
    return object;
}

void api_agents(struct query *query, struct http_response *response)
{
    struct query_completeness completeness = {0};
    struct query_agent *agents;
    struct err err = {0};
    size_t count;
    int rc = query_agents(query, &agents, &count, &completeness, &err);
    if (rc < 0) {
        api_json_error(response, rc, &err, NULL);
        return;
    }
    json_t *data = json_object(), *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, agent_json(&agents[i]));
    json_object_set_new(data, "agents", list);
    api_json_send(response, data, &completeness);
    query_agents_free(agents, count);
    query_completeness_fini(&completeness);
}
