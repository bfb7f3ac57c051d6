#!/usr/bin/env python3
"""Writes tests/data/profile-recorded-*.json: synthetic recordings for the tests of reports.

    python3 tests/data/make_recordings.py

Figures are chosen so that the reports show known tables; everything that follows from them (means,
totals, costs) is computed here, apart from the program. The files are stored; run this after a
change. Some of them are in the fuzz corpus too.
"""
import json
import math
import pathlib
import re
import statistics

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE.parent / "fuzz" / "corpus" / "profile"
HARDWARE = {"r6i.large": ("Intel Ice Lake CPU", 0.126), "g4dn.xlarge": ("Nvidia T4 GPU", 0.526),
            "g5.xlarge": ("Nvidia A10g GPU", 1.006), "lab7": (None, None)}
# Compact arrays stand on one line.
COMPACT = re.compile(r'("(?:samples_ns|footprint|flags|launch|block)": )\[(.*?)\]', re.DOTALL)


def number(value):
    """A float as the program writes it: without a point when it is whole."""
    return int(value) if float(value).is_integer() else value


def series(samples, count=None):
    """`count` times, of which `samples` are kept."""
    if not samples:
        return {"count": 0, "mean_ns": None, "sd_ns": None, "min_ns": None, "max_ns": None,
                "samples_ns": []}
    mean = math.fsum(samples) / len(samples)
    squares = math.fsum((sample - mean) ** 2 for sample in samples)
    sd = math.sqrt(squares / (len(samples) - 1)) if len(samples) > 1 else 0
    return {"count": count or len(samples), "mean_ns": number(mean), "sd_ns": number(sd),
            "min_ns": min(samples), "max_ns": max(samples), "samples_ns": samples}


def around(mean_ns, n):
    """`n` whole times, slowly growing, of which the mean is exactly `mean_ns`, a whole number."""
    step = max(mean_ns // (100 * n), 1) if mean_ns >= n else 0
    return [mean_ns + (2 * i - (n - 1)) * step for i in range(n)]


def local(mean_ns, runs):
    return {"graph": None, "local": series(around(mean_ns, runs)), "results": []}


def times(mean_ns, n, failures=()):
    return {"times": series(around(mean_ns, n) if n else []),
            "failed": sum(count for _, count in failures),
            "failures": [{"message": message, "count": count} for message, count in failures]}


def graph(number_, results, ran_locally=None):
    return {"graph": number_, "local": ran_locally, "results": results}


def profile(recording, function, segments, runs, discarded=0, repeats=10, compiled=False):
    """Adds a profile with its totals."""
    footprint = [s["graph"] for s in segments if s["graph"]]
    local_ns = math.fsum(s["local"]["mean_ns"] for s in segments if not s["graph"])
    totals = []
    for i, result in enumerate(recording["results"]):
        means = [s["results"][i]["times"]["mean_ns"] for s in segments if s["graph"]]
        backend_ns = math.fsum(m for m in means if m is not None)
        if means and set(means) == {None}:
            backend_ns = None
        # What didn't run there counts with what the program took for it.
        instead = [s["local"]["mean_ns"] if s["local"] else None for s in segments
                   if s["graph"] and s["results"][i]["times"]["mean_ns"] is None]
        local_graphs_ns = None if None in instead else math.fsum(instead)
        good = backend_ns is not None and local_graphs_ns is not None and not compiled
        total_ns = backend_ns + local_graphs_ns + local_ns if good else None
        price = result["backend"]["usd_per_hour"]
        cost = price * total_ns / 3.6e12 * 1e6 if good and price is not None else None
        totals.append({"backend_ns": backend_ns if backend_ns is None else number(backend_ns),
                       "local_graphs_ns": None if local_graphs_ns is None else number(local_graphs_ns),
                       "total_ns": total_ns if total_ns is None else number(total_ns),
                       "usd_per_million": cost if cost is None else number(cost)})
    recording["profiles"].append({
        "function": function, "footprint": footprint, "runs": runs, "discarded_runs": discarded,
        "repeats": repeats, "compiled": compiled, "segments": segments,
        "local_ns": number(local_ns), "totals": totals})


def in_runs(times, runs):
    """The median of the samples of each run."""
    samples = times["samples_ns"]
    return [statistics.median(samples[i * len(samples) // runs:(i + 1) * len(samples) // runs])
            for i in range(runs)]


def interval(values):
    """95 % of the median: between which of the sorted values it lies."""
    values, n = sorted(values), len(values)
    if n < 6:
        return None, None
    below = [sum(math.comb(n, i) for i in range(k)) / 2 ** n for k in range(n)]
    k = max(k for k in range(n) if below[k] <= 0.025)
    return values[k - 1], values[n - k]


def summarise(recording, profile):
    """The medians and flags of a profile, from its samples."""
    def median(values):
        return number(statistics.median(values)) if values else None

    runs, segments = profile["runs"], profile["segments"]
    locals_ = [in_runs(s["local"], min(runs, s["local"]["count"])) for s in segments[::2]]
    local_median_ns = median([math.fsum(parts) for parts in zip(*locals_)])
    totals = profile.pop("totals")
    profile["local_median_ns"] = local_median_ns
    profile["totals"] = totals
    for b, total in enumerate(totals):
        ran = total["backend_ns"] is not None
        chosen = [(s["results"][b]["times"], True) if s["graph"] and s["results"][b]["times"]["count"]
                  else (s["local"], False) for s in segments]
        known = ran and not profile["compiled"] and all(times for times, _ in chosen)
        n = min([runs, *(len(times["samples_ns"]) for times, _ in chosen)]) if known else 0
        each = [(in_runs(times, n), there) for times, there in chosen] if n else []
        sums = [math.fsum(values[i] for values, _ in each) for i in range(n)]
        there = [math.fsum(values[i] for values, there in each if there) for i in range(n)]
        graphs = [math.fsum(values[i] for (values, there), s in zip(each, segments) if s["graph"] and not there)
                  for i in range(n)]
        low, high = interval(sums)
        flags = set()
        if low is not None and high - low > 0.2 * statistics.median(sums):
            flags.add("IMPRECISE")
        for s in segments:
            checks = next((g["checks"] for g in recording["graphs"] if g["id"] == s["graph"]), None)
            if s["graph"] and ran and not s["results"][b]["times"]["count"]:
                flags.add("PARTIAL")
            if ran and checks and checks[b] and checks[b]["mismatch"]:
                flags.add("MISMATCH")
        total.update(backend_median_ns=median(there), local_graphs_median_ns=median(graphs),
                     median_ns=median(sums),
                     low_ns=None if low is None else number(low),
                     high_ns=None if high is None else number(high), flags=sorted(flags))


def backend(name):
    hardware, software = name.split("/")
    processor, price = HARDWARE[hardware]
    return {"backend": {"name": name, "hardware": hardware, "software": software,
                        "processor": processor, "usd_per_hour": price,
                        "runtime_version": "ONNX Runtime 1.30.0",
                        "library": "/usr/lib/libonnxruntime.so.1"},
            "point": 0, "error": None, "flags": [], "verdict": "none", "ratio": None,
            "stats": None, "launches": [], "redone_blocks": 0, "outputs": [], "ops": None,
            "samples_ns": [], "launch": [], "block": []}


def recording(backends, graphs, language="python"):
    """`graphs`: id to name, or to (name, why it ran locally)."""
    listed = [{"id": key, "name": value if isinstance(value, str) else value[0],
               "local_reason": None if isinstance(value, str) else value[1], "checks": None}
              for key, value in graphs.items()]
    return {"schema": "prony.profile/1", "prony_version": "0.1.0",
            "created": "2026-01-02T03:04:05Z", "model": None, "points": [],
            "settings": {"seed": 0, "precision": None, "smallest_difference": None, "launches": 1,
                         "repeats": 10, "warmups": 1, "max_time_s": None,
                         "tolerance": None, "reference": None},
            "environment": {"cpu": "Example CPU", "cores": 2, "mhz": None, "memory_bytes": None,
                            "os": "Debian GNU/Linux 12 (bookworm)", "kernel": "6.1.0",
                            "load_before": None, "load_after": None, "sandbox": None},
            "timer_ns": 22.5, "canary": {"best_ns": None}, "notes": [],
            "results": [backend(name) for name in backends], "language": language,
            "graphs": listed, "profiles": []}


def check(max_rel, mismatch):
    """The only output of a graph on a backend, against what the program computed."""
    return {"mismatch": mismatch, "failure": None, "outputs": [
        {"name": "out", "same_shape": True, "max_abs": 2 * max_rel, "max_rel": max_rel,
         "cosine": 1 if not mismatch else 0.98}]}


def write(name, content):
    for recorded in content["profiles"]:
        summarise(content, recorded)
    text = json.dumps(content, indent=2, ensure_ascii=False)
    text = COMPACT.sub(lambda m: m[1] + "[" + ", ".join(m[2].split()).replace(",,", ",") + "]",
                       text)
    (HERE / f"profile-recorded-{name}.json").write_text(text + "\n")
    if name in ("classic", "program", "empty"):
        (CORPUS / f"recorded-{name}.json").write_text(text + "\n")


def predict():
    """One profile on one backend: the summary that users of octoml-profile 0.2.2 know."""
    r = recording(["r6i.large/onnxrt-cpu"], {1: "net.onnx"})
    profile(r, "predict", [local(40000, 9), graph(1, [times(12000, 90)]), local(64000, 9)], 9, 1)
    write("predict", r)


def segments():
    """The same function with the times of its segments on that page."""
    r = recording(["r6i.large/onnxrt-cpu"], {1: "net.onnx"})
    profile(r, "predict", [local(50700, 9), graph(1, [times(37200, 90)]), local(93900, 9)], 9, 1)
    r["graphs"][0]["checks"] = [check(3e-7, False)]
    write("segments", r)


def classic():
    """And on two backends, as the earlier layout showed them."""
    r = recording(["r6i.large/onnxrt-cpu", "g4dn.xlarge/onnxrt-cuda"], {1: "net.onnx"})
    profile(r, "predict", [local(50700, 9), graph(1, [times(37200, 90), times(134600, 90)]),
                           local(93900, 9)], 9, 1)
    write("classic", r)


def program():
    """A C program: several functions and profiles, compilation in every run, failures on one
    backend, a graph that ran locally everywhere and one that did in place of one backend, a function
    without graphs, times that differ, and hardware without a price."""
    r = recording(["r6i.large/onnxrt-cpu", "g5.xlarge/onnxrt-cuda", "lab7/onnxrt-cpu"],
                  {1: "encoder.onnx", 2: "decoder.onnx",
                   3: ("custom.onnx", "no backend could load it: unknown operator 'Acme'")}, "c")
    encode = [times(1250000, 90), times(310000, 90), times(980000, 90)]
    decode = [times(2500000, 90), times(410000, 90), times(1990000, 90)]
    failing = [times(2500000, 90),
               times(410000, 60, [("out of memory: 2.1 GiB wanted", 20), ("device lost", 10)]),
               times(1990000, 90)]
    profile(r, "translate", [local(80000, 9), graph(1, encode), local(31000, 9),
                             graph(2, decode), local(12000, 9)], 9, 1)
    profile(r, "translate", [local(80000, 1), graph(1, [times(1250000, 10), times(310000, 10),
                                                        times(980000, 10)]), local(31000, 1)],
            1, compiled=True)
    profile(r, "tokenize", [local(250, 12)], 12)
    profile(r, "translate", [local(80000, 9), graph(1, encode), local(31000, 9),
                             graph(2, failing), local(12000, 9)], 9)
    profile(r, "rank", [local(20000, 5),
                        graph(3, [times(0, 0)] * 3, series(around(700000, 5))), local(9000, 5)], 5)
    refused = [times(1250000, 80), times(0, 0, [("unsupported type bfloat16", 80)]), times(980000, 80)]
    noisy = {"graph": None,
             "local": series([100000, 900000, 110000, 120000, 2000000, 95000, 105000, 1500000]),
             "results": []}
    profile(r, "filter", [noisy, graph(1, refused, series(around(500000, 8))), local(4000, 8),
                          graph(2, [times(ns, 80) for ns in (250000, 41000, 199000)]),
                          local(1000, 8)], 8)
    r["notes"] = ["The regions 'warm' and 'cool' were never begun."]
    r["graphs"][0]["checks"] = [check(0, False), check(2e-7, False), check(0.25, True)]
    r["graphs"][1]["checks"] = [check(0, False), None, {
        "mismatch": False, "failure": "it gave 2 outputs instead of 1", "outputs": []}]
    r["results"][2]["flags"] = ["MISMATCH"]
    write("program", r)


def many():
    """More than three graph segments: nine of seven graphs, one of them called three times."""
    r = recording(["r6i.large/onnxrt-cpu", "g4dn.xlarge/onnxrt-cuda"],
                  {i: f"layer{i}.onnx" for i in range(1, 8)})
    spent = {1: (400000, 90000), 2: (50000, 20000), 3: (900000, 150000), 4: (50000, 20000),
             5: (1200000, 300000), 6: (30000, 10000), 7: (2000, 15000)}
    parts = [local(100000, 4)]
    for called in [1, 3, 2, 3, 4, 5, 3, 6, 7]:
        parts += [graph(called, [times(ns, 40) for ns in spent[called]]), local(20000, 4)]
    profile(r, "pipeline", parts, 4, 2)
    profile(r, "pipeline", parts[:9], 4, compiled=True)
    write("many", r)


def scales():
    """From nanoseconds to minutes, and from millionths of a dollar to thousands."""
    r = recording(["r6i.large/onnxrt-cpu", "g5.xlarge/onnxrt-cuda"], {1: "net.onnx"}, "c")
    for name, local_ns, cpu_ns, gpu_ns in [
            ("nanoseconds", 12, 45, 7), ("microseconds", 3400, 9960, 1234),
            ("milliseconds", 9995, 1234567, 10000), ("seconds", 1001234000, 2500000000, 90000000),
            ("minutes", 0, 125000000000, 61000000000)]:
        profile(r, name, [local(local_ns, 3), graph(1, [times(cpu_ns, 30), times(gpu_ns, 30)]),
                          local(0, 3)], 3)
    write("scales", r)


def hostile():
    """Names that try to be something else."""
    r = recording(["r6i.large/onnxrt-cpu"], {1: "a|b`c\u001b[31m.onnx", 2: "../../etc/passwd"},
                  "c")
    names = ["../../etc/passwd", "a/b", "a_b", "a:b", "\u001b]0;owned\u0007\nsecond line",
             "x" * 4000, "`*_<b>|[link](http://x)", "größe.предсказать", "", ".hidden", "-rf",
             "Net.forward"]
    for name in names:
        profile(r, name, [local(40000, 2), graph(1, [times(
            12000, 10, [("bad\u001b[2J |`message`\n", 10)] if name == "a/b" else [])]),
            local(64000, 2)], 2)
    write("hostile", r)


def empty():
    """Nothing was called."""
    write("empty", recording(["r6i.large/onnxrt-cpu"], {}, "c"))


for make in (predict, segments, classic, program, many, scales, hostile, empty):
    make()
