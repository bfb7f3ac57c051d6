/* The tables of where the time goes. */
#include "report/ops/json.h"

#include "format/json_fields.h"
#include "measure/ops/ops.h"
#include "report/profile/parts.h"

#include <math.h>

#define PRN_OF struct prn_interval
static const struct prn_member mean_members[] = {
    PRN_NUMBER(estimate, "Mean time per run.", .key = "mean_ns"),
    PRN_NUMBER(low, "Lower end of its 95 % interval over runs; null when there are too few.",
               .key = "low_ns"),
    PRN_NUMBER(high, "Upper end.", .key = "high_ns"),
};
static const struct prn_schema mean_schema =
    PRN_SCHEMA("MeanInterval", mean_members, "A mean with its 95 % interval.");
#undef PRN_OF

/* ---- Rows ---- */

#define PRN_OF struct prn_ops_row
#define PROVIDER PRN_TEXT(provider, "Who ran it; null when not known.", .flags = PRN_NULL)
#define TIME PRN_NUMBER(calls, "Executions per run."), PRN_INLINE(ns, &mean_schema)
#define WORK                                                                                  \
    PRN_NUMBER(flops, "Floating-point operations per run, of the nodes whose work is known; " \
                      "null: of none."),                                                      \
        PRN_INTEGER(flops_nodes, "How many nodes those are."),                                \
        PRN_NUMBER(flops_ns, "Their time per run."),                                          \
        PRN_NUMBER(flop_per_s,                                                                \
                   "Their rate; null where there is no work, or too short a time to tell."),  \
        PRN_NUMBER(bytes, "Bytes that they read and write per run, weights included.",        \
                   .flags = PRN_OMIT),                                                        \
        PRN_TEXT(roof,                                                                        \
                 "What limits it on this machine: a precision, 'L1' to 'L4' or 'memory'; "    \
                 "absent when that isn't known.",                                             \
                 .flags = PRN_OMIT | PRN_NULL),                                               \
        PRN_INTEGER(roof_nodes, "How many nodes that is known of.", .flags = PRN_OMIT),       \
        PRN_NUMBER(roof_ns, "The shortest time that the machine could take for these.",       \
                   .flags = PRN_OMIT),                                                        \
        PRN_NUMBER(roof_share, "What part of their time that is.", .flags = PRN_OMIT)

static const struct prn_member operator_members[] = {
    PRN_TEXT(op, "As the runtime calls it."),
    PROVIDER,
    PRN_INTEGER(nodes, "How many nodes."),
    TIME,
    WORK,
};
static const struct prn_schema operator_schema =
    PRN_SCHEMA("OperatorRow", operator_members, "All nodes of an operator that one provider runs.");

static const struct prn_member origin_members[] = {
    PRN_INTEGER(onnx_node, "Its position in the graph.", .key = "node", .flags = PRN_KEYED),
    PRN_TEXT(onnx_name, "Its name, which may be empty.", .key = "name"),
    PRN_TEXT(onnx_op, "Its operator.", .key = "op"),
};
static const struct prn_schema origin_schema =
    PRN_SCHEMA("OnnxNode", origin_members, "A node of the model.");

static const struct prn_member node_members[] = {
    PRN_TEXT(name, "As the runtime calls it."),
    PRN_TEXT(op, "Its operator, as the runtime calls it."),
    PROVIDER,
    PRN_PART("onnx", &origin_schema,
             "The node of the model that it is or was made of; null when not known.",
             .flags = PRN_NULL),
    TIME,
    WORK,
};
static const struct prn_schema node_schema = PRN_SCHEMA("NodeRow", node_members, "One node.");

static const struct prn_member kernel_members[] = {
    PRN_TEXT(name, "As the driver calls it."),
    TIME,
};
static const struct prn_schema kernel_schema =
    PRN_SCHEMA("KernelRow", kernel_members, "One kind of kernel.");
#undef PRN_OF

#define PRN_OF struct prn_ops_placed
static const struct prn_member placed_members[] = {
    PRN_TEXT(op, "Operator."),
    PRN_INTEGER(nodes, "How many nodes."),
};
static const struct prn_schema placed_schema =
    PRN_SCHEMA("PlacedOperator", placed_members, "Nodes of an operator.");
#undef PRN_OF

#define PRN_OF struct prn_ops_provider
static const struct prn_member provider_members[] = {
    PRN_TEXT(name, "As ONNX Runtime calls it."),
    PRN_INTEGER(nodes, "Nodes that it has."),
    PRN_NUMBER(ns, "Mean time of its nodes per run."),
    PRN_ARRAY(operators, n_operators, &placed_schema, "Those nodes, by operator, most first.",
              .max = PRN_OPS_ROWS_MAX),
};
static const struct prn_schema provider_schema =
    PRN_SCHEMA("Provider", provider_members, "An execution provider and its nodes.");
#undef PRN_OF

#define PRN_OF struct prn_ops_change
static const struct prn_member change_members[] = {
    PRN_TEXT(name, "Of the model where that is known, else the runtime's; '" PRN_OPS_OUTSIDE
                   "' for the rest of a run."),
    PRN_NUMBER(ns, "Mean time per run here; 0 when it doesn't occur."),
    PRN_NUMBER(baseline_ns, "The same of the backend compared with."),
};
static const struct prn_schema change_schema =
    PRN_SCHEMA("Change", change_members, "An operator or node in two backends.");
#undef PRN_OF

/* ---- The whole ---- */

#define PRN_OF struct prn_ops
#define LEDGER(row, key_, doc_) \
    PRN_OBJECT(ledger[PRN_LEDGER_##row], &mean_schema, doc_, .key = key_)
static const struct prn_member ledger_members[] = {
    LEDGER(NODE, "node", "In nodes, those that overlap counted once."),
    LEDGER(OVERHEAD, "overhead", "In the executor, outside nodes."),
    LEDGER(BEFORE, "before", "Before the executor began."),
    LEDGER(AFTER, "after", "After it ended."),
    LEDGER(UNEXPLAINED, "unexplained", "None of these."),
    LEDGER(TOTAL, "total", "The whole run."),
};
_Static_assert(PRN_ARRAY_SIZE(ledger_members) == PRN_LEDGER_ROW_COUNT, "a row of the ledger");
static const struct prn_schema ledger_schema =
    PRN_SCHEMA("Ledger", ledger_members, "A run divided by timestamps.", PRN_PRESENT(has_ledger));

/* Those of either backend, and what is outside of both. */
#define CHANGES_MAX (2 * PRN_OPS_ROWS_MAX + 1)
static const struct prn_member difference_members[] = {
    PRN_INTEGER(baseline, "Index of the result compared with.", .flags = PRN_KEYED),
    PRN_ARRAY(operator_changes, n_operator_changes, &change_schema, "By operator.",
              .key = "operators", .max = CHANGES_MAX),
    PRN_ARRAY(node_changes, n_node_changes, &change_schema, "By node.", .key = "nodes",
              .max = CHANGES_MAX),
};
static const struct prn_schema difference_schema =
    PRN_SCHEMA("OpsDifference", difference_members, "Two backends, by operator and by node.");

static const struct prn_member placement_members[] = {
    PRN_ARRAY(providers, n_providers, &provider_schema,
              "Who has nodes, the one that was asked for first.", .max = PRN_OPS_ROWS_MAX),
    PRN_BOOL(assigned, "Nodes are the model's, as the session assigned them; else those that ran, "
                       "of which one may stand for many of the model."),
    PRN_NUMBER(copies, "Copies between devices, per run."),
    PRN_NUMBER(copies_ns, "Their time per run."),
};
static const struct prn_schema placement_schema = PRN_SCHEMA(
    "Placement", placement_members, "Which provider has which nodes.", PRN_PRESENT(n_providers));

static void check_ops(struct prn_fields *r, const struct prn_field *at, void *record)
{
    struct prn_ops *ops = record;
    for (size_t i = 0; i < ops->n_operators; i++)
        ops->operators[i].onnx_node = -1;
    for (size_t i = 0; i < ops->n_nodes; i++)
        ops->nodes[i].nodes = 1;
    for (size_t i = 0; i < ops->n_kernels; i++) {
        ops->kernels[i].onnx_node = -1;
        ops->kernels[i].flops = ops->kernels[i].bytes = NAN;
        ops->kernels[i].roof_ns = ops->kernels[i].roof_share = NAN;
    }
    prn_ops_rates(ops);
    (void)r;
    (void)at;
}

static const struct prn_member ops_members[] = {
    PRN_TEXT(error, "Why it isn't known; null when it is.", .flags = PRN_NULL),
    PRN_INTEGER(runs, "Runs that the times are of: the faster half of those profiled."),
    PRN_INTEGER(profiled_runs, "All runs with the profiler on."),
    PRN_NUMBER(run_ns, "Median time of a run with the profiler on, by prony's clock."),
    PRN_NUMBER(resolution_ns, "Unit of the profiler's times."),
    PRN_BOOL(cut, "The profiler dropped events of later runs."),
    PRN_INTEGER(lost_events, "Events that couldn't be read."),
    PRN_PART("ledger", &ledger_schema,
             "A run divided by timestamps; the parts add up to total. Null when the runtime "
             "doesn't tell.",
             .flags = PRN_NULL),
    PRN_NUMBER(parallel, "Nodes that ran at a time, while any did."),
    PRN_NUMBER(nested, "Part of the nodes' time that is inside other nodes."),
    PRN_ARRAY(operators, n_operators, &operator_schema, "By operator, longest first.",
              .max = PRN_OPS_ROWS_MAX),
    PRN_ARRAY(nodes, n_nodes, &node_schema, "By node, longest first.", .max = PRN_OPS_ROWS_MAX),
    PRN_ARRAY(kernels, n_kernels, &kernel_schema, "Kernels of a GPU, longest first.",
              .max = PRN_OPS_ROWS_MAX),
    PRN_PART("placement", &placement_schema,
             "Which execution provider has which nodes; absent when there is only the CPU's.",
             .flags = PRN_NULL | PRN_OMIT),
    PRN_PART("difference", &difference_schema,
             "Against the fastest backend that was fed the same, largest difference first; null "
             "for that one, and when it isn't known.",
             .flags = PRN_NULL),
};
const struct prn_schema prn_ops_schema =
    PRN_SCHEMA("Ops", ops_members, "Where the time goes.", .check = check_ops);
#undef PRN_OF
