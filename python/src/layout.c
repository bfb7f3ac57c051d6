/*
 * prony._native.Layout: where a graph's weights and inputs are among the arguments of its calls.
 *
 * It is asked at every call, and a network has hundreds of weights. So what doesn't change between
 * calls is kept as C has it: of weights only addresses are compared, and an input is its
 * description with the address that its tensor has now.
 */
#include "module.h"

#include <stdlib.h>
#include <string.h>

static PyTypeObject *layout_type;
static PyTypeObject *tensors_type;
static PyObject *data_ptr; /* the name of the method */

struct layout {
    PyObject_HEAD PyObject *weights; /* a tuple */
    PyObject **expected;             /* what it holds */
    Py_ssize_t *at;                  /* where they are expected */
    size_t n;
    struct native_tensors inputs; /* without addresses */
    Py_ssize_t *inputs_at;
};

struct tensors {
    PyObject_HEAD struct native_tensors tensors;
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

static bool is_tuple(PyObject *arguments)
{
    if (PyTuple_Check(arguments))
        return true;
    PyErr_SetString(PyExc_TypeError, "the arguments of a graph must be a tuple");
    return false;
}

static PyObject *layout_fits(struct layout *self, PyObject *arguments)
{
    if (!is_tuple(arguments))
        return NULL;
    for (size_t i = 0; i < self->n; i++) {
        const PyObject *there = PyTuple_GetItem(arguments, self->at[i]);
        if (!there)
            return NULL;
        if (there != self->expected[i])
            Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
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

static PyObject *layout_locate(struct layout *self, PyObject *arguments)
{
    struct tensors *found =
        is_tuple(arguments) ? (struct tensors *)native_alloc(tensors_type) : NULL;
    if (!found)
        return NULL;
    struct native_tensors *tensors = &found->tensors;
    *tensors = (struct native_tensors){.owner = Py_NewRef((PyObject *)self),
                                       .borrows_dims = true,
                                       .items = calloc(self->inputs.n + 1, sizeof *tensors->items)};
    if (!tensors->items) {
        Py_DECREF((PyObject *)found);
        return PyErr_NoMemory();
    }
    for (; tensors->n < self->inputs.n; tensors->n++) {
        struct prony_tensor *item = &tensors->items[tensors->n];
        *item = self->inputs.items[tensors->n];
        if (!read_address(PyTuple_GetItem(arguments, self->inputs_at[tensors->n]), &item->data)) {
            Py_DECREF((PyObject *)found);
            return NULL;
        }
    }
    return (PyObject *)found;
}

static void tensors_dealloc(struct tensors *self)
{
    native_tensors_release(&self->tensors);
    native_free((PyObject *)self);
}

const struct native_tensors *native_tensors_of(PyObject *value)
{
    return Py_IS_TYPE(value, tensors_type) ? &((struct tensors *)value)->tensors : NULL;
}

/* ---- Calls ---- */

static PyObject *call_with_tuple(PyObject *function, PyObject *arguments)
{
    return PyObject_CallFunctionObjArgs(function, arguments, NULL);
}

static PyMethodDef gathered = {"gathered", call_with_tuple, METH_VARARGS, NULL};

static PyObject *gather(PyObject *module, PyObject *function)
{
    (void)module;
    return PyCFunction_NewEx(&gathered, function, NULL);
}

/* ---- The types ---- */

static PyMethodDef layout_methods[] = {
    {"fits", NATIVE_METHOD(layout_fits), METH_O,
     "fits(arguments, /)\n--\n\nWhether the weights are these very objects."},
    {"locate", NATIVE_METHOD(layout_locate), METH_O,
     "locate(arguments, /)\n--\n\nThe inputs, where they are now: for Graph.run and Graph.start."},
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

static PyType_Slot tensors_slots[] = {
    {Py_tp_doc, NATIVE_DOC("Inputs of a graph, located.")},
    {Py_tp_dealloc, (void *)tensors_dealloc},
    {0, NULL},
};

static PyType_Spec tensors_spec = {
    .name = "prony._native.Tensors",
    .basicsize = sizeof(struct tensors),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = tensors_slots,
};

static PyMethodDef functions[] = {
    {"gather", gather, METH_O,
     "gather(function, /)\n--\n\n"
     "A callable that hands its arguments to the function as the tuple that they came in, without "
     "looking at each."},
    {NULL, NULL, 0, NULL},
};

int native_add_layout(PyObject *module)
{
    data_ptr = PyUnicode_InternFromString("data_ptr");
    layout_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &layout_spec, NULL);
    tensors_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &tensors_spec, NULL);
    if (!data_ptr || !layout_type || !tensors_type || PyModule_AddType(module, layout_type) < 0 ||
        PyModule_AddFunctions(module, functions) < 0)
        return -1;
    return PyModule_AddType(module, tensors_type);
}
