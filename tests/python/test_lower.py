"""Graphs that Dynamo captures, lowered and put together again, against eager PyTorch. Nothing is sent:
the lowered graph runs here, as a backend would run it."""
import dataclasses
import pathlib
import shutil

import pytest
import torch
from torch import nn

from prony import _exports, _forms, _onnx
from prony._lower import lower, one_fake_mode


class Harness:
    """A backend of torch.compile that runs lowered graphs and assembles what they give."""

    def __init__(self):
        self.lowered = []

    def __call__(self, module, examples):
        with one_fake_mode(module):
            lowered = lower(module, examples)
        self.lowered.append(lowered)

        def run(*arguments):
            weights = [arguments[w.position] if w.constant is None else w.constant
                       for w in lowered.weights]
            inputs = [arguments[i].clone() if isinstance(arguments[i], torch.Tensor)
                      else arguments[i] for i in lowered.inputs]
            outputs = lowered.module(*weights, *inputs)
            packed = [out.clone(memory_format=torch.contiguous_format) for out in outputs]
            return lowered.plan.assemble(arguments, packed)

        return run


@pytest.fixture
def harness():
    torch._dynamo.reset()
    with torch.no_grad(), torch._dynamo.config.patch(allow_rnn=True, specialize_float=True):
        yield Harness()


def both(harness, function, *make, dynamic=False):
    """What a function gives eagerly, and through the harness; each with inputs of its own."""
    def inputs():
        torch.manual_seed(0)
        return [m() if callable(m) else m for m in make]

    first, second = inputs(), inputs()
    expected = function(*first)
    got = torch.compile(function, backend=harness, dynamic=dynamic)(*second)
    torch.testing.assert_close(got, expected)
    for after, before in zip(second, first):  # what is overwritten
        if isinstance(before, torch.Tensor):
            torch.testing.assert_close(after, before)
    return got, second


def test_weights_are_not_inputs(harness):
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)).eval()
    both(harness, lambda x: net(x), lambda: torch.randn(3, 4))
    [lowered] = harness.lowered
    assert len(lowered.inputs) == 1 and len(lowered.weights) == 8
    assert not lowered.was_training and not lowered.dynamic


def test_unused_inputs_are_dropped(harness):
    def function(x, unused, y):
        unused + 1
        return x + y

    both(harness, function, *[lambda: torch.randn(3)] * 3)
    assert len(harness.lowered[0].inputs) == 2


def test_in_place(harness):
    def function(x, y):
        x.add_(y)
        y.mul_(2)
        return x * y

    both(harness, function, lambda: torch.randn(3), lambda: torch.randn(3))
    assert len(harness.lowered[0].plan.overwritten) == 2


def test_output_is_an_input(harness):
    got, inputs = both(harness, lambda x: (x.add_(1), x), lambda: torch.randn(3))
    assert got[1] is inputs[0]


def test_output_shares_memory_with_an_input(harness):
    got, inputs = both(harness, lambda x: (x.view(2, 6).t(), x * 2), lambda: torch.randn(3, 4))
    got[0][0, 0] = 77
    assert inputs[0][0, 0] == 77
    assert len(harness.lowered[0].output_names) == 1


def test_outputs_share_memory_with_each_other(harness):
    def function(x):
        y = x * 2
        return y, y[1:], y.t()

    (y, part, turned), _ = both(harness, function, lambda: torch.randn(3, 4))
    y[1, 2] = 55
    assert part[0, 2] == 55 and turned[2, 1] == 55


def test_strides_are_the_eager_ones(harness):
    got, _ = both(harness, lambda x: (x * 2).t(), lambda: torch.randn(3, 4))
    assert got.stride() == (1, 4)


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor | None


def test_structures(harness):
    def function(pair, options):
        total = pair.left + options["bias"][0]
        if pair.right is not None:
            total = total + pair.right
        return {"total": total, "none": None, "many": (total * 2, [total - 1])}, 7

    both(harness, function, Pair(torch.ones(3), None), {"bias": (torch.ones(3), True)})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64,
                                   torch.bool, torch.uint8])
def test_types(harness, dtype):
    both(harness, lambda x: (torch.cat([x, x]), x.float() * 3),
         lambda: torch.randint(0, 2, (3, 4)).to(dtype))


def test_scalars_and_constants(harness):
    def function(x, scale, flag):
        y = x * scale + torch.tensor([1.0, 2.0, 3.0])
        return y if flag else -y

    both(harness, function, lambda: torch.randn(3), 3, True)
    assert [w.constant is not None for w in harness.lowered[0].weights] == [True]


def test_dynamic_sizes_come_from_tensors(harness):
    net = nn.LSTM(4, 6, batch_first=True).eval()

    def function(x, k):
        y, _ = net(x)
        return y.reshape(x.shape[0] * x.shape[1], -1) * k, x.shape[1] * 2, x.flatten()

    compiled = torch.compile(function, backend=harness, dynamic=True)
    for batch, length, k in ((2, 5, 3), (3, 7, 4), (4, 9, 5)):
        x = torch.randn(batch, length, 4)
        torch.testing.assert_close(compiled(x, k), function(x, k))
    assert len(harness.lowered) == 1, "each size was captured anew"
    assert len(harness.lowered[0].inputs) == 2  # the tensor, and k


def test_training_mode_becomes_eval_mode(harness):
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
    x = torch.randn(16, 4)
    expected = net.eval()(x)
    got = torch.compile(net.train(), backend=harness)(x)
    assert harness.lowered[0].was_training
    torch.testing.assert_close(got, expected)
    assert not harness.lowered[0].plan.overwritten


def test_a_buffer_that_is_written_is_an_input(harness):
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x):
            self.seen += x
            return self.seen * 2

    eager, other = Counter().eval(), Counter().eval()
    compiled = torch.compile(other, backend=harness)
    for _ in range(3):
        torch.testing.assert_close(compiled(torch.ones(2)), eager(torch.ones(2)))
    assert len(harness.lowered) == 1 and not harness.lowered[0].weights


def test_autocast(harness):
    net = nn.Linear(4, 4).eval()

    def function(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return net(x)

    both(harness, function, lambda: torch.randn(3, 4))


def twice(x):
    return x * 2


def test_what_was_exported_is_not_exported_again(monkeypatch, tmp_path):
    """By the next program, which `_kept` is the memory of; unless what it calls is its own."""
    torch._dynamo.allow_in_graph(twice)
    monkeypatch.setenv("PRONY_CACHE", str(tmp_path))
    made = []

    def backend(module, examples):
        _forms._kept.clear()
        with one_fake_mode(module):
            made.append(_forms.export(module, examples, onnx=True))
        return module.forward

    def run(function, *shape):
        torch._dynamo.reset()
        with torch.no_grad():
            torch.compile(function, backend=backend, dynamic=False)(torch.ones(*shape))
        return made[-1].onnx

    first = run(lambda x: x.relu() + 1, 3)
    with monkeypatch.context() as patched:
        patched.setattr(_onnx, "_export", None)
        again = run(lambda x: x.relu() + 1, 3)
        assert again.proto == first.proto and again.weight_names == first.weight_names
    assert len(list((tmp_path / "exported").iterdir())) == 1
    assert (tmp_path / "exported").stat().st_mode & 0o777 == 0o700
    assert run(lambda x: x.relu() + 1, 4).proto != first.proto
    run(lambda x: twice(x) + 1, 3)
    assert len(list((tmp_path / "exported").iterdir())) == 2
    # Nor by another state of prony's own code, whose lowering may be another.
    shutil.copytree(pathlib.Path(_exports.__file__).parent, tmp_path / "prony")
    with monkeypatch.context() as patched:
        patched.setattr(_exports, "__file__", str(tmp_path / "prony" / "_exports.py"))
        run(lambda x: x.relu() + 1, 3)
        assert len(list((tmp_path / "exported").iterdir())) == 2
        with (tmp_path / "prony" / "_lower.py").open("a") as file:
            file.write("# changed\n")
        _exports._makers.cache_clear()
        run(lambda x: x.relu() + 1, 3)
        assert len(list((tmp_path / "exported").iterdir())) == 3
    for file in (tmp_path / "exported").iterdir():
        file.write_bytes(b"\xff not a model")
    assert run(lambda x: x.relu() + 1, 3).proto.graph.node  # what was damaged is made again
    monkeypatch.setenv("PRONY_CACHE", "")
    run(lambda x: x.relu() + 1, 5)
    assert len(list((tmp_path / "exported").iterdir())) == 3
