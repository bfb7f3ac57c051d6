"""The test machinery can fail: the runner sees crashes, hangs and missing tests, and the replay of
a fuzz corpus finds and names the input that breaks a harness."""
import os
import re
import sys

import pytest

from conftest import ROOT, run_program


def run_fakes(folder, **scripts):
    """tests/run.py on a build folder whose unit tests are these shell scripts."""
    unit = folder / "tests" / "unit"
    unit.mkdir(parents=True)
    for name, script in scripts.items():
        (unit / f"test_{name}").write_text(f"#!/bin/sh\n{script}\n")
        (unit / f"test_{name}").chmod(0o755)
    return run_program([sys.executable, ROOT / "tests" / "run.py", "--sanitized", folder],
                       env={**os.environ, "PRONY_UNIT_TIMEOUT": "2"})


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
    assert re.fullmatch(r"[12] passed, 1 failed", last_line(done))


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
