"""Where a captured graph comes from, why it ends, and what is in it, for people."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import traceback

from torch import fx


@dataclasses.dataclass
class Source:
    """A captured graph for the dump: lines of the user's code, and its nodes as a table."""

    reason: str
    first: str | None
    """The first and the last line of the user's that is in it: "file:line, code"."""
    last: str | None
    nodes: str
    module: fx.GraphModule
    compile_reason: object
    """Dynamo's, as it is."""
    notes: list[str] = dataclasses.field(default_factory=list)

    @property
    def place(self) -> str:
        """Short, for the name of a graph: "program.py:12"."""
        match = re.match(r"(.*?:\d+)", self.first or "")
        return os.path.basename(match.group(1)) if match else "unknown"


_PACKAGES = tuple(os.path.dirname(sys.modules[name].__file__ or "") + os.sep
                  for name in ("torch", "prony") if name in sys.modules)


def describe(module: fx.GraphModule) -> Source:
    """Looks at a graph while Dynamo's notes are still on it."""
    lines = [line for node in module.graph.nodes if node.op != "placeholder"
             for line in [_line(node.stack_trace)] if line]
    reason = getattr(module, "compile_subgraph_reason", None)
    return Source(_why(reason), lines[0] if lines else None, _end(reason, lines), _table(module),
                  module, reason)


def _line(stack: str | None) -> str | None:
    """The innermost line of a node's stack that is the user's."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in [^\n]*\n\s*([^\n]*)', stack or "")
    own = [frame for frame in frames if not frame[0].startswith(_PACKAGES)] or frames
    return f"{own[-1][0]}:{own[-1][1]}, {own[-1][2].strip()}" if own else None


def _end(reason: object, lines: list[str]) -> str | None:
    """Where Dynamo stopped; for a graph that wasn't broken, its last line."""
    frames: list[traceback.FrameSummary] = list(getattr(reason, "user_stack", None) or [])
    own = [frame for frame in frames if not frame.filename.startswith(_PACKAGES)] or frames
    if own:
        return f"{own[-1].filename}:{own[-1].lineno}, {(own[-1].line or '').strip()}"
    return lines[-1] if lines else None


def _why(reason: object) -> str:
    if reason is None:
        return "unknown"
    if not getattr(reason, "graph_break", True):
        return "the function returns"
    text = str(getattr(reason, "reason", reason))
    words = [line.strip() for line in text.splitlines() if line.strip()]
    return "the graph breaks: " + " ".join(words[:6])


def _table(module: fx.GraphModule) -> str:
    head = ("opcode", "name", "target", "args", "kwargs")
    rows = [head] + [(node.op, node.name, _target(node), str(node.args), str(node.kwargs))
                     for node in module.graph.nodes]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, [*widths, 0])).rstrip()
             for row in rows]
    rule = "  ".join("-" * width for width in [*widths, len("kwargs")])
    return "\n".join([lines[0], rule, *lines[1:]])


def _target(node: fx.Node) -> str:
    if isinstance(node.target, str):
        return node.target
    module = getattr(node.target, "__module__", None) or ""
    name = getattr(node.target, "__name__", str(node.target))
    return f"{module}.{name}" if module and not module.startswith("_") else name


def text(graph_id: int, source: Source) -> str:
    """A graph's part of a dump."""
    lines = [f"Graph #{graph_id}",
             f"  from  {source.first or 'unknown'}",
             f"  to    {source.last or 'unknown'}",
             f"  ends because {source.reason}"]
    lines += [f"  note: {note}" for note in source.notes]
    return "\n".join(lines) + "\n\n" + source.nodes + "\n"
