#!/usr/bin/env python3
"""Recomputes every figure of a schedule from the files, and finds the optimum by trying everything.

    tests/schedule_checker.py MODELS TYPES DEVICES SCHEDULE.json [BUFFERS_IN BUFFERS_OUT]

SCHEDULE.json is what `prony schedule --format json` wrote. Nothing is shared with prony but the
definitions: sums go from left to right in double precision.
"""
import dataclasses
import json
import math
import sys

import yaml

MIB = 1024 * 1024
ELEMENT_BYTES = {"torch.float32": 4, "torch.float16": 2, "torch.int8": 1, "torch.float64": 8}


@dataclasses.dataclass
class Problem:
    """What the three files say about one model."""
    model: dict
    types: dict  # name: entry of device_types.yml, only with a profile that fits
    hosts: dict  # type: names
    dtype: str = "torch.float32"
    batch: int = 8
    buffers_in: int = 2
    buffers_out: int = 2

    @classmethod
    def load(cls, models, types, devices, name, dtype="torch.float32", batch=8, **buffers):
        def read(path):
            with open(path, encoding="utf-8") as file:
                return yaml.safe_load(file)
        usable = {}
        for type_name, entry in read(types).items():
            for profile in (entry.get("model_profiles") or {}).get(name) or []:
                if (profile["dtype"], profile["batch_size"]) == (dtype, batch):
                    usable[type_name] = {**entry, **profile}
        hosts = {key: value or [] for key, value in (read(devices) or {}).items()}
        return cls(read(models)[name], usable, hosts, dtype, batch, **buffers)

    @property
    def layers(self):
        return self.model["layers"]

    def bytes_out(self, layer):
        counts = self.model["parameters_out"]
        count = self.model["parameters_in"] if layer == 0 else counts[(layer - 1) % len(counts)]
        return ELEMENT_BYTES[self.dtype] * count * self.batch

    def stage_s(self, kind, first, last):
        return left_to_right(self.types[kind]["time_s"][first - 1:last])

    def stage_ci_s(self, kind, first, last):
        errors = self.types[kind].get("time_ci_s")
        return math.sqrt(left_to_right(e * e for e in errors[first - 1:last])) if errors else None

    def link_s(self, layer, left, right):
        sent = self.bytes_out(layer)
        mbps = min(self.types[left]["bw_Mbps"], self.types[right]["bw_Mbps"])
        if sent == 0:
            return 0.0
        return sent / (mbps * MIB / 8) if mbps else math.inf

    def memory(self, first, last):
        fixed = self.model.get("mem_fixed_MB", 0.0)
        weights = left_to_right([fixed * MIB, *(max(0.0, m - fixed) * MIB for m in
                                                self.model["mem_MB"][first - 1:last])])
        into, out = self.bytes_out(first - 1), self.bytes_out(last)
        buffers = into + out + out * self.buffers_out
        if first > 1:
            buffers += into * self.buffers_in
        return weights + float(buffers)

    def available(self, kind):
        return float(self.types[kind]["mem_MB"]) * MIB

    def fits(self, kind, first, last):
        return self.available(kind) > self.memory(first, last)

    def type_of(self, host):
        found = [kind for kind, names in self.hosts.items() if host in names]
        assert len(found) == 1, f"{host} is not one host of one type"
        return found[0]


def left_to_right(values):
    total = 0.0
    for value in values:
        total += value
    return total


def figures(problem, stages):
    """Period, latency and price of [(type, first, last), …]; None: no price is known."""
    period = latency = 0.0
    for i, (kind, first, last) in enumerate(stages):
        if i:
            link = problem.link_s(first - 1, stages[i - 1][0], kind)
            period, latency = max(period, link), latency + link
        time = problem.stage_s(kind, first, last)
        period, latency = max(period, time), latency + time
    price = 0.0
    for kind in sorted(problem.types):
        used = sum(kind == stage[0] for stage in stages)
        if used and "usd_per_hour" not in problem.types[kind]:
            return period, latency, None
        if used:
            price += used * problem.types[kind]["usd_per_hour"]
    return period, latency, price


def stages_of(problem, listing):
    """[(type, first, last), …] of the YAML that prony wrote, when it is a schedule at all."""
    assert isinstance(listing, list)
    stages, done, used = [], 0, {}
    for item in listing:
        (host, (first, last)), = item.items()
        kind = problem.type_of(host)
        assert first == done + 1 and last >= first, f"{host}: layers {first} to {last}"
        assert problem.hosts[kind][used.get(kind, 0)] == host, f"{host} is not the next {kind}"
        assert problem.fits(kind, first, last), f"{host}: layers {first} to {last} don't fit"
        used[kind] = used.get(kind, 0) + 1
        stages.append((kind, first, last))
        done = last
    assert not stages or done == problem.layers, f"only {done} layers"
    return stages


def check_report(problem, report):
    """Every figure of the JSON report, to the last digit."""
    listing = [{s["host"]: [s["first_layer"], s["last_layer"]]} for s in report["stages"]]
    stages = stages_of(problem, listing)
    assert report["feasible"] == bool(stages)
    if not stages:
        return stages
    period, latency, price = figures(problem, stages)
    assert (report["period_s"], report["latency_s"]) == (period, latency)
    assert report["usd_per_hour"] == price
    assert report["throughput_per_s"] == (problem.batch / period if period else None)
    for i, (shown, (kind, first, last)) in enumerate(zip(report["stages"], stages)):
        time = problem.stage_s(kind, first, last)
        assert shown["type"] == kind
        assert shown["time_s"] == time
        assert shown["time_ci_s"] == problem.stage_ci_s(kind, first, last)
        assert shown["idle"] == (1 - time / period if period else 0)
        assert shown["memory_bytes"] == problem.memory(first, last)
        assert shown["available_bytes"] == problem.available(kind)
        if i + 1 == len(stages):
            assert shown["link"] is None
            continue
        following = stages[i + 1][0]
        link = problem.link_s(last, kind, following)
        assert shown["link"] == {
            "bytes": problem.bytes_out(last), "time_s": link,
            "mbps": min(problem.types[kind]["bw_Mbps"], problem.types[following]["bw_Mbps"]),
            "idle": 1 - link / period if period else 0}
    slowest = report["bottleneck"]
    shown = report["stages"][slowest["stage"] - 1]
    assert (shown["link"] if slowest["kind"] == "link" else shown)["time_s"] == period
    return stages


def all_schedules(problem, done=0, stages=(), max_stages=math.inf):
    """Every schedule that is feasible."""
    if done == problem.layers:
        yield list(stages)
        return
    if len(stages) >= max_stages:
        return
    for kind in problem.types:
        if sum(kind == s[0] for s in stages) == len(problem.hosts.get(kind, [])):
            continue
        if stages and math.isinf(problem.link_s(done, stages[-1][0], kind)):
            continue
        for last in range(done + 1, problem.layers + 1):
            if problem.fits(kind, done + 1, last):
                yield from all_schedules(problem, last, (*stages, (kind, done + 1, last)),
                                         max_stages)


def main():
    models, types, devices, report_path, *buffers = sys.argv[1:]
    with open(report_path, encoding="utf-8") as file:
        report = json.load(file)
    counts = dict(zip(("buffers_in", "buffers_out"), map(int, buffers)))
    problem = Problem.load(models, types, devices, report["model_name"], report["dtype"],
                           report["batch_size"], **counts)
    stages = check_report(problem, report)
    print(f"{len(stages)} stages; every figure is right")


if __name__ == "__main__":
    main()
