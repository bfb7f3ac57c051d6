/* Functions of prony._native: servers without a session, hashes, and the program. */
#include "module.h"

#include <math.h>
#include <stdlib.h>

static bool read_options(PyObject *args, PyObject *kwargs, struct prony_server_options *options)
{
    static const char *const names[] = {"server", "token", "insecure", "ca_file", NULL};
    options->interrupted = native_interrupted;
    return native_parse(args, kwargs, names, "s|zpz", &options->server, &options->token,
                        &options->insecure, &options->ca_file) != 0;
}

static PyObject *ping(PyObject *module, PyObject *args, PyObject *kwargs)
{
    struct prony_server_options options = PRONY_SERVER_OPTIONS_INIT;
    struct prony_error err;
    struct native_call call;
    (void)module;
    if (!read_options(args, kwargs, &options) || !native_may_connect(true))
        return NULL;
    native_release(&call, NULL);
    int code = prony_server_ping(&options, &err);
    if (!native_acquire(&call))
        return NULL;
    if (code < 0)
        return native_raise(&err);
    Py_RETURN_NONE;
}

/* ---- Listing ---- */

static PyObject *list_texts(const char *const *texts, size_t n)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *text = PyUnicode_FromString(texts[i]);
        if (!text || PyList_Append(list, text) < 0)
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

/* None for what isn't known. */
static PyObject *number_or_none(double value)
{
    return isfinite(value) ? PyFloat_FromDouble(value) : Py_NewRef(Py_None);
}

static PyObject *count_or_none(int64_t value)
{
    return value >= 0 ? PyLong_FromLongLong(value) : Py_NewRef(Py_None);
}

static PyObject *list_offered(const struct prony_offer *offer)
{
    struct prony_offer_backend b;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && prony_offer_backend(offer, i, &b) == 0; i++) {
        PyObject *item =
            Py_BuildValue("{s:s,s:z,s:z,s:N,s:N,s:N,s:N}", "name", b.name, "processor", b.processor,
                          "version", b.version, "usd_per_hour", number_or_none(b.usd_per_hour),
                          "options", list_texts(b.options, b.n_options), "hosts",
                          count_or_none(b.hosts), "free_hosts", count_or_none(b.free_hosts));
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *list_presets(const struct prony_offer *offer)
{
    struct prony_offer_preset preset;
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && prony_offer_preset(offer, i, &preset) == 0; i++) {
        PyObject *names = list_texts(preset.backends, preset.n_backends);
        if (!names || PyDict_SetItemString(dict, preset.name, names) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(names);
    }
    return dict;
}

static PyObject *list_backends(PyObject *module, PyObject *args, PyObject *kwargs)
{
    struct prony_server_options options = PRONY_SERVER_OPTIONS_INIT;
    struct prony_offer *offer = NULL;
    struct prony_error err;
    struct native_call call;
    PyObject *result = NULL;
    (void)module;
    if (!read_options(args, kwargs, &options) || !native_may_connect(true))
        return NULL;
    native_release(&call, NULL);
    int code = prony_server_list(&options, &offer, &err);
    if (native_acquire(&call))
        result = code < 0 ? native_raise(&err)
                          : Py_BuildValue("(NN)", list_offered(offer), list_presets(offer));
    prony_offer_free(offer);
    return result;
}

/* ---- Tokens ---- */

static PyObject *lacks_token(PyObject *module, PyObject *args, PyObject *kwargs)
{
    struct prony_server_options options = PRONY_SERVER_OPTIONS_INIT;
    struct prony_error err;
    (void)module;
    if (!read_options(args, kwargs, &options))
        return NULL;
    int lacks = prony_server_lacks_token(&options, &err);
    return lacks < 0 ? native_raise(&err) : PyBool_FromLong(lacks);
}

static PyObject *save_token(PyObject *module, PyObject *args)
{
    const char *token;
    struct prony_error err;
    (void)module;
    if (!PyArg_ParseTuple(args, "s", &token))
        return NULL;
    if (prony_token_save(token, &err) < 0)
        return native_raise(&err);
    Py_RETURN_NONE;
}

/* ---- The rest ---- */

static PyObject *check_process(PyObject *module, PyObject *ignored)
{
    (void)module;
    (void)ignored;
    if (!native_may_connect(false))
        return NULL;
    Py_RETURN_NONE;
}

/* Python's own, which lets other threads go on meanwhile. */
static PyObject *sha256(PyObject *module, PyObject *args)
{
    unsigned long long address;
    Py_ssize_t bytes;
    static char nothing[1];
    (void)module;
    if (!PyArg_ParseTuple(args, "Kn", &address, &bytes))
        return NULL;
    PyObject *hashlib = PyImport_ImportModule("hashlib");
    PyObject *memory = PyMemoryView_FromMemory(bytes > 0 ? (char *)(uintptr_t)address : nothing,
                                               bytes, PyBUF_READ);
    PyObject *hash = hashlib && memory ? PyObject_CallMethod(hashlib, "sha256", "O", memory) : NULL;
    PyObject *digest = hash ? PyObject_CallMethod(hash, "digest", NULL) : NULL;
    Py_XDECREF(hash);
    Py_XDECREF(memory);
    Py_XDECREF(hashlib);
    return digest;
}

static PyObject *program(PyObject *module, PyObject *ignored)
{
    char *path;
    struct prony_error err;
    (void)module;
    (void)ignored;
    if (prony_program(&path, &err) < 0)
        return native_raise(&err);
    PyObject *result = PyUnicode_DecodeFSDefault(path);
    free(path);
    return result;
}

static PyMethodDef functions[] = {
    {"ping", NATIVE_METHOD(ping), METH_VARARGS | METH_KEYWORDS,
     "ping(server, token=None, insecure=False, ca_file=None)\n--\n\n"
     "Whether the server is there and takes the token."},
    {"list_backends", NATIVE_METHOD(list_backends), METH_VARARGS | METH_KEYWORDS,
     "list_backends(server, token=None, insecure=False, ca_file=None)\n--\n\n"
     "What the server offers, and its presets. Reserves nothing."},
    {"lacks_token", NATIVE_METHOD(lacks_token), METH_VARARGS | METH_KEYWORDS,
     "lacks_token(server, token=None, insecure=False, ca_file=None)\n--\n\n"
     "Whether a token is needed and there is none."},
    {"save_token", NATIVE_METHOD(save_token), METH_VARARGS,
     "save_token(token)\n--\n\nKeeps it as the user's own, in a file that nobody else can read."},
    {"check_process", NATIVE_METHOD(check_process), METH_NOARGS,
     "check_process()\n--\n\nFails in a fork of a process that talked to a service."},
    {"sha256", NATIVE_METHOD(sha256), METH_VARARGS,
     "sha256(address, bytes)\n--\n\nOf a piece of memory."},
    {"program", NATIVE_METHOD(program), METH_NOARGS,
     "program()\n--\n\nThe path of the prony program."},
    {NULL, NULL, 0, NULL},
};

int native_add_server(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
