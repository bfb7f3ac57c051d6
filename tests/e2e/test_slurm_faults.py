"""Hosts from Slurm: whatever happens to a job, a session gets an error or another host, and no job is left.
The cluster is a real one, on loopback."""
import concurrent.futures
import re

import pytest

import slurm
from conftest import PROGRAM, ROOT
from profiling import Terminal
from service import PATIENCE, eventually, free_port
from slurm_service import (BACKEND, ask, cluster, command_lines, denied, lost, note, nothing_is_left,  # noqa: F401
                           pool, ready, service_of, standing_in, use)

MLP = ROOT / "tests/data/mlp.onnx"

if slurm.missing():
    pytest.skip(f"not here: {', '.join(slurm.missing())}", allow_module_level=True)

ACCOUNTING = False


def test_an_operator_cancels_what_waits(cluster, tmp_path):
    other = cluster.occupy("-w", "n1", "--time=30")
    with service_of(cluster, tmp_path / "s", pool(hosts=1, options="[--nodelist=n1]")) as (service, client):
        session = ask(client)
        pending = eventually(lambda: cluster.jobs("PENDING"), "a job waits")[0]
        cluster.run("scancel", pending)
        service.said(f"slurm.failed .*job {pending} ended before its worker had joined: CANCELLED")
        cluster.run("scancel", other)
        session.wait()  # gets another one
        use(session)
        assert cluster.job("RUNNING") != pending


def jobs_and_nodes(cluster):
    return [(int(job), node) for job, node in
            (line.split() for line in cluster.run("squeue", "-h", "-o", "%i %N", "-S", "i").splitlines())]


def test_cancelling_preemption_and_requeue(cluster, tmp_path):
    """Slurm waits some seconds before it kills, so they happen at once."""
    with service_of(cluster, tmp_path / "s", pool(constraint="lab", hosts=3)) as (service, client):
        sessions = [ready(client) for _ in range(2)]
        for session in sessions:
            use(session)
        (preempted, node), (again, _) = jobs_and_nodes(cluster)
        person = Terminal(PROGRAM, [MLP, "--server", service.address, "-b", BACKEND, "--launches", "1",
                                    "--repeats", "10000000", "--max-time", "600"])
        person.wait_for_progress(b": measuring")
        cancelled, last = jobs_and_nodes(cluster)[2]
        # Who may, has Slurm run the job again: its key is used, so it can't come back.
        cluster.run("scontrol", "update", f"JobId={again}", "Requeue=1")
        cluster.run("scontrol", "requeue", again)
        cluster.run("scancel", cancelled)
        other = cluster.occupy("--partition=urgent", "-w", node, "--time=5")
        service.said(f"slurm.ended job={preempted} hardware=lab state=PREEMPTED")
        service.said(f"slurm.ended job={again}")
        service.said(f"slurm.ended job={cancelled} hardware=lab state=CANCELLED")
        for session in sessions:
            lost(session)
            session.close()
        assert person.process.wait(PATIENCE) == 1
        person.wait_for_progress(b"prony: error: the host was lost while it ran: "
                                 b"the worker of Slurm job %d on %s went away" % (cancelled, last.encode()))
        cluster.run("scancel", other)
        use(ready(client))
        assert not {preempted, again, cancelled} & set(cluster.jobs("RUNNING", "PENDING"))


def test_time_limit_and_node_failure(cluster, tmp_path):
    """Both take Slurm half a minute to find out, so they happen at once."""
    with service_of(cluster, tmp_path / "s", pool(time="10m", session="1s")) as (service, client):
        sessions = [ready(client) for _ in range(2)]
        for session in sessions:
            use(session)
        (timed, _), (failed, node) = jobs_and_nodes(cluster)
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
        eventually(lambda: not [line for line in command_lines() if "worker --join-file" in line], "it is gone")
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
        assert re.search(r"didn't join within 1 s; can it reach 127\.0\.0\.1:\d+\? What it said "
                         r"is in the pool's 'output'$", mute)
        assert "exit status 127" in note(client, "absent")
        submitted = [line for line in service.log if line and "slurm.submitted" in line]
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


# What a program of Slurm's does instead of its work is in a file.
UNRELIABLE = """case $(cat {mode}) in
nothing) ;;
nonsense) echo 'slurm is fine|thank you'; printf '\\377|||||||\\n' ;;
half) real "$@" | head -c 12 ;;
mute) real "$@" > {mode}.job; echo done ;;
late) until [ -e {mode}.go ]; do sleep 0.05; done; real "$@" ;;
fail) echo no >&2; exit 1 ;;
hang) : > {mode}.hangs; sleep 600 ;;
*) real "$@" ;;
esac"""


@pytest.fixture
def unreliable(tmp_path):
    """The environment of a service, and a function that tells a program what to do from now on."""
    def set_mode(program, mode):
        (tmp_path / program).write_text(mode)

    programs = "squeue", "sbatch", "scancel"
    for program in programs:
        set_mode(program, "work")
    return standing_in(tmp_path / "bin", **{p: UNRELIABLE.format(mode=tmp_path / p) for p in programs}), set_mode


def test_a_squeue_that_lists_nothing_costs_nobody_a_host(cluster, tmp_path, unreliable):
    env, set_mode = unreliable
    with service_of(cluster, tmp_path / "s", env=env) as (service, client):
        session = ready(client)
        use(session)
        job = cluster.job("RUNNING")
        for mode in ("nothing", "nonsense", "half"):
            at = len(service.log)
            set_mode("squeue", mode)
            service.said(f"slurm.odd job={job} error=\"squeue doesn't list it\"", after=at)
            use(session)
            at = len(service.log)
            set_mode("squeue", "work")
            service.said(f"slurm.state job={job} state=RUNNING", after=at)
        assert not [line for line in service.log if line and re.search("slurm.(ended|orphan|cancel|silent)", line)]
        # One that has ended is known to have, although squeue doesn't say so.
        session.close()
        set_mode("squeue", "nothing")
        cluster.run("scancel", job)
        service.said(f"slurm.ended job={job}")
        set_mode("squeue", "hang")
        use(ready(client))
        eventually((tmp_path / "squeue.hangs").exists, "squeue hangs")


def test_sbatch_and_scancel_that_do_something_else(cluster, tmp_path, unreliable):
    env, set_mode = unreliable
    with service_of(cluster, tmp_path / "s", env=env) as (service, client):
        # It submits a job, and doesn't say which.
        set_mode("sbatch", "mute")
        first = ask(client)
        service.said("slurm.failed .*'sbatch' doesn't say which job it submitted")
        orphan = int((tmp_path / "sbatch.job").read_text())
        service.said(f"slurm.orphan job={orphan}")
        set_mode("sbatch", "work")
        first.wait()
        use(first)
        job, = cluster.jobs("RUNNING")
        assert job != orphan
        # It takes its time, and nobody waits for it; who does in the end has left.
        set_mode("sbatch", "late")
        set_mode("scancel", "fail")
        second = ask(client)
        eventually(lambda: "a job is being submitted" in second.place().queue.note, "who waits is told")
        use(first)
        second.close()
        at = len(service.log)
        (tmp_path / "sbatch.go").touch()
        service.said("slurm.cancel error=\"'scancel' failed: no\"", after=at)
        # Its worker isn't wanted, and leaves by itself.
        eventually(lambda: cluster.jobs() == [job], "the other job is gone")
        set_mode("scancel", "work")
