#include "cli/cmd.h"
#include "cli/screen.h"
#include "cli/server_http.h"

#include <errno.h>
#include <stdio.h>

#define PATH_BYTES 65536u
#define ARGS_MAX   64

struct labels_settings {
    struct server_settings server;
    struct server_selection selection;
    uint64_t limit;
};

static const struct option_def DEFS[] = {
    SERVER_SELECTION_OPTIONS(struct labels_settings, selection),
    {.name = "limit",
     .type = OPTION_UINT,
     .letter = 'n',
     .offset = offsetof(struct labels_settings, limit),
     .fallback = "1000",
     .min = 1,
     .max = 10000,
     .argument = "N",
     .help = "at most N"},
    SERVER_OPTIONS(struct labels_settings, server),
    {0},
};
static const struct options_program PROGRAM = {
    .name = "fleetprof labels",
    .summary =
        "Lists the names of the labels that samples have, or the values of the label NAME, one a line.",
    .usage = "[OPTION]... [NAME]",
    .defs = DEFS,
    .no_config = true,
};

static int question(const struct labels_settings *settings, const char *name, struct buf *path)
{
    char limit[32];
    snprintf(limit, sizeof(limit), "%llu", (unsigned long long)settings->limit);
    int rc = buf_printf(path, "/api/v1/labels%s", name ? "/" : "");
    if (rc == 0 && name)
        rc = http_append_segment(path, name);
    if (rc == 0 && name)
        rc = buf_printf(path, "/values");
    if (rc == 0)
        rc = server_http_select(&settings->selection, path);
    return rc == 0 ? http_append_param(path, "limit", limit) : rc;
}

static int print_list(const json_t *answer, const char *key, struct err *err)
{
    const json_t *data = json_object_get(answer, "data"), *list = json_object_get(data, key), *value;
    struct screen_table lines = {0};
    size_t index;
    if (!json_is_array(list))
        return err_say(err, -EPROTO,
                       "the server's answer has no %s; is it a fleetprof aggregator of this version?", key);
    json_array_foreach(list, index, value)
    {
        screen_table_cell(&lines, json_string_value(value));
    }
    for (size_t i = 0; i < lines.cell_count; i++)
        puts(lines.cells[i]);
    screen_table_fini(&lines);
    if (json_is_true(json_object_get(data, "cut")))
        fprintf(stderr, "there are more; see --limit\n");
    return 0;
}

int cmd_labels(int argc, char **argv)
{
    struct labels_settings settings = {0};
    struct buf path = buf_init(PATH_BYTES);
    struct err err = {0};
    json_t *answer = NULL;
    char *rest[ARGS_MAX];
    size_t rest_count = 0;
    int status;
    if (argc > ARGS_MAX)
        return cmd_usage_error("too many arguments");
    if (!cmd_options(&PROGRAM, argc, argv, &settings, rest, &rest_count, &status))
        return status;
    const char *name = rest_count ? rest[0] : NULL;
    if (rest_count > 1 || (name && !*name)) {
        options_fini(&PROGRAM, &settings);
        return cmd_usage_error("give one label name or none; see 'fleetprof labels --help'");
    }
    int rc = question(&settings, name, &path);
    rc = rc < 0 ? err_say(&err, rc, "the question is too long")
                : server_http_json(&settings.server, &path, NULL, &answer, &err);
    if (rc == 0)
        rc = print_list(answer, name ? "values" : "labels", &err);
    status = rc < 0 ? cmd_fail(&err) : cmd_finish();
    json_decref(answer);
    buf_fini(&path);
    options_fini(&PROGRAM, &settings);
    return status;
}
