"""Clients of a service, from the command line and from libprony, against one in Python that behaves
or doesn't."""
import concurrent.futures
import contextlib
import ctypes
import fcntl
import json
import os
import pty
import re
import signal
import socket
import ssl
import stat
import struct
import subprocess
import sys
import termios
import threading
import time

import grpc
import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import PATIENCE, PROGRAM, ROOT, run_program
from fake_service import Fake, base, own
from profiling import save
from service import Proxy, make_certificate
from test_record import EUNAVAILABLE, LIBRARY, ECANCELED, EFORMAT, Failed, Options, Session, check

SCHEMA = json.loads((ROOT / "docs/prony.profile.schema.json").read_text())
ELIMIT = -7


class Notice(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("subject", ctypes.c_char_p), ("place", ctypes.c_uint64),
                ("waited_s", ctypes.c_double), ("holders", ctypes.POINTER(ctypes.c_char_p)),
                ("n_holders", ctypes.c_size_t), ("done", ctypes.c_uint64), ("total", ctypes.c_uint64)]


NOTICE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(Notice))


class RemoteOptions(ctypes.Structure):
    _fields_ = [*Options._fields_, ("server", ctypes.c_char_p), ("token", ctypes.c_char_p),
                ("insecure", ctypes.c_int), ("ca_file", ctypes.c_char_p), ("notice", NOTICE),
                ("context", ctypes.c_void_p)]


class RemoteSession(Session):
    def __init__(self, server, *backends, repeats=2, cancelled=None, strict=False, token=None,
                 ca_file=None):
        self.notices, self.waits = [], []
        self.callback = NOTICE(self.notice)
        texts = (ctypes.c_char_p * len(backends))(*(b.encode() for b in backends))
        options = RemoteOptions(ctypes.sizeof(RemoteOptions), texts, len(backends), repeats, 1, 20.0,
                                None, None, None, strict,
                                cancelled is not None and ctypes.pointer(cancelled) or None,
                                server.encode(), token and token.encode(), 0,
                                ca_file and str(ca_file).encode(), self.callback, None)
        self.handle = ctypes.c_void_p()
        check("prony_session_open", ctypes.byref(options), ctypes.byref(self.handle))

    def notice(self, _context, notice):
        n = notice.contents
        self.notices.append((n.kind, n.subject.decode(), n.place, n.done, n.total))
        self.waits.append(n.waited_s)

    def backends(self):
        names = []
        while name := LIBRARY.prony_session_backend(self.handle, ctypes.c_size_t(len(names))):
            names.append(name.decode())
        return names


@pytest.fixture
def fake():
    with Fake() as service:
        yield service


@pytest.fixture
def double(workdir):
    """y = 2 x, of any length; the 2 lies in a file of its own."""
    value = helper.make_tensor_value_info
    two = numpy_helper.from_array(np.full(400, 2, np.float32), "two")
    path = save(workdir / "double.onnx",
                [helper.make_node("ReduceMean", ["two"], ["one"], keepdims=0),
                 helper.make_node("Mul", ["x", "one"], ["y"])],
                [value("x", TensorProto.FLOAT, ["n"])], [value("y", TensorProto.FLOAT, ["n"])], [two])
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="two.bin",
              size_threshold=0)
    return path


def x(n=4):
    return np.arange(n, dtype=np.float32)


# ---- Sessions of programs ----

def test_a_program_runs_on_the_service(fake, double):
    with RemoteSession(fake.address) as session:
        assert session.backends() == ["metal/onnxrt-cpu"]
        graph = session.load(double)
        with session.region("first"):
            graph.run(x=x(), outputs=False)
        with session.region("predict"):
            found = graph.run(x=x())
        assert found["backend"] == "metal/onnxrt-cpu"
        np.testing.assert_array_equal(found["y"], 2 * x())
        profile = session.profile()
    result = profile["results"][0]["backend"]
    assert result["processor"] == "Some Metal" and result["usd_per_hour"] == 0.36
    assert result["runtime_version"] == "Reference 1.0"
    segment = profile["profiles"][1]["segments"][1]["results"][0]
    assert segment["times"]["samples_ns"] == [7000, 7000]
    assert fake.closed.is_set() and not fake.sessions
    assert {kind for kind, *_ in session.notices} == {1}


def test_runs_share_a_stream(fake, double):
    with RemoteSession(fake.address) as session:
        graph = session.load(double)
        graph.run(x=x())
        runs, streams = fake.calls.count("Run"), fake.streams
        for n in range(1, 30):
            np.testing.assert_array_equal(graph.run(x=x(n))["y"], 2 * x(n))
    assert fake.calls.count("Run") == runs + 29 and fake.streams < streams + 29


def test_a_stream_that_was_idle_is_not_relied_on(double):
    """Its connection may have gone; a service that is there again is found."""
    fake = Fake().start()
    with RemoteSession(fake.address) as session:
        graph = session.load(double)
        graph.run(x=x())
        fake.server.stop(None).wait()
        fake.start(fake.address)
        time.sleep(0.2)  # longer than a stream is kept: a condition, not a wait for something
        np.testing.assert_array_equal(graph.run(x=x())["y"], 2 * x())
    fake.server.stop(None).wait()


def test_a_service_without_streams_of_runs(double):
    fake = Fake()
    fake.lacks = {"Runs"}
    with fake.start(), RemoteSession(fake.address) as session:
        graph = session.load(double)
        for n in range(1, 4):
            np.testing.assert_array_equal(graph.run(x=x(n))["y"], 2 * x(n))
    assert fake.streams == 0 and fake.calls.count("Run") >= 3


def test_files_go_up_once(fake, double):
    with RemoteSession(fake.address) as session:
        session.load(double)
        first = fake.calls.count("LoadModelComponent")
        assert first == 2
        assert session.load(double).run(x=x())["y"][1] == 2
        assert fake.calls.count("LoadModelComponent") == first
    assert len(fake.blobs) == 2
    assert set(fake.models[next(iter(fake.models))]) == {"model.onnx", "two.bin"}


def test_large_files_come_in_pieces_and_empty_inputs_too(fake, workdir):
    value = helper.make_tensor_value_info
    weights = numpy_helper.from_array(np.random.default_rng(0).random((1024, 800), np.float32), "w")
    path = save(workdir / "large.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])],
                [value("x", TensorProto.FLOAT, ["n", 1024])],
                [value("y", TensorProto.FLOAT, ["n", 800])], [weights])
    with RemoteSession(fake.address) as session:
        graph = session.load(path)
        given = np.ones((0, 1024), np.float32)
        assert graph.run(x=given)["y"].shape == (0, 800)
        ones = graph.run(x=np.ones((2, 1024), np.float32))["y"]
    np.testing.assert_allclose(ones[0], numpy_helper.to_array(weights).sum(0), rtol=1e-4)
    sent = [done for kind, _, _, done, _ in session.notices if kind == 1]
    assert sent == sorted(sent) and sent[-1] == path.stat().st_size and len(sent) > 3


def test_a_backend_fails_alone(double):
    with Fake("a/onnxrt-cpu", "b/onnxrt-cpu", "c/onnxrt-cpu") as fake:
        fake.load_error["a/onnxrt-cpu"] = "no such operator"
        fake.run_error["b/onnxrt-cpu"] = "out of luck"
        with RemoteSession(fake.address, "a/onnxrt-cpu", "b/onnxrt-cpu", "c/onnxrt-cpu") as session:
            graph = session.load(double)
            assert graph.run(x=x())["backend"] == "c/onnxrt-cpu"
            with pytest.raises(Failed, match="a/onnxrt-cpu: no such operator"):
                graph.run(x=x(), backend="a/onnxrt-cpu")
            with pytest.raises(Failed, match="b/onnxrt-cpu: out of luck"):
                graph.run(x=x(), backend="b/onnxrt-cpu")


def test_a_cookie_comes_back(fake, double):
    fake.cookie = "route=7; Path=/; HttpOnly"
    with RemoteSession(fake.address) as session:
        session.load(double)
    for method, metadata in fake.metadata:
        later = method not in ("ListSupportedBackends", "CreateSession")
        assert metadata.get("cookie") == ("route=7" if later else None), method


def test_an_option_reaches_the_service(fake):
    with RemoteSession(fake.address, "metal/onnxrt-cpu[threads=2, fast]") as session:
        assert session.backends() == ["metal/onnxrt-cpu[threads=2,fast]"]
        options = next(iter(fake.specs.values()))[0].backend_options
    assert [(o.key, o.value) for o in options] == [("threads", "2"), ("fast", "")]


def test_presets(fake):
    fake.backends += ["metal/openvino-cpu"]
    fake.presets = {"default": ["metal/openvino-cpu"]}
    with RemoteSession(fake.address) as session:
        assert session.backends() == ["metal/openvino-cpu"]
    fake.presets = {}
    with pytest.raises(Failed, match="no preset of backends"):
        RemoteSession(fake.address)
    with pytest.raises(Failed, match="has no backend 'moon/onnxrt-cpu'; it has metal/onnxrt-cpu, "):
        RemoteSession(fake.address, "moon/onnxrt-cpu")


def test_the_queue_is_told_and_can_be_left(fake):
    place = base.QueuePlace(hardware="metal", place=2, waited_ms=1500, holders=["ab12"])
    fake.queue = [place, place]
    with RemoteSession(fake.address) as session:
        pass
    assert session.notices == [(0, "metal", 2, 0, 0)] * 2
    fake.closed.clear()
    cancelled = ctypes.c_int(0)
    release = threading.Event()

    def wait():
        cancelled.value = 1
        release.wait(30)

    fake.queue, fake.wait = [place], wait
    with pytest.raises(Failed) as failed:
        RemoteSession(fake.address, cancelled=cancelled)
    release.set()
    assert failed.value.code == ECANCELED
    assert fake.closed.wait(PATIENCE) and not fake.sessions


def test_the_wait_goes_on_while_the_service_says_nothing(fake):
    place = base.QueuePlace(hardware="metal", place=2, waited_ms=60000, holders=["ab12"])
    told = threading.Event()

    class Waiting(RemoteSession):
        def notice(self, context, notice):
            super().notice(context, notice)
            if len(self.waits) == 4:
                told.set()

    fake.queue = [place]
    fake.wait = lambda: fake.queue or told.wait(30)
    with Waiting(fake.address) as session:
        pass
    assert session.notices[:4] == [(0, "metal", 2, 0, 0)] * 4
    steps = np.diff(session.waits[:4])
    assert session.waits[0] == pytest.approx(60, abs=0.1) and (steps >= 0.99).all()


def test_a_broken_connection_is_dialled_again(fake, double):
    """Calls that change nothing when they are repeated are; a run isn't."""
    lost = grpc.StatusCode.UNAVAILABLE
    with RemoteSession(fake.address) as session:
        fake.fail = {"LoadCachedModelComponent": [lost], "LoadModelComponent": [lost, lost],
                     "LoadModel": [lost], "Run": [lost]}
        graph = session.load(double)
        runs = fake.calls.count("Run")
        with pytest.raises(Failed) as failed:
            graph.run(x=x())
        assert failed.value.code == EUNAVAILABLE and fake.calls.count("Run") == runs + 1
        assert graph.run(x=x())["y"][1] == 2


def test_a_service_that_vanishes_is_one_error(double):
    fake = Fake().start()
    session = RemoteSession(fake.address)
    graph = session.load(double)
    fake.server.stop(None).wait()
    with pytest.raises(Failed) as failed:
        graph.run(x=x())
    assert failed.value.code == EUNAVAILABLE and fake.address in str(failed.value)
    session.__exit__()


def test_nobody_there():
    with Fake() as fake:
        address = fake.address
    with pytest.raises(Failed) as failed:
        RemoteSession(address)
    assert failed.value.code == EUNAVAILABLE and address in str(failed.value)


@pytest.mark.parametrize("method", ["ListSupportedBackends", "CreateSession", "LoadCachedModelComponent",
                                    "LoadModel", "Run"])
@pytest.mark.parametrize("answer", [b"", b"\xff" * 40, b"\x0a\xff\xff\xff\xff\x0f"])
def test_nonsense_is_an_error(fake, double, method, answer):
    with pytest.raises(Failed) as failed:
        with RemoteSession(fake.address) as session:
            graph = session.load(double) if method not in ("LoadCachedModelComponent", "LoadModel") else None
            fake.raw[method] = answer
            if graph:
                graph.run(x=x())
                RemoteSession(fake.address)
            session.load(double)
    assert failed.value.code in (EFORMAT, EUNAVAILABLE), str(failed.value)


def test_times_that_are_missing(fake, double):
    fake.times = 0
    with RemoteSession(fake.address) as session, pytest.raises(Failed, match="0 times instead of 2"):
        session.load(double).run(x=x())


@pytest.mark.parametrize("name", ["a\x1b[31m/onnxrt-cpu", "nothing", "a/b[", "/x", "a" * 5000 + "/b"])
def test_hostile_names_of_backends(fake, prony, name):
    fake.backends = [name]
    done = prony("backends", "--server", fake.address)
    assert done.status == 1 and "lists something that is not a backend" in done.stderr
    assert "\x1b" not in done.stderr and done.stderr.count("\n") == 1


def test_quota(fake):
    error = base.ErrorValue(message="too many sessions; close some", code=base.ERROR_INSUFFICIENT_QUOTA)
    fake.raw["CreateSession"] = base.CreateSessionReply(error_value=error).SerializeToString()
    with pytest.raises(Failed, match="close some") as failed:
        RemoteSession(fake.address)
    assert failed.value.code == ELIMIT


# ---- The command line ----

def test_backends(fake, prony):
    fake.presets = {"default": fake.backends}
    done = prony("backends", "--server", fake.address)
    assert done.status == 0, done.stderr
    assert re.search(r"metal +Some Metal +onnxrt-cpu +Reference 1.0 +\$0.36 +1 +1", done.stdout)
    assert "Preset 'default': metal/onnxrt-cpu" in done.stdout
    data = json.loads(prony("backends", "--server", fake.address, "--format", "json").stdout)
    assert data["schema"] == "prony.backends/1" and data["server"] == fake.address
    assert data["backends"][0]["usd_per_hour"] == 0.36


@pytest.mark.parametrize("n, length", [(1, 5), (12, 300)])
def test_lists_fit_the_terminal(fake, prony, n, length):
    names = [f"{i:02}".rjust(length, "n") for i in range(n)]
    fake.presets = {"all": fake.backends * n}
    reply = own.StatusReply(
        version="9.9", uptime_ms=7200000, notice=" ".join(names), run_timeout_s=60,
        hardware=[own.HardwareStatus(name=x, processor=x, hosts=2, free=1, note=x) for x in names],
        sessions=[own.SessionStatus(id="4f1a", user=x, state="waiting", place=1, backends=[x] * 3, note=x)
                  for x in names],
        workers=[own.WorkerStatus(name=x, hardware=x, state="held", software=[x], note=x) for x in names],
        cache=own.CacheStatus(blobs=3, bytes=1 << 20, limit_bytes=1 << 30, hits=2, misses=3))
    fake.raw["Status"] = reply.SerializeToString()
    for columns in (40, 60, 80, 120, 200):
        for command in ("status", "backends"):
            done = prony(command, "--server", fake.address, env={"COLUMNS": str(columns)})
            assert done.status == 0, done.stderr
            assert max(map(len, done.stdout.splitlines())) <= columns, done.stdout


def test_status(fake, prony):
    done = prony("status", "--server", fake.address)
    assert done.status == 0, done.stderr
    for text in ("prony 9.9, up for 2 h", "4 sessions of other users", "3 files, 1.00 MiB of 1.00 GiB",
                 "onnxrt-cpu 1.30.0"):
        assert text in done.stdout
    assert "\x1b" not in done.stdout
    data = json.loads(prony("status", "--server", fake.address, "--format", "json").stdout)
    assert data["schema"] == "prony.status/1" and data["sessions"][0]["place"] == 1
    assert data["cache"] == {"blobs": 3, "bytes": 1 << 20, "limit_bytes": 1 << 30, "hits": 2, "misses": 3}


def test_status_that_is_watched(fake):
    with subprocess.Popen([PROGRAM, "status", "--server", fake.address, "--watch"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        reports = 0
        for line in process.stdout:
            reports += "up for" in line
            if "Cache" in line and reports == 2:
                process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0 and reports == 2, process.stderr.read()
    fake.fail = {"Status": [grpc.StatusCode.UNAVAILABLE]}
    done = run_program([PROGRAM, "status", "--server", fake.address, "--watch"])
    assert done.status == 1 and done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments, message", [
    (["--token-file", "t"], "--token-file needs --server"),
    (["--insecure"], "--insecure needs --server"),
    (["--server", "x:1", "--insecure", "--ca", "c"], "--ca cannot be combined"),
    (["--server", "http://x:1"], "invalid address"),
    (["--server", "x"], "invalid address"),
    (["--server", "x:1", "--ca", "none.pem"], "none.pem"),
])
def test_misuse(prony, arguments, message):
    done = prony("backends", *arguments, env={"HOME": "/nonexistent"})
    assert done.status in (1, 2) and message in done.stderr, done.stderr


def measured(prony, fake, model, *arguments, status=0):
    done = prony("profile", model, "--server", fake.address, "--format", "json", *arguments)
    assert done.status == status, done.stderr
    data = json.loads(done.stdout)
    jsonschema.validate(data, SCHEMA)
    return data, done.stderr


def test_profile_on_several_hosts(prony, double, workdir):
    """Results come in the session's order, each host tells its machine, and costs are the service's."""
    with Fake("a/onnxrt-cpu", "b/onnxrt-cpu") as fake:
        np.save(workdir / "x.npy", x(3))
        data, _ = measured(prony, fake, double, "-b", "b/onnxrt-cpu[threads=1|2]", "-b", "a/onnxrt-cpu",
                           "--input", f"x=@{workdir}/x.npy")
        assert [r["backend"]["name"] for r in data["results"]] == [
            "b/onnxrt-cpu[threads=1]", "b/onnxrt-cpu[threads=2]", "a/onnxrt-cpu"]
        assert [h["hardware"] for h in data["hosts"]] == ["b", "a"]
        assert all(h["cpu"] and h["sandbox"] for h in data["hosts"])
        assert data["model"]["path"] == str(double)
        assert data["points"][0]["inputs"][0]["source"] == f"@{workdir}/x.npy"
        assert {r["backend"]["usd_per_hour"] for r in data["results"]} == {0.36}
        assert set(next(iter(fake.models.values()))) == {"model.onnx", "two.bin", "inputs/0.npy"}
        assert fake.closed.is_set()
        (workdir / "p.json").write_text(json.dumps(data))
        report = prony("report", "p.json", "--verbose")
        assert report.status == 0
        assert "unpaired across hosts" in " ".join(report.stdout.split())
        assert "2 hosts of a service" in prony("report", "p.json").stdout


def test_hosts_need_not_know_names(prony, double, workdir):
    """They get specs, also for the reference and to resume; the client puts names to what they find."""
    with Fake("a/onnxrt-cpu", "b/onnxrt-cpu") as fake:
        asked = []
        simple = fake.measure
        fake.measure = lambda request, context: asked.append(request) or simple(request, context)
        named = ["-b", "here=b/onnxrt-cpu[threads=2]", "-b", "there=a/onnxrt-cpu"]
        data, _ = measured(prony, fake, double, *named, "--reference", "there")
        assert [(r["backend"]["name"], r["backend"]["spec"]) for r in data["results"]] == [
            ("here", "b/onnxrt-cpu[threads=2]"), ("there", "a/onnxrt-cpu")]
        assert data["settings"]["reference"] == "there"
        assert json.loads(asked[0].settings)["reference"] == "a/onnxrt-cpu"
        (workdir / "p.json").write_text(json.dumps(data))
        again, _ = measured(prony, fake, double, "--resume", "p.json")
        assert [r["backend"]["name"] for r in again["results"]] == ["here", "there"]


def test_profile_of_a_sweep(prony, double):
    with Fake("a/onnxrt-cpu", "b/onnxrt-cpu") as fake:
        data, note = measured(prony, fake, double, "--dim", "n=1,4")
        assert [(r["backend"]["hardware"], r["point"]) for r in data["results"]] == [
            ("a", 0), ("b", 0), ("a", 1), ("b", 1)]
        assert "preset 'all'" in note


def test_a_host_that_fails_is_its_own(prony, double):
    with Fake("a/onnxrt-cpu", "b/onnxrt-cpu") as fake:
        def measure(request, _context):
            a, b = fake.hosts(request.session_uuid).items()
            yield own.MeasureEvent(host=0, hardware=a[0], error=base.ErrorValue(
                message="it melted", code=base.ERROR_INTERNAL))
            yield own.MeasureEvent(host=1, hardware=b[0], result=fake.profile(request, b[1]))
        fake.measure = measure
        named = ["-b", "a/onnxrt-cpu", "-b", "b/onnxrt-cpu"]
        data, message = measured(prony, fake, double, *named, status=1)
        assert "it melted" in message and "1 of 2 backends failed" in message
        assert data["results"][0]["error"] and data["results"][1]["samples_ns"]


def test_a_service_lost_in_mid_measurement(prony, double, workdir):
    """What had been sent to be saved is reported, and one line says what happened."""
    with Fake() as fake:
        def measure(request, context):
            (hardware, backends), = fake.hosts(request.session_uuid).items()
            yield own.MeasureEvent(host=0, checkpoint=fake.profile(request, backends))
            context.abort(grpc.StatusCode.UNAVAILABLE, "told to go")
        fake.measure = measure
        data, message = measured(prony, fake, double, "-o", "-", status=1)
        assert "the measurement is incomplete" in message and message.count("error") == 1
        assert "INTERRUPTED" in data["results"][0]["flags"] and data["results"][0]["samples_ns"]
        fake.measure = lambda request, context: context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
        done = prony("profile", double, "--server", fake.address)
        assert done.status == 1 and not done.stdout and "gone" in done.stderr


@pytest.mark.parametrize("event", [
    own.MeasureEvent(host=7, result=b"{}"),
    own.MeasureEvent(host=0, result=b"{}"),
    own.MeasureEvent(host=0, progress="[]"),
    own.MeasureEvent(host=0, checkpoint=(ROOT / "tests/data/profile-sweep.json").read_bytes()),
    None,
])
def test_nonsense_while_measuring(fake, prony, double, event):
    fake.measure = lambda _request, _context: iter([event] if event else [])
    done = prony("profile", double, "--server", fake.address)
    assert done.status == 1 and not done.stdout and done.stderr.count("\n") == 2, done.stderr


def test_ctrl_c_keeps_what_there_is(fake, double, workdir):
    shown = threading.Event()

    def measure(request, context):
        (_, backends), = fake.hosts(request.session_uuid).items()
        yield own.MeasureEvent(host=0, checkpoint=fake.profile(request, backends))
        shown.set()
        ended = threading.Event()
        context.add_callback(ended.set)
        ended.wait(PATIENCE)

    fake.measure = measure
    with subprocess.Popen([PROGRAM, "profile", double, "--server", fake.address, "--format", "json",
                           "-o", workdir / "p.json"], stderr=subprocess.PIPE) as process:
        assert shown.wait(PATIENCE)
        while not (workdir / "p.json").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0, process.stderr.read()
    data = json.loads((workdir / "p.json").read_text())
    assert "INTERRUPTED" in data["results"][0]["flags"] and data["results"][0]["samples_ns"]
    assert fake.closed.wait(PATIENCE)


def test_what_a_terminal_shows(fake, double):
    """The place in the queue, who holds the hardware, the time waited, and what is sent, in lines that
    fit and end with a whole character."""
    fake.queue = [base.QueuePlace(hardware=h, place=2, waited_ms=61500, holders=["ab12", "cd34"])
                  for h in ("metal", "m" + "µ" * 40)]
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    with subprocess.Popen([PROGRAM, "profile", double, "--server", fake.address], stdin=terminal,
                          stderr=terminal, stdout=subprocess.DEVNULL) as process:
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):
            while piece := os.read(main, 1000):
                shown += piece
        assert process.wait(PATIENCE) == 0
    os.close(main)
    lines = shown.decode().split("\r\x1b[K")
    assert "61.5 s  waiting for metal: place 2 in the queue, held by ab12 and others" in lines
    assert any(line.startswith("61.5 s  waiting for mµ") and "…" in line for line in lines), lines
    assert any(re.fullmatch(r" *\d+\.\d s  sending two.bin: 1.56 KiB of 1.56 KiB", line)
               for line in lines), lines
    assert all(len(line) < 80 for line in lines if "\n" not in line)


# ---- Tokens ----

@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost", "-keyout", folder / "key.pem",
                    "-out", folder / "cert.pem"], check=True, capture_output=True)
    return folder


@pytest.fixture
def guarded(certificate):
    """A service with TLS that wants the token "sesame"."""
    fake = Fake()
    begin = fake.begin

    def check_token(method, context):
        begin(method, context)
        if dict(context.invocation_metadata()).get("authorization") != "Bearer sesame":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no")

    fake.begin = check_token
    credentials = grpc.ssl_server_credentials([((certificate / "key.pem").read_bytes(),
                                                (certificate / "cert.pem").read_bytes())])
    fake.start("localhost:0", credentials)
    yield fake
    fake.__exit__()


def clean_home(workdir, **more):
    env = {k: v for k, v in os.environ.items()
           if k not in ("PRONY_TOKEN", "OCTOML_PROFILE_API_TOKEN", "XDG_CONFIG_HOME")}
    return {**env, "HOME": str(workdir), **more}


def test_tokens_in_their_order(guarded, certificate, workdir):
    def listed(*arguments, **more):
        return run_program([PROGRAM, "backends", "--server", guarded.address, "--ca",
                            certificate / "cert.pem", *arguments], env=clean_home(workdir, **more))

    done = listed()
    assert done.status == 1 and "requires a token" in done.stderr
    old = workdir / ".config/octoml_profile/access_token"
    own_file = workdir / ".config/prony/token"
    for path in (old, own_file):
        path.parent.mkdir(parents=True)
    old.write_text("wrong1\n")
    done = listed()
    assert done.status == 1 and str(old) in done.stderr and "wrong1" not in done.stderr
    own_file.write_text("wrong2")
    assert str(own_file) in listed().stderr
    done = listed(OCTOML_PROFILE_API_TOKEN="wrong3")
    assert "OCTOML_PROFILE_API_TOKEN" in done.stderr and "wrong3" not in done.stderr
    assert "of PRONY_TOKEN" in listed(OCTOML_PROFILE_API_TOKEN="x", PRONY_TOKEN="wrong4").stderr
    assert listed(PRONY_TOKEN="sesame").status == 0
    (workdir / "given").write_text("sesame\n")
    assert listed("--token-file", workdir / "given", PRONY_TOKEN="wrong").status == 0
    assert "does not hold a token" in listed(PRONY_TOKEN="two words").stderr
    own_file.write_text("sesame")
    assert listed().status == 0


def test_a_token_is_not_sent_without_tls(fake, workdir):
    done = run_program([PROGRAM, "backends", "--server", fake.address],
                       env=clean_home(workdir, PRONY_TOKEN="sesame"))
    assert done.status == 0
    assert all("authorization" not in metadata for _, metadata in fake.metadata)


def test_a_wrong_certificate(guarded, workdir):
    done = run_program([PROGRAM, "backends", "--server", guarded.address, "--ca", "/dev/null"],
                       env=clean_home(workdir, PRONY_TOKEN="sesame"))
    assert done.status == 1 and "sesame" not in done.stderr


# ---- Somebody else ----

def silence(connection):
    while connection.recv(4096):
        pass


def web(connection):
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    silence(connection)


@contextlib.contextmanager
def stranger(talk, context=None):
    """The address of a server that isn't one of prony's."""
    def serve():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=talk_to, args=[connection], daemon=True).start()

    def talk_to(connection):
        with contextlib.suppress(OSError):
            talk(context.wrap_socket(connection, server_side=True) if context else connection)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("talk, said", [(silence, "does not respond"), (web, "doesn't speak gRPC")])
def test_servers_of_something_else(prony, talk, said):
    with stranger(talk) as address:
        done = prony("backends", "--server", address)
    assert (done.status, done.stdout) == (1, "")
    assert re.fullmatch(f"prony: error: cannot reach '{address}': .*{said}\n", done.stderr)


def test_a_grpc_server_of_something_else(prony):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    for command in (["backends"], ["status"], ["worker", "--hardware", "x", "--insecure"]):
        done = prony(*command, "--server", address)
        assert done.status == 1 and f"'{address}' is not a prony service" in done.stderr
    server.stop(None).wait()


def test_tls_where_there_is_none_and_none_where_there_is(prony, guarded, fake, certificate):
    done = prony("backends", "--server", guarded.address)
    assert done.status == 1 and "Socket closed; if it uses TLS, " in done.stderr
    done = prony("backends", "--server", fake.address, "--ca", certificate / "cert.pem",
                 env={"PRONY_TOKEN": "sesame"})
    assert done.status == 1 and "it doesn't speak TLS" in done.stderr


def test_certificates_that_prove_nothing(prony, workdir, certificate):
    """Of another name, and of nobody who is trusted."""
    make_certificate(workdir)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    with stranger(silence, context) as address:
        for ca, said in ((certificate / "cert.pem", "for other names"),
                         (workdir / "cert.pem", "not signed by a trusted authority")):
            done = prony("backends", "--server", address, "--ca", ca, env={"PRONY_TOKEN": "sesame"})
            assert (done.status, done.stdout) == (1, "")
            assert said in done.stderr and done.stderr.count("\n") == 1
            assert "sesame" not in done.stderr


def test_a_host_that_is_not_there(prony):
    done = prony("backends", "--server", "no-such-host.invalid:1", "--insecure")
    assert done.status == 1
    assert done.stderr == ("prony: error: cannot reach 'no-such-host.invalid:1': "
                           "unknown host\n")


def test_the_prompt_checks_and_keeps(guarded, certificate, workdir):
    """On a terminal only; the token isn't shown."""
    main, terminal = pty.openpty()
    with subprocess.Popen([PROGRAM, "backends", "--server", guarded.address, "--ca",
                           certificate / "cert.pem"], stdin=terminal, stderr=terminal,
                          stdout=subprocess.PIPE, env=clean_home(workdir)) as process:
        os.close(terminal)
        shown = b""
        for answer in (b"wrong\n", b"sesame\n"):
            while shown.count(b"token for") < (1 if answer == b"wrong\n" else 2):
                shown += os.read(main, 1000)
            os.write(main, answer)
        with contextlib.suppress(OSError):
            while piece := os.read(main, 1000):
                shown += piece
        assert process.wait(PATIENCE) == 0
    os.close(main)
    assert b"sesame" not in shown and b"refuses the token" in shown
    kept = workdir / ".config/prony/token"
    assert kept.read_text() == "sesame\n" and stat.S_IMODE(kept.stat().st_mode) == 0o600


# ---- The service itself ----

@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The address of `prony serve` with no more options than it needs."""
    folder = tmp_path_factory.mktemp("served")
    with subprocess.Popen([PROGRAM, "serve", "--state", folder / "state"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, start_new_session=True) as process:
        line = process.stdout.readline()
        yield line.split()[-1]
        process.terminate()
        process.wait(PATIENCE)


def wait_for_backends(prony, address):
    """A worker joins a moment after the service has begun."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        data = json.loads(prony("backends", "--server", address, "--format", "json").stdout)
        if any(b["software"] == "onnxrt-cpu" for b in data["backends"]):
            return
    pytest.fail("no worker has joined the service")


def test_the_real_service_runs_programs(prony, served, double):
    wait_for_backends(prony, served)
    with RemoteSession(served, "local/onnxrt-cpu", "local/onnxrt-cpu[threads=1]", repeats=3) as session:
        graph = session.load(double)
        with session.region("predict"):
            pass
        for _ in range(3):
            with session.region("predict"):
                found = graph.run(x=x(5), backend="local/onnxrt-cpu[threads=1]")
                np.testing.assert_array_equal(found["y"], 2 * x(5))
        profile = session.profile()
    segment = next(p for p in profile["profiles"] if len(p["segments"]) == 3)["segments"][1]
    assert [r["times"]["count"] for r in segment["results"]] == [9, 9]
    assert profile["results"][0]["backend"]["runtime_version"].startswith("ONNX Runtime")


def test_the_real_service_after_a_cut(prony, served, double):
    """Within the lease the session goes on, with what it has; a run under way is one error."""
    wait_for_backends(prony, served)
    with contextlib.closing(Proxy(served)) as proxy, \
            RemoteSession(proxy.address, "local/onnxrt-cpu") as session:
        graph = session.load(double)
        for _ in range(3):
            np.testing.assert_array_equal(graph.run(x=x())["y"], 2 * x())
            proxy.cut()
            with contextlib.suppress(Failed):  # it may not have heard of the end yet
                graph.run(x=x())
        proxy.cut()
        other = session.load(double)
        np.testing.assert_array_equal(other.run(x=x())["y"], 2 * x())
        np.testing.assert_array_equal(graph.run(x=x())["y"], 2 * x())


def test_the_real_service_measures(prony, served, double):
    wait_for_backends(prony, served)
    done = prony("profile", double, "--server", served, "-b", "local/onnxrt-cpu[threads=1|2]", "--dim",
                 "n=1,8", "--launches", "2", "--repeats", "10", "--ops", "--format", "json")
    assert done.status == 0, done.stderr
    data = json.loads(done.stdout)
    jsonschema.validate(data, SCHEMA)
    assert [len(r["samples_ns"]) for r in data["results"]] == [10] * 4
    assert all(r["ops"] for r in data["results"])
    assert [h["hardware"] for h in data["hosts"]] == ["local"]
    status = json.loads(prony("status", "--server", served, "--format", "json").stdout)
    assert status["sessions"] == [] and status["cache"]["blobs"] >= 2


def test_the_example_client(prony, fake, served, double):
    """examples/grpc_client.py, against a service that isn't ours and one that is."""
    wait_for_backends(prony, served)
    for address, backend in ((fake.address, "metal/onnxrt-cpu"), (served, "local/onnxrt-cpu")):
        done = run_program([sys.executable, ROOT / "examples/grpc_client.py", address, double, backend])
        assert done.status == 0, done.stderr
        assert re.fullmatch(rf"{backend}  median of 10 runs: \d+\.\d+ ms\n", done.stdout)
    assert fake.closed.is_set()
