"""Several models in one `prony profile`: turns, ratios, inputs, outputs, names."""
import json

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import ROOT
from profiling import save
from service import free_port, serving

SCHEMA = json.loads((ROOT / "docs/prony.profile.schema.json").read_text())
QUICK = ["--launches", "5", "--repeats", "50", "--max-time", "600", "-b", "onnxrt-cpu"]


def model(path, factor, output="y", name="x", dim="n"):
    """y = x * factor."""
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Constant", [], ["f"], value_float=float(factor)),
             helper.make_node("Mul", [name, "f"], [output])]
    return save(path, nodes, [value(name, TensorProto.FLOAT, [dim, 8])],
                [value(output, TensorProto.FLOAT, [dim, 8])])


@pytest.fixture
def profile(prony):
    def call(*arguments, status=0):
        done = prony("profile", *map(str, arguments), "--format", "json")
        assert done.status == status, done.stderr
        data = json.loads(done.stdout)
        jsonschema.validate(data, SCHEMA)
        return data

    return call


def test_models_take_turns_and_are_compared(prony, profile, tmp_path):
    old, new = model(tmp_path / "old.onnx", 2), model(tmp_path / "new.onnx", 2)
    data = profile(old, new, *QUICK, "-b", "onnxrt-cpu[threads=1]")
    assert [each["name"] for each in data["models"]] == ["old.onnx", "new.onnx"]
    assert data["model"] == data["models"][0]
    assert [result["point"] for result in data["results"]] == [0, 0, 1, 1]
    blocks = [set(result["block"]) for result in data["results"]]
    assert all(each == blocks[0] for each in blocks), "all rows have the same blocks"
    for first, second in ((0, 2), (1, 3)):
        assert "model_ratio" not in data["results"][first]
        assert data["results"][second]["model_ratio"]["estimate"] > 0
        assert data["results"][second]["model_verdict"] in ("same", "faster", "slower", "unsure")
    assert "outputs" not in data["points"][0]
    (output,) = data["points"][1]["outputs"]
    assert output["name"] == "y" and output["max_abs"] == 0
    assert "outputs_differing" not in data["points"][1]
    saved = tmp_path / "saved.json"
    saved.write_text(json.dumps(data))
    again = prony("report", str(saved), "--format", "json")
    assert json.loads(again.stdout) == data
    for format in ("text", "md", "csv"):
        shown = prony("report", str(saved), "--format", format).stdout
        assert "old.onnx" in shown and "new.onnx" in shown


def test_other_outputs_are_a_note_or_a_fault(prony, profile, tmp_path):
    old, new = model(tmp_path / "old.onnx", 2), model(tmp_path / "new.onnx", 3, output="z")
    data = profile(old, new, *QUICK)
    assert data["points"][1]["outputs_differing"] == 1
    assert not any("MISMATCH" in result["flags"] for result in data["results"])
    done = prony("profile", str(old), str(new), *QUICK, "--same-outputs")
    assert done.status == 4
    assert "outputs of model 'new.onnx' differ from those of 'old.onnx'" in done.stderr
    assert prony("profile", str(old), str(old), *QUICK, "--same-outputs").status == 0


def test_options_count_for_the_models_that_know_them(prony, profile, tmp_path):
    old = model(tmp_path / "old.onnx", 2, dim="n")
    new = model(tmp_path / "new.onnx", 2, name="input", dim="batch")
    data = profile(old, new, *QUICK, "--dim", "n=2,3", "--dim", "batch=4", "--input", "input=ones")
    assert [point["inputs"][0]["shape"][0] for point in data["points"]] == [2, 4, 3, 4]
    assert [point["inputs"][0]["source"] == "ones" for point in data["points"]] == [False, True] * 2
    done = prony("profile", str(old), str(new), *QUICK, "--dim", "m=2")
    assert done.status == 2 and "'m'" in done.stderr and "old.onnx" in done.stderr


def test_names(prony, profile, tmp_path):
    (tmp_path / "a").mkdir()
    one, two = model(tmp_path / "m.onnx", 2), model(tmp_path / "a/m.onnx", 2)
    data = profile(one, one, f"quantised={two}", *QUICK)
    assert [each["name"] for each in data["models"]] == ["m.onnx", "m.onnx (2)", "quantised"]
    data = profile(one, two, *QUICK)
    assert [each["name"] for each in data["models"]] == [str(one), str(two)]
    odd = model(tmp_path / "a=b.onnx", 2)
    data = profile(odd, one, *QUICK)
    assert [each["path"] for each in data["models"]] == [str(odd), str(one)]
    formats = model(tmp_path / "%s%s%s%s%s%s.onnx", 2)
    done = prony("profile", str(formats), str(one), *QUICK, "--shape", "x=3")
    assert done.status == 2 and "error: %s%s%s%s%s%s.onnx: --shape 'x' has 1 dim" in done.stderr
    done = prony("profile", f"x={one}", f"x={two}", *QUICK)
    assert done.status == 2 and "two models are called 'x'" in done.stderr
    done = prony("profile", str(one), "x=/nowhere.onnx", *QUICK)
    assert done.status != 0 and "'/nowhere.onnx'" in done.stderr


def test_resuming_needs_the_same_models(prony, profile, tmp_path):
    old, new = model(tmp_path / "old.onnx", 2), model(tmp_path / "new.onnx", 2)
    saved = tmp_path / "saved.json"
    saved.write_text(json.dumps(profile(old, new, *QUICK)))
    done = prony("profile", str(old), "--resume", str(saved))
    assert done.status != 0 and "number of models was 2 and is now 1" in done.stderr
    assert prony("profile", str(old), str(new), "--resume", str(saved)).status == 0
    saved.write_text(json.dumps(profile(old, new, *QUICK, "--input", "x=ones")))
    done = prony("profile", str(old), str(new), "--resume", str(saved))
    assert done.status == 0, done.stderr


def external(path, factor):
    """y = x * factor, where the factor lies in a file beside the model that is called the same for all."""
    value = helper.make_tensor_value_info
    weights = numpy_helper.from_array(np.full((64,), factor, np.float32), "f")
    graph = helper.make_graph([helper.make_node("Mul", ["x", "f"], ["y"])], "g",
                              [value("x", TensorProto.FLOAT, [1, 64])],
                              [value("y", TensorProto.FLOAT, [1, 64])], [weights])
    path.parent.mkdir(exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path,
              save_as_external_data=True, location="weights", size_threshold=0)
    return path


def test_on_a_service(prony, profile, tmp_path):
    """Models of the same name, with data of the same name."""
    old, new = external(tmp_path / "old/m.onnx", 2), external(tmp_path / "new/m.onnx", 3)
    np.save(tmp_path / "x.npy", np.ones((1, 64), np.float32))
    with serving(tmp_path / "served", config=f"http: 127.0.0.1:{free_port()}\n") as service:
        service.said("worker.joined")
        options = ["--server", service.address, "-b", "local/onnxrt-cpu", "--launches", "5", "--repeats", "20"]
        data = profile(old, new, *options, "--input", f"x=@{tmp_path / 'x.npy'}")
        assert [each["name"] for each in data["models"]] == [str(old), str(new)]
        assert [result["point"] for result in data["results"]] == [0, 1]
        assert data["results"][1]["model_ratio"]["estimate"] > 0
        (output,) = data["points"][1]["outputs"]
        assert output["name"] == "y" and output["max_abs"] == 1
        assert data["points"][1]["outputs_differing"] == 1
        saved = tmp_path / "saved.json"
        saved.write_text(json.dumps(data))
        again = profile(old, new, *options, "--resume", saved)
        assert [len(r["samples_ns"]) for r in again["results"]] == [20, 20]
        done = prony("profile", str(old), str(new), *options, "--same-outputs")
        assert done.status == 4 and "differ" in done.stderr
        (told, *_) = json.loads(service.http("/api/measurements")[1])["measurements"]
        assert told["model"] == "m.onnx, model 1, m.onnx, model 2"
