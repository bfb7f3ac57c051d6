/* The tables of a trace: kernels by CPU and GPU, the mapping, the ledger. */
#include "report/trace/view.h"

#include "base/format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Shares and times of one row, with what came before it. */
struct standing {
    double pct, cumulative_pct;
    int64_t cumulative_ns;
};

static struct prn_table *new_table(const struct prn_trace_report *r)
{
    struct prn_table *t = prn_table_new();
    prn_table_width(t, r->options.width);
    prn_table_rest(t, PRN_TRACE_MORE, 1);
    return t;
}

static void column(struct prn_table *t, bool exact, const char *text, const char *csv)
{
    prn_table_column(t, exact ? csv : text, PRN_TABLE_ALIGN_RIGHT);
}

/* A column of names, which a narrow terminal shortens. */
static void name_column(struct prn_table *t, const char *title)
{
    prn_table_column(t, title, PRN_TABLE_ALIGN_LEFT);
    prn_table_shrink(t);
}

/* One that a narrow terminal can do without. */
static void spare_column(struct prn_table *t, bool exact, const char *text, const char *csv)
{
    column(t, exact, text, csv);
    prn_table_omit(t);
}

static void duration_cell(struct prn_table *t, bool exact, double ns)
{
    char text[PRN_FORMAT_SIZE];
    if (exact)
        prn_table_cell_exact(t, ns / 1e3);
    else
        prn_table_cell(t, "%s", isfinite(ns) ? prn_format_duration(text, ns) : "-");
}

static void percent_cell(struct prn_table *t, bool exact, double pct)
{
    if (exact)
        prn_table_cell_exact(t, pct);
    else if (isfinite(pct))
        prn_table_cell(t, "%.1f %%", pct);
    else
        prn_table_cell(t, "-");
}

static void count_cell(struct prn_table *t, bool exact, uint64_t count)
{
    char text[PRN_FORMAT_SIZE];
    if (exact)
        prn_table_cell(t, "%" PRIu64, count);
    else
        prn_table_cell(t, "%s", prn_format_integer(text, count));
}

/* ---- Statistics over runs ---- */

static bool p90_known(const struct prn_trace *trace)
{
    return trace->n_selected >= prn_stats_percentile_need(0.9);
}

static void statistics_columns(const struct prn_trace *trace, struct prn_table *t, bool exact)
{
    spare_column(t, exact, "Mean/run", "mean_us");
    if (exact) {
        column(t, exact, NULL, "mean_low_us");
        column(t, exact, NULL, "mean_high_us");
    } else {
        spare_column(t, exact, "±", NULL);
    }
    spare_column(t, exact, "p50", "p50_us");
    if (exact || p90_known(trace))
        spare_column(t, exact, "p90", "p90_us");
    spare_column(t, exact, "Max", "max_us");
    spare_column(t, exact, "First run", "first_us");
}

/* Half of a mean's interval: "?" with too few runs for one. How much more than all of the mean says
 * nothing. */
static void half_width_cell(struct prn_table *t, struct prn_interval mean)
{
    double half = mean.high - mean.estimate;
    if (!(mean.estimate > 0))
        prn_table_cell(t, "-");
    else if (!isfinite(half))
        prn_table_cell(t, "?");
    else if (half > mean.estimate)
        prn_table_cell(t, "unknown");
    else
        prn_table_cell(t, "%.1f %%", 100 * half / mean.estimate);
}

static void statistics_cells(const struct prn_trace *trace, struct prn_table *t, bool exact,
                             const struct prn_sketch *s, double first_ns)
{
    struct prn_interval mean = prn_sketch_mean_interval(s);
    duration_cell(t, exact, mean.estimate);
    if (exact) {
        duration_cell(t, exact, mean.low);
        duration_cell(t, exact, mean.high);
    } else {
        half_width_cell(t, mean);
    }
    duration_cell(t, exact, prn_sketch_quantile(s, 0.5));
    if (p90_known(trace))
        duration_cell(t, exact, prn_sketch_quantile(s, 0.9));
    else if (exact)
        duration_cell(t, exact, NAN);
    duration_cell(t, exact, s->max);
    duration_cell(t, exact, first_ns);
}

/* ---- Kernels ---- */

void prn_trace_key_columns(struct prn_table *t, unsigned by, bool exact, const char *op_title)
{
    if (by & PRN_TRACE_BY_NODE)
        name_column(t, exact ? "node" : "Node");
    if (by & (PRN_TRACE_BY_OP | PRN_TRACE_BY_NODE))
        name_column(t, exact ? op_title : "Operator");
    if (by & PRN_TRACE_BY_PROVIDER)
        prn_table_column(t, exact ? "provider" : "Provider", PRN_TABLE_ALIGN_LEFT);
    if (by & PRN_TRACE_BY_SHAPE)
        name_column(t, exact ? "input_type_shape" : "Input shapes");
}

static void symbol_cell(struct prn_table *t, const struct prn_symbol *symbol)
{
    prn_table_cell(t, "%s", symbol ? symbol->text : "");
}

void prn_trace_key_cells(struct prn_table *t, unsigned by, const struct prn_trace_key *key)
{
    if (by & PRN_TRACE_BY_NODE)
        prn_table_cell(t, "%.*s", (int)prn_trace_node_length(key->node), key->node->text);
    if (by & (PRN_TRACE_BY_OP | PRN_TRACE_BY_NODE))
        symbol_cell(t, key->op);
    if (by & PRN_TRACE_BY_PROVIDER)
        symbol_cell(t, key->provider);
    if (by & PRN_TRACE_BY_SHAPE)
        symbol_cell(t, key->shape);
}

void prn_trace_kernel_columns(struct prn_table *t, const struct prn_trace_report_options *options,
                              bool exact)
{
    name_column(t, exact ? "name" : "Kernel");
    if (options->kernel_dimensions)
        prn_table_column(t, exact ? "dimensions" : "Dimensions", PRN_TABLE_ALIGN_LEFT);
    if (options->kernel_shapes)
        name_column(t, exact ? "input_type_shape" : "Input shapes");
}

void prn_trace_kernel_cells(struct prn_table *t, const struct prn_trace_report_options *options,
                            const char *name, const struct prn_trace_key *key)
{
    prn_table_cell(t, "%s", name);
    if (options->kernel_dimensions)
        symbol_cell(t, key->dimensions);
    if (options->kernel_shapes)
        symbol_cell(t, key->shape);
}

static void kernel_columns(const struct prn_trace *trace, struct prn_table *t, bool exact)
{
    column(t, exact, "Time", "duration");
    column(t, exact, "Share", "pct");
    column(t, exact, "Count", "count");
    spare_column(t, exact, "Cumul.", "cumulative_pct");
    if (exact)
        column(t, exact, NULL, "cumulative_dur");
    statistics_columns(trace, t, exact);
}

static void kernel_cells(const struct prn_trace *trace, struct prn_table *t, bool exact,
                         const struct prn_trace_group *group, const struct standing *standing)
{
    duration_cell(t, exact, (double)group->total.ns);
    percent_cell(t, exact, standing->pct);
    count_cell(t, exact, group->total.count);
    percent_cell(t, exact, standing->cumulative_pct);
    if (exact)
        duration_cell(t, exact, (double)standing->cumulative_ns);
    statistics_cells(trace, t, exact, &group->per_run,
                     group->first.count > 0 ? (double)group->first.ns : NAN);
}

int prn_trace_rows_write(const struct prn_trace_report *r, const struct prn_trace_rows *rows,
                         enum prn_table_style style, struct prn_buffer *out,
                         struct prony_error *err)
{
    bool exact = style == PRN_TABLE_STYLE_CSV;
    struct prn_table *t = new_table(r);
    struct standing standing = {0};
    bool gpu = rows == &r->gpu;
    double all = (double)rows->table->total.ns;
    if (gpu)
        prn_trace_kernel_columns(t, &r->options, exact);
    else
        prn_trace_key_columns(t, rows->table->by, exact, "name");
    kernel_columns(r->trace, t, exact);
    bool memory = exact && !gpu && r->trace->memory.n > 0;
    if (memory)
        prn_schema_columns(t, &prn_trace_use_schema);
    for (size_t i = 0; i < rows->shown; i++) {
        const struct prn_trace_group *group = rows->groups[i];
        standing.cumulative_ns += group->total.ns;
        standing.pct = all > 0 ? 100 * ((double)group->total.ns / all) : NAN;
        standing.cumulative_pct = all > 0 ? 100 * ((double)standing.cumulative_ns / all) : NAN;
        if (gpu)
            prn_trace_kernel_cells(t, &r->options, rows->names[i], &group->key);
        else
            prn_trace_key_cells(t, rows->table->by, &group->key);
        kernel_cells(r->trace, t, exact, group, &standing);
        if (memory)
            prn_schema_cells(t, &prn_trace_use_schema,
                             group->memory.events > 0 ? &group->memory : NULL);
    }
    return prn_table_end(t, style, out, err);
}

/* ---- Mapping ---- */

static void mapping_columns(struct prn_table *t, bool exact)
{
    name_column(t, exact ? "op_name" : "Operator");
    name_column(t, exact ? "input_type_shape" : "Input shapes");
    spare_column(t, exact, "Ops/run", "op_count");
    prn_table_column(t, exact ? "kernel_dimensions" : "Dimensions", PRN_TABLE_ALIGN_LEFT);
    spare_column(t, exact, "Kernels/run", "kernel_count");
    spare_column(t, exact, "Kernel mean", "kernel_avg_dur (us)");
    column(t, exact, "Kernel/run", "kernel_total_dur (us)");
    column(t, exact, "Op/run", "op_dur (us)");
    spare_column(t, exact, "Op mean", "op_avg_dur (us)");
    spare_column(t, exact, "Of op", "kernel_pct (%)");
    spare_column(t, exact, "Op's share", "op_pct (%)");
    name_column(t, exact ? "kernel_name" : "Kernel");
}

static void number_cell(struct prn_table *t, bool exact, double value)
{
    char text[PRN_FORMAT_SIZE];
    if (exact)
        prn_table_cell_exact(t, value);
    else
        prn_table_cell(t, "%s", prn_format_significant(text, value, 3));
}

/* A time in µs, which isn't made ns and back: that would change its last digit. */
static void us_cell(struct prn_table *t, bool exact, double us)
{
    if (exact)
        prn_table_cell_exact(t, us);
    else
        duration_cell(t, false, us * 1e3);
}

int prn_trace_mapping_write(const struct prn_trace_report *r, enum prn_table_style style,
                            struct prn_buffer *out, struct prony_error *err)
{
    bool exact = style == PRN_TABLE_STYLE_CSV;
    struct prn_table *t = new_table(r);
    mapping_columns(t, exact);
    for (size_t i = 0; i < r->n_mapping; i++) {
        const struct prn_trace_mapping_row *row = &r->mapping[i];
        symbol_cell(t, row->kernel->key.op);
        symbol_cell(t, row->kernel->key.shape);
        number_cell(t, exact, row->op_count);
        symbol_cell(t, row->kernel->key.dimensions);
        number_cell(t, exact, row->kernel_count);
        us_cell(t, exact, row->kernel_average_us);
        us_cell(t, exact, row->kernel_total_us);
        us_cell(t, exact, row->op_us);
        us_cell(t, exact, row->op_average_us);
        percent_cell(t, exact, row->kernel_pct);
        percent_cell(t, exact, row->op_pct);
        symbol_cell(t, row->kernel->key.node);
    }
    return prn_table_end(t, style, out, err);
}

/* ---- Ledger ---- */

static void ledger_row(const struct prn_trace *trace, struct prn_table *t, bool exact,
                       const char *title, enum prn_ledger_row row, int64_t first_ns)
{
    double total = trace->ledger_ns[PRN_LEDGER_TOTAL];
    prn_table_cell(t, "%s", title);
    percent_cell(t, exact, total > 0 ? 100 * (trace->ledger_ns[row] / total) : 0);
    statistics_cells(trace, t, exact, &trace->ledger[row], (double)first_ns);
}

int prn_trace_ledger_write(const struct prn_trace_report *r, enum prn_table_style style,
                           struct prn_buffer *out, struct prony_error *err)
{
    const struct prn_trace *trace = r->trace;
    bool exact = style == PRN_TABLE_STYLE_CSV;
    struct prn_table *t = new_table(r);
    prn_table_column(t, exact ? "part" : "Part of a run", PRN_TABLE_ALIGN_LEFT);
    column(t, exact, "Share", "pct");
    statistics_columns(trace, t, exact);
#define PRN_X(name, field, title) \
    ledger_row(trace, t, exact, title, PRN_LEDGER_##name, trace->first_ledger.field);
    PRN_LEDGER_ROWS(PRN_X)
#undef PRN_X
    ledger_row(trace, t, exact, "Whole run", PRN_LEDGER_TOTAL, trace->first_ledger.total);
    return prn_table_end(t, style, out, err);
}
