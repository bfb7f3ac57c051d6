"""Traces as ONNX Runtime writes them, and what they say: an oracle for `prony explore`.

The oracle follows the description of the trace format and of each table literally, holds everything
in memory, and takes no care of speed.
"""
import collections
import fnmatch
import json
import random

RUN_US = 10_000  # from the beginning of one generated run to the next


def event(cat, name, start, duration, tid=1, args=None, pid=1):
    return {"cat": cat, "pid": pid, "tid": tid, "dur": duration, "ts": start, "ph": "X",
            "name": name, "args": args or {}}


def node(name, op, start, duration, tid=1, shapes=((1, 2),), provider="CPUExecutionProvider"):
    return event("Node", f"{name}_kernel_time", start, duration, tid, {
        "op_name": op, "provider": provider, "node_index": "0",
        "input_type_shape": [{"float": list(shape)} for shape in shapes],
        "output_type_shape": [{"float": [1]}], "output_size": "4"})


def kernel(name, op, start, duration, block=("256", "1", "1"), grid=("1", "1", "1"), stream="7"):
    args = {"stream": stream}
    if op is not None:
        args["op_name"] = op
    for axis, b, g in zip("xyz", block, grid):
        args[f"block_{axis}"] = b
        args[f"grid_{axis}"] = g
    return event("Kernel", name, start, duration, -1, args, pid=-1)


def execute(start, duration, tid=1):
    return event("Session", "SequentialExecutor::Execute", start, duration, tid)


def model_run(start, duration, tid=1):
    return event("Session", "model_run", start, duration, tid)


def opening():
    """What a session writes before its first run."""
    return [event("Session", "model_loading_uri", 0, 500),
            event("Session", "session_initialization", 510, 400)]


def dump(events):
    """One event per line, with ONNX Runtime's odd spacing."""
    lines = (json.dumps(e, ensure_ascii=False, separators=(",", " :")) for e in events)
    return "[\n" + ",\n".join(lines) + "\n]\n"


def simple(runs=3, conv=5, relu=3):
    """Two nodes per run; `conv` and `relu` are times in µs, or functions of the run."""
    events = opening()
    for i in range(runs):
        at = RUN_US * (i + 1)
        first = conv(i) if callable(conv) else conv
        second = relu(i) if callable(relu) else relu
        events += [node("a", "Conv", at + 2, first), node("b", "Relu", at + 3 + first, second),
                   execute(at + 1, first + second + 5), model_run(at, first + second + 10)]
    return events


SHAPES = [((1, 3, 224, 224), (64, 3, 7, 7)), ((1, 64, 56, 56),), ((1,), (2, 2)), ((),), ()]
KERNELS = ["sgemm_128x64", "BinaryElementWiseKernel", "hipMemcpy", "copy, \"quoted\"", "kérnel"]


def generated(seed, runs=8):
    """Nodes on three threads, several shapes per operator, kernels behind the nodes that launched
    them and some before any node, and events that no table is made of."""
    dice = random.Random(seed)
    nodes = [(f"/layer{i}/{op}", op, dice.choice(["CPUExecutionProvider", "CUDAExecutionProvider"]),
              dice.randrange(1, 4))
             for i, op in enumerate(dice.choices(["Conv", "Relu", "Add", "MatMul", "Softmax"], k=12))]
    events = opening()
    for run in range(runs):
        at = (run + 1) * RUN_US
        free = {1: at + 10, 2: at + 10, 3: at + 10}  # when each thread can begin something
        streams = {"7": at + 10, "8": at + 10}

        def launch(op, streams=streams):
            stream = dice.choice(["7", "8"])
            start = streams[stream] + dice.randrange(3)
            duration = dice.randrange(40)
            streams[stream] = start + duration
            name = dice.choice(KERNELS)
            op = None if "Mem" in name else op
            block = dice.choice([("256", "1", "1"), ("32", "8", "1"), ("-1", "-1", "-1")])
            events.append(kernel(name, op, start, duration, block, (str(dice.randrange(1, 3)), "1",
                                                                    "1"), stream))
            if dice.random() < 0.1:
                del events[-1]["args"]["grid_z"]

        if dice.random() < 0.5:
            launch("Conv")  # before any node of this run
        for name, op, provider, tid in nodes:
            if dice.random() < 0.1:
                continue
            start = free[tid] + dice.randrange(4)
            duration = dice.choice([0, 1, dice.randrange(500)])
            free[tid] = start + duration
            events.append(event("Node", f"{name}_fence_before", start, 0, tid, {"op_name": op}))
            events.append(node(name, op, start, duration, tid, dice.choice(SHAPES), provider))
            for _ in range(dice.randrange(3)):
                launch(dice.choice([op, op, "Nowhere"]))
        end = max(free.values())
        events.append(execute(at + 5, end - at))
        events.append(model_run(at, end - at + 10))
    events.append(node("/behind", "Conv", (runs + 1) * RUN_US, 9))
    for key in ("cat", "dur", "args"):
        events.insert(5, {k: v for k, v in model_run(3, 4).items() if k != key} | {"name": "odd"})
    return events


# ---- The oracle ----


def by_run(events):
    """The events of each run; its own `model_run` ends it."""
    runs = [[]]
    for e in events:
        runs[-1].append(e)
        if e["name"] == "model_run":
            runs.append([])
    return runs[:-1]


def passes(e, filters):
    if not filters or "op_name" not in e["args"]:
        return True
    return any(text == pattern or fnmatch.fnmatchcase(text, pattern)
               for text in (e["name"], e["args"]["op_name"]) for pattern in filters)


def shape_text(shapes):
    return ",".join(f"{kind}({'x'.join(map(str, dims))})"
                    for shape in shapes for kind, dims in shape.items())


def dimensions(args):
    block, grid = ("x".join(str(args.get(f"{what}_{axis}", -1)) for axis in "xyz")
                   for what in ("block", "grid"))
    return f"b{block},g{grid}"


class Oracle:
    """What `runs`, a list of indices, say. Groups are dicts: key → [duration, count]."""

    def __init__(self, events, runs, filters=()):
        self.all = by_run(events)
        self.runs = sorted(set(runs))
        self.filters = filters
        self.cpu, self.gpu = [], []
        launcher = None
        for index in self.runs:
            for e in self.all[index]:
                if not all(key in e for key in ("cat", "dur", "args")) or not passes(e, filters):
                    continue
                is_kernel = e["cat"] == "Kernel"
                if is_kernel:
                    self.gpu.append((e, launcher))
                elif e["name"].endswith("kernel_time"):
                    self.cpu.append((index, e))
                    launcher = shape_text(e["args"]["input_type_shape"])

    @staticmethod
    def cpu_key(e, by):
        args = e["args"]
        parts = {"node": e["name"].removesuffix("_kernel_time"), "op": args["op_name"],
                 "provider": args["provider"], "shape": shape_text(args["input_type_shape"])}
        return tuple(parts[key] for key in by)

    def cpu_groups(self, by=("op",)):
        groups = collections.defaultdict(lambda: [0, 0])
        for _, e in self.cpu:
            group = groups[self.cpu_key(e, by)]
            group[0] += e["dur"]
            group[1] += 1
        return groups

    def cpu_per_run(self, by=("op",)):
        """Per group, its time in each of the runs."""
        times = collections.defaultdict(lambda: dict.fromkeys(self.runs, 0))
        for index, e in self.cpu:
            times[self.cpu_key(e, by)][index] += e["dur"]
        return {key: list(runs.values()) for key, runs in times.items()}

    def gpu_groups(self, with_dimensions=False, with_shapes=False):
        groups = collections.defaultdict(lambda: [0, 0])
        for e, launcher in self.gpu:
            key = (e["name"],)
            if with_dimensions:
                key += (dimensions(e["args"]),)
            if with_shapes:
                key += ("unknown" if launcher is None else launcher,)
            groups[key][0] += e["dur"]
            groups[key][1] += 1
        return groups

    def mapping(self):
        """Rows of the mapping by (op, shapes, kernel, dimensions)."""
        ops = collections.Counter(self.cpu_key(e, ("op", "shape")) for _, e in self.cpu)
        kernels = collections.defaultdict(lambda: [0, 0])
        for e, launcher in self.gpu:
            op = (e["args"].get("op_name"), "unknown" if launcher is None else launcher)
            if op in ops:
                group = kernels[(*op, e["name"], dimensions(e["args"]))]
                group[0] += e["dur"]
                group[1] += 1
        n = len(self.runs)
        op_time = collections.Counter()
        for key, (duration, _) in kernels.items():
            op_time[key[:2]] += duration / n
        everything = sum(duration for duration, _ in kernels.values()) / n
        return {key: {"op_count": ops[key[:2]] / n, "kernel_count": count / n,
                      "kernel_avg_dur (us)": duration / count,
                      "kernel_total_dur (us)": duration / n, "op_dur (us)": op_time[key[:2]],
                      "op_avg_dur (us)": op_time[key[:2]] / (ops[key[:2]] / n),
                      "kernel_pct (%)": duration / n / op_time[key[:2]] * 100
                                        if op_time[key[:2]] else None,
                      "op_pct (%)": op_time[key[:2]] / everything * 100}
                for key, (duration, count) in kernels.items()}
