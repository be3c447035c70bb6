/* kept: results of top-N questions between their phases, by the question's number.
 * Limits:    count, bytes and age as given; over them the oldest go.   Threads: any. */
#ifndef AGGREGATOR_KEPT_H
#define AGGREGATOR_KEPT_H

#include "aggregator/top_table.h"

#include <stdint.h>

struct kept_result; /* sorted rows, read-only, counted by references */
struct kept_result *kept_result_new(struct top_table *table); /* takes the table's insides and sorts it */
const struct top_table *kept_result_table(const struct kept_result *result);
/* The row of a key, NULL when there is none. */
const struct top_row *kept_result_find(const struct kept_result *result, const void *key, size_t key_bytes);
void kept_result_unref(struct kept_result *result); /* NULL is fine */

struct kept;
struct kept *kept_new(uint32_t limit_count, uint64_t limit_bytes, uint64_t limit_ms);
void kept_free(struct kept *kept);
void kept_put(struct kept *kept, uint64_t number, struct kept_result *result,
              uint64_t now_mono_ms); /* takes a reference */
struct kept_result *kept_find(struct kept *kept, uint64_t number,
                              uint64_t now_mono_ms); /* a reference, or NULL */

#endif
