/*
 * A runtime whose functions are Python's: prony's loop of commands (exec/serve.c) calls the hooks
 * of prony/_executor.py, in the one thread that this process has before it opens the runtime. The
 * loop never returns, and the GIL is never given up in it.
 *
 * open(software, options, probe, scratch) -> (state, version, library, readable)
 * load(state, folder, tree) -> (run, prepare or None): what the clock runs around, and what is done
 *     before each of these runs, outside the clock
 * bind(state, inputs), with inputs = [(name, dtype, dims, memoryview), …]
 * reuse(state, path or None), before load: a file with what made() gave before
 * made(state) -> a descriptor of a file with what bind compiled, or -1
 * outputs(state) -> [(name, dtype, dims, address, nbytes), …], valid until the next run
 * close(state)
 * words(exception) -> str, of an exception that one of these raised
 *
 * Types are ONNX's numbers. An exception is an error: `Unavailable` is what isn't there, ValueError
 * and TypeError of an option or an input are the caller's fault, others the runtime's.
 */
#include "fx.h"

#include "exec/executor.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READABLE_MAX 64

struct prn_runtime {
    PyObject *state;
    PyObject *run, *prepare; /* NULL: none */
    PyObject *outputs;       /* of the last run; NULL: not asked for yet */
    char version[128];
    char library[PATH_MAX];
    char *readable[READABLE_MAX + 1];
    char name[PRN_FX_NAME_MAX]; /* what the last output() call handed out */
    int64_t dims[PRN_RUNTIME_RANK_MAX];
};

static PyObject *hooks; /* the one executor that this process is */

/* ---- Exceptions ---- */

/* Calls a hook and takes over the arguments. */
static PyObject *call_hook(const char *name, PyObject *arguments)
{
    PyObject *hook = arguments ? PyObject_GetAttrString(hooks, name) : NULL;
    PyObject *result = hook ? PyObject_CallObject(hook, arguments) : NULL;
    Py_XDECREF(hook);
    Py_XDECREF(arguments);
    return result;
}

/* What of the exception's words is for others, on one line. */
static void exception_text(PyObject *exception, char *text, size_t size)
{
    PyObject *said = exception ? call_hook("words", Py_BuildValue("(O)", exception)) : NULL;
    const char *words = said ? PyUnicode_AsUTF8AndSize(said, NULL) : NULL;
    snprintf(text, size, "%s", words && words[0] ? words : "an exception without words");
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20)
            *c = ' ';
    Py_XDECREF(said);
    PyErr_Clear();
}

/* Takes the exception that is set for an error. */
static int fail_python(int code, struct prony_error *err)
{
    PyObject *type;
    PyObject *exception;
    PyObject *traceback;
    char text[PRONY_ERROR_TEXT_SIZE];
    PyErr_Fetch(&type, &exception, &traceback);
    PyErr_NormalizeException(&type, &exception, &traceback);
    PyObject *unavailable = PyObject_GetAttrString(hooks, "Unavailable");
    if (unavailable && PyErr_GivenExceptionMatches(type, unavailable))
        code = PRONY_EUNAVAILABLE;
    else if (PyErr_GivenExceptionMatches(type, PyExc_MemoryError))
        code = PRONY_ENOMEM;
    PyErr_Clear();
    exception_text(exception, text, sizeof text);
    Py_XDECREF(unavailable);
    Py_XDECREF(type);
    Py_XDECREF(exception);
    Py_XDECREF(traceback);
    return prn_fail(err, code, "%s", text);
}

/* ---- Opening ---- */

static void runtime_close(struct prn_runtime *r)
{
    if (!r)
        return;
    Py_XDECREF(r->run);
    Py_XDECREF(r->prepare);
    Py_XDECREF(r->outputs);
    if (r->state) {
        PyObject *closed = call_hook("close", Py_BuildValue("(O)", r->state));
        Py_XDECREF(closed);
        PyErr_Clear();
    }
    Py_XDECREF(r->state);
    for (size_t i = 0; r->readable[i]; i++)
        free(r->readable[i]);
    free(r);
}

static PyObject *option_list(const struct prn_runtime_config *config)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < config->n_options; i++) {
        PyObject *pair = Py_BuildValue("(ss)", config->options[i].key, config->options[i].value);
        if (!pair || PyList_Append(list, pair) < 0)
            Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

static bool keep_text(PyObject *object, char *text, size_t size)
{
    const char *words = object ? PyUnicode_AsUTF8AndSize(object, NULL) : NULL;
    if (words)
        snprintf(text, size, "%s", words);
    return words;
}

static bool keep_readable(struct prn_runtime *r, PyObject *list)
{
    Py_ssize_t n = list ? PySequence_Size(list) : -1;
    for (Py_ssize_t i = 0; i < n && i < READABLE_MAX; i++) {
        PyObject *item = PySequence_GetItem(list, i);
        const char *path = item ? PyUnicode_AsUTF8AndSize(item, NULL) : NULL;
        r->readable[i] = path ? strdup(path) : NULL;
        Py_XDECREF(item);
        if (!r->readable[i])
            return false;
    }
    return n >= 0;
}

static bool keep_opened(struct prn_runtime *r, PyObject *opened)
{
    if (!opened || !PyTuple_Check(opened) || PyTuple_Size(opened) != 4)
        return false;
    r->state = Py_NewRef(PyTuple_GetItem(opened, 0));
    return keep_text(PyTuple_GetItem(opened, 1), r->version, sizeof r->version) &&
           keep_text(PyTuple_GetItem(opened, 2), r->library, sizeof r->library) &&
           keep_readable(r, PyTuple_GetItem(opened, 3));
}

static int runtime_open(const struct prn_runtime_config *config, struct prn_runtime **ret_runtime,
                        struct prony_error *err)
{
    struct prn_runtime *r = calloc(1, sizeof *r);
    PyObject *options = r ? option_list(config) : NULL;
    if (!options) {
        free(r);
        PyErr_Clear();
        return prn_fail_memory(err);
    }
    PyObject *opened = call_hook("open", Py_BuildValue("(sNiz)", config->software, options,
                                                       config->probe, config->scratch_folder));
    const bool kept = keep_opened(r, opened);
    Py_XDECREF(opened);
    if (kept) {
        *ret_runtime = r;
        return 0;
    }
    const bool usage = PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_ValueError);
    int code = PyErr_Occurred() ? fail_python(usage ? PRONY_EUSAGE : PRONY_ERUNTIME, err)
                                : prn_fail(err, PRONY_ERUNTIME, "Python opened nothing");
    runtime_close(r);
    return code;
}

static const char *runtime_version(const struct prn_runtime *r)
{
    return r->version;
}

static const char *runtime_library(const struct prn_runtime *r)
{
    return r->library;
}

static const char *const *runtime_readable(const struct prn_runtime *r)
{
    return (const char *const *)r->readable;
}

/* ---- Loading ---- */

static int load_tree(struct prn_runtime *r, const char *model_path, const struct prn_fx *fx,
                     struct prony_error *err)
{
    const char *slash = strrchr(model_path, '/');
    PyObject *tree = native_fx_tree(fx->model);
    PyObject *loaded =
        tree ? call_hook("load", Py_BuildValue("(Os#N)", r->state, model_path,
                                               (Py_ssize_t)(slash ? slash - model_path : 0), tree))
             : NULL;
    if (!loaded)
        return fail_python(PRONY_ERUNTIME, err);
    if (PyTuple_Check(loaded) && PyTuple_Size(loaded) == 2) {
        PyObject *prepare = PyTuple_GetItem(loaded, 1);
        r->run = Py_NewRef(PyTuple_GetItem(loaded, 0));
        r->prepare = prepare != Py_None ? Py_NewRef(prepare) : NULL;
    }
    Py_DECREF(loaded);
    return r->run ? 0 : prn_fail(err, PRONY_ERUNTIME, "Python loaded nothing");
}

static int runtime_load(struct prn_runtime *r, const char *model_path, struct prony_error *err)
{
    struct prn_fx *fx;
    int code = prn_fx_open(model_path, &fx, err);
    if (code < 0)
        return code;
    code = load_tree(r, model_path, fx, err);
    prn_fx_free(fx);
    return code;
}

/* ---- Running ---- */

static PyObject *dim_list(const int64_t *dims, size_t rank)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < rank; i++) {
        PyObject *dim = PyLong_FromLongLong(dims[i]);
        if (!dim || PyList_Append(list, dim) < 0)
            Py_CLEAR(list);
        Py_XDECREF(dim);
    }
    return list;
}

static PyObject *input_tuple(const struct prn_runtime_tensor *t)
{
    PyObject *dims = dim_list(t->dims, t->rank);
    char *data = (char *)(uintptr_t)(t->bytes ? t->data : "");
    PyObject *view = dims ? PyMemoryView_FromMemory(data, (Py_ssize_t)t->bytes, PyBUF_READ) : NULL;
    if (view)
        return Py_BuildValue("(siNN)", t->name, t->dtype, dims, view);
    Py_XDECREF(dims);
    return NULL;
}

static int runtime_bind(struct prn_runtime *r, const struct prn_runtime_tensor *inputs,
                        size_t n_inputs, struct prony_error *err)
{
    PyObject *list = PyList_New(0);
    Py_CLEAR(r->outputs);
    for (size_t i = 0; list && i < n_inputs; i++) {
        PyObject *input = input_tuple(&inputs[i]);
        if (!input || PyList_Append(list, input) < 0)
            Py_CLEAR(list);
        Py_XDECREF(input);
    }
    PyObject *bound = list ? call_hook("bind", Py_BuildValue("(ON)", r->state, list)) : NULL;
    if (!bound)
        return fail_python(PRONY_ERUNTIME, err);
    Py_DECREF(bound);
    return 0;
}

static void runtime_reuse(struct prn_runtime *r, const char *path)
{
    PyObject *done = call_hook("reuse", Py_BuildValue("(Oz)", r->state, path));
    Py_XDECREF(done);
    PyErr_Clear();
}

static int runtime_made(struct prn_runtime *r)
{
    PyObject *made = call_hook("made", Py_BuildValue("(O)", r->state));
    long fd = made ? PyLong_AsLong(made) : -1;
    Py_XDECREF(made);
    PyErr_Clear();
    return (int)fd;
}

static int runtime_prepare(struct prn_runtime *r, struct prony_error *err)
{
    Py_CLEAR(r->outputs);
    if (!r->prepare)
        return 0;
    PyObject *prepared = PyObject_CallNoArgs(r->prepare);
    if (!prepared)
        return fail_python(PRONY_ERUNTIME, err);
    Py_DECREF(prepared);
    return 0;
}

static int runtime_run(struct prn_runtime *r, struct prony_error *err)
{
    PyObject *done = PyObject_CallNoArgs(r->run);
    if (!done)
        return fail_python(PRONY_ERUNTIME, err);
    Py_DECREF(done);
    return 0;
}

/* ---- Outputs ---- */

/* Their number can't fail, so what is wrong is said when the first one is asked for. */
static size_t runtime_output_count(const struct prn_runtime *constant)
{
    struct prn_runtime *r = (struct prn_runtime *)(uintptr_t)constant;
    Py_CLEAR(r->outputs);
    r->outputs = call_hook("outputs", Py_BuildValue("(O)", r->state));
    return r->outputs && PyList_Check(r->outputs) ? (size_t)PyList_Size(r->outputs) : 1;
}

static bool read_dims(struct prn_runtime *r, PyObject *dims, size_t *ret_rank)
{
    Py_ssize_t rank = PySequence_Size(dims);
    if (rank > PRN_RUNTIME_RANK_MAX)
        PyErr_Format(PyExc_ValueError, "an output has more than %d dimensions",
                     PRN_RUNTIME_RANK_MAX);
    for (Py_ssize_t i = 0; !PyErr_Occurred() && i < rank; i++) {
        PyObject *dim = PySequence_GetItem(dims, i);
        r->dims[i] = dim ? PyLong_AsLongLong(dim) : -1;
        Py_XDECREF(dim);
    }
    *ret_rank = (size_t)rank;
    return !PyErr_Occurred();
}

static int runtime_output(struct prn_runtime *r, size_t index,
                          struct prn_runtime_tensor *ret_tensor, struct prony_error *err)
{
    PyObject *item = r->outputs ? PyList_GetItem(r->outputs, (Py_ssize_t)index) : NULL;
    const char *name;
    int dtype;
    PyObject *dims;
    unsigned long long address;
    unsigned long long bytes;
    size_t rank;
    if (!item || !PyArg_ParseTuple(item, "siOKK", &name, &dtype, &dims, &address, &bytes) ||
        !read_dims(r, dims, &rank))
        return fail_python(PRONY_ERUNTIME, err);
    snprintf(r->name, sizeof r->name, "%s", name);
    *ret_tensor = (struct prn_runtime_tensor){.name = r->name,
                                              .dtype = dtype,
                                              .rank = rank,
                                              .dims = r->dims,
                                              .data = (const void *)(uintptr_t)address,
                                              .bytes = (size_t)bytes};
    return 0;
}

/* ---- The module's function ---- */

static const struct prn_runtime_ops python_ops = {
    .python = true,
    .open = runtime_open,
    .version = runtime_version,
    .library = runtime_library,
    .readable = runtime_readable,
    .load = runtime_load,
    .bind = runtime_bind,
    .prepare = runtime_prepare,
    .run = runtime_run,
    .output_count = runtime_output_count,
    .output = runtime_output,
    .reuse = runtime_reuse,
    .made = runtime_made,
    .close = runtime_close,
};

static PyObject *executor_main(PyObject *module, PyObject *given)
{
    (void)module;
    hooks = Py_NewRef(given);
    return PyLong_FromLong(prn_executor_main(&python_ops));
}

int native_add_executor(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"executor_main", executor_main, METH_O,
         "executor_main(hooks) -> int\n\nServes prony's commands until its connection ends, and "
         "with it the process. Returns only where there is no connection."},
        {NULL, NULL, 0, NULL},
    };
    return PyModule_AddFunctions(module, methods);
}
