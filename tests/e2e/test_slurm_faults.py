"""Hosts from Slurm: whatever happens to a job, a session gets an error or another host, and no job is left.
The cluster is a real one, on loopback."""
import concurrent.futures
import re

import pytest

import slurm
from service import eventually, free_port
from slurm_service import (ask, cluster, command_lines, denied, lost, note, nothing_is_left,  # noqa: F401
                           pool, ready, service_of, use)

if slurm.missing():
    pytest.skip(f"not here: {', '.join(slurm.missing())}", allow_module_level=True)


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
            assert "Slurm doesn't answer" in second.place().queue.note
            use(first)  # nobody needs Slurm for that
        finally:
            cluster.start_controller()
        service.said("slurm.answers")
        second.wait()
        use(second)
        assert len(cluster.jobs("RUNNING")) == 2
