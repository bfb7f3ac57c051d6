"""Which runtime library is loaded: the one that was asked for or none, else what is found."""
import json
import os
import shutil

import pytest

from conftest import BUILD, run_program

QUICK = ("--launches", "1", "--repeats", "3", "--warmups", "1")
RUNTIMES = {"onnxruntime": "onnxruntime/capi", "openvino": "openvino/libs"}
NO_FILE = "the file does not exist"


def copy(source, target):
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


@pytest.fixture
def bare(program, workdir):
    """prony alone in a folder, run with what a user's shell has."""
    folder = workdir / "bare"
    folder.mkdir()
    copy(program, folder / "prony")

    def call(*arguments, **variables):
        env = {"PATH": "/nowhere", "HOME": str(workdir), **variables}
        return run_program([folder / "prony", *arguments], cwd=workdir, env=env)

    return call


@pytest.fixture
def virtual(workdir):
    """A virtual environment with both runtimes, as their wheels unpack."""
    site = workdir / "v env" / "lib" / "python3.12" / "site-packages"
    for runtime, folder in RUNTIMES.items():
        (site / folder).parent.mkdir(parents=True)
        shutil.copytree(BUILD / "deps" / runtime, site / folder, symlinks=True, copy_function=copy,
                        ignore=shutil.ignore_patterns("include", "*.so.1", "*_c.so"))
    return workdir / "v env"


def available(done):
    assert done.status == 0, done.stderr
    return {row["software"]: row for row in json.loads(done.stdout)["backends"] if row["available"]}


def test_of_a_virtual_environment(bare, virtual, networks):
    found = available(bare("backends", "--format", "json", VIRTUAL_ENV=str(virtual)))
    assert set(found) == {"onnxrt-cpu", "openvino-cpu"}
    for row in found.values():
        assert row["library"].startswith(str(virtual)) and row["origin"] == "VIRTUAL_ENV"
    # Inside the sandbox too: OpenVINO loads parts of itself only with the model.
    done = bare("profile", networks["mlp"], *QUICK, "--format", "json", VIRTUAL_ENV=str(virtual))
    assert done.status == 0, done.stderr
    results = json.loads(done.stdout)["results"]
    assert [r["error"] for r in results] == [None, None]
    assert {r["backend"]["library"] for r in results} == {r["library"] for r in found.values()}


def test_of_the_python_on_path(bare, virtual):
    (virtual / "bin").mkdir()
    (virtual / "bin" / "python3").symlink_to("/bin/true")
    (virtual / "pyvenv.cfg").write_text("home = /usr/bin\n")
    found = available(bare("backends", "--format", "json", PATH=str(virtual / "bin")))
    assert {row["origin"] for row in found.values()} == {"python3 on PATH"}
    line = f"onnxrt-cpu: {found['onnxrt-cpu']['library']} (python3 on PATH)\n"
    assert f"  {line}" in bare("backends", PATH=str(virtual / "bin"), COLUMNS="1000").stdout
    assert f"- {line}" in bare("backends", "--format", "md", PATH=str(virtual / "bin")).stdout


def test_of_the_environment_that_prony_is_installed_in(program, virtual, workdir):
    """Without being active: `venv/bin/prony` is enough."""
    (packages,) = virtual.glob("lib/*/site-packages")
    own = packages / "prony/_bundle/bin/prony"
    own.parent.mkdir(parents=True)
    copy(program, own)
    env = {"PATH": "/nowhere", "VIRTUAL_ENV": "/nowhere"}
    found = available(run_program([own, "backends", "--format", "json"], cwd=workdir, env=env))
    assert set(found) == {"onnxrt-cpu", "openvino-cpu"}
    for row in found.values():
        assert row["library"].startswith(str(packages))
        assert row["origin"] == "prony's Python environment"


def test_none_is_one_line_each_that_says_how_to_get_it(bare, networks):
    shown = bare("backends", COLUMNS="1000").stdout
    assert ("\n  onnxrt-cpu, onnxrt-cuda, onnxrt-tensorrt, onnxrt-plugin: ONNX Runtime was not found; 'pip install "
            "onnxruntime' provides it") in shown
    assert "\n  openvino-cpu: OpenVINO was not found; 'pip install openvino' provides it" in shown
    done = bare("profile", networks["mlp"])
    assert done.status == 1 and "ONNX Runtime was not found" in done.stderr


@pytest.mark.parametrize("arguments, variables, message", [
    (["--ort-lib", "/nope/lib.so"], {}, "ONNX Runtime from '/nope/lib.so' (--ort-lib)"),
    (["--ort-lib", "lib.so"], {}, "ONNX Runtime from 'lib.so' (--ort-lib): the loader does not find"),
    ([], {"PRONY_ORT_LIB": "/nope/lib.so"},
     f"ONNX Runtime from '/nope/lib.so' (PRONY_ORT_LIB): {NO_FILE}"),
    ([], {"PRONY_OPENVINO_LIB": "/nope/lib.so"},
     f"OpenVINO from '/nope/lib.so' (PRONY_OPENVINO_LIB): {NO_FILE}"),
], ids=["option", "name", "variable", "openvino"])
def test_one_that_was_asked_for_is_not_replaced(prony, networks, arguments, variables, message):
    for command in (["profile", networks["mlp"], *QUICK], ["backends"]):
        done = prony(*command, *arguments, env=variables)
        assert (done.status, done.stdout) == (1, "")
        assert f"cannot load {message}" in done.stderr


@pytest.mark.parametrize("backend, title", [("onnxrt-cpu", "ONNX Runtime"),
                                            ("openvino-cpu", "OpenVINO")])
def test_one_that_a_backend_asks_for(prony, networks, backend, title):
    done = prony("profile", networks["mlp"], *QUICK, "-b", f"{backend}[lib=/nope/lib.so]",
                 "-b", "onnxrt-cpu")
    assert done.status == 1
    assert f"cannot load {title} from '/nope/lib.so' (lib=): {NO_FILE}" in done.stderr


def test_unused_option_names_a_file_too(prony, networks):
    done = prony("profile", networks["mlp"], *QUICK, "-b", "openvino-cpu", "--ort-lib", "/nope/x.so")
    assert done.status == 1 and "'/nope/x.so' (--ort-lib)" in done.stderr


def test_what_is_not_the_library(prony, networks, workdir):
    (workdir / "text.so").write_text("text")
    done = prony("profile", networks["mlp"], "--ort-lib", "./text.so")
    assert done.status == 1 and "./text.so" in done.stderr
    libc = next(line.split()[-1] for line in open("/proc/self/maps") if "/libc.so" in line)
    done = prony("backends", env={"PRONY_OPENVINO_LIB": libc})
    assert done.status == 1 and "is not an OpenVINO C library" in done.stderr
    done = prony("backends", "--ort-lib", libc)
    assert done.status == 1 and "is not an ONNX Runtime library" in done.stderr
