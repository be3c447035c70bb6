#include "cli/server_http.h"

#include "common/str.h"
#include "common/version.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URL_BYTES  65536u
#define NOTE_NAME  "X-Fleetprof-Completeness"
#define WORD_BYTES 240

int server_http_url(const struct server_settings *settings, struct buf *ret_url, struct err *err)
{
    const char *from = settings->server ? settings->server : getenv("FLEETPROF_SERVER");
    if (!from || !*from)
        from = SERVER_DEFAULT;
    size_t bytes = strlen(from);
    while (bytes > 0 && from[bytes - 1] == '/')
        bytes--;
    int rc = strstr(from, "://") ? 0 : buf_printf(ret_url, "http://");
    if (rc == 0)
        rc = buf_append(ret_url, from, bytes);
    return rc < 0 ? err_say(err, rc, "the address of the server is too long") : 0;
}

int server_http_select(const struct server_selection *selection, struct buf *path)
{
    char since[32];
    int rc = http_append_param(path, "kind", selection->kind);
    if (rc == 0 && selection->match)
        rc = http_append_param(path, "match", selection->match);
    if (rc == 0 && selection->from) {
        rc = http_append_param(path, "from", selection->from);
    } else if (rc == 0) {
        snprintf(since, sizeof(since), "%llums", (unsigned long long)selection->since_ms);
        rc = http_append_param(path, "since", since);
    }
    if (rc == 0 && selection->to)
        rc = http_append_param(path, "to", selection->to);
    return rc;
}

/* A text of the answer, made fit to show. */
static void word_of(const json_t *json, const char *key, char *out, size_t out_bytes)
{
    const json_t *text = json_object_get(json, key);
    str_shown(out, out_bytes, json_string_value(text), json_string_length(text));
}

/* The server's {"error", "hint"}, or what there is instead. */
static int refused(const struct http_reply *reply, const char *url, struct err *err)
{
    char error[WORD_BYTES] = "", hint[WORD_BYTES / 2] = "";
    json_t *json = json_loadb(reply->body.data, reply->body.used_bytes, 0, NULL);
    if (json) {
        word_of(json, "error", error, sizeof(error));
        word_of(json, "hint", hint, sizeof(hint));
    }
    json_decref(json);
    int code = reply->status == 504 ? -ETIMEDOUT : reply->status < 500 ? -EINVAL : -EIO;
    if (!error[0])
        return err_say(err, code, "%s answered with HTTP status %d; is it a fleetprof aggregator?", url,
                       reply->status);
    return err_say(err, code, "%s%s%s%s", error, hint[0] ? " (" : "", hint, hint[0] ? ")" : "");
}

static bool is_unreachable(int rc)
{
    return rc == -ECONNREFUSED || rc == -EHOSTUNREACH || rc == -ENETUNREACH || rc == -EINVAL;
}

int server_http_get(const struct server_settings *settings, const struct buf *path, bool (*stop)(void),
                    struct http_reply *ret_reply, struct err *err)
{
    struct buf url = buf_init(URL_BYTES);
    struct http_reply reply = {0};
    const struct http_get_options options = {.timeout_ms = (long)settings->timeout_ms,
                                             .limit_bytes = SERVER_ANSWER_BYTES,
                                             .user_agent = "fleetprof/" FLEETPROF_VERSION,
                                             .note_name = NOTE_NAME,
                                             .stop = stop};
    int rc = server_http_url(settings, &url, err);
    size_t base = url.used_bytes;
    if (rc == 0 && (buf_append(&url, path->data, path->used_bytes) < 0 || buf_append(&url, "", 1) < 0))
        rc = err_say(err, -E2BIG, "the question is too long for a URL");
    if (rc == 0) {
        rc = http_get(url.data, &options, &reply, err);
        if (is_unreachable(rc)) {
            char text[ERR_TEXT_BYTES];
            snprintf(text, sizeof(text), "%s", err->text);
            err_say(err, rc, "%s; is an aggregator running? set --server or FLEETPROF_SERVER", text);
        }
    }
    if (rc == 0 && reply.status != 200) {
        url.data[base] = '\0';
        rc = refused(&reply, url.data, err);
        http_reply_fini(&reply);
    }
    if (rc == 0)
        *ret_reply = reply;
    buf_fini(&url);
    return rc;
}

int server_http_json(const struct server_settings *settings, const struct buf *path, bool (*stop)(void),
                     json_t **ret_json, struct err *err)
{
    struct http_reply reply = {0};
    int rc = server_http_get(settings, path, stop, &reply, err);
    if (rc < 0)
        return rc;
    json_error_t error;
    json_t *json = json_loadb(reply.body.data, reply.body.used_bytes, 0, &error);
    http_reply_fini(&reply);
    if (!json)
        return err_say(err, -EPROTO, "the server's answer is no JSON (%s); is it a fleetprof aggregator?",
                       error.text);
    *ret_json = json;
    return 0;
}
