/* screen: what standard output is, and text that fits on it.
 * Shapes:   text is UTF-8; control characters in it are shown as \xHH.   Threads: one. */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include "common/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct screen {
    bool terminal; /* redraw in place is possible */
    bool colour;   /* a terminal, and NO_COLOR is not set */
    size_t width;  /* columns to keep to, 0: any */
    size_t height; /* lines, 0: any */
};

/* COLUMNS and LINES win over the terminal's own word. */
struct screen screen_get(void);

/* Columns that text takes. */
size_t screen_width(const char *text, size_t bytes);

#define SCREEN_MAX_COLUMNS 32

struct screen_column {
    const char *title;
    bool right;    /* numbers */
    bool flexible; /* may be cut in the middle when the line is wider than the screen */
};

/* A table in memory, printed as a whole. */
struct screen_table {
    struct screen_column columns[SCREEN_MAX_COLUMNS];
    size_t column_count;
    char **cells; /* rows one after the other */
    size_t cell_count, cell_room;
};

void screen_table_column(struct screen_table *table, const char *title, bool right, bool flexible);
/* The next cell; text may be NULL (shown as "-"). Rows are complete when every column has had its cell. */
void screen_table_cell(struct screen_table *table, const char *text);
void screen_table_cellf(struct screen_table *table, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends the header and every row. width 0: nothing is cut. */
int screen_table_print(const struct screen_table *table, size_t width, struct buf *out);
void screen_table_fini(struct screen_table *table);

#endif
