#!/usr/bin/env python3
"""Writes history-1.db: a history under version 1 of its schema, for tests and the examples of docs/history.md.

    python3 tests/data/make_history.py

The file is stored, and stays as it is when the schema gets a version 2: a later prony must read it. Times vary by
a fixed pattern. onnxrt-cpu takes 1.08 times as long from the 14th report on; openvino-cpu never changes; report 8
was measured on another machine, and in report 11 openvino-cpu failed.
"""
import datetime
import hashlib
import json
import pathlib
import subprocess
import tempfile

from make_comparison import HERE, ROOT, profile, result

PATTERN = [0, 4, -3, 1, -5, 2, 5, -2, -1, 3, -4, 0, 2, -3, 4, 1, -2, 5, -1, -4, 3, 0]  # thousandths


def created(day):
    return (datetime.datetime(2026, 3, 1, 6) + datetime.timedelta(days=day)).strftime("%Y-%m-%dT%H:%M:%SZ")


def report(number):
    """The report of a day, from 1."""
    jitter = 1 + PATTERN[number - 1] / 1000
    slower = 1.08 if number >= 14 else 1
    broken = number == 11
    content = profile(created(number - 1), [
        result("local/onnxrt-cpu", 10 * jitter * slower),
        result("local/openvino-cpu", error="Conv is not implemented", runtime="OpenVINO 2026.4.1") if broken
        else result("local/openvino-cpu", 8 * (2 - jitter), runtime="OpenVINO 2026.4.1")])
    if number == 8:
        content["environment"].update(cpu="Other CPU", cores=8)
    return content


def commit(number):
    return hashlib.sha1(f"commit {number}".encode()).hexdigest()


def main():
    database = HERE / "history-1.db"
    database.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1, len(PATTERN) + 1):
            path = pathlib.Path(folder) / f"{number}.json"
            path.write_text(json.dumps(report(number)))
            subprocess.run([ROOT / "build" / "prony", "history", "add", path, "--db", database, "--branch", "main",
                            "--commit", commit(number)], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
