"""What holds for the program as a whole: it starts quickly, every command helps in the same way, and
what it prints survives odd surroundings."""
import os
import re
import subprocess
import time

import pytest

HELP_WIDTH = 90


@pytest.fixture
def commands(prony):
    listed = prony("--help").stdout.split("Commands:\n")[1].split("\n\n")[0]
    return dict(line.split(maxsplit=1) for line in listed.splitlines())


def test_version_is_quick(program):
    """The best of many: what a busy machine adds isn't the program's."""
    times = []
    for _ in range(40):
        start = time.perf_counter()
        subprocess.run([program, "--version"], stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - start)
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
        done = prony(name, *["surplus"] * 200)
        assert done.status == 2 and done.stdout == ""
        assert re.match(r"prony: error: unexpected argument 'surplus'\n", done.stderr)


def test_closed_pipe(program):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([program, "--help"], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert done.returncode == 1
    assert b"Broken pipe" in done.stderr


def test_locale_does_not_matter(prony):
    for locale in ("C", "C.UTF-8", "de_DE.UTF-8", "no-such-locale"):
        assert prony("synth", "--list", env={"LC_ALL": locale}).stdout == \
            prony("synth", "--list").stdout
