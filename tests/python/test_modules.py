"""Real modules, profiled and inferred on two runtimes, against eager PyTorch."""
import math
import time

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


def test_inductor(free):
    """Compiled in its executor; one module, because that takes long."""
    net = Mlp().eval()
    x = torch.randn(2, 16)
    with torch.no_grad():
        expected = net(x)
    with prony.remote_inference(backend=INDUCTOR):
        torch.testing.assert_close(accelerate(net)(x), expected)


def test_the_sleeping_function(profiling):
    """Local segments are what the code between graphs takes, within 5 %, and not the graphs."""

    @accelerate
    def naps(x):
        time.sleep(1)
        y = torch.relu(x)
        torch._dynamo.graph_break()
        time.sleep(0.1)
        z = torch.relu(y - 1)
        time.sleep(1)
        return z

    outcome = profiling(naps, *[(torch.randn(64),) for _ in range(3)])
    profile = outcome.check(calls=3, graphs=AnyGraphs(2))
    for segment, expected in zip(profile.segments[::2], (1000, 100, 1000)):
        assert math.isclose(segment.results_per_backend["Uncompiled"].mean_ms, expected,
                            rel_tol=0.05), profile
    assert profile.total_uncompiled_ms == pytest.approx(2100, rel=0.05)


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
