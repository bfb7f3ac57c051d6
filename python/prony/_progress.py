"""What a session waits for, shown where the user looks: a terminal's last line, or a notebook."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

_BAR = 24
_PAUSE_S = 0.1
_PATIENCE_S = 5.0
_LARGE_BYTES = 1 << 20  # more than one message of the upload


def human_readable_size(count: float) -> str:
    """In three digits, with its unit."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} GiB"


def describe(notice: dict[str, Any]) -> str:
    """One line for a notice of the extension, or of a function that is compiled, or of a graph."""
    if notice["kind"] == "compiling":
        return f"compiling {notice['function']}"
    if notice["kind"] in ("loading", "running"):
        return f"{notice['kind']} {notice['graph']} on {', '.join(notice['backends'])}"
    if notice["kind"] == "queued":
        holders = ", ".join(notice.get("holders") or []) or "others"
        return (f"waiting for {notice['hardware']}: place {notice['place']} in the queue, held by "
                f"{holders}, {notice['waited_s']:.0f} s so far")
    done, total = notice["done_bytes"], notice["total_bytes"]
    if done >= total:
        return f"uploaded {notice['file']}, {human_readable_size(total)}"
    full = _BAR * done // total
    return (f"uploading {notice['file']} [{'#' * full}{'.' * (_BAR - full)}] "
            f"{human_readable_size(done)} of {human_readable_size(total)}")


def _notebook_cell() -> int | None:
    """The number of the cell that runs; None: this isn't a notebook."""
    ipython: Any = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython else None
    return shell.execution_count if type(shell).__name__ == "ZMQInteractiveShell" else None


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def _has_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _is_shown() -> bool:
    """Whether there is a line to show things in. In a log there is one sentence, for long waits."""
    return _notebook_cell() is not None or _has_terminal()


class Progress:
    """Takes notices of one wait, until clear() ends it. A file that takes more than one message to
    send is shown before the first is sent, for the network may be slow or stuck; what is small, only
    once the wait has taken a while. Ten updates a second are enough."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._shown = 0.0
        self._file: str | None = None
        self._width = 0
        self._display: Any = None
        self._told = False
        self._cell: int | None = None
        """In whose output the display is; each cell has its own."""

    def __call__(self, notice: dict[str, Any]) -> None:
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if notice["kind"] == "queued" and notice["waited_s"] >= _PATIENCE_S and not self._told and \
                not _is_shown():
            self._told = True
            print(f"prony: {_printable(describe(notice))}", file=sys.stderr, flush=True)
        if self._is_wanted(notice, now - max(self._since, self._shown)):
            self._file, self._shown = notice.get("file"), now
            self._show(describe(notice))

    def _is_wanted(self, notice: dict[str, Any], quiet_s: float) -> bool:
        if notice["kind"] in ("compiling", "loading", "running"):
            return True  # a compiler may take minutes, and has nothing to say meanwhile
        if notice["kind"] == "queued":
            return not self._width or quiet_s >= _PAUSE_S
        is_shown: bool = notice["file"] == self._file
        if notice["done_bytes"] >= notice["total_bytes"]:
            return is_shown  # others were sent at once, or not at all
        if not is_shown and notice["total_bytes"] > _LARGE_BYTES:
            return True
        return quiet_s >= _PAUSE_S

    def clear(self) -> None:
        """The wait is over: takes the line away."""
        if self._width:
            self._show("")
        self._since = self._file = None
        self._told = False

    def _show(self, text: str) -> None:
        """Ctrl-C may come at any point: what may be seen already is noted before it is sent."""
        cell = _notebook_cell()
        before = self._width
        self._width = max(before, len(text))
        if cell is not None:
            self._show_in(cell, text)
        elif _has_terminal():
            # A line that wraps, or moves the cursor, could not be taken back.
            text = _printable(text)[:_columns() - 1]
            sys.stderr.write(f"\r{text:{before}}" + ("" if text else "\r"))
            sys.stderr.flush()
        self._width = len(text)

    def _show_in(self, cell: int, text: str) -> None:
        from IPython.display import DisplayHandle, Pretty
        if self._display is None or cell != self._cell:
            self._display, self._cell = DisplayHandle(), cell
            self._display.display(Pretty(text))
        else:
            self._display.update(Pretty(text))


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):  # it has none
        return 80
