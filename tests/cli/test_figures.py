"""tools/figures.py: documents show the figures that benchmarks recorded, and no others."""
import json
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT

RECORD = {"value": "3.9", "unit": "MiB", "date": "2026-01-02", "commit": "abc", "machine": "2 cores"}


@pytest.fixture
def tree(tmp_path):
    """A function that writes a README and runs the tool on it."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "tools/figures.py", tmp_path / "tools")
    (tmp_path / "docs/figures.json").write_text(json.dumps(
        {"memory": RECORD, "block": {**RECORD, "value": "```\na\n```", "unit": ""}}))

    def run(text, *options):
        (tmp_path / "README.md").write_text(text)
        done = subprocess.run([sys.executable, tmp_path / "tools/figures.py", *options],
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr, (tmp_path / "README.md").read_text()
    return run


def test_figures_that_are_recorded_pass(tree):
    text = ("It takes <!--fig:memory-->3.9 MiB<!--/--> (<!--fig:memory@date-->2026-01-02<!--/-->).\n"
            "<!--fig:block-->\n```\na\n```\n<!--/-->\n"
            "| what | bar | seen |\n|-|-|-|\n| memory | 16 MiB | <!--fig:memory-->3.9 MiB<!--/--> ¹ |\n\n| 1 | 2 |\n")
    assert tree(text) == (0, "", text)


@pytest.mark.parametrize("text, fault", [
    ("a\n<!--fig:memory-->3.1 MiB<!--/-->", "README.md:2: 'memory' is '3.9 MiB', the document says '3.1 MiB'"),
    ("<!--fig:memory@commit-->abd<!--/-->", "'memory' is 'abc', the document says 'abd'"),
    ("<!--fig:time-->1 ms<!--/-->", "'time' is in no record"),
    ("<!--fig:memory@unit-->MiB<!--/-->", "'memory@unit' is in no record"),
    ("<!--fig:memory-->3.9 MiB", "'<!--fig:memory-->' has no other end"),
    ("3.9 MiB<!--/-->", "'<!--/-->' has no other end"),
    ("| what | seen | taken |\n|-|-|-|\n| x | 3.9 MiB | now |\n", "README.md:3: a figure without its mark: '3.9 MiB'"),
])
def test_others_are_named(tree, text, fault):
    status, said, _ = tree(text)
    assert status == 1 and said.count("\n") == 1 and fault in said


def test_write_mends_what_it_can(tree):
    status, said, text = tree("<!--fig:memory-->3.1 MiB<!--/--> <!--fig:block--><!--/--> <!--fig:time-->1<!--/-->",
                              "--write")
    assert text == ("<!--fig:memory-->3.9 MiB<!--/--> <!--fig:block-->\n```\na\n```\n<!--/--> "
                    "<!--fig:time-->1<!--/-->")
    assert status == 1 and said == "README.md:5: 'time' is in no record\n"
