/* A comparison as CSV: one row per row of it, in full precision, empty where something isn't known.
 */
#include "report/comparison/view.h"

#include "report/profile/parts.h"

#define FIGURE_LIST(X, field)           \
    X(NUMBER, before_##field, NULL)     \
    X(NUMBER, after_##field, NULL)      \
    X(NUMBER, field##_ratio, NULL)      \
    X(NUMBER, field##_ratio_low, NULL)  \
    X(NUMBER, field##_ratio_high, NULL) \
    X(NUMBER, field##_p_holm, NULL)     \
    X(BOOL, field##_differs, NULL)

#define LINE_LIST(X)                             \
    X(TEXT, before_file, NULL)                   \
    X(TEXT, after_file, NULL)                    \
    X(TEXT, backend, NULL)                       \
    X(TEXT, sizes, NULL)                         \
    X(TEXT, verdict, NULL)                       \
    X(BOOL, regression, NULL)                    \
    X(NUMBER, before_median_ns, NULL)            \
    X(NUMBER, after_median_ns, NULL)             \
    X(NUMBER, ratio, NULL)                       \
    X(NUMBER, ratio_low, NULL)                   \
    X(NUMBER, ratio_high, NULL)                  \
    X(NUMBER, p, NULL)                           \
    X(NUMBER, p_holm, NULL)                      \
    X(TEXT, unit, NULL)                          \
    X(NUMBER, must_clear, NULL)                  \
    X(BOOL, machines_differ, NULL)               \
    X(NUMBER, canary_ratio, NULL)                \
    X(INTEGER, before_launches, NULL)            \
    X(INTEGER, after_launches, NULL)             \
    X(INTEGER, before_samples, NULL)             \
    X(INTEGER, after_samples, NULL)              \
    FIGURE_LIST(X, load_ns)                      \
    FIGURE_LIST(X, first_run_ns)                 \
    FIGURE_LIST(X, peak_bytes)                   \
    X(NUMBER, before_inferences_per_s, NULL)     \
    X(NUMBER, after_inferences_per_s, NULL)      \
    X(NUMBER, before_usd_per_million, NULL)      \
    X(NUMBER, after_usd_per_million, NULL)       \
    X(TEXT, before_runtime_version, NULL)        \
    X(TEXT, after_runtime_version, NULL)         \
    X(FLAGS, before_flags, prn_flag_names, NULL) \
    X(FLAGS, after_flags, prn_flag_names, NULL)  \
    X(TEXT, before_error, NULL)                  \
    X(TEXT, after_error, NULL)

struct line {
    LINE_LIST(PRN_DECLARE)
};

#define PRN_OF struct line
static const struct prn_member line_members[] = {LINE_LIST(PRN_DESCRIBE)};
static const struct prn_schema line_schema = PRN_SCHEMA(NULL, line_members, NULL);
#undef PRN_OF

static void fill_results(struct line *line, const struct prn_result *before,
                         const struct prn_result *after)
{
    line->before_launches = before ? (int64_t)before->n_launches : -1;
    line->after_launches = after ? (int64_t)after->n_launches : -1;
    line->before_samples = before ? (int64_t)before->n_samples : -1;
    line->after_samples = after ? (int64_t)after->n_samples : -1;
    line->before_runtime_version = before ? before->runtime_version : NULL;
    line->after_runtime_version = after ? after->runtime_version : NULL;
    line->before_flags = before ? before->flags : 0;
    line->after_flags = after ? after->flags : 0;
    line->before_error = before && before->error_code ? before->error : NULL;
    line->after_error = after && after->error_code ? after->error : NULL;
}

static void fill_figures(struct line *line, const struct prn_comparison_row *row)
{
    const struct prn_unpaired *time = &row->time.ratio;
    line->before_median_ns = time->b;
    line->after_median_ns = time->a;
    line->ratio = time->ratio.estimate;
    line->ratio_low = time->ratio.low;
    line->ratio_high = time->ratio.high;
    line->p = time->p;
    line->p_holm = row->time.p_holm;
#define PRN_X(name, field, title)                                                \
    line->before_##field = row->figures[PRN_FIGURE_##name].ratio.b;              \
    line->after_##field = row->figures[PRN_FIGURE_##name].ratio.a;               \
    line->field##_ratio = row->figures[PRN_FIGURE_##name].ratio.ratio.estimate;  \
    line->field##_ratio_low = row->figures[PRN_FIGURE_##name].ratio.ratio.low;   \
    line->field##_ratio_high = row->figures[PRN_FIGURE_##name].ratio.ratio.high; \
    line->field##_p_holm = row->figures[PRN_FIGURE_##name].p_holm;               \
    line->field##_differs = row->figures[PRN_FIGURE_##name].differs;
    PRN_FIGURE_MAP(PRN_X)
#undef PRN_X
}

/* What texts couldn't be made for is returned. */
static int add_row(struct prn_table *t, const struct prn_comparison_view *view,
                   const struct prn_comparison_row *row, struct prn_buffer texts[2])
{
    struct prn_comparison_pair rates = prn_comparison_rates(view, row);
    struct prn_comparison_pair costs = prn_comparison_costs(view, row);
    prn_buffer_clear(&texts[0]);
    prn_buffer_clear(&texts[1]);
    prn_comparison_name(row, &texts[0]);
    prn_comparison_sizes(view, row, &texts[1]);
    struct line line = {.before_file = view->comparison->before.name,
                        .after_file = view->file->after.name,
                        .backend = prn_buffer_text(&texts[0]),
                        .sizes = prn_buffer_text(&texts[1]),
                        .verdict = prn_change_names[row->change],
                        .regression = row->regression,
                        .unit = prn_comparison_unit(row),
                        .must_clear = view->file->must_clear,
                        .machines_differ = view->file->machines_differ,
                        .canary_ratio = view->file->canary_ratio,
                        .before_inferences_per_s = rates.before,
                        .after_inferences_per_s = rates.after,
                        .before_usd_per_million = costs.before,
                        .after_usd_per_million = costs.after};
    fill_figures(&line, row);
    fill_results(&line, row->before, row->after);
    prn_schema_cells(t, &line_schema, &line);
    return texts[0].error ? texts[0].error : texts[1].error;
}

int prn_comparison_csv(const struct prn_comparison *comparison, struct prn_buffer *out,
                       struct prony_error *err)
{
    struct prn_buffer texts[2] = {PRN_BUFFER_INIT((size_t)1 << 20),
                                  PRN_BUFFER_INIT((size_t)1 << 20)};
    int error = 0;
    struct prn_table *t = prn_table_new();
    prn_schema_columns(t, &line_schema);
    for (size_t f = 0; f < comparison->n_files; f++) {
        struct prn_comparison_view view = prn_comparison_view(comparison, f);
        for (size_t i = 0; i < view.file->n_rows && error == 0; i++)
            error = add_row(t, &view, &view.file->rows[i], texts);
    }
    int code = error ? prn_fail(err, error, "%s", prony_error_text(error))
                     : prn_table_write(t, PRN_TABLE_STYLE_CSV, out, err);
    prn_table_free(t);
    prn_buffer_release(&texts[0]);
    prn_buffer_release(&texts[1]);
    return code;
}
