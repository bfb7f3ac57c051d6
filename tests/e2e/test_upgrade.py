"""Rolling upgrade: a service, its workers, its clients and its state of neighbouring versions."""
import contextlib
import os
import pathlib
import queue
import re
import shutil
import sqlite3
import subprocess
import sys

import grpc
import pytest

from conftest import BUILD, PROGRAM, ROOT, run_program
from service import SMALL, Program, eventually, make_certificate, own, serving

LAB = "listen: 127.0.0.1:0\npools:\n  - {name: lab}\n"
TLS = LAB + "tls: {certificate: cert.pem, key: key.pem}\n"
STATES = sorted((ROOT / "tests/data/state").glob("*.sql"))
# Of 'ann', in the state of 0.1.0.
TOKEN = "prony_qf8rOvlIhOycgvHlK3_9-Wt957xCdPhNLvFmPehkueA"
HEADER = "include/prony/prony.h"


def version():
    return run_program([PROGRAM, "--version"]).stdout.split()[1]


# ---- State ----

def schema_version(database):
    with contextlib.closing(sqlite3.connect(database)) as db:
        return db.execute("PRAGMA user_version").fetchone()[0]


@pytest.mark.parametrize("dump", STATES, ids=lambda path: path.stem)
def test_the_state_of_an_older_version_is_brought_up_to_date(tmp_path, dump):
    state = tmp_path / "s" / "state"
    state.mkdir(parents=True, mode=0o700)
    database = state / "state.db"
    with contextlib.closing(sqlite3.connect(database)) as db:
        db.executescript(dump.read_text())
    database.chmod(0o600)
    before = schema_version(database)
    certificate, _ = make_certificate(tmp_path / "s")
    with serving(tmp_path / "s", config=TLS) as service:
        with service.client(TOKEN, certificate) as ann:
            ann.ping()
            assert len(ann.call("Usage", own.UsageRequest()).uses) == 0
        assert schema_version(database) > before
    with contextlib.closing(sqlite3.connect(database)) as db:
        assert db.execute("SELECT user, backends FROM sessions").fetchall() == [
            ("local", "local/onnxrt-cpu")]
        assert db.execute("SELECT model, summary FROM measurements").fetchall() == [("control.onnx", "")]
    assert "boss" in run_program([PROGRAM, "token", "list", "--state", state]).stdout


# ---- Workers that say which version they are of ----

class Worker:
    """Attaches and says hello; that is all it does."""

    def __init__(self, client, **hello):
        self.reports = queue.Queue()
        self.reports.put(own.WorkerReport(hello=own.Hello(
            hardware="lab", software=[own.Software(name="onnxrt-cpu", version="1")], **hello)))
        self.stream = client.start("Attach", iter(self.reports.get, None))

    def refused(self):
        with pytest.raises(grpc.RpcError) as caught:
            list(self.stream)
        return caught.value.details()

    def leave(self):
        self.reports.put(None)
        self.stream.cancel()


def near(by):
    """The version whose minor number is greater by so much."""
    major, minor, _ = version().split(".")
    return f"{major}.{int(minor) + by}.7"


def test_workers_of_neighbouring_versions_may_join(tmp_path):
    with serving(tmp_path / "s", config=LAB) as service, service.client() as client:
        for by in (-1, 0, 1):
            worker = Worker(client, version=near(by), capabilities=["limits", "teleport"])
            eventually(lambda: client.status().workers, "it has joined")
            assert client.status().workers[0].note == f"prony {near(by)}"
            worker.leave()
            eventually(lambda: not client.status().workers, "it has left")
        for other in (near(2), "1" + version(), "0.2", "", "0.-1.0", "x" * 500):
            assert "may differ by one minor version" in Worker(client, version=other).refused()


def test_a_worker_is_not_asked_for_what_it_lacks(tmp_path):
    limited = LAB + "limits: {session_memory: 600 MiB}\n"
    models = [own.MeasuredModel(file=name, name=name) for name in ("model.onnx", "b.onnx")]
    for config, measure, lacks, fault in (
            (LAB, {"models": models}, "models", "measure several models side by side"),
            (LAB, {"pipeline": own.Pipeline(buffers_in=1, buffers_out=1, duration_s=1)}, "pipeline",
             "run stages of pipelines"),
            (limited, {}, "limits", "hold the service's memory limit in measurements")):
        has = sorted({"limits", "models", "pipeline"} - {lacks})
        with serving(tmp_path / lacks, config=config) as service, service.client() as client:
            worker = Worker(client, version=near(-1), capabilities=has)
            eventually(lambda client=client: client.status().workers, "it has joined")
            session = client.session("lab/onnxrt-cpu")
            session.upload(SMALL)
            code, text = client.refused("Measure", own.MeasureRequest(
                session_uuid=session.uuid, model_id=1, model_file="model.onnx", **measure))
            assert code == grpc.StatusCode.FAILED_PRECONDITION
            assert text == (f"the worker of 'lab' is of prony {near(-1)}, which cannot {fault}; "
                            "upgrade it")
            session.close()
            worker.leave()


# ---- Yesterday's release ----

def git(*words):
    found = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else ""


def previous_commit():
    """The last release: its tag, or the commit before the minor version became this one."""
    if not shutil.which("git") or not git("rev-parse", "--git-dir"):
        pytest.skip("this is no git repository, so it has no earlier release")
    if git("rev-parse", "--is-shallow-repository") == "true":
        pytest.skip("a shallow clone has no earlier release")
    minor = version().split(".")[1]
    tags = [tag for tag in git("tag", "--sort=-creatordate").split()
            if re.fullmatch(r"v?\d+\.\d+\.\d+", tag) and tag.split(".")[1] != minor]
    if tags:
        return tags[0]
    changes = git("log", "--format=%H", f"-SPRONY_VERSION_MINOR {minor}", "--", HEADER).split()
    if not changes or not git("rev-parse", f"{changes[-1]}^"):
        pytest.skip("the history has no earlier minor version")
    return changes[-1] + "^"


@pytest.fixture(scope="module")
def previous(tmp_path_factory):
    """The program of the last release: PRONY_PREVIOUS, or built from the history."""
    if given := os.environ.get("PRONY_PREVIOUS"):
        return pathlib.Path(given)
    commit = previous_commit()
    folder = tmp_path_factory.mktemp("previous")
    with subprocess.Popen(["git", "-C", ROOT, "archive", commit], stdout=subprocess.PIPE) as archive:
        subprocess.run(["tar", "x", "-C", folder], stdin=archive.stdout, check=True)
    assert archive.returncode == 0
    launcher = [f"-DCMAKE_C_COMPILER_LAUNCHER={ccache}"] if (ccache := shutil.which("ccache")) else []
    for command in (["cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build", *launcher],
                    ["ninja", "-C", folder / "build", "prony", "prony_net"]):
        subprocess.run(command, check=True, stdout=sys.stderr)
    return folder / "build" / "prony"


def environment():
    """Where the older program finds ONNX Runtime, too."""
    library = next(iter(sorted((BUILD / "deps/onnxruntime").glob("libonnxruntime.so*"))), None)
    if not library:
        pytest.skip("there is no ONNX Runtime to run the older program with")
    return {**os.environ, "PRONY_ORT_LIB": str(library)}


def profile(program, service, backend, folder):
    model = folder / "model.onnx"
    model.write_bytes(SMALL)
    result = run_program([program, "profile", model, "--server", service.address, "--backend", backend,
                          "--repeats", "2", "--launches", "1", "--format", "json"], env=environment())
    assert result.status == 0, result.stderr
    assert f'"name": "{backend}"' in result.stdout or backend in result.stdout
    return result


@pytest.mark.long
def test_the_last_release_works_with_this_one(tmp_path, previous):
    older = run_program([previous, "--version"]).stdout.split()[1]
    assert older != version()
    env = environment()
    with serving(tmp_path / "new", config=LAB, env=env) as service, service.client() as client:
        worker = Program([previous, "worker", "--server", service.address, "--insecure", "--hardware",
                          "lab"], env=env)
        try:
            service.said("worker.joined hardware=lab")
            assert client.status().workers[0].note == f"prony {older}"
            profile(PROGRAM, service, "lab/onnxrt-cpu", tmp_path)   # its worker, our client
            profile(previous, service, "lab/onnxrt-cpu", tmp_path)  # both
        finally:
            worker.kill()


@pytest.mark.long
def test_this_client_works_with_the_last_release_and_its_state_goes_on(tmp_path, previous):
    env = environment()
    with serving(tmp_path / "s", program=previous, env=env) as service:
        profile(PROGRAM, service, "local/onnxrt-cpu", tmp_path)
        before = schema_version(service.state / "state.db")
    with serving(tmp_path / "s", env=env) as service, service.client() as client:
        profile(PROGRAM, service, "local/onnxrt-cpu", tmp_path)
        assert client.status().cache.hits == 1  # it has what was uploaded to the older one
        assert schema_version(service.state / "state.db") >= before
