"""The embedded service: one per process, and gone with it, whatever happens."""
import os
import pathlib
import signal
import subprocess
import threading

import pytest

from prony import _native, _service
from python_parts import PATIENCE, eventually, is_running, run_python, service_of, start_python

pytestmark = pytest.mark.timeout(120)

HOLD = """
import os, sys
from prony import _native, _service
session = _native.Session(["local/onnxrt-cpu"], server=_service.address())
print(_service.address(), flush=True)
sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def stopped():
    yield
    _service.stop()


@pytest.fixture
def program():
    """A process with a session on its embedded service, the service's pid, and its folder."""
    process = start_python(HOLD)
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("unix:/"), process.stderr.read()
        folder = pathlib.Path(address.removeprefix("unix:")).parent
        assert folder.stat().st_mode & 0o077 == 0
        yield process, service_of(process.pid), folder
    finally:
        process.kill()
        process.communicate()


def gone(service, folder):
    eventually(lambda: not is_running(service), "the service ends")
    eventually(lambda: not folder.exists(), "its folder is removed")


def test_one_per_process():
    found = []
    threads = [threading.Thread(target=lambda: found.append(_service.address()))
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(found) == 4
    _native.ping(found[0])
    _service.stop()
    _service.stop()
    with pytest.raises(_native.Error):
        _native.ping(found[0])
    assert _service.address() != found[0]


def test_it_ends_with_its_program(program):
    process, service, folder = program
    process.communicate("\n", timeout=PATIENCE)
    assert process.returncode == 0
    assert not is_running(service)  # the program waits for it
    gone(service, folder)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_its_program_is_killed(program, number):
    process, service, folder = program
    assert is_running(service)
    process.send_signal(number)
    process.wait(PATIENCE)
    gone(service, folder)


def test_ctrl_c_in_the_terminal_is_not_for_it(program):
    """Whose signals go to the program's group, in which the service isn't."""
    process, service, _ = program
    assert os.getpgid(service) != os.getpgid(process.pid)


def test_another_one_is_started_when_it_dies():
    first = _service.address()
    service = service_of(os.getpid())
    os.kill(service, signal.SIGKILL)
    os.waitid(os.P_PID, service, os.WEXITED | os.WNOWAIT)  # all of its threads have ended
    assert _service.address() != first
    _native.ping(_service.address())


def test_a_fork_has_one_of_its_own():
    """Before the parent has talked to its own; and the parent's ends although the child lives."""
    said = run_python("""
import os, sys
from prony import _native, _service
mine = _service.address()
read, write = os.pipe()
if os.fork() == 0:
    os.close(read)
    assert _service._running is None
    theirs = _service.address()
    _native.ping(theirs)
    os.write(write, theirs.encode())
    os._exit(0) if _service.stop() is None else None
os.close(write)
os.wait()
theirs = os.read(read, 1000).decode()
_native.ping(mine)
print(mine != theirs and theirs.startswith("unix:"))
""")
    assert said == "True\n"


def test_a_child_does_not_keep_it_alive():
    process = start_python("""
import os, sys
from prony import _native, _service
_service.address()
child = os.fork()
if child == 0:
    sys.stdin.readline()
    os._exit(0)
print(child, flush=True)
sys.stdin.readline()
""")
    child = int(process.stdout.readline())
    service = service_of(process.pid)
    try:
        os.kill(process.pid, signal.SIGKILL)
        eventually(lambda: not is_running(service), "the service ends")
        assert is_running(child)
    finally:
        process.stdin.close()
        process.wait()
        eventually(lambda: not is_running(child), "the child ends")
        for pipe in (process.stdout, process.stderr):
            pipe.close()


def test_a_service_that_cannot_start_says_why(monkeypatch, tmp_path):
    program = tmp_path / "prony"
    program.write_text("#!/bin/sh\necho 'prony: error: no luck today' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PRONY_PROGRAM", str(program))
    with pytest.raises(_native.Error, match="ended at its start: prony: error: no luck today") as e:
        _service.address()
    assert e.value.code == _native.EUNAVAILABLE
    monkeypatch.setenv("PRONY_PROGRAM", str(tmp_path / "nothing"))
    with pytest.raises(_native.Error, match="which PRONY_PROGRAM names"):
        _service.address()


def test_tokens_of_others_stay_here(monkeypatch):
    monkeypatch.setenv("PRONY_TOKEN", "secret")
    _service.address()
    environment = pathlib.Path(f"/proc/{service_of(os.getpid())}/environ").read_bytes()
    assert b"secret" not in environment and b"PRONY_PYTHON=" in environment


def test_embedded_on_the_command_line(tmp_path):
    done = subprocess.run([_native.program(), "serve", "--embedded", "--state", tmp_path],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "--embedded keeps no state" in done.stderr
    done = subprocess.run([_native.program(), "serve", "--embedded"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60,
                          env={**os.environ, "TMPDIR": str(tmp_path)})
    assert done.returncode == 0 and os.listdir(tmp_path) == []
