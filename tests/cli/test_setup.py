"""tools/setup says what is missing, fetches what it can, and is silent when all is there; tools/demo."""
import os

import pytest

from conftest import BUILD, ROOT, run_program

SETUP = ROOT / "tools" / "setup"


@pytest.fixture
def stand_ins(workdir):
    """stand_ins(name=script, …) → an environment in which these programs come first on PATH."""

    def make(**scripts):
        folder = workdir / "stand-ins"
        folder.mkdir()
        for name, script in scripts.items():
            path = folder / name.replace("_", "-")
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
        return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}

    return make


def test_nothing_is_said_when_nothing_is_missing():
    done = run_program([SETUP, BUILD, "build"], cwd=ROOT)
    assert (done.status, done.stdout, done.stderr) == (0, "", "")


def test_an_ordinary_user_is_told_what_to_ask_for(stand_ins, workdir):
    never = "echo called; exit 1"
    env = stand_ins(id="echo 1000", sudo="exit 1", apt_get=never, npm=never,
                    dpkg_query='case $4 in cmake | libyaml-dev) exit 1 ;; *) echo "ii " ;; esac')
    done = run_program([SETUP, workdir / "a b", "build"], cwd=ROOT, env=env)
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr == (
        "prony needs Debian packages that only an administrator can install:\n"
        "    sudo apt-get install --no-install-recommends cmake libyaml-dev\n")


@pytest.mark.long
@pytest.mark.parametrize("purpose, status", [("build", 0), ("test", 1)])
def test_without_a_network(workdir, purpose, status):
    """Only tests can't do without runtimes."""
    env = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PRONY_WEB": "no"}
    done = run_program([SETUP, workdir / "a b", purpose], cwd=ROOT, env=env)
    assert done.status == status
    assert "setup: cannot fetch ONNX Runtime; all that was said is in " in done.stderr
    assert ("prony is built without it" in done.stderr) == (purpose == "build")
    assert not list((workdir / "a b" / "deps").iterdir())


def test_runtimes_can_be_left_out(workdir):
    env = {**os.environ, "PRONY_WEB": "no", "PRONY_RUNTIMES": "no"}
    done = run_program([SETUP, workdir / "new", "build"], cwd=ROOT, env=env)
    assert (done.status, done.stdout, done.stderr) == (0, "", "")
    assert not (workdir / "new" / "deps").exists()


@pytest.mark.long
def test_demo(workdir):
    (workdir / "a b").mkdir()
    for name in ("prony", "deps"):
        (workdir / "a b" / name).symlink_to(BUILD / name)
    done = run_program([ROOT / "tools" / "demo", workdir / "a b"], cwd=ROOT)
    assert done.status == 0 and done.stderr == "", done.stderr
    told = done.stdout.splitlines()
    assert told[0].startswith("Demo: ") and told[1] == "Measuring takes up to 45 seconds."
    assert f"The same as a page with charts: {workdir / 'a b' / 'demo' / 'resnet50.html'}" in told
    assert (workdir / "a b" / "demo" / "resnet50.html").read_text().startswith("<!doctype html>")
    assert "onnxrt-cpu" in done.stdout and "openvino-cpu" in done.stdout
