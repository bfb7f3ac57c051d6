"""What holds for the program as a whole: it starts quickly, every command helps in the same way, and
what it prints survives odd surroundings."""
import os
import re
import subprocess

import pytest
from conftest import ROOT

HELP_WIDTH = 80


@pytest.fixture
def commands(prony):
    listed = prony("--help").stdout.split("Commands:\n")[1].split("\n\n")[0]
    return dict(line.split(maxsplit=1) for line in listed.splitlines())


def test_version_is_quick(program):
    """In processor time, and the best of many: what a busy machine adds isn't the program's."""
    times = []
    for _ in range(40):
        process = subprocess.Popen([program, "--version"], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        times.append(used.ru_utime + used.ru_stime)
    assert min(times) < 0.005


def test_help_of_every_command(prony, commands):
    for name, summary in commands.items():
        done = prony(name, "--help")
        assert done.status == 0 and done.stderr == ""
        assert done.stdout.startswith(f"Usage: prony {name}")
        assert prony("help", name).stdout == done.stdout
        assert not summary.endswith(".")
        for line in done.stdout.splitlines():
            assert line == line.rstrip(), f"{name}: trailing space in '{line}'"
            assert len(line) <= HELP_WIDTH, f"{name}: '{line}'"


def test_misuse_of_every_command(prony, commands):
    for name in commands:
        done = prony(name, "--no-such-option")
        assert done.status == 2 and done.stdout == ""
        assert done.stderr == (f"prony: error: unknown option '--no-such-option'\n"
                               f"prony: see 'prony {name} --help'\n")
        if name == "explore":
            continue  # takes any number of files
        done = prony(name, *["surplus"] * 200)
        assert done.status == 2 and done.stdout == ""
        assert re.match(r"prony: error: (unexpected argument 'surplus'|'surplus' is not one of .*)\n",
                        done.stderr)


def test_closed_pipe(program):
    """Who stops reading, as head does, has what they want."""
    reader, writer = os.pipe()
    os.close(reader)
    trace = ROOT / "examples/traces/before.json.gz"
    for arguments in (["--help"], ["--version"], ["help", "explore"], ["synth", "--list"],
                      ["model", ROOT / "tests/data/mlp.onnx"], ["explore", trace],
                      ["explore", trace, "--format", "perfetto"],
                      ["explore", trace, "--compare", trace],
                      ["report", ROOT / "tests/data/profile-single.json"],
                      ["layers", ROOT / "tests/data/mlp.onnx", "--list"]):
        done = subprocess.run([program, *arguments], stdout=writer, stderr=subprocess.PIPE,
                              check=False)
        assert (done.stderr, done.returncode) == (b"", 0), arguments
    # A disk that is full is another matter.
    with open("/dev/full", "wb") as full:
        done = subprocess.run([program, "--help"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1 and b"No space left" in done.stderr
    os.close(writer)


def test_locale_does_not_matter(prony):
    for locale in ("C", "C.UTF-8", "de_DE.UTF-8", "no-such-locale"):
        assert prony("synth", "--list", env={"LC_ALL": locale}).stdout == \
            prony("synth", "--list").stdout
