"""What `prony explore` says of memory, against figures taken from the events by hand."""
import collections
import csv
import gzip
import io
import json

import pytest

import traces
from conftest import ROOT

TRACES = [(ROOT / "examples/traces/memory.json.gz", False),
          (ROOT / "tests/data/trace/memory-patterns.json.gz", True)]
CPU = "CPUExecutionProvider"


def sized(event, in_use, delta, peak, requested=None, held=1 << 20, held_delta=0):
    """The event with what ONNX Runtime 1.30 adds."""
    requested = in_use if requested is None else requested
    event["args"] |= {key: str(value) for key, value in {
        "mem_bytes_in_use": in_use, "mem_bytes_requested_in_use": requested,
        "mem_in_use_delta": delta, "mem_requested_in_use_delta": delta, "mem_in_use_peak": peak,
        "mem_arena_held": held, "mem_arena_held_delta": held_delta}.items()}
    return event


def run(at, *events):
    return [*events, traces.execute(at + 1, 900), traces.model_run(at, 1000)]


@pytest.fixture
def explore(prony, workdir):
    """explore(events, …) → the report as JSON."""

    def call(events, *options, form="json"):
        path = workdir / "trace.json"
        path.write_text(traces.dump(events))
        done = prony("explore", path, "--format", form, *options)
        assert done.status == 0, done.stderr
        return json.loads(done.stdout) if form == "json" else done.stdout

    return call


def oracle(path):
    """{node: figures} and the peak, from a file of one thread."""
    events = json.loads(gzip.decompress(path.read_bytes()))
    nodes, peak, number = {}, (0, None, None), 0
    sums = collections.defaultdict(lambda: collections.Counter())
    for e in events:
        if e["name"] == "model_run":
            for node, sum_ in sums.items():
                for key, value in sum_.items():
                    nodes[node][key] = max(nodes[node].get(key, value), value)
            sums.clear()
            number += 1
        if "mem_bytes_in_use" not in e["args"]:
            continue
        node = e["name"].removesuffix("_kernel_time")
        args = {k: int(v) for k, v in e["args"].items() if k.startswith("mem_")}
        found = nodes.setdefault(node, {})
        found["live_bytes"] = max(found.get("live_bytes", 0), args["mem_bytes_in_use"])
        found["waste_bytes"] = max(found.get("waste_bytes", 0), args["mem_bytes_in_use"]
                                   - args["mem_bytes_requested_in_use"])
        sums[node]["growth_bytes"] += args["mem_in_use_delta"]
        sums[node]["arena_growth_bytes"] += args["mem_arena_held_delta"]
        if args["mem_in_use_peak"] > peak[0]:
            peak = args["mem_in_use_peak"], node, number
    return nodes, peak


@pytest.mark.parametrize("path, hidden", TRACES)
def test_real_trace(prony, path, hidden):
    done = prony("explore", path, "--by", "node", "--format", "json")
    assert done.status == 0, done.stderr
    report = json.loads(done.stdout)
    nodes, peak = oracle(path)
    memory = report["memory"]
    for group in report["cpu"]["groups"]:
        assert nodes[group["node"]].items() <= group["memory"].items()
    allocator, = memory["allocators"]
    assert (allocator["peak_bytes"], allocator["peak_node"], allocator["peak_run"]) == peak
    assert allocator["provider"] == CPU and allocator["peak_when"] == "in"
    assert len(memory["runs"]) == report["runs"]["found"]
    assert memory["growth_hidden"] is hidden and memory["shared"] is False
    rows = csv.DictReader(io.StringIO(prony("explore", path, "--by", "node", "--format", "csv").stdout))
    assert {r["node"]: int(r["growth_bytes"]) for r in rows} == {
        node: figures["growth_bytes"] for node, figures in nodes.items()}


def test_workspace_is_what_raises_the_peak(explore):
    report = explore(run(10_000, sized(traces.node("a", "Conv", 10_002, 5), 100, 100, 100),
                         sized(traces.node("b", "Gemm", 10_010, 5), 150, 50, 900),
                         sized(traces.node("c", "Relu", 10_020, 5), 160, 10, 900)), "--by", "node")
    assert {g["node"]: g["memory"]["workspace_bytes"] for g in report["cpu"]["groups"]} == {
        "a": 0, "b": 750, "c": 0}
    allocator, = report["memory"]["allocators"]
    assert (allocator["peak_when"], allocator["peak_node"]) == ("in", "b")


def test_peak_between_nodes_is_not_the_next_node_s(explore):
    """Memory patterns take a run's memory before its first node."""
    events = run(10_000, sized(traces.node("a", "Conv", 10_002, 5), 100, 100, 100))
    events += run(20_000, sized(traces.node("a", "Conv", 20_002, 5), 700, 0, 700))
    allocator, = explore(events)["memory"]["allocators"]
    assert (allocator["peak_when"], allocator["peak_run"]) == ("before", 1)
    assert "reached before a in run 1" in explore(events, form="text")


def test_what_came_before_the_first_node_is_unknown(explore):
    events = run(10_000, sized(traces.node("a", "Conv", 10_002, 5), 100, 100, 500))
    report = explore(events)
    allocator, = report["memory"]["allocators"]
    assert (allocator["peak_when"], allocator["peak_node"]) == ("by", "a")
    assert report["cpu"]["groups"][0]["memory"]["workspace_bytes"] == 0


def test_each_provider_has_its_allocator(explore):
    cuda = "CUDAExecutionProvider"
    report = explore(run(10_000, sized(traces.node("a", "Conv", 10_002, 5), 100, 100, 100),
                         sized(traces.node("b", "Conv", 10_010, 5, provider=cuda), 70, 70, 70)))
    assert {a["provider"]: a["peak_bytes"] for a in report["memory"]["allocators"]} == {
        CPU: 100, cuda: 70}


def test_overlap_is_said(explore):
    nodes = [sized(traces.node("a", "Conv", 10_002, 50), 100, 100, 100),
             sized(traces.node("b", "Conv", 10_010, 50, tid=2), 170, 170, 170)]
    assert explore(run(10_000, *nodes))["memory"]["shared"] is True
    assert "share an allocator" in explore(run(10_000, *nodes), form="text")


@pytest.mark.parametrize("value", ["", "many", "1e9", "99999999999999999999", "-5"])
def test_odd_sizes_say_nothing(explore, value):
    event = sized(traces.node("a", "Conv", 10_002, 5), 100, 100, 100)
    event["args"]["mem_bytes_in_use"] = value
    report = explore(run(10_000, event))
    assert "memory" not in report and "memory" not in report["cpu"]["groups"][0]


@pytest.mark.parametrize("path, hidden", TRACES)
def test_counters_in_perfetto(prony, path, hidden):
    """What is in use before and after each node, and what the arena holds, are tracks."""
    done = prony("explore", path, "-s", "0", "--format", "perfetto")
    counters = collections.defaultdict(dict)
    for e in json.loads(done.stdout)["traceEvents"]:
        if e["ph"] == "C":
            counters[e["name"]][e["ts"]] = e["args"]["bytes"]
    assert set(counters) == {f"Memory in use, {CPU}", f"Arena held, {CPU}"}

    def at(name, ts):
        track = counters[f"{name}, {CPU}"]
        return track[max(t for t in track if t <= ts)]

    nodes = [e for e in json.loads(gzip.decompress(path.read_bytes())) if "mem_bytes_in_use" in e["args"]]
    # Times are whole µs: of nodes that meet in one only the last can be seen.
    starts = collections.Counter(e["ts"] for e in nodes)
    for e in nodes:
        end, in_use = e["ts"] + e["dur"], int(e["args"]["mem_bytes_in_use"])
        if e["dur"] > 0 and starts[end] == 0:
            assert at("Memory in use", end) == in_use
            assert at("Arena held", end) == int(e["args"]["mem_arena_held"])
        if e["dur"] > 0 and starts[e["ts"]] == 1:
            assert at("Memory in use", e["ts"]) == in_use - int(e["args"]["mem_in_use_delta"])
    assert any(starts[e["ts"] + e["dur"]] == 0 for e in nodes)


def test_no_counters_without_memory(prony):
    done = prony("explore", ROOT / "tests/data/trace/parallel.json", "-s", "0", "--format", "perfetto")
    assert not any(e["ph"] == "C" for e in json.loads(done.stdout)["traceEvents"])
