"""`prony profile --ops` with the real ONNX Runtime: where the time goes, and what may go wrong."""
import csv
import io
import json
import os
import signal

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import PATIENCE, ROOT
from profiling import FAULT_ENV, Terminal, fault, on_one_backend, save, wait_for

SCHEMA = json.loads((ROOT / "docs/prony.profile.schema.json").read_text())
QUICK = ["--launches", "1", "--repeats", "20", "--max-time", "600"]
PARTS = ["node", "overhead", "before", "after", "unexplained"]
TABLES = {"ledger": 6, "operators": None, "nodes": None, "kernels": 0, "differences": None}


@pytest.fixture
def profile(prony):
    """Profiles, checks the status and the schema, and returns the JSON."""

    def call(*arguments, env=None):
        done = prony("profile", *on_one_backend(arguments), "--format", "json", env=env)
        assert done.status == 0, done.stderr
        data = json.loads(done.stdout)
        jsonschema.validate(data, SCHEMA)
        return data

    return call


@pytest.fixture
def scratch(workdir):
    """A TMPDIR of the test's own; nothing may be left in it."""
    folder = workdir / "scratch"
    folder.mkdir()
    yield folder
    assert list(folder.iterdir()) == []


def sum_ns(rows):
    return sum(row["mean_ns"] for row in rows)


def check_sums(ops):
    """The ledger closes, and operators are the sums of their nodes."""
    ledger = ops["ledger"]
    parts = sum(ledger[part]["mean_ns"] for part in PARTS)
    assert parts == pytest.approx(ledger["total"]["mean_ns"], rel=1e-9)
    assert sum_ns(ops["operators"]) == pytest.approx(sum_ns(ops["nodes"]), rel=1e-9)
    for operator in ops["operators"]:
        nodes = [node for node in ops["nodes"] if node["op"] == operator["op"]]
        assert operator["nodes"] == len(nodes)
        assert operator["mean_ns"] == pytest.approx(sum_ns(nodes), rel=1e-9)
        assert operator["calls"] == sum(node["calls"] for node in nodes)
    assert ops["nodes"] == sorted(ops["nodes"], key=lambda node: -node["mean_ns"])


def weight(name, *dims):
    values = np.random.default_rng(0).random(dims, dtype=np.float32)
    return numpy_helper.from_array(values, name)


def tensor(name, *dims):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def test_without_the_option_there_is_nothing(profile, networks):
    (result,) = profile(networks["mlp"], *QUICK)["results"]
    assert result["ops"] is None


def test_tables_add_up_and_nodes_are_found(profile, networks, scratch):
    path = networks["mobilenet-v2"]
    data = profile(path, "-b", "onnxrt-cpu", "-b", "onnxrt-cpu[opt=off]", "--ops", *QUICK,
                   env={"TMPDIR": str(scratch)})
    fused, plain = (result["ops"] for result in data["results"])
    for ops in (fused, plain):
        assert ops["error"] is None and not ops["cut"]
        assert ops["runs"] == (ops["profiled_runs"] + 1) // 2
        assert ops["lost_events"] == 0 and ops["kernels"] == []
        check_sums(ops)
    graph = onnx.load(path).graph
    names = {node.name: (i, node.op_type) for i, node in enumerate(graph.node)}
    # Unoptimised, the runtime's nodes are the model's, and so is all of the work.
    for node in plain["nodes"]:
        origin = node["onnx"]
        assert origin["name"] == node["name"] and origin["op"] == node["op"]
        assert names[node["name"]] == (origin["node"], node["op"]) and node["calls"] == 1
    assert len(plain["nodes"]) == sum(node.op_type != "Constant" for node in graph.node)
    assert sum(node["flops"] for node in plain["nodes"]) == data["points"][0]["flops"]
    # Optimised, each convolution is still found, whatever it is called and was fused with.
    convolutions = {name for name, (_, op) in names.items() if op == "Conv"}
    found = [node for node in fused["nodes"] if node["op"] == "Conv"]
    assert {node["onnx"]["name"] for node in found} == convolutions
    assert all(node["onnx"]["op"] == "Conv" for node in found)
    work = {node["name"]: node["flops"] for node in plain["nodes"]}
    assert all(node["flops"] == work[node["onnx"]["name"]] for node in found)


def test_what_makes_the_difference(profile, prony, networks, workdir):
    done = prony("profile", networks["mobilenet-v2"], "-b", "onnxrt-cpu[threads=1]", "-b",
                 "onnxrt-cpu[threads=1,opt=off]", "--ops", *QUICK, "--format", "json", "-o",
                 "p.json")
    assert done.status == 0, done.stderr
    results = json.loads((workdir / "p.json").read_text())["results"]
    slow = max(results, key=lambda result: result["stats"]["median_ns"])
    fast = min(results, key=lambda result: result["stats"]["median_ns"])
    assert fast["ops"]["difference"] is None
    difference = slow["ops"]["difference"]
    assert results[difference["baseline"]] is fast
    rows = difference["operators"]
    changes = [abs(row["ns"] - row["baseline_ns"]) for row in rows]
    assert changes == sorted(changes, reverse=True)
    whole = [result["ops"]["ledger"]["total"]["mean_ns"] for result in (slow, fast)]
    assert sum(row["ns"] for row in rows) == pytest.approx(whole[0], rel=1e-9)
    assert sum(row["baseline_ns"] for row in rows) == pytest.approx(whole[1], rel=1e-9)
    by_name = {row["name"]: row for row in rows}
    assert {"Conv", "BatchNormalization", "Clip", "(outside nodes)"} <= set(by_name)
    # Fusion leaves nothing of these in one of the two.
    assert 0 in (by_name["Clip"]["ns"], by_name["Clip"]["baseline_ns"])
    shown = " ".join(prony("report", "p.json").stdout.split())
    assert "What makes the difference: " + slow["backend"]["name"].removeprefix("local/") in shown
    assert f": {rows[0]['name']} " in shown.partition("What makes the difference")[2]


def test_flops_of_a_known_multiplication(profile, workdir):
    """Nodes without names, one behind a Constant, which the runtime doesn't number."""
    half = helper.make_tensor("half", TensorProto.FLOAT, [], [0.5])
    path = save(workdir / "m.onnx",
                [helper.make_node("Relu", ["x"], ["r"]),
                 helper.make_node("Constant", [], ["half"], value=half),
                 helper.make_node("MatMul", ["r", "w"], ["p"]),
                 helper.make_node("Mul", ["p", "half"], ["y"])],
                [tensor("x", 64, 512)], [tensor("y", 64, 1024)], [weight("w", 512, 1024)])
    (result,) = profile(path, "-b", "onnxrt-cpu[opt=off]", "--ops", *QUICK)["results"]
    nodes = {node["op"]: node for node in result["ops"]["nodes"]}
    assert {op: node["onnx"]["node"] for op, node in nodes.items()} == {
        "Relu": 0, "MatMul": 2, "Mul": 3}
    product = nodes["MatMul"]
    assert product["onnx"]["name"] == "" and product["flops"] == 2 * 64 * 512 * 1024
    (operator,) = [row for row in result["ops"]["operators"] if row["op"] == "MatMul"]
    # On a machine so busy that the time isn't known, there must be none.
    known = product["high_ns"] - product["mean_ns"] <= product["mean_ns"] / 4
    rate = product["flops"] / product["mean_ns"] * 1e9
    for row in (product, operator):
        assert row["flop_per_s"] == (pytest.approx(rate) if known else None)


def test_fused_multiplications_are_found(profile, workdir):
    """MatMul and Add become a Gemm, MatMul and Div a FusedMatMul, Gemm and Relu a FusedGemm."""
    path = save(workdir / "m.onnx",
                [helper.make_node("MatMul", ["x", "w"], ["a"], name="/qkv/MatMul"),
                 helper.make_node("Add", ["a", "b"], ["q"], name="/qkv/Add"),
                 helper.make_node("MatMul", ["q", "z"], ["s"], name="/scores/MatMul"),
                 helper.make_node("Div", ["s", "eight"], ["d"], name="/scores/Div"),
                 helper.make_node("Softmax", ["d"], ["y"], name="/Softmax"),
                 helper.make_node("Gemm", ["g", "w"], ["h"], name="/fc/Gemm"),
                 helper.make_node("Relu", ["h"], ["v"], name="/fc/Relu")],
                [tensor("x", 2, 16, 64), tensor("z", 2, 64, 32), tensor("g", 16, 64)],
                [tensor("y", 2, 16, 32), tensor("v", 16, 64)],
                [weight("w", 64, 64), weight("b", 64),
                 helper.make_tensor("eight", TensorProto.FLOAT, [], [8.0])])
    (result,) = profile(path, "-b", "onnxrt-cpu", "--ops", *QUICK)["results"]
    ops = result["ops"]
    flops = {node["onnx"]["name"]: node["flops"] for node in ops["nodes"] if node["onnx"]}
    names = {node["name"] for node in ops["nodes"]}
    assert not names & {"/qkv/MatMul", "/qkv/Add", "/scores/Div", "/fc/Gemm"}, "nothing was fused"
    assert flops["/qkv/MatMul"] == 2 * 2 * 16 * 64 * 64
    assert flops["/scores/MatMul"] == 2 * 2 * 16 * 64 * 32
    assert flops["/fc/Gemm"] == 2 * 16 * 64 * 64
    # What was only put between them comes from nowhere, and has no work.
    assert any(node["onnx"] is None and node["flops"] is None for node in ops["nodes"])


def test_loop_bodies_are_not_mistaken(profile, prony, workdir):
    """The body's node runs five times in a run, and bears the name of one outside."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]),
         helper.make_node("MatMul", ["state", "w"], ["next"], name="product")], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("go", TensorProto.BOOL, []), tensor("state", 64, 64)],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), tensor("next", 64, 64)])
    path = save(workdir / "m.onnx",
                [helper.make_node("MatMul", ["x", "w"], ["s"], name="product"),
                 helper.make_node("Loop", ["five", "yes", "s"], ["y"], body=body, name="loop")],
                [tensor("x", 64, 64)], [tensor("y", 64, 64)],
                [weight("w", 64, 64), helper.make_tensor("five", TensorProto.INT64, [], [5]),
                 helper.make_tensor("yes", TensorProto.BOOL, [], [True])])
    (result,) = profile(path, "-b", "onnxrt-cpu[opt=off]", "--ops", *QUICK)["results"]
    ops = result["ops"]
    (product,) = [node for node in ops["nodes"] if node["name"] == "product"]
    assert product["calls"] == 6 and product["flops"] is None
    assert ops["nested"] > 0 and sum_ns(ops["nodes"]) > ops["ledger"]["node"]["mean_ns"]
    parts = sum(ops["ledger"][part]["mean_ns"] for part in PARTS)
    assert parts == pytest.approx(ops["ledger"]["total"]["mean_ns"])
    shown = " ".join(prony("profile", path, "--ops", *QUICK).stdout.split())
    assert "is inside other nodes" in shown


def test_names_with_quotes(profile, workdir):
    nodes = [helper.make_node("Relu", ["x"], ["r"], name='say "hi"'),
             helper.make_node("Neg", ["r"], ["y"], name="fine")]
    path = save(workdir / "m.onnx", nodes, [tensor("x", 4)], [tensor("y", 4)])
    (result,) = profile(path, "-b", "onnxrt-cpu[opt=off]", "--ops", *QUICK)["results"]
    ops = result["ops"]
    assert {node["name"] for node in ops["nodes"]} == {"fine", 'say "hi"'}
    assert ops["lost_events"] == 0


def test_saved_and_shown_again(prony, networks, workdir):
    done = prony("profile", networks["mlp"], "-b", "onnxrt-cpu", "-b", "onnxrt-cpu[opt=off]",
                 "--ops", *QUICK, "--format", "json", "-o", "p.json")
    assert done.status == 0, done.stderr
    text = (workdir / "p.json").read_text()
    assert prony("report", "p.json", "--format", "json").stdout == text
    shown = prony("report", "p.json").stdout
    assert "fused /fc1/Gemm" in shown and "Unexplained" in shown
    assert shown.count("Where the time goes: ") == 2
    assert prony("report", "p.json", "--format", "md").stdout.count("## Where the time goes") == 2
    results = json.loads(text)["results"]
    for table, per_result in TABLES.items():
        written = prony("report", "p.json", "--format", "csv", "--table", table)
        assert written.status == 0, written.stderr
        rows = list(csv.DictReader(io.StringIO(written.stdout)))
        if table in ("operators", "nodes"):
            listed = [row for result in results for row in result["ops"][table]]
            assert [float(row["mean_ns"]) for row in rows] == [row["mean_ns"] for row in listed]
        elif table == "differences":
            assert {row["of"] for row in rows} == {"operator", "node"}
        else:
            assert len(rows) == 2 * per_result


def test_misuse(prony, networks):
    for arguments, words in ((["--ops", "--table", "nodes"], "--format csv"),
                             (["--table", "nodes", "--format", "csv"], "needs --ops"),
                             (["--ops", "--table", "odd"], "odd")):
        done = prony("profile", networks["mlp"], *arguments)
        assert done.status == 2 and words in done.stderr and done.stdout == ""


@pytest.mark.parametrize("name, words", [
    ("untraced", "opened no file"), ("empty", "left an empty trace"),
    ("garbled", "not a trace"), ("packed", "is compressed"), ("endless", "larger than 1024 MiB"),
    ("unended", "crashed while writing its trace"), ("stray", "not a trace")])
def test_a_bad_profiler_spoils_nothing(profile, prony, networks, scratch, name, words):
    env = {**FAULT_ENV, "TMPDIR": str(scratch)}
    arguments = [networks["mlp"], "-b", fault(name), "-b", "onnxrt-cpu", "--ops", *QUICK]
    bad, good = profile(*arguments, env=env)["results"]
    assert bad["error"] is None and len(bad["samples_ns"]) == 20
    assert words in bad["ops"]["error"] and bad["ops"]["nodes"] == []
    assert good["ops"]["error"] is None and good["ops"]["nodes"]
    done = prony("profile", *arguments, env=env)
    shown = " ".join(done.stdout.split())
    assert done.status == 0 and "isn't known: " in shown and words in shown


def test_no_place_for_a_trace(profile, networks, workdir):
    (result,) = profile(networks["mlp"], "--ops", *QUICK,
                        env={"TMPDIR": str(workdir / "none")})["results"]
    assert result["error"] is None and "create a folder" in result["ops"]["error"]


def test_interrupt_while_profiling(program, networks, scratch):
    env = {**os.environ, **FAULT_ENV, "TMPDIR": str(scratch)}
    run = Terminal(program, [networks["mlp"], "-b", fault("sleep"), "-b", "onnxrt-cpu", "--ops",
                             "--launches", "1", "--repeats", "2", "--warmups", "0"], env=env)
    run.wait_for_progress(b"profiling")
    run.process.send_signal(signal.SIGINT)
    out, _ = run.process.communicate(timeout=PATIENCE)
    assert run.process.returncode == 0
    assert " ".join(out.decode().split()).count("isn't known: interrupted.") == 2
    wait_for(lambda: not run.mine(), "executors to end")


def test_roofs(prony, profile, workdir, monkeypatch):
    """With a record of this machine, rows say what limits them and how near to it they are."""
    monkeypatch.setenv("XDG_STATE_HOME", str(workdir / "state"))
    done = prony("synth", "mlp", "--hidden", "1024", "--layers", "3", "-o", "mlp.onnx")
    assert done.status == 0, done.stderr
    before = profile("mlp.onnx", *QUICK, "--ops")
    assert "machine" not in before
    assert not any("roof" in row for row in before["results"][0]["ops"]["nodes"])
    measured = prony("machine", "--max-time", "0.1", "--format", "json")
    assert measured.status == 0, measured.stderr
    record = json.loads(measured.stdout)
    data = profile("mlp.onnx", *QUICK, "--ops")
    assert data["machine"]["fingerprint"] == record["fingerprint"]
    ops = data["results"][0]["ops"]
    kinds = {rate["of"] for rate in record["rates"]}
    nodes = [row for row in ops["nodes"] if "roof" in row]
    long = [row for row in ops["nodes"] if row["flop_per_s"] is not None]
    assert [row["name"] for row in nodes] == [row["name"] for row in long]
    for row in nodes:
        assert row["roof"] in kinds
        assert row["roof_share"] == pytest.approx(row["roof_ns"] / row["flops_ns"])
        rate = max(rate["per_s"] for rate in record["rates"]
                   if rate["of"] == "float32" and rate["threads"] == record["cores"])
        assert row["roof_ns"] >= row["flops"] / rate * 1e9 * 0.999
    for row in ops["operators"]:
        own = [node for node in nodes if node["op"] == row["op"]]
        assert row.get("roof_nodes", 0) == len(own)
        assert row.get("roof_ns", 0) == pytest.approx(sum(node["roof_ns"] for node in own))
    (workdir / "saved.json").write_text(json.dumps(data))
    text = prony("report", "saved.json").stdout
    assert ("Of its roof" in text) == bool(nodes)
    other = profile("mlp.onnx", *QUICK, "--ops", "-b", "onnxrt-cpu[inter_threads=2]")
    assert not any("roof" in row for row in other["results"][0]["ops"]["nodes"])
