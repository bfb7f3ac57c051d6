"""What `make install` puts into a prefix works from there: header, libraries, pkg-config, man page,
shell completion and the program."""
import json
import os
import re
import shutil
import subprocess

import pytest

from conftest import PATIENCE, ROOT, run_program, sh

PROGRAM = """
#include <prony/prony.h>
#include <stdio.h>

int main(void)
{
    struct prony_error err;
    err.code = PRONY_EIO;
    printf("%s %s\\n", prony_version(), prony_error_name(err.code));
    return 0;
}
"""


@pytest.fixture
def source(workdir):
    path = workdir / "main.c"
    path.write_text(PROGRAM)
    return path


def header_version():
    header = (ROOT / "include" / "prony" / "prony.h").read_text()
    return ".".join(re.findall(r"#define PRONY_VERSION_\w+ (\d+)", header))


@pytest.mark.parametrize("compiler, options", [
    ("cc", ["-std=c99"]), ("cc", ["-std=c17"]), ("g++", ["-std=c++11"]), ("clang++", [])])
def test_header_compiles(prefix, workdir, compiler, options):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} here")
    language = "c" if compiler == "cc" else "c++"
    file = workdir / "header.h"
    file.write_text("#include <prony/prony.h>\n#include <prony/prony.h>\n")
    sh(compiler, *options, "-x", language, "-Wall", "-Wextra", "-Wpedantic", "-Werror",
       "-fsyntax-only", f"-I{prefix}/include", file)


def test_shared_library(pkg_config, library_folder, source, workdir):
    sh("cc", source, *pkg_config("--cflags"), *pkg_config("--libs"), "-o", workdir / "main")
    output = sh(workdir / "main", env={"LD_LIBRARY_PATH": str(library_folder)})
    assert output == f"{header_version()} PRONY_EIO\n"
    linked = sh("readelf", "-d", workdir / "main")
    assert f"[libprony.so.{header_version().split('.', maxsplit=1)[0]}]" in linked


def test_static_library(pkg_config, library_folder, source, workdir):
    libraries = pkg_config("--static", "--libs")
    assert "-lprony" in libraries
    libraries[libraries.index("-lprony")] = "-l:libprony.a"
    sh("cc", source, *pkg_config("--cflags"), *libraries, "-o", workdir / "main")
    assert sh(workdir / "main") == f"{header_version()} PRONY_EIO\n"
    assert "libprony" not in sh("readelf", "-d", workdir / "main")
    # The whole archive, not only what such a small program pulls in, finds all that it needs.
    at = libraries.index("-l:libprony.a")
    libraries[at:at + 1] = ["-Wl,--whole-archive", "-l:libprony.a", "-Wl,--no-whole-archive"]
    sh("cc", source, *pkg_config("--cflags"), *libraries, "-o", workdir / "main")
    assert library_folder.joinpath("libprony.a").exists()


def test_pkg_config_version(pkg_config):
    assert pkg_config("--modversion") == [header_version()]


def test_only_public_symbols_are_exported(library_folder):
    symbols = sh("nm", "-D", "--defined-only", library_folder / "libprony.so").splitlines()
    names = [line.split()[-1] for line in symbols]
    assert "prony_version" in names
    assert [name for name in names if not name.startswith("prony_")] == []


def test_program(prefix):
    assert sh(prefix / "bin" / "prony", "--version") == f"prony {header_version()}\n"
    needed = re.findall(r"NEEDED.*\[(.*?)\]", sh("readelf", "-d", prefix / "bin" / "prony"))
    assert not any("onnxruntime" in name for name in needed)


def test_runtimes_are_installed_with_it(prefix):
    """It measures from anywhere, with nothing of the build folder."""
    done = run_program([prefix / "bin" / "prony", "backends", "--format", "json"], cwd="/", env={})
    found = {row["software"]: row for row in json.loads(done.stdout)["backends"] if row["available"]}
    assert set(found) == {"onnxrt-cpu", "openvino-cpu"}, done.stderr
    for row in found.values():
        assert row["origin"] == "beside prony"
        assert row["library"].startswith(str(prefix.resolve()) + "/")


def test_man_page(prefix):
    page = prefix / "share" / "man" / "man1" / "prony.1"
    text = page.read_text()
    assert text.startswith(".TH PRONY 1 ")
    for line in text.splitlines():
        assert not line.startswith(".") or re.match(r"\.(TH|SH|SS|PP|TP|RS|RE|nf|fi|B)\b", line), line
    if shutil.which("man") and shutil.which("groff"):
        done = run_program(["man", "--warnings", "-l", page],
                           env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80", "PAGER": "cat"})
        assert done.status == 0 and done.stderr == "", done.stderr
        assert "EXIT STATUS" in done.stdout
    for word in ("--fail-over", "--fail-on-mismatch", "PRONY_OPENVINO_LIB", "VIRTUAL_ENV"):
        assert word.replace("-", "\\-") in text.split(".SH EXIT STATUS")[1]


def complete(prefix, *words, cwd=None):
    """What bash offers for the last of these words."""
    file = prefix / "share" / "bash-completion" / "completions" / "prony"
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); '
              '_prony; printf "%s\\n" "${COMPREPLY[@]}"')
    return sh("bash", "--norc", "-c", script, "bash", file, "prony", *words, cwd=cwd).splitlines()


def commands(prefix):
    overview = sh(prefix / "bin" / "prony", "--help")
    listed = overview.split("Commands:\n")[1].split("\n\n")[0]
    return [line.split()[0] for line in listed.splitlines()]


def test_bash_completion(prefix, workdir):
    sh("bash", "-n", prefix / "share" / "bash-completion" / "completions" / "prony")
    assert complete(prefix, "syn") == ["synth"]
    assert set(commands(prefix)) <= set(complete(prefix, ""))
    assert "executor" not in complete(prefix, "")
    for command in commands(prefix):
        assert "--help" in complete(prefix, command, "--he")
        helped = set(re.findall(r"^  (?:-\w, |    )(--[\w-]+)",
                                sh(prefix / "bin" / "prony", command, "--help"), re.MULTILINE))
        assert helped <= set(complete(prefix, command, "--"))
    assert complete(prefix, "synth", "resn") == ["resnet50"]
    assert complete(prefix, "profile", "--format", "j") == ["json"]
    assert complete(prefix, "profile", "--format", "=", "j") == ["json"]


def test_bash_completes_backends(prefix):
    """Also those that are given a name; bash cuts words at '='."""
    assert "onnxrt-cpu" in complete(prefix, "profile", "-b", "")
    for words in (["-b", "openv"], ["--backend", "openv"], ["--backend", "=", "openv"],
                  ["-b", "new", "=", "openv"], ["--reference", "openv"]):
        assert complete(prefix, "profile", *words) == ["openvino-cpu"], words
    assert "onnxrt-cpu" in complete(prefix, "profile", "-b", "new", "=")


def test_bash_completes_files_by_kind(prefix, workdir):
    """Only what the command takes, and folders; a value of an option may be any file."""
    data = ROOT / "tests/data"
    (workdir / "my model.onnx").touch()
    shutil.copy(data / "profile-tiny.json", workdir / "my profile.json")
    shutil.copy(data / "trace/gpu.json", workdir / "my trace.json")
    (workdir / "my object.json").write_text('{"otherData": 1, "traceEvents": []}')
    (workdir / "my schedule.json").write_text('{\n  "schema": "prony.schedule/1"}')
    (workdir / "my notes.txt").touch()
    (workdir / "my.html").touch()
    (workdir / "my.json.gz").touch()
    (workdir / "my folder").mkdir()
    (workdir / "my secret.json").touch(0)
    offered = {command: set(complete(prefix, command, "my", cwd=workdir)) - {"my folder"}
               for command in ("profile", "model", "layers", "report", "explore", "view", "serve")}
    assert offered["profile"] == offered["model"] == offered["layers"] == {"my model.onnx"}
    assert offered["report"] == {"my profile.json"}
    assert offered["explore"] == {"my trace.json", "my object.json", "my.json.gz"}
    assert offered["view"] == {"my profile.json", "my trace.json", "my object.json", "my.json.gz",
                               "my schedule.json", "my.html"}
    everything = {path.name for path in workdir.iterdir() if path.name.startswith("my")}
    assert offered["serve"] | {"my folder"} == everything
    assert set(complete(prefix, "profile", "-o", "my", cwd=workdir)) == everything
    assert "my folder" in complete(prefix, "profile", "my", cwd=workdir)


def test_zsh_completion(prefix):
    page = prefix / "share" / "zsh" / "site-functions" / "_prony"
    text = page.read_text()
    assert text.startswith("#compdef prony\n")
    for command in commands(prefix):
        assert f"'{command}:" in text
    if shutil.which("zsh"):
        subprocess.run(["zsh", "-n", page], check=True, timeout=PATIENCE)
