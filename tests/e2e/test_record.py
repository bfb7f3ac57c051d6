"""Sessions, graphs and regions of libprony with the real ONNX Runtime, through the public functions
alone: what runs where, with which inputs, and what is recorded of it."""
import contextlib
import ctypes
import fcntl
import json
import math
import os
import pathlib
import signal
import socket
import struct
import sys
import tempfile
import textwrap
import threading
import time

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import BUILD, ROOT, run_program

ORT = os.environ.get("PRONY_ORT_LIB", str(BUILD / "deps/onnxruntime/libonnxruntime.so.1"))
SCHEMA = json.loads((ROOT / "docs/prony.profile.schema.json").read_text())
EUSAGE, EIO, ENOENT, EFORMAT, EUNAVAILABLE, ERUNTIME, ECRASH, ETIMEDOUT, ECANCELED = (
    -1, -3, -4, -5, -8, -9, -10, -11, -12)


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 512)]


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_size_t),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("data", ctypes.c_void_p),
                ("bytes", ctypes.c_size_t)]


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("backends", ctypes.POINTER(ctypes.c_char_p)),
                ("n_backends", ctypes.c_size_t), ("repeats", ctypes.c_int64),
                ("warmups", ctypes.c_int64), ("timeout_s", ctypes.c_double),
                ("ort_library", ctypes.c_char_p), ("hardware_file", ctypes.c_char_p),
                ("program", ctypes.c_char_p), ("strict", ctypes.c_int),
                ("cancelled", ctypes.POINTER(ctypes.c_int))]


class Failed(Exception):
    def __init__(self, error):
        super().__init__(error.text.decode())
        self.code = error.code


# PyDLL would keep the interpreter's lock; CDLL lets other threads of a test run.
LIBRARY = ctypes.CDLL(str(BUILD / "libprony.so"))
for name in ("prony_session_backend", "prony_outputs_backend"):
    getattr(LIBRARY, name).restype = ctypes.c_char_p


def check(name, *arguments):
    error = Error()
    code = getattr(LIBRARY, name)(*arguments, ctypes.byref(error))
    if code < 0:
        assert error.code == code and error.text and b"\n" not in error.text
        raise Failed(error)


def tensor(name, array):
    """The tensor and what it points to, which must live as long."""
    array = np.ascontiguousarray(array)
    dims = (ctypes.c_int64 * array.ndim)(*array.shape)
    dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
    return Tensor(name.encode(), dtype, array.ndim, dims, array.ctypes.data, array.nbytes), array, dims


class Graph:
    def __init__(self, handle):
        self.handle = handle

    def run(self, *, backend=None, outputs=True, **inputs):
        """name → array of the outputs, and "backend"."""
        kept = [tensor(name, array) for name, array in inputs.items()]
        tensors = (Tensor * len(kept))(*(t[0] for t in kept))
        handle = ctypes.c_void_p()
        check("prony_graph_run", self.handle, tensors, ctypes.c_size_t(len(kept)),
              backend and backend.encode(), ctypes.byref(handle) if outputs else None)
        if not outputs:
            return None
        found = {"backend": LIBRARY.prony_outputs_backend(handle).decode()}
        index = 0
        one = Tensor()
        while LIBRARY.prony_outputs_get(handle, ctypes.c_size_t(index), ctypes.byref(one)) == 0:
            dtype = helper.tensor_dtype_to_np_dtype(one.dtype)
            data = ctypes.string_at(one.data, one.bytes)
            found[one.name.decode()] = np.frombuffer(data, dtype).reshape(one.dims[:one.rank])
            assert LIBRARY.prony_outputs_find(handle, one.name, ctypes.byref(Tensor())) == 0
            index += 1
        assert LIBRARY.prony_outputs_find(handle, b"no such output", ctypes.byref(one)) == ENOENT
        LIBRARY.prony_outputs_free(handle)
        return found


class Session:
    def __init__(self, *backends, repeats=2, warmups=1, timeout_s=120.0, strict=False,
                 program=str(BUILD / "prony"), hardware_file=None, cancelled=None):
        texts = (ctypes.c_char_p * len(backends))(*(b.encode() for b in backends))
        options = Options(ctypes.sizeof(Options), texts, len(backends), repeats, warmups, timeout_s,
                          ORT.encode(), hardware_file and str(hardware_file).encode(),
                          program and program.encode(), strict,
                          cancelled is not None and ctypes.pointer(cancelled) or None)
        self.handle = ctypes.c_void_p()
        check("prony_session_open", ctypes.byref(options), ctypes.byref(self.handle))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        LIBRARY.prony_session_close(self.handle)

    def load(self, path):
        graph = ctypes.c_void_p()
        check("prony_graph_load", self.handle, str(path).encode(), ctypes.byref(graph))
        return Graph(graph)

    def load_memory(self, name, data):
        graph = ctypes.c_void_p()
        check("prony_graph_load_memory", self.handle, name.encode(), data,
              ctypes.c_size_t(len(data)), ctypes.byref(graph))
        return Graph(graph)

    @contextlib.contextmanager
    def region(self, name):
        check("prony_region_begin", self.handle, name.encode())
        yield
        check("prony_region_end", self.handle)

    def profile(self):
        """The JSON, which fits the schema and which `prony report` writes again."""
        profile = ctypes.c_void_p()
        check("prony_session_profile", self.handle, ctypes.byref(profile))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "profile.json"
            check("prony_profile_save", profile, str(path).encode())
            text = path.read_text()
            again = run_program([BUILD / "prony", "report", path, "--format", "json"])
            assert os.listdir(folder) == ["profile.json"]
        LIBRARY.prony_profile_free(profile)
        assert again.status == 0 and again.stdout == text, again.stderr
        data = json.loads(text)
        jsonschema.validate(data, SCHEMA)
        return data


def save(path, nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializer=list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    onnx.save(model, path)
    return path


@pytest.fixture
def double(workdir):
    """y = 2 x, of any length."""
    value = helper.make_tensor_value_info
    two = numpy_helper.from_array(np.array(2, np.float32), "two")
    return save(workdir / "double.onnx", [helper.make_node("Mul", ["x", "two"], ["y"])],
                [value("x", TensorProto.FLOAT, ["n"])], [value("y", TensorProto.FLOAT, ["n"])], [two])


@pytest.fixture
def unknown(workdir):
    """A model with an operator that no runtime has."""
    value = helper.make_tensor_value_info
    return save(workdir / "unknown.onnx", [helper.make_node("Frobnicate", ["x"], ["y"])],
                [value("x", TensorProto.FLOAT, ["n"])], [value("y", TensorProto.FLOAT, ["n"])])


def fault(name):
    return f"onnxrt-cpu[lib={BUILD}/tests/fault/fault-{name}.so]"


@pytest.fixture
def faulty(monkeypatch):
    monkeypatch.setenv("PRONY_FAULT_REAL", ORT)
    return lambda run: monkeypatch.setenv("PRONY_FAULT_RUN", str(run))


def floats(*values):
    return np.array(values, np.float32)


def executors():
    """The processes that this one has for executors. Each is the last of a row: a guard, an init,
    and the executor itself (src/exec/guard.h)."""
    found = []
    for child in children(os.getpid()):
        while below := children(child):
            (child,) = below
        found.append(child)
    return found


def children(process):
    """Its child processes that run `prony executor`; none when it has ended."""
    found = []
    for thread in pathlib.Path(f"/proc/{process}/task").glob("*"):  # each has its own
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += [int(child) for child in (thread / "children").read_text().split()
                      if b"executor" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes()]
    return found


def state(process):
    return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")")[1].split()[0]


def has_ended(process):
    try:
        return state(process) in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until(condition):
    """The test's own time limit ends it when that never comes."""
    while not condition():
        time.sleep(0.001)


# ---- Inputs and outputs ----

def test_every_run_has_its_own_inputs(double):
    with Session("onnxrt-cpu", "onnxrt-cpu[threads=1]") as session:
        graph = session.load(double)
        for n in (3, 1, 100000, 2, 0, 70000, 3):  # the shared memory grows and shrinks
            x = np.random.default_rng(n).random(n, np.float32)
            for backend in (None, "onnxrt-cpu[threads=1]"):
                out = graph.run(x=x, backend=backend)
                np.testing.assert_array_equal(out["y"], 2 * x)
                assert out["backend"] == f"local/{backend or 'onnxrt-cpu'}"


def test_binding_again_leaks_nothing(double):
    with Session("onnxrt-cpu[threads=1]", repeats=1, warmups=0) as session:
        graph = session.load(double)
        big = np.ones(1 << 20, np.float32)  # 4 MiB in, 4 MiB out

        def resident():
            (child,) = executors()
            status = pathlib.Path(f"/proc/{child}/status").read_text()
            return int(status.split("VmRSS:")[1].split()[0])

        for _ in range(5):
            graph.run(x=big, outputs=False)
        before = resident()
        for _ in range(40):
            graph.run(x=big, outputs=False)
        assert resident() - before < 40 * 1024, "40 runs left less than 10 inputs behind"


def test_a_failed_bind_does_not_spoil_the_next(workdir):
    """A runtime that refuses an input is asked again with another one."""
    value = helper.make_tensor_value_info
    path = save(workdir / "strings.onnx", [helper.make_node("Identity", ["x"], ["y"])],
                [value("x", TensorProto.STRING, ["n"])], [value("y", TensorProto.STRING, ["n"])])

    def strings(offsets, characters):
        return np.array(offsets, np.uint64).tobytes() + characters

    def run(graph, data, n):
        dims = (ctypes.c_int64 * 1)(n)
        one = Tensor(b"x", TensorProto.STRING, 1, dims,
                     ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), len(data))
        handle = ctypes.c_void_p()
        check("prony_graph_run", graph.handle, ctypes.byref(one), ctypes.c_size_t(1), None,
              ctypes.byref(handle))
        out = Tensor()
        assert LIBRARY.prony_outputs_get(handle, ctypes.c_size_t(0), ctypes.byref(out)) == 0
        data = ctypes.string_at(out.data, out.bytes)
        LIBRARY.prony_outputs_free(handle)
        return data

    good = strings([0, 1, 3], b"abc")
    with Session("onnxrt-cpu") as session:
        graph = session.load(path)
        assert run(graph, good, 2) == good
        with pytest.raises(Failed, match="bad strings"):
            run(graph, strings([0, 9, 3], b"abc"), 2)
        assert run(graph, good, 2) == good


@pytest.mark.parametrize("inputs, message", [
    ({}, "input 'x' is missing"),
    ({"x": floats(1), "z": floats(1)}, "the graph has no input 'z'"),
    ({"x": np.array([1.0])}, "input 'x' is of type float, not double"),
    ({"x": np.ones((2, 2), np.float32)}, "can't have the shape 2x2"),
])
def test_wrong_inputs_are_named_and_not_recorded(double, inputs, message):
    with Session("onnxrt-cpu") as session:
        graph = session.load(double)
        with session.region("f"):
            with pytest.raises(Failed, match=message) as caught:
                graph.run(**inputs)
            assert caught.value.code == EUSAGE
        assert session.profile()["profiles"][0]["footprint"] == []


def test_wrong_sizes_and_names(double):
    with Session("onnxrt-cpu") as session:
        graph = session.load(double)
        one, _array, _dims = tensor("x", floats(1, 2))
        one.bytes = 4
        with pytest.raises(Failed, match="float 2 takes 8 bytes, not 4"):
            check("prony_graph_run", graph.handle, ctypes.byref(one), ctypes.c_size_t(1), None, None)
        one.bytes = 8
        two = (Tensor * 2)(one, one)
        with pytest.raises(Failed, match="'x' is given twice"):
            check("prony_graph_run", graph.handle, two, ctypes.c_size_t(2), None, None)
        with pytest.raises(Failed, match="has no backend 'onnxrt-cuda'"):
            graph.run(x=floats(1), backend="onnxrt-cuda")
        assert graph.run(x=floats(1, 2))["y"].tolist() == [2, 4]


def test_a_graph_from_memory_leaves_no_file(double, workdir, monkeypatch):
    folder = workdir / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    with Session("onnxrt-cpu") as session:
        graph = session.load_memory("from memory", double.read_bytes())
        assert list(folder.iterdir()) == []
        assert graph.run(x=floats(1, 2))["y"].tolist() == [2, 4]
        for data in (b"", b"not a model"):
            with pytest.raises(Failed, match="graph 'bad'") as caught:
                session.load_memory("bad", data)
            assert caught.value.code == EFORMAT
        assert list(folder.iterdir()) == []
        assert [g["name"] for g in session.profile()["graphs"]] == ["from memory"]
        monkeypatch.setenv("TMPDIR", str(workdir / "missing"))
        with pytest.raises(Failed, match="missing"):
            session.load_memory("nowhere", double.read_bytes())


def test_a_missing_file_is_no_graph(double, workdir):
    with Session("onnxrt-cpu") as session:
        with pytest.raises(Failed, match="missing.onnx") as caught:
            session.load(workdir / "missing.onnx")
        assert caught.value.code == ENOENT
        session.load(double)
        assert [g["id"] for g in session.profile()["graphs"]] == [1]


# ---- Recording ----

def test_calls_become_segments(double, workdir):
    hardware = workdir / "hardware.yaml"
    hardware.write_text("- name: local\n  processor: Ours\n  usd_per_hour: 3.6\n")
    with Session("onnxrt-cpu", "onnxrt-cpu[threads=1]", repeats=3, hardware_file=hardware) as session:
        first, second = session.load(double), session.load(double)
        first.run(x=floats(1))  # outside of regions: not recorded
        for i in range(4):
            with session.region("predict"):
                x = first.run(x=floats(1, 2))["y"]
                if i != 3:
                    second.run(x=x)
        data = session.profile()
    assert data["model"] is None and data["language"] == "c"
    assert data["settings"]["repeats"] == 3 and data["settings"]["warmups"] == 1
    assert [g["id"] for g in data["graphs"]] == [1, 2]
    both, one = data["profiles"]
    assert (both["footprint"], one["footprint"]) == ([1, 2], [1])
    assert (both["runs"], both["discarded_runs"], both["compiled"]) == (3, 0, False)
    assert [s["graph"] for s in both["segments"]] == [None, 1, None, 2, None]
    for segment in both["segments"]:
        if segment["graph"]:
            for result in segment["results"]:
                assert result["times"]["count"] == 9 == len(result["times"]["samples_ns"])
                assert result["failed"] == 0
        else:
            assert segment["local"]["count"] == 3
    for i, total in enumerate(both["totals"]):
        means = [np.mean(s["results"][i]["times"]["samples_ns"])
                 for s in both["segments"] if s["graph"]]
        local = [np.mean(s["local"]["samples_ns"]) for s in both["segments"] if not s["graph"]]
        assert total["backend_ns"] == pytest.approx(sum(means))
        assert total["total_ns"] == pytest.approx(sum(means) + sum(local))
        # 3.6 $/h are 1e-3 $/s: a million requests cost total_ns * 1e-9 * 1e-3 * 1e6
        assert total["usd_per_million"] == pytest.approx(total["total_ns"] * 1e-6)
    assert all(r["backend"]["runtime_version"].startswith("ONNX Runtime") for r in data["results"])


def test_local_code_does_not_include_graphs(double, faulty):
    """A runtime that takes 0.4 s a run: the local code around it takes nothing of that."""
    faulty(10**6)
    with Session(fault("sleep"), repeats=1, warmups=1) as session:
        graph = session.load(double)
        with session.region("f"):
            graph.run(x=floats(1))
        (profile,) = session.profile()["profiles"]
    assert profile["totals"][0]["backend_ns"] >= 4e8
    assert profile["local_ns"] < 4e8


def test_loading_in_a_region_is_compiling(double):
    with Session("onnxrt-cpu") as session:
        for _ in range(2):
            with session.region("compiles"):
                session.load(double)
        with session.region("predict"):
            graph = session.load(double)
            graph.run(x=floats(1))
        (compiles, predict) = session.profile()["profiles"]
        assert compiles["compiled"] and compiles["runs"] == 2
        assert predict["compiled"] and predict["totals"][0]["total_ns"] is None
        for compiled in (False, True, False):
            with session.region("predict"):
                graph.run(x=floats(1))
                if compiled:
                    LIBRARY.prony_region_compiled(session.handle)
        (_, predict) = session.profile()["profiles"]
        assert not predict["compiled"] and predict["totals"][0]["total_ns"] > 0
        assert (predict["runs"], predict["discarded_runs"]) == (2, 2)


def test_regions_that_are_not_recorded(double):
    with Session("onnxrt-cpu") as session:
        graph = session.load(double)
        check("prony_region_begin", session.handle, b"cancelled")
        graph.run(x=floats(1))
        LIBRARY.prony_region_cancel(session.handle)
        with pytest.raises(Failed, match="no region is open"):
            check("prony_region_end", session.handle)
        check("prony_region_begin", session.handle, b"never ended")
        with pytest.raises(Failed, match="don't nest"):
            check("prony_region_begin", session.handle, b"inner")
        assert session.profile()["profiles"] == []


class ReportOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("format", ctypes.c_int),
                ("layout", ctypes.c_int), ("verbose", ctypes.c_int)]


def test_reports_are_those_of_the_command(double, workdir, prony):
    with Session("onnxrt-cpu") as session:
        graph = session.load(double)
        with session.region("predict"):
            graph.run(x=floats(1))
        profile = ctypes.c_void_p()
        check("prony_session_profile", session.handle, ctypes.byref(profile))
    check("prony_profile_save", profile, str(workdir / "p.json").encode())  # outlives the session
    free = ctypes.CDLL(None).free

    def report(**fields):
        text = ctypes.c_char_p()
        options = ReportOptions(ctypes.sizeof(ReportOptions), **fields)
        check("prony_profile_report", profile, ctypes.byref(options), ctypes.byref(text))
        value = text.value.decode()
        free(text)
        return value

    for layout, name in enumerate(("summary", "segments", "classic")):
        for form, word in enumerate(("text", "md")):
            for verbose in (0, 1):
                shown = prony("report", "p.json", "--layout", name, "--format", word,
                              *(["--verbose"] if verbose else []))
                assert shown.status == 0, shown.stderr
                assert report(format=form, layout=layout, verbose=verbose) == shown.stdout
    assert report(format=2) == prony("report", "p.json", "--format", "csv").stdout
    assert report(format=3) == (workdir / "p.json").read_text()
    for fields in (dict(format=9), dict(format=-1), dict(layout=3)):
        with pytest.raises(Failed, match="must be of PRONY_"):
            report(**fields)
    with pytest.raises(Failed, match="no/such/folder"):
        check("prony_profile_save", profile, str(workdir / "no/such/folder/p.json").encode())
    LIBRARY.prony_profile_free(profile)


# ---- Failures ----

def test_one_backend_fails(double, faulty):
    faulty(10)  # the first call runs 3 times, and so do the second and the third
    with Session(fault("abort"), "onnxrt-cpu", repeats=2) as session:
        graph = session.load(double)
        for i in range(6):
            with session.region("f"):
                out = graph.run(x=floats(i))
            assert out["y"].tolist() == [2 * i]
            assert out["backend"].endswith("so]") == (i < 3), "of the first that succeeded"
        with pytest.raises(Failed, match="crashed") as caught:
            graph.run(x=floats(1), backend=fault("abort"))
        assert caught.value.code == ECRASH
        (profile,) = session.profile()["profiles"]
    bad, good = profile["segments"][1]["results"]
    assert bad["times"]["count"] == 6 and bad["failed"] == 6
    (failure,) = bad["failures"]
    assert failure["count"] == 6 and "crashed while running the model" in failure["message"]
    assert "fault injected" in failure["message"]
    assert good["times"]["count"] == 12 and good["failed"] == 0
    assert all(total["total_ns"] > total["backend_ns"] > 0 for total in profile["totals"])


def test_all_backends_fail(double, faulty):
    faulty(1)
    with Session(fault("hang"), fault("exit"), timeout_s=10, repeats=1) as session:
        graph = session.load(double)
        for _ in range(2):
            with session.region("f"):
                with pytest.raises(Failed, match="double.onnx.*fault-hang.*took longer") as caught:
                    graph.run(x=floats(1))
                assert caught.value.code == ETIMEDOUT
        (profile,) = session.profile()["profiles"]
    hung, ended = profile["segments"][1]["results"]
    assert "took longer" in hung["failures"][0]["message"]
    assert "ended the process" in ended["failures"][0]["message"]
    assert [(r["failed"], r["times"]["count"]) for r in (hung, ended)] == [(2, 0), (2, 0)]


def test_a_graph_that_no_backend_can_load(double, unknown):
    with Session("onnxrt-cpu", "onnxrt-cpu[threads=1]", repeats=2) as session:
        good, bad = session.load(double), session.load(unknown)
        with session.region("f"):
            good.run(x=floats(1))
            with pytest.raises(Failed, match="unknown.onnx.*Frobnicate"):
                bad.run(x=floats(1))
        data = session.profile()
    assert data["graphs"][0]["local_reason"] is None
    assert "Frobnicate" in data["graphs"][1]["local_reason"]
    (profile,) = data["profiles"]
    assert profile["footprint"] == [1, 2]
    assert [r["failed"] for r in profile["segments"][3]["results"]] == [2, 2]
    for total in profile["totals"]:  # what the program did instead is local code
        assert total["total_ns"] == pytest.approx(total["backend_ns"] + profile["local_ns"])
        assert "PARTIAL" in total["flags"]


def test_one_backend_cannot_load(double, workdir):
    library = workdir / "libonnxruntime.so"
    library.write_text("not a library")
    with Session("onnxrt-cpu", f"onnxrt-cpu[lib={library}]", repeats=1) as session:
        graph = session.load(double)
        with session.region("f"):
            assert graph.run(x=floats(3))["y"].tolist() == [6]
        data = session.profile()
    (profile,) = data["profiles"]
    bad = profile["segments"][1]["results"][1]
    assert bad["failed"] == 1 and "libonnxruntime.so" in bad["failures"][0]["message"]
    assert data["graphs"][0]["local_reason"] is None
    assert data["results"][1]["backend"]["runtime_version"] is None


def test_strict(double, unknown, faulty):
    faulty(4)
    with Session("onnxrt-cpu", fault("exit"), repeats=1, strict=True) as session:
        with pytest.raises(Failed, match="Frobnicate"):
            session.load(unknown)
        graph = session.load(double)
        graph.run(x=floats(1))
        with pytest.raises(Failed, match="ended the process"):
            graph.run(x=floats(1))


def test_cancelled(double, faulty):
    faulty(1)
    flag = ctypes.c_int(0)
    with Session(fault("hang"), cancelled=flag) as session:
        graph = session.load(double)
        check("prony_region_begin", session.handle, b"f")
        flag.value = 1
        with pytest.raises(Failed) as caught:
            graph.run(x=floats(1))
        assert caught.value.code == ECANCELED
        with pytest.raises(Failed, match="'f' is not recorded"):
            check("prony_region_end", session.handle)
        assert session.profile()["profiles"] == []


# ---- Processes ----

def test_executors_are_stopped_between_runs_and_end_with_the_session(double):
    with Session("onnxrt-cpu", "onnxrt-cpu[threads=2]") as session:
        graphs = [session.load(double), session.load(double)]
        children = executors()
        assert len(children) == 4
        for _ in range(2):
            wait_until(lambda: all(state(child) == "T" for child in children))
            graphs[1].run(x=floats(1))
    assert executors() == []


def test_threads_take_turns_and_get_their_own_outputs(double):
    with Session("onnxrt-cpu[threads=1]", "onnxrt-cpu[threads=2]", repeats=1) as session:
        graph = session.load(double)
        wrong = []

        def work(number):
            for i in range(25):
                x = floats(number, i) if i % 2 else floats(number, i, number)
                with session.region(f"thread {number}"):
                    y = graph.run(x=x)["y"]
                if y.tolist() != (2 * x).tolist():
                    wrong.append((number, i, y))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        profiles = session.profile()["profiles"]
        assert sorted((p["function"], p["runs"]) for p in profiles) == [
            (f"thread {i}", 25) for i in range(3)]


def test_an_executor_ends_with_the_thread_that_loaded_its_graph(double):
    with Session("onnxrt-cpu") as session:
        graphs, started = [], []

        def load():
            graphs.append(session.load(double))
            started.extend(executors())
            assert len(started) == 1

        thread = threading.Thread(target=load)
        thread.start()
        thread.join()
        # The guard ends first, and with it the way to find those below it.
        wait_until(lambda: all(map(has_ended, started)))
        with pytest.raises(Failed, match="ended with the thread that started it"):
            graphs[0].run(x=floats(1))


PROGRAM = """
    import sys
    sys.path.insert(0, {tests!r})
    sys.path.insert(0, {here!r})
    from test_record import Session, Failed
    try:
        with Session("onnxrt-cpu", program=None) as session:
            session.load({model!r})
        print("found")
    except Failed as failed:
        print(failed)
"""


def run_elsewhere(model, **env):
    text = textwrap.dedent(PROGRAM).format(tests=str(ROOT / "tests"), here=str(ROOT / "tests/e2e"),
                                           model=str(model))
    done = run_program([sys.executable, "-c", text], env={**os.environ, **env})
    assert done.status == 0, done.stderr
    return done.stdout


def test_the_program_is_found(double, workdir, program):
    assert run_elsewhere(double) == "found\n", "beside the library, in the build folder"
    assert run_elsewhere(double, PRONY_PROGRAM=str(program)) == "found\n"
    missing = run_elsewhere(double, PRONY_PROGRAM=str(workdir / "missing"))
    assert "missing' (from PRONY_PROGRAM): No such file" in missing
    with pytest.raises(Failed, match="from the option 'program'"):
        Session("onnxrt-cpu", program="/nonexistent/prony")


def test_another_program_is_an_error(double):
    with Session("onnxrt-cpu", program="/bin/true") as session:
        with pytest.raises(Failed, match="ended the process"):
            session.load(double).run(x=floats(1))


def test_a_library_of_another_version_is_told_so(program):
    """Says to an executor what such a library would: the command OPEN, and its version."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    samples = os.memfd_create("samples")
    os.truncate(samples, 32768 * 8)
    # Its descriptors have fixed numbers, which these must be above.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in (theirs.fileno(), samples)]
    child = os.posix_spawn(program, ["prony", "executor"], os.environ,
                           file_actions=[(os.POSIX_SPAWN_DUP2, high[0], 3),
                                         (os.POSIX_SPAWN_DUP2, high[1], 5)])
    for fd in (*high, samples):
        os.close(fd)
    theirs.close()
    version = b"9.8.7"
    ours.send(struct.pack("=Iq", 0, len(version)) + version + b"\0")
    reply = ours.recv(1 << 17)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    ours.close()
    assert b"is prony " in reply and b"the library is prony 9.8.7" in reply


# ---- Bad use ----

@pytest.mark.parametrize("change, message", [
    (dict(repeats=0), "'repeats' must be from 1"),
    (dict(repeats=32769), "'repeats' must be from 1 to 32768"),
    (dict(warmups=-1), "'warmups' must be from 0"),
    (dict(timeout_s=0), "'timeout_s' must be above 0"),
    (dict(timeout_s=math.nan), "'timeout_s' must be above 0"),
    (dict(hardware_file="/nonexistent"), "/nonexistent"),
])
def test_bad_options(change, message):
    with pytest.raises(Failed, match=message):
        Session("onnxrt-cpu", **change)


def test_bad_backends():
    for backend, message in (("r6i.large/onnxrt-cpu", "this machine is 'local'"),
                             ("torch", "no software 'torch'"), ("onnxrt-cpu[threads=x]", "threads")):
        with pytest.raises(Failed, match=message):
            Session(backend)


def test_every_runtime_found_here_without_backends():
    with Session() as session:
        assert LIBRARY.prony_session_backend(session.handle, ctypes.c_size_t(0)) == (
            b"local/onnxrt-cpu")
        assert LIBRARY.prony_session_backend(session.handle, ctypes.c_size_t(99)) is None


def test_null_is_bad_use():
    for name, count in (("prony_session_open", 2), ("prony_graph_load", 3), ("prony_graph_run", 5),
                        ("prony_graph_load_memory", 5), ("prony_region_begin", 2),
                        ("prony_region_end", 1), ("prony_session_profile", 2),
                        ("prony_profile_report", 3), ("prony_profile_save", 2)):
        with pytest.raises(Failed, match="needed") as caught:
            check(name, *([None] * count))
        assert caught.value.code == EUSAGE
    for name in ("prony_session_close", "prony_outputs_free", "prony_profile_free",
                 "prony_region_cancel", "prony_region_compiled"):
        getattr(LIBRARY, name)(None)
