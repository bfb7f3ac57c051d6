"""OpenVINO beside ONNX Runtime: agreement, options, precision, shapes and types, absence."""
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import bf16_is_broken
from profiling import sentences

QUICK = ["--launches", "1", "--repeats", "5", "--warmups", "1", "--max-time", "600"]
BOTH = ["-b", "onnxrt-cpu", "-b", "openvino-cpu"]


def whole(*row):
    """A whole network: `make test-long` has the time."""
    return pytest.param(*row, marks=pytest.mark.long)


@pytest.fixture
def measure(prony):
    """Profiles and returns the results."""

    def call(*arguments, status=0, env=None):
        done = prony("profile", *arguments, "--format", "json", env=env)
        assert done.status == status, done.stderr
        return json.loads(done.stdout)["results"]

    return call


def save(path, nodes, inputs, outputs, initializers=(), opset=17):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializer=list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    onnx.save(model, path)
    return path


def value(name, dtype, *shape):
    return helper.make_tensor_value_info(name, dtype, shape)


@pytest.mark.parametrize("name, options", [
    ("mlp", ()), ("mobilenet-v2", ()), whole("resnet50", ()), whole("vit-base-patch16-224", ()),
    whole("bert-base", ("--seq", "16")), whole("gpt2-small", ("--seq", "16"))])
def test_both_runtimes_agree_on_networks(measure, networks, name, options):
    ort, ov = measure(networks.get(name, *options), *BOTH, *QUICK)
    assert ov["backend"]["runtime_version"].startswith("OpenVINO 20")
    assert not {"MISMATCH"} & set(ov["flags"])
    assert all(o["same_shape"] and o["max_rel"] < 1e-4 for o in ov["outputs"])
    assert [len(r["samples_ns"]) for r in (ort, ov)] == [5, 5]
    assert 1 in (ort["ratio"]["estimate"], ov["ratio"]["estimate"])


def test_options_reach_it(prony, measure, networks):
    specs = ["threads=1", "streams=2", "hint=latency", "hint=throughput", "precision=f32",
             "ov.ENABLE_CPU_PINNING=NO", "threads=1,streams=1,hint=throughput"]
    arguments = [a for spec in specs for a in ("-b", f"openvino-cpu[{spec}]")]
    for result in measure(networks["mlp"], *arguments, *QUICK):
        assert not result["error"], result["error"]
    for spec, fault in (("threads=many", "'many' is not a number"),
                        ("hint=speed", "'speed' is not one of latency|throughput"),
                        ("precision=f8", "'f8' is not one of f32|bf16|f16"),
                        ("opt=all", "has no option 'opt'")):
        done = prony("profile", networks["mlp"], "-b", f"openvino-cpu[{spec}]", *QUICK)
        assert done.status == 2 and fault in done.stderr, done.stderr
    for spec, fault in (("ov.NO_SUCH=1", "NO_SUCH"),
                        ("ov.INFERENCE_PRECISION_HINT=f16", "is set by precision=")):
        done = prony("profile", networks["mlp"], "-b", f"openvino-cpu[{spec}]", *QUICK)
        assert done.status == 1 and fault in done.stderr, done.stderr


def test_a_precision_shows_in_the_outputs_or_is_refused(measure, networks, prony):
    for precision in ("bf16", "f16"):
        spec = f"openvino-cpu[precision={precision}]"
        done = prony("profile", networks.get("mlp", "--hidden", "512"), "-b", "openvino-cpu", "-b",
                     spec, *QUICK, "--format", "json")
        result = json.loads(done.stdout)["results"][1]
        if done.status == 0:
            assert any(o["max_abs"] > 0 for o in result["outputs"])
        elif precision == "bf16" and bf16_is_broken():
            assert "Illegal instruction" in result["error"]["message"]
        else:
            assert f"precision={precision} has no effect on this processor" in result["error"]["message"]


@pytest.mark.parametrize("name", ["small", whole("bert-base")])
def test_sizes_left_open_and_several_inputs(measure, networks, workdir, name):
    if name == "small":
        model = sentences(workdir / "m.onnx", "batch", "seq")
    else:
        model = networks.get(name, "--batch", "dynamic", "--seq", "dynamic")
    for batch, seq in ((1, 8), (2, 24)):
        _, ov = measure(model, *BOTH, *QUICK, "--dim", f"batch={batch}", "--dim", f"seq={seq}")
        assert all(o["same_shape"] and o["max_rel"] < 1e-4 for o in ov["outputs"])


def test_element_types_scalars_and_empty_tensors(measure, workdir):
    types = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16,
             TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16,
             TensorProto.INT32, TensorProto.UINT32, TensorProto.INT64, TensorProto.UINT64,
             TensorProto.BOOL]
    for dtype in types:
        for shape in ((2, 3), (), (0, 4)):
            path = save(workdir / "t.onnx", [helper.make_node("Identity", ["x"], ["y"])],
                        [value("x", dtype, *shape)], [value("y", dtype, *shape)])
            _, ov = measure(path, *BOTH, *QUICK)
            (output,) = ov["outputs"]
            assert output["same_shape"] and (output["max_abs"] or 0) == 0, (dtype, shape)


def test_inputs_that_are_outputs_or_that_nothing_uses(measure, workdir):
    """OpenVINO renames the one and drops the other."""
    f = TensorProto.FLOAT
    path = save(workdir / "odd.onnx",
                [helper.make_node("Identity", ["b"], ["y"]), helper.make_node("Neg", ["a"], ["z"])],
                [value("unused", f, 3), value("a", f, 2), value("b", f, 4)],
                [value("y", f, 4), value("z", f, 2)])
    np.save(workdir / "a.npy", np.array([1, -2], np.float32))
    np.save(workdir / "b.npy", np.array([4, 5, 6, 7], np.float32))
    _, ov = measure(path, *BOTH, *QUICK, "--input", f"a=@{workdir}/a.npy", "--input",
                    f"b=@{workdir}/b.npy")
    assert [(o["name"], o["max_abs"]) for o in ov["outputs"]] == [("y", 0), ("z", 0)]


def test_external_data(measure, workdir):
    weight = numpy_helper.from_array(np.arange(65536, dtype=np.float32).reshape(256, 256), "w")
    path = save(workdir / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])],
                [value("x", TensorProto.FLOAT, 1, 256)], [value("y", TensorProto.FLOAT, 1, 256)],
                [weight])
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    _, ov = measure(path, *BOTH, *QUICK)
    assert ov["outputs"][0]["max_rel"] < 1e-5


def test_a_model_that_it_does_not_know_is_its_own_failure(prony, workdir):
    f = TensorProto.FLOAT
    path = save(workdir / "m.onnx", [helper.make_node("Det", ["x"], ["y"])],
                [value("x", f, 3, 3)], [value("y", f)])
    done = prony("profile", path, *BOTH, *QUICK, "--format", "json")
    ort, ov = json.loads(done.stdout)["results"]
    assert done.status == 1 and not ort["error"]
    assert "1 of 2 backends failed" in done.stderr
    assert ov["error"]["code"] == "PRONY_ERUNTIME" and "Det" in ov["error"]["message"]
    assert ".cpp" not in ov["error"]["message"]
    # Nobody asked for it here, and another one can.
    done = prony("profile", path, *QUICK)
    assert (done.status, done.stderr) == (0, "")
    assert "openvino-cpu failed: " in done.stdout
    path = save(workdir / "n.onnx", [helper.make_node("Unheard", ["x"], ["y"])],
                [value("x", f, 3, 3)], [value("y", f, 3, 3)])
    done = prony("profile", path, *QUICK)
    assert done.status == 1 and "2 of 2 backends failed" in done.stderr


def test_whom_to_believe_and_how_much(prony, measure, networks):
    model = networks.get("mlp", "--hidden", "512")
    ort, ov = measure(model, *BOTH, *QUICK, "--reference", "openvino-cpu")
    assert ort["outputs"] and not ov["outputs"] and "MISMATCH" not in ort["flags"]
    ort, ov = measure(model, *BOTH, *QUICK, "--tolerance", "0")
    assert "MISMATCH" in ov["flags"] and not ort["outputs"]
    judged = prony("profile", model, *BOTH, *QUICK, "--tolerance", "0", "--fail-on-mismatch")
    assert judged.status == 4 and "differ" in judged.stdout
    assert judged.stderr == ("prony: mismatch: outputs differ on 1 of 2 backends; the first is "
                             "'local/openvino-cpu'\n")
    assert prony("profile", model, *BOTH, *QUICK, "--fail-on-mismatch").status == 0
    done = prony("profile", model, *BOTH, *QUICK, "--tolerance", "0", "--reference", "openvino-cpu")
    shown = " ".join(done.stdout.split())
    assert "Outputs of onnxrt-cpu differ from those of local/openvino-cpu; 'output' by" in shown
    for arguments, fault in ((["--reference", "onnxrt-cuda"], "'local/onnxrt-cuda' is not one of the backends"),
                             (["--reference", "a/b/c]"], "--reference"),
                             (["--tolerance", "200%"], "--tolerance")):
        done = prony("profile", model, *BOTH, *arguments)
        assert done.status == 2 and fault in done.stderr, done.stderr


def test_a_reference_that_fails_is_nobodys(prony, workdir):
    """Nothing is compared with somebody else instead."""
    f = TensorProto.FLOAT
    path = save(workdir / "m.onnx", [helper.make_node("Det", ["x"], ["y"])],
                [value("x", f, 3, 3)], [value("y", f)])
    done = prony("profile", path, "-b", "onnxrt-cpu", "-b", "onnxrt-cpu[opt=off]", "-b",
                 "openvino-cpu", *QUICK, "--reference", "openvino-cpu", "--format", "json")
    data = json.loads(done.stdout)
    first, second, ov = data["results"]
    assert ov["error"] and not first["outputs"] and not second["outputs"]
    assert data["notes"] == ["outputs were not compared where the reference local/openvino-cpu failed"]


@pytest.mark.parametrize("name, options, operator, count", [
    ("mlp", ("--layers", "5", "--hidden", "512"), "Gemm", 5), whole("bert-base", ("--seq", "16"), "MatMul", 72)])
def test_where_the_time_goes(measure, networks, name, options, operator, count):
    """OpenVINO's counters, traced back to the model and compared with ONNX Runtime's."""
    ort, ov = measure(networks.get(name, *options), *BOTH, *QUICK, "--ops")
    for result in (ort, ov):
        ops = result["ops"]
        parts = sum(ops["ledger"][part]["mean_ns"] or 0 for part in
                    ("node", "overhead", "before", "after", "unexplained"))
        assert parts == pytest.approx(ops["ledger"]["total"]["mean_ns"])
    assert ov["ops"]["ledger"]["overhead"]["mean_ns"] is None, "OpenVINO doesn't tell"
    assert ov["ops"]["runs"] == ov["ops"]["profiled_runs"]
    assert all(node["calls"] == 1 for node in ov["ops"]["nodes"])
    made_of = [node["onnx"]["op"] for node in ov["ops"]["nodes"] if node["op"] == "FullyConnected"]
    assert made_of.count(operator) >= count
    slower = ort if ort["ops"]["difference"] else ov
    assert operator in [row["name"] for row in slower["ops"]["difference"]["operators"]]


def test_several_at_once(measure, networks):
    (result,) = measure(networks["mlp"], "-b", "openvino-cpu[threads=1]", *QUICK, "--concurrency",
                        "2", "--duration", "1")
    assert "MISMATCH" not in result["flags"]
    assert result["load"]["rows"][0]["requests"] > 10


def test_whole_numbers_must_be_equal(measure, workdir):
    """A token that is off by one is another word, however large its number."""
    f, i = TensorProto.FLOAT, TensorProto.INT64
    scale = numpy_helper.from_array(np.array([50000], np.float32), "s")
    path = save(workdir / "m.onnx", [helper.make_node("Mul", ["x", "s"], ["z"]),
                                     helper.make_node("Cast", ["z"], ["y"], to=i)],
                [value("x", f, 64)], [value("y", i, 64)], [scale])
    _, ov = measure(path, *BOTH, *QUICK)
    (output,) = ov["outputs"]
    assert ("MISMATCH" in ov["flags"]) == (output["max_abs"] > 0)
