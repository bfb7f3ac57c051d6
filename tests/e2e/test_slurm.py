"""Hosts from Slurm: a real one, on loopback (tests/slurm.py). Each test begins and ends with a cluster
that has no jobs."""
import concurrent.futures
import contextlib
import os
import pathlib
import re
import signal

import grpc
import pytest

import slurm
from conftest import PROGRAM, ROOT, run_program
from service import (ORT, PATIENCE, SMALL, X, Service, Session, base, check_small, eventually, free_port,
                     make_certificate, own, serving)

BACKEND = "lab/onnxrt-cpu"

if slurm.missing():
    pytest.skip(f"not here: {', '.join(slurm.missing())}", allow_module_level=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with slurm.cluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def nothing_is_left(cluster):
    yield
    try:
        eventually(lambda: not cluster.jobs(), "no job is left", timeout=10)
        cluster.idle()
    finally:
        cluster.cancel_all()


def pool(name="lab", **keys):
    """A pool as YAML; keys that are None are left out."""
    keys = {"type": "slurm", "software": "[onnxrt-cpu]", "constraint": "fast", "hosts": 2, "idle": "30s",
            "poll": "200ms", "time": "10m", "environment": f"{{PRONY_ORT_LIB: '{ORT}'}}", **keys}
    keys.setdefault("program", os.environ.get("PRONY_PROGRAM"))  # a service under a sanitizer has another
    lines = [f"    {key}: {value}" for key, value in keys.items() if value is not None]
    return "\n".join([f"  - name: {name}", *lines]) + "\n"


def config(*pools, port=0):
    return f"listen: 127.0.0.1:{port}\npools:\n" + "".join(pools or [pool()]) + "lease: 5m\n"


@contextlib.contextmanager
def service_of(cluster, folder, *pools, port=0):
    """A service, and a client whose sessions are closed in the end: nobody would end otherwise."""
    with serving(folder, config=config(*pools, port=port), env=cluster.env) as service, \
            service.client() as client:
        client.sessions = []
        yield service, client
        for session in client.sessions:
            session.close()


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


def command_lines():
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


# ---- What it is for ----

def test_a_host_comes_serves_and_leaves(cluster, tmp_path):
    with service_of(cluster, tmp_path / "s", pool(idle="1s")) as (service, client):
        listed = client.backends()
        assert [(b.hardware_platform, b.software_backend) for b in listed.backends] == [
            ("lab", "onnxrt-cpu")]
        assert not cluster.jobs()  # nobody waits
        first = ready(client)
        use(first)
        job = cluster.job("RUNNING")
        shown = cluster.run("scontrol", "show", "job", job)
        assert re.search(r"JobName=prony-lab-[0-9a-f]{8}", shown) and "prony serve on" in shown
        assert "OverSubscribe=NO" in shown and "Requeue=0" in shown
        key = key_of(cluster, job)
        assert key not in shown and not [line for line in command_lines() if key in line]
        service.secrets.append(key)
        worker, = client.status().workers
        assert worker.state == "held" and f"Slurm job {job} RUNNING on n" in worker.note
        first.close()
        use(ready(client))  # the same host, at once
        assert cluster.jobs() == [job]
    # The service ended, and its job with it.


def test_an_idle_host_leaves(cluster, tmp_path):
    with service_of(cluster, tmp_path / "s", pool(idle="1s")) as (service, client):
        session = ready(client)
        job = cluster.job("RUNNING")
        session.close()
        service.said(f"slurm.leave job={job} why=idle")
        service.said(f"slurm.ended job={job} hardware=lab state=COMPLETED")
        assert not cluster.jobs() and not client.status().workers


def test_as_many_jobs_as_sessions_up_to_the_limit(cluster, tmp_path):
    with service_of(cluster, tmp_path / "s") as (service, client):
        sessions = [ask(client) for _ in range(3)]
        eventually(lambda: len(cluster.jobs()) == 2, "two jobs")
        for session in sessions[:2]:
            session.wait()
        assert not sessions[2].wait_once().ready and len(cluster.jobs()) == 2
        jobs = cluster.jobs()
        sessions[0].close()
        sessions[2].wait()
        assert cluster.jobs() == jobs
        assert len([l for l in service.log if l and "slurm.submitted" in l]) == 2
        use(sessions[1])
        use(sessions[2])


def test_who_waits_sees_what_slurm_says(cluster, tmp_path):
    others = [cluster.occupy("-w", name, "--time=30") for name in ("n1", "n2")]
    with service_of(cluster, tmp_path / "s") as (service, client):
        first, second = ask(client), ask(client)
        eventually(lambda: len(cluster.jobs("PENDING")) == 2, "two jobs wait")
        kept, surplus = cluster.jobs("PENDING")
        expected = rf"Slurm: job {kept} PENDING \((Resources|Priority)\), expected to start 20\d\d-\S+Z"
        eventually(lambda: [s for s in client.status().sessions if re.fullmatch(expected, s.note)],
                   "the reason")
        assert f"job {surplus} PENDING" in second.wait_once().queue.note
        assert f"job {kept} PENDING" in note(client) and f"job {surplus} PENDING" in note(client)
        shown = run_program([PROGRAM, "status", "--server", service.address]).stdout
        assert f"Slurm: job {kept} PENDING" in shown
        # One leaves: a job that nobody needs is cancelled, the other stays.
        first.close()
        eventually(lambda: cluster.jobs("PENDING") == [kept], "one job is left")
        second.close()
        eventually(lambda: not cluster.jobs("PENDING"), "no job is left")
        cluster.run("scancel", *others)


def test_a_session_gets_a_host_with_enough_time(cluster, tmp_path):
    with service_of(cluster, tmp_path / "s", pool(time="2m", session="90s")) as (service, client):
        session = ready(client)
        use(session)
        old = cluster.job("RUNNING")
        cluster.run("scontrol", "update", f"JobId={old}", "TimeLimit=1")
        service.said(f"slurm.leave job={old} why=\"no session would fit")
        use(session)  # which goes on
        other = ready(client)  # that one doesn't get it
        use(other)
        new, = [job for job in cluster.jobs("RUNNING") if job != old]
        session.close()
        service.said(f"slurm.ended job={old}")
        assert cluster.jobs("RUNNING") == [new]


# ---- Whatever happens to a job ----

def test_an_operator_cancels(cluster, tmp_path):
    other = cluster.occupy("-w", "n1", "--time=30")
    with service_of(cluster, tmp_path / "s", pool(hosts=1, options="[--nodelist=n1]")) as (service, client):
        session = ask(client)
        pending = eventually(lambda: cluster.jobs("PENDING"), "a job waits")[0]
        cluster.run("scancel", pending)
        service.said(f"slurm.failed .*job {pending} ended before its worker had joined: CANCELLED")
        cluster.run("scancel", other)
        session.wait()  # gets another one
        use(session)
        running = cluster.job("RUNNING")
        assert running != pending
        cluster.run("scancel", running)
        lost(session)
        session.close()
        use(ready(client))
        assert cluster.job("RUNNING") != running


def test_preemption_and_requeue(cluster, tmp_path):
    with service_of(cluster, tmp_path / "s", pool(options="[--nodelist=n1]", hosts=1)) as (service, client):
        session = ready(client)
        use(session)
        job = cluster.job("RUNNING")
        other = cluster.occupy("--partition=urgent", "-w", "n1", "--time=5")
        service.said(f"slurm.ended job={job} hardware=lab state=PREEMPTED")
        lost(session)
        session.close()
        cluster.run("scancel", other)
        # Who may, has Slurm run the job again: its key is used, so it can't come back.
        session = ready(client)
        use(session)
        job = cluster.job("RUNNING")
        cluster.run("scontrol", "update", f"JobId={job}", "Requeue=1")
        cluster.run("scontrol", "requeue", job)
        service.said(f"slurm.ended job={job}")
        lost(session)
        session.close()
        use(ready(client))
        assert cluster.job("RUNNING", "PENDING") != job


def test_time_limit_and_node_failure(cluster, tmp_path):
    """Both take Slurm half a minute to find out, so they happen at once."""
    with service_of(cluster, tmp_path / "s", pool(time="10m", session="1s")) as (service, client):
        sessions = [ready(client) for _ in range(2)]
        for session in sessions:
            use(session)
        nodes = dict(line.split() for line in
                     cluster.run("squeue", "-h", "-o", "%i %N").splitlines())
        (timed, _), (failed, node) = nodes.items()
        cluster.run("scontrol", "update", f"JobId={timed}", "EndTime=now")
        cluster.kill(node)
        try:
            service.said(f"slurm.ended job={timed} hardware=lab state=TIMEOUT")
            service.said(f"slurm.ended job={failed} hardware=lab state=NODE_FAIL")
        finally:
            cluster.start_node(node)
        for session in sessions:
            lost(session)
        # The worker of a node that was given up is told to go, and goes.
        eventually(lambda: not [l for l in command_lines() if "worker --join-file" in l], "it is gone")
        sessions[0].close()
        use(ready(client))


def test_a_job_that_brings_no_worker(cluster, tmp_path):
    """The program isn't on the node; the node doesn't reach the service."""
    pools = [pool("absent", program="/nonexistent/prony", hosts=1),
             pool("mute", server=f"127.0.0.1:{free_port()}", join="1s", hosts=1)]
    with service_of(cluster, tmp_path / "s", *pools) as (service, client):
        sessions = [ask(client, f"{name}/onnxrt-cpu") for name in ("absent", "mute")]
        with concurrent.futures.ThreadPoolExecutor() as threads:
            absent, mute = threads.map(denied, sessions)
        assert re.search(r"Slurm job \d+ ended before its worker had joined: FAILED, exit status 127: "
                         r"is prony on n\d\?", absent)
        assert re.search(r"didn't join within 1 s; can it reach 127\.0\.0\.1:\d+\?", mute)
        assert "exit status 127" in note(client, "absent")
        submitted = [l for l in service.log if l and "slurm.submitted" in l]
        assert len(submitted) == 6  # three tries each, not more
        # Who comes now is told at once.
        assert "exit status 127" in denied(ask(client, "absent/onnxrt-cpu"))
        eventually(lambda: not cluster.jobs(), "no job is left")


def test_a_controller_that_dies_comes_back(cluster, tmp_path):
    with service_of(cluster, tmp_path / "s") as (service, client):
        first = ready(client)
        use(first)
        cluster.save(cluster.job("RUNNING"))
        cluster.kill("slurmctld")
        try:
            second = ask(client)
            service.said("slurm.silent")
            eventually(lambda: "Slurm doesn't answer: 'squeue' " in note(client), "status says so")
            assert "Slurm doesn't answer" in second.wait_once().queue.note
            use(first)  # nobody needs Slurm for that
        finally:
            cluster.start_controller()
        service.said("slurm.answers")
        second.wait()
        use(second)
        assert len(cluster.jobs("RUNNING")) == 2


# ---- The service goes and comes ----

def test_a_restart_adopts_its_workers(cluster, tmp_path):
    port = free_port()
    service = Service(tmp_path / "s", config=config(port=port), env=cluster.env)
    try:
        with service.client() as client:
            use(client.session(BACKEND))
            job = cluster.job("RUNNING")
            name = cluster.run("squeue", "-h", "-j", job, "-o", "%j").strip()
            service.said(f"slurm.joined job={job}")
            # An orphan: a job of the service's of which it doesn't know.
            orphan = cluster.occupy(f"--job-name={name}", "-C", "slow")
            service.said(f"slurm.orphan job={orphan}")
            eventually(lambda: cluster.jobs() == [job], "it is cancelled")
    finally:
        service.kill()
    orphan = cluster.occupy(f"--job-name={name}", "-C", "slow", "--time=5")
    with service_of(cluster, tmp_path / "s", port=port) as (service, client):
        service.said(f"slurm.adopted job={job}")
        service.said(f"slurm.joined job={job}")
        use(ready(client))
        assert not [l for l in service.log if l and "slurm.submitted" in l]
        eventually(lambda: cluster.jobs() == [job], "the orphan is cancelled")


def test_a_key_is_good_once(cluster, tmp_path):
    with service_of(cluster, tmp_path / "s") as (service, client):
        ready(client)
        key = key_of(cluster, cluster.job("RUNNING"))
        with service.client(token=key) as thief:
            stub = thief.stubs[next(s for s in thief.stubs if hasattr(s(thief.channel), "Join"))]
            with pytest.raises(grpc.RpcError) as fault:
                stub.Join(own.JoinRequest(), timeout=PATIENCE, metadata=thief.metadata)
            assert fault.value.code() == grpc.StatusCode.PERMISSION_DENIED
            assert "used before" in fault.value.details()
            code, _ = thief.refused("Ping", base.PingRequest())
            assert code == grpc.StatusCode.UNAUTHENTICATED
        assert not [l for l in service.log if l and key in l]


def test_pools_come_and_go_with_a_reload(cluster, tmp_path):
    with service_of(cluster, tmp_path / "s") as (service, client):
        session = ready(client)
        job = cluster.job("RUNNING")
        service.config.write_text(config(pool(partition="nowhere")))
        service.signal(signal.SIGHUP)
        service.said("config.refused .*line 12: 'partition': Slurm knows no partition 'nowhere'")
        service.config.write_text(config(pool("new")))
        service.signal(signal.SIGHUP)
        service.said(f"slurm.leave job={job} why=\"there is no such pool")
        use(session)
        session.close()
        service.said(f"slurm.ended job={job}")
        use(ready(client, "new/onnxrt-cpu"))


# ---- The configuration ----

@pytest.mark.parametrize("keys, line, text", [
    ({"partition": "nowhere"}, 12, "'partition': Slurm knows no partition 'nowhere'"),
    ({"constraint": "fast&quick"}, 6, "'constraint': no node of the partition has the feature 'quick'"),
    ({"gres": "accel:real"}, 12, "'gres': no node of the partition has 'accel:real'"),
    ({"partition": "short"}, 3, "'time': the partition allows no jobs of 10 min"),
    ({"partition": "closed"}, 3, "'pools': Slurm takes no jobs of the pool 'lab': 'sbatch' failed: "),
    ({"constraint": "slow", "gres": "accel:toy:9"}, 3, "Slurm takes no jobs of the pool 'lab'"),
    ({"options": "[--export=NONE]"}, 12, "'options': --export is prony's to set"),
    ({"session": "20m"}, 12, "'session': longer than 'time'"),
])
def test_what_the_cluster_doesnt_have(cluster, prony, workdir, keys, line, text):
    (workdir / "serve.yml").write_text(config(pool(**keys)))
    done = prony("serve", "--config", "serve.yml", "--state", workdir / "state", env=cluster.env)
    assert done.status == 2 or done.status == 1
    assert f"'serve.yml', line {line}: " in done.stderr and text in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_the_example_of_the_page(cluster, prony, workdir):
    """docs/cluster.md shows a configuration, and what is said where the cluster is another."""
    page = (ROOT / "docs/cluster.md").read_text()
    text = re.search(r"```yaml\n(.*?)```", page, re.DOTALL).group(1)
    make_certificate(workdir)
    (workdir / "serve.yml").write_text(text.replace("/shared/prony/cert.pem", "cert.pem"))
    done = prony("serve", "--config", "serve.yml", "--state", workdir / "state", env=cluster.env)
    assert re.search(r"^prony: error: .*$", page, re.MULTILINE).group(0) in done.stderr


def test_programs_that_arent_there_or_talk_nonsense(cluster, prony, workdir):
    (workdir / "serve.yml").write_text(config())
    serve = ("serve", "--config", "serve.yml", "--state", workdir / "state")
    done = prony(*serve, env={**cluster.env, "PATH": str(workdir)})
    assert done.status and "there is no program 'sinfo': is Slurm installed here?" in done.stderr
    fake = workdir / "sinfo"
    for script, text in (("head -c 20000000 /dev/zero", "printed more than 8388608 bytes"),
                         ("printf 'x|y\\n\\377|||\\n*|||\\n'", "no default partition"),
                         ("echo 'sinfo: error: no /etc/slurm here' >&2; exit 3", "failed: no ... here")):
        fake.write_text(f"#!/bin/sh\n{script}\n")
        fake.chmod(0o755)
        done = prony(*serve, env={**cluster.env, "PATH": f"{workdir}:{os.environ['PATH']}"})
        assert done.status and text in done.stderr and len(done.stderr.splitlines()) == 1
