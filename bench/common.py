"""What the benchmarks share: the programs that were built and are talked to, models, and prony's JSON."""
import contextlib
import datetime
import json
import math
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SOURCE / "tools"))
import figures  # noqa: E402

BUILD = pathlib.Path(os.environ.get("PRONY_BUILD", "build")).resolve()
PRONY = BUILD / "prony"
BARE = BUILD / "bench/bare"
LIBRARY = os.environ.get("PRONY_ORT_LIB") or str(BUILD / "deps/onnxruntime/libonnxruntime.so.1")

# name: how to make it, its input, and how long one launch of the bare loop runs
NETWORKS = {
    "mlp": (["mlp"], "input", "1x100", 0.5),
    "0.1 ms": (["mlp", "--batch", "256"], "input", "256x100", 0.5),
    "1 ms": (["mlp", "--batch", "2048"], "input", "2048x100", 0.5),
    "10 ms": (["mobilenet-v2", "--batch", "3"], "input", "3x3x224x224", 1.0),
    "resnet50": (["resnet50"], "input", "1x3x224x224", 2.0),
}


def build(*targets):
    """Programs of the benchmarks that a plain build leaves out."""
    done = subprocess.run(["cmake", "--build", BUILD, "--target", *targets], capture_output=True,
                          text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)


def network(name):
    """The path of a network, written the first time."""
    path = BUILD / "bench" / (name.replace(" ", "-") + ".onnx")
    if not path.exists():
        subprocess.run([PRONY, "synth", *NETWORKS[name][0], "-o", path], check=True)
    return path


def profile(model, *options, env=None):
    done = subprocess.run([PRONY, "profile", model, "--format", "json", *options],
                          capture_output=True, text=True, env={**os.environ, **(env or {})})
    if done.returncode:
        sys.exit(f"prony profile failed: {done.stderr}")
    return json.loads(done.stdout)["results"]


def bare(name):
    """Median ns of one launch of the bare loop."""
    _, tensor, dims, seconds = NETWORKS[name]
    done = subprocess.run([BARE, LIBRARY, network(name), tensor, dims, str(seconds)],
                          capture_output=True, text=True, check=True)
    return float(done.stdout)


def spent(command, **options):
    """Seconds, CPU seconds and peak MiB of a command."""
    done = subprocess.run([BUILD / "bench/spent", *command], text=True, capture_output=True,
                          **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr}")
    seconds, cpu_seconds, peak_kib = done.stdout.split()
    return float(seconds), float(cpu_seconds), int(peak_kib) / 1024


def memory_mib(pid, key):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    sys.exit(f"no {key} in /proc/{pid}/status")


class Talker:
    """A process that is told what to do, a line at a time, and answers with a line."""

    def __init__(self, command, **options):
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, **options)

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"'{self.process.args[0]}' ended")
        return line.strip()

    def ask(self, *words):
        self.tell(*words)
        return self.hear()

    def end(self):
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


@contextlib.contextmanager
def talker(command, **options):
    one = Talker(command, **options)
    try:
        yield one
    finally:
        one.end()


def median(values):
    return statistics.median(values)


def interval(values):
    """95 % of the median, by drawing values again."""
    draw = random.Random(1)
    medians = sorted(median(draw.choices(values, k=len(values))) for _ in range(2000))
    return medians[50], medians[-51]


def significant(value, digits=3):
    """3 digits and no more: 0.0412, 4.12, 412, 4,120."""
    if value == 0 or abs(value) >= 10 ** digits:
        return f"{value:,.0f}"
    return f"{value:.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def show(text):
    print(text, flush=True)


def machine():
    """The processor, its cores, and the runtime, as documents name them."""
    info = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    name = re.search(r"model name\s*: (.*)", info)
    version = re.search(r"[.]so[.]([0-9]+[.][0-9]+[.][0-9]+)$", os.path.realpath(LIBRARY))
    cores = len(os.sched_getaffinity(0))
    return (f"{cores} {'virtual ' if 'hypervisor' in info else ''}core{'s' if cores > 1 else ''} of "
            f"{name[1] if name else os.uname().machine}"
            f"{f', ONNX Runtime {version[1]}' if version else ''}")


def commit():
    """The sources that were measured; with a + where they differ from what was committed."""
    def git(*words):
        return subprocess.run(["git", "-C", SOURCE, *words], capture_output=True, text=True)
    head = git("rev-parse", "--short=10", "HEAD")
    if head.returncode:
        return "unknown"
    changed = git("status", "--porcelain", "--", "src", "include", "python", "bench").stdout
    return head.stdout.strip() + ("+" if changed else "")


def record(name, value, unit=""):
    """Writes a figure where documents have it from (tools/figures.py). `value` is as they show it."""
    path = SOURCE / "docs/figures.json"
    known = figures.load(path)
    known[name] = {"value": str(value), "unit": unit,
                   "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
                   "commit": commit(), "machine": machine()}
    figures.save(path, known)
