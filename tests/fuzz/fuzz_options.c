/* The text of a config file, and its values as they come in query strings. */
#include "common/options.c"

struct settings {
    char *name;
    uint64_t hz, room_bytes, window_ms;
    bool loud;
};

static const struct option_def DEFS[] = {
    {.name = "name", .type = OPTION_STRING, .offset = offsetof(struct settings, name)},
    {.name = "hz",
     .type = OPTION_UINT,
     .offset = offsetof(struct settings, hz),
     .fallback = "99",
     .min = 1,
     .max = 1000},
    {.name = "room", .type = OPTION_BYTES, .offset = offsetof(struct settings, room_bytes)},
    {.name = "window", .type = OPTION_DURATION, .offset = offsetof(struct settings, window_ms), .max = 60000},
    {.name = "loud", .type = OPTION_BOOL, .offset = offsetof(struct settings, loud)},
    {0},
};
static const struct options_program PROGRAM = {.name = "prog", .summary = "", .usage = "", .defs = DEFS};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct settings settings;
    struct err err;
    if (set_defaults(&PROGRAM, &settings, &err) < 0)
        abort();
    config_text(&PROGRAM, &settings, "f", (const char *)data, bytes, &err);
    if (settings.hz < 1 || settings.hz > 1000 || settings.window_ms > 60000)
        abort();
    options_fini(&PROGRAM, &settings);

    AUTO_FREE char *text = xmemdup_text(data, bytes);
    uint64_t value;
    options_parse_bytes(text, &value);
    options_parse_duration_ms(text, &value);
    options_parse_uint(text, &value);
    static const char *const names[] = {"since", "limit", "group", NULL};
    options_nearest(text, names);
    return 0;
}
