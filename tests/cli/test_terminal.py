"""What people see on a terminal: lines that fit, colours, and hints on what was mistyped."""
import contextlib
import copy
import json
import os
import pty
import re
import subprocess
import unicodedata

import pytest

from conftest import PATIENCE, PROGRAM, ROOT

DATA = ROOT / "tests/data"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def width(text):
    return sum(0 if unicodedata.combining(c) else 1 for c in text)


def rows(n, length):
    """A profile of n backends whose names have this length, and a load on each."""
    profile = json.loads((DATA / "profile-load.json").read_text())
    first = profile["results"][0]
    profile["results"] = []
    for i in range(n):
        result = copy.deepcopy(first)
        begin, end = "local/", f"{i:02}"
        name = begin + "b" * max(1, length - len(end)) + end
        result["backend"] |= {"name": name, "hardware": "local", "software": name[len(begin):]}
        profile["results"].append(result)
    return profile


@pytest.mark.parametrize("length", [5, 300])
@pytest.mark.parametrize("n", [1, 2, 12, 100])
def test_no_line_is_wider_than_the_terminal(prony, workdir, n, length):
    """One table, with a row for each backend; names in full below, and what isn't shown is said."""
    profile = rows(n, length)
    (workdir / "p.json").write_text(json.dumps(profile))
    names = [r["backend"]["software"] for r in profile["results"]]
    for columns in (40, 60, 80, 120, 200):
        for options in ([], ["--verbose"]):
            done = prony("report", "p.json", *options, env={"COLUMNS": str(columns)})
            assert done.status == 0, done.stderr
            lines = done.stdout.splitlines()
            assert max(map(width, lines)) <= columns, max(lines, key=width)
            head = done.stdout.split("Under load")[0]
            titles = [line for line in head.splitlines() if line.startswith("Backend")]
            assert len(titles) == 1 or options, titles
            joined = re.sub(r"\s+", "", done.stdout)
            assert all(name in joined for name in names)
            load = done.stdout.split("Under load")[1]
            shown = {word for line in load.splitlines() if line.startswith("Backend")
                     for word in re.split(r"\s{2,}", line)}
            told = re.search(r"Not shown: (.*?); --verbose or a wider terminal shows", " ".join(load.split()))
            left_out = set(told[1].split(", ")) if told else set()
            assert not left_out & shown and not (options and told)
            assert {"Backend", "Asked", "Workers", "p50", "p90", "p99", "p99 is within", "p99.9",
                    "Requests"} <= shown | left_out, columns


@pytest.mark.parametrize("files", [["compare-before.json", "compare-after.json"],
                                   ["compare-sweep-before.json", "compare-sweep-after.json"]])
def test_comparisons_fit(prony, files):
    for columns in (40, 60, 80, 120, 200):
        for options in ([], ["--verbose"]):
            done = prony("report", *(DATA / file for file in files), *options,
                         env={"COLUMNS": str(columns)})
            assert max(map(width, done.stdout.splitlines())) <= columns
            text = " ".join(done.stdout.split())
            for title in ("95 % interval", "p (Holm)", "After is"):
                assert title in text
            assert not (options and "Not shown" in text)


def on_terminal(*arguments, **environment):
    """What it writes to a terminal as standard output."""
    main, terminal = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm", **environment}
    shown = b""
    with subprocess.Popen([PROGRAM, *arguments], stdin=terminal, stdout=terminal, env=env) as process:
        os.close(terminal)
        with contextlib.suppress(OSError):  # the end of a terminal is an error
            while piece := os.read(main, 4096):
                shown += piece
        assert process.wait(PATIENCE) == 0
    os.close(main)
    return shown.decode()


def test_colours(prony):
    """On a terminal, never in a pipe; --color and NO_COLOR decide otherwise."""
    several = DATA / "profile-several.json"
    plain = prony("report", several).stdout
    assert "\x1b" not in plain
    assert ESCAPE.search(on_terminal("report", several))
    assert "\x1b" not in on_terminal("report", several, NO_COLOR="1")
    assert "\x1b" not in on_terminal("report", several, TERM="dumb")
    assert "\x1b" not in on_terminal("report", several, "--color", "never")
    coloured = prony("report", several, "--color", "always").stdout
    assert ESCAPE.search(coloured) and ESCAPE.sub("", coloured) == plain
    assert "\x1b" in prony("report", several, "--color", "always", env={"NO_COLOR": "1"}).stdout
    for form in ("json", "csv", "md"):
        assert "\x1b" not in prony("report", several, "--color", "always", "--format", form).stdout
    done = prony("report", several, "--color", "sometimes")
    assert done.status == 2 and "--color: 'sometimes' is not one of auto, always, never" in done.stderr


@pytest.mark.parametrize("arguments, says", [
    (["profil"], "unknown command 'profil'; did you mean 'profile'?"),
    (["reprot", "x"], "unknown command 'reprot'; did you mean 'report'?"),
    (["frobnicate"], "unknown command 'frobnicate'\n"),
    (["profile", "--repeat-s", "3", "x"], "unknown option '--repeat-s'; did you mean '--repeats'?"),
    (["profile", "--xyzzy", "x"], "unknown option '--xyzzy'\n"),
    (["profile", DATA / "mlp.onnx", "-b", "onnxrt-cup"], "no software 'onnxrt-cup'; did you mean 'onnxrt-cpu'?"),
    (["profile", DATA / "mlp.onnx", "--dim", "bacth=2", "-b", "onnxrt-cpu"], "did you mean 'batch'?"),
])
def test_did_you_mean(prony, arguments, says):
    done = prony(*arguments)
    assert done.status in (1, 2) and says in done.stderr and done.stderr.count("did you mean") <= 1, done.stderr


@pytest.mark.parametrize("time, seconds", [("60", 60), ("90s", 90), ("1m", 60), ("1.5m", 90), ("2min", 120),
                                           ("0.5h", 1800), ("2500ms", 2.5), ("1e2", 100)])
def test_times(prony, time, seconds):
    done = prony("profile", DATA / "mlp.onnx", "-b", "onnxrt-cpu", "--launches", "1", "--repeats", "2",
                 "--dim", "batch=1", "--max-time", time, "--format", "json")
    assert done.status == 0, done.stderr
    assert json.loads(done.stdout)["settings"]["max_time_s"] == seconds


@pytest.mark.parametrize("time", ["", "m", "1y", "1 m", "-1m", "1m30s", "nan", "infs", "0x10", "1e400"])
def test_wrong_times(prony, time):
    done = prony("profile", DATA / "mlp.onnx", f"--max-time={time}")
    assert done.status == 2 and done.stderr.startswith("prony: error: --max-time: "), done.stderr


@pytest.mark.parametrize("given, sizes", [("1..4", [1, 2, 3, 4]), ("1..64*4", [1, 4, 16, 64]),
                                          ("3..20*2", [3, 6, 12]), ("2..2", [2]), ("1..2,8", [1, 2, 8])])
def test_ranges_of_dimensions(prony, given, sizes):
    done = prony("profile", DATA / "mlp.onnx", "-b", "onnxrt-cpu", "--launches", "1", "--repeats", "1",
                 "--dim", f"batch={given}", "--format", "json")
    assert done.status == 0, done.stderr
    assert [p["inputs"][0]["shape"][0] for p in json.loads(done.stdout)["points"]] == sizes


@pytest.mark.parametrize("given", ["4..1", "1..", "..4", "1..8*1", "1..8*", "1..2..3", "1..9999", "1..x"])
def test_wrong_ranges(prony, given):
    done = prony("profile", DATA / "mlp.onnx", "--dim", f"batch={given}")
    assert done.status == 2 and f"--dim 'batch={given}'" in done.stderr, done.stderr
