#include "aggregator/api_http.h"

#include "aggregator/api_json.h"
#include "aggregator/api_lists.h"
#include "aggregator/api_params.h"
#include "aggregator/api_pprof.h"
#include "aggregator/api_stacks.h"
#include "aggregator/api_top.h"
#include "common/clock.h"
#include "common/metrics.h"
#include "common/str.h"
#include "common/version.h"
#include "common/xalloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_NAME_BYTES 128
#define LABELS_PATH      "/api/v1/labels/"
#define VALUES_PATH      "/values"

struct api {
    struct http_server *server;
    struct query *query;
    struct api_hooks hooks;
    /* Turns for questions: free_count of them are left. */
    pthread_mutex_t lock;
    pthread_cond_t turn_back;
    unsigned free_count;
    struct metric *busy_count, *time_us_count;
};

/* One request on its way. */
struct call {
    struct api *api;
    const struct http_request *request;
    struct http_response *response;
    struct api_params params;
    char label[LABEL_NAME_BYTES];
};

/* ---- doors ----------------------------------------------------------------------------------- */

static void door_top(struct call *call)
{
    api_top(call->api->query, &call->params, call->response);
}

static void door_folded(struct call *call)
{
    api_folded(call->api->query, &call->params, call->response);
}

static void door_profile(struct call *call)
{
    api_profile(call->api->query, &call->params, call->response);
}

static void door_labels(struct call *call)
{
    api_labels(call->api->query, NULL, &call->params, call->response);
}

static void door_values(struct call *call)
{
    api_labels(call->api->query, call->label, &call->params, call->response);
}

static void door_agents(struct call *call)
{
    api_agents(call->api->query, call->response);
}

struct door {
    const char *path;
    enum api_param_set params;
    void (*answer)(struct call *call);
};

static const struct door DOORS[] = {
    {"/api/v1/top", API_PARAMS_TOP, door_top},
    {"/api/v1/folded", API_PARAMS_STACKS, door_folded},
    {"/api/v1/profile", API_PARAMS_STACKS, door_profile},
    {"/api/v1/labels", API_PARAMS_LABELS, door_labels},
    {"/api/v1/agents", API_PARAMS_NONE, door_agents},
};
static const struct door VALUES_DOOR = {"/api/v1/labels/NAME/values", API_PARAMS_LABELS, door_values};

static const char DOOR_LIST[] = "/api/v1/top, /api/v1/folded, /api/v1/profile, /api/v1/labels, "
                                "/api/v1/labels/NAME/values, /api/v1/agents, /healthz, /readyz, /metrics";

/* Fills call->label for /api/v1/labels/NAME/values. */
static const struct door *find_door(const char *path, struct call *call)
{
    for (size_t i = 0; i < sizeof(DOORS) / sizeof(DOORS[0]); i++)
        if (strcmp(path, DOORS[i].path) == 0)
            return &DOORS[i];
    size_t bytes = strlen(path), around = strlen(LABELS_PATH) + strlen(VALUES_PATH);
    if (!str_starts(path, LABELS_PATH) || bytes <= around || bytes - around >= sizeof(call->label) ||
        strcmp(path + bytes - strlen(VALUES_PATH), VALUES_PATH) != 0)
        return NULL;
    snprintf(call->label, sizeof(call->label), "%.*s", (int)(bytes - around), path + strlen(LABELS_PATH));
    return strchr(call->label, '/') ? NULL : &VALUES_DOOR;
}

/* ---- turns ----------------------------------------------------------------------------------- */

static bool take_turn(struct api *api)
{
    uint64_t until_ns = clock_mono_ns() + API_QUEUE_MS * CLOCK_NS_PER_MS;
    struct timespec until = {.tv_sec = (time_t)(until_ns / CLOCK_NS_PER_S),
                             .tv_nsec = (long)(until_ns % CLOCK_NS_PER_S)};
    pthread_mutex_lock(&api->lock);
    int rc = 0;
    while (api->free_count == 0 && rc == 0)
        rc = pthread_cond_timedwait(&api->turn_back, &api->lock, &until);
    bool got = api->free_count > 0;
    if (got)
        api->free_count--;
    pthread_mutex_unlock(&api->lock);
    return got;
}

static void give_turn(struct api *api)
{
    pthread_mutex_lock(&api->lock);
    api->free_count++;
    pthread_cond_signal(&api->turn_back);
    pthread_mutex_unlock(&api->lock);
}

static void ask(struct call *call, const struct door *door)
{
    struct err err = {0};
    int rc =
        api_params_read(call->request, door->params, clock_wall_ns() / CLOCK_NS_PER_MS, &call->params, &err);
    if (rc < 0) {
        api_json_error(call->response, rc, &err, call->params.hint);
    } else if (!take_turn(call->api)) {
        metric_add(call->api->busy_count, 1);
        err_say(&err, -EBUSY, "%u questions are being answered already", API_QUERIES);
        api_json_error(call->response, -EBUSY, &err, NULL);
    } else {
        uint64_t start_ns = clock_mono_ns();
        door->answer(call);
        give_turn(call->api);
        metric_add(call->api->time_us_count, (clock_mono_ns() - start_ns) / 1000);
    }
    api_params_fini(&call->params);
}

/* ---- what is no question --------------------------------------------------------------------- */

static void health(struct call *call, int (*hook)(void *ctx, struct err *err))
{
    struct err err = {0};
    int rc = hook ? hook(call->api->hooks.ctx, &err) : 0;
    if (rc < 0)
        http_response_error(call->response, 503, err.text[0] ? err.text : strerror(-rc), NULL);
    else
        buf_printf(&call->response->body, "ok\n");
}

static void show_metrics(struct call *call)
{
    call->response->content_type = "text/plain; version=0.0.4; charset=utf-8";
    if (metrics_print(&call->response->body) < 0)
        http_response_error(call->response, 500, "the metrics do not fit", NULL);
}

static void count_request(const char *path, int status)
{
    char code[16];
    snprintf(code, sizeof(code), "%d", status ? status : 200);
    metric_add(metrics_counter("fleetprof_http_requests_total", "HTTP requests by page.", "page", path), 1);
    metric_add(
        metrics_counter("fleetprof_http_responses_total", "HTTP answers by status code.", "code", code), 1);
}

static void on_request(const struct http_request *request, struct http_response *response, void *ctx)
{
    struct api *api = ctx;
    struct call call = {.api = api, .request = request, .response = response};
    const char *path = http_request_path(request);
    const struct door *door = find_door(path, &call);
    if (door) {
        path = door->path;
        ask(&call, door);
    } else if (strcmp(path, "/healthz") == 0) {
        health(&call, api->hooks.alive);
    } else if (strcmp(path, "/readyz") == 0) {
        health(&call, api->hooks.ready);
    } else if (strcmp(path, "/metrics") == 0) {
        show_metrics(&call);
    } else if (strcmp(path, "/") == 0) {
        buf_printf(&response->body, "fleetprof aggregator %s\n%s\n", FLEETPROF_VERSION, DOOR_LIST);
    } else {
        path = "other"; /* strangers must not make metrics */
        http_response_error(response, 404, "there is no such page", DOOR_LIST);
    }
    count_request(path, response->status);
}

/* ---- open, close ----------------------------------------------------------------------------- */

int api_open(const char *address, struct query *query, const struct api_hooks *hooks, struct api **ret_api,
             struct err *err)
{
    struct api *api = xcalloc(1, sizeof(*api));
    api->query = query;
    if (hooks)
        api->hooks = *hooks;
    api->free_count = API_QUERIES;
    api->busy_count = metrics_counter("fleetprof_api_busy_total",
                                      "Questions refused because too many were under way.", NULL, NULL);
    api->time_us_count =
        metrics_counter("fleetprof_api_microseconds_total", "Time spent on answering questions.", NULL, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&api->turn_back, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&api->lock, NULL);
    int rc = http_server_open(address, 0, on_request, api, &api->server, err);
    if (rc < 0)
        api_close(api);
    else
        *ret_api = api;
    return rc;
}

int api_port(const struct api *api)
{
    return http_server_port(api->server);
}

void api_close(struct api *api)
{
    if (!api)
        return;
    http_server_close(api->server);
    pthread_cond_destroy(&api->turn_back);
    pthread_mutex_destroy(&api->lock);
    free(api);
}
