"""torch-* backends: graphs in FXPROTO, made by hand, on a service whose Python has torch."""
import ctypes.util
import os
import pathlib
import re
import signal
import venv

import numpy as np
import pytest

from conftest import TORCH, bf16_is_broken
from fxgraph import Graph, affine, failure, fx, load, loaded
from service import (FXPROTO, ONNX, SMALL, WEIGHT, X, Program, check_small, eventually, processes_of,
                     serving)

EAGER, INDUCTOR, LOCAL = "local/torch-eager-cpu", "local/torch-inductor-cpu", "local/onnxrt-cpu"
LONG = 900  # seconds for a compiler on a busy machine


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("s"), env={"PRONY_PYTHON": str(TORCH)}) as service:
        yield service


@pytest.fixture
def client(service):
    with service.client() as client:
        yield client


@pytest.fixture
def session(client):
    """On torch-eager-cpu."""
    session = client.session(EAGER)
    yield session
    session.close()


def executors(service):
    """Python processes of the service that hold a runtime, not those above them."""
    return [pid for pid, what in processes_of(service.pid).items()
            if what == "-I" and "prony-guard" not in pathlib.Path(f"/proc/{pid}/comm").read_text()]


def run_graph(session, build, *inputs, model=1):
    """The outputs of the session's only backend for a graph: build(g, name of each input)."""
    g = Graph()
    names = [g.input(f"x{i}") for i in range(len(inputs))]
    loaded(session, g.files(build(g, *names)), model=model)
    outputs, = session.infer(inputs, model=model)
    return outputs


# ---- What is offered ----

def test_offer(client):
    reply = client.backends()
    offered = [f"{b.hardware_platform}/{b.software_backend}" for b in reply.backends]
    assert offered == [LOCAL, "local/openvino-cpu", EAGER, INDUCTOR]
    presets = {p.preset_name: [b.software_backend for b in p.backends] for p in reply.presets}
    assert presets["default"] == ["onnxrt-cpu", "torch-eager-cpu", "torch-inductor-cpu"]
    assert len(presets["all"]) == 4
    versions = {d.software_backend: d.runtime_version for d in reply.details}
    assert re.fullmatch(r"PyTorch 2\.\d+\..*", versions["torch-eager-cpu"])


def test_without_python(tmp_path):
    with serving(tmp_path / "s", env={"PRONY_PYTHON": ""}) as service, service.client() as client:
        assert not [b for b in client.backends().backends if b.software_backend.startswith("torch")]


@pytest.mark.parametrize("how", ["option", "file"])
def test_python_is_named(tmp_path, how):
    """Either wins over the environment."""
    options, config = ["--python", TORCH], None
    if how == "file":
        options, config = [], f"python: {TORCH}\npools:\n- {{name: local, count: 1}}\n"
    with serving(tmp_path / "s", *options, config=config,
                 env={"PRONY_PYTHON": "/nonexistent"}) as service, service.client() as client:
        eventually(lambda: EAGER in [f"local/{b.software_backend}" for b in client.backends().backends],
                   "torch is offered")


@pytest.mark.parametrize("python, reason", [
    ("", "PyTorch runs in Python: set PRONY_PYTHON to an interpreter that has torch and prony"),
    ("/nonexistent", "cannot run '/nonexistent' (from PRONY_PYTHON): No such file or directory"),
    ("/usr/bin/python3", "'/usr/bin/python3', which PRONY_PYTHON names, has no torch"),
])
def test_why_not(prony, python, reason):
    done = prony("backends", env={"PRONY_PYTHON": python})
    names = ", ".join(f"torch-{way}-{device}" for way in ("eager", "inductor")
                      for device in ("cpu", "cuda"))
    assert done.status == 0 and f" {names}: {reason} " in " ".join(done.stdout.split()), done


def test_no_cuda_here(prony):
    done = prony("backends", env={"PRONY_PYTHON": str(TORCH)})
    assert re.search(r"torch-eager-cpu +PyTorch \S+ +available\n", done.stdout), done.stdout
    assert re.search(r" torch-eager-cuda, torch-inductor-cuda: PyTorch \S+ was built without CUDA ",
                     " ".join(done.stdout.split())), done.stdout


@pytest.mark.skipif(ctypes.util.find_library("cuda"), reason="there is a driver here")
def test_a_pytorch_with_cuda_is_not_imported_in_vain(prony, tmp_path):
    """What the registry has is one, and takes seconds to import."""
    venv.create(tmp_path / "environment")
    [site] = (tmp_path / "environment").glob("lib/python*/site-packages")
    (site / "torch").mkdir()
    (site / "torch/__init__.py").write_text("raise SystemExit('imported')")
    (site / "torch/version.py").write_text("__version__, cuda = '2.99', '12.8'")
    done = prony("backends", env={"PRONY_PYTHON": str(tmp_path / "environment/bin/python")})
    assert " torch-eager-cuda, torch-inductor-cuda: PyTorch finds no GPU: there is no driver for one " \
           "(libcuda.so.1) " in " ".join(done.stdout.split()), done.stdout


def test_files_in_onnx_are_for_others(prony, networks):
    """Nobody asks Python when a model is profiled, and nobody measures it on torch."""
    env = {"PRONY_PYTHON": str(TORCH)}
    done = prony("profile", networks["mlp"], "--repeats", "30", "--launches", "1", env=env)
    assert done.status == 0 and "torch" not in done.stdout, done
    done = prony("profile", networks["mlp"], "-b", "torch-eager-cpu", env=env)
    assert done.status != 0 and done.stderr.endswith(
        "backend 'local/torch-eager-cpu' runs graphs of PyTorch programs, not ONNX files\n"), done


def test_profile_there_leaves_torch_out(service, prony, networks):
    done = prony("profile", networks["mlp"], "--server", service.address, "--repeats", "30",
                 "--launches", "1")
    assert done.status == 0 and "onnxrt-cpu" in done.stdout and "torch" not in done.stdout, done


# ---- Graphs ----

def test_runs(session):
    loaded(session, affine(WEIGHT))
    (y,), = session.infer([X])
    check_small(y)
    # The memory of the inputs is the same, with other data in it.
    (y,), = session.infer([3 * X])
    check_small(y, 3 * X)
    # And then of another size.
    tall = np.concatenate([X, X, X])
    (y,), = session.infer([tall])
    check_small(y, tall)
    result, = session.run([X], num_repeats=7, num_warmups=2)
    assert len(result.result_value.run_times_nanos) == 7 and not result.result_value.outputs


def test_beside_onnx(client):
    """One model in two formats, each for its backends."""
    session = client.session(LOCAL, EAGER)
    session.upload(SMALL, backends_to_skip_bitmask=b"\x02")
    for name, data in affine(WEIGHT).items():
        session.upload(data, name=name, backends_to_skip_bitmask=b"\x01")
    reply = session.load_reply(format=ONNX, backends_to_skip_bitmask=b"\x02")
    assert reply.result_per_backend[0].HasField("result_value")
    reply = session.load_reply(format=FXPROTO, backends_to_skip_bitmask=b"\x01")
    assert reply.result_per_backend[1].HasField("result_value"), reply
    for y, in session.infer([X]):
        check_small(y)
    session.close()


def test_kinds_of_values(session):
    def build(g, x):
        parts = g.call("aten.split.Tensor", x, 2, dim=1)
        first, second = g.call("getitem", parts, 0), g.call("getitem", parts, 1)
        flat = g.call("aten.reshape.default", first, [-1])
        there = fx.Value(device=fx.DeviceValue(type="cuda", with_index=True, index=5))
        zeros = g.call("aten.full.default", [2, 2], 0.5, dtype=fx.Value(dtype=fx.DTYPE_FLOAT64),
                       layout=fx.Value(layout=fx.LAYOUT_STRIDED), device=there, pin_memory=False)
        copied = g.call("aten.clone.default", second,
                        memory_format=fx.Value(memory_format=fx.MEMORY_FORMAT_CONTIGUOUS))
        constant = g.call("torch.tensor", [[1, 2], [3, 4]], dtype=fx.Value(dtype=fx.DTYPE_INT64))
        rows = g.call("aten.sym_size.int", x, 0)
        return (flat, [zeros, None, (copied,)], constant, g.call("mul", rows, 10), 7,
                g.call("aten.gelu.default", first, approximate="tanh"),
                g.call("aten.permute.default", x, [1, 0]),
                g.tensor(np.array([True, False])))

    x = np.arange(8, dtype=np.float32).reshape(2, 4) / 8
    flat, zeros, copied, constant, rows, gelu, turned, truth = run_graph(session, build, x)
    np.testing.assert_array_equal(flat, x[:, :2].ravel())
    np.testing.assert_array_equal(zeros, np.full((2, 2), 0.5))
    assert zeros.dtype == np.float64 and constant.dtype == np.int64 and truth.dtype == bool
    np.testing.assert_array_equal(copied, x[:, 2:])
    np.testing.assert_array_equal(constant, [[1, 2], [3, 4]])
    assert rows == 20 and list(truth) == [True, False]
    assert gelu.shape == (2, 2) and gelu[1, 1] > 0.4
    np.testing.assert_array_equal(turned, x.T)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int16", "int32", "int64", "uint8",
                                   "bool"])
def test_types_of_inputs(session, dtype):
    x = np.array([[0, 1], [1, 0]]).astype(dtype)
    y, empty = run_graph(session, lambda g, a, b: (g.call("aten.permute.default", a, [1, 0]), b), x,
                         np.zeros((0, 3), dtype))
    np.testing.assert_array_equal(y, x.T)
    assert y.dtype == x.dtype and empty.shape == (0, 3)


def test_writing_in_place_changes_nothing_of_the_callers(session):
    def build(g, x):
        w = g.weight(np.ones(3, np.float32))
        g.call("aten.add_.Tensor", x, w)
        g.call("aten.mul_.Tensor", w, 5.0)
        return (x, w)

    x = np.arange(3, dtype=np.float32)
    for _ in range(2):
        g = Graph()
        loaded(session, g.files(build(g, g.input("x"))), model=_ + 1)
        results = [session.infer([x], model=_ + 1, num_warmups=3)[0] for _again in range(2)]
        for y, w in results:
            np.testing.assert_array_equal(y, x + 1)
            np.testing.assert_array_equal(w, [5, 5, 5])


@pytest.mark.parametrize("option, error", [("fp16", 1e-3), ("bf16", 1e-2), ("bf16,threads=1", 1e-2)])
def test_precision(client, option, error):
    session = client.session(f"{EAGER}[{option}]")
    weight = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
    x = np.random.default_rng(2).standard_normal((8, 64)).astype(np.float32)
    loaded(session, affine(weight))
    if "bf16" in option and bf16_is_broken():
        result, = session.run([x])
        assert "Illegal instruction" in result.error_value.message
        session.close()
        return
    (y,), = session.infer([x])
    exact = x @ weight + 1
    assert y.dtype == np.float32
    off = np.abs(y - exact).max() / np.abs(exact).max()
    assert 1e-6 < off < error, "it was computed in another precision than was asked for"
    session.close()


def test_options(client):
    reply = client.create(f"{EAGER}[colour=red]")
    assert "no option 'colour'" in reply.error_value.message
    session = client.session(f"{EAGER}[fp16,bf16]")
    assert failure(load(session, affine(WEIGHT))) == "either fp16 or bf16, not both"
    session.close()


def test_inductor(client, service):
    """Other shapes come from another function, which any shape fits. Nothing stays of the compiler's
    files."""
    before = sorted(os.listdir("/dev/shm"))
    session = client.session(INDUCTOR)
    loaded(session, affine(WEIGHT))
    for rows in (2, 5, 7, 2):
        x = np.random.default_rng(rows).standard_normal((rows, 4)).astype(np.float32)
        (y,), = session.infer([x], timeout=LONG)
        check_small(y, x)
    result, = session.run([X], num_repeats=5, timeout=LONG)
    assert len(result.result_value.run_times_nanos) == 5
    # What it can't compile is an error of the run.
    g = Graph()
    x = g.input("x")
    loaded(session, g.files((g.call("aten.mm.default", x, x),)), model=2)
    result, = session.run([X], model=2, timeout=LONG)
    assert result.error_value.message.endswith("[2, 4] X [2, 4]."), result
    session.close()
    eventually(lambda: not executors(service), "its processes are gone")
    assert sorted(os.listdir("/dev/shm")) == before


# ---- Hostile graphs ----

def changed(change):
    """The affine graph, with something else in it."""
    files = affine(WEIGHT)
    model = fx.Model.FromString(files["model.dat"])
    change(model, model.graph.nodes, model.fixed_inputs[0].value.tensor)
    files["model.dat"] = model.SerializeToString()
    return files


def calls(target, *args, **kwargs):
    def build():
        g = Graph()
        x = g.input("x")
        return g.files((g.call(target, *(x if a == "x" else a for a in args), **kwargs),))
    return build


def field(number, data):
    length, n = b"", len(data)
    while n > 127:
        length, n = length + bytes([n & 127 | 128]), n >> 7
    return bytes([number << 3 | 2]) + length + bytes([n]) + data


def deep(levels):
    """A list in a list in a list, as deep as no library would write it."""
    value = b""
    for _ in range(levels):
        value = field(7, field(1, value))
    return {"model.dat": field(1, field(1, field(1, b"n") + field(3, field(2, value))))}


HOSTILE = {
    "unknown-operator": (calls("aten.launch_missiles.default", "x"),
                         "this PyTorch has no operator 'aten.launch_missiles.default'"),
    "unknown-overload": (calls("aten.relu.Missiles", "x"), "no operator 'aten.relu.Missiles'"),
    "attribute": (calls("aten.__class__.__init__", "x"), "no operator 'aten.__class__.__init__'"),
    "packet-attribute": (calls("aten.relu.__call__", "x"), "no operator 'aten.relu.__call__'"),
    "reads-a-file": (calls("aten.from_file.default", "/etc/passwd"), "'aten.from_file' isn't run"),
    "namespace": (calls("os.system.default", "id"), "only ATen operators are run"),
    "profiler": (calls("profiler._record_function_enter.default", "x"), "only ATen operators are run"),
    "operator": (calls("attrgetter", "__class__"), "an operator of Python that isn't run"),
    "function": (calls("torch.load", "x"), "a function of torch that isn't run"),
    "keyword": (calls("aten.relu.default", "x", **{"lambda": 1}), "'lambda' isn't the name of an argu"),
    "code": (calls("aten.relu.default", "x", **{"a=print(1),b": 1}), "isn't an identifier"),
    "arguments": (calls("aten.relu.default", "x", "x", "x"), None),
    "cycle": (lambda: changed(lambda m, n, t: setattr(
        n[2].call_function.args[0], "node_name", n[2].name)), "uses a node that isn't before it"),
    "unknown-node": (lambda: changed(lambda m, n, t: setattr(
        n[2].call_function.args[0], "node_name", "nobody")), "uses a node that isn't before it"),
    "offset": (lambda: changed(lambda m, n, t: setattr(t, "weight_file_offset", 16)),
               "lies outside of 'weights/0'"),
    "far-offset": (lambda: changed(lambda m, n, t: setattr(t, "weight_file_offset", 1 << 62)),
                   "lies outside of 'weights/0'"),
    "other-file": (lambda: changed(lambda m, n, t: setattr(t, "weight_file_index", 3)),
                   "cannot open 'weights/3'"),
    "bytes": (lambda: changed(lambda m, n, t: setattr(t, "size_bytes", 1 << 40)), "its shape takes 48"),
    "dims": (lambda: changed(lambda m, n, t: t.shape.__setitem__(0, 1 << 61)), "an impossible shape"),
    "deep": (lambda: deep(10000), "values inside each other"),
    "integer": (calls("aten.relu.default", fx.Value(integer="1" * 5000)), "an integer that isn't one"),
    "not-a-graph": (lambda: {"model.dat": b"\xff" * 100}, "the FXPROTO graph can't be read"),
    "empty": (lambda: {"model.dat": b""}, "it has no nodes"),
    "no-model": (lambda: {"weights/0": b"1234"}, "none of the model's files is the model itself"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_graph(hostile_session, name):
    """Refused when it is loaded or, where only running it tells, then; the next graph works."""
    session, models = hostile_session
    build, text = HOSTILE[name]
    model = next(models)
    results = load(session, build(), model=model)
    if text is None:
        loaded_fine, = results
        assert loaded_fine.HasField("result_value")
        results = session.run([X], model=model)
    said = failure(results)
    assert text is None or text in said, said
    model = next(models)
    loaded(session, affine(WEIGHT), model=model)
    (y,), = session.infer([X], model=model)
    check_small(y)


@pytest.fixture(scope="module")
def hostile_session(service):
    with service.client() as client:
        session = client.session(EAGER)
        yield session, iter(range(1, 1000))
        session.close()


def test_too_much_memory(session):
    g = Graph()
    huge = g.call("aten.full.default", [1 << 44], 1.0)
    loaded(session, g.files((g.call("aten.sum.default", huge),)))
    assert "allocate" in failure(session.run([]))
    loaded(session, affine(WEIGHT), model=2)
    (y,), = session.infer([X], model=2)
    check_small(y)


def test_wrong_inputs(session):
    loaded(session, affine(WEIGHT))
    assert failure(session.run([X[:, :3]]))
    (y,), = session.infer([X])
    check_small(y)


def test_onnx_is_refused(session):
    session.upload(SMALL)
    reply = session.load_reply(format=ONNX)
    assert failure(reply.result_per_backend) == "this backend takes models as FXPROTO, not as ONNX"


# ---- Crashes and hangs ----

def test_crash_is_one_failed_run(service, client):
    session = client.session(LOCAL, EAGER)
    session.upload(SMALL, backends_to_skip_bitmask=b"\x02")
    assert session.load_reply(backends_to_skip_bitmask=b"\x02").result_per_backend[0].HasField(
        "result_value")
    for name, data in affine(WEIGHT).items():
        session.upload(data, name=name, backends_to_skip_bitmask=b"\x01")
    session.load_reply(format=FXPROTO, backends_to_skip_bitmask=b"\x01")
    assert all(r.HasField("result_value") for r in session.run([X]))
    victim, = executors(service)
    os.kill(victim, signal.SIGKILL)
    fine, dead = session.run([X])
    assert fine.HasField("result_value") and "killed" in dead.error_value.message, dead
    # Another process has the graph again.
    for y, in session.infer([X]):
        check_small(y)
    session.close()


def test_hang_is_one_failed_run(tmp_path):
    config = "pools:\n- {name: local, count: 1}\nlimits: {run_timeout: 30s}\n"
    with serving(tmp_path / "s", config=config, env={"PRONY_PYTHON": str(TORCH)}) as service, \
            service.client() as client:
        session = client.session(EAGER)
        loaded(session, affine(WEIGHT))
        for executor in executors(service):
            os.kill(executor, signal.SIGSTOP)
        assert "took longer than 30 s" in failure(session.run([X], timeout=LONG))
        (y,), = session.infer([X])
        check_small(y)
        session.close()


# ---- Memory ----

def test_weights_are_held_once(service, session):
    """Many graphs of one file of weights map it once; unloading the last one lets go of it."""
    weight = np.random.default_rng(3).standard_normal((2048, 2048)).astype(np.float32)
    graphs = 20
    for model in range(1, graphs + 1):
        g = Graph()
        x, w = g.input("x"), g.weight(weight)
        files = g.files((g.call("aten.mul.Scalar", g.call("aten.mm.default", x, w), float(model)),))
        if model == 1:
            loaded(session, files, model=model)
            continue
        session.cached(files["weights/0"], model=model, name="weights/0")
        loaded(session, {"model.dat": files["model.dat"]}, model=model)
    x = np.ones((1, 2048), np.float32)
    for model in range(1, graphs + 1):
        (y,), = session.infer([x], model=model)
        np.testing.assert_allclose(y, model * (x @ weight), rtol=1e-3, atol=1e-2)
    process, = executors(service)
    maps = pathlib.Path(f"/proc/{process}/maps").read_text()
    assert len(re.findall(r" r--s .*/weights/0", maps)) == 1
    assert not re.search(r" .w.. .*/weights/0", maps)
    status = pathlib.Path(f"/proc/{process}/status").read_text()
    private = int(re.search(r"RssAnon:\s+(\d+) kB", status).group(1)) << 10
    assert private < graphs * weight.nbytes / 2


# ---- A worker elsewhere ----

def test_worker(tmp_path, program):
    """It fetches the files, and runs the graph by itself."""
    config = "pools:\n- {name: far}\n"
    with serving(tmp_path / "s", config=config) as service, service.client() as client:
        worker = Program([program, "worker", "--server", service.address, "--hardware", "far",
                          "--insecure", "--python", TORCH])
        try:
            eventually(lambda: len(client.backends().backends) == 4, "the worker is there")
            session = client.session("far/torch-eager-cpu", "far/onnxrt-cpu")
            for name, data in affine(WEIGHT).items():
                session.upload(data, name=name, backends_to_skip_bitmask=b"\x02")
            reply = session.load_reply(format=FXPROTO, backends_to_skip_bitmask=b"\x02")
            assert reply.result_per_backend[0].HasField("result_value"), reply
            session.upload(SMALL, backends_to_skip_bitmask=b"\x01")
            assert session.load_reply(backends_to_skip_bitmask=b"\x01").result_per_backend[1].HasField(
                "result_value")
            for y, in session.infer([X]):
                check_small(y)
            session.close()
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0, worker.text()
        finally:
            worker.kill()
