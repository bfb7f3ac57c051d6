"""Sweeps with the real ONNX Runtime: rows, comparisons within a point, interruption and resuming."""
import copy
import json
import os
import signal
import subprocess

import jsonschema
import numpy as np
import pytest
from onnx import TensorProto, helper

from conftest import PATIENCE, ROOT
from profiling import FAULT_ENV, Terminal, fault, on_one_backend, save, wait_for

SCHEMA = json.loads((ROOT / "docs/prony.profile.schema.json").read_text())
QUICK = ["--launches", "2", "--repeats", "40", "--max-time", "600"]
LONG = ["--launches", "15", "--repeats", "150", "--max-time", "600"]
ENDLESS = ["--precision", "0.01%", "--launches", "1000", "--max-time", "1000"]


@pytest.fixture
def model(networks):
    return networks.get("mlp", "--batch", "dynamic")


@pytest.fixture
def sweep(prony):
    """Profiles, checks the status and the schema, and returns the JSON."""

    def call(*arguments, status=0, **options):
        done = prony("profile", *on_one_backend(arguments), "--format", "json", **options)
        assert done.status == status, done.stderr
        data = json.loads(done.stdout)
        jsonschema.validate(data, SCHEMA)
        return data

    return call


def blocks(result):
    return set(result["block"])


def test_batch_by_threads(sweep, model):
    data = sweep(model, "--dim", "batch=1,4", "-b", "onnxrt-cpu[threads=1|2]", *QUICK)
    assert [p["label"] for p in data["points"]] == ["batch=1", "batch=4"]
    assert [p["swept"] for p in data["points"]] == [[{"name": "batch", "size": 1}],
                                                   [{"name": "batch", "size": 4}]]
    assert [p["inputs"][0]["shape"] for p in data["points"]] == [[1, 100], [4, 100]]
    assert data["points"][1]["flops"] == 4 * data["points"][0]["flops"]
    rows = [(r["point"], r["backend"]["name"]) for r in data["results"]]
    assert rows == [(p, f"local/onnxrt-cpu[threads={t}]") for p in (0, 1) for t in (1, 2)]
    assert all(len(r["samples_ns"]) == 40 and r["error"] is None for r in data["results"])
    assert len({frozenset(blocks(r)) for r in data["results"]}) == 1, "all rows are interleaved"
    for point in (0, 1):
        first, second = (r for r in data["results"] if r["point"] == point)
        assert 1 in (first["ratio"]["estimate"], second["ratio"]["estimate"])
        assert first["outputs"] == [] and len(second["outputs"]) == 1
        assert second["outputs"][0]["same_shape"], "compared with the one that was fed the same"
    assert not data["notes"]


def test_shapes_and_options(sweep, prony, model, workdir):
    data = sweep(model, "--shape", "input=1x100,3x100,8x100", *QUICK)
    assert [p["label"] for p in data["points"]] == ["input=1x100", "input=3x100", "input=8x100"]
    assert [p["swept"] for p in data["points"]] == [[{"name": "input", "size": None}]] * 3
    data = sweep(model, "--dim", "batch=2", "-b", "onnxrt-cpu[opt=off|all]", *QUICK)
    assert len(data["points"]) == 1 and data["points"][0]["label"] == ""
    assert "swept" not in data["points"][0] and len(data["results"]) == 2
    done = prony("profile", model, "-b", "onnxrt-cpu[threads=1|2]", *QUICK)
    assert done.status == 0 and "Scaling" in done.stdout and "Batch gain" not in done.stdout


def test_inputs_from_files_fit_one_shape_only(prony, sweep, model, workdir):
    np.save(workdir / "x.npy", np.zeros((2, 100), np.float32))
    done = prony("profile", model, "--dim", "batch=2,4", "--input", "input=@x.npy")
    assert done.status == 1 and "at batch=4" in done.stderr and "x.npy" in done.stderr
    data = sweep(model, "--dim", "batch=1,2", "--input", "input=0.125", *QUICK)
    assert [p["inputs"][0]["source"] for p in data["points"]] == ["0.125", "0.125"]


def test_too_large_for_memory_is_told_before(prony, model):
    done = prony("profile", model, "--dim", "batch=1,100000000000")
    assert done.status == 1 and "sweep fewer or smaller sizes" in done.stderr


def test_a_failure_at_one_point_is_one_row(sweep, workdir):
    """Reshape to 4 columns: a batch of 3 times 2 elements doesn't fit."""
    value = helper.make_tensor_value_info
    path = save(workdir / "m.onnx", [helper.make_node("Reshape", ["x", "shape"], ["y"])],
                [value("x", TensorProto.FLOAT, ["n", 2])], [value("y", TensorProto.FLOAT, ["m", 4])],
                [helper.make_tensor("shape", TensorProto.INT64, [2], [-1, 4])])
    data = sweep(path, "--dim", "n=2,3,4", *QUICK, status=1)
    assert [r["error"] is None for r in data["results"]] == [True, False, True]


def saved_launches(path):
    """Launches of each row in a profile that may not be there yet."""
    try:
        return [len(r["launches"]) for r in json.loads(path.read_text())["results"]]
    except FileNotFoundError:
        return []


def start(program, workdir, *arguments, **options):
    return subprocess.Popen([program, "profile", *on_one_backend(arguments)], cwd=workdir,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                            **options)


def interrupted(program, workdir, number, *arguments):
    """A profile of at least two rounds, ended by a signal."""
    path = workdir / "s.json"
    process = start(program, workdir, *arguments, "--format", "json", "-o", path)
    wait_for(lambda: min(saved_launches(path), default=0) >= 2, "two rounds of launches")
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    data = json.loads(path.read_text())
    jsonschema.validate(data, SCHEMA)
    return path, data


def check_continued(before, after):
    """Nothing was lost, numbers go on, and paired rows have equal blocks."""
    for old, new in zip(before["results"], after["results"], strict=True):
        n = len(old["samples_ns"])
        for key in ("samples_ns", "launch", "block"):
            assert new[key][:n] == old[key]
        assert new["launches"][:len(old["launches"])] == old["launches"]
        assert new["launch"] == sorted(new["launch"]) and new["block"] == sorted(new["block"])
        assert set(new["launch"]) <= set(range(len(new["launches"])))
        assert n == len(new["samples_ns"]) or min(new["block"][n:]) > max(old["block"])
    assert after["created"] == before["created"]
    assert sum("resumed" in note for note in after["notes"]) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_interrupted_and_resumed(program, prony, model, workdir, number):
    sizes = ["--dim", "batch=1,4", "-b", "onnxrt-cpu[threads=1|2]"]
    path, before = interrupted(program, workdir, number, model, *sizes, *LONG, "--seed", "5")
    assert all("INTERRUPTED" in r["flags"] for r in before["results"])
    again = prony("report", path)
    assert again.status == 0 and "Interrupted" in again.stdout
    # What was asked for can't be changed, only the time.
    done = prony("profile", model, "--resume", path, "--launches", "3")
    assert done.status == 2 and "--launches is 3, but 15" in done.stderr
    assert json.loads(path.read_text()) == before
    done = prony("profile", model, "--resume", path, "--max-time", "600")
    assert done.status == 0 and "Interrupted:" not in done.stdout, done.stderr
    after = json.loads(path.read_text())
    jsonschema.validate(after, SCHEMA)
    check_continued(before, after)
    assert after["settings"]["seed"] == 5
    for result in after["results"]:
        assert len(result["samples_ns"]) == 150 and "INTERRUPTED" not in result["flags"]
    new = max(max(r["block"]) for r in before["results"]) + 1
    for point in (0, 1):
        first, second = (blocks(r) for r in after["results"] if r["point"] == point)
        # One may have had a few runs more than the other before, and so needs fewer now.
        both = range(new, min(max(first), max(second)) + 1)
        assert first & set(both) == second & set(both) and len(first & set(both)) > 8
    shown, kept = done.stdout.splitlines(), prony("report", path).stdout.splitlines()
    assert kept[-1].startswith("More: ") and shown[-1].startswith("More: ")
    assert kept[:-1] == shown[:-1], "what was shown is what was kept"


def test_resume_without_a_sweep(program, prony, model, workdir):
    path, before = interrupted(program, workdir, signal.SIGKILL, model, *LONG)
    done = prony("profile", model, "--resume", path, "--format", "json", "-o", "other.json")
    assert done.status == 0, done.stderr
    check_continued(before, json.loads((workdir / "other.json").read_text()))
    assert json.loads(path.read_text()) == before, "another file was asked for"


def test_a_finished_profile_has_nothing_left(prony, sweep, model, workdir):
    data = sweep(model, "--dim", "batch=1,2", *QUICK)
    path = workdir / "s.json"
    path.write_text(json.dumps(data))
    done = prony("profile", model, "--resume", path)
    assert done.status == 0
    after = json.loads(path.read_text())
    assert [r["samples_ns"] for r in after["results"]] == [r["samples_ns"] for r in data["results"]]
    assert [len(r["launches"]) for r in after["results"]] == [2, 2]


def test_repeats_are_exact_also_when_resumed(prony, sweep, model, workdir):
    data = sweep(model, "--dim", "batch=1,2", "--launches", "4", "--repeats", "100", "--max-time", "600")
    for result in data["results"]:  # as if the third launch had been interrupted
        n = sum(launch < 2 for launch in result["launch"]) + 3
        for key in ("samples_ns", "launch", "block"):
            del result[key][n:]
        del result["launches"][3:]
        result["flags"] = ["INTERRUPTED"]
    path = workdir / "s.json"
    path.write_text(json.dumps(data))
    done = prony("profile", model, "--resume", path)
    assert done.status == 0, done.stderr
    after = json.loads(path.read_text())
    check_continued(data, after)
    assert [len(r["samples_ns"]) for r in after["results"]] == [100, 100] and len(after["notes"]) == 1


def altered(data, *change):
    """A copy with the value at a place (keys, then the value) replaced."""
    changed = copy.deepcopy(data)
    at = changed
    for key in change[:-2]:
        at = at[key]
    at[change[-2]] = change[-1]
    return changed


def test_what_cannot_be_resumed(prony, sweep, networks, model, workdir):
    data = sweep(model, "--dim", "batch=1,2", "-b", "onnxrt-cpu[threads=1]", *QUICK)
    path = workdir / "s.json"

    def refused(saved, *arguments, status=1, says=""):
        path.write_text(json.dumps(saved))
        text = path.read_text()
        done = prony("profile", *(arguments or [model]), "--resume", path)
        assert done.status == status and done.stdout == "", done.stderr
        assert says in done.stderr and done.stderr.startswith("prony: error:"), done.stderr
        assert path.read_text() == text, "the file stays as it is"

    refused(data, networks["mlp"], says="the model's size in bytes")
    other_weights = networks.get("mlp", "--batch", "dynamic", "--seed", "5")
    refused(data, other_weights, says="the model's fingerprint was")
    refused(data, model, "--dim", "batch=1,2,4", says="the number of points was 2 and is now 3")
    refused(data, model, "--dim", "batch=1,3", says="a point was batch=2 and is now batch=3")
    refused(data, model, "-b", "onnxrt-cpu[threads=2]", says="a backend was")
    refused(data, model, "--input", "input=ones", says="input 'input' was random")
    refused(data, model, "--seed", "1", status=2, says="--seed is 1, but 0")
    refused(data, model, "--precision", "5%", status=2, says="--precision is 0.05, but")
    refused(altered(data, "environment", "cpu", "Other CPU"), says="the processor was Other CPU")
    refused(altered(data, "environment", "cores", 999), says="the number of cores was 999")
    refused(altered(data, "environment", "kernel", "0.1"), says="the kernel was 0.1")
    refused(altered(data, "settings", "launches", 10**12), says="settings.launches is out of range")
    refused(altered(data, "results", 0, "block", 0, 2**31 - 1), says="results[0]")
    refused(altered(data, "results", 0, "launch", 0, 7), says="results[0]")
    refused(altered(data, "results", 1, "point", 0), says="not every point")
    refused(altered(data, "points", []), status=1)
    unfinished = altered(data, "results", 0, "samples_ns", [])
    for key in ("launch", "block", "launches"):
        unfinished["results"][0][key] = []
    unfinished["results"][0]["stats"] = None
    unfinished["results"][1]["backend"]["runtime_version"] = "ONNX Runtime 1.17.0"
    unfinished["results"][1]["samples_ns"].pop()
    unfinished["results"][1]["launch"].pop()
    unfinished["results"][1]["block"].pop()
    refused(unfinished, says="was measured with ONNX Runtime 1.17.0")
    path.write_text(json.dumps(data)[:-100])
    done = prony("profile", model, "--resume", path)
    assert done.status == 1 and "not valid JSON" in done.stderr


def test_a_failed_row_stays_failed(program, prony, model, workdir):
    """The others go on; what crashed isn't tried again, as it wouldn't have been."""
    path = workdir / "s.json"
    process = start(program, workdir, model, "-b", fault("abort"), "-b", "onnxrt-cpu", *ENDLESS,
                    "--format", "json", "-o", path, env={**os.environ, **FAULT_ENV})
    wait_for(lambda: max(saved_launches(path), default=0) >= 2, "two rounds")
    process.kill()
    process.communicate()
    before = json.loads(path.read_text())
    assert before["results"][0]["error"] and not before["results"][1]["error"]
    done = prony("profile", model, "--resume", path, "--max-time", "2", env=FAULT_ENV)
    assert done.status == 1
    after = json.loads(path.read_text())
    assert after["results"][0]["error"] == before["results"][0]["error"]
    assert len(after["results"][1]["launches"]) > len(before["results"][1]["launches"])


def test_interrupted_sweep_leaves_no_executor(program, model):
    run = Terminal(program, [model, "--dim", "batch=1,2,4", *ENDLESS])
    run.wait_for_progress(b"3/3 ")
    run.wait_for_progress(b"measuring")
    wait_for(lambda: len(run.mine()) == 3, "three executors")
    run.process.send_signal(signal.SIGINT)
    out, _ = run.process.communicate(timeout=PATIENCE)
    assert run.process.returncode == 0 and b"Interrupted" in out and b"batch=4" in out
    wait_for(lambda: not run.mine(), "executors to end")
