/* prony._native.Profile: what was recorded, as reports. */
#include "module.h"

#include <stdlib.h>
#include <string.h>

static PyTypeObject *profile_type;

struct native_profile {
    PyObject_HEAD struct prony_profile *profile;
};

PyObject *native_profile_new(struct prony_profile *profile)
{
    struct native_profile *self = (struct native_profile *)native_alloc(profile_type);
    if (self)
        self->profile = profile;
    else
        prony_profile_free(profile);
    return (PyObject *)self;
}

static void profile_dealloc(struct native_profile *self)
{
    prony_profile_free(self->profile);
    native_free((PyObject *)self);
}

/* The number of a word in a table; -1 with an exception when it isn't there. */
static int choose(const char *what, const char *word, const char *const *table, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(table[i], word) == 0)
            return (int)i;
    PyErr_Format(PyExc_ValueError, "there is no %s '%s'", what, word);
    return -1;
}

static PyObject *write_report(const struct native_profile *self,
                              const struct prony_report_options *options)
{
    struct prony_error err;
    char *text;
    if (prony_profile_report(self->profile, options, &text, &err) < 0)
        return native_raise(&err);
    PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    free(text);
    return result;
}

static PyObject *profile_report(struct native_profile *self, PyObject *args, PyObject *kwargs)
{
    static const char *const formats[] = {"text", "markdown", "csv", "json"};
    static const char *const layouts[] = {"summary", "segments", "classic"};
    static const char *const names[] = {"format", "layout", "verbose", NULL};
    struct prony_report_options options = PRONY_REPORT_OPTIONS_INIT;
    const char *format = "text";
    const char *layout = "summary";
    if (!native_parse(args, kwargs, names, "|ssp", &format, &layout, &options.verbose))
        return NULL;
    int chosen_format = choose("format", format, formats, sizeof formats / sizeof formats[0]);
    int chosen_layout = chosen_format < 0
                            ? -1
                            : choose("layout", layout, layouts, sizeof layouts / sizeof layouts[0]);
    if (chosen_layout < 0)
        return NULL;
    options.format = (enum prony_report_format)chosen_format;
    options.layout = (enum prony_report_layout)chosen_layout;
    return write_report(self, &options);
}

static PyObject *profile_json(struct native_profile *self, PyObject *ignored)
{
    struct prony_report_options options = PRONY_REPORT_OPTIONS_INIT;
    (void)ignored;
    options.format = PRONY_REPORT_JSON;
    return write_report(self, &options);
}

static PyObject *profile_save(struct native_profile *self, PyObject *path)
{
    struct prony_error err;
    PyObject *bytes;
    if (!PyUnicode_FSConverter(path, &bytes))
        return NULL;
    int code = prony_profile_save(self->profile, PyBytes_AsString(bytes), &err);
    Py_DECREF(bytes);
    if (code < 0)
        return native_raise(&err);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"report", NATIVE_METHOD(profile_report), METH_VARARGS | METH_KEYWORDS,
     "report(format='text', layout='summary', verbose=False)\n--\n\n"
     "The report, as `prony report` writes it."},
    {"json", NATIVE_METHOD(profile_json), METH_NOARGS,
     "json()\n--\n\nAll of it, as prony.profile/1."},
    {"save", NATIVE_METHOD(profile_save), METH_O,
     "save(path, /)\n--\n\nWrites the JSON into a file, which is replaced as a whole or not at "
     "all."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, NATIVE_DOC("A copy of what a session has recorded.")},
    {Py_tp_dealloc, (void *)profile_dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "prony._native.Profile",
    .basicsize = sizeof(struct native_profile),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

int native_add_profile(PyObject *module)
{
    profile_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    return profile_type ? PyModule_AddType(module, profile_type) : -1;
}
