#include "common/loop_call.h"

#include "common/inbox.h"
#include "common/link.h"
#include "common/log.h"
#include "common/xalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct loop_calls {
    struct link_client *client;
    struct inbox *replies;
    size_t limit_count, under_way_count;
};

/* Belongs to link's threads between loop_call and the inbox. */
struct under_way {
    struct loop_calls *calls;
    loop_reply_fn on_reply;
    void *ctx;
    int rc;
    void *data;
    size_t bytes;
};

static void deliver(void *message, void *ctx)
{
    (void)ctx;
    struct under_way *call = message;
    call->calls->under_way_count--;
    /* Nothing of calls is touched after this: on_reply may close it. */
    call->on_reply(call->rc, call->data, call->bytes, call->ctx);
    free(call->data);
    free(call);
}

int loop_calls_open(uv_loop_t *loop, const char *address, size_t limit_count, struct loop_calls **ret_calls,
                    struct err *err)
{
    struct link_client *client;
    int rc = link_client_open(address, &client, err);
    if (rc < 0)
        return rc;
    struct loop_calls *calls = xcalloc(1, sizeof(*calls));
    calls->client = client;
    calls->limit_count = limit_count;
    calls->replies = inbox_open_loop(loop, limit_count, deliver, NULL);
    *ret_calls = calls;
    return 0;
}

/* On nng's threads. */
static void on_link_reply(int rc, const void *data, size_t bytes, void *ctx)
{
    struct under_way *call = ctx;
    call->rc = rc;
    if (rc == 0 && bytes > 0) {
        call->data = malloc(bytes);
        if (call->data)
            memcpy(call->data, data, bytes);
        else
            call->rc = -ENOMEM;
    }
    call->bytes = call->data ? bytes : 0;
    if (inbox_put(call->calls->replies, call) < 0) {
        log_error("loop_call: more replies than calls");
        abort(); /* the inbox holds as many as may be under way */
    }
}

int loop_call(struct loop_calls *calls, const void *data, size_t bytes, int timeout_ms,
              loop_reply_fn on_reply, void *ctx)
{
    if (calls->under_way_count >= calls->limit_count)
        return -EAGAIN;
    struct under_way *call = xcalloc(1, sizeof(*call));
    call->calls = calls;
    call->on_reply = on_reply;
    call->ctx = ctx;
    int rc = link_call(calls->client, data, bytes, timeout_ms, on_link_reply, call);
    if (rc < 0) {
        free(call);
        return rc;
    }
    calls->under_way_count++;
    return 0;
}

void loop_calls_close(struct loop_calls *calls)
{
    if (!calls)
        return;
    link_client_close(calls->client);
    inbox_close(calls->replies, deliver, NULL);
    free(calls);
}
