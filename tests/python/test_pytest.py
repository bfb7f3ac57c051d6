"""The fixture `prony` of pytest, in a pytest of its own."""
import os
import subprocess
import sys
import textwrap

import pytest
from prony import _native

from python_parts import PATIENCE

HERE = "launches=5, repeats=20, warmups=0, max_time=600"  # for an interval, and no more


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A network of microseconds, and one that takes hundreds of times as long: on any machine, however busy."""
    folder = tmp_path_factory.mktemp("models")
    for name, hidden in (("small", "10"), ("large", "60000")):
        subprocess.run([_native.program(), "synth", "mlp", "--hidden", hidden, "-o", folder / f"{name}.onnx"],
                       check=True, capture_output=True)
    return folder


@pytest.fixture
def run(models, tmp_path):
    """Runs a test of this text; gives its status and what it printed."""

    def call(text, *options, **environment):
        path = tmp_path / "test_it.py"
        path.write_text("def test_it(prony):\n" + textwrap.indent(textwrap.dedent(text), "    "))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "prony.pytest_plugin", "-p", "no:cacheprovider", "--rootdir",
             tmp_path, path, *options], cwd=models, capture_output=True, text=True, timeout=PATIENCE,
            env={**os.environ, **environment})
        return done.returncode, done.stdout

    return call


def test_faster_than(run, tmp_path):
    status, said = run(f"prony.profile('small.onnx', 'onnxrt-cpu', {HERE}).assert_faster_than('1000 s')",
                       "--junit-xml", str(tmp_path / "tests.xml"))
    assert status == 0, said
    assert 'name="prony" value="' in (tmp_path / "tests.xml").read_text()
    status, said = run(f"prony.profile('small.onnx', 'onnxrt-cpu', {HERE}).assert_faster_than('1 ns')")
    assert status == 1
    assert "AssertionError: small.onnx is not shown to be faster than 1 ns:" in said
    assert "local/onnxrt-cpu (input 1x100): " in said and " is slower" in said
    assert "kFLOP" in said and "5 processes" in said, "the report is there"
    assert "pytest_plugin.py" not in said, "and the line of the test, not those of the plugin"


def test_what_was_measured_too_little_is_not_faster(run):
    status, said = run("prony.profile('small.onnx', 'onnxrt-cpu', launches=1, repeats=5).assert_faster_than('9 s')")
    assert status == 1 and "too few processes for an interval" in said


def test_not_slower_than_another_model(run):
    status, said = run(f"""
        large = prony.profile("large.onnx", "onnxrt-cpu", {HERE})
        prony.profile("small.onnx", "onnxrt-cpu", {HERE}).assert_not_slower_than(large, "3%")
    """)
    assert status == 0, said
    status, said = run(f"""
        prony.profile("large.onnx", ["onnxrt-cpu"], {HERE}).assert_not_slower_than("small.onnx", "3%")
    """)
    assert status == 1
    assert "Regression: time of large.onnx on onnxrt-cpu: +" in said and "side by side" in said


def test_not_slower_than_a_saved_report(run, models, tmp_path):
    saved = tmp_path / "saved.json"
    subprocess.run([_native.program(), "profile", models / "small.onnx", "-b", "onnxrt-cpu", "--launches", "5",
                    "--repeats", "20", "--format", "json", "-o", saved], check=True, capture_output=True)
    status, said = run(f"prony.profile('large.onnx', 'onnxrt-cpu', {HERE}).assert_not_slower_than('{saved}', 0.03)")
    assert status == 1 and "Regression: time of large.onnx" in said
    # One process shows nothing: a warning, unless that is too little.
    few = f"prony.profile('large.onnx', 'onnxrt-cpu', launches=1, repeats=5).assert_not_slower_than('{saved}', '3%'"
    status, said = run(few + ")")
    assert status == 0 and "PronyWarning" in said and "Not shown for 1 limit" in said
    assert run(few + ", strict=True)")[0] == 1


@pytest.mark.parametrize("text, says", [
    ("prony.profile('missing.onnx')", "no model 'missing.onnx'"),
    ("prony.profile('small.onnx').assert_faster_than('20')", "'20' is not a time such as '20 ms'"),
    ("prony.profile('small.onnx', 'nothing').assert_faster_than('20 ms')", "nothing"),
    ("prony.profile('small.onnx').assert_not_slower_than('gone.onnx')", "gone.onnx"),
    ("prony.profile('small.onnx', ops=True).assert_not_slower_than('small.onnx')", "no use for the option 'ops'"),
])
def test_faults_are_named(run, text, says):
    status, said = run(text)
    assert status == 1 and says in said, said


def test_where_the_program_cannot_run(run, tmp_path):
    nowhere = {"PRONY_PROGRAM": str(tmp_path / "prony")}
    status, said = run("prony.profile('small.onnx')", **nowhere)
    assert status == 1 and "prony can't run here: " in said, said
    status, said = run("prony.profile('small.onnx')", "--prony-unavailable", "skip", "-rs", **nowhere)
    assert status == 0 and "1 skipped" in said and "prony can't run here: " in said, said
