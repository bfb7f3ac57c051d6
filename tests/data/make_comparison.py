#!/usr/bin/env python3
"""Writes compare-*.json: two measurements of one network, before and after a change, and two of a
sweep, for the tests of `prony report OLD NEW`.

    python3 tests/data/make_comparison.py

The files are stored; run this after a change, with build/prony up to date. Statistics are those of the samples.
"""
import json
import pathlib
import re
import statistics
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BLOCKS, RUNS = 2, 3
SPREAD = [0, 1, -1, 2, -2]  # of the launches, in thousandths of the time


def launches(load_ms, peak_mib):
    return [{"load_ns": round(load_ms * 1e6 * (1 + s / 100)), "first_run_ns": 30000000 + 1000 * s,
             "baseline_bytes": 40 << 20, "peak_bytes": (peak_mib << 20) + 4096 * s,
             "warmup_runs": 6, "settled": True} for s in SPREAD]


def stats(samples):
    ordered = sorted(samples)
    quarter = statistics.quantiles(ordered, n=4, method="inclusive")
    median = statistics.median(ordered)
    return {"median_ns": median, "low_ns": median * 0.995, "high_ns": median * 1.005,
            "mean_ns": statistics.fmean(ordered), "sd_ns": statistics.stdev(ordered),
            "min_ns": ordered[0], "max_ns": ordered[-1], "p90_ns": None, "p95_ns": None,
            "p99_ns": None, "p999_ns": None, "spread": (quarter[2] - quarter[0]) / median,
            "outliers": 0}


def result(name, ms=None, point=0, load_ms=80, peak_mib=200, runtime="ONNX Runtime 1.29.0",
           usd=None, flags=(), error=None):
    """A backend whose launches have the medians ms × (1 + SPREAD / 1000)."""
    samples, launch, block = [], [], []
    for number, spread in enumerate(SPREAD if ms else []):
        base = round(ms * 1e6 * (1 + spread / 1000))
        for inner in range(BLOCKS):
            for run in range(RUNS):
                samples.append(base + (run - 1) * 5000)
                launch.append(number)
                block.append(number * BLOCKS + inner)
    hardware, software = re.match(r"([^/]*)/([^[]*)", name).groups()
    return {
        "backend": {"name": name, "hardware": hardware, "software": software,
                    "processor": "Example CPU" if hardware == "local" else None,
                    "usd_per_hour": usd, "runtime_version": runtime,
                    "library": "/usr/lib/libonnxruntime.so.1"},
        "point": point,
        "error": error and {"code": "PRONY_ERUNTIME", "message": error},
        "flags": list(flags), "verdict": "none", "ratio": None,
        "stats": stats(samples) if samples else None,
        "launches": launches(load_ms, peak_mib) if samples else [],
        "redone_blocks": 0, "outputs": [],
        "samples_ns": samples, "launch": launch, "block": block}


def point(label, batch):
    return {"label": label, "batch": batch, "flops": 8.2e9 * batch, "flops_complete": True,
            "inputs": [{"name": "input", "type": "float", "shape": [batch, 3, 224, 224],
                        "source": "random, seed 0"}]}


def profile(created, results, points=(("", 1),), load=0.1):
    return {
        "schema": "prony.profile/1", "prony_version": "0.1.0", "created": created,
        "model": {"path": "models/resnet50.onnx", "bytes": 102442450, "parameters": 25557032,
                  "fingerprint": None},
        "points": [point(*p) for p in points],
        "settings": {"seed": 0, "precision": 0.01, "smallest_difference": 0.005, "launches": 5,
                     "repeats": 0, "warmups": -1, "max_time_s": 60, "tolerance": 0.001, "reference": None},
        "environment": {"cpu": "Example CPU", "cores": 2, "mhz": None,
                        "memory_bytes": 8 << 30, "os": "Debian GNU/Linux 12 (bookworm)",
                        "kernel": "6.1.0", "load_before": load, "load_after": 1.5,
                        "sandbox": "seccomp, landlock"},
        "timer_ns": 25, "canary": {"best_ns": 100000}, "notes": [], "results": results}


def write(name, content):
    """As prony itself writes it."""
    done = subprocess.run([ROOT / "build" / "prony", "report", "-", "--format", "json"],
                          input=json.dumps(content).encode(), stdout=subprocess.PIPE, check=True)
    (HERE / f"compare-{name}.json").write_bytes(done.stdout)


def main():
    new = {"runtime": "ONNX Runtime 1.30.0"}
    write("before", profile("2026-01-02T03:04:05Z", [
        result("local/onnxrt-cpu", 10, usd=0.1),
        result("local/onnxrt-cpu[threads=1,opt=all]", 18),
        result("local/onnxrt-cpu[opt=off]", 15),
        result("local/onnxrt-cpu[opt=basic]", 12),
        result("lab7/onnxrt-cpu", 9),
    ]))
    write("after", profile("2026-01-09T03:04:05Z", [
        result("local/onnxrt-cpu[opt=all,threads=1]", 16.2, **new),
        result("local/onnxrt-cpu", 10.8, peak_mib=260, usd=0.1, flags=["NOISY"], **new),
        result("local/onnxrt-cpu[opt=off]", 15, **new),
        result("local/onnxrt-cpu[opt=basic]", error="Conv is not implemented", **new),
        result("local/onnxrt-cuda", 2, **new),
    ], load=1.3))
    sizes = [("batch=1", 1), ("batch=4", 4)]
    write("sweep-before", profile("2026-01-02T03:04:05Z", [
        result("local/onnxrt-cpu", 10), result("local/onnxrt-cpu", 36, point=1)], sizes))
    write("sweep-after", profile("2026-01-09T03:04:05Z", [
        result("local/onnxrt-cpu", 36.02, point=0), result("local/onnxrt-cpu", 10.3, point=1)],
        [("batch=4", 4), ("batch=1", 1)]))


if __name__ == "__main__":
    main()
