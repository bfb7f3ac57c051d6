"""Graphs in several forms from memory, and runs in two halves, through the public functions alone:
on this machine, and on a service that tells what it was sent."""
import ctypes
import hashlib
import os

import numpy as np
import pytest
from onnx import TensorProto, helper

from conftest import PROGRAM
from fake_service import Fake, base
from test_record import EUSAGE, LIBRARY, Failed, Graph, Session, Tensor, check, tensor
from test_remote import RemoteSession

EUNSUPPORTED = -6
ONNX, FXPROTO = 1, 2

for name in ("prony_graph_failure", "prony_graph_local_reason"):
    getattr(LIBRARY, name).restype = ctypes.c_char_p
LIBRARY.prony_graph_id.restype = ctypes.c_int64


class File(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.c_char_p), ("bytes", ctypes.c_size_t),
                ("sha256", ctypes.c_char_p)]


class Form(ctypes.Structure):
    _fields_ = [("format", ctypes.c_int), ("files", ctypes.POINTER(File)),
                ("n_files", ctypes.c_size_t), ("inputs", ctypes.POINTER(ctypes.c_char_p)),
                ("n_inputs", ctypes.c_size_t), ("outputs", ctypes.POINTER(ctypes.c_char_p)),
                ("n_outputs", ctypes.c_size_t), ("failure", ctypes.c_char_p)]


def texts(items):
    return (ctypes.c_char_p * len(items))(*(item.encode() for item in items))


def form(format, files, inputs=(), outputs=(), failure=None):
    listed = (File * len(files))(*(File(name.encode(), data, len(data), None)
                                   for name, data in files.items()))
    return Form(format, listed, len(files), texts(inputs), len(inputs), texts(outputs),
                len(outputs), failure and failure.encode())


def load_forms(session, name, *forms):
    handle = ctypes.c_void_p()
    check("prony_graph_load_forms", session.handle, name.encode(), (Form * len(forms))(*forms),
          ctypes.c_size_t(len(forms)), ctypes.byref(handle))
    return Graph(handle)


def failure(graph, index):
    text = LIBRARY.prony_graph_failure(graph.handle, ctypes.c_size_t(index))
    return text and text.decode()


def start(graph, overlap, **inputs):
    """The run, and what must live as long as it."""
    kept = [tensor(name, array) for name, array in inputs.items()]
    tensors = (Tensor * len(kept))(*(t[0] for t in kept))
    run = ctypes.c_void_p()
    check("prony_graph_start", graph.handle, tensors, ctypes.c_size_t(len(kept)), 1, overlap,
          ctypes.byref(run))
    return run, (kept, tensors)


def finish(run, backend=None):
    handle = ctypes.c_void_p()
    check("prony_run_finish", run, backend and backend.encode(), ctypes.byref(handle))
    one = Tensor()
    assert LIBRARY.prony_outputs_get(handle, ctypes.c_size_t(0), ctypes.byref(one)) == 0
    found = np.frombuffer(ctypes.string_at(one.data, one.bytes), np.float32)
    LIBRARY.prony_outputs_free(handle)
    return one.name, found


@pytest.fixture
def weighted():
    """y = x - w + b, of which w lies in a file of its own; and its files."""
    w = np.arange(3, dtype=np.float32)
    kept = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=w.shape,
                       data_location=TensorProto.EXTERNAL)
    for key, text in (("location", "weights/0"), ("length", str(w.nbytes))):
        kept.external_data.add(key=key, value=text)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Sub", ["x", "w"], ["d"]), helper.make_node("Add", ["d", "b"], ["y"])],
        "g", [value("x", TensorProto.FLOAT, [3]), value("b", TensorProto.FLOAT, [3])],
        [value("y", TensorProto.FLOAT, [3])], initializer=[kept])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    return {"model.onnx": model.SerializeToString(), "weights/0": w.tobytes()}


X = np.array([5, 5, 5], np.float32)
B = np.array([1, 0, 0], np.float32)
Y = [6, 4, 3]


# ---- On this machine ----

@pytest.mark.parametrize("overlap", [0, 1])
def test_onnx_from_memory_runs_here(weighted, overlap, monkeypatch, tmp_path):
    """What is written for the runtime is gone when it has read it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Session("onnxrt-cpu") as session:
        graph = load_forms(session, "weighted", form(FXPROTO, {}, failure="none"),
                           form(ONNX, weighted, ["x", "b"], ["y"]))
        assert os.listdir(tmp_path) == []
        with session.region("f"):
            run, kept = start(graph, overlap, b=B, unused=X, x=X)
            name, found = finish(run)
        del kept
        profile = session.profile()["profiles"][0]
    np.testing.assert_array_equal(found, Y)
    assert name == b"y" and profile["segments"][1]["results"][0]["times"]["count"] == 2


def test_what_only_a_service_runs(weighted):
    with Session("onnxrt-cpu") as session:
        graph = load_forms(session, "fx", form(FXPROTO, {"model.dat": b"x"}, ["x"], ["y"]))
        assert "has no such form" in failure(graph, 0)
        lost = load_forms(session, "lost", form(ONNX, {}, failure="the exporter gave up"))
        assert failure(lost, 0) == "the exporter gave up"
        with pytest.raises(Failed, match="the exporter gave up") as failed:
            lost.run()
        assert failed.value.code == EUNSUPPORTED


def test_a_local_graph():
    with Session("onnxrt-cpu", strict=True) as session:
        handle = ctypes.c_void_p()
        check("prony_graph_local", session.handle, b"loop", b"it has a loop", ctypes.byref(handle))
        graph = Graph(handle)
        assert LIBRARY.prony_graph_id(handle) == 1
        assert LIBRARY.prony_graph_local_reason(handle) == b"it has a loop"
        check("prony_region_begin", session.handle, b"f")
        with pytest.raises(Failed, match="it has a loop"):
            graph.run()
        check("prony_region_end", session.handle)
        profile = session.profile()
        assert profile["graphs"][0]["local_reason"] == "it has a loop"
        assert profile["profiles"][0]["runs"] == 1


def test_wrong_calls(weighted):
    onnx_form = form(ONNX, weighted, ["x", "b"], ["y"])
    with Session("onnxrt-cpu") as session:
        for forms, text in (
                ([onnx_form, onnx_form], "two forms have the same format"),
                ([form(ONNX, {"..": b""})], "can't be called '..'"),
                ([form(ONNX, {"a/./b": b""})], "can't be called"),
                ([form(9, weighted)], "the unknown format 9")):
            with pytest.raises(Failed, match=text) as failed:
                load_forms(session, "wrong", *forms)
            assert failed.value.code == EUSAGE
        with pytest.raises(Failed, match="are needed"):
            check("prony_graph_load_forms", None, None, None, None, None)
        with pytest.raises(Failed, match="are needed"):
            check("prony_graph_local", None, None, None, None)
        with pytest.raises(Failed, match="run is needed"):
            check("prony_run_finish", None, None, None)
        LIBRARY.prony_run_cancel(None)


# ---- On a service ----

class Mixed(Fake):
    """Two backends, of which one takes FXPROTO: it adds up its inputs in order, times 1, 10, …"""

    def __init__(self):
        super().__init__("a/onnxrt-cpu", "b/torch-eager-cpu")
        self.components = []
        self.loads = []
        self.runs = []

    def cached(self, request, context):
        self.components.append((request.model_id, request.model_component_id, request.filename,
                                request.backends_to_skip_bitmask))
        return super().cached(request, context)

    def load(self, request, context):
        torch = request.model_format == base.MODEL_FORMAT_FXPROTO
        self.loads.append((request.model_id, request.model_format, list(request.input_names),
                           list(request.output_names), request.backends_to_skip_bitmask))
        if not torch:
            reply = super().load(request, context)
        else:
            reply = base.LoadModelReply(result_per_backend=[
                base.LoadModelResult(result_value=base.LoadModelResultValue())] * 2)
        reply.result_per_backend[0 if torch else 1].CopyFrom(
            base.LoadModelResult(skipped=base.LoadModelSkipped()))
        return reply

    def run(self, request, context):
        maps = [list(m.input_value_indices) for m in request.input_map_per_backend]
        self.runs.append((len(request.inputs), maps))
        onnx_only = base.RunRequest()
        onnx_only.CopyFrom(request)
        del onnx_only.input_map_per_backend[1]
        specs = self.specs[request.session_uuid]
        self.specs[request.session_uuid] = specs[:1]
        reply = super().run(onnx_only, context)
        self.specs[request.session_uuid] = specs
        arrays = [np.frombuffer(v.tensor.data, np.float32) for v in request.inputs]
        total = sum(10 ** place * arrays[index] for place, index in enumerate(maps[1]))
        value = base.ResultValue(run_times_nanos=[5000] * request.num_repeats)
        value.outputs.append(self.value(np.asarray(total, np.float32)))
        reply.result_per_backend.append(base.RunResult(result_value=value))
        return reply

    METHODS = {**Fake.METHODS, "octoml_profile.RemoteInference": {
        **Fake.METHODS["octoml_profile.RemoteInference"],
        "LoadCachedModelComponent": ("unary", base.LoadCachedModelComponentRequest,
                                     lambda self, r, c: self.cached(r, c)),
        "LoadModel": ("unary", base.LoadModelRequest, lambda self, r, c: self.load(r, c)),
        "Run": ("unary", base.RunRequest, lambda self, r, c: self.run(r, c))}}


@pytest.mark.parametrize("overlap", [0, 1])
def test_each_backend_gets_its_own_form(weighted, overlap):
    with Mixed() as fake, RemoteSession(fake.address) as session:
        graph = load_forms(session, "mixed",
                           form(ONNX, weighted, ["x", "b"], ["y"]),
                           form(FXPROTO, {"model.dat": b"fx", "weights/0": weighted["weights/0"]},
                                ["extra", "x"], ["out"]))
        assert [failure(graph, i) for i in (0, 1, 2)] == [None, None, None]
        assert fake.components == [(1, 1, "model.onnx", b"\2"), (1, 2, "weights/0", b"\2"),
                                   (1, 3, "model.dat", b"\1"), (1, 4, "weights/0", b"\1")]
        assert fake.calls.count("LoadModelComponent") == 3  # the weights go up once
        assert fake.loads == [(1, ONNX, ["x", "b"], ["y"], b"\2"), (1, FXPROTO, [], [], b"\1")]
        extra = np.array([7, 8, 9], np.float32)
        given = {"b": B, "extra": extra, "nobody's": X, "x": X}
        with session.region("f"):
            run, kept = start(graph, overlap, **given)
            name, found = finish(run, "b/torch-eager-cpu")
        del kept
        np.testing.assert_array_equal(found, extra + 10 * X)
        assert name == b"out"
        assert fake.runs == [(3, [[0, 1], [2, 0]])]  # x, b, extra
        np.testing.assert_array_equal(graph.run(backend="a/onnxrt-cpu", **given)["y"], Y)
        with pytest.raises(Failed, match="input 'extra' is missing"):
            graph.run(x=X, b=B)
        results = session.profile()["profiles"][0]["segments"][1]["results"]
    assert [r["times"]["count"] for r in results] == [2, 2]


def test_a_form_that_failed_costs_only_its_backends(weighted):
    with Mixed() as fake, RemoteSession(fake.address) as session:
        graph = load_forms(session, "half", form(ONNX, {}, ["lost"], failure="no such operator"),
                           form(FXPROTO, {"model.dat": b"fx"}, ["x"], ["out"]))
        assert failure(graph, 0) == "no such operator" and failure(graph, 1) is None
        assert LIBRARY.prony_graph_local_reason(graph.handle) is None
        assert [load[1] for load in fake.loads] == [FXPROTO]
        assert {mask for _, _, _, mask in fake.components} == {b"\1"}


def test_a_hash_is_taken_as_it_is(weighted):
    """Whoever knows it saves the reading: the service has such a file, and no other is looked at."""
    with Fake() as fake, RemoteSession(fake.address) as session:
        digest = hashlib.sha256(weighted["weights/0"]).digest()
        fake.blobs[digest] = weighted["weights/0"]
        files = (File * 2)(File(b"model.onnx", weighted["model.onnx"], len(weighted["model.onnx"])),
                           File(b"weights/0", b"never read!!", 12, digest))
        graph = load_forms(session, "g", Form(ONNX, files, 2, texts(["x", "b"]), 2, texts(["y"]), 1))
        np.testing.assert_array_equal(graph.run(x=X, b=B)["y"], Y)
        assert fake.calls.count("LoadModelComponent") == 1


def test_a_run_that_breaks_in_the_middle(weighted):
    with Fake() as fake, RemoteSession(fake.address) as session:
        graph = load_forms(session, "g", form(ONNX, weighted, ["x", "b"], ["y"]))
        fake.run_error["metal/onnxrt-cpu"] = "out of luck"
        run, kept = start(graph, 1, x=X, b=B)
        with pytest.raises(Failed, match="out of luck"):
            finish(run)
        fake.run_error.clear()
        run, kept = start(graph, 1, x=X, b=B)
        LIBRARY.prony_run_cancel(run)
        run, kept = start(graph, 1, x=X, b=B)
        np.testing.assert_array_equal(finish(run)[1], Y)
        fake.raw["Run"] = b"\xff\xff\xff"
        run, kept = start(graph, 1, x=X, b=B)
        with pytest.raises(Failed, match="is it a prony service"):
            finish(run)
        del kept


def test_the_program_is_found(monkeypatch):
    path = ctypes.c_char_p()
    check("prony_program", ctypes.byref(path))
    assert os.path.samefile(path.value, PROGRAM)
