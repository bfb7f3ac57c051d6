"""Attempts to escape from an executor, made from inside the runtime (tests/fault/escape.c).

Each is made twice: without a sandbox, where it must succeed, or it would prove nothing; and in the
run call of a runtime in an executor, where it must fail. Those in an executor that is Python are
made when it maps weights (tests/fault/site/escape_hook.py). Attempts that only root could make are
made without a sandbox by root only. A protection that the kernel doesn't grant skips its tests; with
CI=true in the environment that is a failure.
"""
import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys

import numpy as np
import pytest

from conftest import BUILD, TORCH, run_program
from fxgraph import Graph, failure, load
from profiling import FAULT_ENV, fault
from service import serving

ESCAPE = BUILD / "tests/fault/escape"
BACKEND = fault("escape").replace("]", ",threads=1]")
TOO_MUCH = str(1 << 46)


def lacking(what):
    """Skips a test, unless in CI, where everything is granted."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"not granted here: {what}")
    pytest.skip(f"not granted here: {what}")


@pytest.fixture(scope="module")
def granted(program, networks):
    """The report's own words about its executors."""
    done = run_program([program, "profile", networks["mlp"], "-b", "onnxrt-cpu", "--launches", "1",
                        "--repeats", "30", "--verbose"])
    assert done.status == 0, done.stderr
    return re.sub(r"\s+", " ", done.stdout)


@pytest.fixture
def attempt(prony, networks):
    """attempt("signal", target) → what came of it in an executor."""

    def call(name, target):
        done = prony("profile", networks["mlp"], "-b", BACKEND, "--launches", "1", "--repeats", "30",
                     env={**FAULT_ENV, "PRONY_FAULT_RUN": "1", "PRONY_ESCAPE": name,
                          "PRONY_ESCAPE_TARGET": str(target)})
        assert done.status == 1, done.stdout
        return outcome(name, done.stderr)

    return call


def outcome(name, text):
    said = re.findall(rf"escape ({name}|exec): (done|denied \(.*?\))", text)
    assert said, f"the attempt wasn't made: {text}"
    return said[-1][1]


def without_sandbox(name, target, **options):
    return outcome(name, run_program([ESCAPE, name, target], **options).stderr)


@pytest.fixture
def secret(workdir):
    """A file outside of everything that an executor needs."""
    path = workdir / "secret"
    path.write_text("secret")
    return path


@pytest.fixture
def victim():
    """A process of this user, and where in it the word `secret` is."""
    code = ("import ctypes, sys; word = ctypes.create_string_buffer(b'secret__'); "
            "print(hex(ctypes.addressof(word)), flush=True); sys.stdin.read()")
    with subprocess.Popen([sys.executable, "-c", f"import signal; signal.signal(10, signal.SIG_IGN); "
                           f"{code}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield f"{process.pid} {process.stdout.readline().decode().strip()}"
        process.stdin.close()


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def abstract():
    name = f"prony-test-{os.getpid()}"
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind("\0" + name)
        server.listen()
        yield name


@pytest.fixture
def nothing():
    return "-"


@pytest.fixture
def folder(secret):
    return secret.parent


@pytest.fixture
def model_folder(networks, workdir):
    """Without a sandbox it is any other folder: the tests share this one."""
    return networks["mlp"].parent


@pytest.fixture
def passwd():
    return "/etc/passwd"


@pytest.fixture
def home():
    return pathlib.Path.home()


@pytest.fixture
def zero():
    return "/dev/zero"


@pytest.fixture
def too_much():
    return TOO_MUCH


# The attempt, its target, what keeps it from succeeding, and whether only root could succeed.
ATTEMPTS = [
    ("read-file", "secret", "landlock", False),
    ("read-file", "passwd", "landlock", False),
    ("list-folder", "folder", "landlock", False),
    ("list-folder", "home", "landlock", False),
    ("write-file", "secret", "landlock", False),
    ("create-file", "folder", "landlock", False),
    ("fill-disk", "folder", "landlock", False),
    ("make-folder", "folder", "seccomp", False),
    ("unlink", "secret", "seccomp", False),
    ("link", "secret", "seccomp", False),
    ("symlink", "secret", "seccomp", False),
    ("rename", "secret", "seccomp", False),
    ("truncate", "secret", "seccomp", False),
    ("truncate-by-open", "secret", "landlock", False),
    ("chmod", "secret", "seccomp", False),
    ("write-proc", "nothing", "landlock", False),
    ("open-device", "zero", "landlock", False),
    ("connect-tcp", "port", "seccomp", False),
    ("bind-tcp", "nothing", "seccomp", False),
    ("connect-abstract", "abstract", "seccomp", False),
    ("netlink", "nothing", "seccomp", False),
    ("raw-socket", "nothing", "seccomp", True),
    ("signal", "victim", "seccomp", False),
    ("ptrace", "victim", "seccomp", True),
    ("process-vm-readv", "victim", "seccomp", True),
    ("proc-mem", "victim", "landlock", True),
    ("proc-environ", "victim", "landlock", False),
    ("set-affinity", "victim", "pid", False),
    ("limit-other", "victim", "seccomp", False),
    ("exec", "nothing", "seccomp", False),
    ("memfd-exec", "nothing", "seccomp", False),
    ("fork", "nothing", "seccomp", False),
    ("unshare", "nothing", "seccomp", True),
    ("clone-namespace", "nothing", "seccomp", True),
    ("setns", "victim", "seccomp", True),
    ("mount", "folder", "seccomp", True),
    ("pivot-root", "nothing", "seccomp", True),
    ("chroot", "folder", "seccomp", True),
    ("raise-limit", "nothing", "seccomp", False),
    ("setuid", "nothing", "seccomp", True),
    ("pdeathsig", "nothing", "seccomp", False),
    ("dumpable", "nothing", "seccomp", False),
    ("add-key", "nothing", "seccomp", False),
    ("bpf", "nothing", "seccomp", True),
    ("perf-event", "nothing", "seccomp", True),
    ("io-uring", "nothing", "seccomp", True),
    ("userfaultfd", "nothing", "seccomp", True),
    ("init-module", "nothing", "seccomp", True),
    ("sethostname", "nothing", "seccomp", True),
    ("shmget", "nothing", "seccomp", False),
    ("memory", "too_much", "rlimits", False),
]

# Kernels are built without some of these, and machines configured without: then there is nothing to
# protect, and the attempt fails everywhere.
OPTIONAL = {"add-key", "bpf", "perf-event", "io-uring", "userfaultfd", "init-module", "shmget",
            "clone-namespace", "unshare"}


@pytest.mark.parametrize("name, target, protection, root",
                         [pytest.param(*row, id=f"{row[0]}-{row[1]}") for row in ATTEMPTS])
def test_attempt_is_denied(request, granted, attempt, name, target, protection, root):
    if not re.search(rf"(?<!no )\b{protection}\b", granted):
        lacking(protection)
    where = request.getfixturevalue(target)
    # The sandbox first: without it, the attempt may change its target.
    assert attempt(name, where).startswith("denied"), f"{name} was possible inside the sandbox"
    if root and os.geteuid() != 0:
        return
    done = without_sandbox(name, where)
    if name in OPTIONAL and done != "done":
        return
    assert done == "done", f"{name} proves nothing: without a sandbox it is {done}"


def test_nothing_is_made_beside_the_model(granted, attempt, model_folder):
    if "landlock" not in granted and "mount" not in granted:
        lacking("landlock or mount namespace")
    before = sorted(model_folder.iterdir())
    assert attempt("create-file", model_folder).startswith("denied")
    assert sorted(model_folder.iterdir()) == before


@pytest.mark.parametrize("descriptor", [4, 5, 6, 7], ids=["inputs", "samples", "outputs", "status"])
def test_shared_memory_is_not_opened_a_second_time(granted, attempt, descriptor):
    """Through /proc, a descriptor could be opened for more than it allows: written to, or shrunk
    under whoever has mapped it. The samples and the status aren't even there any more."""
    if "landlock" not in granted:
        lacking("landlock")
    path = f"/proc/self/fd/{descriptor}"
    assert attempt("reopen", path).startswith("denied")
    memory = os.memfd_create("memory", 0)
    os.set_inheritable(memory, True)
    assert without_sandbox("reopen", f"/proc/self/fd/{memory}", pass_fds=[memory]) == "done"
    os.close(memory)


def test_outputs_have_a_limit(attempt):
    """They lie in memory that no limit on private memory counts."""
    assert attempt("grow-file", "-") == "denied (File too large)"


# ---- Executors that are Python ----

# The one that compiles has to start a compiler, which is under the same rules, and has a file system in
# memory for its files.
FOR_COMPILING = {"exec", "fork", "fill-disk"}
MORE_OF_PYTHON = [("reopen", "/proc/self/fd/4"), ("reopen", "/proc/self/fd/6"), ("grow-file", "-")]


def hostile_interpreter(folder):
    """An interpreter with the torch that tests have, and a library that tries to escape."""
    packages = folder / "lib" / TORCH.resolve().name / "site-packages"
    packages.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin/python").symlink_to(TORCH.resolve())
    (folder / "pyvenv.cfg").write_text(f"home = {TORCH.resolve().parent}\n")
    # By way of links, because such a file is read as ASCII where the locale is C.
    (packages / "real").symlink_to(BUILD / "venv-torch/lib" / TORCH.resolve().name / "site-packages")
    (packages / "site").symlink_to(pathlib.Path(__file__).parent.parent / "fault/site")
    (packages / "hostile.pth").write_text("real\nsite\nimport escape_hook\n")
    return folder / "bin/python"


@pytest.mark.parametrize("software", ["torch-eager-cpu", "torch-inductor-cpu"])
def test_attempts_of_python_are_denied(request, granted, tmp_path, software):
    """The same attempts, one after the other, in one executor of each kind."""
    for protection in ("landlock", "seccomp", "mount", "pid", "rlimits"):
        if not re.search(rf"(?<!no )\b{protection}\b", granted):
            lacking(protection)
    attempts = [(name, str(request.getfixturevalue(target))) for name, target, _, _ in ATTEMPTS
                if name not in FOR_COMPILING or software == "torch-eager-cpu"] + MORE_OF_PYTHON
    env = {"PRONY_PYTHON": str(hostile_interpreter(tmp_path / "venv")),
           "PRONY_ESCAPES": json.dumps(attempts),
           "PRONY_ESCAPE_LIB": str(BUILD / "tests/fault/fault.so")}
    with serving(tmp_path / "s", env=env) as service, service.client() as client:
        session = client.session(f"local/{software}")
        for number, (name, target) in enumerate(attempts, 1):
            g = Graph()
            w = g.weight(np.zeros(number, np.float32))
            said = failure(load(session, g.files((w,)), model=number))
            assert said == f"escape {name}: denied", f"{name} {target}: {said}"
        session.close()
