"""`prony models`, `prony device-types` and `prony schedule`, with the files of PyYAML beside them."""
import copy
import json
import math
import os
import random

import pytest
import yaml

from conftest import ROOT
from schedule_checker import Problem, all_schedules, check_report, figures, stages_of

EXAMPLES = ROOT / "examples" / "pipeline"
RESULTS = {
    "batch_size": 8, "dtype": "torch.float32", "layers": 2, "model_name": "small/one",
    "profile_data": [
        {"layer": 1, "memory": 26.857472, "shape_in": [[3, 4]], "shape_out": [[5, 6], [7]],
         "time": 0.36892950534820557},
        {"layer": 2, "memory": 1.0, "shape_in": [[5, 6], [7]], "shape_out": [[10]],
         "time": 1e-05},
    ]}


class NoAliases(yaml.SafeDumper):
    def ignore_aliases(self, data):
        return True


def dump(data, **options):
    return yaml.dump(data, Dumper=NoAliases, **{"default_flow_style": None, **options})


def save(path, data, **options):
    path.write_text(dump(data, **options))
    return path


def load(path):
    return yaml.safe_load(path.read_text())


STYLES = {
    "as PipeEdge's tools write": {},
    "block": {"default_flow_style": False},
    "flow": {"default_flow_style": True},
    "quoted keys and texts": {"default_style": '"', "explicit_start": True, "explicit_end": True},
    "narrow": {"width": 20, "indent": 6},
    "wide": {"width": 10000, "allow_unicode": True},
    "unsorted": {"sort_keys": False},
    "canonical": {"canonical": True},
}


@pytest.mark.parametrize("style", STYLES)
def test_reads_what_pyyaml_writes(prony, workdir, style):
    save(workdir / "profiler_results.yml", RESULTS, **STYLES[style])
    assert prony("models").status == 0
    assert load(workdir / "models.yml") == {"small/one": {
        "layers": 2, "mem_MB": [26.857472, 1.0], "parameters_in": 12, "parameters_out": [37, 10]}}
    done = prony("device-types", "board", "-dtm", "512", "-dtb", "100")
    assert done.status == 0, done.stderr
    assert load(workdir / "device_types.yml") == {"board": {
        "bw_Mbps": 100, "mem_MB": 512, "model_profiles": {"small/one": [
            {"batch_size": 8, "dtype": "torch.float32", "time_s": [0.36892950534820557, 1e-05]}]}}}
    for name in ("models.yml", "device_types.yml"):  # and what it wrote, in every style again
        save(workdir / name, load(workdir / name), **STYLES[style])
    save(workdir / "devices.yml", {"board": ["b-0"]}, **STYLES[style])
    done = prony("schedule", "-m", "small/one")
    assert (done.stdout, done.stderr, done.status) == ("- b-0: [1, 2]\n", "", 0)


def test_files_are_laid_out_as_pyyaml_does(prony, workdir):
    """Byte by byte what PipeEdge's converters would have written, of a real length."""
    results = load(EXAMPLES / "board.yml")
    generator = random.Random(5)
    entries = []
    for layer in range(1, 49):
        entry = copy.deepcopy(results["profile_data"][layer % 8])
        entry.pop("time_ci")
        entries.append({**entry, "layer": layer, "time": generator.random(),
                        "memory": generator.random() * 10 ** generator.randrange(-6, 6)})
    results.update(layers=48, profile_data=entries)
    save(workdir / "profiler_results.yml", results)
    assert prony("models").status == 0
    assert prony("device-types", "board", "-dtm", "512", "-dtb", "100").status == 0
    for name in ("models.yml", "device_types.yml"):
        text = (workdir / name).read_text()
        assert text == dump(yaml.safe_load(text)), name
    assert load(workdir / "models.yml")["vit-two-blocks"]["mem_MB"] == [
        e["memory"] for e in entries]
    profile, = load(workdir / "device_types.yml")["board"]["model_profiles"]["vit-two-blocks"]
    assert profile["time_s"] == [e["time"] for e in entries]


@pytest.mark.parametrize("number", [
    0.1, 1 / 3, 5e-324, 1.7976931348623157e+308, 1e-05, 123456789012345680.0, 2.0, 0.0, 1e22,
    9007199254740993.0, 4.35])
def test_numbers_survive(prony, workdir, number):
    results = copy.deepcopy(RESULTS)
    for entry in results["profile_data"]:
        entry["time"] = number
    save(workdir / "profiler_results.yml", results)
    assert prony("device-types", "t", "-dtm", "1", "-dtb", "1").status == 0
    profile, = load(workdir / "device_types.yml")["t"]["model_profiles"]["small/one"]
    assert profile["time_s"] == [number, number]
    assert all(isinstance(value, float) for value in profile["time_s"])


@pytest.mark.parametrize("name", [
    "plain", "with space", "1", "1.5", "1e5", "0x1F", "12:30", "true", "No", "null", "~", "2020-01-01",
    "a: b", "- a", "#c", "'q'", '"q"', "é", "日本", "a#b", "[x]", "{y}", "*z", "&z", "!z", "%z", "@z", "`z",
    "=", "<<", ".inf", "-", "?", "x" * 200, "trailing ", "a, b", "\\back"])
def test_names_survive(prony, workdir, name):
    save(workdir / "profiler_results.yml", {**RESULTS, "model_name": name})
    done = prony("models")
    assert done.status == 0, done.stderr
    assert list(load(workdir / "models.yml")) == [name]
    done = prony("device-types", "-dtm", "9999", "-dtb", "1", "--", name)
    assert done.status == 0, done.stderr
    assert list(load(workdir / "device_types.yml")) == [name]
    save(workdir / "devices.yml", {name: [name]})
    done = prony("schedule", "-m", name)
    assert done.status == 0, done.stderr
    assert yaml.safe_load(done.stdout) == [{name: [1, 2]}]


def test_nothing_else_in_a_file_changes(prony, workdir):
    models = {"other": {"layers": 1, "mem_MB": [1], "parameters_in": 1, "parameters_out": [2],
                        "note": {"deep": ["kept", {"as": "it is"}, None, True, "true", "12"]}},
              "1": {"a": 1}}
    types = {"board": {"bw_Mbps": 100, "mem_MB": 512.5, "watts": 7, "model_profiles": {
        "other": [{"batch_size": 1, "dtype": "torch.int8", "time_s": [1], "joules": [2.5]}],
        "small/one": [{"batch_size": 4, "dtype": "torch.float32", "time_s": [1, 2]}]}},
        "empty": {"bw_Mbps": 0, "mem_MB": 0, "model_profiles": None}}
    save(workdir / "profiler_results.yml", RESULTS)
    save(workdir / "models.yml", models)
    save(workdir / "device_types.yml", types)
    assert prony("models").status == 0
    assert prony("device-types", "board", "-dtb", "100", "--price", "0.25").status == 0
    assert prony("device-types", "empty").status == 0
    after = load(workdir / "models.yml")
    assert after.pop("small/one")["layers"] == 2
    assert after == models
    after = load(workdir / "device_types.yml")
    added = {"batch_size": 8, "dtype": "torch.float32", "time_s": [0.36892950534820557, 1e-05]}
    types["board"]["model_profiles"]["small/one"].append(added)
    types["board"]["usd_per_hour"] = 0.25
    types["empty"]["model_profiles"] = {"small/one": [added]}
    assert after == types


def test_intervals_go_into_device_types(prony, workdir):
    results = copy.deepcopy(RESULTS)
    results["profile_data"][0]["time_ci"] = 0.25
    save(workdir / "profiler_results.yml", results)
    assert prony("device-types", "some", "-dtm", "1", "-dtb", "1").status == 0
    results["profile_data"][1]["time_ci"] = 1e-06
    save(workdir / "profiler_results.yml", results)
    assert prony("device-types", "all", "-dtm", "1", "-dtb", "1").status == 0
    types = load(workdir / "device_types.yml")
    assert types["some"]["model_profiles"]["small/one"][0]["time_ci_s"] == [0.25, None]
    assert types["all"]["model_profiles"]["small/one"][0]["time_ci_s"] == [0.25, 1e-06]


# ---- Refusals: the file, the line and the key; and no file changes ----

def broken(change):
    results = copy.deepcopy(RESULTS)
    change(results)
    return dump(results)


def without(*path):
    def change(results):
        inner = results
        for step in path[:-1]:
            inner = inner[step]
        del inner[path[-1]]
    return broken(change)


def instead(value, *path):
    def change(results):
        inner = results
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value
    return broken(change)


ENTRY = ("profile_data", 1)
BAD_RESULTS = {
    "no model name": (without("model_name"), "line 1: key 'model_name' is missing"),
    "no dtype": (without("dtype"), "line 1: key 'dtype' is missing"),
    "no time": (without(*ENTRY, "time"), "line 14: key 'time' is missing"),
    "no memory": (without(*ENTRY, "memory"), "line 14: key 'memory' is missing"),
    "no shape": (without(*ENTRY, "shape_out"), "line 14: key 'shape_out' is missing"),
    "no data": (without("profile_data"), "line 1: key 'profile_data' is missing"),
    "time is a text": (instead("fast", *ENTRY, "time"), "'time': 'fast' is not a finite number"),
    "time is NaN": (instead(math.nan, *ENTRY, "time"), "'time': '.nan' is not a finite number"),
    "time is infinite": (instead(math.inf, *ENTRY, "time"), "'time': '.inf' is not a finite"),
    "time is negative": (instead(-1.5, *ENTRY, "time"), "'time': -1.5 is negative"),
    "time is a list": (instead([1], *ENTRY, "time"), "'time' is not a number"),
    "memory is negative": (instead(-1, *ENTRY, "memory"), "'memory': -1 is negative"),
    "layers is a text": (instead("two", "layers"), "line 3: 'layers': 'two' is not a whole number"),
    "layers is quoted": (instead("2", "layers"), "line 3: 'layers': '2' is not a whole number"),
    "more layers": (instead(3, "layers"), "line 3: 'layers' is 3, but 'profile_data' has 2"),
    "empty": (broken(lambda r: r.update(layers=0, profile_data=[])), "'profile_data' is empty"),
    "data is a map": (instead({}, "profile_data"), "'profile_data' is not a list"),
    "entry is a number": (instead([7, 8], "profile_data"), "line 5: not a map with 'layer'"),
    "layer twice": (instead(1, *ENTRY, "layer"), "'layer': 1 is there twice"),
    "layer out of range": (instead(3, *ENTRY, "layer"), "'layer': '3' is not a whole number from"),
    "layer 0": (instead(0, *ENTRY, "layer"), "'layer' is less than 1"),
    "shape is flat": (instead([5], *ENTRY, "shape_in"), "'shape_in' is not a list of lists"),
    "shape of fractions": (instead([[1.5]], *ENTRY, "shape_in"), "'shape_in': '1.5' is not a whole"),
    "huge shape": (instead([[2 ** 40, 2 ** 40]], *ENTRY, "shape_in"), "more than 2^53 elements"),
    "unknown dtype": (instead("torch.float33", "dtype"), "line 2: 'dtype': 'torch.float33' is not a"),
    "batch 0": (instead(0, "batch_size"), "line 1: 'batch_size' is less than 1"),
    "control characters": (instead("a\x1bb", "model_name"), "'model_name' is a text with control"),
    "not YAML": ("a: [1, 2\nb: 3\n", "is not valid YAML: line"),
    "not a map": ("- 1\n", "line 1: not a map"),
    "nothing": ("", "is empty"),
    "two documents": (dump(RESULTS) + "---\n" + dump(RESULTS), "a second document"),
    "a key twice": (dump(RESULTS) + "layers: 2\n", "key 'layers' twice"),
    "merge keys": ("a: &a {layers: 2}\n<<: *a\n", "merge keys ('<<') are not supported"),
    "an alias to nothing": ("layers: *x\n", "an alias to nothing"),
}


@pytest.mark.parametrize("case", BAD_RESULTS)
def test_bad_results(prony, workdir, case):
    text, message = BAD_RESULTS[case]
    (workdir / "profiler_results.yml").write_text(text)
    for name in ("models.yml", "device_types.yml"):
        (workdir / name).write_text("# as it was\n{}\n")
    for command in (["models"], ["device-types", "t", "-dtm", "1", "-dtb", "1"]):
        done = prony(*command)
        assert done.status == 1
        assert done.stderr.startswith("prony: error: 'profiler_results.yml'"), done.stderr
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
    for name in ("models.yml", "device_types.yml"):
        assert (workdir / name).read_text() == "# as it was\n{}\n"
    assert sorted(os.listdir(workdir)) == ["device_types.yml", "models.yml", "profiler_results.yml"]


def test_anchors_are_resolved(prony, workdir):
    (workdir / "profiler_results.yml").write_text(
        "model_name: m\ndtype: torch.float32\nbatch_size: 1\nlayers: 2\nprofile_data:\n"
        "- {layer: 2, memory: 1, shape_in: &s [[2, 3]], shape_out: *s, time: &t 0.5}\n"
        "- {layer: 1, memory: 2, shape_in: *s, shape_out: *s, time: *t}  # unsorted\n")
    assert prony("models").status == 0
    assert load(workdir / "models.yml") == {"m": {
        "layers": 2, "mem_MB": [2.0, 1.0], "parameters_in": 6, "parameters_out": [6, 6]}}


MODELS = {"m": {"layers": 2, "mem_MB": [1, 1], "parameters_in": 3, "parameters_out": [4, 5]}}
TYPES = {"t": {"bw_Mbps": 1, "mem_MB": 9, "model_profiles": {
    "m": [{"batch_size": 8, "dtype": "torch.float32", "time_s": [1.0, 2.0]}]}}}
DEVICES = {"t": ["h-0", "h-1"]}


def edited(data, change):
    data = copy.deepcopy(data)
    change(data)
    return data


def profile(types):
    return types["t"]["model_profiles"]["m"][0]


BAD_FILES = {
    "no layers": ("models", edited(MODELS, lambda d: d["m"].pop("layers")), "key 'layers' is missing"),
    "short memory": ("models", edited(MODELS, lambda d: d["m"]["mem_MB"].pop()),
                     "'mem_MB' has 1 items for 2 layers"),
    "long parameters": ("models", edited(MODELS, lambda d: d["m"]["parameters_out"].append(1)),
                        "'parameters_out' has 3 items for 2 layers"),
    "no parameters": ("models", edited(MODELS, lambda d: d["m"]["parameters_out"].clear()),
                      "'parameters_out' has 0 items for 2 layers"),
    "fraction": ("models", edited(MODELS, lambda d: d["m"].update(parameters_in=1.5)),
                 "'parameters_in': '1.5' is not a whole number"),
    "negative memory": ("models", edited(MODELS, lambda d: d["m"].update(mem_MB=[1, -1])),
                        "'mem_MB': -1 is negative"),
    "NaN memory": ("models", edited(MODELS, lambda d: d["m"].update(mem_MB=[1, math.nan])),
                   "'mem_MB': '.nan' is not a finite number"),
    "no layers at all": ("models", edited(MODELS, lambda d: d["m"].update(
        layers=0, mem_MB=[], parameters_out=[])), "'layers' is 0"),
    "no such model": ("models", {"other": {}}, "has no model 'm'"),
    "models is a list": ("models", [1], "line 1: not a map of model names"),
    "no types": ("types", None, "has no device types"),
    "no bandwidth": ("types", edited(TYPES, lambda d: d["t"].pop("bw_Mbps")),
                     "key 'bw_Mbps' is missing"),
    "negative bandwidth": ("types", edited(TYPES, lambda d: d["t"].update(bw_Mbps=-1)),
                           "'bw_Mbps': -1 is negative"),
    "wrong length": ("types", edited(TYPES, lambda d: profile(d)["time_s"].append(1.0)),
                     "'time_s' has 3 items, but the model has 2 layers"),
    "wrong length of intervals": ("types", edited(TYPES, lambda d: profile(d).update(
        time_ci_s=[1.0])), "'time_ci_s' has 1 items, but the model has 2 layers"),
    "negative time": ("types", edited(TYPES, lambda d: profile(d).update(time_s=[1, -2])),
                      "'time_s': -2 is negative"),
    "text as time": ("types", edited(TYPES, lambda d: profile(d).update(time_s=[1, "x"])),
                     "'time_s': 'x' is not a finite number"),
    "no usable type": ("types", edited(TYPES, lambda d: profile(d).update(batch_size=4)),
                       "no device type under which 'model_profiles' has 'm' with torch.float32 and "
                       "batch size 8"),
    "profiles as a list": ("types", edited(TYPES, lambda d: d["t"].update(model_profiles=[1])),
                           "'model_profiles' is not a map"),
    "twice the same profile": ("types", edited(TYPES, lambda d: d["t"]["model_profiles"]["m"].append(
        profile(TYPES))), "'dtype' torch.float32 and 'batch_size' 8 are there twice"),
    "negative price": ("types", edited(TYPES, lambda d: d["t"].update(usd_per_hour=-1)),
                       "'usd_per_hour': -1 is negative"),
    "unknown dtype": ("types", edited(TYPES, lambda d: profile(d).update(dtype="torch.float33")),
                      "'dtype': 'torch.float33' is not a PyTorch type"),
    "no times": ("types", edited(TYPES, lambda d: profile(d).pop("time_s")),
                 "key 'time_s' is missing"),
    "NaN time": ("types", edited(TYPES, lambda d: profile(d).update(time_s=[1, math.nan])),
                 "'time_s': '.nan' is not a finite number"),
    "negative interval": ("types", edited(TYPES, lambda d: profile(d).update(time_ci_s=[1, -1])),
                          "'time_ci_s': -1 is negative"),
    "a type as a list": ("types", {"t": [1]}, "not a map with 'mem_MB'"),
    "a host twice": ("devices", {"t": ["h-0", "h-0"]}, "'t': host 'h-0' is there twice"),
    "a host of two types": ("devices", {"t": ["h-0"], "u": ["h-0"]}, "'u': host 'h-0' is there twice"),
    "hosts as a text": ("devices", {"t": "h-0"}, "'t' is not a list of hosts"),
    "a host without a name": ("devices", {"t": [""]}, "'t' is empty"),
    "devices as a list": ("devices", ["h-0"], "not a map of device types"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_of_a_schedule(prony, workdir, case):
    which, data, message = BAD_FILES[case]
    files = {"models": MODELS, "types": TYPES, "devices": DEVICES, which: data}
    for name, content in files.items():
        save(workdir / f"{name}.yml", content)
    done = prony("schedule", "-m", "m", "-M", "models.yml", "-T", "types.yml", "-D", "devices.yml",
                 "--output", "schedule.yml")
    assert done.status == 1
    error = done.stderr.splitlines()[-1]
    assert error.startswith(f"prony: error: '{which}.yml'"), error
    assert message in error
    # What isn't in the file at all has no line.
    assert (", line " in error) != (case in ("no such model", "no types", "no usable type")), error
    assert not (workdir / "schedule.yml").exists()


# ---- Schedules ----

def random_files(generator, folder, layers, kinds, most_hosts):
    """Files of a random problem in random styles."""
    whole = generator.random() < 0.5
    def amount(most):
        return generator.randrange(most + 1) if whole else generator.random() * most
    models = {"m": {"layers": layers, "mem_MB": [amount(4) for _ in range(layers)],
                    "parameters_in": generator.randrange(5) * 4096,
                    "parameters_out": [generator.randrange(5) * 4096 for _ in range(layers)]}}
    types, devices = {}, {"unknown type": ["x-0"]}
    for k in range(kinds):
        times = [amount(5) for _ in range(layers)]
        entry = {"batch_size": 8, "dtype": "torch.float32", "time_s": times}
        if generator.random() < 0.5:
            entry["time_ci_s"] = [generator.random() / 10 for _ in range(layers)]
        types[f"type {k}"] = {
            "bw_Mbps": generator.choice([0, 1, 2, 5]), "mem_MB": generator.choice([6, 10, 1000]),
            "usd_per_hour": generator.randrange(1, 5) / 10, "model_profiles": {"m": [entry]}}
        devices[f"type {k}"] = [f"h{k}-{i}" for i in range(generator.randrange(most_hosts + 1))]
    style = STYLES[generator.choice(list(STYLES))]
    paths = [folder / "models.yml", folder / "device_types.yml", folder / "devices.yml"]
    for path, data in zip(paths, (models, types, devices)):
        save(path, data, **style)
    return paths


OBJECTIVES = {
    "throughput": [], "latency": ["--objective", "latency"],
    "cost by throughput": ["--objective", "cost", "--min-throughput", "1.5"],
    "cost by latency": ["--objective", "cost", "--max-latency", "12"],
}


def up_to(limit):
    """What is equal to a limit: sums of decimal numbers aren't exact."""
    return limit * (1 + 1e-12)


def ranking(objective, problem, stages):
    """What the optimum makes small, in this order; None when a limit isn't kept."""
    period, latency, price = figures(problem, stages)
    total = 0.0
    for stage in stages:
        total += problem.stage_s(*stage)
    if objective == "throughput":
        return period, len(stages), total
    if objective == "latency":
        return latency, len(stages)
    if objective == "cost by throughput":
        return (price, len(stages), total) if period <= up_to(8 / 1.5) else None
    return (price, len(stages), latency) if latency <= up_to(12) else None


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_from_files_to_the_optimum(prony, workdir, objective):
    """Every figure of every schedule, and whether there is a better one."""
    generator = random.Random(objective)
    for _ in range(40):
        paths = random_files(generator, workdir, generator.randrange(1, 6), 3, 2)
        problem = Problem.load(*paths, "m")
        done = prony("schedule", "-m", "m", *OBJECTIVES[objective], "--format", "json")
        assert done.status == 0, done.stderr
        stages = check_report(problem, json.loads(done.stdout))
        listing = prony("schedule", "-m", "m", *OBJECTIVES[objective])
        assert stages_of(problem, yaml.safe_load(listing.stdout)) == stages
        ranks = [ranking(objective, problem, s) for s in all_schedules(problem)]
        ranks = [rank for rank in ranks if rank is not None]
        assert bool(stages) == bool(ranks)
        if stages:
            limit = up_to(min(rank[0] for rank in ranks))
            figure, *others = ranking(objective, problem, stages)
            assert figure <= limit
            assert tuple(others) == min(rank[1:] for rank in ranks if rank[0] <= limit)
        assert bool(stages) == ("no schedule" not in listing.stderr)


def test_larger_schedules_add_up(prony, workdir):
    generator = random.Random(11)
    for _ in range(6):
        paths = random_files(generator, workdir, 40, 3, 6)
        done = prony("schedule", "-m", "m", "--format", "json", "-i", "1", "-o", "3")
        assert done.status == 0, done.stderr
        check_report(Problem.load(*paths, "m", buffers_in=1, buffers_out=3), json.loads(done.stdout))


def test_every_format_tells_the_same(prony, workdir):
    save(workdir / "models.yml", MODELS)
    save(workdir / "device_types.yml", TYPES)
    save(workdir / "devices.yml", DEVICES)
    report = json.loads(prony("schedule", "-m", "m", "--format", "json").stdout)
    rows = [line.split(",") for line in
            prony("schedule", "-m", "m", "--format", "csv").stdout.splitlines()]
    table = [dict(zip(rows[0], row)) for row in rows[1:]]
    assert [row["host"] for row in table] == [s["host"] for s in report["stages"]] == ["h-0", "h-1"]
    for row, stage in zip(table, report["stages"]):
        assert float(row["time_s"]) == stage["time_s"]
        assert float(row["memory_bytes"]) == stage["memory_bytes"]
        assert float(row["period_s"]) == report["period_s"] == 2.0
        assert float(row["one_more_period_s"]) == report["one_more"][0]["period_s"]
    text = prony("schedule", "-m", "m", "--format", "text").stdout
    assert "the bottleneck is stage 2 (h-1)." in text
