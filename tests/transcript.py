"""Console transcripts: commands with the output that is expected of them.

    $ prony frobnicate
    ! prony: error: unknown command 'frobnicate'
    ! prony: see 'prony --help'
    [2]

A command continues on the next line after a backslash. Then come the lines of standard output,
those of standard error after `! `, and the exit status in brackets unless it is 0. A line of standard
output that begins with an exclamation mark has a backslash before it. Lines before the first command
are comments.
"""
import dataclasses
import os
import pathlib
import re
import tempfile

from conftest import PROGRAM, ROOT, run_program

# Commands name tests/data by way of a link: the source's own path may have spaces in it.
_scratch = tempfile.TemporaryDirectory(prefix="prony-data-")
DATA = pathlib.Path(_scratch.name) / "data"
DATA.symlink_to(ROOT / "tests" / "data")
NO_NEWLINE = "[no newline at the end]"


@dataclasses.dataclass
class Step:
    command: str
    stdout: list = dataclasses.field(default_factory=list)
    stderr: list = dataclasses.field(default_factory=list)
    status: int = 0

    def lines(self):
        status = [f"[{self.status}]"] if self.status else []
        stdout = [f"\\{line}" if line.startswith("!") else line for line in self.stdout]
        return [f"$ {self.command}", *stdout, *(f"! {line}" for line in self.stderr), *status]


def parse(text, marked=True):
    """Comment lines and steps of a transcript; unmarked, what is printed is all standard output."""
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
        elif line.startswith("\\!"):
            steps[-1].stdout.append(line[1:])
        elif marked and (line.startswith("! ") or line == "!"):
            steps[-1].stderr.append(line[2:])
        elif status:
            steps[-1].status = int(status.group(1))
        else:
            steps[-1].stdout.append(line)
    return comments, steps


def shell(command, folder):
    """Runs a command with sh in `folder`, the program on PATH and tests/data as $DATA."""
    environment = {**os.environ, "LC_ALL": "C", "DATA": str(DATA),
                   "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    return run_program(["sh", "-c", command], cwd=folder, env=environment)


def output_lines(text):
    lines = text.replace(str(DATA), "$DATA").splitlines()
    return lines + [NO_NEWLINE] if text and not text.endswith("\n") else lines


def run_step(step, folder):
    """The step as it really went."""
    done = shell(step.command, folder)
    return Step(step.command, output_lines(done.stdout), output_lines(done.stderr), done.status)
