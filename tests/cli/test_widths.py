"""No line of any report is wider than the terminal, however many rows it has and however long their names are."""
import copy
import json
import re
import unicodedata

import onnx
import pytest
from onnx import TensorProto, helper

import traces
from conftest import ROOT

DATA = ROOT / "tests/data"
WIDTHS = (40, 60, 80, 120, 200)
SIZES = [(1, 5), (2, 300), (12, 300), (100, 5)]  # rows, and characters of their names


def name(i, length):
    end = f"{i:02}"
    return "n" * max(1, length - len(end)) + end


def width(line):
    return sum(0 if unicodedata.combining(c) else 1 for c in line)


def save(path, data):
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path.name


def saved(file):
    return json.loads((DATA / file).read_text())


def several_backends(profile, n, length):
    """The first backend's results n times, each time under another name."""
    first = [r for r in profile["results"] if r["backend"] == profile["results"][0]["backend"]]
    profile["results"] = []
    for i in range(n):
        for result in copy.deepcopy(first):
            software = name(i, length)
            result["backend"] |= {"name": f"local/{software}", "hardware": "local", "software": software}
            profile["results"].append(result)
    return profile


def profile(folder, n, length):
    return [["report", save(folder / f"{kind}.json", several_backends(saved(f"profile-{kind}.json"), n, length)), *more]
            for kind in ("several", "sweep") for more in ([], ["--verbose"])]


def operators(folder, n, length):
    data = saved("profile-ops.json")
    for result in data["results"]:
        ops = result["ops"]
        for kind, key in (("operators", "op"), ("nodes", "node")):
            rows = ops.get(kind) or []
            ops[kind] = [row | {key: name(i, length)} for i in range(n) for row in copy.deepcopy(rows[:1])]
    return [["report", save(folder / "ops.json", data), *more] for more in ([], ["--verbose"])]


def recorded(folder, n, length):
    data = saved("profile-recorded-segments.json")
    data["profiles"] = [copy.deepcopy(data["profiles"][0]) | {"function": name(i, length)} for i in range(n)]
    file = save(folder / "r.json", data)
    return [["report", file, "--layout", layout, *more]
            for layout in ("summary", "segments", "classic") for more in ([], ["--verbose"])]


def comparison(folder, n, length):
    files = []
    for when in ("before", "after"):
        data = several_backends(saved(f"compare-{when}.json"), n, length)
        files.append(save(folder / f"{when}.json", data))
    return [["report", *files, *more] for more in ([], ["--verbose"])]


def trace(folder, n, length):
    for file, slower in (("a.json", 1), ("b.json", 2)):
        events = traces.opening()
        for run in range(1, 13):
            at = run * traces.RUN_US
            for i in range(n):
                events.append(traces.node(name(i, length), name(i, length), at + 2 + 6 * i, (3 + i % 2) * slower,
                                          shapes=((1, 3, 224, 224),) * 5))
            events += [traces.execute(at + 1, 9 * n + 5), traces.model_run(at, 9 * n + 9)]
        save(folder / file, traces.dump(events))
    return [["explore", "a.json", *more] for more in
            ([], ["--by", "node"], ["--shape-sensitive"], ["--compare", "b.json"], ["--csv", "x"])]


def kernels(folder, n, length):
    events = traces.opening()
    for run in range(1, 4):
        at = run * traces.RUN_US
        for i in range(n):
            events += [traces.node(name(i, 5), "Conv", at + 2 + 6 * i, 3),
                       traces.kernel(name(i, length), "Conv", at + 3 + 6 * i, 2)]
        events += [traces.execute(at + 1, 9 * n + 5), traces.model_run(at, 9 * n + 9)]
    file = save(folder / "gpu.json", traces.dump(events))
    return [["explore", file, *more] for more in ([], ["--mapping"], ["--dimension-sensitive"])]


def network(folder, n, length):
    """n layers, each of which multiplies by a matrix."""
    names = ["x"] + [name(i, length) for i in range(n)]
    nodes = [helper.make_node("MatMul", [a, f"w{b}"], [b], name=b) for a, b in zip(names, names[1:], strict=False)]
    weights = [helper.make_tensor(f"w{b}", TensorProto.FLOAT, [2, 2], [1, 0, 0, 1]) for b in names[1:]]
    value = [helper.make_tensor_value_info(v, TensorProto.FLOAT, ["batch", 2]) for v in (names[0], names[-1])]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:], weights)
    path = folder / (name(0, min(length, 200)) + ".onnx")
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path.name


def model(folder, n, length):
    file = network(folder, n, length)
    return [["model", file], ["model", file, "--nodes"]] + ([["layers", file, "--list"]] if n > 1 else [])


def schedule(folder, n, length):
    for file in ("models.yml", "device_types.yml"):
        (folder / file).write_text((DATA / "pipeline" / file).read_text())
    hosts = [name(i, length) for i in range(n)]
    save(folder / "devices.yml", f"A: {json.dumps(hosts)}\nB: []\n")
    return [["schedule", "-m", "uneven", *more] for more in (["--format", "text"], ["--explain"])]


def machine(folder, _n, _length):
    return [["machine", save(folder / "m.json", saved("machine.json"))]]


def history(folder, n, length):
    """A series for each backend, of two reports or more."""
    for i in range(12):
        data = several_backends(saved("compare-before.json"), n if i < 2 else 1, length)
        data["created"] = f"2026-01-{i + 1:02}T00:00:00Z"
        data["model"]["file"] = name(0, length) + ".onnx"
        save(folder / f"report{i}.json", data)
    db = ["--db", "history.db"]
    model_name = name(0, length) + ".onnx"
    return [["history", *what, *db] for what in
            (["add", *(f"report{i}.json" for i in range(12)), "--no-git", "--model", model_name], ["list"],
             ["show", model_name], ["show", model_name, "--verbose"], ["compare", "1", "2"])]


KINDS = [profile, operators, recorded, comparison, trace, kernels, model, schedule, machine, history]


def check_widths(prony, arguments, columns):
    done = prony(*arguments, env={"COLUMNS": str(columns)})
    assert done.status in (0, 3), done.stderr
    lines = done.stdout.splitlines()
    assert lines, arguments
    widest = max(lines, key=width)
    assert width(widest) <= columns, f"{arguments} at {columns}: {width(widest)}: {widest}"
    return done.stdout


@pytest.mark.parametrize("n, length", SIZES)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_reports_fit(prony, workdir, kind, n, length):
    for arguments in kind(workdir, n, length):
        if arguments[:2] == ["history", "add"]:  # says what it did, in a line for each file
            assert prony(*arguments).status == 0
            continue
        for columns in WIDTHS:
            check_widths(prony, arguments, columns)


def test_lists_and_help_fit(prony):
    commands = re.findall(r"^  ([a-z-]+) +\w", prony("--help").stdout.split("Commands:")[1].split("\n\n")[0], re.M)
    assert len(commands) > 15
    for columns in WIDTHS:
        for arguments in [["--help"], ["backends"], ["synth", "--list"], *([c, "--help"] for c in commands)]:
            check_widths(prony, arguments, columns)


def test_help_shows_the_same_words_at_every_width(prony):
    """What is wrapped isn't cut; a command that is broken ends in a backslash."""
    for command in ("profile", "schedule", "worker"):
        texts = {" ".join(prony(command, "--help", env={"COLUMNS": str(c)}).stdout.replace(" \\\n", "\n").split())
                 for c in WIDTHS}
        assert len(texts) == 1
