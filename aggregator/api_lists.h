/* api_lists: GET /api/v1/labels, /api/v1/labels/NAME/values and /api/v1/agents.   Threads: any HTTP thread.
 */
#ifndef AGGREGATOR_API_LISTS_H
#define AGGREGATOR_API_LISTS_H

#include "aggregator/api_params.h"

/* label NULL: the names. */
void api_labels(struct query *query, const char *label, const struct api_params *params,
                struct http_response *response);
void api_agents(struct query *query, struct http_response *response);

#endif
