/*
 * From protobuf-c's messages to a `struct prn_model`. The messages are in the model's arena, so
 * text and numbers are borrowed from them instead of copied again.
 */
#include "model/parts.h"

#include <stdio.h>
#include <string.h>

static const char *text(const char *s)
{
    return s ? s : "";
}

/* The domain of ONNX's own operators has two spellings. */
static const char *domain(const char *s)
{
    return s && strcmp(s, "ai.onnx") != 0 ? s : "";
}

/* ---- Values ---- */

/* What exporters write for a dimension of which they know nothing names nothing. */
static bool is_dim_name(const char *name)
{
    static const char *const placeholders[] = {"?", "-1", "None", "*"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(placeholders); i++)
        if (strcmp(name, placeholders[i]) == 0)
            return false;
    return name[strspn(name, " ")] != '\0';
}

static int read_shape(struct prn_reader *r, const Onnx__TensorShapeProto *shape,
                      struct prn_value *value)
{
    if (!shape)
        return 0;
    if (shape->n_dim > PRN_RANK_MAX)
        return prn_fail(r->err, PRONY_ELIMIT, "value '%s' has %zu dimensions, more than %d",
                        value->name, shape->n_dim, PRN_RANK_MAX);
    struct prn_dim *dims = PRN_ARENA_ARRAY(r->arena, shape->n_dim, struct prn_dim);
    if (!dims)
        return prn_reader_full(r);
    for (size_t i = 0; i < shape->n_dim; i++) {
        const Onnx__TensorShapeProto__Dimension *d = shape->dim[i];
        dims[i].value = -1;
        if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE)
            dims[i].value = d->dim_value >= 0 ? d->dim_value : -1;
        else if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
                 is_dim_name(text(d->dim_param)))
            dims[i].param = d->dim_param;
    }
    value->has_shape = true;
    value->rank = shape->n_dim;
    value->dims = dims;
    return 0;
}

static int read_value(struct prn_reader *r, const Onnx__ValueInfoProto *info,
                      struct prn_value *value)
{
    value->name = text(info->name);
    value->kind = PRN_VALUE_UNKNOWN;
    const Onnx__TypeProto *type = info->type;
    switch (type ? type->value_case : ONNX__TYPE_PROTO__VALUE__NOT_SET) {
    case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE:
        value->kind = PRN_VALUE_TENSOR;
        value->dtype = type->tensor_type->elem_type;
        return read_shape(r, type->tensor_type->shape, value);
    case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE:
        value->kind = PRN_VALUE_SPARSE;
        value->dtype = type->sparse_tensor_type->elem_type;
        return read_shape(r, type->sparse_tensor_type->shape, value);
    case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE:
        value->kind = PRN_VALUE_SEQUENCE;
        break;
    case ONNX__TYPE_PROTO__VALUE_MAP_TYPE:
        value->kind = PRN_VALUE_MAP;
        break;
    case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE:
        value->kind = PRN_VALUE_OPTIONAL;
        break;
    default:
        break;
    }
    return 0;
}

static int read_values(struct prn_reader *r, Onnx__ValueInfoProto *const *infos, size_t n,
                       const struct prn_value **ret_values)
{
    struct prn_value *values = PRN_ARENA_ARRAY(r->arena, n, struct prn_value);
    if (!values)
        return prn_reader_full(r);
    for (size_t i = 0; i < n; i++) {
        int code = read_value(r, infos[i], &values[i]);
        if (code < 0)
            return code;
    }
    *ret_values = values;
    return 0;
}

/* The inputs and outputs of a function are names only. */
static int read_names(struct prn_reader *r, char *const *names, size_t n,
                      const struct prn_value **ret_values)
{
    struct prn_value *values = PRN_ARENA_ARRAY(r->arena, n, struct prn_value);
    if (!values)
        return prn_reader_full(r);
    for (size_t i = 0; i < n; i++)
        values[i] = (struct prn_value){.name = names[i], .kind = PRN_VALUE_UNKNOWN};
    *ret_values = values;
    return 0;
}

/* ---- Weights ---- */

static void add(uint64_t *sum, uint64_t more)
{
    if (__builtin_add_overflow(*sum, more, sum))
        *sum = UINT64_MAX;
}

bool prn_constant_is_weight(const struct prn_constant *c)
{
    bool small_integer = prn_dtype_is_integer(c->dtype) && prn_dtype_bits(c->dtype) <= 32;
    return c->rank > 0 && (prn_dtype_is_float(c->dtype) || small_integer);
}

static void count_weight(struct prn_model *model, const struct prn_constant *c)
{
    if (prn_constant_is_weight(c)) {
        add(&model->n_parameters, (uint64_t)c->elements);
        add(&model->parameter_bytes, c->bytes);
    }
}

/* ---- Nodes ---- */

static int read_graph(struct prn_reader *r, const Onnx__GraphProto *proto, struct prn_graph *graph);

static int read_graphs(struct prn_reader *r, Onnx__GraphProto *const *protos, size_t n,
                       struct prn_attribute *attribute)
{
    const struct prn_graph **graphs = PRN_ARENA_ARRAY(r->arena, n, const struct prn_graph *);
    struct prn_graph *storage = PRN_ARENA_ARRAY(r->arena, n, struct prn_graph);
    if (!graphs || !storage)
        return prn_reader_full(r);
    for (size_t i = 0; i < n; i++) {
        int code = read_graph(r, protos[i], &storage[i]);
        if (code < 0)
            return code;
        graphs[i] = &storage[i];
    }
    attribute->n = n;
    attribute->graphs = graphs;
    return 0;
}

static int read_strings(struct prn_reader *r, const ProtobufCBinaryData *items, size_t n,
                        struct prn_attribute *attribute)
{
    const char **strings = PRN_ARENA_ARRAY(r->arena, n, const char *);
    if (!strings)
        return prn_reader_full(r);
    for (size_t i = 0; i < n; i++) {
        strings[i] = prn_arena_strndup(r->arena, (const char *)items[i].data, items[i].len);
        if (!strings[i])
            return prn_reader_full(r);
    }
    attribute->n = n;
    attribute->strings = strings;
    return 0;
}

/* A tensor of the file, with what it takes outside of it. */
static int read_constant(struct prn_reader *r, const Onnx__TensorProto *proto,
                         struct prn_constant *constant)
{
    int code = prn_constant_read(r, proto, constant);
    if (code == 0 && constant->external_location)
        add(&r->model->external_bytes, constant->bytes);
    return code;
}

static int read_tensor(struct prn_reader *r, const Onnx__TensorProto *proto,
                       struct prn_attribute *attribute)
{
    struct prn_constant *constant = PRN_ARENA_NEW(r->arena, struct prn_constant);
    attribute->tensor = constant;
    return constant ? read_constant(r, proto, constant) : prn_reader_full(r);
}

/* Models from before IR version 3 don't say which kind of value an attribute has. */
static int attribute_type(const Onnx__AttributeProto *a)
{
    if (a->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED || a->ref_attr_name)
        return a->type;
    return a->has_f       ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT
           : a->has_i     ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT
           : a->has_s     ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING
           : a->t         ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR
           : a->g         ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH
           : a->n_floats  ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS
           : a->n_ints    ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS
           : a->n_strings ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS
           : a->n_graphs  ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPHS
                          : ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED;
}

static int read_attribute(struct prn_reader *r, const Onnx__AttributeProto *a,
                          struct prn_attribute *attribute)
{
    *attribute = (struct prn_attribute){.name = text(a->name), .kind = PRN_ATTRIBUTE_OTHER, .n = 1};
    if (a->ref_attr_name && *a->ref_attr_name) {
        attribute->refers_to = a->ref_attr_name;
        return 0;
    }
    switch (attribute_type(a)) {
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT:
        attribute->kind = PRN_ATTRIBUTE_FLOAT;
        attribute->floats = &a->f;
        return 0;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT:
        attribute->kind = PRN_ATTRIBUTE_INT;
        attribute->ints = &a->i;
        return 0;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING:
        if (!a->has_s)
            return 0;
        attribute->kind = PRN_ATTRIBUTE_STRING;
        return read_strings(r, &a->s, 1, attribute);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR:
        if (!a->t)
            return 0;
        attribute->kind = PRN_ATTRIBUTE_TENSOR;
        return read_tensor(r, a->t, attribute);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH:
        if (!a->g)
            return 0;
        attribute->kind = PRN_ATTRIBUTE_GRAPH;
        return read_graphs(r, &a->g, 1, attribute);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS:
        attribute->kind = PRN_ATTRIBUTE_FLOATS;
        attribute->n = a->n_floats;
        attribute->floats = a->floats;
        return 0;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS:
        attribute->kind = PRN_ATTRIBUTE_INTS;
        attribute->n = a->n_ints;
        attribute->ints = a->ints;
        return 0;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS:
        attribute->kind = PRN_ATTRIBUTE_STRINGS;
        return read_strings(r, a->strings, a->n_strings, attribute);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPHS:
        attribute->kind = PRN_ATTRIBUTE_GRAPHS;
        return read_graphs(r, a->graphs, a->n_graphs, attribute);
    default:
        return 0;
    }
}

static int read_node(struct prn_reader *r, const Onnx__NodeProto *proto, struct prn_node *node)
{
    struct prn_attribute *attributes =
        PRN_ARENA_ARRAY(r->arena, proto->n_attribute, struct prn_attribute);
    if (!attributes)
        return prn_reader_full(r);
    *node = (struct prn_node){.name = text(proto->name),
                              .op_type = text(proto->op_type),
                              .domain = domain(proto->domain),
                              .n_inputs = proto->n_input,
                              .n_outputs = proto->n_output,
                              .n_attributes = proto->n_attribute,
                              .inputs = (const char *const *)proto->input,
                              .outputs = (const char *const *)proto->output,
                              .attributes = attributes};
    for (size_t i = 0; i < proto->n_attribute; i++) {
        int code = read_attribute(r, proto->attribute[i], &attributes[i]);
        if (code < 0)
            return code;
    }
    const struct prn_constant *constant = prn_node_constant(node);
    if (constant)
        count_weight(r->model, constant);
    return 0;
}

static int read_nodes(struct prn_reader *r, Onnx__NodeProto *const *protos, size_t n,
                      struct prn_graph *graph)
{
    struct prn_node *nodes = PRN_ARENA_ARRAY(r->arena, n, struct prn_node);
    if (!nodes)
        return prn_reader_full(r);
    graph->n_nodes = n;
    graph->nodes = nodes;
    for (size_t i = 0; i < n; i++) {
        int code = read_node(r, protos[i], &nodes[i]);
        nodes[i].place = i;
        if (code < 0)
            return code;
    }
    return 0;
}

/* ---- Initialisers ---- */

/* A sparse initialiser stands in the graph with its full shape and without data; what it counts for
 * are the values that it has. */
static int read_sparse(struct prn_reader *r, const Onnx__SparseTensorProto *proto,
                       struct prn_constant *constant)
{
    struct prn_constant values = {0};
    struct prn_constant indices = {0};
    if (!proto->values || !proto->indices)
        return prn_fail(r->err, PRONY_EFORMAT, "a sparse initialiser lacks its values or indices");
    int code = read_constant(r, proto->values, &values);
    if (code == 0)
        code = read_constant(r, proto->indices, &indices);
    if (code < 0)
        return code;
    count_weight(r->model, &values);
    *constant = (struct prn_constant){.name = values.name,
                                      .dtype = values.dtype,
                                      .rank = proto->n_dims,
                                      .dims = proto->dims,
                                      .external_location = values.external_location
                                                               ? values.external_location
                                                               : indices.external_location};
    if (constant->rank > PRN_RANK_MAX ||
        prn_dims_elements(proto->dims, proto->n_dims, &constant->elements) < 0 ||
        prn_dtype_bytes(values.dtype, proto->dims, proto->n_dims, &constant->bytes) == PRONY_ELIMIT)
        return prn_fail(r->err, PRONY_ELIMIT, "sparse initialiser '%s' has an impossible shape",
                        values.name);
    return 0;
}

static int read_initialisers(struct prn_reader *r, const Onnx__GraphProto *proto,
                             struct prn_graph *graph)
{
    size_t n = proto->n_initializer + proto->n_sparse_initializer;
    struct prn_constant *constants = PRN_ARENA_ARRAY(r->arena, n, struct prn_constant);
    if (!constants)
        return prn_reader_full(r);
    graph->n_constants = n;
    graph->constants = constants;
    for (size_t i = 0; i < proto->n_initializer; i++) {
        int code = read_constant(r, proto->initializer[i], &constants[i]);
        if (code < 0)
            return code;
        count_weight(r->model, &constants[i]);
    }
    for (size_t i = 0; i < proto->n_sparse_initializer; i++) {
        int code =
            read_sparse(r, proto->sparse_initializer[i], &constants[proto->n_initializer + i]);
        if (code < 0)
            return code;
    }
    return 0;
}

/* ---- The model ---- */

static int read_graph(struct prn_reader *r, const Onnx__GraphProto *proto, struct prn_graph *graph)
{
    graph->name = text(proto->name);
    graph->n_inputs = proto->n_input;
    graph->n_outputs = proto->n_output;
    graph->n_values = proto->n_value_info;
    int code = read_initialisers(r, proto, graph);
    if (code == 0)
        code = read_values(r, proto->input, proto->n_input, &graph->inputs);
    if (code == 0)
        code = read_values(r, proto->output, proto->n_output, &graph->outputs);
    if (code == 0)
        code = read_values(r, proto->value_info, proto->n_value_info, &graph->values);
    return code == 0 ? read_nodes(r, proto->node, proto->n_node, graph) : code;
}

static int read_function(struct prn_reader *r, const Onnx__FunctionProto *proto,
                         struct prn_function *function)
{
    function->domain = domain(proto->domain);
    function->name = text(proto->name);
    struct prn_graph *body = &function->body;
    body->name = function->name;
    body->n_inputs = proto->n_input;
    body->n_outputs = proto->n_output;
    int code = read_names(r, proto->input, proto->n_input, &body->inputs);
    if (code == 0)
        code = read_names(r, proto->output, proto->n_output, &body->outputs);
    return code == 0 ? read_nodes(r, proto->node, proto->n_node, body) : code;
}

static int read_functions(struct prn_reader *r, const Onnx__ModelProto *proto)
{
    struct prn_function *functions =
        PRN_ARENA_ARRAY(r->arena, proto->n_functions, struct prn_function);
    if (!functions)
        return prn_reader_full(r);
    r->model->n_functions = proto->n_functions;
    r->model->functions = functions;
    for (size_t i = 0; i < proto->n_functions; i++) {
        int code = read_function(r, proto->functions[i], &functions[i]);
        if (code < 0)
            return code;
    }
    return 0;
}

static int read_opsets(struct prn_reader *r, const Onnx__ModelProto *proto)
{
    struct prn_opset *opsets = PRN_ARENA_ARRAY(r->arena, proto->n_opset_import, struct prn_opset);
    if (!opsets)
        return prn_reader_full(r);
    for (size_t i = 0; i < proto->n_opset_import; i++)
        opsets[i] = (struct prn_opset){.domain = domain(proto->opset_import[i]->domain),
                                       .version = proto->opset_import[i]->version};
    r->model->n_opsets = proto->n_opset_import;
    r->model->opsets = opsets;
    return 0;
}

static int read_producer(struct prn_reader *r, const Onnx__ModelProto *proto)
{
    const char *name = text(proto->producer_name);
    const char *version = text(proto->producer_version);
    size_t size = strlen(name) + strlen(version) + 2;
    char *joined = prn_arena_alloc(r->arena, size);
    if (!joined)
        return prn_reader_full(r);
    snprintf(joined, size, "%s%s%s", name, *name && *version ? " " : "", version);
    r->model->producer = joined;
    return 0;
}

/* Inputs that are not initialisers: before IR version 4 every initialiser was listed as one. */
static int find_fed_inputs(struct prn_reader *r)
{
    struct prn_model *model = r->model;
    const struct prn_graph *graph = &model->graph;
    const struct prn_value **inputs =
        PRN_ARENA_ARRAY(r->arena, graph->n_inputs, const struct prn_value *);
    if (!inputs)
        return prn_reader_full(r);
    struct prn_map initialisers = PRN_MAP_INIT;
    int code = 0;
    for (size_t i = 0; i < graph->n_constants && code == 0; i++)
        code = prn_map_set(&initialisers, graph->constants[i].name, i);
    for (size_t i = 0; i < graph->n_inputs; i++)
        if (prn_map_get(&initialisers, graph->inputs[i].name) == PRN_MAP_NONE)
            inputs[model->n_inputs++] = &graph->inputs[i];
    model->inputs = inputs;
    prn_map_release(&initialisers);
    return code < 0 ? prn_fail_memory(r->err) : 0;
}

int prn_model_read(struct prn_reader *r, const Onnx__ModelProto *proto)
{
    r->model->ir_version = proto->ir_version;
    int code = read_producer(r, proto);
    if (code == 0)
        code = read_opsets(r, proto);
    if (code == 0)
        code = read_graph(r, proto->graph, &r->model->graph);
    if (code == 0)
        code = read_functions(r, proto);
    if (code == 0)
        code = prn_model_check(r);
    return code == 0 ? find_fed_inputs(r) : code;
}

/* ---- Looking at it ---- */

const char *prn_value_kind_name(enum prn_value_kind kind)
{
    static const char *const names[] = {
        [PRN_VALUE_TENSOR] = "tensor",     [PRN_VALUE_SPARSE] = "sparse tensor",
        [PRN_VALUE_SEQUENCE] = "sequence", [PRN_VALUE_MAP] = "map",
        [PRN_VALUE_OPTIONAL] = "optional", [PRN_VALUE_UNKNOWN] = "value of unknown type",
    };
    return (size_t)kind < PRN_ARRAY_SIZE(names) ? names[kind] : names[PRN_VALUE_UNKNOWN];
}

const struct prn_attribute *prn_node_attribute(const struct prn_node *node, const char *name)
{
    for (size_t i = 0; i < node->n_attributes; i++)
        if (strcmp(node->attributes[i].name, name) == 0)
            return &node->attributes[i];
    return NULL;
}

const struct prn_constant *prn_node_constant(const struct prn_node *node)
{
    if (strcmp(node->op_type, "Constant") != 0 || *node->domain)
        return NULL;
    const struct prn_attribute *value = prn_node_attribute(node, "value");
    return value ? value->tensor : NULL;
}

int64_t prn_node_int(const struct prn_node *node, const char *name, int64_t otherwise)
{
    const struct prn_attribute *attribute = prn_node_attribute(node, name);
    return attribute && attribute->kind == PRN_ATTRIBUTE_INT ? attribute->ints[0] : otherwise;
}
