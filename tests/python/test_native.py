"""The extension on a real service: forms, runs in two halves, regions, threads, signals, forks."""
import gc
import hashlib
import json
import os
import re
import signal
import sys
import threading
import time
import weakref

import numpy as np
import pytest

from prony import _native
from python_parts import (arrays_of, double_form, eventually, floats, run_python, serving,
                          subtract_form, tensors, weighted_form)

ORT = "local/onnxrt-cpu"
OPENVINO = "local/openvino-cpu"




@pytest.fixture
def open_session(server):
    """Sessions that end with the test, however it ends: the next one needs the hardware."""
    opened = []

    def open_one(backends=(ORT,), **options):
        opened.append(_native.Session(backends, **{"server": server, "repeats": 2, **options}))
        return opened[-1]

    yield open_one
    for session in opened:
        session.close()


@pytest.fixture
def session(open_session):
    return open_session()


def profiles(session):
    return json.loads(session.profile().json())["profiles"]


# ---- What is there ----

def test_listing_reserves_nothing(server, session):
    backends, presets = _native.list_backends(server)
    found = {b["name"]: b for b in backends}
    assert found[ORT]["version"].startswith("ONNX Runtime")
    assert found[ORT]["hosts"] == 1 and found[ORT]["free_hosts"] == 0  # the session has it
    assert "threads" in found[ORT]["options"] and found[ORT]["usd_per_hour"] is None
    assert ORT in presets["default"] and set(presets["all"]) == set(found)
    _native.ping(server)


def test_no_server():
    for call in (_native.ping, _native.list_backends, lambda s: _native.Session([], server=s)):
        with pytest.raises(_native.Error, match="cannot reach 'unix:/nowhere'") as failed:
            call("unix:/nowhere")
        assert failed.value.code == _native.EUNAVAILABLE


def test_backends_that_are_not_there(server):
    with pytest.raises(_native.Error, match="has no backend 'moon/onnxrt-cpu'; it has local/"):
        _native.Session(["moon/onnxrt-cpu"], server=server)


def test_without_backends_it_is_the_preset(server, open_session):
    assert open_session([]).backends == _native.list_backends(server)[1]["all"]


def test_hashes():
    data = np.arange(100000, dtype=np.uint8)
    assert _native.sha256(data.ctypes.data, data.nbytes) == hashlib.sha256(data).digest()
    assert _native.sha256(0, 0) == hashlib.sha256(b"").digest()


def test_which_weights_a_layout_fits():
    a, b, c = [1], [1], [1]  # equal, and not the same
    assert _native.Layout((a, c), (2, 0), [], ()).fits((c, b, a))
    assert not _native.Layout((a, b), (2, 0), [], ()).fits((c, b, a))
    assert _native.Layout((), (), [], ()).fits((a,))
    for wrong in [((a,), [0], [], ()), ((a,), ("0",), [], ()), ((a,), (0,)), (a, (0,), [], ())]:
        with pytest.raises(TypeError):
            _native.Layout(*wrong)
    for few in [((a,), (0, 1), [], ()), ((a,), (0,), [("x", 1, (1,), 0, 4)], ())]:
        with pytest.raises(ValueError):
            _native.Layout(*few)
    for beyond in (1, -1, 1 << 70):
        with pytest.raises((IndexError, OverflowError)):
            _native.Layout((a,), (beyond,), [], ()).fits((a,))
    with pytest.raises(TypeError):
        _native.Layout((a,), (0,), [], ()).fits([a])


def test_a_layout_in_a_cycle_is_collected():
    class Weight:
        pass

    weight = Weight()
    weight.layout = _native.Layout((weight,), (0,), [], ())
    seen = weakref.ref(weight)
    del weight
    gc.collect()
    assert seen() is None


# ---- Stand-ins ----

class Input:
    """A tensor, as far as a stand-in looks at it."""

    def __init__(self, *values):
        self.array = floats(*values)

    def data_ptr(self):
        return self.array.ctypes.data


def refuse(*arguments):
    raise AssertionError(f"called with {arguments}")


@pytest.fixture
def expected(session):
    """A stand-in that expects calls with a weight and an input of two numbers; and what it was told."""
    graph = session.load("double", [double_form()])
    weight, told = object(), []

    def make(local=lambda weight, x: x.array + 1, otherwise=refuse, graph=graph, overlap=False):
        stand_in = _native.StandIn(otherwise, local, lambda *said: told.append(said))
        layout = _native.Layout((weight,), (0,), [("x", 1, (2,), 0, 8)], (1,))
        stand_in.expect(layout, graph, overlap)
        return stand_in

    return make, weight, told


def test_calls_that_nobody_expects_are_handed_on():
    given = (1, 2, 3)
    stand_in = _native.StandIn(lambda arguments: arguments, refuse, refuse)
    assert stand_in.call(*given) is given
    with pytest.raises(ZeroDivisionError):
        _native.StandIn(lambda arguments: 1 / 0, refuse, refuse).call()
    with pytest.raises(TypeError):
        stand_in.call(x=1)
    for wrong in [(None, 1, True), (_native.Layout((), (), [], ()), 1, True)]:
        with pytest.raises(TypeError):
            stand_in.expect(*wrong)


@pytest.mark.parametrize("overlap", [False, True])
def test_an_expected_call_runs_here_and_there(session, expected, overlap):
    make, weight, told = expected
    stand_in = make(overlap=overlap)
    before, begin = session.waited_ns, time.monotonic_ns()
    (result, missing) = session.region("f", stand_in.call, (weight, Input(1, 2)))
    taken = time.monotonic_ns() - begin
    np.testing.assert_array_equal(result, [2, 3])
    assert missing is None and not told
    (profile,) = profiles(session)
    assert profile["segments"][1]["results"][0]["times"]["count"] == 2
    assert 0 < session.waited_ns - before < taken


def test_other_calls_are_handed_on(expected):
    make, weight, _ = expected
    stand_in = make(otherwise=lambda arguments: "handed on")
    assert stand_in.call(object(), Input(1, 2)) == "handed on"
    np.testing.assert_array_equal(stand_in.call(weight, Input(1, 2)), [2, 3])
    with pytest.raises(AttributeError, match="data_ptr"):
        stand_in.call(weight, 3)
    with pytest.raises(IndexError):
        stand_in.call(weight)
    stand_in.forget()
    assert stand_in.call(weight, Input(1, 2)) == "handed on"


@pytest.mark.parametrize("overlap", [False, True])
def test_what_fails_there_is_told(session, expected, overlap):
    """And the call returns what was computed here."""
    make, weight, told = expected
    stand_in = make(overlap=overlap)
    session.close()
    np.testing.assert_array_equal(stand_in.call(weight, Input(1, 2)), [2, 3])
    ((graph, fault),) = told
    assert graph.id == 1 and isinstance(fault, _native.Error)
    assert str(fault) == "the session is closed" and fault.code == _native.EUSAGE


@pytest.mark.parametrize("overlap", [False, True])
def test_closing_while_computing(session, expected, overlap):
    make, weight, told = expected

    def local(weight, x):
        session.close()
        return "computed"

    assert make(local, overlap=overlap).call(weight, Input(1, 2)) == "computed"
    assert [str(fault) for _, fault in told] == ["the session is closed"]


@pytest.mark.parametrize("overlap", [False, True])
def test_what_fails_here_is_raised(session, expected, overlap):
    make, weight, told = expected

    def local(weight, x):
        raise LookupError("own")

    stand_in = make(local, overlap=overlap)
    with pytest.raises(LookupError, match="own"):
        session.region("f", stand_in.call, (weight, Input(1, 2)))
    assert not told and profiles(session) == []
    make(overlap=overlap).call(weight, Input(1, 2))  # nothing is under way any more


def test_a_failure_may_be_raised(session, expected):
    make, weight, _ = expected
    graph = session.load("double", [double_form()])

    def failed(graph, fault):
        raise LookupError(f"graph {graph.id}") from fault

    stand_in = _native.StandIn(refuse, lambda *_: None, failed)
    stand_in.expect(_native.Layout((), (), [("x", 1, (2,), 0, 4)], (0,)), graph, False)
    with pytest.raises(LookupError, match="graph 2") as raised:
        stand_in.call(Input(1, 2))
    assert "takes 8 bytes, not 4" in str(raised.value.__cause__)


def test_a_stand_in_in_a_cycle_is_collected():
    class Holder:
        pass

    holder = Holder()
    holder.stand_in = _native.StandIn(lambda _, holder=holder: holder, refuse, refuse)
    holder.call = holder.stand_in.call
    seen = weakref.ref(holder)
    del holder
    gc.collect()
    assert seen() is None


# ---- Forms ----

def test_each_backend_gets_its_form(server, open_session):
    """A form that couldn't be made is the failure of the backends that take it."""
    with pytest.raises(_native.Error, match="has no backend 'local/torch-nothing'"):
        _native.Session([ORT, "local/torch-nothing"], server=server)
    session = open_session([ORT, OPENVINO])
    graph = session.load("double", [(_native.FORMAT_FXPROTO, [], [], [], "not exported"),
                                    double_form()])
    assert (graph.id, graph.failures, graph.local_reason) == (1, [None, None], None)
    x = floats(1, 2, 3)
    for backend in (ORT, OPENVINO, None):
        outputs = graph.run(tensors(x=x), backend=backend, outputs=True)
        np.testing.assert_array_equal(arrays_of(outputs)["y"], [2, 4, 6])
    failed = session.load("lost", [(_native.FORMAT_ONNX, [], [], [], "the exporter gave up"),
                                   (_native.FORMAT_FXPROTO, [("model.dat", b"x", None)], [], [],
                                    None)])
    assert failed.id == 2 and failed.failures == ["the exporter gave up"] * 2
    assert failed.local_reason == f"{ORT}: the exporter gave up"
    with pytest.raises(_native.Error, match="the exporter gave up"):
        failed.run([])
    missing = session.load("none", [(_native.FORMAT_FXPROTO, [("model.dat", b"x", None)], [], [],
                                     None)])
    assert missing.failures == ["it takes graphs as ONNX, but this graph has no such form"] * 2


def test_inputs_are_picked_by_name(session):
    graph = session.load("subtract", [subtract_form()])
    a, b = floats(5, 7), floats(1, 2)
    outputs = graph.run(tensors(unused=floats(9), b=b, a=a), outputs=True)
    np.testing.assert_array_equal(arrays_of(outputs)["y"], [4, 5])
    with pytest.raises(_native.Error, match="graph 'subtract': input 'b' is missing") as failed:
        graph.run(tensors(a=a))
    assert failed.value.code == _native.EUSAGE


@pytest.mark.parametrize("form, message", [
    ((7, [("model.onnx", b"", None)], [], [], None), "format 7"),
    ((1, [], [], [], None), "neither files nor a failure"),
    ((1, [("../model.onnx", b"", None)], [], [], None), "can't be called '../model.onnx'"),
    ((1, [("/model.onnx", b"", None)], [], [], None), "can't be called"),
    ((1, [("a//b", b"", None)], [], [], None), "can't be called"),
    ((1, [("model.onnx", b"", None)], ["x", "x"], [], None), "two inputs are called 'x'"),
])
def test_forms_that_are_wrong(session, form, message):
    with pytest.raises(_native.Error, match=message) as failed:
        session.load("wrong", [form])
    assert failed.value.code == _native.EUSAGE


def test_what_is_no_model_fails_on_its_backend(session):
    graph = session.load("junk", [(1, [("model.onnx", b"no model", None)], [], [], None)])
    assert graph.failures[0] and graph.local_reason.startswith(ORT)


@pytest.mark.parametrize("forms", [
    None, 5, "forms", [5], [()], [(1, 2, 3, 4, 5)], [(1, [5], [], [], None)],
    [(1, [("x", 5, None)], [], [], None)], [(1, [("x", b"", b"short")], [], [], None)],
    [(1, [("x", b"", None)], "abc", [], None)], [(1, [("x", b"", None)], [5], [], None)],
    [(1, [("x\0y", b"", None)], [], [], None)], [(1, [("x", (0, -1), None)], [], [], None)],
    [(1, [], [], [], 5)],
])
def test_forms_of_other_types(session, forms):
    with pytest.raises((TypeError, ValueError)):
        session.load("g", forms)


@pytest.mark.parametrize("wrong", [
    None, 5, [5], [()], [("x", 1, (1,), 0)], [(5, 1, (1,), 0, 0)], [("x", 1, 5, 0, 0)],
    [("x", 1, ("a",), 0, 0)], [("x", 1, (1,), 0, -4)],
])
def test_tensors_of_other_types(session, wrong):
    graph = session.load("double", [double_form()])
    for call in (graph.run, graph.start):
        with pytest.raises((TypeError, ValueError)):
            call(wrong)


def test_weights_go_up_once(open_session):
    """Told by the notices: what the server has is done at once, and nothing is sent."""
    weights = np.random.default_rng(os.getpid()).random(1 << 20).astype(np.float32)
    told = []
    session = open_session(notice=told.append)

    def load():
        told.clear()
        graph = session.load("weighted", [weighted_form(weights, hashlib.sha256(weights).digest())])
        x = np.ones_like(weights)
        outputs = graph.run(tensors(x=x), outputs=True)
        np.testing.assert_array_equal(arrays_of(outputs)["y"], weights + 1)
        return [n["done_bytes"] for n in told if n["file"] == "weights/0"]

    first, second = load(), load()
    assert first[0] == 0 and first[-1] == weights.nbytes and len(first) > 2
    assert second == [weights.nbytes]
    assert {n["kind"] for n in told} == {"uploading"}


# ---- Runs in two halves ----

@pytest.mark.parametrize("overlap", [False, True])
def test_two_halves(session, overlap):
    graph = session.load("double", [double_form()])
    x = floats(1, 2)

    def call():
        run = graph.start(tensors(x=x), outputs=True, overlap=overlap)
        held = time.monotonic()
        while time.monotonic() < held + 1:
            pass  # what the caller computes meanwhile is no local code
        np.testing.assert_array_equal(arrays_of(run.finish())["y"], [2, 4])
        return run

    begin = time.monotonic()
    run, missing = session.region("f", call)
    taken = time.monotonic() - begin
    assert missing is None
    (profile,) = profiles(session)
    assert profile["runs"] == 1 and profile["local_ns"] <= 1e9 * (taken - 1)
    assert profile["segments"][1]["results"][0]["times"]["count"] == 2
    with pytest.raises(_native.Error, match="finished already"):
        run.finish()
    run.cancel()


def test_a_region_that_cannot_begin(session):
    """What is called isn't recorded, and goes on."""
    assert session.region("", lambda: 7) == (7, "a region's name has 1 to 1024 bytes, not 0")
    assert session.region("f", lambda: session.region("g", lambda: 7))[0][0] == 7
    assert [(p["function"], p["runs"]) for p in profiles(session)] == [("f", 1)]
    with pytest.raises(ZeroDivisionError):
        session.region("", lambda: 1 / 0)


def test_a_region_cannot_end_before_its_run(session):
    graph = session.load("double", [double_form()])
    x = floats(1)
    run, missing = session.region("f", lambda: graph.start(tensors(x=x), overlap=True))
    assert missing == "region 'f' is not recorded: a run of a graph isn't finished"
    assert run.finish() is None
    assert profiles(session) == []


@pytest.mark.parametrize("overlap", [False, True])
def test_a_cancelled_run_is_not_recorded(session, overlap):
    graph = session.load("double", [double_form()])
    x = floats(1)

    def drop():
        graph.start(tensors(x=x), overlap=overlap)

    def cancel():
        graph.start(tensors(x=x), overlap=overlap).cancel()

    for call in (drop, cancel):
        assert session.region("f", call) == \
            (None, "region 'f' is not recorded: a run of a graph was cancelled")
    assert session.region("f", graph.run, (tensors(x=x),)) == (None, None)
    assert [p["runs"] for p in profiles(session)] == [1]


def test_one_overlapping_run_per_thread(session):
    graph = session.load("double", [double_form()])
    x = floats(1)
    run = graph.start(tensors(x=x), overlap=True)
    for call in (lambda: graph.run(tensors(x=x)), lambda: session.load("b", [double_form()]),
                 session.profile):
        with pytest.raises(_native.Error, match="a run that this thread started isn't finished"):
            call()
    run.finish()
    graph.run(tensors(x=x))


def test_outputs_must_be_asked_for_at_the_start(session):
    graph = session.load("double", [double_form()])
    x = floats(1)
    assert graph.start(tensors(x=x)).finish() is None
    with pytest.raises(_native.Error, match="no backend 'local/other'"):
        graph.start(tensors(x=x)).finish("local/other")


def test_inputs_live_as_long_as_the_run(session):
    graph = session.load("double", [double_form()])
    given = tuple(tensors(x=floats(1)))
    before = sys.getrefcount(given)
    run = graph.start(given)
    assert sys.getrefcount(given) == before + 1
    run.cancel()
    assert sys.getrefcount(given) == before


def test_graphs_that_run_locally_are_listed(session):
    graph = session.local_graph("loop", "the exporter has no such operator")
    assert graph.failures == [graph.local_reason] == ["the exporter has no such operator"]

    def call():
        with pytest.raises(_native.Error, match="no such operator"):
            graph.run([])

    session.region("f", call)
    said = " ".join(session.profile().report().split())
    assert re.search(r"Graph #1 ran locally instead of on .*: the exporter has no such operator", said)


def test_reports(session, tmp_path):
    graph = session.load("double", [double_form()])
    x = floats(1)

    def predict(x, *, twice):
        session.region_compiled()
        graph.run(tensors(x=x))
        assert twice

    session.region("predict", predict, (x,), {"twice": True})
    profile = session.profile()
    assert "`predict[1/1]`" in profile.report()
    assert "Uncompiled" in profile.report(layout="classic", verbose=True)
    assert profile.report(format="json") == profile.json()
    assert json.loads(profile.json())["profiles"][0]["compiled"] is True
    profile.save(tmp_path / "p.json")
    assert (tmp_path / "p.json").read_text() == profile.json()
    for arguments in ({"format": "pdf"}, {"layout": "none"}):
        with pytest.raises(ValueError):
            profile.report(**arguments)


def test_strict_fails_at_once(open_session):
    session = open_session(strict=True)
    with pytest.raises(_native.Error, match="onnxrt-cpu"):
        session.load("junk", [(1, [("model.onnx", b"no model", None)], [], [], None)])
    session.local_graph("fine", "wanted so")


# ---- Threads ----

def test_threads_have_their_own_regions(session):
    graph = session.load("double", [double_form()])
    failures = []

    def work(name, value):
        try:
            for _ in range(5):
                x = floats(value)
                outputs, missing = session.region(
                    name, lambda given: graph.start(given, outputs=True, overlap=True).finish(), (tensors(x=x),))
                assert arrays_of(outputs)["y"] == [2 * value] and missing is None
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(f"f{i}", i)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted((p["function"], p["runs"]) for p in profiles(session)) == \
        [(f"f{i}", 5) for i in range(4)]


def test_loading_in_another_thread_while_this_one_computes(session):
    """So weights go up in parallel with the local run."""
    def call():
        loaded = []
        thread = threading.Thread(target=lambda: loaded.append(session.load("d", [double_form()])))
        thread.start()
        thread.join()
        x = floats(3)
        loaded[0].run(tensors(x=x))

    session.region("f", call)
    (profile,) = profiles(session)
    assert profile["runs"] == 1 and not profile["compiled"]  # unless the caller says so


def test_closing_ends_what_waits(server, session):
    """A second session waits for the hardware; the first one's runs end when it is closed."""
    other = {}
    queued = threading.Event()

    def wait():
        other["session"] = _native.Session([ORT], server=server, notice=lambda n: queued.set())

    thread = threading.Thread(target=wait)
    thread.start()
    assert queued.wait(60)
    graph = session.load("double", [double_form()])
    x = floats(1)
    run = graph.start(tensors(x=x), overlap=True)
    session.close()
    session.close()
    assert session.closed
    for call in (run.finish, lambda: graph.run(tensors(x=x)), session.profile,
                 lambda: session.region("f", refuse), lambda: session.backends):
        with pytest.raises(_native.Error, match="the session is closed"):
            call()
    thread.join()
    assert other["session"].backends == [ORT]
    other["session"].close()


# ---- Signals ----

@pytest.fixture
def interrupt():
    """Sends Ctrl-C to this process once the event is set."""
    event = threading.Event()
    over = threading.Event()

    def send():
        event.wait()
        if not over.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    yield event
    if not event.is_set():
        over.set()
        event.set()
    thread.join()


def test_ctrl_c_while_queued(server, session, interrupt):
    told = []

    def notice(n):
        told.append(n)
        interrupt.set()

    with pytest.raises(KeyboardInterrupt):
        _native.Session([ORT], server=server, notice=notice)
    assert told[0]["kind"] == "queued" and told[0]["hardware"] == "local"
    assert told[0]["place"] == 1 and len(told[0]["holders"]) == 1
    session.close()
    # It left the queue: the hardware is free.
    eventually(lambda: _native.list_backends(server)[0][0]["free_hosts"] == 1, "free hardware")


def test_ctrl_c_in_a_run(open_session, interrupt):
    session = open_session(warmups=1_000_000)
    graph = session.load("double", [double_form()])
    x = np.ones(1 << 16, np.float32)

    def call():
        run = graph.start(tensors(x=x), overlap=True)
        interrupt.set()
        with pytest.raises(KeyboardInterrupt):
            run.finish()

    assert "it was interrupted" in session.region("f", call)[1]


def test_a_session_outlives_an_interrupt(server, session, interrupt):
    graph = session.load("double", [double_form()])
    interrupt.set()
    x = floats(4)
    with pytest.raises(KeyboardInterrupt):
        while True:
            graph.run(tensors(x=x))
    assert arrays_of(graph.run(tensors(x=x), outputs=True))["y"] == [8]


def test_what_a_notice_raises(open_session):
    def notice(_):
        raise LookupError("enough")

    session = open_session(notice=notice)
    with pytest.raises(LookupError, match="enough"):
        session.load("double", [weighted_form(np.random.default_rng().random(9).astype("f4"))])


def test_a_notice_cannot_close_its_session(open_session):
    failures = []

    def notice(_):
        try:
            session.close()
        except _native.Error as failure:
            failures.append(str(failure))

    session = open_session(notice=notice)
    session.load("double", [double_form()])
    assert set(failures) == {"a notice can't close the session that it is from"}


# ---- What goes wrong outside ----

def test_the_server_goes_away(tmp_path):
    with serving(tmp_path) as service:
        session = _native.Session([ORT], server=service.address, repeats=3)
        graph = session.load("double", [double_form()])
        os.killpg(service.pid, signal.SIGKILL)
        service.wait()
        x = floats(1)

        def call(overlap):
            run = graph.start(tensors(x=x), overlap=overlap)
            with pytest.raises(_native.Error) as failed:
                run.finish()
            assert failed.value.code == _native.EUNAVAILABLE

        for overlap in (False, True):
            session.region("f", call, (overlap,))
        (profile,) = profiles(session)
        assert profile["segments"][1]["results"][0]["failed"] == 6
        session.close()


def test_a_fork_has_no_session(server, session):
    graph = session.load("double", [double_form()])
    x = floats(1)
    run = graph.start(tensors(x=x))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = [str(session.closed)]
        for call in (session.profile, run.finish, lambda: session.region("f", refuse),
                     lambda: _native.ping(server)):
            try:
                call()
                said.append("nothing")
            except _native.Error as failure:
                said.append(str(failure))
        session.close()
        del run, graph
        os.write(write, "\n".join(said).encode())
        os._exit(0)
    os.close(write)
    assert os.waitpid(child, 0)[1] == 0
    with os.fdopen(read) as pipe:
        said = pipe.read().splitlines()
    assert said[0] == "True" and said[1:4] == \
        ["the session belongs to the process that forked this one"] * 3
    assert said[4].startswith("this process was forked from one that talked to a prony service")
    assert run.finish() is None  # the parent's goes on
    assert session.backends == [ORT]


def test_a_session_that_nobody_closes(server):
    """It is closed with its last reference, and a program can end in the middle of one."""
    session = _native.Session([ORT], server=server)
    graph = session.load("double", [double_form()])
    del session
    x = floats(2)
    assert arrays_of(graph.run(tensors(x=x), outputs=True))["y"] == [4]
    del graph
    gc.collect()
    eventually(lambda: _native.list_backends(server)[0][0]["free_hosts"] == 1, "free hardware")
    run_python("import sys; from prony import _native\n"
               "kept = _native.Session(['local/onnxrt-cpu'], server=sys.argv[1])", server)
    eventually(lambda: _native.list_backends(server)[0][0]["free_hosts"] == 1, "free hardware")
