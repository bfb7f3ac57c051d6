"""Without Node prony is complete but for pages, and says what is missing. tests/web has the pages."""
import pytest

from conftest import BUILD, ROOT, run_program

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
