/*
 * Tables for people and for paste: one table, written as aligned text, Markdown or CSV. Cells are
 * copied. Widths count characters, not bytes (UTF-8). As text, columns stand two spaces apart under
 * a rule of '=' and over a rule of '-', both as wide as the table; a bare table has no rules.
 */
#ifndef PRN_BASE_TABLE_H
#define PRN_BASE_TABLE_H

#include "base/buffer.h"

enum prn_table_align {
    PRN_TABLE_ALIGN_LEFT,
    PRN_TABLE_ALIGN_RIGHT,
};

enum prn_table_style {
    PRN_TABLE_STYLE_TEXT,
    PRN_TABLE_STYLE_MARKDOWN,
    PRN_TABLE_STYLE_CSV,
};

struct prn_table;

struct prn_table *prn_table_new(void);
void prn_table_free(struct prn_table *t);

/* Columns first, then cells row by row: a full row begins the next. A failure sticks and is
 * reported by prn_table_write; so does `t` being NULL. */
void prn_table_column(struct prn_table *t, const char *title, enum prn_table_align align);
/* Several, "Host|~Note|>Time": a '>' aligns right, and what a '~' begins may be shortened. */
void prn_table_columns(struct prn_table *t, const char *titles);
void prn_table_cell(struct prn_table *t, const char *format, ...) PRN_PRINTF(2, 3);

/* Text of unknown origin, made one safe line; empty for NULL. */
void prn_table_cell_text(struct prn_table *t, const char *text);

/* A number with every digit; empty when it isn't known. */
void prn_table_cell_exact(struct prn_table *t, double value);

/* As text, a table of at most `width` characters; 0, as at first: no limit. The column added last
 * may be left out, or its cells shortened in the middle, to make the others fit; if it is the last
 * of all, its cells may go on below themselves. Where that isn't enough, further columns are left
 * out, from the right, and in the end the first one is shortened. */
void prn_table_width(struct prn_table *t, size_t width);
void prn_table_bare(struct prn_table *t);
void prn_table_omit(struct prn_table *t);
/* The same; columns of the highest rank go first, and those of prn_table_omit() have rank 0. */
void prn_table_omit_rank(struct prn_table *t, int rank);
void prn_table_shrink(struct prn_table *t);
void prn_table_wrap(struct prn_table *t);

/* Below the table, a line names the columns that were left out and says what shows them: "--verbose
 * or a wider terminal". Or, with `what_shows` NULL, they follow in further tables, each beginning
 * with the first `keys` columns. Without a call they are left out silently. */
void prn_table_rest(struct prn_table *t, const char *what_shows, size_t keys);

size_t prn_table_rows(const struct prn_table *t);

/* Appends the table to `out`. */
PRONY_MUST_CHECK int prn_table_write(const struct prn_table *t, enum prn_table_style style,
                                     struct prn_buffer *out, struct prony_error *err);
/* The same, and frees it. */
PRONY_MUST_CHECK int prn_table_end(struct prn_table *t, enum prn_table_style style,
                                   struct prn_buffer *out, struct prony_error *err);

/* Appends one CSV field, quoted where RFC 4180 needs it. */
void prn_csv_field(struct prn_buffer *out, const char *text);

#endif
