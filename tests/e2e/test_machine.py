"""`prony machine` on the machine of the test: what it measures, saves, and finds again."""
import json
import os

import jsonschema
import pytest

from conftest import ROOT

SCHEMA = json.loads((ROOT / "docs/prony.machine.schema.json").read_text())
QUICK = ["--max-time", "0.1"]


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "prony"


def measured(prony, *arguments):
    done = prony("machine", *QUICK, "--format", "json", *arguments)
    assert done.status == 0, done.stderr
    record = json.loads(done.stdout)
    jsonschema.validate(record, SCHEMA)
    return record


def test_measures_and_saves(prony, state):
    record = measured(prony)
    assert [path.name for path in state.iterdir()] == [f"machine-{record['fingerprint']}.json"]
    saved = prony("machine", "--saved", "--format", "json")
    assert saved.status == 0, saved.stderr
    assert json.loads(saved.stdout) == record
    rates = record["rates"]
    threads = sorted({rate["threads"] for rate in rates})
    assert threads == sorted({1, record["cores"]})
    for n in threads:
        assert {"float32", "memory"} <= {rate["of"] for rate in rates if rate["threads"] == n}
    for rate in rates:
        assert rate["per_s"] > 0
        assert rate["units"] >= 5
        assert rate["low_per_s"] <= rate["per_s"] <= rate["high_per_s"]
        assert (rate["working_bytes"] is None) == (rate["kind"] == "compute")
        if rate["capacity_bytes"] is not None:
            assert rate["working_bytes"] <= rate["capacity_bytes"]
    memory = next(rate for rate in rates if rate["of"] == "memory")
    caches = [rate["capacity_bytes"] for rate in rates if rate["capacity_bytes"] and rate["threads"] == 1]
    assert memory["working_bytes"] >= 2 * max(caches, default=0)


def test_allowed_cores_count(prony, state):
    """A process that may use one core has a machine of one core, with a record of its own."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        record = measured(prony, "--no-save")
        assert record["cores"] == 1
        assert {rate["threads"] for rate in record["rates"]} == {1}
        assert not state.exists()
        assert prony("machine", "--threads", "2").status == 2
    finally:
        os.sched_setaffinity(0, before)


def test_what_cannot_be_saved_is_shown(prony, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    done = prony("machine", *QUICK, "--threads", "1")
    assert done.status == 0
    assert done.stdout.startswith("With 1 thread, this machine computes ")
    assert "prony: warning: the record isn't saved: " in done.stderr
