"""The programs in examples/ compile against what is installed, run, and write profiles."""
import json
import os
import re

import jsonschema
import pytest

from conftest import ROOT, run_program, sh

SCHEMA = json.loads((ROOT / "docs/prony.profile.schema.json").read_text())


@pytest.fixture
def example(pkg_config, library_folder, workdir):
    """Compiles one as its own comment says, and runs it with the installed library."""

    def run(name, *arguments):
        source = ROOT / "examples" / f"{name}.c"
        told = re.search(r"cc \S+ \$\(pkg-config --cflags --libs prony\)(.*) -o (\w+)",
                         source.read_text())
        assert told[2] == name
        sh("cc", "-Wall", "-Wextra", "-Wpedantic", "-Werror", source, *pkg_config("--cflags"),
           *pkg_config("--libs"), *told[1].split(), "-o", workdir / name)
        env = {key: value for key, value in os.environ.items() if key != "PRONY_PROGRAM"}
        return run_program([workdir / name, *arguments], cwd=workdir,
                           env={**env, "LD_LIBRARY_PATH": str(library_folder)})

    return run


def test_region(example, prony, workdir, networks):
    done = example("region", networks["mlp"], networks.get("mlp", "--layers", "3"), "region.json")
    assert done.status == 0, done.stderr
    assert "Profile `predict[1/1]` ran 10 times." in done.stdout
    data = json.loads((workdir / "region.json").read_text())
    jsonschema.validate(data, SCHEMA)
    (profile,) = data["profiles"]
    assert profile["footprint"] == [1, 2] and profile["runs"] == 10
    assert all(result["times"]["count"] == 100
               for segment in profile["segments"] for result in segment["results"])
    again = prony("report", "region.json")
    assert again.status == 0 and again.stdout == done.stdout
    segments = prony("report", "region.json", "--layout", "segments").stdout
    assert "Graph #2" in segments and segments.count("Local code") == 3


def test_region_says_what_is_wrong(example):
    done = example("region", "missing.onnx", "missing.onnx", "region.json")
    assert done.status == 1 and done.stdout == ""
    assert done.stderr == "region: cannot read 'missing.onnx': No such file or directory\n"


def test_compare(example, networks):
    backends = ["onnxrt-cpu[threads=1]", "onnxrt-cpu[opt=off,threads=1]"]
    done = example("compare", networks["mlp"], *backends)
    assert done.status == 0, done.stderr
    head, *rows, last = done.stdout.splitlines()
    assert head.split() == ["Backend", "Samples", "Failures", "Mean", "(us)", "vs", "best"]
    assert [row.split()[:3] for row in rows] == [[f"local/{b}", "200", "0"] for b in backends]
    assert min(float(row.split()[4].rstrip("x")) for row in rows) == 1
    assert float(last.removeprefix("Largest difference between their outputs: ")) < 1e-4


def test_the_documentation_quotes_the_example():
    (quoted,) = re.findall(r"```c\n(.*?)```", (ROOT / "docs/programs.md").read_text(), re.DOTALL)
    assert quoted in (ROOT / "examples/region.c").read_text()
