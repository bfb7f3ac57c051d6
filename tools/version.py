"""Prints prony's version: tools/version.py [FOLDER]

The header has it (include/prony/prony.h), and the build reads it there. Pages and examples show it;
those that show another one are named, and so is a changelog whose newest chapter is another's. Reports
that were saved say who measured them, and are of their time.
"""
import pathlib
import re
import sys

SHOWN = re.compile(r"\b(?:lib)?prony(?:-dev)?[ :_-](\d+\.\d+\.\d+)")


def header_version(root):
    text = (root / "include/prony/prony.h").read_text()
    return ".".join(re.findall(r"#define PRONY_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text))


def others(root, version):
    """Places that disagree."""
    changes = (root / "CHANGELOG.md").read_text()
    newest = re.search(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", changes, re.MULTILINE)
    if not newest or newest[1] != version:
        yield f"CHANGELOG.md: the newest chapter isn't '## {version} (YYYY-MM-DD)'"
    pages = [root / "README.md", *root.glob("docs/*.md"), *root.glob("examples/**/*.*")]
    for page in sorted(pages):
        for number, line in enumerate(page.read_text(errors="replace").splitlines(), 1):
            if line.startswith("Measured "):
                continue
            for shown in SHOWN.findall(line):
                if shown != version:
                    yield f"{page.relative_to(root)}:{number}: {shown}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    root = root if root.is_dir() else root.parent.parent
    version = header_version(root)
    print(version)
    wrong = list(others(root, version))
    if wrong:
        sys.exit(f"version: error: this is {version}, but:\n" + "\n".join(wrong))


main()
