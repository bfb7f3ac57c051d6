/* Shapes and work: small graphs made by hand with figures worked out by hand, graphs that compute
 * shapes, bodies, hostile ones, and the standard networks with their known totals. */
#include "unit.h"

#include "model/infer/infer.h"
#include "model/synth/synth.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ---- Making models ---- */

#define DIMS(...)                                                           \
    (sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) \
    {                                                                       \
        __VA_ARGS__                                                         \
    }

/* A model under construction: what is added stays until reset() at the end of a test. */
static struct prn_arena arena;
static struct prn_model model;
static struct prn_input inputs[16];
static struct prn_node *nodes;
static struct prn_constant constants[64];
static struct prn_value outputs[16];
static struct prn_attribute pending[16];
static size_t n_pending, nodes_capacity;

static int reset(void **state)
{
    (void)state;
    prn_arena_release(&arena);
    arena = PRN_ARENA_INIT((size_t)1 << 30);
    model = (struct prn_model){.path = "made.onnx", .producer = ""};
    nodes_capacity = 20000;
    nodes = PRN_ARENA_ARRAY(&arena, nodes_capacity, struct prn_node);
    model.graph.nodes = nodes;
    model.graph.constants = constants;
    model.graph.outputs = outputs;
    n_pending = 0;
    return nodes ? 0 : -1;
}

static int release(void **state)
{
    (void)state;
    prn_arena_release(&arena);
    return 0;
}

static int64_t *copy_dims(size_t rank, const int64_t *dims)
{
    int64_t *copy = PRN_ARENA_ARRAY(&arena, rank + 1, int64_t);
    memcpy(copy, dims, rank * sizeof *dims);
    return copy;
}

static void input(const char *name, int dtype, size_t rank, const int64_t *dims)
{
    struct prn_input *in = &inputs[model.n_inputs++];
    *in = (struct prn_input){.name = name, .dtype = dtype, .rank = rank};
    memcpy(in->dims, dims, rank * sizeof *dims);
}

static void weight(const char *name, int dtype, size_t rank, const int64_t *dims)
{
    struct prn_constant *c = &constants[model.graph.n_constants++];
    *c = (struct prn_constant){
        .name = name, .dtype = dtype, .rank = rank, .dims = copy_dims(rank, dims)};
    assert_int_equal(prn_dims_elements(dims, rank, &c->elements), 0);
    assert_int_equal(prn_dtype_bytes(dtype, dims, rank, &c->bytes), 0);
}

/* A constant with contents. */
static struct prn_constant *ints(const char *name, size_t n, const int64_t *values)
{
    weight(name, PRN_DTYPE_INT64, 1, (const int64_t[]){(int64_t)n});
    struct prn_constant *c = &constants[model.graph.n_constants - 1];
    c->data = copy_dims(n, values);
    return c;
}

static void scalar(const char *name, int64_t value)
{
    ints(name, 1, &value)->rank = 0;
}

static void floats(const char *name, size_t n, const float *values)
{
    weight(name, PRN_DTYPE_FLOAT, 1, (const int64_t[]){(int64_t)n});
    float *copy = PRN_ARENA_ARRAY(&arena, n, float);
    memcpy(copy, values, n * sizeof *values);
    constants[model.graph.n_constants - 1].data = copy;
}

/* Attributes for the next node. */
static void attr_ints(const char *name, size_t n, const int64_t *values)
{
    pending[n_pending++] = (struct prn_attribute){
        .name = name, .kind = PRN_ATTRIBUTE_INTS, .n = n, .ints = copy_dims(n, values)};
}

static void attr_int(const char *name, int64_t value)
{
    attr_ints(name, 1, &value);
    pending[n_pending - 1].kind = PRN_ATTRIBUTE_INT;
}

static void attr_string(const char *name, const char *value)
{
    const char **strings = PRN_ARENA_ARRAY(&arena, 1, const char *);
    strings[0] = value;
    pending[n_pending++] = (struct prn_attribute){
        .name = name, .kind = PRN_ATTRIBUTE_STRING, .n = 1, .strings = strings};
}

static void attr_graph(const char *name, const struct prn_graph *graph)
{
    const struct prn_graph **graphs = PRN_ARENA_ARRAY(&arena, 1, const struct prn_graph *);
    graphs[0] = graph;
    pending[n_pending++] =
        (struct prn_attribute){.name = name, .kind = PRN_ATTRIBUTE_GRAPH, .n = 1, .graphs = graphs};
}

static void attr_reference(const char *name, const char *refers_to)
{
    pending[n_pending++] = (struct prn_attribute){
        .name = name, .kind = PRN_ATTRIBUTE_OTHER, .n = 1, .refers_to = refers_to};
}

/* "a b _ c" into names; "_" is a value that is left out. */
static const char *const *split(const char *text, size_t *ret_count)
{
    const char **names = PRN_ARENA_ARRAY(&arena, 32, const char *);
    size_t n = 0;
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, " ");
        names[n++] = *p == '_' ? "" : prn_arena_strndup(&arena, p, len);
        p += len + (p[len] == ' ');
    }
    *ret_count = n;
    return names;
}

static struct prn_node make_node(const char *op, const char *in, const char *out)
{
    struct prn_node node = {.name = "", .domain = "", .op_type = op, .n_attributes = n_pending};
    const char *colon = strchr(op, ':');
    if (colon) {
        node.domain = prn_arena_strndup(&arena, op, (size_t)(colon - op));
        node.op_type = colon + 1;
    }
    struct prn_attribute *own = PRN_ARENA_ARRAY(&arena, n_pending + 1, struct prn_attribute);
    memcpy(own, pending, n_pending * sizeof *own);
    node.attributes = own;
    n_pending = 0;
    node.inputs = split(in, &node.n_inputs);
    node.outputs = split(out, &node.n_outputs);
    return node;
}

static void node(const char *op, const char *in, const char *out)
{
    assert_true(model.graph.n_nodes < nodes_capacity);
    nodes[model.graph.n_nodes++] = make_node(op, in, out);
}

/* A body of one node. */
static struct prn_graph *body(const char *in, const char *op, const char *op_in, const char *out)
{
    struct prn_graph *g = PRN_ARENA_NEW(&arena, struct prn_graph);
    struct prn_node *own = PRN_ARENA_NEW(&arena, struct prn_node);
    struct prn_value *values = PRN_ARENA_ARRAY(&arena, 32, struct prn_value);
    size_t n_out;
    *own = make_node(op, op_in, out);
    const char *const *ins = split(in, &g->n_inputs);
    const char *const *outs = split(out, &n_out);
    for (size_t i = 0; i < g->n_inputs; i++)
        values[i] = (struct prn_value){.name = ins[i], .kind = PRN_VALUE_UNKNOWN};
    for (size_t i = 0; i < n_out; i++)
        values[16 + i] = (struct prn_value){.name = outs[i], .kind = PRN_VALUE_UNKNOWN};
    g->name = "body";
    g->nodes = own;
    g->n_nodes = 1;
    g->inputs = values;
    g->outputs = values + 16;
    g->n_outputs = n_out;
    return g;
}

/* ---- Looking at results ---- */

static struct prn_work *analyse(const char *output_names)
{
    size_t n;
    const char *const *names = split(output_names, &n);
    for (size_t i = 0; i < n; i++)
        outputs[i] = (struct prn_value){.name = names[i], .kind = PRN_VALUE_TENSOR};
    model.graph.n_outputs = n;
    struct prn_work *work = NULL;
    struct prony_error err;
    if (prn_model_analyse(&model, inputs, &work, &err) < 0)
        fail_msg("%s", err.text);
    return work;
}

static void check_dims(const struct prn_work *work, size_t i, size_t rank, const int64_t *dims)
{
    const struct prn_value *v = &work->outputs[i];
    assert_true(v->has_shape);
    assert_int_equal(v->rank, rank);
    for (size_t k = 0; k < rank; k++)
        assert_int_equal(v->dims[k].value, dims[k]);
}

static const struct prn_uncounted *uncounted(const struct prn_work *work, const char *op)
{
    for (size_t i = 0; i < work->n_uncounted; i++)
        if (strcmp(work->uncounted[i].op_type, op) == 0)
            return &work->uncounted[i];
    fail_msg("%s is counted", op);
    return NULL;
}

/* The only output's shape, and the sums of a model that is counted completely. */
static void check(size_t rank, const int64_t *dims, double flops, double bytes)
{
    struct prn_work *work = analyse("y");
    for (size_t i = 0; i < work->n_uncounted; i++)
        fail_msg("%s: %s", work->uncounted[i].op_type, work->uncounted[i].reason);
    check_dims(work, 0, rank, dims);
    assert_near(work->flops, flops, 0);
    assert_near(work->bytes, bytes, 0);
    prn_work_free(work);
}

/* ---- Families ---- */

static void test_element_wise(void **state)
{
    input("x", PRN_DTYPE_FLOAT, DIMS(2, 1, 4));
    weight("b", PRN_DTYPE_FLOAT, DIMS(3, 1));
    node("Add", "x b", "s");
    node("Erf", "s", "y");
    /* 24 adds, 24 functions; Add reads 8 + 3 and writes 24, Erf reads and writes 24. */
    check(DIMS(2, 3, 4), 48, 4 * (8 + 3 + 24 + 48));
    reset(state);
    input("x", PRN_DTYPE_FLOAT16, DIMS(5));
    node("Sum", "x x x", "y");
    check(DIMS(5), 10, 2 * 20);
    reset(state);
    input("x", PRN_DTYPE_FLOAT, DIMS(2, 3));
    input("z", PRN_DTYPE_FLOAT, DIMS(2, 3));
    node("Less", "x z", "c");
    node("Where", "c x z", "y");
    check(DIMS(2, 3), 12, 2 * 24 + 6 + 6 + 3 * 24);
    reset(state);
    input("x", PRN_DTYPE_FLOAT, DIMS(2, 3, 4));
    weight("b", PRN_DTYPE_FLOAT, DIMS(3));
    attr_int("broadcast", 1);
    attr_int("axis", 1);
    node("Mul", "x b", "y");
    check(DIMS(2, 3, 4), 24, 4 * (24 + 3 + 24));
}

static void test_convolution(void **state)
{
    input("x", PRN_DTYPE_FLOAT, DIMS(1, 8, 10, 10));
    weight("w", PRN_DTYPE_FLOAT, DIMS(16, 4, 3, 3));
    weight("b", PRN_DTYPE_FLOAT, DIMS(16));
    attr_int("group", 2);
    attr_ints("strides", DIMS(2, 2));
    attr_ints("pads", DIMS(1, 1, 1, 1));
    node("Conv", "x w b", "y");
    check(DIMS(1, 16, 5, 5), 400.0 * (2 * 4 * 9 + 1), 4 * (800 + 576 + 16 + 400));
    reset(state);
    input("x", PRN_DTYPE_FLOAT, DIMS(1, 1, 7));
    weight("w", PRN_DTYPE_FLOAT, DIMS(2, 1, 3));
    attr_string("auto_pad", "SAME_UPPER");
    attr_ints("strides", DIMS(2));
    node("Conv", "x w", "y");
    check(DIMS(1, 2, 4), 8 * 2 * 3, 4 * (7 + 6 + 8));
    reset(state);
    /* A dilated kernel of 3 reaches over 5: 9 - 5 + 1. */
    input("x", PRN_DTYPE_UINT8, DIMS(1, 1, 9));
    weight("w", PRN_DTYPE_INT8, DIMS(1, 1, 3));
    attr_ints("dilations", DIMS(2));
    node("ConvInteger", "x w", "y");
    check(DIMS(1, 1, 5), 5 * 6, 9 + 3 + 4 * 5);
    reset(state);
    input("x", PRN_DTYPE_FLOAT, DIMS(1, 2, 3, 3));
    weight("w", PRN_DTYPE_FLOAT, DIMS(2, 4, 3, 3));
    attr_ints("strides", DIMS(2, 2));
    attr_ints("output_padding", DIMS(1, 1));
    node("ConvTranspose", "x w", "y");
    /* (3 - 1) · 2 + 3 + 1; every input element meets 4 · 9 weights. */
    check(DIMS(1, 4, 8, 8), 18.0 * 2 * 36, 4 * (18 + 72 + 256));
}

static void test_pooling(void **state)
{
    input("x", PRN_DTYPE_FLOAT, DIMS(1, 2, 6, 6));
    attr_ints("kernel_shape", DIMS(3, 3));
    attr_ints("strides", DIMS(2, 2));
    attr_int("ceil_mode", 1);
    node("MaxPool", "x", "p");
    node("GlobalAveragePool", "p", "y");
    /* ceil((6 - 3) / 2) + 1 = 3; 18 results of 9 comparisons; then 18 adds and 2 divisions. */
    check(DIMS(1, 2, 1, 1), 18 * 9 + 18 + 2, 4 * (72 + 18 + 18 + 2));
    reset(state);
    input("x", PRN_DTYPE_FLOAT, DIMS(1, 1, 4));
    attr_ints("kernel_shape", DIMS(2));
    node("AveragePool", "x", "y");
    check(DIMS(1, 1, 3), 3 * 3, 4 * 7);
}

static void test_matrix_products(void **state)
{
    input("a", PRN_DTYPE_FLOAT, DIMS(2, 1, 3, 4));
    weight("b", PRN_DTYPE_FLOAT, DIMS(5, 4, 6));
    node("MatMul", "a b", "y");
    check(DIMS(2, 5, 3, 6), 2.0 * 180 * 4, 4 * (24 + 120 + 180));
    reset(state);
    input("a", PRN_DTYPE_FLOAT, DIMS(4));
    weight("b", PRN_DTYPE_FLOAT, DIMS(4, 6));
    node("MatMul", "a b", "y");
    check(DIMS(6), 48, 4 * (4 + 24 + 6));
    reset(state);
    input("a", PRN_DTYPE_FLOAT, DIMS(4, 3));
    weight("b", PRN_DTYPE_FLOAT, DIMS(5, 4));
    weight("c", PRN_DTYPE_FLOAT, DIMS(5));
    attr_int("transA", 1);
    attr_int("transB", 1);
    node("Gemm", "a b c", "y");
    check(DIMS(3, 5), 15 * (2 * 4 + 1), 4 * (12 + 20 + 5 + 15));
    reset(state);
    input("a", PRN_DTYPE_FLOAT, DIMS(1, 2, 64));
    weight("b", PRN_DTYPE_UINT8, DIMS(32, 2, 16));
    weight("s", PRN_DTYPE_FLOAT, DIMS(64));
    attr_int("N", 32);
    attr_int("K", 64);
    node("com.microsoft:MatMulNBits", "a b s", "y");
    check(DIMS(1, 2, 32), 64 * 2 * 64, 4 * 128 + 1024 + 256 + 256);
    reset(state);
    input("a", PRN_DTYPE_FLOAT, DIMS(2, 3, 4));
    input("b", PRN_DTYPE_FLOAT, DIMS(2, 5, 4));
    attr_string("equation", "bij, bkj -> bik");
    node("Einsum", "a b", "y");
    check(DIMS(2, 3, 5), 2 * 2 * 3 * 4 * 5, 4 * (24 + 40 + 30));
    reset(state);
    input("a", PRN_DTYPE_FLOAT, DIMS(7, 2, 3));
    attr_string("equation", "...ij->...ji");
    node("Einsum", "a", "y");
    check(DIMS(7, 3, 2), 0, 4 * 84);
}

static void test_attention(void **state)
{
    /* 2 heads of 4; 3 queries, 5 past + 3 keys: 48 scores of 8 + 5 + 8 operations. */
    input("q", PRN_DTYPE_FLOAT, DIMS(1, 2, 3, 4));
    input("pk", PRN_DTYPE_FLOAT, DIMS(1, 2, 5, 4));
    node("Attention", "q q q _ pk pk", "y k v");
    struct prn_work *work = analyse("y k");
    check_dims(work, 0, DIMS(1, 2, 3, 4));
    check_dims(work, 1, DIMS(1, 2, 8, 4));
    assert_near(work->flops, 48 * 21, 0);
    prn_work_free(work);
    reset(state);
    input("x", PRN_DTYPE_FLOAT, DIMS(2, 3, 8));
    weight("w", PRN_DTYPE_FLOAT, DIMS(8, 24));
    weight("b", PRN_DTYPE_FLOAT, DIMS(24));
    attr_int("num_heads", 2);
    node("com.microsoft:Attention", "x w b", "y");
    /* 6 rows through 8 × 24 with a bias, then 2 · 2 · 3 · 3 scores. */
    check(DIMS(2, 3, 8), 6 * 24 * 17 + 36 * 21, 4 * (48 + 192 + 24 + 48));
    reset(state);
    input("q", PRN_DTYPE_FLOAT, DIMS(1, 1, 32));
    input("k", PRN_DTYPE_FLOAT, DIMS(1, 1, 16));
    input("p", PRN_DTYPE_FLOAT, DIMS(1, 2, 9, 8));
    weight("l", PRN_DTYPE_INT32, DIMS(1));
    scalar("t", 10);
    attr_int("num_heads", 4);
    attr_int("kv_num_heads", 2);
    node("com.microsoft:GroupQueryAttention", "q k k p p l t", "y pk pv");
    work = analyse("y pk");
    check_dims(work, 0, DIMS(1, 1, 32));
    check_dims(work, 1, DIMS(1, 2, 10, 8));
    assert_near(work->flops, 40 * 37, 0);
    prn_work_free(work);
}

static void test_recurrence(void **state)
{
    input("x", PRN_DTYPE_FLOAT, DIMS(7, 2, 3));
    weight("w", PRN_DTYPE_FLOAT, DIMS(2, 20, 3));
    weight("r", PRN_DTYPE_FLOAT, DIMS(2, 20, 5));
    attr_int("hidden_size", 5);
    attr_string("direction", "bidirectional");
    node("LSTM", "x w r", "y");
    check(DIMS(7, 2, 2, 5), 2 * 7 * 2 * (2.0 * 4 * 5 * 8 + 65), 4 * (42 + 120 + 200 + 140));
    reset(state);
    input("x", PRN_DTYPE_FLOAT, DIMS(2, 7, 3));
    weight("w", PRN_DTYPE_FLOAT, DIMS(1, 15, 3));
    weight("r", PRN_DTYPE_FLOAT, DIMS(1, 15, 5));
    attr_int("layout", 1);
    node("GRU", "x w r", "_ y");
    check(DIMS(2, 1, 5), 14 * (2.0 * 3 * 5 * 8 + 55), 4 * (42 + 45 + 75 + 10));
}

static void test_normalisation(void **state)
{
    input("x", PRN_DTYPE_FLOAT, DIMS(2, 8));
    weight("w", PRN_DTYPE_FLOAT, DIMS(8));
    node("LayerNormalization", "x w w", "n");
    node("Softmax", "n", "y");
    check(DIMS(2, 8), 16 * (7 + 5), 4 * (16 + 8 + 8 + 16 + 32));
    reset(state);
    input("x", PRN_DTYPE_FLOAT, DIMS(1, 4, 3, 3));
    weight("w", PRN_DTYPE_FLOAT, DIMS(4));
    node("BatchNormalization", "x w w w w", "n");
    attr_int("size", 5);
    node("LRN", "n", "y");
    check(DIMS(1, 4, 3, 3), 36 * 2 + 36 * 10, 4 * (36 + 16 + 36 + 72));
}

static void test_reductions(void **state)
{
    input("x", PRN_DTYPE_FLOAT, DIMS(2, 3, 4));
    attr_ints("axes", DIMS(-1));
    node("ReduceMean", "x", "m");
    ints("axes", DIMS(0, 1));
    attr_int("keepdims", 0);
    node("ReduceSum", "m axes", "y");
    /* 24 + 6, then 6. */
    check(DIMS(1), 36, 4 * (24 + 6) + 4 * 6 + 16 + 4);
    reset(state);
    input("x", PRN_DTYPE_FLOAT, DIMS(2, 9));
    scalar("k", 3);
    node("TopK", "x k", "v y");
    check(DIMS(2, 3), 18, 4 * 18 + 8 + 4 * 6 + 8 * 6);
}

static void test_moving(void **state)
{
    weight("table", PRN_DTYPE_FLOAT, DIMS(1000, 8));
    input("ids", PRN_DTYPE_INT64, DIMS(1, 4));
    node("Gather", "table ids", "g");
    attr_ints("perm", DIMS(0, 2, 1));
    node("Transpose", "g", "t");
    ints("shape", DIMS(0, -1));
    node("Reshape", "t shape", "y");
    /* Four rows read and written, eight bytes an id; Transpose 32 in, 32 out; Reshape nothing. */
    check(DIMS(1, 32), 0, 32 + 2 * 128 + 256);
    reset(state);
    input("x", PRN_DTYPE_FLOAT, DIMS(10, 4));
    ints("s", DIMS(8));
    ints("e", DIMS(-100));
    ints("a", DIMS(0));
    ints("d", DIMS(-3));
    node("Slice", "x s e a d", "y");
    check(DIMS(3, 4), 0, 2 * 48);
    reset(state);
    input("x", PRN_DTYPE_INT4, DIMS(5));
    node("Concat", "x x", "y");
    struct prn_work *work = analyse("y");
    /* The default axis is 1, which a vector doesn't have. */
    assert_string_equal(uncounted(work, "Concat")->reason,
                        "inputs or attributes don't fit the operator");
    prn_work_free(work);
    reset(state);
    input("x", PRN_DTYPE_INT4, DIMS(5));
    attr_int("axis", 0);
    node("Concat", "x x", "y");
    check(DIMS(10), 0, 3 + 3 + 5);
    reset(state);
    input("x", PRN_DTYPE_FLOAT, DIMS(7, 2));
    attr_int("num_outputs", 3);
    node("Split", "x", "a b y");
    check(DIMS(1, 2), 0, 4 * 28);
    reset(state);
    input("x", PRN_DTYPE_FLOAT, DIMS(1, 3, 5, 5));
    floats("scales", 4, (const float[]){1, 1, 2, 1.5F});
    attr_string("mode", "linear");
    node("Resize", "x _ scales", "y");
    check(DIMS(1, 3, 10, 7), 210 * 8, 4 * (75 + 4 + 210));
}

static void test_quantisation(void **state)
{
    (void)state;
    input("x", PRN_DTYPE_FLOAT, DIMS(6));
    weight("s", PRN_DTYPE_FLOAT, DIMS(1));
    weight("z", PRN_DTYPE_INT8, DIMS(1));
    node("QuantizeLinear", "x s z", "q");
    node("DequantizeLinear", "q s z", "y");
    check(DIMS(6), 6 * 5, (24 + 4 + 1 + 6) + (6 + 4 + 1 + 24));
}

/* ---- Shapes that the graph computes ---- */

static void test_folding(void **state)
{
    (void)state;
    /* [batch, seq, hidden] into [batch, seq, 4, hidden / 4], as exporters write it. */
    input("x", PRN_DTYPE_FLOAT, DIMS(2, 7, 12));
    scalar("i0", 0);
    scalar("i2", 2);
    scalar("four", 4);
    ints("zero", DIMS(0));
    ints("heads", DIMS(4));
    node("Shape", "x", "shape");
    node("Gather", "shape i0", "batch");
    node("Gather", "shape i2", "hidden");
    node("Div", "hidden four", "size");
    node("Unsqueeze", "batch zero", "batch1");
    node("Unsqueeze", "size zero", "size1");
    ints("open", DIMS(-1));
    attr_int("axis", 0);
    node("Concat", "batch1 open heads size1", "target");
    node("Reshape", "x target", "y");
    struct prn_work *work = analyse("y");
    check_dims(work, 0, DIMS(2, 7, 4, 3));
    assert_int_equal(work->n_uncounted, 0);
    prn_work_free(work);
}

static void test_folding_kernels(void **state)
{
    (void)state;
    ints("a", DIMS(7, -7, 5, 9));
    ints("b", DIMS(2, 2, -3, 9));
    node("Div", "a b", "div");               /* 3 -3 -1 1 */
    node("Mod", "a b", "mod");               /* 1 1 -1 0 */
    node("Sub", "div mod", "sub");           /* 2 -4 0 1 */
    node("Greater", "a b", "greater");       /* 1 0 1 0 */
    node("Where", "greater sub b", "where"); /* 2 2 0 9 */
    node("Max", "where b", "max");           /* 2 2 0 9 */
    attr_int("keepdims", 0);
    node("ReduceSum", "max", "total"); /* 13 */
    scalar("three", 3);
    scalar("minus", -4);
    node("Range", "total three minus", "range"); /* 13 9 5 */
    ints("twice", DIMS(2));
    node("Tile", "range twice", "tiled"); /* 13 9 5 13 9 5 */
    ints("s", DIMS(-1));
    ints("e", DIMS(-100));
    ints("d", DIMS(-2));
    node("Slice", "tiled s e zero d", "slice"); /* 5 13 9 */
    ints("zero", DIMS(0));
    node("ConstantOfShape", "slice", "y");
    struct prn_work *work = analyse("y");
    check_dims(work, 0, DIMS(5, 13, 9));
    prn_work_free(work);
}

static void test_division_by_zero_is_unknown(void **state)
{
    (void)state;
    ints("a", DIMS(7, INT64_MIN));
    ints("b", DIMS(0, -1));
    node("Div", "a b", "q");
    node("Mod", "q b", "m");
    node("ConstantOfShape", "m", "y");
    struct prn_work *work = analyse("y");
    check_dims(work, 0, DIMS(-1, -1));
    assert_string_equal(uncounted(work, "ConstantOfShape")->reason, "output shape unknown");
    prn_work_free(work);
}

/* ---- Bodies ---- */

static void test_if(void **state)
{
    input("c", PRN_DTYPE_BOOL, 0, (const int64_t[]){0});
    input("x", PRN_DTYPE_FLOAT, DIMS(4, 4));
    struct prn_graph *light = body("", "Relu", "x", "y");
    struct prn_graph *heavy = body("", "MatMul", "x x", "y");
    attr_graph("then_branch", light);
    attr_graph("else_branch", heavy);
    node("If", "c", "y");
    struct prn_work *work = analyse("y");
    check_dims(work, 0, DIMS(4, 4));
    assert_near(work->flops, 128, 0);
    assert_true(work->nodes[0].counted);
    assert_near(work->nodes[0].flops, 128, 0);
    assert_string_equal(uncounted(work, "If")->reason, "only the heavier branch is counted");
    prn_work_free(work);
    reset(state);
    input("x", PRN_DTYPE_FLOAT, DIMS(4, 4));
    scalar("c", 1);
    light = body("", "Relu", "x", "y");
    heavy = body("", "MatMul", "x x", "y");
    attr_graph("then_branch", light);
    attr_graph("else_branch", heavy);
    node("If", "c", "y");
    check(DIMS(4, 4), 16, 128);
}

static void test_loop(void **state)
{
    input("x", PRN_DTYPE_FLOAT, DIMS(4, 4));
    scalar("trips", 10);
    struct prn_graph *g = body("i c v", "MatMul", "v x", "w");
    struct prn_value *outs = PRN_ARENA_ARRAY(&arena, 3, struct prn_value);
    outs[0] = (struct prn_value){.name = "c", .kind = PRN_VALUE_UNKNOWN};
    outs[1] = outs[2] = (struct prn_value){.name = "w", .kind = PRN_VALUE_UNKNOWN};
    g->outputs = outs;
    g->n_outputs = 3;
    attr_graph("body", g);
    node("Loop", "trips _ x", "last y");
    check(DIMS(10, 4, 4), 1280, 10 * 3 * 64);
    reset(state);
    /* The same without a constant count: nothing is counted, and the reason is given. */
    input("x", PRN_DTYPE_FLOAT, DIMS(4, 4));
    input("trips", PRN_DTYPE_INT64, 0, (const int64_t[]){0});
    g = body("i c v", "MatMul", "v x", "w");
    g->outputs = outs = PRN_ARENA_ARRAY(&arena, 2, struct prn_value);
    g->n_outputs = 2;
    outs[0] = (struct prn_value){.name = "c", .kind = PRN_VALUE_UNKNOWN};
    outs[1] = (struct prn_value){.name = "w", .kind = PRN_VALUE_UNKNOWN};
    attr_graph("body", g);
    node("Loop", "trips _ x", "y");
    struct prn_work *work = analyse("y");
    check_dims(work, 0, DIMS(4, 4));
    assert_near(work->flops, 0, 0);
    assert_false(work->nodes[0].counted);
    assert_string_equal(uncounted(work, "MatMul")->reason, "trip count not constant");
    assert_string_equal(uncounted(work, "Loop")->reason, "trip count not constant");
    prn_work_free(work);
}

/* A carried value that grows from trip to trip has no shape to count with. */
static void test_growing_loop(void **state)
{
    (void)state;
    input("x", PRN_DTYPE_FLOAT, DIMS(4));
    scalar("trips", 3);
    attr_int("axis", 0);
    struct prn_graph *g = body("i c v", "Concat", "v x", "w");
    struct prn_value *outs = PRN_ARENA_ARRAY(&arena, 2, struct prn_value);
    outs[0] = (struct prn_value){.name = "c", .kind = PRN_VALUE_UNKNOWN};
    outs[1] = (struct prn_value){.name = "w", .kind = PRN_VALUE_UNKNOWN};
    g->outputs = outs;
    g->n_outputs = 2;
    attr_graph("body", g);
    node("Loop", "trips _ x", "y");
    struct prn_work *work = analyse("y");
    check_dims(work, 0, DIMS(-1));
    assert_string_equal(uncounted(work, "Concat")->reason, "input shape unknown");
    prn_work_free(work);
}

static void test_scan(void **state)
{
    (void)state;
    input("h", PRN_DTYPE_FLOAT, DIMS(4));
    input("x", PRN_DTYPE_FLOAT, DIMS(9, 4));
    struct prn_graph *g = body("s e", "Add", "s e", "t");
    struct prn_value *outs = PRN_ARENA_ARRAY(&arena, 2, struct prn_value);
    outs[0] = outs[1] = (struct prn_value){.name = "t", .kind = PRN_VALUE_UNKNOWN};
    g->outputs = outs;
    g->n_outputs = 2;
    attr_graph("body", g);
    attr_int("num_scan_inputs", 1);
    node("Scan", "h x", "last y");
    check(DIMS(9, 4), 36, 9 * 48);
}

static void test_function(void **state)
{
    (void)state;
    struct prn_function f = {.domain = "local", .name = "Reduce"};
    attr_reference("axes", "along");
    f.body = *body("v", "ReduceMax", "v", "w");
    model.functions = &f;
    model.n_functions = 1;
    input("x", PRN_DTYPE_FLOAT, DIMS(2, 3));
    attr_ints("along", DIMS(1));
    node("local:Reduce", "x", "m");
    attr_ints("along", DIMS(0));
    node("local:Reduce", "m", "y");
    check(DIMS(1, 1), 6 + 2, 4 * (6 + 2) + 4 * (2 + 1));
}

/* Each function calls the next twice: 2^60 calls, if nobody counted. */
static void test_explosion(void **state)
{
    (void)state;
    enum { LEVELS = 60 };
    static char names[LEVELS + 1][24];
    static struct prn_function functions[LEVELS];
    for (int i = 0; i <= LEVELS; i++)
        snprintf(names[i], sizeof names[i], i < LEVELS ? "local:F%d" : "Relu", i);
    for (int i = 0; i < LEVELS; i++) {
        struct prn_node *twice = PRN_ARENA_ARRAY(&arena, 2, struct prn_node);
        functions[i] = (struct prn_function){.domain = "local", .name = names[i] + 6};
        functions[i].body = *body("v", "Relu", "v", "w");
        twice[0] = make_node(names[i + 1], "v", "u");
        twice[1] = make_node(names[i + 1], "u", "w");
        functions[i].body.nodes = twice;
        functions[i].body.n_nodes = 2;
    }
    model.functions = functions;
    model.n_functions = LEVELS;
    input("x", PRN_DTYPE_FLOAT, DIMS(2, 3));
    node("local:F0", "x", "y");
    struct prn_work *work = analyse("y");
    assert_false(work->nodes[0].counted);
    bool said = false;
    for (size_t i = 0; i < work->n_uncounted; i++)
        said = said || strcmp(work->uncounted[i].reason, "too much nesting to expand") == 0;
    assert_true(said);
    prn_work_free(work);
}

/* ---- What can't be counted ---- */

static void test_uncounted(void **state)
{
    input("x", PRN_DTYPE_FLOAT, DIMS(2, 3));
    node("nobody.knows:Frobnicate", "x", "f");
    node("Relu", "f", "r");
    node("NonZero", "x", "y");
    struct prn_work *work = analyse("y");
    assert_string_equal(uncounted(work, "Frobnicate")->reason, "operator not known");
    assert_string_equal(uncounted(work, "Relu")->reason, "input shape unknown");
    assert_string_equal(uncounted(work, "NonZero")->reason, "output shape unknown");
    check_dims(work, 0, DIMS(2, -1));
    assert_int_equal(work->n_ops, 3);
    assert_int_equal(work->ops[0].counted, 0);
    assert_false(work->nodes[0].counted);
    prn_work_free(work);
    reset(state);
    /* A declared shape stands in, if it has numbers for all dimensions. */
    static const struct prn_dim dims[] = {{5, NULL}, {3, NULL}};
    static const struct prn_value declared = {.name = "f",
                                              .kind = PRN_VALUE_TENSOR,
                                              .dtype = PRN_DTYPE_FLOAT,
                                              .has_shape = true,
                                              .rank = 2,
                                              .dims = dims};
    model.graph.values = &declared;
    model.graph.n_values = 1;
    input("x", PRN_DTYPE_FLOAT, DIMS(2, 3));
    node("nobody.knows:Frobnicate", "x", "f");
    node("Relu", "f", "y");
    work = analyse("y");
    check_dims(work, 0, DIMS(5, 3));
    assert_int_equal(work->n_uncounted, 1);
    assert_near(work->flops, 15, 0);
    prn_work_free(work);
}

/* Every operator of the table with nothing, too little and odd things for inputs, and attributes
 * at their extremes: any answer is fine, a fault isn't. */
static void test_hostile_operators(void **state)
{
    static const int64_t extremes[] = {0, -1, 1, INT64_MIN, INT64_MAX, (int64_t)1 << 40, 3};
    static const char *const lists[] = {"kernel_shape", "strides", "dilations", "pads",  "axes",
                                        "perm",         "split",   "shape",     "starts"};
    static const char *const numbers[] = {"axis",      "group",    "num_heads",   "hidden_size",
                                          "blocksize", "keepdims", "kv_num_heads"};
    static const char *const inputs_of[] = {
        "", "s", "x", "x x", "x s z", "x w i e h", "z i i i i i i i i", "h h h", "i x w", "_ _ x"};
    size_t count;
    const struct prn_operator *operators = prn_operators(&count);
    for (size_t i = 0; i < count * PRN_ARRAY_SIZE(inputs_of) * PRN_ARRAY_SIZE(extremes); i++) {
        size_t op = i % count;
        const char *in = inputs_of[i / count % PRN_ARRAY_SIZE(inputs_of)];
        int64_t extreme = extremes[i / count / PRN_ARRAY_SIZE(inputs_of)];
        if (op == 0)
            reset(state);
        model.n_inputs = model.graph.n_nodes = model.graph.n_constants = 0;
        input("x", PRN_DTYPE_FLOAT, DIMS(2, 6, 4, 4));
        input("w", PRN_DTYPE_FLOAT, DIMS(3, 6, 3, 3));
        input("s", PRN_DTYPE_FLOAT, 0, extremes);
        input("z", PRN_DTYPE_FLOAT, DIMS(0, 5));
        input("h", PRN_DTYPE_FLOAT, DIMS((int64_t)1 << 40, 1 << 20, 2));
        ints("i", PRN_ARRAY_SIZE(extremes), extremes);
        weight("e", PRN_DTYPE_INT64, DIMS(0));
        for (size_t k = 0; i % 3 && k < PRN_ARRAY_SIZE(lists); k++)
            attr_ints(lists[k], 1 + k % 4, (const int64_t[]){extreme, extreme, 1, extreme});
        for (size_t k = 0; i % 2 && k < PRN_ARRAY_SIZE(numbers); k++)
            attr_int(numbers[k], extreme);
        node(operators[op].key, in, i % 5 ? "y" : "y y2 y3");
        struct prn_work *work = analyse("y");
        assert_true(work->flops >= 0 && work->bytes >= 0);
        assert_int_equal(work->n_nodes, 1);
        prn_work_free(work);
    }
}

static void test_overflow(void **state)
{
    (void)state;
    input("x", PRN_DTYPE_FLOAT, DIMS(1));
    ints("t", DIMS((int64_t)1 << 40, (int64_t)1 << 40, (int64_t)1 << 40));
    node("Expand", "x t", "y");
    struct prn_work *work = analyse("y");
    assert_string_equal(uncounted(work, "Expand")->reason, "size overflows");
    prn_work_free(work);
}

/* ---- Whole networks ---- */

static void test_many_nodes(void **state)
{
    (void)state;
    char in[32];
    char out[32];
    input("v0", PRN_DTYPE_FLOAT, DIMS(8, 8));
    for (int i = 0; i < 10000; i++) {
        snprintf(in, sizeof in, "v%d", i);
        snprintf(out, sizeof out, "v%d", i + 1);
        node(i % 2 ? "Relu" : "Sigmoid", in, out);
    }
    struct timespec begin;
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    struct prn_work *work = analyse("v10000");
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ms =
        (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) / 1e6;
    assert_near(work->flops, 64e4, 0);
    print_message("10,000 nodes: %.1f ms\n", ms);
    prn_work_free(work);
}

/* Published figures: 0.3 and 4.1 billion multiply-adds for an image of 224 × 224. */
static void check_network(const char *name, double flops)
{
    struct prony_error err = {0};
    struct prn_synth_options options = {.batch = PRN_SYNTH_DYNAMIC};
    struct prn_bindings none = {0};
    struct prn_arena own = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_input *bound = NULL;
    struct prn_model *network = NULL;
    struct prn_work *work = NULL;
    char path[64];
    int fd = memfd_create(name, MFD_CLOEXEC);
    assert_true(fd >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (prn_synth_write(prn_synth_find(name), &options, fd, name, &err) < 0 ||
        prn_model_open(path, &network, &err) < 0 ||
        prn_model_bind(network, &none, &own, &bound, &err) < 0 ||
        prn_model_analyse(network, bound, &work, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(work->n_uncounted, 0);
    check_dims(work, 0, DIMS(1, 1000));
    assert_near(work->flops, flops, 0);
    prn_work_free(work);
    prn_model_free(network);
    prn_arena_release(&own);
    close(fd);
}

static void test_networks(void **state)
{
    (void)state;
    check_network("mobilenet-v2", 621291944);
    check_network("resnet50", 8217634280);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, reset, release)
    const struct CMUnitTest tests[] = {
        TEST(test_element_wise),
        TEST(test_convolution),
        TEST(test_pooling),
        TEST(test_matrix_products),
        TEST(test_attention),
        TEST(test_recurrence),
        TEST(test_normalisation),
        TEST(test_reductions),
        TEST(test_moving),
        TEST(test_quantisation),
        TEST(test_folding),
        TEST(test_folding_kernels),
        TEST(test_division_by_zero_is_unknown),
        TEST(test_if),
        TEST(test_loop),
        TEST(test_growing_loop),
        TEST(test_scan),
        TEST(test_function),
        TEST(test_explosion),
        TEST(test_uncounted),
        TEST(test_hostile_operators),
        TEST(test_overflow),
        TEST(test_many_nodes),
        TEST(test_networks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
