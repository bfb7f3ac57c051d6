"""Options of ONNX Runtime's backends that change what a session does, each by what it changes."""
import json
import os
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import ROOT
from profiling import save

QUICK = ["--launches", "1", "--repeats", "5", "--warmups", "2"]


def value(name, *dims):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)


def number(name, x):
    return numpy_helper.from_array(np.array([x], np.float32), name)


@pytest.fixture
def results(prony):
    def call(model, *backends):
        chosen = [part for backend in backends for part in ("-b", backend)]
        done = prony("profile", model, *chosen, *QUICK, "--format", "json")
        return done, json.loads(done.stdout)["results"] if done.stdout else []

    return call


@pytest.fixture
def chain(workdir):
    """x times constants, one after the other."""
    def make(*factors):
        nodes = [helper.make_node("Mul", [f"v{i}", f"f{i}"], [f"v{i + 1}"]) for i in range(len(factors))]
        return save(workdir / "chain.onnx", nodes, [value("v0", 64)], [value(f"v{len(factors)}", 64)],
                    [number(f"f{i}", x) for i, x in enumerate(factors)])

    return make


def test_saved_model_is_what_the_session_made(results, networks, workdir):
    path = workdir / "the optimised.onnx"
    done, (result,) = results(networks["mlp"], f"onnxrt-cpu[opt=extended,save_optimised={path}]")
    assert done.status == 0, done.stderr
    operators = {node.op_type for node in onnx.load(path).graph.node}
    assert "FusedGemm" in operators
    assert [entry for entry in os.listdir(workdir) if "tmp" in entry] == []


def test_saved_model_needs_a_folder(results, networks, workdir):
    done, _ = results(networks["mlp"], f"onnxrt-cpu[save_optimised={workdir}/no/such.onnx]")
    assert done.status != 0
    assert "no/such.onnx" in done.stderr + done.stdout and "No such file" in done.stderr + done.stdout


def test_custom_operators(results, workdir):
    library = workdir / "libtwice.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, ROOT / "tests/e2e/custom_ops.c"], check=True)
    nodes = [helper.make_node("Twice", ["x"], ["y"], domain="test")]
    graph = helper.make_graph(nodes, "g", [value("x", 8)], [value("y", 8)])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21),
                                                                   helper.make_opsetid("test", 1)])
    onnx.save(model, workdir / "twice.onnx")
    done, _ = results(workdir / "twice.onnx", "onnxrt-cpu")
    assert done.status != 0
    done, (result,) = results(workdir / "twice.onnx", f"onnxrt-cpu[custom_ops={library}]")
    assert done.status == 0 and result["error"] is None, done.stderr
    done, _ = results(workdir / "twice.onnx", "onnxrt-cpu[custom_ops=no-such.so]")
    assert done.status != 0 and "cannot load custom operators from 'no-such.so'" in done.stderr + done.stdout


def test_denormals(results, chain):
    path = chain(1e-30, 1e-10, 1e30, 1e10)
    done, found = results(path, "onnxrt-cpu[opt=off]", "onnxrt-cpu[opt=off,denormals=keep]",
                          "onnxrt-cpu[opt=off,denormals=zero]")
    assert done.status == 0, done.stderr
    (keep,), (zero,) = [result["outputs"] for result in found[1:]]
    assert keep["max_abs"] == 0
    assert zero["max_abs"] > 0.1


def test_affinity(results, networks):
    cpu = min(os.sched_getaffinity(0))
    done, (result,) = results(networks["mlp"], f"onnxrt-cpu[threads=2,affinity={cpu}]")
    assert done.status == 0, done.stderr
    done, _ = results(networks["mlp"], f"onnxrt-cpu[threads=4,affinity={cpu}]")  # one entry of three
    assert done.status != 0 and "affinit" in done.stderr + done.stdout
    for wrong in ("1023", "x", f"{cpu};", f"{cpu}:{cpu}", "-1"):
        done, _ = results(networks["mlp"], f"onnxrt-cpu[affinity={wrong}]")
        assert done.status != 0 and f"affinity={wrong}: not CPUs of this machine" in done.stderr + done.stdout


def test_io_binding_keeps_buffers(results, networks, workdir):
    done, found = results(networks["mlp"], "onnxrt-cpu", "onnxrt-cpu[io_binding=on]")
    assert done.status == 0, done.stderr
    assert [output["max_abs"] for output in found[1]["outputs"]] == [0]
    # Another size at each run: without a binding that is nothing, in a buffer that is kept it has no room.
    nodes = [helper.make_node("RandomUniformLike", ["x"], ["r"]),
             helper.make_node("Greater", ["r", "half"], ["b"]),
             helper.make_node("NonZero", ["b"], ["i"])]
    path = save(workdir / "random.onnx", nodes, [value("x", 4096)],
                [helper.make_tensor_value_info("i", TensorProto.INT64, [1, None])], [number("half", 0.5)])
    done, _ = results(path, "onnxrt-cpu")
    assert done.status == 0, done.stderr
    done, _ = results(path, "onnxrt-cpu[io_binding=on]")
    assert done.status != 0


def test_io_binding_under_load(prony, networks):
    done = prony("profile", networks["mlp"], "-b", "onnxrt-cpu[io_binding=on,threads=1]", "--concurrency", "2",
                 "--launches", "1", "--repeats", "20", "--format", "json")
    assert done.status == 0, done.stderr


@pytest.fixture
def plugin(workdir):
    library = workdir / "libtest_provider.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, ROOT / "tests/e2e/provider.c"], check=True)
    return library


@pytest.fixture
def muls(workdir):
    """Two nodes that the plugin takes, three that it leaves to the CPU."""
    nodes = [helper.make_node("Mul", ["x", "two"], ["a"]), helper.make_node("Erf", ["a"], ["b"]),
             helper.make_node("Mul", ["b", "two"], ["c"]), helper.make_node("Relu", ["c"], ["d"]),
             helper.make_node("Erf", ["d"], ["y"])]
    return save(workdir / "muls.onnx", nodes, [value("x", 64)], [value("y", 64)], [number("two", 2)])


def test_plugin_takes_its_nodes(prony, muls, plugin):
    done = prony("profile", muls, "-b", "onnxrt-cpu", "-b", f"onnxrt-plugin[ep={plugin}]", *QUICK, "--ops",
                 "--format", "json")
    assert done.status == 0, done.stderr
    cpu, other = json.loads(done.stdout)["results"]
    assert [output["max_abs"] for output in other["outputs"]] == [0]
    assert other["backend"]["runtime_version"].endswith(", Test 7.8.9")
    assert "placement" not in cpu["ops"]
    placement = other["ops"]["placement"]
    assert placement["assigned"] and placement["copies"] == 0
    assert [(p["name"], p["nodes"]) for p in placement["providers"]] == [("TestExecutionProvider", 2),
                                                                      ("CPUExecutionProvider", 3)]
    assert placement["providers"][1]["operators"] == [{"op": "Erf", "nodes": 2}, {"op": "Relu", "nodes": 1}]
    assert all(p["ns"] > 0 for p in placement["providers"])
    (muls.parent / "report.json").write_text(done.stdout)
    text = prony("report", muls.parent / "report.json").stdout
    assert "Test takes 2 of 5 nodes, " in text and "the CPU has Erf (2), Relu." in text


def test_plugin_that_gets_no_nodes(prony, workdir, plugin):
    model = save(workdir / "relu.onnx", [helper.make_node("Relu", ["x"], ["y"])], [value("x", 8)], [value("y", 8)])
    done = prony("profile", model, "-b", f"onnxrt-plugin[ep={plugin}]", *QUICK, "--ops")
    assert done.status == 0, done.stderr
    assert "Test takes none of the 1 nodes; the CPU has Relu." in done.stdout


def test_options_reach_the_provider(results, muls, plugin):
    done, found = results(muls, "onnxrt-cpu", f"onnxrt-plugin[ep={plugin},ep.scale=3]")
    assert done.status == 0, done.stderr
    assert found[1]["outputs"][0]["max_abs"] > 0.1


@pytest.mark.parametrize("options, says", [
    ("", "needs the file of a plugin: onnxrt-plugin[ep=FILE]"),
    ("[ep=no-such.so]", "no-such.so"),
    ("[ep=/etc/passwd]", "cannot load the plugin '/etc/passwd'"),
    ("[ep={plugin},device=npu]", "has no provider for device=npu; it has: TestExecutionProvider (cpu)"),
    ("[ep={plugin},provider=Other]", "has no provider Other for device=cpu"),
    ("[ep={plugin},device=disk]", "'disk' is not one of cpu|gpu|npu")])
def test_plugins_that_cannot_be_used(results, muls, plugin, options, says):
    done, _ = results(muls, "onnxrt-plugin" + options.format(plugin=plugin))
    assert done.status != 0 and says in done.stderr + done.stdout


def test_a_provider_that_the_library_lacks(results, prony, muls):
    done, _ = results(muls, "onnxrt-xnnpack")
    assert done.status != 0 and "needs a build of ONNX Runtime with Xnnpack" in done.stderr + done.stdout
    found = json.loads(prony("backends", "--format", "json").stdout)["backends"]
    assert "onnxrt-xnnpack" not in [b["software"] for b in found]


def test_plugin_in_a_second_session(prony, muls, plugin):
    """Under load there are more runners of the model, and each launch is a process of its own."""
    done = prony("profile", muls, "-b", f"onnxrt-plugin[ep={plugin}]", "--concurrency", "2", "--launches", "2",
                 "--repeats", "20", "--format", "json")
    assert done.status == 0, done.stderr
