/* api_top: GET /api/v1/top, and what is said about a figure's precision.   Threads: any HTTP thread. */
#ifndef AGGREGATOR_API_TOP_H
#define AGGREGATOR_API_TOP_H

#include "aggregator/api_params.h"

void api_top(struct query *query, const struct api_params *params, struct http_response *response);

#endif
