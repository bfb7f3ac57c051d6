"""Golden cases: each tests/cli/cases/*.txt is a transcript (tests/transcript.py) that must come out
the same. PRONY_REWRITE=1 writes down what came out instead; read the difference before committing.
"""
import os
import pathlib

import pytest

import transcript

CASES = sorted((pathlib.Path(__file__).parent / "cases").glob("*.txt"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path, program, workdir):
    comments, expected = transcript.parse(path.read_text())
    assert expected, "no commands in this case"
    actual = [transcript.run_step(step, workdir) for step in expected]
    if os.environ.get("PRONY_REWRITE"):
        lines = comments + [line for step in actual for line in step.lines()]
        text = "".join(f"{line}\n" for line in lines)
        assert transcript.parse(text) == (comments, actual), "output that looks like a transcript"
        path.write_text(text)
        return
    assert [line for step in actual for line in step.lines()] == \
        [line for step in expected for line in step.lines()]


def test_transcript_reads_what_it_writes():
    text = "about\n$ one \\\n  two\nout\n\n! err\n[3]\n$ three\n"
    comments, steps = transcript.parse(text)
    assert comments == ["about"]
    assert steps == [transcript.Step("one \\\n  two", ["out", ""], ["err"], 3),
                     transcript.Step("three")]


def test_transcript_sees_differences(workdir):
    step = transcript.run_step(transcript.Step("printf 'a\\nb'; echo c >&2; exit 4"), workdir)
    assert step.lines()[1:] == ["a", "b", transcript.NO_NEWLINE, "! c", "[4]"]
