"""A lowered graph as an ONNX model whose weights are files beside it.

The exporter sees weights as inputs, so it neither reads nor copies nor folds them; afterwards they
become initialisers with external data. Open sizes become named dimensions. PyTorch's exporter is
asked first; what it can't do is tried with the older one, based on TorchScript. The exporters are
imported when there is something to export.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import inspect
import io
import logging
import operator
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import onnx
import torch
from torch import fx

from prony import _dtypes, _exports
from prony._lower import GROUPED, Lowered

if TYPE_CHECKING:
    from torch.onnx._internal.exporter._registration import ONNXRegistry

aten = torch.ops.aten
INLINE_BYTES = 4096
OPSET = 20  # what torch.onnx.export() takes by default

# Arithmetic on sizes that the older exporter follows; of anything else it keeps the numbers of the
# first call, and other sizes would get wrong results.
_TRACED = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.neg, operator.getitem)

_ALIASES = {"multiply": "mul", "divide": "div", "true_divide": "div", "subtract": "sub", "greater": "gt",
            "greater_equal": "ge", "less": "lt", "less_equal": "le", "not_equal": "ne", "arctan2": "atan2"}


@dataclasses.dataclass(frozen=True)
class Place:
    """Where the values of a weight are: in a file beside the model, or in it."""

    location: str
    nbytes: int
    inline: bytes | None = None

    @staticmethod
    def of(location: str, tensor: torch.Tensor) -> Place:
        """An empty tensor has no file, and runtimes want to know integers, which may be indices or a
        shape, before they read any."""
        if not tensor.nbytes:
            return Place(location, 0, b"")
        whole = not (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
        inline = whole and tensor.nbytes <= INLINE_BYTES
        return Place(location, tensor.nbytes, tensor.numpy().tobytes() if inline else None)


@dataclasses.dataclass
class Model:
    """A model before its weights are known: graphs that differ in weights alone share it."""

    proto: onnx.ModelProto
    weight_names: list[str]
    weight_types: list[tuple[int, list[int]]]
    fallback_reason: str | None
    """Why the older exporter had to make it; None: it didn't."""

    def serialize(self, places: list[Place]) -> bytes:
        """The file, with each weight in the file of its place."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        for name, (dtype, dims), place in zip(
                self.weight_names, self.weight_types, places, strict=True):
            tensor = proto.graph.initializer.add(name=name, data_type=dtype, dims=dims)
            if place.inline is not None:
                tensor.raw_data = place.inline
                continue
            tensor.data_location = onnx.TensorProto.EXTERNAL
            for key, value in (("location", place.location), ("offset", "0"),
                               ("length", str(place.nbytes))):
                tensor.external_data.add(key=key, value=value)
        data: bytes = proto.SerializeToString()
        return data


def to_onnx(lowered: Lowered, examples: list[Any], key: str | None = None) -> Model:
    """Exports; `examples` are the values of all placeholders, for the older exporter alone. Raises
    what the first exporter said when neither can do it. What the first one made is kept under `key`."""
    names = [f"weight_{i}" for i in range(len(lowered.weights))]
    kept = _exports.find(key) if key is not None else None
    if kept is not None:
        with contextlib.suppress(Exception):  # what is damaged is made again
            return _model(lowered, onnx.load_model_from_string(kept), names, None)
    reason = None
    with _quiet():
        try:
            proto = _export(lowered, [*names, *lowered.input_names])
        except Exception as first:
            reason = first_line(first)
            try:
                proto = _export_by_torchscript(lowered, examples, [*names, *lowered.input_names])
            except Exception:
                raise RuntimeError(reason) from None
    if key is not None and reason is None:
        _exports.keep(key, proto.SerializeToString())
    return _model(lowered, proto, names, reason)


def _model(lowered: Lowered, proto: onnx.ModelProto, names: list[str], reason: str | None) -> Model:
    weights = set(names)
    kept = [value for value in proto.graph.input if value.name not in weights]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    types = [(_dtypes.ONNX[node.meta["val"].dtype], [int(n) for n in node.meta["val"].shape])
             for node in lowered.placeholders()[:len(names)]]
    return Model(proto, names, types, reason)


def first_line(fault: BaseException) -> str:
    """What went wrong, in one line. The exporter's own text is a page; the cause says it."""
    while fault.__cause__ is not None:
        fault = fault.__cause__
    return explanation(str(fault)) or type(fault).__name__


def explanation(text: str) -> str:
    """The one line that says it. A text of Dynamo's begins with a title, and has a line that explains
    it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if line.startswith("Explanation: "):
            return line.removeprefix("Explanation: ")[:500]
    return lines[0][:500] if lines else ""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Exporters warn and log about what the caller hears of anyway."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript",
                                                    "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    log = torch._C._jit_onnx_log  # prints, and its switch is turned on by who calls it
    torch._C._jit_onnx_log = lambda *_: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch._C._jit_onnx_log = log
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


def _export(lowered: Lowered, names: list[str]) -> onnx.ModelProto:
    from torch.onnx._internal.exporter import _core

    program = _program(lowered)
    for node in program.graph.nodes:
        if getattr(getattr(node.target, "_schema", None), "name", "") == GROUPED:
            _registry().register_op(node.target, _grouped)
    if all(_registry().is_registered(node.target) or node.target is operator.getitem
           for node in program.graph.nodes if node.op == "call_function"):
        # It is what the exporter would make of it, and would take its time to.
        program.run_decompositions = lambda *_: program
    converts = "opset_version" in inspect.signature(_core.export).parameters
    options: dict[str, Any] = {"opset_version": OPSET} if converts else {}
    with _untouched_sizes(lowered):
        exported = _core.export(program, registry=_registry(), input_names=names,
                                output_names=lowered.output_names, verbose=False, **options)
    if not converts:  # older PyTorch does it in torch.onnx.export()
        from torch.onnx._internal._lazy_import import onnxscript_apis

        exported.model = onnxscript_apis.convert_version(exported.model, OPSET)
    return exported.model_proto


@functools.cache
def _registry() -> ONNXRegistry:
    """What the exporter knows. torch.onnx.export() makes one for each graph, which takes longer
    than everything else that it does."""
    from torch.onnx._internal.exporter import _registration

    registry = _registration.ONNXRegistry.from_torchlib(opset_version=OPSET)
    registry.register_op(aten.searchsorted.Tensor, _searchsorted)
    registry.register_op(aten.searchsorted.Scalar, _searchsorted)
    registry.register_op(round, _round)
    return registry


def _grouped(rows: Any, matrices: Any, ends: Any) -> Any:
    """A matrix product per group."""
    from onnxscript import opset20 as op

    ends = op.Cast(ends, to=onnx.TensorProto.INT64)
    products = []
    start = op.Constant(value_ints=[0])
    for i in range(matrices.shape[0]):
        end = op.Slice(ends, [i], [i + 1], [0])
        products.append(op.MatMul(op.Slice(rows, start, end, [0]), op.Gather(matrices, i, axis=0)))
        start = end
    return op.Concat(*products, axis=0)


def _round(number: Any, digits: int | None = None) -> Any:
    """Of a size that became a fraction, to the nearest whole number, halves to the even one."""
    from onnxscript import opset20 as op

    if digits is not None:
        raise NotImplementedError("ONNX has no round() to a number of digits")
    whole = op.Round(op.Cast(number, to=onnx.TensorProto.DOUBLE))
    return op.Cast(whole, to=onnx.TensorProto.INT64)


def _searchsorted(sequence: Any, values: Any, *, out_int32: bool = False, right: bool = False,
                  side: str | None = None, sorter: Any = None) -> Any:
    """Which the exporter doesn't know: how many numbers of a sequence come before each value."""
    from onnxscript import opset20 as op

    if sorter is not None:
        sequence = op.GatherElements(sequence, sorter, axis=-1)
    compare = op.LessOrEqual if right or side == "right" else op.Less
    if isinstance(values, (int, float)):
        if isinstance(values, float) and not sequence.dtype.is_floating_point():
            sequence = op.Cast(sequence, to=onnx.TensorProto.FLOAT)
        before = compare(sequence, op.CastLike(_number(values), sequence))
    else:
        # A batch of sequences has as many of values; a single one takes values of any shape.
        before = compare(op.Unsqueeze(sequence, [-2]), op.Unsqueeze(values, [-1]))
    count = op.ReduceSum(op.Cast(before, to=onnx.TensorProto.INT64), [-1], keepdims=0)
    if not isinstance(values, (int, float)) and not len(values.shape):
        count = op.Squeeze(count, [0])
    return op.Cast(count, to=onnx.TensorProto.INT32) if out_int32 else count


def _number(value: float) -> Any:
    """A constant, with all of its digits."""
    from onnxscript import opset20 as op

    kind = onnx.TensorProto.DOUBLE if isinstance(value, float) else onnx.TensorProto.INT64
    return op.Constant(value=onnx.helper.make_tensor("", kind, [], [value]))


def _untouched_sizes(lowered: Lowered) -> contextlib.AbstractContextManager[None]:
    """What the exporter finds out about open sizes must not become a condition on the user's."""
    for node in lowered.placeholders():
        value = node.meta["val"]
        for size in value.shape if isinstance(value, torch.Tensor) else [value]:
            if isinstance(size, torch.SymInt):
                suppressed: contextlib.AbstractContextManager[None] = size.node.shape_env.suppress_guards()
                return suppressed
    return contextlib.nullcontext()


def _program(lowered: Lowered) -> torch.export.ExportedProgram:
    """The lowered graph as torch.export would have returned it."""
    from torch.export.graph_signature import (
        ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec)

    graph = copy.deepcopy(lowered.module.graph)
    _use_known_names(graph)
    module = fx.GraphModule(lowered.module, graph)
    placeholders = graph.find_nodes(op="placeholder")
    outputs = graph.output_node().args[0]
    signature = ExportGraphSignature(
        [InputSpec(InputKind.USER_INPUT, _argument(node), None) for node in placeholders],
        [OutputSpec(OutputKind.USER_OUTPUT, _argument(node), None) for node in outputs])
    values = tuple(node.meta["val"] for node in placeholders)
    in_spec = torch.utils._pytree.tree_structure((values, {}))
    out_spec = torch.utils._pytree.tree_structure(tuple(0 for _ in outputs))
    whole = torch.export.exported_program.ModuleCallEntry(
        "", torch.export.exported_program.ModuleCallSignature([], [], in_spec, out_spec))
    program = torch.export.ExportedProgram(
        root=module, graph=graph, graph_signature=signature, state_dict={}, range_constraints={},
        module_call_graph=[whole], example_inputs=(values, {}), constants={})
    program._guards_code = []  # they speak of the caller's variables, and Dynamo checks them
    return program


def _use_known_names(graph: fx.Graph) -> None:
    """Says in the exporter's words what others are as good for: it finds the common type of operands
    for an operator's first name alone, and the first of them may not be a number for it."""
    for node in graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            name = node.target._schema.name.removeprefix("aten::")
            if name in _ALIASES:
                node.target = getattr(getattr(aten, _ALIASES[name]), node.target._overloadname)
            if node.target in (aten.add.Tensor, aten.mul.Tensor) and not node.kwargs and \
                    not isinstance(node.args[0], fx.Node):
                node.args = node.args[::-1]


def _argument(node: fx.Node) -> Any:
    from torch.export.graph_signature import SymIntArgument, TensorArgument

    kind = TensorArgument if isinstance(node.meta["val"], torch.Tensor) else SymIntArgument
    return kind(name=node.name)


def _refuse_frozen(graph: fx.Graph) -> None:
    for node in graph.nodes:
        if node.op == "call_function" and not isinstance(node.target, torch._ops.OpOverload) and \
                node.target not in _TRACED:
            raise RuntimeError(f"the older exporter would keep one value of '{node.name}' for all sizes")


def _export_by_torchscript(lowered: Lowered, examples: list[Any],
                           names: list[str]) -> onnx.ModelProto:
    graph = copy.deepcopy(lowered.module.graph)
    if lowered.dynamic:
        _refuse_frozen(graph)
    for node in graph.find_nodes(op="call_function", target=aten.sym_size.int):
        node.op, node.target = "call_method", "size"  # which tracing follows
    module = fx.GraphModule(lowered.module, graph)
    axes = {name: {d: str(size) for d, size in enumerate(node.meta["val"].shape)
                   if isinstance(size, torch.SymInt)}
            for name, node in zip(names, lowered.placeholders())
            if isinstance(node.meta["val"], torch.Tensor)}
    file = io.BytesIO()
    torch.onnx.export(module, tuple(examples), file, dynamo=False, input_names=names,
                      output_names=lowered.output_names, do_constant_folding=False,
                      dynamic_axes={name: dims for name, dims in axes.items() if dims},
                      keep_initializers_as_inputs=False)
    proto = onnx.load_model_from_string(file.getvalue())
    found = [value.name for value in proto.graph.input]
    if sorted(found) != sorted(names):
        raise RuntimeError("the older exporter changed the inputs")
    return proto
