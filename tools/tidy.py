#!/usr/bin/env python3
"""Runs clang-tidy on sources: tools/tidy.py BUILD_DIR FILE...

BUILD_DIR is what was built of them with clang and ninja. A source in which nothing was found isn't looked at
again as long as all that the answer depends on is the same: its text, that of every file which it includes,
how it is compiled, the configuration, and clang-tidy. The hash of these is kept in BUILD_DIR/tidy.
"""
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


@functools.cache
def content(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def included(build):
    """What each object was made of, as ninja recorded it; of an object that is out of date, nothing."""
    listed = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True, capture_output=True, text=True)
    files, target = {}, None
    for line in listed.stdout.splitlines():
        if line.startswith(" "):
            target.append((build / line.strip()).resolve())
        elif line.endswith("(VALID)"):
            target = files.setdefault(line.partition(": #deps ")[0], [])
        else:
            target = []
    return files


def commands(build):
    """How each source is compiled: once, or for several programs."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        found.setdefault(pathlib.Path(entry["file"]).resolve(), []).append(entry["command"])
    return found


def digest(source, compiled, objects, common):
    """None: it isn't known what the source includes."""
    parts = [*common]
    for command in sorted(compiled):
        words = shlex.split(command)
        files = objects.get(words[words.index("-o") + 1])
        if not files or source not in files:
            return None
        parts += [command, *(f"{path} {content(path)}" for path in sorted(files))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() if compiled else None


def look(build, source):
    """What clang-tidy finds; "": nothing."""
    done = subprocess.run(["clang-tidy", "--quiet", "-p", build, source], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return "" if done.returncode == 0 else done.stdout or f"{source}: clang-tidy failed\n"


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    sources = [pathlib.Path(name).resolve() for name in sys.argv[2:]]
    stamps = build / "tidy"
    stamps.mkdir(exist_ok=True)
    version = subprocess.run(["clang-tidy", "--version"], check=True, capture_output=True, text=True).stdout
    common = [version, (ROOT / ".clang-tidy").read_text()]
    compiled, objects = commands(build), included(build)
    found = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        looks = {}
        for source in sources:
            key = digest(source, compiled.get(source, []), objects, common)
            stamp = stamps / str(source).strip("/").replace("/", "+")
            if key is None or not stamp.exists() or stamp.read_text() != key:
                looks[pool.submit(look, build, source)] = stamp, key
        for done in concurrent.futures.as_completed(looks):
            stamp, key = looks[done]
            stamp.unlink(missing_ok=True)
            if done.result():
                found += 1
                print(done.result(), end="")
            elif key:
                stamp.write_text(key)
    print(f"{len(looks)} of {len(sources)} sources looked at, something found in {found}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
