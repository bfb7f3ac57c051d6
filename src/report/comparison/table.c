/* The tables of a comparison: the times, and what else differs notably. */
#include "report/comparison/view.h"

#include "base/format.h"
#include "report/prose.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Beside the time, a figure is worth a row when it differs by more than this. */
#define NOTABLE 0.05

struct tables {
    const struct prn_comparison_view *view;
    enum prn_table_style style;
    struct prn_table *table;
    size_t n_rows;
    int error;
};

/* A cell with text from the files. */
static void text_cell(struct tables *t, const struct prn_buffer *text)
{
    struct prn_buffer escaped = PRN_BUFFER_INIT((size_t)8 << 20);
    if (t->style == PRN_TABLE_STYLE_MARKDOWN)
        prn_markdown_text(&escaped, prn_buffer_text(text));
    else
        prn_buffer_add(&escaped, prn_buffer_text(text));
    prn_table_cell(t->table, "%s", prn_buffer_text(&escaped));
    if (text->error || escaped.error)
        t->error = text->error ? text->error : escaped.error;
    prn_buffer_release(&escaped);
}

static void name_cells(struct tables *t, const struct prn_comparison_row *row)
{
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)1 << 20);
    t->n_rows++;
    prn_comparison_name(row, &text);
    text_cell(t, &text);
    if (t->view->sized) {
        prn_buffer_clear(&text);
        prn_comparison_sizes(t->view, row, &text);
        text_cell(t, &text);
    }
    prn_buffer_release(&text);
}

static void comparison_table_begin(struct tables *t, const struct prn_look *look, size_t keys)
{
    t->table = prn_table_new();
    t->n_rows = 0;
    prn_table_width(t->table, look->width);
    prn_table_rest(t->table, look->verbose ? NULL : PRN_LOOK_MORE, keys + t->view->sized);
    prn_table_column(t->table, "Backend", PRN_TABLE_ALIGN_LEFT);
    prn_table_shrink(t->table);
    if (t->view->sized)
        prn_table_column(t->table, "Sizes", PRN_TABLE_ALIGN_LEFT);
}

static int end(struct tables *t, struct prn_buffer *out, struct prony_error *err)
{
    int code = t->error ? prn_fail(err, t->error, "%s", prony_error_text(t->error))
                        : prn_table_write(t->table, t->style, out, err);
    prn_table_free(t->table);
    return code;
}

static void ratio_columns(struct tables *t)
{
    prn_table_columns(t->table, ">Before|>After|>Ratio|95 % interval");
    prn_table_omit(t->table);
    prn_table_column(t->table, "p (Holm)", PRN_TABLE_ALIGN_RIGHT);
    prn_table_omit(t->table);
}

static void ratio_cells(struct tables *t, const struct prn_interval *ratio, double p_holm)
{
    char low[PRN_FORMAT_SIZE];
    char high[PRN_FORMAT_SIZE];
    bool known = isfinite(ratio->estimate);
    prn_table_cell(t->table, "%s", known ? prn_format_ratio(low, ratio->estimate) : "-");
    if (known && isfinite(ratio->high))
        prn_table_cell(t->table, "%s to %s", prn_format_ratio(low, ratio->low),
                       prn_format_ratio(high, ratio->high));
    else
        prn_table_cell(t->table, "-");
    prn_table_cell(t->table, "%s", isnan(p_holm) ? "-" : prn_format_probability(low, p_holm));
}

/* ---- Times ---- */

static void time_cell(struct tables *t, const struct prn_result *r)
{
    char text[PRN_FORMAT_SIZE];
    const char *mark = r && r->flags ? "*" : "";
    if (!r)
        prn_table_cell(t->table, "-");
    else if (r->error_code != 0)
        prn_table_cell(t->table, "failed%s", mark);
    else if (!prn_result_measured(r))
        prn_table_cell(t->table, "none%s", mark);
    else
        prn_table_cell(t->table, "%s%s", prn_format_duration(text, r->stats.median_ns), mark);
}

static int write_times(struct tables *t, const struct prn_look *look, struct prn_buffer *out,
                       struct prony_error *err)
{
    const struct prn_comparison_file *file = t->view->file;
    comparison_table_begin(t, look, 1);
    ratio_columns(t);
    prn_table_column(t->table, "After is", PRN_TABLE_ALIGN_LEFT);
    for (size_t i = 0; i < file->n_rows; i++) {
        const struct prn_comparison_row *row = &file->rows[i];
        name_cells(t, row);
        time_cell(t, row->before);
        time_cell(t, row->after);
        ratio_cells(t, &row->time.ratio.ratio, row->time.p_holm);
        prn_table_cell(t->table, "%s", prn_change_names[row->change]);
    }
    return end(t, out, err);
}

/* ---- What else differs ---- */

typedef const char *formatter(char buffer[PRN_FORMAT_SIZE], double value);

static bool is_notable(double before, double after)
{
    return before > 0 && after > 0 && fabs(log(after / before)) > log1p(NOTABLE);
}

static void other_cells(struct tables *t, const struct prn_comparison_row *row, const char *title,
                        formatter *format, double before, double after)
{
    char text[PRN_FORMAT_SIZE];
    name_cells(t, row);
    prn_table_cell(t->table, "%s", title);
    prn_table_cell(t->table, "%s", format(text, before));
    prn_table_cell(t->table, "%s", format(text, after));
}

static void verdict_cell(struct tables *t, bool differs, double ratio)
{
    prn_table_cell(t->table, "%s", !differs ? "unsure" : ratio > 1 ? "higher" : "lower");
}

static void launch_row(struct tables *t, const struct prn_comparison_row *row, const char *title,
                       formatter *format, const struct prn_compared *figure)
{
    const struct prn_unpaired *u = &figure->ratio;
    if (!is_notable(u->b, u->a))
        return;
    other_cells(t, row, title, format, u->b, u->a);
    ratio_cells(t, &u->ratio, figure->p_holm);
    verdict_cell(t, figure->differs, u->ratio.estimate);
}

/* What follows from the time is as sure as the time. */
static void derived_row(struct tables *t, const struct prn_comparison_row *row, const char *title,
                        formatter *format, struct prn_comparison_pair pair)
{
    static const struct prn_interval none = {NAN, NAN, NAN};
    if (!is_notable(pair.before, pair.after))
        return;
    struct prn_interval ratio = none;
    ratio.estimate = pair.after / pair.before;
    other_cells(t, row, title, format, pair.before, pair.after);
    ratio_cells(t, &ratio, NAN);
    verdict_cell(t, row->time.differs, ratio.estimate);
}

static const char *format_rate(char buffer[PRN_FORMAT_SIZE], double rate)
{
    prn_format_count(buffer, rate);
    size_t len = strlen(buffer);
    snprintf(buffer + len, PRN_FORMAT_SIZE - len, "/s");
    return buffer;
}

static int write_others(struct tables *t, const struct prn_look *look, struct prn_buffer *out,
                        struct prony_error *err)
{
    const struct prn_comparison_file *file = t->view->file;
    comparison_table_begin(t, look, 2);
    prn_table_column(t->table, "Figure", PRN_TABLE_ALIGN_LEFT);
    ratio_columns(t);
    prn_table_column(t->table, "After is", PRN_TABLE_ALIGN_LEFT);
    for (size_t i = 0; i < file->n_rows; i++) {
        const struct prn_comparison_row *row = &file->rows[i];
#define PRN_X(name, field, title)                                                             \
    launch_row(t, row, title,                                                                 \
               PRN_FIGURE_##name == PRN_FIGURE_PEAK ? prn_format_bytes : prn_format_duration, \
               &row->figures[PRN_FIGURE_##name]);
        PRN_FIGURE_MAP(PRN_X)
#undef PRN_X
        derived_row(t, row, "Throughput", format_rate, prn_comparison_rates(t->view, row));
        derived_row(t, row, "Cost ($/MReq)", prn_format_dollars,
                    prn_comparison_costs(t->view, row));
    }
    if (t->n_rows == 0) {
        prn_table_free(t->table);
        return 0;
    }
    prn_buffer_add_char(out, '\n');
    return end(t, out, err);
}

int prn_comparison_tables(const struct prn_comparison_view *view, enum prn_table_style style,
                          const struct prn_look *look, struct prn_buffer *out,
                          struct prony_error *err)
{
    struct tables t = {.view = view, .style = style};
    int code = write_times(&t, look, out, err);
    return code < 0 ? code : write_others(&t, look, out, err);
}
