#include "cli/cmd.h"

#include "cli/top_view.h"
#include "common/http.h"
#include "common/version.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NOTE_BYTES 65536u

static const struct command {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} COMMANDS[] = {
    {"top", "the functions (processes, nodes, ...) that cost the most", cmd_top},
    {"folded", "all stacks as folded text, for flame graphs", cmd_folded},
    {"pprof", "a profile for `go tool pprof`", cmd_pprof},
    {"labels", "the labels samples have, and their values", cmd_labels},
    {"agents", "the node agents and how they are", cmd_agents},
    {"version", "the versions of this program and of the server", cmd_version},
};
#define COMMAND_COUNT (sizeof(COMMANDS) / sizeof(COMMANDS[0]))

static int print_help(FILE *out)
{
    fprintf(out, "fleetprof shows where the CPU time of a fleet of machines goes.\n\n"
                 "Usage: fleetprof COMMAND [OPTION]...\n\nCommands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-10s %s\n", COMMANDS[i].name, COMMANDS[i].summary);
    fprintf(out, "\nUse \"fleetprof COMMAND --help\" for the options of a command.\n"
                 "The aggregator asked is --server, else $FLEETPROF_SERVER, else http://127.0.0.1:4040.\n");
    return out == stdout ? cmd_finish() : CMD_USAGE;
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(COMMANDS[i].name, name) == 0)
            return &COMMANDS[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *names[COMMAND_COUNT + 1] = {NULL};
    if (name[0] == '-') {
        fprintf(stderr, "error: option %s must stand behind the command; see 'fleetprof --help'\n", name);
        return CMD_USAGE;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        names[i] = COMMANDS[i].name;
    const char *nearest = options_nearest(name, names);
    fprintf(stderr, "error: unknown command \"%s\"%s%s%s; see 'fleetprof --help'\n", name,
            nearest ? " (did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?)" : "");
    return CMD_USAGE;
}

/* "fleetprof --server URL top" is "fleetprof top --server URL". Turns argv so that the command comes first;
 * returns false when there is none behind the leading options. */
static bool command_first(int argc, char **argv)
{
    int at = 1;
    while (at < argc && (strcmp(argv[at], "--server") == 0 || strcmp(argv[at], "-s") == 0 ||
                         strncmp(argv[at], "--server=", 9) == 0))
        at += argv[at][1] == '-' && argv[at][8] == '=' ? 1 : 2;
    if (at >= argc)
        return false;
    char *command = argv[at];
    memmove(&argv[2], &argv[1], (size_t)(at - 1) * sizeof(*argv));
    argv[1] = command;
    return true;
}

int cmd_run(int argc, char **argv)
{
    if (!command_first(argc, argv))
        return print_help(stderr);
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return print_help(stdout);
    if (strcmp(name, "--version") == 0) {
        printf("fleetprof %s\n", FLEETPROF_VERSION);
        return cmd_finish();
    }
    if (strcmp(name, "help") == 0 && argc == 2)
        return print_help(stdout);
    if (strcmp(name, "help") == 0) {
        static char help[] = "--help";
        char *again[] = {argv[2], help, NULL};
        const struct command *command = find_command(argv[2]);
        return command ? command->run(2, again) : unknown_command(argv[2]);
    }
    const struct command *command = find_command(name);
    return command ? command->run(argc - 1, argv + 1) : unknown_command(name);
}

bool cmd_options(const struct options_program *program, int argc, char **argv, void *settings,
                 char **ret_rest, size_t *rest_count, int *ret_status)
{
    struct err err = {0};
    int rc = options_read(program, argc, argv, settings, ret_rest, rest_count, &err);
    if (rc == OPTIONS_RUN)
        return true;
    *ret_status = rc == OPTIONS_EXIT ? CMD_OK : cmd_usage_error(err.text);
    return false;
}

int cmd_fail(const struct err *err)
{
    fprintf(stderr, "error: %s\n", err->text);
    return CMD_ERROR;
}

int cmd_usage_error(const char *text)
{
    fprintf(stderr, "error: %s\n", text);
    return CMD_USAGE;
}

void cmd_note(const struct http_reply *reply)
{
    struct screen screen = {.colour = false};
    struct buf text = buf_init(NOTE_BYTES);
    json_t *completeness = reply->note ? json_loads(reply->note, 0, NULL) : NULL;
    if (completeness && top_view_completeness(completeness, "", &screen, &text) == 0)
        fwrite(text.data, 1, text.used_bytes, stderr);
    json_decref(completeness);
    buf_fini(&text);
}

int cmd_finish(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return CMD_OK;
    fprintf(stderr, "error: write the answer: %s\n", strerror(errno));
    return CMD_ERROR;
}
