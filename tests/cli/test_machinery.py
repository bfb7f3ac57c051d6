"""The test machinery can fail: the runner sees crashes, hangs and missing tests, and the replay of
a fuzz corpus finds and names the input that breaks a harness."""
import json
import os
import re
import sys

import pytest

from conftest import ROOT, run_program


def run_fakes(folder, *options, **scripts):
    """tests/run.py on a build folder whose unit tests are these shell scripts."""
    unit = folder / "tests" / "unit"
    unit.mkdir(parents=True)
    for name, script in scripts.items():
        (unit / f"test_{name}").write_text(f"#!/bin/sh\n{script}\n")
        (unit / f"test_{name}").chmod(0o755)
    return run_program([sys.executable, ROOT / "tests" / "run.py", "--sanitized", folder, *options],
                       env={**os.environ, "PRONY_UNIT_TIMEOUT": "2" if "sleep" in str(scripts) else "60"})


def last_line(done):
    return done.stdout.splitlines()[-1]


def test_good_program_is_counted(workdir):
    done = run_fakes(workdir, good="echo 1..3; echo ok 1 - a; echo ok 2 - b; echo ok 3 '# SKIP' c")
    assert done.status == 0
    assert last_line(done) == "2 passed, 0 failed, 1 skipped"


@pytest.mark.parametrize("script, message", [
    ("echo 1..2; echo ok 1 - a; echo not ok 2 - b; exit 1", "not ok 2 - b"),
    ("echo 1..2; echo ok 1 - a; kill -SEGV $$", "died of SIGSEGV"),
    ("echo 1..2; echo ok 1 - a; sleep 100", "killed: it took more than 2 s"),
    ("echo 1..2; echo ok 1 - a", "2 tests were planned"),
    ("echo 1..1; echo ok 1 - a; exit 3", "exit status 3"),
    ("exit 0", "0 tests were planned"),
])
def test_bad_program_is_a_failure(workdir, script, message):
    done = run_fakes(workdir, bad=script, good="echo 1..1; echo ok 1 - a")
    assert done.status == 1
    assert message in done.stdout
    assert "to repeat it: " in done.stdout
    assert f"CMOCKA_MESSAGE_OUTPUT=TAP {workdir}/tests/unit/test_bad\n" in done.stdout
    assert re.fullmatch(r"[12] passed, 1 failed", last_line(done))


@pytest.mark.parametrize("folder, counts", [("tests/unit", "1 passed, 0 failed"),
                                           ("tests/web/", "0 passed, 0 failed")])
def test_a_folder_can_be_asked_for(workdir, folder, counts):
    done = run_fakes(workdir, "-k", folder, good="echo 1..1; echo ok 1 - a")
    assert last_line(done) == counts


def test_what_a_program_leaves_running_ends_with_it(workdir):
    """Even when it holds the output open."""
    done = run_fakes(workdir, bad="sleep 300 & echo $! > \"$0.pid\"; echo 1..1; echo ok 1 - a")
    assert (done.status, last_line(done)) == (0, "1 passed, 0 failed")
    pid = int((workdir / "tests/unit/test_bad.pid").read_text())
    assert not os.path.exists(f"/proc/{pid}") or "Z" in open(f"/proc/{pid}/stat").read().split()[2]


def test_what_fails_is_repeated_if_asked_for(workdir):
    once = "echo 1..1; [ -e $0.ran ] && echo ok 1 - a && exit; touch $0.ran; echo not ok 1 - a; exit 1"
    never = "echo 1..1; echo not ok 1 - a; exit 1"
    done = run_fakes(workdir / "asked", "--again", once=once)
    assert (done.status, last_line(done)) == (0, "1 passed, 0 failed")
    assert "test_once: 1 failed at first and passed alone" in done.stdout
    done = run_fakes(workdir / "fails", "--again", once=once, never=never)
    assert (done.status, last_line(done)) == (1, "1 passed, 1 failed")
    done = run_fakes(workdir / "plain", once=once)
    assert (done.status, last_line(done)) == (1, "0 passed, 1 failed")


def test_nothing_to_run_is_a_failure(workdir):
    done = run_fakes(workdir)
    assert done.status == 1
    assert last_line(done) == "0 passed, 0 failed"


HARNESS = """
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    %s
    return data == NULL;
}
"""


def replay(folder, body, corpus=b"hello"):
    (folder / "corpus").mkdir()
    (folder / "corpus" / "seed").write_bytes(corpus)
    (folder / "harness.c").write_text(HARNESS % body)
    done = run_program(["cc", "-D_GNU_SOURCE", "-DSECONDS_PER_INPUT=1", f"-I{ROOT}/src",
                        folder / "harness.c", ROOT / "tests" / "fuzz" / "replay.c",
                        ROOT / "src" / "base" / "random.c", "-lm", "-o", folder / "harness"])
    assert done.status == 0, done.stderr
    return run_program([folder / "harness", folder / "corpus"])


def test_replay_counts_variants(workdir):
    done = replay(workdir, "(void)size;")
    assert done.status == 0
    assert done.stdout == "replayed 1 files, 198 inputs\n"


@pytest.mark.parametrize("body, variant", [
    ("if (size == 5 && memcmp(data, \"hello\", 5) == 0) abort();", "corpus/seed\n"),
    ("if (size == 2) abort();", "seed, cut to 2 bytes"),
    ("if (size == 5 && data[1] == 0xff) abort();", "seed, byte 1 changed from 65 to ff"),
    ("if (size == 5 && data[0] == 'i') *(volatile char *)8 = 0;", "byte 0 changed from 68 to 69"),
    ("if (size == 3) for (;;) usleep(1000);", "took too long"),
])
def test_replay_names_what_breaks(workdir, body, variant):
    done = replay(workdir, body)
    assert done.status < 0
    assert variant in done.stderr


def test_replay_needs_a_corpus(workdir):
    replay(workdir, "(void)size;")
    (workdir / "corpus" / "seed").unlink()
    done = run_program([workdir / "harness", workdir / "corpus"])
    assert done.status == 1 and "no corpus" in done.stderr


# ---- clang-tidy ----

@pytest.fixture
def tidy(workdir):
    """tools/tidy.py on a.c and b.c, which include a.h. What stands for clang-tidy finds the word BAD, and
    what stands for ninja says what objects were made of. Returns how many sources were looked at."""
    for name in ("a.c", "b.c", "a.h", "c.c"):
        (workdir / name).write_text(name)
    (workdir / "compile_commands.json").write_text(json.dumps(
        [{"file": str(workdir / f"{x}.c"), "command": f"cc -o {x}.o -c {x}.c"} for x in "ab"]))
    (workdir / "bin").mkdir()
    for name, script in (
            ("ninja", "for x in a b; do printf '%s.o: #deps 2, deps mtime 1 (VALID)\\n    %s.c\\n    a.h\\n\\n'"
                      " $x $x; done"),
            ("clang-tidy", 'for last; do :; done; [ "$last" = --version ] && exec cat version;'
                           ' ! grep -H BAD "$last" a.h')):
        (workdir / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (workdir / "bin" / name).chmod(0o755)

    def run(status=0):
        done = run_program([sys.executable, ROOT / "tools/tidy.py", workdir,
                            *(workdir / f"{x}.c" for x in "abc")], cwd=workdir,
                           env={**os.environ, "PATH": f"{workdir / 'bin'}:{os.environ['PATH']}"})
        assert done.status == status, done
        return int(re.search(r"^(\d+) of 3 sources looked at", done.stdout, re.MULTILINE).group(1))

    (workdir / "version").write_text("1")
    return run


def test_tidy_looks_again_at_what_has_changed(workdir, tidy):
    """c.c was never compiled, so nobody knows what it is made of: it is looked at each time."""
    assert tidy() == 3 and tidy() == 1
    (workdir / "a.c").write_text("another")
    assert tidy() == 2 and tidy() == 1
    (workdir / "a.h").write_text("BAD")
    assert tidy(status=1) == 3 and tidy(status=1) == 3
    (workdir / "a.h").write_text("good")
    assert tidy() == 3 and tidy() == 1
    (workdir / "version").write_text("2")
    assert tidy() == 3 and tidy() == 1
