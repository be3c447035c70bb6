/* loop_call: link_call for a program that lives on a libuv loop: the reply comes on the loop's thread.
 * Limits:   limit_count calls under way.   Threads: the loop's.
 * Errors:   those of link; -EAGAIN over the limit. */
#ifndef COMMON_LOOP_CALL_H
#define COMMON_LOOP_CALL_H

#include "common/err.h"

#include <stddef.h>
#include <uv.h>

struct loop_calls;
/* rc 0 with the reply's bytes (valid during the call only), else a negative errno and NULL. */
typedef void (*loop_reply_fn)(int rc, const void *data, size_t bytes, void *ctx);

int loop_calls_open(uv_loop_t *loop, const char *address, size_t limit_count, struct loop_calls **ret_calls,
                    struct err *err);
/* 0: on_reply runs exactly once, later (see loop_calls_close). data is copied. */
int loop_call(struct loop_calls *calls, const void *data, size_t bytes, int timeout_ms,
              loop_reply_fn on_reply, void *ctx);
/* What is under way ends with -ECANCELED (or the reply that was already there) inside this call. May be
 * called from an on_reply. The loop has one more close callback to run afterwards. NULL is fine. */
void loop_calls_close(struct loop_calls *calls);

#endif
