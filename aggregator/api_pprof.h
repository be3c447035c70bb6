/* api_pprof: GET /api/v1/profile, a gzip-compressed profile for `go tool pprof` and its relatives.
 * Shapes:  sample types samples/count and KIND/UNIT (cpu/nanoseconds, the default); addresses are file
 * offsets, so every mapping begins at 0; period is the mean weight of a sample; a series' labels are the
 * samples' labels; the completeness block is a comment. Names are str_printable's form. Limits:
 * HTTP_BODY_BYTES compressed; written piece by piece, so that memory holds little more than the answer.
 * Errors:  -E2BIG.   Threads: any.
 * Source:  google/pprof proto/profile.proto and its README. */
#ifndef AGGREGATOR_API_PPROF_H
#define AGGREGATOR_API_PPROF_H

#include "aggregator/api_params.h"
#include "common/buf.h"

struct api_pprof_facts {
    const char *kind, *unit;
    uint64_t from_ms, duration_ms;
    const char *comment; /* may be NULL */
};

int api_pprof_write(const struct stackset *set, const struct api_pprof_facts *facts, struct buf *out);

void api_profile(struct query *query, const struct api_params *params, struct http_response *response);

#endif
