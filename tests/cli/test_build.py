"""What those who package prony give to its build counts: flags, the kind of build, the destination."""
import json
import os
import shutil

import pytest

from conftest import BUILD, ROOT, sh

FLAGS = ("CFLAGS", "LDFLAGS", "CC", "CMAKE_C_COMPILER_LAUNCHER")


@pytest.fixture
def configure(workdir):
    """configure({"CFLAGS": ...}, "-DX=Y") → how src/base/error.c is compiled and prony is linked."""
    if not shutil.which("ninja"):
        pytest.skip("no ninja here")

    def call(flags, *options):
        clean = {name: value for name, value in os.environ.items() if name not in FLAGS}
        sh("env", "-i", *[f"{k}={v}" for k, v in {**clean, **flags}.items()],
           "cmake", "-G", "Ninja", "-S", ROOT, "-B", workdir / "build", *options)
        commands = json.loads((workdir / "build/compile_commands.json").read_text())
        (command,) = [c["command"] for c in commands if c["file"].endswith("/src/base/error.c")]
        linking = sh("ninja", "-C", workdir / "build", "-t", "commands", "prony").splitlines()[-1]
        return command.split(), linking.split()

    return call


@pytest.mark.long
def test_by_default(configure):
    compiling, _ = configure({})
    assert "-O2" in compiling and "-Wall" in compiling and "-D_FORTIFY_SOURCE=2" in compiling
    assert "-Werror" not in compiling and "-DNDEBUG" not in compiling


@pytest.mark.long
def test_those_who_change_prony_have_warnings_as_errors(configure):
    assert "-Werror" in configure({}, "-DPRONY_TESTS=ON")[0]


@pytest.mark.long
def test_flags_of_packagers(configure):
    compiling, linking = configure({"CFLAGS": "-O1 -D_FORTIFY_SOURCE=3 -fstack-protector-all",
                                    "LDFLAGS": "-Wl,-z,now"})
    assert [word for word in compiling if word.startswith(("-O", "-D_FORTIFY", "-fstack"))] == [
        "-O1", "-D_FORTIFY_SOURCE=3", "-fstack-protector-all"]
    assert "-Wl,-z,now" in linking


@pytest.mark.long
def test_kind_of_build(configure):
    compiling, _ = configure({}, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS_RELEASE=-Os")
    assert [word for word in compiling if word.startswith("-O")] == ["-Os"]
    compiling, _ = configure({}, "-DCMAKE_BUILD_TYPE=Debug")
    assert not [word for word in compiling if word.startswith("-O")]


def test_destination(workdir):
    sh("cmake", "--install", BUILD, "--prefix", "/usr", env={"DESTDIR": str(workdir)})
    assert sorted(path.name for path in workdir.iterdir()) == ["usr"]
    assert (workdir / "usr/bin/prony").exists()
