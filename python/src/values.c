/* What goes in and out: texts, tensors, forms, outputs. Nothing is copied that the caller keeps. */
#include "module.h"

#include <stdlib.h>
#include <string.h>

PyObject *native_tuple(PyObject *value, const char *what)
{
    if (PyTuple_Check(value)) {
        Py_INCREF(value);
        return value;
    }
    if (!PyUnicode_Check(value) && !PyBytes_Check(value) && PySequence_Check(value))
        return PySequence_Tuple(value);
    PyErr_Format(PyExc_TypeError, "%s must be a list or a tuple", what);
    return NULL;
}

/* ---- Texts ---- */

static const char *text_of(PyObject *value, const char *what)
{
    if (!PyUnicode_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s must be a str", what);
        return NULL;
    }
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(value, &size);
    if (text && strlen(text) != (size_t)size) {
        PyErr_Format(PyExc_ValueError, "%s has a NUL inside", what);
        return NULL;
    }
    return text;
}

bool native_texts_read(PyObject *value, const char *what, struct native_texts *ret_texts)
{
    struct native_texts texts = {.tuple = native_tuple(value, what)};
    if (!texts.tuple)
        return false;
    size_t n = (size_t)PyTuple_Size(texts.tuple);
    texts.items = calloc(n + 1, sizeof *texts.items);
    if (!texts.items)
        PyErr_NoMemory();
    for (; texts.items && texts.n < n; texts.n++) {
        texts.items[texts.n] = text_of(PyTuple_GetItem(texts.tuple, (Py_ssize_t)texts.n), what);
        if (!texts.items[texts.n])
            break;
    }
    if (!texts.items || texts.n < n) {
        native_texts_release(&texts);
        return false;
    }
    *ret_texts = texts;
    return true;
}

void native_texts_release(struct native_texts *texts)
{
    free(texts->items);
    Py_CLEAR(texts->tuple);
    *texts = (struct native_texts){0};
}

/* ---- Tensors ---- */

static bool read_dims(PyObject *value, struct prony_tensor *tensor)
{
    PyObject *tuple = native_tuple(value, "the dims of a tensor");
    if (!tuple)
        return false;
    tensor->rank = (size_t)PyTuple_Size(tuple);
    int64_t *dims = malloc((tensor->rank + 1) * sizeof *dims);
    tensor->dims = dims;
    if (!dims)
        PyErr_NoMemory();
    for (size_t i = 0; dims && i < tensor->rank; i++)
        dims[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, (Py_ssize_t)i));
    Py_DECREF(tuple);
    return !PyErr_Occurred();
}

static bool read_tensor(PyObject *value, struct prony_tensor *tensor)
{
    PyObject *name;
    PyObject *dims;
    unsigned long long address;
    Py_ssize_t bytes;
    if (!PyTuple_Check(value) ||
        !PyArg_ParseTuple(value, "UiOKn", &name, &tensor->dtype, &dims, &address, &bytes)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError,
                            "a tensor must be a tuple (name, dtype, dims, address, bytes)");
        return false;
    }
    if (bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "a tensor has a negative size");
        return false;
    }
    tensor->name = text_of(name, "the name of a tensor");
    tensor->data = (const void *)(uintptr_t)address;
    tensor->bytes = (size_t)bytes;
    return tensor->name && read_dims(dims, tensor);
}

bool native_tensors_read(PyObject *value, struct native_tensors *ret_tensors)
{
    struct native_tensors tensors = {.owner = native_tuple(value, "the tensors")};
    if (!tensors.owner)
        return false;
    size_t n = (size_t)PyTuple_Size(tensors.owner);
    tensors.items = calloc(n + 1, sizeof *tensors.items);
    bool complete = tensors.items != NULL;
    if (!complete)
        PyErr_NoMemory();
    while (complete && tensors.n < n) {
        complete = read_tensor(PyTuple_GetItem(tensors.owner, (Py_ssize_t)tensors.n),
                               &tensors.items[tensors.n]);
        tensors.n++;
    }
    if (!complete) {
        native_tensors_release(&tensors);
        return false;
    }
    *ret_tensors = tensors;
    return true;
}

void native_tensors_release(struct native_tensors *tensors)
{
    for (size_t i = 0; !tensors->borrows_dims && i < tensors->n; i++)
        free((void *)(uintptr_t)tensors->items[i].dims);
    free(tensors->items);
    Py_CLEAR(tensors->owner);
    *tensors = (struct native_tensors){0};
}

/* ---- Forms ---- */

/* What a form borrows from Python. */
struct native_form_parts {
    PyObject *tuple; /* its files */
    struct prony_file *files;
    size_t n_files;
    struct native_texts inputs, outputs;
};

/* Python's stable ABI has no other buffers before 3.11. */
static bool read_contents(PyObject *value, struct prony_file *file)
{
    unsigned long long address;
    Py_ssize_t bytes;
    if (!PyTuple_Check(value)) {
        char *data;
        if (PyBytes_AsStringAndSize(value, &data, &bytes) < 0)
            return false;
        file->data = data;
        file->bytes = (size_t)bytes;
        return true;
    }
    if (!PyArg_ParseTuple(value, "Kn", &address, &bytes))
        return false;
    if (bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "a file has a negative size");
        return false;
    }
    file->data = (const void *)(uintptr_t)address;
    file->bytes = (size_t)bytes;
    return true;
}

static bool read_file(PyObject *value, struct prony_file *file)
{
    PyObject *name;
    PyObject *contents;
    PyObject *sha256;
    if (!PyTuple_Check(value) || !PyArg_ParseTuple(value, "UOO", &name, &contents, &sha256)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a file must be a tuple (name, contents, sha256)");
        return false;
    }
    file->name = text_of(name, "the name of a file");
    if (!file->name || !read_contents(contents, file))
        return false;
    if (sha256 == Py_None)
        return true;
    if (!PyBytes_Check(sha256) || PyBytes_Size(sha256) != 32) {
        PyErr_SetString(PyExc_TypeError, "a SHA-256 must be 32 bytes");
        return false;
    }
    file->sha256 = (const uint8_t *)PyBytes_AsString(sha256);
    return file->sha256 != NULL;
}

static bool read_files(PyObject *value, struct native_form_parts *parts)
{
    parts->tuple = native_tuple(value, "the files of a form");
    if (!parts->tuple)
        return false;
    size_t n = (size_t)PyTuple_Size(parts->tuple);
    parts->files = calloc(n + 1, sizeof *parts->files);
    bool complete = parts->files != NULL;
    if (!complete)
        PyErr_NoMemory();
    while (complete && parts->n_files < n) {
        size_t i = parts->n_files++;
        complete = read_file(PyTuple_GetItem(parts->tuple, (Py_ssize_t)i), &parts->files[i]);
    }
    return complete;
}

static bool read_form(PyObject *value, struct prony_graph_form *form,
                      struct native_form_parts *parts)
{
    PyObject *files;
    PyObject *inputs;
    PyObject *outputs;
    PyObject *failure;
    if (!PyTuple_Check(value) ||
        !PyArg_ParseTuple(value, "iOOOO", &form->format, &files, &inputs, &outputs, &failure)) {
        if (!PyErr_Occurred())
            PyErr_SetString(
                PyExc_TypeError,
                "a form must be a tuple (format, files, input_names, output_names, failure)");
        return false;
    }
    form->failure = failure == Py_None ? NULL : text_of(failure, "the failure of a form");
    if (PyErr_Occurred() || !read_files(files, parts) ||
        !native_texts_read(inputs, "the input names of a form", &parts->inputs) ||
        !native_texts_read(outputs, "the output names of a form", &parts->outputs))
        return false;
    form->files = parts->files;
    form->n_files = parts->n_files;
    form->input_names = parts->inputs.items;
    form->n_inputs = parts->inputs.n;
    form->output_names = parts->outputs.items;
    form->n_outputs = parts->outputs.n;
    return true;
}

bool native_forms_read(PyObject *value, struct native_forms *ret_forms)
{
    PyObject *tuple = native_tuple(value, "the forms");
    if (!tuple)
        return false;
    size_t n = (size_t)PyTuple_Size(tuple);
    struct native_forms forms = {.tuple = tuple,
                                 .items = calloc(n + 1, sizeof *forms.items),
                                 .parts = calloc(n + 1, sizeof *forms.parts)};
    bool complete = forms.items && forms.parts;
    if (!complete)
        PyErr_NoMemory();
    while (complete && forms.n < n) {
        size_t i = forms.n++;
        complete =
            read_form(PyTuple_GetItem(tuple, (Py_ssize_t)i), &forms.items[i], &forms.parts[i]);
    }
    if (!complete) {
        native_forms_release(&forms);
        return false;
    }
    *ret_forms = forms;
    return true;
}

void native_forms_release(struct native_forms *forms)
{
    for (size_t i = 0; forms->parts && i < forms->n; i++) {
        struct native_form_parts *parts = &forms->parts[i];
        native_texts_release(&parts->inputs);
        native_texts_release(&parts->outputs);
        free(parts->files);
        Py_CLEAR(parts->tuple);
    }
    free(forms->items);
    free(forms->parts);
    Py_CLEAR(forms->tuple);
    *forms = (struct native_forms){0};
}

/* ---- Outputs ---- */

static PyObject *dims_of(const struct prony_tensor *tensor)
{
    PyObject *dims = PyTuple_New((Py_ssize_t)tensor->rank);
    for (size_t i = 0; dims && i < tensor->rank; i++) {
        PyObject *dim = PyLong_FromLongLong(tensor->dims[i]);
        if (!dim || PyTuple_SetItem(dims, (Py_ssize_t)i, dim) < 0)
            Py_CLEAR(dims);
    }
    return dims;
}

PyObject *native_outputs(const struct prony_outputs *outputs)
{
    struct prony_tensor tensor;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && prony_outputs_get(outputs, i, &tensor) == 0; i++) {
        PyObject *output =
            Py_BuildValue("(siNN)", tensor.name, tensor.dtype, dims_of(&tensor),
                          PyBytes_FromStringAndSize(tensor.data, (Py_ssize_t)tensor.bytes));
        if (!output || PyList_Append(list, output) < 0)
            Py_CLEAR(list);
        Py_XDECREF(output);
    }
    return list;
}
