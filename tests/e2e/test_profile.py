"""`prony profile` with the real ONNX Runtime: numbers, inputs, failures, interruption."""
import json
import os
import pathlib
import signal
import subprocess
import time

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import PATIENCE, ROOT
from profiling import FAULT_ENV, Terminal, fault, on_one_backend, save, sentences, wait_for

SCHEMA = json.loads((ROOT / "docs/prony.profile.schema.json").read_text())
# Counts of runs, not of seconds: however slow the machine, that many are made.
TIME = ["--max-time", "600"]
QUICK = ["--launches", "2", "--repeats", "40", *TIME]


@pytest.fixture
def profile(prony):
    """Profiles, checks the status and the schema, and returns the JSON."""

    def call(*arguments, status=0, env=None):
        done = prony("profile", *on_one_backend(arguments), "--format", "json", env=env)
        assert done.status == status, done.stderr
        data = json.loads(done.stdout)
        jsonschema.validate(data, SCHEMA)
        return data

    return call


def identity(path, dtype, shape=(2, 3)):
    """x → y unchanged; four-bit types go by way of float, because Identity doesn't take them."""
    value = helper.make_tensor_value_info
    if dtype in (TensorProto.INT4, TensorProto.UINT4):
        nodes = [helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
                 helper.make_node("Cast", ["f"], ["y"], to=dtype)]
    else:
        nodes = [helper.make_node("Identity", ["x"], ["y"])]
    return save(path, nodes, [value("x", dtype, shape)], [value("y", dtype, shape)])


def test_json_holds_every_sample_and_honest_statistics(profile, networks):
    data = profile(networks["mlp"], "--launches", "5", "--repeats", "700", *TIME)
    (result,) = data["results"]
    samples = np.array(result["samples_ns"])
    assert result["backend"]["name"] == "local/onnxrt-cpu"
    assert len(samples) == 700 == len(result["launch"]) == len(result["block"])
    assert sorted(set(result["launch"])) == [0, 1, 2, 3, 4] and len(result["launches"]) == 5
    assert result["block"] == sorted(result["block"])
    stats = result["stats"]
    assert stats["median_ns"] == np.median(samples)
    assert stats["mean_ns"] == pytest.approx(samples.mean())
    assert stats["p99_ns"] == pytest.approx(np.quantile(samples, 0.99))
    assert stats["p999_ns"] is None, "700 samples are too few for p99.9"
    assert stats["low_ns"] <= stats["median_ns"] <= stats["high_ns"]
    assert all(launch["load_ns"] > 0 and launch["first_run_ns"] > 0 and
               launch["peak_bytes"] > launch["baseline_bytes"] > 0 for launch in result["launches"])
    assert data["environment"]["cores"] >= 1 and "landlock" in data["environment"]["sandbox"]


def test_repeats_are_exact(profile, networks):
    for repeats in (1, 7, 20001):
        data = profile(networks["mlp"], "--launches", "2", "--repeats", str(repeats), *TIME)
        assert len(data["results"][0]["samples_ns"]) == repeats and not data["notes"]


def test_few_samples_give_no_percentiles(profile, networks):
    (result,) = profile(networks["mlp"], "--launches", "1", "--repeats", "63", *TIME)["results"]
    assert result["stats"]["p90_ns"] is None
    (result,) = profile(networks["mlp"], "--launches", "1", "--repeats", "64", *TIME)["results"]
    assert result["stats"]["p90_ns"] is not None and result["stats"]["p95_ns"] is None


def test_stops_on_precision_or_says_that_it_did_not(profile, networks):
    data = profile(networks["mlp"], "--max-time", "20", "--precision", "50%")
    (result,) = data["results"]
    assert "IMPRECISE" in result["flags"] or len(result["launches"]) >= 5
    stats = result["stats"]
    if "IMPRECISE" not in result["flags"]:
        assert (stats["high_ns"] - stats["low_ns"]) / 2 <= 0.5 * stats["median_ns"]
    (result,) = profile(networks["mlp"], "--max-time", "0.5", "--precision", "0.01%")["results"]
    assert "IMPRECISE" in result["flags"]


def test_backends_are_interleaved_compared_and_paired(profile, networks):
    data = profile(networks["mlp"], "-b", "onnxrt-cpu[threads=1]", "-b",
                   "local/onnxrt-cpu[opt=off,threads=1]", "-b", "onnxrt-cpu[spin=off,arena=off]",
                   "--launches", "3", "--max-time", "20")
    names = [r["backend"]["name"] for r in data["results"]]
    assert names == ["local/onnxrt-cpu[threads=1]", "local/onnxrt-cpu[opt=off,threads=1]",
                     "local/onnxrt-cpu[spin=off,arena=off]"]
    blocks = [set(r["block"]) for r in data["results"]]
    assert blocks[0] == blocks[1] == blocks[2], "every block has every backend"
    best = min(data["results"], key=lambda r: r["stats"]["median_ns"])
    for result in data["results"]:
        assert result["error"] is None
        ratio = result["ratio"]
        if result is best:
            assert ratio["estimate"] == 1
        else:
            assert ratio["low"] is None and ratio["high"] is None, "three launches have no interval"
    for result in data["results"][1:]:
        (output,) = result["outputs"]
        assert output["name"] == "output" and output["same_shape"]
        assert output["max_rel"] < 1e-5 and output["cosine"] > 0.9999
        assert "MISMATCH" not in result["flags"]


def test_report_shows_a_saved_profile_again(prony, networks, workdir):
    model = networks["mlp"]
    done = prony("profile", model, *QUICK, "--format", "json", "-o", "p.json")
    assert done.status == 0 and done.stdout == "", done.stderr
    again = prony("report", "p.json", "--format", "json")
    assert again.stdout == (workdir / "p.json").read_text()
    text = prony("report", "p.json")
    assert text.status == 0 and text.stdout.count("onnxrt-cpu") >= 1
    header = next(line for line in text.stdout.splitlines() if line.startswith("Backend"))
    assert header.split()[:2] == ["Backend", "Time"]
    assert "Instance" in prony("report", "p.json", "--verbose").stdout
    for name in ("csv", "md"):
        assert prony("report", "p.json", "--format", name).status == 0


def test_seed_decides_inputs(profile, networks):
    first = profile(networks["mlp"], *QUICK, "--seed", "7")
    assert first["settings"]["seed"] == 7 and "seed 7" in first["points"][0]["inputs"][0]["source"]


@pytest.mark.parametrize("name", ["FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64",
                                  "STRING", "BOOL", "FLOAT16", "DOUBLE", "UINT32", "UINT64",
                                  "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "UINT4"])
def test_every_element_type(profile, workdir, name):
    path = identity(workdir / "m.onnx", getattr(TensorProto, name))
    data = profile(path, "-b", "onnxrt-cpu", "-b", "onnxrt-cpu[opt=off]", *QUICK)
    assert data["points"][0]["inputs"][0]["shape"] == [2, 3]
    (output,) = data["results"][1]["outputs"]
    assert output["same_shape"] and output["max_abs"] in (0, None)


def test_rank_zero_and_empty_tensors(profile, workdir):
    for shape in ((), (0, 3)):
        profile(identity(workdir / "m.onnx", TensorProto.FLOAT, shape), *QUICK)


def test_outputs_whose_shape_changes(profile, workdir):
    """NonZero of random numbers: every run gives another number of elements."""
    path = save(workdir / "m.onnx",
                [helper.make_node("RandomUniform", [], ["r"], shape=[100]),
                 helper.make_node("Greater", ["r", "half"], ["b"]),
                 helper.make_node("NonZero", ["b"], ["y"])],
                [], [helper.make_tensor_value_info("y", TensorProto.INT64, [1, "n"])],
                [helper.make_tensor("half", TensorProto.FLOAT, [], [0.5])])
    (result,) = profile(path, *QUICK)["results"]
    assert result["error"] is None and len(result["samples_ns"]) == 40


def test_more_outputs_than_can_be_compared(profile, prony, workdir):
    value = helper.make_tensor_value_info
    path = save(workdir / "m.onnx",
                [helper.make_node("Identity", ["x"], [f"y{i}"]) for i in range(1100)],
                [value("x", TensorProto.FLOAT, [2])],
                [value(f"y{i}", TensorProto.FLOAT, [2]) for i in range(1100)])
    assert profile(path, *QUICK)["results"][0]["error"] is None
    done = prony("profile", path, "-b", "onnxrt-cpu", "-b", "onnxrt-cpu", *QUICK)
    assert done.status == 1 and "1100 outputs" in done.stderr


def test_paths(profile, workdir):
    """Odd names, links, and external data beside a link or behind one."""
    folder = workdir / "a b=c ü"
    folder.mkdir()
    model = identity(folder / "m=1 é.onnx", TensorProto.FLOAT)
    (workdir / "link.onnx").symlink_to(model)
    (workdir / "there").symlink_to(folder)
    for path in (model, "a b=c ü/m=1 é.onnx", "link.onnx", "there/m=1 é.onnx", "./there/../link.onnx"):
        profile(path, *QUICK)
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2],
                         data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.bin")
    value = helper.make_tensor_value_info
    (workdir / "store").mkdir()
    save(workdir / "store/1234", [helper.make_node("Add", ["x", "w"], ["y"])],
         [value("x", TensorProto.FLOAT, [2])], [value("y", TensorProto.FLOAT, [2])], [weight])
    (folder / "external.onnx").symlink_to(workdir / "store/1234")
    (folder / "w.bin").write_bytes(bytes(8))
    for path in (folder / "external.onnx", "there/external.onnx"):
        profile(path, *QUICK)


@pytest.mark.parametrize("kind", ["sequence", "optional", "map"])
def test_other_kinds_of_input_are_refused_by_name(prony, workdir, kind):
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    types = {"sequence": helper.make_sequence_type_proto(tensor),
             "optional": helper.make_optional_type_proto(tensor),
             "map": helper.make_map_type_proto(TensorProto.INT64, tensor)}
    value = helper.make_value_info("things", types[kind])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    save(workdir / "m.onnx", [helper.make_node("Identity", ["things"], ["y"])], [value], [out])
    done = prony("profile", "m.onnx")
    assert done.status == 1 and "'things'" in done.stderr and kind in done.stderr
    assert done.stderr.count("\n") == 1


def test_input_files(profile, workdir):
    value = helper.make_tensor_value_info
    path = save(workdir / "m.onnx", [helper.make_node("Add", ["a", "b"], ["y"])],
                [value("a", TensorProto.FLOAT, ["n", 2]), value("b", TensorProto.FLOAT, [2])],
                [value("y", TensorProto.FLOAT, ["n", 2])])
    a = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.save(workdir / "a.npy", a)
    (workdir / "b.pb").write_bytes(numpy_helper.from_array(a[0]).SerializeToString())
    (workdir / "b.raw").write_bytes(a[0].tobytes())
    for b in ("b.pb", "b.raw"):
        data = profile(path, "--input", "a=@a.npy", "--input", f"b=@{b}", *QUICK)
        assert data["points"][0]["inputs"][0]["shape"] == [3, 2] and data["points"][0]["inputs"][1]["source"] == f"@{b}"
        assert not data["notes"], "the file gave the open dimension"
    (workdir / "set").mkdir()
    for i, array in enumerate((a, a[0])):
        (workdir / f"set/input_{i}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
    assert profile(path, "--inputs", "set", *QUICK)["points"][0]["inputs"][0]["shape"] == [3, 2]


def test_wrong_input_files(prony, workdir):
    path = identity(workdir / "m.onnx", TensorProto.FLOAT)
    np.save(workdir / "shape.npy", np.zeros((3, 3), np.float32))
    np.save(workdir / "type.npy", np.zeros((2, 3), np.float64))
    np.save(workdir / "order.npy", np.asfortranarray(np.zeros((2, 3), np.float32)))
    (workdir / "cut.npy").write_bytes((workdir / "shape.npy").read_bytes()[:-4])
    (workdir / "short.raw").write_bytes(b"1234")
    (workdir / "text.pb").write_text("not a tensor")
    for name in ("shape.npy", "type.npy", "order.npy", "cut.npy", "short.raw", "text.pb",
                 "missing.npy", "name.txt"):
        done = prony("profile", path, "--input", f"x=@{name}")
        assert done.status in (1, 2) and name in done.stderr and done.stderr.startswith("prony: error")
        assert done.stdout == ""
    done = prony("profile", path, "--input", "z=ones")
    assert done.status == 2 and "'z'" in done.stderr and "'x'" in done.stderr
    assert prony("profile", path, "--input", "x=").status == 2


@pytest.mark.parametrize("name", ["small", pytest.param("bert-base", marks=pytest.mark.long)])
def test_open_dimensions(profile, prony, networks, workdir, name):
    if name == "small":
        model = sentences(workdir / "m.onnx", "batch", 16)
    else:
        model = networks.get(name, "--batch", "dynamic", "--seq", "16")
    data = profile(model, "--launches", "1", "--repeats", "2", *TIME)
    assert [i["shape"] for i in data["points"][0]["inputs"]] == [[1, 16]] * 3
    assert any("batch" in note and "--dim" in note for note in data["notes"])
    data = profile(model, "--launches", "1", "--repeats", "2", "--dim", "batch=2", *TIME)
    assert [i["shape"] for i in data["points"][0]["inputs"]] == [[2, 16]] * 3 and not data["notes"]
    sources = {i["name"]: i["source"] for i in data["points"][0]["inputs"]}
    assert "30522" in sources["input_ids"] and "ones" in sources["attention_mask"]
    for wrong in (["--dim", "nothing=2"], ["--dim", "batch"], ["--shape", "input_ids=2x17"],
                  ["--shape", "input_ids=2"], ["--shape", "other=2"], ["--dim", "batch=-1"]):
        done = prony("profile", model, *wrong)
        assert done.status == 2 and done.stderr.startswith("prony: error:"), wrong


@pytest.mark.parametrize("backend, status, says", [
    ("onnxrt-gpu", 1, "onnxrt-cpu"),
    ("r6i.large/onnxrt-cpu", 1, "r6i.large"),
    ("onnxrt-cpu[threads", 2, "onnxrt-cpu[threads"),
    ("onnxrt-cpu[thread=2]", 2, "inter_threads"),
    ("onnxrt-cpu[threads=many]", 2, "many"),
    ("onnxrt-cpu[opt=most]", 2, "extended"),
    ("onnxrt-cpu[spin=2]", 2, "spin"),
    ("onnxrt-cuda", 1, "NVIDIA GPU"),
    ("onnxrt-tensorrt", 1, "NVIDIA GPU"),
    ("onnxrt-cpu[lib=/nowhere/libonnxruntime.so]", 1, "/nowhere/libonnxruntime.so"),
    ("onnxrt-cpu[lib=/etc/hostname]", 1, "/etc/hostname"),
])
def test_wrong_backends(prony, networks, backend, status, says):
    done = prony("profile", networks["mlp"], "-b", backend)
    assert done.status == status and says in done.stderr
    assert done.stderr.startswith("prony: error:")


def test_the_model_is_not_overwritten(prony, networks, workdir):
    data = networks["mlp"].read_bytes()
    (workdir / "m.onnx").write_bytes(data)
    done = prony("profile", "m.onnx", "-o", "m.onnx")
    assert done.status == 2 and (workdir / "m.onnx").read_bytes() == data


def test_an_input_given_twice(prony, networks):
    done = prony("profile", networks["mlp"], "--input", "input=ones", "--input", "input=zeros")
    assert done.status == 2 and "twice" in done.stderr


def test_a_named_input_counts_before_the_folder(profile, workdir):
    """--inputs has the others: neither option is ignored."""
    value = helper.make_tensor_value_info
    save(workdir / "m.onnx", [helper.make_node("Add", ["x", "y"], ["z"])],
         [value(name, TensorProto.FLOAT, [2, 3]) for name in "xy"], [value("z", TensorProto.FLOAT, [2, 3])])
    (workdir / "data").mkdir()
    numbers = helper.make_tensor("x", TensorProto.FLOAT, [2, 3], range(6))
    (workdir / "data/input_0.pb").write_bytes(numbers.SerializeToString())
    data = profile("m.onnx", "--inputs", "data", "--input", "y=0.5", "--launches", "1", "--repeats", "2", *TIME)
    assert [i["source"] for i in data["points"][0]["inputs"]] == ["@data/input_0.pb", "0.5"]


def test_lengths_are_those_of_their_sequences(profile, workdir):
    """Lengths of 1 would leave most of the sequence out."""
    value = helper.make_tensor_value_info
    save(workdir / "m.onnx",
         [helper.make_node("Cast", ["x_lengths"], ["c"], to=TensorProto.FLOAT),
          helper.make_node("Add", ["x", "c"], ["z"])],
         [value("x_lengths", TensorProto.INT64, [1]), value("other", TensorProto.FLOAT, [1, 2]),
          value("x", TensorProto.FLOAT, ["batch", "time"])], [value("z", TensorProto.FLOAT, ["batch", "time"])])
    np.save(workdir / "x.npy", np.zeros((1, 9), np.float32))
    once = ["--launches", "1", "--repeats", "1"]
    data = profile("m.onnx", "--dim", "time=7", *once)
    assert data["points"][0]["inputs"][0]["source"] == "7, the length of its sequence"
    data = profile("m.onnx", "--input", "x=@x.npy", *once)
    assert data["points"][0]["inputs"][0]["source"] == "9, the length of its sequence"
    assert [i["shape"] for i in data["points"][0]["inputs"]] == [[1], [1, 2], [1, 9]]


def test_quantised_models_have_a_tolerance_of_their_own(profile, workdir):
    value = helper.make_tensor_value_info
    constants = [helper.make_tensor("scale", TensorProto.FLOAT, [], [0.01]),
                 helper.make_tensor("zero", TensorProto.UINT8, [], [0])]
    save(workdir / "q.onnx", [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
                              helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"])],
         [value("x", TensorProto.FLOAT, [2, 3])], [value("y", TensorProto.FLOAT, [2, 3])], constants)
    both = ["-b", "onnxrt-cpu[opt=off|all]", "--launches", "1", "--repeats", "1"]
    data = profile("q.onnx", *both)
    assert data["settings"]["tolerance"] == 0.05 and any("--tolerance" in note for note in data["notes"])
    data = profile("q.onnx", *both, "--tolerance", "0.1%")
    assert data["settings"]["tolerance"] == 0.001 and not data["notes"]


def test_nan_is_not_agreement(prony, workdir):
    value = helper.make_tensor_value_info
    save(workdir / "m.onnx", [helper.make_node("Sqrt", ["x"], ["y"])],
         [value("x", TensorProto.FLOAT, [2, 3])], [value("y", TensorProto.FLOAT, [2, 3])])
    done = prony("profile", "m.onnx", "--input", "x=-1", "-b", "onnxrt-cpu[opt=off|all]", "--launches", "1",
                 "--repeats", "1")
    text = " ".join(done.stdout.split())
    assert done.status == 0 and "'y' is NaN (not a number) in 6 places" in text and "agree (" not in text


def test_made_up_inputs_that_fail_are_said(prony, workdir):
    """Reshape to a shape that comes from an input: ones don't fit."""
    value = helper.make_tensor_value_info
    save(workdir / "m.onnx", [helper.make_node("Reshape", ["x", "shape"], ["y"])],
         [value("x", TensorProto.FLOAT, [2, 3]), value("shape", TensorProto.INT64, [1])],
         [value("y", TensorProto.FLOAT, ["n"])])
    done = prony("profile", "m.onnx", "-b", "onnxrt-cpu", *QUICK)
    assert done.status == 1 and "--inputs DIR" in done.stdout and ".cc:" not in done.stderr
    done = prony("profile", "m.onnx", "--input", "shape=6", *QUICK)
    assert done.status == 0 and "--inputs DIR" not in done.stdout


def test_a_folder_of_inputs_that_is_not_used_is_refused(prony, networks):
    done = prony("profile", networks["mlp"], "--inputs", "nowhere", "--input", "input=ones", *QUICK)
    assert done.status == 2 and "--inputs 'nowhere' is not used: --input names every input" in done.stderr


def test_work_that_is_not_known_gives_no_rate(prony, workdir):
    """Part of the work, or none: no GFLOP/s. Nothing counted isn't "at least 0"."""
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("NonZero", ["x"], ["z"]),
             helper.make_node("Cast", ["z"], ["y"], to=TensorProto.FLOAT),
             helper.make_node("Sqrt", ["x"], ["s"])]
    inputs, outputs = [value("x", TensorProto.FLOAT, [4])], [value("y", TensorProto.FLOAT, [1, "n"])]
    save(workdir / "none.onnx", nodes[:2], inputs, outputs)
    save(workdir / "part.onnx", nodes, inputs, [*outputs, value("s", TensorProto.FLOAT, [4])])
    for name, shown, model_shown in (("none", " · FLOPs not known", "No node's work is known."),
                                     ("part", " · at least 4 FLOP", "Totals are lower bounds (+)")):
        done = prony("profile", f"{name}.onnx", "-b", "onnxrt-cpu", *QUICK)
        assert done.status == 0 and shown in done.stdout and "GFLOP/s" not in done.stdout
        assert model_shown in prony("model", f"{name}.onnx").stdout


def test_config_keys_are_passed_on(profile, networks):
    key = "onnxrt-cpu[ort.session.use_env_allocators=0,ort.session.disable_prepacking=1]"
    assert profile(networks["mlp"], "-b", key, *QUICK)["results"][0]["error"] is None


def test_an_old_library_is_refused(prony, networks):
    done = prony("profile", networks["mlp"], "-b", fault("old"), env=FAULT_ENV)
    assert done.status == 1 and "1.14.1" in done.stderr and "too old" in done.stderr


def test_a_crash_is_one_failed_row(profile, networks):
    data = profile(networks["mlp"], "-b", fault("abort"), "-b", "onnxrt-cpu", "-b", fault("exit"),
                   *QUICK, "--warmups", "5", status=1, env=FAULT_ENV)
    crashed, fine, left = data["results"]
    assert "signal 6" in crashed["error"]["message"] and "fault injected" in crashed["error"]["message"]
    assert fine["error"] is None and len(fine["samples_ns"]) == 40
    assert "status 3" in left["error"]["message"]


def test_a_hang_ends_at_the_timeout(profile, networks):
    data = profile(networks["mlp"], "-b", fault("hang"), "-b", "onnxrt-cpu", *QUICK, "--timeout", "2",
                   status=1, env=FAULT_ENV)
    hung, fine = data["results"]
    assert "--timeout" in hung["error"]["message"] and fine["error"] is None


def test_a_runtime_that_cuts_the_connection_is_killed(profile, networks):
    data = profile(networks["mlp"], "-b", fault("deaf"), "-b", "onnxrt-cpu", *QUICK, status=1,
                   env=FAULT_ENV)
    deaf, fine = data["results"]
    assert "connection" in deaf["error"]["message"] and fine["error"] is None


def test_a_runtime_cannot_shrink_shared_memory(profile, networks):
    data = profile(networks["mlp"], "-b", fault("shrink"), "-b", "onnxrt-cpu", *QUICK, env=FAULT_ENV)
    assert all(len(result["samples_ns"]) == 40 for result in data["results"])


def test_the_timeout_is_for_a_run_not_for_many(profile, networks):
    data = profile(networks["mlp"], "-b", fault("sleep"), "--timeout", "2", "--launches", "1",
                   "--repeats", "6", "--warmups", "4", *TIME, env=FAULT_ENV)
    (result,) = data["results"]
    assert result["error"] is None and len(result["samples_ns"]) == 6
    assert result["launches"][0]["warmup_runs"] == 4


def test_samples_get_most_of_the_time(profile, networks):
    """Runs of 0.4 s in 8 s: windows of warm-up would eat it, launch after launch."""
    (result,) = profile(networks["mlp"], "-b", fault("sleep"), "--max-time", "8", env=FAULT_ENV)["results"]
    spent = sum(launch["warmup_runs"] + 1 for launch in result["launches"])
    assert len(result["samples_ns"]) >= spent, result["launches"]


def test_time_is_up_also_within_fixed_repeats(profile, networks):
    data = profile(networks["mlp"], "-b", fault("sleep"), "--repeats", "1000", "--max-time", "3",
                   env=FAULT_ENV)
    assert 0 < len(data["results"][0]["samples_ns"]) < 1000
    assert any("--repeats" in note for note in data["notes"])


def endless_loop(path):
    """A Loop whose condition stays true and that has no trip count."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), helper.make_node("Add", ["v", "v"], ["w"])],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
         helper.make_tensor_value_info("w", TensorProto.FLOAT, [1])])
    return save(path, [helper.make_node("Loop", ["", "yes", "x"], ["y"], body=body)],
                [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
                [helper.make_tensor("yes", TensorProto.BOOL, [], [True])])


def test_an_endless_model_ends_at_the_timeout(prony, workdir):
    done = prony("profile", endless_loop(workdir / "m.onnx"), "--timeout", "1")
    assert done.status == 1 and "--timeout" in done.stderr


def test_a_model_that_wants_all_memory_fails_cleanly(prony, workdir):
    save(workdir / "m.onnx", [helper.make_node("Expand", ["x", "shape"], ["y"])],
         [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
         [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
         [helper.make_tensor("shape", TensorProto.INT64, [1], [1 << 40])])
    done = prony("profile", "m.onnx", "-b", "onnxrt-cpu", "--timeout", "20")
    assert done.status == 1 and "failed" in done.stdout


def test_interrupt_reports_what_was_measured(program, networks):
    run = Terminal(program, [networks["mlp"], "--precision", "0.01%", "--launches", "1000"])
    run.wait_for_progress(b"process 2,")
    run.wait_for_progress(b"measuring")
    run.process.send_signal(signal.SIGINT)
    out, _ = run.process.communicate(timeout=PATIENCE)
    assert run.process.returncode == 0
    assert b"onnxrt-cpu" in out and b"Interrupted" in out
    wait_for(lambda: not run.mine(), "executors to end")


def test_interrupt_before_any_result(program, workdir):
    run = Terminal(program, [endless_loop(workdir / "m.onnx")])
    run.wait_for_progress(b"loading")
    wait_for(run.mine, "an executor")
    run.process.send_signal(signal.SIGINT)
    run.process.communicate(timeout=PATIENCE)
    assert run.process.returncode == 130
    wait_for(lambda: not run.mine(), "executors to end")


def test_killed_prony_leaves_no_executor(program, networks):
    run = Terminal(program, [networks["mlp"], "--precision", "0.01%", "--launches", "1000"])
    run.wait_for_progress(b"measuring")
    run.process.kill()
    run.process.communicate(timeout=PATIENCE)
    wait_for(lambda: not run.mine(), "executors to end")


def test_second_interrupt_ends_the_program(program, networks):
    run = Terminal(program, [networks["mlp"], "--precision", "0.01%", "--launches", "1000"])
    run.wait_for_progress(b"measuring")
    # Stopped, so that it meets both at once and can't end by itself in between.
    run.process.send_signal(signal.SIGSTOP)
    run.process.send_signal(signal.SIGINT)
    run.process.send_signal(signal.SIGTERM)
    run.process.send_signal(signal.SIGCONT)
    run.process.communicate(timeout=PATIENCE)
    assert run.process.returncode in (-signal.SIGINT, -signal.SIGTERM)
    wait_for(lambda: not run.mine(), "executors to end")


def test_stopped_longer_than_the_timeout(program, networks):
    """Ctrl-Z and fg: the executor had time enough."""
    run = Terminal(program, [networks["mlp"], "--launches", "3", "--timeout", "10"])
    run.wait_for_progress(b"measuring")
    run.process.send_signal(signal.SIGSTOP)
    time.sleep(10.5)
    run.process.send_signal(signal.SIGCONT)
    out, _ = run.process.communicate(timeout=PATIENCE)
    assert run.process.returncode == 0 and b"failed" not in out


def test_executors_inherit_nothing(program, networks, workdir):
    with open(workdir / "private", "w") as file:
        run = Terminal(program, [networks["mlp"], "--precision", "0.01%", "--launches", "1000"],
                       pass_fds=[file.fileno()])
        run.wait_for_progress(b"measuring")
        wait_for(run.mine, "an executor")
        names = {os.readlink(path) for pid in run.mine()
                 for path in pathlib.Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()}
        run.process.kill()
        run.process.communicate(timeout=PATIENCE)
    assert any("prony-outputs" in name for name in names)
    assert not any("private" in name for name in names)


def test_output_is_checked_before_measuring(prony, workdir):
    path = endless_loop(workdir / "m.onnx")
    for output in ("no/such/folder.json", "m.onnx/below", "."):
        done = prony("profile", path, "-o", output)
        assert done.status == 1 and f"'{output}'" in done.stderr and done.stdout == ""
    done = prony("profile", path, preexec_fn=lambda: os.close(1))
    assert done.status == 1 and "standard output" in done.stderr


def test_no_progress_in_a_pipe(prony, networks):
    done = prony("profile", networks["mlp"], *QUICK)
    assert done.status == 0 and done.stderr == ""


@pytest.mark.parametrize("external", [True, False])
def test_large_models_cost_the_parent_little_memory(program, workdir, external):
    """A model of 1 GiB (external data, sparse file) in a parent of less than 16 MiB, and so with 64 MiB in
    the file itself, of which a fingerprint is taken."""
    n = 1 << (28 if external else 24)
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[n])
    if external:
        weight.data_location = TensorProto.EXTERNAL
        for key, text in (("location", "w.bin"), ("offset", "0"), ("length", str(4 * n))):
            weight.external_data.add(key=key, value=text)
        with open(workdir / "w.bin", "wb") as file:
            file.truncate(4 * n)
    else:
        weight.raw_data = bytes(4 * n)
    save(workdir / "m.onnx", [helper.make_node("Gather", ["w", "i"], ["y"])],
         [helper.make_tensor_value_info("i", TensorProto.INT64, [4])],
         [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])], [weight])
    # getrusage would count the executor too, so the parent's own peak is read while it runs.
    process = subprocess.Popen([program, "profile", "m.onnx", "--launches", "1", "--repeats", "2"],
                               cwd=workdir, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        try:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            peak = max([peak] + [int(line.split()[1]) for line in status.splitlines()
                                 if line.startswith("VmHWM")])
        except (OSError, ProcessLookupError):
            break
        time.sleep(0.002)
    assert process.wait() == 0
    assert 0 < peak < 16 * 1024, f"{peak} KiB"


def test_open_dimensions_are_named(prony, workdir):
    """A size of 1 doesn't suit a Pad that reflects: every command says which dimensions it guessed."""
    pads = helper.make_tensor("pads", TensorProto.INT64, [4], [0, 1, 0, 1])
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"]),
         helper.make_node("Pad", ["r", "pads"], ["y"], mode="reflect")], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", "?"]),
         helper.make_tensor_value_info("unused", TensorProto.FLOAT, ["rows", "columns"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [pads])
    path = workdir / "pad.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              path)
    options = "(to set them: --shape x=NxN --dim columns=N): "
    done = prony("profile", path, "--backend", "onnxrt-cpu", "--launches", "1", "--max-time", "1")
    assert done.status == 1
    assert f"with open dimensions taken as 1 {options}" in done.stderr
    done = prony("layers", path, "--cuts", "r", "-b", "1", "--max-time", "1", "-o",
                 workdir / "results.yml")
    assert done.status == 1
    assert f"with open dimensions taken as 1 {options}" in done.stderr
    done = prony("profile", path, "--backend", "onnxrt-cpu", "--launches", "1", "--max-time", "1",
                 "--shape", "x=1x4", "--repeats", "3")
    assert (done.stderr, done.status) == ("", 0)


def test_backends_have_the_names_they_are_given(prony, profile, networks, workdir):
    """In reports, comparisons, the reference, and when resumed."""
    given = ["-b", "old=onnxrt-cpu[threads=1]", "-b", "the new=onnxrt-cpu[threads=1|2]"]
    data = profile(networks["mlp"], *QUICK, *given, "--reference", "the new threads=2")
    assert [(r["backend"]["name"], r["backend"]["spec"]) for r in data["results"]] == [
        ("old", "local/onnxrt-cpu[threads=1]"),
        ("the new threads=1", "local/onnxrt-cpu[threads=1]"),
        ("the new threads=2", "local/onnxrt-cpu[threads=2]")]
    assert data["settings"]["reference"] == "the new threads=2"
    (workdir / "before.json").write_text(json.dumps(data))
    for form in ("text", "md", "csv", "html"):
        shown = prony("report", "before.json", "--format", form).stdout
        assert "the new threads=1" in shown and "onnxrt-cpu[threads=2]" in shown, form
    assert json.loads(prony("report", "before.json", "--format", "json").stdout) == data
    resumed = profile(networks["mlp"], "--resume", "before.json")
    assert [r["backend"] for r in resumed["results"]] == [r["backend"] for r in data["results"]]
    after = profile(networks["mlp"], *QUICK, "-b", "old=onnxrt-cpu[threads=2]",
                    "-b", "onnxrt-cpu[threads=2]")
    assert "spec" not in after["results"][1]["backend"]
    (workdir / "after.json").write_text(json.dumps(after))
    compared = json.loads(prony("report", "before.json", "after.json", "--format", "json").stdout)
    (file,) = compared["files"]
    # A name in both files makes partners; a name in one of them stands for its spec.
    assert {row["backend"]: bool(row["before"] and row["after"]) for row in file["rows"]} == {
        "old": True, "the new threads=1": False, "local/onnxrt-cpu[threads=2]": True}
    text = " ".join(prony("report", "before.json", "after.json").stdout.split())
    assert "The same name stands for another backend." in text


@pytest.mark.parametrize("given, says", [
    (["a=onnxrt-cpu", "a=openvino-cpu"], "two backends are called 'a'"),
    (["a=onnxrt-cpu", "a=onnxrt-cpu"], "two backends are called 'a'"),
    (["local/onnxrt-cpu=onnxrt-cpu[threads=2]", "onnxrt-cpu"], "two backends are called 'local/onnxrt-cpu'"),
    (["=onnxrt-cpu"], "bad backend '=onnxrt-cpu': no name before the '='"),
    (["a="], "bad backend '': no software"),
])
def test_wrong_names_of_backends(prony, networks, given, says):
    done = prony("profile", networks["mlp"], *(word for text in given for word in ("-b", text)))
    assert done.status == 2 and says in done.stderr and not done.stdout, done.stderr
