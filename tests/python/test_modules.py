"""Real modules, profiled and inferred on two runtimes, against eager PyTorch."""
import collections
import math
import os
import pathlib
import subprocess
import sys
import time
import venv

import prony
import pytest
import torch
from front import EAGER, INDUCTOR, ONNXRT, OPENVINO, AnyGraphs, cache
from prony import accelerate
from torch import nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32),
                                    nn.Linear(32, 4))

    def forward(self, x):
        return self.layers(x)


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
            nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, stride=2), nn.BatchNorm2d(16), nn.ReLU6(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(16, 5)
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.uniform_(-1, 1)
                module.running_var.uniform_(0.5, 2)

    def forward(self, x):
        return self.head(self.features(x))


class Rnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 12, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(24, 3)

    def forward(self, ids):
        states, (hidden, _) = self.lstm(self.table(ids))
        return self.head(states[:, -1]), hidden


MODULES = {
    "mlp": (Mlp, lambda: torch.randn(2, 16)),
    "cnn": (Cnn, lambda: torch.randn(2, 3, 16, 16)),
    "encoder": (lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True),
                lambda: torch.randn(2, 6, 16)),
    "lstm": (Rnn, lambda: torch.randint(0, 20, (2, 7))),
}


@pytest.fixture(params=MODULES)
def case(request):
    make, example = MODULES[request.param]
    return make().eval(), example


def test_modules_of_one_class(session):
    """Each is accelerated in its own way."""
    fixed, loose = accelerate(Mlp().eval()), accelerate(Mlp().eval(), dynamic=True)
    with prony.remote_profile(session, num_repeats=1, print_results_to=None) as handle:
        fixed(torch.randn(2, 16))
        for n in (3, 4, 5, 3):
            loose(torch.randn(n, 16))
    graphs = {graph for profile in handle.report().profiles for graph in profile.footprint}
    assert len(graphs) == 2, "one for each"


def test_profile(case, profiling):
    net, example = case

    @accelerate
    def predict(x):
        return net(x)

    profiling(predict, *[(example(),) for _ in range(3)],
              plain=net).check(calls=3, graphs=AnyGraphs(1))


@pytest.mark.parametrize("backend", [ONNXRT, EAGER, OPENVINO])
def test_inference(backend, sessions):
    for make, example in MODULES.values():
        net = make().eval()
        accelerated = accelerate(net)
        x = example()
        with torch.no_grad():
            expected = net(x)
        with prony.remote_inference(sessions.open(backend)):
            got = accelerated(x)
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def assign(x):
    y = x.clone()
    y[torch.tensor([0, 2])] = 7.0
    return y


FUNCTIONS = {
    "vmap": lambda x: torch.func.vmap(lambda row: row.sum() * row)(x),
    "grad": torch.func.grad(lambda x: (x * x).sum()),
    "jvp": lambda x: torch.func.jvp(torch.sin, (x,), (x,))[1],
    "assign": assign,
    "solve": lambda x: torch.linalg.solve(x @ x.T + torch.eye(4), x),
    "inv": lambda x: torch.linalg.inv(x[:, :4] + 5 * torch.eye(4)),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions_of_other_kinds(function, sessions):
    x = torch.randn(4, 8)
    expected = function(x)
    accelerated = accelerate(lambda x: function(x))
    with prony.remote_inference(sessions.open(EAGER)):
        for _ in range(2):
            torch.testing.assert_close(accelerated(x), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(function(x), expected)  # PyTorch is as it was


def test_indices_of_the_code_are_known_to_onnx(sessions):
    x = torch.randn(4, 8)
    with prony.remote_inference(sessions.open(ONNXRT)):
        torch.testing.assert_close(accelerate(assign)(x), assign(x))


def test_autocast_around_the_block(sessions):
    """What was lowered without it isn't taken for what is called with it."""
    net = Mlp().eval()
    accelerated = accelerate(lambda x: net(x))
    x = torch.randn(2, 16)
    for enabled in (False, True, False):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            expected = net(x)
            with prony.remote_inference(sessions.open(EAGER)):
                got = accelerated(x)
        assert expected.dtype == (torch.bfloat16 if enabled else torch.float32)
        torch.testing.assert_close(got, expected)


def test_operators_in_order_under_autocast(sessions):
    """Those that check are chained by tokens, which nobody else knows."""
    def solved(x):
        return torch.linalg.inv(x.float() @ x.float().T + torch.eye(4)) + torch.linalg.cholesky(
            torch.eye(4) * 2)

    x = torch.randn(4, 4)
    with torch.autocast("cpu", torch.bfloat16), prony.remote_inference(sessions.open(EAGER)):
        got = accelerate(solved)(x)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(got, solved(x), rtol=1e-2, atol=1e-2)


def test_the_default_type(sessions):
    """It is this process's alone: it is written into the graph, or refused."""
    made = accelerate(lambda x: (torch.ones(2) + x, torch.full((2,), 0.5)))
    divided = accelerate(lambda i: i / 2)
    x = torch.zeros(2, dtype=torch.float64)
    for dtype in (torch.float32, torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        try:
            for backend in (ONNXRT, EAGER):
                with prony.remote_inference(sessions.open(backend)):
                    torch.testing.assert_close(made(x), (x + 1, torch.full((2,), 0.5)))
            with prony.remote_inference(sessions.open(EAGER)):
                if dtype is torch.float64:
                    with pytest.raises(prony.CompilationError, match="aten.div.* takes its type from"):
                        divided(torch.tensor([3]))
                else:
                    assert divided(torch.tensor([3])).dtype is dtype
        finally:
            torch.set_default_dtype(torch.float32)


class Alike(nn.Module):
    """Weights of equal contents, whose files are the same one, before others."""

    def __init__(self, *dtypes):
        super().__init__()
        self.groups = [[self.weight(value, dtype) for value in (1, 1, 5, 7)] for dtype in dtypes]

    def weight(self, value, dtype):
        made = nn.Parameter(torch.full((4,), value, dtype=dtype), requires_grad=False)
        self.register_parameter(f"weight_{len(list(self.named_parameters(remove_duplicate=False)))}",
                                made)
        return made

    def forward(self, x):
        return [x.to(a.dtype) * a + b + c * 10 + d * 100 for a, b, c, d in self.groups]


def check_alike(backend, *dtypes):
    with prony.remote_inference(backend):
        got = accelerate(Alike(*dtypes))(torch.zeros(4))
    for result, dtype in zip(got, dtypes, strict=True):
        torch.testing.assert_close(result, torch.full((4,), 751, dtype=dtype))


@pytest.mark.parametrize("backend", [ONNXRT, EAGER, OPENVINO])
def test_weights_of_equal_contents(backend, sessions):
    check_alike(sessions.open(backend), torch.float32, torch.int64)


@torch.library.custom_op("prony_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


def sizes(x):
    """Arithmetic on sizes, as far as torch.compile takes it."""
    rows, columns = x.shape
    return (x[:min(rows, 4)] * max(columns, 2), torch.zeros(max(rows, columns)) + x.sum(),
            x * (1.0 / math.sqrt(columns)) / columns ** 0.5,
            x * (rows / columns) + rows * 0.5 - columns ** 2,
            torch.zeros(math.ceil(rows / 3) * 3 + int(columns * 1.5)) + x.sum(),
            torch.zeros(round(rows / 4) + round(columns * 0.6)) + x.sum(),
            nn.functional.interpolate(x[None, None], size=(rows * 2, int(columns / 2))),
            twice(x) + 1, (x.abs() * 10).to(torch.uint16).to(torch.float32) + x)


def indices(x, i):
    """Indices that are tensors of one number; searchsorted, which the exporter doesn't know."""
    row = x[0].sort().values
    return (x[i], x[i + 1] * 2, x[:, i] + 1, x[i, 1:] + x[1:, None, i].sum(), x[..., i] + x[1, i],
            x[1, None, i - 2], x[i][1:], torch.searchsorted(x.sort().values, x - 0.1) + i,
            torch.searchsorted(row, x[1, i], right=True), torch.searchsorted(row, x[1:], out_int32=True),
            torch.searchsorted(row, 0.1), torch.searchsorted(row.double() / 10, 0.01, right=True),
            torch.searchsorted(torch.arange(5) + i, 2.5), torch.searchsorted(torch.arange(5) + i, 2),
            torch.searchsorted(x[0], x[1:], side="right", sorter=x[0].argsort()) + i)


def numbers(x):
    """As NumPy lets them be written: before tensors; and operators by their other names, of two types."""
    array = x.numpy()
    return (torch.from_numpy(3.0 * array / (1.5 + 2 * array)), torch.from_numpy(0.5 * x.long().numpy()),
            torch.from_numpy(2 - 3 * array), torch.from_numpy(1.5 < array),
            torch.greater(x, torch.tensor(0.1, dtype=torch.float64)), torch.subtract(x.long(), x),
            torch.not_equal(x.long(), x), torch.true_divide(x.long(), 3))


def branches(x):
    """Graphs inside of a graph, with weights, and one inside the other."""
    def deeper(x):
        return torch.cond(x[0, 0] > 0, lambda x: (x @ table).tanh(), lambda x: x - table[0], (x,))

    return torch.cond(x.sum() > 0, deeper, lambda x: x * 2, (x,)) + 1


def loops(x):
    from torch._higher_order_ops.scan import scan
    from torch._higher_order_ops.while_loop import while_loop
    count, doubled = while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))
    return count, doubled, scan(lambda carry, row: (carry + row, carry * row), torch.zeros(4), x)[1]


@torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
def grouped(rows: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """As transformers has it, for mixtures of experts."""
    starts = [0, *ends.tolist()[:-1]]
    return torch.cat([rows[a:b] @ m for a, b, m in zip(starts, ends.tolist(), matrices)])


@grouped.register_fake
def _(rows, matrices, ends):
    return rows.new_empty(rows.size(0), matrices.size(2))


def experts(x):
    chosen = (x.sum(1) > 0).long().sort()
    ends = torch.histc(chosen.values.float(), 3, min=0, max=2).cumsum(0).int()
    return grouped(x[chosen.indices], table.reshape(1, 4, 4).repeat(3, 1, 1), ends) + 1


table = torch.arange(16.0).reshape(4, 4) / 16
EXPORTS_LOOPS = torch.__version__ >= (2, 13)  # to ONNX; 2.10 doesn't


@pytest.mark.parametrize("backend", [ONNXRT, EAGER])
def test_graphs_inside_of_a_graph_and_experts(backend, sessions):
    with prony.remote_inference(sessions.open(backend)):
        for dynamic, sizes in ((False, [3]), (True, [3, 5])):
            for function in (branches, experts, *([loops] if EXPORTS_LOOPS or backend == EAGER else [])):
                remote = accelerate(function, dynamic=dynamic)
                for n in sizes:
                    for x in (torch.ones(n, 4), -torch.ones(n, 4)):
                        torch.testing.assert_close(remote(x), function(x))
            x = torch.ones(3, 4)
            x[0, 0] = -1
            torch.testing.assert_close(accelerate(branches, dynamic=dynamic)(x), branches(x))


OPERATORS_OF_A_LIBRARY = """
import {library}
import torch
from prony import accelerate, remote_inference

@accelerate
def predict(x):
    return torch.ops.{library}.thrice(x) + 1

with remote_inference(backend="local/torch-eager-cpu"):
    print(predict(torch.ones(2)).tolist())
"""


def test_operators_of_a_library(tmp_path):
    """What a library brings in C++ can't be traced. Here it is Python that PyTorch knows as little of."""
    (tmp_path / "prony_tests_library.py").write_text("""
import torch
library = torch.library.Library("prony_tests_library", "DEF")
library.define("thrice(Tensor x) -> Tensor")
library.impl("thrice", lambda x: torch.from_numpy(x.numpy() * 3), "CPU")
library.impl("thrice", lambda x: torch.empty_like(x), "Meta")
""")
    program = OPERATORS_OF_A_LIBRARY.format(library="prony_tests_library")
    environment = tmp_path / "environment"  # where backends find it; PYTHONPATH isn't theirs
    venv.create(environment)
    [site] = environment.glob("lib/python*/site-packages")
    (site / "more.pth").write_text(f"{pathlib.Path(torch.__file__).parents[1]}\n{tmp_path}\n")
    variables = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}",
                 "PRONY_PYTHON": str(environment / "bin/python"),
                 "PRONY_TORCH_LIBRARIES": "prony_tests_library"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=variables)
    assert (done.stdout, done.returncode) == ("[4.0, 4.0]\n", 0), done.stderr


@pytest.mark.parametrize("backend", [ONNXRT, EAGER])
def test_sizes_and_indices(backend, sessions):
    with prony.remote_inference(sessions.open(backend)):
        for dynamic, shapes in ((False, [(6, 8)]), (True, [(6, 8), (5, 9)])):
            remote = accelerate(sizes, dynamic=dynamic)
            for shape in shapes:
                x = torch.randn(shape)
                torch.testing.assert_close(remote(x), sizes(x))
        x = torch.randn(6, 6)
        torch.testing.assert_close(accelerate(numbers)(x), numbers(x))
        remote = accelerate(indices)
        for i in (torch.tensor(1), torch.tensor(3)):
            torch.testing.assert_close(remote(x, i), indices(x, i))


def test_inductor(sessions):
    """Compiled in its executor; two modules, because that takes long."""
    net = Mlp().eval()
    x = torch.randn(2, 16)
    with torch.no_grad():
        expected = net(x)
    session = sessions.open(INDUCTOR)
    with prony.remote_inference(session):
        torch.testing.assert_close(accelerate(net)(x), expected)
    check_alike(session, torch.float32, torch.float64, torch.int64, torch.int32)


@pytest.mark.long
def test_layers_that_begin_alike_on_inductor(sessions):
    """The layers of a fresh encoder are copies of one."""
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2).eval()
    x = torch.randn(1, 5, 16)
    with torch.no_grad():
        expected = net(x)
    with prony.remote_inference(sessions.open(INDUCTOR)):
        torch.testing.assert_close(accelerate(net)(x), expected, rtol=1e-4, atol=1e-5)


def test_the_sleeping_function(profiling):
    """Local segments are what the code between graphs takes, and not the graphs. A sleep may last longer
    on a busy machine, so each is measured."""
    slept = collections.defaultdict(list)

    @torch._dynamo.disable
    def nap(which, seconds):
        begin = time.monotonic()
        time.sleep(seconds)
        slept[which].append(1e3 * (time.monotonic() - begin))

    @accelerate
    def naps(x):
        nap(0, 1)
        y = torch.relu(x)
        torch._dynamo.graph_break()
        nap(1, 0.5)
        z = torch.relu(y - 1)
        nap(2, 1)
        return z

    calls = []

    def timed(x):
        begin = time.monotonic()
        y = naps(x)
        calls.append(1e3 * (time.monotonic() - begin))
        return y

    outcome = profiling(timed, *[(torch.randn(64),) for _ in range(3)], plain=naps.__wrapped__)
    profile = outcome.check(calls=3, graphs=AnyGraphs(2))
    least = sum(min(times) for times in slept.values())
    for which, segment in enumerate(profile.segments[::2]):
        recorded = segment.results_per_backend["Uncompiled"]
        low = min(slept[which])
        assert low <= recorded.mean_ms <= max(calls[1:]) - (least - low), profile
    assert least <= profile.total_uncompiled_ms <= max(calls[1:])


def test_control_flow_makes_profiles(profiling):
    net = Mlp().eval()

    @accelerate
    def branch(x):
        y = net(x)
        if y.sum().item() > 0:
            return torch.relu(y) * 2
        return y - 1

    x = torch.randn(2, 16)
    sign = 1 if net(x).sum() > 0 else -1
    other = next(x for x in (torch.randn(2, 16) for _ in range(1000))
                 if net(x).sum() * sign < 0)
    outcome = profiling(branch, *[(a,) for a in (x, x, other, other, x, other)])
    first, second = outcome.report.profiles
    assert first.footprint[0] == second.footprint[0] and first.footprint != second.footprint
    assert first.num_runs + second.num_runs == 4


def test_dynamic_sizes_are_one_upload(profiling, session):
    net = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()

    @accelerate(dynamic=True)
    def encode(x):
        return net(x).mean(dim=1)

    sizes = [(2, 5), (3, 7), (4, 9), (6, 3)]
    before = cache(session)
    outcome = profiling(encode, *[(torch.randn(*size, 16),) for size in sizes])
    outcome.check(calls=len(sizes), graphs=AnyGraphs(1))
    weights = len(list(net.parameters()))
    assert cache(session)["misses"] - before["misses"] <= weights + 2


def test_each_size_is_a_graph_without_dynamic(profiling):
    @accelerate
    def double(x):
        return x * 2

    outcome = profiling(double, *[(torch.randn(n),) for n in (2, 3, 2, 3)])
    assert [p.num_runs for p in outcome.report.profiles] == [1, 1]


def test_layers_that_look_alike_are_one_capture(profiling, sessions):
    """Dynamo compiles the layer once and calls it with the weights of each; their results differ."""
    layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(12)).eval()

    def step(layer, x):
        return torch.tanh(layer(x))

    @accelerate
    def stack(x):
        for layer in layers:
            x = step(layer, x)
            torch._dynamo.graph_break()  # in a loop, so the loop stays Python and calls step()
        return x

    outcome = profiling(stack, *[(torch.randn(2, 8),) for _ in range(3)])
    assert len(outcome.profile.footprint) == 12
    assert len(set(outcome.profile.footprint)) == 12
    with prony.remote_inference(sessions.open(ONNXRT)):
        x = torch.randn(2, 8)
        torch.testing.assert_close(stack(x), stack.__wrapped__(x), rtol=1e-4, atol=1e-5)


class Many(nn.Module):
    """With two blocks of them, more weights than a process usually may have descriptors."""

    def __init__(self, n, first):
        super().__init__()
        self.weights = nn.ParameterList(torch.full((2,), float(first + i)) for i in range(n))

    def forward(self, x):
        return x + torch.stack(list(self.weights)).sum(0)


@pytest.mark.parametrize("backend", [EAGER, OPENVINO])
def test_more_weights_than_descriptors(backend, sessions):
    """Those of all blocks of a session are in one process."""
    session = sessions.open(backend)
    for first in (0, 700):
        net = Many(700, first)
        with prony.remote_inference(session):
            got = accelerate(net)(torch.zeros(2))
        torch.testing.assert_close(got, torch.full((2,), 700 * first + 700 * 699 / 2))


@pytest.mark.long
def test_two_hundred_graphs(profiling):
    """Pieces of one function. (Breaks in a row would take Dynamo minutes: it compiles what is left of a
    function after each.)"""
    names = {"torch": torch}
    for i in range(200):
        exec(f"def piece{i}(x): return torch.relu(x * {1 + i % 8 / 1000} + {i % 8})", names)

    @accelerate
    def many(x):
        for i in range(200):
            x = names[f"piece{i}"](x)
            torch._dynamo.graph_break()
        return x

    outcome = profiling(many, *[(torch.randn(4),) for _ in range(2)])
    profile = outcome.check(calls=2, graphs=AnyGraphs(200))
    assert len(profile.segments) == 401
    assert "197 other subgraphs" in outcome.report.text(layout="segments")
