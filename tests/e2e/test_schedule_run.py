"""`prony schedule --run`: a schedule's stages on the hosts of a service, with tensors from worker to
worker. All of them are on this machine here, which prony doesn't know."""
import contextlib
import csv
import io
import json
import os
import signal
import socket
import subprocess

import grpc
import jsonschema
import pytest

from conftest import PATIENCE, PROGRAM, ROOT
from profiling import executors, wait_for
from protos import own as pb
from schema import described, keys
from service import Program, eventually, free_port, make_certificate, processes_of, serving
from test_simulate import branching, mlp, plan, scratch  # noqa: F401 (fixtures)

POOLS = "pools:\n  - {name: t}\n"
QUICK = ["--launches", "2", "--duration", "0.05"]


def join(service, *options, server=None):
    return Program([PROGRAM, "worker", "--server", server or service.address, "--hardware", "t", *options])


@contextlib.contextmanager
def hosts(folder, n, *options, config=POOLS, worker=(), own=0, **more):
    """A service with n workers of hardware "t" that joined it, beside its own."""
    with serving(folder, *options, config=config, **more) as service:
        workers = [join(service, *worker) for _ in range(n)]
        try:
            eventually(lambda: sum("worker.joined" in str(line) for line in service.log) >= n + own,
                       "all workers have joined")
            yield service, workers
        finally:
            for w in workers:
                w.kill()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with hosts(tmp_path_factory.mktemp("served"), 3) as found:
        yield found


@pytest.fixture
def run(prony, scratch):  # noqa: F811
    def call(service, model, *arguments, batch=2, **options):
        return prony("schedule", "-m", "m", "-b", str(batch), "--run", model, "--server", service.address,
                     *QUICK, *arguments, env={"TMPDIR": str(scratch)}, timeout=120, **options)
    return call


@pytest.fixture
def ran(run):
    """The JSON of a run that must succeed."""
    def call(*arguments, **options):
        done = run(*arguments, "--format", "json", **options)
        assert (done.stderr, done.status) == ("", 0)
        return json.loads(done.stdout)
    return call


def start(service, model, workdir, *arguments):
    """A run that won't end by itself."""
    return subprocess.Popen(
        [PROGRAM, "schedule", "-m", "m", "-b", "2", "--run", model, "--server", service.address,
         "--duration", "600", *arguments], cwd=workdir, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, text=True)


def all_at_work(workers):
    """Each has a stage whose executor is there."""
    wait_for(lambda: all(executors(w.pid) for w in workers), "a stage on every host")


def all_free(service, workers, **client):
    """Nothing of the session is left anywhere."""
    eventually(lambda: not any({"job", "executor"} & set(processes_of(w.pid).values()) for w in workers),
               "no process of a stage is left")
    eventually(lambda: not service.session_files(), "no file of the session is left")
    with service.client(**client) as asked:
        eventually(lambda: not asked.status().sessions, "the session is over")


def test_stages_pass_tensors_and_give_what_the_model_gives(plan, ran, mlp, served):  # noqa: F811
    service, workers = served
    plan(mlp, hosts=3)
    report = ran(service, mlp)
    schema = json.loads((ROOT / "docs" / "prony.schedule.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(report)
    s = report["simulation"]
    assert set(keys(s)) == set(described(schema["$defs"]["Simulation"], schema))
    assert s["server"] == service.address and s["runtime"].startswith("ONNX Runtime")
    assert [o["differs"] for o in s["outputs"]] == [False] and s["outputs"][0]["max_rel"] < 1e-5
    assert s["launches"] == 2 and s["batches"] >= 20 and s["lone_batches"] >= 6
    assert [stage["host"] for stage in s["stages"]] == [socket.gethostname()] * 3
    for stage in s["stages"]:
        assert 0 < stage["alone_s"] < 10 and 0 < stage["together_s"] < 10 and 0 < stage["busy"] <= 1
        assert stage["memory_bytes"] > 0
    for stage, planned in zip(s["stages"], report["stages"]):
        link = stage["link"]
        assert (link and link["bytes"]) == (planned["link"] and planned["link"]["bytes"])
        if link:
            assert link["mbps"] == pytest.approx(link["bytes"] * 8 / 2 ** 20 / link["time_s"])
    spans = [stage["alone_s"] + stage["alone_handling_s"] for stage in s["stages"]]
    links = [stage["link"]["time_s"] for stage in s["stages"][:-1]]
    assert s["expected_latency_s"] == pytest.approx(sum(spans) + sum(links))
    assert s["throughput_per_s"] == pytest.approx(2 / s["period_s"])
    assert s["full_latency_s"] >= s["period_s"] > 0 and s["latency_s"] > 0
    assert report["answer"].startswith(f"Measured on hosts of {service.address}: ")
    all_free(service, workers)


@pytest.mark.parametrize("buffers", [["-i", "0", "-o", "0"], ["-i", "7", "-o", "1"]], ids=" ".join)
def test_any_number_of_buffers(plan, ran, mlp, served, buffers):  # noqa: F811
    plan(mlp, hosts=2)
    assert not ran(served[0], mlp, *buffers, "--launches", "1")["simulation"]["outputs"][0]["differs"]


def test_one_stage(plan, ran, mlp, served):  # noqa: F811
    plan(mlp, hosts=1)
    s = ran(served[0], mlp, "--launches", "1")["simulation"]
    assert len(s["stages"]) == 1 and s["stages"][0]["link"] is None and not s["outputs"][0]["differs"]


def test_outputs_of_every_stage_come_back(plan, ran, workdir, served):  # noqa: F811
    """And several tensors pass, of several types, of which one skips a stage."""
    model = branching(workdir / "branching.onnx")
    plan(model, hosts=3, cuts=["--max-cut-tensors", "3"])
    s = ran(served[0], model, "--max-cut-tensors", "3")["simulation"]
    assert sorted(o["name"] for o in s["outputs"]) == ["early", "last", "middle"]
    assert not any(o["differs"] for o in s["outputs"])


def test_text_and_csv(plan, run, mlp, served):  # noqa: F811
    plan(mlp, hosts=2)
    done = run(served[0], mlp, "--explain")
    assert (done.stderr, done.status) == ("", 0)
    for text in ("Predicted against measured", "host-0 to host-1", "expected ", "measured ",
                 "Measured stage times are the hosts'", "over TLS, to the receipt", "the whole model's"):
        assert text in done.stdout.replace("\n  ", " "), text
    assert "here" not in done.stdout
    done = run(served[0], mlp, "--format", "csv", "--launches", "1")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["ran_on"] for row in rows] == [socket.gethostname()] * 2
    assert float(rows[0]["measured_link_mbps"]) > 0 and not rows[1]["measured_link_mbps"]


def test_openvino_on_the_hosts(plan, ran, mlp, served):  # noqa: F811
    plan(mlp, hosts=2)
    s = ran(served[0], mlp, "--backend", "openvino-cpu[threads=1]", "--launches", "1")["simulation"]
    assert s["runtime"].startswith("OpenVINO")


def test_two_runs_at_once_take_turns(plan, workdir, mlp, served):  # noqa: F811
    """Each needs two of three hosts: neither may hold one and wait for another for ever."""
    service, workers = served
    plan(mlp, hosts=2)
    command = [PROGRAM, "schedule", "-m", "m", "-b", "2", "--run", mlp, "--server", service.address, *QUICK]
    runs = [subprocess.Popen(command, cwd=workdir, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             text=True) for _ in range(3)]
    assert [(r.communicate(timeout=PATIENCE)[1], r.returncode) for r in runs] == [("", 0)] * 3
    all_free(service, workers)


def test_with_tls_tokens_and_workers_of_the_service(plan, run, workdir, mlp):  # noqa: F811
    """Two workers are the service's own, one has joined with a token."""
    certificate, key = make_certificate(workdir)
    config = "pools:\n  - {name: t, count: 2}\n"
    with serving(workdir / "served", "--tls-cert", certificate, "--tls-key", key, "--listen", "127.0.0.1:0",
                 config=config) as service:
        (workdir / "worker.token").write_text(service.token("w", "--worker"))
        token = service.token("ann")
        (workdir / "token").write_text(token)
        (workdir / "token").chmod(0o600)
        worker = join(service, "--ca", certificate, "--token-file", workdir / "worker.token")
        try:
            eventually(lambda: sum("worker.joined" in str(line) for line in service.log) == 3, "three hosts")
            plan(mlp, hosts=3)
            refused = run(service, mlp, "--ca", certificate)
            assert refused.status and "token" in refused.stderr
            done = run(service, mlp, "--ca", certificate, "--token-file", workdir / "token", "--format", "json")
            assert done.status == 0, done.stderr
            assert not json.loads(done.stdout)["simulation"]["outputs"][0]["differs"]
            all_free(service, [service, worker], token=token, ca=certificate)
        finally:
            worker.kill()


def test_strangers_get_nowhere(plan, ran, workdir, mlp):  # noqa: F811
    """One says nothing, one says something else; both are there before the stages are."""
    port = free_port()
    with hosts(workdir / "served", 1) as (service, _):
        worker = join(service, "--peers", f"127.0.0.1:{port}")
        try:
            eventually(lambda: sum("worker.joined" in str(line) for line in service.log) == 2, "two hosts")
            with socket.create_connection(("127.0.0.1", port)), \
                    socket.create_connection(("127.0.0.1", port)) as loud:
                loud.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
                plan(mlp, hosts=2)
                s = ran(service, mlp, "--launches", "1")["simulation"]
                assert not s["outputs"][0]["differs"]
        finally:
            worker.kill()


# ---- What goes wrong ----

def test_a_worker_that_is_killed(plan, ran, workdir, mlp):  # noqa: F811
    with hosts(workdir / "served", 3) as (service, workers):
        plan(mlp, hosts=3)
        process = start(service, mlp, workdir)
        all_at_work(workers)
        workers[0].kill()
        out, said = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out) == (1, "") and said.count("\n") == 1
        assert said.startswith("prony: error: stage ") and "the host was lost" in said
        all_free(service, workers[1:])
        plan(mlp, hosts=2)
        assert not ran(service, mlp, "--launches", "1")["simulation"]["outputs"][0]["differs"]


def test_a_stage_that_crashes(plan, workdir, mlp, served):  # noqa: F811
    service, workers = served
    plan(mlp, hosts=3)
    process = start(service, mlp, workdir)
    all_at_work(workers)
    with contextlib.suppress(ProcessLookupError):
        os.kill(max(executors(workers[1].pid)), signal.SIGSEGV)
    out, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (1, "") and said.count("\n") == 1, said
    assert said.startswith("prony: error: stage ") and "another stage" not in said
    all_free(service, workers)


def test_a_model_that_a_host_refuses(plan, run, workdir, mlp, served):  # noqa: F811
    """Of the options of its runtime one is for the machine's owner alone."""
    plan(mlp, hosts=2)
    done = run(served[0], mlp, "--backend", "onnxrt-cpu[lib=/tmp/x.so]")
    assert done.status and done.stderr.count("\n") == 1 and "lib" in done.stderr
    all_free(*served)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(plan, workdir, mlp, served, number):  # noqa: F811
    service, workers = served
    plan(mlp, hosts=3)
    process = start(service, mlp, workdir)
    all_at_work(workers)
    process.send_signal(number)
    out, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (130, "")
    assert said == f"prony: error: interrupted while the stages ran on '{service.address}'\n"
    all_free(service, workers)


def test_the_client_is_killed(plan, workdir, mlp, served):  # noqa: F811
    service, workers = served
    plan(mlp, hosts=3)
    process = start(service, mlp, workdir)
    all_at_work(workers)
    process.kill()
    process.communicate()
    eventually(lambda: not any(executors(w.pid) for w in workers), "no stage is left")


def test_hosts_that_are_missing(plan, run, workdir, mlp, served):  # noqa: F811
    service, _ = served
    plan(mlp, hosts=6)
    done = run(service, mlp)
    assert done.status == 1 and done.stderr == (
        f"prony: error: '{service.address}': more than 3 hosts of 't' were requested; there are only that many\n")
    types = (workdir / "device_types.yml")
    types.write_text(types.read_text().replace("t:\n", "u:\n", 1))
    (workdir / "devices.yml").write_text("u: [a, b]\n")
    done = run(service, mlp)
    assert done.status and f"'{service.address}' has no backend 'u/onnxrt-cpu'; it has " in done.stderr


def test_hosts_that_others_cannot_reach(plan, run, workdir, mlp):  # noqa: F811
    with hosts(workdir / "served", 2, worker=["--peers", "none"]) as (service, _):
        plan(mlp, hosts=2)
        done = run(service, mlp)
        assert done.status == 1 and done.stderr == (
            "prony: error: the host of stage 1, 't', cannot be reached by others: start its worker with --peers\n")
    bad = join(service, "--peers", "300.1.1.1:x")
    assert bad.wait() and any("--peers" in str(line) for line in bad.log)


def test_a_pipeline_needs_hosts_of_its_own(served):
    """From whoever speaks the protocol."""
    service, workers = served
    with service.client() as client:
        session = client.session("t/onnxrt-cpu", "t/onnxrt-cpu[threads=1]")
        session.upload(b"nonsense")
        order = pb.Pipeline(stages=[pb.Stage(label="a", results=True)] * 2, buffers_in=1, buffers_out=1,
                            duration_s=1)
        request = pb.MeasureRequest(session_uuid=session.uuid, model_id=1, model_file="model.onnx",
                                    pipeline=order)
        code, text = client.refused("Measure", request)
        assert code == grpc.StatusCode.INVALID_ARGUMENT and "host of its own" in text
        session.close()
        session = client.session("t/onnxrt-cpu", "t/onnxrt-cpu", own_hosts=True)
        session.upload(b"nonsense")
        for change in ({}, {"buffers_in": 2 ** 40}, {"duration_s": float("nan")}):
            for key, value in change.items():
                setattr(order, key, value)
            request.pipeline.CopyFrom(order)
            request.session_uuid = session.uuid
            events = list(client.start("Measure", request))
            assert any(event.HasField("error") for event in events)
        session.close()
    all_free(service, workers)
