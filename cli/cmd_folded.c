#include "cli/cmd.h"
#include "cli/server_http.h"

#include <stdio.h>

#define PATH_BYTES 65536u

struct folded_settings {
    struct server_settings server;
    struct server_selection selection;
};

static const struct option_def DEFS[] = {
    SERVER_SELECTION_OPTIONS(struct folded_settings, selection),
    SERVER_OPTIONS(struct folded_settings, server),
    {0},
};
static const struct options_program PROGRAM = {
    .name = "fleetprof folded",
    .summary = "Prints one line for each stack, \"process;root;...;leaf NANOSECONDS\", as flame graph tools "
               "read it.",
    .usage = "[OPTION]...",
    .footer = "Example:\n  fleetprof folded --since 10m -l node=a > stacks.folded",
    .defs = DEFS,
    .no_config = true,
};

int cmd_folded(int argc, char **argv)
{
    struct folded_settings settings = {0};
    struct buf path = buf_init(PATH_BYTES);
    struct http_reply reply = {0};
    struct err err = {0};
    int status;
    if (!cmd_options(&PROGRAM, argc, argv, &settings, NULL, NULL, &status))
        return status;
    int rc = buf_printf(&path, "/api/v1/folded");
    if (rc == 0)
        rc = server_http_select(&settings.selection, &path);
    rc = rc < 0 ? err_say(&err, rc, "the question is too long")
                : server_http_get(&settings.server, &path, NULL, &reply, &err);
    if (rc < 0) {
        status = cmd_fail(&err);
    } else {
        fwrite(reply.body.data, 1, reply.body.used_bytes, stdout);
        status = cmd_finish();
        cmd_note(&reply);
    }
    http_reply_fini(&reply);
    buf_fini(&path);
    options_fini(&PROGRAM, &settings);
    return status;
}
