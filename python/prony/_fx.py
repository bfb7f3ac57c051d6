"""A lowered graph as the tree from which the extension packs FXPROTO (proto/fxgraph.proto).

    tree   {"nodes": [node…], "fixed_inputs": [value…]}
    node   ("placeholder", name) | ("call_function", name, target, [value…], [(name, value)…])
           | ("output", name, value)

Only ATen operators, `getitem` and numbers go in: a worker runs nothing else. Arithmetic on sizes
becomes the ATen operators that TorchScript has for ints.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch import fx

from prony import _dtypes
from prony._lower import Lowered

aten = torch.ops.aten

_MEMORY_FORMATS = {torch.contiguous_format: 0, torch.channels_last: 1, torch.channels_last_3d: 2,
                   torch.preserve_format: 3}
_LAYOUTS = {torch.strided: 0, torch.sparse_coo: 1}
_NAMESPACES = ("aten", "prims")

_SIZE_OPERATORS = {
    operator.add: aten.add.int, operator.sub: aten.sub.int, operator.mul: aten.mul.int,
    operator.floordiv: aten.floordiv.int, operator.mod: aten.remainder.int,
    operator.neg: aten.neg.int, operator.truediv: aten.div.int, operator.pow: aten.pow.int,
    operator.eq: aten.eq.int, operator.ne: aten.ne.int, operator.lt: aten.lt.int,
    operator.le: aten.le.int, operator.gt: aten.gt.int, operator.ge: aten.ge.int,
    torch.sym_float: aten.Float.int, math.floor: aten.floor.float, math.ceil: aten.ceil.float,
    math.trunc: aten.Int.float, torch.sym_int: aten.Int.float,
}


class NotExpressible(Exception):
    """Something in the graph that FXPROTO has no words for."""


Target = tuple[str, ...]
Tree = dict[str, list[Any]]
WeightPlace = tuple[torch.dtype, list[int], int, int, int]
"""Type, sizes, number of the file, offset and bytes in it."""


def to_tree(lowered: Lowered, weights: list[WeightPlace]) -> Tree:
    """The tree of a lowered graph whose weights lie in these places."""
    nodes: list[Any] = []
    ints = {}
    placeholders = lowered.placeholders()
    for node in placeholders:
        nodes.append(("placeholder", node.name))
    for node in placeholders[len(weights):]:
        if not isinstance(node.meta["val"], torch.Tensor):
            # A run's inputs are tensors; what the graph wants is the number inside.
            ints[node.name] = f"{node.name}_number"
            nodes.append(("call_function", ints[node.name], _overload(aten.item.default),
                          [("node", node.name)], []))
    for node in lowered.module.graph.nodes:
        if node.op == "call_function":
            nodes.append(("call_function", node.name, _target(node),
                          [_value(arg, ints) for arg in node.args],
                          [(name, _value(arg, ints)) for name, arg in node.kwargs.items()]))
        elif node.op == "output":
            nodes.append(("output", node.name, _value(tuple(node.args[0]), ints)))
        elif node.op != "placeholder":  # what is left is a part of the operator that uses it
            users = " and ".join(f"'{user.target}'" for user in node.users)
            raise NotExpressible(f"{users} has graphs of its own inside, for which it has no words")
    fixed = [("tensor", _dtype(dtype), dims, file, offset, nbytes)
             for dtype, dims, file, offset, nbytes in weights]
    return {"nodes": nodes, "fixed_inputs": fixed}


def _overload(op: torch._ops.OpOverload) -> Target:
    namespace, _, name = op._schema.name.partition("::")
    if namespace not in _NAMESPACES:
        raise NotExpressible(f"'{op}' is not an ATen operator")
    return ("op", namespace, name, op._overloadname)


def _target(node: fx.Node) -> Target:
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return _overload(target)
    if target is operator.getitem:
        return ("operator", "getitem")
    if target in _SIZE_OPERATORS:
        return _overload(_SIZE_OPERATORS[target])
    name = getattr(target, "__name__", str(target))
    raise NotExpressible(f"'{name}' has no ATen operator")


def _dtype(dtype: torch.dtype) -> int:
    if dtype not in _dtypes.FX:
        raise NotExpressible(f"there is no type {dtype} in FXPROTO")
    return _dtypes.FX[dtype]


def _value(value: Any, ints: dict[str, str]) -> tuple[Any, ...]:
    if value is None:
        return ("none",)
    if isinstance(value, fx.Node):
        return ("node", ints.get(value.name, value.name))
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int):
        return ("int", value)
    if isinstance(value, float):
        return ("float", value)
    if isinstance(value, str):
        return ("string", value)
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return (kind, [_value(item, ints) for item in value])
    if isinstance(value, torch.dtype):
        return ("dtype", _dtype(value))
    if isinstance(value, torch.device):
        return ("device", value.type, value.index)
    if isinstance(value, torch.memory_format):
        return ("memory_format", _MEMORY_FORMATS[value])
    if isinstance(value, torch.layout) and value in _LAYOUTS:
        return ("layout", _LAYOUTS[value])
    raise NotExpressible(f"FXPROTO has no place for a {type(value).__name__}")
