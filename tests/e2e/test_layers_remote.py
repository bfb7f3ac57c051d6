"""`prony layers --server`: the same file and report as on this machine, whatever is interrupted or lost
on the way costs one layer, and neither side believes what the other says."""
import json
import os
import signal
import tempfile

import grpc
import jsonschema
import numpy as np
import onnx
import pytest

from conftest import ROOT
from fake_service import Fake, base, own
from profiling import Terminal
from service import Program, eventually, make_certificate, serving
from test_layers import functions
from test_layers_measure import AGAIN, QUICK, finish, load, measure, shapes

SCHEMA = json.loads((ROOT / "docs" / "prony.layer-profile.schema.json").read_text())
SLOW = ["--precision", "0.01%", "--launches", "40", "--max-time", "1"]


def ready(folder, **more):
    """A service whose worker has joined."""
    context = serving(folder, **more)
    service = context.__enter__()
    service.said("worker.joined")
    return context, service


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    context, service = ready(tmp_path_factory.mktemp("served"))
    yield service
    context.__exit__(None, None, None)


@pytest.fixture
def mlp(networks):
    """Four layers."""
    return networks.get("mlp", "--batch", "dynamic", "--layers", "3")


def free_again(service):
    """The session is over, and nothing of it is left."""
    eventually(lambda: not service.children("job") and not service.session_files(),
               "the session's processes and files are gone")
    with service.client() as client:
        assert not client.status().sessions


def assert_says_no_path(service, said):
    """Of the service's own: where the model lies is the user's to read."""
    assert str(service.folder) not in said and tempfile.gettempdir() not in said.replace(str(ROOT), "")


def test_with_tls_and_a_token(prony, mlp, workdir):
    certificate, key = make_certificate(workdir)
    with serving(workdir / "served", "--tls-cert", certificate, "--tls-key", key,
                 "--listen", "127.0.0.1:0") as service:
        service.said("worker.joined")
        (workdir / "token").write_text(service.token("ann"))
        (workdir / "token").chmod(0o600)
        server = ["--server", service.address, "--ca", certificate]
        refused = prony("layers", mlp, *QUICK, *server)
        assert refused.status and "token" in refused.stderr
        done = prony("layers", mlp, *QUICK, *server, "--token-file", workdir / "token")
        assert done.status == 0, done.stderr
        assert "layers 1 to 4 of 4" in done.stdout


# ---- The same as here ----

@pytest.mark.parametrize("options", [
    [], ["--cuts", "2", "-b", "3"], ["-l", "3", "-s", "200"], ["-l", "2", "-L", "3", "--seed", "7"],
    ["-s", "100", "-m", "some/name", "--max-cut-tensors", "1"], ["--dim", "batch=2"],
    ["-d", "cpu"], ["--backend", "local/onnxrt-cpu[threads=1]"], ["--backend", "openvino-cpu"],
], ids=" ".join)
def test_same_as_here(prony, served, mlp, workdir, options):
    here = measure(prony, mlp, *QUICK, *options, "-o", "here.yml")
    there = measure(prony, mlp, *QUICK, *options, "-o", "there.yml", "--server", served.address)
    jsonschema.validate(there, SCHEMA)
    files = load(workdir / "here.yml"), load(workdir / "there.yml")
    assert shapes(files[0]) == shapes(files[1])
    for results in files:
        del results["profile_data"]
    assert files[0] == files[1]
    for key in ("file", "model_name", "dtype", "batch_size", "layers", "backend", "runtime", "cpu"):
        assert here[key] == there[key], key
    assert [(r["layer"], r["measured"], r["samples"], r["launches"]) for r in there["profile_data"]] == [
        (r["layer"], True, 1, 1) for r in here["profile_data"]]
    assert bool(here["whole"]) == bool(there["whole"])
    if there["whole"]:
        assert not there["whole"]["outputs"]["mismatch"]
        assert there["whole"]["not_fused"]["samples"] > 0 and there["sum"]["time_s"] > 0
    free_again(served)


def test_files_of_the_model_and_its_inputs(prony, served, workdir):
    """External data goes up, and so does an input, whose values reach the layers."""
    path = workdir / "m.onnx"
    onnx.save(functions(), path, save_as_external_data=True, location="weights.bin", size_threshold=16)
    name, = [i.name for i in onnx.load(path).graph.input]
    shape = [d.dim_value or 2 for d in onnx.load(path).graph.input[0].type.tensor_type.shape.dim]
    np.save(workdir / "x.npy", np.ones(shape, np.float32))
    report = measure(prony, path, *QUICK, "-b", str(shape[0]), "--input", f"{name}=@x.npy", "--server",
                     served.address)
    assert report["file"] == str(path) and report["whole"]["outputs"]["mismatch"] is False


def test_hardware_with_a_name(prony, program, mlp, workdir, tmp_path_factory):
    """A worker that isn't the service's own fetches the model, and calls its machine by its name."""
    pools = "pools:\n  - name: r6i.large\n    software: [onnxrt-cpu]\n"
    with serving(tmp_path_factory.mktemp("named"), config=pools) as service:
        worker = Program([program, "worker", "--server", service.address, "--hardware", "r6i.large"],
                         env={"TMPDIR": str(workdir)})
        try:
            service.said("worker.joined")
            report = measure(prony, mlp, *QUICK, "--server", service.address)
            assert report["backend"] == "r6i.large/onnxrt-cpu" and len(report["profile_data"]) == 4
            done = prony("layers", mlp, *QUICK, "-o", "x.yml", "--server", service.address, "--backend",
                         "local/onnxrt-cpu")
            assert done.status == 1 and "has no backend 'local/onnxrt-cpu'" in done.stderr
        finally:
            worker.signal(signal.SIGTERM)
            worker.wait()
            worker.kill()
    assert [p.name for p in workdir.iterdir()] == ["profiler_results.yml"]


def test_all_formats(prony, served, mlp):
    for i, (form, words) in enumerate((("text", "layers 1 to 4 of 4"), ("md", "| Layer |"),
                                       ("csv", "4,"))):
        done = prony("layers", mlp, *QUICK, "--server", served.address, "-o", f"{i}.yml", "--format", form)
        assert (done.stderr, done.status) == ("", 0) and words in done.stdout


# ---- Interruptions ----

def goes_on(prony, mlp, workdir, service, run):
    """What a run left is valid, and a second one keeps it."""
    assert b"'profiler_results.yml' has 2 of 4 layers; run the same command with --resume to continue" \
        in run.shown
    before = load(workdir / "profiler_results.yml")
    assert [e["layer"] for e in before["profile_data"]] == [1, 2]
    done = prony("layers", mlp, *QUICK, "--server", service.address)
    assert done.status == 1 and "already has layer 1" in done.stderr
    report = measure(prony, mlp, *AGAIN, "--resume", "--server", service.address)
    after = load(workdir / "profiler_results.yml")
    assert after["profile_data"][:2] == before["profile_data"] and len(after["profile_data"]) == 4
    assert [r["measured"] for r in report["profile_data"]] == [False, False, True, True]
    assert report["whole"]["outputs"]["mismatch"] is False


def test_interrupted_run_goes_on(prony, program, served, mlp, workdir):
    run = Terminal(program, [mlp, *SLOW, "--server", served.address], command="layers", cwd=workdir)
    run.wait_for_progress(b"layer 3 of 4): measuring")
    run.process.send_signal(signal.SIGINT)
    assert finish(run) == 130
    free_again(served)
    goes_on(prony, mlp, workdir, served, run)


def test_interrupted_before_a_layer(program, served, mlp, workdir):
    run = Terminal(program, [mlp, *SLOW, "--server", served.address], command="layers", cwd=workdir)
    run.wait_for_progress(b"layer 1 of 4")
    run.process.send_signal(signal.SIGINT)
    assert finish(run) == 130
    assert b"interrupted before a layer was measured; nothing is written" in run.shown
    assert not list(workdir.iterdir())
    free_again(served)


def test_a_service_that_goes_away(prony, program, mlp, workdir, tmp_path_factory):
    context, service = ready(tmp_path_factory.mktemp("lost"))
    try:
        run = Terminal(program, [mlp, *SLOW, "--server", service.address], command="layers", cwd=workdir)
        run.wait_for_progress(b"layer 3 of 4): measuring")
        service.kill()
        assert finish(run) == 1 and run.shown.count(b"error") == 1
    finally:
        service.kill()
    with serving(tmp_path_factory.mktemp("back")) as service:
        service.said("worker.joined")
        goes_on(prony, mlp, workdir, service, run)


def test_a_job_that_dies(program, served, mlp, workdir):
    """The process that measures is killed: one line, and the host is there for the next."""
    run = Terminal(program, [mlp, *SLOW, "--server", served.address], command="layers", cwd=workdir)
    run.wait_for_progress(b"layer 3 of 4): measuring")
    job, = served.children("job")
    os.kill(job, signal.SIGKILL)
    assert finish(run) == 1
    assert b"the process that measures has died; 'profiler_results.yml' has 2 of 4 layers" in run.shown
    free_again(served)


# ---- What is refused ----

@pytest.mark.parametrize("options, words", [
    (["--ort-lib", "x.so"], "--ort-lib cannot be combined with --server"),
    (["--list"], "--server cannot be combined with --list"),
    (["--insecure", "--ca", "x.pem"], "--ca cannot be combined with --insecure"),
    (["-d", "tpu"], "-d 'tpu' is not cpu"),
    (["-L", "9"], "has 4 layers"),
])
def test_misuse(prony, served, mlp, workdir, options, words):
    done = prony("layers", mlp, "--server", served.address, *options)
    assert done.status == 2 and words in done.stderr and not done.stdout
    assert not list(workdir.iterdir())


@pytest.mark.parametrize("options, words", [
    (["--backend", "moon/onnxrt-cpu"], "has no backend 'moon/onnxrt-cpu'; it has local/onnxrt-cpu"),
    (["-d", "cuda"], "has no backend 'local/onnxrt-cuda'"),
    (["--backend", "local/onnxrt-cpu[wings=2]"], "no option 'wings'"),
    (["-l", "3", "-s", "201"], "-s '201': layer 3 takes"),
    (["-l", "3", "-s", "200", "-s", "200"], "-s is given 2 times, but layer 3 takes 1 tensor"),
    (["--input", "x=@gone.npy"], "cannot open 'gone.npy'"),
    (["--input", "other=ones"], "other"),
])
def test_what_the_service_cannot_do(prony, served, mlp, workdir, options, words):
    done = prony("layers", mlp, *QUICK, "--server", served.address, *options)
    assert done.status == 1 and words in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not done.stdout and not list(workdir.iterdir())
    assert_says_no_path(served, done.stderr)
    free_again(served)


def test_other_cuts_than_the_file_has(prony, served, mlp, workdir):
    """The host looks at the shapes of what the file has."""
    measure(prony, mlp, *QUICK, "-L", "2", "--server", served.address)
    path = workdir / "profiler_results.yml"
    path.write_text(path.read_text().replace("[200]", "[201]"))
    done = prony("layers", mlp, *QUICK, "--resume", "--server", served.address)
    assert done.status == 1 and "it has other shapes in 'profiler_results.yml'" in done.stderr


def test_a_model_that_the_runtime_refuses(prony, served, workdir):
    done = prony("layers", ROOT / "tests/data/custom.onnx", *QUICK, "--server", served.address)
    assert done.status == 1 and done.stderr.count("\n") == 1, done.stderr
    assert_says_no_path(served, done.stderr)
    assert not list(workdir.iterdir())
    free_again(served)


def test_nobody_is_there(prony, mlp, workdir):
    done = prony("layers", mlp, "--server", "127.0.0.1:1")
    assert done.status == 1 and "cannot reach '127.0.0.1:1'" in done.stderr
    assert not list(workdir.iterdir())


def test_hardware_must_be_named_where_there_are_several(prony, mlp, workdir):
    with Fake("a/onnxrt-cpu", "b/onnxrt-cpu", "c/openvino-cpu") as fake:
        done = prony("layers", mlp, "--server", fake.address)
        assert done.status == 2
        assert "has 'onnxrt-cpu' on a, b; name one with --backend HARDWARE/onnxrt-cpu" in done.stderr
        fake.measure = lambda request, context: context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
        for backend in ("b/onnxrt-cpu[threads=1]", "openvino-cpu[threads=1]"):
            done = prony("layers", mlp, "--server", fake.address, "--backend", backend)
            assert done.status == 1 and "gone" in done.stderr
        assert [(s.hardware_platform, s.software_backend) for s, in fake.specs.values()] == [
            ("b", "onnxrt-cpu"), ("c", "openvino-cpu")]


# ---- What a service says ----

LAYER = {"layer": 1, "time_s": 1e-3, "time_ci_s": None, "memory_mb": 1.5, "memory_fixed_mb": 1.0,
         "shape_in": [[100]],
         "shape_out": [[200]], "measured": True, "samples": 1, "launches": 1, "flags": []}
END = {"runtime": "Reference 1.0", "cpu": None, "whole": None}


def layer(**more):
    return own.MeasureEvent(host=0, checkpoint=json.dumps({**LAYER, **more}).encode())


def end(**more):
    return own.MeasureEvent(host=0, result=json.dumps({**END, **more}).encode())


ALL = [layer(layer=i) for i in (1, 2, 3, 4)]


def test_what_a_service_may_say(prony, mlp, workdir):
    with Fake() as fake:
        fake.measure = lambda _request, _context: iter([*ALL, end()])
        report = measure(prony, mlp, "--server", fake.address)
    assert [r["time_s"] for r in report["profile_data"]] == [1e-3] * 4
    assert report["backend"] == "metal/onnxrt-cpu" and report["runtime"] == "Reference 1.0"
    assert report["sum"]["time_s"] == 4e-3


WHOLE = {"not_fused": {"time_s": 1, "time_ci_s": None, "samples": 1, "launches": 1, "flags": []},
         "as_it_is": {"time_s": None, "time_ci_s": None, "samples": 1, "launches": 1, "flags": []},
         "fused_ratio": None, "outputs": {"mismatch": False, "difference": 0, "repeatability": 0}}


@pytest.mark.parametrize("events", [
    [layer(layer=5)], [layer(layer=0)], [layer(), layer()], [layer(time_s=-1)], [layer(time_s=None)],
    [layer(memory_mb="much")], [layer(shape_in=[[-1]])], [layer(shape_in=[[1 << 54]])],
    [layer(shape_in=[[1 << 30, 1 << 30]])], [layer(shape_out=[[1]] * 1025)],
    [layer(shape_out=[[1] * 65])], [layer(shape_in=7)], [layer(flags=["TIRED"])], [layer(samples=-1)],
    [own.MeasureEvent(host=0, checkpoint=b"{}")], [own.MeasureEvent(host=0, checkpoint=b"\xff")],
    [own.MeasureEvent(host=1, checkpoint=ALL[0].checkpoint)], [],
    [end()], [*ALL[:3], end()], [*ALL, own.MeasureEvent(host=0, result=b"[]")],
    [*ALL, end(runtime="\x1b[31mred")], [*ALL, end(cpu=7)], [*ALL, end(whole=WHOLE)],
    [*ALL, end(whole={})], [own.MeasureEvent(host=0, progress="[]")],
])
def test_nonsense(prony, mlp, workdir, events):
    with Fake() as fake:
        fake.measure = lambda _request, _context: iter(events)
        done = prony("layers", mlp, "--server", fake.address)
        assert done.status == 1 and not done.stdout and done.stderr.count("\n") == 1, done.stderr
        assert "\x1b" not in done.stderr and fake.closed.is_set()
    kept = sum(e in events for e in ALL)
    if kept:  # what came before is the user's
        assert len(load(workdir / "profiler_results.yml")["profile_data"]) == kept
        assert "with --resume to continue" in done.stderr
    else:
        assert not list(workdir.iterdir())


def test_an_error_of_the_host(prony, mlp, workdir):
    with Fake() as fake:
        fake.measure = lambda _request, _context: iter([*ALL[:2], own.MeasureEvent(
            host=0, error=base.ErrorValue(message="it melted", code=base.ERROR_INTERNAL))])
        done = prony("layers", mlp, "--server", fake.address)
    assert done.status == 1
    assert "it melted; 'profiler_results.yml' has 2 of 4 layers; run the same command" in done.stderr


# ---- What a client says ----

ORDER = {"cuts": None, "max_cut_tensors": 0, "batch_size": 0, "layers": 4, "layer_start": 1,
         "layer_end": 4, "results": "r.yml", "shape_input": [], "profile_data": []}
ENTRY = {k: LAYER[k] for k in ("layer", "time_s", "time_ci_s", "memory_mb",
                              "memory_fixed_mb", "shape_in", "shape_out")}


@pytest.mark.parametrize("order, words", [
    ("{", "not valid JSON"), ("[]", "order"), ({"layers": 5, "layer_end": 5}, "cut into 4 layers here, not 5"),
    ({"layers": 4097}, "layers is out of range"), ({"layer_start": 0}, "layer_start is out of range"),
    ({"layer_end": 5}, "layer_end is out of range"), ({"layer_start": 3, "layer_end": 2}, "layer_end"),
    ({"batch_size": -1}, "batch_size"), ({"batch_size": 1 << 40}, "batch_size"),
    ({"max_cut_tensors": -1}, "max_cut_tensors"), ({"cuts": "nosuchtensor"}, "nosuchtensor"),
    ({"cuts": "x" * 9000}, "cuts is too long"), ({"results": "\x1b[31m"}, "results is not a name"),
    ({"layer_start": 2, "shape_input": [[0] * 65]}, "shape_input"),
    ({"layer_start": 2, "shape_input": [[7]]}, "layer 2 takes"),
    ({"profile_data": [{**ENTRY, "layer": 9}]}, "out of range"),
    ({"profile_data": [ENTRY, ENTRY]}, "already has layer 1"),
    ({"profile_data": [{**ENTRY, "time_s": None}]}, "time_s is not a number"),
    ({"profile_data": [ENTRY] * 4097}, "profile_data"),
])
def test_orders_are_checked(served, mlp, order, words):
    text = order if isinstance(order, str) else json.dumps({**ORDER, **order})
    with served.client() as client:
        session = client.session()
        session.upload(mlp.read_bytes())
        last = session.measure(model_file="model.onnx", layers=text)[-1]
        assert words in last.error.message and not last.result, last
        assert str(served.folder) not in last.error.message
        session.close()


def test_orders_for_what_layers_have_not(served, mlp):
    with served.client() as client:
        for backends, more, words in (
                (["local/onnxrt-cpu", "local/onnxrt-cpu[threads=1]"], {}, "one backend, not on 2"),
                (["local/onnxrt-cpu"], {"ops": True}, "aren't for layers"),
                (["local/onnxrt-cpu"], {"inputs": ["x=@/etc/passwd"]}, "an input"),
                (["local/onnxrt-cpu"], {"timeout_s": -1}, "time limit")):
            session = client.session(*backends)
            session.upload(mlp.read_bytes())
            last = session.measure(model_file="model.onnx", layers=json.dumps(ORDER), **more)[-1]
            assert words in last.error.message, last
            session.close()
