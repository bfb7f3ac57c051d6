"""What a session waits for, shown where the user looks: a terminal's last line, or a notebook."""

from __future__ import annotations

import sys
import time
from typing import Any

_BAR = 24
_PAUSE_S = 0.1


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} GiB"


def describe(notice: dict[str, Any]) -> str:
    """One line for a notice of the extension."""
    if notice["kind"] == "queued":
        holders = ", ".join(notice.get("holders") or []) or "others"
        return (f"waiting for {notice['hardware']}: place {notice['place']} in the queue, held by "
                f"{holders}, {notice['waited_s']:.0f} s so far")
    done, total = notice["done_bytes"], notice["total_bytes"]
    full = _BAR * done // total if total else _BAR
    return (f"uploading {notice['file']} [{'#' * full}{'.' * (_BAR - full)}] "
            f"{_bytes(done)} of {_bytes(total)}")


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return type(shell).__name__ == "ZMQInteractiveShell"


class Progress:
    """Takes notices; shows at most ten a second, and nothing that was done at once."""

    def __init__(self) -> None:
        self._shown = 0.0
        self._width = 0
        self._display: Any = None

    def __call__(self, notice: dict[str, Any]) -> None:
        now = time.monotonic()
        finished = notice["kind"] != "queued" and notice["done_bytes"] >= notice["total_bytes"]
        if finished and not self._width or now - self._shown < _PAUSE_S and not finished:
            return
        self._shown = now
        self._show("" if finished else describe(notice))

    def clear(self) -> None:
        """Takes the last line away."""
        if self._width:
            self._show("")

    def _show(self, text: str) -> None:
        if _in_notebook():
            from IPython.display import Pretty, display
            if self._display is None:
                self._display = display(Pretty(text), display_id=True)
            else:
                self._display.update(Pretty(text))
        elif sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write(f"\r{text:{self._width}}" + ("" if text else "\r"))
            sys.stderr.flush()
        self._width = len(text)
