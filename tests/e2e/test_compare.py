"""`prony report OLD NEW` on what was really measured: the same twice, and something slower."""
import json

import jsonschema
import pytest

from conftest import ROOT
from profiling import on_one_backend

SCHEMA = json.loads((ROOT / "docs" / "prony.profile-comparison.schema.json").read_text())
LAUNCHES = ["--launches", "5", "--repeats", "200", "--max-time", "600"]


@pytest.fixture
def measure(prony, workdir):
    """Measures into NAME.json and returns that name."""

    def call(name, *arguments):
        done = prony("profile", *on_one_backend(arguments), *LAUNCHES, "--format", "json", "-o", f"{name}.json")
        assert done.status == 0, done.stderr
        return f"{name}.json"

    return call


@pytest.fixture
def compare(prony):
    """Compares, and returns the JSON and how prony ended."""

    def call(*arguments):
        done = prony("report", *arguments, "--format", "json")
        report = json.loads(done.stdout)
        jsonschema.validate(report, SCHEMA)
        return report, done

    return call


def test_the_same_is_not_slower(measure, compare, networks):
    model = networks.get("mlp", "--hidden", "512")
    before, after = measure("before", model), measure("after", model)
    # Nobody can promise that a machine keeps its state; a factor of 4 is beyond any of them.
    report, done = compare(before, after, "--fail-over", "300%")
    (row,) = report["files"][0]["rows"]
    assert done.status == 0, done.stderr
    assert not row["regression"] and row["unit"] == "launch"
    assert row["before"]["samples"] == row["after"]["samples"] == 200
    assert not report["files"][0]["machines_differ"]
    kinds = {difference["what"] for difference in report["files"][0]["differences"]}
    assert kinds <= {"canary", "load"}, "the same machine, model and runtime"
    assert 1 / 4 < row["time_ns"]["ratio"] < 4


def test_a_slower_model_is_found(measure, compare, networks):
    before = measure("before", networks.get("mlp", "--hidden", "256"))
    after = measure("after", networks.get("mlp", "--hidden", "8192"))
    report, done = compare(before, after, "--fail-over", "5%")
    (row,) = report["files"][0]["rows"]
    assert (done.status, row["verdict"], row["regression"]) == (3, "slower", True)
    assert done.stderr.startswith("prony: regression: 'after.json': local/onnxrt-cpu is slower")
    assert row["time_ns"]["ratio_low"] > 4 and row["time_ns"]["p_holm"] < 0.001
    assert "model_bytes" in {difference["what"] for difference in report["files"][0]["differences"]}
    report, done = compare(after, before, "--fail-over", "5%")
    assert (done.status, report["files"][0]["rows"][0]["verdict"]) == (0, "faster")


def test_each_backend_has_its_partner(measure, compare, networks, workdir):
    """In another order, with options in another order, and one that is gone."""
    model = networks["mlp"]
    before = measure("before", model, "-b", "onnxrt-cpu[threads=1,opt=off]", "-b", "onnxrt-cpu",
                     "-b", "onnxrt-cpu[opt=basic]")
    after = measure("after", model, "-b", "onnxrt-cpu", "-b", "onnxrt-cpu[opt=off,threads=1]")
    report, done = compare(before, after, "--fail-over", "300%")
    rows = {row["backend"]: row for row in report["files"][0]["rows"]}
    assert set(rows) == {"local/onnxrt-cpu", "local/onnxrt-cpu[opt=off,threads=1]",
                         "local/onnxrt-cpu[opt=basic]"}
    assert rows["local/onnxrt-cpu[opt=off,threads=1]"]["before"]["name"] == \
        "local/onnxrt-cpu[threads=1,opt=off]"
    assert rows["local/onnxrt-cpu[opt=basic]"]["verdict"] == "only before"
    assert done.status == 3 and "is missing" in done.stderr
    assert report["tested"] == 2
