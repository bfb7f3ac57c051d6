"""`prony synth`: the networks are valid, complete, reproducible, and compute."""
import collections
import os
import signal
import subprocess
import time

import numpy
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

# Trained parameters as published, and the inputs and outputs.
NETWORKS = {
    "mlp": (22_210, ["input"], ["output"]),
    "resnet50": (25_557_032, ["input"], ["output"]),
    "mobilenet-v2": (3_504_872, ["input"], ["output"]),
    "vit-base-patch16-224": (86_567_656, ["pixel_values"], ["logits"]),
    "bert-base": (109_482_240, ["input_ids", "attention_mask", "token_type_ids"],
                  ["last_hidden_state", "pooler_output"]),
    "gpt2-small": (124_439_808, ["input_ids"], ["logits"]),
}
# A node that everybody looks for, and how many operators of a kind there are.
LANDMARKS = {
    "mlp": ("/fc1/Gemm", "Gemm", 2),
    "resnet50": ("/layer1/0/conv1/Conv", "Conv", 53),
    "mobilenet-v2": ("/features/1/depthwise/Conv", "Conv", 52),
    "vit-base-patch16-224": ("/blocks.0/mlp/fc1/MatMul", "Softmax", 12),
    "bert-base": ("/encoder/layer.3/attention/query/MatMul", "Softmax", 12),
    "gpt2-small": ("/h.11/attn/c_attn/MatMul", "Softmax", 12),
}


def write(prony, workdir, name, *options):
    """The model's path; the caller removes what is large."""
    path = workdir / f"{name}.onnx"
    done = prony("synth", name, *options, "-o", path)
    assert (done.stdout, done.stderr, done.status) == ("", "", 0)
    return path


def shapes(values):
    return {v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
            for v in values}


@pytest.mark.parametrize("name", NETWORKS)
def test_network(name, prony, workdir):
    """Written with batch and sequence open, which the checker then has to follow through."""
    parameters, inputs, outputs = NETWORKS[name]
    text = name in ("bert-base", "gpt2-small")
    path = write(prony, workdir, name, "--batch", "dynamic",
                 *(["--seq", "dynamic"] if text else []))
    onnx.checker.check_model(path, full_check=True)
    model = onnx.load(path)
    path.unlink()
    assert (model.ir_version, model.opset_import[0].version) == (8, 17)

    trained = [t for t in model.graph.initializer if ".running_" not in t.name]
    assert sum(numpy.prod(t.dims, dtype=int) for t in trained) == parameters
    normalised = sum(n.op_type == "BatchNormalization" for n in model.graph.node)
    assert len(model.graph.initializer) - len(trained) == 2 * normalised

    interface = {**shapes(model.graph.input), **shapes(model.graph.output)}
    assert [v.name for v in model.graph.input] == inputs
    assert [v.name for v in model.graph.output] == outputs
    assert all(dims[0] == "batch" for dims in interface.values())
    assert all(interface[i] == ["batch", "seq"] for i in inputs if text)

    names = collections.Counter(n.name for n in model.graph.node)
    landmark, kind, count = LANDMARKS[name]
    assert landmark in names and names.most_common(1)[0][1] == 1
    assert sum(n.op_type == kind for n in model.graph.node) == count
    largest = max(trained, key=lambda t: numpy.prod(t.dims, dtype=int))
    values = onnx.numpy_helper.to_array(largest)[:64]
    assert numpy.isfinite(values).all() and values.std() > 1e-3 and abs(values.mean()) < 0.01


def test_vit_can_be_cut_four_times_per_block(prony, workdir):
    path = write(prony, workdir, "vit-base-patch16-224", "--batch", "2")
    model = onnx.load(path)
    path.unlink()
    made = {output for node in model.graph.node for output in node.output}
    declared = shapes(model.graph.value_info)
    places = {f"/cut/blocks.{block}/{place}": [2, 197, width] for block in range(12)
              for place, width in {"attn/context": 768, "attn/residual": 768, "mlp/hidden": 3072,
                                   "mlp/residual": 768}.items()}
    del places["/cut/blocks.11/mlp/residual"]  # only the head would be behind it
    assert {name for name in made if name.startswith("/cut/")} == set(places)
    assert declared == places


def test_gpt2_head_is_the_embedding(prony, workdir):
    path = write(prony, workdir, "gpt2-small")
    model = onnx.load(path)
    path.unlink()
    users = [n.name for n in model.graph.node if "wte.weight" in n.input]
    assert users == ["/wte/Gather", "/lm_head/Transpose"]
    assert shapes(model.graph.input) == {"input_ids": [1, 128]}


def test_mlp_computes(prony, workdir):
    path = write(prony, workdir, "mlp", "--batch", "3")
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    x = numpy.random.default_rng(0).random((3, 100), dtype=numpy.float32)
    hidden = numpy.maximum(x @ weights["fc1.weight"].T + weights["fc1.bias"], 0)
    expected = hidden @ weights["fc2.weight"].T + weights["fc2.bias"]
    (y,) = ReferenceEvaluator(str(path)).run(None, {"input": x})
    assert y.shape == (3, 10) and y.std() > 0.1
    numpy.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name, bound", [("bert-base", 30522), ("gpt2-small", 50257)])
def test_transformers_compute(name, bound, prony, workdir):
    """Finite, neither vanishing nor constant; and no token sees what its mask hides."""
    path = write(prony, workdir, name, "--batch", "dynamic", "--seq", "dynamic")
    evaluator = ReferenceEvaluator(str(path))
    path.unlink()
    ids = numpy.random.default_rng(0).integers(0, bound, (2, 6))
    ids[1] = ids[0]
    ids[1, 5] += 1 if ids[1, 5] < bound - 1 else -1  # the sequences differ in the last token
    inputs = {"input_ids": ids}
    if name == "bert-base":
        inputs["attention_mask"] = numpy.array([[1] * 5 + [0]] * 2)
        inputs["token_type_ids"] = numpy.zeros_like(ids)
    y = evaluator.run(None, inputs)[0]
    assert numpy.isfinite(y).all() and 0.1 < y.std() < 10
    assert numpy.array_equal(y[0, :5], y[1, :5])
    assert not numpy.allclose(y[0, 5], y[1, 5])


def test_images_compute(prony, workdir):
    path = write(prony, workdir, "mobilenet-v2")
    x = numpy.random.default_rng(0).random((1, 3, 224, 224), dtype=numpy.float32)
    (y,) = ReferenceEvaluator(str(path)).run(None, {"input": x})
    assert y.shape == (1, 1000) and numpy.isfinite(y).all() and 0.1 < y.std() < 10


def test_sizes_of_mlp(prony, workdir):
    path = write(prony, workdir, "mlp", "--hidden", "64", "--layers", "3")
    dims = {t.name: list(t.dims) for t in onnx.load(path).graph.initializer}
    assert [dims[f"fc{i}.weight"] for i in (1, 2, 3, 4)] == [[64, 100], [64, 64], [64, 64],
                                                              [10, 64]]


def test_seed_decides(prony, program, workdir):
    first, again, other = (workdir / name for name in ("first", "again", "other"))
    for path, seed in (first, "7"), (again, "7"), (other, "8"):
        assert prony("synth", "mlp", "--seed", seed, "-o", path).status == 0
    assert first.read_bytes() == again.read_bytes() != other.read_bytes()
    with open(workdir / "piped", "wb") as pipe:
        subprocess.run([program, "synth", "mlp", "--seed", "7", "-o", "-"], stdout=pipe,
                       check=True)
    assert (workdir / "piped").read_bytes() == first.read_bytes()


@pytest.mark.parametrize("arguments, message", [
    (["mlp"], "-o FILE is missing ('-' is standard output)"),
    ([], "a network is missing; 'prony synth --list' shows all"),
    (["resnet51", "-o", "x"], "unknown network 'resnet51'; there are mlp, resnet50, "
     "mobilenet-v2, vit-base-patch16-224, vit-large-patch16-224, vit-huge-patch14-224-in21k, "
     "deit-base-distilled-patch16-224, deit-small-distilled-patch16-224, "
     "deit-tiny-distilled-patch16-224, bert-base, bert-base-uncased, bert-large-uncased, "
     "bert-base-uncased-CoLA, gpt2-small"),
    (["resnet50", "--seq", "8", "-o", "x"], "--seq: 'resnet50' takes no sequence"),
    (["bert-base", "--seq", "513", "-o", "x"],
     "--seq: 'bert-base' takes sequences of up to 512 tokens"),
    (["mlp", "--batch", "0", "-o", "x"], "--batch: '0' is neither 'dynamic' nor from 1 to 65536"),
    (["mlp", "--batch", "2x", "-o", "x"],
     "--batch: '2x' is neither 'dynamic' nor from 1 to 65536"),
    (["resnet50", "--hidden", "8", "-o", "x"],
     "--hidden: only 'mlp' can be sized, not 'resnet50'"),
    (["mlp", "--list"], "--list takes no network"),
])
def test_misuse(arguments, message, prony, workdir):
    done = prony("synth", *arguments)
    assert done.status == 2
    assert done.stderr == f"prony: error: {message}\nprony: see 'prony synth --help'\n"
    assert not list(workdir.iterdir())


def test_failures_leave_nothing(prony, workdir):
    done = prony("synth", "mlp", "--hidden", "65536", "--layers", "2", "-o", "big.onnx")
    assert (done.status, done.stderr) == (1, "prony: error: cannot write 'big.onnx': the model is "
                                          "over 2 GiB, more than one ONNX file holds\n")
    assert prony("synth", "mlp", "-o", "missing/x.onnx").status == 1
    assert prony("synth", "mlp", "-o", "/dev/full").status == 1
    assert not list(workdir.iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(number, program, workdir):
    (workdir / "x.onnx").write_text("older")
    process = subprocess.Popen([program, "synth", "gpt2-small", "-o", "x.onnx"], cwd=workdir,
                               preexec_fn=lambda: os.nice(19))  # it must not be over before this one looks
    while not list(workdir.glob("*.tmp")):
        assert process.poll() is None, "it was over before it could be interrupted"
        time.sleep(0.001)
    process.send_signal(number)
    assert process.wait() == -number
    assert [p.name for p in workdir.iterdir()] == ["x.onnx"]
    assert (workdir / "x.onnx").read_text() == "older"


def test_memory_stays_small(program, workdir):
    """438 MB are written by a process that may not have more than 64 MiB."""
    subprocess.run(["sh", "-c", 'ulimit -v 65536 && exec "$0" synth bert-base -o /dev/null',
                    program], cwd=workdir, check=True)


def test_parameters_are_the_published_ones(prony):
    """Of PipeEdge's networks; those with two heads have both."""
    published = {
        "vit-large-patch16-224": 304_326_632, "vit-huge-patch14-224-in21k": 658_745_683,
        "deit-base-distilled-patch16-224": 87_338_192,
        "deit-small-distilled-patch16-224": 22_436_432,
        "deit-tiny-distilled-patch16-224": 5_910_800, "bert-base-uncased": 109_482_240,
        "bert-large-uncased": 335_141_888, "bert-base-uncased-CoLA": 109_483_778}
    rows = [line.split() for line in prony("synth", "--list").stdout.splitlines()]
    listed = {row[0]: int(row[1].replace(",", "")) for row in rows
              if len(row) > 4 and row[1][0].isdigit()}
    assert {name: listed[name] for name in published} == published


def test_networks_over_2_gib_are_refused(prony, workdir):
    done = prony("synth", "vit-huge-patch14-224-in21k", "-o", "huge.onnx")
    assert done.status == 1 and "is over 2 GiB, more than one ONNX file holds" in done.stderr
    assert list(workdir.iterdir()) == []


@pytest.mark.parametrize("name", ["deit-tiny-distilled-patch16-224",
                                  pytest.param("bert-base-uncased-CoLA", marks=pytest.mark.long)])
def test_networks_of_other_sizes_are_valid(name, prony, workdir):
    path = write(prony, workdir, name, "--batch", "dynamic")
    onnx.checker.check_model(path, full_check=True)
    path.unlink()
