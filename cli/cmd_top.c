#include "cli/cmd.h"
#include "cli/screen.h"
#include "cli/server_http.h"
#include "cli/top_view.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEXT_BYTES (64u << 20)
#define PATH_BYTES 65536u
#define HEAD_LINES                                                                                           \
    6 /* of the screen, that are not rows: title, header, the lines below (one may wrap), the cursor */

struct top_settings {
    struct server_settings server;
    struct server_selection selection;
    char *group, *output;
    uint64_t limit, watch_ms, count;
    bool cumulative;
};

static const struct option_def DEFS[] = {
    {.name = "group",
     .type = OPTION_STRING,
     .letter = 'g',
     .offset = offsetof(struct top_settings, group),
     .fallback = "function",
     .argument = "LIST",
     .help = "what a row is: function, module, executable or labels (process, thread, node, container ...), "
             "up to "
             "four separated by commas"},
    SERVER_SELECTION_OPTIONS(struct top_settings, selection),
    {.name = "cumulative",
     .type = OPTION_BOOL,
     .letter = 'c',
     .offset = offsetof(struct top_settings, cumulative),
     .help = "count everything a function calls as its cost too (also --cum)"},
    {.name = "limit",
     .type = OPTION_UINT,
     .letter = 'n',
     .offset = offsetof(struct top_settings, limit),
     .fallback = "20",
     .min = 1,
     .max = 10000,
     .argument = "N",
     .help = "rows"},
    {.name = "output",
     .type = OPTION_STRING,
     .letter = 'o',
     .offset = offsetof(struct top_settings, output),
     .fallback = "table",
     .argument = "FORM",
     .help = "table, wide (intervals, whole names) or json"},
    {.name = "watch",
     .type = OPTION_DURATION,
     .letter = 'w',
     .offset = offsetof(struct top_settings, watch_ms),
     .implied = "2s",
     .min = 100,
     .max = 3600000,
     .argument = "TIME",
     .help = "show it again every TIME (2s), until interrupted"},
    {.name = "count",
     .type = OPTION_UINT,
     .offset = offsetof(struct top_settings, count),
     .min = 1,
     .argument = "N",
     .help = "with --watch, end after N times"},
    SERVER_OPTIONS(struct top_settings, server),
    {0},
};
static const struct options_program PROGRAM = {
    .name = "fleetprof top",
    .summary = "Shows what costs the most, most expensive first, each with its 95 % interval.",
    .usage = "[OPTION]...",
    .footer = "Examples:\n"
              "  fleetprof top --since 15m -o wide\n"
              "  fleetprof top --cum -l 'process=~\"api-.*\"' --watch\n"
              "  fleetprof top -g node,process -n 5",
    .defs = DEFS,
    .no_config = true,
};

/* ---- signals ---------------------------------------------------------------------------------
 * While watching, SIGINT and SIGTERM are blocked and asked for, so that none is missed between a question and
 * a sleep. */

static void watched_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

/* True when one came within ms. It stays pending for the next who asks. */
static bool interrupted_within(uint64_t ms)
{
    sigset_t set;
    struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    watched_signals(&set);
    int which = sigtimedwait(&set, NULL, &time);
    if (which > 0)
        raise(which);
    return which > 0;
}

static bool interrupted(void)
{
    return interrupted_within(0);
}

/* ---- one showing ----------------------------------------------------------------------------- */

static int question(const struct top_settings *settings, uint64_t limit, struct buf *path)
{
    char number[32];
    snprintf(number, sizeof(number), "%llu", (unsigned long long)limit);
    int rc = buf_printf(path, "/api/v1/top");
    if (rc == 0)
        rc = server_http_select(&settings->selection, path);
    if (rc == 0)
        rc = http_append_param(path, "group", settings->group);
    if (rc == 0)
        rc = http_append_param(path, "limit", number);
    return rc == 0 && settings->cumulative ? http_append_param(path, "cumulative", "true") : rc;
}

static int on_chunk(const char *data, size_t bytes, void *ctx)
{
    return buf_append(ctx, data, bytes);
}

/* Appends the answer in the form asked for. */
static int show(const struct top_settings *settings, const struct screen *screen, bool (*stop)(void),
                struct buf *out, struct err *err)
{
    struct buf path = buf_init(PATH_BYTES);
    json_t *answer = NULL;
    bool in_place = settings->watch_ms && screen->terminal && screen->height > HEAD_LINES + 1;
    uint64_t limit = settings->limit;
    if (in_place && strcmp(settings->output, "table") == 0 && limit > screen->height - HEAD_LINES)
        limit = screen->height - HEAD_LINES;
    int rc = question(settings, limit, &path);
    if (rc < 0)
        err_say(err, rc, "the question is too long");
    else
        rc = server_http_json(&settings->server, &path, stop, &answer, err);
    if (rc == 0 && strcmp(settings->output, "json") == 0) {
        rc = json_dump_callback(answer, on_chunk, out, settings->watch_ms ? JSON_COMPACT : JSON_INDENT(2));
        rc = rc == 0 ? buf_append(out, "\n", 1) : err_say(err, -E2BIG, "the answer does not fit into memory");
    } else if (rc == 0) {
        rc = top_view(answer, strcmp(settings->output, "wide") == 0, screen, out, err);
    }
    json_decref(answer);
    buf_fini(&path);
    return rc;
}

/* ---- watching -------------------------------------------------------------------------------- */

static void title(const struct top_settings *settings, struct buf *out)
{
    char clock[32], every[32];
    time_t now = time(NULL);
    struct tm local;
    localtime_r(&now, &local);
    strftime(clock, sizeof(clock), "%H:%M:%S", &local);
    top_view_duration((double)settings->watch_ms, every, sizeof(every));
    buf_printf(out, "%s  fleetprof top, every %s\n", clock, every);
}

/* Draws text over what is there: each line clears its rest, the end clears the rest of the screen. */
static void redraw(const struct buf *text)
{
    fputs("\x1b[H", stdout);
    for (size_t at = 0; at < text->used_bytes;) {
        const char *start = text->data + at, *end = memchr(start, '\n', text->used_bytes - at);
        size_t bytes = end ? (size_t)(end - start) : text->used_bytes - at;
        fwrite(start, 1, bytes, stdout);
        fputs("\x1b[K\n", stdout);
        at += bytes + 1;
    }
    fputs("\x1b[J", stdout);
}

static void print_one(const struct top_settings *settings, const struct screen *screen, uint64_t number,
                      const struct buf *text)
{
    if (screen->terminal && strcmp(settings->output, "json") != 0) {
        if (number == 0)
            fputs("\x1b[2J", stdout);
        redraw(text);
        return;
    }
    if (number > 0 && strcmp(settings->output, "json") != 0)
        putchar('\n');
    fwrite(text->data, 1, text->used_bytes, stdout);
}

/* A server that goes away later may come back: its error is shown and the watch goes on. One that is not
 * there at the start is an error. */
static int watch(const struct top_settings *settings)
{
    sigset_t set;
    int status = CMD_OK;
    watched_signals(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (uint64_t number = 0; settings->count == 0 || number < settings->count; number++) {
        struct screen screen = screen_get();
        struct buf text = buf_init(TEXT_BYTES);
        struct err err = {0};
        if (screen.terminal && screen.width > 1)
            screen.width--; /* clearing the rest of a full line takes its last character away */
        if (number > 0 && interrupted_within(settings->watch_ms)) {
            buf_fini(&text);
            return CMD_OK;
        }
        if (strcmp(settings->output, "json") != 0)
            title(settings, &text);
        int rc = show(settings, &screen, interrupted, &text, &err);
        if (rc == -ECANCELED || (rc < 0 && number == 0)) {
            buf_fini(&text);
            return rc == -ECANCELED ? CMD_OK : cmd_fail(&err);
        }
        if (rc < 0 && screen.terminal)
            buf_printf(&text, "error: %s\n", err.text);
        else if (rc < 0)
            cmd_fail(&err);
        if (rc == 0 || screen.terminal)
            print_one(settings, &screen, number, &text);
        buf_fini(&text);
        status = cmd_finish();
        if (status != CMD_OK)
            break;
    }
    return status;
}

static int once(const struct top_settings *settings)
{
    struct screen screen = screen_get();
    struct buf text = buf_init(TEXT_BYTES);
    struct err err = {0};
    int rc = show(settings, &screen, NULL, &text, &err);
    if (rc == 0 && text.used_bytes)
        fwrite(text.data, 1, text.used_bytes, stdout);
    buf_fini(&text);
    return rc < 0 ? cmd_fail(&err) : cmd_finish();
}

int cmd_top(int argc, char **argv)
{
    struct top_settings settings = {0};
    int status;
    if (!cmd_options(&PROGRAM, argc, argv, &settings, NULL, NULL, &status))
        return status;
    if (strcmp(settings.output, "table") != 0 && strcmp(settings.output, "wide") != 0 &&
        strcmp(settings.output, "json") != 0)
        status = cmd_usage_error("--output must be table, wide or json");
    else if (settings.count && !settings.watch_ms)
        status = cmd_usage_error("--count needs --watch");
    else
        status = settings.watch_ms ? watch(&settings) : once(&settings);
    options_fini(&PROGRAM, &settings);
    return status;
}
