"""The layer below graphs, for programs that load models and run them by themselves: files, the times
and outputs of a run on every backend.

    session.load_model(1, [0, 1], MODEL_FORMAT_ONNX, [OnDiskFile(folder, "model.onnx")], ["x"], ["y"])
    runner = session.create_runner(1, [[0], [0]])
    results = runner.submit_run([x], num_repeats=10, mode=RunMode.INFERENCE)()
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import hashlib
import os
import pathlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prony import _native
from prony._backend import BackendSpec
from prony.errors import LoadModelError, OctomlProfileError

if TYPE_CHECKING:
    import numpy as np

    from prony._session import RemoteInferenceSession

BytesLike = bytes | bytearray | memoryview

_CHUNK_BYTES = 1 << 20


class RunMode(enum.IntEnum):
    """Whether a run gives times alone, or outputs too."""

    PROFILING = 1
    INFERENCE = 2


# ---- Files ----

class FileDescription:
    """A file of a model: its name as the model knows it, and its bytes."""

    def name(self) -> str:
        raise NotImplementedError

    def open(self, chunk_size: int) -> contextlib.AbstractContextManager[tuple[int, Iterator[bytes]]]:
        """Its size, and its bytes in pieces of at most `chunk_size`."""
        raise NotImplementedError

    def sha256(self) -> bytes:
        digest = hashlib.sha256()
        with self.open(_CHUNK_BYTES) as (_, chunks):
            for chunk in chunks:
                digest.update(chunk)
        return digest.digest()


class OnDiskFile(FileDescription):
    """A file in a folder, whose name below that folder is the one that the model knows."""

    def __init__(self, model_dir: str | os.PathLike[str], relative_filename: str) -> None:
        self._name = relative_filename
        self._path = pathlib.Path(model_dir, relative_filename)

    def name(self) -> str:
        return self._name

    @contextlib.contextmanager
    def open(self, chunk_size: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        with self._path.open("rb") as file:
            yield os.fstat(file.fileno()).st_size, iter(lambda: file.read(chunk_size), b"")


class LazyInMemoryFile(FileDescription):
    """Bytes that a function gives when they are needed: their number, and pieces of any size."""

    def __init__(self, filename: str,
                 contents_provider: Callable[[], tuple[int, Iterator[BytesLike]]]) -> None:
        self._name, self._provide = filename, contents_provider

    def name(self) -> str:
        return self._name

    @contextlib.contextmanager
    def open(self, chunk_size: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        size, pieces = self._provide()
        data = b"".join(pieces)
        yield size, iter([data[i:i + chunk_size] for i in range(0, len(data), chunk_size)])


def _contents(file: FileDescription) -> bytes:
    with file.open(_CHUNK_BYTES) as (size, chunks):
        data = b"".join(chunks)
    if len(data) != size:
        raise LoadModelError(f"'{file.name()}' has {len(data)} bytes, not {size}")
    return data


# ---- Results ----

class ErrorValue(str):
    """Why a backend failed; octoml-profile's programs ask for its `message`."""

    @property
    def message(self) -> str:
        return str(self)


@dataclasses.dataclass
class ResultValue:
    """What a backend gave: outputs unless times alone were asked for, and one time for each repeat."""

    outputs: tuple[np.ndarray[Any, Any], ...]
    run_times_nanos: np.ndarray[Any, Any]


@dataclasses.dataclass
class RunResult:
    """One of the two is None."""

    result_value: ResultValue | None
    error_value: ErrorValue | None


class ModelRunner:
    """A model of a session, and which of a run's inputs each backend gets."""

    def submit_run(self, inputs: Any, *, num_repeats: int | None = None,
                   num_warmups: int | None = None,
                   mode: int | None = None) -> Callable[[], Mapping[BackendSpec, RunResult]]:
        """Starts a run; what it returns waits for the results."""
        raise NotImplementedError


# ---- Models ----

@dataclasses.dataclass(frozen=True)
class _Part:
    """A model as some backends have it: those that take its format."""

    graph: _native.Graph
    backend_ids: tuple[int, ...]
    input_names: tuple[str, ...]


class Models:
    """Those that a session has loaded, by the ids that the program gave them."""

    def __init__(self) -> None:
        self._parts: dict[int, list[_Part]] = {}

    def load(self, session: RemoteInferenceSession, model_id: int, backend_ids: Sequence[int],
             model_format: int, files: Sequence[FileDescription], input_names: Sequence[str],
             output_names: Sequence[str]) -> None:
        """On these backends of the session. A second time is for the others."""
        chosen = tuple(backend_ids)
        count = len(session.backends)
        wrong = [i for i in chosen if not 0 <= i < count]
        if wrong or not chosen:
            raise ValueError(f"backend_ids: {list(backend_ids)!r} are not numbers of the session's "
                             f"{count} backends, which count from 0")
        taken = {i for part in self._parts.get(model_id, ()) for i in part.backend_ids}
        if taken & set(chosen):
            raise ValueError(f"model {model_id} is loaded on backend {min(taken & set(chosen))} already")
        if not files:
            raise ValueError(f"model {model_id} has no files")
        contents = [(file.name(), _contents(file), file.sha256()) for file in files]
        inputs, outputs = tuple(input_names), tuple(output_names)
        if model_format == _native.FORMAT_FXPROTO and not inputs:
            inputs, outputs = _names_of_fx(contents[0][1])
        refusals = tuple(None if i in chosen else "it was not loaded there" for i in range(count))
        try:
            graph = session.native.load(
                f"model {model_id}", [(model_format, contents, inputs, outputs, None)], refusals)
        except _native.Error as fault:
            raise LoadModelError(f"model {model_id} can't be loaded: {fault}") from fault
        finally:
            session.progress.clear()
        if all(graph.failures[i] for i in chosen):
            raise LoadModelError(f"model {model_id} can't be loaded: {graph.failures[chosen[0]]}")
        self._parts.setdefault(model_id, []).append(_Part(graph, chosen, inputs))

    def runner(self, session: RemoteInferenceSession, model_id: int,
               input_map_per_backend: Sequence[Sequence[int]]) -> RemoteModelRunner:
        parts = self._parts.get(model_id)
        if parts is None:
            raise ValueError(f"model {model_id} is not loaded")
        maps = [tuple(indices) for indices in input_map_per_backend]
        if len(maps) != len(session.backends):
            raise ValueError(f"there are {len(maps)} input maps for {len(session.backends)} backends")
        for part in parts:
            for i in part.backend_ids:
                if len(maps[i]) != len(part.input_names):
                    raise ValueError(f"the input map of backend {i} has {len(maps[i])} inputs, and model "
                                     f"{model_id} {len(part.input_names)}")
        return RemoteModelRunner(session, parts, maps)


def _names_of_fx(data: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names for the inputs and outputs of an FXPROTO graph: placeholders behind its weights, and what
    it returns."""
    try:
        tree = _native.fx_unpack(data)
    except (ValueError, _native.Error) as fault:
        raise LoadModelError(f"the model is not FXPROTO: {fault}") from fault
    nodes = tree["nodes"]
    inputs = [node[1] for node in nodes if node[0] == "placeholder"][len(tree["fixed_inputs"]):]
    outputs = sum(_count(node[2]) for node in nodes if node[0] == "output")
    return tuple(inputs), tuple(f"output_{i}" for i in range(outputs))


def _count(value: Any) -> int:
    """Of tensors in what a graph returns."""
    if value[0] in ("list", "tuple"):
        return sum(map(_count, value[1]))
    return int(value[0] in ("node", "tensor"))


# ---- Runs ----

class _Submitted(threading.Thread):
    """A run that is under way."""

    def __init__(self, work: Callable[[], dict[BackendSpec, RunResult]]) -> None:
        super().__init__(name="prony-run", daemon=True)
        self._work = work
        self._results: dict[BackendSpec, RunResult] | None = None
        self._fault: BaseException | None = None

    def run(self) -> None:
        try:
            self._results = self._work()
        except BaseException as fault:
            self._fault = fault

    def results(self) -> Mapping[BackendSpec, RunResult]:
        self.join()
        if isinstance(self._fault, _native.Error):
            raise OctomlProfileError(str(self._fault)) from self._fault
        if self._fault is not None:
            raise self._fault
        assert self._results is not None
        return self._results


class RemoteModelRunner(ModelRunner):
    """Runs a model on all backends that have it."""

    def __init__(self, session: RemoteInferenceSession, parts: list[_Part],
                 maps: list[tuple[int, ...]]) -> None:
        self._backends, self._parts, self._maps = session.backends, parts, maps

    def submit_run(self, inputs: Any, *, num_repeats: int | None = None,
                   num_warmups: int | None = None,
                   mode: int | None = None) -> Callable[[], Mapping[BackendSpec, RunResult]]:
        import numpy as np

        arrays = [np.ascontiguousarray(value) if np.ndim(value) else np.asarray(value)
                  for value in inputs]
        wanted = max((index for part in self._parts for i in part.backend_ids
                      for index in self._maps[i]), default=-1)
        if wanted >= len(arrays):
            raise ValueError(f"there are {len(arrays)} inputs, and a backend gets number {wanted}")
        for array in arrays:
            _number_of(array.dtype)
        submitted = _Submitted(lambda: self._run(
            arrays, 1 if num_repeats is None else num_repeats, num_warmups or 0,
            mode == RunMode.INFERENCE))
        submitted.start()
        return submitted.results

    def _run(self, arrays: list[Any], repeats: int, warmups: int,
             outputs: bool) -> dict[BackendSpec, RunResult]:
        found: dict[int, RunResult] = {}
        for part in self._parts:
            # Backends that get the same inputs run in one call.
            for inputs in dict.fromkeys(self._maps[i] for i in part.backend_ids):
                tensors = [(name, _number_of(array.dtype), array.shape, array.ctypes.data, array.nbytes)
                           for name, array in zip(part.input_names, [arrays[i] for i in inputs])]
                measured = part.graph.measure(tensors, repeats, warmups, outputs)
                found.update((i, _result(*measured[i])) for i in part.backend_ids
                             if self._maps[i] == inputs)
        missing = RunResult(None, ErrorValue("the model was not loaded there"))
        return {backend: found.get(i, missing) for i, backend in enumerate(self._backends)}


def _result(times: list[int], outputs: list[_native.Output] | None,
            failure: str | None) -> RunResult:
    import numpy as np

    if failure is not None:
        return RunResult(None, ErrorValue(failure))
    arrays = tuple(np.frombuffer(data, _type_of(number)).reshape(dims)
                   for _, number, dims, data in outputs or ())
    return RunResult(ResultValue(arrays, np.array(times, dtype=np.int64)), None)


# Types of NumPy under ONNX's numbers.
_TYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
          9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64",
          15: "complex128"}
_NUMBERS = {name: number for number, name in _TYPES.items()}


def _number_of(dtype: Any) -> int:
    if str(dtype) not in _NUMBERS:
        raise TypeError(f"inputs of type {dtype} can't be sent")
    return _NUMBERS[str(dtype)]


def _type_of(number: int) -> str:
    if number not in _TYPES:
        raise OctomlProfileError(f"an output is of type {number}, which NumPy hasn't")
    return _TYPES[number]
