"""The layering check finds planted violations, and nothing in the tree itself."""
import subprocess
import sys

import pytest

from conftest import ROOT


def check(root):
    done = subprocess.run([sys.executable, ROOT / "tools" / "layering.py", root],
                          capture_output=True, text=True, timeout=60, check=False)
    assert not done.stderr
    return done.returncode, done.stdout


def test_tree_is_clean():
    assert check(ROOT) == (0, "")


@pytest.mark.parametrize("path, include, fault", [
    ("base/a.c", '"format/json.h"', "base is below format"),
    ("model/a.h", '"runtime/runtime.h"', "model is below runtime"),
    ("runtime/onnxrt/a.c", '"runtime/openvino/api.h"', "runtime/onnxrt may not use"),
    ("report/a.c", '"cli/command.h"', "report is below cli"),
    ("exec/a.c", "<grpc/grpc.h>", "only src/rpc"),
    ("exec/a.c", '"../base/error.h"', "without '..'"),
    ("exec/a.c", '"error.h"', "write the folder in front"),
    ("junk/a.c", '"base/error.h"', "has no place"),
])
def test_violation_is_found(tmp_path, path, include, fault):
    file = tmp_path / "src" / path
    file.parent.mkdir(parents=True)
    file.write_text(f'#include "base/error.h"\n  #  include {include}\n')
    status, output = check(tmp_path)
    assert status == 1
    assert fault in output
    assert f"src/{path}:2:" in output or path.startswith("junk")


@pytest.mark.parametrize("path, include", [
    ("base/a.c", '"base/error.h"'),
    ("model/a.c", '"onnx/onnx.pb-c.h"'),
    ("runtime/registry.c", '"runtime/onnxrt/onnxrt.h"'),
    ("runtime/onnxrt/a.c", '"runtime/onnxrt/api.h"'),
    ("rpc/a.c", "<grpc/grpc.h>"),
    ("cli/main.c", '"base/error.h"'),
])
def test_allowed_include_passes(tmp_path, path, include):
    file = tmp_path / "src" / path
    file.parent.mkdir(parents=True)
    file.write_text(f"#include {include}\n")
    assert check(tmp_path) == (0, "")


def test_public_header_stands_alone(tmp_path):
    header = tmp_path / "include" / "prony" / "prony.h"
    header.parent.mkdir(parents=True)
    header.write_text('#include "base/error.h"\n')
    status, output = check(tmp_path)
    assert status == 1 and "stands alone" in output
