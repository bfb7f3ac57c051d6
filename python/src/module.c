/*
 * prony._native: what of prony is C, for Python. Only the stable ABI of Python 3.10 is used, so one
 * binary serves every later Python.
 *
 * Each file of this folder adds its part in a function of its own (module.h); this one only puts
 * the module together.
 */
#include "module.h"

static int add_version(PyObject *module)
{
    return PyModule_AddStringConstant(module, "version", prony_version());
}

static int (*const parts[])(PyObject *module) = {
    add_version,       native_add_errors,   native_add_session,
    native_add_graph,  native_add_stand_in, native_add_profile,
    native_add_server, native_add_fx,       native_add_executor,
};

static int add_parts(PyObject *module)
{
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i](module) < 0)
            return -1;
    return 0;
}

static struct PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)add_parts},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "prony._native",
    .m_doc = "prony's library: sessions, graphs, recording and reports.",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__native(void); /* what Python looks for */

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
