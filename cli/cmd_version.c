#include "cli/cmd.h"
#include "cli/server_http.h"
#include "common/str.h"
#include "common/version.h"

#include <stdio.h>
#include <string.h>

struct version_settings {
    struct server_settings server;
    bool client;
};

static const struct option_def DEFS[] = {
    {.name = "client",
     .type = OPTION_BOOL,
     .offset = offsetof(struct version_settings, client),
     .help = "do not ask the server"},
    SERVER_OPTIONS(struct version_settings, server),
    {0},
};
static const struct options_program PROGRAM = {
    .name = "fleetprof version",
    .summary = "Prints the versions of this program and of the aggregator it asks.",
    .usage = "[OPTION]...",
    .defs = DEFS,
    .no_config = true,
};

/* The first line of the server's front page is "fleetprof aggregator VERSION". */
static int print_server(const struct server_settings *settings, struct err *err)
{
    struct buf path = buf_init(16);
    struct http_reply reply = {0};
    char line[128] = "unknown";
    int rc = buf_append(&path, "/", 1);
    if (rc == 0)
        rc = server_http_get(settings, &path, NULL, &reply, err);
    if (rc == 0 && reply.body.data)
        str_printable(line, sizeof(line), reply.body.data, strcspn(reply.body.data, "\n"));
    printf("server: %s\n", line);
    http_reply_fini(&reply);
    buf_fini(&path);
    return rc;
}

int cmd_version(int argc, char **argv)
{
    struct version_settings settings = {0};
    struct err err = {0};
    int status, rc = 0;
    if (!cmd_options(&PROGRAM, argc, argv, &settings, NULL, NULL, &status))
        return status;
    printf("client: fleetprof %s\n", FLEETPROF_VERSION);
    if (!settings.client)
        rc = print_server(&settings.server, &err);
    options_fini(&PROGRAM, &settings);
    status = cmd_finish();
    return rc < 0 ? cmd_fail(&err) : status;
}
