/* cmd: the commands of fleetprof (kubectl-fleetprof is the same program).
 * Each gets argv with its own name at 0 and returns the exit status. Output goes to standard output,
 * everything that is not the answer to standard error. */
#ifndef CLI_CMD_H
#define CLI_CMD_H

#include "common/err.h"
#include "common/options.h"

enum cmd_status { CMD_OK = 0, CMD_ERROR = 1, CMD_USAGE = 2 };

int cmd_top(int argc, char **argv);
int cmd_folded(int argc, char **argv);
int cmd_pprof(int argc, char **argv);
int cmd_labels(int argc, char **argv);
int cmd_agents(int argc, char **argv);
int cmd_version(int argc, char **argv);

/* Finds the command named by argv[1] and runs it. */
int cmd_run(int argc, char **argv);

/* Reads the options of a command. True: go on; false: *ret_status is the exit status and the error has been
 * told. */
bool cmd_options(const struct options_program *program, int argc, char **argv, void *settings,
                 char **ret_rest, size_t *rest_count, int *ret_status);

/* "error: text" on standard error; returns the exit status for it. */
int cmd_fail(const struct err *err);
int cmd_usage_error(const char *text);
/* What a reply that is no JSON speaks for, on standard error. */
struct http_reply;
void cmd_note(const struct http_reply *reply);
/* Flushes standard output: an answer that could not be written is an error. */
int cmd_finish(void);

#endif
