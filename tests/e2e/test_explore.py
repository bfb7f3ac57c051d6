"""`prony explore`: tables against an oracle, a real trace, ledger and comparison against figures
worked out by hand, pipes, and what comes out in each format."""
import csv
import gzip
import io
import json
import math
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import time

import jsonschema
import onnx
import pytest

import traces
from conftest import BUILD, PATIENCE, ROOT, run_program

ORT = os.environ.get("PRONY_ORT_LIB", str(BUILD / "deps/onnxruntime/libonnxruntime.so.1"))
SCHEMA = json.loads((ROOT / "docs/prony.trace.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
PARALLEL = ROOT / "tests/data/trace/parallel.json"
RUNS = 8
CPU, GPU, MAPPING = "cpu_kernel_times", "gpu_kernel_times", "op_kernel_mapping"


def near(value, expected):
    """Equal to 12 digits."""
    return math.isclose(float(value), expected, rel_tol=1e-12)


@pytest.fixture
def write(workdir):
    """write(events, name) → the trace's path."""

    def call(events, name="trace.json"):
        path = workdir / name
        path.write_text(traces.dump(events), encoding="utf-8")
        return path

    return call


@pytest.fixture
def explore(prony):
    """prony explore that must succeed."""

    def call(*arguments, **options):
        done = prony("explore", *arguments, **options)
        assert done.status == 0, done.stderr
        return done

    return call


@pytest.fixture
def explore_json(explore):
    def call(*arguments, **options):
        return json.loads(explore(*arguments, "--format", "json", **options).stdout)

    return call


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# ---- The oracle ----

SELECTIONS = [
    ([], range(1, RUNS)),
    (["-s", "0"], range(RUNS)),
    (["-s", "2", "-e", "5"], range(2, 5)),
    (["--start", "-3"], range(RUNS - 3, RUNS)),
    (["-s", "-5", "-e", "-2"], range(RUNS - 5, RUNS - 2)),
    (["-s", "0", "-e", str(RUNS)], range(RUNS)),
    (["-s", "0", "-e", "1"], range(1)),
    (["-g", "[1, 3, 5]"], [1, 3, 5]),
    (["--gather", "range(2, 8, 3)"], [2, 5]),
    (["-g", "[0] + list(range(5, 7)) + [0, -1]"], [0, 5, 6, RUNS - 1]),
    (["-g", "[i for i in range(8) if i % 3 == 0 and not i == 3]"], [0, 6]),
    (["-g", "[2 * i + 1 for i in range(3)]"], [1, 3, 5]),
    (["-g", "[-1, -2] * 2"], [RUNS - 1, RUNS - 2]),
]
FILTERS = [
    ([], []),
    (["--filter", "Conv"], ["Conv"]),
    (["--filter", "Conv", "Relu"], ["Conv", "Relu"]),
    (["--filter", "Conv", "--filter", "Add", "Softmax"], ["Conv", "Add", "Softmax"]),
    (["--filter", "*layer1?/*"], ["*layer1?/*"]),
    (["--filter", "[MS]*", "sgemm*"], ["[MS]*", "sgemm*"]),
    (["--filter", "[!C]*x"], ["[!C]*x"]),
    (["--filter", "/layer0/Conv_kernel_time", "kérnel"], ["/layer0/Conv_kernel_time", "kérnel"]),
]


def check_table(table, groups, key_columns, top=40):
    """A CSV table against the oracle's groups."""
    whole = sum(duration for duration, _ in groups.values())
    assert len(table) == min(top, len(groups))
    durations = sorted((duration for duration, _ in groups.values()), reverse=True)
    assert [int(row["duration"]) for row in table] == durations[:top]
    cumulative = 0
    for row in table:
        duration, count = groups[tuple(row[column] for column in key_columns)]
        cumulative += duration
        assert int(row["duration"]) == duration
        assert int(row["count"]) == count
        assert int(row["cumulative_dur"]) == cumulative
        assert near(row["pct"], 100 * duration / whole)
        assert near(row["cumulative_pct"], 100 * cumulative / whole)
    assert len({tuple(row[column] for column in key_columns) for row in table}) == len(table)


def check_files(prefix, oracle, shapes=False, dims=False, mapping=False, top=40):
    cpu_key = ["name"] + ["input_type_shape"] * shapes
    gpu_key = ["name"] + ["dimensions"] * dims + ["input_type_shape"] * shapes
    tail = ["duration", "pct", "count", "cumulative_pct", "cumulative_dur"]
    expected = [(CPU, cpu_key, oracle.cpu_groups(("op", "shape") if shapes else ("op",))),
                (GPU, gpu_key, oracle.gpu_groups(dims, shapes))]
    for suffix, key, groups in expected:
        path = pathlib.Path(f"{prefix}_{suffix}.csv")
        assert path.exists() == bool(groups)
        if groups:
            table = rows(path)
            assert list(table[0])[:len(key) + len(tail)] == key + tail
            check_table(table, groups, key, top)
    path = pathlib.Path(f"{prefix}_{MAPPING}.csv")
    assert path.exists() == bool(mapping and oracle.mapping())
    if path.exists():
        check_mapping(rows(path), oracle.mapping())


def check_mapping(table, expected):
    numbers = ["op_count", "kernel_count", "kernel_avg_dur (us)", "kernel_total_dur (us)",
               "op_dur (us)", "op_avg_dur (us)", "kernel_pct (%)", "op_pct (%)"]
    assert list(table[0])[:12] == [
        "op_name", "input_type_shape", "op_count", "kernel_dimensions", "kernel_count",
        "kernel_avg_dur (us)", "kernel_total_dur (us)", "op_dur (us)", "op_avg_dur (us)",
        "kernel_pct (%)", "op_pct (%)", "kernel_name"]
    assert len(table) == len(expected)
    for row in table:
        key = tuple(row[k] for k in ("op_name", "input_type_shape", "kernel_name",
                                     "kernel_dimensions"))
        for column in numbers:
            if expected[key][column] is not None:
                assert near(row[column], expected[key][column]), (key, column)
    order = [(float(row["op_dur (us)"]), row["op_name"].encode(), row["input_type_shape"].encode(),
              float(row["kernel_total_dur (us)"])) for row in table]
    assert order == sorted(order, reverse=True)


@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda s: " ".join(s[0]) or "default")
def test_selection(explore, write, workdir, selection):
    options, runs = selection
    events = traces.generated(1, RUNS)
    explore(write(events), "--csv", "out", *options)
    check_files(workdir / "out", traces.Oracle(events, runs))


@pytest.mark.parametrize("pattern", FILTERS, ids=lambda f: " ".join(f[0][1:]) or "none")
def test_filter(explore, write, workdir, pattern):
    options, filters = pattern
    events = traces.generated(2, RUNS)
    explore(write(events), "-m", "--csv", "out", *options)
    check_files(workdir / "out", traces.Oracle(events, range(1, RUNS), filters), mapping=True)


@pytest.mark.parametrize("shapes", [False, True])
@pytest.mark.parametrize("dims", [False, True])
def test_sensitive(explore, write, workdir, shapes, dims):
    events = traces.generated(3, RUNS)
    options = ["--shape-sensitive"] * shapes + ["--dimension-sensitive"] * dims
    explore(write(events), "-m", "-c", "9", "--csv", "out", *options)
    check_files(workdir / "out", traces.Oracle(events, range(1, RUNS)), shapes, dims, True, top=9)


def test_all_at_once(explore, write, workdir):
    events = traces.generated(4, RUNS)
    explore(write(events), "-m", "--csv", "out", "--shape-sensitive", "--dimension-sensitive", "-g",
            "[0, 2, 7]", "--filter", "C*", "[!C]*[xd]", "hip*")
    oracle = traces.Oracle(events, [0, 2, 7], ["C*", "[!C]*[xd]", "hip*"])
    check_files(workdir / "out", oracle, shapes=True, dims=True, mapping=True)


def test_large(explore_json, write):
    """Many times as large as what is read at a time."""
    events = traces.generated(12, 600)
    path = write(events)
    assert path.stat().st_size > 4_000_000
    oracle = traces.Oracle(events, range(3, 600, 7))
    options = ["--shape-sensitive", "-g", "[i for i in range(600) if i % 7 == 3]"]
    for report in (explore_json(path, *options), explore_json("-", *options,
                                                              input=path.read_bytes())):
        assert {(g["op"], g["input_type_shape"]): [g["duration_us"], g["count"]]
                for g in report["cpu"]["groups"]} == oracle.cpu_groups(("op", "shape"))
        assert {(g["symbol"], g["input_type_shape"]): [g["duration_us"], g["count"]]
                for g in report["gpu"]["groups"]} == oracle.gpu_groups(with_shapes=True)


@pytest.mark.parametrize("by", ["op", "node", "provider", "shape", "op,shape", "node,provider,shape"])
def test_json(explore_json, write, by):
    """Every group with its statistics over the runs, a run without it counting as 0."""
    events = traces.generated(5, RUNS)
    report = explore_json(write(events), "-m", "--by", by, "--dimension-sensitive")
    VALIDATOR.validate(report)
    oracle = traces.Oracle(events, range(1, RUNS))
    assert report["runs"] | {"list": None} == {"found": RUNS, "analysed": RUNS - 1,
                                               "selected": "1-7", "list": None}
    assert report["trace"]["passed_over"] == 3 and report["trace"]["lost"] == 0
    assert report["trace"]["events"] == len(events)
    keys = by.split(",")
    names = {"node": "node", "op": "op", "provider": "provider", "shape": "input_type_shape"}
    groups, times = oracle.cpu_groups(keys), oracle.cpu_per_run(keys)
    first = traces.Oracle(events, [0]).cpu_groups(keys)
    assert report["cpu"]["duration_us"] == sum(duration for duration, _ in groups.values())
    assert report["cpu"]["count"] == len(oracle.cpu)
    assert len(report["cpu"]["groups"]) == len(groups)
    for group in report["cpu"]["groups"]:
        key = tuple(group[names[k]] for k in keys)
        assert [group["duration_us"], group["count"]] == groups[key]
        assert near(group["pct"], 100 * groups[key][0] / report["cpu"]["duration_us"])
        per_run = group["per_run"]
        mean = statistics.mean(times[key])
        assert near(per_run["mean_us"], mean) and per_run["max_us"] == max(times[key])
        assert near(per_run["p50_us"], statistics.median(times[key]))
        assert per_run["first_us"] == (first[key][0] if key in first else None)
        half = 2.446911851 * statistics.stdev(times[key]) / math.sqrt(RUNS - 1)  # t(0.975, 6)
        assert math.isclose(per_run["mean_high_us"] - mean, half, rel_tol=1e-6, abs_tol=1e-9)
        assert math.isclose(mean - per_run["mean_low_us"], min(half, mean), rel_tol=1e-6, abs_tol=1e-9)
    gpu = oracle.gpu_groups(with_dimensions=True)
    assert {(g["symbol"], g["dimensions"]): [g["duration_us"], g["count"]]
            for g in report["gpu"]["groups"]} == gpu
    mapping = oracle.mapping()
    assert len(report["mapping"]) == len(mapping)
    for row in report["mapping"]:
        expected = mapping[row["op"], row["input_type_shape"], row["symbol"], row["dimensions"]]
        assert near(row["op_us"], expected["op_dur (us)"])
        assert near(row["kernel_total_us"], expected["kernel_total_dur (us)"])
        assert near(row["op_pct"], expected["op_pct (%)"])


def test_statistics_of_many_runs(explore_json, write):
    """More runs than are kept one by one: sums and extremes stay exact, percentiles close."""
    dice = random.Random(11)
    times = [round(dice.lognormvariate(7, 0.4)) for _ in range(1001)]
    report = explore_json(write(traces.simple(1001, lambda i: times[i])))
    conv = next(g for g in report["cpu"]["groups"] if g["op"] == "Conv")
    assert conv["duration_us"] == sum(times[1:]) and conv["count"] == 1000
    per_run = conv["per_run"]
    assert not per_run["exact"] and per_run["max_us"] == max(times[1:])
    assert near(per_run["mean_us"], statistics.mean(times[1:]))
    ordered = sorted(times[1:])
    assert per_run["p50_us"] == pytest.approx(statistics.median(ordered), rel=0.01)
    assert per_run["p90_us"] == pytest.approx(ordered[900], rel=0.01)


def test_kernels_of_no_node(explore_json, write):
    """The first kernel of the selection comes before any node; a copy isn't worth a warning."""
    events = traces.simple(3)
    events[-4:-4] = [traces.kernel("early", "Conv", 30_001, 1),
                     traces.kernel("hipMemcpyAsync", None, 30_002, 1)]
    report = explore_json(write(events), "-s", "2", "--shape-sensitive")
    assert [g["input_type_shape"] for g in report["gpu"]["groups"]] == ["unknown"] * 2
    assert any(w.startswith("1 of 2 kernels") for w in report["warnings"])


def test_demangling(explore, write, workdir):
    """One process for all names; without one, a single warning."""
    events = traces.simple(2)
    events[-1:-1] = [traces.kernel(name, "Conv", 20_001, 3)
                     for name in ("_Z3fooIfEvPT_", "_ZN1a1bEii", "plain")]
    counter = workdir / "demangler"
    counter.write_text("#!/bin/sh\necho x >> started\nexec c++filt \"$@\"\n")
    counter.chmod(0o755)
    path = write(events)
    if shutil.which("c++filt"):
        explore(path, "--csv", "out", "--demangler", counter)
        assert {row["name"] for row in rows(workdir / f"out_{GPU}.csv")} == {
            "void foo<float>(float*)", "a::b(int, int)", "plain"}
        assert (workdir / "started").read_text() == "x\n"
    done = explore(path, "--csv", "out", "--demangler", "no-such-demangler")
    assert done.stderr.count("\n") == 1 and "no-such-demangler" in done.stderr
    assert {row["name"] for row in rows(workdir / f"out_{GPU}.csv")} == {
        "_Z3fooIfEvPT_", "_ZN1a1bEii", "plain"}


def test_object_around_the_events(explore, write, workdir):
    """{"traceEvents": [...]} is the same trace."""
    events = traces.generated(6, RUNS)
    plain = explore(write(events), "--format", "csv").stdout
    (workdir / "object.json").write_text(json.dumps({"a": [1, {}], "traceEvents": events, "z": 0}))
    assert explore("object.json", "--format", "csv").stdout == plain


# ---- Runs ----


def test_no_run(explore, write):
    events = [e for e in traces.simple(2) if e["name"] != "model_run"]
    done = explore(write(events), "--format", "json")
    report = json.loads(done.stdout)
    VALIDATOR.validate(report)
    assert "no 'model_run'" in done.stderr and report["ledger"] is None
    assert {g["op"]: g["count"] for g in report["cpu"]["groups"]} == {"Conv": 2, "Relu": 2}


def test_one_run(explore, write):
    done = explore(write(traces.simple(1)), "--format", "json")
    report = json.loads(done.stdout)
    assert "warm-up" in done.stderr and report["runs"]["selected"] == "0"
    assert {g["op"]: g["duration_us"] for g in report["cpu"]["groups"]} == {"Conv": 5, "Relu": 3}
    quiet = explore("trace.json", "-s", "0")
    assert quiet.stderr == ""


def test_mapping_divides_once(explore, write):
    """Two operators whose kernels take 347 µs over seven runs, in different parts: the same figure,
    to the last digit, and so in the order of their names."""
    parts = {"Add": [[50, 49, 50, 49, 50, 49, 50]], "Mul": [[1] * 7, [48] * 6 + [52]],
             "Sub": [[9, 1, 2, 3, 4, 5, 6], [17] * 7, [28] * 6 + [30]]}
    assert {sum(map(sum, kernels)) for kernels in parts.values()} == {347}
    events = traces.opening()
    for run in range(7):
        at = traces.RUN_US * (run + 1)
        for op, kernels in parts.items():
            events.append(traces.node(f"n{op}", op, at, 100))
            events += [traces.kernel(f"{op}_{i}", op, at, times[run])
                       for i, times in enumerate(kernels)]
        events.append(traces.model_run(at, 1000))
    table = list(csv.DictReader(io.StringIO(
        explore(write(events), "-s", "0", "--mapping", "--format", "csv").stdout)))
    assert {row["op_dur (us)"] for row in table} == {repr(347 / 7)}
    assert {row["op_avg_dur (us)"] for row in table} == {repr(347 / 7)}
    assert [row["op_name"] for row in table] == ["Sub"] * 3 + ["Mul"] * 2 + ["Add"]


def test_mapping_without_gpu(explore, write, workdir):
    done = explore(write(traces.simple()), "-m", "--csv", "out")
    assert "no GPU kernels" in done.stdout
    assert sorted(p.name for p in workdir.glob("out_*")) == [f"out_{CPU}.csv"]


def test_probably_cut(explore, workdir):
    """ONNX Runtime keeps a million events."""
    one = json.dumps(traces.event("Session", "x", 0, 0))
    for events, warned in ((1_000_000, True), (999_999, False)):
        with open(workdir / "long.json", "w", encoding="utf-8") as file:
            file.write("[" + f"{one},\n" * (events - 1) + one + "]")
        done = explore("long.json")
        assert ("probably missing" in done.stderr) == warned


# ---- A real trace ----


@pytest.fixture(scope="module", params=[("mlp", 1), ("mobilenet-v2", 2)], ids=lambda p: p[0])
def recorded(request, networks, tmp_path_factory):
    """A model that ran under ONNX Runtime: the model, the trace, how many runs."""
    name, threads = request.param
    runs = 6
    path = tmp_path_factory.mktemp("recorded") / "trace.json"
    done = run_program([BUILD / "bench/trace_record", ORT, networks[name], threads, runs, path])
    assert done.status == 0, done.stderr
    return onnx.load(networks[name]), path, runs


def test_real_trace(explore_json, recorded):
    model, path, runs = recorded
    raw = json.loads(path.read_text())
    report = explore_json(path, "--by", "node")
    VALIDATOR.validate(report)
    assert report["trace"]["events"] == len(raw) and report["trace"]["passed_over"] == 0
    assert report["runs"]["found"] == runs and report["warnings"] == []

    oracle = traces.Oracle(raw, range(1, runs))
    assert {(g["node"], g["op"]): [g["duration_us"], g["count"]]
            for g in report["cpu"]["groups"]} == oracle.cpu_groups(("node", "op"))
    assert all(g["count"] == runs - 1 for g in report["cpu"]["groups"])
    # Whatever was fused, a matrix product or convolution stays one node.
    for kind in ("Conv", "Gemm", "MatMul"):
        in_model = sum(node.op_type == kind for node in model.graph.node)
        in_trace = sum(kind in g["op"] for g in report["cpu"]["groups"])
        assert in_trace == in_model

    check_ledger_adds_up(report["ledger"])
    assert report["ledger"]["nodes_per_run"] == len(report["cpu"]["groups"])
    assert report["ledger"]["unexplained"]["duration_us"] == 0
    for _, duration, nodes in report["runs"]["list"]:
        assert 0 < nodes <= duration


def check_ledger_adds_up(ledger):
    parts = ("node", "overhead", "before", "after", "unexplained")
    assert near(sum(ledger[part]["duration_us"] for part in parts), ledger["run"]["duration_us"])
    assert math.isclose(sum(ledger[part]["pct"] for part in parts), 100)
    assert ledger["run"]["pct"] == 100
    assert ledger["parallel_factor"] >= 1


# ---- Ledger ----


def test_ledger_by_hand(explore_json):
    """parallel.json, in µs. Node intervals, [begin, end) with their thread:

    run 1, 2000-2100: A 2010-2030 (1), B 2020-2050 (2), If 2055-2085 (1) around Add 2060-2070 (1)
    and Mul 2072-2080 (1); Execute 2005-2090.
        nodes 2010-2050 and 2055-2085: 40 + 30 = 70; overhead 85 - 70 = 15; before 5; after 10.
        Per thread 20 + 30 and 30: 80.
    run 2, 3000-3120: A 3004-3024 (1), B 3014-3044 (2), If 3062-3092 (1) around Add 3065-3075 (1) and
    Mul 3076-3084 (1); Execute 3002-3050 and 3060-3110.
        nodes 40 + 30 = 70; overhead (48 - 40) + (50 - 30) = 28; before 2; after 10; between the two
        Execute 10, which nothing explains. Per thread 80.
    run 0, 1000-1200, only counts as the first: A 1010-1060 (1), B 1050-1120 (2); Execute 1005-1195:
        nodes 110, overhead 80, before 5, after 5.
    """
    report = explore_json(PARALLEL)
    VALIDATOR.validate(report)
    ledger = report["ledger"]
    expected = {"node": (140, 110), "overhead": (43, 80), "before": (7, 5), "after": (20, 5),
                "unexplained": (10, 0), "run": (220, 200)}
    for part, (both, first) in expected.items():
        assert ledger[part]["duration_us"] == both, part
        assert ledger[part]["per_run"]["mean_us"] == both / 2, part
        assert ledger[part]["per_run"]["first_us"] == first, part
        assert near(ledger[part]["pct"], 100 * both / 220), part
    assert ledger["overhead"]["per_run"]["max_us"] == 28
    assert near(ledger["parallel_factor"], 160 / 140)
    assert ledger["nodes_per_run"] == 5
    check_ledger_adds_up(ledger)
    assert report["runs"]["list"] == [[1000, 200, 110], [2000, 100, 70], [3000, 120, 70]]
    # As in the original, If counts what is inside it once more.
    assert {g["op"]: (g["duration_us"], g["count"]) for g in report["cpu"]["groups"]} == {
        "Conv": (100, 4), "If": (60, 2), "Add": (20, 2), "Mul": (16, 2)}
    assert any("ignored 1 event outside any run" in w for w in report["warnings"])


def test_concurrent_runs(explore_json):
    """Twelve runs of three threads at once, each with its own 229 nodes."""
    trace = ROOT / "tests/data/trace/concurrent-runs.json.gz"
    report = explore_json(trace, "--start", "0")
    assert sum(g["count"] for g in report["cpu"]["groups"]) == 2748
    assert report["ledger"]["nodes_per_run"] == 229
    assert [run[2] for run in report["runs"]["list"]] == [
        2347, 19035, 24382, 1832, 35272, 1834, 1804, 1820, 1760, 47023, 12046, 30379]
    assert round(explore_json(trace)["ledger"]["node"]["pct"], 1) == 65.5
    assert not any("outside any run" in w for w in report["warnings"])


def test_kernels_of_webgpu(explore_json):
    """They come after the last run, and their clock starts at 0."""
    report = explore_json(ROOT / "tests/data/trace/webgpu.json.gz")
    kernels = report["gpu"]["groups"]
    assert sum(g["count"] for g in kernels) == 3 * 156
    assert round(sum(g["duration_us"] for g in kernels) / 1000) == 3652
    assert max(kernels, key=lambda g: g["duration_us"])["kernel"] == "MatMul"
    # Operators explain little of a run that waits for the device.
    assert report["verdict"].startswith("Nodes are only 2.1 % of a run; 98 % is after the executor. ")


def test_several_files(explore, explore_json, write, workdir):
    """One trace, with runs numbered on and a clock for each file."""
    whole = traces.simple(runs=6)
    at = [i + 1 for i, e in enumerate(whole) if e["name"] == "model_run"]
    pieces = [whole[a:b] for a, b in zip([0, *at], at)]
    for piece in pieces:
        begin = piece[-1]["ts"]
        for e in piece:
            e["ts"] -= begin
    paths = [write(piece, f"run-{i}.json") for i, piece in enumerate(pieces)]
    one = explore_json(write(traces.simple(runs=6)))
    several = explore_json(*paths)
    for key in ("cpu", "ledger"):
        assert several[key] == one[key]
    assert several["runs"]["selected"] == "1-5"
    assert [(f["name"], f["first_run"], f["runs"]) for f in several["trace"]["files"]] == [
        (str(path), i, 1) for i, path in enumerate(paths)]
    assert several["trace"]["events"] == len(whole)
    assert not several["warnings"]  # they don't overlap, although each begins at 0
    last = explore_json(*paths, "-s", "-2")
    assert last["runs"]["selected"] == "4-5"
    compared = explore_json(*paths, "--compare", *paths)
    assert compared["second"]["runs"] == 6
    assert compared["run"]["ratio"] == 1
    # A timeline puts one file behind the other.
    explore(*paths, "-s", "0", "--format", "perfetto", "-o", workdir / "out.json")
    events = json.loads((workdir / "out.json").read_text())["traceEvents"]
    spans = [(e["ts"], e["ts"] + e["dur"]) for e in events if e.get("name", "").startswith("run ")]
    assert len(spans) == 6
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:]))


def test_late_kernels_of_several_files(explore_json):
    """In each file they come after its last run."""
    trace = ROOT / "tests/data/trace/webgpu.json.gz"
    twice = explore_json(trace, trace, "-s", "0")
    once = explore_json(trace, "-s", "0")
    assert once["runs"]["found"] * 2 == twice["runs"]["found"]
    assert twice["gpu"]["count"] == 2 * once["gpu"]["count"] > 0


def test_faults_of_several_files(prony, write):
    good = write(traces.simple(), "good.json")
    bare = write([traces.node("a", "Add", 1, 2)], "bare.json")
    empty = write([], "empty.json")
    cut = good.with_name("cut.json")
    cut.write_bytes(good.read_bytes()[:-100])
    for files, fault in (([good, bare], "'bare.json' has no 'model_run' event"),
                         ([good, empty, good], "'empty.json': the trace has no events; all of its"),
                         ([good, cut], "'cut.json': byte"),
                         ([good, good.with_name("missing.json")], "cannot open 'missing.json'"),
                         (["-", "-"], "standard input (-) can be read only once"),
                         (["-", "--compare", "-"], "standard input (-) can be read only once"),
                         (["-", good, "-s", "-1"], "can be read only once")):
        names = [f if isinstance(f, str) else f.name for f in files]
        done = prony("explore", *names, input=good.read_bytes(), cwd=good.parent)
        assert done.status != 0
        assert done.stdout == ""
        assert fault in done.stderr, (files, done.stderr)


def written_without_escapes(names):
    """A real trace with other names of nodes, as older releases write them: unescaped."""
    text = gzip.decompress((ROOT / "examples/traces/before.json.gz").read_bytes()).decode()
    for old, new in names.items():
        assert f'"name" :"{old}_kernel_time"' in text
        text = text.replace(f'"name" :"{old}_kernel_time"', f'"name" :"{new}_kernel_time"')
    return text


def test_names_that_are_not_escaped(explore, explore_json, workdir):
    """They are found by the fixed text around them, and nothing is lost."""
    nodes = [g["node"] for g in explore_json(
        ROOT / "examples/traces/before.json.gz", "--by", "node")["cpu"]["groups"]]
    new = ['a"b', "back\\slash", 'ends in "', "ends in \\d\\", 'x","args" : 1', '"', '},{"', "new\nline",
           'two""', "\\", '{"op_name" : "x"']
    names = dict(zip(nodes, new))
    (workdir / "trace.json").write_text(written_without_escapes(names), newline="")
    report = explore_json("trace.json", "--by", "node")
    groups = {g["node"]: g for g in report["cpu"]["groups"]}
    for group in explore_json(ROOT / "examples/traces/before.json.gz", "--by", "node")["cpu"]["groups"]:
        name = names.get(group["node"], group["node"])
        assert groups[name]["duration_us"] == group["duration_us"]
        assert groups[name]["count"] == group["count"]
    assert report["trace"]["repaired"] == 21 * len(new)
    assert report["trace"]["lost"] == 0
    assert any(f"{21 * len(new)} events with quotes" in w for w in report["warnings"])
    # Their arguments are written to a timeline as valid JSON.
    explore("trace.json", "--format", "perfetto", "-o", workdir / "out.json")
    assert 'a"b_kernel_time' in {e["name"] for e in json.loads((workdir / "out.json").read_text())["traceEvents"]}


def test_arguments_that_are_not_escaped(explore_json, workdir):
    """Kernels name the node that launched them."""
    text = (ROOT / "examples/traces/run_0.json").read_text().replace("fused layer1", 'fused "1')
    kernel = ('{"cat" : "Kernel","pid" :-1,"tid" :-1,"dur" :4,"ts" :100,"ph" : "X","name" :"gemm",'
              '"args" : {"stream" : "7","parent_name" : "fused "1_kernel_time","op_name" : "FusedGemm"}},\n')
    at = text.index('{"cat" : "Node"', text.index('fused "1'))
    (workdir / "trace.json").write_text(text[:at] + kernel + text[at:])
    report = explore_json("trace.json", "-s", "0")
    assert report["gpu"]["groups"][0]["duration_us"] == 4
    assert report["trace"]["repaired"] == 2


def test_what_cannot_be_repaired(prony, workdir):
    """The end of an event isn't looked for in the next one."""
    text = (ROOT / "examples/traces/run_0.json").read_text()
    broken = text.replace('layer1_kernel_time","args" : {', 'layer1"_kernel_time","arg" : {')
    (workdir / "trace.json").write_text(broken)
    done = prony("explore", "trace.json")
    assert done.status == 1 and "expected ',' or '}' here; 0 events before it" in done.stderr
    done = prony("explore", "--recover", "-s", "0", "trace.json", "--format", "json")
    report = json.loads(done.stdout)
    assert (report["trace"]["lost"], report["trace"]["repaired"]) == (1, 0)


def test_ledger_without_executor(explore_json, write):
    """Nothing is called something else than it is: without Execute the rest is unexplained."""
    events = [e for e in traces.simple(3) if not e["name"].startswith("Seq")]
    ledger = explore_json(write(events))["ledger"]
    assert ledger["node"]["duration_us"] == 16 and ledger["unexplained"]["duration_us"] == 20
    assert ledger["overhead"]["duration_us"] == ledger["before"]["duration_us"] == 0


# ---- Comparison ----


def compare(explore_json, first, second, *options):
    report = explore_json(first, "--compare", second, *options)
    assert report["schema"] == "prony.trace-comparison/1"
    return report


def test_comparison_by_hand(explore_json, explore, write):
    """Over runs 1 to 21 a convolution takes 100, 101, 102, 100, ... µs: its median is 101; in the
    second trace 50 more. Relu takes 10 and 11 alternately in both. One operator is in one only."""
    first = traces.simple(22, lambda i: 100 + (i - 1) % 3, lambda i: 10 + i % 2)
    second = traces.simple(22, lambda i: 150 + (i - 1) % 3, lambda i: 10 + i % 2)
    for i in range(22):
        at = traces.RUN_US * (i + 1) + 300
        first.insert(-1 - 4 * (21 - i), traces.node("old", "Old", at, 5))
        second.insert(-1 - 4 * (21 - i), traces.node("new", "New", at, 7))
    a, b = write(first, "a.json"), write(second, "b.json")
    report = compare(explore_json, a, b)
    groups = {g["op"]: g for g in report["groups"]}
    assert list(groups)[0] == "Conv" and set(groups) == {"Conv", "Relu", "Old", "New"}
    conv = groups["Conv"]
    assert (conv["first_median_us"], conv["second_median_us"]) == (101, 151)
    assert near(conv["ratio"], 151 / 101) and conv["verdict"] == "slower" and conv["p_holm"] < 0.01
    # The medians of resampled runs are among 100, 101, 102 and 150, 151, 152 µs.
    assert 149 / 103 <= conv["ratio_low"] <= conv["ratio"] <= conv["ratio_high"] <= 153 / 99
    assert groups["Relu"]["verdict"] == "not shown" and groups["Relu"]["ratio"] == 1
    assert groups["Old"]["verdict"] == "only in the first" and groups["Old"]["ratio"] is None
    assert groups["New"]["verdict"] == "only in the second"
    assert groups["New"]["second_median_us"] == 7
    assert {g["node"]: g["verdict"] for g in report["nodes"]} == {
        "a": "slower", "b": "not shown", "old": "only in the first", "new": "only in the second"}
    assert report["run"]["verdict"] == "slower"

    back = compare(explore_json, b, a)
    assert {g["op"]: g["verdict"] for g in back["groups"]}["Conv"] == "faster"
    text = explore(a, "--compare", b).stdout
    assert "only in the second" in text and "slower" in text


def test_comparison_of_kernels(explore, explore_json, write):
    """GPU kernels are rows of their own, by name and, if asked, by dimensions and shapes."""

    def trace(gemm, extra):
        events = traces.opening()
        for i in range(12):
            start = 10_000 * i
            events += [traces.node("a", "MatMul", start, 10),
                       traces.kernel("_Z4gemmPf", "MatMul", start + 1, gemm + i % 2),
                       traces.kernel("copy", None, start + 2, 7)]
            events += [traces.kernel("relu", "Relu", start + 3, 5)] * extra
            events += [traces.model_run(start, 900)]
        return events

    files = write(trace(100, 0), "first.json"), write(trace(300, 1), "second.json")
    report = compare(explore_json, *files)
    rows = {row["kernel"]: row for row in report["kernels"]}
    assert list(rows) == ["gemm(float*)", "relu", "copy"]  # largest difference first
    assert rows["gemm(float*)"]["symbol"] == "_Z4gemmPf"
    assert rows["gemm(float*)"]["verdict"] == "slower"
    assert near(rows["gemm(float*)"]["ratio"], 301 / 101)
    assert rows["relu"]["verdict"] == "only in the second"
    assert rows["copy"]["ratio"] == 1
    assert "dimensions" not in rows["copy"]
    by_dimensions = compare(explore_json, *files, "--dimension-sensitive")["kernels"]
    assert {row["dimensions"] for row in by_dimensions} == {"b256x1x1,g1x1x1"}
    text = explore(files[0], "--compare", files[1]).stdout
    assert re.search(r"Per run and GPU kernel, largest difference first\n\nKernel", text)
    assert "Kernel names are as the compiler wrote them" in explore(
        files[0], "--demangler", "no-such-program", "--compare", files[1]).stdout


def test_comparison_of_memory(explore, explore_json):
    """Bytes of both sides; null where one doesn't tell."""
    before, memory = (ROOT / f"examples/traces/{name}.json.gz" for name in ("before", "memory"))
    silent = ROOT / "tests/data/trace/webgpu.json.gz"
    report = compare(explore_json, memory, before)["memory"]
    single = {name: explore_json(path) for name, path in (("first", memory), ("second", before))}
    for side, trace in single.items():
        own = trace["memory"]["allocators"][0]
        assert report["allocators"][0][f"{side}_peak_bytes"] == own["peak_bytes"]
        assert report["allocators"][0][f"{side}_arena_bytes"] == own["arena_bytes"]
        uses = {g["op"]: g["memory"] for g in trace["cpu"]["groups"]}
        assert {g["op"]: g[side] for g in report["groups"] if g[side]} == uses
    assert {g["op"]: g["first"] for g in report["groups"]}["Gemm"] is None  # the first has none
    text = explore(memory, "--compare", before).stdout
    assert "is 1.50 MiB in the first and 14.9 MiB in the second" in " ".join(text.split())
    assert "Growth and live bytes are the same in both." in explore(before, "--compare", before).stdout
    report = compare(explore_json, silent, before)["memory"]
    assert report["allocators"][0]["first_peak_bytes"] is None
    assert all(g["first"] is None for g in report["groups"])
    text = explore(silent, "--compare", before).stdout
    assert "the first does not tell" in " ".join(text.split())
    assert "First growth" not in text
    assert "memory" not in compare(explore_json, silent, silent)


def test_comparison_interval(explore_json, write):
    """The interval against a bootstrap of our own: 60 runs each, noise of a fifth."""
    dice = random.Random(7)
    times = [[round(dice.gauss(mean, mean / 5)) for _ in range(61)] for mean in (1000, 1100)]
    a, b = (write(traces.simple(61, lambda i, t=t: t[i]), f"{n}.json")
            for n, t in zip("ab", times))
    row = next(g for g in compare(explore_json, a, b)["groups"] if g["op"] == "Conv")
    assert row["ratio"] == pytest.approx(statistics.median(times[1][1:]) /
                                         statistics.median(times[0][1:]), rel=1e-12)
    ratios = sorted(statistics.median(dice.choices(times[1][1:], k=60)) /
                    statistics.median(dice.choices(times[0][1:], k=60)) for _ in range(4000))
    assert row["ratio_low"] == pytest.approx(ratios[100], abs=0.02)
    assert row["ratio_high"] == pytest.approx(ratios[-101], abs=0.02)


def many_nodes(dice, runs, nodes, change=None):
    """Every node's time varies by a tenth from run to run."""
    events = traces.opening()
    at = traces.RUN_US
    for _ in range(runs):
        start = at
        for i in range(nodes):
            mean = (200 + 10 * i) * (change or {}).get(i, 1)
            duration = max(1, round(dice.gauss(mean, mean / 10)))
            events.append(traces.node(f"n{i}", f"Op{i}", at + 1, duration))
            at += duration + 1
        events += [traces.execute(start, at - start + 1), traces.model_run(start, at - start + 2)]
        at += 10
    return events


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_comparison_of_the_same(explore_json, write, seed):
    """Two halves of one trace: of 50 rows some differ by chance, and none is called different. One
    that really differs is found."""
    dice = random.Random(seed)
    a = write(many_nodes(dice, 31, 50), "a.json")
    b = write(many_nodes(dice, 31, 50), "b.json")
    c = write(many_nodes(dice, 31, 50, {17: 1.3, 23: 0.7}), "c.json")
    same = compare(explore_json, a, b)
    assert {g["verdict"] for g in same["groups"] + same["nodes"]} == {"not shown"}
    different = compare(explore_json, a, c)
    verdicts = {g["op"]: g["verdict"] for g in different["groups"]}
    assert verdicts.pop("Op17") == "slower" and verdicts.pop("Op23") == "faster"
    assert set(verdicts.values()) == {"not shown"}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_comparison_of_runs_that_persist(explore_json, write, seed):
    """Each run keeps most of the state that the one before left. Two such traces of the same program
    differ on average over runs, but not by more than such traces do."""
    dice = random.Random(seed)
    paths = []
    for name in ("a.json", "b.json"):
        state, times = dice.gauss(0, 1), []
        for _ in range(60):
            state = 0.8 * state + 0.6 * dice.gauss(0, 1)
            times.append(round(1000 * (1 + 0.05 * state)))
        paths.append(write(traces.simple(60, lambda i, t=times: t[i], lambda i, t=times: t[i] // 2),
                           name))
    report = compare(explore_json, *paths)
    assert {g["verdict"] for g in report["groups"] + [report["run"]]} == {"not shown"}


def test_comparison_with_outliers(explore_json, write):
    """Two in five runs are disturbed, differently on each side; the others don't overlap at all."""
    dice = random.Random(5)
    disturbed = [i < 8 for i in range(21)]
    dice.shuffle(disturbed)
    first = traces.simple(21, lambda i: dice.randrange(800, 900) if disturbed[i] else
                          dice.randrange(100, 120))
    second = traces.simple(21, lambda i: dice.randrange(2000, 9000) if disturbed[-i] else
                           dice.randrange(950, 970))
    a, b = write(first, "a.json"), write(second, "b.json")
    row = next(g for g in compare(explore_json, a, b)["groups"] if g["op"] == "Conv")
    assert row["verdict"] == "slower" and row["p_holm"] < 0.001


def test_one_process_of_each_program(explore_json, write):
    """However well the times of a trace are known, the next process may differ: by 5 %, and by half where it is
    microseconds. Less isn't called a difference, and nothing is called the same."""
    def verdicts(conv, relu):
        a = write(traces.simple(41, lambda i: 3000 + i % 2, lambda i: 10), "a.json")
        b = write(traces.simple(41, lambda i: conv + i % 2, lambda i: relu), "b.json")
        report = compare(explore_json, a, b)
        return {g["op"]: g["verdict"] for g in report["groups"]}, report

    rows, report = verdicts(3000, 10)
    assert rows == {"Conv": "not shown", "Relu": "not shown"} and report["smallest_difference"] == 0.05
    assert "differ by at most" in report["verdict"] and "two processes of one program" in report["verdict"]
    assert not report["warnings"]
    rows, report = verdicts(3090, 14)
    assert rows == {"Conv": "not shown", "Relu": "not shown"} and "differ by at most" in report["verdict"]
    rows, report = verdicts(3300, 20)
    assert rows == {"Conv": "slower", "Relu": "slower"}
    assert report["run"]["verdict"] == "slower" and "Record both again" in report["warnings"][0]


def test_comparison_of_too_few_runs(explore, explore_json, write):
    a, b = write(traces.simple(5), "a.json"), write(traces.simple(9, conv=50), "b.json")
    report = compare(explore_json, a, b)
    assert {g["verdict"] for g in report["groups"]} == {"too few runs"}
    assert {g["p_holm"] for g in report["groups"]} == {None} and report["groups"][0]["ratio"] == 10
    text = explore(a, "--compare", b).stdout
    assert "each trace needs 5" in text and "slower" not in text


def test_comparison_formats(explore, write):
    a, b = write(traces.simple(9), "a.json"), write(traces.simple(9, conv=50), "b.json")
    table = list(csv.DictReader(io.StringIO(explore(a, "--compare", b, "--format",
                                                    "csv").stdout)))
    assert {row["op"]: row["verdict"] for row in table} == {"Conv": "slower", "Relu": "not shown"}
    check_markdown(explore(a, "--compare", b, "--format", "md").stdout, tables=2)


# ---- Streams ----


def compressed(data):
    yield "plain", data
    yield "gzip", gzip.compress(data)
    yield "gzip in two parts", gzip.compress(data[:1000]) + gzip.compress(data[1000:])
    if shutil.which("zstd"):
        yield "zstd", subprocess.run(["zstd", "-qc"], input=data, capture_output=True,
                                     check=True).stdout


def test_standard_input_and_compression(prony, explore, write, workdir):
    path = write(traces.generated(8, RUNS))
    options = ["--shape-sensitive", "--format", "csv", "-g", "[1, 4]"]
    expected = explore(path, *options).stdout
    for what, data in compressed(path.read_bytes()):
        (workdir / "packed").write_bytes(data)
        assert explore("packed", *options).stdout == expected, what
        assert explore("-", *options, input=data).stdout == expected, what
        assert explore("packed", "-s", "-2").status == 0, what
        done = prony("explore", "-", "-s", "-2", input=data)  # a pipe can't be read twice
        assert done.status == 2 and "name a file" in done.stderr and done.stdout == "", what


def test_from_the_end_of_a_redirected_file(explore, write):
    """`< trace.json` is a file, so it can be read twice."""
    path = write(traces.simple(9))
    with open(path, "rb") as file:
        done = subprocess.run([os.environ.get("PRONY", BUILD / "prony"), "explore", "-", "-s", "-2"],
                              stdin=file, capture_output=True, check=True)
    assert b"7-8" in done.stdout


@pytest.mark.parametrize("arguments", [["--format", "perfetto"], ["--by", "node", "-c", "100000"]])
def test_reader_that_goes_away(program, write, arguments):
    """`| head -1` is no crash."""
    path = write(many_nodes(random.Random(1), 3, 3000))
    with subprocess.Popen([program, "explore", path, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read().decode()
        assert process.wait(PATIENCE) in (0, 1, -signal.SIGPIPE)
    assert len(errors.splitlines()) <= 1


@pytest.mark.parametrize("arguments", [["--format", "perfetto"], []])
def test_interrupted(program, workdir, arguments):
    """Ctrl-C while a trace is read leaves the file that was there, and no other."""
    output = workdir / "out.json"
    output.write_text("before")
    head = traces.dump(traces.simple(5000)).removesuffix("\n]\n").encode()
    with subprocess.Popen([program, "explore", "-", "-o", output, *arguments],
                          stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=workdir) as process:
        process.stdin.write(head)  # more than a pipe holds: it reads
        process.stdin.flush()
        deadline = time.monotonic() + PATIENCE
        while arguments and len(list(workdir.iterdir())) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        if arguments:
            assert len(list(workdir.iterdir())) == 2, "no temporary file appeared"
        process.send_signal(signal.SIGINT)
        process.stdin.close()
        errors = process.stderr.read().decode()
        assert process.wait(PATIENCE) in (130, -signal.SIGINT)
    assert [p.name for p in workdir.iterdir()] == ["out.json"], errors
    assert output.read_text() == "before"


def test_csv_files_are_replaced_whole(explore, prony, write, workdir):
    """Whoever has the old file open keeps it; a trace that can't be read changes nothing."""
    path = write(traces.simple())
    explore(path, "--csv", "out")
    old = workdir / f"out_{CPU}.csv"
    os.link(old, workdir / "kept")
    content = old.read_text()
    explore(write(traces.simple(conv=70)), "--csv", "out")
    assert (workdir / "kept").read_text() == content != old.read_text()
    content = old.read_text()
    (workdir / "cut.json").write_text(path.read_text()[:-30])
    assert prony("explore", "cut.json", "--csv", "out").status == 1
    assert old.read_text() == content
    assert sorted(p.name for p in workdir.iterdir()) == ["cut.json", "kept", f"out_{CPU}.csv",
                                                         "trace.json"]


# ---- Perfetto ----


def partial_overlaps(events):
    """Pairs on one track of which neither holds the other."""
    tracks = {}
    for e in events:
        tracks.setdefault((e["pid"], e["tid"]), []).append((e["ts"], -e["dur"]))
    found = []
    for track, spans in tracks.items():
        ends = []
        for start, negative in sorted(spans):
            while ends and ends[-1] <= start:
                ends.pop()
            if ends and ends[-1] < start - negative:
                found.append((track, start))
            ends.append(start - negative)
    return found


def test_perfetto(explore, write, workdir):
    events = traces.generated(9, RUNS)
    explore(write(events), "-g", "[2, 3, 6]", "--format", "perfetto", "-o", "out.json")
    written = json.loads((workdir / "out.json").read_text())["traceEvents"]
    shown = [e for e in written if e["ph"] == "X"]
    runs = traces.by_run(events)
    selected = [e for i in (2, 3, 6) for e in runs[i]]
    expected = []
    for i in (2, 3, 6):
        expected += [(f"run {i}" if e["name"] == "model_run" else e["name"], e["ts"], e["dur"])
                     for e in runs[i]]
    assert [(e["name"], e["ts"], e["dur"]) for e in shown] == expected
    assert [e["args"] for e in shown] == [e["args"] for e in selected]
    assert partial_overlaps(shown) == []
    named = {(e["pid"], e["tid"]) for e in written if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in shown} <= named


def test_perfetto_of_overlapping_runs(explore, write, workdir):
    """A session that two threads use at a time: which run an event is of can't be told."""
    events = traces.opening() + [
        traces.node("a", "Conv", 1010, 50, 1), traces.node("b", "Conv", 1020, 60, 2),
        traces.model_run(1000, 70, 1), traces.model_run(1010, 80, 2)]
    done = explore(write(events), "-s", "0", "--format", "perfetto", "-o", "out.json")
    written = json.loads((workdir / "out.json").read_text())["traceEvents"]
    assert partial_overlaps([e for e in written if e["ph"] == "X"]) == []
    assert "1 of 2 runs overlap" in done.stderr


# ---- What people see ----

NASTY = 'a"b\\c|d,é\u202e漢\x1b[31m\x07\x7f\u009b\n'


def nasty():
    events = traces.opening()
    for i in range(3):
        at = traces.RUN_US * (i + 1)
        events += [traces.node(NASTY, f"Op{NASTY}", at + 1, 5),
                   traces.kernel(NASTY, f"Op{NASTY}", at + 2, 3), traces.model_run(at, 20)]
    return events


def check_markdown(text, tables):
    """Every row of a table has as many cells as its head."""
    found = 0
    width = None
    for line in text.splitlines():
        if not line.startswith("|"):
            width = None
            continue
        cells = len(re.findall(r"(?<!\\)\|", line))
        found += width is None
        width = width or cells
        assert cells == width, line
    assert found == tables


def test_names_survive_and_are_harmless(explore, explore_json, write, workdir):
    path = write(nasty())
    options = [path, "--by", "node", "-m", "--demangler", "no-such"]
    for form in ("text", "md"):
        text = explore(*options, "--format", form).stdout
        assert all(c.isprintable() or c == "\n" for c in text)
        assert "漢" in text
    check_markdown(text, tables=4)
    explore(*options, "--csv", "out")
    assert rows(workdir / f"out_{CPU}.csv")[0]["node"] == NASTY
    assert rows(workdir / f"out_{GPU}.csv")[0]["name"] == NASTY
    assert rows(workdir / f"out_{MAPPING}.csv")[0]["op_name"] == f"Op{NASTY}"
    assert explore_json(*options)["cpu"]["groups"][0]["node"] == NASTY
    explore(path, "--format", "perfetto", "-o", "out.json")
    names = {e["name"] for e in json.loads((workdir / "out.json").read_text())["traceEvents"]}
    assert {f"{NASTY}_kernel_time", NASTY} <= names


def test_width(explore, write):
    """Names are shortened in the middle to the width that COLUMNS tells."""
    name = "/a/very/long/" + "name/" * 30 + "of/a/Conv"
    events = traces.simple(3)
    for e in events:
        e["name"] = e["name"].replace("a_kernel", f"{name}_kernel")
    path = write(events)
    for columns in (60, 100):
        narrow = explore(path, "--by", "node", env={"COLUMNS": str(columns)}).stdout
        table = narrow[narrow.index("Node "):]
        assert all(len(line) <= columns for line in table.splitlines())
        assert "…" in table and "/a/very" in table and "Conv" in table
        wide = explore(path, "--by", "node", "--wide", env={"COLUMNS": str(columns)}).stdout
        assert name in wide
    assert name in explore(path, "--by", "node", "--format", "csv", env={"COLUMNS": "60"}).stdout
    compared = explore(path, "--compare", path, env={"COLUMNS": "80"}).stdout
    tables = compared[compared.index("Operator "):]
    assert all(len(line) <= 80 for line in tables.splitlines()) and "95 % interval" in tables


def test_units(explore, write):
    """Times are scaled, counts have their thousands separated."""
    text = explore(write(traces.simple(1200, conv=2_500)), "-c", "1").stdout
    conv = next(line for line in text.splitlines() if line.startswith("Conv"))
    assert "3.00 s" in conv and "2.50 ms" in conv and "1,199" in conv
    assert "1,200 found, 1,199 analysed: 1-1199" in text


def test_no_time_at_all(explore, explore_json, write):
    """Shares of nothing are unknown, not "nan"."""
    events = traces.simple(3, 0, 0)
    events[-1:-1] = [traces.kernel("k", "Relu", 30_000, 0)]
    for e in events:
        e["dur"] = 0
    path = write(events)
    for form in ("text", "md", "csv"):
        assert "nan" not in explore(path, "-m", "--format", form).stdout
    report = explore_json(path, "-m")
    VALIDATOR.validate(report)
    assert [g["pct"] for g in report["cpu"]["groups"]] == [None, None]
    assert "nan" not in explore(path, "--compare", path).stdout


def test_formats_agree(explore, write):
    path = write(traces.generated(10, RUNS))
    table = list(csv.DictReader(io.StringIO(explore(path, "--format", "csv").stdout)))
    markdown = explore(path, "--format", "md").stdout
    check_markdown(markdown, tables=3)
    for row in table:
        assert re.search(rf"^\| {row['name']} ", markdown, re.MULTILINE)
