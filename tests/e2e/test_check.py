"""`prony check`: old versions from files, git and saved profiles, limits, reports, exit statuses.

What depends on how fast something is isn't asserted: sizes, outputs and failures are the same on every machine.
"""
import json
import os
import re
import signal
import subprocess
import xml.etree.ElementTree as xml

import jsonschema
import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from conftest import PROGRAM, ROOT, run_program
from profiling import Terminal, save, wait_for
from schema import described, keys

SCHEMA = json.loads((ROOT / "docs/prony.check.schema.json").read_text())
MEASURE = "backends: onnxrt-cpu\nmeasure: {launches: 1, repeats: 5, warmups: 0, max_time: 600}\n"
LIMITS = "limits: {time: +900%, memory: +900%, size: +10%, outputs: same}\n"


def model(path, factor=2, elements=8, outputs=("y",)):
    """y = x * factor, with as many weights as are asked for."""
    value = helper.make_tensor_value_info
    weights = numpy_helper.from_array(np.full(elements, factor, np.float32), "w")
    nodes = [helper.make_node("Mul", ["x", "w"], [name]) for name in outputs]
    return save(path, nodes, [value("x", TensorProto.FLOAT, ["n", elements])],
                [value(name, TensorProto.FLOAT, ["n", elements]) for name in outputs], [weights])


@pytest.fixture
def check(prony, workdir):
    """Runs it on this prony.yml, and gives the JSON, which follows the schema."""

    def call(text, *options, status=0):
        (workdir / "prony.yml").write_text(MEASURE + text)
        done = prony("check", *options, "--format", "json")
        assert done.status == status, done.stderr
        data = json.loads(done.stdout)
        jsonschema.validate(data, SCHEMA)
        assert set(keys(data)) <= set(described(SCHEMA, SCHEMA))
        return data

    return call


@pytest.fixture
def refused(prony, workdir):
    def call(text, *options):
        (workdir / "prony.yml").write_text(MEASURE + text)
        done = prony("check", *options)
        assert done.status in (1, 2) and done.stdout == "", done
        (line,) = [line for line in done.stderr.splitlines() if line.startswith("prony: error: ")]
        return line.removeprefix("prony: error: ")

    return call


@pytest.fixture
def git(workdir):
    """A repository in the scratch folder."""

    def call(*words):
        # Whoever runs the tests may have any settings of git.
        env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=n@example.org", *words], cwd=workdir,
                       check=True, capture_output=True, env=env)

    call("init", "--quiet")
    return call


def rows(data, index=0):
    return {row["figure"]: row for row in data["models"][index]["rows"]}


def test_versions_side_by_side(check, workdir, prony):
    model(workdir / "old.onnx")
    model(workdir / "new.onnx")
    files = [f"--{kind}={workdir / f'check.{kind}'}" for kind in ("junit", "json", "markdown")]
    text = LIMITS + "models: [{path: new.onnx, name: 'a|<b>', old: old.onnx}]\n"
    data = check(text, *files, f"--reports={workdir / 'reports'}")
    found = rows(data)
    assert found["size"]["status"] == found["outputs"]["status"] == "holds"
    assert found["time"]["ratio"]["estimate"] > 0 and found["time"]["before"] > 0
    assert json.loads((workdir / "check.json").read_text()) == data
    suites = xml.parse(workdir / "check.junit").getroot()
    (suite,) = suites
    assert suite.get("name") == "a|<b>" and suite.get("tests") == "4" == suites.get("tests")
    assert [case.get("name") for case in suite] == [
        "time on onnxrt-cpu", "memory on onnxrt-cpu", "size", "outputs"]
    markdown = (workdir / "check.markdown").read_text()
    assert markdown.startswith("**No regression") and "| onnxrt-cpu | size" not in markdown
    assert "a|<b>" not in markdown
    # What was measured is a profile of both, with all samples.
    saved = prony("report", "reports/a|<b>.json", "--format", "json")
    assert [each["name"] for each in json.loads(saved.stdout)["models"]] == ["old", "new"]


def test_a_regression_is_status_3_in_all_formats(check, prony, workdir):
    model(workdir / "old.onnx")
    model(workdir / "new.onnx", elements=80)
    text = "limits: {size: +10%}\nmodels: [{path: new.onnx, old: old.onnx}]\n"
    data = check(text, "--junit", "check.xml", status=3)
    assert data["regressed"] and data["regressions"] == 1
    assert data["verdict"].startswith("Regression: size of new.onnx: +")
    assert rows(data)["time"]["status"] == "no limit"
    suites = xml.parse(workdir / "check.xml").getroot()
    assert suites.get("failures") == suites.get("tests") == "1"
    assert "limit +10 %" in suites.find("testsuite/testcase/failure").get("message")
    for format in ("text", "markdown"):
        done = prony("check", "--format", format, "-o", "report")
        assert (done.status, done.stdout) == (3, "")
        assert done.stderr == "prony: regression: 1 limit is broken\n"
        assert "regression" in (workdir / "report").read_text()


def test_outputs_must_be_the_same_if_that_is_asked_for(check, workdir):
    model(workdir / "old.onnx", factor=2)
    model(workdir / "new.onnx", factor=2.2)
    both = "models: [{path: new.onnx, old: old.onnx}]\n"
    data = check("limits: {outputs: same}\n" + both, status=3)
    assert rows(data)["outputs"]["error"] == pytest.approx(0.1, rel=1e-3)
    assert rows(check("limits: {outputs: 20%}\n" + both))["outputs"]["status"] == "holds"
    assert rows(check("limits: {size: 1%}\n" + both))["outputs"]["status"] == "no limit"
    model(workdir / "new.onnx", factor=2, outputs=("y", "z"))
    data = check("limits: {outputs: same}\n" + both, status=3)
    assert rows(data)["outputs"]["reason"] == "the old version gives 1 output, the new one 2"


def test_a_new_version_that_fails(check, prony, workdir):
    model(workdir / "old.onnx")
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])
    save(workdir / "new.onnx", [helper.make_node("Nonsense", ["x"], ["y"])], [value], [result])
    data = check("limits: {time: +3%}\nmodels: [{path: new.onnx, old: old.onnx}]\n", status=3)
    assert rows(data)["time"]["reason"].startswith("the new version fails: ")
    (workdir / "prony.yml").write_text(
        MEASURE + "limits: {time: +3%}\nmodels: [{path: new.onnx, old: new.onnx}]\n")
    done = prony("check", "--junit", "check.xml")
    assert done.status == 1 and "1 row failed; the first: both versions failed" in done.stderr
    assert xml.parse(workdir / "check.xml").getroot().get("errors") == "1"


def external(folder, factor):
    """A model whose weights are in a folder beside it."""
    (folder / "weights").mkdir(parents=True, exist_ok=True)
    path = folder / "m.onnx"
    loaded = onnx.load(model(path, factor, elements=1000))
    path.unlink()
    (folder / "weights/w.bin").unlink(missing_ok=True)
    onnx.save(loaded, path, save_as_external_data=True, location="weights/w.bin", size_threshold=0)


def test_old_versions_come_out_of_git_with_their_external_data(check, refused, git, workdir):
    external(workdir / "models é", 2)
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    git("tag", "v1")
    external(workdir / "models é", 2.5)
    text = "old: {git: v1}\nlimits: {size: 1%, outputs: same}\nmodels: ['models é/m.onnx']\n"
    data = check(text, status=3)
    assert rows(data)["outputs"]["status"] == "regression" and rows(data)["size"]["status"] == "holds"
    assert rows(data)["size"]["before"] > 4000
    assert data["models"][0]["old"].startswith("v1 (")
    # Moved since, and said so; and a revision of the command line's.
    (workdir / "models é").rename(workdir / "new")
    text = "old: {git: nothing, path: models é/m.onnx}\nlimits: {outputs: same}\nmodels: [new/m.onnx]\n"
    assert check(text, "--git-base", "v1", status=3)["regressions"] == 1
    assert "cannot find revision 'nothing'" in refused(text)
    assert "cannot get 'v1:new/m.onnx'" in refused(text.replace("models é", "new"), "--git-base", "v1")
    assert "'--all' is not a revision" in refused(text, "--git-base=--all")


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 1000\n"


def test_pointers_of_git_lfs_are_named(refused, git, workdir):
    (workdir / "m.onnx").write_text(POINTER)
    external(workdir / "e", 2)
    (workdir / "e/weights/w.bin").write_text(POINTER)
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    text = "old: {git: HEAD}\nlimits: {size: 1%}\nmodels: [m.onnx]\n"
    assert "'m.onnx' is a Git LFS pointer and its content isn't here" in refused(text)
    model(workdir / "m.onnx")
    assert "'HEAD:m.onnx' is a Git LFS pointer" in refused(text)
    external(workdir / "e", 2)
    assert "'HEAD:e/weights/w.bin' is a Git LFS pointer" in refused(text.replace("m.onnx", "e/m.onnx"))


def test_a_saved_profile_stands_for_a_model_that_is_gone(check, prony, refused, workdir):
    model(workdir / "new.onnx")
    done = prony("profile", "new.onnx", "-b", "onnxrt-cpu", "--launches", "1", "--repeats", "5",
                 "--max-time", "600", "--format", "json", "-o", "before.json")
    assert done.status == 0, done.stderr
    model(workdir / "new.onnx", elements=8, outputs=("y", "z"))
    text = "limits: {size: +1%, outputs: same}\nmodels: [new.onnx]\n"
    data = check(text, "--baseline", "before.json", status=3)
    found = rows(data)
    assert data["models"][0]["saved"] and found["size"]["status"] == "regression"
    assert found["outputs"]["status"] == "not shown"
    assert found["time"]["before"] > 0
    only = "limits: {outputs: same}\nmodels: [{path: new.onnx, name: n, old: {report: before.json}}]\n"
    assert check(only)["not_shown"] == 1
    assert check(only, "--strict", status=3)["verdict"].startswith("Not passed: ")
    assert "says nothing about the old version of 'new.onnx'" in refused(text)
    two = "limits: {size: 1%}\nmodels: [new.onnx, {path: new.onnx, name: b, old: new.onnx}]\n"
    assert "has several models; give NAME=FILE.json" in refused(two, "--baseline", "before.json")
    data = check(two, "--baseline", "new.onnx=before.json", status=3)
    assert [each["saved"] for each in data["models"]] == [True, False]
    assert [each["name"] for each in check(two, "b")["models"]] == ["b"]
    assert "has no model 'c'" in refused(two, "c")


def test_a_sweep_has_a_row_for_each_size(check, workdir):
    model(workdir / "old.onnx")
    model(workdir / "new.onnx")
    data = check("limits: {outputs: same}\ndims: {n: [1, 3]}\n"
                 "models: [{path: new.onnx, old: old.onnx, inputs: {x: ones}}]\n")
    sizes = [row["sizes"] for row in data["models"][0]["rows"] if row["figure"] == "outputs"]
    assert sizes == ["n=1", "n=3"] and data["held"] == 2


def test_the_files_that_are_written_are_tried_first(refused, workdir):
    model(workdir / "m.onnx")
    text = "limits: {size: 1%}\nmodels: [{path: m.onnx, old: m.onnx}]\n"
    assert "missing/check.xml" in refused(text, "--junit", "missing/check.xml")
    assert "prony.yml" in refused(text, "--json", "prony.yml")
    assert (workdir / "prony.yml").read_text() == MEASURE + text


def test_ctrl_c_leaves_nothing_behind(program, git, workdir):
    model(workdir / "m.onnx")
    (workdir / "prony.yml").write_text("backends: onnxrt-cpu\nmeasure: {max_time: 600, repeats: 10000000}\n"
                                       "limits: {time: 1%}\nold: {git: HEAD}\nmodels: [m.onnx]\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    temporary = workdir / "temporary"
    temporary.mkdir()
    terminal = Terminal(program, ["--json", "check.json"], command="check", cwd=workdir,
                        env={**os.environ, "TMPDIR": str(temporary)})
    terminal.wait_for_progress(b"measuring")
    assert any(temporary.iterdir())
    terminal.process.send_signal(signal.SIGINT)
    stdout, _ = terminal.process.communicate()
    assert (terminal.process.returncode, stdout) == (130, b"")
    wait_for(lambda: not any(temporary.iterdir()), "the scratch folder to go")
    assert not (workdir / "check.json").exists()


def test_all_that_the_schema_describes_is_written(check, workdir):
    model(workdir / "old.onnx")
    model(workdir / "new.onnx", factor=3)
    data = check("limits: {outputs: same}\nmodels: [{path: new.onnx, old: old.onnx}]\n", status=3)
    written = set(keys(data))
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert written == set(described(SCHEMA, SCHEMA))


PAGE = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/check.md").read_text(), re.DOTALL | re.MULTILINE)


def test_the_example_file_is_right(prony, workdir):
    (workdir / "prony.yml").write_text(PAGE[0])
    done = prony("check")
    assert done.stderr == "prony: error: models/resnet50.onnx: cannot read 'models/resnet50.onnx': " \
        "No such file or directory\n"


def jobs():
    github, gitlab = (yaml.load(text, yaml.BaseLoader) for text in PAGE[1:])
    steps = github["jobs"]["check"]["steps"]
    assert github["on"] == "pull_request" and steps[0]["with"]["fetch-depth"] == "0"
    yield pytest.param([step["run"] for step in steps if "run" in step], id="GitHub")
    yield pytest.param(gitlab["prony"]["script"], id="GitLab")


@pytest.mark.parametrize("commands", list(jobs()))
def test_jobs_of_the_page_run_as_they_are_pasted(commands, git, workdir):
    """All but the installation, which tests/python/test_wheel.py does; on a clone as a runner has it."""
    model(workdir / "m.onnx")
    (workdir / "prony.yml").write_text(MEASURE + "limits: {size: +10%}\nmodels: [m.onnx]\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    git("branch", "-M", "main")
    git("clone", "--quiet", ".", "clone")
    clone = workdir / "clone"
    model(clone / "m.onnx", elements=80)
    env = {**os.environ, "GITHUB_BASE_REF": "main", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
           "GITHUB_STEP_SUMMARY": str(clone / "summary.md"), "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    install, *rest = commands
    assert install == 'pip install "prony[onnxruntime] @ $PRONY_WHEEL"'
    statuses = [run_program(["sh", "-e", "-c", line], cwd=clone, env=env).status for line in rest]
    assert sorted(statuses) == [0] * (len(rest) - 1) + [3]
    assert (clone / "check.md").read_text().startswith("**Regression: size of m.onnx: +")
    assert xml.parse(clone / "check.xml").getroot().get("failures") == "1"
    assert (clone / "reports/m.onnx.json").exists()
