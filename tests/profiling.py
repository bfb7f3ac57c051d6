"""What the tests of `prony profile` share: models, runtimes with faults, a terminal."""
import os
import pathlib
import pty
import select
import signal
import subprocess
import termios
import time

import onnx
from onnx import helper

from conftest import BUILD

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


def executors():
    """Process ids of all executors on this machine."""
    found = set()
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if b"executor" in (entry / "cmdline").read_bytes().split(b"\0")[1:2]:
                    found.add(int(entry.name))
            except OSError:
                continue
    return found


def parent(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def wait_for(condition, what, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)


class Terminal:
    """prony profile on a terminal, so that it shows progress."""

    def __init__(self, program, arguments, **options):
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, 400))  # so that no name pushes the phase out of the line
        self.before = executors()
        self.process = subprocess.Popen(
            [program, "profile", *on_one_backend(arguments)], stdout=subprocess.PIPE, stderr=slave,
            start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            **options)
        os.close(slave)
        self.shown = b""

    def wait_for_progress(self, text):
        while text not in self.shown:
            ready, _, _ = select.select([self.master], [], [], 30)
            assert ready, f"no progress with {text!r}: {self.shown!r}"
            self.shown += os.read(self.master, 4096)

    def mine(self):
        """Its executors, each the last of a row of processes (src/exec/guard.h); those of others
        that run beside this test have other ancestors."""
        above = {pid: parent(pid) for pid in executors() - self.before}
        ours = set()
        for pid in above:
            first = pid
            while above.get(first) in above:
                first = above[first]
            if above[first] in (self.process.pid, 1):
                ours.add(pid)
        return ours - {above[pid] for pid in ours}
