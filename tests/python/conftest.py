"""Fixtures of the tests of the Python package."""
import pytest

from python_parts import serving


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The address of a service that the tests share; each frees what it has."""
    with serving(tmp_path_factory.mktemp("server")) as process:
        yield process.address


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch, tmp_path):
    """Nothing of who runs the tests: no endpoint, no token, no home."""
    for name in ("PRONY_ENDPOINT", "OCTOML_PROFILE_ENDPOINT", "PRONY_TOKEN",
                 "OCTOML_PROFILE_API_TOKEN", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
