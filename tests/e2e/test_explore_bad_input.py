"""Traces that are wrong: one line that says what, where and how much was read; with --recover the
rest, and how much was lost."""
import gzip
import json
import os
import random
import re
import shutil
import subprocess

import pytest

import traces

TEXT = traces.dump(traces.simple(6)).encode()
FIRST_NODE = TEXT.index(b'"a_kernel_time"')  # in run 0, so that the default selection leaves it out
NODE = TEXT.index(b'"a_kernel_time"', FIRST_NODE + 1)  # in run 1
EVENT = TEXT.rindex(b"{", 0, TEXT.rindex(b'"cat"', 0, NODE) + 1)
NODES_BEFORE = 6  # events in front of it


def in_node(old, new):
    """The trace with something changed inside the event at EVENT."""
    at = TEXT.index(old, EVENT)
    return TEXT[:at] + new + TEXT[at + len(old):], at


# What is wrong, the trace, the byte that is named (None: any), a word of the fault.
BROKEN = {
    "invalid UTF-8": (*in_node(b"a_kernel", b"\xff_kernel"), "UTF-8"),
    "overlong UTF-8": (*in_node(b"a_kernel", b"\xc0\xaf_kernel"), "UTF-8"),
    "a surrogate in UTF-8": (*in_node(b"a_kernel", b"\xed\xa0\x80_kernel"), "UTF-8"),
    "an unescaped quote": (in_node(b"a_kernel", b'a"b_kernel')[0], NODE + 3, "expected"),
    "an unescaped backslash": (in_node(b"a_kernel", b"a\\d_kernel")[0], None, "escape"),
    "a raw newline": (in_node(b"a_kernel", b"a\n_kernel")[0], None, ""),
    "a time out of range": (in_node(b'"dur" :5', b'"dur" :1e400')[0], None, "out of range"),
    "a whole number out of range": (in_node(b'"ts" :', b'"ts" :9999999999999999999')[0], None,
                                    "out of range"),
    "a negative duration": (in_node(b'"dur" :5', b'"dur" :-5')[0], None, "negative"),
    "not a number": (in_node(b'"dur" :5', b'"dur" :NaN')[0], None, "number"),
    "a number with a zero in front": (in_node(b'"dur" :5', b'"dur" :05')[0], None, ""),
    "deep nesting": (in_node(b'"args" :{', b'"args" :{"x":' + b"[" * 5000 + b"]" * 5000 + b",")[0],
                     None, "deep"),
    "deep nesting of objects": (in_node(b'"args" :{', b'"args" :' + b'{"x":' * 100_000)[0], None,
                                "deep"),
    "a key twice": (in_node(b'"dur" :5', b'"dur" :5,"dur" :6')[0], None, "duplicate key"),
    "an argument twice": (in_node(b'"op_name"', b'"op_name" :"x","op_name"')[0], None, "duplicate key"),
    "a huge string": (in_node(b"a_kernel", b"a" * (17 << 20) + b"_kernel")[0], EVENT, "16 MiB"),
    "arguments that are a list": (in_node(b'"args" :{', b'"args" :[],"x" :{')[0], None, "args"),
    "binary noise in it": (in_node(b"a_kernel", random.Random(1).randbytes(500))[0], None, ""),
}


def test_shape_of_two_types(prony, workdir):
    """One odd event isn't the end of a trace: it is counted each time, and left out."""
    odd = "\n".join(line.replace('{"float" :[1,2]}', '{"float" :[1,2],"int" :[1]}')
                    if '"a_kernel' in line else line for line in TEXT.decode().split("\n"))
    (workdir / "odd.json").write_text(odd)
    done = prony("explore", "odd.json", "--shape-sensitive", "--format", "json")
    assert done.status == 0, done.stderr
    assert odd.count('"int" :[1]') == 6
    assert "6 events without" in done.stderr and "two types" in done.stderr
    report = json.loads(done.stdout)
    assert report["trace"]["passed_over"] == 6
    assert [g["op"] for g in report["cpu"]["groups"]] == ["Relu"]


def test_one_kernel(prony, workdir):
    """It isn't the longest of several."""
    kernel = {"cat": "Kernel", "pid": -1, "tid": -1, "dur": 347, "ts": 1, "ph": "X", "name": "k",
              "args": {"op_name": "Mul", "block_x": "1", "grid_x": "1"}}
    run = {"cat": "Session", "pid": 1, "tid": 1, "dur": 400, "ts": 0, "ph": "X", "name": "model_run", "args": {}}
    (workdir / "one.json").write_text(json.dumps([kernel, run]))
    done = prony("explore", "one.json")
    assert done.status == 0, done.stderr
    assert "All GPU time is in one kernel." in done.stdout


def test_traces_of_others(prony, workdir):
    """PyTorch's profiler writes events in the same format."""
    events = [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": i,
               "dur": 1, "args": {"External id": i}} for i in range(3)]
    for name, trace, words in (
            ("kineto.json", {"schemaVersion": 1, "deviceProperties": [], "traceEvents": events},
             "it looks like one of PyTorch's profiler (Kineto); none of its 3 events"),
            ("chrome.json", events, "none of its 3 events is one that it writes")):
        (workdir / name).write_text(json.dumps(trace))
        done = prony("explore", name)
        assert done.status == 1 and done.stdout == ""
        assert done.stderr.startswith(f"prony: error: '{name}' is not a trace of ONNX Runtime: ")
        assert words in done.stderr


def check_failure(done, workdir, name="bad.json", byte=None, word=""):
    """One line on stderr that names file, byte, line and fault; nothing else anywhere."""
    assert done.status == 1, (done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.rstrip("\n").isprintable()
    assert done.stderr.startswith(f"prony: error: '{name}': byte "), done.stderr
    told = re.search(r"byte (\d+), line (\d+): (.*); (\d+) events? before it", done.stderr)
    assert told, done.stderr
    if byte is not None:
        assert int(told[1]) == byte
    assert word in told[3]
    assert not list(workdir.glob("out*")), "a file was written"
    return int(told[1]), int(told[2]), int(told[4])


@pytest.mark.parametrize("what", BROKEN)
def test_broken_event(prony, workdir, what):
    data, byte, word = BROKEN[what]
    (workdir / "bad.json").write_bytes(data)
    done = prony("explore", "bad.json", "--csv", "out", "-o", "out.txt")
    at, line, before = check_failure(done, workdir, byte=byte, word=word)
    assert EVENT <= at < len(data) and before == NODES_BEFORE
    assert line == data[:at].count(b"\n") + 1

    done = prony("explore", "bad.json", "--recover", "--format", "json")
    assert done.status == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["trace"]["lost"] == 1
    assert f"byte {at}, line {line}" in report["warnings"][0] in done.stderr
    assert report["runs"]["found"] == 6
    assert {g["op"]: g["count"] for g in report["cpu"]["groups"]} == {"Conv": 4, "Relu": 5}


def test_truncated_everywhere(prony, workdir):
    """At bytes of each kind: inside keys, texts, numbers, between events."""
    text = traces.dump(traces.simple(2)).encode()
    bytes_of_one_event = range(text.index(b"{"), text.index(b"\n{", 10) + 2)
    for cut in [0, 1, 2, *bytes_of_one_event[::9], *range(400, len(text) - 2, 61), len(text) - 2]:
        (workdir / "bad.json").write_bytes(text[:cut])
        done = prony("explore", "bad.json", "--csv", "out", "-o", "out.txt")
        at, line, before = check_failure(done, workdir)
        assert at == cut and line == text[:cut].count(b"\n") + 1
        complete = sum(len(m[0]) + m.start() <= cut
                       for m in re.finditer(rb"^\{.*\}", text, re.MULTILINE))
        assert before == complete
        done = prony("explore", "bad.json", "--recover", "-s", "0", "--format", "json")
        if complete == 0:
            assert done.status == 1
            continue
        report = json.loads(done.stdout)
        assert report["trace"]["events"] == complete
        assert report["trace"]["lost"] == (text[:cut].count(b"\n{") > complete)


NOT_TRACES = {"empty": b"", "blank": b" \n ", "text": b"hello", "xml": b"<trace/>", "a number": b"17",
              "a string": b'"x"', "null": b"null", "an object": b"{}", "another object": b'{"a": 1}',
              "events that are none": b'{"traceEvents": 3}', "noise": random.Random(2).randbytes(999),
              "zeros": b"\0" * 100, "UTF-16": "[]".encode("utf-16"),
              "a list of numbers": b"[1, 2]", "nested lists": b"[" * 100_000}


@pytest.mark.parametrize("what", NOT_TRACES)
def test_not_a_trace(prony, workdir, what):
    (workdir / "bad.json").write_bytes(NOT_TRACES[what])
    check_failure(prony("explore", "bad.json", "--csv", "out"), workdir)
    done = prony("explore", "bad.json", "--csv", "out", "--recover")
    assert done.status == 1 and done.stdout == "" and done.stderr.count("\n") == 1
    assert not list(workdir.glob("out*"))


@pytest.mark.parametrize("text", ["[]", '{"traceEvents": []}', '{"traceEvents": [], "a": 1}'])
def test_no_events(prony, workdir, text):
    (workdir / "bad.json").write_text(text)
    done = prony("explore", "bad.json", "--csv", "out")
    assert done.status == 1 and done.stdout == ""
    assert done.stderr == ("prony: error: 'bad.json': the trace has no events; all of its "
                           f"{len(text)} bytes were read\n")
    assert not list(workdir.glob("out*"))


def test_not_a_file(prony, workdir):
    (workdir / "secret.json").write_text("[]")
    (workdir / "secret.json").chmod(0)
    names = ["missing.json", ".", "missing/x.json"] + ["secret.json"] * (os.getuid() != 0)
    for name in names:
        done = prony("explore", name, "--csv", "out", "-o", "out.txt")
        assert done.status == 1 and done.stdout == "" and done.stderr.count("\n") == 1
        assert f"'{name}'" in done.stderr
        assert not list(workdir.glob("out*"))


def zstd(data):
    return subprocess.run(["zstd", "-qc"], input=data, capture_output=True, check=True).stdout


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_damaged_compression(prony, workdir, pack):
    if pack is zstd and not shutil.which("zstd"):
        pytest.skip("no zstd program")
    # Frames, so that something can be decoded before the damage.
    packed = pack(TEXT[:EVENT]) + pack(TEXT[EVENT:])
    whole = len(pack(TEXT[:EVENT]))
    flipped = bytearray(packed)
    flipped[-10] ^= 0x55
    for data in (packed[:-5], packed[:whole + 9], bytes(flipped), packed + b"tail"):
        (workdir / "bad.json").write_bytes(data)
        done = prony("explore", "bad.json", "--csv", "out")
        assert done.status == 1 and done.stdout == "" and done.stderr.count("\n") == 1
        assert re.search(r"'bad.json'.*(damaged|cut off) after \d+ decoded bytes", done.stderr)
        assert not list(workdir.glob("out*"))
        done = prony("explore", "bad.json", "-s", "0", "--recover", "--format", "json")
        assert done.status == 0, done.stderr
        assert json.loads(done.stdout)["trace"]["events"] >= NODES_BEFORE
        assert "decoded bytes" in done.stderr
    for data in (packed[:3], packed[:11]):
        (workdir / "bad.json").write_bytes(data)
        for options in ([], ["--recover"]):
            done = prony("explore", "bad.json", *options)
            assert done.status == 1 and done.stdout == "" and done.stderr.count("\n") == 1


def test_many_faults(prony, workdir):
    """Each broken event is counted once, whatever surrounds it."""
    events = [json.dumps(e) for e in traces.simple(50)]
    dice = random.Random(3)
    for separator in (",", ",\n", " ,\r\n\t"):
        lines = list(events)
        hit = sorted(dice.sample([i for i, line in enumerate(lines) if "a_kernel" in line], 20))
        for i in hit:
            lines[i] = lines[i].replace("a_kernel", 'a"x{y}"[z]_kernel')
        (workdir / "bad.json").write_text("[" + separator.join(lines) + "]")
        done = prony("explore", "bad.json", "-s", "0", "--recover", "--format", "json")
        assert done.status == 0, done.stderr
        report = json.loads(done.stdout)
        assert report["trace"]["lost"] == 20
        assert {g["op"]: g["count"] for g in report["cpu"]["groups"]} == {"Conv": 30, "Relu": 50}
        assert done.stderr.count("\n") == 1 and "20 broken events were skipped" in done.stderr


def test_many_faults_in_a_large_trace(prony, workdir):
    events = traces.generated(13, 600)
    lines = traces.dump(events).split("\n")
    nodes = [i for i, line in enumerate(lines) if "_kernel_time" in line]
    hit = set(random.Random(4).sample(nodes, 100))
    for i in hit:
        lines[i] = lines[i].replace("_kernel_time", '"x{y_kernel_time')
    (workdir / "bad.json").write_text("\n".join(lines))
    done = prony("explore", "bad.json", "--shape-sensitive", "--recover", "--format", "json")
    report = json.loads(done.stdout)
    assert report["trace"]["lost"] == 100
    left = traces.Oracle([e for i, e in enumerate(events) if i + 1 not in hit], range(1, 600))
    assert {(g["op"], g["input_type_shape"]): [g["duration_us"], g["count"]]
            for g in report["cpu"]["groups"]} == left.cpu_groups(("op", "shape"))


@pytest.mark.parametrize("change", [lambda t: t.replace("},\n", "}\n", 1),
                                    lambda t: t.replace("},\n", "},,\n", 1),
                                    lambda t: t.replace("\n]", ",\n]", 1),
                                    lambda t: t + "x", lambda t: t + t])
def test_faults_between_events(prony, workdir, change):
    """A comma too few or too many, and text after the end, cost no event."""
    (workdir / "bad.json").write_text(change(TEXT.decode()))
    check_failure(prony("explore", "bad.json"), workdir)
    done = prony("explore", "bad.json", "--recover", "--format", "json")
    report = json.loads(done.stdout)
    assert report["trace"]["lost"] == 0 and report["runs"]["found"] == 6
    assert len(report["warnings"]) == 1


@pytest.mark.parametrize("option", [["--by", "node"], ["--shape-sensitive"], ["-m"]])
def test_too_many_groups(prony, workdir, option):
    events = traces.opening()
    for i in range(300):
        events += [traces.node(f"n{i}", f"Op{i % 3}", 1000 + 10 * i, 5, shapes=((i,),)),
                   traces.kernel(f"k{i}", "Op0", 1000 + 10 * i, 3)]
    events += [traces.model_run(1000, 9000)]
    (workdir / "many.json").write_text(traces.dump(events))
    done = prony("explore", "many.json", *option, "--max-groups", "100", "--csv", "out")
    assert done.status == 1 and done.stdout == "" and done.stderr.count("\n") == 1
    assert "over 100 distinct" in done.stderr and "--max-groups" in done.stderr
    assert not list(workdir.glob("out*"))
    assert prony("explore", "many.json", *option, "--max-groups", "2000").status == 0


def test_hostile_names_in_messages(prony, workdir):
    """Neither a file's name nor what is in it writes to the terminal as it likes."""
    name = "x\x1b[31m\nprony: error: fake.json"
    (workdir / name).write_bytes(BROKEN["an unescaped quote"][0])
    for options in ([], ["--recover"]):
        done = prony("explore", name, *options)
        assert "\x1b" not in done.stdout + done.stderr
        assert done.stderr.count("\n") == 1


MISUSE = [
    (["--by", "colour"], "'colour'"), (["--by", ""], "''"),
    (["--filter"], "--filter"), (["--max-groups", "0"], "--max-groups"),
    (["--compare", "trace.json", "--csv", "out"], "--csv"),
    (["--compare", "trace.json", "-m"], "--mapping"),
    (["--compare", "trace.json", "--format", "perfetto"], "perfetto"),
    (["--format", "perfetto", "--filter", "x"], "--filter"),
    (["--format", "perfetto", "--csv", "out"], "--csv"), (["--format", "perfetto", "-m"], "--mapping"),
    (["-o", "trace.json"], "'trace.json'"), (["-o", "link.json"], "'link.json'"),
    (["--compare", "other.json", "-o", "other.json"], "'other.json'"),
    (["-s", "6"], "6 runs"), (["-s", "-7"], "6 runs"), (["-e", "7"], "6 runs"), (["-e", "-7"], "6 runs"),
    (["-s", "3", "-e", "3"], "no run is selected"), (["-s", "x"], "'x'"), (["-c", "0"], "--count"),
    (["-g", "[9, 11, -8]"], "-8, 9, 11"), (["-g", "[]"], "empty"), (["-g", "[1, 2"], "column 6"),
    (["-g", "range(10**12)"], "1,000,000"), (["-g", "__import__('os')"], "column"),
    (["-g", "[i for i in range(3) if j]"], "j"), (["-g", "9**9**9"], "column"),
    (["-g", "[1] * 10**9"], "column"), (["-g", "1 // 0"], "zero"), (["-g", "("], "column"),
]


@pytest.mark.parametrize("arguments, word", MISUSE, ids=lambda v: v if isinstance(v, str) else " ".join(v))
def test_misuse(prony, workdir, arguments, word):
    """Told with status 2; no file is touched."""
    (workdir / "trace.json").write_bytes(TEXT)
    (workdir / "other.json").write_bytes(TEXT)
    (workdir / "link.json").symlink_to("trace.json")
    done = prony("explore", "trace.json", *arguments)
    assert done.status == 2 and done.stdout == "", done.stderr
    first, second = done.stderr.splitlines()
    assert first.startswith("prony: error: ") and word in first
    assert second == "prony: see 'prony explore --help'"
    assert (workdir / "trace.json").read_bytes() == (workdir / "other.json").read_bytes() == TEXT
    assert not list(workdir.glob("out*"))


def test_filter_takes_the_trace(prony, workdir):
    (workdir / "trace.json").write_bytes(TEXT)
    for patterns in (["Conv"], []):
        done = prony("explore", "--filter", *patterns, "trace.json")
        assert done.status == 2 and "--filter takes every word" in done.stderr
    assert prony("explore", "--filter", "Conv", "--", "trace.json").status == 0


def test_csv_that_cannot_be_written(prony, workdir):
    """Told before the trace is read; the trace is never what is replaced."""
    done = prony("explore", "-", "--csv", "missing/out")
    assert done.status == 1 and "'missing/out_cpu_kernel_times.csv'" in done.stderr
    (workdir / "out_gpu_kernel_times.csv").write_bytes(TEXT)
    done = prony("explore", "out_gpu_kernel_times.csv", "--csv", "out")
    assert done.status == 2 and "it is also the input" in done.stderr
    assert (workdir / "out_gpu_kernel_times.csv").read_bytes() == TEXT
