#!/usr/bin/env python3
"""Runs the tests and ends in one line: `N passed, M failed`.

    tests/run.py [--build DIR] [--sanitized DIR] [--long] [-k PATTERN] [--jobs N] [--again] [TEST...]

From --build: the unit tests, the replay of the fuzz corpora, pytest on tests/cli, tests/e2e and, with
the Python that has PyTorch, tests/python, and Node's test runner on tests/web. From --sanitized: the
unit tests and the replays again. With --long only tests marked @pytest.mark.long run; without it, all
others. TEST is a file or a test as pytest names it; PATTERN may be one, too, or a folder of tests.

Each file is a process of its own and several run at once, those that took longest the last time first.
A line tells when a file has ended; a test that takes more than ten seconds is named meanwhile. A
program that crashes, hangs or ends before all of its tests have run is a failure. Output is shown for
failures only, with the command that repeats each of them. With --again each failed test is repeated
alone at the end; one that passes then is counted as passed and named: it is a defect, but not of the
change that is being tested.
"""
import argparse
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
UNIT_TIMEOUT = int(os.environ.get("PRONY_UNIT_TIMEOUT", "900"))
REPLAY_TIMEOUT = 900
FILE_TIMEOUT = 7200  # each test has its own, shorter limit (conftest.py)
NAMED_AFTER = 10  # seconds
NOTHING_COLLECTED = 5  # pytest's exit status
# What programs with sanitizers need. gRPC isn't built for ThreadSanitizer; what goes through it is told
# by src/rpc/core.h.
SANITIZERS = {"ASAN_OPTIONS": "allocator_may_return_null=1", "UBSAN_OPTIONS": "print_stacktrace=1",
              "LSAN_OPTIONS": f"suppressions={str(TESTS / 'leaks.supp')!r}",
              "TSAN_OPTIONS": "ignore_noninstrumented_modules=1"}


@dataclasses.dataclass
class Result:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    output: str = ""
    repeat: list = dataclasses.field(default_factory=list)  # commands
    times: list = dataclasses.field(default_factory=list)  # seconds and name of each test


@dataclasses.dataclass
class Job:
    """A file of tests. `read` makes a Result of the exit status and the output."""
    name: str
    argv: list
    read: callable
    timeout: int
    env: dict = dataclasses.field(default_factory=dict)
    now: pathlib.Path = None  # holds the name of the test that is running
    started: float = 0
    named: float = 0

    def command(self):
        """What repeats it, in a shell."""
        if "PRONY_TEST_NOW" in self.env:
            return repeat_pytest(self, self.name)
        env = [f"{key}={shlex.quote(str(value))}" for key, value in self.env.items()]
        return " ".join([*env, *(shlex.quote(str(a)) for a in self.argv)])

    def test(self):
        """What is running, and since when."""
        try:
            return self.now.read_text(), self.now.stat().st_mtime
        except (OSError, AttributeError):
            return self.name, self.started


RUNNING = set()  # process ids, each the leader of a session


def below(pid):
    """The process and its descendants, which may be in sessions of their own."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def end(pid):
    for each in below(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def run(argv, timeout, env=None):
    """Status and output of a program; status is None when it had to be killed. Whatever it leaves
    running in its session ends with it."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, env={**os.environ, **(env or {})},
                                   start_new_session=True, cwd=ROOT)
        RUNNING.add(process.pid)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            status = None
        end(process.pid)
        RUNNING.discard(process.pid)
        process.wait()
        output.seek(0)
        return status, output.read().decode(errors="replace")


def ending(status, timeout):
    if status is None:
        return f"killed: it took more than {timeout} s"
    if status < 0:
        return f"died of {signal.Signals(-status).name}"
    return f"exit status {status}"


def relative(path):
    return os.path.relpath(path, ROOT)


def inside(name, arguments):
    """Whether a file is below the folder that was asked for, if one was."""
    return not arguments.folder or name.startswith(f"{arguments.folder}/")


def words(pattern):
    """The names in a pattern of pytest's."""
    return [word for word in re.findall(r"[^\s()]+", pattern) if word not in ("and", "or", "not")]


# ---- C ----

def read_unit(job, status, output):
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
        result.output += f"\n{ending(status, job.timeout)}; {planned} tests were planned\n"
    return result


def read_replay(job, status, output):
    if status == 0:
        return Result(passed=1, output=output)
    return Result(failed=1, output=f"{output}\n{ending(status, job.timeout)}\n")


def c_jobs(build, arguments):
    """A job per program."""
    wanted = words(arguments.pattern) or [""]
    folder = build / "tests"
    for path in (*sorted(folder.glob("fuzz/fuzz_*")), *sorted(folder.glob("unit/test_*"))):
        if not path.is_file() or not os.access(path, os.X_OK):
            continue
        if not any(word in path.name for word in wanted):
            continue
        source = f"{path.relative_to(build)}.c"
        if not inside(source, arguments) or (arguments.tests and source not in arguments.tests):
            continue
        env = SANITIZERS if build == arguments.sanitized else {}
        if path.parent.name == "unit":
            yield Job(relative(path), [path], read_unit, UNIT_TIMEOUT,
                      {**env, "CMOCKA_MESSAGE_OUTPUT": "TAP"})
        else:
            corpus = TESTS / "fuzz" / "corpus" / path.name.removeprefix("fuzz_")
            yield Job(relative(path), [path, corpus], read_replay, REPLAY_TIMEOUT, env)


# ---- Python ----

def pytest_argv(python, arguments, *more):
    argv = [python, "-m", "pytest", "-q", "--no-header", "--tb=short", "-rs", "-p", "no:cacheprovider",
            "--import-mode=importlib", f"--rootdir={ROOT}", "-o", "tmp_path_retention_policy=failed"]
    if not arguments.tests:
        argv += ["-m", "long" if arguments.long else "not long"]
    if arguments.pattern:
        argv += ["-k", arguments.pattern]
    return [*argv, *more]


def read_pytest(report):
    def read(job, status, output):
        result = Result(output=output)
        try:
            cases = list(xml.etree.ElementTree.parse(report).getroot().iter("testcase"))
        except (OSError, xml.etree.ElementTree.ParseError) as fault:
            cases = []
            result.output += f"\nno report: {fault}\n"
        for case in cases:
            name = f"{job.name}::{case.get('name')}"
            result.times.append((float(case.get("time", 0)), name))
            outcome = {element.tag for element in case}
            if outcome & {"failure", "error"}:
                result.failed += 1
                result.repeat.append(repeat_pytest(job, name))
            elif "skipped" in outcome:
                result.skipped += 1
            else:
                result.passed += 1
        only_others = status == NOTHING_COLLECTED and " deselected" in output
        if status != 0 and not result.failed and not only_others:
            result.failed = 1
            result.output += f"\n{ending(status, job.timeout)}\n"
        return result

    return read


def repeat_pytest(job, test):
    words = [sys.executable, TESTS / "run.py", "--build", job.env["PRONY_BUILD"], test]
    return " ".join(shlex.quote(relative(w) if isinstance(w, pathlib.Path) else w) for w in words)


def collected(python, env, files, arguments):
    """Those of the files in which a test is to run."""
    if not (arguments.pattern or arguments.long):
        return files, None
    argv = pytest_argv(python, arguments, "--collect-only", *files)
    status, output = run(argv, FILE_TIMEOUT, env)
    names = {line.partition("::")[0] for line in output.splitlines() if "::" in line}
    fault = output if status not in (0, NOTHING_COLLECTED) else None
    return [file for file in files if relative(file).partition("::")[0] in names], fault


def pytest_jobs(build, arguments, scratch):
    """A job per file that has tests to run."""
    common = {"PRONY": str(build / "prony"), "PRONY_BUILD": str(build), "PYTHONDONTWRITEBYTECODE": "1"}
    if "PRONY" in os.environ:  # another program than the folder's
        common |= {name: os.path.abspath(os.environ[name]) for name in ("PRONY", "PRONY_PROGRAM")
                   if name in os.environ} | SANITIZERS
    torch = {**common, "PYTHONPATH": str(build / "python")}
    # PyTorch calls its compiler without quotes, so that its folder needs a name without spaces.
    (scratch / "torch").symlink_to(os.environ.get("PRONY_VENV_TORCH", build / "venv-torch"))
    for folders, python, env in ((("cli", "e2e"), sys.executable, common),
                                 (("python",), scratch / "torch/bin/python", torch)):
        files = [path for folder in folders for path in sorted((TESTS / folder).glob("test_*.py"))
                 if inside(relative(path), arguments)]
        if arguments.tests:
            files = [ROOT / test for test in arguments.tests
                     if (ROOT / test.partition("::")[0]) in files]
        files, fault = collected(python, env, files, arguments) if files else ([], None)
        if fault:
            yield Job("collecting tests", [python, "-c", "import sys; sys.exit(1)"],
                      lambda job, status, output, fault=fault: Result(failed=1, output=fault), 60)
        for file in files:
            name = relative(file)
            plain = re.sub(r"[^\w.]+", "-", name)[-100:]
            report, now = scratch / f"{plain}.xml", scratch / f"{plain}.now"
            yield Job(name.partition("::")[0],
                      pytest_argv(python, arguments, f"--junitxml={report}", file),
                      read_pytest(report), FILE_TIMEOUT, {**env, "PRONY_TEST_NOW": str(now)}, now)


# ---- Pages ----

def read_web(job, status, output):
    counts = {key: int(n) for key, n in re.findall(r"^# (pass|fail|cancelled|skipped) (\d+)", output,
                                                   re.MULTILINE)}
    result = Result(counts.get("pass", 0), counts.get("fail", 0) + counts.get("cancelled", 0),
                    counts.get("skipped", 0), output)
    if "--test-name-pattern" in job.argv:
        result.skipped = 0  # tests of other names
    for mark, name, ms in re.findall(r"^(ok|not ok) \d+ - (.*)\n  ---\n  duration_ms: ([\d.]+)", output,
                                     re.MULTILINE):
        result.times.append((float(ms) / 1000, f"{job.name}: {name}"))
        if mark == "not ok":
            only = f"^{re.escape(name)}$"
            again = [*job.argv[:-1], "--test-name-pattern", only, job.argv[-1]]
            result.repeat.append(dataclasses.replace(job, argv=again).command())
    if status != 0 and not result.failed:
        result.failed = 1
        result.output += f"\n{ending(status, job.timeout)}\n"
    return result


def web_jobs(build, arguments):
    """A job per file. A file that ends early counts as a failed test."""
    wanted = words(arguments.pattern)
    for path in sorted((TESTS / "web").glob("*.test.mjs")):
        if not inside(relative(path), arguments) or (
                arguments.tests and relative(path) not in arguments.tests):
            continue
        text = path.name + path.read_text()
        if wanted and not any(word in text for word in wanted):
            continue
        names = [] if not wanted or any(word in path.name for word in wanted) else [
            "--test-name-pattern", "|".join(map(re.escape, wanted))]
        yield Job(relative(path), ["node", "--test", "--test-reporter=tap", *names, path], read_web,
                  FILE_TIMEOUT, {"PRONY": str(build / "prony"), "PRONY_BUILD": str(build)})


# ---- All of them ----

class Tally:
    def __init__(self, file):
        self.total = Result()
        self.failed = []  # names of jobs, and the commands that repeat what failed in each
        self.file = file
        try:
            self.before = json.loads(file.read_text())
        except (OSError, ValueError):
            self.before = {}

    def longest_first(self, jobs):
        """What hasn't been seen comes first too: it may be long."""
        return sorted(jobs, key=lambda job: -self.before.get(job.name, 1e9))

    def add(self, job, result, seconds):
        self.total.passed += result.passed
        self.total.failed += result.failed
        self.total.skipped += result.skipped
        self.total.times += result.times or [(seconds, job.name)]
        self.before[job.name] = round(seconds, 1)
        counts = f"{result.passed} passed"
        if result.failed:
            counts += f", {result.failed} failed"
        if result.skipped:
            counts += f", {result.skipped} skipped"
        say(f"{'FAILED' if result.failed else 'ok':6} {job.name:44} {seconds:6.1f} s  {counts}")
        if result.failed:
            say("".join(f"    {line}\n" for line in result.output.splitlines()), end="")
            commands = result.repeat or [job.command()]
            self.failed.append((job.name, result.failed, commands))
            for command in commands:
                say(f"    to repeat it: {command}")
        elif result.skipped:
            reasons = re.findall(r"^SKIPPED .*", result.output, re.MULTILINE)
            say("".join(f"    {line}\n" for line in reasons), end="")

    def again(self):
        """Repeats what failed, alone on the machine."""
        for name, failed, commands in self.failed:
            if all(run(["sh", "-c", command], FILE_TIMEOUT)[0] == 0 for command in commands):
                say(f"UNSTABLE {name}: {failed} failed at first and passed alone")
                self.total.failed -= failed
                self.total.passed += failed

    def end(self, whole):
        """Whole: all tests ran, so that the times are worth keeping."""
        if whole:
            self.file.write_text(json.dumps(self.before, indent=1))
        slowest = sorted(self.total.times, reverse=True)[:10]
        say("slowest:" if slowest else "no test has such a name")
        for seconds, name in slowest:
            say(f"  {seconds:6.1f} s  {name}")
        skipped = f", {self.total.skipped} skipped" if self.total.skipped else ""
        say(f"{self.total.passed} passed, {self.total.failed} failed{skipped}")


def say(text, end="\n"):
    print(text, end=end, flush=True)


def do(job):
    job.started = time.time()
    status, output = run(job.argv, job.timeout, job.env)
    return job.read(job, status, output), time.time() - job.started


def name_the_slow(jobs):
    for job in jobs:
        if not job.started:
            continue
        test, since = job.test()
        if time.time() - max(since, job.named) > NAMED_AFTER:
            say(f"       {test} has been running for {time.time() - since:.0f} s")
            job.named = time.time() + NAMED_AFTER  # and later every twenty seconds


def run_all(jobs, tally, n):
    with concurrent.futures.ThreadPoolExecutor(max_workers=n) as pool:
        running = {pool.submit(do, job): job for job in jobs}
        try:
            while running:
                ended, _ = concurrent.futures.wait(running, 1, concurrent.futures.FIRST_COMPLETED)
                for future in ended:
                    tally.add(running.pop(future), *future.result())
                name_the_slow(running.values())
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            for pid in list(RUNNING):
                end(pid)
            for future, job in running.items():
                if not future.cancelled():
                    say(f"interrupted: {job.test()[0]}")
            raise SystemExit(130) from None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, help="where the tests were built")
    parser.add_argument("--sanitized", type=pathlib.Path, help="where they were built with sanitizers")
    parser.add_argument("-k", dest="pattern", default="",
                        help="only tests with this in their name, as pytest takes it; or a TEST, or a "
                             "folder of tests")
    parser.add_argument("--long", action="store_true", help="the long tests, and no others")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)) + 1,
                        help="how many files at once (default: one more than cores; many wait)")
    parser.add_argument("--again", action="store_true", help="repeat failed tests once, alone")
    parser.add_argument("tests", nargs="*", metavar="TEST", help="only these, as pytest names them")
    arguments = parser.parse_args()
    arguments.folder = ""
    if "/" in arguments.pattern:
        if (ROOT / arguments.pattern).is_dir():
            arguments.folder = relative(ROOT / arguments.pattern)
        else:
            arguments.tests.append(arguments.pattern)
        arguments.pattern = ""
    if not arguments.sanitized:
        arguments.build = arguments.build or ROOT / "build"
    builds = [name for name in ("build", "sanitized") if getattr(arguments, name)]
    for number in (signal.SIGINT, signal.SIGTERM):  # in the background, the first is ignored otherwise
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="prony-tests-") as scratch:
        programs = []
        for name in builds:
            build = getattr(arguments, name).resolve()
            setattr(arguments, name, build)
            if not (build / "tests" / "unit").is_dir():
                parser.error(f"no tests were built in {build}")
            if not arguments.long:
                programs += c_jobs(build, arguments)
        tally = Tally(getattr(arguments, builds[0]) / "tests" / "times.json")
        # In the order of how long they take, as far as that is known beforehand.
        jobs = []
        if arguments.build:
            if not arguments.long:
                jobs += web_jobs(arguments.build, arguments)
            jobs += pytest_jobs(arguments.build, arguments, pathlib.Path(scratch))
        run_all(tally.longest_first(jobs + programs), tally, arguments.jobs)
        if arguments.again:
            tally.again()
    tally.end(whole=not (arguments.pattern or arguments.tests or arguments.folder))
    return 1 if tally.total.failed or not tally.total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
