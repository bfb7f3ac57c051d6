/* prony._native.Session: the session of include/prony/prony.h, on a server. */
#include "module.h"

#include <stdlib.h>
#include <string.h>

static PyTypeObject *session_type;

/* ---- Who uses it ---- */

static bool is_closed(const struct native_session *self)
{
    return !self->session || self->closing || self->forks != native_forks();
}

bool native_session_enter(struct native_session *self)
{
    if (is_closed(self)) {
        native_raise_text(PRONY_EUSAGE,
                          self->forks != native_forks()
                              ? "the session belongs to the process that forked this one"
                              : "the session is closed");
        return false;
    }
    pthread_mutex_lock(&self->lock);
    self->users++;
    pthread_mutex_unlock(&self->lock);
    return true;
}

void native_session_leave(struct native_session *self)
{
    pthread_mutex_lock(&self->lock);
    self->users--;
    pthread_cond_signal(&self->left);
    pthread_mutex_unlock(&self->lock);
}

static void wait_for_users(struct native_session *self)
{
    pthread_mutex_lock(&self->lock);
    while (self->users > 0)
        pthread_cond_wait(&self->left, &self->lock);
    pthread_mutex_unlock(&self->lock);
}

/* ---- Opening and closing ---- */

static int open_session(struct native_session *self, struct prony_session_options *options)
{
    struct prony_error err;
    struct native_call call;
    struct prony_session *session = NULL;
    if (!native_may_connect(true))
        return -1;
    options->interrupted = native_interrupted;
    options->notice = native_notice;
    options->context = &self->notice;
    native_release(&call, NULL);
    int code = prony_session_open(options, &session, &err);
    /* Something was raised at the last moment: nobody will have the session. */
    if (code == 0 && call.interrupted)
        prony_session_close(session);
    if (!native_acquire(&call))
        return -1;
    if (code < 0) {
        native_raise(&err);
        return -1;
    }
    self->session = session;
    return 0;
}

static struct native_session *allocate(PyTypeObject *type)
{
    struct native_session *self = (struct native_session *)native_alloc(type);
    if (self) {
        self->forks = native_forks();
        pthread_mutex_init(&self->lock, NULL);
        pthread_cond_init(&self->left, NULL);
    }
    return self;
}

static bool same_number(const struct native_texts *labels, const struct native_texts *texts)
{
    if (labels->n == texts->n)
        return true;
    PyErr_SetString(PyExc_ValueError, "instead_of needs one text for each backend");
    return false;
}

static PyObject *session_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {
        "backends", "server", "token",     "insecure",      "ca_file",    "repeats", "warmups",
        "strict",   "notice", "timeout_s", "hardware_file", "instead_of", NULL};
    struct prony_session_options options = PRONY_SESSION_OPTIONS_INIT;
    PyObject *backends;
    PyObject *notice = Py_None;
    PyObject *instead_of = Py_None;
    long long repeats = options.repeats;
    long long warmups = options.warmups;
    struct native_texts texts;
    struct native_texts labels = {0};
    if (!native_parse(args, kwargs, names, "O|$szpzLLpOdzO", &backends, &options.server,
                      &options.token, &options.insecure, &options.ca_file, &repeats, &warmups,
                      &options.strict, &notice, &options.timeout_s, &options.hardware_file,
                      &instead_of))
        return NULL;
    if (!options.server) {
        PyErr_SetString(PyExc_TypeError, "server is needed");
        return NULL;
    }
    if (!native_texts_read(backends, "backends", &texts))
        return NULL;
    if (instead_of != Py_None &&
        (!native_texts_read(instead_of, "instead_of", &labels) || !same_number(&labels, &texts))) {
        native_texts_release(&texts);
        native_texts_release(&labels);
        return NULL;
    }
    options.backends = texts.items;
    options.n_backends = texts.n;
    options.instead_of = labels.items;
    options.repeats = repeats;
    options.warmups = warmups;
    struct native_session *self = allocate(type);
    if (self) {
        Py_INCREF(notice);
        self->notice = notice;
        if (open_session(self, &options) < 0)
            Py_CLEAR(self);
    }
    native_texts_release(&texts);
    native_texts_release(&labels);
    return (PyObject *)self;
}

/* Those who wait in it return at once, with an error. */
static void close_session(struct native_session *self)
{
    struct prony_session *session = self->session;
    if (!session || self->closing)
        return;
    /* What a forked process has of it is only memory: the session is its parent's. */
    if (self->forks != native_forks()) {
        self->session = NULL;
        return;
    }
    struct native_call call;
    self->closing = true;
    native_release(&call, &self->closing);
    wait_for_users(self);
    native_acquire(&call);
    native_runs_cancel(self);
    native_release(&call, &self->closing);
    prony_session_close(session);
    native_acquire(&call);
    self->session = NULL;
}

static PyObject *session_close(struct native_session *self, PyObject *ignored)
{
    (void)ignored;
    if (native_is_inside())
        return native_raise_text(PRONY_EUSAGE, "a notice can't close the session that it is from");
    close_session(self);
    Py_RETURN_NONE;
}

static void session_dealloc(struct native_session *self)
{
    PyObject *type_error;
    PyObject *value;
    PyObject *traceback;
    PyErr_Fetch(&type_error, &value, &traceback);
    close_session(self);
    PyErr_Restore(type_error, value, traceback);
    Py_CLEAR(self->notice);
    pthread_mutex_destroy(&self->lock);
    pthread_cond_destroy(&self->left);
    native_free((PyObject *)self);
}

/* ---- Graphs ---- */

/* A tuple of texts and None, one for each backend, which has to live as long; NULL: none. */
static bool read_refusals(PyObject *value, const char ***ret_refusals)
{
    Py_ssize_t n = value ? PyTuple_Size(value) : 0;
    const char **texts = calloc((size_t)n + 1, sizeof *texts);
    if (!texts) {
        PyErr_NoMemory();
        return false;
    }
    *ret_refusals = texts;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyTuple_GetItem(value, i);
        texts[i] = item == Py_None ? NULL : PyUnicode_AsUTF8AndSize(item, NULL);
        if (!texts[i] && item != Py_None)
            return false;
    }
    if (!value) {
        free(texts);
        *ret_refusals = NULL;
    }
    return true;
}

static PyObject *session_load(struct native_session *self, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"name", "forms", "refusals", NULL};
    const char *name;
    PyObject *value;
    PyObject *refused = NULL;
    struct native_forms forms;
    const char **refusals = NULL;
    struct prony_graph *graph = NULL;
    struct prony_error err;
    struct native_call call;
    if (!native_parse(args, kwargs, names, "sO|O!", &name, &value, &PyTuple_Type, &refused) ||
        !native_forms_read(value, &forms))
        return NULL;
    PyObject *result = NULL;
    if (read_refusals(refused, &refusals) && native_session_enter(self)) {
        native_release(&call, &self->closing);
        int code = prony_graph_load_forms_except(self->session, name, forms.items, forms.n,
                                                 refusals, &graph, &err);
        if (native_acquire(&call))
            result = code < 0 ? native_raise(&err) : native_graph_new(self, graph);
        native_session_leave(self);
    }
    native_forms_release(&forms);
    free(refusals);
    return result;
}

static PyObject *session_local_graph(struct native_session *self, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"name", "reason", NULL};
    const char *name;
    const char *reason;
    struct prony_graph *graph = NULL;
    struct prony_error err;
    struct native_call call;
    PyObject *result = NULL;
    if (!native_parse(args, kwargs, names, "ss", &name, &reason) || !native_session_enter(self))
        return NULL;
    native_release(&call, &self->closing);
    int code = prony_graph_local(self->session, name, reason, &graph, &err);
    if (native_acquire(&call))
        result = code < 0 ? native_raise(&err) : native_graph_new(self, graph);
    native_session_leave(self);
    return result;
}

/* ---- Regions ---- */

/* They never wait, and so keep Python's lock. */

static PyObject *session_region(struct native_session *self, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"name", "function", "arguments", "named", NULL};
    const char *name;
    PyObject *function;
    PyObject *arguments = NULL;
    PyObject *named = NULL;
    if (!native_parse(args, kwargs, names, "sO|O!O!", &name, &function, &PyTuple_Type, &arguments,
                      &PyDict_Type, &named) ||
        !native_session_enter(self))
        return NULL;
    struct prony_error err;
    int code = prony_region_begin(self->session, name, &err);
    native_session_leave(self);
    PyObject *result =
        arguments ? PyObject_Call(function, arguments, named) : PyObject_CallNoArgs(function);
    /* Of a session that was closed meanwhile nobody asks why it recorded nothing. */
    bool open = code == 0 && !is_closed(self);
    if (open && result)
        code = prony_region_end(self->session, &err);
    else if (open)
        prony_region_cancel(self->session);
    if (!result)
        return NULL;
    return code < 0 ? Py_BuildValue("Ns", result, err.text) : Py_BuildValue("NO", result, Py_None);
}

static PyObject *session_region_compiled(struct native_session *self, PyObject *ignored)
{
    (void)ignored;
    if (!native_session_enter(self))
        return NULL;
    prony_region_compiled(self->session);
    native_session_leave(self);
    Py_RETURN_NONE;
}

/* ---- What was recorded ---- */

static PyObject *session_restart(struct native_session *self, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = {"repeats", "warmups", "strict", NULL};
    struct prony_error err;
    struct native_call call;
    long long repeats;
    long long warmups;
    int strict = 0;
    if (!native_parse(args, kwargs, names, "LL|p", &repeats, &warmups, &strict) ||
        !native_session_enter(self))
        return NULL;
    native_release(&call, &self->closing);
    int code = prony_session_restart(self->session, repeats, warmups, strict, &err);
    bool undisturbed = native_acquire(&call);
    native_session_leave(self);
    if (!undisturbed)
        return NULL;
    if (code < 0)
        return native_raise(&err);
    Py_RETURN_NONE;
}

static PyObject *session_profile(struct native_session *self, PyObject *ignored)
{
    struct prony_profile *profile = NULL;
    struct prony_error err;
    struct native_call call;
    (void)ignored;
    if (!native_session_enter(self))
        return NULL;
    native_release(&call, &self->closing);
    int code = prony_session_profile(self->session, &profile, &err);
    bool undisturbed = native_acquire(&call);
    native_session_leave(self);
    if (undisturbed && code == 0)
        return native_profile_new(profile);
    if (code == 0)
        prony_profile_free(profile);
    return undisturbed ? native_raise(&err) : NULL;
}

static PyObject *session_backends(struct native_session *self, void *ignored)
{
    const char *name;
    (void)ignored;
    if (!native_session_enter(self))
        return NULL;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && (name = prony_session_backend(self->session, i)); i++) {
        PyObject *text = PyUnicode_FromString(name);
        if (!text || PyList_Append(list, text) < 0)
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    native_session_leave(self);
    return list;
}

static PyObject *session_closed(struct native_session *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(is_closed(self));
}

static PyObject *session_waited_ns(struct native_session *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLongLong(self->waited_ns);
}

/* ---- The type ---- */

static PyMethodDef methods[] = {
    {"load", NATIVE_METHOD(session_load), METH_VARARGS | METH_KEYWORDS,
     "load(name, forms, refusals=None)\n--\n\nA graph, loaded on every backend in the form that "
     "it takes; but not on those that have a reason in `refusals`, a tuple with one entry each."},
    {"local_graph", NATIVE_METHOD(session_local_graph), METH_VARARGS | METH_KEYWORDS,
     "local_graph(name, reason)\n--\n\nA graph that no backend is to run, and why."},
    {"region", NATIVE_METHOD(session_region), METH_VARARGS | METH_KEYWORDS,
     "region(name, function, arguments=(), named={})\n--\n\n"
     "Calls the function as a named piece of this thread's program, and adds that to its profile "
     "unless it raises. Gives what it returned, and None or why it isn't recorded."},
    {"region_compiled", NATIVE_METHOD(session_region_compiled), METH_NOARGS,
     "region_compiled()\n--\n\nSays that something was compiled in this thread's region."},
    {"restart", NATIVE_METHOD(session_restart), METH_VARARGS | METH_KEYWORDS,
     "restart(repeats, warmups, strict=False)\n--\n\nForgets what was recorded; graphs stay."},
    {"profile", NATIVE_METHOD(session_profile), METH_NOARGS,
     "profile()\n--\n\nA copy of what was recorded so far."},
    {"close", NATIVE_METHOD(session_close), METH_NOARGS,
     "close()\n--\n\nFrees the hardware. Calls of other threads end; a second time does nothing."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"backends", (getter)session_backends, NULL, "Their names, in the session's order.", NULL},
    {"closed", (getter)session_closed, NULL, "Whether it can't be used here any more.", NULL},
    {"waited_ns", (getter)session_waited_ns, NULL,
     "How long the ends of runs were waited for, in all.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     NATIVE_DOC(
         "Session(backends, *, server, token=None, insecure=False, ca_file=None, repeats=10, "
         "warmups=1, strict=False, notice=None, timeout_s=120.0, hardware_file=None, "
         "instead_of=None)\n--\n\n"
         "Backends of a server, graphs on them, and what is recorded of their runs. Waits until "
         "the "
         "hardware is free, and tells `notice` about it.")},
    {Py_tp_new, (void *)session_new},
    {Py_tp_dealloc, (void *)session_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "prony._native.Session",
    .basicsize = sizeof(struct native_session),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int native_add_session(PyObject *module)
{
    session_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    return session_type ? PyModule_AddType(module, session_type) : -1;
}
