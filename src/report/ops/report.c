#include "report/ops/report.h"

#include "base/format.h"
#include "base/text.h"
#include "measure/machine/machine.h"
#include "measure/ops/ops.h"
#include "report/prose.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TOP 10  /* rows that people get to see */
#define NAMED 3 /* operators in the sentences on a difference and on roofs */
/* What reaches less of a bandwidth isn't called bound by it. */
#define BOUND 0.5

/* What a table is made for: people get the first rows of one result, rounded; CSV gets all rows of
 * all results, exact. */
struct making {
    const struct prn_view *view;
    bool exact;
    bool with_origins;   /* of nodes: where the runtime's names aren't those of the model */
    bool with_providers; /* there are several */
    bool with_roofs;     /* how far from the limit they are is known */
    size_t index;        /* of the result whose rows are added */
    const struct prn_ops *ops;
    struct prn_table *table;
};

static const struct prn_ops *ops_of(const struct prn_result *r)
{
    return r->ops && !r->ops->error ? r->ops : NULL;
}

static size_t shown(const struct making *m, size_t n)
{
    return m->exact || n < TOP ? n : TOP;
}

/* ---- Cells ---- */

static void name_column(const struct making *m, const char *title, const char *csv)
{
    prn_table_column(m->table, m->exact ? csv : title, PRN_TABLE_ALIGN_LEFT);
    prn_table_shrink(m->table);
}

static void number_column(const struct making *m, const char *title, const char *csv)
{
    prn_table_column(m->table, m->exact ? csv : title, PRN_TABLE_ALIGN_RIGHT);
}

static void text_cell(const struct making *m, const char *text)
{
    prn_table_cell(m->table, "%s", text ? text : m->exact ? "" : "-");
}

static void time_cell(const struct making *m, double ns)
{
    char text[PRN_FORMAT_SIZE];
    if (m->exact)
        prn_table_cell_exact(m->table, ns);
    else
        prn_table_cell(m->table, "%s", isfinite(ns) ? prn_format_duration(text, ns) : "-");
}

static void count_cell(const struct making *m, double count)
{
    if (m->exact)
        prn_table_cell_exact(m->table, count);
    else if (isfinite(count))
        prn_table_cell(m->table, "%.4g", count);
    else
        prn_table_cell(m->table, "-");
}

static void share_cell(const struct making *m, double part, double whole)
{
    double share = whole > 0 ? part / whole : NAN;
    if (m->exact)
        prn_table_cell_exact(m->table, share);
    else if (isfinite(share))
        prn_table_cell(m->table, "%.1f %%", 100 * share);
    else
        prn_table_cell(m->table, "-");
}

static void result_columns(const struct making *m)
{
    if (!m->exact)
        return;
    prn_table_columns(m->table, "backend|point");
}

static void result_cells(const struct making *m)
{
    const struct prn_result *r = &m->view->profile->results[m->index];
    if (!m->exact)
        return;
    text_cell(m, r->name);
    text_cell(m, prn_result_point(m->view->profile, r)->label);
}

static void time_columns(const struct making *m)
{
    number_column(m, "Time/run", "mean_ns");
    if (m->exact) {
        number_column(m, NULL, "low_ns");
        number_column(m, NULL, "high_ns");
    } else {
        number_column(m, "±", NULL);
    }
    number_column(m, "Share", "share");
}

static void time_cells(const struct making *m, const struct prn_interval *ns, double whole)
{
    time_cell(m, ns->estimate);
    if (m->exact) {
        time_cell(m, ns->low);
        time_cell(m, ns->high);
    } else if (isfinite(ns->high) && ns->estimate > 0) {
        double half = (ns->high - ns->estimate) / ns->estimate;
        if (half > 1)
            prn_table_cell(m->table, "unknown");
        else
            prn_table_cell(m->table, "%.1f %%", 100 * half);
    } else {
        prn_table_cell(m->table, "-");
    }
    share_cell(m, ns->estimate, whole);
}

static void work_columns(const struct making *m)
{
    if (m->exact) {
        number_column(m, NULL, "flops");
        number_column(m, NULL, "flops_nodes");
        number_column(m, NULL, "flops_ns");
    }
    number_column(m, "FLOP/s", "flop_per_s");
    /* A share of a roof says more. */
    if (m->with_roofs)
        prn_table_omit(m->table);
    if (m->exact)
        prn_table_columns(m->table, ">bytes|roof|>roof_nodes|>roof_ns|>roof_share");
    else if (m->with_roofs)
        number_column(m, "Of its roof", NULL);
}

/* "61 % float32" */
static void roof_cells(const struct making *m, const struct prn_ops_row *row)
{
    if (m->exact) {
        prn_table_cell_exact(m->table, row->bytes);
        text_cell(m, row->roof);
        prn_table_cell(m->table, "%" PRId64, row->roof_nodes);
        prn_table_cell_exact(m->table, row->roof_ns);
        prn_table_cell_exact(m->table, row->roof_share);
    } else if (m->with_roofs && row->roof) {
        prn_table_cell(m->table, "%.0f %% %s", 100 * row->roof_share, row->roof);
    } else if (m->with_roofs) {
        prn_table_cell(m->table, "-");
    }
}

static void work_cells(const struct making *m, const struct prn_ops_row *row)
{
    char text[PRN_FORMAT_SIZE];
    double rate = prn_ops_rate(m->ops, row);
    if (m->exact) {
        prn_table_cell_exact(m->table, row->flops);
        prn_table_cell(m->table, "%" PRId64, row->flops_nodes);
        prn_table_cell_exact(m->table, row->flops_ns);
        prn_table_cell_exact(m->table, rate);
    } else {
        prn_table_cell(m->table, "%s", isfinite(rate) ? prn_format_count(text, rate) : "-");
    }
    roof_cells(m, row);
}

static void provider_column(const struct making *m)
{
    if (m->exact || m->with_providers)
        prn_table_column(m->table, m->exact ? "provider" : "Provider", PRN_TABLE_ALIGN_LEFT);
}

static void provider_cell(const struct making *m, const struct prn_ops_row *row)
{
    const char *provider = row->provider;
    if (m->exact || (m->with_providers && !provider))
        text_cell(m, provider);
    else if (m->with_providers)
        prn_table_cell(m->table, "%.*s", prn_provider_length(provider), provider);
}

static double sum_ns(const struct prn_ops_row *rows, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += rows[i].ns.estimate;
    return sum;
}

/* ---- Tables ---- */

static void ledger_columns(const struct making *m)
{
    prn_table_column(m->table, m->exact ? "part" : "Part of a run", PRN_TABLE_ALIGN_LEFT);
    time_columns(m);
}

static void ledger_rows(const struct making *m)
{
    const struct prn_interval *ledger = m->ops->ledger;
    double total = ledger[PRN_LEDGER_TOTAL].estimate;
    if (!m->ops->has_ledger)
        return;
#define PRN_X(row, field, title)                               \
    result_cells(m);                                           \
    prn_table_cell(m->table, "%s", m->exact ? #field : title); \
    time_cells(m, &ledger[PRN_LEDGER_##row], total);
    PRN_LEDGER_ROWS(PRN_X)
    PRN_X(TOTAL, total, "Whole run")
#undef PRN_X
}

static void operator_columns(const struct making *m)
{
    name_column(m, "Operator", "op");
    provider_column(m);
    number_column(m, "Nodes", "nodes");
    number_column(m, "Calls/run", "calls");
    time_columns(m);
    work_columns(m);
}

static void operator_rows(const struct making *m)
{
    const struct prn_ops *ops = m->ops;
    double whole = sum_ns(ops->operators, ops->n_operators);
    for (size_t i = 0; i < shown(m, ops->n_operators); i++) {
        const struct prn_ops_row *row = &ops->operators[i];
        result_cells(m);
        text_cell(m, row->op);
        provider_cell(m, row);
        prn_table_cell(m->table, "%" PRId64, row->nodes);
        count_cell(m, row->calls);
        time_cells(m, &row->ns, whole);
        work_cells(m, row);
    }
}

static void node_columns(const struct making *m)
{
    name_column(m, "Node", "node");
    name_column(m, "Operator", "op");
    provider_column(m);
    if (m->exact)
        prn_table_column(m->table, "onnx_node", PRN_TABLE_ALIGN_RIGHT);
    if (m->exact || m->with_origins)
        name_column(m, "Made of", "onnx_name");
    if (m->exact) {
        prn_table_columns(m->table, "onnx_op|>calls");
    }
    time_columns(m);
    work_columns(m);
}

static void node_rows(const struct making *m)
{
    const struct prn_ops *ops = m->ops;
    double whole = sum_ns(ops->nodes, ops->n_nodes);
    for (size_t i = 0; i < shown(m, ops->n_nodes); i++) {
        const struct prn_ops_row *row = &ops->nodes[i];
        result_cells(m);
        text_cell(m, row->name);
        text_cell(m, row->op);
        provider_cell(m, row);
        if (m->exact)
            prn_table_cell_exact(m->table, row->onnx_node >= 0 ? (double)row->onnx_node : NAN);
        if (m->exact || m->with_origins)
            text_cell(m, row->onnx_name);
        if (m->exact) {
            text_cell(m, row->onnx_op);
            count_cell(m, row->calls);
        }
        time_cells(m, &row->ns, whole);
        work_cells(m, row);
    }
}

static void kernel_columns(const struct making *m)
{
    name_column(m, "GPU kernel", "kernel");
    number_column(m, "Calls/run", "calls");
    time_columns(m);
}

static void kernel_rows(const struct making *m)
{
    const struct prn_ops *ops = m->ops;
    double whole = sum_ns(ops->kernels, ops->n_kernels);
    for (size_t i = 0; i < shown(m, ops->n_kernels); i++) {
        result_cells(m);
        text_cell(m, ops->kernels[i].name);
        count_cell(m, ops->kernels[i].calls);
        time_cells(m, &ops->kernels[i].ns, whole);
    }
}

/* "+1.20 ms" */
static const char *format_change(char text[PRN_FORMAT_SIZE + 4], double ns)
{
    char size[PRN_FORMAT_SIZE];
    snprintf(text, PRN_FORMAT_SIZE + 4, "%s%s", ns < 0 ? "−" : "+",
             prn_format_duration(size, fabs(ns)));
    return text;
}

static void change_columns(const struct making *m, const char *title)
{
    name_column(m, title, "name");
    number_column(m, "Time/run", "ns");
    number_column(m, "Fastest's", "baseline_ns");
    number_column(m, "Difference", "difference_ns");
}

static void change_cells(const struct making *m, const struct prn_ops_change *change)
{
    char text[PRN_FORMAT_SIZE + 4];
    text_cell(m, change->name);
    time_cell(m, m->exact || change->ns > 0 ? change->ns : NAN);
    time_cell(m, m->exact || change->baseline_ns > 0 ? change->baseline_ns : NAN);
    if (m->exact)
        prn_table_cell_exact(m->table, change->ns - change->baseline_ns);
    else
        prn_table_cell(m->table, "%s", format_change(text, change->ns - change->baseline_ns));
}

static void operator_change_columns(const struct making *m)
{
    change_columns(m, "Operator");
}

static void operator_change_rows(const struct making *m)
{
    for (size_t i = 0; i < shown(m, m->ops->n_operator_changes); i++)
        change_cells(m, &m->ops->operator_changes[i]);
}

static void node_change_columns(const struct making *m)
{
    change_columns(m, "Node");
}

static void node_change_rows(const struct making *m)
{
    for (size_t i = 0; i < shown(m, m->ops->n_node_changes); i++)
        change_cells(m, &m->ops->node_changes[i]);
}

/* Both kinds in one file, told apart by a column. */
static void difference_columns(const struct making *m)
{
    prn_table_columns(m->table, "baseline|of");
    change_columns(m, NULL);
}

static const char *baseline_name(const struct making *m)
{
    const struct prn_profile *p = m->view->profile;
    size_t baseline = (size_t)m->ops->baseline;
    return m->ops->baseline >= 0 && baseline < p->n_results
               ? (m->exact ? m->view->names : m->view->calls)[baseline]
               : "?";
}

static void difference_rows(const struct making *m)
{
    const struct prn_ops *ops = m->ops;
    size_t n = ops->n_operator_changes + ops->n_node_changes;
    for (size_t i = 0; i < n; i++) {
        bool node = i >= ops->n_operator_changes;
        result_cells(m);
        text_cell(m, baseline_name(m));
        text_cell(m, node ? "node" : "operator");
        change_cells(m, node ? &ops->node_changes[i - ops->n_operator_changes]
                             : &ops->operator_changes[i]);
    }
}

/* ---- CSV ---- */

typedef void part_fn(const struct making *m);

int prn_ops_csv(const struct prn_view *view, enum prn_report_table table, struct prn_buffer *out,
                struct prony_error *err)
{
    static const struct {
        part_fn *columns, *rows;
    } tables[] = {
        [PRN_REPORT_TABLE_LEDGER] = {ledger_columns, ledger_rows},
        [PRN_REPORT_TABLE_OPERATORS] = {operator_columns, operator_rows},
        [PRN_REPORT_TABLE_NODES] = {node_columns, node_rows},
        [PRN_REPORT_TABLE_KERNELS] = {kernel_columns, kernel_rows},
        [PRN_REPORT_TABLE_DIFFERENCES] = {difference_columns, difference_rows},
    };
    struct making m = {.view = view, .exact = true, .table = prn_table_new()};
    result_columns(&m);
    tables[table].columns(&m);
    for (m.index = 0; m.index < view->profile->n_results; m.index++) {
        m.ops = ops_of(&view->profile->results[m.index]);
        if (m.ops)
            tables[table].rows(&m);
    }
    return prn_table_end(m.table, PRN_TABLE_STYLE_CSV, out, err);
}

/* ---- Text and Markdown ---- */

struct sections {
    struct prn_prose prose;
    size_t width;
    struct making making;
};

/* A table of the result that `making` is at; nothing when it has no rows. */
static int add_table(struct sections *s, part_fn *columns, part_fn *rows, size_t n,
                     struct prony_error *err)
{
    struct making *m = &s->making;
    if (n == 0)
        return 0;
    prn_buffer_add_char(s->prose.out, '\n');
    m->table = prn_table_new();
    prn_table_width(m->table, s->width);
    columns(m);
    rows(m);
    int code = prn_table_write(m->table,
                               s->prose.markdown ? PRN_TABLE_STYLE_MARKDOWN : PRN_TABLE_STYLE_TEXT,
                               s->prose.out, err);
    prn_table_free(m->table);
    return code;
}

static void say_left_out(struct sections *s, const char *what, size_t n)
{
    if (n <= TOP)
        return;
    prn_buffer_add_char(s->prose.out, '\n');
    prn_prose_paragraph(&s->prose, "These are %d of %zu %s; --format json has all.", TOP, n, what);
}

/* Where the runtime's names aren't those of the model, and who ran the nodes if not always the
 * same, is worth a column. */
static void choose_columns(struct making *m)
{
    m->with_origins = false;
    m->with_providers = false;
    m->with_roofs = false;
    for (size_t i = 0; i < m->ops->n_nodes; i++) {
        const struct prn_ops_row *row = &m->ops->nodes[i];
        const char *first = m->ops->nodes[0].provider;
        m->with_roofs |= row->roof != NULL;
        if (i < TOP && row->onnx_name && strcmp(row->onnx_name, row->name) != 0)
            m->with_origins = true;
        if (row->provider != first &&
            (!row->provider || !first || strcmp(row->provider, first) != 0))
            m->with_providers = true;
    }
}

void prn_ops_runs_text(const struct prn_result *r, struct prn_buffer *out)
{
    const struct prn_ops *ops = r->ops;
    double slower = ops->run_ns / r->stats.median_ns - 1;
    bool averages = ops->runs == ops->profiled_runs;
    if (averages)
        prn_buffer_printf(out, "From %" PRId64 " runs with the runtime's profiler on", ops->runs);
    else
        prn_buffer_printf(out,
                          "From the fastest %" PRId64 " of %" PRId64 " runs with the runtime's "
                          "profiler on",
                          ops->runs, ops->profiled_runs);
    if (isfinite(slower) && fabs(slower) >= 0.005)
        prn_buffer_printf(out, ", which took %.3g %% %s than without it", 100 * fabs(slower),
                          slower < 0 ? "less" : "longer");
    prn_buffer_add(out, averages ? ". Times are means of those; the profiler has no others."
                                 : ". Times are means of those, ± half of their 95 % intervals.");
}

static void describe_runs(struct sections *s, const struct prn_result *r)
{
    const struct prn_ops *ops = s->making.ops;
    struct prn_buffer *line = &s->prose.line;
    prn_ops_runs_text(r, line);
    if (isfinite(ops->parallel) && ops->parallel >= 1.005)
        prn_buffer_printf(line, " While nodes ran, %.2f of them ran at a time.", ops->parallel);
    if (isfinite(ops->nested) && ops->nested >= 0.0005)
        prn_buffer_printf(line,
                          " %.1f %% of the nodes' time is inside other nodes (the bodies of If, "
                          "Loop and Scan) and counts for both.",
                          100 * ops->nested);
    if (ops->cut)
        prn_buffer_add(line, " The profiler stops after a million events: later runs are missing.");
    if (ops->lost_events > 0)
        prn_buffer_printf(line,
                          " %" PRId64 " events couldn't be read and are missing: names with "
                          "quotes break the runtime's trace.",
                          ops->lost_events);
    prn_prose_flush(&s->prose, 0);
}

/* What FLOP/s means, and for how much of the time there is one. */
static void describe_work(struct sections *s)
{
    const struct prn_ops *ops = s->making.ops;
    double known_ns = 0;
    bool fused = false;
    for (size_t i = 0; i < ops->n_nodes; i++) {
        const struct prn_ops_row *node = &ops->nodes[i];
        known_ns += node->flops_ns;
        fused |=
            node->flops_nodes > 0 && (!node->onnx_name || strcmp(node->onnx_name, node->name) != 0);
    }
    double whole = sum_ns(ops->nodes, ops->n_nodes);
    if (!isfinite(known_ns / whole))
        return;
    prn_buffer_add_char(s->prose.out, '\n');
    prn_buffer_printf(&s->prose.line, "The work is known of nodes that take %.1f %% of the time",
                      100 * known_ns / whole);
    if (fused)
        prn_buffer_add(&s->prose.line,
                       "; a fused node counts as its main node, without those fused into it");
    prn_prose_paragraph(&s->prose,
                        ". FLOP/s is left out where there is nothing to count, where the time is "
                        "known to no better than ±%.0f %%, or where a node takes less than %.0f "
                        "µs, because the profiler cuts times to whole µs.",
                        PRN_OPS_PRECISE * 100, PRN_OPS_RESOLVED * ops->resolution_ns * 1e-3);
}

void prn_ops_roofs_text(const struct prn_ops *ops, struct prn_buffer *out)
{
    size_t told = 0;
    for (size_t i = 0; i < ops->n_operators && told < NAMED; i++) {
        const struct prn_ops_row *row = &ops->operators[i];
        bool memory = row->roof && strcmp(row->roof, PRN_MACHINE_MEMORY) == 0;
        if (!row->roof)
            continue;
        prn_buffer_printf(out, "%s%s ", told++ > 0 ? "; " : "", row->op);
        if (!prn_ops_roof_moves(row->roof))
            prn_buffer_printf(out, "reaches %.0f %% of what this machine can",
                              100 * row->roof_share);
        else if (row->roof_share >= BOUND)
            prn_buffer_printf(out, "is bound by %s%s, at %.0f %% of its bandwidth",
                              memory ? "" : "the cache ", row->roof, 100 * row->roof_share);
        else
            prn_buffer_printf(out, "reaches %.0f %% of the bandwidth of %s%s, its roof",
                              100 * row->roof_share, memory ? "" : "the cache ", row->roof);
    }
    if (told > 0)
        prn_buffer_add_char(out, '.');
}

/* What a share of a roof is. */
static void describe_roofs(struct sections *s)
{
    const struct prn_machine *machine = s->making.view->profile->machine;
    if (!machine || !s->making.with_roofs)
        return;
    prn_ops_roofs_text(s->making.ops, &s->prose.line);
    prn_prose_paragraph(&s->prose,
                        " A roof is the shortest time in which this machine could do the work or "
                        "move the bytes, as 'prony machine' measured it on %.10s; the caches hold "
                        "what fits them.",
                        machine->created);
}

static void describe_placement(struct sections *s)
{
    if (s->making.ops->n_providers == 0)
        return;
    prn_buffer_add_char(s->prose.out, '\n');
    prn_ops_placement_text(s->making.ops, &s->prose.line);
    prn_prose_flush(&s->prose, 0);
}

static int write_profiled(struct sections *s, struct prony_error *err)
{
    struct making *m = &s->making;
    const struct prn_ops *ops = m->ops;
    prn_prose_heading(&s->prose, "Where the time goes: %s", m->view->calls[m->index]);
    describe_runs(s, &m->view->profile->results[m->index]);
    describe_placement(s);
    choose_columns(m);
    int code = add_table(s, ledger_columns, ledger_rows, ops->has_ledger, err);
    if (code == 0)
        code = add_table(s, operator_columns, operator_rows, ops->n_operators, err);
    say_left_out(s, "operators", ops->n_operators);
    if (code == 0)
        code = add_table(s, node_columns, node_rows, ops->n_nodes, err);
    say_left_out(s, "nodes", ops->n_nodes);
    if (code == 0)
        code = add_table(s, kernel_columns, kernel_rows, ops->n_kernels, err);
    say_left_out(s, "kernels", ops->n_kernels);
    describe_work(s);
    describe_roofs(s);
    return code;
}

static double sum_of_changes(const struct making *m)
{
    double sum_ns = 0;
    for (size_t i = 0; i < m->ops->n_operator_changes; i++)
        sum_ns += m->ops->operator_changes[i].ns - m->ops->operator_changes[i].baseline_ns;
    return sum_ns;
}

/* A profiler slows runs down, and not all backends alike. Where its runs differ by another sign, or
 * by less than half or more than twice what plain runs do, their parts say nothing about these. */
static bool parts_explain(const struct making *m, double gap_ns)
{
    double sum_ns = sum_of_changes(m);
    return sum_ns >= gap_ns / 2 && sum_ns <= gap_ns * 2;
}

static void describe_distortion(struct sections *s, const struct prn_result *r,
                                const struct prn_result *fastest)
{
    const struct making *m = &s->making;
    char text[PRN_FORMAT_SIZE + 4];
    double own = m->ops->run_ns / r->stats.median_ns - 1;
    double other = fastest->ops->run_ns / fastest->stats.median_ns - 1;
    prn_prose_paragraph(&s->prose,
                        ". The profiled runs don't explain that: they differ by %s. With the "
                        "profiler on, runs took %.3g %% %s and %.3g %% %s than without it. The "
                        "tables show what was seen with it.",
                        format_change(text, sum_of_changes(m)), 100 * fabs(own),
                        own < 0 ? "less" : "longer", 100 * fabs(other),
                        other < 0 ? "less" : "longer");
}

/* "…: Conv +3.20 ms, Clip +0.90 ms, …" */
static void describe_difference(struct sections *s)
{
    const struct making *m = &s->making;
    const struct prn_profile *p = m->view->profile;
    const struct prn_result *r = &p->results[m->index];
    const struct prn_result *fastest = &p->results[m->ops->baseline];
    char text[PRN_FORMAT_SIZE + 4];
    const char *says = r->verdict == PRN_VERDICT_SLOWER ? "is slower than"
                       : r->verdict == PRN_VERDICT_SAME ? "takes as long as"
                                                        : "may be slower than";
    prn_buffer_printf(&s->prose.line, "%s %s %s", m->view->calls[m->index], says, baseline_name(m));
    if (r->verdict != PRN_VERDICT_SAME)
        prn_buffer_printf(&s->prose.line, ", by %s per run",
                          prn_format_duration(text, r->stats.median_ns - fastest->stats.median_ns));
    if (!parts_explain(m, r->stats.median_ns - fastest->stats.median_ns)) {
        describe_distortion(s, r, fastest);
        return;
    }
    for (size_t i = 0; i < m->ops->n_operator_changes && i < NAMED; i++) {
        const struct prn_ops_change *change = &m->ops->operator_changes[i];
        prn_buffer_printf(&s->prose.line, "%s%s %s", i == 0 ? ": " : ", ", change->name,
                          format_change(text, change->ns - change->baseline_ns));
    }
    prn_prose_paragraph(&s->prose, "%s.",
                        m->ops->n_operator_changes > NAMED ? ", and less from the others" : "");
}

static int write_difference(struct sections *s, struct prony_error *err)
{
    const struct prn_ops *ops = s->making.ops;
    if (ops->baseline < 0 || (size_t)ops->baseline >= s->making.view->profile->n_results)
        return 0;
    prn_prose_heading(&s->prose, "What makes the difference: %s",
                      s->making.view->calls[s->making.index]);
    describe_difference(s);
    int code =
        add_table(s, operator_change_columns, operator_change_rows, ops->n_operator_changes, err);
    say_left_out(s, "operators", ops->n_operator_changes);
    if (code == 0)
        code = add_table(s, node_change_columns, node_change_rows, ops->n_node_changes, err);
    say_left_out(s, "nodes", ops->n_node_changes);
    return code;
}

typedef int section_fn(struct sections *s, struct prony_error *err);

static int for_each(struct sections *s, section_fn *section, struct prony_error *err)
{
    struct making *m = &s->making;
    int code = 0;
    for (m->index = 0; code == 0 && m->index < m->view->profile->n_results; m->index++) {
        m->ops = ops_of(&m->view->profile->results[m->index]);
        if (m->ops)
            code = section(s, err);
    }
    return code;
}

static void write_failures(struct sections *s)
{
    const struct prn_view *view = s->making.view;
    bool first = true;
    for (size_t i = 0; i < view->profile->n_results; i++) {
        const struct prn_ops *ops = view->profile->results[i].ops;
        if (!ops || !ops->error)
            continue;
        if (first)
            prn_buffer_add_char(s->prose.out, '\n');
        first = false;
        prn_prose_paragraph(&s->prose, "Where the time of %s goes isn't known: %s.", view->calls[i],
                            ops->error);
    }
}

int prn_ops_sections(const struct prn_view *view, const struct prn_look *look,
                     struct prn_buffer *out, struct prony_error *err)
{
    struct sections s = {.prose = prn_prose_init(look, out), .making = {.view = view}};
    s.width = s.prose.look.width;
    int code = for_each(&s, write_difference, err);
    if (code == 0)
        code = for_each(&s, write_profiled, err);
    write_failures(&s);
    prn_prose_release(&s.prose);
    return code;
}
