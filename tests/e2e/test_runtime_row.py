"""A runtime is one folder and one line: tests/echo adds one, and everything else knows it by its row."""
import json

import pytest

from conftest import BUILD, run_program
from service import eventually, serving

QUICK = ("--launches", "1", "--repeats", "3", "--warmups", "1")
NET = {"PRONY_NET_LIB": str(BUILD / "tests/libprony_net_echo.so")}


@pytest.fixture
def echo(workdir):
    def call(*arguments, **variables):
        env = {"PATH": "/usr/bin:/bin", "HOME": str(workdir), **NET, **variables}
        return run_program([BUILD / "tests/prony_echo", *arguments], cwd=workdir, env=env)

    return call


def test_it_is_found_and_measured(echo, networks):
    done = echo("backends", "--format", "json")
    row = next(r for r in json.loads(done.stdout)["backends"] if r["software"] == "echo-cpu")
    assert row["available"] and row["version"] == "Echo 1"
    assert "libm.so" in row["library"] and row["origin"] == "the loader's path"
    done = echo("profile", networks["mlp"], *QUICK, "-b", "echo-cpu[loud=on]", "--format", "json")
    assert done.status == 0, done.stderr
    (result,) = json.loads(done.stdout)["results"]
    assert result["error"] is None and result["backend"]["runtime_version"] == "Echo 1"


def test_its_options_are_checked(echo, networks):
    done = echo("profile", networks["mlp"], "-b", "echo-cpu[quiet]")
    assert done.status == 2
    assert "echo-cpu has no option 'quiet'; it has: loud=on|off" in done.stderr


def test_the_command_line_has_its_library(echo, networks):
    for command in ("profile", "layers", "backends", "schedule", "serve", "worker"):
        shown = " ".join(echo(command, "--help").stdout.split())
        assert "--echo-lib FILE Echo library to load (libecho.so)" in shown, command
        assert "--ort-lib FILE" in shown and "--ov-lib FILE" in shown
    page = echo("generate", "prony.1").stdout
    assert ".B PRONY_ECHO_LIB\nEcho library to load (libecho.so), unless \\-\\-echo\\-lib is given." in page
    given = (["--echo-lib", "/nope/x.so"], {}), ([], {"PRONY_ECHO_LIB": "/nope/x.so"})
    for (arguments, variables), name in zip(given, ("--echo-lib", "PRONY_ECHO_LIB")):
        done = echo("profile", networks["mlp"], *QUICK, *arguments, **variables)
        assert (done.status, done.stdout) == (1, "")
        assert f"cannot load Echo from '/nope/x.so' ({name}):" in done.stderr
    done = echo("backends", "--server", "localhost:1", "--echo-lib", "x.so")
    assert done.status == 2 and "--echo-lib cannot be combined with --server" in done.stderr


def test_a_service_offers_it(echo, tmp_path):
    config = "pools:\n  - {name: local, count: 1, software: [echo-cpu]}\n"
    with serving(tmp_path / "s", config=config, env=NET, program=BUILD / "tests/prony_echo") as service, \
            service.client() as client:
        offered = eventually(lambda: (reply := client.backends()).backends and reply, "a worker")
        assert [b.software_backend for b in offered.backends] == ["echo-cpu"]
        presets = {p.preset_name: [b.software_backend for b in p.backends] for p in offered.presets}
        assert presets == {"default": ["echo-cpu"], "all": ["echo-cpu"]}
