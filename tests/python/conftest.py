"""Tests of the PyTorch front end: real modules, on the embedded service. They run with the Python that
has torch (build/venv-torch) and the package of the build folder (PYTHONPATH=build/python)."""
import io
import pathlib
import sys

import pytest
import torch

import prony

sys.path.insert(0, str(pathlib.Path(__file__).parent))  # the tests share front.py

from front import EAGER, ONNXRT, Outcome
from python_parts import serving


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The address of a service that the tests share; each frees what it has."""
    with serving(tmp_path_factory.mktemp("server")) as process:
        yield process.address


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch, tmp_path):
    """Nothing of who runs the tests: no endpoint, no token, no home; nor of the test before."""
    for name in ("PRONY_ENDPOINT", "OCTOML_PROFILE_ENDPOINT", "PRONY_TOKEN", "PRONY_STRICT",
                 "PRONY_SUBSTITUTE",
                 "OCTOML_PROFILE_API_TOKEN", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "10000")  # so that no sentence is cut where a test looks for it
    torch._dynamo.reset()
    torch.manual_seed(0)


class Sessions:
    """One session at a time, because this machine is one host. It is kept for the next test that wants
    the same backends: executors of torch take seconds to start."""

    def __init__(self):
        self.session, self.wanted = None, ()

    def open(self, *backends):
        if self.wanted != backends or self.session.closed:
            self.close()
            self.session = prony.RemoteInferenceSession(backends)
            self.wanted = backends
        return self.session

    def close(self):
        if self.session is not None:
            self.session.close()
        self.session, self.wanted = None, ()


@pytest.fixture(scope="module")
def sessions():
    sessions = Sessions()
    yield sessions
    sessions.close()


@pytest.fixture
def session(sessions):
    return sessions.open(ONNXRT, EAGER)


@pytest.fixture
def free(sessions):
    """No session is open, so that the test can open its own."""
    sessions.close()


@pytest.fixture
def profiling(session, tmp_path):
    """profiling(function, inputs…): calls it for each of the inputs inside remote_profile, compares
    what it returns with what it returns outside, and gives the Outcome."""

    def run(function, *inputs, plain=None, **options):
        expected = [(plain or function.__wrapped__)(*x) for x in inputs]
        printed = io.StringIO()
        options = {"num_repeats": 2, "print_results_to": printed,
                   "report_folder": str(tmp_path / "report"), **options}
        with prony.remote_profile(options.pop("session", session), **options) as handle:
            for x, value in zip(inputs, expected):
                torch.testing.assert_close(function(*x), value)
        return Outcome(handle.report(), printed.getvalue())

    return run
