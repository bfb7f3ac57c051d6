"""`remote_profile` and `remote_inference`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from prony import _native
from prony._accelerate import block
from prony._backend import Backends, BackendSpec, parse_backends
from prony._session import RemoteInferenceSession, get_supported_backends, open_session
from prony.errors import MisuseError, OctomlProfileError
from prony.report import Report

if TYPE_CHECKING:
    from prony._context import Context

_STDOUT: Any = object()  # sys.stdout of the moment at which it is printed


class ProfileHandle:
    """What `with remote_profile() as handle` gives."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._final: Report | None = None
        context.before_closing = self._close

    def report(self) -> Report:
        """What has been recorded: so far, or, after the block, in all."""
        return self._final or self._make()

    def _make(self) -> Report:
        context = self._context
        try:
            data = json.loads(context.session.native.profile().json())
        except _native.Error as fault:
            raise OctomlProfileError(f"there is no report: {fault}") from fault
        data["notes"] += context.notes + context.recompilations()
        for graph in data.get("graphs", ()):
            if graph.get("start"):
                graph["start"].update(context.starts.get(graph["id"], {}))
        if "profiles" in data:
            data["language"] = "python"
        return Report(data, context.sources, context.compilation_errors, context.runtime_errors)

    def _finish(self) -> None:
        if not self._context.session.closed:
            self._final = self._make()

    def _close(self) -> None:
        """What was recorded goes with the session, so it is kept now."""
        with contextlib.suppress(OctomlProfileError):
            self._context.runtime_errors.append(
                "the session was closed inside of the block; later calls are missing")
            self._final = self._make()


def _refuse_nesting() -> None:
    """For who is about to enter a block."""
    if block.context is not None:
        raise OctomlProfileError(
            "remote_profile and remote_inference don't nest: leave the outer one first")


class _Block:
    """A `with` block with a session of its own, or with one that it is given."""

    def __init__(self, session: RemoteInferenceSession | None, own: dict[str, Any],
                 options: dict[str, Any]) -> None:
        given = [name for name, value in own.items() if value is not None]
        if session is not None and given:
            raise ValueError(f"a session was given, so {', '.join(given)} can't be")
        if session is not None and not isinstance(session, RemoteInferenceSession):
            raise TypeError(f"{session!r} is not a session; write backends={session!r}?")
        self._session, self._own, self._options = session, own, options

    def _enter(self) -> Context:
        _refuse_nesting()  # an inner session would wait for the outer one, for ever
        session = self._session or self._found()
        self._stack = contextlib.ExitStack()
        if session is None:
            session = RemoteInferenceSession(**self._own)
            self._stack.callback(session.close)
        try:
            from prony._context import Context  # with Dynamo, while the session's backends start

            context = Context(session, **self._options_for(session))
            context.enter()
        except BaseException:
            self._stack.close()
            raise
        self._stack.callback(context.leave)
        return context

    def _found(self) -> RemoteInferenceSession | None:
        """A session that the program has opened and didn't pass, if nothing else is asked for."""
        session = open_session() if all(value is None for value in self._own.values()) else None
        if session is not None:
            print("prony: no session was given, using the one that is open: "
                  f"{', '.join(map(str, session.backends))}", file=sys.stderr)
        return session

    def _options_for(self, session: RemoteInferenceSession) -> dict[str, Any]:
        return self._options


class _Profiling(_Block):
    def __init__(self, session: RemoteInferenceSession | None, own: dict[str, Any],
                 options: dict[str, Any], file: Any, folder: str | None) -> None:
        super().__init__(session, own, options)
        if file is not None and file is not _STDOUT and not hasattr(file, "write"):
            raise TypeError(f"print_results_to: {file!r} is not a file that is open for writing")
        self._file, self._folder = file, folder

    def __enter__(self) -> ProfileHandle:
        if self._folder is not None:
            os.makedirs(self._folder, exist_ok=True)  # what can't be is said before it takes time
        self._handle = ProfileHandle(self._enter())
        return self._handle

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None,
                 trace: TracebackType | None) -> None:
        with self._stack:
            try:
                self._handle._finish()
            except OctomlProfileError:
                if fault is None:
                    raise
            report = self._handle._final
            if report is not None and (fault is None or report.profiles):
                self._print(report)

    def _print(self, report: Report) -> None:
        file = sys.stdout if self._file is _STDOUT else self._file
        if file is None and self._folder is None:
            return
        if self._folder is not None:
            text = report.write_details(self._folder)
        else:
            text = report.text() + ("With report_folder, segments and graphs are written to files.\n"
                                    if report.profiles else "")
        if file is not None:
            print(text, end="", file=file)


def _check_count(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int):
        raise TypeError(f"{name}: {value!r} is not a whole number")
    if value < least:
        raise ValueError(f"{name}: {value} is less than {least}")


def remote_profile(session: RemoteInferenceSession | None = None, *, backends: Backends = None,
                   server_addr: str | None = None, insecure: bool | None = None,
                   access_token: str | None = None, num_repeats: int = 10, num_warmups: int = 1,
                   print_results_to: TextIO | None = _STDOUT, strict: bool | None = None,
                   report_folder: str | None = None,
                   hardware_file: str | os.PathLike[str] | None = None,
                   substitute: str | None = None,
                   ca_file: str | os.PathLike[str] | None = None
                   ) -> contextlib.AbstractContextManager[ProfileHandle]:
    """A `with` block in which calls of accelerated functions are profiled on all backends.

    Functions return what they return without it, computed here; at the end the report is printed to
    `print_results_to` (standard output; None: not at all), and details are written to files in
    `report_folder`, if one is named. `strict`, or `PRONY_STRICT=1` in the environment,
    raises when a graph can't be compiled, loaded or run on any of the backends. `substitute` and
    `ca_file` are as for RemoteInferenceSession.
    """
    _check_count("num_repeats", num_repeats, 1)
    _check_count("num_warmups", num_warmups, 0)
    own = {"backends": backends, "server_addr": server_addr, "insecure": insecure,
           "access_token": access_token, "hardware_file": hardware_file, "substitute": substitute,
           "ca_file": ca_file}
    if strict is None:
        strict = os.environ.get("PRONY_STRICT", "") not in ("", "0")
    old = sys.modules.get("octoml_profile.dynamo")  # whose switches a program may have set
    return _Profiling(session, own,
                      {"repeats": num_repeats, "warmups": num_warmups,
                       "strict": strict or bool(getattr(old, "RAISE_ON_COMPILATION_ERROR", False)),
                       "strict_runs": bool(getattr(old, "RAISE_ON_RUNTIME_ERROR", False))},
                      print_results_to, report_folder)


class _Inference(_Block):
    def __enter__(self) -> None:
        self._enter()

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _options_for(self, session: RemoteInferenceSession) -> dict[str, Any]:
        _one(session.backends, session.backends)
        return {**self._options, "backend": str(session.backends[0])}


def _one(specs: list[BackendSpec], choices: list[BackendSpec]) -> None:
    if len(specs) != 1:
        raise MisuseError(f"remote_inference runs on one backend, not on {len(specs) or 'none'}; "
                          f"choose one of: {', '.join(map(str, choices))}")


def remote_inference(session: RemoteInferenceSession | None = None, *,
                     backend: Backends = None, server_addr: str | None = None,
                     insecure: bool | None = None, access_token: str | None = None,
                     substitute: str | None = None,
                     ca_file: str | os.PathLike[str] | None = None
                     ) -> contextlib.AbstractContextManager[None]:
    """A `with` block in which the graphs of accelerated functions run on one backend, and what it
    returned is what the functions go on with. A graph that can't run there raises."""
    if session is None:
        specs = parse_backends(backend)
        if len(specs) != 1:
            _one(specs, specs or get_supported_backends(server_addr, insecure, access_token,
                                                       ca_file))
    own = {"backends": backend, "server_addr": server_addr, "insecure": insecure,
           "access_token": access_token, "substitute": substitute, "ca_file": ca_file}
    return _Inference(session, own, {"repeats": 1, "warmups": 0, "strict": False})
