"""A captured graph in the forms that backends take, made once for graphs that look the same.

Lowering and exporting take seconds, weights don't matter for them, and programs repeat themselves:
forms are kept for as long as the process lives, for graphs whose sizes are all known. (Open sizes
belong to one capture, which has to hear what lowering asks of them.)
"""

from __future__ import annotations

import dataclasses
import hashlib
import threading
import time
import types
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from prony import _fx, _native, _onnx
from prony._lower import Lowered, autocast, is_weight, lower
from prony._weights import File, hashes

KEPT_MAX = 256

# What any runtime does with any type, because it only moves it, or makes it another.
_MOVES = frozenset((
    "_to_copy", "to", "view", "_unsafe_view", "reshape", "permute", "transpose", "t", "unsqueeze",
    "squeeze", "expand", "slice", "select", "clone", "contiguous", "detach", "alias", "cat", "split",
    "split_with_sizes", "embedding", "index_select", "gather", "flatten", "unflatten"))

Form = tuple[int, list[tuple[str, Any, bytes | None]], list[str], list[str], str | None]


@dataclasses.dataclass
class Exported:
    """A lowered graph, and as ONNX if a backend wants that; or why not."""

    lowered: Lowered
    onnx: _onnx.Model | None = None
    onnx_failure: str | None = None
    lower_ns: int = 0
    export_ns: int = 0

    def computes_in(self, dtype: torch.dtype) -> str | None:
        """An operator that computes with such numbers; None: there is none."""
        for node in self.lowered.module.graph.nodes:
            if node.op == "call_function" and \
                    getattr(node.target, "overloadpacket", node.target).__name__ not in _MOVES and \
                    any(getattr(n.meta.get("val"), "dtype", None) is dtype
                        for n in (node, *node.all_input_nodes)):
                return str(node.target)
        return None

    def refusal(self, software: str) -> str | None:
        """Why it needn't be sent to such a backend; None: nothing is known against it."""
        if software == "onnxrt-cpu":
            operator = self.computes_in(torch.bfloat16)
            if operator is not None:
                return (f"ONNX Runtime doesn't compute in bfloat16 on processors, and '{operator}' "
                        "does; convert the module and its inputs with .float(), or use openvino-cpu "
                        "or a torch backend")
        return None

    def reservation(self, software: str) -> str | None:
        """What to know about its results there; None: nothing."""
        if software == "openvino-cpu" and self.computes_in(torch.float64) is not None:
            return ("OpenVINO computes in float32 what is float64 in the graph; for all digits use "
                    "onnxrt-cpu or a torch backend")
        return None

    @property
    def lacks_onnx(self) -> bool:
        """Whether nobody has tried to export it yet."""
        return self.onnx is None and self.onnx_failure is None and bool(self.lowered.output_names)

    def forms(self, weights: Sequence[torch.Tensor], onnx: bool,
              fx: bool) -> tuple[list[Form], list[File]]:
        """What the extension loads, with these weights; and what holds their memory until then."""
        files: list[File] = []
        places: list[int] = []
        for weight in weights:
            file = hashes.file(weight)
            known = [i for i, other in enumerate(files) if other.sha256 == file.sha256]
            places.append(known[0] if known else len(files))
            if not known:
                files.append(file)
        sent = [(f"weights/{i}", (file.address, file.nbytes), file.sha256)
                for i, file in enumerate(files)]
        forms = []
        if onnx:
            forms.append(self._onnx_form(sent, [_onnx.Place.of(f"weights/{i}", files[i].holds)
                                                for i in places]))
        if fx:
            forms.append(self._fx_form(sent, [
                (weight.dtype, list(weight.shape), i, 0, files[i].nbytes)
                for weight, i in zip(weights, places)]))
        return forms, files

    def _form(self, format: int, model: tuple[str, bytes], sent: list[Any]) -> Form:
        return (format, [(*model, None), *sent], self.lowered.input_names,
                self.lowered.output_names, None)

    def _failed(self, format: int, reason: str) -> Form:
        return (format, [], [], [], reason)

    def _onnx_form(self, sent: list[Any], places: list[_onnx.Place]) -> Form:
        if self.onnx is None:
            return self._failed(_native.FORMAT_ONNX, self.onnx_failure or "it was not exported")
        needed = {place.location for place in places if place.inline is None}
        return self._form(_native.FORMAT_ONNX, ("model.onnx", self.onnx.serialize(places)),
                          [file for file in sent if file[0] in needed])

    def _fx_form(self, sent: list[Any], places: list[_fx.WeightPlace]) -> Form:
        try:
            tree = _fx.to_tree(self.lowered, places)
            return self._form(_native.FORMAT_FXPROTO, ("model.dat", _native.fx_pack(tree)), sent)
        except (_fx.NotExpressible, ValueError, TypeError, OverflowError) as fault:
            return self._failed(_native.FORMAT_FXPROTO, f"it is not expressible as FXPROTO: {fault}")


def identity(forms: list[Form]) -> bytes:
    """What tells forms apart: the same files, whatever they are called for."""
    digest = hashlib.sha256()
    for format, files, inputs, outputs, failure in forms:
        digest.update(repr((format, inputs, outputs, failure)).encode())
        for name, content, sha256 in files:
            digest.update(name.encode() + b"\0")
            digest.update(sha256 or hashlib.sha256(content).digest())
    return digest.digest()


_kept: dict[str, Exported] = {}
_lock = threading.Lock()


def export(captured: fx.GraphModule, examples: list[Any], onnx: bool) -> Exported:
    """Lowers a captured graph and, if `onnx`, exports it. Raises when it can't be lowered."""
    key = _key(captured, examples)
    with _lock:
        exported = _kept.pop(key, None) if key else None
        if exported and key:
            _kept[key] = exported  # the youngest again
    if exported is None or onnx and exported.lacks_onnx:
        # What was lowered in another call of Dynamo has that one's fake tensors, which don't mix.
        begin = time.monotonic_ns()
        exported = Exported(lower(captured, examples))
        exported.lower_ns = time.monotonic_ns() - begin
    if onnx and exported.lacks_onnx:
        begin = time.monotonic_ns()
        _export_onnx(exported, examples, key if _is_told_by_code(captured) else None)
        exported.export_ns = time.monotonic_ns() - begin
    if key:
        with _lock:
            _kept[key] = exported
            while len(_kept) > KEPT_MAX:
                del _kept[next(iter(_kept))]
    return exported


def _export_onnx(exported: Exported, examples: list[Any], key: str | None) -> None:
    lowered = exported.lowered
    values = [w.constant if w.position is None else examples[w.position] for w in lowered.weights]
    values += [_plain(examples[i]) for i in lowered.inputs]
    try:
        exported.onnx = _onnx.to_onnx(lowered, values, key)
    except Exception as fault:
        exported.onnx_failure = f"it can't be exported to ONNX: {_onnx.first_line(fault)}"


def _plain(value: Any) -> Any:
    return value.node.hint if isinstance(value, torch.SymInt) else value


def _key(captured: fx.GraphModule, examples: list[Any]) -> str | None:
    """A text that equal graphs share; None for those that can't be told apart by one."""
    words = []
    for node in captured.graph.nodes:
        if node.op in ("get_attr", "call_module"):
            return None
        if node.op != "placeholder":
            continue
        value = node.meta["example_value"]
        if not isinstance(value, torch.Tensor) or any(
                isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride())):
            return None
        words.append(f"{value.dtype} {tuple(value.shape)} {value.stride()} {value.device}")
    words += [str(is_weight(example)) for example in examples]
    words += [str(torch.get_default_dtype()), str(autocast())]
    return "\n".join([captured.code, *words, str(_sharing(captured))])


def _is_told_by_code(captured: fx.GraphModule) -> bool:
    """Whether a key says all, also in another process: names of functions stand for those of this
    PyTorch. A program's own may be others tomorrow."""
    def is_known(target: Any) -> bool:
        if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
            return str(target).startswith(("aten.", "prims."))
        module = getattr(target, "__module__", None) or ""
        return isinstance(target, types.BuiltinFunctionType) or module == "torch" or \
            module.startswith(("torch.", "_operator"))

    return all(is_known(node.target) for node in captured.graph.nodes if node.op == "call_function")


def _sharing(captured: fx.GraphModule) -> list[int]:
    """Which arguments share memory: the first one that has the same, for each."""
    seen: dict[int, int] = {}
    return [seen.setdefault(node.meta["example_value"].untyped_storage()._cdata, i)
            for i, node in enumerate(captured.graph.find_nodes(op="placeholder"))]
