#include "cli/screen.h"

#include "common/options.h"
#include "common/str.h"
#include "common/xalloc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#define GAP_COLUMNS     3
#define FLEXIBLE_MIN    12 /* columns a name keeps on however narrow a screen */
#define ELLIPSIS        "\xe2\x80\xa6"
#define CELL_TEXT_BYTES 256

/* ---- the screen ------------------------------------------------------------------------------ */

static size_t from_environment(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    uint64_t value;
    return text && options_parse_uint(text, &value) == 0 && value > 0 && value < 100000 ? (size_t)value
                                                                                        : otherwise;
}

struct screen screen_get(void)
{
    struct screen screen = {.terminal = isatty(STDOUT_FILENO) == 1};
    struct winsize size = {0};
    const char *no_colour = getenv("NO_COLOR"), *term = getenv("TERM");
    bool dumb = term && strcmp(term, "dumb") == 0;
    if (screen.terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
        screen.width = size.ws_col;
        screen.height = size.ws_row;
    }
    screen.width = from_environment("COLUMNS", screen.width);
    screen.height = from_environment("LINES", screen.height);
    screen.colour = screen.terminal && !dumb && !(no_colour && *no_colour);
    screen.terminal = screen.terminal && !dumb;
    return screen;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* The character at text and its width; bytes is at least 1. Bytes that are no UTF-8 are one column each. */
static size_t next_character(const char *text, size_t bytes, size_t *ret_width)
{
    size_t length = str_utf8_length(text, bytes);
    wchar_t wide;
    mbstate_t state = {0};
    *ret_width = 1;
    if (length < 2)
        return 1;
    if (mbrtowc(&wide, text, length, &state) == length) {
        int width = wcwidth(wide);
        *ret_width = width < 0 ? 1 : (size_t)width;
    }
    return length;
}

size_t screen_width(const char *text, size_t bytes)
{
    size_t columns = 0;
    for (size_t at = 0, width; at < bytes; columns += width)
        at += next_character(text + at, bytes - at, &width);
    return columns;
}

/* A copy in which what a terminal would obey is shown; backslashes stay single, since the server has doubled
 * them. */
static char *safe_copy(const char *text)
{
    size_t bytes = strlen(text), used = 0;
    char *copy = xmalloc(bytes * 4 + 1);
    for (size_t at = 0, length; at < bytes; at += length) {
        length = str_utf8_length(text + at, bytes - at);
        length = length ? length : 1;
        char shown[16];
        size_t shown_bytes = str_printable(shown, sizeof(shown), text + at, length);
        bool plain = text[at] == '\\';
        memcpy(copy + used, plain ? text + at : shown, plain ? 1 : shown_bytes);
        used += plain ? 1 : shown_bytes;
    }
    copy[used] = '\0';
    return copy;
}

/* The longest start of text that takes at most columns, in bytes. */
static size_t fitting_start(const char *text, size_t bytes, size_t columns)
{
    size_t at = 0;
    while (at < bytes) {
        size_t width, length = next_character(text + at, bytes - at, &width);
        if (width > columns)
            break;
        columns -= width;
        at += length;
    }
    return at;
}

/* Where the longest end of text begins that takes at most columns. */
static size_t fitting_end(const char *text, size_t bytes, size_t columns)
{
    size_t all = screen_width(text, bytes), at = 0;
    while (at < bytes && all > columns) {
        size_t width;
        at += next_character(text + at, bytes - at, &width);
        all -= width;
    }
    return at;
}

/* Appends text, cut in the middle to columns: a name's start and its end tell more than either alone. */
static int append_cut(struct buf *out, const char *text, size_t columns)
{
    size_t bytes = strlen(text);
    if (screen_width(text, bytes) <= columns)
        return buf_append(out, text, bytes);
    size_t keep = columns > 0 ? columns - 1 : 0, head = fitting_start(text, bytes, keep - keep / 2);
    size_t tail = fitting_end(text, bytes, keep / 2);
    int rc = buf_append(out, text, head);
    if (rc == 0)
        rc = buf_append(out, ELLIPSIS, sizeof(ELLIPSIS) - 1);
    return rc == 0 ? buf_append(out, text + tail, bytes - tail) : rc;
}

/* ---- tables ---------------------------------------------------------------------------------- */

void screen_table_column(struct screen_table *table, const char *title, bool right, bool flexible)
{
    if (table->column_count < SCREEN_MAX_COLUMNS)
        table->columns[table->column_count++] =
            (struct screen_column){.title = title, .right = right, .flexible = flexible};
}

void screen_table_cell(struct screen_table *table, const char *text)
{
    if (table->cell_count == table->cell_room) {
        table->cell_room = table->cell_room ? 2 * table->cell_room : 256;
        table->cells = xrealloc_array(table->cells, table->cell_room, sizeof(*table->cells));
    }
    table->cells[table->cell_count++] = safe_copy(text ? text : "-");
}

void screen_table_cellf(struct screen_table *table, const char *fmt, ...)
{
    char text[CELL_TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    screen_table_cell(table, text);
}

static size_t row_count(const struct screen_table *table)
{
    return table->column_count ? table->cell_count / table->column_count : 0;
}

static void natural_widths(const struct screen_table *table, size_t *widths)
{
    for (size_t c = 0; c < table->column_count; c++) {
        widths[c] = strlen(table->columns[c].title);
        for (size_t r = 0; r < row_count(table); r++) {
            const char *cell = table->cells[r * table->column_count + c];
            size_t width = screen_width(cell, strlen(cell));
            widths[c] = width > widths[c] ? width : widths[c];
        }
    }
}

/* Takes columns away from the widest flexible column, one at a time, until the line fits. */
static void shrink(const struct screen_table *table, size_t width, size_t *widths)
{
    size_t total = GAP_COLUMNS * (table->column_count - 1);
    for (size_t c = 0; c < table->column_count; c++)
        total += widths[c];
    for (; total > width; total--) {
        size_t widest = SCREEN_MAX_COLUMNS;
        for (size_t c = 0; c < table->column_count; c++)
            if (table->columns[c].flexible && widths[c] > FLEXIBLE_MIN &&
                (widest == SCREEN_MAX_COLUMNS || widths[c] > widths[widest]))
                widest = c;
        if (widest == SCREEN_MAX_COLUMNS)
            return;
        widths[widest]--;
    }
}

static int print_cell(const struct screen_table *table, size_t c, const char *text, const size_t *widths,
                      struct buf *out)
{
    bool last = c + 1 == table->column_count;
    size_t width = screen_width(text, strlen(text));
    int padding = width < widths[c] ? (int)(widths[c] - width) : 0;
    int rc = table->columns[c].right ? buf_printf(out, "%*s", padding, "") : 0;
    if (rc == 0)
        rc = append_cut(out, text, widths[c]);
    if (rc == 0 && !last)
        rc = buf_printf(out, "%*s", GAP_COLUMNS + (table->columns[c].right ? 0 : padding), "");
    return rc == 0 && last ? buf_append(out, "\n", 1) : rc;
}

int screen_table_print(const struct screen_table *table, size_t width, struct buf *out)
{
    size_t widths[SCREEN_MAX_COLUMNS] = {0};
    int rc = 0;
    natural_widths(table, widths);
    if (width && table->column_count)
        shrink(table, width, widths);
    for (size_t c = 0; c < table->column_count && rc == 0; c++)
        rc = print_cell(table, c, table->columns[c].title, widths, out);
    for (size_t i = 0; i < row_count(table) * table->column_count && rc == 0; i++)
        rc = print_cell(table, i % table->column_count, table->cells[i], widths, out);
    return rc;
}

void screen_table_fini(struct screen_table *table)
{
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (struct screen_table){0};
}
