#!/usr/bin/env python3
"""Runs ONNX's own backend tests on each runtime and compares with the stored tables.

    tests/conformance/run.py [--build DIR] [--every N] [--update] [SOFTWARE...]

expected/SOFTWARE.tsv lists what doesn't pass: case, verdict, text. Everything else must pass.

- refused: the text is the runtime's own message, and must be the same again;
- not representable: prony has no such values; the text is prony's message;
- wrong: the text explains, with evidence, why the runtime or the test is at fault. A wrong case
  without an explanation fails;
- depends: it passes or not, and the text says on what that depends: operators that are random by
  definition, a locale of the machine.

--every N runs every Nth case only. --update writes the tables anew and keeps the explanations.
"""
import argparse
import collections
import os
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
DATA = pathlib.Path("/usr/share/libonnx-testdata/data")
SOFTWARE = ("onnxrt-cpu", "openvino-cpu")
VERDICTS = ("passed", "refused", "not representable", "depends", "wrong")


def read_table(path):
    table = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        case, verdict, text = line.split("\t")
        table[case] = (verdict, text)
    return table


def run(build, software, every):
    """What each case gave: {case: (verdict, reason)}."""
    done = subprocess.run([build / "tests/conformance/conformance", build / "prony", software, DATA,
                           str(every), str(os.cpu_count())],
                          stdout=subprocess.PIPE, text=True, check=True)
    return {case: (verdict, reason) for case, verdict, reason in
            (line.split("\t") for line in done.stdout.splitlines())}


def judge(case, seen, expected):
    """What is wrong with a case, or None."""
    verdict, reason = seen
    wanted, text = expected
    if wanted == "depends":
        return None
    if verdict != wanted:
        return f"{case}: {verdict}, expected {wanted}: {reason}"
    if verdict in ("refused", "not representable") and reason != text:
        return f"{case}: {verdict} for another reason: {reason}"
    if verdict == "wrong" and not text:
        return f"{case}: wrong without an explanation: {reason}"
    return None


def update(path, seen, expected):
    lines = []
    for case, (verdict, reason) in sorted(seen.items()):
        former = expected.get(case, ("", ""))
        if former[0] == "depends" or (verdict, former[0]) == ("wrong", "wrong"):
            lines.append((case, *former))
        elif verdict != "passed":
            lines.append((case, verdict, "" if verdict == "wrong" else reason))
    path.write_text("".join("\t".join(line) + "\n" for line in lines))


def check(build, software, every, rewrite):
    """Prints a row; returns the faults."""
    path = FOLDER / "expected" / f"{software}.tsv"
    expected = read_table(path)
    seen = run(build, software, every)
    if rewrite and every == 1:
        update(path, seen, expected)
        expected = read_table(path)
    faults = [fault for case in seen
              if (fault := judge(case, seen[case], expected.get(case, ("passed", ""))))]
    counts = collections.Counter("depends" if expected.get(case, ("",))[0] == "depends" else verdict
                                 for case, (verdict, _) in seen.items())
    print(f"{software:14}" + "".join(f"{counts[v]:>{len(v) + 2}}" for v in VERDICTS)
          + f"{len(seen):>7}", flush=True)
    if every == 1:
        faults += [f"{case}: is in the table, but there is no such case"
                   for case in expected if case not in seen]
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default="build")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("software", nargs="*", default=SOFTWARE)
    options = parser.parse_args()
    print(f"{'':14}" + "".join(f"{v:>{len(v) + 2}}" for v in VERDICTS) + "  cases")
    faults = {software: check(options.build.resolve(), software, options.every, options.update)
              for software in options.software}
    for software, lines in faults.items():
        for line in lines:
            print(f"{software}: {line}")
    return 1 if any(faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
