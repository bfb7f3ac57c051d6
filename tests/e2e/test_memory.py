"""prony profile --memory: parts add up to what the process has, and tensors are named."""
import json

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from profiling import save

QUICK = ["--launches", "1", "--repeats", "2", "--warmups", "1", "--memory"]
MIB = 1 << 20
PARTS = ("runtime", "weights", "session", "inputs", "activations", "workspace", "rounding", "idle", "unexplained")


def value(name, *dims):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


@pytest.fixture
def weigh(prony):
    def call(model, backend):
        done = prony("profile", model, "-b", backend, *QUICK, "--format", "json")
        assert done.status == 0, done.stderr
        (result,) = json.loads(done.stdout)["results"]
        assert result["memory"]["error"] is None
        return result["memory"]

    return call


@pytest.fixture
def joined(workdir):
    """x and w of 1 MiB, their product, its product, both joined: at the peak 1 + 1 + 2 MiB."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
             helper.make_node("MatMul", ["a", "w"], ["b"], name="second"),
             helper.make_node("Concat", ["a", "b"], ["c"], name="join", axis=0),
             helper.make_node("Reshape", ["c", "flat"], ["r"], name="view"),
             helper.make_node("ReduceMax", ["r"], ["y"], name="most", keepdims=0)]
    weights = [numpy_helper.from_array(np.ones((512, 512), np.float32), "w"),
               numpy_helper.from_array(np.array([-1], np.int64), "flat")]
    return save(workdir / "joined.onnx", nodes, [value("x", 512, 512)], [value("y")], weights)


def test_tensors_at_the_peak(weigh, joined):
    memory = weigh(joined, "onnxrt-cpu[threads=1]")
    assert memory["total_bytes"] == sum(memory[part + "_bytes"] for part in PARTS)
    assert memory["weights_bytes"] == MIB
    assert memory["inputs_bytes"] >= MIB
    assert memory["peak_node"] == "join"
    assert memory["tensors"] == [
        {"name": "c", "bytes": 2 * MIB, "made_by": "join", "last_read_by": "most"},
        {"name": "a", "bytes": MIB, "made_by": "first", "last_read_by": "join"},
        {"name": "b", "bytes": MIB, "made_by": "second", "last_read_by": "join"}]
    assert memory["tensors_bytes"] == 4 * MIB
    assert 4 * MIB <= memory["activations_bytes"] < 4.1 * MIB
    assert abs(memory["unexplained_bytes"]) <= 0.05 * memory["total_bytes"]


def test_text(prony, joined):
    done = prony("profile", joined, "-b", "onnxrt-cpu[threads=1]", *QUICK)
    text = " ".join(done.stdout.split())
    assert "Where the memory goes: onnxrt-cpu[threads=1]" in text
    assert "1.00 MiB weights, 4.00 MiB activations" in text and "in node join," in text
    assert "c 2.00 MiB join most" in text
    assert "can be traced back" not in text


def test_fused_nodes(weigh, networks):
    memory = weigh(networks["mlp"], "onnxrt-cpu")
    assert [t["name"] for t in memory["tensors"]] == ["/relu1/Relu_output_0", "output"]
    assert memory["tensors"][1]["last_read_by"] is None


def test_a_runtime_that_does_not_tell(weigh, prony, joined):
    for backend in ("openvino-cpu", "onnxrt-cpu[arena=off]"):
        memory = weigh(joined, backend)
        assert memory["activations_bytes"] is None and memory["tensors"] == [] and memory["peak_node"] is None
        assert memory["total_bytes"] == sum(memory[f"{p}_bytes"] for p in ("runtime", "weights", "session", "inputs",
                                                                         "run"))
    done = prony("profile", joined, "-b", "onnxrt-cpu[arena=off]", *QUICK)
    assert "The runtime doesn't tell what a run takes" in done.stdout


def test_not_with_a_server(prony, joined):
    done = prony("profile", joined, "--memory", "--server", "localhost:1")
    assert done.status == 2 and "--memory cannot be combined with --server" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("name", ["resnet50", "mobilenet-v2", "bert-base", "gpt2-small"])
def test_standard_networks(weigh, prony, name):
    assert prony("synth", name, "-o", "network.onnx").status == 0
    memory = weigh("network.onnx", "onnxrt-cpu")
    assert memory["total_bytes"] == sum(memory[part + "_bytes"] for part in PARTS)
    assert abs(memory["unexplained_bytes"]) <= 0.05 * memory["total_bytes"]
