#include "cli/top_view.h"

#include "common/str.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define RED_BOLD "\x1b[1;31m"
#define PLAIN    "\x1b[0m"
#define TEXT_MAX 256

/* ---- numbers --------------------------------------------------------------------------------- */

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* Three digits that matter: 1.23, 12.3, 123, 1234. */
static int three_digits(double value)
{
    return value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

void top_view_amount(double value, const char *unit, char *out, size_t out_bytes)
{
    static const struct {
        double least, factor;
        const char *unit;
    } times[] = {{1e9, 1e9, "s"}, {1e6, 1e6, "ms"}, {1e3, 1e3, "us"}, {0, 1, "ns"}},
      counts[] = {{1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}, {0, 1, ""}};
    bool time = strcmp(unit, "nanoseconds") == 0;
    size_t i = 0;
    while (value < (time ? times : counts)[i].least)
        i++;
    double shown = value / (time ? times : counts)[i].factor;
    int digits = (time ? times : counts)[i].factor == 1 ? 0 : three_digits(shown);
    snprintf(out, out_bytes, "%.*f%s", digits, shown, (time ? times : counts)[i].unit);
}

void top_view_duration(double ms, char *out, size_t out_bytes)
{
    static const struct {
        unsigned long long seconds;
        char letter;
    } units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    unsigned long long left = ms >= 1000 ? (unsigned long long)(ms / 1000 + 0.5) : 0;
    size_t used = 0;
    if (ms > 0 && ms < 1000)
        snprintf(out, out_bytes, "%.0fms", ms);
    else
        snprintf(out, out_bytes, "0s");
    for (size_t i = 0; i < 4; i++) {
        unsigned long long part = left / units[i].seconds;
        left %= units[i].seconds;
        if (part && used < out_bytes)
            used += (size_t)snprintf(out + used, out_bytes - used, "%llu%c", part, units[i].letter);
    }
}

/* ---- below the table ------------------------------------------------------------------------- */

static int loud(const char *text, const struct screen *screen, struct buf *out)
{
    return buf_printf(out, "%sPARTIAL ANSWER: %s%s\n", screen->colour ? RED_BOLD : "", text,
                      screen->colour ? PLAIN : "");
}

int top_view_partial(const json_t *completeness, const struct screen *screen, struct buf *out)
{
    const json_t *missing = json_object_get(json_object_get(completeness, "shards"), "missing"), *shard;
    char text[TEXT_MAX] = "";
    size_t index, used = 0;
    if (!json_is_true(json_object_get(completeness, "partial")))
        return 0;
    if (json_array_size(missing) == 0)
        return loud("samples of this time were lost, or were dropped from memory already", screen, out);
    json_array_foreach(missing, index, shard)
    {
        char name[TEXT_MAX / 2];
        str_shown(name, sizeof(name), json_string_value(shard), json_string_length(shard));
        int n = snprintf(text + used, sizeof(text) - used, "%s%s", index ? ", " : "", name);
        used += n > 0 && (size_t)n < sizeof(text) - used ? (size_t)n : 0;
    }
    char line[2 * TEXT_MAX];
    snprintf(line, sizeof(line), "no answer from shard%s %s; their samples are missing above",
             json_array_size(missing) == 1 ? "" : "s", text);
    return loud(line, screen, out);
}

static double percent(const json_t *completeness, const char *key)
{
    return 100 * number(json_object_get(completeness, key), "share");
}

int top_view_completeness(const json_t *completeness, const char *what, const struct screen *screen,
                          struct buf *out)
{
    const json_t *shards = json_object_get(completeness, "shards");
    double nodes = number(completeness, "nodes");
    char amount[32];
    top_view_amount(number(completeness, "value"), text_of(completeness, "unit"), amount, sizeof(amount));
    int rc = top_view_partial(completeness, screen, out);
    if (rc == 0)
        rc = buf_printf(out, "%.0f of %.0f shards, %.0f node%s%s: %.0f samples, %s; ",
                        number(shards, "answered"), number(shards, "asked"), nodes, nodes == 1 ? "" : "s",
                        what, number(completeness, "samples"), amount);
    if (rc == 0)
        rc = buf_printf(out, "lost %.1f%%, truncated %.1f%%, unnamed %.1f%%\n", percent(completeness, "lost"),
                        percent(completeness, "truncated"), percent(completeness, "unnamed"));
    return rc;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* What every row is printed by. */
struct view {
    const json_t *data;
    bool wide;
    double covered_ms;  /* of an average node: what CORES are reckoned by */
    char titles[8][32]; /* of the group columns, upper case */
    const char *keys[8];
    size_t key_count;
};

static void add_key(struct view *view, const char *key)
{
    size_t at = view->key_count;
    if (at == sizeof(view->keys) / sizeof(view->keys[0]))
        return;
    for (size_t i = 0; i < at; i++)
        if (strcmp(view->keys[i], key) == 0)
            return;
    view->keys[at] = key;
    for (size_t i = 0; key[i] && i + 1 < sizeof(view->titles[0]); i++)
        view->titles[at][i] = key[i] >= 'a' && key[i] <= 'z' ? (char)(key[i] - 'a' + 'A') : key[i];
    view->key_count++;
}

static void read_groups(struct view *view)
{
    const json_t *group;
    size_t index;
    json_array_foreach(json_object_get(view->data, "group"), index, group)
    {
        const char *name = json_string_value(group);
        if (!name)
            continue;
        add_key(view, name);
        if (strcmp(name, "function") == 0)
            add_key(view, "module");
    }
}

static void add_columns(const struct view *view, struct screen_table *table)
{
    bool cumulative = json_is_true(json_object_get(view->data, "cumulative"));
    screen_table_column(table, cumulative ? "CUM" : "SELF", true, false);
    if (view->wide) {
        screen_table_column(table, "LOW", true, false);
        screen_table_column(table, "HIGH", true, false);
        screen_table_column(table, "CORES", true, false);
        screen_table_column(table, "SAMPLES", true, false);
    }
    screen_table_column(table, "SHARE", true, false);
    for (size_t i = 0; i < view->key_count; i++)
        screen_table_column(table, view->titles[i], false, true);
}

static void add_amount(struct screen_table *table, double value, const char *unit)
{
    char text[32];
    top_view_amount(value, unit, text, sizeof(text));
    screen_table_cell(table, text);
}

static void add_row(const struct view *view, const json_t *row, struct screen_table *table)
{
    const json_t *interval = json_object_get(row, "interval"),
                 *shares = json_object_get(row, "share_interval");
    const char *unit = text_of(row, "unit");
    double value = number(row, "value"), half = (number(shares, "high") - number(shares, "low")) / 2;
    add_amount(table, value, unit);
    if (view->wide) {
        add_amount(table, number(interval, "low"), unit);
        add_amount(table, number(interval, "high"), unit);
        if (strcmp(unit, "nanoseconds") == 0 && view->covered_ms > 0)
            screen_table_cellf(table, "%.3f", value / (view->covered_ms * 1e6));
        else
            screen_table_cell(table, NULL);
        screen_table_cellf(table, "%.0f", number(row, "count"));
    }
    screen_table_cellf(table, "%.1f%% \xc2\xb1%.1f", 100 * number(row, "share"), 100 * half);
    for (size_t i = 0; i < view->key_count; i++) {
        const char *name = text_of(json_object_get(row, "keys"), view->keys[i]);
        screen_table_cell(table, *name ? name : NULL);
    }
}

/* Where nodes came or went within the range, the range itself would make a busy core look idle. */
static double covered_ms(const json_t *completeness, double range_ms)
{
    double nodes = number(completeness, "nodes");
    double covered = nodes > 0 ? number(json_object_get(completeness, "coverage"), "covered_ms") / nodes : 0;
    return covered > 0 && covered < range_ms ? covered : range_ms;
}

int top_view(const json_t *answer, bool wide, const struct screen *screen, struct buf *out, struct err *err)
{
    struct view view = {.data = json_object_get(answer, "data"), .wide = wide};
    const json_t *rows = json_object_get(view.data, "rows"), *row;
    struct screen_table table = {0};
    char range[64] = "", what[96];
    size_t index;
    if (!json_is_array(rows))
        return err_say(err, -EPROTO,
                       "the server's answer has no rows; is it a fleetprof aggregator of this version?");
    double range_ms = number(view.data, "to_ms") - number(view.data, "from_ms");
    top_view_duration(range_ms, range, sizeof(range));
    view.covered_ms = covered_ms(json_object_get(answer, "completeness"), range_ms);
    read_groups(&view);
    add_columns(&view, &table);
    json_array_foreach(rows, index, row)
    {
        add_row(&view, row, &table);
    }
    snprintf(what, sizeof(what), ", over %s", range);
    int rc = json_array_size(rows) == 0 ? buf_printf(out, "No samples in the %s asked for.\n", range)
                                        : screen_table_print(&table, wide ? 0 : screen->width, out);
    if (rc == 0)
        rc = top_view_completeness(json_object_get(answer, "completeness"), what, screen, out);
    screen_table_fini(&table);
    return rc < 0 ? err_say(err, rc, "the table does not fit into memory") : 0;
}
