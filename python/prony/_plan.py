"""What a captured graph returns, put together from what a backend returned.

A backend gives new tensors, packed row by row. The captured graph may return an input itself, a view
of one, tensors that share memory, tensors with other strides, sizes, or None, and may overwrite its
inputs. A plan holds how each is made, so that a caller can't tell where the result was computed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from prony._weights import packed


@dataclasses.dataclass
class _Geometry:
    """Sizes, strides and offset of a tensor; expressions where they are open."""

    size: list[Any]
    stride: list[Any]
    offset: Any

    @staticmethod
    def of(tensor: torch.Tensor) -> _Geometry:
        return _Geometry(list(tensor.size()), list(tensor.stride()), tensor.storage_offset())

    def view_of(self, base: torch.Tensor, number: Callable[[Any], int]) -> torch.Tensor:
        return base.as_strided([number(n) for n in self.size], [number(n) for n in self.stride],
                               number(self.offset))


@dataclasses.dataclass
class _Item:
    """One thing that the captured graph returns; the first field that is set says which."""

    constant: Any = None
    number: Any = None
    argument: int | None = None
    """The argument that it is, or whose memory it shares."""
    view: _Geometry | None = None
    output: int | None = None
    """The backend's output that has its values."""
    shares: int | None = None
    """Outputs with the same number share memory."""


def _span(value: Any) -> tuple[int, int]:
    """From where to where in memory a tensor reaches; nothing for what isn't one."""
    if not isinstance(value, torch.Tensor) or not value.numel():
        return 0, 0
    last = sum((n - 1) * step for n, step in zip(value.shape, value.stride()))
    return value.data_ptr(), value.data_ptr() + (last + 1) * value.element_size()


class Plan:
    """See above."""

    def __init__(self, symbols: dict[sympy.Symbol, int], items: list[_Item],
                 overwrites: list[tuple[int, int]]) -> None:
        self.symbols, self.items, self.overwrites = symbols, items, overwrites

    @property
    def overwritten(self) -> list[int]:
        """Positions of arguments that the graph overwrites."""
        return [position for position, _ in self.overwrites]

    def shares(self, arguments: Sequence[Any]) -> bool:
        """Whether an argument that is overwritten shares memory with another one. The captured graph
        follows that, and a lowered one doesn't; Dynamo doesn't ask."""
        if not self.overwrites:
            return False
        spans = [_span(argument) for argument in arguments]
        return any(spans[i][0] < end and begin < spans[i][1]
                   for i in self.overwritten for k, (begin, end) in enumerate(spans) if k != i)

    def assemble(self, arguments: Sequence[Any], outputs: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        """What the captured graph returns for `arguments`, given the backend's outputs."""
        values = {symbol: arguments[i] for symbol, i in self.symbols.items()}

        def number(value: Any) -> Any:
            if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                return value
            known = value.node.expr.xreplace(values)
            return value.node.pytype(known)

        for position, index in self.overwrites:
            arguments[position].copy_(outputs[index])
        memory: dict[int, torch.Tensor] = {}
        for item in self.items:
            if item.shares is not None and item.output is not None and item.view is not None:
                self._reserve(memory, item.shares, item.view, outputs[item.output], number)
        return tuple(self._make(item, arguments, outputs, memory, number) for item in self.items)

    def outputs(self, arguments: Sequence[Any], result: Sequence[Any]) -> list[torch.Tensor]:
        """The reverse: the outputs of a backend that would give `result`, what the captured graph
        returned for these arguments, which it has overwritten by now."""
        found: dict[int, torch.Tensor] = {}
        for item, value in zip(self.items, tree_leaves(result, is_leaf=lambda x: x is None)):
            if item.argument is None and item.output is not None:
                found[item.output] = value
        for position, index in self.overwrites:
            found[index] = arguments[position]
        return [packed(found[index]) for index in sorted(found)]

    @staticmethod
    def _reserve(memory: dict[int, torch.Tensor], shares: int, view: _Geometry, output: torch.Tensor,
                 number: Callable[[Any], int]) -> None:
        """Makes sure that the memory which outputs share is large enough for this one."""
        extent = number(view.offset) + 1 + sum(
            (number(n) - 1) * number(step) for n, step in zip(view.size, view.stride))
        base = memory.get(shares)
        if base is None or base.numel() < extent:
            memory[shares] = output.new_empty(max(extent, 0))

    @staticmethod
    def _make(item: _Item, arguments: Sequence[Any], outputs: Sequence[torch.Tensor],
              memory: dict[int, torch.Tensor], number: Callable[[Any], Any]) -> Any:
        if item.argument is not None:
            argument = arguments[item.argument]
            return argument if item.view is None else item.view.view_of(argument, number)
        if item.output is None:
            return item.constant if item.number is None else number(item.number)
        assert item.view is not None  # each output has one
        if item.shares is not None:
            made = item.view.view_of(memory[item.shares], number)
            return made.copy_(outputs[item.output])
        value = outputs[item.output]
        stride = [number(n) for n in item.view.stride]
        if tuple(stride) == value.stride() or value.numel() == 0:
            return value
        return torch.empty_strided(value.size(), stride, dtype=value.dtype).copy_(value)


def make_plan(captured: fx.GraphModule, returned: list[Any],
              overwritten: list[tuple[int, fx.Node]],
              moved: set[str]) -> tuple[Plan, list[fx.Node]]:
    """The plan of a captured graph whose lowered form returns `returned` and overwrites arguments;
    and the nodes of the lowered graph that a backend has to return. `moved` are names of views in the
    captured graph whose place in memory depends on values."""
    arguments = captured.graph.find_nodes(op="placeholder")
    symbols = {node.meta["example_value"].node.expr: i for i, node in enumerate(arguments)
               if isinstance(node.meta["example_value"], torch.SymInt)
               and isinstance(node.meta["example_value"].node.expr, sympy.Symbol)}
    storages: dict[StorageWeakRef, int] = {}
    for i, node in enumerate(arguments):
        if isinstance(node.meta["example_value"], torch.Tensor):
            storages.setdefault(StorageWeakRef(node.meta["example_value"].untyped_storage()), i)

    wanted: list[fx.Node] = []

    def want(node: fx.Node) -> int:
        if node not in wanted:
            wanted.append(node)
        return wanted.index(node)

    overwrites = [(position, want(node)) for position, node in overwritten]
    items = [_make_item(original, lowered, arguments, storages, want, moved)
             for original, lowered in zip(_flat_outputs(captured), returned, strict=True)]
    _find_sharing(items, _flat_outputs(captured), moved)
    return Plan(symbols, items, overwrites), wanted


def _flat_outputs(captured: fx.GraphModule) -> list[Any]:
    leaves: list[Any] = tree_leaves(captured.graph.output_node().args[0], is_leaf=lambda x: x is None)
    return leaves


def _make_item(original: Any, lowered: Any, arguments: list[fx.Node],
               storages: dict[StorageWeakRef, int], want: Callable[[fx.Node], int],
               moved: set[str]) -> _Item:
    if not isinstance(original, fx.Node):
        return _Item(constant=original)
    value = original.meta["example_value"]
    if not isinstance(value, torch.Tensor):
        return _Item(number=value) if value is not None else _Item()
    if original.op == "placeholder":
        return _Item(argument=arguments.index(original))
    base = storages.get(StorageWeakRef(value.untyped_storage()))
    if base is not None and original.name not in moved:
        return _Item(argument=base, view=_Geometry.of(value))
    return _Item(output=want(lowered), view=_Geometry.of(value))


def _find_sharing(items: list[_Item], outputs: list[Any], moved: set[str]) -> None:
    """Marks outputs that are views of the same new tensor."""
    first: dict[StorageWeakRef, _Item] = {}
    for item, node in zip(items, outputs):
        if item.output is None or node.name in moved:
            continue
        storage = StorageWeakRef(node.meta["example_value"].untyped_storage())
        other = first.setdefault(storage, item)
        if other is not item:
            other.shares = item.shares = id(other)
