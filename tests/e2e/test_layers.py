"""`prony layers`: where models are cut, and that their layers, one after the other, compute what the
whole model does: with the onnx package's reference on models made here, and on ONNX Runtime."""
import json
import re
import resource

import numpy as np
import onnx
import pytest
from conftest import BUILD, ROOT, run_program
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

CHAIN = BUILD / "tests" / "e2e" / "chain"
DATA = ROOT / "tests" / "data"
FLOAT, INT64, BOOL, STRING = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL,
                              TensorProto.STRING)
RANDOM = np.random.default_rng(7)


def extract(prony, path, folder, *options, full_check=True):
    """The layers' paths, in order; each is a valid model."""
    done = prony("layers", path, *options, "--extract", folder)
    assert (done.stdout, done.stderr, done.status) == ("", "", 0)
    layers = sorted(folder.iterdir())
    assert [p.name for p in layers] == [f"layer_{i:02}.onnx" for i in range(1, len(layers) + 1)]
    for layer in layers:
        onnx.checker.check_model(layer, full_check=full_check)
    return layers


def run_chain(program, path, layers, dims="-"):
    """What ONNX Runtime computes, without optimisation across nodes, whole and in layers."""
    done = run_program([CHAIN, program, "off", dims, path, *layers])
    assert (done.stderr, done.status) == ("", 0)
    results = [line.rsplit(" ", 2) for line in done.stdout.splitlines()]
    for name, difference, largest in results:
        # Threads may add up in another order; nothing else may differ.
        assert difference == "same" or float(difference) <= 1e-5 * float(largest), name
    return [name for name, _, _ in results]


# ---- Standard networks ----

def long(*values):
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.mark.parametrize("name, synth, dims, cuts, n_layers", [
    ("mlp", ["--layers", "3"], "-", [], 4),
    ("mlp", ["--layers", "3", "--batch", "dynamic"], "batch=2", ["--cuts", "2"], 2),
    long("mobilenet-v2", [], "-", [], 53),  # as many as it has convolutions, and a matrix
    long("resnet50", ["--batch", "2"], "-", ["--cuts", "9"], 9),
    long("vit-base-patch16-224", [], "-", ["--cuts", "/cut/*"], 48),
    long("bert-base", ["--batch", "dynamic", "--seq", "dynamic"], "batch=2,seq=9", [], 51),
    long("bert-base", ["--seq", "8"], "-", ["--cuts", "3", "--max-cut-tensors", "3"], 3),
    long("gpt2-small", ["--batch", "dynamic", "--seq", "dynamic"], "batch=2,seq=9", [], 50),
    long("gpt2-small", ["--seq", "8"], "-", [], 50),
])
def test_networks_in_layers(name, synth, dims, cuts, n_layers, prony, program, networks, workdir):
    path = networks.get(name, *synth)
    layers = extract(prony, path, workdir / "layers", *cuts, full_check=False)
    assert len(layers) == n_layers
    outputs = [v.name for v in onnx.load(path, load_external_data=False).graph.output]
    assert sorted(run_chain(program, path, layers, dims)) == sorted(outputs)


def test_nodes_out_of_order(prony, program, networks, workdir):
    """ONNX Runtime sorts nodes itself, so files whose nodes stand in any order exist."""
    model = onnx.load(networks.get("mlp", "--layers", "3"))
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    path = workdir / "reversed.onnx"
    onnx.save(model, path)
    layers = extract(prony, path, workdir / "layers")
    assert len(layers) == 4
    assert run_chain(program, path, layers) == [v.name for v in model.graph.output]
    note = "Note: the file's nodes were sorted, because node '"
    assert note in prony("layers", path, "--list").stdout
    assert note in prony("model", path).stdout


def test_vit_has_the_published_layers(prony, networks):
    """48 layers, four per block; embedding and head belong to the first and the last."""
    path = networks.get("vit-base-patch16-224", "--batch", "dynamic")
    done = prony("layers", path, "--cuts", "/cut/*", "--list", "--format", "json", "-b", "1")
    assert (done.stderr, done.status) == ("", 0)
    layers = json.loads(done.stdout)["layers"]
    assert [layer["layer"] for layer in layers] == list(range(1, 49))
    token, hidden = [197, 768], [197, 3072]
    block = [[token, token], [token], [hidden, token], [token]]
    expected = (block * 12)[:-1] + [[[1000]]]

    def given(layer):
        return layer["out"] or layer["results"]

    assert [[t["dims"][1:] for t in given(layer)] for layer in layers] == expected
    assert {t["dims"][0] for layer in layers for t in given(layer)} == {1}
    assert [t["elements"] for t in layers[0]["in"]] == [150528]
    elements = [sum(t["elements"] for t in given(layer)) for layer in layers]
    assert elements == ([302592, 151296, 756480, 151296] * 12)[:-1] + [1000]
    assert [layer["in"] for layer in layers[1:]] == [layer["out"] for layer in layers[:-1]]
    assert sum(layer["parameters"] for layer in layers) == 86_567_656
    # A batch of eight is eight times as much, and by itself the choice where a model leaves it open.
    eight = json.loads(prony("layers", path, "--cuts", "/cut/*", "--list", "--format",
                             "json").stdout)["layers"]
    assert [sum(t["elements"] for t in given(layer)) for layer in eight] == [8 * n for n in elements]


# PipeEdge's names: layers, tokens, width, what comes out.
PIPEEDGE = {
    "google/vit-base-patch16-224": (48, 197, 768, 1000),
    "google/vit-large-patch16-224": (96, 197, 1024, 1000),
    "google/vit-huge-patch14-224-in21k": (128, 257, 1280, 21843),
    "bert-base-uncased": (48, 128, 768, 768),
    "bert-large-uncased": (96, 128, 1024, 1024),
    "textattack/bert-base-uncased-CoLA": (48, 128, 768, 2),
    "facebook/deit-base-distilled-patch16-224": (48, 198, 768, 1000),
    "facebook/deit-small-distilled-patch16-224": (48, 198, 384, 1000),
    "facebook/deit-tiny-distilled-patch16-224": (48, 198, 192, 1000),
}
SMALL = {"facebook/deit-tiny-distilled-patch16-224", "facebook/deit-small-distilled-patch16-224",
         "textattack/bert-base-uncased-CoLA"}


@pytest.mark.parametrize("name", [n if n in SMALL else pytest.param(n, marks=pytest.mark.long)
                                  for n in PIPEEDGE])
def test_networks_by_pipeedges_names(name, prony, workdir, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(workdir))
    n, tokens, width, given = PIPEEDGE[name]
    done = prony("layers", "-m", name, "-b", "1", "--list", "--format", "json")
    assert (done.stderr, done.status) == ("", 0)
    report = json.loads(done.stdout)
    assert report["file"] == name.split("/")[-1]
    token, hidden = [tokens, width], [tokens, 4 * width]
    expected = ([[token, token], [token], [hidden, token], [token]] * (n // 4))[:-1] + [[[given]]]
    assert [[t["dims"][1:] for t in layer["out"] or layer["results"]]
            for layer in report["layers"]] == expected
    assert list(workdir.iterdir()) == []


def test_automatic_cuts_of_vit(prony, networks):
    """The same, with layers of their own for embedding and head."""
    done = prony("layers", networks["vit-base-patch16-224"], "--list", "--format", "json")
    layers = json.loads(done.stdout)["layers"]
    assert len(layers) == 50
    names = [[t["name"] for t in layer["out"]] for layer in layers]
    assert [n[0] for n in names[1:48] if n[0].startswith("/cut/")] == [n[0] for n in names[1:48]]


def test_weights_are_streamed(prony, networks, workdir):
    """331 MB of weights go through a process that may not have 64."""
    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (64 << 20, 64 << 20))

    path = networks["vit-base-patch16-224"]
    done = prony("layers", path, "--cuts", "2", "--extract", "layers", preexec_fn=limit)
    assert (done.stderr, done.status) == ("", 0)
    written = sum(p.stat().st_size for p in (workdir / "layers").iterdir())
    assert written > path.stat().st_size


# ---- Small models with everything in them ----

def weight(name, *shape):
    return numpy_helper.from_array(RANDOM.standard_normal(shape).astype(np.float32), name)


def value(name, shape=None, dtype=FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, weights=(), opset=17, ir_version=8, domains=(), **more):
    graph = helper.make_graph(nodes, "made", inputs, outputs, list(weights),
                              **{k: more.pop(k) for k in ("sparse_initializer", "value_info")
                                 if k in more})
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version, **more)


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def control_flow():
    """Branches and a loop that read weights and tensors of other layers, some across several."""
    then = helper.make_graph([node("MatMul", "a v", "t")], "then", [], [value("t")])
    other = helper.make_graph([node("Add", "b inner", "e")], "else", [], [value("e")],
                              [weight("inner", 4)])
    body = helper.make_graph(
        [node("Identity", "go", "going"), node("Add", "carried a", "next")], "body",
        [value("i", [], INT64), value("go", [], BOOL), value("carried", [2, 4])],
        [value("going", [], BOOL), value("next", [2, 4])])
    return model([node("MatMul", "x w", "a"), node("MatMul", "a w", "b"),
                  helper.make_node("If", ["flag"], ["c"], then_branch=then, else_branch=other),
                  node("MatMul", "c w", "d"),
                  helper.make_node("Loop", ["trips", "", "d"], ["e"], body=body),
                  node("MatMul", "e w", "y")],
                 [value("x", [2, 4]), value("flag", [], BOOL)], [value("y", [2, 4])],
                 [weight("w", 4, 4), weight("v", 4, 4),
                  numpy_helper.from_array(np.array(3), "trips")])


def several_outputs():
    """Outputs that leave early, are passed on, are constants or inputs; an input used late; nodes
    that nothing needs."""
    return model([node("MatMul", "x w", "a"), node("Sigmoid", "a", "early"), node("Relu", "a", "r"),
                  node("MatMul", "r w", "both"), node("Neg", "both", "unused"),
                  node("MatMul", "both w", "c"), node("Add", "c late", "y")],
                 [value("late", [2, 4]), value("x", [2, 4])],
                 [value(n, [2, 4]) for n in ("y", "early", "both", "w2", "x")],
                 [weight("w", 4, 4), weight("w2", 2, 4)])


def functions():
    """Functions that call functions, of which each layer needs others."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    twice = helper.make_function("local", "Twice", ["p"], ["q"], [node("Add", "p p", "q")], opsets)
    four = helper.make_function(
        "local", "Four", ["p"], ["q"],
        [helper.make_node("Twice", ["p"], ["h"], domain="local"),
         helper.make_node("Twice", ["h"], ["q"], domain="local")], opsets)
    scaled = helper.make_function(
        "local", "Scaled", ["p"], ["q"],
        [helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.float32(0.5))),
         node("Mul", "p k", "q")], opsets)
    return model([node("MatMul", "x w", "a"), helper.make_node("Four", ["a"], ["b"], domain="local"),
                  node("MatMul", "b w", "c"),
                  helper.make_node("Scaled", ["c"], ["y"], domain="local")],
                 [value("x", [2, 4])], [value("y", [2, 4])], [weight("w", 4, 4)],
                 domains=["local"], functions=[twice, four, scaled])


def typed_weights():
    """Weights in typed fields, of which a large one isn't decoded by the reader, and strings."""
    large = RANDOM.standard_normal((4, 8192)).astype(np.float32)
    return model([node("MatMul", "x large", "a"), node("MatMul", "a small", "y"),
                  node("Identity", "words", "text")],
                 [value("x", [2, 4])], [value("y", [2, 3]), value("text", [2], STRING)],
                 [helper.make_tensor("large", FLOAT, large.shape, large.ravel().tolist()),
                  helper.make_tensor("small", FLOAT, [8192, 3],
                                     (RANDOM.random(8192 * 3) / 100).tolist()),
                  helper.make_tensor("words", STRING, [2], [b"one", b"two"])])


def sparse_weight():
    values = numpy_helper.from_array(np.array([1.5, -2.5], np.float32), "sparse")
    indices = numpy_helper.from_array(np.array([0, 5]), "sparse_indices")
    return model([node("MatMul", "x w", "a"), node("MatMul", "a sparse", "y")],
                 [value("x", [2, 4])], [value("y", [2, 2])], [weight("w", 4, 3)],
                 sparse_initializer=[helper.make_sparse_tensor(values, indices, [3, 2])])


def shared_and_computed():
    """A weight that all layers read, one that is computed from constants, and a shape chain."""
    return model([node("Constant", "", "one", value=numpy_helper.from_array(np.array([1]))),
                  node("Transpose", "w", "t"),
                  node("MatMul", "x t", "a"), node("Shape", "x", "s"),
                  node("Gather", "s one", "width"), node("Concat", "minus width", "target", axis=0),
                  node("Reshape", "a target", "a2"), node("MatMul", "a2 t", "b"),
                  node("MatMul", "b w", "c"), node("Reshape", "c target", "y")],
                 [value("x", ["batch", 4])], [value("y", ["batch", 4])],
                 [weight("w", 4, 4), numpy_helper.from_array(np.array([-1]), "minus")])


def old_format():
    """Version 3: initialisers are inputs too. Names with anything in them, and none."""
    odd = "a\x1b[31m\n\u00e4/../,*"
    return model([helper.make_node("MatMul", ["x", "w"], [odd]),
                  helper.make_node("Relu", [odd], ["b"], name="\x07"),
                  helper.make_node("MatMul", ["b", "w"], ["y"])],
                 [value("x", [2, 4]), value("w", [4, 4])], [value("y", [2, 4])],
                 [weight("w", 4, 4)], opset=9, ir_version=3)


def unknown_attributes():
    """Attributes that prony doesn't keep are copied all the same: a type, and bytes with a NUL."""
    kind = helper.make_tensor_type_proto(FLOAT, [2, 4])
    return model([node("MatMul", "x w", "a"), helper.make_node("Optional", ["a"], ["o"], type=kind),
                  node("OptionalGetElement", "o", "b"), node("MatMul", "b w", "y"),
                  node("Constant", "", "text", value_string=b"one\0two")],
                 [value("x", [2, 4])], [value("y", [2, 4]), value("text", [], STRING)],
                 [weight("w", 4, 4)])


MODELS = {
    # builder: options, what the layers hand on
    control_flow: (["--max-cut-tensors", "3"], [["a", "flag"], ["b", "a", "flag"], ["c", "a"],
                                                ["e"]]),
    several_outputs: ([], [["r", "late"], ["both", "late"]]),
    functions: ([], [["b"]]),
    typed_weights: ([], [["a"]]),
    sparse_weight: ([], [["a"]]),
    shared_and_computed: ([], [["a2", "width"], ["b", "width"]]),
    old_format: ([], [["b"]]),
    unknown_attributes: ([], [["b"]]),
}
# The onnx package's reference can't run them, and its shape inference not the first.
UNKNOWN_TO_REFERENCE = (sparse_weight, unknown_attributes)


def feeds(built):
    made = {}
    constant = {t.name for t in built.graph.initializer}
    for v in built.graph.input:
        if v.name in constant:
            continue
        dims = [d.dim_value or 2 for d in v.type.tensor_type.shape.dim]
        made[v.name] = (np.array(True) if v.type.tensor_type.elem_type == BOOL
                        else RANDOM.standard_normal(dims).astype(np.float32))
    return made


def run_reference(layers, fed):
    """What each output of the layers is, when each layer gets only what the one before gives."""
    results = {}
    for layer in layers:
        evaluator = ReferenceEvaluator(str(layer))
        given = evaluator.run(None, {n: fed[n] for n in evaluator.input_names})
        fed = dict(zip(evaluator.output_names, given))
        results = {**fed, **results}
    return results


def assert_reference_agrees(built, layers):
    fed = feeds(built)
    whole = ReferenceEvaluator(built)
    expected = dict(zip(whole.output_names, whole.run(None, fed)))
    results = run_reference(layers, fed)
    for name, array in expected.items():
        np.testing.assert_array_equal(results[name], array)


@pytest.mark.parametrize("build", MODELS, ids=lambda b: b.__name__)
def test_small_models_in_layers(build, prony, program, workdir):
    built = build()
    path = workdir / "model.onnx"
    path.write_bytes(built.SerializeToString())
    options, handed_on = MODELS[build]
    layers = extract(prony, path, workdir / "layers", *options,
                     full_check=build is not sparse_weight)
    interfaces = [onnx.load(layer).graph for layer in layers]
    outputs = {v.name for v in built.graph.output}
    assert [[v.name for v in g.input] for g in interfaces[1:]] == handed_on
    assert all({v.name for v in g.output} - outputs <= {v.name for v in after.input}
               for g, after in zip(interfaces, interfaces[1:]))
    if build not in UNKNOWN_TO_REFERENCE:
        assert_reference_agrees(built, layers)
    assert set(run_chain(program, path, layers)) == outputs


def test_open_dimensions_stay_open(prony, workdir):
    path = workdir / "model.onnx"
    path.write_bytes(shared_and_computed().SerializeToString())
    _, second, third = (onnx.load(p).graph for p in extract(prony, path, workdir / "layers"))
    shapes = [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
              for v in (*second.input, *third.input)]
    assert shapes == [["batch", 4], [1], ["batch", 4], [1]]


def strided(height="height"):
    """Strides, whose sizes round: 320 rows and 319 give the same ones behind them."""
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    stride = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
    return model([helper.make_node("Conv", ["x", "w1"], ["a"], **stride),
                  helper.make_node("MaxPool", ["a"], ["b"], **window),
                  helper.make_node("Conv", ["b", "w2"], ["c"], **stride),
                  helper.make_node("MaxPool", ["c"], ["d"], **window),
                  helper.make_node("Resize", ["d", "", "scales"], ["e"]),
                  helper.make_node("Conv", ["e", "w3"], ["f"], pads=[1, 1, 1, 1])],
                 [value("x", [1, 3, height, "width"])], [value("f", [1, 2, None, None])],
                 [weight("w1", 4, 3, 3, 3), weight("w2", 8, 4, 3, 3), weight("w3", 2, 8, 3, 3),
                  numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")])


@pytest.mark.parametrize("sizes", [[], ["--dim", "height=320", "--dim", "width=320"],
                                   ["--dim", "height=64", "--dim", "width=65"]])
def test_sizes_behind_strides_stay_open(sizes, prony, program, workdir):
    """Layers take other sizes than those that they were cut with."""
    path = workdir / "model.onnx"
    path.write_bytes(strided().SerializeToString())
    layers = extract(prony, path, workdir / "layers", "--cuts", "a,b,c,d", *sizes)
    given = [onnx.load(layer).graph.input[0].type.tensor_type.shape.dim for layer in layers]
    assert [[d.dim_value for d in dims] for dims in given[1:]] == [
        [1, n, 0, 0] for n in (4, 4, 8, 8)]
    for dims in ("height=320,width=320", "height=200,width=264", "height=97,width=32"):
        assert run_chain(program, path, layers, dims) == ["f"]


def test_external_data_is_copied(prony, program, workdir):
    """A layer is one file, wherever the model keeps its weights."""
    built = functions()
    built.graph.initializer.append(weight("v", 4, 300))
    built.graph.node.append(node("MatMul", "y v", "z"))
    built.graph.output.append(value("z", [2, 300]))
    path = workdir / "model.onnx"
    onnx.save(built, path, save_as_external_data=True, location="weights.bin", size_threshold=16)
    assert (workdir / "weights.bin").stat().st_size > 4000
    layers = extract(prony, path, workdir / "layers")
    assert not any(t.external_data for p in layers for t in
                   onnx.load(p, load_external_data=False).graph.initializer)
    assert set(run_chain(program, path, layers)) == {"y", "z"}
    (workdir / "weights.bin").unlink()
    again = prony("layers", path, "--extract", "more")
    assert again.status == 1 and "is missing" in again.stderr
    assert not (workdir / "more").exists()


# ---- The folder ----

def test_folder_is_made_and_replaced(prony, workdir):
    path = DATA / "mlp.onnx"
    first = [p.read_bytes() for p in extract(prony, path, workdir / "layers")]
    assert [p.read_bytes() for p in extract(prony, path, workdir / "layers")] == first


def test_folder_with_other_files_is_left_alone(prony, workdir):
    folder = workdir / "layers"
    folder.mkdir()
    for stranger in ("notes.txt", "layer_03.onnx", "layer_1.onnx"):
        (folder / stranger).write_text("mine")
        done = prony("layers", DATA / "mlp.onnx", "--extract", folder)
        assert done.status == 2
        assert f"contains '{stranger}', which is not one of these layers" in done.stderr
        assert [p.name for p in folder.iterdir()] == [stranger]
        (folder / stranger).unlink()


def test_model_is_never_replaced(prony, workdir):
    folder = workdir / "layers"
    folder.mkdir()
    path = folder / "layer_01.onnx"
    path.write_bytes((DATA / "mlp.onnx").read_bytes())
    done = prony("layers", path, "--extract", folder)
    assert done.status == 2 and "it is also the input" in done.stderr
    assert path.read_bytes() == (DATA / "mlp.onnx").read_bytes()
    assert [p.name for p in folder.iterdir()] == ["layer_01.onnx"]


def test_failing_writes_leave_no_half_files(prony, workdir):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        import signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    prony("synth", "mlp", "-o", "mlp.onnx")
    done = prony("layers", "mlp.onnx", "--extract", "layers", preexec_fn=limit)
    assert done.status == 1 and re.search(r"cannot write 'layers/layer_01\.onnx'", done.stderr)
    assert list((workdir / "layers").iterdir()) == []
