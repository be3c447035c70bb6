/* top_view: the answer of /api/v1/top as text.   Threads: one. */
#ifndef CLI_TOP_VIEW_H
#define CLI_TOP_VIEW_H

#include "cli/screen.h"
#include "common/err.h"

#include <jansson.h>

/* wide: more columns, nothing cut. Appends the table and what is said below it. -EPROTO: not such an answer.
 */
int top_view(const json_t *answer, bool wide, const struct screen *screen, struct buf *out, struct err *err);

/* The lines below a table, from a completeness block: what it speaks for, what is missing; a partial answer
 * is marked loudly. what is "" or words for the time range. */
int top_view_completeness(const json_t *completeness, const char *what, const struct screen *screen,
                          struct buf *out);

/* Only the loud line, where the answer is partial. */
int top_view_partial(const json_t *completeness, const struct screen *screen, struct buf *out);

/* "12.3s", "450ms", "1.2k": three digits. */
void top_view_amount(double value, const char *unit, char *out, size_t out_bytes);
/* "5m", "1h30m", "300ms": of milliseconds, from 1 s on rounded to seconds. */
void top_view_duration(double ms, char *out, size_t out_bytes);

#endif
