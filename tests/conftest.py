"""What every Python test has: the program, a scratch folder, models, and a time limit."""
import dataclasses
import functools
import os
import pathlib
import signal
import subprocess
import sys

import pytest

# Who starts the tests in the background may have Ctrl-C ignored, and programs would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # the tests share transcript.py and this file
sys.path.append(str(ROOT / "tests" / "e2e"))  # and some of them what others have
BUILD = pathlib.Path(os.environ.get("PRONY_BUILD", ROOT / "build"))
PROGRAM = pathlib.Path(os.environ.get("PRONY", BUILD / "prony"))
TEST_TIMEOUT = 300


@functools.cache
def bf16_is_broken():
    """Whether PyTorch, without prony, dies of an illegal instruction when it multiplies matrices of bf16:
    some virtual machines announce a matrix unit (AMX) that they don't have."""
    done = subprocess.run([BUILD / "venv-torch/bin/python", "-c",
                           "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a"],
                          capture_output=True, timeout=120)
    return done.returncode == -signal.SIGILL


@dataclasses.dataclass
class Finished:
    """A program that has ended; `status` is negative after a signal, as in subprocess."""
    stdout: str
    stderr: str
    status: int


def run_program(argv, timeout=60, **options):
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
                    process.returncode)


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


def pytest_configure(config):
    config.addinivalue_line("markers", "timeout(seconds): time limit of a test")


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
    """prony("model", "x.onnx", timeout=60, env={...}, input=...) → stdout, stderr, status."""

    def call(*arguments, timeout=60, env=None, **options):
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
            done = run_program([self.program, "synth", name, *options, "-o", path], timeout=120)
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
    sh("cmake", "--install", BUILD, "--prefix", prefix, timeout=120)
    return prefix


@pytest.fixture(scope="session")
def library_folder(prefix):
    return next(prefix.glob("lib/**/libprony.so")).parent


@pytest.fixture
def pkg_config(library_folder):
    env = {"PKG_CONFIG_PATH": str(library_folder / "pkgconfig")}
    return lambda *options: sh("pkg-config", *options, "prony", env=env).split()
