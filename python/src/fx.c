#include "fx.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

#define PACK_BYTES_MAX ((size_t)1 << 30) /* of messages that are made of a tree */

/* ---- To Python ---- */

static PyObject *value_tree(const OctomlFxproto__Value *value);
static PyObject *nodes_tree(const OctomlFxproto__Graph *graph);

/* `list` takes the item; false: there is none, or no room, and an exception is set. */
static bool append(PyObject *list, PyObject *item)
{
    int code = item ? PyList_Append(list, item) : -1;
    Py_XDECREF(item);
    return code == 0;
}

static PyObject *values_tree(OctomlFxproto__Value *const *items, size_t n)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++)
        if (!append(list, value_tree(items[i])))
            Py_CLEAR(list);
    return list;
}

static PyObject *dims_tree(const OctomlFxproto__TensorValue *t)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < t->n_shape; i++)
        if (!append(list, PyLong_FromLongLong(t->shape[i])))
            Py_CLEAR(list);
    return list;
}

static PyObject *device_tree(const OctomlFxproto__DeviceValue *device)
{
    if (!device->with_index)
        return Py_BuildValue("(ssO)", "device", device->type, Py_None);
    return Py_BuildValue("(ssL)", "device", device->type, (long long)device->index);
}

static PyObject *integer_tree(const char *digits)
{
    PyObject *number = PyLong_FromString(digits, NULL, 10);
    return number ? Py_BuildValue("(sN)", "int", number) : NULL;
}

static PyObject *tensor_tree(const OctomlFxproto__TensorValue *t)
{
    PyObject *dims = dims_tree(t);
    return dims ? Py_BuildValue("(siNLLL)", "tensor", (int)t->dtype, dims,
                                (long long)t->weight_file_index, (long long)t->weight_file_offset,
                                (long long)t->size_bytes)
                : NULL;
}

static PyObject *list_tree(const char *kind, const OctomlFxproto__ListValue *list)
{
    PyObject *items = values_tree(list->items, list->n_items);
    return items ? Py_BuildValue("(sN)", kind, items) : NULL;
}

static PyObject *value_tree(const OctomlFxproto__Value *value)
{
    switch (value->value_case) {
    case OCTOML_FXPROTO__VALUE__VALUE_NODE_NAME:
        return Py_BuildValue("(ss)", "node", value->node_name);
    case OCTOML_FXPROTO__VALUE__VALUE_TENSOR:
        return tensor_tree(value->tensor);
    case OCTOML_FXPROTO__VALUE__VALUE_INTEGER:
        return integer_tree(value->integer);
    case OCTOML_FXPROTO__VALUE__VALUE_BOOLEAN:
        return Py_BuildValue("(sN)", "bool", PyBool_FromLong(value->boolean));
    case OCTOML_FXPROTO__VALUE__VALUE_FLOAT:
        return Py_BuildValue("(sd)", "float", value->float_);
    case OCTOML_FXPROTO__VALUE__VALUE_LIST:
        return list_tree("list", value->list);
    case OCTOML_FXPROTO__VALUE__VALUE_TUPLE:
        return list_tree("tuple", value->tuple);
    case OCTOML_FXPROTO__VALUE__VALUE_DEVICE:
        return device_tree(value->device);
    case OCTOML_FXPROTO__VALUE__VALUE_DTYPE:
        return Py_BuildValue("(si)", "dtype", (int)value->dtype);
    case OCTOML_FXPROTO__VALUE__VALUE_MEMORY_FORMAT:
        return Py_BuildValue("(si)", "memory_format", (int)value->memory_format);
    case OCTOML_FXPROTO__VALUE__VALUE_LAYOUT:
        return Py_BuildValue("(si)", "layout", (int)value->layout);
    case OCTOML_FXPROTO__VALUE__VALUE_STRING:
        return Py_BuildValue("(ss)", "string", value->string);
    case OCTOML_FXPROTO__VALUE__VALUE_GRAPH: {
        PyObject *nodes = nodes_tree(value->graph);
        return nodes ? Py_BuildValue("(sN)", "graph", nodes) : NULL;
    }
    default: /* the check has let nothing else through */
        return Py_BuildValue("(s)", "none");
    }
}

static PyObject *target_tree(const OctomlFxproto__Function *target)
{
    const OctomlFxproto__OpOverload *op = target->op_overload;
    switch (target->function_case) {
    case OCTOML_FXPROTO__FUNCTION__FUNCTION_OP_OVERLOAD:
        return Py_BuildValue("(ssss)", "op", op->namespace_, op->op_name, op->overload_name);
    case OCTOML_FXPROTO__FUNCTION__FUNCTION_PYTHON_OPERATOR:
        return Py_BuildValue("(ss)", "operator", target->python_operator);
    case OCTOML_FXPROTO__FUNCTION__FUNCTION_HIGHER_ORDER:
        return Py_BuildValue("(ss)", "higher_order", target->higher_order);
    default:
        return Py_BuildValue("(ss)", "torch", target->torch_function);
    }
}

static PyObject *keywords_tree(const OctomlFxproto__CallFunctionNode *call)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < call->n_kwargs; i++) {
        PyObject *value = value_tree(call->kwargs[i]->value);
        PyObject *pair = value ? Py_BuildValue("(sN)", call->kwargs[i]->name, value) : NULL;
        if (!append(list, pair))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *call_tree(const char *name, const OctomlFxproto__CallFunctionNode *call)
{
    PyObject *target = target_tree(call->target);
    PyObject *args = target ? values_tree(call->args, call->n_args) : NULL;
    PyObject *keywords = args ? keywords_tree(call) : NULL;
    if (keywords)
        return Py_BuildValue("(ssNNN)", "call_function", name, target, args, keywords);
    Py_XDECREF(target);
    Py_XDECREF(args);
    return NULL;
}

static PyObject *node_tree(const OctomlFxproto__Node *node)
{
    if (node->kind_case == OCTOML_FXPROTO__NODE__KIND_PLACEHOLDER)
        return Py_BuildValue("(ss)", "placeholder", node->name);
    if (node->kind_case == OCTOML_FXPROTO__NODE__KIND_CALL_FUNCTION)
        return call_tree(node->name, node->call_function);
    PyObject *value = value_tree(node->output->result);
    return value ? Py_BuildValue("(ssN)", "output", node->name, value) : NULL;
}

static PyObject *nodes_tree(const OctomlFxproto__Graph *graph)
{
    PyObject *nodes = PyList_New(0);
    for (size_t i = 0; nodes && i < graph->n_nodes; i++)
        if (!append(nodes, node_tree(graph->nodes[i])))
            Py_CLEAR(nodes);
    return nodes;
}

PyObject *native_fx_tree(const OctomlFxproto__Model *model)
{
    PyObject *nodes = nodes_tree(model->graph);
    PyObject *fixed = nodes ? PyList_New(0) : NULL;
    for (size_t i = 0; fixed && i < model->n_fixed_inputs; i++)
        if (!append(fixed, value_tree(model->fixed_inputs[i]->value)))
            Py_CLEAR(fixed);
    if (fixed)
        return Py_BuildValue("{sNsN}", "nodes", nodes, "fixed_inputs", fixed);
    Py_XDECREF(nodes);
    return NULL;
}

/* ---- From Python ---- */

/* Texts and messages live in the arena; after the first failure an exception is set and NULL comes
 * back from everything. */
struct pack {
    struct prn_arena arena;
};

static void *fail_shape(const char *what)
{
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "%s isn't as the tree of an FXPROTO graph has it", what);
    return NULL;
}

static void *alloc(struct pack *p, size_t n, size_t size)
{
    void *memory = prn_arena_array(&p->arena, n, size);
    if (!memory)
        PyErr_NoMemory();
    return memory;
}

#define NEW(p, type) ((type *)alloc((p), 1, sizeof(type)))

static char *pack_text(struct pack *p, PyObject *object)
{
    Py_ssize_t length;
    const char *text = object && PyUnicode_Check(object) ? PyUnicode_AsUTF8AndSize(object, &length)
                                                         : fail_shape("a text");
    if (!text)
        return NULL;
    if (strlen(text) != (size_t)length)
        return fail_shape("a text with a NUL");
    char *copy = prn_arena_strndup(&p->arena, text, (size_t)length);
    if (!copy)
        PyErr_NoMemory();
    return copy;
}

/* Item i of a tuple, borrowed; NULL when it has less. */
static PyObject *item(PyObject *tuple, Py_ssize_t i)
{
    return PyTuple_Check(tuple) && i < PyTuple_Size(tuple) ? PyTuple_GetItem(tuple, i)
                                                           : fail_shape("a tuple");
}

static bool pack_number(PyObject *object, int64_t *ret_number)
{
    if (!object)
        return false;
    *ret_number = PyLong_AsLongLong(object);
    return !(*ret_number == -1 && PyErr_Occurred());
}

static bool pack_enum(PyObject *object, int *ret_number)
{
    int64_t number;
    if (!pack_number(object, &number))
        return false;
    if (number < INT32_MIN || number > INT32_MAX)
        return fail_shape("a number");
    *ret_number = (int)number;
    return true;
}

static OctomlFxproto__Value *pack_value(struct pack *p, PyObject *tree);
static OctomlFxproto__Graph *pack_nodes(struct pack *p, PyObject *nodes);

static OctomlFxproto__Value **pack_values(struct pack *p, PyObject *list, size_t *ret_n)
{
    if (!list || !PyList_Check(list))
        return fail_shape("a list");
    const size_t n = (size_t)PyList_Size(list);
    OctomlFxproto__Value **values = alloc(p, n + 1, sizeof *values);
    for (size_t i = 0; values && i < n; i++)
        if (!(values[i] = pack_value(p, PyList_GetItem(list, (Py_ssize_t)i))))
            return NULL;
    *ret_n = n;
    return values;
}

static bool pack_list(struct pack *p, PyObject *tree, OctomlFxproto__Value *value)
{
    value->list = NEW(p, OctomlFxproto__ListValue);
    if (!value->list)
        return false;
    octoml_fxproto__list_value__init(value->list);
    value->list->items = pack_values(p, item(tree, 1), &value->list->n_items);
    return value->list->items;
}

static bool pack_tensor(struct pack *p, PyObject *tree, OctomlFxproto__Value *value)
{
    OctomlFxproto__TensorValue *t = value->tensor = NEW(p, OctomlFxproto__TensorValue);
    if (!t)
        return false;
    octoml_fxproto__tensor_value__init(t);
    PyObject *dims = item(tree, 2);
    int dtype;
    if (!dims || !PyList_Check(dims))
        return fail_shape("a shape");
    if (!pack_enum(item(tree, 1), &dtype) || !pack_number(item(tree, 3), &t->weight_file_index) ||
        !pack_number(item(tree, 4), &t->weight_file_offset) ||
        !pack_number(item(tree, 5), &t->size_bytes))
        return false;
    t->dtype = (OctomlFxproto__DtypeValue)dtype;
    t->n_shape = (size_t)PyList_Size(dims);
    t->shape = alloc(p, t->n_shape + 1, sizeof *t->shape);
    for (size_t i = 0; t->shape && i < t->n_shape; i++)
        if (!pack_number(PyList_GetItem(dims, (Py_ssize_t)i), &t->shape[i]))
            return false;
    return t->shape;
}

static bool pack_device(struct pack *p, PyObject *tree, OctomlFxproto__Value *value)
{
    OctomlFxproto__DeviceValue *device = value->device = NEW(p, OctomlFxproto__DeviceValue);
    PyObject *index = item(tree, 2);
    if (!device || !index)
        return false;
    octoml_fxproto__device_value__init(device);
    device->type = pack_text(p, item(tree, 1));
    device->with_index = index != Py_None;
    return device->type && (!device->with_index || pack_number(index, &device->index));
}

static bool pack_integer(struct pack *p, PyObject *tree, OctomlFxproto__Value *value)
{
    PyObject *number = item(tree, 1);
    if (!number || !PyLong_Check(number))
        return fail_shape("an integer");
    PyObject *digits = PyObject_Str(number);
    value->integer = digits ? pack_text(p, digits) : NULL;
    Py_XDECREF(digits);
    return value->integer;
}

static bool pack_float(struct pack *p, PyObject *tree, OctomlFxproto__Value *value)
{
    (void)p;
    PyObject *number = item(tree, 1);
    if (!number)
        return false;
    value->float_ = PyFloat_AsDouble(number);
    return !PyErr_Occurred();
}

static bool pack_bool(struct pack *p, PyObject *tree, OctomlFxproto__Value *value)
{
    (void)p;
    PyObject *truth = item(tree, 1);
    value->boolean = truth == Py_True;
    return truth;
}

static bool pack_none(struct pack *p, PyObject *tree, OctomlFxproto__Value *value)
{
    (void)p;
    (void)tree;
    value->none = true;
    return true;
}

/* Enums share their place in the message, and so do texts. */
static bool pack_kind(struct pack *p, PyObject *tree, OctomlFxproto__Value *value)
{
    (void)p;
    int number;
    if (!pack_enum(item(tree, 1), &number))
        return false;
    value->dtype = (OctomlFxproto__DtypeValue)number;
    return true;
}

static bool pack_string(struct pack *p, PyObject *tree, OctomlFxproto__Value *value)
{
    value->string = pack_text(p, item(tree, 1));
    return value->string;
}

static bool pack_graph(struct pack *p, PyObject *tree, OctomlFxproto__Value *value)
{
    value->graph = pack_nodes(p, item(tree, 1));
    return value->graph;
}

static OctomlFxproto__Value *pack_value(struct pack *p, PyObject *tree)
{
    static const struct {
        const char *kind;
        OctomlFxproto__Value__ValueCase value_case;
        bool (*pack)(struct pack *p, PyObject *tree, OctomlFxproto__Value *value);
    } kinds[] = {
        {"node", OCTOML_FXPROTO__VALUE__VALUE_NODE_NAME, pack_string},
        {"int", OCTOML_FXPROTO__VALUE__VALUE_INTEGER, pack_integer},
        {"tensor", OCTOML_FXPROTO__VALUE__VALUE_TENSOR, pack_tensor},
        {"bool", OCTOML_FXPROTO__VALUE__VALUE_BOOLEAN, pack_bool},
        {"float", OCTOML_FXPROTO__VALUE__VALUE_FLOAT, pack_float},
        {"none", OCTOML_FXPROTO__VALUE__VALUE_NONE, pack_none},
        {"list", OCTOML_FXPROTO__VALUE__VALUE_LIST, pack_list},
        {"tuple", OCTOML_FXPROTO__VALUE__VALUE_TUPLE, pack_list},
        {"device", OCTOML_FXPROTO__VALUE__VALUE_DEVICE, pack_device},
        {"dtype", OCTOML_FXPROTO__VALUE__VALUE_DTYPE, pack_kind},
        {"memory_format", OCTOML_FXPROTO__VALUE__VALUE_MEMORY_FORMAT, pack_kind},
        {"layout", OCTOML_FXPROTO__VALUE__VALUE_LAYOUT, pack_kind},
        {"string", OCTOML_FXPROTO__VALUE__VALUE_STRING, pack_string},
        {"graph", OCTOML_FXPROTO__VALUE__VALUE_GRAPH, pack_graph},
    };
    OctomlFxproto__Value *value = NEW(p, OctomlFxproto__Value);
    PyObject *first = item(tree, 0);
    const char *kind = value && first ? pack_text(p, first) : NULL;
    /* A list may hold itself. */
    if (!kind || Py_EnterRecursiveCall(" in an FXPROTO value"))
        return NULL;
    octoml_fxproto__value__init(value);
    size_t i = 0;
    while (i < PRN_ARRAY_SIZE(kinds) && strcmp(kinds[i].kind, kind) != 0)
        i++;
    bool packed =
        i < PRN_ARRAY_SIZE(kinds) ? kinds[i].pack(p, tree, value) : fail_shape("a value") != NULL;
    Py_LeaveRecursiveCall();
    value->value_case = packed ? kinds[i].value_case : OCTOML_FXPROTO__VALUE__VALUE__NOT_SET;
    return packed ? value : NULL;
}

static OctomlFxproto__Function *pack_target(struct pack *p, PyObject *tree)
{
    OctomlFxproto__Function *f = NEW(p, OctomlFxproto__Function);
    PyObject *first = tree ? item(tree, 0) : NULL;
    const char *kind = f && first ? pack_text(p, first) : NULL;
    if (!kind)
        return NULL;
    octoml_fxproto__function__init(f);
    if (strcmp(kind, "op") == 0) {
        OctomlFxproto__OpOverload *op = f->op_overload = NEW(p, OctomlFxproto__OpOverload);
        if (!op)
            return NULL;
        octoml_fxproto__op_overload__init(op);
        f->function_case = OCTOML_FXPROTO__FUNCTION__FUNCTION_OP_OVERLOAD;
        op->namespace_ = pack_text(p, item(tree, 1));
        op->op_name = op->namespace_ ? pack_text(p, item(tree, 2)) : NULL;
        op->overload_name = op->op_name ? pack_text(p, item(tree, 3)) : NULL;
        return op->overload_name ? f : NULL;
    }
    if (strcmp(kind, "operator") != 0 && strcmp(kind, "torch") != 0 &&
        strcmp(kind, "higher_order") != 0)
        return fail_shape("a target");
    f->function_case = kind[0] == 'o'   ? OCTOML_FXPROTO__FUNCTION__FUNCTION_PYTHON_OPERATOR
                       : kind[0] == 't' ? OCTOML_FXPROTO__FUNCTION__FUNCTION_TORCH_FUNCTION
                                        : OCTOML_FXPROTO__FUNCTION__FUNCTION_HIGHER_ORDER;
    f->python_operator = pack_text(p, item(tree, 1)); /* the three share their place */
    return f->python_operator ? f : NULL;
}

static OctomlFxproto__KwArgValue **pack_keywords(struct pack *p, PyObject *list, size_t *ret_n)
{
    if (!list || !PyList_Check(list))
        return fail_shape("a list");
    const size_t n = (size_t)PyList_Size(list);
    OctomlFxproto__KwArgValue **all = alloc(p, n + 1, sizeof *all);
    for (size_t i = 0; all && i < n; i++) {
        PyObject *pair = PyList_GetItem(list, (Py_ssize_t)i);
        all[i] = NEW(p, OctomlFxproto__KwArgValue);
        if (!all[i])
            return NULL;
        octoml_fxproto__kw_arg_value__init(all[i]);
        all[i]->name = pack_text(p, item(pair, 0));
        PyObject *value = all[i]->name ? item(pair, 1) : NULL;
        all[i]->value = value ? pack_value(p, value) : NULL;
        if (!all[i]->value)
            return NULL;
    }
    *ret_n = n;
    return all;
}

static bool pack_call(struct pack *p, PyObject *tree, OctomlFxproto__Node *node)
{
    OctomlFxproto__CallFunctionNode *call = NEW(p, OctomlFxproto__CallFunctionNode);
    if (!call)
        return false;
    octoml_fxproto__call_function_node__init(call);
    node->kind_case = OCTOML_FXPROTO__NODE__KIND_CALL_FUNCTION;
    node->call_function = call;
    call->target = pack_target(p, item(tree, 2));
    call->args = call->target ? pack_values(p, item(tree, 3), &call->n_args) : NULL;
    call->kwargs = call->args ? pack_keywords(p, item(tree, 4), &call->n_kwargs) : NULL;
    return call->kwargs;
}

static bool pack_output(struct pack *p, PyObject *tree, OctomlFxproto__Node *node)
{
    OctomlFxproto__OutputNode *output = NEW(p, OctomlFxproto__OutputNode);
    PyObject *value = item(tree, 2);
    if (!output || !value)
        return false;
    octoml_fxproto__output_node__init(output);
    node->kind_case = OCTOML_FXPROTO__NODE__KIND_OUTPUT;
    node->output = output;
    output->result = pack_value(p, value);
    return output->result;
}

static bool pack_placeholder(struct pack *p, PyObject *tree, OctomlFxproto__Node *node)
{
    (void)tree;
    node->placeholder = NEW(p, OctomlFxproto__PlaceholderNode);
    if (!node->placeholder)
        return false;
    octoml_fxproto__placeholder_node__init(node->placeholder);
    node->kind_case = OCTOML_FXPROTO__NODE__KIND_PLACEHOLDER;
    return true;
}

static OctomlFxproto__Node *pack_node(struct pack *p, PyObject *tree)
{
    OctomlFxproto__Node *node = NEW(p, OctomlFxproto__Node);
    PyObject *first = item(tree, 0);
    const char *kind = node && first ? pack_text(p, first) : NULL;
    if (!kind)
        return NULL;
    octoml_fxproto__node__init(node);
    node->name = pack_text(p, item(tree, 1));
    if (!node->name)
        return NULL;
    bool packed = strcmp(kind, "placeholder") == 0     ? pack_placeholder(p, tree, node)
                  : strcmp(kind, "call_function") == 0 ? pack_call(p, tree, node)
                  : strcmp(kind, "output") == 0        ? pack_output(p, tree, node)
                                                       : fail_shape("a node") != NULL;
    return packed ? node : NULL;
}

static OctomlFxproto__Graph *pack_nodes(struct pack *p, PyObject *nodes)
{
    if (!nodes || !PyList_Check(nodes))
        return fail_shape("a graph");
    OctomlFxproto__Graph *graph = NEW(p, OctomlFxproto__Graph);
    if (!graph)
        return NULL;
    octoml_fxproto__graph__init(graph);
    graph->n_nodes = (size_t)PyList_Size(nodes);
    graph->nodes = alloc(p, graph->n_nodes + 1, sizeof *graph->nodes);
    for (size_t i = 0; graph->nodes && i < graph->n_nodes; i++)
        if (!(graph->nodes[i] = pack_node(p, PyList_GetItem(nodes, (Py_ssize_t)i))))
            return NULL;
    return graph->nodes ? graph : NULL;
}

static bool pack_model(struct pack *p, PyObject *tree, OctomlFxproto__Model *model)
{
    PyObject *nodes = PyDict_GetItemString(tree, "nodes");
    PyObject *fixed = PyDict_GetItemString(tree, "fixed_inputs");
    if (!nodes || !fixed || !PyList_Check(nodes) || !PyList_Check(fixed))
        return fail_shape("what is given");
    model->graph = pack_nodes(p, nodes);
    OctomlFxproto__Value **values =
        model->graph ? pack_values(p, fixed, &model->n_fixed_inputs) : NULL;
    if (!values)
        return false;
    model->fixed_inputs = alloc(p, model->n_fixed_inputs + 1, sizeof *model->fixed_inputs);
    for (size_t i = 0; model->fixed_inputs && i < model->n_fixed_inputs; i++) {
        model->fixed_inputs[i] = NEW(p, OctomlFxproto__FixedInput);
        if (!model->fixed_inputs[i])
            return false;
        octoml_fxproto__fixed_input__init(model->fixed_inputs[i]);
        model->fixed_inputs[i]->value = values[i];
    }
    return model->fixed_inputs;
}

/* ---- The module's functions ---- */

static PyObject *fail_value(const struct prony_error *err)
{
    PyErr_SetString(PyExc_ValueError, err->text);
    return NULL;
}

static PyObject *packed_bytes(const OctomlFxproto__Model *model)
{
    struct prony_error err;
    if (prn_fx_check(model, &err) < 0)
        return fail_value(&err);
    PyObject *bytes =
        PyBytes_FromStringAndSize(NULL, (Py_ssize_t)octoml_fxproto__model__get_packed_size(model));
    char *data = bytes ? PyBytes_AsString(bytes) : NULL;
    if (data)
        octoml_fxproto__model__pack(model, (uint8_t *)data);
    return bytes;
}

static PyObject *fx_pack(PyObject *module, PyObject *tree)
{
    (void)module;
    struct pack p = {PRN_ARENA_INIT(PACK_BYTES_MAX)};
    OctomlFxproto__Model model = OCTOML_FXPROTO__MODEL__INIT;
    if (!PyDict_Check(tree))
        return fail_shape("what is given");
    PyObject *bytes = pack_model(&p, tree, &model) ? packed_bytes(&model) : NULL;
    prn_arena_release(&p.arena);
    return bytes;
}

static PyObject *fx_unpack(PyObject *module, PyObject *data)
{
    (void)module;
    char *bytes;
    Py_ssize_t size;
    struct prn_fx *fx;
    struct prony_error err;
    if (PyBytes_AsStringAndSize(data, &bytes, &size) < 0)
        return NULL;
    int code = prn_fx_unpack(bytes, (size_t)size, &fx, &err);
    if (code < 0)
        return fail_value(&err);
    PyObject *tree = native_fx_tree(fx->model);
    prn_fx_free(fx);
    return tree;
}

int native_add_fx(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"fx_pack", fx_pack, METH_O,
         "fx_pack(tree) -> bytes\n\nThe FXPROTO message of a graph, checked."},
        {"fx_unpack", fx_unpack, METH_O,
         "fx_unpack(data) -> tree\n\nThe graph in an FXPROTO message, checked."},
        {NULL, NULL, 0, NULL},
    };
    return PyModule_AddFunctions(module, methods);
}
