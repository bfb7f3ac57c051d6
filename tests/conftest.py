"""What every Python test has: the program, a scratch folder, models, and a time limit."""
import dataclasses
import functools
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import pytest

# Who starts the tests in the background may have signals ignored, and programs would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # the tests share transcript.py and this file
sys.path.append(str(ROOT / "tests" / "e2e"))  # and some of them what others have
BUILD = pathlib.Path(os.environ.get("PRONY_BUILD", ROOT / "build"))
PROGRAM = pathlib.Path(os.environ.get("PRONY", BUILD / "prony"))
TORCH = BUILD / "venv-torch/bin/python"
if not re.fullmatch(r"[\w./+-]+", str(TORCH), re.ASCII):
    # PyTorch calls its compiler without quotes, so that folders of other names need another name.
    _link = tempfile.TemporaryDirectory(prefix="prony-torch-")
    TORCH = pathlib.Path(_link.name) / "venv/bin/python"
    TORCH.parent.parent.symlink_to(BUILD / "venv-torch")
# In seconds, to end what hangs: beside many others a test may take twenty times as long as alone.
TEST_TIMEOUT = 1800
PATIENCE = 600


@functools.cache
def bf16_is_broken():
    """Whether PyTorch, without prony, dies of an illegal instruction when it multiplies matrices of bf16:
    some virtual machines announce a matrix unit (AMX) that they don't have."""
    done = subprocess.run([TORCH, "-c",
                           "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a"],
                          capture_output=True, timeout=PATIENCE)
    return done.returncode == -signal.SIGILL


@dataclasses.dataclass
class Finished:
    """A program that has ended; `status` is negative after a signal, as in subprocess."""
    stdout: str
    stderr: str
    status: int
    session: int  # that its processes are in


def run_program(argv, timeout=PATIENCE, **options):
    """Runs argv in a session of its own; past the timeout the whole session is killed, so that
    nothing outlives a test."""
    stdin = options.pop("input", None)
    if isinstance(stdin, str):
        stdin = stdin.encode()
    with subprocess.Popen([str(a) for a in argv], start_new_session=True,
                          stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout)
        except BaseException as fault:
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            if isinstance(fault, subprocess.TimeoutExpired):
                pytest.fail(f"{argv} took more than {timeout} s\n{stdout!r}\n{stderr!r}")
            raise
    return Finished(stdout.decode(errors="replace"), stderr.decode(errors="replace"),
                    process.returncode, process.pid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Ends a test that hangs; @pytest.mark.timeout(SECONDS) changes the limit."""
    marker = item.get_closest_marker("timeout")
    limit = marker.args[0] if marker else TEST_TIMEOUT

    def expired(_signal, _frame):
        pytest.fail(f"the test took more than {limit} s")

    previous = signal.signal(signal.SIGALRM, expired)
    signal.alarm(limit)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def pytest_runtest_logstart(nodeid):
    """Tells tests/run.py what is running."""
    if "PRONY_TEST_NOW" in os.environ:
        pathlib.Path(os.environ["PRONY_TEST_NOW"]).write_text(nodeid)


def pytest_configure(config):
    config.addinivalue_line("markers", "timeout(seconds): time limit of a test")
    config.addinivalue_line("markers", "long: only `make test-long` runs it")


@pytest.fixture(scope="session")
def program():
    """The path of the program under test."""
    assert os.access(PROGRAM, os.X_OK), f"{PROGRAM} has not been built"
    return PROGRAM


@pytest.fixture
def workdir(tmp_path):
    """A scratch folder of this test, in which `prony` runs."""
    return tmp_path


@pytest.fixture
def prony(program, workdir):
    """prony("model", "x.onnx", env={...}, input=...) → stdout, stderr, status."""

    def call(*arguments, timeout=PATIENCE, env=None, **options):
        options.setdefault("cwd", workdir)
        return run_program([program, *arguments], timeout=timeout,
                           env={**os.environ, **(env or {})}, **options)

    return call


class Networks:
    """Models from `prony synth`, each written once per test run: networks["resnet50"], or
    networks.get("bert-base", "--seq", "16"). Tests must not change the files."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder
        self.paths = {}

    def get(self, name, *options):
        key = (name, *options)
        if key not in self.paths:
            path = self.folder / str(len(self.paths)) / f"{name}.onnx"
            path.parent.mkdir()
            done = run_program([self.program, "synth", name, *options, "-o", path])
            assert done.status == 0, done.stderr
            self.paths[key] = path
        return self.paths[key]

    __getitem__ = get


@pytest.fixture(scope="session")
def networks(program, tmp_path_factory):
    return Networks(program, tmp_path_factory.mktemp("networks"))


def sh(*argv, env=None, **options):
    """The output of a program that has to succeed."""
    done = run_program(argv, env={**os.environ, **(env or {})}, **options)
    assert done.status == 0, f"{argv}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """What `make install` installs, in a scratch folder."""
    prefix = tmp_path_factory.mktemp("prefix")
    sh("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix


@pytest.fixture(scope="session")
def library_folder(prefix):
    return next(prefix.glob("lib/**/libprony.so")).parent


@pytest.fixture
def pkg_config(library_folder):
    env = {"PKG_CONFIG_PATH": str(library_folder / "pkgconfig")}
    return lambda *options: sh("pkg-config", *options, "prony", env=env).split()
