"""A service whose hosts come from Slurm (tests/slurm.py). Each test begins and ends with a cluster that has
no jobs."""
import contextlib
import os
import pathlib
import re
import shutil
import sys

import grpc
import pytest

import slurm
from service import ORT, SMALL, X, Service, Session, check_small, eventually, serving

BACKEND = "lab/onnxrt-cpu"


@pytest.fixture(scope="module")
def cluster(request, tmp_path_factory):
    """With accounting, unless the module's ACCOUNTING says otherwise."""
    accounting = getattr(request.module, "ACCOUNTING", True)
    with slurm.cluster(tmp_path_factory.mktemp("slurm"), accounting=accounting) as cluster:
        pool.scratch = cluster.folder / "scratch"  # workers that Slurm kills leave their files
        pool.scratch.mkdir()
        yield cluster


@pytest.fixture(autouse=True)
def nothing_is_left(cluster):
    yield
    try:
        eventually(lambda: not cluster.jobs(), "no job is left")
        cluster.idle()
        eventually(lambda: not cluster.leftovers(), "no process of a job is left")
    finally:
        cluster.cancel_all()


def pool(name="lab", **keys):
    """A pool as YAML; keys that are None are left out."""
    keys = {"type": "slurm", "software": "[onnxrt-cpu]", "constraint": "fast", "hosts": 2, "idle": "30s",
            "poll": "200ms", "time": "10m", "environment": f"{{PRONY_ORT_LIB: '{ORT}', TMPDIR: '{pool.scratch}'}}",
            **keys}
    keys.setdefault("program", os.environ.get("PRONY_PROGRAM"))  # a service under a sanitizer has another
    lines = [f"    {key}: {value}" for key, value in keys.items() if value is not None]
    return "\n".join([f"  - name: {name}", *lines]) + "\n"


def config(*pools, port=0):
    return f"listen: 127.0.0.1:{port}\npools:\n" + "".join(pools or [pool()]) + "lease: 5m\n"


@contextlib.contextmanager
def service_of(cluster, folder, *pools, port=0, env=None):
    """A service, and a client whose sessions are closed in the end: nobody would end otherwise."""
    with serving(folder, config=config(*pools, port=port), env={**cluster.env, **(env or {})}) as service, \
            service.client() as client:
        client.sessions = []
        yield service, client
        for session in client.sessions:
            session.close()


@contextlib.contextmanager
def dying_service(cluster, folder, *pools, port=0):
    """One that is killed in the end, and leaves its jobs."""
    service = Service(folder, config=config(*pools, port=port), env=cluster.env)
    try:
        with service.client() as client:
            client.sessions = []
            yield service, client
    except BaseException:
        print(service.text(), file=sys.stderr)
        raise
    finally:
        service.kill()


def standing_in(folder, **scripts):
    """The environment of a service that finds these shell scripts before Slurm's programs of the same names,
    which are theirs to use as `real`."""
    folder.mkdir()
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\nreal() {{ {shutil.which(name)} \"$@\"; }}\n{script}\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def ask(client, backend=BACKEND):
    """A session that waits, or is ready, as it comes."""
    reply = client.create(backend)
    assert reply.HasField("result_value"), reply
    client.sessions.append(Session(client, reply.result_value.session_uuid, 1))
    return client.sessions[-1]


def ready(client, backend=BACKEND):
    session = ask(client, backend)
    session.wait()
    return session


def again(client, session):
    """A session that a restart did not end, through a new connection."""
    client.sessions.append(Session(client, session.uuid, 1))
    client.sessions[-1].loaded = getattr(session, "loaded", False)
    return client.sessions[-1]


def use(session):
    """Runs a model, which is loaded the first time."""
    if not getattr(session, "loaded", False):
        session.load(SMALL)
        session.loaded = True
    check_small(session.infer([X])[0][0])


def lost(session):
    """Waits until a run says that the host is gone. Slurm's signal may end the executor before."""
    eventually(lambda: "lost" in session.run([X])[0].error_value.message, "the host is lost")


def denied(session):
    """The text with which a session that waits is closed."""
    with pytest.raises(grpc.RpcError) as fault:
        session.wait()
    assert fault.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    return fault.value.details()


def note(client, hardware="lab"):
    return next(h.note for h in client.status().hardware if h.name == hardware)


def key_of(cluster, job):
    """The key in a job's script, as Slurm's operators see it."""
    script = cluster.folder / f"script-{job}"
    cluster.run("scontrol", "write", "batch_script", job, script)
    return re.search(r"^prony_\S+$", script.read_text(), re.MULTILINE).group(0)


def environment_of_worker(job):
    """Of the worker that runs in a job on this machine."""
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            variables = (entry / "environ").read_bytes().decode().split("\0") if b"--join-file" in words else []
            if f"SLURM_JOB_ID={job}" in variables:
                return dict(v.split("=", 1) for v in variables if v)
    raise AssertionError(f"no worker of job {job}")


def command_lines():
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
