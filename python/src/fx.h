/* FXPROTO (model/fx/fx.h) as plain values of Python, and back. The tree:
 *
 *     {"nodes": [node, …], "fixed_inputs": [value, …]}
 *     node = ("placeholder", name) | ("call_function", name, target, [value, …], [(name, value),
 * …]) | ("output", name, value) target = ("op", namespace, name, overload) | ("operator", name) |
 * ("torch", name) value = ("node", name) | ("tensor", dtype, [dim, …], file, offset, nbytes) |
 * ("int", i) | ("bool", b) | ("float", f) | ("none",) | ("list", [value, …]) | ("tuple", [value,
 * …]) | ("device", type, index or None) | ("dtype", n) | ("memory_format", n) | ("layout", n) |
 * ("string", s)
 *
 * Numbers are those of proto/fxgraph.proto. */
#ifndef PRONY_PYTHON_FX_H
#define PRONY_PYTHON_FX_H

#include "module.h"

#include "model/fx/fx.h"

/* A new reference, or NULL with an exception. */
PyObject *native_fx_tree(const OctomlFxproto__Model *model);

#endif
