"""The examples run as they are, and so does the spec's first program under the old names."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

from python_parts import PATIENCE

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples/pytorch"


def run(path, tmp_path, **env):
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=PATIENCE,
                          cwd=tmp_path, env={**os.environ, "TMPDIR": str(tmp_path), **env})
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(text):
    """Backends of the table, with what stands after them."""
    return dict(re.findall(r"^([a-z]+-[a-z-]+)(?:\[.*\])?  +(\d.*)$", text, re.MULTILINE))


@pytest.mark.long
def test_first(tmp_path):
    """On every runtime; the one example that has inductor in it. As octoml-profile's users wrote it."""
    program = tmp_path / "first.py"
    source = (EXAMPLES / "first.py").read_text()
    program.write_text(source.replace("from prony import", "from octoml_profile import"))
    out = run(program, tmp_path)
    assert "Profile `predict[1/1]` ran 9 times (1 more discarded: it compiled)." in out
    table = rows(out)
    assert list(table) == ["onnxrt-cpu", "openvino-cpu", "torch-eager-cpu", "torch-inductor-cpu"]
    for cells in table.values():
        backend_ms, total_ms, *_ = cells.split()
        assert 0 < float(backend_ms) < float(total_ms)
    assert not list(tmp_path.glob("prony-*")), "the folder for temporary files is as it was"
    assert "Outputs of all backends agree with those computed locally." in out
    program.write_text(program.read_text().replace(
        "remote_profile(RemoteInferenceSession())",
        "remote_profile(backends='local/onnxrt-cpu', report_folder='details')"))
    out = run(program, tmp_path)
    details = tmp_path / "details" / "predict_1.profile.txt"
    segments = details.read_text()
    assert len(re.findall(r"Local python +9 ", segments)) == 2, segments
    assert len(re.findall(r"local/\S+ +90 ", segments)) == 1, segments
    dump = tmp_path / "details" / "predict_1.graph_dump.txt"
    line = 1 + source.splitlines().index("    return softmax(net(x), dim=-1)")
    assert f"from  {program}:{line}, return softmax(net(x), dim=-1)" in dump.read_text()
    assert str(details.relative_to(tmp_path)) in out and str(dump.relative_to(tmp_path)) in out


@pytest.mark.parametrize("name, says", [
    pytest.param("text", "11 sentences of 4 lengths, 1 graph", marks=pytest.mark.long),
    ("image", "Segment"),
    pytest.param("generate", "the same tokens here, there, and while profiling", marks=pytest.mark.long),
])
def test_others(tmp_path, name, says):
    out = run(EXAMPLES / f"{name}.py", tmp_path)
    assert says in out
    assert len(rows(out)) == 2 and "N/A  N/A" not in out, out
