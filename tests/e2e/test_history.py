"""`prony history`: many processes at once, git, what a disk or a stranger does to the file, a service's own."""
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys

import jsonschema
import pytest

from conftest import ROOT, run_program
from schema import described, keys

DATA = ROOT / "tests" / "data"
sys.path.insert(0, str(DATA))
import make_history  # noqa: E402

SCHEMAS = {name: json.loads((ROOT / "docs" / f"prony.{name}.schema.json").read_text())
           for name in ("history", "history-list", "history-prune")}
N = len(make_history.PATTERN)


@pytest.fixture
def history(prony, workdir):
    """history("list") on one file, without git unless it is asked for; it must succeed."""

    def call(*arguments, **options):
        done = prony("history", *arguments, "--db", workdir / "h é.db", **options)
        assert (done.status, done.stderr) == (0, ""), done.stderr
        return done.stdout

    return call


@pytest.fixture
def reports(workdir):
    """Files of made reports, one for each day."""
    paths = []
    for number in range(1, N + 1):
        path = workdir / f"report {number}.json"
        path.write_text(json.dumps(make_history.report(number)))
        paths.append(path)
    return paths


def refused(done, *words):
    """It failed with one line, and that says so."""
    assert done.status == 1 and done.stdout == "", done
    (line,) = done.stderr.splitlines()
    assert line.startswith("prony: error: ")
    for word in words:
        assert word in line, line


def rows(history):
    return json.loads(history("list", "--format", "json"))["rows"]


def test_many_add_at_once(program, workdir, history, reports):
    """Each of them makes the file if it is the first; none is lost, and what two add is there once."""
    twice = [*reports, *reports[:4]]
    running = [subprocess.Popen([program, "history", "add", path, "--no-git", "--db", workdir / "h é.db"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for path in twice]
    ended = [(process.communicate(), process.returncode) for process in running]
    assert [status for _, status in ended] == [0] * len(twice), ended
    said = [stdout for (stdout, _), _ in ended]
    assert sum(" was there already" in text for text in said) == 4
    assert json.loads(history("list", "--format", "json"))["reports"] == N
    # Time decides about the order, whoever came first.
    shown = json.loads(history("show", "--format", "json"))
    times = [point["created"] for point in shown["series"][0]["points"]]
    assert times == sorted(times)


def test_what_is_shown_follows_the_schemas(history, reports):
    history("add", *reports, "--commit", "1234567", "--branch", "main")
    found = {"history": [json.loads(history("show", "--format", "json"))],
             "history-list": [json.loads(history("list", "--format", "json"))],
             "history-prune": [json.loads(history("prune", "--keep", "3", "--dry-run", "--format", "json"))]}
    for name, written in found.items():
        for report in written:
            jsonschema.Draft202012Validator(SCHEMAS[name]).validate(report)
        assert {key for report in written for key in keys(report)} == \
            set(described(SCHEMAS[name], SCHEMAS[name])), name
    (cpu, openvino, *others) = found["history"][0]["series"]
    assert [change["report"] for change in cpu["changes"]] == [14]
    assert cpu["changes"][0]["ratio"]["low"] < 1.08 < cpu["changes"][0]["ratio"]["high"]
    assert openvino["changes"] == [] and openvino["points"][9]["error"] == "Conv is not implemented"
    assert {series["machine"] for series in others} == {"Other CPU, 8 cores"}


def test_compare_is_prony_report(prony, history, reports):
    history("add", *reports[:2])
    kept = history("compare", "1", "2", "--format", "csv")
    files = prony("report", *reports[:2], "--format", "csv").stdout
    assert [line.split(",")[2:] for line in kept.splitlines()] == \
        [line.split(",")[2:] for line in files.splitlines()]


@pytest.mark.skipif(not shutil.which("git"), reason="no git")
def test_commits_come_from_git(prony, workdir, reports):
    repository, elsewhere = workdir / "the repository", workdir / "elsewhere"
    elsewhere.mkdir()
    environment = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
                   "GIT_CEILING_DIRECTORIES": str(workdir), "GIT_DIR": str(elsewhere)}
    clean = {name: value for name, value in {**os.environ, **environment}.items() if name != "GIT_DIR"}

    def git(*words, date="2026-03-01T00:00:00Z"):
        return subprocess.run(["git", "-C", repository, "-c", "user.name=a", "-c", "user.email=a@b", *words],
                              check=True, capture_output=True, text=True,
                              env={**clean, "GIT_COMMITTER_DATE": date}).stdout.strip()

    def add(number, *options, cwd=repository):
        done = prony("history", "add", reports[number - 1], "--db", workdir / "git.db", *options, cwd=cwd,
                     env=environment)
        assert done.status == 0, done.stderr
        return done.stdout.strip().partition(": ")[2], done.stderr

    repository.mkdir()
    git("init", "-q", "-b", "main")
    assert add(1) == ("resnet50.onnx", ""), "nothing is committed yet"
    (repository / "a").write_text("1")
    git("add", "a")
    git("commit", "-q", "-m", "first")
    first = git("rev-parse", "HEAD")
    assert add(2) == (f"resnet50.onnx, commit {first[:7]} (main)", "")
    (repository / "a").write_text("2")
    assert add(3) == (f"resnet50.onnx, commit {first[:7]} with changes (main)", "")
    assert add(4, "--no-git") == ("resnet50.onnx", "")
    assert add(5, "--commit", "ABCD", "--branch", "b") == ("resnet50.onnx, commit abcd (b)", "")
    git("commit", "-q", "-a", "-m", "second", date="2026-03-07T00:00:00Z")
    git("checkout", "-q", "--detach")
    second = git("rev-parse", "HEAD")
    assert add(7) == (f"resnet50.onnx, commit {second[:7]}", "")
    # What was measured before the commit isn't of it.
    text, warning = add(6)
    assert text == "resnet50.onnx" and "is older than the commit that is checked out" in warning
    # The model's folder comes first.
    content = make_history.report(9)
    content["model"]["path"] = str(repository / "a")
    reports[8].write_text(json.dumps(content))
    assert add(9, cwd=elsewhere) == (f"a, commit {second[:7]}", "")
    assert add(10, cwd=elsewhere) == ("resnet50.onnx", "")


def test_without_room_nothing_is_lost(prony, history, workdir, reports):
    """A limit on the size of files is what a full disk is: the one that doesn't fit is told, the others stay."""
    history("add", reports[0])
    before = rows(history)
    size = (workdir / "h é.db").stat().st_size

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4096, size + 4096))

    done = prony("history", "add", *reports[1:], "--no-git", "--db", workdir / "h é.db", preexec_fn=limited)
    refused(done, "h é.db", "cannot use the database")
    assert rows(history) == before
    history("add", *reports)
    assert rows(history)[0]["reports"] > 1


def test_files_of_others(prony, history, workdir, reports):
    history("add", *reports)
    path = workdir / "h é.db"
    good = path.read_bytes()

    def both(*words):
        """Nobody may use it, and nobody changes it."""
        before = path.read_bytes()
        for command in (["list"], ["show"], ["add", reports[0], "--no-git"], ["prune", "--keep", "1"]):
            refused(prony("history", *command, "--db", path), "h é.db", *words)
        assert path.read_bytes() == before

    path.write_bytes(good[:len(good) // 2])
    refused(prony("history", "list", "--db", path), "h é.db", "cannot use the database")
    path.write_bytes(good[:4096] + b"\xa5" * (len(good) - 4096))
    refused(prony("history", "show", "--db", path), "h é.db", "cannot use the database")
    path.write_bytes(b"This is a text, and longer than the head of a database would be. " * 40)
    both("file is not a database")
    for pragma, words in (("user_version = 99", ["newer prony", "schema 99"]), ("application_id = 7", ["not prony's"])):
        path.write_bytes(good)
        with sqlite3.connect(path) as database:
            database.execute(f"PRAGMA {pragma}")
        database.close()
        both(*words)
    # A report inside that somebody has changed is found when it is looked at.
    path.write_bytes(good)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE contents SET packed = substr(packed, 1, length(packed) / 2) WHERE report = 2")
    database.close()
    refused(prony("history", "compare", "1", "2", "--db", path), "the report in it is damaged")
    assert prony("history", "compare", "1", "3", "--db", path).status == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_only_be_read(prony, history, workdir, reports):
    history("add", *reports[:3])
    path = workdir / "h é.db"
    shown = history("show")
    workdir.chmod(0o555)
    try:
        assert history("show") == shown
        path.chmod(0o444)
        assert history("show") == shown
        refused(prony("history", "add", reports[3], "--no-git", "--db", path), "h é.db")
        refused(prony("history", "add", reports[3], "--no-git", "--db", workdir / "new.db"), "new.db")
    finally:
        workdir.chmod(0o755)


def test_the_first_version_is_read(prony, workdir):
    """tests/data/history-1.db stays as prony wrote it first."""
    shutil.copyfile(DATA / "history-1.db", workdir / "old.db")
    done = prony("history", "show", "--db", "old.db", "--format", "json")
    assert done.status == 0, done.stderr
    assert [c["report"] for s in json.loads(done.stdout)["series"] for c in s["changes"]] == [14]
    report = workdir / "more.json"
    report.write_text(json.dumps({**make_history.report(1), "created": "2026-05-01T00:00:00Z"}))
    assert prony("history", "add", report, "--no-git", "--db", "old.db").status == 0


def test_the_default_file(program, workdir, reports):
    environment = {**os.environ, "HOME": str(workdir / "home"), "XDG_STATE_HOME": ""}

    def call(*arguments):
        return run_program([program, "history", *arguments], cwd=workdir, env=environment)

    refused(call("list"), ".local/state/prony/history.db", "prony history add")
    assert call("add", reports[0], "--no-git").status == 0
    path = workdir / "home/.local/state/prony/history.db"
    assert path.stat().st_mode & 0o777 == 0o600
    assert call("list").status == 0
    environment["XDG_STATE_HOME"] = str(workdir / "state")
    assert call("add", reports[0], "--no-git").status == 0
    assert (workdir / "state/prony/history.db").exists()


def test_the_history_of_a_service(prony, workdir):
    """What it keeps can be looked at, and only that."""
    folder = workdir / "state of a service"
    assert prony("token", "list", "--state", folder).status == 0
    with sqlite3.connect(folder / "state.db") as database:
        for number in range(1, N + 1):
            text = json.dumps(make_history.report(number))
            database.execute("INSERT INTO measurements (id, user, model, backends, created_ms, "
                             "duration_ms, report_bytes) "
                             "VALUES (?, 'ann', 'm', 'b', 0, 0, ?)", (number, len(text)))
            database.execute("INSERT INTO reports VALUES (?, ?)", (number, text.encode()))
        database.execute("INSERT INTO reports VALUES (99, 'no report at all')")
    database.close()
    for place in (folder, folder / "state.db"):
        done = prony("history", "show", "--db", place, "--format", "json")
        assert done.status == 0, done.stderr
        assert [c["report"] for s in json.loads(done.stdout)["series"] for c in s["changes"]] == [14]
        done = prony("history", "compare", "13", "14", "--db", place)
        assert done.stdout.startswith("Regression: report 13 is 1.07")
        for command in (["add", DATA / "compare-before.json", "--no-git"], ["prune", "--keep", "0"]):
            refused(prony("history", *command, "--db", place), "the history of a service")
    assert prony("token", "list", "--state", folder).status == 0
