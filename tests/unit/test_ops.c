/* Where the time goes: which ONNX node a runtime's node comes from, rows from a trace, FLOP/s, and
 * what makes the difference between two backends. */
#include "measure/ops/ops.h"
#include "report/ops/report.h"

#include "unit.h"

#define PROVIDER "CPUExecutionProvider"

/* ---- A graph ---- */

/* x → Conv → BatchNormalization → Clip → Add (of the Conv's way and another) → Relu, then
 * MatMul → Add, and two nodes without names, one behind a Constant; two nodes share a name. */
static const char *const in_conv[] = {"x", "w", ""};
static const char *const out_conv[] = {"conv_out"};
static const char *const in_bn[] = {"conv_out", "scale", "bias"};
static const char *const out_bn[] = {"bn_out"};
static const char *const in_clip[] = {"bn_out", "low"};
static const char *const out_clip[] = {"clip_out"};
static const char *const out_low[] = {"low"};
static const char *const in_add[] = {"clip_out", "x"};
static const char *const out_add[] = {"add_out"};
static const char *const in_relu[] = {"add_out"};
static const char *const out_relu[] = {"relu_out"};
static const char *const in_matmul[] = {"relu_out", "w2"};
static const char *const out_matmul[] = {"matmul_out"};
static const char *const in_gemm[] = {"matmul_out", "w3"};
static const char *const out_gemm[] = {"gemm_out"};
static const char *const in_gather[] = {"gemm_out", "ids"};
static const char *const out_gather[] = {"y"};

#define NODE(node_name, op, in, out)                                                        \
    {                                                                                       \
        .name = (node_name), .op_type = (op), .domain = "", .n_inputs = PRN_ARRAY_SIZE(in), \
        .n_outputs = 1, .inputs = (in), .outputs = (out)                                    \
    }

enum { CONV, NORM, LOW, CLIP, ADD, RELU, MATMUL, GEMM, GATHER, TWIN_A, TWIN_B, N_NODES };

static struct prn_node nodes[N_NODES] = {
    [CONV] = NODE("/stem/Conv", "Conv", in_conv, out_conv),
    [NORM] = NODE("/stem/Norm", "BatchNormalization", in_bn, out_bn),
    [LOW] = {.name = "", .op_type = "Constant", .domain = "", .n_outputs = 1, .outputs = out_low},
    [CLIP] = NODE("/stem/Clip", "Clip", in_clip, out_clip),
    [ADD] = NODE("/stem/Add", "Add", in_add, out_add),
    [RELU] = NODE("", "Relu", in_relu, out_relu),
    [MATMUL] = NODE("/fc/MatMul", "MatMul", in_matmul, out_matmul),
    [GEMM] = NODE("/head/Gemm", "Gemm", in_gemm, out_gemm),
    [GATHER] = NODE("/v/Gather", "Gather", in_gather, out_gather),
    [TWIN_A] = NODE("twin", "Relu", in_relu, out_relu),
    [TWIN_B] = NODE("twin", "Relu", in_relu, out_relu),
};

static const struct prn_constant constants[] = {
    {.name = "w"}, {.name = "scale"}, {.name = "bias"}, {.name = "w2"}, {.name = "w3"}};

static struct prn_ops_graph *new_graph(void)
{
    struct prn_model model = {.graph = {.nodes = nodes,
                                        .n_nodes = N_NODES,
                                        .constants = constants,
                                        .n_constants = PRN_ARRAY_SIZE(constants)}};
    struct prn_node_work works[N_NODES];
    for (size_t i = 0; i < N_NODES; i++)
        works[i] = (struct prn_node_work){
            .node = &nodes[i], .counted = i != GATHER, .flops = 1000 * (double)(i + 1)};
    struct prn_work work = {.nodes = works, .n_nodes = N_NODES};
    struct prn_ops_graph *graph = NULL;
    assert_int_equal(prn_ops_graph_new(&model, &work, &graph, NULL), 0);
    return graph;
}

#define NO_NODE (-1)

static void names_lead_to_nodes(void **state)
{
    (void)state;
    static const struct {
        const char *name, *op;
        int64_t node;
        double flops; /* NAN: not those of the node */
    } cases[] = {
        {"/stem/Conv", "Conv", CONV, 1000},
        {"/fc/MatMul", "MatMul", MATMUL, 7000},
        {"/v/Gather", "Gather", GATHER, NAN}, /* not counted */
        {"/fc/MatMul", "Gemm", MATMUL, NAN},  /* became something else */
        {"twin", "Relu", NO_NODE, NAN},       /* which of the two? */
        {"Relu_4", "Relu", RELU, 6000},       /* Constant isn't numbered */
        {"Relu_5", "Relu", NO_NODE, NAN},     /* that one has a name and is a MatMul */
        {"Conv_0", "Conv", NO_NODE, NAN},     /* that one has a name */
        {"Relu_", "Relu", NO_NODE, NAN},
        {"Relu_4x", "Relu", NO_NODE, NAN},
        {"Relu_99999999999999999999999", "Relu", NO_NODE, NAN},
        {"fused /head/Gemm", "FusedGemm", GEMM, 8000},
        {"fused ", "FusedGemm", NO_NODE, NAN},
        {"/fc/MatMul/MatMulAddFusion", "Gemm", MATMUL, 7000},
        {"/fc/MatMul/MatMulScaleFusion/", "FusedMatMul", MATMUL, 7000},
        {"/v/Gather/GatherSliceToSplitFusion", "Split", GATHER, NAN},
        {"/fc/MatMul/SomeFusion", "Gemm", NO_NODE, NAN},
        {"conv_out_nchwc", "Conv", CONV, 1000},
        {"bn_out_nchwc", "Conv", CONV, 1000},
        {"clip_out_nchwc", "Conv", CONV, 1000},
        {"add_out_nchwc", "Conv", NO_NODE, NAN}, /* two ways lead to a sum */
        {"add_out_nchwc", "Add", ADD, 5000},
        {"clip_out_nchwc", "MaxPool", NO_NODE, NAN},
        {"_nchwc", "Conv", NO_NODE, NAN},
        {"nowhere_nchwc", "Conv", NO_NODE, NAN},
        {"ReorderOutput", "ReorderOutput", NO_NODE, NAN},
        {"/stem/Conv", "Convolution", CONV, 1000},
        {"clip_out", "GroupConvolution", CONV, 1000}, /* goes by the value that it gives */
        {"add_out", "Convolution", NO_NODE, NAN},
        {"/fc/MatMul", "FullyConnected", MATMUL, 7000},
        {"Multiply_17", "Convolution", NO_NODE, NAN},
        {"gemm_output_reshape_token_17", "Reshape", NO_NODE, NAN},
        {"", "", NO_NODE, NAN},
    };
    struct prn_ops_graph *graph = new_graph();
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_ops_origin origin = {.node = NO_NODE, .flops = NAN};
        bool found = prn_ops_graph_find(graph, cases[i].name, cases[i].op, &origin);
        if (found != (cases[i].node != NO_NODE) || origin.node != cases[i].node ||
            !(origin.flops == cases[i].flops || (isnan(origin.flops) && isnan(cases[i].flops))))
            fail_msg("'%s': node %lld, %g FLOP", cases[i].name, (long long)origin.node,
                     origin.flops);
        if (found) {
            assert_string_equal(origin.op, nodes[origin.node].op_type);
            assert_string_equal(origin.name, nodes[origin.node].name);
        }
    }
    prn_ops_graph_free(graph);
}

/* ---- Rows from a trace ---- */

#define EVENT(cat, name, ts, dur, args)                                     \
    "{\"cat\":\"" cat "\",\"pid\":1,\"tid\":1,\"dur\":" #dur ",\"ts\":" #ts \
    ",\"ph\":\"X\",\"name\":\"" name "\",\"args\":{" args "}},\n"
#define NODE_EVENT(name, op, ts, dur)           \
    EVENT("Node", name "_kernel_time", ts, dur, \
          "\"op_name\":\"" op "\",\"provider\":\"" PROVIDER "\"")
#define KERNEL_EVENT(name, ts, dur) EVENT("Kernel", name, ts, dur, "\"stream\":\"7\"")

/* Two runs to leave out, two to keep: Conv 40 and 60 µs, MatMul twice in a run, 4 µs of Reshape. */
static const char trace[] = "[" EVENT("Session", "session_initialization", 0, 5, "")
    NODE_EVENT("/stem/Conv", "Conv", 10, 900) EVENT("Session", "model_run", 5, 950,
                                                    "") NODE_EVENT("/stem/Conv", "Conv", 1010, 900)
        EVENT("Session", "model_run", 1005, 950, "") NODE_EVENT("/stem/Conv", "Conv", 2010, 40)
            KERNEL_EVENT("sgemm", 2015, 10) NODE_EVENT("/fc/MatMul", "MatMul", 2060, 20) NODE_EVENT(
                "/fc/MatMul", "MatMul", 2080, 20) NODE_EVENT("gemm_reshape", "Reshape", 2100, 4)
                EVENT("Session", "SequentialExecutor::Execute", 2005, 102, "")
                    EVENT("Session", "model_run", 2000, 110, "")
                        NODE_EVENT("/stem/Conv", "Conv", 3010, 60) KERNEL_EVENT("sgemm", 3015, 30)
                            NODE_EVENT("/fc/MatMul", "MatMul", 3080, 20)
                                NODE_EVENT("/fc/MatMul", "MatMul", 3100, 20)
                                    NODE_EVENT("gemm_reshape", "Reshape", 3120, 4)
                                        EVENT("Session", "SequentialExecutor::Execute", 3005, 122,
                                              "") "{\"cat\":\"Session\",\"pid\":1,\"tid\":1,"
                                                  "\"dur\":130,\"ts\":3000,\"ph\":\"X\","
                                                  "\"name\":\"model_run\",\"args\":{}}]";

static int read_text(const char *text, const char *runs, const struct prn_ops_graph *graph,
                     struct prn_arena *arena, struct prn_ops *ops, struct prony_error *err)
{
    struct prn_source *source = NULL;
    assert_int_equal(prn_source_open_memory(text, strlen(text), 0, &source, NULL), 0);
    int code = prn_ops_from_trace(source, runs, graph, arena, ops, err);
    prn_source_close(source);
    return code;
}

static void rows_come_from_a_trace(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_ops_graph *graph = new_graph();
    struct prn_ops ops = {0};
    assert_int_equal(read_text(trace, "[3, 2]", graph, &arena, &ops, NULL), 0);
    assert_int_equal(ops.runs, 2);
    assert_false(ops.cut);
    assert_int_equal(ops.n_operators, 3);
    assert_int_equal(ops.n_nodes, 3);
    const struct prn_ops_row *conv = &ops.nodes[0];
    assert_string_equal(conv->name, "/stem/Conv");
    assert_string_equal(conv->provider, PROVIDER);
    assert_int_equal(conv->onnx_node, CONV);
    assert_near(conv->ns.estimate, 50e3, 1e-6);
    /* Two runs are too few for an interval. */
    assert_true(isnan(conv->ns.high) && isnan(conv->ns.low));
    assert_near(conv->flops, 1000, 0);
    assert_true(isnan(prn_ops_rate(&ops, conv))); /* two runs that differ know too little */
    const struct prn_ops_row *matmul = &ops.nodes[1];
    assert_near(matmul->calls, 2, 0);
    assert_near(matmul->ns.estimate, 40e3, 1e-6);
    assert_int_equal(matmul->onnx_node, MATMUL);
    assert_true(isnan(matmul->flops)); /* it runs twice: not the node of the graph alone */
    assert_int_equal(ops.nodes[2].onnx_node, -1);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(ops.operators[i].op, ops.nodes[i].op);
        assert_near(ops.operators[i].ns.estimate, ops.nodes[i].ns.estimate, 1e-6);
        assert_int_equal(ops.operators[i].nodes, 1);
    }
    assert_near(ops.operators[0].flops, 1000, 0);
    assert_int_equal(ops.n_kernels, 1);
    assert_string_equal(ops.kernels[0].name, "sgemm");
    assert_near(ops.kernels[0].ns.estimate, 20e3, 1e-6);
    /* Runs of 110 and 130 µs: nodes 84 and 104, in Execute besides 18 and 18, before 5, after 3. */
    static const double ledger_us[] = {94, 18, 5, 3, 0, 120};
    for (size_t i = 0; i < PRN_LEDGER_ROW_COUNT; i++)
        assert_near(ops.ledger[i].estimate, ledger_us[i] * 1e3, 1e-6);
    prn_ops_graph_free(graph);
    prn_arena_release(&arena);
}

/* ---- Placement ---- */

static void copies_are_no_nodes_of_a_provider(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_ops_row rows[] = {
        {.op = "Conv", .provider = "XExecutionProvider", .nodes = 3, .ns = {0, 97e3, 0}},
        {.op = "MemcpyToHost", .provider = "XExecutionProvider", .calls = 2, .ns = {0, 5e3, 0}},
        {.op = "MemcpyFromHost", .provider = "XExecutionProvider", .calls = 1, .ns = {0, 1e3, 0}},
        {.op = "Cast", .provider = "CPUExecutionProvider", .nodes = 1, .ns = {0, 1e3, 0}},
        {.op = "Resize", .provider = "CPUExecutionProvider", .nodes = 2, .ns = {0, 2e3, 0}}};
    struct prn_ops ops = {.operators = rows, .n_operators = PRN_ARRAY_SIZE(rows)};
    struct prn_buffer text = PRN_BUFFER_INIT(1000);
    assert_int_equal(prn_ops_place(NULL, 0, &arena, &ops, NULL), 0);
    assert_false(ops.assigned);
    assert_near(ops.copies, 3, 0);
    assert_near(ops.copies_ns, 6e3, 0);
    prn_ops_placement_text(&ops, &text);
    assert_string_equal(
        prn_buffer_text(&text),
        "X takes 3 of 6 nodes that ran, 97 % of their time; the CPU has Resize (2), "
        "Cast. 3 copies between devices take 6.00 µs of a run.");
    prn_buffer_release(&text);
    prn_arena_release(&arena);
}

static void what_the_session_assigned_counts(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    const struct prn_placed assigned[] = {{"XExecutionProvider", "", 0},
                                          {"CPUExecutionProvider", "Conv", 4}};
    struct prn_ops_row fused = {.op = "Conv", .provider = "CPUExecutionProvider", .nodes = 1};
    struct prn_ops ops = {.operators = &fused, .n_operators = 1};
    struct prn_buffer text = PRN_BUFFER_INIT(1000);
    assert_int_equal(prn_ops_place(assigned, 2, &arena, &ops, NULL), 0);
    assert_true(ops.assigned);
    prn_ops_placement_text(&ops, &text);
    assert_string_equal(prn_buffer_text(&text),
                        "X takes none of the 4 nodes; the CPU has Conv (4).");
    /* Nobody else was asked. */
    ops = (struct prn_ops){.operators = &fused, .n_operators = 1};
    assert_int_equal(prn_ops_place(NULL, 0, &arena, &ops, NULL), 0);
    assert_int_equal(ops.n_providers, 0);
    prn_buffer_release(&text);
    prn_arena_release(&arena);
}

static void bad_traces_are_refused(void **state)
{
    (void)state;
    struct prony_error err;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_ops ops = {0};
    assert_true(read_text("", "[1]", NULL, &arena, &ops, &err) < 0);
    assert_true(read_text("{\"a\": 1}", "[1]", NULL, &arena, &ops, &err) < 0);
    assert_true(read_text("garbage", "[1]", NULL, &arena, &ops, &err) < 0);
    /* It ends with run 3: those that are there count, or all but the first if none is. */
    assert_int_equal(read_text(trace, "[3, 4]", NULL, &arena, &ops, &err), 0);
    assert_int_equal(ops.runs, 1);
    assert_int_equal(read_text(trace, "[4, 5]", NULL, &arena, &ops, &err), 0);
    assert_int_equal(ops.runs, 3);
    prn_arena_release(&arena);
}

static void only_known_times_have_a_rate(void **state)
{
    (void)state;
    struct prn_ops ops = {.resolution_ns = 1000};
    struct prn_ops_row row = {
        .ns = {15000, 20000, 25000}, .flops = 2e6, .flops_nodes = 2, .flops_ns = 20000};
    assert_near(prn_ops_rate(&ops, &row), 1e11, 1);
    row.ns.high = 25001; /* more than a quarter above */
    assert_true(isnan(prn_ops_rate(&ops, &row)));
    row.ns.high = NAN; /* one run only */
    assert_true(isnan(prn_ops_rate(&ops, &row)));
    row.ns.high = 21000;
    row.flops_ns = 19999; /* less than 10 µs each */
    assert_true(isnan(prn_ops_rate(&ops, &row)));
    row = (struct prn_ops_row){.ns = {1e6, 1e6, 1e6}, .flops_nodes = 1, .flops_ns = 1e6};
    assert_true(isnan(prn_ops_rate(&ops, &row)));
    row = (struct prn_ops_row){.flops = NAN};
    assert_true(isnan(prn_ops_rate(&ops, &row)));
}

/* ---- Differences ---- */

static struct prn_ops_row node_row(const char *name, const char *op, int64_t onnx_node, double ns)
{
    return (struct prn_ops_row){.name = name,
                                .op = op,
                                .nodes = 1,
                                .calls = 1,
                                .ns = {ns, ns, ns},
                                .onnx_node = onnx_node,
                                .onnx_name = onnx_node < 0 ? NULL : nodes[onnx_node].name,
                                .onnx_op = onnx_node < 0 ? NULL : nodes[onnx_node].op_type};
}

static struct prn_result result_of(struct prn_ops *ops, double median_ns, size_t point)
{
    return (struct prn_result){
        .name = "b", .ops = ops, .n_samples = 1, .point = point, .stats = {.median_ns = median_ns}};
}

static void expect_change(const struct prn_ops_change *change, const char *name, double ns,
                          double baseline_ns)
{
    assert_string_equal(change->name, name);
    assert_near(change->ns, ns, 1e-6);
    assert_near(change->baseline_ns, baseline_ns, 1e-6);
}

/* The fast one fuses: Gemm stands for MatMul, and what it calls Conv has Clip in it. */
static void differences_go_by_the_graph(void **state)
{
    (void)state;
    struct prn_ops_row fast_nodes[] = {node_row("clip_out_nchwc", "Conv", CONV, 50),
                                       node_row("x/MatMulAddFusion", "Gemm", MATMUL, 30),
                                       node_row("ReorderOutput", "ReorderOutput", -1, 2)};
    struct prn_ops_row slow_nodes[] = {
        node_row("/stem/Conv", "Conv", CONV, 70), node_row("/stem/Clip", "Clip", CLIP, 25),
        node_row("/fc/MatMul", "MatMul", MATMUL, 29), node_row("/stem/Add", "Add", ADD, 3),
        node_row("Relu_4", "Relu", RELU, 4)};
    struct prn_ops fast = {.nodes = fast_nodes, .n_nodes = 3, .has_ledger = true, .baseline = -1};
    struct prn_ops slow = {.nodes = slow_nodes, .n_nodes = 5, .has_ledger = true, .baseline = -1};
    struct prn_ops other = {.nodes = slow_nodes, .n_nodes = 5, .baseline = -1};
    struct prn_ops failed = {.error = "no profiler", .baseline = -1};
    fast.ledger[PRN_LEDGER_NODE].estimate = 82;
    fast.ledger[PRN_LEDGER_TOTAL].estimate = 90;
    slow.ledger[PRN_LEDGER_NODE].estimate = 131;
    slow.ledger[PRN_LEDGER_TOTAL].estimate = 140;
    struct prn_profile *profile = prn_profile_new();
    assert_non_null(profile);
    struct prn_result results[] = {result_of(&slow, 140, 0), result_of(&fast, 90, 0),
                                   result_of(&other, 10, 1), result_of(&failed, 200, 0)};
    profile->results = results;
    profile->n_results = 4;
    assert_int_equal(prn_ops_compare(profile, NULL), 0);
    assert_int_equal(slow.baseline, 1);
    assert_int_equal(fast.baseline, -1);  /* nothing is faster */
    assert_int_equal(other.baseline, -1); /* it was fed something else */
    assert_int_equal(failed.baseline, -1);
    assert_int_equal(slow.n_operator_changes, 7);
    expect_change(&slow.operator_changes[0], "Clip", 25, 0);
    expect_change(&slow.operator_changes[1], "Conv", 70, 50);
    expect_change(&slow.operator_changes[2], "Relu", 4, 0);
    expect_change(&slow.operator_changes[3], "Add", 3, 0);
    expect_change(&slow.operator_changes[4], "ReorderOutput", 0, 2);
    expect_change(&slow.operator_changes[5], PRN_OPS_OUTSIDE, 9, 8);
    expect_change(&slow.operator_changes[6], "MatMul", 29, 30);
    assert_int_equal(slow.n_node_changes, 6);
    expect_change(&slow.node_changes[0], "/stem/Clip", 25, 0);
    expect_change(&slow.node_changes[1], "/stem/Conv", 70, 50);
    expect_change(&slow.node_changes[2], "Relu_4", 4, 0); /* has no name in the graph */
    prn_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_lead_to_nodes),
        cmocka_unit_test(rows_come_from_a_trace),
        cmocka_unit_test(copies_are_no_nodes_of_a_provider),
        cmocka_unit_test(what_the_session_assigned_counts),
        cmocka_unit_test(bad_traces_are_refused),
        cmocka_unit_test(only_known_times_have_a_rate),
        cmocka_unit_test(differences_go_by_the_graph),
    };
    return cmocka_run_group_tests_name("ops", tests, NULL, NULL);
}
