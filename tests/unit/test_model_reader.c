/* The model reader: stored models read right, hand-made bad ones refused with a clear line. */
#include "unit.h"

#include "base/buffer.h"
#include "model/roles.h"
#include "model/bindings.h"
#include "model/parts.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct prn_model *open_stored(const char *path)
{
    struct prn_model *model = NULL;
    struct prony_error err;
    if (prn_model_open(path, &model, &err) < 0)
        fail_msg("%s", err.text);
    return model;
}

static const struct prn_constant *constant(const struct prn_graph *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_constants; i++)
        if (strcmp(graph->constants[i].name, name) == 0)
            return &graph->constants[i];
    fail_msg("no constant '%s'", name);
    return NULL;
}

/* ---- Writing messages ---- */

static void put_varint(struct prn_buffer *out, uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        prn_buffer_add_char(out, (char)(value | 0x80));
    prn_buffer_add_char(out, (char)value);
}

static void put_int(struct prn_buffer *out, unsigned field, int64_t value)
{
    put_varint(out, field << 3);
    put_varint(out, (uint64_t)value);
}

static void put_bytes(struct prn_buffer *out, unsigned field, const void *bytes, size_t len)
{
    put_varint(out, field << 3 | 2);
    put_varint(out, len);
    prn_buffer_append(out, bytes, len);
}

static void put_text(struct prn_buffer *out, unsigned field, const char *text)
{
    put_bytes(out, field, text, strlen(text));
}

/* Takes the child. */
static void put_message(struct prn_buffer *out, unsigned field, struct prn_buffer *child)
{
    put_bytes(out, field, prn_buffer_text(child), child->len);
    prn_buffer_release(child);
}

static struct prn_buffer message(void)
{
    return PRN_BUFFER_INIT((size_t)64 << 20);
}

/* "a b c" as repeated strings. */
static void put_words(struct prn_buffer *out, unsigned field, const char *words)
{
    while (*words) {
        size_t len = strcspn(words, " ");
        put_bytes(out, field, words, len);
        words += len + (words[len] == ' ');
    }
}

static struct prn_buffer node(const char *op_type, const char *inputs, const char *outputs)
{
    struct prn_buffer n = message();
    put_words(&n, 1, inputs);
    put_words(&n, 2, outputs);
    put_text(&n, 4, op_type);
    return n;
}

static void put_node(struct prn_buffer *graph, const char *op_type, const char *inputs,
                     const char *outputs)
{
    struct prn_buffer n = node(op_type, inputs, outputs);
    put_message(graph, 1, &n);
}

/* A graph with an input 'x' and these nodes to come. */
static struct prn_buffer graph_with_input(void)
{
    struct prn_buffer g = message();
    struct prn_buffer input = message();
    put_text(&input, 1, "x");
    put_message(&g, 11, &input);
    put_text(&g, 2, "g");
    return g;
}

static struct prn_buffer tensor(const char *name, int dtype, const int64_t *dims, size_t rank)
{
    struct prn_buffer t = message();
    for (size_t i = 0; i < rank; i++)
        put_int(&t, 1, dims[i]);
    put_int(&t, 2, dtype);
    put_text(&t, 8, name);
    return t;
}

static struct prn_buffer model_of(struct prn_buffer *graph)
{
    struct prn_buffer m = message();
    put_int(&m, 1, 8);
    put_message(&m, 7, graph);
    return m;
}

/* Parses a model (and takes it), which must fail in these words. */
static void expect_refused(struct prn_buffer *m, int code, const char *words)
{
    struct prn_model *model = NULL;
    struct prony_error err = {0};
    int got = prn_model_parse(prn_buffer_text(m), m->len, "m.onnx", &model, &err);
    prn_buffer_release(m);
    prn_model_free(got == 0 ? model : NULL);
    assert_string_not_equal(err.text, "");
    assert_contains(err.text, words);
    assert_contains(err.text, "'m.onnx'");
    assert_int_equal(got, code);
    assert_int_equal(err.code, code);
}

static void expect_graph_refused(struct prn_buffer *graph, int code, const char *words)
{
    struct prn_buffer m = model_of(graph);
    expect_refused(&m, code, words);
}

/* ---- Good models ---- */

static void test_reads_a_network(void **state)
{
    (void)state;
    struct prn_model *m = open_stored(unit_data("mlp.onnx"));
    assert_int_equal(m->ir_version, 8);
    assert_string_equal(m->producer, "prony tests 1");
    assert_int_equal(m->n_opsets, 1);
    assert_string_equal(m->opsets[0].domain, "");
    assert_int_equal(m->opsets[0].version, 17);
    assert_int_equal(m->n_parameters, 4 * 8 + 8 + 8 * 2 + 2);
    assert_int_equal(m->parameter_bytes, 4 * 58);
    assert_int_equal(m->external_bytes, 0);
    assert_int_equal(m->n_inputs, 1);
    const struct prn_value *x = m->inputs[0];
    assert_string_equal(x->name, "x");
    assert_int_equal(x->dtype, PRN_DTYPE_FLOAT);
    assert_int_equal(x->rank, 2);
    assert_int_equal(x->dims[0].value, -1);
    assert_string_equal(x->dims[0].param, "batch");
    assert_int_equal(x->dims[1].value, 4);
    assert_null(x->dims[1].param);

    assert_int_equal(m->graph.n_nodes, 3);
    const struct prn_node *last = &m->graph.nodes[2];
    assert_string_equal(last->name, "layer2");
    assert_string_equal(last->op_type, "Gemm");
    assert_int_equal(last->n_inputs, 3);
    assert_string_equal(last->inputs[1], "w2");
    assert_near(prn_node_attribute(last, "alpha")->floats[0], 0.5, 0);
    assert_null(prn_node_attribute(last, "beta"));
    assert_int_equal(prn_node_int(last, "transB", 7), 7);

    float one;
    memcpy(&one, constant(&m->graph, "w1")->data, sizeof one);
    assert_near(one, 1, 0);
    prn_model_free(m);
}

static void test_decodes_typed_fields(void **state)
{
    (void)state;
    struct prn_model *m = open_stored(unit_data("typed.onnx"));
    const struct {
        const char *name;
        size_t bytes;
        const void *data;
    } want[] = {
        {"f", 8, (float[]){1.5f, -2}},
        {"i64", 24, (int64_t[]){1, -1, INT64_C(1) << 40}},
        {"i8", 2, (int8_t[]){-3, 4}},
        {"h", 4, (uint16_t[]){0x3c00, 0x4000}},
        {"u32", 8, (uint32_t[]){7, 0xffffffff}},
        {"d", 8, (double[]){0.25}},
        {"c", 8, (float[]){1, 2}},
        {"i4", 2, (uint8_t[]){0x21, 0x03}},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(want); i++) {
        const struct prn_constant *c = constant(&m->graph, want[i].name);
        assert_int_equal(c->bytes, want[i].bytes);
        assert_non_null(c->data);
        assert_memory_equal(c->data, want[i].data, want[i].bytes);
    }
    assert_int_equal(constant(&m->graph, "s")->elements, 2);
    assert_int_equal(constant(&m->graph, "s")->bytes, 0);
    assert_int_equal(constant(&m->graph, "empty")->elements, 0);
    prn_model_free(m);
}

static void test_reads_unpacked_typed_fields(void **state)
{
    (void)state;
    struct prn_buffer g = message();
    struct prn_buffer t = tensor("t", PRN_DTYPE_INT64, (int64_t[]){4}, 1);
    put_int(&t, 7, 5);
    put_bytes(&t, 7, "\x06\x07", 2);
    put_int(&t, 7, -1);
    put_message(&g, 5, &t);
    struct prn_buffer bytes = model_of(&g);
    struct prn_model *m = NULL;
    assert_int_equal(prn_model_parse(bytes.data, bytes.len, "m.onnx", &m, NULL), 0);
    assert_memory_equal(constant(&m->graph, "t")->data, ((int64_t[]){5, 6, 7, -1}), 32);
    prn_model_free(m);
    prn_buffer_release(&bytes);
}

static void test_reads_graphs_in_graphs(void **state)
{
    (void)state;
    struct prn_model *m = open_stored(unit_data("control.onnx"));
    assert_int_equal(m->n_parameters, 3 + 3);
    const struct prn_attribute *branch = prn_node_attribute(&m->graph.nodes[0], "then_branch");
    assert_int_equal(branch->kind, PRN_ATTRIBUTE_GRAPH);
    assert_int_equal(branch->n, 1);
    assert_string_equal(branch->graphs[0]->nodes[0].op_type, "Add");
    assert_string_equal(m->graph.nodes[1].inputs[1], "");
    prn_model_free(m);
}

static void test_reads_functions(void **state)
{
    (void)state;
    struct prn_model *m = open_stored(unit_data("functions.onnx"));
    assert_int_equal(m->n_functions, 2);
    assert_string_equal(m->functions[0].name, "Twice");
    assert_string_equal(m->functions[0].domain, "local");
    assert_int_equal(m->functions[1].body.n_nodes, 2);
    assert_string_equal(m->functions[1].body.outputs[0].name, "c");
    prn_model_free(m);
}

static void test_counts_values_of_sparse_initialisers(void **state)
{
    (void)state;
    struct prn_model *m = open_stored(unit_data("sparse.onnx"));
    assert_int_equal(m->n_parameters, 3);
    assert_int_equal(m->parameter_bytes, 3 * 4);
    const struct prn_constant *w = constant(&m->graph, "w");
    assert_int_equal(w->rank, 2);
    assert_int_equal(w->dims[0], 4);
    assert_int_equal(w->elements, 12);
    assert_null(w->data);
    prn_model_free(m);
}

static void test_locates_external_data(void **state)
{
    (void)state;
    struct prn_model *m = open_stored(unit_data("external.onnx"));
    assert_int_equal(m->n_parameters, 40);
    assert_int_equal(m->external_bytes, 160);
    assert_int_equal(m->parameter_bytes, 160);
    assert_int_equal(m->n_external_files, 1);
    const struct prn_constant *b = constant(&m->graph, "b");
    assert_string_equal(b->external_location, "external.bin");
    assert_int_equal(b->external_offset, 144);
    assert_int_equal(b->external_length, 32);
    assert_null(b->data);
    prn_model_free(m);
}

/* A tensor of 3 GiB, most of it a hole in the file: stepped over, and its length is 64 bits. */
static void test_reads_more_than_two_gib(void **state)
{
    (void)state;
    const uint64_t weights = UINT64_C(3) << 30;
    struct prn_buffer t = tensor("w", PRN_DTYPE_UINT8, (int64_t[]){(int64_t)weights}, 1);
    put_varint(&t, 9 << 3 | 2);
    put_varint(&t, weights);
    struct prn_buffer g = message();
    put_varint(&g, 5 << 3 | 2);
    put_varint(&g, t.len + weights);
    struct prn_buffer m = message();
    put_varint(&m, 7 << 3 | 2);
    put_varint(&m, g.len + t.len + weights);
    prn_buffer_append(&m, g.data, g.len);
    prn_buffer_append(&m, t.data, t.len);

    char path[] = "/tmp/prony-large-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, m.data, m.len), m.len);
    assert_int_equal(ftruncate(fd, (off_t)(m.len + weights)), 0);
    close(fd);
    struct prn_model *model = open_stored(path);
    assert_int_equal(model->n_parameters, weights);
    const struct prn_constant *w = constant(&model->graph, "w");
    assert_int_equal(w->bytes, weights);
    assert_int_equal(((const char *)w->data)[weights - 1], 0);
    prn_model_free(model);
    unlink(path);
    prn_buffer_release(&m);
    prn_buffer_release(&g);
    prn_buffer_release(&t);
}

/* ---- Bad bytes ---- */

static void test_refuses_bad_wire_format(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len;
        const char *words;
    } cases[] = {
        {"", 0, "it is empty"},
        {"\x08\x08", 2, "it has no graph"},
        {"\x08", 1, "truncated"},
        {"\x3a\x7f\x01", 3, "graph at byte 0 takes 127 bytes, 1 are left"},
        {"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "18446744073709551615 bytes"},
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11, "isn't an ONNX model, or damaged"},
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11, "isn't an ONNX model, or damaged"},
        {"\x13\x14", 2, "isn't an ONNX model, or damaged at byte 0"},
        {"\x06\x00", 2, "isn't an ONNX model, or damaged at byte 0"},
        {"\x02\x00", 2, "isn't an ONNX model, or damaged at byte 0"},
        {"\x38\x00", 2, "ModelProto.graph at byte 1 has the wrong type"},
        {"\x3a\x02\x0a\x01", 4, "GraphProto.node at byte 2 is longer than what holds it"},
        {"\x3a\x00\x3a\x00", 4, "ModelProto.graph at byte 4 is there twice"},
        {"\x3a\x05\x12\x03"
         "a\0b",
         7, "GraphProto.name at byte 4 holds a NUL byte"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_buffer m = message();
        prn_buffer_append(&m, cases[i].bytes, cases[i].len);
        expect_refused(&m, PRONY_EFORMAT, cases[i].words);
    }
}

static void test_names_what_else_a_file_is(void **state)
{
    (void)state;
    static const struct {
        const char *begins;
        const char *words;
    } cases[] = {
        {"PK\x03\x04 and more", "it is a ZIP archive, not an ONNX model"},
        {"<html>\nnot found\n</html>\n", "it is an HTML page, not an ONNX model"},
        {"not found\n", "it is text, not an ONNX model"},
        {"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"},
        {"\x1f\x8b\x08\x08", "compressed with gzip"},
        {"\x93NUMPY\x01", "a NumPy array"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_buffer m = message();
        prn_buffer_add(&m, cases[i].begins);
        expect_refused(&m, PRONY_EFORMAT, cases[i].words);
    }
}

static void test_refuses_what_is_no_file(void **state)
{
    (void)state;
    struct prn_model *m = NULL;
    struct prony_error err;
    assert_int_equal(prn_model_open(unit_data(""), &m, &err), PRONY_EFORMAT);
    assert_contains(err.text, "it is a folder");
    assert_int_equal(prn_model_open("/dev/zero", &m, &err), PRONY_EFORMAT);
    assert_contains(err.text, "isn't a regular file");
    assert_int_equal(prn_model_open(unit_data("no such file"), &m, &err), PRONY_ENOENT);
    assert_contains(err.text, "no such file");
    assert_null(m);
}

static void test_every_cut_is_refused(void **state)
{
    (void)state;
    struct prn_buffer bytes = message();
    int fd = open(unit_data("control.onnx"), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(prn_buffer_read_fd(&bytes, fd, "control.onnx", NULL), 0);
    close(fd);
    /* The opset, six bytes, is the last field: cut right before it, the file is whole again. */
    for (size_t n = 0; n + 6 < bytes.len; n++) {
        struct prn_buffer cut = message();
        prn_buffer_append(&cut, bytes.data, n);
        expect_refused(&cut, PRONY_EFORMAT, "cannot read");
    }
    prn_buffer_release(&bytes);
}

/* A million graphs, each the body of a node of the next; written from the inside out. */
static void test_refuses_a_million_nested_graphs(void **state)
{
    (void)state;
    static const unsigned fields[] = {6, 5, 1}; /* AttributeProto.g, NodeProto.attribute, node */
    size_t size = (size_t)20 << 20;
    char *bytes = malloc(size);
    assert_non_null(bytes);
    char *at = bytes + size;
    for (int i = 0; i < 3000001; i++) {
        struct prn_buffer head = message();
        put_varint(&head, (i == 3000000 ? 7 : fields[i % 3]) << 3 | 2);
        put_varint(&head, (uint64_t)(bytes + size - at));
        at -= head.len;
        assert_true(at >= bytes);
        memcpy(at, head.data, head.len);
        prn_buffer_release(&head);
    }
    struct prn_buffer m = message();
    prn_buffer_append(&m, at, (size_t)(bytes + size - at));
    free(bytes);
    expect_refused(&m, PRONY_ELIMIT, "graphs are nested more than 64 levels deep");
}

/* ---- Bad graphs ---- */

static void test_refuses_cycles(void **state)
{
    (void)state;
    struct prn_buffer g = graph_with_input();
    put_node(&g, "Add", "x b", "a");
    put_node(&g, "Relu", "a", "b");
    expect_graph_refused(&g, PRONY_EFORMAT, "has a cycle through node 0 (Add)");

    g = graph_with_input();
    put_node(&g, "Relu", "x", "y");
    put_node(&g, "Add", "y z", "z");
    expect_graph_refused(&g, PRONY_EFORMAT, "has a cycle through node 1 (Add)");
}

/* The cycle runs through the name that a graph inside a node takes from outside. */
static void test_refuses_cycles_through_inner_graphs(void **state)
{
    (void)state;
    struct prn_buffer inner = message();
    put_node(&inner, "Relu", "late", "inner_y");
    struct prn_buffer attribute = message();
    put_text(&attribute, 1, "body");
    put_int(&attribute, 20, 5);
    put_message(&attribute, 6, &inner);
    struct prn_buffer loop = node("Loop", "x", "early");
    put_message(&loop, 5, &attribute);
    struct prn_buffer g = graph_with_input();
    put_message(&g, 1, &loop);
    put_node(&g, "Relu", "early", "late");
    expect_graph_refused(&g, PRONY_EFORMAT, "has a cycle through node 0 (Loop)");
}

static void test_refuses_cycles_in_inner_graphs(void **state)
{
    (void)state;
    struct prn_buffer inner = message();
    put_text(&inner, 2, "inside");
    put_node(&inner, "Add", "x b", "a");
    put_node(&inner, "Relu", "a", "b");
    struct prn_buffer attribute = message();
    put_int(&attribute, 20, 5);
    put_message(&attribute, 6, &inner);
    struct prn_buffer loop = node("Loop", "x", "y");
    put_message(&loop, 5, &attribute);
    struct prn_buffer g = graph_with_input();
    put_message(&g, 1, &loop);
    expect_graph_refused(&g, PRONY_EFORMAT, "graph 'inside' has a cycle");
}

/* "Relu Sin Cos": the types of a graph's nodes, in its order. */
static const char *types_of(const struct prn_graph *g)
{
    static char text[256];
    text[0] = '\0';
    for (size_t i = 0; i < g->n_nodes; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "",
                 g->nodes[i].op_type);
    return text;
}

static struct prn_model *parse_graph(struct prn_buffer *graph, struct prn_buffer *bytes)
{
    struct prn_model *m = NULL;
    struct prony_error err = {0};
    *bytes = model_of(graph);
    int code = prn_model_parse(bytes->data, bytes->len, "m.onnx", &m, &err);
    if (code < 0)
        fail_msg("%s", err.text);
    return m;
}

static void test_sorts_nodes(void **state)
{
    (void)state;
    struct prn_buffer g = graph_with_input();
    put_node(&g, "Relu", "a", "y");
    put_node(&g, "Cos", "x", "c");
    put_node(&g, "Sin", "b c", "a");
    put_node(&g, "Tan", "x", "b");
    struct prn_buffer bytes;
    struct prn_model *m = parse_graph(&g, &bytes);
    assert_string_equal(types_of(&m->graph), "Tan Cos Sin Relu");
    assert_int_equal(m->graph.nodes[0].place, 3);
    assert_int_equal(m->graph.nodes[3].place, 0);
    assert_string_equal(m->misplaced, "node 0 (Relu) uses 'a' before it is made");
    prn_model_free(m);
    prn_buffer_release(&bytes);
}

/* A graph inside a node may be out of order, and may need what the graph around makes later. */
static void test_sorts_graphs_in_graphs(void **state)
{
    (void)state;
    struct prn_buffer inner = message();
    put_text(&inner, 2, "inside");
    put_node(&inner, "Relu", "a", "b");
    put_node(&inner, "Add", "x late", "a");
    struct prn_buffer attribute = message();
    put_int(&attribute, 20, 5);
    put_message(&attribute, 6, &inner);
    struct prn_buffer loop = node("Loop", "x", "y");
    put_message(&loop, 5, &attribute);
    struct prn_buffer g = graph_with_input();
    put_message(&g, 1, &loop);
    put_node(&g, "Sin", "x", "late");
    struct prn_buffer bytes;
    struct prn_model *m = parse_graph(&g, &bytes);
    assert_string_equal(types_of(&m->graph), "Sin Loop");
    assert_string_equal(types_of(m->graph.nodes[1].attributes[0].graphs[0]), "Add Relu");
    prn_model_free(m);
    prn_buffer_release(&bytes);
}

/* A value's declaration whose dimensions have these names. */
static void put_dims(struct prn_buffer *graph, const char *name, const char *const *params,
                     size_t n)
{
    struct prn_buffer shape = message();
    for (size_t i = 0; i < n; i++) {
        struct prn_buffer dim = message();
        put_text(&dim, 2, params[i]);
        put_message(&shape, 1, &dim);
    }
    struct prn_buffer tensor_type = message();
    put_int(&tensor_type, 1, PRN_DTYPE_FLOAT);
    put_message(&tensor_type, 2, &shape);
    struct prn_buffer type = message();
    put_message(&type, 1, &tensor_type);
    struct prn_buffer value = message();
    put_text(&value, 1, name);
    put_message(&value, 2, &type);
    put_message(graph, 11, &value);
}

/* What exporters write for "unknown" names nothing, so its sizes needn't be equal. */
static void test_placeholders_are_not_names(void **state)
{
    (void)state;
    static const char *const params[] = {"?", "?", "", "None", "-1", "batch"};
    struct prn_buffer g = message();
    put_text(&g, 2, "g");
    put_dims(&g, "x", params, PRN_ARRAY_SIZE(params));
    struct prn_buffer bytes;
    struct prn_model *m = parse_graph(&g, &bytes);
    for (size_t i = 0; i < 5; i++)
        assert_null(m->inputs[0]->dims[i].param);
    assert_string_equal(m->inputs[0]->dims[5].param, "batch");

    struct prn_arena arena = PRN_ARENA_INIT(1 << 20);
    struct prn_shape_binding shape = {"x", 6, {1, 48, 192, 2, 3, 4}};
    struct prn_bindings bindings = {.n_shapes = 1, .shapes = &shape};
    struct prn_input *inputs;
    assert_int_equal(prn_model_bind(m, &bindings, &arena, &inputs, NULL), 0);
    assert_int_equal(inputs[0].dims[2], 192);
    prn_arena_release(&arena);
    prn_model_free(m);
    prn_buffer_release(&bytes);
}

/* The options that would set what was left open: all of them, each once. */
static void test_open_dims_are_all_named(void **state)
{
    (void)state;
    struct prn_buffer g = message();
    put_text(&g, 2, "g");
    put_dims(&g, "ids", (const char *const[]){"batch", "seq len"}, 2);
    put_dims(&g, "mask", (const char *const[]){"batch", "past"}, 2);
    put_dims(&g, "image", (const char *const[]){"batch", "?"}, 2);
    struct prn_buffer bytes;
    struct prn_model *m = parse_graph(&g, &bytes);
    struct prn_arena arena = PRN_ARENA_INIT(1 << 20);
    struct prn_dim_binding past = {"past", 7};
    struct prn_bindings bindings = {.n_dims = 1, .dims = &past};
    struct prn_input *inputs;
    assert_int_equal(prn_model_bind(m, &bindings, &arena, &inputs, NULL), 0);
    struct prony_error err = {.text = "Pad needs 2"};
    assert_int_equal(prn_open_dims_fail(m, inputs, PRONY_ERUNTIME, &err), PRONY_ERUNTIME);
    assert_string_equal(err.text, "with open dimensions taken as 1 (to set them: --dim batch=N "
                                  "--dim 'seq len=N' --shape image=NxN): Pad needs 2");
    prn_arena_release(&arena);
    prn_model_free(m);
    prn_buffer_release(&bytes);
}

/* A Constant node with a tensor of zeros. */
static void put_constant(struct prn_buffer *graph, const char *name, int dtype, const int64_t *dims,
                         size_t rank)
{
    static const char zeros[1 << 10];
    size_t bytes;
    assert_int_equal(prn_dtype_bytes(dtype, dims, rank, &bytes), 0);
    assert_true(bytes <= sizeof zeros);
    struct prn_buffer t = tensor("", dtype, dims, rank);
    put_varint(&t, 9 << 3 | 2);
    put_varint(&t, bytes);
    prn_buffer_append(&t, zeros, bytes);
    struct prn_buffer attribute = message();
    put_text(&attribute, 1, "value");
    put_int(&attribute, 20, 4);
    put_message(&attribute, 5, &t);
    struct prn_buffer n = node("Constant", "", name);
    put_message(&n, 5, &attribute);
    put_message(graph, 1, &n);
}

static void test_counts_weights_of_constant_nodes(void **state)
{
    (void)state;
    struct prn_buffer g = graph_with_input();
    put_constant(&g, "w", PRN_DTYPE_FLOAT, (int64_t[]){4, 8}, 2);
    put_constant(&g, "quantised", PRN_DTYPE_INT8, (int64_t[]){10}, 1);
    put_constant(&g, "bias", PRN_DTYPE_INT32, (int64_t[]){5}, 1);
    put_constant(&g, "epsilon", PRN_DTYPE_FLOAT, NULL, 0);
    put_constant(&g, "shape", PRN_DTYPE_INT64, (int64_t[]){4}, 1);
    put_constant(&g, "choice", PRN_DTYPE_BOOL, (int64_t[]){3}, 1);
    struct prn_buffer bytes;
    struct prn_model *m = parse_graph(&g, &bytes);
    assert_int_equal(m->n_parameters, 32 + 10 + 5);
    assert_int_equal(m->parameter_bytes, 32 * 4 + 10 + 5 * 4);
    prn_model_free(m);
    prn_buffer_release(&bytes);
}

static void test_refuses_names_defined_twice(void **state)
{
    (void)state;
    struct prn_buffer g = graph_with_input();
    put_node(&g, "Relu", "x", "y");
    put_node(&g, "Sin", "x", "y");
    expect_graph_refused(&g, PRONY_EFORMAT,
                         "defines 'y' twice, the second time as output of "
                         "node 1 (Sin)");
    g = graph_with_input();
    put_node(&g, "Relu", "x", "x");
    expect_graph_refused(&g, PRONY_EFORMAT, "defines 'x' twice");
}

static void test_refuses_names_from_nowhere(void **state)
{
    (void)state;
    struct prn_buffer g = graph_with_input();
    put_node(&g, "Add", "x nowhere", "y");
    expect_graph_refused(&g, PRONY_EFORMAT, "nothing makes 'nowhere', an input of node 0 (Add)");

    g = graph_with_input();
    struct prn_buffer output = message();
    put_text(&output, 1, "y");
    put_message(&g, 12, &output);
    expect_graph_refused(&g, PRONY_EFORMAT, "nothing makes 'y', an output of graph 'g'");
}

/* Functions f0 … f(n-1), each calling the next; the last one calls `last`. */
static struct prn_buffer functions(int n, const char *last)
{
    struct prn_buffer g = message();
    struct prn_buffer m = model_of(&g);
    for (int i = 0; i < n; i++) {
        char name[16];
        char next[16];
        snprintf(name, sizeof name, "f%d", i);
        snprintf(next, sizeof next, "f%d", i + 1);
        struct prn_buffer f = message();
        struct prn_buffer call = node(i + 1 < n ? next : last, "a", "b");
        put_text(&f, 1, name);
        put_text(&f, 4, "a");
        put_text(&f, 5, "b");
        put_message(&f, 7, &call);
        put_message(&m, 25, &f);
    }
    return m;
}

static void test_refuses_functions_that_call_themselves(void **state)
{
    (void)state;
    struct prn_buffer m = functions(3, "f1");
    expect_refused(&m, PRONY_EFORMAT, "function 'f1' calls itself");
    m = functions(1000, "Relu");
    expect_refused(&m, PRONY_ELIMIT, "functions call functions over 64 levels deep");
    m = functions(64, "Relu");
    struct prn_model *model = NULL;
    assert_int_equal(prn_model_parse(m.data, m.len, "m", &model, NULL), 0);
    prn_model_free(model);
    prn_buffer_release(&m);
}

/* ---- Bad tensors ---- */

static void test_refuses_bad_tensors(void **state)
{
    (void)state;
    const int64_t huge = INT64_C(1) << 40;
    int64_t deep[PRN_RANK_MAX + 1] = {0};
    const struct {
        int dtype;
        int code;
        const int64_t *dims;
        size_t rank, raw_len;
        const char *words;
    } cases[] = {
        {1, PRONY_EFORMAT, (int64_t[]){2}, 1, 7,
         "'t' has 7 bytes of data, its type and shape need 8"},
        {22, PRONY_EFORMAT, (int64_t[]){3}, 1, 3, "has 3 bytes of data, its type and shape need 2"},
        {1, PRONY_EFORMAT, (int64_t[]){2}, 1, 0,
         "has 0 entries of data, its type and shape need 2"},
        {8, PRONY_EFORMAT, (int64_t[]){2}, 1, 0, "has 0 strings of data"},
        {1, PRONY_ELIMIT, (int64_t[]){huge, huge}, 2, 4, "'t' has an invalid shape"},
        {1, PRONY_ELIMIT, (int64_t[]){huge << 22}, 1, 4, "'t' has an invalid shape"},
        {1, PRONY_ELIMIT, (int64_t[]){-1}, 1, 4, "'t' has an invalid shape, -1"},
        {0, PRONY_EFORMAT, (int64_t[]){1}, 1, 4, "'t' has no element type"},
        {1, PRONY_ELIMIT, deep, PRN_RANK_MAX + 1, 4, "'t' has 33 dimensions, more than 32"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_buffer t = tensor("t", cases[i].dtype, cases[i].dims, cases[i].rank);
        put_bytes(&t, 9, "12345678", cases[i].raw_len);
        struct prn_buffer g = message();
        put_message(&g, 5, &t);
        expect_graph_refused(&g, cases[i].code, cases[i].words);
    }
}

static void test_refuses_bad_typed_fields(void **state)
{
    (void)state;
    struct prn_buffer t = tensor("t", PRN_DTYPE_FLOAT, (int64_t[]){1}, 1);
    put_bytes(&t, 7, "\1", 1);
    struct prn_buffer g = message();
    put_message(&g, 5, &t);
    expect_graph_refused(&g, PRONY_EFORMAT, "'t' has data of a different type");

    t = tensor("t", PRN_DTYPE_FLOAT, (int64_t[]){1}, 1);
    put_bytes(&t, 4, "12345", 5);
    g = message();
    put_message(&g, 5, &t);
    expect_graph_refused(&g, PRONY_EFORMAT, "'t' has 2 entries of data");

    t = tensor("t", PRN_DTYPE_INT64, (int64_t[]){1}, 1);
    put_bytes(&t, 7, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12);
    g = message();
    put_message(&g, 5, &t);
    expect_graph_refused(&g, PRONY_EFORMAT, "'t' has damaged data");
}

/* ---- External data ---- */

static void put_entry(struct prn_buffer *t, const char *key, const char *value)
{
    struct prn_buffer entry = message();
    put_text(&entry, 1, key);
    put_text(&entry, 2, value);
    put_message(t, 13, &entry);
}

static void write_file(int folder, const char *name, const void *bytes, size_t len)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    close(fd);
}

/* In folder `path`: a file of 16 bytes, one in a subfolder, links to both, and a pipe. */
static int make_folder(char *path)
{
    assert_non_null(mkdtemp(path));
    int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0);
    write_file(folder, "w.bin", "0123456789abcdef", 16);
    assert_int_equal(mkdirat(folder, "sub", 0700), 0);
    write_file(folder, "sub/w.bin", "0123456789abcdef", 16);
    assert_int_equal(symlinkat("w.bin", folder, "link.bin"), 0);
    assert_int_equal(symlinkat("sub", folder, "linked"), 0);
    assert_int_equal(mkfifoat(folder, "pipe", 0600), 0);
    return folder;
}

static void remove_folder(int folder, const char *path)
{
    static const char *const names[] = {"m.onnx",   "w.bin",  "sub/w.bin",
                                        "link.bin", "linked", "pipe"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(names); i++)
        unlinkat(folder, names[i], 0);
    unlinkat(folder, "sub", AT_REMOVEDIR);
    close(folder);
    rmdir(path);
}

static void test_external_data_stays_in_its_place(void **state)
{
    (void)state;
    static const struct {
        const char *location, *offset, *length;
        int code;
        const char *words;
    } cases[] = {
        {"w.bin", "8", "8", 0, NULL},
        {"sub/w.bin", NULL, NULL, 0, NULL},
        {"./w.bin", "8", NULL, 0, NULL},
        {"missing.bin", NULL, NULL, PRONY_ENOENT, "'missing.bin' is missing"},
        {"w.bin/w.bin", NULL, NULL, PRONY_ENOENT, "is missing"},
        {"../w.bin", NULL, NULL, PRONY_EFORMAT, "'../w.bin' leaves the model's folder"},
        {"sub/../w.bin", NULL, NULL, PRONY_EFORMAT, "leaves the model's folder"},
        {"sub/..", NULL, NULL, PRONY_EFORMAT, "leaves the model's folder"},
        {"/etc/passwd", NULL, NULL, PRONY_EFORMAT, "'/etc/passwd' is an absolute path"},
        {"link.bin", NULL, NULL, PRONY_EFORMAT, "symbolic link"},
        {"linked/w.bin", NULL, NULL, PRONY_EFORMAT, "symbolic link"},
        {"sub", NULL, NULL, PRONY_EFORMAT, "isn't a regular file"},
        {"pipe", NULL, NULL, PRONY_EFORMAT, "isn't a regular file"},
        {"w.bin", "9", "8", PRONY_EFORMAT, "ends at byte 9 + 8 of 'w.bin', which has 16"},
        {"w.bin", "17", NULL, PRONY_EFORMAT, "which has 16"},
        {"w.bin", "18446744073709551615", "8", PRONY_EFORMAT, "which has 16"},
        {"w.bin", "0", "4", PRONY_EFORMAT, "is 4 bytes long, its shape needs 8"},
        {"w.bin", "-1", NULL, PRONY_EFORMAT, "offset or length that is not a number"},
        {"w.bin", "99999999999999999999", NULL, PRONY_EFORMAT, "not a number"},
        {"", NULL, NULL, PRONY_EFORMAT, "without a location"},
    };
    char path[] = "/tmp/prony-external-XXXXXX";
    int folder = make_folder(path);
    char file[64];
    snprintf(file, sizeof file, "%s/m.onnx", path);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_buffer t = tensor("t", PRN_DTYPE_FLOAT, (int64_t[]){2}, 1);
        put_entry(&t, "location", cases[i].location);
        if (cases[i].offset)
            put_entry(&t, "offset", cases[i].offset);
        if (cases[i].length)
            put_entry(&t, "length", cases[i].length);
        put_int(&t, 14, 1);
        struct prn_buffer g = message();
        put_message(&g, 5, &t);
        struct prn_buffer m = model_of(&g);
        write_file(folder, "m.onnx", m.data, m.len);
        prn_buffer_release(&m);
        struct prn_model *model = NULL;
        struct prony_error err = {0};
        int code = prn_model_open(file, &model, &err);
        if (code != cases[i].code)
            fail_msg("'%s': %d %s", cases[i].location, code, err.text);
        if (cases[i].words) {
            assert_contains(err.text, cases[i].words);
            assert_contains(err.text, "'t'");
            assert_contains(err.text, file);
        }
        prn_model_free(model);
    }
    remove_folder(folder, path);
}

/* ---- Binding ---- */

struct bound {
    struct prn_arena arena;
    struct prn_model *model;
    struct prn_input *inputs;
    struct prony_error err;
    int code;
};

/* `dims` and `shapes` are texts as on the command line, ending in NULL. */
static struct bound bind_stored(const char *path, const char *const *dims,
                                const char *const *shapes)
{
    struct bound b = {.arena = PRN_ARENA_INIT((size_t)1 << 20), .model = open_stored(path)};
    size_t n_dims = 0;
    size_t n_shapes = 0;
    while (dims && dims[n_dims])
        n_dims++;
    while (shapes && shapes[n_shapes])
        n_shapes++;
    struct prn_bindings bindings;
    b.code = prn_bindings_parse(dims, n_dims, shapes, n_shapes, &b.arena, &bindings, &b.err);
    if (b.code == 0)
        b.code = prn_model_bind(b.model, &bindings, &b.arena, &b.inputs, &b.err);
    return b;
}

static void release_bound(struct bound *b)
{
    prn_model_free(b->model);
    prn_arena_release(&b->arena);
}

static void test_open_dimensions_become_one(void **state)
{
    (void)state;
    struct bound b = bind_stored(unit_data("mlp.onnx"), NULL, NULL);
    assert_int_equal(b.code, 0);
    assert_int_equal(b.inputs[0].dims[0], 1);
    assert_true(b.inputs[0].assumed[0]);
    assert_int_equal(b.inputs[0].dims[1], 4);
    assert_false(b.inputs[0].assumed[1]);
    release_bound(&b);
}

static void test_binds_by_name(void **state)
{
    (void)state;
    struct bound b = bind_stored(unit_data("mlp.onnx"), (const char *[]){"batch=8", NULL}, NULL);
    assert_int_equal(b.code, 0);
    assert_int_equal(b.inputs[0].dims[0], 8);
    assert_false(b.inputs[0].assumed[0]);
    release_bound(&b);
}

/* The shape of one input gives the dimensions of its names in the others. */
static void test_shapes_bind_names(void **state)
{
    (void)state;
    struct bound b =
        bind_stored(unit_data("embedding.onnx"), NULL, (const char *[]){"input_ids=2x7", NULL});
    assert_int_equal(b.code, 0);
    assert_int_equal(b.inputs[2].dims[0], 2);
    assert_int_equal(b.inputs[3].dims[1], 7);
    assert_int_equal(b.inputs[3].dims[2], 1);
    assert_true(b.inputs[3].assumed[2]);
    release_bound(&b);
}

static void test_finds_roles(void **state)
{
    (void)state;
    struct bound b = bind_stored(unit_data("embedding.onnx"), NULL, NULL);
    static const struct {
        const char *name;
        enum prn_input_role role;
        int64_t bound;
    } want[] = {{"input_ids", PRN_INPUT_ROLE_INDEX, 30},
                {"type_ids", PRN_INPUT_ROLE_INDEX, 2},
                {"pos", PRN_INPUT_ROLE_INDEX, 16},
                {"Attention_Mask", PRN_INPUT_ROLE_MASK, 0}};
    assert_int_equal(b.model->n_inputs, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(b.inputs[i].name, want[i].name);
        assert_int_equal(b.inputs[i].role, want[i].role);
        assert_int_equal(b.inputs[i].bound, want[i].bound);
    }
    release_bound(&b);
}

/* Dimensions as "batch,3" or "8,3". */
static size_t parse_dims(const char *text, struct prn_dim *dims, char names[4][32])
{
    size_t n = 0;
    for (const char *at = text; *at; n++) {
        size_t len = strcspn(at, ",");
        snprintf(names[n], 32, "%.*s", (int)len, at);
        bool number = names[n][0] >= '0' && names[n][0] <= '9';
        dims[n] = (struct prn_dim){number ? atoll(names[n]) : -1,
                                   number || strcmp(names[n], "?") == 0 ? NULL : names[n]};
        at += len + (at[len] == ',');
    }
    return n;
}

/* Two inputs and an output; open dimensions have the size 5. */
static int64_t batch_of(const char *first, const char *second, const char *output)
{
    const char *texts[] = {first, second, output};
    struct prn_dim dims[3][4];
    char names[3][4][32];
    struct prn_value values[3];
    struct prn_input inputs[2] = {0};
    for (size_t i = 0; i < 3; i++) {
        values[i] = (struct prn_value){.name = "v", .has_shape = true, .dims = dims[i]};
        values[i].rank = parse_dims(texts[i], dims[i], names[i]);
        for (size_t k = 0; i < 2 && k < values[i].rank; k++)
            inputs[i].dims[k] = dims[i][k].value >= 0 ? dims[i][k].value : 5;
        if (i < 2)
            inputs[i].rank = values[i].rank;
    }
    const struct prn_value *fed[] = {&values[0], &values[1]};
    struct prn_model model = {.n_inputs = 2, .inputs = fed};
    model.graph.n_outputs = 1;
    model.graph.outputs = &values[2];
    return prn_model_batch(&model, inputs);
}

/* Items per second of what isn't a batch would be wrong by its size. */
static void test_batch_is_what_all_share(void **state)
{
    (void)state;
    static const struct {
        const char *first, *second, *output;
        int64_t batch;
    } cases[] = {
        {"batch,3", "batch,7", "batch,10", 5},
        {"N,3", "", "N,10", 5}, /* a scalar beside it */
        {"batch_size", "1", "batch_size", 5},
        {"?,3", "?,7", "?,10", 5},   /* by position */
        {"s0,3", "s0", "s77,10", 5}, /* names that a tool made up */
        {"8,3", "8,4", "8", 8},
        {"0,3", "0,4", "0,2", 0}, /* nothing in it */
        {"seq_len,384", "1", "seq_len,2", 1},
        {"sequence,batch", "1", "sequence,batch", 1},
        {"batch,3", "2,batch", "batch,10", 1},
        {"batch,3", "batch,7", "10", 1},
        {"batch,3", "batch,7", "", 1},
        {"30", "30", "30", 1}, /* a vector */
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++)
        assert_int_equal(batch_of(cases[i].first, cases[i].second, cases[i].output),
                         cases[i].batch);
}

static void test_refuses_bad_bindings(void **state)
{
    (void)state;
    static const struct {
        const char *model, *dim, *shape;
        int code;
        const char *words;
    } cases[] = {
        {"mlp", "bach=8", NULL, PRONY_EUSAGE,
         "--dim 'bach': the inputs have no such dimension; did you mean 'batch'?"},
        {"control", "n=8", NULL, PRONY_EUSAGE, "known: none"},
        {"mlp", "batch", NULL, PRONY_EUSAGE, "--dim 'batch' is not NAME=SIZE"},
        {"mlp", "=8", NULL, PRONY_EUSAGE, "is not NAME=SIZE"},
        {"mlp", "batch=-1", NULL, PRONY_EUSAGE, "is not NAME=SIZE"},
        {"mlp", "batch=8 ", NULL, PRONY_EUSAGE, "is not NAME=SIZE"},
        {"mlp", "batch=99999999999999999999", NULL, PRONY_EUSAGE, "is not NAME=SIZE"},
        {"mlp", "batch=4611686018427387904", NULL, PRONY_ELIMIT, "is too large"},
        {"mlp", NULL, "y=1x4", PRONY_EUSAGE,
         "--shape 'y': the model has no input of that name; known: 'x'"},
        {"mlp", NULL, "x=1x4x1", PRONY_EUSAGE, "has 3 dimensions, the model's has 2"},
        {"mlp", NULL, "x=1x5", PRONY_EUSAGE, "dimension 1 is fixed to 4"},
        {"mlp", NULL, "x=1x", PRONY_EUSAGE, "--shape 'x=1x' isn't INPUT=SIZES"},
        {"mlp", NULL, "x=", PRONY_EUSAGE, "isn't INPUT=SIZES"},
        {"mlp", NULL, "x=1;4", PRONY_EUSAGE, "isn't INPUT=SIZES"},
        {"mlp", "batch=8", "x=4x4", PRONY_EUSAGE, "dimension 'batch' can't be 4 and 8"},
        {"kinds", NULL, NULL, PRONY_EUNSUPPORTED, "' is a sequence; prony feeds tensors only"},
        {"shapeless", NULL, NULL, PRONY_EUSAGE, "has no declared shape; give one with --shape"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.onnx", cases[i].model);
        struct bound b = bind_stored(unit_data(name), (const char *[]){cases[i].dim, NULL},
                                     (const char *[]){cases[i].shape, NULL});
        if (b.code != cases[i].code)
            fail_msg("case %zu: %d %s", i, b.code, b.code ? b.err.text : "");
        assert_contains(b.err.text, cases[i].words);
        release_bound(&b);
    }
}

static void test_parses_shapes(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_bindings b;
    const char *const dims[] = {"past=0"};
    const char *const shapes[] = {"a=b=2,3,4", "s=scalar"};
    assert_int_equal(prn_bindings_parse(dims, 1, shapes, 2, &arena, &b, NULL), 0);
    assert_int_equal(b.dims[0].value, 0);
    assert_string_equal(b.shapes[0].input, "a=b");
    assert_int_equal(b.shapes[0].rank, 3);
    assert_int_equal(b.shapes[0].dims[2], 4);
    assert_int_equal(b.shapes[1].rank, 0);
    struct prony_error err;
    const char *const twice[] = {"n=1", "n=2"};
    assert_int_equal(prn_bindings_parse(twice, 2, NULL, 0, &arena, &b, &err), PRONY_EUSAGE);
    assert_contains(err.text, "'n' was given before");
    prn_arena_release(&arena);
}

/* The label of each point, and what it binds first. */
static void test_sweeps_combine_lists(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_sweep sweep;
    struct prn_bindings b;
    const char *const dims[] = {"batch=1,8", "fixed=3", "seq=16,128"};
    const char *const shapes[] = {"x=1x3,2x3"};
    static const char *const labels[] = {
        "batch=1, seq=16, x=1x3",  "batch=1, seq=16, x=2x3",  "batch=1, seq=128, x=1x3",
        "batch=1, seq=128, x=2x3", "batch=8, seq=16, x=1x3",  "batch=8, seq=16, x=2x3",
        "batch=8, seq=128, x=1x3", "batch=8, seq=128, x=2x3",
    };
    assert_int_equal(prn_sweep_parse(dims, 3, shapes, 1, &arena, &sweep, NULL), 0);
    assert_int_equal(sweep.n_points, PRN_ARRAY_SIZE(labels));
    for (size_t i = 0; i < sweep.n_points; i++) {
        struct prn_buffer label = PRN_BUFFER_INIT(1000);
        prn_sweep_label(&sweep, i, &label);
        assert_string_equal(prn_buffer_text(&label), labels[i]);
        prn_buffer_release(&label);
        assert_int_equal(prn_sweep_bindings(&sweep, i, &arena, &b, NULL), 0);
        assert_int_equal(b.n_dims, 3);
        assert_string_equal(b.dims[1].param, "fixed");
        assert_int_equal(b.dims[1].value, 3);
        assert_int_equal(b.dims[2].value, i / 2 % 2 ? 128 : 16);
        assert_int_equal(b.shapes[0].dims[0], i % 2 ? 2 : 1);
    }
    prn_arena_release(&arena);
}

static void test_lists_of_shapes(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_sweep sweep;
    static const struct {
        const char *text;
        size_t n, rank;
    } cases[] = {{"x=1x3x224,8x3x224", 2, 3}, {"x=1,3,224", 1, 3}, {"x=8|16|32", 3, 1},
                 {"x=1x3|8x3", 2, 2},         {"x=1,3|8,3", 2, 2}, {"x=scalar", 1, 0}};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        assert_int_equal(prn_sweep_parse(NULL, 0, &cases[i].text, 1, &arena, &sweep, NULL), 0);
        assert_int_equal(sweep.n_points, cases[i].n);
        assert_int_equal(sweep.axes[0].shapes[0].rank, cases[i].rank);
    }
    prn_arena_release(&arena);
}

static void test_refuses_bad_lists(void **state)
{
    (void)state;
    static const struct {
        const char *dim, *shape, *words;
    } cases[] = {
        {"n=1,1", NULL, "--dim 'n=1,1': 1 is there twice"},
        {"n=1,01", NULL, "1 is there twice"},
        {"n=1,,2", NULL, "is not NAME=SIZE"},
        {"n=,1", NULL, "is not NAME=SIZE"},
        {"n=1,", NULL, "is not NAME=SIZE"},
        {"n=1, 2", NULL, "without spaces"},
        {"n=1,99999999999999999999", NULL, "is not NAME=SIZE"},
        {"n=1,-2", NULL, "is not NAME=SIZE"},
        {NULL, "x=1x3,1x3", "'1x3' is there twice"},
        {NULL, "x=1x3,", "isn't INPUT=SIZES"},
        {NULL, "x=1x3, 2x3", "without spaces"},
        {NULL, "x=1x3,2x", "isn't INPUT=SIZES"},
        {NULL, "x=|", "isn't INPUT=SIZES"},
    };
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prony_error err;
        struct prn_sweep sweep;
        int code = prn_sweep_parse(&cases[i].dim, cases[i].dim != NULL, &cases[i].shape,
                                   cases[i].shape != NULL, &arena, &sweep, &err);
        assert_int_equal(code, PRONY_EUSAGE);
        assert_contains(err.text, cases[i].words);
    }
    struct prony_error err;
    struct prn_bindings b;
    const char *const list = "n=1,2";
    assert_int_equal(prn_bindings_parse(&list, 1, NULL, 0, &arena, &b, &err), PRONY_EUSAGE);
    assert_contains(err.text, "--dim 'n' has several values");
    prn_arena_release(&arena);
}

static void test_sweeps_have_a_limit(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 24);
    struct prony_error err;
    struct prn_sweep sweep;
    const char *const sixteen = "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16";
    char texts[3][64];
    const char *dims[3];
    for (int i = 0; i < 3; i++) {
        snprintf(texts[i], sizeof texts[i], "d%d=%s", i, sixteen);
        dims[i] = texts[i];
    }
    assert_int_equal(prn_sweep_parse(dims, 2, NULL, 0, &arena, &sweep, &err), 0);
    assert_int_equal(sweep.n_points, PRN_SWEEP_POINTS_MAX);
    assert_int_equal(prn_sweep_parse(dims, 3, NULL, 0, &arena, &sweep, &err), PRONY_EUSAGE);
    assert_contains(err.text, "more than 256 combinations");
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)4 << 20);
    prn_buffer_add(&text, "n=1");
    for (int i = 2; i < 300000; i++)
        prn_buffer_printf(&text, ",%d", i);
    const char *const many = prn_buffer_text(&text);
    assert_int_equal(prn_sweep_parse(&many, 1, NULL, 0, &arena, &sweep, &err), PRONY_EUSAGE);
    assert_contains(err.text, "more than 256 combinations");
    prn_buffer_release(&text);
    prn_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_a_network),
        cmocka_unit_test(test_decodes_typed_fields),
        cmocka_unit_test(test_reads_unpacked_typed_fields),
        cmocka_unit_test(test_reads_graphs_in_graphs),
        cmocka_unit_test(test_reads_functions),
        cmocka_unit_test(test_counts_values_of_sparse_initialisers),
        cmocka_unit_test(test_locates_external_data),
        cmocka_unit_test(test_reads_more_than_two_gib),
        cmocka_unit_test(test_refuses_bad_wire_format),
        cmocka_unit_test(test_names_what_else_a_file_is),
        cmocka_unit_test(test_refuses_what_is_no_file),
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_refuses_a_million_nested_graphs),
        cmocka_unit_test(test_refuses_cycles),
        cmocka_unit_test(test_refuses_cycles_through_inner_graphs),
        cmocka_unit_test(test_refuses_cycles_in_inner_graphs),
        cmocka_unit_test(test_sorts_nodes),
        cmocka_unit_test(test_sorts_graphs_in_graphs),
        cmocka_unit_test(test_placeholders_are_not_names),
        cmocka_unit_test(test_open_dims_are_all_named),
        cmocka_unit_test(test_counts_weights_of_constant_nodes),
        cmocka_unit_test(test_refuses_names_defined_twice),
        cmocka_unit_test(test_refuses_names_from_nowhere),
        cmocka_unit_test(test_refuses_functions_that_call_themselves),
        cmocka_unit_test(test_refuses_bad_tensors),
        cmocka_unit_test(test_refuses_bad_typed_fields),
        cmocka_unit_test(test_external_data_stays_in_its_place),
        cmocka_unit_test(test_open_dimensions_become_one),
        cmocka_unit_test(test_binds_by_name),
        cmocka_unit_test(test_shapes_bind_names),
        cmocka_unit_test(test_finds_roles),
        cmocka_unit_test(test_batch_is_what_all_share),
        cmocka_unit_test(test_refuses_bad_bindings),
        cmocka_unit_test(test_parses_shapes),
        cmocka_unit_test(test_sweeps_combine_lists),
        cmocka_unit_test(test_lists_of_shapes),
        cmocka_unit_test(test_refuses_bad_lists),
        cmocka_unit_test(test_sweeps_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
