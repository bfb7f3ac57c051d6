"""Exports to ONNX that an earlier program has made, in files: what is the same isn't exported again.

A file has the graph without weights, so files are small, under the hash of all that it was made of: the
captured graph, the versions of what made it, and prony's own code that did, which changes between
versions too. It lies in the user's own cache (PRONY_CACHE, or
`prony` in $XDG_CACHE_HOME or ~/.cache; an empty PRONY_CACHE keeps nothing), beside what Inductor has
compiled there.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import pathlib
import tempfile

from prony import _native

KEPT_BYTES = 64 << 20
_MADE_BY = ("torch", "onnx", "onnxscript", "onnx_ir")
_OWN = ("_dtypes.py", "_exports.py", "_forms.py", "_lower.py", "_onnx.py", "_plan.py")


def _folder() -> pathlib.Path | None:
    """None: nothing is kept."""
    named = os.environ.get("PRONY_CACHE")
    if named is not None:
        return pathlib.Path(named, "exported") if named else None
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(home, "prony", "exported") if os.path.isabs(home) else None


@functools.cache
def _makers(own: pathlib.Path) -> list[str]:
    """What an export depends on besides the graph; `own` is the folder of prony's modules."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in _MADE_BY]
    sources = [f"{name} {hashlib.sha256((own / name).read_bytes()).hexdigest()}" for name in _OWN]
    return [_native.version, *versions, *sources]


def _path(key: str) -> pathlib.Path | None:
    folder = _folder()
    if folder is None:
        return None
    text = "\n".join([*_makers(pathlib.Path(__file__).parent), key])
    return folder / f"{hashlib.sha256(text.encode()).hexdigest()}.onnx"


def find(key: str) -> bytes | None:
    """What was kept under a key; None: nothing."""
    with contextlib.suppress(OSError, importlib.metadata.PackageNotFoundError):
        path = _path(key)
        if path is not None:
            data = path.read_bytes()
            os.utime(path)  # the one that was used last goes last
            return data
    return None


def keep(key: str, data: bytes) -> None:
    """Keeps it for the next program; what can't be isn't."""
    with contextlib.suppress(OSError, importlib.metadata.PackageNotFoundError):
        path = _path(key)
        if path is None or len(data) > KEPT_BYTES // 8:
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(data)
        os.replace(file.name, path)
        _forget_oldest(path.parent)


def _forget_oldest(folder: pathlib.Path) -> None:
    files = sorted(((file.stat().st_mtime, file.stat().st_size, file) for file in folder.iterdir()),
                   reverse=True)
    total = 0
    for _, size, file in files:
        total += size
        if total > KEPT_BYTES:
            file.unlink(missing_ok=True)
