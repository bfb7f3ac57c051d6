"""Inside `remote_profile` and `remote_inference`: what happens to calls of accelerated functions.

A context belongs to the thread that entered it. Each call of an accelerated function is a region of
the extension's session; the graphs that Dynamo captures in it are loaded and run there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import torch._dynamo
import torch._dynamo.callback
from torch import fx
from torch._dynamo.utils import counters, get_compilation_metrics
from torch.fx import _symbolic_trace

from prony import _native
from prony._accelerate import block
from prony._backend import takes_onnx
from prony._capture import Captured
from prony._dump import Source
from prony._forms import Exported, identity
from prony._onnx import explanation, first_line
from prony.errors import CompilationError, LoadModelError, OctomlProfileError

if TYPE_CHECKING:
    from prony._session import RemoteInferenceSession


def current() -> Context | None:
    """The context of this thread."""
    return block.context


def _forget_in_child() -> None:
    block.context = None  # other threads, and what they had, are the parent's alone
    _settings.entered = 0


os.register_at_fork(after_in_child=_forget_in_child)


def _compiling(_: object) -> None:
    """Dynamo looks at a frame of this thread, whether or not a graph comes of it."""
    context = current()
    if context is not None and context.function:
        context.compiling()


def _compiled(_: object) -> None:
    context = current()
    if context is not None:
        context.progress.clear()


def _breaks() -> Counter[str]:
    """Why graphs ended, or weren't, since the process began: PyTorch's words, and how often."""
    return Counter(counters["unimplemented"]) + Counter(counters["graph_break"])


_CONVERTING = "torch._dynamo.convert_frame"
_LOGGERS = ("torch._dynamo", "torch._subclasses", "torch._functorch", "torch.fx")


def _loggers() -> list[logging.Logger]:
    """Those of PyTorch that speak of capturing."""
    return [logger for name, logger in list(logging.root.manager.loggerDict.items())
            if isinstance(logger, logging.Logger) and name.startswith(_LOGGERS)]


def _hear(record: logging.LogRecord) -> bool:
    """A filter for loggers of PyTorch. What it logs when it can't capture a frame, and lets Python
    run that, is for the report; where graphs break, and why, the report and its files say anyway."""
    context = current()
    if context is None or not context.goes_on or record.levelno < logging.WARNING:
        return True
    if not record.exc_info:
        return record.levelno > logging.WARNING
    if record.name == _CONVERTING and record.exc_info[1] is not None:
        context.not_captured(record.getMessage(), record.exc_info[1])
    return False


def _ignore_warnings() -> Callable[[], None]:
    """Warnings of Dynamo's own code aren't printed; gives what ends that."""
    module: Any = warnings  # whose types don't tell that the filters are a list
    before = list(module.filters)
    warnings.filterwarnings("ignore", module=r"torch\._dynamo\.")
    added = [entry for entry in module.filters if entry not in before]

    def end() -> None:
        for entry in added:
            if entry in module.filters:
                module.filters.remove(entry)
                module._filters_mutated()

    return end


def _know_own_traces() -> Callable[[], None]:
    """A function compiled by Dynamo refuses to be called while FX traces something: in any thread, and
    so while another one exports a graph. Compiled inside of a block it doesn't; gives what ends that."""
    module: Any = _symbolic_trace
    name = "is_fx_symbolic_tracing" if hasattr(module, "is_fx_symbolic_tracing") else "is_fx_tracing"
    original = getattr(module, name)
    setattr(module, name, lambda: block.context is None and original())
    return lambda: setattr(module, name, original)


def _last_compilation() -> Any:
    """What Dynamo notes about each time that it compiles something: the last one."""
    known = get_compilation_metrics()
    return known[-1] if known else None


def _recompilation_since(last: Any) -> str | None:
    """Why Dynamo compiled something a second time since then; None: it didn't."""
    for metrics in reversed(get_compilation_metrics()):
        if metrics is last:
            break
        if metrics.recompile_reason:
            # "0/1: n == 2.5  # the line of the program  # where it is"
            first, *rest = metrics.recompile_reason.splitlines()[0].split("  # ")
            words = re.sub(r"^\d+/\d+: ", "", first.strip())[:300]
            return f"{words} (in '{rest[0].strip()[:200]}')" if rest else words
    return None


class _Settings:
    """What of PyTorch is another inside of contexts: for the process, from the first to the last."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.entered = 0
        self._undo = contextlib.ExitStack()

    def enter(self) -> None:
        with self.lock:
            if self.entered == 0:
                with contextlib.ExitStack() as undo:
                    self._change(undo)
                    self._undo = undo.pop_all()
            self.entered += 1

    def _change(self, undo: contextlib.ExitStack) -> None:
        undo.callback(self._undo.close)  # of the parent's block, in a child that was forked inside it
        torch._dynamo.reset()
        undo.callback(torch._dynamo.reset)
        torch._dynamo.callback.on_compile_start(_compiling)  # until the next reset
        torch._dynamo.callback.on_compile_end(_compiled)
        for logger in _loggers():
            logger.addFilter(_hear)
            undo.callback(logger.removeFilter, _hear)
        undo.callback(_ignore_warnings())
        undo.callback(_know_own_traces())
        if torch.backends.mha.get_fastpath_enabled():
            # It is one operator that no other runtime knows.
            torch.backends.mha.set_fastpath_enabled(False)
            undo.callback(torch.backends.mha.set_fastpath_enabled, True)

    def leave(self) -> None:
        with self.lock:
            self.entered -= 1
            if self.entered == 0:
                self._undo.close()


_settings = _Settings()


class _NoSession:
    """What a context has of its session when it has been left: whoever still holds the context
    doesn't hold the hardware."""

    handle = None
    closed = True
    backends: list[Any] = []

    @property
    def native(self) -> _native.Session:
        raise OctomlProfileError("the block has been left")


class Context:
    """One `with` block."""

    def __init__(self, session: RemoteInferenceSession, *, repeats: int, warmups: int,
                 strict: bool, strict_runs: bool = False, backend: str | None = None) -> None:
        self.session: Any = session  # or _NoSession
        self.strict = strict
        self.strict_runs = strict or strict_runs
        """Of graphs that were loaded, whose runs fail."""
        self.backend = backend
        """Set for inference: the backend whose results are returned."""
        self.checks_weights = backend is not None
        self.goes_on = backend is None and not strict
        """Whether Python runs what PyTorch can't capture."""
        self.overlap = not session.embedded
        self.progress = session.progress
        names = [str(spec) for spec in session.backends]
        self.wants_onnx = any(map(takes_onnx, names))
        self.wants_fx = not all(map(takes_onnx, names))
        self.active = False
        self.function = ""
        self.sources: dict[int, Source] = {}
        self.starts: dict[int, dict[str, int | None]] = {}
        """Of graphs: what their first calls took here, as the report's JSON has it."""
        self._began: int | None = None
        """Since when Dynamo captures something."""
        self.compilation_errors: list[str] = []
        self.runtime_errors: list[str] = []
        self.notes: list[str] = list(session.notes)
        self.before_closing: Callable[[], None] | None = None
        """What is to be done when somebody closes the session inside of the block."""
        self._repeats, self._warmups = repeats, warmups
        self._remote_graphs = 0
        self._compiled: dict[Any, Callable[..., Any]] = {}
        self._captured: list[Captured] = []
        self._before: tuple[int, Counter[str], Any] | None = None
        """Set while a call compiles: how many graphs, which breaks, and what as the last compilation
        there were before it."""
        self._recompiled: dict[str, tuple[int, str]] = {}
        """Calls of functions in which something was compiled again, and why in the last one."""
        self._open_sizes: set[str] = set()
        """Functions with `dynamic=True`."""
        self._why: dict[str, str] = {}
        """Of functions without a graph that computes something: what PyTorch said."""
        self._no_grad = torch.no_grad()
        self._dynamo_config = torch._dynamo.config.patch(  # of this thread
            allow_rnn=True,  # otherwise an LSTM would be local code
            specialize_float=True,  # otherwise floats become inputs, and are read from them
            suppress_errors=self.goes_on,
            recompile_limit=1000, accumulated_recompile_limit=10000)
        # One object for all functions: Dynamo's cache asks whether it is the same.
        self._dynamo_backend = self._capture

    # ---- Entering and leaving ----

    def enter(self) -> None:
        if self.session.user is not None:
            raise OctomlProfileError(
                "the session is in use by another remote_profile or remote_inference")
        try:
            self.session.native.restart(self._repeats, self._warmups, self.strict_runs)
        except (_native.Error, OverflowError) as fault:
            raise OctomlProfileError(str(fault)) from fault
        with contextlib.ExitStack() as undo:  # of a block that can't be entered, or is left
            self.session.user = self
            undo.callback(self._let_go)
            _settings.enter()
            undo.callback(_settings.leave)
            undo.enter_context(self._dynamo_config)
            undo.enter_context(self._no_grad)
            block.context = self
            self.active = True
            self._undo = undo.pop_all()

    def leave(self) -> None:
        self.active = False
        for captured in self._captured:
            captured.forget()
        self._captured.clear()
        block.context = None
        self._compiled.clear()
        self._undo.close()

    def _let_go(self) -> None:
        self.session.user = None
        self.session = _NoSession()
        self.before_closing = None

    # ---- Calls ----

    def call(self, function: Callable[..., Any], name: str, dynamic: bool | None,
             arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Runs an accelerated function."""
        compiled = self._compiled.get((function, dynamic))
        if compiled is None:
            compiled = self._compiled[function, dynamic] = torch.compile(
                function, backend=self._dynamo_backend, dynamic=dynamic)
            if dynamic:
                self._open_sizes.add(name)
        if self.function:
            return compiled(*arguments, **named)  # called by an accelerated one, and part of it
        native = self.session.handle
        if native is None:
            if self.backend is not None:
                raise OctomlProfileError(f"'{name}' can't run on '{self.backend}': the session is "
                                         "closed")
            return compiled(*arguments, **named)
        self.function = name
        before, waited_ns = self._remote_graphs, native.waited_ns
        try:
            result, missing = native.region(name, compiled, arguments, named)
        except torch._dynamo.exc.TorchDynamoException as fault:
            if not self.strict:
                raise
            raise CompilationError(f"'{name}' can't be captured: {first_line(fault)}") from fault
        finally:
            self.function = ""
            self.progress.clear()
        if missing is not None:
            self._say(self.runtime_errors, missing)
        if self._before is not None:
            ran = self._remote_graphs != before or native.waited_ns != waited_ns
            self._explain(name, ran, *self._before)
        if self.backend is not None and self._remote_graphs == before:
            why = f": {self._why[name]}" if name in self._why else ""
            raise CompilationError(f"nothing of '{name}' ran on '{self.backend}', because PyTorch "
                                   f"captured no graph in it that computes anything{why}")
        return result

    def compiling(self) -> None:
        """Something of the call that is under way is compiled."""
        self.progress({"kind": "compiling", "function": self.function})
        self._began = time.monotonic_ns()
        if self._before is None:
            self._before = len(self._captured), _breaks(), _last_compilation()
        with contextlib.suppress(OctomlProfileError, _native.Error):
            self.session.native.region_compiled()

    def _explain(self, name: str, ran: bool, graphs: int, known: Counter[str], last: Any) -> None:
        """Keeps why a call compiled again, and why it has no graph, if it hasn't. `ran`: one did run,
        which an earlier call may have compiled."""
        self._before = None
        reason = _recompilation_since(last)
        if reason is not None:
            self._recompiled[name] = self._recompiled.get(name, (0, ""))[0] + 1, reason
        if ran or not all(captured.trivial for captured in self._captured[graphs:]):
            return
        for text in _breaks() - known:
            self._why[name] = explanation(text)
            self._say(self.notes, f"A call of '{name}' has no graph that a backend could run, because "
                                  f"of this: {self._why[name]}")
            return

    def recompilations(self) -> list[str]:
        """Of functions that are compiled again and again: why."""
        return [f"'{name}' was compiled again in {times} of its calls, and such calls are discarded or "
                f"have no total. What changed, in PyTorch's words: {reason}."
                + (" accelerate(dynamic=True) makes one graph for many sizes."
                   if "size mismatch" in reason and name not in self._open_sizes else "")
                for name, (times, reason) in self._recompiled.items() if times > 1]

    def not_captured(self, message: str, fault: BaseException) -> None:
        """Dynamo gave a frame up; its message begins with which one."""
        place = re.match(r"WON'T CONVERT (\S+) (.+) line (\d+)", message)
        what = f"'{place[1]}', {os.path.basename(place[2])}:{place[3]}," if place else "something"
        self._say(self.compilation_errors,
                  f"{what} in '{self.function}' isn't a graph but local code, because PyTorch can't "
                  f"capture it: {first_line(fault)}")

    def count_remote(self) -> None:
        """A graph's result came from the backend."""
        self._remote_graphs += 1

    # ---- Graphs ----

    def _capture(self, module: fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        """Dynamo's backend. It never raises: what can't be done is said when the graph is called."""
        begin = time.monotonic_ns()
        if not self.session.closed:
            self.session.native.region_compiled()
        captured = Captured(self, module, examples)
        captured.capture_ns = begin - self._began if self._began else None
        self._began = time.monotonic_ns()  # what Dynamo goes on with
        self._captured.append(captured)
        return captured.stand_in.call

    def load(self, captured: Captured, weights: list[torch.Tensor]) -> _native.Graph | None:
        """A graph of the session. None: the session is gone."""
        if self.session.closed:
            return None
        native: _native.Session = self.session.native
        graph: _native.Graph | None
        name = f"{self.function or 'graph'} {captured.source.place}"
        failure = captured.failure
        if failure is not None and self.strict:
            raise CompilationError(f"a graph of '{self.function}' can't be sent: {failure}")
        try:
            if captured.exported is None or failure is not None:
                graph = native.local_graph(name, failure or "")
            else:
                graph = self._load_forms(name, captured.exported, weights)
        except _native.Error as fault:
            if self.strict:
                raise LoadModelError(f"a graph of '{self.function}' can't be loaded: "
                                     f"{fault}") from fault
            graph = self._load_failed(name, str(fault))
            if graph is None:
                self._say(self.runtime_errors, str(fault))
                return None
        self.sources[graph.id] = captured.source
        self.starts[graph.id] = captured.start()
        self._describe(graph, captured)
        return graph

    def _load_forms(self, name: str, exported: Exported,
                    weights: list[torch.Tensor]) -> _native.Graph:
        """Within a block every captured graph has an id of its own; what an earlier block of the
        session loaded is used again."""
        forms, _alive = exported.forms(weights, self.wants_onnx, self.wants_fx)
        known: list[_native.Graph] = self.session.loaded.setdefault(identity(forms), [])
        for graph in known:
            if graph.id not in self.sources:
                return graph
        try:
            self.tell("loading", name)
            native: _native.Session = self.session.native
            graph = native.load(name, forms, tuple(
                exported.refusal(spec.software_backend) for spec in self.session.backends))
        finally:
            self.progress.clear()
        known.append(graph)
        return graph

    def tell(self, kind: str, graph: str) -> None:
        """Shows what happens to a graph."""
        self.progress({"kind": kind, "graph": graph,
                       "backends": [str(spec) for spec in self.session.backends]})

    def _load_failed(self, name: str, reason: str) -> _native.Graph | None:
        try:
            native: _native.Session = self.session.native
            return native.local_graph(name, reason)
        except _native.Error:
            return None

    def _describe(self, graph: Any, captured: Captured) -> None:
        """Keeps what the report has to say about a graph that was loaded."""
        failures = [f"Graph #{graph.id} on {spec}: {failure}"
                    for spec, failure in zip(self.session.backends, graph.failures) if failure]
        if graph.local_reason is not None:
            failures = [f"Graph #{graph.id} ran locally because {graph.local_reason}"]
        if failures and self.strict:
            raise LoadModelError("; ".join(failures))
        for failure in failures:
            self._say(self.compilation_errors, failure)
        if captured.exported is None:
            return
        for spec in self.session.backends:
            reservation = captured.exported.reservation(spec.software_backend)
            if reservation is not None and graph.local_reason is None:
                self._say(self.notes, f"Graph #{graph.id} on {spec}: {reservation}.")
        if captured.exported.lowered.was_training:
            captured.source.notes.append("its module is in training mode; measured in eval mode")
            self._say(self.notes, f"Graph #{graph.id} is of a module in training mode; it was "
                                  "measured in eval mode, and its outputs weren't compared.")
        elif captured.incomparable is not None and graph.local_reason is None:
            self._say(self.notes, f"The outputs of Graph #{graph.id} weren't compared: "
                                  f"{captured.incomparable}.")
        model = captured.exported.onnx
        if model is not None and model.fallback_reason is not None:
            captured.source.notes.append(
                f"exported to ONNX by way of TorchScript because {model.fallback_reason}")
            self._say(self.notes, f"Graph #{graph.id} was exported to ONNX by way of TorchScript "
                                  f"because of this: {model.fallback_reason}")

    def run_failed(self, graph: Any, fault: Exception) -> None:
        """No backend ran a graph. The extension has recorded that."""
        if self.strict_runs:
            raise OctomlProfileError(f"Graph #{graph.id} failed: {fault}") from fault
        for spec in self.session.backends:  # in the words in which the profile has it
            _, found, words = str(fault).partition(f": {spec}: ")
            if found:
                self._say(self.runtime_errors, f"Graph #{graph.id} on {spec}: {words}")
                return
        self._say(self.runtime_errors, f"Graph #{graph.id}: {fault}")

    @staticmethod
    def _say(where: list[str], text: str) -> None:
        if text not in where and len(where) < 1000:
            where.append(text)
