#!/usr/bin/env python3
"""Runs every test and ends in one line: `N passed, M failed`.

    tests/run.py [--build DIR] [--sanitized DIR] [-k PATTERN]

From --build: the unit tests, the replay of the fuzz corpora, then pytest on tests/cli, tests/e2e
and, with the Python that has PyTorch, tests/python, and Node's test runner on tests/web. From
--sanitized: the unit tests and the replays again. C programs run in parallel;
pytest runs alone, because some of its tests measure time. A program that crashes, hangs or ends
before all of its tests have run is a failure. Output is shown in full for failures only.
"""
import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

TESTS = pathlib.Path(__file__).resolve().parent
UNIT_TIMEOUT = int(os.environ.get("PRONY_UNIT_TIMEOUT", "180"))
REPLAY_TIMEOUT = 600
PYTEST_TIMEOUT = 3600  # each test has its own, shorter limit (conftest.py)
WEB_TIMEOUT = 1200


@dataclasses.dataclass
class Result:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    output: str = ""


def run(argv, timeout, env=None):
    """Status and output of a program; status is None when it had to be killed. Whatever it leaves
    running in its session ends with it."""
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, env={**os.environ, **(env or {})},
                               start_new_session=True)
    try:
        output, _ = process.communicate(timeout=timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        status = None
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    return status, output.decode(errors="replace")


def ending(status, timeout):
    if status is None:
        return f"killed: it took more than {timeout} s"
    if status < 0:
        return f"died of {signal.Signals(-status).name}"
    return f"exit status {status}"


def unit(program):
    status, output = run([program], UNIT_TIMEOUT, {"CMOCKA_MESSAGE_OUTPUT": "TAP"})
    result = Result(output=output)
    for line in output.splitlines():
        point = re.match(r"(not )?ok\b", line)
        if not point:
            continue
        if re.search(r"#\s*skip", line, re.IGNORECASE):
            result.skipped += 1
        elif point.group(1):
            result.failed += 1
        else:
            result.passed += 1
    planned = sum(int(n) for n in re.findall(r"^1\.\.(\d+)", output, re.MULTILINE))
    complete = planned and planned == result.passed + result.failed + result.skipped
    if (status != 0 or not complete) and not result.failed:
        result.failed = 1
    if status != 0 or not complete:
        result.output += f"\n{ending(status, UNIT_TIMEOUT)}; {planned} tests were planned\n"
    return result


def replay(program):
    corpus = TESTS / "fuzz" / "corpus" / program.name.removeprefix("fuzz_")
    status, output = run([program, corpus], REPLAY_TIMEOUT)
    if status == 0:
        return Result(passed=1, output=output)
    return Result(failed=1, output=f"{output}\n{ending(status, REPLAY_TIMEOUT)}\n")


def pytest(folder, build, pattern, python=sys.executable, environment=()):
    report = build / "tests" / f"pytest-{folder.name}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    argv = [python, "-m", "pytest", "-q", "--no-header", "--tb=short", "-rs",
            "-p", "no:cacheprovider", "--import-mode=importlib", f"--rootdir={TESTS.parent}",
            f"--junitxml={report}", folder]
    if pattern:
        argv += ["-k", pattern]
    status, output = run(argv, PYTEST_TIMEOUT, {"PRONY": str(build.resolve() / "prony"),
                                                "PRONY_BUILD": str(build.resolve()),
                                                "PYTHONDONTWRITEBYTECODE": "1",
                                                **dict(environment)})
    nothing_collected = 5
    if status == nothing_collected and pattern:
        return Result()
    result = Result(output=output)
    try:
        for suite in xml.etree.ElementTree.parse(report).getroot().iter("testsuite"):
            tests, failures, errors, skipped = (
                int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped"))
            result.failed += failures + errors
            result.skipped += skipped
            result.passed += tests - failures - errors - skipped
    except (OSError, xml.etree.ElementTree.ParseError) as fault:
        result.output += f"\nno report: {fault}\n"
    if status != 0 and not result.failed:
        result.failed = 1
        result.output += f"\n{ending(status, PYTEST_TIMEOUT)}\n"
    return result


def package(build, pattern):
    """The tests of the Python package, in the environment that has PyTorch."""
    return pytest(TESTS / "python", build, pattern, build / "venv-torch" / "bin" / "python",
                  {"PYTHONPATH": str(build.resolve() / "python")})


def web(folder, build, pattern):
    """The pages in a browser: reports in TAP. A file that ends early counts as a failed test."""
    argv = ["node", "--test", "--test-reporter=tap",
            *(["--test-name-pattern", pattern.replace(" or ", "|")] if pattern else []),
            *sorted(folder.glob("*.test.mjs"))]
    status, output = run(argv, WEB_TIMEOUT, {"PRONY": str(build.resolve() / "prony"),
                                             "PRONY_BUILD": str(build.resolve())})
    counts = {key: int(n) for key, n in re.findall(r"^# (pass|fail|cancelled|skipped) (\d+)", output,
                                                   re.MULTILINE)}
    result = Result(counts.get("pass", 0), counts.get("fail", 0) + counts.get("cancelled", 0),
                    counts.get("skipped", 0), output)
    if pattern:
        result.skipped = 0  # tests of other names
    if status != 0 and not result.failed:
        result.failed = 1
        result.output += f"\n{ending(status, WEB_TIMEOUT)}\n"
    return result


class Tally:
    def __init__(self):
        self.total = Result()

    def add(self, name, result, seconds):
        self.total.passed += result.passed
        self.total.failed += result.failed
        self.total.skipped += result.skipped
        if not (result.passed or result.failed or result.skipped):
            return
        counts = f"{result.passed} passed"
        if result.failed:
            counts += f", {result.failed} failed"
        if result.skipped:
            counts += f", {result.skipped} skipped"
        mark = "FAILED" if result.failed else "ok"
        print(f"{mark:6} {name:40} {counts} ({seconds:.1f} s)")
        if result.failed:
            print("".join(f"    {line}\n" for line in result.output.splitlines()), end="")
        elif result.skipped:
            reasons = re.findall(r"^SKIPPED .*", result.output, re.MULTILINE)
            print("".join(f"    {line}\n" for line in reasons), end="")
        sys.stdout.flush()


def timed(function, *arguments):
    start = time.monotonic()
    result = function(*arguments)
    return result, time.monotonic() - start


def programs(build, folder, pattern):
    found = sorted((build / "tests" / folder).glob("test_*" if folder == "unit" else "fuzz_*"))
    return [p for p in found if p.is_file() and os.access(p, os.X_OK)
            and any(word in p.name for word in pattern.split(" or "))]


def c_tests(build, pattern, tally):
    jobs = [(replay, p) for p in programs(build, "fuzz", pattern)]
    jobs += [(unit, p) for p in programs(build, "unit", pattern)]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        names = {pool.submit(timed, function, p): p for function, p in jobs}
        for future in concurrent.futures.as_completed(names):
            tally.add(os.path.relpath(names[future]), *future.result())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--sanitized", type=pathlib.Path)
    parser.add_argument("-k", dest="pattern", default="", help="only tests with this in their name")
    arguments = parser.parse_args()
    os.environ.setdefault("ASAN_OPTIONS", "allocator_may_return_null=1")
    os.environ.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    os.environ.setdefault("LSAN_OPTIONS", f"suppressions={TESTS / 'leaks.supp'}")
    # gRPC isn't built for ThreadSanitizer; what goes through it is told by src/rpc/core.h.
    os.environ.setdefault("TSAN_OPTIONS", "ignore_noninstrumented_modules=1")

    tally = Tally()
    for build in filter(None, (arguments.build, arguments.sanitized)):
        if not (build / "tests" / "unit").is_dir():
            tally.add(str(build), Result(failed=1, output="no tests were built here"), 0)
            continue
        c_tests(build, arguments.pattern, tally)
        if build == arguments.build:
            for folder in (TESTS / "cli", TESTS / "e2e"):
                if any(folder.glob("test_*.py")):
                    tally.add(os.path.relpath(folder),
                              *timed(pytest, folder, build, arguments.pattern))
            tally.add(os.path.relpath(TESTS / "python"),
                      *timed(package, build, arguments.pattern))
            tally.add("tests/web", *timed(web, TESTS / "web", build, arguments.pattern))

    total = tally.total
    skipped = f", {total.skipped} skipped" if total.skipped else ""
    print(f"{total.passed} passed, {total.failed} failed{skipped}")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
