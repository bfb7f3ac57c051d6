"""Hosts from Slurm: a real one, on loopback. What they are for, the service that comes and goes, its
configuration, the accounting. test_slurm_faults.py has what happens to jobs."""
import json
import os
import re
import shutil
import signal

import grpc
import pytest

import slurm
from conftest import PROGRAM, ROOT, run_program
from profiling import Terminal
from service import ORT, PATIENCE, base, eventually, free_port, make_certificate, own
from slurm_service import (BACKEND, again, ask, cluster, command_lines, config, dying_service,  # noqa: F401
                           environment_of_worker, key_of, note, nothing_is_left, pool, ready, service_of,
                           standing_in, use)
from test_simulate import mlp, plan  # noqa: F401 (fixtures)

MLP = ROOT / "tests/data/mlp.onnx"

if slurm.missing():
    pytest.skip(f"not here: {', '.join(slurm.missing())}", allow_module_level=True)


# ---- What it is for ----

def test_a_host_comes_serves_and_leaves(cluster, tmp_path):
    seen = tmp_path / "seen"  # what anybody sees of sbatch while it runs
    env = standing_in(tmp_path / "bin", sbatch=f"""cat /proc/$$/cmdline /proc/$$/environ >> {seen}
real "$@" """)
    with service_of(cluster, tmp_path / "s", pool(idle="1s"), env=env) as (service, client):
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
        assert not [line for line in command_lines() if key in line]
        for said in (shown, cluster.run("scontrol", "-dd", "show", "job", job), seen.read_text(),
                     *(cluster.log(name) for name in cluster.processes)):
            assert key not in said
        assert "--job-name=prony-lab-" in seen.read_text()
        service.secrets.append(key)
        worker, = client.status().workers
        assert worker.state == "held" and f"Slurm job {job} RUNNING on n" in worker.note
        first.close()
        use(ready(client))  # the same host, at once
        assert cluster.jobs() == [job]
    # The service ended, and its job with it.


def test_a_job_is_as_the_pool_says(cluster, tmp_path):
    output = tmp_path / "worker-%j.log"
    wanted = pool(partition="urgent", constraint="'slow&lab'", gres="accel:toy:1", account="bench",
                  qos="normal", time="17m", options="[--nice=7, --mem=1]", output=output,
                  environment=f"{{PRONY_ORT_LIB: '{ORT}', SITE: it's $HOME}}")
    env = {"PRONY_TOKEN": "of the service", "SBATCH_PARTITION": "bench", "SBATCH_QOS": "brief"}
    with service_of(cluster, tmp_path / "s", wanted, env=env) as (service, client):
        use(ready(client))
        job = cluster.job("RUNNING")
        shown = cluster.run("scontrol", "show", "job", job)
        for text in ("Partition=urgent", "Features=slow&lab", "TresPerNode=gres:accel:toy:1",
                     "Account=bench", "QOS=normal", "TimeLimit=00:17:00", "Nice=7", "MinMemoryNode=1M",
                     "NumNodes=1 ", "NodeList=n3", f"StdOut={tmp_path}/worker-{job}.log"):
            assert text in shown, shown
        assert "worker.attached" in (tmp_path / f"worker-{job}.log").read_text()
        inside = environment_of_worker(job)
        assert inside["SITE"] == "it's $HOME" and inside["PRONY_ORT_LIB"] == str(ORT)
        assert not {"PRONY_TOKEN", "SBATCH_PARTITION", "SBATCH_QOS"} & set(inside)


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
        assert not sessions[2].place().ready and len(cluster.jobs()) == 2
        jobs = cluster.jobs()
        sessions[0].close()
        sessions[2].wait()
        assert cluster.jobs() == jobs
        assert len([line for line in service.log if line and "slurm.submitted" in line]) == 2
        use(sessions[1])
        use(sessions[2])


def test_a_worker_joins_before_the_next_look(cluster, tmp_path):
    """To the service its job still waits then, and has a key that was used like one that is run again."""
    other = cluster.occupy("-w", "n1", "--time=30")
    with service_of(cluster, tmp_path / "s", pool(poll="20s", options="[--nodelist=n1]")) as (service, client):
        session = ask(client)
        job = cluster.job("PENDING")
        service.said(f"slurm.state job={job} state=PENDING")
        cluster.run("scancel", other)
        session.wait()
        use(session)
        assert cluster.jobs() == [job]
        # Once it is there, people are told where, without waiting for the next look either.
        eventually(lambda: re.fullmatch(rf"Slurm job {job} RUNNING on n1 until \S+Z",
                                        client.status().workers[0].note), "where it runs")


def test_who_waits_sees_what_slurm_says(cluster, tmp_path):
    others = [cluster.occupy("-w", name, "--time=30") for name in ("n1", "n2")]
    with service_of(cluster, tmp_path / "s") as (service, client):
        person = Terminal(PROGRAM, [MLP, "--server", service.address, "-b", BACKEND])
        person.wait_for_progress(b"waiting for lab: place 1 in the queue")
        second = ask(client)
        eventually(lambda: len(cluster.jobs("PENDING")) == 2, "two jobs wait")
        kept, surplus = cluster.jobs("PENDING")
        expected = rf"Slurm: job {kept} PENDING \((Resources|Priority)\), expected to start 20\d\d-\S+Z"
        eventually(lambda: [s for s in client.status().sessions if re.fullmatch(expected, s.note)],
                   "the reason")
        eventually(lambda: f"job {surplus} PENDING" in note(client), "the other one's")
        assert f"job {surplus} PENDING" in second.place().queue.note and f"job {kept} PENDING" in note(client)
        shown = run_program([PROGRAM, "status", "--server", service.address]).stdout
        assert f"Slurm: job {kept} PENDING" in shown
        narrow = run_program([PROGRAM, "status", "--server", service.address],
                             env={**os.environ, "COLUMNS": "120"}).stdout
        assert max(map(len, narrow.splitlines())) <= 120 and "expected to start" in " ".join(narrow.split())
        person.wait_for_progress(b"PENDING (")
        person.wait_for_progress(b"expected to start 20")
        # One leaves: a job that nobody needs is cancelled, the other stays.
        person.process.send_signal(signal.SIGINT)
        assert person.process.wait(PATIENCE) == 130
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


# ---- The service goes and comes ----

def test_a_restart_adopts_its_workers(cluster, tmp_path):
    port = free_port()
    with dying_service(cluster, tmp_path / "s", port=port) as (service, client):
        session = client.session(BACKEND)
        use(session)
        job = cluster.job("RUNNING")
        name = cluster.run("squeue", "-h", "-j", job, "-o", "%j").strip()
        service.said(f"slurm.joined job={job}")
        # An orphan: a job of the service's of which it doesn't know.
        orphan = cluster.occupy(f"--job-name={name}", "-C", "slow")
        service.said(f"slurm.orphan job={orphan}")
        eventually(lambda: cluster.jobs() == [job], "it is cancelled")
    orphan = cluster.occupy(f"--job-name={name}", "-C", "slow", "--time=5")
    with service_of(cluster, tmp_path / "s", port=port) as (service, client):
        service.said(f"slurm.adopted job={job}")
        service.said(f"slurm.joined job={job}")
        session = again(client, session)
        session.wait()
        use(session)
        assert not [line for line in service.log if line and "slurm.submitted" in line]
        eventually(lambda: cluster.jobs() == [job], "the orphan is cancelled")


def test_stages_of_a_pipeline_are_on_its_hosts(cluster, tmp_path, prony, plan, mlp):
    plan(mlp, hosts=2)
    with service_of(cluster, tmp_path / "s", pool("t", hosts=2)) as (service, _):
        done = prony("schedule", "-m", "m", "-b", "2", "--run", mlp, "--server", service.address,
                     "--launches", "1", "--duration", "0.05", "--format", "json")
        assert done.status == 0, done
        simulation = json.loads(done.stdout)["simulation"]
        assert len(simulation["stages"]) == 2 and not simulation["outputs"][0]["differs"]
        assert len([line for line in service.log if line and "slurm.joined" in line]) == 2


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
        assert not [line for line in service.log if line and key in line]


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
    ({"partition": "short"}, 10, "'time': the partition allows no jobs of 10 min"),
    ({"partition": "short", "time": None}, 3, "'time': the partition allows no jobs of 60 min"),
    ({"partition": "closed"}, 12, "'partition': Slurm takes no jobs of the pool 'lab': 'sbatch' failed: "),
    ({"constraint": "slow", "gres": "accel:toy:9"}, 12, "'gres': Slurm takes no jobs of the pool 'lab'"),
    ({"constraint": "fast&slow"}, 6, "'constraint': Slurm takes no jobs of the pool 'lab'"),
    ({"constraint": "'fast&&('"}, 6, "'constraint': Slurm takes no jobs of the pool 'lab'"),
    ({"options": "[--nodlist=n1]"}, 12, "'options': Slurm takes no jobs of the pool 'lab': 'sbatch' "
                                        "failed: unrecognized option '--nodlist=n1'"),
    ({"options": "[--nodelist=n9]"}, 12, "'options': Slurm takes no jobs of the pool 'lab'"),
    ({"partition": "closed", "options": "[--nodelist=n1]"}, 12, "'partition': Slurm takes no jobs"),
    ({"account": "nobody"}, 12, "'account': Slurm takes no jobs of the pool 'lab': 'sbatch' failed: "),
    ({"account": "theirs"}, 12, "Invalid account or account/partition combination specified"),
    ({"account": "locked"}, 12, "'account': Slurm takes no jobs of the pool 'lab': 'sbatch' failed: "
                                "AssocMaxSubmitJobLimit: "),
    ({"qos": "platinum"}, 12, "'qos': Slurm takes no jobs of the pool 'lab': 'sbatch' failed: "),
    ({"qos": "gold"}, 12, "Invalid qos specification"),
    ({"qos": "brief"}, 12, "'qos': Slurm takes no jobs of the pool 'lab': 'sbatch' failed: "
                           "QOSMaxWallDurationPerJobLimit: "),
    ({"options": "[--export=NONE]"}, 12, "'options': --export is prony's to set"),
    ({"session": "20m"}, 12, "'session': longer than 'time'"),
])
def test_what_the_cluster_doesnt_have(cluster, prony, workdir, keys, line, text):
    (workdir / "serve.yml").write_text(config(pool(**keys)))
    done = prony("serve", "--config", "serve.yml", "--state", workdir / "state", env=cluster.env)
    assert done.status == 2 or done.status == 1
    assert f"'serve.yml', line {line}: " in done.stderr and text in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_an_account_that_may_have_one_job(cluster, tmp_path):
    """Slurm refuses a second one. Who waits is told and gets the first one's host, or the next one's."""
    port, few = free_port(), pool(account="few", hosts=2)
    with dying_service(cluster, tmp_path / "s", few, port=port) as (service, client):
        first = client.session(BACKEND)
        job = cluster.job("RUNNING")
        second = ask(client)
        service.said("slurm.full hardware=lab .*AssocMaxSubmitJobLimit")
        assert "AssocMaxSubmitJobLimit" in second.place().queue.note
        assert "AssocMaxSubmitJobLimit" in note(client)
        first.close()
        second.wait()
        use(second)
        eventually(lambda: "Limit" not in note(client), "nobody waits any more")
        before = len(service.log)
        third = ask(client)
        service.said("slurm.full", after=before)
        cluster.run("scancel", job)
        third.wait()
        use(third)
        kept = cluster.job("RUNNING")
        service.said(f"slurm.joined job={kept}")
        assert kept != job and not [line for line in service.log if line and "slurm.failed" in line]
        second.close()
        third.close()
    # As many jobs as there may be are no reason not to start again.
    with service_of(cluster, tmp_path / "s", few, port=port) as (service, client):
        service.said(f"slurm.joined job={kept}")
        use(ready(client))
        assert cluster.jobs() == [kept]


# ---- Accounting ----

def test_accounting_remembers_what_the_controller_forgot(cluster, tmp_path):
    other = cluster.occupy("-w", "n1", "--time=30")
    first = pool(options="[--nodelist=n1]", hosts=1)
    with dying_service(cluster, tmp_path / "s", first) as (service, client):
        session = ask(client)
        service.said("slurm.state .*state=PENDING")
        job, = cluster.jobs("PENDING")
    cluster.run("scancel", job, other)
    ended = ("sacct", "-n", "-P", "-X", "-j", job, "--format=State")
    eventually(lambda: cluster.run(*ended).startswith("CANCELLED"), "the accounting has heard of it")
    cluster.forget()
    with service_of(cluster, tmp_path / "s", first) as (service, client):
        again(client, session)
        service.said(f"slurm.failed .*job {job} ended before its worker had joined: CANCELLED")


def test_accounting_that_is_away(cluster, tmp_path):
    cluster.kill("slurmdbd")
    try:
        with service_of(cluster, tmp_path / "s", pool(account="bench")) as (service, client):
            use(ready(client))
    finally:
        cluster.start_accounting()


def test_no_accounting(tmp_path):
    """Any account will do then, and the controller alone knows how a job ended."""
    (tmp_path / "slurm").mkdir()
    with slurm.cluster(tmp_path / "slurm", accounting=False) as plain:
        keys = {"account": "nobody", "program": "/nonexistent/prony"}
        with service_of(plain, tmp_path / "s", pool(**keys)) as (service, client):
            ask(client)
            service.said("slurm.failed .*FAILED, exit status 127: is prony on n")


def test_the_example_of_the_page(cluster, prony, workdir):
    """docs/cluster.md shows a configuration, and what is said where the cluster is another."""
    page = (ROOT / "docs/cluster.md").read_text()
    text = re.search(r"```yaml\n(.*?)```", page, re.DOTALL).group(1)
    text = text.replace("/shared/prony/cert.pem", str(workdir / "cert.pem"))
    added = re.search(r"^\$ echo '(.*)' >> serve.yml$", page, re.MULTILINE).group(1)
    said = re.findall(r"^prony: error: 'serve.yml', .*$", page, re.MULTILINE)
    make_certificate(workdir)
    for example, error in zip((text, text.replace("epyc", "fast") + added), said, strict=True):
        (workdir / "serve.yml").write_text(example)
        done = prony("serve", "--config", "serve.yml", "--state", workdir / "state", env=cluster.env)
        assert done.stderr == f"{error}\n"


def test_programs_that_arent_there_or_talk_nonsense(cluster, prony, workdir):
    (workdir / "serve.yml").write_text(config())
    serve = ("serve", "--config", "serve.yml", "--state", workdir / "state")
    done = prony(*serve, env={**cluster.env, "PATH": str(workdir)})
    assert done.status and "there is no program 'sinfo': is Slurm installed here?" in done.stderr
    for program in ("sinfo", "sbatch", "squeue", "scancel"):
        (workdir / "some").mkdir(exist_ok=True)
        (workdir / "some" / program).symlink_to(shutil.which(program))
        done = prony(*serve, env={**cluster.env, "PATH": str(workdir / "some")})
        missing = {"sinfo": "sbatch", "sbatch": "squeue", "squeue": "scancel", "scancel": "scontrol"}[program]
        assert done.status and done.stderr == (
            f"prony: error: 'serve.yml', line 3: 'type': the pool 'lab' needs Slurm: there is no program "
            f"'{missing}': is Slurm installed here?\n")
    fake = workdir / "sinfo"
    for script, text in (("head -c 20000000 /dev/zero", "printed more than 8388608 bytes"),
                         ("printf 'x|y\\n\\377|||\\n*|||\\n'", "no default partition"),
                         ("echo 'sinfo: error: no /etc/slurm here' >&2; exit 3", "failed: no ... here")):
        fake.write_text(f"#!/bin/sh\n{script}\n")
        fake.chmod(0o755)
        done = prony(*serve, env={**cluster.env, "PATH": f"{workdir}:{os.environ['PATH']}"})
        assert done.status and text in done.stderr and len(done.stderr.splitlines()) == 1
