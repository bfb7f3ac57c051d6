#!/usr/bin/env python3
"""Writes the small models in this folder, and the model reader's fuzz corpus.

    build/venv/bin/python tests/data/make_models.py

The files are stored, so tests need neither Python nor the onnx package; run this after a change.
"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE.parent / "fuzz" / "corpus" / "model"
FLOAT, INT64, INT32, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL


def tensor(name, *shape, dtype=np.float32):
    return numpy_helper.from_array(np.ones(shape, dtype), name)


def model(graph, opset=17, ir_version=8, **more):
    return helper.make_model(graph, producer_name="prony tests", producer_version="1",
                             opset_imports=[helper.make_opsetid("", opset)],
                             ir_version=ir_version, **more)


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def mlp():
    nodes = [helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], "layer1"),
             helper.make_node("Relu", ["h"], ["r"], "relu"),
             helper.make_node("Gemm", ["r", "w2", "b2"], ["y"], "layer2", alpha=0.5)]
    return model(helper.make_graph(
        nodes, "mlp", [value("x", FLOAT, ["batch", 4])], [value("y", FLOAT, ["batch", 2])],
        [tensor("w1", 4, 8), tensor("b1", 8), tensor("w2", 8, 2), tensor("b2", 2)]))


def typed():
    """Constants in typed fields, packed small ones and strings among them."""
    constants = [helper.make_tensor("f", FLOAT, [2], [1.5, -2.0]),
                 helper.make_tensor("i64", INT64, [3], [1, -1, 1 << 40]),
                 helper.make_tensor("i8", TensorProto.INT8, [2], [-3, 4]),
                 helper.make_tensor("h", TensorProto.FLOAT16, [2], np.array([1, 2], np.float16)),
                 helper.make_tensor("u32", TensorProto.UINT32, [2], [7, 0xffffffff]),
                 helper.make_tensor("d", TensorProto.DOUBLE, [1], [0.25]),
                 helper.make_tensor("c", TensorProto.COMPLEX64, [1], [1 + 2j]),
                 helper.make_tensor("i4", TensorProto.INT4, [3], [1, 2, 3]),
                 helper.make_tensor("s", TensorProto.STRING, [2], [b"a", b"bc"]),
                 helper.make_tensor("empty", FLOAT, [0, 3], [])]
    nodes = [helper.make_node("Identity", ["f"], ["y"])]
    return model(helper.make_graph(nodes, "typed", [], [value("y", FLOAT, [2])], constants),
                 opset=21, ir_version=10)


def control():
    """If and Loop; graphs in graphs use names from outside and have initialisers of their own."""
    branches = {}
    for name in ("then", "else"):
        branches[f"{name}_branch"] = helper.make_graph(
            [helper.make_node("Add", ["x", f"{name}_c"], [f"{name}_y"])], name, [],
            [value(f"{name}_y", FLOAT, [3])], [tensor(f"{name}_c", 3)])
    body = helper.make_graph(
        [helper.make_node("Identity", ["go_in"], ["go_out"]),
         helper.make_node("Add", ["v_in", "z"], ["v_out"])], "body",
        [value("i", INT64, []), value("go_in", BOOL, []), value("v_in", FLOAT, [3])],
        [value("go_out", BOOL, []), value("v_out", FLOAT, [3])])
    nodes = [helper.make_node("If", ["flag"], ["z"], "choose", **branches),
             helper.make_node("Loop", ["trips", "", "z"], ["y"], "repeat", body=body)]
    return model(helper.make_graph(
        nodes, "control", [value("x", FLOAT, [3]), value("flag", BOOL, [])],
        [value("y", FLOAT, [3])], [numpy_helper.from_array(np.array(5), "trips")]))


def functions():
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    twice = helper.make_function("local", "Twice", ["a"], ["b"],
                                 [helper.make_node("Add", ["a", "a"], ["b"])], opsets)
    four = helper.make_function("local", "FourTimes", ["a"], ["c"],
                                [helper.make_node("Twice", ["a"], ["b"], domain="local"),
                                 helper.make_node("Twice", ["b"], ["c"], domain="local")], opsets)
    made = model(helper.make_graph(
        [helper.make_node("FourTimes", ["x"], ["y"], domain="local")], "functions",
        [value("x", FLOAT, ["n"])], [value("y", FLOAT, ["n"])]), functions=[twice, four])
    made.opset_import.append(helper.make_opsetid("local", 1))
    return made


def sparse():
    values = tensor("w", 3)
    indices = numpy_helper.from_array(np.array([0, 5, 9], np.int64), "w_indices")
    return model(helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "sparse", [value("x", FLOAT, [1, 4])],
        [value("y", FLOAT, [1, 3])],
        sparse_initializer=[helper.make_sparse_tensor(values, indices, [4, 3])]))


def external():
    w = tensor("w", 4, 8)
    b = tensor("b", 8)
    (HERE / "external.bin").write_bytes(bytes(16) + w.raw_data + b.raw_data)
    for t, offset in ((w, 16), (b, 16 + 128)):
        size = len(t.raw_data)
        t.ClearField("raw_data")
        t.data_location = TensorProto.EXTERNAL
        entries = {"location": "external.bin", "offset": offset}
        if t is w:
            entries["length"] = size
        for key, content in entries.items():
            t.external_data.add(key=key, value=str(content))
    return model(helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"])], "external",
        [value("x", FLOAT, [1, 4])], [value("y", FLOAT, [1, 8])], [w, b]))


def embedding():
    """Ids that reach tables in several ways, a mask, and an input that is listed for an old
    initialiser."""
    nodes = [helper.make_node("Gather", ["words", "input_ids"], ["e1"], "word"),
             helper.make_node("Cast", ["type_ids"], ["type64"], to=INT64),
             helper.make_node("Unsqueeze", ["type64", "axes"], ["type3"]),
             helper.make_node("Squeeze", ["type3", "axes"], ["type2"]),
             helper.make_node("Flatten", ["type2"], ["type1"], axis=1),
             helper.make_node("Gather", ["types", "type1"], ["e2"], "type"),
             helper.make_node("Transpose", ["positions"], ["positions_t"], perm=[1, 0]),
             helper.make_node("Gather", ["positions_t", "pos"], ["e3"], "position"),
             helper.make_node("Gather", ["words", "pos"], ["e4"], "again"),
             helper.make_node("Add", ["e1", "e2"], ["s1"]),
             helper.make_node("Add", ["s1", "e3"], ["s2"]),
             helper.make_node("Add", ["s2", "e4"], ["s3"]),
             helper.make_node("Mul", ["s3", "Attention_Mask"], ["y"])]
    ids = [value(n, t, ["batch", "seq"]) for n, t in
           (("input_ids", INT64), ("type_ids", INT32), ("pos", INT64))]
    return model(helper.make_graph(
        nodes, "embedding",
        [*ids, value("Attention_Mask", FLOAT, ["batch", "seq", None]), value("words", FLOAT, [30, 4])],
        [value("y", FLOAT, ["batch", "seq", 4])],
        [tensor("words", 30, 4), tensor("types", 2, 4), tensor("positions", 4, 16),
         numpy_helper.from_array(np.array([0]), "axes")]))


def kinds():
    """Inputs that aren't tensors."""
    sequence = helper.make_tensor_sequence_value_info("items", FLOAT, [2])
    return model(helper.make_graph(
        [helper.make_node("ConcatFromSequence", ["items"], ["y"], axis=0)], "kinds", [sequence],
        [value("y", FLOAT, [None])]))


def shapeless():
    return model(helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "shapeless", [value("x", FLOAT, None)],
        [value("y", FLOAT, None)]))


def custom():
    """An operator that nobody knows, under a name that tries to move the cursor."""
    made = model(helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"]),
         helper.make_node("Magic\x1b[2J", ["r"], ["m"], "line\nbreak", domain="acme"),
         helper.make_node("Relu", ["m"], ["y"])], "custom", [value("x", FLOAT, [2, 3])],
        [value("y", FLOAT, [None, 3])]))
    made.opset_import.append(helper.make_opsetid("acme", 2))
    return made


def cyclic():
    nodes = [helper.make_node("Add", ["x", "b"], ["a"], "first"),
             helper.make_node("Relu", ["a"], ["b"], "second")]
    return model(helper.make_graph(nodes, "cyclic", [value("x", FLOAT, [1])],
                                   [value("b", FLOAT, [1])]))


def deep(levels=70):
    """Graphs in graphs, deeper than the onnx package itself can write: graph, node, attribute, g."""
    def nested(tag, content):
        length = len(content)
        return bytes([tag, length & 0x7f | 0x80, length >> 7]) + content

    graph = b""
    for _ in range(levels):
        graph = nested(0x0a, nested(0x2a, nested(0x32, graph)))
    return nested(0x3a, graph)


MODELS = [mlp, typed, control, functions, sparse, external, embedding, kinds, shapeless, custom]


def layered():
    """What makes cutting hard: a mask that grows from a length, an early output, a body that reads
    tensors of other layers, a sequence on the way, and a weight that all layers read."""
    branches = {f"{name}_branch": helper.make_graph(
        [helper.make_node("MatMul", [source, "w"], [name])], name, [], [value(name, FLOAT, None)])
        for name, source in (("then", "a"), ("else", "b"))}
    nodes = [helper.make_node("Shape", ["x"], ["size"]),
             helper.make_node("ConstantOfShape", ["size"], ["ones"]),
             helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
             helper.make_node("Add", ["a", "ones"], ["early"]),
             helper.make_node("MatMul", ["early", "w"], ["b"], "second"),
             helper.make_node("If", ["flag"], ["c"], "choose", **branches),
             helper.make_node("SequenceConstruct", ["c", "b"], ["s"]),
             helper.make_node("SequenceAt", ["s", "zero"], ["d"]),
             helper.make_node("MatMul", ["d", "w"], ["e"], "third"),
             helper.make_node("Add", ["e", "ones"], ["y"])]
    return model(helper.make_graph(
        nodes, "layered", [value("x", FLOAT, ["batch", 4]), value("flag", BOOL, [])],
        [value("y", FLOAT, ["batch", 4]), value("early", FLOAT, ["batch", 4])],
        [tensor("w", 4, 4), numpy_helper.from_array(np.array(0), "zero")]))


def main():
    CORPUS.mkdir(parents=True, exist_ok=True)
    for make in MODELS:
        made = make()
        onnx.save(made, HERE / f"{make.__name__}.onnx")
        (CORPUS / make.__name__).write_bytes(made.SerializeToString())
    (CORPUS / "cyclic").write_bytes(cyclic().SerializeToString())
    (CORPUS / "deep").write_bytes(deep())
    (CORPUS / "layered").write_bytes(layered().SerializeToString())
    (CORPUS / "empty").write_bytes(b"")
    (CORPUS / "text").write_bytes(b"not a model\n")


if __name__ == "__main__":
    main()
