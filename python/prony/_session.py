"""Sessions: backends of a service, held for as long as they are open."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from prony import _access, _native
from prony._backend import Backends, BackendSpec, parse_backends
from prony._progress import Progress
from prony._runner import FileDescription, ModelRunner, Models
from prony.errors import CreateSessionError, MisuseError, OctomlProfileError

if sys.version_info >= (3, 11):
    from typing import Self
elif TYPE_CHECKING:
    from typing_extensions import Self
if TYPE_CHECKING:
    from prony._context import Context

_open: weakref.WeakSet[RemoteInferenceSession] = weakref.WeakSet()
_inherited: list[Any] = []
_RUNTIMES_S = 60.0
_SUBSTITUTE = "PRONY_SUBSTITUTE"
_HERE = "local"


class InferenceSession:
    """What accelerated functions run on inside `remote_profile` and `remote_inference`."""

    @property
    def backends(self) -> list[BackendSpec]:
        """The backends, in the order asked for."""
        raise NotImplementedError

    def close(self) -> None:
        """Gives the hardware back; a second time does nothing."""

    def load_model(self, model_id: int, backend_ids: Sequence[int], model_format: int,
                   model_files: Sequence[FileDescription], input_names: Sequence[str],
                   output_names: Sequence[str]) -> None:
        """Loads a model on those backends, which take its format; the first file is the model. Raises
        LoadModelError when none can load it."""
        raise NotImplementedError

    def create_runner(self, model_id: int,
                      input_map_per_backend: Sequence[Sequence[int]]) -> ModelRunner:
        """What runs that model: for each backend, which inputs of a run it gets, in the model's order."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RemoteInferenceSession(InferenceSession):
    """A session on a service: the one at `server_addr`, `PRONY_ENDPOINT` or
    `OCTOML_PROFILE_ENDPOINT`, or else one that is started on this machine.

    `backends` is one backend or a list of them, such as "local/onnxrt-cpu"; without any, all that
    the service offers are used. Waits while others hold the hardware. `hardware_file` has prices of
    your own, as `prony profile --hardware-file` takes it. With `substitute="local"`, or
    `PRONY_SUBSTITUTE=local` in the environment, software on hardware that the service hasn't runs on
    its own machine instead, and is called so. `ca_file`, or `PRONY_CA` in the environment, is a PEM file
    of the authority that signed the service's certificate; the system's authorities are the default.
    """

    def __init__(self, backends: Backends = None, server_addr: str | None = None,
                 insecure: bool | None = None, access_token: str | None = None,
                 hardware_file: str | os.PathLike[str] | None = None,
                 substitute: str | None = None,
                 ca_file: str | os.PathLike[str] | None = None) -> None:
        self.handle: _native.Session | None = None
        """The extension's session; None: closed."""
        self.notes: list[str] = []
        """For reports: what was substituted, and what was left out."""
        self._models = Models()
        specs = parse_backends(backends)
        place = _check_substitute(substitute)
        instead_of: list[str] | None = None
        self.progress = Progress()
        try:
            self._access = _access.resolve(server_addr, bool(insecure), access_token, ca_file)
            supported, presets = _list(self._access)
            if place is not None:
                specs, instead_of, missing = _substitute(specs, supported)
                machine = "this machine" if self.embedded else "the service's own machine"
                self.notes = [f"'{place} instead of {hardware}' is {machine}, not {hardware}: it has no "
                              "cost." for hardware in dict.fromkeys(filter(None, instead_of))]
                self.notes += [f"'{name}' was left out: nothing here can take its place."
                               for name in missing]
                for note in self.notes:
                    print(f"prony: {note}", file=sys.stderr)
            _check(specs, supported)
            self._refuse_own_wait()
            if not specs:
                specs = _preset(presets, supported)
                print("prony: no backends were given, using: " + ", ".join(map(str, specs)),
                      file=sys.stderr)
            self.handle = _native.Session(
                [str(spec) for spec in specs], notice=self.progress,
                hardware_file=os.fspath(hardware_file) if hardware_file is not None else None,
                instead_of=instead_of if instead_of and any(instead_of) else None,
                **self._access.arguments())
        except _native.Error as fault:
            raise CreateSessionError(str(fault)) from fault
        finally:
            self.progress.clear()
        self._thread = threading.get_ident()
        self._backends = [BackendSpec.parse(name) for name in self.handle.backends]
        self.user: Context | None = None
        """The block that it is in."""
        self.loaded: dict[bytes, list[_native.Graph]] = {}
        """Graphs by what they are, so that a later block needn't load them again."""
        _open.add(self)

    @property
    def backends(self) -> list[BackendSpec]:
        return list(self._backends)

    @property
    def native(self) -> _native.Session:
        """The extension's session."""
        if self.handle is None:
            raise MisuseError("the session is closed")
        return self.handle

    @property
    def closed(self) -> bool:
        return self.handle is None

    @property
    def embedded(self) -> bool:
        """Whether its service was started by this process, on this machine."""
        return self._access.embedded

    def _refuse_own_wait(self) -> None:
        """This machine is one host: a session that this thread has open is one that it would wait for,
        and nobody else knows to close."""
        mine = [other for other in _open if self.embedded and other.embedded and
                other._thread == threading.get_ident()]
        if mine:
            raise CreateSessionError(
                f"this program has a session with {', '.join(map(str, mine[0].backends))} open, and "
                "this machine serves one at a time: close() that one first, or use it again")

    def load_model(self, model_id: int, backend_ids: Sequence[int], model_format: int,
                   model_files: Sequence[FileDescription], input_names: Sequence[str],
                   output_names: Sequence[str]) -> None:
        self._models.load(self, model_id, backend_ids, model_format, model_files, input_names,
                          output_names)

    def create_runner(self, model_id: int,
                      input_map_per_backend: Sequence[Sequence[int]]) -> ModelRunner:
        return self._models.runner(self, model_id, input_map_per_backend)

    def print_supported_backends(self, file: TextIO | None = None) -> None:
        """Lists what the service offers."""
        for spec in _listed(self._access)[0]:
            print(spec, file=file or sys.stdout)

    def close(self) -> None:
        user = self.user
        if not self.closed and user is not None and user.before_closing is not None:
            user.before_closing()
        native, self.handle = self.handle, None
        _open.discard(self)
        if native is not None:
            native.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else ", ".join(map(str, self._backends))
        return f"<RemoteInferenceSession: {state}>"


def open_session() -> RemoteInferenceSession | None:
    """The one session that this thread has open and that no block uses; None: there is none, or there
    are several."""
    mine = [session for session in _open
            if session._thread == threading.get_ident() and session.user is None]
    return mine[0] if len(mine) == 1 else None


def _list(access: _access.Access) -> tuple[list[BackendSpec], dict[str, list[str]]]:
    until = time.monotonic() + _RUNTIMES_S
    offered, presets = _native.list_backends(**access.arguments())
    while access.embedded and not offered and time.monotonic() < until:
        time.sleep(0.1)  # under load it serves before its worker has looked for runtimes
        offered, presets = _native.list_backends(**access.arguments())
    return [BackendSpec.parse(row["name"]) for row in offered], presets


def _check(specs: list[BackendSpec], supported: list[BackendSpec]) -> None:
    valid = [spec.plain for spec in supported]
    wrong = [str(spec) for spec in specs if spec.plain not in valid]
    if wrong:
        can = any(_here(spec).plain in valid for spec in specs if spec.plain not in valid)
        raise ValueError(f"the service has no {', '.join(map(repr, wrong))}; it has: "
                         f"{', '.join(valid) or 'nothing'}" + can *
                         f". To run the same software here instead, set {_SUBSTITUTE}={_HERE}, or pass "
                         f"substitute='{_HERE}'")


def _here(spec: BackendSpec) -> BackendSpec:
    """The same software on the service's own machine."""
    return BackendSpec(_HERE, spec.software_backend, spec.backend_options)


def _check_substitute(given: str | None) -> str | None:
    place = os.environ.get(_SUBSTITUTE) or None if given is None else given
    if place not in (None, _HERE):
        name = _SUBSTITUTE if given is None else "substitute"
        raise ValueError(f"{name}: there is no '{place}' to run on instead; there is '{_HERE}'")
    return place


def _substitute(specs: list[BackendSpec],
                supported: list[BackendSpec]) -> tuple[list[BackendSpec], list[str], list[str]]:
    """What runs, the hardware whose place each takes ("" for none), and what can't run."""
    valid = {spec.plain for spec in supported}
    chosen: list[BackendSpec] = []
    places: list[str] = []
    missing: list[str] = []
    for spec in specs:
        if spec.plain in valid:
            chosen.append(spec)
            places.append("")
        elif _here(spec).plain in valid:
            chosen.append(_here(spec))
            places.append(spec.hardware_platform)
        else:
            missing.append(str(spec))
    if specs and not chosen:
        raise ValueError(f"nothing here can take the place of {', '.join(map(repr, missing))}; here "
                         f"are: {', '.join(sorted(valid)) or 'no backends'}")
    return chosen, places, missing


def _preset(presets: dict[str, list[str]], supported: list[BackendSpec]) -> list[BackendSpec]:
    """What is used when nothing is asked for."""
    for name in ("all", "default"):
        if presets.get(name):
            return [BackendSpec.parse(text) for text in presets[name]]
    return supported


def _listed(access: _access.Access | None = None,
            **arguments: Any) -> tuple[list[BackendSpec], dict[str, list[str]]]:
    try:
        return _list(access or _access.resolve(**arguments))
    except _native.Error as fault:
        raise OctomlProfileError(str(fault)) from fault


def get_supported_backends(server_addr: str | None = None, insecure: bool | None = None,
                           access_token: str | None = None,
                           ca_file: str | os.PathLike[str] | None = None) -> list[BackendSpec]:
    """All that a service offers. Needs no session, so it never waits for hardware."""
    return _listed(server_addr=server_addr, insecure=bool(insecure), access_token=access_token,
                   ca_file=ca_file)[0]


def get_default_backends(server_addr: str | None = None, insecure: bool | None = None,
                         access_token: str | None = None,
                         ca_file: str | os.PathLike[str] | None = None) -> list[BackendSpec]:
    """What a session takes when it is given no backends."""
    supported, presets = _listed(server_addr=server_addr, insecure=bool(insecure),
                                 access_token=access_token, ca_file=ca_file)
    return _preset(presets, supported)


@atexit.register
def _close_all() -> None:
    for session in list(_open):
        session.close()


def _forget_in_child() -> None:
    """A forked child has the parent's sessions, but they aren't its own to use or to close."""
    for session in list(_open):
        _inherited.append(session.handle)
        session.handle = None
    _open.clear()


os.register_at_fork(after_in_child=_forget_in_child)
