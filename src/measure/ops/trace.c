/* Fills the rows from a trace, by way of the one reader that the program has of them. */
#include "measure/ops/ops.h"

#include <math.h>
#include <stdlib.h>

#define TRACE_RESOLUTION_NS 1000 /* times in a trace are whole µs, cut */

struct filling {
    const struct prn_trace *trace;
    const struct prn_ops_graph *graph;
    struct prn_arena *arena;
    struct prn_ops *ops;
};

/* The mean of a row's sum over runs, with the interval that the runs give it. What isn't known is
 * NAN, and no time is below 0. */
static struct prn_interval per_run(const struct filling *f, double sum_ns,
                                   const struct prn_sketch *runs)
{
    struct prn_interval i = prn_sketch_mean_interval(runs);
    double mean = sum_ns / (double)f->trace->n_selected;
    double half = i.high - i.estimate;
    return isfinite(half) ? (struct prn_interval){fmax(0, mean - half), mean, mean + half}
                          : (struct prn_interval){NAN, mean, NAN};
}

static const char *keep(const struct filling *f, const struct prn_symbol *symbol)
{
    return symbol ? prn_arena_strndup(f->arena, symbol->text, symbol->len) : NULL;
}

/* Work is known of what runs once per run: a node inside a loop is another one each time. */
static int find_origin(const struct filling *f, struct prn_ops_row *row)
{
    struct prn_ops_origin origin;
    if (!f->graph || !prn_ops_graph_find(f->graph, row->name, row->op, &origin))
        return 0;
    row->onnx_node = origin.node;
    row->onnx_name = prn_arena_strdup(f->arena, origin.name);
    row->onnx_op = prn_arena_strdup(f->arena, origin.op);
    if (isfinite(origin.flops) && row->calls == 1) {
        row->flops = origin.flops;
        row->flops_nodes = 1;
        row->flops_ns = row->ns.estimate;
        row->bytes = origin.bytes;
        row->weight_bytes = origin.weight_bytes;
        row->precision = origin.precision;
    }
    return row->onnx_name && row->onnx_op ? 0 : PRONY_ENOMEM;
}

static int fill_row(const struct filling *f, const struct prn_trace_group *group,
                    struct prn_ops_row *row)
{
    const struct prn_trace_key *key = &group->key;
    *row = (struct prn_ops_row){.op = keep(f, key->op),
                                .provider = keep(f, key->provider),
                                .calls = (double)group->total.count / (double)f->trace->n_selected,
                                .ns = per_run(f, (double)group->total.ns, &group->per_run),
                                .onnx_node = -1,
                                .flops = NAN,
                                .bytes = NAN,
                                .roof_ns = NAN,
                                .roof_share = NAN};
    if ((key->op && !row->op) || (key->provider && !row->provider))
        return PRONY_ENOMEM;
    if (!key->node)
        return 0;
    row->name = prn_arena_strndup(f->arena, key->node->text, prn_trace_node_length(key->node));
    return row->name ? 0 : PRONY_ENOMEM;
}

static int fill_rows(const struct filling *f, const struct prn_trace_table *table,
                     struct prn_ops_row **ret_rows, size_t *ret_n, struct prony_error *err)
{
    const struct prn_trace_group **groups = NULL;
    size_t n = 0;
    int code = prn_trace_sorted(table, &groups, &n, err);
    if (code < 0)
        return code;
    struct prn_ops_row *rows = PRN_ARENA_ARRAY(f->arena, n + 1, struct prn_ops_row);
    code = rows ? 0 : PRONY_ENOMEM;
    for (size_t i = 0; code == 0 && i < n; i++)
        code = fill_row(f, groups[i], &rows[i]);
    free(groups);
    if (code < 0)
        return prn_fail_memory(err);
    *ret_rows = rows;
    *ret_n = n;
    return 0;
}

/* Names the row of all nodes of an operator with one provider. */
static const char *operator_key(struct prn_buffer *key, const struct prn_ops_row *row)
{
    prn_buffer_clear(key);
    prn_buffer_printf(key, "%s\n%s", row->op, row->provider ? row->provider : "");
    return prn_buffer_text(key);
}

static void add_node(struct prn_ops_row *all, const struct prn_ops_row *node)
{
    all->nodes++;
    if (node->flops_nodes == 0)
        return;
    all->flops = node->flops + (isnan(all->flops) ? 0 : all->flops);
    all->bytes = node->bytes + (isnan(all->bytes) ? 0 : all->bytes);
    all->flops_nodes++;
    all->flops_ns += node->flops_ns;
}

/* How many nodes an operator has, and the work of those of which it is known. */
static int sum_up_nodes(const struct filling *f)
{
    struct prn_ops *ops = f->ops;
    struct prn_map rows = PRN_MAP_INIT;
    struct prn_buffer key = PRN_BUFFER_INIT((size_t)1 << 20);
    int code = 0;
    for (size_t i = 0; code == 0 && i < ops->n_operators; i++) {
        const char *name = prn_arena_strdup(f->arena, operator_key(&key, &ops->operators[i]));
        code = name ? prn_map_set(&rows, name, i) : PRONY_ENOMEM;
    }
    for (size_t i = 0; code == 0 && i < ops->n_nodes; i++) {
        size_t row = prn_map_get(&rows, operator_key(&key, &ops->nodes[i]));
        if (row != PRN_MAP_NONE)
            add_node(&ops->operators[row], &ops->nodes[i]);
    }
    code = key.error ? key.error : code;
    prn_buffer_release(&key);
    prn_map_release(&rows);
    return code;
}

static int fill(const struct filling *f, struct prony_error *err)
{
    struct prn_ops *ops = f->ops;
    const struct prn_trace *t = f->trace;
    int code = fill_rows(f, &t->cpu[0], &ops->operators, &ops->n_operators, err);
    if (code == 0)
        code = fill_rows(f, &t->cpu[1], &ops->nodes, &ops->n_nodes, err);
    if (code == 0)
        code = fill_rows(f, &t->gpu, &ops->kernels, &ops->n_kernels, err);
    for (size_t i = 0; code == 0 && i < ops->n_nodes; i++) {
        ops->nodes[i].nodes = 1;
        if (find_origin(f, &ops->nodes[i]) < 0)
            code = prn_fail_memory(err);
    }
    if (code == 0 && sum_up_nodes(f) < 0)
        code = prn_fail_memory(err);
    if (code < 0)
        return code;
    ops->runs = (int64_t)t->n_selected;
    ops->resolution_ns = TRACE_RESOLUTION_NS;
    ops->cut = prn_trace_cut_file(t) != NULL;
    ops->lost_events = (int64_t)t->counts.lost;
    ops->has_ledger = t->has_ledger;
    for (size_t i = 0; i < PRN_LEDGER_ROW_COUNT; i++)
        ops->ledger[i] = per_run(f, t->ledger_ns[i], &t->ledger[i]);
    /* Without events of the executor nobody knows what is before it, in it and after it. */
    const struct prn_interval unknown = {NAN, NAN, NAN};
    if (!t->has_execute)
        ops->ledger[PRN_LEDGER_OVERHEAD] = ops->ledger[PRN_LEDGER_BEFORE] =
            ops->ledger[PRN_LEDGER_AFTER] = unknown;
    double node_ns = t->ledger_ns[PRN_LEDGER_NODE];
    double sum_ns = t->ledger_node_sum_ns + t->ledger_nested_ns;
    ops->parallel = node_ns > 0 ? t->ledger_node_sum_ns / node_ns : NAN;
    ops->nested = sum_ns > 0 ? t->ledger_nested_ns / sum_ns : NAN;
    return 0;
}

static int read_runs(struct prn_source *source, struct prn_run_choice runs,
                     struct prn_trace **ret_trace, struct prony_error *err)
{
    const struct prn_trace_options options = {
        .runs = runs,
        .by = {PRN_TRACE_BY_OP | PRN_TRACE_BY_PROVIDER, PRN_TRACE_BY_NODE | PRN_TRACE_BY_PROVIDER},
        .recover = true, /* one odd name must not hide all others */
        .groups_max = PRN_OPS_ROWS_MAX,
    };
    struct prn_trace_files files = prn_trace_files_of(source);
    return prn_trace_read(&files, &options, ret_trace, err);
}

int prn_ops_from_trace(struct prn_source *source, const char *runs,
                       const struct prn_ops_graph *graph, struct prn_arena *arena,
                       struct prn_ops *ops, struct prony_error *err)
{
    struct prn_run_choice chosen = {PRN_RUN_UNSET, PRN_RUN_UNSET, runs};
    struct prn_run_choice all = {PRN_RUN_UNSET, PRN_RUN_UNSET, NULL};
    struct prn_trace *trace = NULL;
    int code = read_runs(source, chosen, &trace, err);
    /* The profiler stopped before the last ones. */
    if (code == PRONY_EUSAGE && (code = prn_source_rewind(source, err)) == 0)
        code = read_runs(source, all, &trace, err);
    if (code < 0)
        return code;
    struct filling f = {.trace = trace, .graph = graph, .arena = arena, .ops = ops};
    code = fill(&f, err);
    prn_trace_free(trace);
    return code;
}
