"""Console transcripts: commands with the output that is expected of them.

    $ prony frobnicate
    ! prony: error: unknown command 'frobnicate'
    ! prony: see 'prony --help'
    [2]

A command continues on the next line after a backslash. Then come the lines of standard output,
those of standard error behind `! `, and the exit status in brackets unless it is 0. Lines before
the first command are comments.
"""
import dataclasses
import os
import re

from conftest import PROGRAM, ROOT, run_program

DATA = ROOT / "tests" / "data"
NO_NEWLINE = "[no newline at the end]"


@dataclasses.dataclass
class Step:
    command: str
    stdout: list = dataclasses.field(default_factory=list)
    stderr: list = dataclasses.field(default_factory=list)
    status: int = 0

    def lines(self):
        status = [f"[{self.status}]"] if self.status else []
        return [f"$ {self.command}", *self.stdout, *(f"! {line}" for line in self.stderr), *status]


def parse(text):
    """Comment lines and steps of a transcript."""
    comments, steps = [], []
    lines = iter(text.splitlines())
    for line in lines:
        status = re.fullmatch(r"\[(-?\d+)\]", line)
        if line.startswith("$ "):
            while line.endswith("\\"):
                line += "\n" + next(lines)
            steps.append(Step(line[2:]))
        elif not steps:
            comments.append(line)
        elif line.startswith("! ") or line == "!":
            steps[-1].stderr.append(line[2:])
        elif status:
            steps[-1].status = int(status.group(1))
        else:
            steps[-1].stdout.append(line)
    return comments, steps


def shell(command, folder, timeout=120):
    """Runs a command with sh in `folder`, the program on PATH and tests/data as $DATA."""
    environment = {**os.environ, "LC_ALL": "C", "DATA": str(DATA),
                   "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    return run_program(["sh", "-c", command], timeout=timeout, cwd=folder, env=environment)


def output_lines(text):
    lines = text.replace(str(DATA), "$DATA").splitlines()
    return lines + [NO_NEWLINE] if text and not text.endswith("\n") else lines


def run_step(step, folder):
    """The step as it really went."""
    done = shell(step.command, folder)
    return Step(step.command, output_lines(done.stdout), output_lines(done.stderr), done.status)
