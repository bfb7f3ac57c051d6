/*
 * prony._native.Layout and StandIn: a captured graph as Dynamo calls it.
 *
 * A layout says where a graph's weights and inputs are among the arguments of its calls. It is
 * asked at every call, and a network has hundreds of weights. So what doesn't change between calls
 * is kept as C has it: of weights only addresses are compared, and an input is its description with
 * the address that its tensor has now.
 *
 * A stand-in is what Dynamo calls in the graph's place. A call with the weights of the one before
 * it is made here: to interpret Python takes several times as long when the network around it, or
 * the wait for a backend, has emptied the processor's caches. Every other call is Python's.
 */
#include "module.h"

#include <stdlib.h>

static PyTypeObject *layout_type;
static PyTypeObject *stand_in_type;
static PyObject *data_ptr; /* the name of the method */

struct layout {
    PyObject_HEAD PyObject *weights; /* a tuple */
    PyObject **expected;             /* what it holds */
    Py_ssize_t *at;                  /* where they are expected */
    size_t n;
    struct native_tensors inputs; /* without addresses */
    Py_ssize_t *inputs_at;
};

struct stand_in {
    PyObject_HEAD PyObject *otherwise, *local, *failed; /* callables */
    struct layout *layout;                              /* of the usual call; NULL: there is none */
    PyObject *graph;
    bool overlap;
};

/* ---- Layouts ---- */

static bool read_positions(PyObject *value, size_t n, Py_ssize_t *ret_positions)
{
    if ((size_t)PyTuple_Size(value) != n) {
        PyErr_SetString(PyExc_ValueError, "a layout needs a position for each weight and input");
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        ret_positions[i] = PyLong_AsSsize_t(PyTuple_GetItem(value, (Py_ssize_t)i));
        if (PyErr_Occurred())
            return false;
    }
    return true;
}

static bool fill(struct layout *self, PyObject *positions, PyObject *inputs,
                 PyObject *input_positions)
{
    self->n = (size_t)PyTuple_Size(self->weights);
    self->expected = calloc(self->n + 1, sizeof(PyObject *));
    self->at = calloc(self->n + 1, sizeof *self->at);
    if (!native_tensors_read(inputs, &self->inputs))
        return false;
    self->inputs_at = calloc(self->inputs.n + 1, sizeof *self->inputs_at);
    if (!self->expected || !self->at || !self->inputs_at) {
        PyErr_NoMemory();
        return false;
    }
    for (size_t i = 0; i < self->n; i++)
        self->expected[i] = PyTuple_GetItem(self->weights, (Py_ssize_t)i);
    return read_positions(positions, self->n, self->at) &&
           read_positions(input_positions, self->inputs.n, self->inputs_at);
}

static PyObject *layout_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"weights", "positions", "inputs", "input_positions", NULL};
    PyObject *weights;
    PyObject *positions;
    PyObject *inputs;
    PyObject *input_positions;
    if (!native_parse(args, kwargs, names, "O!O!OO!", &PyTuple_Type, &weights, &PyTuple_Type,
                      &positions, &inputs, &PyTuple_Type, &input_positions))
        return NULL;
    struct layout *self = (struct layout *)native_alloc(type);
    if (!self)
        return NULL;
    self->weights = Py_NewRef(weights);
    if (!fill(self, positions, inputs, input_positions))
        Py_CLEAR(self);
    return (PyObject *)self;
}

/* A weight may lead back to who has the layout. */
static int layout_traverse(struct layout *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->weights);
    return 0;
}

static void layout_dealloc(struct layout *self)
{
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->weights);
    free(self->expected);
    free(self->at);
    free(self->inputs_at);
    native_tensors_release(&self->inputs);
    native_free((PyObject *)self);
}

/* 1: yes, 0: no, -1: raised. */
static int fits(const struct layout *self, PyObject *arguments)
{
    for (size_t i = 0; i < self->n; i++) {
        const PyObject *there = PyTuple_GetItem(arguments, self->at[i]);
        if (!there)
            return -1;
        if (there != self->expected[i])
            return 0;
    }
    return 1;
}

static PyObject *layout_fits(struct layout *self, PyObject *arguments)
{
    if (!PyTuple_Check(arguments)) {
        PyErr_SetString(PyExc_TypeError, "the arguments of a graph must be a tuple");
        return NULL;
    }
    int fit = fits(self, arguments);
    return fit < 0 ? NULL : PyBool_FromLong(fit);
}

/* ---- Inputs of a call ---- */

static bool read_address(PyObject *tensor, const void **ret_data)
{
    PyObject *number = tensor ? PyObject_CallMethodObjArgs(tensor, data_ptr, NULL) : NULL;
    if (!number)
        return false;
    *ret_data = PyLong_AsVoidPtr(number);
    Py_DECREF(number);
    return !PyErr_Occurred();
}

static bool locate(struct layout *self, PyObject *arguments, struct native_tensors *ret_inputs)
{
    struct native_tensors inputs = {.owner = Py_NewRef((PyObject *)self),
                                    .borrows_dims = true,
                                    .items = calloc(self->inputs.n + 1, sizeof *inputs.items)};
    bool complete = inputs.items != NULL;
    if (!complete)
        PyErr_NoMemory();
    for (; complete && inputs.n < self->inputs.n; inputs.n++) {
        struct prony_tensor *item = &inputs.items[inputs.n];
        *item = self->inputs.items[inputs.n];
        complete = read_address(PyTuple_GetItem(arguments, self->inputs_at[inputs.n]), &item->data);
    }
    if (complete)
        *ret_inputs = inputs;
    else
        native_tensors_release(&inputs);
    return complete;
}

/* ---- Stand-ins ---- */

static PyObject *stand_in_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"otherwise", "local", "failed", NULL};
    PyObject *otherwise;
    PyObject *local;
    PyObject *failed;
    if (!native_parse(args, kwargs, names, "OOO", &otherwise, &local, &failed))
        return NULL;
    struct stand_in *self = (struct stand_in *)native_alloc(type);
    if (!self)
        return NULL;
    self->otherwise = Py_NewRef(otherwise);
    self->local = Py_NewRef(local);
    self->failed = Py_NewRef(failed);
    return (PyObject *)self;
}

static void forget(struct stand_in *self)
{
    Py_CLEAR(self->layout);
    Py_CLEAR(self->graph);
}

static PyObject *stand_in_forget(struct stand_in *self, PyObject *ignored)
{
    (void)ignored;
    forget(self);
    Py_RETURN_NONE;
}

static PyObject *stand_in_expect(struct stand_in *self, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"layout", "graph", "overlap", NULL};
    PyObject *layout;
    PyObject *graph;
    int overlap;
    if (!native_parse(args, kwargs, names, "O!Op", layout_type, &layout, &graph, &overlap) ||
        !native_graph_check(graph))
        return NULL;
    forget(self);
    self->layout = (struct layout *)Py_NewRef(layout);
    self->graph = Py_NewRef(graph);
    self->overlap = overlap != 0;
    Py_RETURN_NONE;
}

/* Tells what was raised, if it is an error of ours; false: the call ends with it, or another. */
static bool tell(PyObject *failed, PyObject *graph)
{
    PyObject *type;
    PyObject *fault;
    PyObject *traceback;
    if (!native_is_error_set())
        return false;
    PyErr_Fetch(&type, &fault, &traceback);
    PyErr_NormalizeException(&type, &fault, &traceback);
    PyObject *told = PyObject_CallFunctionObjArgs(failed, graph, fault, NULL);
    Py_XDECREF(type);
    Py_XDECREF(fault);
    Py_XDECREF(traceback);
    Py_XDECREF(told);
    return told != NULL;
}

/* Runs on every backend and here, where a failure there changes nothing. The arguments live as long
 * as the call, and `graph` may not be the stand-in's any more when that calls. */
static PyObject *call_usual(const struct stand_in *self, PyObject *graph, PyObject *arguments,
                            struct native_tensors *inputs)
{
    struct native_run *run = native_run_start(graph, inputs, false, self->overlap);
    if (!run && !tell(self->failed, graph))
        return NULL;
    PyObject *result = PyObject_Call(self->local, arguments, NULL);
    if (run && result)
        native_run_computed(run);
    if (run && result && !native_run_finish(run, NULL, NULL) && !tell(self->failed, graph))
        Py_CLEAR(result);
    Py_XDECREF((PyObject *)run); /* which cancels it, if it isn't finished */
    return result;
}

static PyObject *stand_in_call(struct stand_in *self, PyObject *arguments)
{
    struct native_tensors inputs;
    int fit = self->layout ? fits(self->layout, arguments) : 0;
    if (fit < 0 || (fit && !locate(self->layout, arguments, &inputs)))
        return NULL;
    if (!fit)
        return PyObject_CallFunctionObjArgs(self->otherwise, arguments, NULL);
    PyObject *graph = Py_NewRef(self->graph);
    PyObject *result = call_usual(self, graph, arguments, &inputs);
    Py_DECREF(graph);
    return result;
}

static int stand_in_traverse(struct stand_in *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->otherwise);
    Py_VISIT(self->local);
    Py_VISIT(self->failed);
    Py_VISIT(self->layout);
    return 0;
}

static int stand_in_clear(struct stand_in *self)
{
    Py_CLEAR(self->otherwise);
    Py_CLEAR(self->local);
    Py_CLEAR(self->failed);
    forget(self);
    return 0;
}

static void stand_in_dealloc(struct stand_in *self)
{
    PyObject_GC_UnTrack(self);
    stand_in_clear(self);
    native_free((PyObject *)self);
}

/* ---- The types ---- */

static PyMethodDef layout_methods[] = {
    {"fits", NATIVE_METHOD(layout_fits), METH_O,
     "fits(arguments, /)\n--\n\nWhether the weights are these very objects."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot layout_slots[] = {
    {Py_tp_doc,
     NATIVE_DOC("Layout(weights, positions, inputs, input_positions)\n--\n\n"
                "Where weights and inputs are in the tuples of arguments that a graph is called "
                "with. The addresses of `inputs` don't count.")},
    {Py_tp_new, (void *)layout_new},
    {Py_tp_dealloc, (void *)layout_dealloc},
    {Py_tp_traverse, (void *)layout_traverse},
    {Py_tp_methods, layout_methods},
    {0, NULL},
};

static PyType_Spec layout_spec = {
    .name = "prony._native.Layout",
    .basicsize = sizeof(struct layout),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = layout_slots,
};

static PyMethodDef stand_in_methods[] = {
    {"call", NATIVE_METHOD(stand_in_call), METH_VARARGS,
     "call(*arguments)\n--\n\nFor Dynamo: calls the graph."},
    {"expect", NATIVE_METHOD(stand_in_expect), METH_VARARGS | METH_KEYWORDS,
     "expect(layout, graph, overlap)\n--\n\n"
     "Calls whose arguments fit run the graph on every backend, and return what `local` returns; "
     "with overlap both at once."},
    {"forget", NATIVE_METHOD(stand_in_forget), METH_NOARGS,
     "forget()\n--\n\nNo call is expected any more."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot stand_in_slots[] = {
    {Py_tp_doc,
     NATIVE_DOC("StandIn(otherwise, local, failed)\n--\n\n"
                "What Dynamo calls in a graph's place. Calls that aren't expected go to "
                "`otherwise`, as the tuple of their arguments. `failed` is told the graph "
                "and the error when backends fail.")},
    {Py_tp_new, (void *)stand_in_new},
    {Py_tp_dealloc, (void *)stand_in_dealloc},
    {Py_tp_traverse, (void *)stand_in_traverse},
    {Py_tp_clear, (void *)stand_in_clear},
    {Py_tp_methods, stand_in_methods},
    {0, NULL},
};

static PyType_Spec stand_in_spec = {
    .name = "prony._native.StandIn",
    .basicsize = sizeof(struct stand_in),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = stand_in_slots,
};

int native_add_stand_in(PyObject *module)
{
    data_ptr = PyUnicode_InternFromString("data_ptr");
    layout_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &layout_spec, NULL);
    stand_in_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &stand_in_spec, NULL);
    if (!data_ptr || !layout_type || !stand_in_type || PyModule_AddType(module, layout_type) < 0)
        return -1;
    return PyModule_AddType(module, stand_in_type);
}
