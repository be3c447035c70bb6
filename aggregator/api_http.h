/* api_http: the HTTP doors of one shard: /api/v1/{top,folded,profile,labels,labels/NAME/values,agents},
 * /healthz, /readyz, /metrics. docs/api.md is the contract with the outside.
 * Shapes:    every JSON answer is {"data": ..., "completeness": {...}}; errors are {"error": "...", "hint":
 *            "..."}.
 * Limits:    API_QUERIES questions at once, the next ones wait at most API_QUEUE_MS and then get 503;
 *            /healthz, /readyz and /metrics never wait. API_RANGE_MS is the longest time range.
 * Threads:   open and close from one thread; the hooks are called from any HTTP thread, several at once.
 * Errors:    api_open: those of http_server_open, with text. */
#ifndef AGGREGATOR_API_HTTP_H
#define AGGREGATOR_API_HTTP_H

#include "aggregator/query.h"
#include "common/err.h"

#include <stdint.h>

#define API_QUERIES  16u
#define API_QUEUE_MS 10000u
#define API_RANGE_MS (366ULL * 24 * 3600 * 1000)

/* How the process is. Each returns 0, or a negative errno with a text for the operator; NULL means always
 * well. */
struct api_hooks {
    int (*alive)(void *ctx,
                 struct err *err); /* /healthz: workers make progress; failing means "restart me" */
    int (*ready)(void *ctx, struct err *err); /* /readyz: can answer questions now */
    void *ctx;
};

struct api;

/* Borrows query and hooks->ctx until api_close; *hooks is copied and may be NULL. Port 0 picks one. */
int api_open(const char *address, struct query *query, const struct api_hooks *hooks, struct api **ret_api,
             struct err *err);
int api_port(const struct api *api);
/* Waits for the questions under way. NULL is fine. */
void api_close(struct api *api);

#endif
