#include "base/table.h"
#include "base/arena.h"
#include "base/array.h"
#include "base/format.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELL_MAX ((size_t)1 << 20)
#define TITLE_MAX 128

struct column {
    const char *title;
    enum prn_table_align align;
    bool shrinks, omits, wraps;
    int rank; /* of those that are left out, the highest goes first */
};

struct prn_table {
    struct prn_arena arena;
    struct column *columns;
    size_t n_columns;
    const char **cells;
    size_t n_cells;
    size_t width_max; /* 0: no limit */
    bool bare;
    bool spills;            /* what is left out follows in further tables */
    const char *what_shows; /* what is left out; NULL: nobody asks */
    size_t keys;            /* first columns that every further table has */
    int error;              /* the first failure */
};

struct prn_table *prn_table_new(void)
{
    struct prn_table *t = calloc(1, sizeof *t);
    if (t)
        t->arena = PRN_ARENA_INIT((size_t)256 << 20);
    return t;
}

void prn_table_free(struct prn_table *t)
{
    if (!t)
        return;
    prn_arena_release(&t->arena);
    free(t->columns);
    free(t->cells);
    free(t);
}

void prn_table_column(struct prn_table *t, const char *title, enum prn_table_align align)
{
    if (!t)
        return;
    struct column *columns = prn_array_grow(t->columns, t->n_columns, sizeof *columns);
    const char *copy = prn_arena_strdup(&t->arena, title);
    if (columns)
        t->columns = columns;
    if (!columns || !copy) {
        t->error = PRONY_ENOMEM;
        return;
    }
    t->columns[t->n_columns++] = (struct column){.title = copy, .align = align};
}

void prn_table_columns(struct prn_table *t, const char *titles)
{
    char title[TITLE_MAX];
    for (const char *at = titles, *end = NULL; !end || *end; at = end + 1) {
        const char mark = *at;
        const bool marked = mark == '>' || mark == '~';
        end = strchrnul(at, '|');
        snprintf(title, sizeof title, "%.*s", (int)(end - at - marked), at + marked);
        prn_table_column(t, title, mark == '>' ? PRN_TABLE_ALIGN_RIGHT : PRN_TABLE_ALIGN_LEFT);
        if (mark == '~')
            prn_table_shrink(t);
    }
}

void prn_table_width(struct prn_table *t, size_t width)
{
    if (t)
        t->width_max = width;
}

void prn_table_bare(struct prn_table *t)
{
    if (t)
        t->bare = true;
}

void prn_table_omit(struct prn_table *t)
{
    if (t && t->n_columns > 0)
        t->columns[t->n_columns - 1].omits = true;
}

void prn_table_omit_rank(struct prn_table *t, int rank)
{
    prn_table_omit(t);
    if (t && t->n_columns > 0)
        t->columns[t->n_columns - 1].rank = rank;
}

void prn_table_rest(struct prn_table *t, const char *what_shows, size_t keys)
{
    if (!t)
        return;
    t->spills = !what_shows;
    t->what_shows = what_shows;
    t->keys = keys;
}

void prn_table_shrink(struct prn_table *t)
{
    if (t && t->n_columns > 0)
        t->columns[t->n_columns - 1].shrinks = true;
}

void prn_table_wrap(struct prn_table *t)
{
    if (t && t->n_columns > 0)
        t->columns[t->n_columns - 1].wraps = true;
}

void prn_table_cell(struct prn_table *t, const char *format, ...)
{
    if (!t)
        return;
    struct prn_buffer text = PRN_BUFFER_INIT(CELL_MAX);
    va_list args;
    va_start(args, format);
    prn_buffer_vprintf(&text, format, args);
    va_end(args);
    const char **cells = prn_array_grow(t->cells, t->n_cells, sizeof *cells);
    const char *copy = text.error ? NULL : prn_arena_strdup(&t->arena, prn_buffer_text(&text));
    if (cells)
        t->cells = cells;
    if (cells && copy)
        t->cells[t->n_cells++] = copy;
    else
        t->error = text.error ? text.error : PRONY_ENOMEM;
    prn_buffer_release(&text);
}

void prn_table_cell_text(struct prn_table *t, const char *text)
{
    struct prn_buffer clean = PRN_BUFFER_INIT(CELL_MAX);
    prn_text_clean(&clean, text ? text : "");
    prn_table_cell(t, "%s", prn_buffer_text(&clean));
    if (t && clean.error)
        t->error = clean.error;
    prn_buffer_release(&clean);
}

void prn_table_cell_exact(struct prn_table *t, double value)
{
    char text[PRN_FORMAT_SIZE];
    prn_table_cell(t, "%s", isfinite(value) ? prn_format_shortest(text, value) : "");
}

size_t prn_table_rows(const struct prn_table *t)
{
    return t && t->n_columns ? (t->n_cells + t->n_columns - 1) / t->n_columns : 0;
}

void prn_csv_field(struct prn_buffer *out, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        prn_buffer_add(out, text);
        return;
    }
    prn_buffer_add_char(out, '"');
    for (const char *p = text; *p; p++) {
        if (*p == '"')
            prn_buffer_add_char(out, '"');
        prn_buffer_add_char(out, *p);
    }
    prn_buffer_add_char(out, '"');
}

static const char *cell(const struct prn_table *t, size_t row, size_t column)
{
    size_t i = row * t->n_columns + column;
    return i < t->n_cells ? t->cells[i] : "";
}

static void repeat(struct prn_buffer *out, char c, size_t n)
{
    while (n-- > 0)
        prn_buffer_add_char(out, c);
}

static void text_cell(struct prn_buffer *out, const char *text, size_t width,
                      enum prn_table_align align, bool last)
{
    size_t need = prn_text_width(text);
    size_t pad = need < width ? width - need : 0;
    struct prn_buffer clean = PRN_BUFFER_INIT(CELL_MAX);
    if (align == PRN_TABLE_ALIGN_RIGHT)
        repeat(out, ' ', pad);
    prn_text_clean(&clean, text);
    prn_text_shorten(out, prn_buffer_text(&clean), width);
    if (clean.error)
        out->error = clean.error;
    prn_buffer_release(&clean);
    if (align == PRN_TABLE_ALIGN_LEFT && !last)
        repeat(out, ' ', pad);
}

static void markdown_text(struct prn_buffer *out, const char *text)
{
    struct prn_buffer clean = PRN_BUFFER_INIT(CELL_MAX);
    prn_text_clean(&clean, text);
    for (const char *p = prn_buffer_text(&clean); *p; p++) {
        if (*p == '|')
            prn_buffer_add_char(out, '\\');
        prn_buffer_add_char(out, *p);
    }
    if (clean.error)
        out->error = clean.error;
    prn_buffer_release(&clean);
}

static void markdown_cell(struct prn_buffer *out, const char *text, size_t width,
                          enum prn_table_align align)
{
    size_t need = prn_text_width(text);
    for (const char *p = text; *p; p++)
        need += *p == '|';
    size_t pad = width > need ? width - need : 0;
    prn_buffer_add_char(out, ' ');
    if (align == PRN_TABLE_ALIGN_RIGHT)
        repeat(out, ' ', pad);
    markdown_text(out, text);
    if (align == PRN_TABLE_ALIGN_LEFT)
        repeat(out, ' ', pad);
    prn_buffer_add(out, " |");
}

#define OMITTED SIZE_MAX

/* How wide the table is; with `narrow` > 0, when the columns that shrink are no wider than that. */
static size_t total_width(const struct prn_table *t, const size_t *widths, size_t narrow)
{
    size_t total = 0;
    for (size_t c = 0; c < t->n_columns; c++)
        if (widths[c] != OMITTED) {
            bool narrowed = narrow > 0 && t->columns[c].shrinks && widths[c] > narrow;
            total += (total ? 2 : 0) + (narrowed ? narrow : widths[c]);
        }
    return total;
}

/* Leaves columns out, by rank and then from the right, while names would have to get very short. */
static void omit_columns(const struct prn_table *t, size_t *widths)
{
    const size_t readable = 36;
    while (total_width(t, widths, readable) > t->width_max) {
        size_t last = t->n_columns;
        for (size_t c = t->n_columns; c-- > 0;)
            if (t->columns[c].omits && widths[c] != OMITTED &&
                (last == t->n_columns || t->columns[c].rank > t->columns[last].rank))
                last = c;
        if (last == t->n_columns)
            return;
        widths[last] = OMITTED;
    }
}

/* Narrows the widest of the columns that may be, again and again, until the table fits. */
static void narrow_columns(const struct prn_table *t, size_t *widths)
{
    const size_t narrowest = 12;
    for (size_t over = total_width(t, widths, 0); over > t->width_max; over--) {
        size_t widest = t->n_columns;
        for (size_t c = 0; c < t->n_columns; c++)
            if ((t->columns[c].shrinks || t->columns[c].wraps) && widths[c] != OMITTED &&
                widths[c] > narrowest && (widest == t->n_columns || widths[c] > widths[widest]))
                widest = c;
        if (widest == t->n_columns)
            break;
        widths[widest]--;
    }
}

/* What nobody said may be left out is, in the end: a line that is too wide can't be read at all. */
static void force_columns(const struct prn_table *t, size_t *widths)
{
    for (size_t c = t->n_columns; c-- > 1 && total_width(t, widths, 0) > t->width_max;)
        widths[c] = OMITTED;
    if (widths[0] != OMITTED && widths[0] > t->width_max)
        widths[0] = t->width_max;
}

/* The last cell of a row, which ends its line, and may take further ones. */
static void wrapped_cell(struct prn_buffer *out, const char *text, size_t width, size_t total)
{
    struct prn_buffer clean = PRN_BUFFER_INIT(CELL_MAX);
    prn_text_clean(&clean, text);
    prn_text_wrap(out, prn_buffer_text(&clean), total - width, total - width, total);
    if (out->len > 0 && out->data[out->len - 1] == '\n')
        out->data[--out->len] = '\0'; /* the row ends it */
    if (clean.error)
        out->error = clean.error;
    prn_buffer_release(&clean);
}

static void write_columns(const struct prn_table *t, const size_t *widths, struct prn_buffer *out)
{
    size_t total = total_width(t, widths, 0);
    for (size_t row = 0; row <= prn_table_rows(t); row++) {
        const char *between = "";
        for (size_t c = 0; c < t->n_columns; c++) {
            if (widths[c] == OMITTED)
                continue;
            prn_buffer_add(out, between);
            between = "  ";
            const char *text = row == 0 ? t->columns[c].title : cell(t, row - 1, c);
            bool last = c + 1 == t->n_columns;
            if (last && t->columns[c].wraps)
                wrapped_cell(out, text, widths[c], total);
            else
                text_cell(out, text, widths[c], t->columns[c].align, last);
        }
        /* Empty cells at the end of a row leave no spaces behind. */
        while (out->len > 0 && out->data[out->len - 1] == ' ')
            out->data[--out->len] = '\0';
        prn_buffer_add_char(out, '\n');
        if (row == 0 && !t->bare) {
            repeat(out, '=', total);
            prn_buffer_add(out, "\n");
        }
    }
    if (t->bare)
        return;
    repeat(out, '-', total);
    prn_buffer_add(out, "\n");
}

static void name_rest(const struct prn_table *t, const size_t *widths, struct prn_buffer *out)
{
    struct prn_buffer line = PRN_BUFFER_INIT(CELL_MAX);
    size_t n = 0;
    for (size_t c = 0; c < t->n_columns; c++)
        if (widths[c] == OMITTED)
            prn_buffer_printf(&line, "%s%s", n++ > 0 ? ", " : "Not shown: ", t->columns[c].title);
    prn_buffer_printf(&line, "; %s shows %s.", t->what_shows, n == 1 ? "it" : "them");
    if (n > 0)
        prn_text_wrap(out, prn_buffer_text(&line), 0, 2, t->width_max);
    if (line.error)
        out->error = line.error;
    prn_buffer_release(&line);
}

/* From the widths of all columns: those of the columns that fit. */
static void fit_columns(const struct prn_table *t, size_t *widths)
{
    if (t->width_max == 0)
        return;
    omit_columns(t, widths);
    narrow_columns(t, widths);
    force_columns(t, widths);
}

/* Further tables, each with the first columns and some of those that no table had yet. */
static int write_rest(const struct prn_table *t, const size_t *full, const size_t *widths,
                      struct prn_buffer *out)
{
    size_t *next = malloc(t->n_columns * sizeof *next);
    bool *left = calloc(t->n_columns, sizeof *left);
    bool any = false;
    int code = next && left ? 0 : PRONY_ENOMEM;
    for (size_t c = 0; code == 0 && c < t->n_columns; c++)
        any |= left[c] = widths[c] == OMITTED;
    while (code == 0 && any) {
        for (size_t c = 0; c < t->n_columns; c++)
            next[c] = c < t->keys && widths[c] != OMITTED ? widths[c] : left[c] ? full[c] : OMITTED;
        fit_columns(t, next);
        any = false;
        bool written = false;
        for (size_t c = 0; c < t->n_columns; c++) {
            written |= left[c] && next[c] != OMITTED;
            left[c] = left[c] && next[c] == OMITTED;
            any |= left[c];
        }
        if (!written)
            break; /* nothing fits beside the first column */
        prn_buffer_add_char(out, '\n');
        write_columns(t, next, out);
    }
    free(left);
    free(next);
    return code;
}

static int write_text(const struct prn_table *t, size_t *widths, struct prn_buffer *out)
{
    size_t *full = malloc(t->n_columns * sizeof *full);
    if (!full)
        return PRONY_ENOMEM;
    memcpy(full, widths, t->n_columns * sizeof *full);
    fit_columns(t, widths);
    write_columns(t, widths, out);
    int code = t->spills ? write_rest(t, full, widths, out) : 0;
    if (t->what_shows)
        name_rest(t, widths, out);
    free(full);
    return code;
}

static void write_markdown(const struct prn_table *t, const size_t *widths, struct prn_buffer *out)
{
    for (size_t row = 0; row <= prn_table_rows(t); row++) {
        prn_buffer_add(out, "|");
        for (size_t c = 0; c < t->n_columns; c++)
            markdown_cell(out, row == 0 ? t->columns[c].title : cell(t, row - 1, c), widths[c],
                          t->columns[c].align);
        prn_buffer_add(out, "\n");
        if (row > 0)
            continue;
        prn_buffer_add(out, "|");
        for (size_t c = 0; c < t->n_columns; c++) {
            bool right = t->columns[c].align == PRN_TABLE_ALIGN_RIGHT;
            repeat(out, '-', widths[c] + (right ? 1 : 2));
            prn_buffer_add(out, right ? ":|" : "|");
        }
        prn_buffer_add(out, "\n");
    }
}

static void write_csv(const struct prn_table *t, struct prn_buffer *out)
{
    for (size_t row = 0; row <= prn_table_rows(t); row++)
        for (size_t c = 0; c < t->n_columns; c++) {
            prn_csv_field(out, row == 0 ? t->columns[c].title : cell(t, row - 1, c));
            prn_buffer_add(out, c + 1 < t->n_columns ? "," : "\n");
        }
}

int prn_table_write(const struct prn_table *t, enum prn_table_style style, struct prn_buffer *out,
                    struct prony_error *err)
{
    if (t && t->error == PRONY_ELIMIT)
        return prn_fail(err, PRONY_ELIMIT, "a table cell is over %zu bytes", CELL_MAX);
    if (!t || t->error || t->n_columns == 0)
        return prn_fail_memory(err);
    size_t *widths = calloc(t->n_columns, sizeof *widths);
    if (!widths)
        return prn_fail_memory(err);
    for (size_t c = 0; c < t->n_columns; c++) {
        widths[c] = prn_text_width(t->columns[c].title);
        for (size_t row = 0; row < prn_table_rows(t); row++) {
            size_t width = prn_text_width(cell(t, row, c));
            widths[c] = width > widths[c] ? width : widths[c];
        }
    }
    int code = 0;
    if (style == PRN_TABLE_STYLE_TEXT)
        code = write_text(t, widths, out);
    else if (style == PRN_TABLE_STYLE_MARKDOWN)
        write_markdown(t, widths, out);
    else
        write_csv(t, out);
    free(widths);
    return code < 0 ? prn_fail_memory(err) : prn_buffer_error(out, err);
}

int prn_table_end(struct prn_table *t, enum prn_table_style style, struct prn_buffer *out,
                  struct prony_error *err)
{
    int code = prn_table_write(t, style, out, err);
    prn_table_free(t);
    return code;
}
