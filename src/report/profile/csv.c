/* Profiles as CSV: one row per result, in full precision. */
#include "report/profile/view.h"

#include "report/profile/parts.h"

#include <math.h>

struct line {
    const char *model;
    int64_t batch;
    const struct prn_result *result;
    const struct prn_sample_stats *stats; /* NULL: no samples */
    double inferences_per_s, gflop_per_s, usd_per_million;
    const struct prn_launch_figures *launches;
};

#define PRN_OF struct prn_result
static const struct prn_member backend_members[] = {
    PRN_TEXT(name, NULL, .key = "backend"),
    PRN_TEXT(hardware, NULL),
    PRN_TEXT(software, NULL),
    PRN_TEXT(processor, NULL),
    PRN_TEXT(runtime_version, NULL),
    PRN_INTEGER(n_samples, NULL, .key = "samples"),
    PRN_INTEGER(n_launches, NULL, .key = "launches"),
};
static const struct prn_schema backend_schema = PRN_SCHEMA(NULL, backend_members, NULL);
static const struct prn_member verdict_members[] = {
    PRN_OBJECT(ratio, &prn_interval_schema, NULL),
    PRN_CHOICE(verdict, prn_verdict_names, NULL),
    PRN_NUMBER(usd_per_hour, NULL),
};
static const struct prn_schema verdict_schema = PRN_SCHEMA(NULL, verdict_members, NULL);
static const struct prn_member trust_members[] = {
    PRN_INTEGER(redone_blocks, NULL),
    PRN_FLAGS(flags, prn_flag_names, NULL),
    PRN_CHOICE(error_code, prn_error_names, NULL),
    PRN_TEXT(error, NULL),
    PRN_TEXT(spec, NULL),
};
static const struct prn_schema trust_schema = PRN_SCHEMA(NULL, trust_members, NULL);
#undef PRN_OF

#define PRN_OF struct prn_launch_figures
static const struct prn_member launch_members[] = {
    PRN_INTEGER(load_ns, NULL),
    PRN_INTEGER(first_run_ns, NULL),
    PRN_INTEGER(baseline_bytes, NULL),
    PRN_INTEGER(peak_bytes, NULL),
};
static const struct prn_schema launch_schema = PRN_SCHEMA(NULL, launch_members, NULL);
#undef PRN_OF

#define PRN_OF struct line
static const struct prn_member line_members[] = {
    PRN_TEXT(model, NULL),
    PRN_INTEGER(batch, NULL),
    PRN_INLINE_POINTER(result, &backend_schema),
    PRN_INLINE_POINTER(stats, &prn_stats_schema),
    PRN_NUMBER(inferences_per_s, NULL),
    PRN_NUMBER(gflop_per_s, NULL),
    PRN_INLINE_POINTER(launches, &launch_schema),
    PRN_INLINE_POINTER(result, &verdict_schema),
    PRN_NUMBER(usd_per_million, NULL),
    PRN_INLINE_POINTER(result, &trust_schema),
};
static const struct prn_schema line_schema = PRN_SCHEMA(NULL, line_members, NULL);
#undef PRN_OF

static void add_line(struct prn_table *t, const struct prn_view *view, size_t index)
{
    const struct prn_profile *p = view->profile;
    const struct prn_result *r = &p->results[index];
    bool measured = r->n_samples > 0;
    struct line line = {.model = prn_result_model(p, r)->path,
                        .batch = prn_result_point(p, r)->batch,
                        .result = r,
                        .stats = measured ? &r->stats : NULL,
                        .inferences_per_s = measured ? prn_result_rate(p, r) : NAN,
                        .gflop_per_s = measured ? prn_result_gflops(p, r) : NAN,
                        .usd_per_million = measured ? prn_result_cost(p, r) : NAN,
                        .launches = &view->launches[index]};
    prn_schema_cells(t, &line_schema, &line);
}

/* Only a sweep has these, and how many depends on it. */
static void add_sweep_columns(struct prn_table *t, const struct prn_sweep_view *sweep)
{
    struct prn_buffer name = PRN_BUFFER_INIT((size_t)1 << 16);
    prn_table_column(t, "point", PRN_TABLE_ALIGN_LEFT);
    prn_table_column(t, "per_item_ns", PRN_TABLE_ALIGN_LEFT);
    for (size_t i = 0; i < sweep->n_axes; i++) {
        const char *option = sweep->axes[i].option;
        prn_buffer_clear(&name);
        prn_buffer_printf(&name, "%s%s", option ? "scaling_" : "batch_gain", option ? option : "");
        prn_table_column(t, prn_buffer_text(&name), PRN_TABLE_ALIGN_LEFT);
    }
    prn_table_column(t, "best", PRN_TABLE_ALIGN_LEFT);
    prn_buffer_release(&name);
}

static void add_sweep(struct prn_table *t, const struct prn_view *view, size_t index)
{
    const struct prn_result *r = &view->profile->results[index];
    struct prn_buffer marks = PRN_BUFFER_INIT((size_t)1 << 16);
    prn_table_cell_text(t, prn_result_point(view->profile, r)->label);
    prn_table_cell_exact(t, prn_result_measured(r) ? prn_result_item_ns(view->profile, r) : NAN);
    for (size_t i = 0; i < view->sweep.n_axes; i++)
        prn_table_cell_exact(t, view->sweep.axes[i].scaling[index]);
    prn_sweep_marks(&view->sweep, index, " ", &marks);
    prn_table_cell_text(t, prn_buffer_text(&marks));
    prn_buffer_release(&marks);
}

int prn_view_csv(const struct prn_view *view, struct prn_buffer *out, struct prony_error *err)
{
    struct prn_table *t = prn_table_new();
    prn_schema_columns(t, &line_schema);
    if (view->sweep.active)
        add_sweep_columns(t, &view->sweep);
    for (size_t i = 0; i < view->profile->n_results; i++) {
        add_line(t, view, i);
        if (view->sweep.active)
            add_sweep(t, view, i);
    }
    return prn_table_end(t, PRN_TABLE_STYLE_CSV, out, err);
}
