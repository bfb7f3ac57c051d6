"""A graph that Dynamo captured, as the function that Dynamo calls in its place.

Calling it is on the path that is timed, so the extension does it (`_native.StandIn`) whenever the
weights are those of the last call, and here is what happens otherwise: a graph is loaded, or inputs
have to be looked at. Clocks of local code stand still between `start` and `finish`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from prony import _dtypes, _dump, _native, _weights
from prony._forms import Exported, export
from prony._lower import Lowered, is_weight, one_fake_mode
from prony._onnx import first_line
from prony.errors import CompilationError, LoadModelError, OctomlProfileError

if TYPE_CHECKING:
    from prony._context import Context


@dataclasses.dataclass(frozen=True)
class _Loaded:
    """A graph of the session, and the weights that it was loaded with. Holding those keeps their ids
    from being given to others."""

    graph: _native.Graph | None
    weights: tuple[torch.Tensor, ...]
    states: list[tuple[int, int]]
    layout: _native.Layout

    def is_stale(self) -> bool:
        """Whether a weight has been written to or got other memory since, or may have."""
        return _states(self.weights) != self.states or any(v == -1 for v, _ in self.states)


def _states(weights: tuple[torch.Tensor, ...]) -> list[tuple[int, int]]:
    return [(_weights.version(weight), weight.data_ptr()) for weight in weights]


class Captured:
    """One graph of Dynamo's. It becomes one graph of the session for each set of weights."""

    def __init__(self, context: Context, module: fx.GraphModule, examples: list[Any]) -> None:
        self.context = context
        self.module = module
        self.source = _dump.describe(module)
        module.code  # noqa: B018 -- writes it, and only then is `forward` what was written
        self.local = module.forward
        self.failure: str | None = None
        self.capture_ns: int | None = None
        self._times_told = False
        self.incomparable: str | None = None
        """Why outputs of backends aren't compared with what is computed here; None: they are."""
        self.exported: Exported | None = None
        self._output_names: list[str] = []
        self._was_training = False
        self._positions: tuple[int, ...] = ()
        """Where in the arguments the weights are."""
        self._loaded: dict[int | None, list[_Loaded]] = {}
        """By the id of the first weight."""
        self._inputs: list[tuple[int, str, int, bool, tuple[int, ...] | None, int]] = []
        """Position, name, type, whether it is overwritten, and dims and bytes if they are known."""
        self._all_fixed = False
        """Whether they are known of all."""
        self._ran: set[int] = set()
        """Ids of graphs that ran once."""
        self._unchecked: set[int] = set()
        """Ids of graphs whose outputs are to be compared with what is computed here."""
        self.trivial = False
        """Whether a backend would have nothing to return."""
        self.stand_in = _native.StandIn(
            self._profile if context.backend is None else self._infer, self.local,
            context.run_failed)
        try:
            with one_fake_mode(module):
                self.exported = export(module, examples, context.wants_onnx)
        except Exception as fault:
            self.failure = f"it can't be lowered to ATen operators: {first_line(fault)}"
            return
        lowered = self.exported.lowered
        self.plan = lowered.plan
        self._positions = tuple(w.position for w in lowered.weights if w.position is not None)
        self._constants = [w.constant for w in lowered.weights if w.constant is not None]
        self._output_names, self._was_training = lowered.output_names, lowered.was_training
        self.trivial = not lowered.output_names
        self.incomparable = _incomparable(lowered)
        placeholders = module.graph.find_nodes(op="placeholder")
        if any(isinstance(value, torch.Tensor) and value.is_meta for value in examples):
            self.failure = "tensors on the device 'meta' have no values to send"
            return
        for position, name in zip(lowered.inputs, lowered.input_names):
            example = placeholders[position].meta["example_value"]
            dtype = getattr(example, "dtype", torch.int64)
            number = _dtypes.ONNX.get(dtype)
            if number is None:
                self.failure = f"inputs of type {dtype} can't be sent"
                return
            overwritten = position in self.plan.overwritten
            guarded = not overwritten and not is_weight(examples[position])
            self._inputs.append((position, name, number, overwritten,
                                 *(_fixed(example) if guarded else (None, 0))))
        self._all_fixed = all(dims is not None for *_, dims, _ in self._inputs)

    def start(self) -> dict[str, int | None]:
        """What the first call took here: of the first graph that is made of it."""
        told, self._times_told = self._times_told, True
        if told or self.exported is None:
            return {}
        made = self.exported.lower_ns, self.exported.export_ns
        self.exported.lower_ns = self.exported.export_ns = 0  # whoever shares it didn't wait for it
        return {"capture_ns": self.capture_ns, "lower_ns": made[0], "export_ns": made[1]}

    def forget(self) -> None:
        """The block has been left: later calls are plain ones."""
        self.stand_in.forget()
        self._loaded.clear()

    def _profile(self, arguments: tuple[Any, ...]) -> Any:
        """Runs on every backend, and returns what is computed here."""
        if self.trivial or not self.context.active:
            return self.local(*arguments)
        loaded = self._find(arguments)
        if loaded is not None and self._expect(loaded):
            return self.stand_in.call(*arguments)
        if loaded is None and self.context.overlap and self.failure is None:
            return self._profile_while_loading(arguments)
        graph = self._graph(arguments) if loaded is None else loaded.graph
        if graph is None or graph.local_reason is not None:
            return self._run_locally(graph, arguments)
        tensors, _alive = self._tensors(arguments)
        check = graph.id in self._unchecked
        self._tell_first(graph)
        try:
            run = graph.start(tensors, check, self.context.overlap)
        except _native.Error as fault:
            self.context.run_failed(graph, fault)
            return self.local(*arguments)
        try:
            result = self.local(*arguments)
        except BaseException:
            run.cancel()
            raise
        run.computed()
        self._finish(graph, run, arguments, result)
        return result

    def _tell_first(self, graph: _native.Graph) -> None:
        """Shows a graph's first run, in which compilers compile. Others are quick, and timed."""
        if graph.id not in self._ran:
            self._ran.add(graph.id)
            self.context.tell("running", f"Graph #{graph.id} of {self.context.function}")

    def _finish(self, graph: _native.Graph, run: _native.Run, arguments: tuple[Any, ...],
                result: Any) -> None:
        """Ends a run and, the first time, compares what backends gave with what was computed here."""
        try:
            if graph.id in self._unchecked:
                self._unchecked.discard(graph.id)
                expected = self.plan.outputs(arguments, result)
                if all(value.dtype in _dtypes.ONNX for value in expected):
                    run.expect([(name, _dtypes.ONNX[value.dtype], tuple(value.shape),
                                 value.data_ptr(), value.nbytes)
                                for name, value in zip(self._output_names, expected)])
            run.finish()
        except _native.Error as fault:
            self.context.run_failed(graph, fault)
        finally:
            self.context.progress.clear()

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
        if graph.local_reason is not None:
            self._note_local(graph)
            return result
        self._tell_first(graph)
        try:
            run = graph.start(tensors, graph.id in self._unchecked, False)
        except _native.Error as fault:
            self.context.run_failed(graph, fault)
        else:
            self._finish(graph, run, arguments, result)
        return result

    def _infer(self, arguments: tuple[Any, ...]) -> Any:
        """Runs on the one backend, and returns what it returned."""
        if self.failure is not None:
            raise CompilationError(self._cannot_run(self.failure))
        if self._was_training:
            raise CompilationError(f"a module in '{self.context.function}' is in training mode, "
                                   "which isn't run remotely: call its eval() first")
        if self.trivial:
            return self.plan.assemble(arguments, [])
        if self.plan.shares(arguments):
            raise CompilationError(self._cannot_run(
                "it overwrites a tensor that shares memory with another of its inputs"))
        graph = self._graph(arguments)
        if graph is None:
            raise LoadModelError(self._cannot_run("the session is closed"))
        if graph.local_reason is not None:
            raise LoadModelError(self._cannot_run(graph.local_reason))
        tensors, _alive = self._tensors(arguments)
        self._tell_first(graph)
        try:
            outputs = graph.run(tensors, self.context.backend, True)
        except _native.Error as fault:
            raise OctomlProfileError(f"Graph #{graph.id} failed on '{self.context.backend}': "
                                     f"{fault}") from fault
        finally:
            self.context.progress.clear()
        self.context.count_remote()
        return self.plan.assemble(arguments, [_tensor(*output) for output in outputs or ()])

    def _cannot_run(self, reason: str) -> str:
        return (f"a graph of '{self.context.function}' can't run on '{self.context.backend}': "
                f"{reason}")

    def _run_locally(self, graph: _native.Graph | None, arguments: tuple[Any, ...]) -> Any:
        if graph is None:
            return self.local(*arguments)
        run = graph.start([])
        try:
            result = self.local(*arguments)
        except BaseException:
            run.cancel()
            raise
        run.computed()
        with contextlib.suppress(_native.Error):  # which says why no backend can
            run.finish()
        return result

    @staticmethod
    def _note_local(graph: _native.Graph) -> None:
        with contextlib.suppress(_native.Error):
            graph.run([])  # which records that it was called, and says why it can't

    def _graph(self, arguments: tuple[Any, ...]) -> _native.Graph | None:
        """The graph of the session with these weights; loaded the first time. None: no session."""
        known = self._find(arguments)
        if known is not None and not (self.context.checks_weights and known.is_stale()):
            return known.graph
        weights = tuple([arguments[i] for i in self._positions])
        states = _states(weights)
        graph = self.context.load(self, [*weights, *self._constants] if self.exported else [])
        key = self._key(arguments)
        others = [other for other in self._loaded.get(key, []) if other is not known]
        loaded = _Loaded(graph, weights, states, self._layout(weights))
        self._loaded[key] = [loaded, *others]
        if graph is not None and graph.local_reason is None and self.context.backend is None and \
                self.incomparable is None:
            self._unchecked.add(graph.id)
        self._expect(loaded)
        return graph

    def _layout(self, weights: tuple[torch.Tensor, ...]) -> _native.Layout:
        fixed = self._inputs if self._all_fixed else []
        return _native.Layout(
            weights, self._positions,
            [(name, dtype, dims, 0, nbytes) for _, name, dtype, _, dims, nbytes in fixed
             if dims is not None],
            tuple(position for position, *_ in fixed))

    def _find(self, arguments: tuple[Any, ...]) -> _Loaded | None:
        for loaded in self._loaded.get(self._key(arguments), ()):
            if loaded.layout.fits(arguments):
                return loaded
        return None

    def _expect(self, loaded: _Loaded) -> bool:
        """Leaves calls with these weights to the extension, if it can do them."""
        graph = loaded.graph
        if self.context.backend is None and self._all_fixed and graph is not None and \
                graph.local_reason is None and graph.id not in self._unchecked:
            self.stand_in.expect(loaded.layout, graph, self.context.overlap)
            return True
        self.stand_in.forget()
        return False

    def _key(self, arguments: tuple[Any, ...]) -> int | None:
        return id(arguments[self._positions[0]]) if self._positions else None

    def _tensors(self, arguments: tuple[Any, ...]) -> tuple[list[_native.Tensor], list[torch.Tensor]]:
        """Where the inputs lie, and what has to stay alive for that."""
        tensors: list[_native.Tensor] = []
        alive: list[torch.Tensor] = []
        for position, name, dtype, overwritten, dims, nbytes in self._inputs:
            value = arguments[position]
            if dims is not None:
                tensors.append((name, dtype, dims, value.data_ptr(), nbytes))
                continue  # the caller has it
            if not isinstance(value, torch.Tensor):
                value = torch.tensor(value)
            elif overwritten:
                value = value.clone(memory_format=torch.contiguous_format)
            else:
                value = _weights.packed(value)
            alive.append(value)
            tensors.append((name, dtype, tuple(value.shape), value.data_ptr(), value.nbytes))
        return tensors, alive


def _incomparable(lowered: Lowered) -> str | None:
    """Why backends needn't return what is computed here; None: they should."""
    if lowered.was_training:
        return "its module is in training mode here"
    for node in lowered.module.graph.nodes:
        if node.op == "call_function" and _draws(node):
            return f"'{node.target}' draws random numbers"
    return None


def _draws(node: fx.Node) -> bool:
    """Whether an operator draws random numbers. Attention, an LSTM or dropout may, but for rates of 0
    and outside of training."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    given = dict(zip((argument.name for argument in node.target._schema.arguments), node.args))
    given = {argument.name: argument.default_value for argument in node.target._schema.arguments
             } | given | node.kwargs
    rates = [given[name] for name in ("dropout_p", "dropout", "train", "training") if name in given]
    return all(rates)


def _fixed(example: Any) -> tuple[tuple[int, ...] | None, int]:
    """Dims and bytes of an input that lies row by row in this machine's memory whenever the graph is
    called, because Dynamo checks that; None: it is to be looked at in each call."""
    if not isinstance(example, torch.Tensor) or example.device.type != "cpu" or \
            example.is_conj() or example.is_neg() or not all(
                isinstance(n, int) for n in (*example.shape, *example.stride())) or \
            not example.is_contiguous():
        return None, 0
    return tuple(example.shape), example.nbytes


def _tensor(name: str, dtype: int, dims: tuple[int, ...], data: bytes) -> torch.Tensor:
    """An output of a backend as a tensor of its own."""
    if dtype not in _dtypes.FROM_ONNX:
        raise OctomlProfileError(f"output '{name}' has a type that PyTorch hasn't")
    kind = _dtypes.FROM_ONNX[dtype]
    if not data:
        return torch.empty(dims, dtype=kind)
    return torch.frombuffer(bytearray(data), dtype=kind).reshape(dims)
