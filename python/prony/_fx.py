"""A lowered graph as the tree from which the extension packs FXPROTO (proto/fxgraph.proto).

    tree   {"nodes": [node…], "fixed_inputs": [value…]}
    node   ("placeholder", name) | ("call_function", name, target, [value…], [(name, value)…])
           | ("output", name, value)

Operators, numbers, and what sizes are computed with go in, and graphs as arguments of operators like
cond. A worker runs ATen's operators, and those of libraries that it was told to import.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch import fx

from prony import _dtypes
from prony._lower import GROUPED, Lowered

aten = torch.ops.aten

Target = tuple[str, ...]

_MEMORY_FORMATS = {torch.contiguous_format: 0, torch.channels_last: 1, torch.channels_last_3d: 2,
                   torch.preserve_format: 3}
_LAYOUTS = {torch.strided: 0, torch.sparse_coo: 1}
_HIGHER_ORDERS = ("cond", "while_loop", "map_impl", "scan")

# Arithmetic on sizes: of Python's module operator, of torch, and of ATen where neither has it.
_OPERATORS = ("add", "sub", "mul", "floordiv", "truediv", "mod", "neg", "eq", "ne", "lt", "le", "gt",
              "ge", "and_", "or_", "not_", "pow", "getitem")
_FUNCTIONS = ("sym_int", "sym_float", "sym_max", "sym_min", "sym_not", "sym_ite", "sym_sum")
_SIZE_TARGETS: dict[Any, Target] = {
    **{getattr(operator, name): ("operator", name) for name in _OPERATORS},
    **{getattr(torch, name): ("torch", name) for name in _FUNCTIONS},
    math.floor: ("op", "aten", "floor", "float"), math.ceil: ("op", "aten", "ceil", "float"),
    math.trunc: ("torch", "sym_int"), round: ("operator", "round"),
}


class NotExpressible(Exception):
    """Something in the graph that FXPROTO has no words for."""


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
    nodes += _calls(lowered.module, ints)
    fixed = [("tensor", _dtype(dtype), dims, file, offset, nbytes)
             for dtype, dims, file, offset, nbytes in weights]
    return {"nodes": nodes, "fixed_inputs": fixed}


def _calls(module: fx.GraphModule, ints: dict[str, str]) -> list[Any]:
    """The nodes of a graph behind its placeholders."""
    nodes: list[Any] = []
    for node in module.graph.nodes:
        if getattr(getattr(node.target, "_schema", None), "name", "") == GROUPED:
            nodes += _grouped(node, ints)
        elif node.op == "call_function":
            nodes.append(("call_function", node.name, _target(node),
                          [_value(arg, ints) for arg in node.args],
                          [(name, _value(arg, ints)) for name, arg in node.kwargs.items()]))
        elif node.op == "output":
            nodes.append(("output", node.name, _value(node.args[0], ints)))
        elif node.op != "placeholder":
            _inner(node)  # which is written where it is used
    return nodes


def _grouped(node: fx.Node, ints: dict[str, str]) -> list[Any]:
    """A matrix product per group."""
    rows, matrices, ends = (_value(arg, ints) for arg in node.args)
    count = node.args[1].meta["val"].shape[0]

    def call(name: str, op: torch._ops.OpOverload, *args: Any) -> Any:
        return ("call_function", f"{node.name}_{name}", _overload(op), list(args), [])

    def made(name: str) -> Any:
        return ("node", f"{node.name}_{name}")

    nodes = [call("inner_ends", aten.slice.Tensor, ends, ("int", 0), ("int", 0), ("int", -1)),
             call("whole_ends", aten.to.dtype, made("inner_ends"), ("dtype", _dtype(torch.int64))),
             call("groups", aten.tensor_split.tensor_indices_or_sections, rows, made("whole_ends"))]
    for i in range(count):
        nodes += [("call_function", f"{node.name}_rows_{i}", ("operator", "getitem"),
                   [made("groups"), ("int", i)], []),
                  call(f"matrix_{i}", aten.select.int, matrices, ("int", 0), ("int", i)),
                  call(f"product_{i}", aten.mm.default, made(f"rows_{i}"), made(f"matrix_{i}"))]
    products = ("list", [made(f"product_{i}") for i in range(count)])
    return [*nodes, ("call_function", node.name, _overload(aten.cat.default), [products, ("int", 0)], [])]


def _inner(node: fx.Node) -> fx.GraphModule:
    """The graph that an operator takes; raises if it is something else."""
    value = operator.attrgetter(node.target)(node.graph.owning_module)
    if not isinstance(value, fx.GraphModule):
        raise NotExpressible("a graph inside of it has tensors of its own")
    return value


def _inner_nodes(module: fx.GraphModule) -> list[Any]:
    return [("placeholder", node.name) for node in module.graph.find_nodes(op="placeholder")
            ] + _calls(module, {})


def _overload(op: torch._ops.OpOverload) -> Target:
    namespace, _, name = op._schema.name.partition("::")
    return ("op", namespace, name, op._overloadname)


def _target(node: fx.Node) -> Target:
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return _overload(target)
    if target in _SIZE_TARGETS:
        return _SIZE_TARGETS[target]
    if isinstance(target, torch._ops.HigherOrderOperator) and target.name() in _HIGHER_ORDERS:
        return ("higher_order", target.name())
    name = getattr(target, "__name__", str(target))
    raise NotExpressible(f"'{name}' has no ATen operator")


def _dtype(dtype: torch.dtype) -> int:
    if dtype not in _dtypes.FX:
        raise NotExpressible(f"there is no type {dtype} in FXPROTO")
    return _dtypes.FX[dtype]


def _value(value: Any, ints: dict[str, str]) -> tuple[Any, ...]:
    if value is None:
        return ("none",)
    if isinstance(value, fx.Node) and value.op == "get_attr":
        return ("graph", _inner_nodes(_inner(value)))
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
