"""The service of a program that names none: `prony serve`, a child of this process.

There is one per process, started when it is first needed. It lives as long as the pipe that is its
standard input, and this process alone has the other end: however the process ends, the service does
too. A forked child has neither the pipe nor the service; it gets one of its own if it needs it and its
parent never talked to one, because gRPC doesn't survive a fork.
"""

from __future__ import annotations

import atexit
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO

from prony import _native

_START_S = 60.0  # a machine under load takes its time
_END_S = 5.0

# Of other services, and nothing that this one's workers should see.
_SECRETS = ("PRONY_TOKEN", "OCTOML_PROFILE_API_TOKEN")

_lock = threading.Lock()
_running: _Service | None = None


class _Service:
    """A child process that has said where it serves."""

    def __init__(self) -> None:
        environment = {k: v for k, v in os.environ.items() if k not in _SECRETS}
        environment.setdefault("PRONY_PYTHON", sys.executable)
        with tempfile.TemporaryFile() as log:
            # Away from the terminal, whose Ctrl-C is for the user's program.
            self._process = subprocess.Popen(
                [_native.program(), "serve", "--embedded"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
            try:
                self.address = self._read_address(log)
            except BaseException:
                self.end()
                raise

    def _read_address(self, log: IO[bytes]) -> str:
        """What the service prints when it serves: `prony 1.2.3 serves on ADDRESS`."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        until = time.monotonic() + _START_S
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([descriptor], [], [], max(0.0, until - time.monotonic()))[0]:
                raise _error(f"the embedded service wasn't ready within {_START_S:g} s", log)
            piece = os.read(descriptor, 4096)
            if not piece:
                raise _error("the embedded service ended at its start", log)
            line += piece
        return line.split()[-1].decode()

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """Ends it and waits for that, though not for long."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def forget(self) -> None:
        """In a forked child: lets go of what is the parent's."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.returncode = 0  # not this process's to wait for


def _error(what: str, log: IO[bytes]) -> _native.Error:
    """With the last line that the service has written, which says why."""
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    error = _native.Error(f"{what}: {lines[-1]}" if lines else what)
    error.code = _native.EUNAVAILABLE
    return error


def address() -> str:
    """Where this process's own service is. Starts it, or starts another one if it has died."""
    global _running
    _native.check_process()
    with _lock:
        if _running is not None and not _running.is_alive():
            _running.end()
            _running = None
        if _running is None:
            _running = _Service()
            atexit.register(stop)
        return _running.address


def stop() -> None:
    """Ends the service, if there is one. Sessions on it end, too."""
    global _running
    atexit.unregister(stop)
    with _lock:
        service, _running = _running, None
    if service is not None:
        service.end()


def _forked() -> None:
    global _lock, _running
    _lock = threading.Lock()
    service, _running = _running, None
    if service is not None:
        service.forget()
    atexit.unregister(stop)


os.register_at_fork(after_in_child=_forked)
