"""What `make release` refuses, and that the version is the same everywhere."""
import shutil

import pytest

from conftest import ROOT, run_program, sh

PARTS = ("include", "tools", "docs", "examples", "README.md", "CHANGELOG.md")


def test_version_is_the_same_everywhere(program):
    assert f"prony {sh('python3', ROOT / 'tools/version.py')}" == sh(program, "--version")


def git(folder, *arguments):
    return sh("git", "-C", folder, "-c", "user.name=me", "-c", "user.email=me@localhost", *arguments)


@pytest.fixture
def tree(workdir):
    """A repository with the parts of prony that a release looks at before it builds."""
    folder = workdir / "tree"
    folder.mkdir()
    for part in PARTS:
        source = ROOT / part
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, folder / part)
    sh("chmod", "-R", "u+w", folder)  # the source may be for reading only
    (folder / "build/venv-package/bin").mkdir(parents=True)
    (folder / "build/venv-package/bin/python").symlink_to(shutil.which("python3"))
    (folder / ".gitignore").write_text("/build/\n__pycache__/\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "all of it")
    return folder


def refused(tree):
    done = run_program(["tools/release", "build"], cwd=tree)
    assert done.status == 1 and not (tree / "build/release").exists()
    return done.stderr


def test_changes_that_are_not_committed(tree):
    (tree / "new file").touch()
    assert refused(tree).startswith(
        "release: error: the tree has changes that are not committed:\n?? \"new file\"")


def test_another_version(tree):
    header = tree / "include/prony/prony.h"
    header.write_text(header.read_text().replace("VERSION_PATCH ", "VERSION_PATCH 9"))
    git(tree, "commit", "-q", "-a", "-m", "another version")
    said = refused(tree)
    assert "the newest chapter isn't '## " in said
    assert "docs/install.md:" in said and "examples/kubernetes/serve.yml:" in said


def test_a_version_that_is_released(tree):
    version = sh("python3", tree / "tools/version.py").strip()
    git(tree, "tag", f"v{version}")
    (tree / "README.md").write_text("more")
    git(tree, "commit", "-q", "-a", "-m", "more")
    assert refused(tree) == (f"release: error: v{version} is released already "
                             f"(tag v{version} is another commit)\n")
