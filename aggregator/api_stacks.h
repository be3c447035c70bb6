/* api_stacks: GET /api/v1/folded, and the name of a frame.
 * Shapes:    one line for each distinct stack, "process;root;...;leaf value\n", lines ascending by bytes,
 *            value in profile units. Names are str_printable's form, in which ';' is \x3b: the text can be
 *            cut at ';' and at the last blank, and every name read back.
 * Limits:    HTTP_BODY_BYTES (-E2BIG).
 * Threads:   any. */
#ifndef AGGREGATOR_API_STACKS_H
#define AGGREGATOR_API_STACKS_H

#include "aggregator/api_params.h"
#include "common/buf.h"

/* Appends the frame's display name, raw bytes: its function, or "module+0x1f40" where none is known. */
int api_stacks_frame(const struct stackset *set, uint32_t frame, struct buf *out);

int api_stacks_folded(const struct stackset *set, struct buf *out);

void api_folded(struct query *query, const struct api_params *params, struct http_response *response);

#endif
