#include "report/ops_json.h"

#include <math.h>

/* ---- Writing ---- */

static void write_interval(struct prn_json_writer *w, const struct prn_interval *ns)
{
    prn_json_number(w, "mean_ns", ns->estimate);
    prn_json_number(w, "low_ns", ns->low);
    prn_json_number(w, "high_ns", ns->high);
}

static void write_ledger(struct prn_json_writer *w, const struct prn_ops *ops)
{
    if (!ops->has_ledger) {
        prn_json_null(w, "ledger");
        return;
    }
    prn_json_object(w, "ledger");
#define PRN_X(row, field, title)                       \
    prn_json_object(w, #field);                        \
    write_interval(w, &ops->ledger[PRN_LEDGER_##row]); \
    prn_json_end(w);
    PRN_LEDGER_ROWS(PRN_X)
    PRN_X(TOTAL, total, "")
#undef PRN_X
    prn_json_end(w);
}

static void write_work(struct prn_json_writer *w, const struct prn_ops *ops,
                       const struct prn_ops_row *row)
{
    prn_json_number(w, "flops", row->flops);
    prn_json_integer(w, "flops_nodes", row->flops_nodes);
    prn_json_number(w, "flops_ns", row->flops_ns);
    prn_json_number(w, "flop_per_s", prn_ops_rate(ops, row));
}

static void write_origin(struct prn_json_writer *w, const struct prn_ops_row *row)
{
    if (row->onnx_node < 0) {
        prn_json_null(w, "onnx");
        return;
    }
    prn_json_object(w, "onnx");
    prn_json_integer(w, "node", row->onnx_node);
    prn_json_text(w, "name", row->onnx_name);
    prn_json_text(w, "op", row->onnx_op);
    prn_json_end(w);
}

static void write_operators(struct prn_json_writer *w, const struct prn_ops *ops)
{
    prn_json_array(w, "operators");
    for (size_t i = 0; i < ops->n_operators; i++) {
        const struct prn_ops_row *row = &ops->operators[i];
        prn_json_object(w, NULL);
        prn_json_text(w, "op", row->op);
        prn_json_text(w, "provider", row->provider);
        prn_json_integer(w, "nodes", row->nodes);
        prn_json_number(w, "calls", row->calls);
        write_interval(w, &row->ns);
        write_work(w, ops, row);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void write_nodes(struct prn_json_writer *w, const struct prn_ops *ops)
{
    prn_json_array(w, "nodes");
    for (size_t i = 0; i < ops->n_nodes; i++) {
        const struct prn_ops_row *row = &ops->nodes[i];
        prn_json_object(w, NULL);
        prn_json_text(w, "name", row->name);
        prn_json_text(w, "op", row->op);
        prn_json_text(w, "provider", row->provider);
        write_origin(w, row);
        prn_json_number(w, "calls", row->calls);
        write_interval(w, &row->ns);
        write_work(w, ops, row);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void write_kernels(struct prn_json_writer *w, const struct prn_ops *ops)
{
    prn_json_array(w, "kernels");
    for (size_t i = 0; i < ops->n_kernels; i++) {
        const struct prn_ops_row *row = &ops->kernels[i];
        prn_json_object(w, NULL);
        prn_json_text(w, "name", row->name);
        prn_json_number(w, "calls", row->calls);
        write_interval(w, &row->ns);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void write_changes(struct prn_json_writer *w, const char *key,
                          const struct prn_ops_change *changes, size_t n)
{
    prn_json_array(w, key);
    for (size_t i = 0; i < n; i++) {
        prn_json_object(w, NULL);
        prn_json_text(w, "name", changes[i].name);
        prn_json_number(w, "ns", changes[i].ns);
        prn_json_number(w, "baseline_ns", changes[i].baseline_ns);
        prn_json_end(w);
    }
    prn_json_end(w);
}

static void write_difference(struct prn_json_writer *w, const struct prn_ops *ops)
{
    if (ops->baseline < 0) {
        prn_json_null(w, "difference");
        return;
    }
    prn_json_object(w, "difference");
    prn_json_integer(w, "baseline", ops->baseline);
    write_changes(w, "operators", ops->operator_changes, ops->n_operator_changes);
    write_changes(w, "nodes", ops->node_changes, ops->n_node_changes);
    prn_json_end(w);
}

void prn_ops_write_json(struct prn_json_writer *w, const struct prn_ops *ops)
{
    if (!ops) {
        prn_json_null(w, "ops");
        return;
    }
    prn_json_object(w, "ops");
    prn_json_text(w, "error", ops->error);
    prn_json_integer(w, "runs", ops->runs);
    prn_json_integer(w, "profiled_runs", ops->profiled_runs);
    prn_json_number(w, "run_ns", ops->run_ns);
    prn_json_number(w, "resolution_ns", ops->resolution_ns);
    prn_json_bool(w, "cut", ops->cut);
    prn_json_integer(w, "lost_events", ops->lost_events);
    write_ledger(w, ops);
    prn_json_number(w, "parallel", ops->parallel);
    prn_json_number(w, "nested", ops->nested);
    write_operators(w, ops);
    write_nodes(w, ops);
    write_kernels(w, ops);
    write_difference(w, ops);
    prn_json_end(w);
}

/* ---- Reading ---- */

static struct prn_interval read_interval(struct prn_fields *r, const struct prn_field *in)
{
    struct prn_interval ns;
    ns.estimate = prn_field_number_or_null(r, in, "mean_ns");
    ns.low = prn_field_number_or_null(r, in, "low_ns");
    ns.high = prn_field_number_or_null(r, in, "high_ns");
    return ns;
}

static void read_ledger(struct prn_fields *r, const struct prn_field *in, struct prn_ops *ops)
{
    struct prn_field p = prn_field_member(in, "ledger");
    if (json_is_null(p.value) || !prn_field_is_object(r, &p))
        return;
    ops->has_ledger = true;
    struct prn_field part;
#define PRN_X(row, field, title)         \
    part = prn_field_member(&p, #field); \
    if (prn_field_is_object(r, &part))   \
        ops->ledger[PRN_LEDGER_##row] = read_interval(r, &part);
    PRN_LEDGER_ROWS(PRN_X)
    PRN_X(TOTAL, total, "")
#undef PRN_X
}

static void read_work(struct prn_fields *r, const struct prn_field *in, struct prn_ops_row *row)
{
    row->flops = prn_field_number_or_null(r, in, "flops");
    row->flops_nodes = prn_field_integer(r, in, "flops_nodes", 0, INT64_MAX);
    row->flops_ns = prn_field_number_or_null(r, in, "flops_ns");
    (void)prn_field_number_or_null(r, in, "flop_per_s"); /* follows from the others */
}

static void read_operator(struct prn_fields *r, const struct prn_field *p, struct prn_ops_row *row)
{
    row->op = prn_field_text(r, p, "op");
    row->provider = prn_field_text_or_null(r, p, "provider");
    row->nodes = prn_field_integer(r, p, "nodes", 0, INT64_MAX);
    read_work(r, p, row);
}

static void read_node(struct prn_fields *r, const struct prn_field *p, struct prn_ops_row *row)
{
    row->name = prn_field_text(r, p, "name");
    row->op = prn_field_text(r, p, "op");
    row->provider = prn_field_text_or_null(r, p, "provider");
    row->nodes = 1;
    read_work(r, p, row);
    struct prn_field origin = prn_field_member(p, "onnx");
    if (json_is_null(origin.value) || !prn_field_is_object(r, &origin))
        return;
    row->onnx_node = prn_field_integer(r, &origin, "node", 0, INT64_MAX);
    row->onnx_name = prn_field_text(r, &origin, "name");
    row->onnx_op = prn_field_text(r, &origin, "op");
}

static void read_kernel(struct prn_fields *r, const struct prn_field *p, struct prn_ops_row *row)
{
    row->name = prn_field_text(r, p, "name");
}

typedef void read_row_fn(struct prn_fields *r, const struct prn_field *p, struct prn_ops_row *row);

static struct prn_ops_row *read_rows(struct prn_fields *r, const struct prn_field *in,
                                     const char *key, read_row_fn *read_row, size_t *ret_n)
{
    struct prn_field p = prn_field_member(in, key);
    size_t n = prn_field_count(r, &p, PRN_OPS_ROWS_MAX);
    struct prn_ops_row *rows = prn_field_array(r, n, sizeof *rows);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field at = prn_field_element(&p, i);
        rows[i] = (struct prn_ops_row){.onnx_node = -1, .flops = NAN};
        if (!prn_field_is_object(r, &at))
            break;
        read_row(r, &at, &rows[i]);
        rows[i].calls = prn_field_number_or_null(r, &at, "calls");
        rows[i].ns = read_interval(r, &at);
        *ret_n = i + 1;
    }
    return rows;
}

static struct prn_ops_change *read_changes(struct prn_fields *r, const struct prn_field *in,
                                           const char *key, size_t *ret_n)
{
    struct prn_field p = prn_field_member(in, key);
    /* Those of either backend, and what is outside of both. */
    size_t n = prn_field_count(r, &p, 2 * PRN_OPS_ROWS_MAX + 1);
    struct prn_ops_change *changes = prn_field_array(r, n, sizeof *changes);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field at = prn_field_element(&p, i);
        if (!prn_field_is_object(r, &at))
            break;
        changes[i].name = prn_field_text(r, &at, "name");
        changes[i].ns = prn_field_number_or_null(r, &at, "ns");
        changes[i].baseline_ns = prn_field_number_or_null(r, &at, "baseline_ns");
        *ret_n = i + 1;
    }
    return changes;
}

static void read_difference(struct prn_fields *r, const struct prn_field *in, struct prn_ops *ops)
{
    struct prn_field p = prn_field_member(in, "difference");
    ops->baseline = -1;
    if (json_is_null(p.value) || !prn_field_is_object(r, &p))
        return;
    ops->baseline = prn_field_integer(r, &p, "baseline", 0, INT64_MAX);
    ops->operator_changes = read_changes(r, &p, "operators", &ops->n_operator_changes);
    ops->node_changes = read_changes(r, &p, "nodes", &ops->n_node_changes);
}

struct prn_ops *prn_ops_read_json(struct prn_fields *r, const struct prn_field *result)
{
    struct prn_field p = prn_field_member(result, "ops");
    if (!p.value || json_is_null(p.value) || !prn_field_is_object(r, &p))
        return NULL;
    struct prn_ops *ops = prn_field_array(r, 1, sizeof *ops);
    if (!ops)
        return NULL;
    ops->error = prn_field_text_or_null(r, &p, "error");
    ops->runs = prn_field_integer(r, &p, "runs", 0, INT64_MAX);
    ops->profiled_runs = prn_field_integer(r, &p, "profiled_runs", 0, INT64_MAX);
    ops->run_ns = prn_field_number_or_null(r, &p, "run_ns");
    ops->resolution_ns = prn_field_number_or_null(r, &p, "resolution_ns");
    ops->cut = prn_field_bool(r, &p, "cut");
    ops->lost_events = prn_field_integer(r, &p, "lost_events", 0, INT64_MAX);
    read_ledger(r, &p, ops);
    ops->parallel = prn_field_number_or_null(r, &p, "parallel");
    ops->nested = prn_field_number_or_null(r, &p, "nested");
    ops->operators = read_rows(r, &p, "operators", read_operator, &ops->n_operators);
    ops->nodes = read_rows(r, &p, "nodes", read_node, &ops->n_nodes);
    ops->kernels = read_rows(r, &p, "kernels", read_kernel, &ops->n_kernels);
    read_difference(r, &p, ops);
    return ops;
}
