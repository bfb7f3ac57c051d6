#!/usr/bin/env python3
"""Checks who may include whom, and that a name means one thing: tools/layering.py [ROOT]

A folder of src/ uses the folders before it in LAYERS, and none after it. A folder inside of one, a room, uses
what its folder holds for all rooms, and of the other rooms those that ROOMS lists. gRPC stays inside src/rpc.
The public headers stand alone. A tag or a function that begins with prn_ is defined once; struct prn_runtime
alone is each runtime's own.
A header with functions has a .c of its name beside it, or its name says that it speaks for its folder
(SPEAKERS). No static function has a name that many files would give (BARE): run, but profile_run.
A folder holds at most FILES_MAX files, folders not counted: what needs more needs rooms.
"""
import collections
import pathlib
import re
import sys

LAYERS = ("base format spec model trace runtime exec measure record pipeline report store rpc instance "
          "service worker cli").split()
ROOMS = {
    "measure/check": "comparison",
    "measure/trend": "comparison",
    "measure/ops": "machine",
    "measure/memory": "ops",
    "pipeline/simulate": "schedule",
    # A profile may hold load, operators and a recording, each of which is written by its own room; those and
    # comparisons share what is written of a profile.
    "report/profile": "load machine memory ops recorded",
    "report/load": "profile",
    "report/machine": "profile",
    "report/memory": "profile",
    "report/ops": "machine profile",
    "report/recorded": "profile",
    "report/comparison": "profile",
    "report/check": "profile",
    "report/trend": "profile",
    "report/layers": "profile",
    "service/session": "host slurm store web",
    "service/host": "session slurm web",
    "service/slurm": "config host store web",
    "service/web": "config session store",
}
DEFINITION = re.compile(r"^(?:(?:struct|union|enum) (prn_\w+) \{|[a-z][\w *]*?\b(prn_\w+)\([^;{}]*\)[^;{}]*\n\{)",
                        re.MULTILINE)
DECLARATION = re.compile(r"^(?!static|typedef|extern)[A-Za-z][\w *]*?\bprn_\w+\([^{}]*?\)[^{};]*;", re.MULTILINE)
FILES_MAX = 40
SPEAKERS = "parts", "report", "json"  # and the folder's own name
BARE = "run measure load release finish begin start work set_defaults drain prepare".split()
STATIC = re.compile(rf"^static [\w *]*?\b({'|'.join(BARE)})\([^;{{}}]*\)[^;{{}}]*\n\{{", re.MULTILINE)
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
    if target[0] == parts[0] and len(parts) > 2 and len(target) > 2:
        own, other = f"{parts[0]}/{parts[1]}", f"{target[0]}/{target[1]}"
        if own != other and target[1] not in ROOMS.get(own, "").split():
            return f"{own} may not use {other}"
    return None


def definitions(path):
    """(line number, name) of what is defined in a file under a name that others may use."""
    text = path.read_text(encoding="utf-8", errors="replace")
    for match in DEFINITION.finditer(text):
        if not match.group(0).startswith("static"):
            tag, function = match.groups()
            yield text.count("\n", 0, match.start()) + 1, tag or f"{function}()"


def fault_of_header(path):
    """Whether nobody could guess which file has what the header declares."""
    if path.suffix != ".h" or path.with_suffix(".c").exists() or path.stem == path.parent.name:
        return None
    if path.stem in SPEAKERS or path.stem.endswith("_parts"):
        return None
    return f"there is no {path.stem}.c" if DECLARATION.search(path.read_text(encoding="utf-8")) else None


def faults(root):
    source = root / "src"
    defined = {}
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
        fault = fault_of_header(path)
        if fault:
            yield f"{where}: {fault}"
        for match in STATIC.finditer(path.read_text(encoding="utf-8", errors="replace")):
            yield f"{where}: {match.group(1)}() needs the name of its file"
        for line, name in definitions(path):
            if name in defined and name != "prn_runtime":
                yield f"{where}:{line}: {name} is defined in {defined[name]} too"
            defined.setdefault(name, f"{where}:{line}")
    sizes = collections.Counter(path.parent for path in source.rglob("*") if path.is_file())
    for folder, n in sorted(sizes.items()):
        if n > FILES_MAX:
            yield f"{folder.relative_to(root)}: {n} files, which is more than {FILES_MAX}"
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
