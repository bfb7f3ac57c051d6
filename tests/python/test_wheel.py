"""The package as users install it: a wheel of the source tree, in an environment of its own."""
import os
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from python_parts import BUILD, PATIENCE, ROOT

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
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=PATIENCE,
                          **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from what is built."""
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
    assert wheel.name.startswith("prony-") and "-cp310-abi3-linux_" in wheel.name
    with zipfile.ZipFile(wheel) as contents:
        names = set(contents.namelist())
        program = contents.getinfo("prony/_bundle/bin/prony")
        (entries,) = [contents.read(name).decode() for name in names if name.endswith("/entry_points.txt")]
    assert "[pytest11]\nprony = prony.pytest_plugin\n" in entries
    assert {"prony/_native.abi3.so", "prony/_native.pyi", "prony/py.typed", "prony/_service.py",
            "prony/pytest_plugin.py", "octoml_profile/__init__.py", "prony/_bundle/lib/prony/libprony_net.so"} <= names
    assert program.external_attr >> 16 & 0o111 == 0o111
    assert not [name for name in names if re.search(
        r"\.a$|\.h$|__pycache__|libprony\.so|onnxruntime|openvino", name)]


@pytest.mark.long
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
    environment["PRONY_ORT_LIB"] = str(BUILD / "deps/onnxruntime/libonnxruntime.so.1")
    environment["PRONY_OPENVINO_LIB"] = str(BUILD / "deps/openvino/libopenvino_c.so")
    program = tmp_path / "first.py"  # PyTorch reads the source of what it compiles
    program.write_text(PROGRAM)
    said = run(python, program, cwd=tmp_path, env=environment)
    assert "`predict[1/1]` ran 9 times (1 more discarded: it compiled)." in said
    for software in ("onnxrt-cpu", "openvino-cpu", "torch-eager-cpu", "torch-inductor-cpu"):
        assert re.search(rf"^{software} +[0-9]", said, re.MULTILINE), said


def imported(code):
    """What a program without PyTorch sees; `torch` can't be imported in it."""
    hidden = "import sys; sys.modules['torch'] = None\n"
    return subprocess.run([sys.executable, "-c", hidden + code], capture_output=True, text=True,
                          timeout=PATIENCE)


def test_without_pytorch():
    done = imported("import prony; print(prony.__version__, prony.errors.CompilationError)")
    assert done.returncode == 0 and done.stdout.startswith("0."), done.stderr
    done = imported("from prony import accelerate")
    assert done.stderr.splitlines()[-1] == (
        "ImportError: prony.accelerate needs torch, which is not installed: pip install 'prony[torch]'")
    done = imported("import prony; prony.accelarate")
    assert done.stderr.splitlines()[-1].startswith(
        "AttributeError: module 'prony' has no attribute 'accelarate'")


def test_names():
    names = {}
    exec("from prony import *", names)
    import prony
    assert set(prony.__all__) == set(names) - {"__builtins__"}
    assert set(prony.__all__) <= set(dir(prony))


def test_the_program_of_the_package():
    assert run(sys.executable, "-m", "prony", "--version") == run(BUILD / "prony", "--version")
    done = subprocess.run([sys.executable, "-m", "prony", "frobnicate"], capture_output=True,
                          text=True, timeout=PATIENCE)
    assert done.returncode == 2 and done.stderr.startswith("prony: error: unknown command")


def test_the_folder_alone_is_not_enough(tmp_path):
    shutil.copytree(ROOT / "python", tmp_path / "python")
    done = subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps",
                           "--no-build-isolation", "--wheel-dir", tmp_path, tmp_path / "python"],
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode != 0
    assert (f"prony: error: '{tmp_path}' is not prony's source tree: the folder 'python' can't be "
            "built without what lies around it.") in done.stdout + done.stderr


def test_nothing_is_installed_on_the_machine(tmp_path):
    """What is missing is named, and apt isn't started, not even by root."""
    for name, script in (("dpkg-query", "exit 1"), ("apt-get", f"touch '{tmp_path}/started'"),
                         ("sudo", f"touch '{tmp_path}/started'")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}",
                   "PRONY_BUILD": str(tmp_path / "build")}
    environment.pop("PRONY_SETUP", None)
    done = subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps",
                           "--no-build-isolation", "--wheel-dir", tmp_path, ROOT / "python"],
                          capture_output=True, text=True, timeout=PATIENCE, env=environment)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "prony needs Debian packages that are not installed:" in said
    assert re.search(r"sudo apt-get install --no-install-recommends gcc .* libgrpc-dev ", said)
    assert not (tmp_path / "started").exists()
