/* What a graph in FXPROTO must be like before anything is made of it. */
#include "model/fx/fx.h"

#include "base/map.h"
#include "base/text.h"
#include "model/dtype.h"

#include <ctype.h>
#include <string.h>

#define ALIGNMENT 16     /* of tensors in their files */
#define KEYWORDS_MAX 256 /* of one call */

/* Of the module operator (and round), and of torch: what sizes are computed with, and what makes
 * tensors of constants. */
static const char *const operators[] = {
    "getitem", "add", "sub", "mul", "floordiv", "truediv", "mod",  "neg", "eq",   "ne",
    "lt",      "le",  "gt",  "ge",  "and_",     "or_",     "not_", "pow", "round"};
static const char *const functions[] = {"tensor",  "sym_int", "sym_float", "sym_max",
                                        "sym_min", "sym_not", "sym_ite",   "sym_sum"};

/* What takes graphs as arguments. */
static const char *const higher_orders[] = {"cond", "while_loop", "map_impl", "scan"};

struct check {
    struct prn_map nodes; /* names of those before → their place */
    const char *node;     /* the one that is looked at */
    bool is_inner;        /* the graph is a value of another one */
    bool takes_graphs;    /* the node does */
    struct prony_error *err;
};

#define FAULT(c, ...) prn_fail((c)->err, PRONY_EFORMAT, __VA_ARGS__)

static bool is_listed(const char *const *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

/* Names become identifiers of Python, and stand in messages. */
static bool is_identifier(const char *name)
{
    size_t n = 0;
    while (n <= PRN_FX_NAME_MAX && (name[n] == '_' || isalnum((unsigned char)name[n])))
        n++;
    return n > 0 && n <= PRN_FX_NAME_MAX && !name[n] && !isdigit((unsigned char)name[0]);
}

static int check_identifier(const struct check *c, const char *what, const char *name)
{
    if (is_identifier(name))
        return 0;
    struct prn_buffer clean = PRN_BUFFER_INIT(256);
    prn_text_shorten(&clean, name, 40);
    struct prn_buffer line = PRN_BUFFER_INIT(256);
    prn_text_clean(&line, prn_buffer_text(&clean));
    int code = FAULT(c, "%s '%s' isn't an identifier", what, prn_buffer_text(&line));
    prn_buffer_release(&clean);
    prn_buffer_release(&line);
    return code;
}

/* The element type under ONNX's number; 0: there is none for it. */
static int dtype_of(OctomlFxproto__DtypeValue dtype)
{
    switch (dtype) {
    case OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_BOOL:
        return PRN_DTYPE_BOOL;
    case OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_INT8:
        return PRN_DTYPE_INT8;
    case OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_INT16:
        return PRN_DTYPE_INT16;
    case OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_INT32:
        return PRN_DTYPE_INT32;
    case OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_INT64:
        return PRN_DTYPE_INT64;
    case OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_UINT8:
        return PRN_DTYPE_UINT8;
    case OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_UINT16:
        return PRN_DTYPE_UINT16;
    case OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_UINT32:
        return PRN_DTYPE_UINT32;
    case OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_UINT64:
        return PRN_DTYPE_UINT64;
    case OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_FLOAT16:
        return PRN_DTYPE_FLOAT16;
    case OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_FLOAT32:
        return PRN_DTYPE_FLOAT;
    case OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_FLOAT64:
        return PRN_DTYPE_DOUBLE;
    case OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_BFLOAT16:
        return PRN_DTYPE_BFLOAT16;
    case OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_COMPLEX64:
        return PRN_DTYPE_COMPLEX64;
    case OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_COMPLEX128:
        return PRN_DTYPE_COMPLEX128;
    default:
        return PRN_DTYPE_UNDEFINED;
    }
}

static int check_dtype(const struct check *c, OctomlFxproto__DtypeValue dtype)
{
    if (dtype_of(dtype) || dtype == OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_COMPLEX32)
        return 0;
    return FAULT(c, "node '%s': there is no element type %d", c->node, (int)dtype);
}

static int64_t element_bytes(OctomlFxproto__DtypeValue dtype)
{
    return dtype == OCTOML_FXPROTO__DTYPE_VALUE__DTYPE_COMPLEX32
               ? 4
               : prn_dtype_bits(dtype_of(dtype)) / 8;
}

static int check_tensor(const struct check *c, const OctomlFxproto__TensorValue *t)
{
    int64_t bytes;
    int code = check_dtype(c, t->dtype);
    if (code < 0)
        return code;
    if (c->is_inner)
        return FAULT(c, "node '%s': a tensor of a graph inside another one", c->node);
    if (t->n_shape > PRN_FX_RANK_MAX)
        return FAULT(c, "node '%s': a tensor of more than %d dimensions", c->node, PRN_FX_RANK_MAX);
    if (prn_dims_elements(t->shape, t->n_shape, &bytes) < 0 ||
        __builtin_mul_overflow(bytes, element_bytes(t->dtype), &bytes))
        return FAULT(c, "node '%s': a tensor with an impossible shape", c->node);
    if (bytes != t->size_bytes)
        return FAULT(c, "node '%s': a tensor has %lld bytes, its shape takes %lld", c->node,
                     (long long)t->size_bytes, (long long)bytes);
    if (t->weight_file_index < 0 || t->weight_file_index >= PRN_FX_FILES_MAX)
        return FAULT(c, "node '%s': there is no file 'weights/%lld'", c->node,
                     (long long)t->weight_file_index);
    if (t->weight_file_offset < 0 || t->weight_file_offset % ALIGNMENT != 0)
        return FAULT(c, "node '%s': %lld, where a tensor begins, isn't a multiple of %d", c->node,
                     (long long)t->weight_file_offset, ALIGNMENT);
    return 0;
}

static int check_integer(const struct check *c, const char *text)
{
    const char *digits = text + (*text == '-');
    size_t n = strspn(digits, "0123456789");
    if (n > 0 && n <= PRN_FX_DIGITS_MAX && !digits[n])
        return 0;
    return FAULT(c, "node '%s': an integer that isn't one", c->node);
}

static int check_string(const struct check *c, const char *text)
{
    size_t n;
    for (; *text; text += n) {
        n = prn_utf8_length(text);
        if (n == 0)
            return FAULT(c, "node '%s': a text that isn't UTF-8", c->node);
    }
    return 0;
}

static int check_value(struct check *c, const OctomlFxproto__Value *value);
static int check_inner(const struct check *c, const OctomlFxproto__Graph *graph);

static int check_list(struct check *c, const OctomlFxproto__ListValue *list)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < list->n_items; i++)
        code = check_value(c, list->items[i]);
    return code;
}

static int check_value(struct check *c, const OctomlFxproto__Value *value)
{
    if (!value)
        return FAULT(c, "node '%s': a value is missing", c->node);
    switch (value->value_case) {
    case OCTOML_FXPROTO__VALUE__VALUE_NODE_NAME:
        if (!is_identifier(value->node_name) ||
            prn_map_get(&c->nodes, value->node_name) == PRN_MAP_NONE)
            return FAULT(c, "node '%s' uses a node that isn't before it", c->node);
        return 0;
    case OCTOML_FXPROTO__VALUE__VALUE_TENSOR:
        return check_tensor(c, value->tensor);
    case OCTOML_FXPROTO__VALUE__VALUE_INTEGER:
        return check_integer(c, value->integer);
    case OCTOML_FXPROTO__VALUE__VALUE_LIST:
        return check_list(c, value->list);
    case OCTOML_FXPROTO__VALUE__VALUE_TUPLE:
        return check_list(c, value->tuple);
    case OCTOML_FXPROTO__VALUE__VALUE_DEVICE:
        return check_identifier(c, "the device", value->device->type);
    case OCTOML_FXPROTO__VALUE__VALUE_DTYPE:
        return check_dtype(c, value->dtype);
    case OCTOML_FXPROTO__VALUE__VALUE_MEMORY_FORMAT:
        return (unsigned)value->memory_format <=
                       OCTOML_FXPROTO__MEMORY_FORMAT_VALUE__MEMORY_FORMAT_PRESERVE_FORMAT
                   ? 0
                   : FAULT(c, "node '%s': there is no such memory format", c->node);
    case OCTOML_FXPROTO__VALUE__VALUE_LAYOUT:
        return (unsigned)value->layout <= OCTOML_FXPROTO__LAYOUT_VALUE__LAYOUT_SPARSE_COO
                   ? 0
                   : FAULT(c, "node '%s': there is no such layout", c->node);
    case OCTOML_FXPROTO__VALUE__VALUE_STRING:
        return check_string(c, value->string);
    case OCTOML_FXPROTO__VALUE__VALUE_GRAPH:
        return c->takes_graphs ? check_inner(c, value->graph)
                               : FAULT(c, "node '%s' takes no graph", c->node);
    case OCTOML_FXPROTO__VALUE__VALUE_BOOLEAN:
    case OCTOML_FXPROTO__VALUE__VALUE_FLOAT:
    case OCTOML_FXPROTO__VALUE__VALUE_NONE:
        return 0;
    default:
        return FAULT(c, "node '%s': a value is missing", c->node);
    }
}

static int check_overload(const struct check *c, const OctomlFxproto__OpOverload *op)
{
    int code = check_identifier(c, "the namespace", op->namespace_);
    if (code == 0)
        code = check_identifier(c, "the operator", op->op_name);
    if (code == 0)
        code = check_identifier(c, "the overload", op->overload_name);
    return code;
}

static int check_target(const struct check *c, const OctomlFxproto__Function *target)
{
    switch (target ? target->function_case : OCTOML_FXPROTO__FUNCTION__FUNCTION__NOT_SET) {
    case OCTOML_FXPROTO__FUNCTION__FUNCTION_OP_OVERLOAD:
        return check_overload(c, target->op_overload);
    case OCTOML_FXPROTO__FUNCTION__FUNCTION_PYTHON_OPERATOR:
        if (is_listed(operators, PRN_ARRAY_SIZE(operators), target->python_operator))
            return 0;
        return FAULT(c, "node '%s' calls an operator of Python that isn't run", c->node);
    case OCTOML_FXPROTO__FUNCTION__FUNCTION_TORCH_FUNCTION:
        if (is_listed(functions, PRN_ARRAY_SIZE(functions), target->torch_function))
            return 0;
        return FAULT(c, "node '%s' calls a function of torch that isn't run", c->node);
    case OCTOML_FXPROTO__FUNCTION__FUNCTION_HIGHER_ORDER:
        if (is_listed(higher_orders, PRN_ARRAY_SIZE(higher_orders), target->higher_order))
            return 0;
        return FAULT(c, "node '%s' calls an operator on graphs that isn't run", c->node);
    default:
        return FAULT(c, "node '%s' calls nothing", c->node);
    }
}

static int check_call(struct check *c, const OctomlFxproto__CallFunctionNode *call)
{
    int code = check_target(c, call->target);
    c->takes_graphs =
        code == 0 && call->target->function_case == OCTOML_FXPROTO__FUNCTION__FUNCTION_HIGHER_ORDER;
    if (code == 0 && call->n_kwargs > KEYWORDS_MAX)
        return FAULT(c, "node '%s' has more than %d arguments with names", c->node, KEYWORDS_MAX);
    for (size_t i = 0; code == 0 && i < call->n_args; i++)
        code = check_value(c, call->args[i]);
    for (size_t i = 0; code == 0 && i < call->n_kwargs; i++) {
        code = check_identifier(c, "the argument", call->kwargs[i]->name);
        for (size_t k = 0; code == 0 && k < i; k++)
            if (strcmp(call->kwargs[i]->name, call->kwargs[k]->name) == 0)
                code = FAULT(c, "node '%s' has an argument twice", c->node);
        if (code == 0)
            code = check_value(c, call->kwargs[i]->value);
    }
    c->takes_graphs = false;
    return code;
}

static int check_node(struct check *c, const OctomlFxproto__Graph *graph, size_t i)
{
    const OctomlFxproto__Node *node = graph->nodes[i];
    const bool last = i + 1 == graph->n_nodes;
    int code = check_identifier(c, "the node", node->name);
    if (code < 0)
        return code;
    c->node = node->name;
    if (prn_map_get(&c->nodes, node->name) != PRN_MAP_NONE)
        return FAULT(c, "two nodes are called '%s'", node->name);
    if (last != (node->kind_case == OCTOML_FXPROTO__NODE__KIND_OUTPUT))
        return FAULT(c, "node '%s': the output is the last node, and there is one", node->name);
    switch (node->kind_case) {
    case OCTOML_FXPROTO__NODE__KIND_PLACEHOLDER:
        if (i > 0 && graph->nodes[i - 1]->kind_case != OCTOML_FXPROTO__NODE__KIND_PLACEHOLDER)
            return FAULT(c, "placeholder '%s' comes after other nodes", node->name);
        break;
    case OCTOML_FXPROTO__NODE__KIND_CALL_FUNCTION:
        code = check_call(c, node->call_function);
        break;
    case OCTOML_FXPROTO__NODE__KIND_OUTPUT:
        code = check_value(c, node->output->result);
        break;
    default:
        return FAULT(c, "node '%s' is of no known kind", node->name);
    }
    if (code == 0 && prn_map_set(&c->nodes, node->name, i) < 0)
        return prn_fail_memory(c->err);
    return code;
}

static int check_nodes(struct check *c, const OctomlFxproto__Graph *graph)
{
    int code = graph->n_nodes > 0 ? 0 : FAULT(c, "a graph without nodes");
    for (size_t i = 0; code == 0 && i < graph->n_nodes; i++)
        code = check_node(c, graph, i);
    return code;
}

/* It has names of its own, and sees nothing of the graph around it. */
static int check_inner(const struct check *c, const OctomlFxproto__Graph *graph)
{
    struct check inner = {.nodes = PRN_MAP_INIT, .err = c->err, .is_inner = true};
    int code = check_nodes(&inner, graph);
    prn_map_release(&inner.nodes);
    return code;
}

static int check_fixed(struct check *c, const OctomlFxproto__Model *model)
{
    size_t placeholders = 0;
    while (placeholders < model->graph->n_nodes &&
           model->graph->nodes[placeholders]->kind_case == OCTOML_FXPROTO__NODE__KIND_PLACEHOLDER)
        placeholders++;
    if (model->n_fixed_inputs > placeholders)
        return FAULT(c, "%zu fixed inputs for %zu placeholders", model->n_fixed_inputs,
                     placeholders);
    int code = 0;
    for (size_t i = 0; code == 0 && i < model->n_fixed_inputs; i++) {
        c->node = "fixed input";
        code = check_value(c, model->fixed_inputs[i]->value);
    }
    return code;
}

int prn_fx_check(const OctomlFxproto__Model *model, struct prony_error *err)
{
    struct check c = {.nodes = PRN_MAP_INIT, .err = err};
    if (!model->graph || model->graph->n_nodes == 0)
        return FAULT(&c, "it has no nodes");
    /* Before there are nodes that a fixed input could name. */
    int code = check_fixed(&c, model);
    if (code == 0)
        code = check_nodes(&c, model->graph);
    prn_map_release(&c.nodes);
    return code;
}
