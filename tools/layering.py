#!/usr/bin/env python3
"""Checks who may include whom: tools/layering.py [ROOT]

A folder of src/ uses the folders before it in LAYERS, and none behind it. The folders inside
src/runtime know nothing of each other. gRPC stays inside src/rpc. The public headers stand alone.
"""
import pathlib
import re
import sys

LAYERS = ("base format spec model trace runtime exec measure record pipeline report rpc service "
          "worker cli").split()
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def includes(path):
    """(line number, whether in quotes, name) of each #include."""
    text = path.read_text(encoding="utf-8", errors="replace")
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1) == '"', match.group(2)


def fault_of_include(path, parts, quoted, name):
    """What is wrong with `#include "name"` in a file of src/ with these path parts, or None."""
    if parts[0] != "rpc" and re.match(r"(grpc|grpcpp)/", name):
        return "only src/rpc may include gRPC"
    if not quoted:
        return None
    if ".." in pathlib.PurePosixPath(name).parts:
        return "names are relative to src/, without '..'"
    target = name.split("/")
    if len(target) == 1:
        return None if (path.parent / name).exists() else "write the folder in front"
    if target[0] not in LAYERS:
        return None  # generated code
    if LAYERS.index(target[0]) > LAYERS.index(parts[0]):
        return f"{parts[0]} is below {target[0]} and may not use it"
    if target[0] == "runtime" == parts[0] and len(target) > 2:
        own = parts[1] if len(parts) > 2 else None
        if own and own != target[1]:
            return f"runtime/{own} may not use runtime/{target[1]}"
    return None


def faults(root):
    source = root / "src"
    for path in sorted(source.rglob("*.[ch]")):
        parts = path.relative_to(source).parts
        where = path.relative_to(root)
        if parts[0] not in LAYERS:
            yield f"{where}: '{parts[0]}' has no place in the order of layers"
            continue
        for line, quoted, name in includes(path):
            fault = fault_of_include(path, parts, quoted, name)
            if fault:
                yield f"{where}:{line}: {name}: {fault}"
    for path in sorted((root / "include").rglob("*.h")):
        for line, quoted, name in includes(path):
            if quoted:
                yield f"{path.relative_to(root)}:{line}: {name}: a public header stands alone"


def main():
    default = pathlib.Path(__file__).resolve().parent.parent
    found = list(faults(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default))
    print("".join(f"{fault}\n" for fault in found), end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
