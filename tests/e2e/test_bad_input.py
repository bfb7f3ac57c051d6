"""Bad input: one clear line that names it and its fault, the right status, nothing left behind."""
import json
import os
import random
import zipfile

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import ROOT
from profiling import executors

FLOAT = TensorProto.FLOAT
QUICK = ["--launches", "1", "--repeats", "3", "--warmups", "1", "--max-time", "600"]
ESCAPES = "x\x1b[31mred\nprony: error: fake\r\x07\x7f"

node = helper.make_node
value = helper.make_tensor_value_info


def save(path, nodes, inputs, outputs, initializers=(), change=None):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializer=list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    if change:
        change(model)
    path.write_bytes(model.SerializeToString())
    return path


def relu(path, shape=("batch", 4), name="x"):
    return save(path, [node("Relu", [name], ["y"], "n")], [value(name, FLOAT, shape)],
                [value("y", FLOAT, shape)])


def varint(number):
    out = bytearray()
    while number > 0x7f:
        out.append(number & 0x7f | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def head(field, length):
    """The head of a length-delimited field."""
    return varint(field << 3 | 2) + varint(length)


def nested(depth, fields, outer):
    """A model in which messages lie within each other: `fields` repeated, innermost first."""
    parts, length = [], 0
    for field in [*(fields * depth), *outer]:
        parts.append(head(field, length))
        length += len(parts[-1])
    return b"\x08\x08" + b"".join(reversed(parts))


def in_graph(field, message):
    """A model whose graph has one field."""
    body = head(field, len(message)) + message
    return b"\x08\x08" + head(7, len(body)) + body


def spent():
    """Seconds of processor time of all processes that this one has waited for: how busy the machine is
    doesn't count."""
    times = os.times()
    return times.children_user + times.children_system


@pytest.fixture
def refused(prony, workdir):
    """Runs prony; it must end soon, with one line in which `says` stand in this order, and leave
    nothing behind. Misuse gets a second line, which points to --help."""

    def call(*arguments, says, status=1, limit=5, **options):
        files = sorted(os.listdir(workdir))
        before = spent()
        done = prony(*arguments, **options)
        took = spent() - before
        lines = done.stderr.splitlines()
        assert done.status == status, (done.status, done.stderr)
        assert len(lines) == (2 if status == 2 else 1), done.stderr
        assert lines[0].startswith("prony: error: "), done.stderr
        assert status == 1 or lines[1].startswith("prony: see 'prony "), done.stderr
        at = 0
        for part in [says] if isinstance(says, str) else says:
            at = lines[0].find(part, at)
            assert at >= 0, (part, lines[0])
        assert lines[0].isprintable() and len(lines[0]) < 1200, lines[0]
        assert took < limit, f"{took:.1f} s"
        assert sorted(os.listdir(workdir)) == files
        assert not executors(done.session)
        return done

    return call


@pytest.fixture
def unreadable(refused):
    """A model of this name that both commands refuse with the same line, before anything runs."""

    def call(name, *says, **options):
        lines = set()
        for command in (["model"], ["profile", *QUICK]):
            done = refused(*command, name, says=[f"cannot read '{name}': ", *says], **options)
            assert done.stdout == ""
            lines.add(done.stderr)
        assert len(lines) == 1, lines

    return call


# Files that aren't models.

NOT_MODELS = {
    "empty": (b"", "it is empty"),
    "random": (random.Random(1).randbytes(5000), "it isn't an ONNX model, or damaged at byte 18"),
    "zeros": (bytes(5000), "damaged at byte 0"),
    "text": (b"hello world\n" * 100, "it is text"),
    "page": (b"<!DOCTYPE html><html></html>", "it is an HTML page"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
                "it is a Git LFS pointer"),
    "gzip": (b"\x1f\x8b\x08" + bytes(100), "it is compressed with gzip"),
    "endless number": (b"\x08" + b"\xff" * 100, "damaged at byte 0"),
    "groups": (b"\x08\x08" + b"\x9b\x06" * 1000000, "damaged at byte 2"),
    "huge length": (b"\x08\x08\x3a" + b"\xff" * 8 + b"\x7f",
                    "graph at byte 2 takes 9223372036854775807 bytes, 0 are left"),
    "no graph": (b"\x08\x08", "it has no graph"),
}


@pytest.mark.parametrize("name", NOT_MODELS)
def test_no_model(unreadable, workdir, name):
    content, says = NOT_MODELS[name]
    (workdir / "m.onnx").write_bytes(content)
    unreadable("m.onnx", says)


def test_zip(unreadable, workdir):
    with zipfile.ZipFile(workdir / "m.onnx", "w") as archive:
        archive.writestr("model.onnx", b"x" * 100)
    unreadable("m.onnx", "it is a ZIP archive")


def test_truncated(unreadable, workdir):
    weights = numpy_helper.from_array(np.ones((40, 40), np.float32), "w")
    model = save(workdir / "m.onnx", [node("MatMul", ["x", "w"], ["y"])],
                 [value("x", FLOAT, [1, 40])], [value("y", FLOAT, [1, 40])], [weights])
    content = model.read_bytes()
    for size in (1, 3, 4, 40, 1000, len(content) - 100, len(content) - 1):
        model.write_bytes(content[:size])
        unreadable("m.onnx", "it is truncated or damaged")


def test_not_a_file(unreadable, workdir):
    os.mkdir(workdir / "folder.onnx")
    os.mkfifo(workdir / "pipe.onnx")
    os.symlink("loop.onnx", workdir / "loop.onnx")
    unreadable("folder.onnx", "it is a folder")
    unreadable("pipe.onnx", "it isn't a regular file")
    unreadable("/dev/zero", "it isn't a regular file")
    unreadable("missing.onnx", "No such file")
    unreadable("loop.onnx", "Too many levels of symbolic links")
    unreadable("a" * 300, "File name too long")
    relu(workdir / "secret.onnx").chmod(0)
    if os.geteuid() != 0:  # root may read everything
        unreadable("secret.onnx", "Permission denied")


# External data.

EXTERNAL = {
    "missing": ({"location": "nothing.bin"}, "'nothing.bin' is missing"),
    "parent": ({"location": "../outside.bin"}, "'../outside.bin' leaves the model's folder"),
    "inner parent": ({"location": "a/../../outside.bin"}, "leaves the model's folder"),
    "absolute": ({"location": "/etc/passwd"}, "'/etc/passwd' is an absolute path"),
    "link": ({"location": "link.bin"}, "'link.bin' is a symbolic link, or is reached through one"),
    "linked folder": ({"location": "up/outside.bin"}, "is a symbolic link, or is reached through one"),
    "folder": ({"location": "."}, "'.' isn't a regular file"),
    "pipe": ({"location": "pipe.bin"}, "'pipe.bin' isn't a regular file"),
    "past the end": ({"location": "w.bin", "offset": "16", "length": "64"},
                     "ends at byte 16 + 64 of 'w.bin', which has 64"),
    "overflow": ({"location": "w.bin", "offset": str(2**64 - 1), "length": "64"},
                 "ends at byte 18446744073709551615 + 64"),
    "too short": ({"location": "w.bin", "length": "32"}, "is 32 bytes long, its shape needs 64"),
    "too long": ({"location": "w.bin", "length": str(2**62)}, "bytes long, its shape needs 64"),
    "negative": ({"location": "w.bin", "offset": "-4"}, "that is not a number"),
    "no number": ({"location": "w.bin", "length": "all"}, "that is not a number"),
    "too large a number": ({"location": "w.bin", "length": "9" * 30}, "that is not a number"),
    "no location": ({"offset": "0"}, "without a location"),
    "empty location": ({"location": ""}, "without a location"),
    "NUL": ({"location": "w.bin\0.txt"}, "holds a NUL byte"),
    "escapes": ({"location": ESCAPES}, "is missing"),
    "long": ({"location": "a" * 100000}, "its external data 'aaa"),
}


@pytest.mark.parametrize("name", EXTERNAL)
def test_external_data(unreadable, workdir, name):
    entries, says = EXTERNAL[name]
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[4, 4],
                         data_location=TensorProto.EXTERNAL)
    for key, text in entries.items():
        tensor.external_data.add(key=key, value=text)
    folder = workdir / "in"
    folder.mkdir()
    (workdir / "outside.bin").write_bytes(bytes(64))
    (folder / "w.bin").write_bytes(bytes(64))
    os.symlink("w.bin", folder / "link.bin")
    os.symlink("..", folder / "up")
    os.mkfifo(folder / "pipe.bin")
    save(folder / "m.onnx", [node("MatMul", ["x", "w"], ["y"])], [value("x", FLOAT, [1, 4])],
         [value("y", FLOAT, [1, 4])], [tensor])
    unreadable("in/m.onnx", says)


# Graphs.

X, Y = value("x", FLOAT, [4]), value("y", FLOAT, [4])
GRAPHS = {
    "cycle": ([node("Add", ["x", "y"], ["a"], "n1"), node("Relu", ["a"], ["y"], "n2")],
              "has a cycle through node 'n1' (Add)"),
    "own output": ([node("Add", ["x", "y"], ["y"], "n1")], "has a cycle through node 'n1' (Add)"),
    "twice": ([node("Relu", ["x"], ["y"], "n1"), node("Relu", ["x"], ["y"], "n2")],
              "defines 'y' twice"),
    "input never": ([node("Relu", ["a"], ["y"], "n1")], "nothing makes 'a', an input of node 'n1'"),
    "output never": ([node("Relu", ["x"], ["a"], "n1")], "nothing makes 'y', an output"),
    "escapes": ([node("Add", ["x", "y"], ["y"], ESCAPES)], "has a cycle through node 'x?[31mred"),
    "long name": ([node("Add", ["x", "y"], ["y"], "n" * 1000000)], "has a cycle"),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graph(unreadable, workdir, name):
    nodes, says = GRAPHS[name]
    save(workdir / "m.onnx", nodes, [X], [Y])
    unreadable("m.onnx", says)


def test_nodes_out_of_order_are_sorted(prony, workdir):
    save(workdir / "m.onnx", [node("Relu", ["a"], ["y"], "n1"), node("Relu", ["x"], ["a"], "n2")], [X], [Y])
    done = prony("model", "m.onnx")
    assert (done.stderr, done.status) == ("", 0)
    assert "because node 'n1' (Relu) uses 'a' before it is made" in " ".join(done.stdout.split())


INITIALIZERS = {
    "overflow": (TensorProto(name="w", data_type=FLOAT, dims=[2**40, 2**40], raw_data=b"1234"),
                 "tensor 'w' has an invalid shape, 1099511627776x1099511627776"),
    "negative": (TensorProto(name="w", data_type=FLOAT, dims=[-4], raw_data=b"1234"),
                 "tensor 'w' has an invalid shape, -4"),
    "too little": (TensorProto(name="w", data_type=FLOAT, dims=[4], raw_data=b"1234"),
                   "tensor 'w' has 4 bytes of data, its type and shape need 16"),
}


@pytest.mark.parametrize("name", INITIALIZERS)
def test_initializer(unreadable, workdir, name):
    tensor, says = INITIALIZERS[name]
    save(workdir / "m.onnx", [node("Add", ["x", "w"], ["y"])], [X], [Y], [tensor])
    unreadable("m.onnx", says)


def test_functions_that_call_each_other(unreadable, workdir):
    def call_each_other(model):
        for name, other in (("A", "B"), ("B", "A")):
            model.functions.append(helper.make_function(
                "f", name, ["p"], ["q"], [node(other, ["p"], ["q"], domain="f")],
                [helper.make_opsetid("f", 1)]))
        model.opset_import.append(helper.make_opsetid("f", 1))

    save(workdir / "m.onnx", [node("A", ["x"], ["y"], domain="f")], [X], [Y],
         change=call_each_other)
    unreadable("m.onnx", "calls itself")


@pytest.mark.parametrize("depth", [70, 1000, 1000000])
def test_nested_graphs(unreadable, workdir, depth):
    # A graph in an attribute (6) of a node (5) of a graph (1), and so on; the model's graph is 7.
    (workdir / "m.onnx").write_bytes(nested(depth, [6, 5, 1], [7]))
    unreadable("m.onnx", "graphs are nested more than 64 levels deep", limit=1)


def test_nested_types(unreadable, workdir):
    # The element (1) of a sequence (4), in the type (2) of an input (11).
    (workdir / "m.onnx").write_bytes(nested(300000, [1, 4], [2, 11, 7]))
    unreadable("m.onnx", "messages are nested more than 256 levels deep", limit=1)


def test_huge_counts(unreadable, workdir):
    model = workdir / "m.onnx"
    model.write_bytes(in_graph(5, b"\x08\x01" * 2000000 + b"\x10\x01"))
    unreadable("m.onnx", "2000000 dimensions, more than 32")
    model.write_bytes(b"\x08\x08" + head(7, 10000000) + b"\x0a\x00" * 5000000)
    unreadable("m.onnx", "its graph takes more than 1024 MiB", limit=20)


def test_input_too_large(refused, workdir):
    relu(workdir / "m.onnx", [2**40, 2**40])
    for command in ("model", "profile"):
        refused(command, "m.onnx", says="input 'x' of 'm.onnx' is too large: 1099511627776x1099")
    relu(workdir / "n.onnx", [2**33])
    refused("profile", "n.onnx", says="input 'x' is too large: 8589934592 takes more than 16 GiB")


def test_input_is_no_tensor(refused, prony, workdir):
    def sequence(model):
        model.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("x", FLOAT, [4]))

    save(workdir / "m.onnx", [node("SequenceLength", ["x"], ["y"])], [X],
         [value("y", TensorProto.INT64, [])], change=sequence)
    says = "input 'x' of 'm.onnx' is a sequence; prony feeds tensors only"
    refused("profile", "m.onnx", says=says)
    assert f"Work isn't counted: {says}" in " ".join(prony("model", "m.onnx").stdout.split())


def test_names_with_control_characters(prony, workdir):
    save(workdir / "m.onnx",
         [node("Op" + ESCAPES, [ESCAPES], ["y"], ESCAPES, domain="d" + ESCAPES)],
         [value(ESCAPES, FLOAT, ["b" + ESCAPES])], [value("y", FLOAT, [ESCAPES])],
         change=lambda model: setattr(model, "producer_name", ESCAPES))
    for style in ("text", "md"):
        done = prony("model", "m.onnx", "--nodes", "--format", style)
        assert done.status == 0 and done.stdout.replace("\n", "").isprintable()
        assert "\nprony: error" not in done.stdout
    data = json.loads(prony("model", "m.onnx", "--nodes", "--format", "json").stdout)
    assert data["inputs"][0]["name"] == ESCAPES == data["nodes"][0]["name"]
    relu(workdir / "r.onnx", name=ESCAPES)
    for style in ("text", "md"):
        done = prony("profile", "r.onnx", *QUICK, "--format", style)
        assert done.status == 0 and done.stdout.replace("\n", "").isprintable()
        assert "\nprony: error" not in done.stdout


def test_unknown_operators_count_as_unknown(prony, workdir):
    save(workdir / "m.onnx", [node("Relu", ["x"], ["y"], domain="acme")], [X], [Y])
    done = prony("model", "m.onnx")
    assert "\nNot counted:\n  1 acme.Relu: operator not known\n" in done.stdout
    assert "\nTotal          1      -      -            -          -\n" in done.stdout
    data = json.loads(prony("model", "m.onnx", "--format", "json").stdout)
    assert data["total"] == {"flops": None, "bytes": None, "complete": False}


def test_endless_loop_has_no_count(prony, workdir):
    """The largest number of trips is how exporters write `while`."""
    body = helper.make_graph(
        [node("Identity", ["c"], ["d"]), node("Relu", ["v"], ["w"])], "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []),
         value("v", FLOAT, [4])],
        [value("d", TensorProto.BOOL, []), value("w", FLOAT, [4])])
    for trips, flops in ((10, 40), (2**63 - 1, None)):
        save(workdir / "m.onnx", [node("Loop", ["m", "", "x"], ["y"], body=body)], [X], [Y],
             [numpy_helper.from_array(np.array(trips), "m")])
        data = json.loads(prony("model", "m.onnx", "--format", "json").stdout)
        assert data["total"]["flops"] == flops
        assert bool(data["not_counted"]) == (flops is None)


def test_many_nodes(prony, workdir):
    count = 100000
    save(workdir / "m.onnx", [node("Relu", [f"t{i}"], [f"t{i + 1}"]) for i in range(count)],
         [value("t0", FLOAT, [4])], [value(f"t{count}", FLOAT, [4])])
    before = spent()
    done = prony("model", "m.onnx", "--format", "json")
    assert json.loads(done.stdout)["total"]["flops"] == 4 * count
    assert spent() - before < 5


def test_model_that_the_runtime_refuses(prony, workdir):
    save(workdir / "m.onnx", [node("Frobnicate", ["x"], ["y"])], [X], [Y])
    done = prony("profile", "m.onnx", *QUICK)
    assert done.status == 1 and "failed" in done.stdout
    assert done.stderr.startswith("prony: error: ") and done.stderr.count("\n") == 1
    assert "Frobnicate" in done.stderr
    assert not executors(done.session)


# Dimensions and shapes.

BINDINGS = {
    "--dim n=3": "--dim 'n': no input has a dimension of that name; known: 'batch'",
    "--dim batch=-1": "--dim 'batch=-1' is not NAME=SIZE",
    "--dim batch=x": "--dim 'batch=x' is not NAME=SIZE",
    "--dim batch": "--dim 'batch' is not NAME=SIZE",
    "--dim =3": "--dim '=3' is not NAME=SIZE",
    "--dim batch=99999999999999999999": "is not NAME=SIZE",
    "--dim batch=4 --dim batch=5": "--dim 'batch=5': 'batch' was given before",
    "--shape q=1x4": "--shape 'q': the model has no input of that name; known: 'x'",
    "--shape x=1x4x4": "--shape 'x' has 3 dimensions, the model's has 2",
    "--shape x=1x5": "--shape 'x': dimension 1 is fixed to 4 by the model",
    "--shape x=": "--shape 'x=' isn't INPUT=SIZES",
    "--shape x=1xx4": "--shape 'x=1xx4' isn't INPUT=SIZES",
    "--dim batch=2 --shape x=3x4": "dimension 'batch' can't be 3 and 2",
}


@pytest.mark.parametrize("arguments", BINDINGS)
def test_dimensions(refused, workdir, arguments):
    relu(workdir / "m.onnx")
    for command in ("model", "profile"):
        refused(command, "m.onnx", *arguments.split(), says=BINDINGS[arguments], status=2)


def test_dimension_too_large(refused, workdir):
    relu(workdir / "m.onnx")
    for command in ("model", "profile"):
        refused(command, "m.onnx", "--dim", f"batch={2**63 - 1}",
                says="input 'x' of 'm.onnx' is too large")


# Values of inputs.

def npy(header, data=b""):
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def npy_header(descr="'<f4'", order="False", shape="(1, 4)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


GOOD = npy(npy_header(), bytes(16))
INPUTS = {
    "empty.npy": (b"", "it is not a NumPy file"),
    "text.npy": (b"1 2 3 4\n", "it is not a NumPy file"),
    "header.npy": (GOOD[:20], "its header is truncated"),
    "short.npy": (GOOD[:-3], "it is truncated"),
    "long.npy": (GOOD + b"xx", "it has 2 bytes after its data"),
    "shape.npy": (npy(npy_header(shape="(1, 5)"), bytes(20)),
                  "its shape is 1x5, but input 'x' takes ?x4"),
    "type.npy": (npy(npy_header("'<f8'"), bytes(32)), "it holds double, but input 'x' takes float"),
    "order.npy": (npy(npy_header(order="True", shape="(2, 4)"), bytes(32)), "Fortran order"),
    "endian.npy": (npy(npy_header("'>f4'"), bytes(16)), "big-endian"),
    "objects.npy": (npy(npy_header("'|O'"), bytes(32)), "Python objects"),
    "code.npy": (npy(npy_header("__import__('os')"), bytes(16)), "its header is damaged"),
    "escapes.npy": (npy(npy_header("'\x1b[31m'"), bytes(16)), "'?[31m' has no counterpart"),
    "huge.npy": (npy(npy_header(shape=f"({2**63 - 1}, {2**63 - 1})")), "is impossible or over"),
    "junk.pb": (b"\xff" * 100, "it is not an ONNX tensor, or damaged"),
    "short.raw": (b"1234", "it has 4 bytes, but input 'x' (float 1x4) takes 16"),
}


@pytest.mark.parametrize("name", INPUTS)
def test_input_file(refused, workdir, name):
    content, says = INPUTS[name]
    relu(workdir / "m.onnx")
    (workdir / name).write_bytes(content)
    refused("profile", "m.onnx", *QUICK, "--input", f"x=@{name}", says=[f"'{name}'", says])


def test_input_is_not_a_file(refused, workdir):
    relu(workdir / "m.onnx")
    os.mkdir(workdir / "folder.npy")
    os.mkfifo(workdir / "pipe.npy")
    for source, says in (("folder.npy", "'folder.npy'"), ("pipe.npy", "it is not a regular file"),
                         ("missing.npy", "No such file")):
        refused("profile", "m.onnx", "--input", f"x=@{source}", says=says)
    refused("profile", "m.onnx", "--inputs", "folder.npy", says="folder.npy/input_0.pb")
    refused("profile", "m.onnx", "--inputs", "missing", says="missing/input_0.pb")
    for source in ("@m.onnx", "@", "", "word", "1 "):
        refused("profile", "m.onnx", "--input", f"x={source}", says=source.lstrip("@"), status=2)
    refused("profile", "m.onnx", "--input", "q=ones", says="no input 'q'; it has 'x'", status=2)


# Backends and numbers.

@pytest.mark.parametrize("spec, says", [
    ("", "no software"), ("/", "no hardware"), ("local/", "no software"),
    ("a/b/c", "a second '/'"), ("onnxrt-cpu[", "a '[' without ']'"),
    ("onnxrt-cpu]", "a ']' without '['"), ("onnxrt-cpu[=1]", "an option without a name"),
    ("onnxrt-cpu[threads=1,threads=2]", "an option twice"),
    ("onnx\x1b[31mrt", "it contains a control character"),
    ("onnxrt-cpu[foo=1]", "onnxrt-cpu has no option 'foo'; it has: threads=N"),
])
def test_bad_backend(refused, workdir, spec, says):
    relu(workdir / "m.onnx")
    refused("profile", "m.onnx", "-b", spec, says=says, status=2)


def test_unknown_backend(prony, workdir):
    relu(workdir / "m.onnx")
    for spec, says in (("nope", "no software 'nope'; known: onnxrt-cpu"),
                       ("r6i.large/onnxrt-cpu", "this machine is 'local', not 'r6i.large'")):
        done = prony("profile", "m.onnx", "-b", spec)
        assert done.status in (1, 2) and done.stdout == ""
        assert done.stderr.startswith("prony: error: ") and says in done.stderr


@pytest.mark.parametrize("arguments", [
    "--launches 0", "--launches x", "--launches 99999999999", "--repeats 0", "--repeats 1e300",
    "--warmups -1", "--max-time 0", "--max-time nan", "--max-time inf", "--timeout 1e300",
    "--precision 0", "--precision 1", "--precision 200%", "--difference -1", "--seed -1",
    "--seed 99999999999999999999999", "--format xml", "--format=", "--launches", "-b", "--nonsense"])
def test_bad_option(refused, workdir, arguments):
    relu(workdir / "m.onnx")
    refused("profile", "m.onnx", *arguments.split(), says=arguments.split()[0].strip("-="), status=2)


def test_output_that_cannot_be_written(refused, workdir):
    relu(workdir / "m.onnx")
    os.mkdir(workdir / "folder")
    for output in ("/dev/full", "folder", "missing/x"):
        refused("model", "m.onnx", "-o", output, says=f"'{output}'")
        refused("profile", "m.onnx", *QUICK, "-o", output, says=f"'{output}'")
        refused("synth", "mlp", "-o", output, says=f"'{output}'")


def test_output_over_the_input(refused, workdir):
    content = relu(workdir / "m.onnx").read_bytes()
    os.symlink("m.onnx", workdir / "link")
    for output in ("m.onnx", "./m.onnx", "link"):
        refused("model", "m.onnx", "-o", output, says=f"'{output}': it is also the input",
                status=2)
    assert (workdir / "m.onnx").read_bytes() == content
    saved = (ROOT / "tests/data/profile-single.json").read_bytes()
    (workdir / "p.json").write_bytes(saved)
    refused("report", "p.json", "-o", "p.json", says="'p.json': it is also the input", status=2)
    assert (workdir / "p.json").read_bytes() == saved


# Saved profiles.

def test_no_profile(refused, workdir):
    saved = (ROOT / "tests/data/profile-several.json").read_text()
    file = workdir / "p.json"
    for content, says in ((saved[:0], "not valid JSON"), (saved[:1000], "not valid JSON"),
                          (saved[:-3], "not valid JSON"), (saved + "x", "not valid JSON"),
                          ("[" * 100000, "not valid JSON"), ('{"schema":' * 50000, "not valid JSON"),
                          ("\0" * 100, "not valid JSON"), ("null", "not valid JSON"),
                          ("[]", 'without a "schema"'), ('{"schema": 5}', 'without a "schema"'),
                          ('{"schema": "prony.profile/1"}', "prony_version is missing"),
                          ('{"schema": "prony.profile/2"}', "use a newer prony")):
        file.write_text(content)
        refused("report", "p.json", says=["'p.json'", says])
    file.write_bytes(b"\xff\xfe")
    refused("report", "p.json", says=["'p.json'", "not valid JSON"])
    os.mkdir(workdir / "folder")
    refused("report", "folder", says="'folder'")
    refused("report", "missing", says="'missing'")


def places(item, path=()):
    children = item.items() if isinstance(item, dict) else enumerate(item[:2]) \
        if isinstance(item, list) else ()
    for key, child in children:
        yield (*path, key)
        yield from places(child, (*path, key))


def test_hostile_profile(prony, workdir):
    """Any value at any place is shown or refused, and never reaches the terminal as it is."""
    saved = (ROOT / "tests/data/profile-several.json").read_text()
    source = random.Random(3)
    values = [None, -1, 0, 1e308, -1e308, 2**63, ESCAPES, "", [], {}, True, [None], ["a" * 100000]]
    for path in source.sample(sorted(places(json.loads(saved)), key=repr), 120):
        profile = json.loads(saved)
        item = profile
        for key in path[:-1]:
            item = item[key]
        item[path[-1]] = source.choice(values)
        (workdir / "p.json").write_text(json.dumps(profile))
        for style in ("text", "md"):
            done = prony("report", "p.json", "--format", style)
            assert done.stdout.replace("\n", "").isprintable(), path
            if done.status == 0:
                assert done.stderr == "", path
            else:
                assert done.status == 1 and done.stdout == "", (path, done.stderr)
                assert done.stderr.startswith("prony: error: 'p.json' "), (path, done.stderr)
                assert done.stderr.count("\n") == 1, (path, done.stderr)
