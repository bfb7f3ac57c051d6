"""FXPROTO graphs for tests, made by hand, without torch: Graph() collects nodes and weights.

    g = Graph()
    w = g.weight(array)
    y = g.call("aten.mm.default", g.input("x"), w)
    files = g.files(y)      # {"model.dat": …, "weights/0": …}
"""
import numpy as np

from protos import fx
from service import FXPROTO

DTYPES = {np.dtype(name): getattr(fx, f"DTYPE_{wire}") for name, wire in (
    ("bool", "BOOL"), ("int8", "INT8"), ("int16", "INT16"), ("int32", "INT32"), ("int64", "INT64"),
    ("uint8", "UINT8"), ("float16", "FLOAT16"), ("float32", "FLOAT32"), ("float64", "FLOAT64"))}


class Name(str):
    """A node's."""


class Graph:
    def __init__(self):
        self.fixed, self.placeholders, self.calls = [], [], []
        self.blob = b""

    def name(self, prefix):
        return Name(f"{prefix}_{len(self.fixed) + len(self.placeholders) + len(self.calls)}")

    def tensor(self, array):
        """A value in the file of weights."""
        self.blob += b"\0" * (-len(self.blob) % 16)
        value = fx.Value(tensor=fx.TensorValue(dtype=DTYPES[array.dtype], shape=array.shape,
                                               weight_file_index=0, weight_file_offset=len(self.blob),
                                               size_bytes=array.nbytes))
        self.blob += array.tobytes()
        return value

    def weight(self, array):
        name = self.name("w")
        self.fixed.append((fx.Node(name=name, placeholder=fx.PlaceholderNode()),
                           self.tensor(np.ascontiguousarray(array))))
        return name

    def input(self, name):
        self.placeholders.append(fx.Node(name=name, placeholder=fx.PlaceholderNode()))
        return Name(name)

    def value(self, x):
        if isinstance(x, fx.Value):
            return x
        if isinstance(x, Name):
            return fx.Value(node_name=x)
        if x is None:
            return fx.Value(none=True)
        if isinstance(x, bool):
            return fx.Value(boolean=x)
        if isinstance(x, int):
            return fx.Value(integer=str(x))
        if isinstance(x, float):
            return fx.Value(float=x)
        if isinstance(x, str):
            return fx.Value(string=x)
        items = fx.ListValue(items=[self.value(item) for item in x])
        return fx.Value(tuple=items) if isinstance(x, tuple) else fx.Value(list=items)

    def call(self, target, *args, **kwargs):
        """target: "aten.relu.default", "getitem", or "torch.tensor"."""
        name = self.name("n")
        parts = target.split(".")
        function = (fx.Function(op_overload=fx.OpOverload(
                        namespace=parts[0], op_name=parts[1], overload_name=parts[2]))
                    if len(parts) == 3 else fx.Function(torch_function=parts[1])
                    if parts[0] == "torch" else fx.Function(python_operator=target))
        self.calls.append(fx.Node(name=name, call_function=fx.CallFunctionNode(
            target=function, args=[self.value(a) for a in args],
            kwargs=[fx.KwArgValue(name=k, value=self.value(v)) for k, v in kwargs.items()])))
        return name

    def model(self, result):
        output = fx.Node(name="output", output=fx.OutputNode(result=self.value(result)))
        return fx.Model(
            graph=fx.Graph(nodes=[*(n for n, _ in self.fixed), *self.placeholders, *self.calls, output]),
            fixed_inputs=[fx.FixedInput(value=v) for _, v in self.fixed])

    def files(self, result):
        files = {"model.dat": self.model(result).SerializeToString()}
        if self.blob:
            files["weights/0"] = self.blob
        return files


def affine(weight, one=1.0):
    """y = x @ weight + 1, as service.affine has it in ONNX."""
    g = Graph()
    x, w = g.input("x"), g.weight(weight.astype(np.float32))
    return g.files((g.call("aten.add.Tensor", g.call("aten.mm.default", x, w), one),))




def load(session, files, model=1, **fields):
    """Uploads the files of a graph and has them loaded; the results of all backends."""
    for name, data in files.items():
        session.upload(data, model=model, name=name, **fields)
    return session.load_reply(model, format=FXPROTO, **fields).result_per_backend


def loaded(session, files, model=1, **fields):
    """The same for a graph that all of them must take."""
    for result in load(session, files, model, **fields):
        assert result.HasField("result_value"), result


def failure(results):
    """What the only backend said."""
    result, = results
    assert result.HasField("error_value"), result
    return result.error_value.message
