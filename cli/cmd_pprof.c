#include "cli/cmd.h"
#include "cli/server_http.h"
#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 65536u

struct pprof_settings {
    struct server_settings server;
    struct server_selection selection;
    char *file;
};

static const struct option_def DEFS[] = {
    {.name = "file",
     .type = OPTION_STRING,
     .letter = 'f',
     .offset = offsetof(struct pprof_settings, file),
     .argument = "FILE",
     .help = "write to FILE (default and \"-\": standard output, unless it is a terminal)"},
    SERVER_SELECTION_OPTIONS(struct pprof_settings, selection),
    SERVER_OPTIONS(struct pprof_settings, server),
    {0},
};
static const struct options_program PROGRAM = {
    .name = "fleetprof pprof",
    .summary = "Writes a profile (profile.proto, gzip-compressed) for `go tool pprof` and its relatives.",
    .usage = "[OPTION]...",
    .footer = "Example:\n  fleetprof pprof --since 10m -f cpu.pb.gz && go tool pprof -top cpu.pb.gz",
    .defs = DEFS,
    .no_config = true,
};

static int write_all(int fd, const char *data, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t n = write(fd, data + at, bytes - at);
        if (n == -1 && errno != EINTR)
            return -errno;
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int write_file(const char *path, const struct buf *body, struct err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd == -1)
        return err_set(err, -errno, "open %s", path);
    int rc = write_all(fd, body->data, body->used_bytes);
    if (close(fd) == -1 && rc == 0)
        rc = -errno;
    return rc < 0 ? err_set(err, rc, "write %s", path) : 0;
}

static int write_profile(const char *file, const struct buf *body, struct err *err)
{
    if (file)
        return write_file(file, body, err);
    int rc = write_all(STDOUT_FILENO, body->data, body->used_bytes);
    return rc < 0 ? err_set(err, rc, "write the profile") : 0;
}

int cmd_pprof(int argc, char **argv)
{
    struct pprof_settings settings = {0};
    struct buf path = buf_init(PATH_BYTES);
    struct http_reply reply = {0};
    struct err err = {0};
    int status;
    if (!cmd_options(&PROGRAM, argc, argv, &settings, NULL, NULL, &status))
        return status;
    const char *file = settings.file && strcmp(settings.file, "-") != 0 ? settings.file : NULL;
    int rc = buf_printf(&path, "/api/v1/profile");
    if (rc == 0)
        rc = server_http_select(&settings.selection, &path);
    if (rc < 0)
        err_say(&err, rc, "the question is too long");
    else if (!file && isatty(STDOUT_FILENO))
        rc = err_say(&err, -EINVAL,
                     "the profile is binary and standard output a terminal: use -f FILE or redirect it");
    if (rc == 0)
        rc = server_http_get(&settings.server, &path, NULL, &reply, &err);
    if (rc == 0)
        rc = write_profile(file, &reply.body, &err);
    status = rc < 0 ? cmd_fail(&err) : CMD_OK;
    if (rc == 0)
        cmd_note(&reply);
    http_reply_fini(&reply);
    buf_fini(&path);
    options_fini(&PROGRAM, &settings);
    return status;
}
