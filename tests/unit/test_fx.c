/* FXPROTO: a good graph is read right; whatever is wrong with one is said in a line. */
#include "unit.h"

#include "model/fx/fx.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define T(text) ((char *)(uintptr_t)(text)) /* messages don't know const */

typedef OctomlFxproto__Value Value;
typedef OctomlFxproto__Node Node;

/* y = relu(x + w, …): a graph to change one thing of. */
struct graph {
    OctomlFxproto__Model model;
    OctomlFxproto__Graph graph;
    OctomlFxproto__FixedInput fixed;
    OctomlFxproto__TensorValue tensor;
    int64_t shape[80];
    OctomlFxproto__PlaceholderNode placeholder;
    OctomlFxproto__CallFunctionNode call;
    OctomlFxproto__Function target;
    OctomlFxproto__OpOverload op;
    OctomlFxproto__OutputNode output;
    OctomlFxproto__ListValue list;
    OctomlFxproto__DeviceValue device;
    OctomlFxproto__KwArgValue keywords[2];
    Value weight, x, w, y, result, extra;
    Node nodes[4];
    Node *node_list[4];
    Value *args[3], *items[2];
    OctomlFxproto__FixedInput *fixed_list[1];
    OctomlFxproto__KwArgValue *keyword_list[2];
};

static void refer(Value *value, const char *name)
{
    octoml_fxproto__value__init(value);
    value->value_case = OCTOML_FXPROTO__VALUE__VALUE_NODE_NAME;
    value->node_name = T(name);
}

static void make(struct graph *g)
{
    static const char *const names[] = {"w", "x", "y", "out"};
    memset(g, 0, sizeof *g);
    octoml_fxproto__model__init(&g->model);
    octoml_fxproto__graph__init(&g->graph);
    octoml_fxproto__fixed_input__init(&g->fixed);
    octoml_fxproto__tensor_value__init(&g->tensor);
    octoml_fxproto__placeholder_node__init(&g->placeholder);
    octoml_fxproto__call_function_node__init(&g->call);
    octoml_fxproto__function__init(&g->target);
    octoml_fxproto__op_overload__init(&g->op);
    octoml_fxproto__output_node__init(&g->output);
    octoml_fxproto__list_value__init(&g->list);
    octoml_fxproto__device_value__init(&g->device);
    g->tensor.dtype = OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_FLOAT32;
    g->tensor.shape = g->shape;
    g->shape[0] = 2;
    g->shape[1] = 3;
    g->tensor.n_shape = 2;
    g->tensor.weight_file_offset = 16;
    g->tensor.size_bytes = 24;
    octoml_fxproto__value__init(&g->weight);
    g->weight.value_case = OCTOML_FXPROTO__VALUE__VALUE_TENSOR;
    g->weight.tensor = &g->tensor;
    g->fixed.value = &g->weight;
    g->fixed_list[0] = &g->fixed;
    g->model.fixed_inputs = g->fixed_list;
    g->model.n_fixed_inputs = 1;
    for (size_t i = 0; i < 4; i++) {
        octoml_fxproto__node__init(&g->nodes[i]);
        g->nodes[i].name = T(names[i]);
        g->node_list[i] = &g->nodes[i];
    }
    g->nodes[0].kind_case = g->nodes[1].kind_case = OCTOML_FXPROTO__NODE__KIND_PLACEHOLDER;
    g->nodes[0].placeholder = g->nodes[1].placeholder = &g->placeholder;
    refer(&g->x, "x");
    refer(&g->w, "w");
    refer(&g->y, "y");
    octoml_fxproto__value__init(&g->extra);
    g->extra.value_case = OCTOML_FXPROTO__VALUE__VALUE_NONE;
    g->extra.none = true;
    g->op.namespace_ = T("aten");
    g->op.op_name = T("add");
    g->op.overload_name = T("Tensor");
    g->target.function_case = OCTOML_FXPROTO__FUNCTION__FUNCTION_OP_OVERLOAD;
    g->target.op_overload = &g->op;
    g->args[0] = &g->x;
    g->args[1] = &g->w;
    g->args[2] = &g->extra;
    g->call.target = &g->target;
    g->call.args = g->args;
    g->call.n_args = 3;
    for (size_t i = 0; i < 2; i++) {
        octoml_fxproto__kw_arg_value__init(&g->keywords[i]);
        g->keywords[i].name = T(i ? "b" : "a");
        g->keywords[i].value = &g->extra;
        g->keyword_list[i] = &g->keywords[i];
    }
    g->call.kwargs = g->keyword_list;
    g->call.n_kwargs = 2;
    g->nodes[2].kind_case = OCTOML_FXPROTO__NODE__KIND_CALL_FUNCTION;
    g->nodes[2].call_function = &g->call;
    /* (y, [x]) */
    g->items[0] = &g->y;
    g->items[1] = &g->x;
    g->list.items = g->items;
    g->list.n_items = 2;
    octoml_fxproto__value__init(&g->result);
    g->result.value_case = OCTOML_FXPROTO__VALUE__VALUE_TUPLE;
    g->result.tuple = &g->list;
    g->output.result = &g->result;
    g->nodes[3].kind_case = OCTOML_FXPROTO__NODE__KIND_OUTPUT;
    g->nodes[3].output = &g->output;
    g->graph.nodes = g->node_list;
    g->graph.n_nodes = 4;
    g->model.graph = &g->graph;
}

static void *packed(const struct graph *g, size_t *ret_bytes)
{
    *ret_bytes = octoml_fxproto__model__get_packed_size(&g->model);
    uint8_t *data = malloc(*ret_bytes + 1);
    assert_non_null(data);
    octoml_fxproto__model__pack(&g->model, data);
    return data;
}

static void test_reads(void **state)
{
    (void)state;
    struct graph g;
    struct prn_fx *fx = NULL;
    struct prony_error err;
    size_t bytes;
    make(&g);
    void *data = packed(&g, &bytes);
    if (prn_fx_unpack(data, bytes, &fx, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(fx->n_inputs, 1);
    assert_string_equal(fx->inputs[0], "x");
    assert_int_equal(fx->n_outputs, 2);
    prn_fx_free(fx);
    free(data);
    prn_fx_free(NULL);
}

/* ---- Faults ---- */

static char long_name[PRN_FX_NAME_MAX + 2];
static char many_digits[PRN_FX_DIGITS_MAX + 2];

static void integer(struct graph *g, const char *text)
{
    g->extra.value_case = OCTOML_FXPROTO__VALUE__VALUE_INTEGER;
    g->extra.integer = T(text);
}

#define FAULTS(X)                                                                                \
    X(no_nodes, g->graph.n_nodes = 0, "it has no nodes")                                         \
    X(no_graph, g->model.graph = NULL, "it has no nodes")                                        \
    X(twice, g->nodes[2].name = T("x"), "two nodes are called 'x'")                              \
    X(unnamed, g->nodes[2].name = T(""), "the node '' isn't an identifier")                      \
    X(code, g->nodes[2].name = T("y=1;import os"), "isn't an identifier")                        \
    X(long_name, g->nodes[2].name = long_name, "isn't an identifier")                            \
    X(escapes, g->nodes[2].name = T("\033[2J"), "the node '?[2J' isn't an identifier")           \
    X(unknown, g->x.node_name = T("z"), "node 'y' uses a node that isn't before it")             \
    X(cycle, g->x.node_name = T("y"), "node 'y' uses a node that isn't before it")               \
    X(kind, g->nodes[2].kind_case = OCTOML_FXPROTO__NODE__KIND__NOT_SET, "of no known kind")     \
    X(no_output, g->graph.n_nodes = 3, "the output is the last node")                            \
    X(two_outputs,                                                                               \
      (g->nodes[2].kind_case = OCTOML_FXPROTO__NODE__KIND_OUTPUT,                                \
       g->nodes[2].output = &g->output),                                                         \
      "the output is the last node")                                                             \
    X(late_placeholder,                                                                          \
      (g->node_list[1] = &g->nodes[2], g->node_list[2] = &g->nodes[1], g->args[0] = &g->w),      \
      "placeholder 'x' comes after other nodes")                                                 \
    X(fixed, (g->graph.nodes += 2, g->graph.n_nodes -= 2), "1 fixed inputs for 0 placeholders")  \
    X(fixed_node, g->fixed.value = &g->x, "node 'fixed input' uses a node that isn't before it") \
    X(fixed_nothing, g->fixed.value = NULL, "a value is missing")                                \
    X(namespace, g->op.namespace_ = T("os.path"), "the namespace 'os.path' isn't an identifier") \
    X(operator_code, g->op.op_name = T("add.__class__"), "isn't an identifier")                  \
    X(overload, g->op.overload_name = T(""), "the overload '' isn't an identifier")              \
    X(python,                                                                                    \
      (g->target.function_case = OCTOML_FXPROTO__FUNCTION__FUNCTION_PYTHON_OPERATOR,             \
       g->target.python_operator = T("attrgetter")),                                             \
      "calls an operator of Python that isn't run")                                              \
    X(torch,                                                                                     \
      (g->target.function_case = OCTOML_FXPROTO__FUNCTION__FUNCTION_TORCH_FUNCTION,              \
       g->target.torch_function = T("load")),                                                    \
      "calls a function of torch that isn't run")                                                \
    X(target, g->call.target = NULL, "node 'y' calls nothing")                                   \
    X(keyword, g->keywords[0].name = T("a=x)or(b"), "isn't an identifier")                       \
    X(keyword_twice, g->keywords[1].name = T("a"), "has an argument twice")                      \
    X(no_value, g->keywords[1].value = NULL, "a value is missing")                               \
    X(digits, integer(g, "12a"), "an integer that isn't one")                                    \
    X(sign, integer(g, "-"), "an integer that isn't one")                                        \
    X(many_digits, integer(g, many_digits), "an integer that isn't one")                         \
    X(utf8,                                                                                      \
      (g->extra.value_case = OCTOML_FXPROTO__VALUE__VALUE_STRING,                                \
       g->extra.string = T("\xff\xfe")),                                                         \
      "a text that isn't UTF-8")                                                                 \
    X(device,                                                                                    \
      (g->extra.value_case = OCTOML_FXPROTO__VALUE__VALUE_DEVICE, g->extra.device = &g->device,  \
       g->device.type = T("cuda:0")),                                                            \
      "the device 'cuda:0' isn't an identifier")                                                 \
    X(dtype_value,                                                                               \
      (g->extra.value_case = OCTOML_FXPROTO__VALUE__VALUE_DTYPE,                                 \
       g->extra.dtype = (OctomlFxproto__DtypeValue)7),                                           \
      "there is no element type 7")                                                              \
    X(format,                                                                                    \
      (g->extra.value_case = OCTOML_FXPROTO__VALUE__VALUE_MEMORY_FORMAT,                         \
       g->extra.memory_format = (OctomlFxproto__MemoryFormatValue)-1),                           \
      "there is no such memory format")                                                          \
    X(layout,                                                                                    \
      (g->extra.value_case = OCTOML_FXPROTO__VALUE__VALUE_LAYOUT,                                \
       g->extra.layout = (OctomlFxproto__LayoutValue)2),                                         \
      "there is no such layout")                                                                 \
    X(dtype, g->tensor.dtype = OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_INVALID,                       \
      "there is no element type 0")                                                              \
    X(negative, g->shape[0] = -2, "an impossible shape")                                         \
    X(huge, (g->shape[0] = INT64_MAX, g->shape[1] = 2), "an impossible shape")                   \
    X(huge_bytes, (g->shape[0] = INT64_MAX / 2, g->shape[1] = 1), "an impossible shape")         \
    X(rank, g->tensor.n_shape = 65, "more than 64 dimensions")                                   \
    X(bytes, g->tensor.size_bytes = 25, "a tensor has 25 bytes, its shape takes 24")             \
    X(file, g->tensor.weight_file_index = -1, "there is no file 'weights/-1'")                   \
    X(file_number, g->tensor.weight_file_index = PRN_FX_FILES_MAX, "there is no file 'weights/") \
    X(offset, g->tensor.weight_file_offset = -16, "isn't a multiple of 16")                      \
    X(alignment, g->tensor.weight_file_offset = 8, "isn't a multiple of 16")

#define X(name, change, text)                  \
    static void change_##name(struct graph *g) \
    {                                          \
        change;                                \
    }
FAULTS(X)
#undef X

static void test_faults(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        void (*change)(struct graph *g);
        const char *text;
    } faults[] = {
#define X(name, change, text) {#name, change_##name, text},
        FAULTS(X)
#undef X
    };
    memset(long_name, 'n', sizeof long_name - 1);
    memset(many_digits, '1', sizeof many_digits - 1);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct graph g;
        struct prn_fx *fx = NULL;
        struct prony_error err = {0};
        size_t bytes;
        make(&g);
        faults[i].change(&g);
        void *data = packed(&g, &bytes);
        int code = prn_fx_unpack(data, bytes, &fx, &err);
        free(data);
        if (code >= 0 || !strstr(err.text, faults[i].text) ||
            strncmp(err.text, "the FXPROTO graph can't be read: ", 33) != 0)
            fail_msg("%s: %d, %s", faults[i].name, code, err.text);
        assert_null(fx);
    }
}

static void expect_fault(const void *data, size_t bytes, const char *text)
{
    struct prn_fx *fx = NULL;
    struct prony_error err = {0};
    assert_true(prn_fx_unpack(data, bytes, &fx, &err) < 0);
    if (!strstr(err.text, text))
        fail_msg("'%s' instead of '%s'", err.text, text);
}

static void test_bytes(void **state)
{
    (void)state;
    struct graph g;
    size_t bytes;
    make(&g);
    char *data = packed(&g, &bytes);
    /* Cut short anywhere it is refused, but between the graph and what is fixed of it. */
    size_t accepted = 0;
    for (size_t i = 0; i < bytes; i++) {
        struct prn_fx *fx = NULL;
        if (prn_fx_unpack(data, i, &fx, NULL) < 0)
            continue;
        assert_int_equal(fx->n_inputs, 2);
        prn_fx_free(fx);
        accepted++;
    }
    assert_int_equal(accepted, 1);
    char *name = memmem(data, bytes, "Tensor", 6);
    assert_non_null(name);
    name[3] = '\0';
    expect_fault(data, bytes, "has a NUL inside");
    expect_fault("\x0b", 1, "isn't a protobuf message");
    expect_fault("\x08\x01", 2, "of the wrong kind");
    free(data);
    expect_fault("", PRN_FX_BYTES_MAX + 1, "more than");
}

static void test_depth(void **state)
{
    (void)state;
    struct graph g;
    Value values[64];
    OctomlFxproto__ListValue lists[64];
    Value *items[64];
    struct prn_fx *fx = NULL;
    for (size_t depth = 1; depth < 64; depth++) {
        size_t bytes;
        make(&g);
        items[0] = &g.extra;
        for (size_t i = 0; i < depth; i++) {
            octoml_fxproto__list_value__init(&lists[i]);
            lists[i].items = &items[i];
            lists[i].n_items = 1;
            octoml_fxproto__value__init(&values[i]);
            values[i].value_case = OCTOML_FXPROTO__VALUE__VALUE_LIST;
            values[i].list = &lists[i];
            if (i + 1 < 64)
                items[i + 1] = &values[i];
        }
        g.args[2] = &values[depth - 1];
        void *data = packed(&g, &bytes);
        /* Graph, Node, CallFunctionNode and Value are around the first list; each takes two. */
        if (depth <= 30) {
            assert_int_equal(prn_fx_unpack(data, bytes, &fx, NULL), 0);
            prn_fx_free(fx);
        } else {
            expect_fault(data, bytes, "values inside each other, more than 64");
        }
        free(data);
    }
}

/* ---- Files ---- */

static void write_file(int folder_fd, const char *name, const void *data, size_t bytes)
{
    int fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, bytes), (ssize_t)bytes);
    close(fd);
}

static void expect_open(const char *path, const char *text)
{
    struct prn_fx *fx = NULL;
    struct prony_error err = {0};
    int code = prn_fx_open(path, &fx, &err);
    if (text ? code >= 0 || !strstr(err.text, text) : code < 0)
        fail_msg("%d, '%s' instead of '%s'", code, err.text, text ? text : "success");
    prn_fx_free(fx);
}

static void test_files(void **state)
{
    (void)state;
    char folder[] = "/tmp/prony-test-fx-XXXXXX";
    char path[64];
    const char zeros[64] = "";
    struct graph g;
    size_t bytes;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.dat", folder);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    expect_open(path, "cannot open");
    make(&g);
    void *data = packed(&g, &bytes);
    write_file(fd, "model.dat", data, bytes);
    free(data);
    expect_open(path, "cannot open 'weights/0'");
    assert_int_equal(mkdirat(fd, "weights", 0700), 0);
    write_file(fd, "weights/0", zeros, 40);
    expect_open(path, NULL);
    write_file(fd, "weights/0", zeros, 39);
    expect_open(path, "a tensor of 24 bytes at 16 lies outside of 'weights/0', which has 39");
    /* Not by a way around. */
    write_file(fd, "elsewhere", zeros, 40);
    unlinkat(fd, "weights/0", 0);
    assert_int_equal(symlinkat("../elsewhere", fd, "weights/0"), 0);
    expect_open(path, "cannot open 'weights/0'");
    unlinkat(fd, "weights/0", 0);
    assert_int_equal(mkdirat(fd, "weights/0", 0700), 0);
    expect_open(path, "'weights/0' isn't a file");
    expect_open(folder, "isn't a file");
    unlinkat(fd, "weights/0", AT_REMOVEDIR);
    unlinkat(fd, "weights", AT_REMOVEDIR);
    unlinkat(fd, "elsewhere", 0);
    unlinkat(fd, "model.dat", 0);
    close(fd);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads), cmocka_unit_test(test_faults), cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_depth), cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
