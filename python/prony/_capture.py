"""A graph that Dynamo captured, as the function that Dynamo calls in its place.

Calling it is on the path that is timed, so it does little: it looks up which weights it was called
with, tells the extension where the inputs lie, and, when profiling, computes the result here. Clocks
of local code stand still between `start` and `finish`.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from prony import _dtypes, _dump, _native, _weights
from prony._forms import Exported, export
from prony._onnx import first_line
from prony.errors import CompilationError, LoadModelError, OctomlProfileError

if TYPE_CHECKING:
    from prony._context import Context

Tensors = list[tuple[str, int, tuple[int, ...], int, int]]


class Captured:
    """One graph of Dynamo's. It becomes one graph of the session for each set of weights."""

    def __init__(self, context: Context, module: fx.GraphModule, examples: list[Any]) -> None:
        self.context = context
        self.module = module
        self.local = module.forward
        self.source = _dump.describe(module)
        self.failure: str | None = None
        self.exported: Exported | None = None
        self._graphs: dict[tuple[int, ...], tuple[Any, list[Any]]] = {}
        try:
            self.exported = export(module, examples, context.wants_onnx)
        except Exception as fault:
            self.failure = f"it can't be lowered to ATen operators: {first_line(fault)}"
            self._pick = _picker([])
            return
        lowered = self.exported.lowered
        self.plan = lowered.plan
        self._pick = _picker([w.position for w in lowered.weights if w.position is not None])
        self._constants = [w.constant for w in lowered.weights if w.constant is not None]
        overwritten = set(self.plan.overwritten)
        values = lowered.placeholders()[len(lowered.weights):]
        self._inputs = [
            (position, name, _dtypes.ONNX.get(getattr(node.meta["val"], "dtype", torch.int64)),
             position in overwritten)
            for position, name, node in zip(lowered.inputs, lowered.input_names, values)]
        unknown = [node.meta["val"].dtype for entry, node in zip(self._inputs, values)
                   if entry[2] is None]
        if unknown:
            self.failure = f"inputs of type {unknown[0]} can't be sent"

    @property
    def trivial(self) -> bool:
        """Whether a backend would have nothing to return."""
        return self.exported is not None and not self.exported.lowered.output_names

    def profile(self, *arguments: Any) -> Any:
        """Runs on every backend, and returns what is computed here."""
        if self.trivial or not self.context.active:
            return self.local(*arguments)
        if self.context.overlap and self.failure is None and \
                tuple(map(id, self._pick(arguments))) not in self._graphs:
            return self._profile_while_loading(arguments)
        graph = self._graph(arguments)
        if graph is None or graph.local_reason is not None:
            return self._run_locally(graph, arguments)
        tensors, _alive = self._tensors(arguments)
        try:
            run = graph.start(tensors, False, self.context.overlap)
        except _native.Error as fault:
            self.context.run_failed(graph, fault)
            return self.local(*arguments)
        try:
            result = self.local(*arguments)
        except BaseException:
            run.cancel()
            raise
        try:
            run.finish()
        except _native.Error as fault:
            self.context.run_failed(graph, fault)
        return result

    def _profile_while_loading(self, arguments: tuple[Any, ...]) -> Any:
        """The first call: weights go up to hardware elsewhere while the result is computed here."""
        tensors, _alive = self._tensors(arguments)  # before anything is overwritten
        loaded: list[Any] = []

        def load() -> None:
            try:
                with torch.no_grad():
                    loaded.append(self._graph(arguments))
            except BaseException as fault:
                loaded.append(fault)

        loader = threading.Thread(target=load, name="prony-upload")
        loader.start()
        try:
            result = self.local(*arguments)
        finally:
            loader.join()
        graph = loaded[0]
        if isinstance(graph, BaseException):
            raise graph
        if graph is None:
            return result
        try:
            graph.run(tensors if graph.local_reason is None else [])
        except _native.Error as fault:
            if graph.local_reason is None:
                self.context.run_failed(graph, fault)
        return result

    def infer(self, *arguments: Any) -> Any:
        """Runs on the one backend, and returns what it returned."""
        if self.failure is not None:
            raise CompilationError(f"a graph of '{self.context.function}' can't run on "
                                   f"'{self.context.backend}': {self.failure}")
        if self.exported.lowered.was_training:
            raise CompilationError(f"a module in '{self.context.function}' is in training mode, "
                                   "which isn't run remotely: call its eval() first")
        if self.trivial:
            self.context.count_remote()
            return self.plan.assemble(arguments, [])
        graph = self._graph(arguments)
        reason = graph.local_reason if graph is not None else "the session is closed"
        if reason is not None:
            raise LoadModelError(f"a graph of '{self.context.function}' can't run on "
                                 f"'{self.context.backend}': {reason}")
        tensors, _alive = self._tensors(arguments)
        try:
            outputs = graph.run(tensors, self.context.backend, True)
        except _native.Error as fault:
            raise OctomlProfileError(f"Graph #{graph.id} failed on '{self.context.backend}': "
                                     f"{fault}") from fault
        self.context.count_remote()
        return self.plan.assemble(arguments, [_tensor(*output) for output in outputs])

    def _run_locally(self, graph: Any, arguments: tuple[Any, ...]) -> Any:
        if graph is not None:
            try:
                graph.run([])  # which records that it was called, and says why it can't
            except _native.Error:
                pass
        return self.local(*arguments)

    def _graph(self, arguments: tuple[Any, ...]) -> Any:
        """The graph of the session with these weights; loaded the first time. None: no session."""
        weights = self._pick(arguments)
        key = tuple(map(id, weights))
        known = self._graphs.get(key)
        if known is not None and not (self.context.checks_weights and self._changed(known[1])):
            return known[0]
        graph = self.context.load(self, [*weights, *self._constants] if self.exported else [])
        # Holding the weights keeps their ids from being given to others.
        self._graphs[key] = (graph, [(w, _weights.version(w)) for w in weights])
        return graph

    @staticmethod
    def _changed(weights: list[tuple[torch.Tensor, int]]) -> bool:
        return any(_weights.version(weight) != before or before == -1 for weight, before in weights)

    def _tensors(self, arguments: tuple[Any, ...]) -> tuple[Tensors, list[torch.Tensor]]:
        """Where the inputs lie, and what has to stay alive for that."""
        tensors, alive = [], []
        for position, name, dtype, overwritten in self._inputs:
            value = arguments[position]
            if not isinstance(value, torch.Tensor):
                value = torch.tensor(value)
            elif overwritten:
                value = value.clone(memory_format=torch.contiguous_format)
            elif value.is_conj() or value.is_neg() or not value.is_cpu or \
                    not value.is_contiguous():
                value = _weights.packed(value)
            alive.append(value)
            tensors.append((name, dtype, tuple(value.shape), value.data_ptr(), value.nbytes))
        return tensors, alive


def _picker(positions: list[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Takes these positions of a tuple, quickly."""
    if len(positions) > 1:
        return operator.itemgetter(*positions)
    return lambda arguments: tuple([arguments[i] for i in positions])


def _tensor(name: str, dtype: int, dims: list[int], data: Any) -> torch.Tensor:
    """An output of a backend as a tensor of its own."""
    if dtype not in _dtypes.FROM_ONNX:
        raise OctomlProfileError(f"output '{name}' has a type that PyTorch hasn't")
    kind = _dtypes.FROM_ONNX[dtype]
    if not len(data):
        return torch.empty(tuple(dims), dtype=kind)
    return torch.frombuffer(bytearray(data), dtype=kind).reshape(tuple(dims))
