"""The embedded service: one per process, and gone with it, whatever happens."""
import os
import pathlib
import signal
import subprocess
import threading

import pytest

from prony import _native, _service
from python_parts import PATIENCE, children_of, eventually, is_running, run_python, service_of, start_python


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


def executors_of(worker):
    return [pid for pid, words in children_of(worker).items() if "executor" in words]


def test_backends_start_with_the_session():
    """All of them at the same time, before there is a graph; a session that needs none ends them."""
    address = _service.address()
    service = service_of(os.getpid())
    [worker] = [pid for pid, words in children_of(service).items() if "worker" in words]
    assert not executors_of(worker)
    session = _native.Session(["local/onnxrt-cpu", "local/onnxrt-cpu[threads=1]"], server=address)
    eventually(lambda: len(executors_of(worker)) == 2, "two executors start")
    session.close()
    eventually(lambda: not executors_of(worker), "they end with the session")


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
    with pytest.raises(_native.Error, match="from PRONY_PROGRAM"):
        _service.address()


def test_tokens_of_others_stay_here(monkeypatch):
    monkeypatch.setenv("PRONY_TOKEN", "secret")
    _service.address()
    environment = pathlib.Path(f"/proc/{service_of(os.getpid())}/environ").read_bytes()
    assert b"secret" not in environment and b"PRONY_PYTHON=" in environment


def test_embedded_on_the_command_line(tmp_path):
    done = subprocess.run([_native.program(), "serve", "--embedded", "--state", tmp_path],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2 and "--state cannot be combined with --embedded" in done.stderr
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = subprocess.run([_native.program(), "serve", "--embedded"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=PATIENCE,
                          env={**os.environ, "TMPDIR": str(scratch)})
    assert done.returncode == 0 and os.listdir(scratch) == []


COMPILE = """
import torch, prony
net = torch.nn.Linear(4, 4)
with torch.no_grad(), prony.remote_inference(backend="local/torch-inductor-cpu"):
    x = torch.randn(2, 4)
    torch.testing.assert_close(prony.accelerate(net)(x), net(x))
"""


@pytest.mark.long
def test_what_was_compiled_is_kept_for_the_next_program(tmp_path):
    """In the user's cache; the second program compiles nothing, though its weights are others."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    folder = tmp_path / "prony/compiled"
    run_python(COMPILE, env=environment)
    [kept] = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, kept.stat().st_mode & 0o777) == (0o700, 0o600)
    before = kept.stat().st_ino
    run_python(COMPILE, env=environment)
    assert [(file, file.stat().st_ino) for file in folder.iterdir()] == [(kept, before)]
    kept.write_bytes(b"nothing of use")
    run_python(COMPILE, env=environment)
    [again] = folder.iterdir()
    assert again == kept and again.stat().st_size > 10000
