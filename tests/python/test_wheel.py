"""The package as users install it: a wheel of the source tree, in an environment of its own."""
import os
import re
import subprocess
import sys
import zipfile

import pytest

from python_parts import BUILD, ROOT

# The specification's first program, and a look at what it runs with.
PROGRAM = """
import importlib.metadata, sys
import torch
from torch.nn import Linear, ReLU, Sequential
from torch.nn.functional import softmax
import prony
from prony import _native, accelerate, remote_profile, RemoteInferenceSession

assert prony.__version__ == importlib.metadata.version("prony")
assert _native.program().startswith(sys.prefix), _native.program()
net = Sequential(Linear(100, 200), ReLU(), Linear(200, 10))

@accelerate
def predict(x):
    return softmax(net(x), dim=-1)

with remote_profile(RemoteInferenceSession()):
    for _ in range(10):
        predict(torch.randn(1, 100))
"""


def run(*argv, **options):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=280,
                          **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from what is built; the runtimes are those that set-up fetched."""
    folder = tmp_path_factory.mktemp("wheel")
    environment = {**os.environ, "PRONY_SETUP": "no", "PRONY_BUILD": str(BUILD)}
    before = run("git", "-C", ROOT, "status", "--porcelain", "--ignored=no") if (
        ROOT / ".git").exists() else None
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-index",
        "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT / "python",
        env=environment)
    if before is not None:
        assert run("git", "-C", ROOT, "status", "--porcelain", "--ignored=no") == before
    (found,) = folder.iterdir()
    return found


def test_what_is_in_it(wheel):
    assert wheel.name.startswith("prony-") and "-cp311-abi3-linux_" in wheel.name
    with zipfile.ZipFile(wheel) as contents:
        names = set(contents.namelist())
        program = contents.getinfo("prony/_bundle/bin/prony")
    assert {"prony/_native.abi3.so", "prony/_native.pyi", "prony/py.typed", "prony/_service.py",
            "octoml_profile/__init__.py", "prony/_bundle/lib/libprony.so.0",
            "prony/_bundle/lib/prony/libprony_net.so"} <= names
    assert program.external_attr >> 16 & 0o111 == 0o111
    assert not [name for name in names if name.endswith(".a") or "__pycache__" in name]


def test_it_runs_in_an_environment_of_its_own(wheel, tmp_path):
    """Which borrows PyTorch, so that it need not be fetched again."""
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    borrowed = run(sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    with open(f"{packages}/borrowed.pth", "w") as file:
        file.write(borrowed)
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index",
        "--no-deps", wheel)
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PRONY_PROGRAM")}
    program = tmp_path / "first.py"  # PyTorch reads the source of what it compiles
    program.write_text(PROGRAM)
    said = run(python, program, cwd=tmp_path, env=environment)
    assert "`predict[1/1]` ran 10 times. (1 discarded because compilation happened)" in said
    for software in ("onnxrt-cpu", "openvino-cpu", "torch-eager-cpu", "torch-inductor-cpu"):
        assert re.search(rf"^local .* {software} ", said, re.MULTILINE), said
