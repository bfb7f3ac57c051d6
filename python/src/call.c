/* Errors, and calls that wait without Python's lock. */
#include "module.h"

#include <string.h>

static PyObject *error_type;

static _Thread_local struct native_call *current;

int native_add_errors(PyObject *module)
{
    static const struct {
        const char *name;
        int number;
    } codes[] = {
#define PRONY_X(name, number, text) {#name, number},
        PRONY_ERROR_MAP(PRONY_X)
#undef PRONY_X
    };
    error_type = PyErr_NewExceptionWithDoc(
        "prony._native.Error", "What prony couldn't do. `code` is one of the module's numbers E….",
        NULL, NULL);
    if (!error_type || PyModule_AddObjectRef(module, "Error", error_type) < 0)
        return -1;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (PyModule_AddIntConstant(module, codes[i].name, codes[i].number) < 0)
            return -1;
    return 0;
}

PyObject *native_raise_text(int code, const char *text)
{
    PyObject *error = PyObject_CallFunction(error_type, "s", text);
    PyObject *number = PyLong_FromLong(code);
    if (error && number && PyObject_SetAttrString(error, "code", number) == 0)
        PyErr_SetObject(error_type, error);
    Py_XDECREF(number);
    Py_XDECREF(error);
    return NULL;
}

PyObject *native_raise(const struct prony_error *err)
{
    return native_raise_text(err->code, err->text);
}

bool native_is_error_set(void)
{
    return PyErr_ExceptionMatches(error_type);
}

/* ---- Objects ---- */

int native_parse(PyObject *args, PyObject *kwargs, const char *const *names, const char *format,
                 ...)
{
    va_list list;
    va_start(list, format);
    int parsed =
        PyArg_VaParseTupleAndKeywords(args, kwargs, format, (char **)(uintptr_t)names, list);
    va_end(list);
    return parsed;
}

void *native_alloc(PyTypeObject *type)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return alloc(type, 0);
}

void native_free(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF((PyObject *)type);
}

/* ---- Waiting ---- */

void native_release(struct native_call *call, const volatile bool *closing)
{
    *call = (struct native_call){.outer = current, .closing = closing};
    current = call;
    call->thread = PyEval_SaveThread();
}

bool native_acquire(struct native_call *call)
{
    PyEval_RestoreThread(call->thread);
    current = call->outer;
    if (call->interrupted)
        PyErr_Restore(call->type, call->value, call->traceback);
    return !call->interrupted;
}

bool native_is_inside(void)
{
    return current != NULL;
}

/* With the lock: keeps what was raised until the call has ended. */
static void keep_raised(struct native_call *call)
{
    PyErr_Fetch(&call->type, &call->value, &call->traceback);
    call->interrupted = true;
}

int native_interrupted(void *context)
{
    struct native_call *call = current;
    (void)context;
    if (!call || call->interrupted || (call->closing && *call->closing))
        return call != NULL;
    PyEval_RestoreThread(call->thread);
    if (PyErr_CheckSignals() < 0)
        keep_raised(call);
    call->thread = PyEval_SaveThread();
    return call->interrupted;
}

static PyObject *holders_of(const struct prony_notice *notice)
{
    PyObject *holders = PyList_New(0);
    for (size_t i = 0; holders && i < notice->n_holders; i++) {
        PyObject *holder = PyUnicode_DecodeUTF8(notice->holders[i],
                                                (Py_ssize_t)strlen(notice->holders[i]), "replace");
        if (!holder || PyList_Append(holders, holder) < 0)
            Py_CLEAR(holders);
        Py_XDECREF(holder);
    }
    return holders;
}

static PyObject *make_notice(const struct prony_notice *notice)
{
    const char *subject = notice->subject ? notice->subject : "";
    if (notice->kind == PRONY_NOTICE_UPLOADING)
        return Py_BuildValue("{s:s,s:s,s:K,s:K}", "kind", "uploading", "file", subject,
                             "done_bytes", (unsigned long long)notice->done_bytes, "total_bytes",
                             (unsigned long long)notice->total_bytes);
    return Py_BuildValue("{s:s,s:s,s:K,s:d,s:N}", "kind", "queued", "hardware", subject, "place",
                         (unsigned long long)notice->place, "waited_s", notice->waited_s, "holders",
                         holders_of(notice));
}

void native_notice(void *context, const struct prony_notice *notice)
{
    PyObject *const *callable = context;
    struct native_call *call = current;
    if (!call || call->interrupted || !*callable || *callable == Py_None)
        return;
    PyEval_RestoreThread(call->thread);
    PyObject *told = make_notice(notice);
    PyObject *result = told ? PyObject_CallFunctionObjArgs(*callable, told, NULL) : NULL;
    if (!result)
        keep_raised(call);
    Py_XDECREF(result);
    Py_XDECREF(told);
    call->thread = PyEval_SaveThread();
}

/* ---- Forks ---- */

static unsigned forks;
static bool connected, connected_before_fork;

static void count_fork(void)
{
    forks++;
    connected_before_fork |= connected;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

unsigned native_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    return forks;
}

/* gRPC's threads are the parent's, and a child that waited for them would wait for ever. */
bool native_may_connect(bool now)
{
    native_forks();
    if (!connected_before_fork) {
        connected |= now;
        return true;
    }
    native_raise_text(PRONY_EUNSUPPORTED,
                      "this process was forked from one that talked to a prony service; start it "
                      "anew instead (multiprocessing's 'spawn')");
    return false;
}
