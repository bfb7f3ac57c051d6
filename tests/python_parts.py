"""What the tests of the Python package share: services, small models, and programs of their own."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from prony import _native

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("PRONY_BUILD", ROOT / "build"))
PATIENCE = 600  # seconds, to end what hangs


def eventually(condition, what):
    """The first true value of condition(), which is asked until then."""
    end = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < end, f"{what}: not within {PATIENCE} s"
        time.sleep(0.01)
    return value


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children_of(pid):
    """Process ids and what each was started as."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, IndexError):
            if entry.name.isdigit() and \
                    (entry / "stat").read_text().rpartition(")")[2].split()[1] == str(pid):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().decode().split("\0")
    return found


def service_of(pid):
    """The embedded service of a process, or None."""
    return next((child for child, words in children_of(pid).items() if "--embedded" in words), None)


def start_python(code, *arguments, **options):
    """A program of its own, that imports prony as this one does."""
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, start_new_session=True, **options)


def run_python(code, *arguments, **options):
    process = start_python(code, *arguments, **options)
    try:
        stdout, stderr = process.communicate(timeout=PATIENCE)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    assert process.returncode == 0, stderr
    return stdout


@contextlib.contextmanager
def serving(folder, *options):
    """A service and its address; everything of it has ended afterwards."""
    with open(folder / "service.log", "w") as log:
        process = subprocess.Popen(
            [_native.program(), "serve", "--state", folder / "state", *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
            start_new_session=True)
    try:
        line = process.stdout.readline()
        assert line, (folder / "service.log").read_text()
        process.address = line.split()[-1]
        yield process
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.stdout.close()


# ---- Models ----

def model_bytes(nodes, inputs, outputs, initializers=()):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value(name, TensorProto.FLOAT, ["n"]) for name in inputs],
        [value(name, TensorProto.FLOAT, ["n"]) for name in outputs],
        initializer=list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    return model.SerializeToString()


def double_form():
    """y = 2 x, of any length."""
    two = numpy_helper.from_array(np.array(2, np.float32), "two")
    data = model_bytes([helper.make_node("Mul", ["x", "two"], ["y"])], ["x"], ["y"], [two])
    return (_native.FORMAT_ONNX, [("model.onnx", data, None)], ["x"], ["y"], None)


def subtract_form():
    """y = a - b"""
    data = model_bytes([helper.make_node("Sub", ["a", "b"], ["y"])], ["a", "b"], ["y"])
    return (_native.FORMAT_ONNX, [("model.onnx", data, None)], ["a", "b"], ["y"], None)


def weighted_form(weights, sha256=None):
    """y = x + weights, which lie in memory and go up as a file of their own."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=weights.shape,
                         data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "weights/0"), ("offset", "0"), ("length", str(weights.nbytes))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    data = model_bytes([helper.make_node("Add", ["x", "w"], ["y"])], ["x"], ["y"], [tensor])
    files = [("model.onnx", data, None), ("weights/0", (weights.ctypes.data, weights.nbytes), sha256)]
    return (_native.FORMAT_ONNX, files, ["x"], ["y"], None)


def floats(*values):
    return np.array(values, np.float32)


def tensors(**arrays):
    """What Graph.run() takes; the arrays must live as long."""
    return [(name, TensorProto.FLOAT, a.shape, a.ctypes.data, a.nbytes)
            for name, a in arrays.items()]


def arrays_of(outputs):
    return {name: np.frombuffer(data, np.float32).reshape(dims)
            for name, _, dims, data in outputs}
