#!/usr/bin/env python3
"""Keeps the measured figures of README.md and docs/ to those that the benchmarks recorded.

docs/figures.json has a line per figure: its value and unit, and the date, commit and machine of the run
that gave it. A benchmark that isn't run leaves its lines as they are. A document shows a figure as

    <!--fig:overhead.memory-->3.9 MiB<!--/-->

with @date, @commit or @machine after the name for those. What is between the comments must be what the file
has. A table with a column "seen" has no number in that column outside of them.

    tools/figures.py            says what differs; status 1 if something does
    tools/figures.py --write    writes the file's figures into the documents
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MARK = re.compile(r"<!--fig:([^@>]*?)(?:@(\w+))?-->(.*?)<!--/-->", re.S)
FIELDS = ("date", "commit", "machine")


def load(path):
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def save(path, figures):
    lines = (f"{json.dumps(name)}: {json.dumps(figures[name], ensure_ascii=False)}"
             for name in sorted(figures))
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def text_of(figure, field):
    """What a document shows. A value of several lines is a block, on lines of its own."""
    if field:
        return figure.get(field) if field in FIELDS else None
    if "\n" in figure["value"]:
        return f"\n{figure['value']}\n"
    return f"{figure['value']} {figure['unit']}".strip()


def documents(root):
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def faults_of_marks(text, figures):
    """(offset, fault) of each mark that doesn't show what the file has."""
    for mark in MARK.finditer(text):
        name, field, shown = mark.groups()
        known = text_of(figures[name], field) if name in figures else None
        if known is None:
            yield mark.start(), f"'{name}{f'@{field}' if field else ''}' is in no record"
        elif known != shown:
            yield mark.start(), f"'{name}' is '{known.strip()}', the document says '{shown.strip()}'"
    rest = MARK.sub(lambda mark: " " * len(mark[0]), text)
    for mark in re.finditer(r"<!--(fig:.*?|/)-->", rest):
        yield mark.start(), f"'{mark[0]}' has no other end"


def faults_of_tables(text):
    """(offset, fault) of each number in a column "seen" that isn't marked."""
    column, offset = None, 0
    for line in MARK.sub(lambda mark: re.sub(r"[^\n]", " ", mark[0]), text).splitlines(keepends=True):
        cells = [cell.strip() for cell in line.split("|")] if line.startswith("|") else []
        if not cells:
            column = None
        elif "seen" in cells:
            column = cells.index("seen")
        elif column is not None and column < len(cells) and re.search(r"[0-9]", cells[column]):
            yield offset, f"a figure without its mark: '{cells[column]}'"
        offset += len(line)


def main(arguments):
    if arguments not in ([], ["--write"]):
        sys.exit("usage: tools/figures.py [--write]")
    figures = load(ROOT / "docs/figures.json")
    found = False
    for path in documents(ROOT):
        text = path.read_text(encoding="utf-8")
        if arguments:
            new = MARK.sub(lambda mark: mark[0] if mark[1] not in figures else
                           f"{mark[0][:mark[0].index('-->')]}-->{text_of(figures[mark[1]], mark[2])}<!--/-->", text)
            if new != text:
                path.write_text(new, encoding="utf-8")
            text = new
        for offset, fault in sorted((*faults_of_marks(text, figures), *faults_of_tables(text))):
            found = True
            print(f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, offset) + 1}: {fault}")
    sys.exit(found)


if __name__ == "__main__":
    main(sys.argv[1:])
