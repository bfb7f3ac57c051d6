/* What the ONNX writer writes, the model reader reads back. */
#include "unit.h"

#include "base/buffer.h"
#include "model/parts.h"
#include "model/writer.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNT(a) PRN_ARRAY_SIZE(a)

/* Writes the model to memory; the text is the fault's when it fails. */
static int write_to_memory(struct prn_writer *w, struct prn_buffer *out, struct prony_error *err)
{
    int fd = memfd_create("model", MFD_CLOEXEC);
    assert_true(fd >= 0);
    int code = prn_writer_write(w, fd, "m.onnx", err);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(prn_buffer_read_fd(out, fd, "m.onnx", NULL), 0);
    close(fd);
    return code;
}

static const struct prn_dim open_dims[] = {
    {.value = -1, .param = "batch"}, {.value = 3}, {-1, NULL}};
static const struct prn_value input = {.name = "x",
                                       .kind = PRN_VALUE_TENSOR,
                                       .dtype = PRN_DTYPE_FLOAT,
                                       .has_shape = true,
                                       .rank = 3,
                                       .dims = open_dims};
static const struct prn_value shapeless = {
    .name = "y", .kind = PRN_VALUE_TENSOR, .dtype = PRN_DTYPE_INT64};

/* A node with an attribute of every kind. */
static void add_node(struct prn_writer *w)
{
    static const float floats[] = {1.5f, -0.0f};
    static const int64_t ints[] = {-1, INT64_MAX, 0};
    static const char *const strings[] = {"one", ""};
    static const int64_t dims[] = {2};
    static const struct prn_constant tensor = {.name = "t",
                                               .dtype = PRN_DTYPE_INT64,
                                               .rank = 1,
                                               .dims = dims,
                                               .elements = 2,
                                               .bytes = 16,
                                               .data = ints};
    static const char *const inner_output[] = {"inner"};
    static const char *const outer_input[] = {"x"};
    static struct prn_node inner_node = {.name = "copy",
                                         .op_type = "Identity",
                                         .domain = "",
                                         .n_inputs = 1,
                                         .inputs = outer_input,
                                         .n_outputs = 1,
                                         .outputs = inner_output};
    static const struct prn_value inner_value = {.name = "inner", .kind = PRN_VALUE_UNKNOWN};
    static const struct prn_graph graph = {.name = "body",
                                           .n_nodes = 1,
                                           .nodes = &inner_node,
                                           .n_outputs = 1,
                                           .outputs = &inner_value,
                                           .n_constants = 1,
                                           .constants = &tensor};
    static const struct prn_graph *const graphs[] = {&graph, &graph};
    static const struct prn_attribute attributes[] = {
        {.name = "f", .kind = PRN_ATTRIBUTE_FLOAT, .n = 1, .floats = floats},
        {.name = "i", .kind = PRN_ATTRIBUTE_INT, .n = 1, .ints = ints},
        {.name = "s", .kind = PRN_ATTRIBUTE_STRING, .n = 1, .strings = strings},
        {.name = "t", .kind = PRN_ATTRIBUTE_TENSOR, .n = 1, .tensor = &tensor},
        {.name = "g", .kind = PRN_ATTRIBUTE_GRAPH, .n = 1, .graphs = graphs},
        {.name = "fs", .kind = PRN_ATTRIBUTE_FLOATS, .n = 2, .floats = floats},
        {.name = "is", .kind = PRN_ATTRIBUTE_INTS, .n = 3, .ints = ints},
        {.name = "ss", .kind = PRN_ATTRIBUTE_STRINGS, .n = 2, .strings = strings},
        {.name = "gs", .kind = PRN_ATTRIBUTE_GRAPHS, .n = 2, .graphs = graphs},
    };
    static const char *const inputs[] = {"x", "", "w"};
    static const char *const outputs[] = {"y"};
    prn_writer_node(w, &(struct prn_node){.name = "node",
                                          .op_type = "Everything",
                                          .domain = "test",
                                          .n_inputs = COUNT(inputs),
                                          .inputs = inputs,
                                          .n_outputs = COUNT(outputs),
                                          .outputs = outputs,
                                          .n_attributes = COUNT(attributes),
                                          .attributes = attributes});
}

/* Counts up from the start, so that a chunk that comes twice or never is seen. */
static int count_up(void *context, void *data, size_t len, struct prony_error *err)
{
    (void)err;
    uint32_t *next = context;
    uint32_t *values = data;
    assert_true(len == PRN_WRITER_CHUNK || len % PRN_WRITER_CHUNK == 300000 % PRN_WRITER_CHUNK);
    for (size_t i = 0; i < len / 4; i++)
        values[i] = (*next)++;
    return 0;
}

static void add_initialisers(struct prn_writer *w, uint32_t *counter)
{
    static const int64_t dims[] = {3, 25000};
    static const int64_t none[] = {0};
    static const float one = 1;
    prn_writer_initialiser(w,
                           &(struct prn_constant){.name = "w",
                                                  .dtype = PRN_DTYPE_UINT32,
                                                  .rank = 2,
                                                  .dims = dims,
                                                  .elements = 75000,
                                                  .bytes = 300000},
                           &(struct prn_writer_source){count_up, counter});
    prn_writer_initialiser(
        w,
        &(struct prn_constant){
            .name = "one", .dtype = PRN_DTYPE_FLOAT, .elements = 1, .bytes = 4, .data = &one},
        NULL);
    prn_writer_initialiser(
        w,
        &(struct prn_constant){.name = "none", .dtype = PRN_DTYPE_FLOAT, .rank = 1, .dims = none},
        NULL);
}

static void check_attributes(const struct prn_node *node)
{
    assert_int_equal(node->n_attributes, 9);
    assert_true(prn_node_attribute(node, "f")->floats[0] == 1.5f);
    assert_int_equal(prn_node_int(node, "i", 7), -1);
    assert_string_equal(prn_node_attribute(node, "s")->strings[0], "one");
    const struct prn_attribute *tensor = prn_node_attribute(node, "t");
    assert_int_equal(tensor->kind, PRN_ATTRIBUTE_TENSOR);
    assert_memory_equal(tensor->tensor->data, ((const int64_t[]){-1, INT64_MAX}), 16);
    const struct prn_attribute *floats = prn_node_attribute(node, "fs");
    assert_int_equal(floats->n, 2);
    assert_true(signbit(floats->floats[1]));
    const struct prn_attribute *ints = prn_node_attribute(node, "is");
    assert_int_equal(ints->n, 3);
    assert_int_equal(ints->ints[1], INT64_MAX);
    const struct prn_attribute *strings = prn_node_attribute(node, "ss");
    assert_int_equal(strings->n, 2);
    assert_string_equal(strings->strings[1], "");
    const struct prn_attribute *graphs = prn_node_attribute(node, "gs");
    assert_int_equal(graphs->n, 2);
    assert_string_equal(graphs->graphs[1]->nodes[0].op_type, "Identity");
    assert_int_equal(graphs->graphs[1]->n_constants, 1);
    assert_string_equal(prn_node_attribute(node, "g")->graphs[0]->outputs[0].name, "inner");
}

static void test_everything_comes_back(void **state)
{
    (void)state;
    struct prony_error err;
    struct prn_buffer file = PRN_BUFFER_INIT(1 << 20);
    struct prn_model *model = NULL;
    uint32_t counter = 0;
    struct prn_writer *w = prn_writer_new("me", "1.2");
    assert_non_null(w);
    prn_writer_ir_version(w, 7);
    prn_writer_graph_name(w, "graph");
    prn_writer_opset(w, "", 17);
    prn_writer_opset(w, "test", 3);
    prn_writer_input(w, &input);
    prn_writer_output(w, &shapeless);
    add_initialisers(w, &counter);
    add_node(w);
    prn_writer_value(w, &(struct prn_value){.name = "v", .kind = PRN_VALUE_UNKNOWN});
    uint64_t bytes = prn_writer_bytes(w);
    assert_int_equal(write_to_memory(w, &file, &err), 0);
    prn_writer_free(w);
    assert_int_equal(file.len, bytes);

    if (prn_model_parse(file.data, file.len, "m.onnx", &model, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(model->ir_version, 7);
    assert_string_equal(model->producer, "me 1.2");
    assert_int_equal(model->n_opsets, 2);
    assert_string_equal(model->opsets[1].domain, "test");
    assert_int_equal(model->opsets[1].version, 3);
    const struct prn_graph *g = &model->graph;
    assert_string_equal(g->name, "graph");
    assert_int_equal(g->n_inputs, 1);
    assert_string_equal(g->inputs[0].dims[0].param, "batch");
    assert_int_equal(g->inputs[0].dims[1].value, 3);
    assert_int_equal(g->inputs[0].dims[2].value, -1);
    assert_false(g->outputs[0].has_shape);
    assert_int_equal(g->outputs[0].dtype, PRN_DTYPE_INT64);
    assert_string_equal(g->values[0].name, "v");
    assert_int_equal(g->n_constants, 3);
    const char *counted = g->constants[0].data; /* at any alignment */
    for (uint32_t i = 0; i < 75000; i++) {
        uint32_t value;
        memcpy(&value, counted + 4 * i, sizeof value);
        assert_int_equal(value, i);
    }
    assert_int_equal(g->constants[1].rank, 0);
    assert_int_equal(g->constants[2].elements, 0);
    assert_string_equal(g->nodes[0].domain, "test");
    assert_string_equal(g->nodes[0].inputs[1], "");
    check_attributes(&g->nodes[0]);
    prn_model_free(model);
    prn_buffer_release(&file);
}

static void test_external_reference(void **state)
{
    (void)state;
    static const int64_t dims[] = {4};
    struct prony_error err;
    struct prn_buffer file = PRN_BUFFER_INIT(1 << 20);
    struct prn_writer *w = prn_writer_new("me", "1");
    assert_non_null(w);
    prn_writer_initialiser(w,
                           &(struct prn_constant){.name = "w",
                                                  .dtype = PRN_DTYPE_FLOAT,
                                                  .rank = 1,
                                                  .dims = dims,
                                                  .elements = 4,
                                                  .bytes = 16,
                                                  .external_location = "w.bin",
                                                  .external_offset = 4096,
                                                  .external_length = 16},
                           NULL);
    assert_int_equal(write_to_memory(w, &file, &err), 0);
    prn_writer_free(w);
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, file.len, (const uint8_t *)file.data);
    assert_non_null(model);
    const Onnx__TensorProto *tensor = model->graph->initializer[0];
    assert_int_equal(tensor->data_location, ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL);
    assert_int_equal(tensor->n_external_data, 3);
    assert_string_equal(tensor->external_data[0]->value, "w.bin");
    assert_string_equal(tensor->external_data[1]->key, "offset");
    assert_string_equal(tensor->external_data[1]->value, "4096");
    assert_false(tensor->has_raw_data);
    onnx__model_proto__free_unpacked(model, NULL);
    prn_buffer_release(&file);
}

/* Writing must fail with this text, before a byte is written. */
static void expect_fault(struct prn_writer *w, int code, const char *text)
{
    struct prony_error err = {0};
    struct prn_buffer file = PRN_BUFFER_INIT(1 << 20);
    assert_int_equal(write_to_memory(w, &file, &err), code);
    assert_string_equal(err.text, text);
    assert_int_equal(file.len, 0);
    prn_buffer_release(&file);
    prn_writer_free(w);
}

static void test_faults_stick(void **state)
{
    (void)state;
    struct prn_writer *w = prn_writer_new("me", "1");
    assert_non_null(w);
    prn_writer_input(w, &(struct prn_value){.name = "list", .kind = PRN_VALUE_SEQUENCE});
    prn_writer_input(w, &input);
    expect_fault(w, PRONY_EUNSUPPORTED, "value 'list' cannot be written to an ONNX file");

    w = prn_writer_new("me", "1");
    assert_non_null(w);
    struct prn_attribute other = {.name = "types", .kind = PRN_ATTRIBUTE_OTHER, .n = 1};
    prn_writer_node(w,
                    &(struct prn_node){.op_type = "Odd", .n_attributes = 1, .attributes = &other});
    expect_fault(w, PRONY_EUNSUPPORTED, "attribute 'types' cannot be written to an ONNX file");

    w = prn_writer_new("me", "1");
    assert_non_null(w);
    prn_writer_initialiser(
        w, &(struct prn_constant){.name = "w", .dtype = PRN_DTYPE_FLOAT, .elements = 1, .bytes = 4},
        NULL);
    expect_fault(w, PRONY_EUNSUPPORTED, "initialiser 'w' cannot be written to an ONNX file");
}

static void test_too_deep(void **state)
{
    (void)state;
    /* A graph inside itself has no end. */
    struct prn_graph graph = {.name = "loop"};
    const struct prn_graph *graphs[] = {&graph};
    struct prn_attribute body = {
        .name = "body", .kind = PRN_ATTRIBUTE_GRAPH, .n = 1, .graphs = graphs};
    struct prn_node node = {.op_type = "Loop", .n_attributes = 1, .attributes = &body};
    graph.nodes = &node;
    graph.n_nodes = 1;
    struct prn_writer *w = prn_writer_new("me", "1");
    assert_non_null(w);
    prn_writer_node(w, &node);
    expect_fault(w, PRONY_ELIMIT, "deeply nested graph 'loop' cannot be written to an ONNX file");
}

static int never(void *context, void *data, size_t len, struct prony_error *err)
{
    (void)context, (void)data, (void)len;
    return prn_fail(err, PRONY_ECANCELED, "the source gave up");
}

static void test_too_large(void **state)
{
    (void)state;
    struct prn_writer *w = prn_writer_new("me", "1");
    assert_non_null(w);
    for (int i = 0; i < 3; i++)
        prn_writer_initialiser(w,
                               &(struct prn_constant){.name = "w",
                                                      .dtype = PRN_DTYPE_FLOAT,
                                                      .elements = INT64_MAX / 8,
                                                      .bytes = SIZE_MAX / 2},
                               &(struct prn_writer_source){never, NULL});
    expect_fault(w, PRONY_ELIMIT,
                 "cannot write 'm.onnx': the model is over 2 GiB, more than one ONNX file holds");
}

static void test_failures_are_passed_on(void **state)
{
    (void)state;
    struct prony_error err;
    struct prn_buffer file = PRN_BUFFER_INIT(1 << 20);
    struct prn_writer *w = prn_writer_new("me", "1");
    assert_non_null(w);
    prn_writer_initialiser(
        w, &(struct prn_constant){.name = "w", .dtype = PRN_DTYPE_FLOAT, .elements = 1, .bytes = 4},
        &(struct prn_writer_source){never, NULL});
    assert_int_equal(write_to_memory(w, &file, &err), PRONY_ECANCELED);
    assert_string_equal(err.text, "the source gave up");
    assert_int_equal(prn_writer_write(w, -1, "m.onnx", &err), PRONY_EIO);
    assert_string_equal(err.text, "cannot write 'm.onnx': Bad file descriptor");
    prn_writer_free(w);
    prn_buffer_release(&file);
    prn_writer_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_comes_back),
        cmocka_unit_test(test_external_reference),
        cmocka_unit_test(test_faults_stick),
        cmocka_unit_test(test_too_deep),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_failures_are_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
