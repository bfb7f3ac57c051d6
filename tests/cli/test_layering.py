"""The layering check finds planted violations, and nothing in the tree itself."""
import subprocess
import sys

import pytest

from conftest import PATIENCE, ROOT


def check(root):
    done = subprocess.run([sys.executable, ROOT / "tools" / "layering.py", root],
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert not done.stderr
    return done.returncode, done.stdout


def test_tree_is_clean():
    assert check(ROOT) == (0, "")


@pytest.mark.parametrize("path, include, fault", [
    ("base/a.c", '"format/json.h"', "base is below format"),
    ("model/a.h", '"runtime/runtime.h"', "model is below runtime"),
    ("runtime/onnxrt/a.c", '"runtime/openvino/api.h"', "runtime/onnxrt may not use"),
    ("report/a.c", '"cli/command.h"', "report is below cli"),
    ("report/trace/a.c", '"report/profile/view.h"', "report/trace may not use report/profile"),
    ("service/store/a.c", '"service/web/http.h"', "service/store may not use service/web"),
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
    ("report/load/a.c", '"report/profile/view.h"'),
    ("report/page.c", '"report/trace/report.h"'),
    ("rpc/a.c", "<grpc/grpc.h>"),
    ("cli/main.c", '"base/error.h"'),
])
def test_allowed_include_passes(tmp_path, path, include):
    file = tmp_path / "src" / path
    file.parent.mkdir(parents=True)
    file.write_text(f"#include {include}\n")
    assert check(tmp_path) == (0, "")


@pytest.mark.parametrize("path, text, fault", [
    ("exec/a.h", "int prn_a(int b,\n          int c);\n", "src/exec/a.h: there is no a.c"),
    ("exec/a.c", "static int run(void)\n{\n}\n", "src/exec/a.c: run() needs the name of its file"),
    ("exec/parts.h", "int prn_a(void);\n", ""),
    ("exec/exec.h", "int prn_a(void);\n", ""),
    ("exec/a.h", "struct prn_a {\n    int b;\n};\n", ""),
    ("exec/a.c", "static int a_run(void)\n{\n}\n", ""),
])
def test_names_of_files(tmp_path, path, text, fault):
    file = tmp_path / "src" / path
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert check(tmp_path) == (1 if fault else 0, fault and fault + "\n")


@pytest.mark.parametrize("files, fault", [(40, ""), (41, "src/base: 41 files, which is more than 40\n")])
def test_a_folder_has_few_files(tmp_path, files, fault):
    (tmp_path / "src" / "base" / "room").mkdir(parents=True)
    (tmp_path / "src" / "base" / "room" / "a.c").touch()
    for i in range(files):
        (tmp_path / "src" / "base" / f"a{i}.c").touch()
    assert check(tmp_path) == (1 if fault else 0, fault)


def test_public_header_stands_alone(tmp_path):
    header = tmp_path / "include" / "prony" / "prony.h"
    header.parent.mkdir(parents=True)
    header.write_text('#include "base/error.h"\n')
    status, output = check(tmp_path)
    assert status == 1 and "stands alone" in output


@pytest.mark.parametrize("text, name", [
    ("struct prn_thing {\n    int x;\n};\n", "prn_thing"),
    ("enum prn_thing {\n    A,\n};\n", "prn_thing"),
    ("int *prn_make(int a,\n              int b)\n{\n    return 0;\n}\n", "prn_make()"),
])
def test_a_name_means_one_thing(tmp_path, text, name):
    for folder in ("base", "model"):
        (tmp_path / "src" / folder).mkdir(parents=True)
        (tmp_path / "src" / folder / "a.c").write_text(f"\n{text}")
    assert check(tmp_path) == (1, f"src/model/a.c:2: {name} is defined in src/base/a.c:2 too\n")


def test_a_tag_and_a_function_may_share_a_name(tmp_path):
    (tmp_path / "src" / "base").mkdir(parents=True)
    (tmp_path / "src" / "base" / "a.c").write_text(
        "struct prn_thing;\nint prn_thing(void);\nstatic int prn_make(void)\n{\n}\n"
        "struct prn_thing {\n};\nint prn_thing(void)\n{\n}\nint prn_make(void)\n{\n}\n")
    assert check(tmp_path) == (0, "")
