/*
 * The parts of prony._native. A part is a function that adds names to the module; it returns -1
 * with an exception set when it can't.
 */
#ifndef PRONY_PYTHON_MODULE_H
#define PRONY_PYTHON_MODULE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

int prony_add_fx(PyObject *module);
int prony_add_executor(PyObject *module);

#endif
