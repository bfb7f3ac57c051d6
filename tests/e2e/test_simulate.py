"""`prony schedule --simulate`: a schedule's stages as processes of this machine."""
import csv
import io
import json
import os
import pathlib
import signal
import subprocess

import jsonschema
import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from conftest import PATIENCE, ROOT
from profiling import FAULT_ENV, executors, fault, parent, save, wait_for
from schema import described, keys

RANDOM = np.random.default_rng(3)
QUICK = ["--launches", "2", "--duration", "0.05"]


@pytest.fixture
def scratch(workdir):
    """A TMPDIR of the test's own; nothing may be left in it."""
    folder = workdir / "scratch"
    folder.mkdir()
    yield folder
    assert not list(folder.iterdir())


@pytest.fixture
def plan(prony, workdir):
    """Writes the files of a schedule for a model, with layers of equal predicted times."""

    def write(model, hosts, batch=2, cuts=(), dtype="torch.float32", time=0.001, mbps=100000,
              layers=None, **changes):
        done = prony("layers", model, "--list", "-b", str(batch), "--format", "json", *cuts)
        assert done.status == 0, done.stderr
        found = json.loads(done.stdout)["layers"]
        outs = [sum(t["elements"] for t in (layer["out"] or layer["results"])) // batch
                for layer in found]
        n = layers or len(found)
        outs = (outs * n)[:n]
        files = {
            "models": {"m": {"layers": n, "mem_MB": [1.0] * n, "parameters_in": 1,
                             "parameters_out": outs, **changes}},
            "device_types": {"t": {"bw_Mbps": mbps, "mem_MB": 100000, "model_profiles": {"m": [
                {"batch_size": batch, "dtype": dtype, "time_s": [time] * n,
                 "time_ci_s": [time / 100] * n}]}}},
            "devices": {"t": [f"host-{i}" for i in range(hosts)]}}
        for name, data in files.items():
            (workdir / f"{name}.yml").write_text(yaml.safe_dump(data))
        return n

    return write


@pytest.fixture
def simulate(prony, scratch):
    def call(model, *arguments, batch=2, env=None, **options):
        return prony("schedule", "-m", "m", "-b", str(batch), "--simulate", model, *QUICK,
                     *arguments, env={"TMPDIR": str(scratch), **(env or {})}, **options)
    return call


@pytest.fixture
def simulated(simulate):
    """The JSON of a simulation that must succeed."""
    def call(model, *arguments, **options):
        done = simulate(model, *arguments, "--format", "json", **options)
        assert done.status == 0, done.stderr
        return json.loads(done.stdout)
    return call


@pytest.fixture
def mlp(networks):
    return networks.get("mlp", "--layers", "5", "--batch", "dynamic")


def test_stages_work_and_give_what_the_model_gives(plan, simulated, mlp):
    plan(mlp, hosts=3)
    report = simulated(mlp)
    schema = json.loads((ROOT / "docs" / "prony.schedule.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(report)
    s = report["simulation"]
    assert set(keys(s)) == set(described(schema["$defs"]["Simulation"], schema))
    assert len(report["stages"]) == len(s["stages"]) == 3
    assert s["runtime"].startswith("ONNX Runtime") and s["backend"] == "local/onnxrt-cpu"
    assert [o["differs"] for o in s["outputs"]] == [False]
    assert s["outputs"][0]["max_rel"] < 1e-5
    assert s["launches"] == 2 and s["batches"] >= 20 and s["lone_batches"] >= 6
    cores = len(os.sched_getaffinity(0))
    assert s["cores"] == cores and s["pinned"] == (cores >= 3)
    for stage in s["stages"]:
        assert stage["cores"] == cores // 3
        assert 0 < stage["alone_s"] < 1 and 0 < stage["together_s"] < 1 and stage["busy"] <= 1
        assert stage["alone_ci_s"] is None and stage["together_ci_s"] is None  # of two launches
    predicted = [stage["time_s"] for stage in report["stages"]]
    assert [stage["alone_to_predicted"] for stage in s["stages"]] == pytest.approx(
        [stage["alone_s"] / p for stage, p in zip(s["stages"], predicted)])
    assert [stage["link"] and stage["link"]["bytes"] for stage in s["stages"]] == [
        stage["link"] and stage["link"]["bytes"] for stage in report["stages"]]
    assert s["throughput_per_s"] == pytest.approx(2 / s["period_s"])
    # Nothing is done twice at a time: the sum is the latency, the longest is the period at least.
    spans = [stage["alone_s"] + stage["alone_handling_s"] for stage in s["stages"]]
    links = [stage["link"]["time_s"] for stage in s["stages"][:-1]]
    assert s["expected_latency_s"] == pytest.approx(sum(spans) + sum(links))
    assert s["expected_period_s"] == pytest.approx(max(spans + links))
    assert s["latency_s"] >= sum(spans) * 0.9
    assert s["full_latency_s"] >= s["period_s"]


def test_links_take_as_long_as_predicted(plan, simulated, mlp):
    """200 elements of 4 bytes, twice, at 0.256 Mbps take 47.7 ms: that is the bottleneck."""
    plan(mlp, hosts=2, mbps=0.256)
    report = simulated(mlp, "--max-stages", "2", "--objective", "latency", "--hosts", "host-*")
    assert len(report["stages"]) == 1  # one stage: no link, and nothing to wait for
    assert report["simulation"]["stages"][0]["link"] is None
    plan(mlp, hosts=2, mbps=0.256, time=0.5)
    report = simulated(mlp, "--launches", "1", "--duration", "0.001")
    assert len(report["stages"]) == 2
    link = report["stages"][0]["link"]["time_s"]
    assert link == pytest.approx(2 * 200 * 4 * 8 / 0.256 / 2 ** 20)
    s = report["simulation"]
    assert s["links"] and link <= s["stages"][0]["link"]["time_s"]
    assert s["bottleneck"] == {"kind": "link", "stage": 1}
    assert report["bottleneck"]["kind"] == "stage"
    assert s["latency_s"] >= link
    without = simulated(mlp, "--no-links")["simulation"]
    assert not without["links"] and without["bottleneck"]["kind"] == "stage"
    assert without["stages"][0]["link"]["time_s"] < link


@pytest.mark.parametrize("buffers", [["-i", "0", "-o", "0"], ["-i", "1", "-o", "0"], ["-i", "7", "-o", "9"]])
def test_any_number_of_buffers(plan, simulated, mlp, buffers):
    plan(mlp, hosts=3)
    s = simulated(mlp, *buffers)["simulation"]
    assert not s["outputs"][0]["differs"]


def test_text_says_what_it_compares(plan, simulate, mlp):
    plan(mlp, hosts=2)
    done = simulate(mlp, "--explain", "--launches", "1")
    assert done.status == 0, done.stderr
    for text in ("v  stage 2: host-1", "Predicted against measured", "expected here",
                 "Measured stage times are this machine's", "The bottleneck here is ",
                 "Links are not a network", "the whole model's", "No ±: 1 launch can't tell",
                 "  Memory     Taken"):
        assert text in done.stdout.replace("\n  ", " "), text
    few = len(os.sched_getaffinity(0)) < 2
    assert ("too few to give each its own" in " ".join(done.stdout.split())) == few


def test_memory_is_measured(plan, simulated, networks):
    """Two layers of 4 MiB of weights per stage; the runtime copies them when it packs them."""
    model = networks.get("mlp", "--layers", "4", "--hidden", "1024", "--batch", "dynamic")
    plan(model, hosts=2)
    report = simulated(model)
    for stage in report["simulation"]["stages"]:
        assert 4 << 20 < stage["memory_bytes"] < 200 << 20


def test_other_work_is_told(plan, simulate, networks):
    """Two loops on every core: stages that compute for milliseconds have to wait."""
    model = networks.get("mlp", "--layers", "4", "--hidden", "1024", "--batch", "dynamic")
    plan(model, hosts=2, batch=64)
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("stages share cores")
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"],
                              preexec_fn=lambda core=core: os.sched_setaffinity(0, {core}))
             for core in cores for _ in range(2)]
    try:
        # The scheduler may be kind to a launch, but not to all of them.
        texts = (simulate(model, batch=64).stdout.replace("\n  ", " ") for _ in range(5))
        assert any("NOISY: something else ran on this machine during " in text for text in texts)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_stages_are_exported(plan, prony, workdir, mlp):
    """They follow one another, and give what the whole model gives."""
    plan(mlp, hosts=3)
    files = ["schedule", "-m", "m", "-b", "2", "--export", "stages", "--model", mlp]
    done = prony(*files)
    assert (done.stderr, done.status) == ("", 0)
    stages = yaml.safe_load((workdir / "stages" / "plan.yml").read_text())
    assert [{s["host"]: s["layers"]} for s in stages] == yaml.safe_load(done.stdout)
    assert [s["to"] for s in stages] == ["host-1", "host-2", None]
    feeds = {"input": RANDOM.standard_normal((5, 100)).astype(np.float32)}
    expected, = ReferenceEvaluator(onnx.load(mlp)).run(None, feeds)
    for stage in stages:
        model = onnx.load(workdir / "stages" / stage["model"])
        assert sorted(feeds) == sorted(stage["takes"])
        names = stage["hands_on"] + stage["results"]
        feeds = dict(zip(names, ReferenceEvaluator(model).run(names, feeds)))
    np.testing.assert_allclose(feeds["output"], expected, rtol=1e-5)
    again = prony(*files)
    assert again.status == 1 and "cannot create 'stages': File exists" in again.stderr


def test_too_few_cores_are_told(plan, program, scratch, workdir, mlp):
    plan(mlp, hosts=3)
    one = min(os.sched_getaffinity(0))
    done = subprocess.run([program, "schedule", "-m", "m", "-b", "2", "--simulate", mlp, *QUICK],
                          capture_output=True, text=True, cwd=workdir, timeout=PATIENCE,
                          env={**os.environ, "TMPDIR": str(scratch)},
                          preexec_fn=lambda: os.sched_setaffinity(0, {one}))
    assert done.returncode == 0, done.stderr
    assert "which share 1 core: too few" in " ".join(done.stdout.split())


def test_csv_has_the_same_figures(plan, simulate, workdir, mlp):
    plan(mlp, hosts=2)
    done = simulate(mlp, "--format", "csv", "--output", "out.csv")
    assert done.status == 0, done.stderr
    rows = list(csv.DictReader(io.StringIO((workdir / "out.csv").read_text())))
    assert [row["host"] for row in rows] == ["host-0", "host-1"]
    for row in rows:
        assert float(row["alone_s"]) > 0 and float(row["measured_period_s"]) > 0
        assert float(row["measured_throughput_per_s"]) == pytest.approx(
            2 / float(row["measured_period_s"]))
    assert rows[0]["measured_link_s"] and not rows[1]["measured_link_s"]


def test_stages_have_cores_of_their_own(plan, program, scratch, workdir, networks):
    """Seen from outside, while it runs."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core")
    model = networks.get("mlp", "--layers", "5", "--batch", "dynamic")
    plan(model, hosts=2)
    with subprocess.Popen([program, "schedule", "-m", "m", "-b", "2", "--simulate", model,
                           "--duration", "60"], cwd=workdir, start_new_session=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**os.environ, "TMPDIR": str(scratch)}) as process:
        def cores():
            found = []
            for pid in executors(process.pid):
                if parent(pid) == process.pid:
                    try:
                        found.append(frozenset(os.sched_getaffinity(pid)))
                    except ProcessLookupError:
                        pass
            return found
        try:
            wait_for(lambda: len(set(cores())) == 2 and not frozenset.intersection(*set(cores())),
                     "two processes with cores of their own")
        finally:
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and stdout == b""
    assert stderr.startswith(b"prony: error: interrupted while ") and stderr.count(b"\n") == 1
    assert not executors(process.pid)


def branching(path):
    """Two inputs, of which one skips over cuts, three outputs at different places, ids and strings
    no less; one output is given and handed on."""
    nodes, weights = [], []
    def add(op, inputs, outputs, **attributes):
        nodes.append(helper.make_node(op, inputs, outputs, **attributes))
    for i in range(4):
        weights.append(numpy_helper.from_array(
            RANDOM.standard_normal((16, 16)).astype(np.float32) / 4, f"w{i}"))
    add("Gather", ["w0", "ids"], ["start"])
    add("MatMul", ["start", "w1"], ["a"])
    add("Relu", ["a"], ["early"])
    add("MatMul", ["early", "w2"], ["b"])
    add("Add", ["b", "late"], ["middle"])
    add("MatMul", ["middle", "w3"], ["c"])
    add("Add", ["c", "late"], ["last"])
    value = helper.make_tensor_value_info
    return save(path, nodes,
                [value("ids", TensorProto.INT64, ["batch"]),
                 value("late", TensorProto.FLOAT, ["batch", 16])],
                [value(n, TensorProto.FLOAT, ["batch", 16]) for n in ("last", "early", "middle")],
                weights)


def test_outputs_of_every_stage_are_checked(plan, simulated, workdir):
    model = branching(workdir / "branching.onnx")
    plan(model, hosts=3, cuts=["--max-cut-tensors", "3"])
    s = simulated(model, "--max-cut-tensors", "3")["simulation"]
    assert sorted(o["name"] for o in s["outputs"]) == ["early", "last", "middle"]
    assert not any(o["differs"] for o in s["outputs"])


@pytest.mark.parametrize("cuts", [["--cuts", "3"], ["--cuts", "/relu2/*,/relu4/*"]])
def test_cuts_as_in_layers(plan, simulated, mlp, cuts):
    assert plan(mlp, hosts=2, cuts=cuts) == 3
    assert len(simulated(mlp, *cuts)["stages"]) == 2


def test_transformer_blocks(plan, simulated, networks):
    """Two tensors pass; the sequence is a dimension that isn't the batch."""
    model = networks.get("bert-base", "--batch", "dynamic", "--seq", "dynamic")
    cuts = ["--cuts", "4", "--dim", "seq=8"]
    plan(model, hosts=2, batch=1, cuts=cuts, time=0.05)
    s = simulated(model, *cuts, "--launches", "1", batch=1)["simulation"]
    assert all(not o["differs"] for o in s["outputs"])


def test_openvino_runs_stages(plan, simulated, mlp):
    plan(mlp, hosts=2)
    s = simulated(mlp, "--backend", "openvino-cpu")["simulation"]
    assert s["runtime"].startswith("OpenVINO")


def test_other_outputs_are_an_error(plan, simulate, workdir):
    """A model that throws dice gives other outputs each time."""
    weights = [numpy_helper.from_array(np.eye(4, dtype=np.float32), f"w{i}") for i in range(2)]
    value = helper.make_tensor_value_info
    model = save(workdir / "dice.onnx",
                 [helper.make_node("MatMul", ["x", "w0"], ["a"]),
                  helper.make_node("MatMul", ["a", "w1"], ["b"]),
                  helper.make_node("RandomNormalLike", ["b"], ["c"]),
                  helper.make_node("Add", ["b", "c"], ["y"])],
                 [value("x", TensorProto.FLOAT, ["batch", 4])],
                 [value("y", TensorProto.FLOAT, ["batch", 4])], weights)
    plan(model, hosts=2)
    done = simulate(model)
    assert done.status == 1 and "which is more than rounding" in done.stdout.replace("\n  ", " ")
    assert done.stderr == ("prony: error: output 'y' of the pipeline differs from the whole "
                           "model's\n")


# ---- What goes wrong ----

def refused(done, status, *texts):
    assert done.status == status, (done.stdout, done.stderr)
    lines = done.stderr.splitlines()
    assert lines[0].startswith("prony: error: ") and done.stdout == ""
    assert len(lines) == 1 + (status == 2)
    for text in texts:
        assert text in lines[0], done.stderr


def test_another_number_of_layers(plan, simulate, mlp):
    plan(mlp, hosts=2, layers=4)
    refused(simulate(mlp), 2, f"'{mlp}' cut by 'auto' has 6 layers, but 'm'", "has 4", "--cuts")


def test_other_layers_are_told(plan, simulate, mlp):
    plan(mlp, hosts=2, parameters_out=[100, 200, 200, 200, 200, 10])
    done = simulate(mlp)
    assert done.status == 0
    assert done.stderr.startswith("prony: warning: layer 1 of ")
    assert "gives 200 elements, but that of 'm' in the schedule's files 100" in done.stderr


def test_misuse(plan, simulate, prony, workdir, networks, mlp):
    plan(mlp, hosts=2)
    refused(simulate(mlp, "--format", "yaml"), 2, "use text, json, csv or html")
    refused(simulate(mlp, "--cuts", "99"), 2, "into 99 layers")
    refused(simulate(mlp, "--backend", "r6i.large/onnxrt-cpu"), 1, "this machine is 'local', not 'r6i.large'")
    refused(simulate(mlp, "--backend", "nonsense"), 1, "no software 'nonsense'")
    refused(simulate(mlp, "--output", str(mlp), "--format", "json"), 2, "it is also the input")
    refused(simulate(workdir / "none.onnx"), 1, "none.onnx")
    refused(simulate(networks.get("mlp", "--layers", "5")), 2, "-b 2: no input of")
    for option in (["--cuts", "2"], ["--backend", "onnxrt-cpu"], ["--no-links"], ["--dim", "a=1"],
                   ["--launches", "2"], ["--duration", "1"], ["--timeout", "1"]):
        refused(prony("schedule", "-m", "m", "-b", "2", *option), 2, f"{option[0]} needs --simulate or --run")
    plan(mlp, hosts=2, mbps=1e-9, time=1e9)
    refused(simulate(mlp), 2, "the link from stage 1 to stage 2 takes", "--no-links")


def test_nothing_to_simulate(plan, simulate, mlp):
    plan(mlp, hosts=2, mem_MB=[1e6] * 6)
    done = simulate(mlp, "--format", "json")
    assert done.status == 0 and "no schedule" in done.stderr
    assert json.loads(done.stdout)["simulation"] is None
    refused(simulate(mlp, "--require"), 1, "no schedule")


@pytest.mark.parametrize("name, run, message", [
    ("abort", "3", "the runtime crashed while running the model (signal 6"),
    ("exit", "3", "the runtime ended the process while running the model"),
    ("hang", "3", "running the model took longer than 1 s"),
    ("deaf", "3", "while running the model"),
])
def test_a_stage_that_fails(plan, simulate, workdir, mlp, name, run, message):
    """The whole model runs twice first, and then every stage meets its third run."""
    plan(mlp, hosts=3)
    done = simulate(mlp, "--backend", fault(name), "--timeout", "1",
                    env={**FAULT_ENV, "PRONY_FAULT_RUN": run})
    refused(done, 1, "stage ", "(host-", message)


def test_the_whole_model_fails(plan, simulate, mlp):
    plan(mlp, hosts=2)
    done = simulate(mlp, "--backend", fault("abort"), env={**FAULT_ENV, "PRONY_FAULT_RUN": "1"})
    refused(done, 1, "the whole model: the runtime crashed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("times", [1, 3])
def test_interrupted(plan, program, scratch, workdir, mlp, number, times):
    """Once or in a hurry: no process and no file is left (the fixture looks)."""
    plan(mlp, hosts=3)
    with subprocess.Popen([program, "schedule", "-m", "m", "-b", "2", "--simulate", mlp,
                           "--duration", "60"], cwd=workdir, start_new_session=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
                          env={**os.environ, "TMPDIR": str(scratch)}) as process:
        def mine():
            return [pid for pid in executors(process.pid) if parent(pid) == process.pid]
        wait_for(lambda: len(mine()) == 3 and list(scratch.iterdir()), "its processes")
        pids = mine()
        for _ in range(times):
            process.send_signal(number)
        stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130 and stdout == b""
    assert stderr.startswith(b"prony: error: interrupted while ") and stderr.count(b"\n") == 1
    assert not [pid for pid in pids if pathlib.Path(f"/proc/{pid}").exists()]


def test_a_folder_that_is_not_there(plan, simulate, workdir, mlp):
    plan(mlp, hosts=2)
    refused(simulate(mlp, env={"TMPDIR": str(workdir / "none")}), 1, "cannot create a folder in",
            str(workdir / "none"))
