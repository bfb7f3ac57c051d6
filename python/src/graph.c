/* prony._native.Graph and Run: graphs of a session, and runs of them in two halves. */
#include "module.h"

#include <stdlib.h>
#include <time.h>

static PyTypeObject *graph_type;
static PyTypeObject *run_type;

struct native_graph {
    PyObject_HEAD struct native_session *session;
    struct prony_graph *graph; /* the session's: not to be touched when that is closed */
    int64_t id;
    PyObject *failures, *local_reason;
};

struct native_run {
    PyObject_HEAD struct native_session *session;
    struct prony_run *run; /* NULL: finished or cancelled */
    struct native_tensors inputs, expected;
    bool outputs;
    struct native_run *next; /* of the session */
};

/* ---- Graphs ---- */

static PyObject *text_or_none(const char *text)
{
    if (text)
        return PyUnicode_FromString(text);
    Py_RETURN_NONE;
}

static PyObject *read_failures(const struct prony_session *session, const struct prony_graph *graph)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && prony_session_backend(session, i); i++) {
        PyObject *failure = text_or_none(prony_graph_failure(graph, i));
        if (!failure || PyList_Append(list, failure) < 0)
            Py_CLEAR(list);
        Py_XDECREF(failure);
    }
    return list;
}

PyObject *native_graph_new(struct native_session *session, struct prony_graph *graph)
{
    struct native_graph *self = (struct native_graph *)native_alloc(graph_type);
    if (!self)
        return NULL;
    Py_INCREF((PyObject *)session);
    self->session = session;
    self->graph = graph;
    self->id = prony_graph_id(graph);
    self->failures = read_failures(session->session, graph);
    self->local_reason = text_or_none(prony_graph_local_reason(graph));
    if (!self->failures || !self->local_reason)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void graph_dealloc(struct native_graph *self)
{
    Py_CLEAR(self->failures);
    Py_CLEAR(self->local_reason);
    Py_CLEAR(self->session);
    native_free((PyObject *)self);
}

bool native_graph_check(PyObject *value)
{
    if (Py_IS_TYPE(value, graph_type))
        return true;
    PyErr_SetString(PyExc_TypeError, "not a graph");
    return false;
}

/* Takes the outputs. */
static PyObject *outputs_or_none(struct prony_outputs *outputs)
{
    PyObject *result = outputs ? native_outputs(outputs) : Py_NewRef(Py_None);
    prony_outputs_free(outputs);
    return result;
}

/* After a call that waited: whether it did what it was to do; if not, the exception is set. */
static bool succeeded(int code, bool undisturbed, struct prony_outputs **outputs,
                      const struct prony_error *err)
{
    if (undisturbed && code == 0)
        return true;
    if (undisturbed)
        native_raise(err);
    prony_outputs_free(*outputs);
    *outputs = NULL;
    return false;
}

static PyObject *graph_run(struct native_graph *self, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"tensors", "backend", "outputs", NULL};
    PyObject *value;
    const char *backend = NULL;
    int wanted = 0;
    struct native_tensors inputs;
    struct prony_outputs *outputs = NULL;
    struct prony_error err;
    struct native_call call;
    PyObject *result = NULL;
    if (!native_parse(args, kwargs, names, "O|zp", &value, &backend, &wanted) ||
        !native_tensors_read(value, &inputs))
        return NULL;
    if (native_session_enter(self->session)) {
        native_release(&call, &self->session->closing);
        int code = prony_graph_run(self->graph, inputs.items, inputs.n, backend,
                                   wanted ? &outputs : NULL, &err);
        bool undisturbed = native_acquire(&call);
        native_session_leave(self->session);
        if (succeeded(code, undisturbed, &outputs, &err))
            result = outputs_or_none(outputs);
    }
    native_tensors_release(&inputs);
    return result;
}

/* (times, outputs, failure) of a backend; outputs are None unless they were wanted. */
static PyObject *measured_backend(const struct prony_measured *measured, size_t index)
{
    size_t n = 0;
    const int64_t *times = prony_measured_times(measured, index, &n);
    const struct prony_outputs *outputs = prony_measured_outputs(measured, index);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *time = PyLong_FromLongLong(times[i]);
        if (!time || PyList_Append(list, time) < 0)
            Py_CLEAR(list);
        Py_XDECREF(time);
    }
    PyObject *given = outputs ? native_outputs(outputs) : Py_NewRef(Py_None);
    PyObject *failure = text_or_none(prony_measured_failure(measured, index));
    PyObject *result =
        list && given && failure ? PyTuple_Pack(3, list, given, failure) : (PyObject *)NULL;
    Py_XDECREF(list);
    Py_XDECREF(given);
    Py_XDECREF(failure);
    return result;
}

static PyObject *measured_list(const struct prony_session *session,
                               const struct prony_measured *measured)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && prony_session_backend(session, i); i++) {
        PyObject *one = measured_backend(measured, i);
        if (!one || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

static PyObject *graph_measure(struct native_graph *self, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"tensors", "repeats", "warmups", "outputs", NULL};
    PyObject *value;
    long long repeats = 1;
    long long warmups = 0;
    int wanted = 0;
    struct native_tensors inputs;
    struct prony_measured *measured = NULL;
    struct prony_error err;
    struct native_call call;
    PyObject *result = NULL;
    if (!native_parse(args, kwargs, names, "O|LLp", &value, &repeats, &warmups, &wanted) ||
        !native_tensors_read(value, &inputs))
        return NULL;
    if (native_session_enter(self->session)) {
        native_release(&call, &self->session->closing);
        int code = prony_graph_measure(self->graph, inputs.items, inputs.n, repeats, warmups,
                                       wanted, &measured, &err);
        bool undisturbed = native_acquire(&call);
        if (undisturbed && code < 0)
            native_raise(&err);
        else if (undisturbed)
            result = measured_list(self->session->session, measured);
        native_session_leave(self->session);
        prony_measured_free(measured);
    }
    native_tensors_release(&inputs);
    return result;
}

/* Without overlap nothing is waited for. */
static int start(const struct native_graph *self, struct native_run *run, bool overlap,
                 struct prony_error *err)
{
    const struct native_tensors *inputs = &run->inputs;
    struct native_call call;
    if (!overlap)
        return prony_graph_start(self->graph, inputs->items, inputs->n, run->outputs, 0, &run->run,
                                 err);
    native_release(&call, &self->session->closing);
    int code =
        prony_graph_start(self->graph, inputs->items, inputs->n, run->outputs, 1, &run->run, err);
    if (native_acquire(&call))
        return code;
    /* A handler raised when it was under way. */
    if (code == 0)
        prony_run_cancel(run->run);
    run->run = NULL;
    return 1;
}

struct native_run *native_run_start(PyObject *graph, struct native_tensors *inputs, bool outputs,
                                    bool overlap)
{
    const struct native_graph *self = (const struct native_graph *)graph;
    struct prony_error err;
    struct native_run *run = (struct native_run *)native_alloc(run_type);
    if (!run) {
        native_tensors_release(inputs);
        return NULL;
    }
    run->inputs = *inputs;
    run->outputs = outputs;
    if (!native_session_enter(self->session)) {
        Py_DECREF((PyObject *)run);
        return NULL;
    }
    int code = start(self, run, overlap, &err);
    if (code == 0) {
        Py_INCREF((PyObject *)self->session);
        run->session = self->session;
        run->next = self->session->runs;
        self->session->runs = run;
    } else {
        Py_CLEAR(run);
    }
    native_session_leave(self->session);
    if (code < 0)
        native_raise(&err);
    return run;
}

static PyObject *graph_start(struct native_graph *self, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"tensors", "outputs", "overlap", NULL};
    PyObject *value;
    struct native_tensors inputs;
    int outputs = 0;
    int overlap = 0;
    if (!native_parse(args, kwargs, names, "O|pp", &value, &outputs, &overlap) ||
        !native_tensors_read(value, &inputs))
        return NULL;
    return (PyObject *)native_run_start((PyObject *)self, &inputs, outputs != 0, overlap != 0);
}

static PyObject *graph_id(struct native_graph *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLongLong(self->id);
}

static PyObject *graph_failures(struct native_graph *self, void *ignored)
{
    (void)ignored;
    return Py_NewRef(self->failures);
}

static PyObject *graph_local_reason(struct native_graph *self, void *ignored)
{
    (void)ignored;
    return Py_NewRef(self->local_reason);
}

/* ---- Runs ---- */

/* Takes the run from its session's list, so that nobody else ends it. */
static struct prony_run *take(struct native_run *self)
{
    struct prony_run *run = self->run;
    if (!run)
        return NULL;
    struct native_run **at = &self->session->runs;
    while (*at != self)
        at = &(*at)->next;
    *at = self->next;
    self->run = NULL;
    return run;
}

void native_runs_cancel(struct native_session *session)
{
    while (session->runs)
        prony_run_cancel(take(session->runs));
}

static void release_tensors(struct native_run *self)
{
    native_tensors_release(&self->inputs);
    native_tensors_release(&self->expected);
}

void native_run_computed(struct native_run *self)
{
    if (self->run)
        prony_run_computed(self->run);
}

static PyObject *run_computed(struct native_run *self, PyObject *ignored)
{
    (void)ignored;
    native_run_computed(self);
    Py_RETURN_NONE;
}

static PyObject *run_expect(struct native_run *self, PyObject *value)
{
    struct prony_error err;
    if (!self->run)
        return native_raise_text(PRONY_EUSAGE, "the run is finished already, or was cancelled");
    native_tensors_release(&self->expected);
    if (!native_tensors_read(value, &self->expected))
        return NULL;
    if (prony_run_expect(self->run, self->expected.items, self->expected.n, &err) < 0)
        return native_raise(&err);
    Py_RETURN_NONE;
}

static int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool native_run_finish(struct native_run *self, const char *backend,
                       struct prony_outputs **ret_outputs)
{
    struct native_session *session = self->session;
    struct prony_outputs *outputs = NULL;
    struct prony_error err;
    struct native_call call;
    if (!session || !native_session_enter(session))
        return false;
    struct prony_run *run = take(self);
    if (!run) {
        native_session_leave(session);
        native_raise_text(PRONY_EUSAGE, "the run is finished already, or was cancelled");
        return false;
    }
    native_release(&call, &session->closing);
    int64_t begin = clock_ns();
    int code = prony_run_finish(run, backend, self->outputs ? &outputs : NULL, &err);
    int64_t end = clock_ns();
    bool undisturbed = native_acquire(&call);
    session->waited_ns += end - begin;
    native_session_leave(session);
    release_tensors(self);
    if (!succeeded(code, undisturbed, &outputs, &err))
        return false;
    if (ret_outputs)
        *ret_outputs = outputs;
    else
        prony_outputs_free(outputs);
    return true;
}

static PyObject *run_finish(struct native_run *self, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"backend", NULL};
    const char *backend = NULL;
    struct prony_outputs *outputs;
    if (!native_parse(args, kwargs, names, "|z", &backend) ||
        !native_run_finish(self, backend, &outputs))
        return NULL;
    return outputs_or_none(outputs);
}

/* A run of a session that was inherited by a fork, or has been closed, is left alone. */
static void cancel(struct native_run *self)
{
    if (!self->run || self->session->forks != native_forks())
        return;
    struct native_call call;
    struct prony_run *run = take(self);
    native_release(&call, NULL);
    prony_run_cancel(run);
    native_acquire(&call);
}

static PyObject *run_cancel(struct native_run *self, PyObject *ignored)
{
    (void)ignored;
    cancel(self);
    release_tensors(self);
    Py_RETURN_NONE;
}

static void run_dealloc(struct native_run *self)
{
    PyObject *type_error;
    PyObject *value;
    PyObject *traceback;
    PyErr_Fetch(&type_error, &value, &traceback);
    cancel(self);
    PyErr_Restore(type_error, value, traceback);
    release_tensors(self);
    Py_CLEAR(self->session);
    native_free((PyObject *)self);
}

/* ---- The types ---- */

static PyMethodDef graph_methods[] = {
    {"run", NATIVE_METHOD(graph_run), METH_VARARGS | METH_KEYWORDS,
     "run(tensors, backend=None, outputs=False)\n--\n\n"
     "Runs on all backends and, in a region, records. The outputs are those of one backend."},
    {"measure", NATIVE_METHOD(graph_measure), METH_VARARGS | METH_KEYWORDS,
     "measure(tensors, repeats=1, warmups=0, outputs=False)\n--\n\n"
     "Runs on all backends and records nothing: times in ns, outputs and failure of each."},
    {"start", NATIVE_METHOD(graph_start), METH_VARARGS | METH_KEYWORDS,
     "start(tensors, outputs=False, overlap=False)\n--\n\n"
     "The same in two halves, between which the region's clock stands still. The memory of the "
     "tensors must stay until the run is finished. With overlap, it is under way at once."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef graph_properties[] = {
    {"id", (getter)graph_id, NULL, "Counts from 1 in the order of loading.", NULL},
    {"failures", (getter)graph_failures, NULL,
     "For each backend, why it couldn't load the graph, or None.", NULL},
    {"local_reason", (getter)graph_local_reason, NULL,
     "Why no backend runs it; None where one does.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot graph_slots[] = {
    {Py_tp_doc, NATIVE_DOC("A graph of a session.")},
    {Py_tp_dealloc, (void *)graph_dealloc},
    {Py_tp_methods, graph_methods},
    {Py_tp_getset, graph_properties},
    {0, NULL},
};

static PyType_Spec graph_spec = {
    .name = "prony._native.Graph",
    .basicsize = sizeof(struct native_graph),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = graph_slots,
};

static PyMethodDef run_methods[] = {
    {"computed", NATIVE_METHOD(run_computed), METH_NOARGS,
     "computed()\n--\n\n"
     "The result has just been computed here: the time since the start is what that took."},
    {"expect", NATIVE_METHOD(run_expect), METH_O,
     "expect(tensors, /)\n--\n\n"
     "What was computed here: the outputs of every backend are compared with it when the run, "
     "which was started with outputs, is finished. The memory must stay until then."},
    {"finish", NATIVE_METHOD(run_finish), METH_VARARGS | METH_KEYWORDS,
     "finish(backend=None)\n--\n\n"
     "Waits for it, or runs it now, and records. Gives outputs if they were asked for."},
    {"cancel", NATIVE_METHOD(run_cancel), METH_NOARGS,
     "cancel()\n--\n\nEnds it. The region will not be recorded. A second time does nothing."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot run_slots[] = {
    {Py_tp_doc, NATIVE_DOC("A run that was started.")},
    {Py_tp_dealloc, (void *)run_dealloc},
    {Py_tp_methods, run_methods},
    {0, NULL},
};

static PyType_Spec run_spec = {
    .name = "prony._native.Run",
    .basicsize = sizeof(struct native_run),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = run_slots,
};

int native_add_graph(PyObject *module)
{
    graph_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &graph_spec, NULL);
    run_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &run_spec, NULL);
    if (!graph_type || !run_type || PyModule_AddType(module, graph_type) < 0)
        return -1;
    if (PyModule_AddIntConstant(module, "FORMAT_ONNX", PRONY_FORMAT_ONNX) < 0 ||
        PyModule_AddIntConstant(module, "FORMAT_FXPROTO", PRONY_FORMAT_FXPROTO) < 0)
        return -1;
    return PyModule_AddType(module, run_type);
}
