/*
 * A comparison as CSV: one row per row of it, in full precision, empty where something isn't known.
 * The header and the rows come from the same list of fields: each call names a column and gives its
 * value, and the mode decides which of the two is used.
 */
#include "report/comparison_view.h"

#include "base/text.h"

#include <math.h>

struct csv {
    struct prn_table *table;
    bool header;
    int error;
};

static void text(struct csv *csv, const char *name, const char *value)
{
    if (csv->header) {
        prn_table_column(csv->table, name, PRN_TABLE_ALIGN_LEFT);
        return;
    }
    struct prn_buffer clean = PRN_BUFFER_INIT((size_t)1 << 20);
    prn_text_clean(&clean, value ? value : "");
    prn_table_cell(csv->table, "%s", prn_buffer_text(&clean));
    if (clean.error)
        csv->error = clean.error;
    prn_buffer_release(&clean);
}

static void number(struct csv *csv, const char *name, double value)
{
    if (csv->header)
        text(csv, name, NULL);
    else
        prn_table_cell_exact(csv->table, value);
}

static void yes_or_no(struct csv *csv, const char *name, bool value)
{
    text(csv, name, value ? "yes" : "no");
}

/* A field that is composed. */
static void composed(struct csv *csv, const char *name, struct prn_buffer *value)
{
    text(csv, name, prn_buffer_text(value));
    if (value->error)
        csv->error = value->error;
    prn_buffer_clear(value);
}

static void write_names(struct csv *csv, const struct prn_comparison_view *view,
                        const struct prn_comparison_row *row)
{
    struct prn_buffer value = PRN_BUFFER_INIT((size_t)1 << 20);
    text(csv, "before_file", view->comparison->before.name);
    text(csv, "after_file", view->file->after.name);
    if (!csv->header)
        prn_comparison_name(row, &value);
    composed(csv, "backend", &value);
    if (!csv->header)
        prn_comparison_sizes(view, row, &value);
    composed(csv, "sizes", &value);
    prn_buffer_release(&value);
}

static void write_flags(struct csv *csv, const struct prn_comparison_row *row)
{
    struct prn_buffer value = PRN_BUFFER_INIT(256);
    if (row->before)
        prn_flags_text(&value, row->before->flags);
    composed(csv, "before_flags", &value);
    if (row->after)
        prn_flags_text(&value, row->after->flags);
    composed(csv, "after_flags", &value);
    prn_buffer_release(&value);
}

static void write_time(struct csv *csv, const struct prn_comparison_file *file,
                       const struct prn_comparison_row *row)
{
    const struct prn_unpaired *time = &row->time.ratio;
    number(csv, "before_median_ns", time->b);
    number(csv, "after_median_ns", time->a);
    number(csv, "ratio", time->ratio.estimate);
    number(csv, "ratio_low", time->ratio.low);
    number(csv, "ratio_high", time->ratio.high);
    number(csv, "p", time->p);
    number(csv, "p_holm", row->time.p_holm);
    text(csv, "unit", prn_comparison_unit(row));
    number(csv, "must_clear", file->must_clear);
    yes_or_no(csv, "machines_differ", file->machines_differ);
    number(csv, "canary_ratio", file->canary_ratio);
    number(csv, "before_launches", row->before ? (double)row->before->n_launches : NAN);
    number(csv, "after_launches", row->after ? (double)row->after->n_launches : NAN);
    number(csv, "before_samples", row->before ? (double)row->before->n_samples : NAN);
    number(csv, "after_samples", row->after ? (double)row->after->n_samples : NAN);
}

static void write_figures(struct csv *csv, const struct prn_comparison_row *row)
{
#define PRN_X(name, field, title)                                                        \
    number(csv, "before_" #field, row->figures[PRN_FIGURE_##name].ratio.b);              \
    number(csv, "after_" #field, row->figures[PRN_FIGURE_##name].ratio.a);               \
    number(csv, #field "_ratio", row->figures[PRN_FIGURE_##name].ratio.ratio.estimate);  \
    number(csv, #field "_ratio_low", row->figures[PRN_FIGURE_##name].ratio.ratio.low);   \
    number(csv, #field "_ratio_high", row->figures[PRN_FIGURE_##name].ratio.ratio.high); \
    number(csv, #field "_p_holm", row->figures[PRN_FIGURE_##name].p_holm);               \
    yes_or_no(csv, #field "_differs", row->figures[PRN_FIGURE_##name].differs);
    PRN_FIGURE_MAP(PRN_X)
#undef PRN_X
}

static void write_rates(struct csv *csv, const struct prn_comparison_view *view,
                        const struct prn_comparison_row *row)
{
    struct prn_comparison_pair rates = {NAN, NAN};
    struct prn_comparison_pair costs = {NAN, NAN};
    if (!csv->header) {
        rates = prn_comparison_rates(view, row);
        costs = prn_comparison_costs(view, row);
    }
    number(csv, "before_inferences_per_s", rates.before);
    number(csv, "after_inferences_per_s", rates.after);
    number(csv, "before_usd_per_million", costs.before);
    number(csv, "after_usd_per_million", costs.after);
}

static void write_row(struct csv *csv, const struct prn_comparison_view *view,
                      const struct prn_comparison_row *row)
{
    const struct prn_result *before = row->before;
    const struct prn_result *after = row->after;
    write_names(csv, view, row);
    text(csv, "verdict", prn_change_names[row->change]);
    yes_or_no(csv, "regression", row->regression);
    write_time(csv, view->file, row);
    write_figures(csv, row);
    write_rates(csv, view, row);
    text(csv, "before_runtime_version", before ? before->runtime_version : NULL);
    text(csv, "after_runtime_version", after ? after->runtime_version : NULL);
    write_flags(csv, row);
    text(csv, "before_error", before && before->error_code ? before->error : NULL);
    text(csv, "after_error", after && after->error_code ? after->error : NULL);
}

static void write_files(struct csv *csv, const struct prn_comparison *c)
{
    static const struct prn_comparison_row no_row;
    for (size_t f = 0; f < c->n_files; f++) {
        struct prn_comparison_view view = prn_comparison_view(c, f);
        csv->header = f == 0;
        if (csv->header)
            write_row(csv, &view, &no_row);
        csv->header = false;
        for (size_t i = 0; i < view.file->n_rows; i++)
            write_row(csv, &view, &view.file->rows[i]);
    }
}

int prn_comparison_csv(const struct prn_comparison *comparison, struct prn_buffer *out,
                       struct prony_error *err)
{
    struct csv csv = {.table = prn_table_new()};
    write_files(&csv, comparison);
    int code = csv.error ? prn_fail(err, csv.error, "%s", prony_error_text(csv.error))
                         : prn_table_write(csv.table, PRN_TABLE_STYLE_CSV, out, err);
    prn_table_free(csv.table);
    return code;
}
