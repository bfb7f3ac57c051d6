/* Cutting models: small graphs made by hand whose layers are worked out by hand, joining against
 * exhaustive search, what is refused, layers read back from their files, and large graphs. */
#include "unit.h"

#include "base/buffer.h"
#include "base/random.h"
#include "model/cut/parts.h"
#include "model/parts.h"
#include "model/writer.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Making models ---- */

/* A model under construction, and what becomes of it; freed by reset() after each test. */
static struct prn_writer *writer;
static struct prn_arena arena;
static struct prn_buffer bytes;
static struct prn_model *model;
static struct prn_input *inputs;
static struct prn_work *work;
static struct prn_cuts *cuts;
static struct prony_error err;

static int begin(void **state)
{
    (void)state;
    arena = PRN_ARENA_INIT((size_t)1 << 30);
    bytes = PRN_BUFFER_INIT((size_t)1 << 30);
    writer = prn_writer_new("test", "1");
    prn_writer_opset(writer, "", 17);
    prn_writer_graph_name(writer, "g");
    return writer ? 0 : -1;
}

static int reset(void **state)
{
    (void)state;
    prn_cuts_free(cuts);
    prn_work_free(work);
    prn_model_free(model);
    prn_writer_free(writer);
    prn_buffer_release(&bytes);
    prn_arena_release(&arena);
    cuts = NULL;
    work = NULL;
    model = NULL;
    return 0;
}

/* "batch,4": numbers, or names of open dimensions. */
static struct prn_value value(const char *name, int dtype, const char *shape)
{
    struct prn_dim *dims = PRN_ARENA_ARRAY(&arena, 8, struct prn_dim);
    struct prn_value v = {
        .name = name, .kind = PRN_VALUE_TENSOR, .dtype = dtype, .has_shape = shape, .dims = dims};
    for (const char *at = shape; at && *at;
         at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        char *end;
        long long size = strtoll(at, &end, 10);
        dims[v.rank++] =
            end > at ? (struct prn_dim){.value = size}
                     : (struct prn_dim){-1, prn_arena_strndup(&arena, at, strcspn(at, ","))};
    }
    return v;
}

static void input_of(const char *name, int dtype, const char *shape)
{
    struct prn_value v = value(name, dtype, shape);
    prn_writer_input(writer, &v);
}

static void input(const char *name, const char *shape)
{
    input_of(name, PRN_DTYPE_FLOAT, shape);
}

static void output(const char *name)
{
    struct prn_value v = value(name, PRN_DTYPE_FLOAT, NULL);
    prn_writer_output(writer, &v);
}

/* Floats with a recognisable content. */
static void weight(const char *name, int64_t rows, int64_t columns)
{
    int64_t *dims = PRN_ARENA_ARRAY(&arena, 2, int64_t);
    dims[0] = rows;
    dims[1] = columns;
    struct prn_constant c = {.name = name,
                             .dtype = PRN_DTYPE_FLOAT,
                             .rank = 2,
                             .dims = dims,
                             .elements = rows * columns};
    c.bytes = (size_t)c.elements * sizeof(float);
    float *data = PRN_ARENA_ARRAY(&arena, (size_t)c.elements, float);
    for (int64_t i = 0; i < c.elements; i++)
        data[i] = (float)(i + name[0]);
    c.data = data;
    prn_writer_initialiser(writer, &c, NULL);
}

static void ints(const char *name, size_t n, const int64_t *values)
{
    int64_t dim = (int64_t)n;
    int64_t *data = PRN_ARENA_ARRAY(&arena, n, int64_t);
    memcpy(data, values, n * sizeof *values);
    struct prn_constant c = {.name = name,
                             .dtype = PRN_DTYPE_INT64,
                             .rank = 1,
                             .dims = &dim,
                             .elements = dim,
                             .bytes = n * sizeof *values,
                             .data = data};
    prn_writer_initialiser(writer, &c, NULL);
}

static struct prn_attribute attributes[4];
static size_t n_attributes;

static void attribute_graph(const char *name, const struct prn_graph *graph)
{
    const struct prn_graph **graphs = PRN_ARENA_ARRAY(&arena, 1, const struct prn_graph *);
    graphs[0] = graph;
    attributes[n_attributes++] =
        (struct prn_attribute){.name = name, .kind = PRN_ATTRIBUTE_GRAPH, .n = 1, .graphs = graphs};
}

/* "MatMul x w > y", with "name: " before it where the node has a name. */
static struct prn_node parse_node(const char *text)
{
    const char **names = PRN_ARENA_ARRAY(&arena, 16, const char *);
    struct prn_node n = {.name = "", .domain = "", .inputs = names};
    char *copy = prn_arena_strdup(&arena, text);
    char *rest = strstr(copy, ": ");
    if (rest) {
        *rest = '\0';
        n.name = copy;
        copy = rest + 2;
    }
    size_t *count = &n.n_inputs;
    for (char *at = strtok_r(copy, " ", &rest); at; at = strtok_r(NULL, " ", &rest)) {
        if (!n.op_type) {
            n.op_type = at;
        } else if (strcmp(at, ">") == 0) {
            n.outputs = names + n.n_inputs;
            count = &n.n_outputs;
        } else {
            names[n.n_inputs + n.n_outputs] = strcmp(at, "_") ? at : "";
            (*count)++;
        }
    }
    return n;
}

static void node(const char *text)
{
    struct prn_node n = parse_node(text);
    n.attributes = attributes;
    n.n_attributes = n_attributes;
    n_attributes = 0;
    prn_writer_node(writer, &n);
}

/* ---- Cutting them ---- */

static void read_model(void)
{
    struct prn_bindings none = {0};
    int fd = memfd_create("model", MFD_CLOEXEC);
    assert_int_equal(prn_writer_write(writer, fd, "made.onnx", &err), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(prn_buffer_read_fd(&bytes, fd, "made.onnx", NULL), 0);
    close(fd);
    if (prn_model_parse(bytes.data, bytes.len, "made.onnx", &model, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(prn_model_bind(model, &none, &arena, &inputs, &err), 0);
    assert_int_equal(prn_model_analyse(model, inputs, &work, &err), 0);
}

static int try(const struct prn_cut_options *options)
{
    if (!model)
        read_model();
    prn_cuts_free(cuts);
    cuts = NULL;
    return prn_cuts_find(model, inputs, work, options, &cuts, &err);
}

static void cut(const struct prn_cut_options *options)
{
    if (try(options) < 0)
        fail_msg("%s", err.text);
}

static void cut_at(const char *pattern)
{
    cut(&(struct prn_cut_options){.patterns = &pattern, .n_patterns = 1});
}

static void add_names(struct prn_buffer *out, const struct prn_cut_tensor *const *tensors, size_t n)
{
    for (size_t i = 0; i < n; i++)
        prn_buffer_printf(out, "%s%s", i ? "," : "", tensors[i]->value.name);
}

/* "x > MatMul Relu > h | h > MatMul > y": per layer what it takes, its operators, what it hands on
 * or, behind '!', what it gives as the model's output. */
static void assert_range(size_t from, size_t to, const char *expected)
{
    struct prn_buffer out = PRN_BUFFER_INIT(1 << 16);
    for (size_t i = from; i < to; i++) {
        const struct prn_layer *layer = &cuts->layers[i];
        prn_buffer_add(&out, i > from ? " | " : "");
        add_names(&out, layer->in, layer->n_in);
        prn_buffer_add(&out, " >");
        for (size_t k = 0; k < layer->n_nodes; k++)
            prn_buffer_printf(&out, " %s", model->graph.nodes[layer->nodes[k]].op_type);
        prn_buffer_add(&out, " > ");
        add_names(&out, layer->out, layer->n_out);
        prn_buffer_add(&out, layer->n_results ? "!" : "");
        add_names(&out, layer->results, layer->n_results);
    }
    assert_string_equal(prn_buffer_text(&out), expected);
    prn_buffer_release(&out);
}

static void assert_layers(const char *expected)
{
    assert_range(0, cuts->n_layers, expected);
}

/* The same of the whole, which stands behind the layers. */
static void assert_whole(const char *expected)
{
    assert_range(cuts->n_layers, cuts->n_layers + 1, expected);
}

/* ---- Places ---- */

static void transformer_block_has_four_layers(void **state)
{
    (void)state;
    input("x", "1,8,16");
    weight("wq", 16, 16);
    weight("wk", 16, 16);
    weight("wv", 16, 16);
    weight("wo", 16, 16);
    weight("w1", 16, 64);
    weight("w2", 64, 16);
    node("Relu x > n"); /* stands for the normalisation */
    node("MatMul n wq > q");
    node("MatMul n wk > k");
    node("MatMul n wv > v");
    node("Transpose k > kt");
    node("Add q v > qv");
    node("Add qv kt > context"); /* stands for attention: no weights */
    node("MatMul context wo > o");
    node("Add x o > x1");
    node("Relu x1 > n1");
    node("MatMul n1 w1 > h");
    node("Erf h > e");
    node("Mul h e > hidden");
    node("MatMul hidden w2 > m");
    node("Add x1 m > y");
    output("y");
    /* The default of Transpose reverses all axes, which doesn't fit the sum: what is behind has no
     * shape, and the cuts are found by counting tensors. */
    cut(&(struct prn_cut_options){0});
    assert_layers("x > Relu MatMul MatMul MatMul Transpose Add Add > context,x | "
                  "context,x > MatMul Add > x1 | "
                  "x1 > Relu MatMul Erf Mul > hidden,x1 | "
                  "hidden,x1 > MatMul Add > !y");
}

static void fewest_bytes_then_latest(void **state)
{
    (void)state;
    input("x", "1,8");
    weight("w1", 8, 64);
    weight("w2", 64, 8);
    ints("axes", 1, (const int64_t[]){1});
    node("MatMul x w1 > wide");
    node("ReduceSum wide axes > narrow"); /* 1 element */
    node("Relu narrow > narrow2");        /* the same: later is better */
    node("Expand narrow2 shape > wide2");
    node("MatMul wide2 w2 > y");
    ints("shape", 2, (const int64_t[]){1, 64});
    output("y");
    cut(&(struct prn_cut_options){0});
    assert_layers("x > MatMul ReduceSum Relu > narrow2 | narrow2 > Expand MatMul > !y");
    assert_near(cuts->layers[0].out[0]->bytes, 4, 0);
    assert_near(prn_cut_elements(cuts->layers[0].out, 1), 1, 0);
    assert_int_equal(cuts->layers[0].n_parameters, 8 * 64);
    assert_int_equal(cuts->layers[1].weight_bytes, 64 * 8 * 4 + 16);
    assert_near(cuts->layers[1].flops, 2 * 64 * 8, 0);
}

/* The file runs two branches in turn, and between their second matrices three tensors are alive.
 * One branch after the other, there are never more than two. */
static void branches_are_disentangled(void **state)
{
    (void)state;
    input("x", "1,8");
    weight("w", 8, 8);
    node("MatMul x w > a1");
    node("Relu x > b");
    node("MatMul b w > b1");
    node("MatMul a1 w > a2");
    node("MatMul b1 w > b2");
    node("Add a1 a2 > a3");
    node("Add b1 b2 > b3");
    node("MatMul a3 w > a4");
    node("MatMul b3 w > b4");
    node("Add a4 b4 > y");
    output("y");
    cut(&(struct prn_cut_options){0});
    assert_layers("x > MatMul > a1,x | a1,x > MatMul Add > a3,x | a3,x > MatMul Relu > b,a4 | "
                  "b,a4 > MatMul > b1,a4 | b1,a4 > MatMul Add > b3,a4 | b3,a4 > MatMul Add > !y");
}

static void constants_are_computed_where_they_are_needed(void **state)
{
    (void)state;
    input("x", "1,8");
    weight("w", 8, 8);
    weight("c", 8, 8);
    node("Relu c > d"); /* from a constant alone */
    node("Transpose d > e");
    node("MatMul x e > a");
    node("MatMul a w > b");
    node("MatMul b e > y");
    output("y");
    cut(&(struct prn_cut_options){0});
    assert_layers(
        "x > Relu Transpose MatMul > a | a > MatMul > b | b > Relu Transpose MatMul > !y");
    assert_int_equal(cuts->layers[0].n_parameters, 64);
    assert_int_equal(cuts->layers[2].n_parameters, 64);
}

static void random_numbers_are_drawn_once(void **state)
{
    (void)state;
    input("x", "1,8");
    weight("w", 8, 8);
    attributes[n_attributes++] = (struct prn_attribute){
        .name = "shape", .kind = PRN_ATTRIBUTE_INTS, .n = 2, .ints = (const int64_t[]){1, 8}};
    node("RandomNormal > r");
    node("MatMul x w > a");
    node("Add a r > b");
    node("MatMul b w > c");
    node("Add c r > y");
    output("y");
    cut(&(struct prn_cut_options){0});
    assert_layers("x > RandomNormal MatMul Add > b,r | b,r > MatMul Add > !y");
}

/* A mask of the size of its input is carried; one that grows from a length is computed again. */
static void masks_are_carried_or_computed_again(void **state)
{
    (void)state;
    input("x", "1,8");
    input_of("ids", PRN_DTYPE_INT64, "1,8");
    weight("w", 8, 8);
    attributes[n_attributes++] = (struct prn_attribute){
        .name = "to", .kind = PRN_ATTRIBUTE_INT, .n = 1, .ints = (const int64_t[]){1}};
    node("Cast ids > mask"); /* 32 bytes instead of 64 */
    node("MatMul x w > a");
    node("Add a mask > b");
    node("MatMul b w > c");
    node("Add c mask > y");
    output("y");
    cut(&(struct prn_cut_options){0});
    assert_layers("x,ids > Cast MatMul Add > b,mask | b,mask > MatMul Add > !y");
}

static void what_grows_is_computed_again(void **state)
{
    (void)state;
    input("x", "64,64");
    input_of("length", PRN_DTYPE_INT64, "2");
    weight("w", 64, 64);
    ints("square", 2, (const int64_t[]){64, 64});
    ints("zero", 1, (const int64_t[]){0});
    node("Gather length zero > first");
    node("Expand first square > grown"); /* 32 KiB out of 8 bytes */
    attributes[n_attributes++] = (struct prn_attribute){
        .name = "to", .kind = PRN_ATTRIBUTE_INT, .n = 1, .ints = (const int64_t[]){1}};
    node("Cast grown > mask");
    node("MatMul x w > a");
    node("Add a mask > b");
    node("MatMul b w > c");
    node("Add c mask > y");
    output("y");
    cut(&(struct prn_cut_options){0});
    assert_layers("x,length > Gather MatMul Expand Cast Add > b,first | "
                  "b,first > MatMul Expand Cast Add > !y");
}

static void inputs_and_outputs_on_the_way(void **state)
{
    (void)state;
    input("late", "1,8");
    input("x", "1,8");
    weight("w", 8, 8);
    weight("kept", 2, 2);
    node("MatMul x w > a");
    node("Sigmoid a > early"); /* leaves with the first layer */
    node("Relu a > a2");
    node("MatMul a2 w > both"); /* leaves, and is needed */
    node("MatMul both w > c");
    node("Add c late > y");
    node("Exp c > unused");
    output("y");
    output("early");
    output("both");
    output("kept"); /* a constant */
    output("x");    /* an input */
    cut(&(struct prn_cut_options){0});
    assert_layers("late,x > MatMul Sigmoid Relu > a2,late!early,kept,x | "
                  "a2,late > MatMul > both,late!both | "
                  "both,late > MatMul Add > !y");
}

static struct prn_graph branch(const char *text, const char *result)
{
    struct prn_node *nodes = PRN_ARENA_ARRAY(&arena, 1, struct prn_node);
    struct prn_value *outputs = PRN_ARENA_ARRAY(&arena, 1, struct prn_value);
    nodes[0] = parse_node(text);
    outputs[0] = value(result, PRN_DTYPE_FLOAT, NULL);
    return (struct prn_graph){
        .name = "b", .n_nodes = 1, .nodes = nodes, .n_outputs = 1, .outputs = outputs};
}

/* Bodies are never cut; what they take from outside passes the cuts like any other tensor. */
static void bodies_read_from_outside(void **state)
{
    (void)state;
    input("x", "1,8");
    input_of("flag", PRN_DTYPE_BOOL, "");
    weight("w", 8, 8);
    weight("v", 8, 8);
    node("MatMul x w > a");
    node("MatMul a w > b");
    struct prn_graph yes = branch("MatMul a v > t", "t");
    struct prn_graph no = branch("Relu b > e", "e");
    attribute_graph("then_branch", &yes);
    attribute_graph("else_branch", &no);
    node("If flag > c");
    node("MatMul c w > y");
    output("y");
    cut(&(struct prn_cut_options){.max_tensors = 3});
    assert_layers("x,flag > MatMul > a,flag | a,flag > MatMul > b,a,flag | "
                  "b,a,flag > If > c | c > MatMul > !y");
    assert_int_equal(cuts->layers[2].n_constants, 1);
}

static void patterns_name_tensors_and_nodes(void **state)
{
    (void)state;
    input("x", "1,8");
    node("first: Relu x > a");
    node("second: Exp a > b");
    node("third: Neg b > c");
    node("fourth: Abs c > y");
    output("y");
    cut_at("b");
    assert_layers("x > Relu Exp > b | b > Neg Abs > !y");
    cut_at("th*d");
    assert_layers("x > Relu Exp Neg > c | c > Abs > !y");
    cut_at("[a-b]");
    assert_layers("x > Relu > a | a > Exp > b | b > Neg Abs > !y");
    cut_at("*");
    assert_int_equal(cuts->n_layers, 4);
    static const char *const two[] = {"c", "first"};
    cut(&(struct prn_cut_options){.patterns = two, .n_patterns = 2});
    assert_layers("x > Relu > a | a > Exp Neg > c | c > Abs > !y");
}

/* ---- Refusals ---- */

static void assert_refused(const struct prn_cut_options *options, int code, const char *part)
{
    struct prn_cuts *before = NULL;
    assert_int_equal(try(options), code);
    assert_ptr_equal(cuts, before);
    assert_contains(err.text, part);
}

static void places_that_are_not(void **state)
{
    (void)state;
    static const char *const none[] = {"nothing"};
    static const char *const start[] = {"x"};
    static const char *const end[] = {"y"};
    static const char *const constant[] = {"d"};
    input("x", "1,8");
    weight("c", 1, 8);
    node("Relu c > d");
    node("Add x d > a");
    node("Exp a > y");
    output("y");
    assert_refused(&(struct prn_cut_options){.patterns = none, .n_patterns = 1}, PRONY_EUSAGE,
                   "no tensor or node has such a name");
    assert_refused(&(struct prn_cut_options){.patterns = start, .n_patterns = 1}, PRONY_EUSAGE,
                   "nothing is computed before it");
    assert_refused(&(struct prn_cut_options){.patterns = end, .n_patterns = 1}, PRONY_EUSAGE,
                   "nothing is left to compute after it");
    assert_refused(&(struct prn_cut_options){.patterns = constant, .n_patterns = 1}, PRONY_EUSAGE,
                   "each layer that needs it computes it");
    assert_refused(&(struct prn_cut_options){0}, PRONY_EUNSUPPORTED,
                   "fewer than two operators with weights");
    assert_refused(&(struct prn_cut_options){.n_layers = 2}, PRONY_EUSAGE, "places for 1 at most");
    cut(&(struct prn_cut_options){.n_layers = 1});
    assert_layers("x > Relu Add Exp > !y");
}

static void too_many_tensors(void **state)
{
    (void)state;
    input("x", "1,8");
    weight("w", 8, 8);
    weight("v", 8, 8);
    node("MatMul x w > a");
    node("Relu a > b");
    node("Exp a > c");
    node("Neg a > d");
    node("Concat b c d > e");
    node("MatMul a v > f");
    node("Add f b > g");
    node("Add g c > h");
    node("Add h d > y");
    output("y");
    output("e");
    /* Before the second matrix its input is alive, and what the sums behind it need: the order
     * can put those off, so a single tensor passes. */
    cut(&(struct prn_cut_options){.max_tensors = 1});
    assert_int_equal(cuts->n_layers, 2);
    assert_int_equal(cuts->layers[0].n_out, 1);
}

static void limit_is_named(void **state)
{
    (void)state;
    input("x", "1,8");
    input("y", "1,8");
    input("z", "1,8");
    weight("w", 8, 8);
    node("MatMul x w > a");
    node("MatMul y w > b");
    node("Add a b > c");
    node("Add c z > r");
    output("r");
    assert_refused(&(struct prn_cut_options){0}, PRONY_EUNSUPPORTED, "--max-cut-tensors 3");
    cut(&(struct prn_cut_options){.max_tensors = 3});
    assert_layers("x,y,z > MatMul > a,y,z | a,y,z > MatMul Add Add > !r");
}

/* A mask is carried past every layer, and doesn't take the place of a tensor that matters. */
static void tiny_tensors_do_not_count(void **state)
{
    (void)state;
    input("x", "4,512");
    input("mask", "4,1");
    weight("w", 512, 512);
    weight("v", 512, 512);
    weight("u", 512, 512);
    node("MatMul x w > a");
    node("Mul a mask > b");
    node("MatMul b v > c");
    node("Add c b > d");
    node("MatMul d u > e");
    node("Mul e mask > y");
    output("y");
    cut(&(struct prn_cut_options){.max_tensors = 1});
    assert_layers("x,mask > MatMul Mul > b,mask | b,mask > MatMul Add > d,mask | "
                  "d,mask > MatMul Mul > !y");
    assert_int_equal(cuts->hint.max_tensors, 0);
}

/* x, y and z wait for the matrices at the end, so with two tensors there is one cut only. */
static void a_higher_limit_is_proposed(void **state)
{
    (void)state;
    input("x", "1,64");
    input("y", "1,64");
    input("z", "1,64");
    weight("w", 64, 64);
    node("MatMul x w > a");
    node("MatMul a w > b");
    node("MatMul b w > c");
    node("MatMul c w > d");
    node("Add d y > e");
    node("Add e z > f");
    node("MatMul f w > r");
    output("r");
    cut(&(struct prn_cut_options){0});
    assert_layers("x,y,z > MatMul MatMul MatMul MatMul Add Add > f | f > MatMul > !r");
    assert_int_equal(cuts->hint.max_tensors, 3);
    assert_int_equal(cuts->hint.n_layers, 5);
    assert_int_equal(cuts->hint.layer, 1);
    assert_near(cuts->hint.larger, 0.8, 0.01);
    assert_near(cuts->hint.share, 0.2, 0.01);
    cut(&(struct prn_cut_options){.max_tensors = 3});
    assert_int_equal(cuts->n_layers, 5);
    assert_int_equal(cuts->hint.max_tensors, 0);
}

static void sequences_do_not_pass(void **state)
{
    (void)state;
    static const char *const at[] = {"s"};
    input("x", "1,8");
    ints("i", 1, (const int64_t[]){0});
    weight("w", 8, 8);
    node("MatMul x w > a");
    node("SequenceConstruct a a > s");
    node("SequenceAt s i > b");
    node("MatMul b w > y");
    output("y");
    assert_refused(&(struct prn_cut_options){.patterns = at, .n_patterns = 1}, PRONY_EUNSUPPORTED,
                   "'s' passes there, which is a sequence, not a tensor");
    /* By itself the cut goes around it. */
    cut(&(struct prn_cut_options){0});
    assert_layers("x > MatMul > a | a > SequenceConstruct SequenceAt MatMul > !y");
}

static void unknown_types_do_not_pass(void **state)
{
    (void)state;
    static const char *const at[] = {"a"};
    input("x", "1,8");
    node("Unheard x > a");
    node("Unheard a > y");
    output("y");
    assert_refused(&(struct prn_cut_options){.patterns = at, .n_patterns = 1}, PRONY_EUNSUPPORTED,
                   "element type of 'a'");
}

/* ---- The whole ---- */

/* Everything once, also what several layers compute or read; what passes is given, inputs that are
 * only carried aren't. */
static void whole_gives_what_passes(void **state)
{
    (void)state;
    input("x", "1,8");
    input("late", "1,8");
    weight("w", 8, 8);
    node("Transpose w > t");
    node("MatMul x t > a");
    node("Relu a > early");
    node("MatMul early t > b");
    node("Add b late > y");
    output("early");
    output("y");
    cut(&(struct prn_cut_options){0});
    assert_layers("x,late > Transpose MatMul Relu > early,late!early | "
                  "early,late > Transpose MatMul Add > !y");
    assert_whole("x,late > Transpose MatMul Relu MatMul Add > early!early,y");
    assert_int_equal(cuts->layers[2].n_parameters, 64);
    assert_int_equal(cuts->layers[2].n_constants, 1);
    cut(&(struct prn_cut_options){.n_layers = 1});
    assert_whole("x,late > Transpose MatMul Relu MatMul Add > !early,y");
}

/* ---- Joining ---- */

/* The smallest possible maximum of the sums of `parts` runs of neighbours. */
static double best_maximum(const double *work_of, size_t n, size_t parts)
{
    double sum = 0;
    double best = INFINITY;
    if (parts == 1) {
        for (size_t i = 0; i < n; i++)
            sum += work_of[i];
        return sum;
    }
    for (size_t first = 1; first + parts <= n + 1; first++) {
        sum += work_of[first - 1];
        best = fmin(best, fmax(sum, best_maximum(work_of + first, n - first, parts - 1)));
    }
    return best;
}

static void joined_layers_are_balanced(void **state)
{
    (void)state;
    enum { MATRICES = 9 };
    struct prn_random random;
    double work_of[MATRICES];
    char text[64];
    int64_t size = 4;
    prn_random_seed_named(&random, 1, "widths");
    input("x", "1,4");
    for (int i = 0; i < MATRICES; i++) {
        int64_t next = 1 + (int64_t)(prn_random_u64(&random) % 40);
        char *name = prn_arena_alloc(&arena, 8);
        snprintf(name, 8, "w%d", i);
        weight(name, size, next);
        snprintf(text, sizeof text, "MatMul %c%d w%d > t%d", i ? 't' : 'x', i, i, i + 1);
        node(i ? text : "MatMul x w0 > t1");
        work_of[i] = 2.0 * (double)(size * next);
        size = next;
    }
    output("t9");
    for (size_t parts = 1; parts <= MATRICES; parts++) {
        double largest = 0;
        cut(&(struct prn_cut_options){.n_layers = parts});
        assert_int_equal(cuts->n_layers, parts);
        for (size_t i = 0; i < parts; i++)
            largest = fmax(largest, cuts->layers[i].flops);
        assert_near(largest, best_maximum(work_of, MATRICES, parts), 1e-6);
    }
    assert_refused(&(struct prn_cut_options){.n_layers = MATRICES + 1}, PRONY_EUSAGE,
                   "places for 9 at most");
}

/* What a pipeline asks for: the layers that it knows, several on a host. */
static void named_layers_are_joined(void **state)
{
    (void)state;
    input("x", "1,8");
    weight("w", 8, 8);
    node("MatMul x w > a");
    node("Relu a > b");
    node("MatMul b w > c");
    node("MatMul c w > d");
    node("MatMul d w > y");
    output("y");
    cut(&(struct prn_cut_options){.ends = (const size_t[]){2, 3, 4}, .n_ends = 3});
    assert_layers("x > MatMul Relu MatMul > c | c > MatMul > d | d > MatMul > !y");
    cut(&(struct prn_cut_options){.ends = (const size_t[]){4}, .n_ends = 1});
    assert_layers("x > MatMul Relu MatMul MatMul MatMul > !y");
    cut(&(struct prn_cut_options){.n_layers = 2, .ends = (const size_t[]){1, 2}, .n_ends = 2});
    assert_layers("x > MatMul Relu MatMul > c | c > MatMul MatMul > !y");
}

/* ---- Shapes ---- */

static void open_dimensions_stay_open(void **state)
{
    (void)state;
    input("x", "batch,seq,8");
    weight("w", 8, 12);
    weight("v", 12, 8);
    ints("flat", 2, (const int64_t[]){-1, 12});
    node("MatMul x w > a");
    node("Reshape a flat > b"); /* batch · seq rows, which has no name */
    node("MatMul b v > c");
    output("c");
    static const char *const at[] = {"a", "b"};
    static const struct prn_dim_binding sizes[] = {{"batch", 3}, {"seq", 5}};
    read_model();
    prn_work_free(work);
    struct prn_bindings bindings = {.n_dims = 2, .dims = sizes};
    assert_int_equal(prn_model_bind(model, &bindings, &arena, &inputs, &err), 0);
    assert_int_equal(prn_model_analyse(model, inputs, &work, &err), 0);
    cut(&(struct prn_cut_options){.patterns = at, .n_patterns = 2});
    const struct prn_cut_tensor *a = cuts->layers[0].out[0];
    const struct prn_cut_tensor *b = cuts->layers[1].out[0];
    assert_int_equal(a->value.rank, 3);
    assert_string_equal(a->value.dims[0].param, "batch");
    assert_string_equal(a->value.dims[1].param, "seq");
    assert_int_equal(a->value.dims[2].value, 12);
    assert_int_equal(a->dims[0], 3);
    assert_int_equal(a->dims[1], 5);
    assert_near(a->bytes, 3 * 5 * 12 * 4, 0);
    assert_int_equal(b->value.dims[0].value, -1);
    assert_null(b->value.dims[0].param);
    assert_int_equal(b->dims[0], 15);
    assert_int_equal(b->value.dims[1].value, 12);
}

/* ---- Files ---- */

static struct prn_model *read_back(size_t layer, const char *data_name, const char *folder)
{
    char path[256];
    struct prn_model *again;
    snprintf(path, sizeof path, "%s/layer.onnx", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    if (prn_cut_write(cuts, layer, data_name, fileno(file), path, &err) < 0)
        fail_msg("%s", err.text);
    fclose(file);
    if (data_name) {
        char data_path[300];
        snprintf(data_path, sizeof data_path, "%s/%s", folder, data_name);
        file = fopen(data_path, "w");
        assert_non_null(file);
        if (prn_cut_write_data(cuts, layer, fileno(file), data_path, &err) < 0)
            fail_msg("%s", err.text);
        fclose(file);
    }
    if (prn_model_open(path, &again, &err) < 0)
        fail_msg("%s", err.text);
    unlink(path);
    return again;
}

/* What passes goes through a Reshape that keeps its name, so whoever read it reads it behind that.
 */
static void whole_has_walls(void **state)
{
    (void)state;
    char folder[] = "/tmp/prony-cut-XXXXXX";
    assert_non_null(mkdtemp(folder));
    input("x", "batch,8");
    weight("w", 8, 40);
    weight("v", 40, 8);
    node("one: MatMul x w > a");
    node("two: MatMul a v > y");
    output("y");
    output("a");
    cut(&(struct prn_cut_options){0});
    struct prn_model *again = read_back(2, NULL, folder);
    assert_int_equal(again->graph.n_nodes, 2);
    prn_model_free(again);
    cuts->whole_reshapes = true;
    again = read_back(2, NULL, folder);
    assert_int_equal(again->graph.n_nodes, 3);
    const struct prn_node *one = &again->graph.nodes[0];
    const struct prn_node *wall = &again->graph.nodes[1];
    assert_string_equal(one->name, "one");
    assert_string_equal(wall->op_type, "Reshape");
    assert_string_equal(wall->inputs[0], one->outputs[0]);
    assert_string_equal(wall->outputs[0], "a");
    assert_string_equal(again->graph.nodes[2].inputs[0], "a");
    const struct prn_constant *shape = &again->graph.constants[0];
    assert_string_equal(shape->name, wall->inputs[1]);
    assert_int_equal(shape->elements, 2);
    static const int64_t zeros[2];
    assert_memory_equal(shape->data, zeros, sizeof zeros);
    assert_int_equal(again->graph.n_outputs, 2);
    prn_model_free(again);
    /* A layer has none. */
    again = read_back(0, NULL, folder);
    assert_int_equal(again->graph.n_nodes, 1);
    prn_model_free(again);
    rmdir(folder);
}

static void layers_are_models(void **state)
{
    (void)state;
    char folder[] = "/tmp/prony-cut-XXXXXX";
    assert_non_null(mkdtemp(folder));
    input("x", "batch,8");
    weight("w", 8, 40);
    weight("v", 40, 8);
    weight("bias", 1, 8);
    node("one: MatMul x w > a");
    node("two: MatMul a v > b");
    node("three: Add b bias > y");
    output("y");
    output("a");
    cut(&(struct prn_cut_options){0});
    assert_layers("x > MatMul > a!a | a > MatMul Add > !y");
    int descriptors = unit_descriptors();
    struct prn_model *again = read_back(1, NULL, folder);
    assert_int_equal(again->graph.n_nodes, 2);
    assert_string_equal(again->graph.nodes[0].name, "two");
    assert_string_equal(again->graph.inputs[0].name, "a");
    assert_string_equal(again->graph.name, "g/layer.2");
    assert_int_equal(again->graph.n_outputs, 1);
    assert_int_equal(again->graph.n_constants, 2);
    assert_int_equal(again->n_opsets, 1);
    assert_int_equal(again->opsets[0].version, 17);
    const float *v = again->graph.constants[0].data;
    assert_near(v[5], 5 + 'v', 0);
    prn_model_free(again);
    /* Both the model's output and what the next layer takes, but once. */
    again = read_back(0, NULL, folder);
    assert_int_equal(again->graph.n_outputs, 1);
    prn_model_free(again);

    /* Weights apart: the small one stays, the large one is where the file says. */
    again = read_back(1, "layer.data", folder);
    assert_int_equal(again->n_external_files, 1);
    assert_int_equal(again->external_bytes, 40 * 8 * 4);
    assert_non_null(again->graph.constants[1].data);
    char data_path[300];
    float values[320];
    snprintf(data_path, sizeof data_path, "%s/layer.data", folder);
    FILE *file = fopen(data_path, "r");
    assert_non_null(file);
    assert_int_equal(fread(values, sizeof values[0], 320, file), 320);
    assert_near(values[319], 319 + 'v', 0);
    assert_int_equal(fgetc(file), EOF);
    fclose(file);
    prn_model_free(again);
    assert_false(prn_cut_needs_data(cuts, 0));
    unlink(data_path);
    rmdir(folder);
    assert_int_equal(unit_descriptors(), descriptors);
}

/* ---- Size ---- */

/* Many nodes one after the other, and a tensor that all of them read. */
static void long_models_are_cut(void **state)
{
    (void)state;
    enum { NODES = 300000 };
    char text[96];
    input("x", "1,8");
    weight("w", 8, 8);
    node("MatMul x w > first");
    node("Relu first > t0");
    for (int i = 0; i < NODES; i++) {
        snprintf(text, sizeof text, "Add t%d first > t%d", i, i + 1);
        node(text);
    }
    snprintf(text, sizeof text, "MatMul t%d w > y", NODES);
    node(text);
    output("y");
    cut(&(struct prn_cut_options){0});
    assert_int_equal(cuts->n_layers, 2);
    assert_int_equal(cuts->layers[0].n_out, 1);
    cut_at("t*0000");
    assert_int_equal(cuts->n_layers, NODES / 10000 + 1);
}

/* Each of many layers would have to be handed all results of the ones before. */
static void too_much_to_carry_is_refused(void **state)
{
    (void)state;
    enum { NODES = 20000 };
    static const char *const everywhere[] = {"*"};
    char text[64];
    struct prn_node sum = {.name = "", .op_type = "Sum", .domain = "", .n_inputs = NODES};
    const char **names = calloc(NODES, sizeof *names);
    assert_non_null(names);
    input("x", "1,8");
    for (int i = 0; i < NODES; i++) {
        snprintf(text, sizeof text, "Relu x > t%d", i);
        node(text);
        snprintf(text, sizeof text, "t%d", i);
        names[i] = prn_arena_strdup(&arena, text);
    }
    sum.inputs = names;
    sum.n_outputs = 1;
    sum.outputs = (const char *const[]){"y"};
    prn_writer_node(writer, &sum);
    free(names);
    output("y");
    assert_refused(&(struct prn_cut_options){.patterns = everywhere, .n_patterns = 1}, PRONY_ELIMIT,
                   "tensors would pass");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(transformer_block_has_four_layers),
        TEST(fewest_bytes_then_latest),
        TEST(branches_are_disentangled),
        TEST(constants_are_computed_where_they_are_needed),
        TEST(random_numbers_are_drawn_once),
        TEST(masks_are_carried_or_computed_again),
        TEST(what_grows_is_computed_again),
        TEST(inputs_and_outputs_on_the_way),
        TEST(bodies_read_from_outside),
        TEST(patterns_name_tensors_and_nodes),
        TEST(places_that_are_not),
        TEST(too_many_tensors),
        TEST(limit_is_named),
        TEST(tiny_tensors_do_not_count),
        TEST(a_higher_limit_is_proposed),
        TEST(sequences_do_not_pass),
        TEST(unknown_types_do_not_pass),
        TEST(whole_gives_what_passes),
        TEST(whole_has_walls),
        TEST(joined_layers_are_balanced),
        TEST(named_layers_are_joined),
        TEST(open_dimensions_stay_open),
        TEST(layers_are_models),
        TEST(long_models_are_cut),
        TEST(too_much_to_carry_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
