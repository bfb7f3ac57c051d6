"""`prony worker` against a service that speaks prony.Workers."""
import hashlib
import json
import os
import pathlib
import signal
import socket
import time

import grpc
import numpy as np
import pytest

from conftest import BUILD, ROOT
from profiling import FAULT_ENV, ORT, executors, parent
from protos import base
from workers import WAIT, Service, Worker, pb

SESSION = bytes(range(16))
MLP = (ROOT / "tests/data/mlp.onnx").read_bytes()
FOUR = (ROOT / "tests/data/functions.onnx").read_bytes()  # y = 4x
EXTERNAL = (ROOT / "tests/data/external.onnx").read_bytes()
ONNX = base.MODEL_FORMAT_ONNX


@pytest.fixture
def service():
    service = Service()
    service.start()
    yield service
    service.stop()


@pytest.fixture
def start(program, service, tmp_path):
    """Starts workers; what they leave behind is in `folder`."""
    workers = []
    folder = tmp_path / "temporary"
    folder.mkdir()

    def call(*options, **more):
        workers.append(Worker(program, service.port, folder, *options, **more))
        return workers[-1]

    call.folder = folder
    yield call
    for worker in workers:
        worker.kill()


def fault(name):
    return ["--ort-lib", str(BUILD / f"tests/fault/fault-{name}.so")]


def spec(software="onnxrt-cpu", hardware="r6i.large", **options):
    return base.BackendSpec(
        hardware_platform=hardware, software_backend=software,
        backend_options=[base.BackendOption(key=k, value=v) for k, v in options.items()])


def begin(attached, *backends, **more):
    return attached.ask(begin=pb.Begin(session=SESSION, backends=backends or [spec()],
                                       timeout_s=60, **more))


def load(attached, *files, model_id=1, backend=0, **more):
    return attached.ask(load=pb.Load(model_id=model_id, backend=backend, format=ONNX, files=files,
                                     **more))


def tensor(array):
    kinds = {np.float32: base.TENSOR_DTYPE_F32, np.int64: base.TENSOR_DTYPE_I64}
    return base.Value(tensor=base.Tensor(dtype=kinds[array.dtype.type], shape=array.shape,
                                         data=array.tobytes()))


def run_of(*arrays, model_id=1, **more):
    return pb.RunModel(model_id=model_id, backend=more.pop("backend", 0),
                       inputs=[tensor(a) for a in arrays], **more)


def numbers(value):
    return np.frombuffer(value.tensor.data, np.float32).reshape(value.tensor.shape)


def below_of(pid):
    """Processes whose ancestors include the process."""
    found = set()
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == pid:
            continue
        above = int(entry.name)
        while above and above != pid:
            above = parent(above)
        if above == pid:
            found.add(int(entry.name))
    return found


def executors_below(pid):
    """Those of them that are executors."""
    return executors(pid) & below_of(pid)


def until(condition, seconds=WAIT):
    """Waits for something to become true; what it was at last."""
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return value


def test_says_what_it_has(service, start):
    start(env={"SLURM_JOB_ID": "17"})
    hello = service.worker().hello
    assert hello.hardware == "r6i.large"
    assert hello.host == socket.gethostname()
    assert hello.cores == os.cpu_count() and hello.memory_bytes > 0
    assert hello.job == "slurm 17"
    assert "no_new_privs" in hello.sandbox
    assert not hello.HasField("key")
    software = {s.name: s for s in hello.software}
    assert software["onnxrt-cpu"].version.startswith("ONNX Runtime")
    assert "threads" in software["onnxrt-cpu"].options
    assert "lib" not in software["onnxrt-cpu"].options


def test_a_session(service, start):
    worker = start()
    attached = service.worker()
    assert begin(attached, spec(), spec(threads="1")).done
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    for backend in (0, 1):
        loaded = load(attached, service.keep(MLP), backend=backend).loaded
        assert loaded.load_ns > 0 and loaded.version.startswith("ONNX Runtime")
        ran = attached.ask(run=run_of(x, backend=backend, repeats=5, warmups=2, outputs=True)).ran
        assert len(ran.run_times_nanos) == 5 and list(ran.output_names) == ["y"]
        expected = np.maximum(x @ np.ones((4, 8)) + 1, 0) @ np.ones((8, 2)) * 0.5 + 1
        np.testing.assert_allclose(numbers(ran.outputs[0]), expected, rtol=1e-6)
    # The second backend's file is the same: it was there.
    assert service.fetched == [hashlib.sha256(MLP).digest()]
    ran = attached.ask(run=run_of(x)).ran
    assert len(ran.run_times_nanos) == 1 and not ran.outputs
    assert len(attached.ask(run=run_of(x, repeat_for_ms=20)).ran.run_times_nanos) > 1
    assert len(until(lambda: executors_below(worker.process.pid))) >= 2
    assert attached.ask(end=pb.End(session=SESSION)).done
    assert not executors_below(worker.process.pid)
    assert not list(start.folder.iterdir())
    # Another one.
    assert begin(attached).done
    assert attached.ask(run=run_of(x)).error.message == "there is no model 1"


def test_large_tensors_travel(service, start):
    start()
    attached = service.worker()
    begin(attached)
    load(attached, service.keep(FOUR))
    x = np.arange(3 << 18, dtype=np.float32)
    for length in (1 << 18, 3 << 18, 2):
        ran = attached.ask(run=run_of(x[:length], outputs=True)).ran
        np.testing.assert_array_equal(numbers(ran.outputs[0]), 4 * x[:length])


def test_external_data_lies_beside_the_model(service, start):
    start()
    attached = service.worker()
    begin(attached)
    data = (ROOT / "tests/data/external.bin").read_bytes()
    assert "external.bin" in load(attached, service.keep(EXTERNAL)).error.message
    report = load(attached, service.keep(EXTERNAL), service.keep(data, "external.bin"))
    assert report.WhichOneof("body") == "loaded", report


@pytest.mark.parametrize("name", ["../model.onnx", "/tmp/model.onnx", "", "a/../../b", "a\nb",
                                  "x" * 10000, "a//b", "."])
def test_names_that_leave_the_folder_are_refused(service, start, name):
    start()
    attached = service.worker()
    begin(attached)
    error = load(attached, service.keep(MLP, name)).error
    assert error.code == base.ERROR_MODEL_LOAD and error.message
    assert str(start.folder) not in error.message
    assert load(attached, service.keep(MLP)).WhichOneof("body") == "loaded"


def test_files_must_be_what_was_said(service, start):
    start()
    attached = service.worker()
    begin(attached)
    file = service.keep(MLP)

    def refused(**change):
        wrong = pb.ModelFile()
        wrong.CopyFrom(file)
        for key, value in change.items():
            setattr(wrong, key, value)
        return load(attached, wrong).error.message

    other = hashlib.sha256(b"other").digest()
    service.files[other] = MLP
    assert "another hash" in refused(sha256=other)
    assert "longer" in refused(bytes=len(MLP) - 1)
    assert "shorter" in refused(bytes=len(MLP) + 1)
    assert "bytes instead of 32" in refused(sha256=b"short")
    assert "no room" in refused(bytes=1 << 60)
    assert "no such blob" in refused(sha256=bytes(32))
    assert "between 1 and 4096 files" in load(attached).error.message
    assert "two files" in load(attached, file, file).error.message
    assert load(attached, file).WhichOneof("body") == "loaded"


def test_sessions_are_checked(service, start):
    start()
    attached = service.worker()
    x = np.zeros((1, 4), np.float32)
    for body in ({"load": pb.Load(model_id=1, backend=0, format=ONNX)},
                 {"run": run_of(x)}, {"spawn": pb.Spawn(backend=0)}):
        assert attached.ask(**body).error.message == "no session has begun"
    assert "there is no" in begin(attached, spec(hardware="local")).error.message
    assert "no software" in begin(attached, spec("tvm-cpu")).error.message
    for option in ("lib", "custom_ops", "save_optimised"):
        assert "names a file" in begin(attached, spec(**{option: "/tmp/x.so"})).error.message
    assert "no option" in begin(attached, spec(colour="red")).error.message
    assert begin(attached, spec("onnxrt-cpu[threads=1]")).error.message
    assert "from outside" in begin(attached, folder="/tmp").error.message
    wrong = pb.Begin(session=b"short", backends=[spec()])
    assert "instead of 16" in attached.ask(begin=wrong).error.message
    endless = pb.Begin(session=SESSION, backends=[spec()], timeout_s=float("nan"))
    assert "out of range" in attached.ask(begin=endless).error.message
    assert begin(attached).done
    assert "another session" in begin(attached).error.message
    assert "another session" in attached.ask(end=pb.End(session=bytes(16))).error.message
    assert "can't hand" in attached.ask(spawn=pb.Spawn(backend=0)).error.message
    assert "no backend 7" in load(attached, service.keep(MLP), backend=7).error.message
    assert "no backend 7" in attached.ask(run=run_of(x, backend=7)).error.message
    assert "no input 'z'" in load(attached, service.keep(MLP), input_names=["z"]).error.message
    assert "takes ONNX" in attached.ask(load=pb.Load(
        model_id=1, backend=0, format=base.MODEL_FORMAT_FXPROTO,
        files=[service.keep(MLP)])).error.message
    load(attached, service.keep(MLP))
    assert "1 inputs, 2 were given" in attached.ask(run=run_of(x, x)).error.message
    bad = run_of(x)
    bad.inputs[0].tensor.shape[0] = 2
    assert "bytes" in attached.ask(run=bad).error.message
    wrong_shape = attached.ask(run=run_of(np.zeros((1, 5), np.float32))).error
    assert wrong_shape.code == base.ERROR_MODEL_INFERENCE
    assert attached.ask(run=run_of(x)).ran.run_times_nanos


def test_a_crash_costs_one_run(service, start):
    start(*fault("abort"), env={**FAULT_ENV, "PRONY_FAULT_RUN": "2"})
    attached = service.worker()
    begin(attached)
    load(attached, service.keep(FOUR))
    x = np.ones(3, np.float32)
    for _ in range(2):
        assert numbers(attached.ask(run=run_of(x, outputs=True)).ran.outputs[0])[0] == 4
        error = attached.ask(run=run_of(x)).error
        assert error.code == base.ERROR_MODEL_INFERENCE and "crashed" in error.message


def test_a_hang_is_cancelled_or_ends_by_itself(service, start):
    worker = start(*fault("hang"), env={**FAULT_ENV, "PRONY_FAULT_RUN": "1"})
    attached = service.worker()
    begin(attached)
    load(attached, service.keep(FOUR))
    x = np.ones(3, np.float32)
    assert "took longer than" in attached.ask(run=run_of(x, timeout_s=0.3)).error.message
    hanging = attached.send(run=run_of(x))
    waiting = attached.send(run=run_of(x))
    attached.send(cancel=pb.Cancel(id=waiting))
    # The run that timed out took its process along: a new one means that this one has begun.
    assert until(lambda: executors_below(worker.process.pid))
    attached.send(cancel=pb.Cancel(id=hanging))
    assert "interrupted" in attached.report(hanging).error.message
    assert "cancelled before it began" in attached.report(waiting).error.message
    # The end of a session waits for nothing either.
    attached.send(run=run_of(x))
    attached.send(cancel=pb.Cancel(id=attached.last_id))
    attached.report()
    assert attached.ask(end=pb.End(session=SESSION)).done


def measurement(service, repeats=30, **more):
    settings = {"seed": 0, "precision": None, "smallest_difference": None, "launches": 1,
                "repeats": repeats, "warmups": 1, "max_time_s": None, "tolerance": None,
                "reference": None}
    request = pb.MeasureRequest(session_uuid=SESSION, model_id=1,
                                model_file=more.pop("model_file", "model.onnx"),
                                settings=json.dumps(settings), **more)
    return pb.MeasureModel(request=request, files=[service.keep(MLP)])


def events(attached, number):
    found = []
    while (report := attached.report(number)).WhichOneof("body") == "event":
        found.append(report.event)
    return found, report


def test_measures(service, start):
    start()
    attached = service.worker()
    begin(attached, spec(), spec(threads="1"))
    found, last = events(attached, attached.send(measure=measurement(service, dims=["batch=2"])))
    assert last.done and all(e.hardware == "r6i.large" for e in found)
    progress = json.loads(next(e.progress for e in found if e.progress))
    assert progress["backend"].startswith("r6i.large/onnxrt-cpu") and progress["rows"] == 2
    text = found[-1].result.decode()
    profile = json.loads(text)
    assert profile["schema"] == "prony.profile/1"
    names = [r["backend"]["name"] for r in profile["results"]]
    assert names == ["r6i.large/onnxrt-cpu", "r6i.large/onnxrt-cpu[threads=1]"]
    assert profile["results"][0]["backend"]["processor"] == "Intel Ice Lake CPU"
    assert profile["results"][0]["stats"]["median_ns"] > 0
    assert profile["settings"]["repeats"] == 30
    assert str(start.folder) not in text and os.path.dirname(ORT) not in text


def test_measurements_are_checked(service, start):
    start()
    attached = service.worker()
    begin(attached)
    for more in ({"model_file": "../x"}, {"inputs": ["x=@/etc/passwd"]},
                 {"inputs": ["a=b=@../x.npy"]}, {"inputs_folder": "/etc"}, {"settings_": "{"},
                 {"load": "{}"}, {"resume": b"{}"}, {"timeout_s": -1}):
        settings = more.pop("settings_", None)
        wanted = measurement(service, **more)
        if settings:
            wanted.request.settings = settings
        found, last = events(attached, attached.send(measure=wanted))
        assert last.done and len(found) == 1
        assert found[0].error.message and str(start.folder) not in found[0].error.message
    assert begin(attached).error.message  # it is still there


def test_a_measurement_is_cancelled(service, start):
    worker = start(*fault("sleep"), env=FAULT_ENV)
    attached = service.worker()
    begin(attached)
    number = attached.send(measure=measurement(service))
    assert attached.report(number).event.progress
    attached.send(cancel=pb.Cancel(id=number))
    while (report := attached.report(number)).WhichOneof("body") == "event":
        pass
    assert "interrupted" in report.error.message
    assert attached.ask(end=pb.End(session=SESSION)).done
    assert until(lambda: not executors_below(worker.process.pid))
    assert not list(start.folder.iterdir())


def test_comes_back(service, start):
    worker = start()
    attached = service.worker()
    begin(attached)
    load(attached, service.keep(MLP))
    service.stop()
    # Whatever happens to the service, nothing of the session is left.
    assert until(lambda: not list(start.folder.iterdir()))
    assert not executors_below(worker.process.pid)
    service.start()
    attached = service.worker()
    assert begin(attached).done
    attached.end()
    assert service.worker().hello.hardware == "r6i.large"


def test_nothing_is_left_of_one_that_is_killed(service, start):
    worker = start()
    attached = service.worker()
    begin(attached)
    assert load(attached, service.keep(MLP)).WhichOneof("body") == "loaded"
    executors = executors_below(worker.process.pid)
    assert executors and [p for p in start.folder.rglob("*") if p.is_file()]
    worker.signal(signal.SIGKILL)
    assert until(lambda: not list(start.folder.iterdir()))
    assert until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in executors))


def test_leaves_when_told(service, start):
    worker = start()
    attached = service.worker()
    worker.signal(signal.SIGINT)
    assert attached.report().leaving
    status, said = worker.wait()
    assert status == 0 and "worker.left" in said
    worker = start()
    attached = service.worker()
    attached.send(leave=pb.Leave())
    assert attached.report().leaving
    assert worker.wait()[0] == 0


def tell_all(pid):
    """SIGTERM for a process and all below it, as Slurm ends a job, and systemd a unit."""
    for below in [pid, *below_of(pid)]:
        os.kill(below, signal.SIGTERM)


@pytest.mark.parametrize("tell", [lambda pid: os.kill(pid, signal.SIGTERM), tell_all])
def test_lets_a_session_end_before_it_leaves(service, start, tell):
    worker = start()
    attached = service.worker()
    begin(attached)
    load(attached, service.keep(MLP))
    assert executors_below(worker.process.pid)
    tell(worker.process.pid)
    assert attached.report().leaving
    assert attached.ask(run=run_of(np.zeros((1, 4), np.float32))).ran.run_times_nanos
    assert attached.ask(end=pb.End(session=SESSION)).done
    assert worker.wait()[0] == 0


def test_lets_a_measurement_end_before_it_leaves(service, start):
    worker = start()
    attached = service.worker()
    begin(attached)
    number = attached.send(measure=measurement(service, repeats=100000))
    assert attached.report(number).event.progress
    tell_all(worker.process.pid)
    reports = []
    while not {"done", "leaving"} <= {r.WhichOneof("body") for r in reports}:
        reports.append(attached.report())
    result = [r.event.result for r in reports if r.event.result]
    assert json.loads(result[0])["results"][0]["stats"]["median_ns"] > 0
    assert attached.ask(end=pb.End(session=SESSION)).done
    assert worker.wait()[0] == 0


def test_the_second_signal_ends_a_session(service, start):
    worker = start(*fault("hang"), env={**FAULT_ENV, "PRONY_FAULT_RUN": "1"})
    attached = service.worker()
    begin(attached)
    load(attached, service.keep(FOUR))
    attached.send(run=run_of(np.ones(3, np.float32)))
    until(lambda: executors_below(worker.process.pid))
    worker.signal()
    worker.signal(signal.SIGINT)
    assert worker.wait()[0] == 0
    assert not list(start.folder.iterdir())


def test_leaves_when_idle(service, start):
    worker = start("--idle", "0.2")
    assert service.worker().report().leaving
    assert worker.wait()[0] == 0
    service.stop()  # nor does it wait for ever for one that isn't there
    status, said = start("--idle", "0.2").wait()
    assert status == 0 and "worker.disconnected" in said and "worker.left" in said


@pytest.mark.parametrize("code, text", [
    (grpc.StatusCode.UNAUTHENTICATED, "no such token"),
    (grpc.StatusCode.FAILED_PRECONDITION, "the service is prony 9.9.9, the worker prony 0.2.0"),
])
def test_a_refusal_is_final(service, start, code, text):
    service.refuse = (code, text)
    status, said = start().wait()
    assert status == 1
    assert f"refuses this worker: {text}" in said.splitlines()[-1]


def test_tries_again(service, start, tmp_path):
    service.stop()
    worker = start()
    line = worker.process.stderr.readline()
    while "worker.disconnected" not in line:
        assert line, "it gave up"
        line = worker.process.stderr.readline()
    assert "again_in_s=" in line
    worker.signal()
    assert worker.wait()[0] == 0


def test_hands_executors_over(service, start):
    """A worker that the service started."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.send(b"the key")
    worker = start(env={"PRONY_WORKER_HANDOFF": str(theirs.fileno())}, pass_fds=[theirs.fileno()])
    theirs.close()
    attached = service.worker()
    assert attached.hello.key == "the key"
    assert begin(attached, folder=str(start.folder)).done
    for expected in (1, 2):
        assert attached.ask(spawn=pb.Spawn(backend=0)).spawned.handle == expected
        assert int.from_bytes(ours.recv(64), "little") == expected
        _, fds, _, _ = socket.recv_fds(ours, 1 << 16, 16)
        assert len(fds) >= 6
        for fd in fds:
            os.close(fd)
    assert executors_below(worker.process.pid)
    # The service dies, and with it all that was its own.
    ours.close()
    assert worker.wait()[0] == 0
    assert [p.name for p in start.folder.iterdir()] == []


@pytest.mark.parametrize("arguments, message", [
    ([], "--server ADDR is missing"),
    (["--server", "127.0.0.1:1"], "--hardware NAME is missing"),
    (["--server", "example.org:1", "--hardware", "x", "--insecure", "--token-file", "token"],
     "without TLS"),
    (["--server", "127.0.0.1:1", "--hardware", "x", "--token-file", "none"], "'none'"),
    (["--server", "127.0.0.1:1", "--hardware", "x", "--token-file", "empty"], "has no token"),
    (["--server", "127.0.0.1:1", "--hardware", "x", "--join-file", "empty"], "'empty' has no key"),
    (["--server", "127.0.0.1:1", "--hardware", "x", "--join-file", "-"], "'standard input' has no key"),
    (["--server", "example.org:1", "--hardware", "x", "--insecure", "--join-file", "token"],
     "without TLS"),
    (["--server", "127.0.0.1:1", "--hardware", "x", "--join-file", "token", "--token-file", "token"],
     "can't be used together"),
])
def test_misuse(prony, workdir, arguments, message):
    (workdir / "token").write_text("secret\n")
    (workdir / "empty").write_text("\n")
    done = prony("worker", *arguments)
    assert done.status in (1, 2) and message in done.stderr and "secret" not in done.stderr


def test_check_lists_the_protections(prony):
    done = prony("worker", "--check")
    assert done.status == 0
    assert {"landlock", "seccomp", "no_new_privs"} <= {line.split()[0] for line in
                                                       done.stdout.splitlines()}
