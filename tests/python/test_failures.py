"""What goes wrong: in capturing, exporting, loading and running, in the user's code, with the server,
with threads and processes. Under remote_profile the user's function never notices."""
import json
import os
import re
import subprocess
import sys
import threading

import prony
import pytest
import torch
from front import EAGER, ONNXRT, OPENVINO, AnyGraphs, cache
from prony import _native, accelerate, remote_inference, remote_profile
from python_parts import PATIENCE, serving
from torch import nn


@accelerate
def plain(x):
    return torch.relu(x) + 1


def test_an_exception_of_the_function_is_its_own(session):
    class Own(Exception):
        pass

    fail = False

    @torch.compiler.disable
    def check():
        if fail:
            raise Own("mine")

    @accelerate
    def fails(x):
        y = torch.relu(x)
        check()
        return y + 1

    x = torch.randn(3)
    with remote_profile(session, print_results_to=None) as handle:
        for fail in (False, False, True, False):
            if fail:
                with pytest.raises(Own, match="mine"):
                    fails(x)
            else:
                torch.testing.assert_close(fails(x), torch.relu(x) + 1)
    [profile] = handle.report().profiles
    assert profile.num_runs == 2, "the call that raised is not recorded"
    assert prony._context.current() is None


def test_an_exception_that_the_function_catches(session):
    """The graph that raised has no result, so the call isn't recorded; the function returns its own."""
    def look_up(table, i):
        return torch.nn.functional.embedding(i, table)

    @torch._dynamo.disable(recursive=False)
    def careful(table, i):
        try:
            return look_up(table, i)
        except IndexError:
            return table[:1]

    @accelerate
    def first_or(table, i):
        return torch.relu(careful(table, i)) + 1

    table = torch.randn(4, 3)
    with remote_profile(session, print_results_to=None) as handle:
        for i in (0, 1, 9, 2):
            torch.testing.assert_close(first_or(table, torch.tensor([i])),
                                       torch.relu(table[[i % 9]]) + 1)
    report = handle.report()
    assert [profile.num_runs for profile in report.profiles] == [2]
    assert report.runtime_errors == \
        ["region 'first_or' is not recorded: a run of a graph was cancelled"]


def test_an_operator_that_onnx_lacks_fails_there_alone(profiling):
    @accelerate
    def odd(x):
        return torch.special.i1e(x) + torch.relu(x)

    outcome = profiling(odd, *[(torch.randn(4),) for _ in range(3)])
    profile = outcome.profile
    totals = profile.total_per_backend
    assert totals[EAGER].estimated_total_ms and not totals[EAGER].errors
    assert totals[ONNXRT].estimated_total_ms is None
    [error] = totals[ONNXRT].errors
    assert any("ONNX" in message for message in error.error_messages_to_count)
    assert f"ran locally instead of on {ONNXRT} (" in outcome.printed
    assert outcome.printed.count("it can't be exported to ONNX: No") == 1, outcome.printed


def test_what_did_not_run_there_counts_as_local_time(profiling):
    """A small graph that one backend can't take, between others that it can."""
    weight = nn.Parameter(torch.randn(8, 8))

    @accelerate
    def mixed(x):
        y = x @ weight
        torch._dynamo.graph_break()
        z = torch.special.i1e(y[0])
        torch._dynamo.graph_break()
        return y + z

    outcome = profiling(mixed, *[(torch.randn(8, 8),) for _ in range(8)])
    profile = outcome.profile
    refused = profile.footprint[1]
    there, everywhere = profile.total_per_backend[ONNXRT], profile.total_per_backend[EAGER]
    assert "PARTIAL" in there.flags and "PARTIAL" not in everywhere.flags
    assert there.local_graphs_ms > 0 == everywhere.local_graphs_ms
    for total in (there, everywhere):
        assert total.estimated_total_ms == pytest.approx(
            total.backend_ms + total.local_graphs_ms + profile.total_uncompiled_ms)
        assert 0 < total.low_ms <= total.median_total_ms <= total.high_ms
        assert 0 < total.median_backend_ms < total.median_total_ms
    text = " ".join(outcome.printed.split())
    [(graph, share)] = re.findall(rf"Graph #(\d+) ran locally instead of on {ONNXRT} "
                                  r"\([\d.]+ ms, ([\d.]+) % of a call\): it can't be exported", text)
    assert int(graph) == refused and 0 < float(share) < 100
    assert "Problem" not in text and "N/A N/A" not in text


def test_types_that_a_runtime_has_not_got(profiling, sessions):
    """Said in words, and before anything goes up."""
    half, double = nn.Linear(4, 4).bfloat16(), nn.Linear(4, 4).double()

    @accelerate
    def both(x):
        a = half(x.bfloat16())
        torch._dynamo.graph_break()
        b = double(x.double())
        torch._dynamo.graph_break()
        return a + b, torch.view_as_complex(x.float().reshape(-1, 2))

    session = sessions.open(ONNXRT, OPENVINO)
    before = cache(session)["misses"]
    outcome = profiling(both, *[(torch.randn(1, 4),) for _ in range(2)], session=session)
    text = " ".join(outcome.printed.split())
    assert f"instead of on {ONNXRT} (" in text
    assert ("ONNX Runtime doesn't compute in bfloat16 on processors, and 'aten.linear.default' does; "
            "convert the module and its inputs with .float()") in text
    assert "OpenVINO computes in float32 what is float64 in the graph; for all digits use" in text
    assert "tensor type" not in text
    only = sessions.open(ONNXRT)
    before = cache(only)["misses"]
    profiling(accelerate(lambda x: half(x)), (torch.randn(1, 4).bfloat16(),), session=only,
              plain=half)
    assert cache(only)["misses"] == before, "it is sent to nobody"


def test_complex_inputs_are_named(profiling, sessions):
    x = torch.randn(3) + 1j
    outcome = profiling(accelerate(lambda x: x * 2), (x,), (x,), session=sessions.open(ONNXRT),
                        plain=lambda x: x * 2)
    assert "takes no inputs of type complex64" in " ".join(outcome.printed.split())
    assert outcome.printed.count("complex64") == 1, outcome.printed


# ---- What PyTorch keeps and says ----

def test_nothing_of_one_export_reaches_the_next(sessions):
    """What was lowered for a torch backend, in another thread or an earlier block, has fake tensors of
    its own."""
    net = nn.Linear(4, 4)

    @accelerate(local_backend="eager")
    def predict(x):
        return net(x)

    for backend in (EAGER, ONNXRT):
        with remote_profile(sessions.open(backend), print_results_to=None) as handle:
            thread = threading.Thread(target=lambda: predict(torch.randn(2, 4)))
            thread.start()
            for _ in range(2):
                predict(torch.randn(2, 4))
            thread.join()
        report = handle.report()
        assert report.notes == [] and report.compilation_errors == [], (backend, report.notes)
        assert [check.mismatch for check in report.checks] == [False]


def test_compiling_again_and_again_has_a_reason(profiling, capfd):
    @accelerate
    def scaled(x, factor):
        return x * factor

    outcome = profiling(scaled, *[(torch.randn(3), 0.5 + i) for i in range(3)])
    [note] = [note for note in outcome.report.notes if "compiled again" in note]
    assert note.startswith("'scaled' was compiled again in 2 of its calls")
    assert "factor == " in note, note
    assert "return x * factor" in note or torch.__version__ < (2, 9), note  # which doesn't say where
    assert "Run the function once more" not in outcome.printed
    sizes = accelerate(lambda x: x + 1)
    outcome = profiling(sizes, *[(torch.randn(n),) for n in (2, 3, 4)], plain=lambda x: x + 1)
    [note] = [note for note in outcome.report.notes if "compiled again" in note]
    assert "size mismatch" in note and "accelerate(dynamic=True)" in note
    outcome = profiling(accelerate(lambda x: x + 1, dynamic=True), *[(torch.randn(n),) for n in (3, 1, 0)],
                        plain=lambda x: x + 1)
    [note] = [note for note in outcome.report.notes if "compiled again" in note]
    assert "size mismatch" in note and "accelerate(dynamic=True)" not in note, "it is so already"
    assert capfd.readouterr().err == ""


def test_what_dynamo_warns_of_is_in_the_report(profiling, capfd, recwarn):
    @accelerate
    def breaks(x):
        if x.sum().item() > 0:
            x = x + 1
        os.getpid()
        return x[x > 0] * 2

    outcome = profiling(breaks, *[(torch.ones(4),) for _ in range(2)])
    assert outcome.profile.footprint
    assert capfd.readouterr().err == ""
    assert not [w for w in recwarn if "dynamo" in w.filename]


def test_a_block_leaves_no_folder(session, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with remote_profile(session):
        plain(torch.randn(3))
    assert list(folder.iterdir()) == []
    assert "With report_folder, segments and graphs are written to files." in capsys.readouterr().out


def test_an_export_that_fails_names_the_operator(profiling, sessions, capfd):
    outcome = profiling(accelerate(torch.linalg.svdvals), *[(torch.randn(3, 3),) for _ in range(2)],
                        session=sessions.open(ONNXRT), plain=torch.linalg.svdvals)
    [error] = outcome.report.compilation_errors
    assert error.startswith("Graph #1 ran locally because local/onnxrt-cpu: it can't be exported to ONNX: "
                            "No ONNX function found for <OpOverload(op='aten._linalg_svd'")
    assert capfd.readouterr().out == "", "exporters print"


def test_outputs_are_compared_with_what_is_computed_here(profiling):
    """The first run of each graph. Which of equal values topk takes isn't the same everywhere."""
    weight = nn.Parameter(torch.randn(8, 8))

    @accelerate
    def predict(x):
        x.add_(1)  # what is overwritten counts as well
        y = torch.nn.functional.scaled_dot_product_attention(x @ weight, x, x)
        torch._dynamo.graph_break()
        z = y.sum() + torch.topk(torch.zeros_like(y).flatten(), 5).indices
        torch._dynamo.graph_break()
        return z + torch.rand(5) * 0

    outcome = profiling(predict, *[(torch.randn(1, 8, 8),) for _ in range(3)],
                        plain=lambda x: predict.__wrapped__(x.clone()))
    report = outcome.report
    attention, ties, draws = outcome.profile.footprint
    assert {(check.graph_id, check.backend) for check in report.checks} == {
        (graph, backend) for graph in (attention, ties) for backend in (ONNXRT, EAGER)}
    [wrong] = report.mismatches
    assert (wrong.graph_id, wrong.backend, wrong.failure) == (ties, ONNXRT, None)
    [output] = wrong.outputs
    assert output.same_shape and output.max_abs > 0
    assert [len(c.outputs) for c in report.checks if c.graph_id == attention] == [2, 2]
    text = " ".join(outcome.printed.split())
    assert f"* MISMATCH Graph #{ties} on {ONNXRT}: outputs differ from those computed locally" in text
    assert f"The outputs of Graph #{draws} weren't compared: 'aten.rand.default' draws random" in text
    data = json.loads(report.to_json())
    assert [result["flags"] for result in data["results"]] == [["MISMATCH"], []]
    assert "MISMATCH" in report._repr_html_()


def test_a_graph_that_every_backend_refuses_is_recorded(profiling, sessions):
    def product(x):
        return x @ x.T

    x = torch.randn(4, 4).bfloat16()  # of which ONNX Runtime multiplies no matrices
    outcome = profiling(accelerate(product), (x,), (x,), (x,), session=sessions.open(ONNXRT),
                        plain=product)
    profile = outcome.profile
    assert profile.footprint == AnyGraphs(1) and profile.num_runs == 2
    assert profile.segments[1].results_per_backend[ONNXRT].num_failures == 4
    assert profile.total_per_backend[ONNXRT].estimated_total_ms is None
    assert "doesn't compute in bfloat16 on processors, and 'aten.matmul.default' does" in \
        " ".join(outcome.printed.split())


def test_sizes_that_nobody_can_export_are_not_frozen(profiling):
    """The older exporter would keep the numbers of the first call, and every other size get a result
    of the wrong shape."""
    def shorten(x):
        return x[:int(round(x.shape[0] / 3, 1))] * 2

    outcome = profiling(accelerate(shorten, dynamic=True), *[(torch.randn(n, 2),) for n in (6, 9, 12)],
                        plain=shorten)
    assert outcome.profile.total_per_backend[EAGER].estimated_total_ms
    [error] = outcome.report.compilation_errors
    assert error.endswith(f"on {ONNXRT}: it can't be exported to ONNX: ONNX has no round() to a number "
                          "of digits")


def test_tensors_without_values(profiling):
    x = torch.randn(2, device="meta")
    outcome = profiling(accelerate(torch.neg), (x,), (x,), plain=torch.neg)
    [error] = outcome.report.compilation_errors
    assert error.endswith("because tensors on the device 'meta' have no values to send")


def test_the_older_exporter_does_what_the_newer_cannot(profiling, sessions, tmp_path):
    """It has an operator for convolutions over time first, and the report says why it was asked."""
    kernel = nn.Parameter(torch.randn(3, 4, 5))
    bias = nn.Parameter(torch.randn(5))

    @accelerate
    def convolve(x):
        return torch.relu(torch.conv_tbc(x, kernel, bias))

    outcome = profiling(convolve, *[(torch.randn(6, 2, 4),) for _ in range(3)])
    [graph] = outcome.check(calls=3, graphs=AnyGraphs(1)).footprint
    [note] = [note for note in outcome.report.notes if "TorchScript" in note]
    assert note.startswith(f"Graph #{graph} was exported to ONNX by way of TorchScript because of this: ")
    assert "No ONNX function found" in note and "aten.conv_tbc" in note
    said = " ".join(outcome.printed.split())
    assert f"Graph #{graph} was exported to ONNX by way of TorchScript" in said
    dump = (tmp_path / "report/convolve_1.graph_dump.txt").read_text()
    assert "note: exported to ONNX by way of TorchScript because No ONNX function found" in dump
    x = torch.randn(6, 2, 4)
    with remote_inference(sessions.open(ONNXRT)):
        torch.testing.assert_close(convolve(x), convolve.__wrapped__(x), rtol=1e-4, atol=1e-5)


def test_a_graph_that_nobody_can_take_is_local(profiling, sessions):
    @torch.library.custom_op("prony_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.numpy() * 2)  # nothing that could be traced

    @twice.register_fake
    def _(x):
        return torch.empty_like(x)

    @accelerate
    def custom(x):
        return twice(x) + 1

    outcome = profiling(custom, *[(torch.randn(4),) for _ in range(3)])
    [graph] = outcome.profile.footprint
    assert f"Graph #{graph} ran locally instead of on {ONNXRT}" in outcome.printed
    assert outcome.report.compilation_errors
    with pytest.raises(prony.LoadModelError, match="can't run on"), \
            remote_inference(sessions.open(ONNXRT)):
        custom(torch.randn(4))


@accelerate
def forgiving(x):
    """Dynamo gives up at the view, which can't be; Python doesn't."""
    try:
        return torch.relu(x).view(7, 7)
    except RuntimeError:
        return torch.relu(x) + 5


def test_what_dynamo_cannot_capture_is_local(profiling, capfd):
    outcome = profiling(forgiving, *[(torch.randn(4),) for _ in range(3)])
    [error] = outcome.report.compilation_errors
    line = forgiving.__wrapped__.__code__.co_firstlineno
    assert error.startswith(f"'forgiving', test_failures.py:{line}, in 'forgiving' isn't a graph but ")
    assert "shape '[7, 7]' is invalid" in error
    assert "Problem: 'forgiving', " in outcome.printed
    assert (outcome.profile.footprint, outcome.profile.num_runs) == ([], 2)
    assert capfd.readouterr().err == "", "PyTorch logs what the report says"


def test_an_error_of_tensors_is_the_functions_own(session):
    """As eager PyTorch words it, and not as one of Dynamo's."""
    @accelerate
    def multiply(x, y):
        return torch.relu(x) @ y

    x, y = torch.ones(3, 4), torch.ones(7, 7)
    with remote_profile(session, print_results_to=None):
        with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied") as raised:
            multiply(x, y)
        assert type(raised.value) is RuntimeError
        torch.testing.assert_close(multiply(x, y[:4]), x @ y[:4])


def test_strict_and_inference_do_not_go_on(session, sessions):
    with remote_profile(session, strict=True, print_results_to=None), \
            pytest.raises(prony.CompilationError, match="'forgiving' can't be captured: .*7, 7"):
        forgiving(torch.randn(4))
    with remote_inference(sessions.open(ONNXRT)), pytest.raises(RuntimeError, match="7, 7"):
        forgiving(torch.randn(4))


def hidden(x):
    for _ in range(2):  # Dynamo leaves a loop with a break in it to Python
        x = x + 1
        torch._dynamo.graph_break()
    return x


def test_compiling_counts_where_no_graph_comes_of_it(profiling):
    """The first call has Dynamo's time in it."""
    profile = profiling(accelerate(hidden), *[(torch.randn(2),) for _ in range(3)]).profile
    assert (profile.num_runs, profile.num_discarded_runs, profile.footprint) == (2, 1, [])


def test_strict_raises(session):
    @accelerate
    def odd(x):
        return torch.special.i1e(x)

    with remote_profile(session, strict=True, print_results_to=None):
        with pytest.raises(prony.LoadModelError, match="ONNX"):
            odd(torch.randn(4))
        plain(torch.randn(4))


def test_the_switches_of_octoml_profile(session, monkeypatch):
    from octoml_profile import client, dynamo, pricing

    @accelerate
    def odd(x):
        return torch.special.i1e(x)

    def call():
        with dynamo.remote_profile(session, print_results_to=None):
            return odd(torch.ones(4))

    call()
    monkeypatch.setattr(dynamo, "RAISE_ON_RUNTIME_ERROR", True)
    with pytest.raises(RuntimeError, match="failed: .*ONNX"):  # it isn't loaded there, and so can't run
        call()
    monkeypatch.setattr(dynamo, "RAISE_ON_COMPILATION_ERROR", True)
    with pytest.raises(prony.LoadModelError, match="ONNX"):
        call()
    assert client.RemoteInferenceSession is prony.RemoteInferenceSession
    assert pricing.AWS_ON_DEMAND_PER_HOUR["r6i.large"] == 0.126


def test_training_mode(session):
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
    twin = accelerate(net)
    eager = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
    eager.load_state_dict(net.state_dict())
    x = torch.randn(16, 4)
    with remote_profile(session, num_repeats=1, print_results_to=None) as handle:
        for seed in range(3):
            torch.manual_seed(seed)
            got = twin(x)
            torch.manual_seed(seed)
            torch.testing.assert_close(got, eager(x))
    torch.testing.assert_close(net[1].running_mean, eager[1].running_mean)
    report = handle.report()
    assert any("training mode" in note for note in report.notes)
    assert report.profiles[0].num_runs == 2
    assert "Note: " in report.text()


def test_training_mode_is_not_inferred(sessions):
    twin = accelerate(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)))
    with remote_inference(sessions.open(ONNXRT)), \
            pytest.raises(prony.CompilationError, match=r"eval\(\)"):
        twin(torch.randn(2, 4))


# ---- Where values come from ----

def test_inference_is_what_the_backend_computed(sessions):
    """A backend in half precision rounds: a local result can't pass for its own."""
    backend = EAGER + "[bf16]"

    @accelerate
    def third(x):
        return x / 3

    x = torch.linspace(1, 2, 16)
    local = x / 3
    rounded = (x.bfloat16() / 3).float()
    assert not torch.equal(local, rounded)
    with remote_inference(sessions.open(backend)):
        assert torch.equal(third(x), rounded)
    with remote_profile(sessions.open(backend), num_repeats=1, print_results_to=None):
        assert torch.equal(third(x), local)


def test_inference_sees_weights_that_changed(sessions):
    """Written to, given other memory, replaced, replaced by one that was there before, tied."""
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).eval()
    twin = accelerate(net)
    x = torch.randn(2, 4)
    first = net[0].weight

    def in_place():
        net[1].bias.add_(1)

    def other_memory():
        net[1].weight.data = torch.randn(4, 4)

    def another():
        net[0].weight = nn.Parameter(torch.randn(4, 4))

    def the_first_again():
        net[0].weight = first

    def tied():
        net[1].weight = first

    def load():
        net.load_state_dict({name: t + 1 for name, t in net.state_dict().items()})

    with remote_inference(sessions.open(ONNXRT)):
        for change in (lambda: None, in_place, other_memory, another, the_first_again, tied, load):
            change()
            for _ in range(2):
                torch.testing.assert_close(twin(x), net(x), rtol=1e-4, atol=1e-5, msg=repr(change))


def test_inference_sees_how_inputs_lie(sessions):
    """Where they lie is all that is asked of most of them in each call; Dynamo has asked the rest."""
    @accelerate
    def double(x):
        return x * 2

    base = torch.arange(12.0).reshape(3, 4)
    with remote_inference(sessions.open(EAGER)):
        for x in (base, base.t(), base[:, ::2], base[1:], base.expand(2, 3, 4), base[1:].clone(),
                  torch._neg_view(base), base, torch.empty(0, 4), torch.tensor(3.0)):
            assert torch.equal(double(x), x * 2)


def test_inference_refuses_to_overwrite_what_is_shared(sessions):
    """Which a graph that was captured with tensors apart can't know."""
    @accelerate
    def add(x, y):
        x.add_(1)
        return y * 2

    with remote_inference(sessions.open(ONNXRT)):
        x = torch.arange(4.0)
        assert add(x[:2], x[2:]).tolist() == [4, 6] and x.tolist() == [1, 2, 2, 3]
        with pytest.raises(prony.CompilationError, match="shares memory with another"):
            add(x[:2], x[1:3])
        assert x.tolist() == [1, 2, 2, 3]


def test_inference_overwrites_and_shares_as_eager_does(sessions):
    @accelerate
    def function(x, y):
        x.mul_(2)
        return x, (x + y).t(), {"view": y.view(-1), "none": None}, y.shape[0]

    def inputs():
        return torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)

    expected_in, got_in = inputs(), inputs()
    expected = function.__wrapped__(*expected_in)
    with remote_inference(sessions.open(ONNXRT)):
        got = function(*got_in)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(got_in, expected_in)
    assert got[0] is got_in[0] and got[1].stride() == expected[1].stride()
    got[2]["view"][0] = 9
    assert got_in[1][0, 0] == 9


def test_inference_never_runs_locally_unnoticed(sessions):
    def listed(x):
        return sum(x.view(-1).tolist())

    for function, why in ((hidden, "User-inserted graph break"), (listed, ".*`tolist\\(\\)`")):
        with remote_inference(sessions.open(ONNXRT)):
            for _ in range(2):
                with pytest.raises(prony.CompilationError,
                                   match=f"captured no graph in it that computes anything: {why}"):
                    accelerate(function)(torch.randn(2))


def test_a_function_without_graphs_says_why(profiling):
    outcome = profiling(accelerate(hidden), *[(torch.randn(4),) for _ in range(3)], plain=hidden)
    assert outcome.profile.footprint == []
    [note] = [note for note in outcome.report.notes if "'hidden'" in note]
    assert note.startswith("A call of 'hidden' has no graph that a backend could run, because of this: "
                           "User-inserted graph break")
    assert "Note: A call of 'hidden' has no graph" in outcome.printed


def test_a_call_with_graphs_of_an_earlier_one_has_graphs(profiling):
    """What it compiles itself may give none."""
    def either(x, flag):
        y = torch.relu(x)
        torch._dynamo.graph_break()
        return y * 2 if flag else y.tolist()

    outcome = profiling(accelerate(either), *[(torch.ones(2), flag) for flag in (True, True, False, False)],
                        plain=either)
    assert [len(profile.footprint) for profile in outcome.report.profiles] == [2, 1]
    assert outcome.report.notes == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32,
                                   torch.int64, torch.bool])
def test_types_go_there_and_back(sessions, dtype):
    @accelerate
    def select(x, flag: bool, n: int):
        return torch.cat([x, x.flip(0)])[n:] if flag else x

    x = torch.randint(0, 2, (6, 2)).to(dtype)
    with remote_inference(sessions.open(EAGER)):
        torch.testing.assert_close(select(x, True, 3), torch.cat([x, x.flip(0)])[3:])


# ---- On a server ----

def test_a_server_of_others(server):
    """The local computation overlaps the remote run, which has the inputs as they were before it."""

    @accelerate
    def look_up(table, at):
        y = table[at] * 2
        at.add_(100)  # what a backend that saw this would fall over
        return y

    table = torch.randn(5, 3)
    session = prony.RemoteInferenceSession(ONNXRT, server_addr=server, insecure=True)
    with session, remote_profile(session, num_repeats=2, print_results_to=None) as handle:
        for _ in range(3):
            at = torch.tensor([4, 0])
            torch.testing.assert_close(look_up(table, at), table[[4, 0]] * 2)
            assert at.tolist() == [104, 100]
    assert session.closed
    [profile] = handle.report().profiles
    assert (profile.num_runs, handle.report().runtime_errors) == (2, [])
    [check] = handle.report().checks
    assert not check.mismatch and len(check.outputs) == 2
    with remote_inference(backend=ONNXRT, server_addr=server, insecure=True):
        at = torch.tensor([4, 0])
        torch.testing.assert_close(look_up(table, at), table[[4, 0]] * 2)
        assert at.tolist() == [104, 100]


# ---- Misuse ----

def test_blocks_do_not_nest(session):
    with remote_profile(session, print_results_to=None):
        with pytest.raises(prony.OctomlProfileError, match="nest"), remote_profile(session):
            pass
        plain(torch.randn(2))  # the outer one lives


def test_a_block_that_cannot_be_entered_leaves_nothing(session, profiling, monkeypatch):
    """The session can be used again, and PyTorch is as it was."""

    def refuse(_):
        raise RuntimeError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(torch._dynamo.callback, "on_compile_end", refuse)
        with pytest.raises(RuntimeError, match="not now"), remote_profile(session):
            pass
    assert session.user is None and not torch._dynamo.callback.callback_handler.start_callbacks
    with monkeypatch.context() as patch:
        patch.setattr(torch.no_grad, "__enter__", refuse)
        with pytest.raises(RuntimeError, match="not now"), remote_profile(session):
            pass
    assert torch.backends.mha.get_fastpath_enabled() and not torch._dynamo.config.allow_rnn
    profiling(accelerate(torch.relu), (torch.randn(3),))


def test_blocks_with_sessions_of_their_own_do_not_nest(free):
    """The inner one would wait for the outer one's hardware."""
    with remote_profile(backends=ONNXRT, print_results_to=None), \
            pytest.raises(prony.OctomlProfileError, match="nest"), remote_inference(backend=ONNXRT):
        pass


def test_a_session_ends_with_its_block(free):
    """When nobody else has it, and at once: the next one needs the hardware."""
    handles = []
    for _ in range(3):
        with remote_profile(prony.RemoteInferenceSession(ONNXRT), print_results_to=None) as handle:
            plain(torch.ones(2)), plain(torch.ones(2))
        handles.append(handle)
    with remote_inference(prony.RemoteInferenceSession(ONNXRT)):
        plain(torch.ones(2))
    with remote_inference(prony.RemoteInferenceSession(ONNXRT)):
        pass
    assert [handle.report().profiles[0].num_runs for handle in handles] == [1, 1, 1]


def test_nobody_waits_for_their_own_session(free):
    with prony.RemoteInferenceSession(ONNXRT) as session, \
            pytest.raises(prony.CreateSessionError, match=f"a session with {ONNXRT} open"):
        prony.RemoteInferenceSession(EAGER)
    assert session.closed
    prony.RemoteInferenceSession(ONNXRT).close()


def test_a_session_that_is_not_passed(free, tmp_path, capfd):
    """As in octoml-profile's README; and this machine has the price that the program gives it."""
    prices = tmp_path / "prices.yml"
    prices.write_text("- name: local\n  usd_per_hour: 3.6\n")
    with prony.RemoteInferenceSession(ONNXRT, hardware_file=prices) as session:
        with remote_profile(print_results_to=None, num_repeats=2) as handle:
            for _ in range(3):
                plain(torch.randn(3))
        assert not session.closed
    assert f"prony: no session was given, using the one that is open: {ONNXRT}" in capfd.readouterr().err
    [profile] = handle.report().profiles
    total = profile.total_per_backend[ONNXRT]
    assert total.usd_per_million == pytest.approx(total.estimated_total_ms, rel=0.01)
    assert profile.segments[1].results_per_backend[ONNXRT].total_ms() > 0
    assert issubclass(prony.OctomlProfileError, RuntimeError)


def test_session_and_its_arguments(session):
    with pytest.raises(ValueError, match="backends can't be"):
        remote_profile(session, backends=ONNXRT)
    with pytest.raises(TypeError, match="is not a session"):
        remote_profile(ONNXRT)


def test_wrong_arguments(session, tmp_path):
    """Each is named before anything takes time."""
    for backends in (3, [3], [ONNXRT, None]):
        with pytest.raises(TypeError, match="is not a backend: write one such as"):
            prony.RemoteInferenceSession(backends)
    for name, value in (("num_repeats", 2.5), ("num_repeats", "3"), ("num_warmups", None)):
        with pytest.raises(TypeError, match=f"{name}: .* is not a whole number"):
            remote_profile(session, **{name: value})
    for name, value in (("num_repeats", 0), ("num_warmups", -1)):
        with pytest.raises(ValueError, match=f"{name}: {value} is less than"):
            remote_profile(session, **{name: value})
    for value in (10**6, 10**30):
        with pytest.raises(prony.OctomlProfileError), remote_profile(session, num_repeats=value):
            pass
    with pytest.raises(TypeError, match="print_results_to: 'out.txt' is not a file"):
        remote_profile(session, print_results_to="out.txt")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"), remote_profile(session, report_folder=tmp_path / "file"):
        pass
    with remote_profile(session, print_results_to=None) as handle:
        pass
    with pytest.raises(ValueError, match="no layout 'wide'; there are: summary, segments, classic"):
        handle.report().print(layout="wide")


def test_a_session_that_is_closed_inside(free, capsys):
    """What was recorded is still reported; under remote_inference nothing is computed here instead."""
    x = torch.randn(3)
    session = prony.RemoteInferenceSession(ONNXRT)
    with remote_profile(session) as handle:
        plain(x), plain(x)
        session.close()
        session.close()
        torch.testing.assert_close(plain(x), torch.relu(x) + 1)
    [profile] = handle.report().profiles
    assert (profile.num_runs, profile.num_discarded_runs) == (1, 1)
    assert "Problem: the session was closed inside of the block" in capsys.readouterr().out
    with pytest.raises(prony.OctomlProfileError, match="the session is closed"), remote_profile(session):
        pass
    session = prony.RemoteInferenceSession(ONNXRT)
    with remote_inference(session):
        torch.testing.assert_close(plain(x), torch.relu(x) + 1)
        session.close()
        for function in (plain, accelerate(hidden)):
            with pytest.raises(prony.OctomlProfileError, match="the session is closed"):
                function(x)


@pytest.mark.parametrize("backends", [None, [ONNXRT, EAGER]])
def test_inference_takes_one_backend(free, backends):
    for kind in (ValueError, RuntimeError):  # octoml-profile's was the second
        with pytest.raises(kind, match=ONNXRT):
            remote_inference(backend=backends)


def test_backends_that_are_not_there(free):
    with pytest.raises(ValueError, match=f"no 'local/onnx'.*{ONNXRT}"):
        prony.RemoteInferenceSession("local/onnx")
    with pytest.raises(prony.CreateSessionError, match="nonsense"):
        prony.RemoteInferenceSession(ONNXRT + "[nonsense=1]")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("software", ["onnxrt-cuda", "onnxrt-tensorrt", "torch-eager-cuda",
                                      "torch-inductor-cuda"])
def test_hardware_that_is_not_there(free, software):
    """It is said before anything is captured, with what there is."""
    asked = f"no 'local/{software}'; it has: {ONNXRT}, "
    with pytest.raises(ValueError, match=asked), remote_profile(backends=[ONNXRT, f"local/{software}"]):
        pass
    with pytest.raises(ValueError, match=asked), remote_inference(backend=f"local/{software}"):
        pass


def test_an_embedded_service_without_its_worker_is_waited_for(free, monkeypatch):
    """As on a machine under load. How often it has nothing to offer is for the test to say."""
    answers = [([], {}), ([], {})]
    ask = _native.list_backends
    monkeypatch.setattr(_native, "list_backends",
                        lambda **access: answers.pop() if answers else ask(**access))
    prony.RemoteInferenceSession(ONNXRT).close()
    assert not answers


def test_a_server_that_is_not_there():
    with pytest.raises(prony.CreateSessionError, match="127.0.0.1:1"):
        prony.RemoteInferenceSession(ONNXRT, server_addr="127.0.0.1:1", insecure=True)


# ---- Threads and processes ----

def test_each_thread_has_its_own_context(session):
    """A thread that is in no block runs locally; the block of the other one doesn't notice."""
    x = torch.randn(4)
    compiled, results = [], []

    def local_backend(module, examples):
        compiled.append(threading.current_thread())
        return module.forward

    @accelerate(local_backend=local_backend)
    def function(x):
        return torch.relu(x) + 1

    with remote_profile(session, num_repeats=1, print_results_to=None) as handle:
        function(x)
        thread = threading.Thread(target=lambda: results.append(function(x)))
        thread.start()
        thread.join()
        function(x)
    assert compiled == [thread]
    torch.testing.assert_close(results, [torch.relu(x) + 1])
    assert handle.report().profiles[0].num_runs == 1


def test_calls_while_another_thread_exports(profiling, monkeypatch):
    """What FX notes while it traces is the process's, not the thread's."""
    monkeypatch.setattr(torch.fx._symbolic_trace, "_is_fx_tracing_flag", True)
    x = torch.randn(2)
    assert profiling(plain, (x,), (x,), plain=lambda x: torch.relu(x) + 1).report.profiles[0].num_runs == 1
    with pytest.raises(RuntimeError, match="symbolically trace"):  # as it was, outside
        torch.compile(torch.relu, backend="eager")(x)


def test_two_threads_have_a_block_each(tmp_path):
    """Two sessions on two hosts at the same time: each report has its own thread's calls."""
    reports, together = {}, threading.Barrier(2, timeout=PATIENCE)

    def work(name, calls):
        function = accelerate(lambda x: torch.relu(x + calls))
        with prony.remote_profile(backends=ONNXRT, server_addr=service.address, insecure=True,
                                  num_repeats=2, print_results_to=None) as handle:
            together.wait()
            for _ in range(calls):
                torch.testing.assert_close(function(torch.zeros(3)), torch.full((3,), float(calls)))
            together.wait()
        reports[name] = handle.report()

    (tmp_path / "serve.yml").write_text("pools: [{name: local, count: 2}]\n")
    with serving(tmp_path, "--config", tmp_path / "serve.yml") as service:
        threads = [threading.Thread(target=work, args=(f"t{n}", n)) for n in (2, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for n in (2, 5):
        [profile] = reports[f"t{n}"].profiles
        assert (profile.num_runs, profile.num_discarded_runs) == (n - 1, 1)


def test_a_forked_child_is_outside(session):
    x = torch.randn(4)
    with remote_profile(session, num_repeats=1, print_results_to=None) as handle:
        plain(x)
        child = os.fork()
        if child == 0:
            try:
                outside = prony._context.current() is None and session.closed
            finally:
                os._exit(0 if outside else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        plain(x)
    assert handle.report().profiles[0].num_runs == 1


def test_one_accelerated_function_in_another(profiling):
    @accelerate
    def outer(x):
        y = plain(x)
        torch._dynamo.graph_break()
        return plain(y) * 2

    outcome = profiling(outer, *[(torch.randn(4),) for _ in range(3)],
                        plain=lambda x: plain.__wrapped__(plain.__wrapped__(x)) * 2)
    assert outcome.profile.func_name.endswith("outer")
    assert len(outcome.profile.footprint) == 2


PROGRAM = """
import os, signal, sys, torch, prony

@prony.accelerate
def predict(x):
    return torch.relu(x) + 1

x = torch.randn(4)
with prony.remote_profile(backends="local/onnxrt-cpu", num_repeats=1) as handle:
    predict(x), predict(x)
    {what}
"""


def run(what, **options):
    return subprocess.run([sys.executable, "-c", PROGRAM.format(what=what)], capture_output=True,
                          text=True, timeout=PATIENCE, **options)


def test_the_server_goes_away():
    """The function goes on with local results; the report has what was recorded before, and says what
    happened."""
    done = run("""
    from prony import _service
    _service._running._process.kill()
    _service._running._process.wait()
    assert torch.equal(predict(x), torch.relu(x) + 1)
    print("still right")
""")
    assert done.returncode == 0, done.stderr
    assert "still right" in done.stdout and "Function `predict`" in done.stdout
    assert "failed" in done.stdout or "Problem" in done.stdout, done.stdout


def test_control_c():
    """It leaves the block, which still reports, and the process ends as it does without prony."""
    done = run("""
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(100000):
        predict(x)
""")
    assert done.returncode != 0 and "KeyboardInterrupt" in done.stderr
    assert "Function `predict`" in done.stdout


MID_RUN = """
import _thread, linecache, sys, threading, torch, prony

net = torch.nn.Linear(500, 500)

@prony.accelerate
def predict(x):
    return net(x)

def interrupt(main=threading.get_ident()):
    line = ""
    while "run.finish()" not in line:
        frame = sys._current_frames()[main]
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    _thread.interrupt_main()

x = torch.randn(100, 500)
with prony.RemoteInferenceSession("local/onnxrt-cpu") as session:
    with prony.remote_profile(session, num_repeats=1) as handle:
        predict(x), predict(x)
    try:
        with prony.remote_profile(session, num_repeats=30000) as handle:
            threading.Thread(target=interrupt, daemon=True).start()
            predict(x)
    except KeyboardInterrupt:
        print("interrupted:", handle.report().profiles)
    with prony.remote_profile(session, num_repeats=1) as handle:
        predict(x), predict(x)
    print("and then:", handle.report().profiles[0].num_runs)
"""


def test_control_c_in_mid_run():
    """The call that it ends isn't recorded, and the session is as good as before."""
    done = subprocess.run([sys.executable, "-c", MID_RUN], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert "interrupted: []\n" in done.stdout and "and then: 1\n" in done.stdout


def test_nothing_is_left_behind():
    done = run("print(__import__('prony._service')._service._running._process.pid)")
    assert done.returncode == 0, done.stderr
    pid = int(done.stdout.split()[0])
    assert not os.path.exists(f"/proc/{pid}")
