/* server_http: questions to an aggregator by its HTTP API (docs/api.md).
 * Limits:  SERVER_ANSWER_BYTES of answer.
 * Errors:  negative errno with a text that says what to do.   Threads: one. */
#ifndef CLI_SERVER_HTTP_H
#define CLI_SERVER_HTTP_H

#include "common/buf.h"
#include "common/err.h"
#include "common/http.h"
#include "common/options.h"

#include <jansson.h>

#define SERVER_DEFAULT      "http://127.0.0.1:4040"
#define SERVER_ANSWER_BYTES (256u << 20)

/* Where and how to ask: options every command has. */
struct server_settings {
    char *server;
    uint64_t timeout_ms;
};
/* Which samples: options of the commands that show any. */
struct server_selection {
    char *kind, *match, *from, *to;
    uint64_t since_ms;
};

/* Entries of an option table for a settings struct with a field of the type above. */
#define SERVER_OPTIONS(settings, field)                                                                      \
    {.name = "server",                                                                                       \
     .type = OPTION_STRING,                                                                                  \
     .letter = 's',                                                                                          \
     .offset = offsetof(settings, field.server),                                                             \
     .argument = "URL",                                                                                      \
     .help = "the aggregator to ask (default $FLEETPROF_SERVER, else " SERVER_DEFAULT ")"},                  \
    {                                                                                                        \
        .name = "timeout", .type = OPTION_DURATION, .offset = offsetof(settings, field.timeout_ms),          \
        .fallback = "30s", .min = 100, .max = 3600000, .argument = "TIME", .help = "give up after TIME"      \
    }
#define SERVER_SELECTION_OPTIONS(settings, field)                                                            \
    {.name = "selector",                                                                                     \
     .type = OPTION_STRING,                                                                                  \
     .letter = 'l',                                                                                          \
     .offset = offsetof(settings, field.match),                                                              \
     .argument = "MATCHERS",                                                                                 \
     .help = "only samples whose labels match, such as node=a,process=~\"api.*\""},                          \
        {.name = "since",                                                                                    \
         .type = OPTION_DURATION,                                                                            \
         .offset = offsetof(settings, field.since_ms),                                                       \
         .min = 1,                                                                                           \
         .fallback = "5m",                                                                                   \
         .argument = "TIME",                                                                                 \
         .help = "only samples of the last TIME"},                                                           \
        {.name = "from",                                                                                     \
         .type = OPTION_STRING,                                                                              \
         .offset = offsetof(settings, field.from),                                                           \
         .argument = "WHEN",                                                                                 \
         .help = "only samples from WHEN on: RFC 3339, unix seconds, now-1h; instead of --since"},           \
        {.name = "to",                                                                                       \
         .type = OPTION_STRING,                                                                              \
         .offset = offsetof(settings, field.to),                                                             \
         .argument = "WHEN",                                                                                 \
         .help = "only samples before WHEN (default now)"},                                                  \
    {                                                                                                        \
        .name = "kind", .type = OPTION_STRING, .offset = offsetof(settings, field.kind), .fallback = "cpu",  \
        .argument = "KIND", .help = "kind of profile"                                                        \
    }

/* The base address: the option, the environment or the default; "http://" is put in front where it is
 * missing. */
int server_http_url(const struct server_settings *settings, struct buf *ret_url, struct err *err);
/* Appends the parameters of a selection. */
int server_http_select(const struct server_selection *selection, struct buf *path);

/* GET of path (with its parameters). An HTTP error becomes an error with the server's own words. stop may be
 * NULL. */
int server_http_get(const struct server_settings *settings, const struct buf *path, bool (*stop)(void),
                    struct http_reply *ret_reply, struct err *err);
/* The same for a JSON answer; the caller's reference. */
int server_http_json(const struct server_settings *settings, const struct buf *path, bool (*stop)(void),
                     json_t **ret_json, struct err *err);

#endif
