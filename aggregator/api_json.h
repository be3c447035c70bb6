/* api_json: the parts every JSON answer is made of, and the errors of every door.
 * Shapes:  texts become printable UTF-8 by str_printable, so that no name can break an answer; numbers over
 * 2^63-1 are cut there.   Threads: any. */
#ifndef AGGREGATOR_API_JSON_H
#define AGGREGATOR_API_JSON_H

#include "aggregator/query.h"
#include "common/http_server.h"

#include <jansson.h>

json_t *api_json_text(const void *text, size_t bytes);
json_t *api_json_string(const char *text); /* NULL gives null */
json_t *api_json_number(uint64_t value);
json_t *api_json_share(double share);                 /* null when it is no number */
json_t *api_json_interval(json_t *low, json_t *high); /* takes both */
/* {"name": value, ...} */
json_t *api_json_counters(const struct query_counter *counters, size_t count);
json_t *api_json_completeness(const struct query_completeness *completeness);

/* Sends {"data": data, "completeness": ...}; takes data. */
void api_json_send(struct http_response *response, json_t *data,
                   const struct query_completeness *completeness);
/* The completeness block in one line, for the answers that are no JSON. */
void api_json_note(struct http_response *response, const struct query_completeness *completeness);

/* The same as a sentence, for people: appended to out. */
int api_json_sentence(const struct query_completeness *completeness, struct buf *out);

/* The answer to a failed question; hint may be NULL or "". */
void api_json_error(struct http_response *response, int code, const struct err *err, const char *hint);

#endif
