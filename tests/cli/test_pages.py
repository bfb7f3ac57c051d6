"""Without Node prony is complete but for pages, and says what is missing. tests/web has the pages."""
import shutil

import pytest

from conftest import BUILD, ROOT, run_program, sh

PROFILE = ROOT / "tests" / "data" / "profile-single.json"
TRACE = ROOT / "tests" / "data" / "trace" / "gpu.json"
MISSING = ("prony: error: cannot make pages: this prony was built without Node 18 or later "
           "(package nodejs)\n")


@pytest.mark.parametrize("arguments", [
    ["report", PROFILE, "--format", "html"],
    ["report", PROFILE, PROFILE, "--format", "html"],
    ["profile", "missing.onnx", "--format", "html"],
    ["layers", "missing.onnx", "--format", "html"],
    ["explore", TRACE, "--format", "html"],
    ["explore", TRACE, "--compare", TRACE, "--format", "html"],
    ["schedule", "--format", "html"],
    ["view", PROFILE],
], ids=lambda arguments: " ".join(map(str, arguments[:2])))
def test_a_build_without_node_says_so(workdir, arguments):
    done = run_program([BUILD / "tests" / "prony_without_pages", *arguments], cwd=workdir)
    assert (done.status, done.stdout, done.stderr) == (1, "", MISSING)
    assert list(workdir.iterdir()) == []


def test_a_build_without_node_does_the_rest(workdir, prony):
    program = BUILD / "tests" / "prony_without_pages"
    for format_ in ("text", "json", "csv", "md"):
        arguments = ["report", PROFILE, "--format", format_]
        assert run_program([program, *arguments], cwd=workdir).stdout == prony(*arguments).stdout


@pytest.mark.parametrize("node, says", [
    ("exit 1", "without Node"), ("echo v12.22.0", "without Node"), ("echo v18.19.0", "without esbuild")])
def test_configuring_says_what_is_missing(workdir, node, says):
    if not shutil.which("ninja"):
        pytest.skip("no ninja here")
    fake = workdir / "node"
    fake.write_text(f"#!/bin/sh\n{node}\n")
    fake.chmod(0o755)
    said = sh("cmake", "-G", "Ninja", "-S", ROOT, "-B", workdir / "build", f"-DNODE={fake}")
    assert f"no pages (--format html, prony view): this prony was built {says}" in said
