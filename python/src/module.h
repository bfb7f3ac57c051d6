/*
 * The parts of prony._native. A part is a function that adds names to the module; it returns -1
 * with an exception set when it can't.
 *
 * Whatever may wait is done without Python's lock, between native_release() and native_acquire().
 * Meanwhile Python's signal handlers get their chance (native_interrupted()), so that Ctrl-C ends
 * the wait and is raised where it happened.
 */
#ifndef PRONY_PYTHON_MODULE_H
#define PRONY_PYTHON_MODULE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>
/* The stable ABI has what takes it, but the name only from 3.11 on. */
#ifndef PyBUF_READ
#define PyBUF_READ 0x100
#endif

#include <prony/prony.h>

#include <pthread.h>
#include <stdbool.h>

int native_add_errors(PyObject *module);
int native_add_session(PyObject *module);
int native_add_graph(PyObject *module);
int native_add_stand_in(PyObject *module);
int native_add_profile(PyObject *module);
int native_add_server(PyObject *module);
int native_add_fx(PyObject *module);
int native_add_executor(PyObject *module);

/* Tables of Python's take functions and texts under other types. */
#define NATIVE_METHOD(function) ((PyCFunction)(void (*)(void))(function))
#define NATIVE_DOC(text) ((void *)(uintptr_t)(text))

/* PyArg_ParseTupleAndKeywords(). */
int native_parse(PyObject *args, PyObject *kwargs, const char *const *names, const char *format,
                 ...);
/* A new object of a type, all zero, and its end. */
void *native_alloc(PyTypeObject *type);
void native_free(PyObject *object);

/* ---- Errors (call.c) ---- */

/* Raises prony._native.Error with the text and the code; returns NULL. */
PyObject *native_raise(const struct prony_error *err);
PyObject *native_raise_text(int code, const char *text);
/* Whether such an error is what was raised. */
bool native_is_error_set(void);

/* ---- Calls that wait (call.c) ---- */

struct native_call {
    PyThreadState *thread;
    struct native_call *outer;          /* of the same thread: a notice that calls */
    PyObject *type, *value, *traceback; /* what a handler or a notice raised */
    bool interrupted;
    const volatile bool *closing; /* becomes true to end it; NULL: never */
};

void native_release(struct native_call *call, const volatile bool *closing);
/* False: what was raised meanwhile is set as the exception. */
bool native_acquire(struct native_call *call);

/* For prony_session_options and prony_server_options: */
int native_interrupted(void *context);
/* `context` is a PyObject **, the callable; NULL or None in it: nobody is told. */
void native_notice(void *context, const struct prony_notice *notice);

/* Whether the thread is inside such a call, in a notice. */
bool native_is_inside(void);

/* How often the process has been forked, as seen from its first ancestor: an object of another
 * count is another process's. */
unsigned native_forks(void);
/* Raises and returns false when this process can't talk to a server any more. `now`: it will. */
bool native_may_connect(bool now);

/* ---- Sessions (session.c) ---- */

struct native_run;

struct native_session {
    PyObject_HEAD struct prony_session *session; /* NULL: closed */
    unsigned forks;
    PyObject *notice;
    struct native_run *runs; /* not finished */
    int64_t waited_ns;       /* for runs, in all */
    pthread_mutex_t lock;    /* for `users` */
    pthread_cond_t left;
    size_t users; /* calls under way */
    volatile bool closing;
};

/* Raises and returns false when it is closed or another process's. Otherwise it isn't closed before
 * native_session_leave(). */
bool native_session_enter(struct native_session *session);
void native_session_leave(struct native_session *session);

/* ---- Profiles (profile.c) ---- */

PyObject *native_profile_new(struct prony_profile *profile); /* which it takes */

/* ---- Values (values.c) ---- */

/* A list or tuple as a new reference to a tuple; `what` is for the error. */
PyObject *native_tuple(PyObject *value, const char *what);

/* Texts of a sequence, which live as long as the tuple that comes with them. */
struct native_texts {
    PyObject *tuple;
    const char **items;
    size_t n;
};

bool native_texts_read(PyObject *value, const char *what, struct native_texts *ret_texts);
void native_texts_release(struct native_texts *texts);

/* Tensors as Python writes them: (name, dtype, dims, address, bytes). */
struct native_tensors {
    PyObject *owner; /* what the names live in */
    struct prony_tensor *items;
    size_t n;
    bool borrows_dims; /* they are the owner's, too */
};

bool native_tensors_read(PyObject *value, struct native_tensors *ret_tensors);
void native_tensors_release(struct native_tensors *tensors);

/* ---- Graphs (graph.c) ---- */

PyObject *native_graph_new(struct native_session *session, struct prony_graph *graph);
/* Raises and returns false for what isn't a graph. */
bool native_graph_check(PyObject *value);

/* A run in two halves, which is cancelled when nobody holds it any more. Takes the inputs. NULL:
 * raised. */
struct native_run *native_run_start(PyObject *graph, struct native_tensors *inputs, bool outputs,
                                    bool overlap);
/* Its result has just been computed here. */
void native_run_computed(struct native_run *run);
/* False: raised. */
bool native_run_finish(struct native_run *run, const char *backend,
                       struct prony_outputs **ret_outputs);
/* Cancels the runs of a session that is being closed. */
void native_runs_cancel(struct native_session *session);

/* ---- Forms and outputs (values.c) ---- */

/* Forms: (format, files, input names, output names, failure), with files (name, buffer or (address,
 * bytes), SHA-256 or None). */
struct native_forms {
    PyObject *tuple;
    struct prony_graph_form *items;
    size_t n;
    struct native_form_parts *parts;
};

bool native_forms_read(PyObject *value, struct native_forms *ret_forms);
void native_forms_release(struct native_forms *forms);

/* A list of (name, dtype, dims, bytes). */
PyObject *native_outputs(const struct prony_outputs *outputs);

#endif
