"""The examples in README.md and docs/*.md are run, and must print what the page shows.

Every ```console block is a transcript whose commands run in order; the blocks of one page share a
scratch folder. Figures vary from run to run and from machine to machine, so numbers with their
units, the processor's name, rules and the width of columns are left out of the comparison; `...`
on a line of its own stands for any lines. Blocks marked ```console no-run, and those that begin
with make, git or sudo, are only shown. The repository's examples/ are in the scratch folder, and the
library is installed.

A ```sh block is commands alone, a line each: they must succeed and warn of nothing. So that this takes
seconds, `prony profile` measures for one second and with one launch.
"""
import re

import pytest

import transcript
from conftest import ROOT

NUMBER = re.compile(r"(?<![\w.])[-+±~≈]?\$?\d[\d,]*(\.\d+)*(e[-+]?\d+)?"
                    r"( ?(ns|µs|ms|s|B|[KMGTPE]iB|k|M|G|T|P|E|%|×|x|[kMGT]?FLOPs?(/s)?)(?!\w))*")
PROCESSOR = re.compile(r"\blocal {2,}\S.*? {2,}")
# How many columns a table has room for depends on how long the processor's name is.
IF_ROOM = re.compile(r" +(Spread|p9[\d.]+|GFLOP/s|First run|Load|Peak memory|Samples|Flags)(?= {2,}|$)")


def blocks(text):
    for info, body in re.findall(r"^```console([^\n]*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        shown_only = "no-run" in info or re.match(r"\$ (make|git|sudo)\b", body)
        if not shown_only:
            yield body


PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
         if any(blocks(page.read_text()))]


def normalised(line):
    if re.fullmatch(r"[-=─━]{3,}", line.strip()):
        return "----"
    if line.startswith("Instance "):
        line = IF_ROOM.sub("", line)
    line = NUMBER.sub("#", PROCESSOR.sub("local PROCESSOR ", line))
    line = re.sub(r"\s+", " ", line).strip()
    if line.startswith("local PROCESSOR"):
        line = re.sub(r"#[*?# ]*", "# ", line)  # times may be flagged, ratios unsure
        line = re.sub(r"( [A-Z]{5,},?)+$", "", line)
    return line


def matches(expected, actual):
    """Whether the lines agree, `...` standing for any number of them."""
    if "..." not in expected:
        return expected == actual
    at = expected.index("...")
    if actual[:at] != expected[:at]:
        return False
    rest = expected[at + 1:]
    return any(matches(rest, actual[start:]) for start in range(at, len(actual) + 1))


def trimmed(lines):
    """Blank lines at the end are only there for the reader."""
    lines = [normalised(line) if line.strip() != "..." else "..." for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    return lines


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page, program, workdir, library_folder, monkeypatch):
    ran = 0
    monkeypatch.setenv("PKG_CONFIG_PATH", str(library_folder / "pkgconfig"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library_folder))
    (workdir / "examples").symlink_to(ROOT / "examples")
    for body in blocks(page.read_text()):
        comments, steps = transcript.parse(body, marked=False)
        assert not comments, f"a block of {page.name} doesn't begin with a command: {comments[0]}"
        for step in steps:
            done = transcript.shell(f"{{ {step.command}\n}} 2>&1", workdir)
            shown = step.stdout + step.stderr
            if not matches(trimmed(shown), trimmed(done.stdout.splitlines())):
                pytest.fail(f"{page.name}: $ {step.command}\nshows\n" + "\n".join(shown)
                            + f"\nbut it printed\n{done.stdout}", pytrace=False)
            fails = step.status or any("error:" in line for line in shown)
            assert bool(done.status) == bool(fails), f"$ {step.command}: status {done.status}"
            ran += 1
    assert ran, f"nothing to run in {page.name}"


def commands(text):
    for body in re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield from (line for line in body.splitlines() if not re.match(r"(make|git|sudo)\b", line))


HASTE = """prony() {
    if [ "$1" = profile ]; then command prony "$@" --max-time 1 --launches 1; else command prony "$@"; fi
}"""


SLOW = re.compile(r"--rate|--slo|prony layers")


@pytest.mark.parametrize("slow", [False, pytest.param(True, marks=pytest.mark.long)],
                         ids=["quick", "slow"])
def test_commands(slow, workdir):
    (workdir / "examples").symlink_to(ROOT / "examples")
    lines = list(commands((ROOT / "README.md").read_text()))
    assert len(lines) > 15
    for line in lines:
        if SLOW.search(line) and not slow:
            continue
        done = transcript.shell(f"{HASTE}\n{line}", workdir)
        assert (done.status, done.stderr) == (0, ""), f"$ {line}\n{done.stdout}{done.stderr}"


def test_links_lead_somewhere():
    """Pages that the README and docs/ link to are there, and so are the headings."""
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for path, heading in re.findall(r"\]\(([^):#]*)(#[^)]*)?\)", page.read_text()):
            target = page.parent / path if path else page
            assert target.exists(), f"{page.name} links to {path}"
            if heading:
                titles = re.findall(r"^#+ (.*)", target.read_text(), re.MULTILINE)
                anchors = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
                assert heading[1:] in anchors, f"{page.name} links to {path}{heading}"


def test_numbers_do_not_matter_but_words_do():
    assert normalised("local  AMD EPYC 9B14  onnxrt-cpu  12.3 ms  ±0.4 %  1.00×") == \
        normalised("local  Intel Xeon  onnxrt-cpu  845 µs  ±1.2 %  17.31×")
    assert normalised("resnet50 12 ms") != normalised("resnet18 12 ms")
    assert normalised("12 ms fast") != normalised("12 ms slow")
    assert normalised("621 MFLOP per run") == normalised("1.2 GFLOP per run")
    assert normalised("======") == normalised("====")
    assert normalised("Instance  Processor  Time  Spread  Throughput  vs best") == \
        normalised("Instance  Processor              Time  Throughput  Peak memory      vs best")
    assert normalised("local  A B  onnxrt-cpu  1 ms*  3 %  9 k/s  2.3× ±0.1 ?  N/A") == \
        normalised("local  Intel  onnxrt-cpu  1 ms  309 k/s  2.3×  N/A")
    assert normalised("Instance  Time  Cost") != normalised("Instance  Time  Price")


def test_dots_stand_for_lines():
    assert matches(["a", "...", "d"], ["a", "b", "c", "d"])
    assert matches(["...", "d"], ["d"])
    assert matches(["a", "..."], ["a"])
    assert not matches(["a", "...", "d"], ["a", "b"])
    assert not matches(["a"], ["a", "b"])


def test_marked_blocks_are_not_run():
    text = "```console no-run\n$ a\n```\n```console\n$ make demo\n```\n```console\n$ b\n```\n"
    assert list(blocks(text)) == ["$ b\n"]


PLACES = [ROOT, ROOT / "src", ROOT / "src" / "service"]


def test_what_pages_for_developers_name_is_there():
    code = "".join(path.read_text() for folder in ("src", "include") for path in (ROOT / folder).rglob("*.[ch]"))
    known = set(re.findall(r"\w+", code))
    for page in [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md", *(ROOT / "docs" / "decisions").iterdir()]:
        for name in re.findall(r"`([^`\n]+)`", page.read_text()):
            if re.fullmatch(r"[\w.-]+(/[\w.-]+)+\.\w+", name):
                assert any((place / name).exists() for place in PLACES), f"{page.name}: {name}"
            elif re.fullmatch(r"(?:struct |enum )?(?:prn|prony|PRN|PRONY)_\w+(?:\(\))?", name):
                assert name.split()[-1].removesuffix("()") in known, f"{page.name}: {name}"
