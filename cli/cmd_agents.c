#include "cli/cmd.h"
#include "cli/screen.h"
#include "cli/server_http.h"
#include "cli/top_view.h"
#include "common/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PATH_BYTES 65536u
#define TEXT_BYTES (64u << 20)

struct agents_settings {
    struct server_settings server;
    char *output;
};

static const struct option_def DEFS[] = {
    {.name = "output",
     .type = OPTION_STRING,
     .letter = 'o',
     .offset = offsetof(struct agents_settings, output),
     .fallback = "table",
     .argument = "FORM",
     .help = "table, wide or json"},
    SERVER_OPTIONS(struct agents_settings, server),
    {0},
};
static const struct options_program PROGRAM = {
    .name = "fleetprof agents",
    .summary = "Lists the node agents: rate, samples, losses, when they were heard last.",
    .usage = "[OPTION]...",
    .defs = DEFS,
    .no_config = true,
};

static double sum_of(const json_t *counters)
{
    double sum = 0;
    void *at;
    for (at = json_object_iter((json_t *)(uintptr_t)counters); at;
         at = json_object_iter_next((json_t *)(uintptr_t)counters, at))
        sum += json_number_value(json_object_iter_value(at));
    return sum;
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void add_text(struct screen_table *table, const json_t *agent, const char *key)
{
    const char *text = json_string_value(json_object_get(agent, key));
    screen_table_cell(table, text && *text ? text : NULL);
}

static void add_agent(const json_t *agent, double now_ms, bool wide, struct screen_table *table)
{
    char age[32];
    double lost = sum_of(json_object_get(agent, "lost")), taken = number(agent, "taken");
    top_view_duration(now_ms - number(agent, "last_seen_ms"), age, sizeof(age));
    add_text(table, agent, "node");
    screen_table_cell(table, age);
    screen_table_cellf(table, "%.0f", number(agent, "hz"));
    screen_table_cellf(table, "%.0f", number(agent, "cpus"));
    screen_table_cellf(table, "%.0f", number(agent, "samples"));
    screen_table_cellf(table, "%.0f (%.1f%%)", lost, taken > 0 ? 100 * lost / taken : 0.0);
    add_text(table, agent, "event");
    add_text(table, agent, "version");
    if (!wide)
        return;
    add_text(table, agent, "kernel");
    screen_table_cellf(table, "%.0f", taken);
    screen_table_cellf(table, "%.0f", number(agent, "duplicates"));
    screen_table_cellf(table, "%.0fms", number(agent, "clock_skew_ms"));
    add_text(table, agent, "shard");
}

static void add_columns(bool wide, struct screen_table *table)
{
    static const struct screen_column columns[] = {
        {"NODE", false, true},   {"SEEN", true, false},       {"HZ", true, false},
        {"CPUS", true, false},   {"SAMPLES", true, false},    {"LOST", true, false},
        {"EVENT", false, false}, {"VERSION", false, true},    {"KERNEL", false, false},
        {"TAKEN", true, false},  {"DUPLICATES", true, false}, {"SKEW", true, false},
        {"SHARD", false, false}};
    for (size_t i = 0; i < (wide ? 13 : 8); i++)
        screen_table_column(table, columns[i].title, columns[i].right, columns[i].flexible);
}

static int print_agents(const json_t *answer, bool wide, struct err *err)
{
    const json_t *agents = json_object_get(json_object_get(answer, "data"), "agents"), *agent;
    struct screen screen = screen_get();
    struct screen_table table = {0};
    struct buf text = buf_init(TEXT_BYTES);
    uint64_t now_ms = clock_wall_ns() / CLOCK_NS_PER_MS;
    size_t index;
    if (!json_is_array(agents))
        return err_say(err, -EPROTO,
                       "the server's answer has no agents; is it a fleetprof aggregator of this version?");
    add_columns(wide, &table);
    json_array_foreach(agents, index, agent)
    {
        add_agent(agent, (double)now_ms, wide, &table);
    }
    int rc = json_array_size(agents) ? screen_table_print(&table, wide ? 0 : screen.width, &text)
                                     : buf_printf(&text, "No agent has reported yet.\n");
    if (rc == 0)
        rc = top_view_partial(json_object_get(answer, "completeness"), &screen, &text);
    if (rc == 0)
        fwrite(text.data, 1, text.used_bytes, stdout);
    buf_fini(&text);
    screen_table_fini(&table);
    return rc < 0 ? err_say(err, rc, "the table does not fit into memory") : 0;
}

int cmd_agents(int argc, char **argv)
{
    struct agents_settings settings = {0};
    struct buf path = buf_init(PATH_BYTES);
    struct err err = {0};
    json_t *answer = NULL;
    int status;
    if (!cmd_options(&PROGRAM, argc, argv, &settings, NULL, NULL, &status))
        return status;
    bool json = strcmp(settings.output, "json") == 0, wide = strcmp(settings.output, "wide") == 0;
    if (!json && !wide && strcmp(settings.output, "table") != 0) {
        options_fini(&PROGRAM, &settings);
        return cmd_usage_error("--output must be table, wide or json");
    }
    int rc = buf_printf(&path, "/api/v1/agents");
    if (rc == 0)
        rc = server_http_json(&settings.server, &path, NULL, &answer, &err);
    if (rc == 0 && json)
        rc = json_dumpf(answer, stdout, JSON_INDENT(2)) == 0 && puts("") >= 0
                 ? 0
                 : err_say(&err, -EIO, "write the answer");
    else if (rc == 0)
        rc = print_agents(answer, wide, &err);
    status = rc < 0 ? cmd_fail(&err) : cmd_finish();
    json_decref(answer);
    buf_fini(&path);
    options_fini(&PROGRAM, &settings);
    return status;
}
