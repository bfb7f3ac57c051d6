"""What the tests of `prony profile` share: models, runtimes with faults, a terminal."""
import os
import pathlib
import pty
import select
import signal
import subprocess
import termios
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from conftest import BUILD, PATIENCE

ORT = os.environ.get("PRONY_ORT_LIB", str(BUILD / "deps/onnxruntime/libonnxruntime.so.1"))


def fault(name):
    return f"onnxrt-cpu[lib={BUILD}/tests/fault/fault-{name}.so]"


def on_one_backend(arguments):
    """Tests of how it is measured need one runtime, unless they say which."""
    arguments = [str(argument) for argument in arguments]
    said = {"-b", "--backend", "--resume"} & set(arguments)
    return arguments if said else [*arguments, "-b", "onnxrt-cpu"]


FAULT_ENV = {"PRONY_FAULT_REAL": ORT}


def save(path, nodes, inputs, outputs, initializers=(), opset=21):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializer=list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 10
    onnx.save(model, path)
    return path


def sentences(path, *shape):
    """What is fed to bert-base, through one small layer: ids of words, of which there are as many as there,
    a mask and types, all of this shape."""
    def numbers(name, *dims):
        return numpy_helper.from_array(np.random.default_rng(1).random(dims, np.float32), name)

    return save(path, [helper.make_node("Gather", ["words", "input_ids"], ["word"]),
                       helper.make_node("Gather", ["types", "token_type_ids"], ["type"]),
                       helper.make_node("Add", ["word", "type"], ["sum"]),
                       helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
                       helper.make_node("Unsqueeze", ["mask", "last"], ["column"]),
                       helper.make_node("Mul", ["sum", "column"], ["masked"]),
                       helper.make_node("MatMul", ["masked", "weight"], ["product"]),
                       helper.make_node("Softmax", ["product"], ["y"])],
                [helper.make_tensor_value_info(name, TensorProto.INT64, shape)
                 for name in ("input_ids", "attention_mask", "token_type_ids")],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT, [*shape, 8])],
                [numbers("words", 30522, 4), numbers("types", 2, 4), numbers("weight", 4, 8),
                 numpy_helper.from_array(np.array([-1]), "last")], opset=17)


def executors(session):
    """Process ids of the executors in a session: those of one prony, also when it has ended."""
    found = set()
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if b"executor" in (entry / "cmdline").read_bytes().split(b"\0")[1:2] and \
                        stat(entry.name)[3] == str(session):
                    found.add(int(entry.name))
            except OSError:
                continue
    return found


def stat(pid):
    """What the kernel says of a process: its state, its parent, its group, its session."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def parent(pid):
    try:
        return int(stat(pid)[1])
    except OSError:
        return None


def wait_for(condition, what, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)


class Terminal:
    """prony profile, or another command, on a terminal, so that it shows progress."""

    def __init__(self, program, arguments, command="profile", **options):
        if command == "profile":
            arguments = on_one_backend(arguments)
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, 400))  # so that no name pushes the phase out of the line
        self.process = subprocess.Popen(
            [program, command, *arguments], stdout=subprocess.PIPE, stderr=slave,
            start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            **options)
        os.close(slave)
        self.shown = b""

    def wait_for_progress(self, text):
        while text not in self.shown:
            ready, _, _ = select.select([self.master], [], [], PATIENCE)
            assert ready, f"no progress with {text!r}: {self.shown!r}"
            self.shown += os.read(self.master, 4096)

    def mine(self):
        """Its executors, each the last of a row of processes (src/exec/guard.h)."""
        found = executors(self.process.pid)
        return found - {parent(pid) for pid in found}
