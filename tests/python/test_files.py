"""Models and traces in files, from Python: the program does it, and these are its answers as objects."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import prony
import pytest
from prony import _native

TRACES = pathlib.Path(__file__).parents[2] / "examples/traces"
FEW = {"repeats": 5, "launches": 1, "warmups": 0}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "mlp.onnx"
    subprocess.run([_native.program(), "synth", "mlp", "-o", path], check=True, capture_output=True)
    return path


@pytest.fixture(scope="module")
def report(model):
    return prony.profile(model, backends=["onnxrt-cpu", "openvino-cpu"], **FEW)


def test_a_profile(report, tmp_path):
    assert [r.backend for r in report.results] == ["local/onnxrt-cpu", "local/openvino-cpu"]
    for result in report.results:
        assert result.num_samples == 5 and result.error is None and result.sizes == "input 1x100"
        assert result.min_ms <= result.median_ms <= result.max_ms
    data = json.loads(report.to_json())
    assert data["schema"] == "prony.profile/1" and data["verdict"] == report.verdict
    report.save(tmp_path / "saved.json")
    shown = subprocess.run([_native.program(), "report", tmp_path / "saved.json"], capture_output=True,
                           text=True, check=True).stdout
    assert report.text() == shown and report.verdict.split()[0] in shown
    report.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_for_pandas_and_notebooks(report):
    table = report.to_dataframe()
    assert list(table["backend"]) == ["local/onnxrt-cpu", "local/openvino-cpu"]
    assert (table["median_ms"] > 0).all()
    assert "<td>local/openvino-cpu</td>" in report._repr_html_()
    assert report.verdict in repr(report)


def test_a_sweep(model):
    report = prony.profile(model, "onnxrt-cpu[threads=1|2]", **FEW)
    assert [r.backend for r in report.results] == [f"local/onnxrt-cpu[threads={n}]" for n in (1, 2)]


def test_on_a_server(model, server):
    report = prony.profile(model, "local/onnxrt-cpu", server_addr=server, **FEW)
    assert [r.num_samples for r in report.results] == [5]


def test_what_the_program_refuses(model, tmp_path):
    with pytest.raises(prony.OctomlProfileError, match="nothing.onnx"):
        prony.profile(tmp_path / "nothing.onnx")
    with pytest.raises(ValueError, match="--no-such-option"):
        prony.profile(model, no_such_option=1)
    with pytest.raises(ValueError, match="two profiles"):
        prony.compare(tmp_path / "a.json")


def test_a_comparison(report, tmp_path):
    report.save(tmp_path / "old.json")
    comparison = prony.compare(tmp_path / "old.json", report)
    assert [row.backend for row in comparison.rows] == [r.backend for r in report.results]
    assert {row.file for row in comparison.rows} == {"after.json"} and comparison.regressions == 0
    assert comparison.verdict in " ".join(comparison.text().split())
    assert len(comparison.to_dataframe()) == 2


def test_a_trace():
    report = prony.explore(TRACES / "before.json.gz")
    assert report.groups[0].name == "Conv" and report.groups[0].device == "cpu"
    assert report.groups[0].pct > report.groups[1].pct
    assert "Conv" in report.text() and "Conv" in report.verdict
    assert prony.explore(TRACES / "before.json.gz", end=3).groups[0].count < report.groups[0].count


def test_none_of_it_needs_pytorch():
    program = "import sys, prony; prony.profile, prony.explore, prony.compare; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# What works without PyTorch, as in a wheel for all of them: the stable ABI, and no newer Python's words.
ANY_PYTHON = """
import sys
import prony
from prony import _runner
with prony.RemoteInferenceSession("local/onnxrt-cpu") as session:
    data = open(sys.argv[1], "rb").read()
    graph = session.native.load("mlp", [(1, [("model.onnx", data, None)], ["input"], ["output"], None)])
    print(graph.local_reason)
print(prony.profile(sys.argv[1], "onnxrt-cpu", repeats=5, launches=1, warmups=0).results[0].num_samples)
"""


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_other_pythons(model, version):
    """Of those that this machine has, on PATH or from pyenv."""
    home = pathlib.Path(os.environ.get("PYENV_ROOT") or pathlib.Path.home() / ".pyenv")
    found = [shutil.which(f"python{version}"), *home.glob(f"versions/{version}.*/bin/python")]
    works = [python for python in found if python and not subprocess.run(
        [python, "-c", ""], capture_output=True).returncode]
    if not works:
        pytest.skip(f"no Python {version} here")
    done = subprocess.run([works[0], "-c", ANY_PYTHON, model], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["None", "5"], done.stderr
