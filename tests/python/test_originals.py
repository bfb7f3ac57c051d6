"""What programs written for octoml-profile use below its front end, and on hardware of its cloud."""
import ast
import importlib
import io
import pathlib
import sysconfig

import numpy as np
import onnx
import prony
import pytest
import torch
from front import EAGER, ONNXRT
from octoml_profile import client, inference_session, log_util, report
from octoml_profile.inference_session import LazyInMemoryFile, OnDiskFile
from prony import _native, accelerate, remote_inference, remote_profile

WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


@accelerate
def double(x):
    return x + x


# ---- Names ----

@pytest.mark.parametrize("module", ["client", "dynamo", "inference_session", "log_util", "pricing", "errors"])
def test_public_names(module):
    """All that a module of 0.2.2 defines without an underscore."""
    folder = pathlib.Path(sysconfig.get_path("purelib"), "octoml_profile")
    ours = importlib.import_module(f"octoml_profile.{module}")
    assert pathlib.Path(ours.__file__).parent != folder
    for node in ast.parse((folder / f"{module}.py").read_text()).body:
        names = [target.id for target in node.targets] if isinstance(node, ast.Assign) else \
            [getattr(node, "name", "_")]
        for name in names:
            assert name.startswith("_") or hasattr(ours, name), name
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            missing = {name for name in methods if not name.startswith("_") and name != "from_pb" and
                       not hasattr(getattr(ours, node.name), name)}
            assert not missing, node.name


def test_names_of_the_report():
    """Those that 0.2.2 exports."""
    folder = pathlib.Path(sysconfig.get_path("purelib"), "octoml_profile")
    [names] = [ast.literal_eval(node.value) for node in ast.parse((folder / "report.py").read_text()).body
               if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"]
    assert set(names) <= set(report.__all__)


def test_log_util(tmp_path, monkeypatch):
    logger = log_util.get_file_logger("a program", str(tmp_path / "log"))
    logger.debug("hello")
    assert "DEBUG a program hello" in (tmp_path / "log").read_text()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert pathlib.Path(log_util.LOGFILE).parent == pathlib.Path(log_util.LOGDIR)


def test_backend_options():
    options = inference_session.BackendOptions.parse("fp16, threads = 2")
    assert options == {"threads": "2", "fp16": ""} and str(options) == "[fp16,threads=2]"
    assert prony.BackendSpec.parse("local/onnxrt-cpu[fp16,threads=2]").backend_options == options
    with pytest.raises(ValueError, match="second '='"):
        inference_session.BackendOptions.parse("a=b=c")


# ---- Models and runners ----

@pytest.fixture
def onnx_file(tmp_path):
    """y = x @ w + b, with w in a file beside it."""
    helper, kind = onnx.helper, onnx.TensorProto
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])],
        "affine", [helper.make_tensor_value_info("x", kind.FLOAT, ["n", 4]),
                   helper.make_tensor_value_info("b", kind.FLOAT, [])],
        [helper.make_tensor_value_info("y", kind.FLOAT, ["n", 3])],
        [onnx.numpy_helper.from_array(WEIGHT, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "weights").mkdir()
    onnx.save(model, tmp_path / "model.onnx", save_as_external_data=True, location="weights/0",
              size_threshold=0)
    return tmp_path


def relu():
    """As FXPROTO: relu(x + b)."""
    return _native.fx_pack({"fixed_inputs": [], "nodes": [
        ("placeholder", "b"), ("placeholder", "x"),
        ("call_function", "s", ("op", "aten", "add", "Tensor"), [("node", "x"), ("node", "b")], []),
        ("call_function", "y", ("op", "aten", "relu", "default"), [("node", "s")], []),
        ("output", "output", ("tuple", [("node", "y")]))]})


def test_models_and_runners(session, onnx_file):
    """One model in two formats, whose inputs have different orders."""
    files = [OnDiskFile(onnx_file, "model.onnx"), OnDiskFile(onnx_file, "weights/0")]
    session.load_model(1, [0], client.MODEL_FORMAT_ONNX, files, ["x", "b"], ["y"])
    data = relu()
    session.load_model(1, [1], client.MODEL_FORMAT_FXPROTO,
                       [LazyInMemoryFile("model.dat", lambda: (len(data), iter([data[:9], data[9:]])))],
                       [], [])
    runner = session.create_runner(1, [[2, 0], [0, 2]])
    get = runner.submit_run([np.float32(1), np.zeros(3), X], num_repeats=3, num_warmups=1,
                            mode=client.RUN_MODE.INFERENCE)
    results = get()
    assert [str(backend) for backend in results] == [ONNXRT, EAGER]
    for result, expected in zip(results.values(), (X @ WEIGHT + 1, np.maximum(X + 1, 0))):
        assert result.error_value is None
        np.testing.assert_allclose(result.result_value.outputs[0], expected, rtol=1e-5)
        times = result.result_value.run_times_nanos
        assert times.dtype == np.int64 and times.shape == (3,) and (times > 0).all()
    times_alone = runner.submit_run([np.float32(1), X, X], num_repeats=5)()
    assert [(len(r.result_value.run_times_nanos), r.result_value.outputs)
            for r in times_alone.values()] == [(5, ())] * 2
    # What can't run is an error of that backend.
    wide, fx = runner.submit_run([np.float32(1), X, X[:, :3]])().values()
    assert wide.result_value is None and wide.error_value.message
    assert fx.error_value is None and len(fx.result_value.run_times_nanos) == 1


def test_a_model_on_some_backends(session, onnx_file):
    files = [OnDiskFile(onnx_file, "model.onnx"), OnDiskFile(onnx_file, "weights/0")]
    session.load_model(7, [0], client.MODEL_FORMAT_ONNX, files, ["x", "b"], ["y"])
    here, there = session.create_runner(7, [[0, 1], []]).submit_run([X, np.float32(0)])().values()
    assert here.error_value is None and there.error_value == "the model was not loaded there"
    with pytest.raises(ValueError, match="loaded on backend 0 already"):
        session.load_model(7, [0, 1], client.MODEL_FORMAT_ONNX, files, ["x", "b"], ["y"])


def test_what_models_and_runners_refuse(session, onnx_file):
    (onnx_file / "junk").write_bytes(b"junk")
    junk = [OnDiskFile(onnx_file, "junk")]
    with pytest.raises(prony.LoadModelError, match="model 20 can't be loaded"):
        session.load_model(20, [0], client.MODEL_FORMAT_ONNX, junk, ["x"], ["y"])
    with pytest.raises(prony.LoadModelError, match="not FXPROTO"):
        session.load_model(20, [1], client.MODEL_FORMAT_FXPROTO, junk, [], [])
    for ids in ([], [2], [-1]):
        with pytest.raises(ValueError, match="not numbers of the session's 2 backends"):
            session.load_model(20, ids, client.MODEL_FORMAT_ONNX, junk, ["x"], ["y"])
    with pytest.raises(FileNotFoundError):
        session.load_model(20, [0], client.MODEL_FORMAT_ONNX, [OnDiskFile(onnx_file, "none")], [], [])
    with pytest.raises(prony.LoadModelError, match="has 4 bytes, not 5"):
        session.load_model(20, [0], client.MODEL_FORMAT_ONNX,
                           [LazyInMemoryFile("model.onnx", lambda: (5, iter([b"junk"])))], ["x"], ["y"])
    with pytest.raises(ValueError, match="model 20 is not loaded"):
        session.create_runner(20, [[0], [0]])
    files = [OnDiskFile(onnx_file, "model.onnx"), OnDiskFile(onnx_file, "weights/0")]
    session.load_model(21, [0], client.MODEL_FORMAT_ONNX, files, ["x", "b"], ["y"])
    with pytest.raises(ValueError, match="1 input maps for 2 backends"):
        session.create_runner(21, [[0, 1]])
    with pytest.raises(ValueError, match="backend 0 has 1 inputs, and model 21 2"):
        session.create_runner(21, [[0], []])
    runner = session.create_runner(21, [[0, 1], []])
    with pytest.raises(ValueError, match="there are 1 inputs"):
        runner.submit_run([X])
    with pytest.raises(TypeError, match="of type object"):
        runner.submit_run([X, [None]])
    with pytest.raises(prony.OctomlProfileError, match="repeats"):
        runner.submit_run([X, X], num_repeats=0)()


def test_a_run_beside_a_profile(session, onnx_file):
    """It is in no profile, and leaves the block's repeats as they are."""
    files = [OnDiskFile(onnx_file, "model.onnx"), OnDiskFile(onnx_file, "weights/0")]
    session.load_model(30, [0], client.MODEL_FORMAT_ONNX, files, ["x", "b"], ["y"])
    runner = session.create_runner(30, [[0, 1], []])
    with remote_profile(session, num_repeats=2, print_results_to=None) as handle:
        for _ in range(3):
            double(torch.ones(3))
            runner.submit_run([X, np.float32(0)], num_repeats=7)()
    [profile] = handle.report().profiles
    assert [result.num_samples for result in profile.segments[1].results_per_backend.values()] == [4, 4]


# ---- The report ----

def test_a_profile_prints_itself(session, tmp_path):
    @accelerate
    def odd(x):
        return torch.special.i1e(x)

    with remote_profile(session, num_repeats=2, print_results_to=None) as handle:
        for _ in range(3):
            double(torch.ones(3))
            odd(torch.ones(3))
    report = handle.report()
    good, bad = report.profiles
    assert good.compilation_errors == [] and bad.compilation_errors == report.compilation_errors != []
    [graph] = good.graph_results
    assert [graph.graph_id] == good.footprint and graph.compile_reason.reason == "return_value"
    assert any(node.op == "call_function" for node in graph.graph_module.graph.nodes)
    printed = io.StringIO()
    good.print(tmp_path / "good", file=printed)
    assert "`double[1/1]`" in printed.getvalue() and "odd" not in printed.getvalue()
    assert "Local python" in (tmp_path / "good.profile.txt").read_text()
    assert f"Graph #{graph.graph_id}" in (tmp_path / "good.graph_dump.txt").read_text()
    report.write_details(tmp_path / "all")
    assert report.report_dir == str(tmp_path / "all")


# ---- Hardware of the old cloud ----

CLOUD = ["r6i.large/torch-eager-cpu", "g4dn.xlarge/onnxrt-cuda"]


def test_the_error_says_how_to_go_on(free):
    with pytest.raises(ValueError, match=r"no 'r6i.large/torch-eager-cpu', 'g4dn.*PRONY_SUBSTITUTE=local, "
                                         "or pass substitute='local'"):
        prony.RemoteInferenceSession(CLOUD)
    with pytest.raises(ValueError) as alone:
        prony.RemoteInferenceSession(CLOUD[1])
    assert "substitute" not in str(alone.value), "it has no counterpart"


def test_substitutes(free, monkeypatch, capfd, tmp_path):
    """With a price for this machine, which isn't that of the other."""
    prices = tmp_path / "prices.yml"
    prices.write_text("- name: local\n  usd_per_hour: 3.6\n")
    monkeypatch.setenv("PRONY_SUBSTITUTE", "local")
    backends = ["r6i.large/onnxrt-cpu", "r7g.large/onnxrt-cpu[threads=1]", *CLOUD, ONNXRT]
    with remote_profile(backends=backends, print_results_to=None, num_repeats=2,
                        hardware_file=prices) as handle:
        for _ in range(3):
            double(torch.ones(3))
    report = handle.report()
    [profile] = report.profiles
    cost = {name: total.usd_per_million is not None
            for name, total in profile.total_per_backend.items()}
    assert cost == {"local instead of r6i.large/onnxrt-cpu": False,
                    "local instead of r7g.large/onnxrt-cpu[threads=1]": False,
                    "local instead of r6i.large/torch-eager-cpu": False, ONNXRT: True}
    assert not report.runtime_errors and not report.compilation_errors and not report.mismatches
    left_out = "'g4dn.xlarge/onnxrt-cuda' was left out: nothing here can take its place."
    mine = "'local instead of r6i.large' is this machine, not r6i.large: it has no cost."
    assert {left_out, mine} <= set(report.notes)
    err = capfd.readouterr().err
    assert f"prony: {left_out}\n" in err and f"prony: {mine}\n" in err
    for layout in ("summary", "segments", "classic"):
        assert report.text(layout=layout).count("local instead of r6i.large") >= 2
    assert "local instead of r6i.large/onnxrt-cpu" in report._repr_html_()


def test_inference_on_a_substitute(free):
    with remote_inference(backend=CLOUD[0], substitute="local"):
        assert double(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(ValueError, match="nothing here can take the place of 'g4dn.xlarge/onnxrt-cuda'"), \
            remote_inference(backend=CLOUD[1], substitute="local"):
        pass


def test_what_cannot_be_a_substitute(monkeypatch):
    with pytest.raises(ValueError, match="substitute: there is no 'cloud'"):
        prony.RemoteInferenceSession(CLOUD, substitute="cloud")
    monkeypatch.setenv("PRONY_SUBSTITUTE", "yes")
    with pytest.raises(ValueError, match="PRONY_SUBSTITUTE: there is no 'yes'"):
        prony.RemoteInferenceSession(CLOUD)
