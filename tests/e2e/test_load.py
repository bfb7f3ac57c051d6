"""`prony profile` under load, with the real ONNX Runtime: rates, workers, limits, overload, stalls.

Nothing here depends on how fast the machine is, only on what must be so on any."""
import json
import os
import pathlib
import signal
import subprocess
import time

import jsonschema
import pytest

from conftest import BUILD, PATIENCE, ROOT
from profiling import on_one_backend

ORT = os.environ.get("PRONY_ORT_LIB", str(BUILD / "deps/onnxruntime/libonnxruntime.so.1"))
SCHEMA = json.loads((ROOT / "docs/prony.profile.schema.json").read_text())
FAULT_ENV = {"PRONY_FAULT_REAL": ORT}
PLAIN = ["--launches", "2", "--repeats", "40", "--max-time", "600"]
PERCENTILES = ["p50_ns", "p90_ns", "p95_ns", "p99_ns", "p999_ns"]
NEED = {"p50_ns": 1, "p90_ns": 64, "p95_ns": 130, "p99_ns": 662, "p999_ns": 6636}


def fault(name):
    return f"onnxrt-cpu[lib={BUILD}/tests/fault/fault-{name}.so]"


@pytest.fixture
def load(prony, workdir):
    """Profiles under load, checks status, schema and the way through `prony report`, and returns
    the load of the only backend."""

    def call(*arguments, status=0, env=None):
        path = workdir / "load.json"
        done = prony("profile", *on_one_backend(arguments), "--format", "json", "-o", path, env=env)
        assert done.status == status, done.stderr
        data = json.loads(path.read_text())
        jsonschema.validate(data, SCHEMA)
        assert prony("report", path, "--format", "json").stdout == path.read_text()
        for style in ("text", "md", "csv"):
            assert prony("report", path, "--format", style).status == 0
        (result,) = data["results"]
        assert result["error"] is None and result["samples_ns"]
        return result["load"]

    return call


def check_row(row):
    """What holds for every load, however it went."""
    assert row["requests"] > 0 and row["blocks"] >= row["launches"] > 0
    assert 0 < row["utilisation"] <= 1
    assert row["service_ns"] > 0 and row["achieved_per_s"] > 0
    overloaded = "OVERLOADED" in row["flags"]
    last = 0
    for name in PERCENTILES:
        known = row["requests"] >= NEED[name] and not overloaded
        assert (row[name] is not None) == known, name
        if known:
            assert row[name]["low"] <= row[name]["estimate"] <= row[name]["high"]
            assert last <= row[name]["estimate"] <= row["max_ns"]
            last = row[name]["estimate"]
    if not overloaded:
        wait = row["wait_ns"] or 0
        assert row["mean_ns"] == pytest.approx(wait + row["service_ns"])


def test_rates_give_a_row_each(load, networks):
    found = load(networks["mlp"], *PLAIN, "--rate", "100/s,12000/min", "--rate", "1000/s",
                 "--duration", "0.5")
    assert [row["asked_per_s"] for row in found["rows"]] == [100, 200, 1000]
    assert found["slo"] is None and found["error"] is None
    for row in found["rows"]:
        check_row(row)
        assert row["workers"] == 1 and row["launches"] == 2
        assert row["lateness_ns"] >= 0 and row["wait_ns"] >= 0
        if "OVERLOADED" not in row["flags"]:
            # No more came than were asked for: five standard deviations of a Poisson count. Fewer
            # may, in the same time, on a machine that stands still now and then.
            expected = row["asked_per_s"] * row["duration_s"]
            assert row["requests"] <= expected + 5 * expected ** 0.5 + 5


def test_workers_run_together_and_agree(load, networks):
    (row,) = load(networks["mlp"], *PLAIN, "--concurrency", "4", "--duration", "0.5")["rows"]
    check_row(row)
    assert row["asked_per_s"] is None and row["workers"] == 4
    assert row["wait_ns"] is None and row["lateness_ns"] is None
    assert "MISMATCH" not in row["flags"]


def test_stall_shows_in_the_requests_that_came_during_it(load, networks):
    """Stuck for 0.2 s in every 0.9, a fifth of all requests come while it is: the slowest tenth
    wait for 0.1 s and more. Who counts from when a request was begun sees one slow run in 180."""
    (row,) = load(networks["mlp"], "-b", fault("stall"), "--launches", "1", "--repeats", "40",
                  "--rate", "200/s", "--duration", "4", env=FAULT_ENV)["rows"]
    check_row(row)
    if "OVERLOADED" not in row["flags"]:  # by others on this machine
        assert row["p90_ns"]["estimate"] > 50e6
        assert row["wait_ns"] > 10e6


def test_overload_is_said(load, prony, workdir, networks):
    """A run takes 0.4 s: 100 a second are forty times too many."""
    (row,) = load(networks["mlp"], "-b", fault("sleep"), "--launches", "1", "--repeats", "2",
                  "--warmups", "0", "--rate", "100/s", "--duration", "4", env=FAULT_ENV)["rows"]
    check_row(row)
    assert "OVERLOADED" in row["flags"] and row["achieved_per_s"] < 3
    text = " ".join(prony("report", workdir / "load.json").stdout.split())
    assert "Overloaded: " in text and " of 100/s. " in text


def test_limit_that_holds(load, prony, workdir, networks):
    """Half of the requests within ten seconds: any rate below the capacity will do. Two launches are
    enough, and what is called held was tried for longer in a fresh process."""
    found = load(networks["mlp"], *PLAIN, "--slo", "p50=10s", "--max-time", "10")
    slo = found["slo"]
    (closed,) = found["rows"]
    check_row(closed)
    assert slo["capacity_per_s"] == closed["achieved_per_s"]
    assert all(t["duration_s"] > 1.9 for t in slo["trials"])
    assert all(0 < t["rate_per_s"] < slo["capacity_per_s"] for t in slo["trials"])
    confirming = [t for t in slo["trials"] if t["confirms"]]
    assert confirming == slo["trials"][-len(confirming):] and len(confirming) > 0
    if confirming[-1]["verdict"] != "holds":  # others on this machine took what the rate needs
        assert not slo["holds_per_s"], "what was not confirmed is not called held"
        return
    assert confirming[-1]["duration_s"] > 3.9, "twice as long as a trial at least"
    assert slo["holds_per_s"] == pytest.approx(0.95 * confirming[-1]["rate_per_s"], rel=0.006)
    text = " ".join(prony("report", workdir / "load.json").stdout.split())
    assert "holds p50 ≤ 10.0 s up to" in text and "in a fresh process; 5 % less is called held." in text


def test_limit_that_there_is_no_time_for(load, prony, workdir, networks):
    """A second isn't enough to call anything held: it says what would be."""
    slo = load(networks["mlp"], *PLAIN, "--slo", "p50=10s", "--max-time", "1")["slo"]
    assert slo["trials"] == [] and not slo["complete"] and slo["needed_s"] > 5
    text = " ".join(prony("report", workdir / "load.json").stdout.split())
    assert "no rate is known to hold it" in text and f"--max-time {slo['needed_s']:.0f} or more to tell" in text
    assert "not known" in text and "fails" not in text.partition("A rate holds a limit")[0]


def test_limit_that_cannot_hold(load, prony, workdir, networks):
    found = load(networks["mlp"], "--launches", "3", "--repeats", "60", "--slo", "p50=1ns",
                 "--max-time", "5")
    assert found["slo"]["single_fails"] and found["slo"]["trials"] == []
    text = " ".join(prony("report", workdir / "load.json").stdout.split())
    assert "p50 ≤ 1 ns is not reachable: p50 of lone requests is" in text


def test_crash_under_load_keeps_the_rest(load, networks):
    # A single timed run comes with at most 8192 untimed ones; the crash is after those, and before
    # the 15,000 of the load are over.
    found = load(networks["mlp"], "-b", fault("abort"), "--launches", "1", "--repeats", "1",
                 "--warmups", "0", "--rate", "5000/s", "--duration", "3", status=1,
                 env={**FAULT_ENV, "PRONY_FAULT_RUN": "9000"})
    assert found["rows"] == [] and found["error"]["code"] == "PRONY_ECRASH"
    assert "under load" in found["error"]["message"]


def test_interrupt_keeps_what_there_is(program, workdir, networks):
    """Ctrl-C in the middle of a load of an hour; the executors tell when it has begun, because each
    of them has a thread for each worker."""
    with subprocess.Popen([program, "profile", networks["mlp"], "-b", "onnxrt-cpu", *PLAIN, "--rate", "50/s",
                           "--concurrency", "9", "--duration", "3600", "--format", "json"],
                          cwd=workdir, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as process:
        try:
            wait_for_threads(process.pid, 9)
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=PATIENCE)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 0, stderr
    (result,) = json.loads(stdout)["results"]
    assert result["samples_ns"] and result["error"] is None
    assert result["load"]["error"]["code"] == "PRONY_ECANCELED"


def descendants(pid):
    """An executor stands below the processes that guard it."""
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return
    for child in children:
        yield child
        yield from descendants(child)


def wait_for_threads(pid, wanted):
    """Waits until a process below this one has so many threads."""
    while True:
        for process in descendants(pid):
            try:
                if len(os.listdir(f"/proc/{process}/task")) >= wanted:
                    return
            except FileNotFoundError:
                pass
        time.sleep(0.01)
