"""Names, arguments and reports of the front end."""
import ast
import contextlib
import copy
import dataclasses
import fcntl
import importlib
import inspect
import io
import json
import os
import pathlib
import pickle
import pty
import struct
import subprocess
import sys
import sysconfig
import termios
import types
import typing

import octoml_profile
import prony
import pytest
import torch
from front import EAGER, ONNXRT, cache
from IPython.display import DisplayHandle
from prony import BackendSpec, _native, _progress, accelerate
from prony._weights import Hashes
from prony.report import Report
from python_parts import run_python
from torch import nn


# ---- Backends ----

@pytest.mark.parametrize("text, canonical", [
    ("r6i.large/onnxrt-cpu", "r6i.large/onnxrt-cpu"),
    (" g5.xlarge/torch-eager-cuda[ fp16 , threads = 2 ] ", "g5.xlarge/torch-eager-cuda[fp16,threads=2]"),
    ("a/b[]", "a/b"),
])
def test_backend_specs(text, canonical):
    assert str(BackendSpec.parse(text)) == canonical


def test_backend_specs_are_equal_as_maps():
    one, other = BackendSpec.parse("a/b[x,y=1]"), BackendSpec.parse("a/b[y=1,x]")
    assert one == other and hash(one) == hash(other) and str(one) != str(other)
    assert one != BackendSpec.parse("a/b[x]")
    assert one.backend_options == {"x": "", "y": "1"}


@pytest.mark.parametrize("text", ["onnxrt-cpu", "a/b]", "a/b[x=1=2]", "a/b[x", "/b", "a/", ""])
def test_bad_backend_specs(text):
    with pytest.raises(ValueError, match="is not a backend"):
        BackendSpec.parse(text)


def test_listing_needs_no_session(session):
    """Also while somebody holds the hardware."""
    names = [str(spec) for spec in prony.get_supported_backends()]
    assert {ONNXRT, EAGER} <= set(names)
    assert prony.get_default_backends()
    printed = io.StringIO()
    session.print_supported_backends(printed)
    assert printed.getvalue().split() == names


# ---- Names ----

def published(module):
    """The source of a module of octoml-profile 0.2.2, which is installed but not what is imported."""
    folder = pathlib.Path(sysconfig.get_path("purelib"), "octoml_profile")
    assert not folder.samefile(pathlib.Path(octoml_profile.__file__).parent)
    return ast.parse((folder / f"{module}.py").read_text())


def test_the_old_names():
    [names] = [ast.literal_eval(node.value) for node in published("__init__").body
               if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"]
    assert len(names) == 10 and set(names) < set(octoml_profile.__all__)
    for name in set(octoml_profile.__all__) - {"errors", "report"}:
        assert getattr(octoml_profile, name) is getattr(prony, name)


def test_the_old_errors():
    for name in [node.name for node in published("errors").body if isinstance(node, ast.ClassDef)]:
        error = getattr(importlib.import_module("octoml_profile.errors"), name)
        assert error is getattr(prony, name) and issubclass(error, prony.OctomlProfileError)


def test_the_old_report():
    """Programs read its fields, and name its types."""
    module = importlib.import_module("octoml_profile.report")
    known = {node.name: [field.target.id for field in node.body if isinstance(field, ast.AnnAssign)]
             for node in published("report").body if isinstance(node, ast.ClassDef)}
    for name in ("PerBackendResult", "Segment", "PerBackendError", "TotalPerBackendResult"):
        fields = [field.name for field in dataclasses.fields(getattr(module, name))]
        assert fields[:len(known[name])] == known[name]
    assert module.ProfileReport is Report
    assert set(known["Profile"]) <= {f.name for f in dataclasses.fields(module.Profile)}
    assert known["GraphResult"] == [f.name for f in dataclasses.fields(module.GraphResult)]


@pytest.mark.parametrize("name", ["remote_profile", "remote_inference",
                                  "RemoteInferenceSession", "get_supported_backends",
                                  "get_default_backends"])
def test_the_old_arguments(name):
    """Each in its place; ours come after."""
    [node] = [node for module in ("dynamo", "client") for node in published(module).body
              if getattr(node, "name", None) == name]
    if isinstance(node, ast.ClassDef):
        [node] = [n for n in node.body if getattr(n, "name", None) == "__init__"]
        node.args.args.pop(0)
    ours = inspect.signature(getattr(octoml_profile, name)).parameters
    for kind, arguments in ((inspect.Parameter.POSITIONAL_OR_KEYWORD, node.args.args),
                            (inspect.Parameter.KEYWORD_ONLY, node.args.kwonlyargs)):
        mine = [p.name for p in ours.values() if p.kind == kind]
        assert mine[:len(arguments)] == [argument.arg for argument in arguments]


# ---- accelerate ----

def test_importing_brings_torch_alone():
    """Dynamo and the exporters take longer than torch itself, so they wait until they are needed."""
    done = run_python("""
import sys
import torch
before = set(sys.modules)
import prony
prony.accelerate(torch.nn.Linear(2, 2))
@prony.accelerate(dynamic=True)
def double(x):
    return x + x
print(sorted({name.partition(".")[0] for name in set(sys.modules) - before} -
             set(sys.stdlib_module_names)))
print([name for name in ("torch._dynamo", "torch._inductor", "onnx", "sympy") if name in sys.modules])
""")
    assert done.splitlines() == ["['prony']", "[]"]


def test_what_cannot_be_accelerated():
    with pytest.raises(ValueError, match="no local backend 'fast'; there are: .*inductor"):
        accelerate(local_backend="fast")(lambda x: x)
    with pytest.raises(ValueError, match="accelerated already"):
        accelerate(accelerate(lambda x: x))
    with pytest.raises(ValueError, match="compiled already"):
        accelerate(torch.compile(lambda x: x))
    with pytest.raises(ValueError, match="compiled already"):
        accelerate(torch.compile(nn.Linear(1, 1)))
    with pytest.raises(ValueError, match="accelerated already"):
        accelerate(accelerate(nn.Linear(1, 1)))
    with pytest.raises(ValueError, match="TorchScript"):
        accelerate(torch.jit.script(nn.Linear(1, 1)))
    with pytest.raises(TypeError, match="takes a function"):
        accelerate(nn.Linear)
    with pytest.raises(TypeError, match="dynamic: 'yes' is none of True, False and None"):
        accelerate(lambda x: x, dynamic="yes")


def test_a_module_behaves_as_the_original():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    net.label = "mine"
    twin = accelerate(net, local_backend="eager")
    assert isinstance(twin, nn.Sequential) and type(twin).__name__ == "Sequential"
    assert twin.label == "mine" and len(twin) == 2 and twin[0] is net[0]
    assert list(twin.state_dict()) == list(net.state_dict())
    assert twin[0].weight is net[0].weight
    x = torch.randn(2, 3)
    torch.testing.assert_close(twin(x), net(x))
    twin.load_state_dict({name: torch.zeros_like(t) for name, t in net.state_dict().items()})
    assert net(x).abs().sum() == 0
    net.label = "yours"
    twin.extra = 1
    net.eval()
    assert twin.label == "yours" and net.extra == 1 and not twin.training
    twin.train()
    assert net.training and net[0].training
    for copied in (copy.deepcopy(twin), pickle.loads(pickle.dumps(twin))):
        assert type(copied) is nn.Sequential
        torch.testing.assert_close(copied(x), net(x))


def test_a_module_with_a_forward_of_its_own():
    net = nn.Linear(3, 3)
    net.forward = lambda x: x * 7
    twin = accelerate(net, local_backend="eager")
    x = torch.randn(2, 3)
    assert torch.equal(twin(x), x * 7) and torch.equal(net(x), x * 7)
    with pytest.raises(AttributeError):
        _ = net.forward.__wrapped__


def test_outside_of_blocks_it_is_torch_compile():
    graphs = []

    def backend(module, examples):
        graphs.append(module)
        return module.forward

    @accelerate(local_backend=backend, dynamic=True)
    def double(x):
        return x * 2

    for n in (2, 3, 4):
        torch.testing.assert_close(double(torch.ones(n)), torch.full((n,), 2.0))
    assert len(graphs) == 1


def test_what_the_local_backend_cannot_compile_runs_eagerly():
    def backend(module, examples):
        raise RuntimeError("no compiler here")

    @accelerate(local_backend=backend)
    def double(x):
        return x * 2

    with pytest.warns(UserWarning, match="no compiler here"):
        torch.testing.assert_close(double(torch.ones(2)), torch.full((2,), 2.0))


def test_a_capture_that_starts_again_is_no_failure(recwarn):
    """As the compiler asks for when it can't have an open float."""
    @accelerate(dynamic=True, local_backend="aot_eager")
    def scale(x, by):
        return torch.nn.functional.dropout(x, by, False) * by

    for by in (0.5, 0.6, 0.7):
        torch.testing.assert_close(scale(torch.ones(3), by), torch.full((3,), by))
    assert not [w for w in recwarn if "can't compile" in str(w.message)]


class Greeter:
    @accelerate
    def greet(self, x):
        return x + 1

    @accelerate
    @staticmethod
    def wave(x):
        return x - 1


def test_methods_have_the_name_of_their_class(profiling, tmp_path):
    greeter = Greeter()
    outcome = profiling(greeter.greet, *[(torch.ones(2),)] * 2, plain=lambda x: x + 1)
    assert outcome.profile.func_name == "Greeter.greet"
    assert (tmp_path / "report/Greeter.greet_1.profile.txt").exists()
    assert profiling(Greeter.wave, (torch.ones(2),)).profile.func_name == "Greeter.wave"


# ---- Reports ----

@pytest.fixture
def outcome(profiling):
    net = nn.Linear(4, 4).eval()

    @accelerate
    def predict(x):
        y = net(x)
        torch._dynamo.graph_break()
        return y.relu()

    return profiling(predict, *[(torch.randn(2, 4),) for _ in range(3)])


def test_report_formats(outcome, tmp_path):
    report = outcome.report
    data = json.loads(report.to_json())
    assert data["schema"] == "prony.profile/1" and data["language"] == "python"
    assert "<td>local/onnxrt-cpu</td>" in report._repr_html_()
    assert "Local python" in report.text(layout="segments")
    assert "Uncompiled" in report.text(layout="classic")
    assert "p50" in report.text(layout="segments", verbose=True) or \
        report.text(layout="segments", verbose=True) != report.text(layout="segments")
    printed = io.StringIO()
    report.print(file=printed)
    assert printed.getvalue().startswith(report.verdict[:40])
    assert "\nFunction `predict` has 1 profile:" in printed.getvalue()
    report.save(tmp_path / "saved.json")
    shown = subprocess.run([_native.program(), "report", tmp_path / "saved.json"],
                           capture_output=True, text=True)
    assert shown.stdout == report.text()


def test_where_the_first_call_went(profiling):
    """Of a graph that no other test has."""
    outcome = profiling(accelerate(torch.cosh), *[(torch.randn(5, 7, 3),)] * 2, plain=torch.cosh)
    [call] = outcome.report.first_calls
    assert [call.graph_id] == outcome.profile.footprint
    assert call.capture_ms > 0 and call.lower_ms > 0 and call.export_ms > 0
    assert call.upload_ms > 0 and call.all_loaded_ms > 0
    assert call.load_ms.keys() == call.first_run_ms.keys() == {ONNXRT, EAGER}
    assert all(ms > 0 for ms in (*call.load_ms.values(), *call.first_run_ms.values()))
    assert f"First call of Graph #{call.graph_id}: capture " in outcome.report.text(verbose=True)
    assert "First call of" not in outcome.report.text()


def test_report_as_dataframe(outcome):
    import pandas

    table = outcome.report.to_dataframe()
    assert isinstance(table, pandas.DataFrame) and len(table) == 3 + 2 * 2
    assert set(table["backend"]) == {"Uncompiled", ONNXRT, EAGER}


def test_graph_dump_points_at_the_users_lines(outcome, tmp_path):
    text = (tmp_path / "report/predict_1.graph_dump.txt").read_text()
    assert f"{__file__}:" in text and "y = net(x)" in text and "return y.relu()" in text
    assert "ends because the graph breaks: " in text
    assert "ends because the function returns" in text
    assert "opcode" in text and "call_function" in text and "linear" in text
    assert str(tmp_path / "report/predict_1.profile.txt") in outcome.printed


def test_nothing_recorded(session):
    printed = io.StringIO()
    with prony.remote_profile(session, print_results_to=printed) as handle:
        pass
    assert handle.report().profiles == [] and printed.getvalue()


def test_reports_during_and_after(session):
    @accelerate
    def double(x):
        return x * 2

    with prony.remote_profile(session, num_repeats=3, print_results_to=None) as handle:
        double(torch.ones(2))
        assert handle.report().profiles[0].compilation_occurred
        double(torch.ones(2))
    profile = handle.report().profiles[0]
    assert not profile.compilation_occurred and profile.num_repeats == 3
    with prony.remote_profile(session, num_repeats=1, print_results_to=None) as other:
        double(torch.ones(2))
        double(torch.ones(2))
    again = other.report().profiles[0]
    assert again.footprint == profile.footprint, "it was loaded a second time"
    assert (again.num_runs, again.num_repeats) == (1, 1)
    assert handle.report().profiles[0] is profile


def test_hostile_names_are_escaped():
    data = {"results": [], "notes": ["<b>"], "profiles": []}
    assert "<b>" not in Report(data)._repr_html_()


# ---- Weights ----

def test_weights_are_hashed_once():
    hashes = Hashes()
    weight = torch.randn(100, 10)
    first = hashes.file(weight)
    assert hashes.file(weight).sha256 == first.sha256 and hashes.hashed_bytes == 4000
    assert first.address == weight.data_ptr()
    weight += 1
    assert hashes.file(weight).sha256 != first.sha256 and hashes.hashed_bytes == 8000
    turned = hashes.file(weight.t())
    assert turned.sha256 == hashes.file(weight.t().contiguous()).sha256


def test_weights_are_sent_once(session):
    """Neither per call, nor per graph, nor per format: a megabyte of them makes a megabyte of uploads."""
    net = nn.Linear(500, 500).eval()

    @accelerate
    def twice(x):
        y = net(x)
        torch._dynamo.graph_break()
        return net(y * 2)

    before = cache(session)
    with prony.remote_profile(session, num_repeats=1, print_results_to=None) as handle:
        for _ in range(3):
            twice(torch.randn(1, 500))
    after = cache(session)
    assert len(handle.report().profiles[0].footprint) == 2
    sent = after["bytes"] - before["bytes"]
    assert 1_002_000 < sent < 1_050_000, sent
    assert after["misses"] - before["misses"] == 2 + 2 * 2  # weights, and each graph in two formats


# ---- Progress ----

def test_progress_lines():
    assert _progress.describe({"kind": "uploading", "file": "weights/0", "done_bytes": 1 << 20,
                               "total_bytes": 4 << 20}) == \
        "uploading weights/0 [######..................] 1 MiB of 4 MiB"
    assert _progress.describe({"kind": "queued", "hardware": "r6i.large", "place": 2,
                               "waited_s": 3.4, "holders": ["a1b2"]}) == \
        "waiting for r6i.large: place 2 in the queue, held by a1b2, 3 s so far"


def uploading(file, done, total):
    return {"kind": "uploading", "file": file, "done_bytes": done, "total_bytes": total}


def queued(place, waited_s=0.0, holder="a1b2"):
    return {"kind": "queued", "hardware": "x", "place": place, "waited_s": waited_s,
            "holders": [holder]}


class Terminal:
    """The one that standard error is on, whose lines have 60 places; and the clock."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        self.main, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, 60, 0, 0))
        self.file = os.fdopen(terminal, "w")
        # Not sys.stderr itself, which is pytest's.
        monkeypatch.setattr(_progress, "sys",
                            types.SimpleNamespace(stderr=self.file, modules=sys.modules))
        monkeypatch.setattr(_progress, "time", types.SimpleNamespace(monotonic=lambda: self.now))
        self.progress = _progress.Progress()

    def tell(self, *notices, after=0.0):
        """What these notices, one after the other, write."""
        for notice in notices:
            self.now += after
            self.progress(notice)
        return self.written()

    def written(self):
        os.write(self.file.fileno(), b"\0")
        data = b""
        while not data.endswith(b"\0"):
            data += os.read(self.main, 1000)
        return [line.rstrip(" ") for line in data[:-1].decode().split("\r") if line]

    def close(self):
        os.close(self.main)
        self.file.close()


@pytest.fixture
def terminal(monkeypatch):
    terminal = Terminal(monkeypatch)
    yield terminal
    terminal.close()


MIB = 1 << 20


def test_a_large_upload_is_shown_at_once(terminal):
    """Also right behind one that is too small to be, and before a byte of it has gone."""
    small = [uploading("model.onnx", done, 900) for done in (0, 900)]
    assert terminal.tell(*small, uploading("weights/0", 0, 8 * MIB)) == [
        "uploading weights/0 [........................] 0 B of 8 MiB"]
    assert terminal.tell(uploading("weights/0", MIB, 8 * MIB), after=0.05) == []
    assert terminal.tell(uploading("weights/0", 2 * MIB, 8 * MIB), after=0.06) == [
        "uploading weights/0 [######..................] 2 MiB of 8 M"]
    assert terminal.tell(uploading("weights/0", 8 * MIB, 8 * MIB)) == ["uploaded weights/0, 8 MiB"]
    terminal.progress.clear()
    assert terminal.written() == [""]


def test_what_is_done_at_once_is_not_shown(terminal):
    """Small files, and files that the server has; unless there are so many that it takes a while."""
    def small(i):
        return [uploading(f"weights/{i}", done, 900) for done in (0, 900)]

    for i in range(10):
        assert terminal.tell(*small(i), uploading("weights/x", 8 * MIB, 8 * MIB), after=0.003) == []
    terminal.progress.clear()
    lines = terminal.tell(*(notice for i in range(40) for notice in small(i)), after=0.015)
    assert lines[:2] == ["uploading weights/4 [........................] 0 B of 900 B",
                         "uploaded weights/4, 900 B"]
    assert len(lines) == 2 * 9, "ten a second, and the end of each"
    terminal.progress.clear()
    assert terminal.written() == [""]


def test_loading_is_shown_at_once(terminal):
    loading = {"kind": "loading", "graph": "f a.py:7", "backends": [ONNXRT, EAGER]}
    line = "loading f a.py:7 on local/onnxrt-cpu, local/torch-eager-cpu"
    assert terminal.tell(loading, loading) == [line, line]
    small = [uploading("model.onnx", done, 900) for done in (0, 900)]
    assert terminal.tell(*small) == [], "it stays"
    terminal.progress.clear()
    assert terminal.written() == [""]
    running = {"kind": "running", "graph": "Graph #1 of f", "backends": [ONNXRT]}
    assert terminal.tell({"kind": "compiling", "function": "f"}, running) == [
        "compiling f", "running Graph #1 of f on local/onnxrt-cpu"]


def test_waiting_is_shown_in_one_line(terminal):
    assert terminal.tell(queued(2, holder="\x1b[2J" * 20)) == [
        "waiting for x: place 2 in the queue, held by ?[2J?[2J?[2J?["]
    assert terminal.tell(queued(1), after=0.05) == []
    assert terminal.tell(queued(1, 7.0), after=0.06) == [
        "waiting for x: place 1 in the queue, held by a1b2, 7 s so f"]


def test_a_line_is_taken_away_when_it_was_interrupted(terminal, monkeypatch):
    """Ctrl-C comes when it can be seen, and before that is known."""
    def interrupt():
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(terminal.file, "flush", interrupt)
        terminal.tell({"kind": "compiling", "function": "f"})
    terminal.progress.clear()
    assert terminal.written() == ["compiling f", ""]


def test_a_display_is_cleared_when_it_was_interrupted(monkeypatch):
    shown = []

    def display(handle, text):
        shown.append(text.data)
        raise KeyboardInterrupt

    monkeypatch.setattr(_progress, "_notebook_cell", lambda: 1)
    monkeypatch.setattr(DisplayHandle, "display", display)
    monkeypatch.setattr(DisplayHandle, "update", lambda handle, text: shown.append(text.data))
    progress = _progress.Progress()
    with pytest.raises(KeyboardInterrupt):
        progress({"kind": "compiling", "function": "f"})
    progress.clear()
    assert shown == ["compiling f", ""]


def test_a_log_hears_of_long_waits_once(capsys):
    progress = _progress.Progress()
    for notice in (queued(2, 4.0), queued(2, 5.5), queued(1, 7.0)):
        progress(notice)
    progress.clear()
    assert capsys.readouterr() == ("", "prony: waiting for x: place 2 in the queue, held by a1b2, "
                                       "6 s so far\n")


def test_progress_is_for_terminals(capsys):
    progress = _progress.Progress()
    progress(queued(1))
    progress(uploading("weights/0", 0, 8 * MIB))
    progress.clear()
    assert capsys.readouterr() == ("", "")


def test_type_hints_are_shipped():
    code = "import importlib.resources as r; assert r.files('prony').joinpath('py.typed').is_file()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_type_hints_say_what_a_block_gives():
    """Editors complete `handle.` and `session.` from them."""
    def returned(function):
        return typing.get_type_hints(function)["return"]

    assert returned(prony.remote_profile) == contextlib.AbstractContextManager[prony.ProfileHandle]
    assert returned(prony.ProfileHandle.report) is Report
    if sys.version_info >= (3, 11):  # before, only type checkers know Self
        assert returned(prony.RemoteInferenceSession.__enter__) is typing.Self


def test_old_pytorch():
    """In a process of its own, which believes to have an older one."""
    program = ("import torch; torch.__version__ = torch.torch_version.TorchVersion('2.7.1+cpu')\n"
               "import prony; prony.remote_profile")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "ImportError: prony needs PyTorch 2.8 or later, and this is 2.7.1+cpu" in done.stderr
