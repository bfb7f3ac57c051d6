"""What the service survives: executors, workers, connections and the service itself end at random
points, and many clients want the same few hosts. `make soak` runs the loops for longer."""
import concurrent.futures
import contextlib
import datetime
import hashlib
import itertools
import json
import os
import random
import re
import resource
import signal
import sqlite3
import threading
import time

import grpc
import numpy as np
import pytest

from conftest import BUILD, PROGRAM
from profiling import FAULT_ENV
from service import (LOCAL, PATIENCE, SMALL, SOAK, X, Program, Proxy, Service, Session, array, base,
                     blob_files, check_small, endless, eventually, expanding, free_port, many,
                     serving, start_endless_measurement)

Code = grpc.StatusCode
SEED = int(os.environ.get("PRONY_SEED", "1"))
TYPED = (base.ERROR_INTERNAL, base.ERROR_MODEL_INFERENCE, base.ERROR_MODEL_LOAD)
LONG = 14400 if SOAK else 1800


# ---- Executors that end ----

FAULTS = """
limits: {run_timeout: 10s, session_memory: 256 MiB}
"""


class Faults:
    """One kind of fault per method; each returns the call that it happened to."""

    def __init__(self, service, session, draw):
        self.service, self.session, self.draw = service, session, draw

    def run(self, inputs=(X,), model=1, timeout=PATIENCE, **fields):
        return self.session.client.start("Run", self.session.run_request(
            inputs, model=model, mode=base.INFERENCE, **fields), timeout=timeout)

    def at_some_point(self, number, executors=None):
        """A signal to one of the executor's processes, before, in or after a run."""
        run = self.run(repeat_for_milliseconds=30)
        time.sleep(self.draw.uniform(0, 0.06))
        for pid in executors or [self.draw.choice(self.service.children("executor"))]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return run

    def killed(self):
        return self.at_some_point(signal.SIGKILL)

    def crashed(self):
        return self.at_some_point(signal.SIGSEGV)

    def stopped(self):
        """Whoever is stopped is ended: by its limit, or by the client's deadline."""
        executors = self.service.children("executor")[-1:]
        run = self.run(repeat_for_milliseconds=200, timeout=self.draw.choice([0.8, PATIENCE]))
        for pid in executors:
            os.kill(pid, signal.SIGSTOP)
        return run

    def hung(self):
        self.session.load(endless(), model=2)
        return self.run([np.zeros(4, np.float32), np.int64(1 << 60)], model=2, timeout=0.8)

    def out_of_memory(self):
        self.session.load(expanding(), model=3)
        return self.run([np.array([1 << self.draw.randint(27, 40)])], model=3)

    def cancelled(self):
        run = self.run(repeat_for_milliseconds=500)
        time.sleep(self.draw.uniform(0, 0.06))
        run.cancel()
        return run

    KINDS = ("killed", "killed", "crashed", "stopped", "hung", "out_of_memory", "cancelled")


def outcome(run, check, closed=False):
    """0: a result, and it is right; 1: a typed error. Anything else fails the test. `closed`: the session may have
    been closed before the service took the call up."""
    try:
        reply = run.result()
    except (grpc.RpcError, grpc.FutureCancelledError) as error:
        code = error.code() if isinstance(error, grpc.RpcError) else Code.CANCELLED
        late = closed and code == Code.FAILED_PRECONDITION and "it ended, closed" in error.details()
        assert late or code in (Code.DEADLINE_EXCEEDED, Code.CANCELLED), error
        return 1
    result, = reply.result_per_backend
    if result.HasField("error_value"):
        assert result.error_value.code in TYPED and result.error_value.message
        assert "\n" not in result.error_value.message
        return 1
    if check:
        check_small(array(result.result_value.outputs[0].tensor))
    return 0


def fault_once(service, client, kind, draw):
    """Returns how many errors that made. The hardware is there again when its session is closed."""
    session = client.session()
    session.load(SMALL)
    faults = Faults(service, session, draw)
    run = getattr(faults, kind)()
    errors = outcome(run, kind not in ("hung", "out_of_memory"))
    if kind in ("hung", "out_of_memory"):
        assert errors == 1
    # One error is the most that a fault costs, now or a moment later; the session goes on.
    errors += sum(outcome(faults.run(), True) for _ in range(6))
    assert errors <= 1, kind
    session.close()
    client.session().close()
    return errors


@pytest.mark.timeout(LONG)
def test_executors_that_end(tmp_path):
    draw = random.Random(SEED)
    with serving(tmp_path / "s", config=FAULTS) as service, service.client() as client:
        errors = [fault_once(service, client, Faults.KINDS[i % len(Faults.KINDS)], draw)
                  for i in range(many(21, 300))]
        assert sum(errors) > len(errors) / 2, "the faults were none"
        # Nothing piles up: one worker, and no executor without a session.
        eventually(lambda: not service.children("executor"), "executors are gone")
        assert len(service.children("worker")) == 1
        assert len(os.listdir(f"/proc/{service.pid}/fd")) < 100


@pytest.mark.timeout(LONG)
def test_workers_that_end(tmp_path):
    """The session is told, and the service starts another worker."""
    draw = random.Random(SEED)
    with serving(tmp_path / "s") as service, service.client() as client:
        for _ in range(many(3, 40)):
            session = client.session()
            session.load(SMALL)
            joined = len(service.log)
            run = client.start("Run", session.run_request([X], repeat_for_milliseconds=100))
            time.sleep(draw.uniform(0, 0.1))
            os.kill(service.children("worker")[0], draw.choice([signal.SIGKILL, signal.SIGABRT]))
            outcome(run, False)
            service.said("worker.lost", after=joined)
            code = session.run([X])[0].error_value.code
            assert code == base.ERROR_INTERNAL
            session.heartbeat()
            session.close()
            service.said("worker.joined", after=joined)
            session = client.session()
            session.load(SMALL)
            check_small(session.infer([X])[0][0])
            session.close()


@pytest.mark.parametrize("busy", ["run", "measure", "nothing"])
def test_worker_that_hangs_is_replaced(tmp_path, busy):
    """Who works on it, and who comes later, is told why; who waits gets the next one."""
    with serving(tmp_path / "s") as service, service.client() as client:
        session = client.session(LOCAL)
        session.load(endless())
        waiting = Session(client, client.create(LOCAL).result_value.session_uuid, 1)
        hung, = service.children("worker")
        forever = [np.zeros(4, np.float32), np.int64(1 << 60)]
        begun = None
        if busy == "run":
            begun = client.start("Run", session.run_request(forever))
        elif busy == "measure":
            begun = start_endless_measurement(session)
        os.kill(hung, signal.SIGSTOP)
        service.said("worker.hung")
        if busy == "run":
            result, = begun.result().result_per_backend
            assert "its worker stopped answering" in result.error_value.message
        elif busy == "measure":
            assert "its worker stopped answering" in str(list(begun)[-1])
        later = session.run([X])[0].error_value
        assert "its worker stopped answering" in later.message, later
        session.close()
        waiting.wait()
        waiting.load(SMALL)
        check_small(waiting.infer([X])[0][0])
        waiting.close()
        assert hung not in service.children("worker")


# ---- Small runs, for which the network's thread itself waits ----

class Crowd:
    """Small runs of one session, several at a time; each has inputs of its own."""

    AT_ONCE, EACH = 4, 40

    def __init__(self, session):
        self.session, self.begun = session, threading.Event()
        self.errors, self.refused = 0, 0
        self.lock = threading.Lock()

    def start(self, x, timeout=PATIENCE):
        return self.session.client.start("Run", self.session.run_request(
            [x], mode=base.INFERENCE), timeout=timeout)

    def run(self, number):
        for i in range(self.EACH):
            x = X * (number + 10 * i)
            run = self.start(x)
            try:
                result, = run.result().result_per_backend
            except grpc.RpcError as error:
                assert error.code() == Code.FAILED_PRECONDITION, error  # it was closed
                with self.lock:
                    self.refused += 1
                continue
            finally:
                self.begun.set()
            if result.HasField("error_value"):
                assert result.error_value.code in TYPED and result.error_value.message
                with self.lock:
                    self.errors += 1
            else:
                check_small(array(result.result_value.outputs[0].tensor), x)

    def disturb(self, kind, service, draw):
        assert self.begun.wait(PATIENCE)
        time.sleep(draw.uniform(0, 0.02))
        if kind == "closed":
            self.session.close()
        for _ in range(20 if kind == "cancelled" else 0):
            run = self.start(X)
            time.sleep(draw.uniform(0, 0.001))
            run.cancel()
        if kind in ("killed", "stopped"):
            number = signal.SIGKILL if kind == "killed" else signal.SIGSTOP
            with contextlib.suppress(ProcessLookupError):
                os.kill(draw.choice(service.children("executor")), number)
        if kind == "late":
            late = [self.start(X, draw.uniform(0.0002, 0.003)) for _ in range(20)]
            for run in late:
                outcome(run, True)


def test_a_worker_that_cannot_be_started_is_tried_ever_more_rarely(tmp_path):
    with serving(tmp_path, config="log: json\n") as service:
        limits = resource.prlimit(service.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(service.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        os.kill(service.children("worker")[0], signal.SIGKILL)
        tries = eventually(lambda: found if len(found := [
            datetime.datetime.fromisoformat(json.loads(line)["time"]).timestamp()
            for line in service.log if line and '"worker.start"' in line]) >= 4 else None,
            "four failures are logged")
        resource.prlimit(service.pid, resource.RLIMIT_NOFILE, limits)
        gaps = [after - before for before, after in itertools.pairwise(tries)]
        assert all(gap > least for gap, least in zip(gaps, (0.39, 0.79, 1.59))), gaps
        eventually(lambda: service.children("worker"), "it is started when that is possible")


@pytest.mark.timeout(LONG)
def test_small_runs_that_are_disturbed(tmp_path):
    """One fault costs what was under way; nothing is wrong, nobody waits for ever, and it goes on."""
    draw = random.Random(SEED)
    kinds = ("killed", "stopped", "cancelled", "late", "closed")
    with serving(tmp_path / "s", config=FAULTS) as service, service.client() as client, \
            concurrent.futures.ThreadPoolExecutor(Crowd.AT_ONCE) as pool:
        for i in range(many(10, 200)):
            kind = kinds[i % len(kinds)]
            session = client.session()
            session.load(SMALL)
            session.infer([X])  # from here on it is known to be quick
            crowd = Crowd(session)
            runs = [pool.submit(crowd.run, number) for number in range(Crowd.AT_ONCE)]
            crowd.disturb(kind, service, draw)
            for run in runs:
                run.result(PATIENCE)
            assert crowd.refused == 0 or kind == "closed"
            most = {"closed": Crowd.AT_ONCE, "killed": 1, "stopped": 1}
            assert crowd.errors <= most.get(kind, 0), kind
            if kind != "closed":
                check_small(session.infer([X])[0][0])
                session.close()
        eventually(lambda: not service.children("executor"), "executors are gone")
        eventually(lambda: client.status().hardware[0].free == 1, "the host is free")


@pytest.mark.timeout(LONG)
def test_executors_that_hang_up_hold_nobody_up(tmp_path):
    """What became of such a process isn't for the network's threads to wait for: the service has two,
    and one of these each would be enough to keep everybody waiting."""
    fault = BUILD / "tests/fault/fault-deaf.so"
    config = "pools:\n  - {name: local, count: 3}\n"
    env = {**FAULT_ENV, "PRONY_FAULT_RUN": "3"}
    with serving(tmp_path / "s", "--ort-lib", fault, config=config, env=env) as service, \
            contextlib.ExitStack() as stack:
        clients = [stack.enter_context(service.client()) for _ in range(4)]
        sessions = [client.session() for client in clients[:3]]
        for session in sessions:
            session.load(SMALL)
            for _ in range(2):
                check_small(session.infer([X])[0][0])
        runs = [session.client.start("Run", session.run_request([X])) for session in sessions]
        answers = 0
        while not all(run.done() for run in runs):
            clients[3].ping()
            answers += 1
        # Those who wait for one wait a second each, and nobody waits for them.
        assert answers > 3
        for run in runs:
            result, = run.result().result_per_backend
            assert "cut the executor's connection" in result.error_value.message
        for session in sessions:
            check_small(session.infer([X])[0][0])
            session.close()


# ---- The service itself is killed ----

def check_blobs(service, acknowledged, unfinished):
    """What was acknowledged is there and whole; nothing else can be had."""
    with service.client() as client:
        session = client.session()
        for i, data in enumerate(acknowledged):
            session.cached(data, name=f"again/{i}")
        for data in unfinished:
            with contextlib.suppress(grpc.RpcError):
                session.cached(data, name="half")
                # It was finished, and only the answer was lost: then it is whole.
                assert hashlib.sha256(data).hexdigest() in blob_files(service)
        session.close()
    for name, path in blob_files(service).items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == name


@pytest.mark.timeout(LONG)
def test_service_that_is_killed(tmp_path):
    draw = random.Random(SEED)
    acknowledged = []
    # A short lease, so that sessions of the process before, which nobody comes back for, are soon gone.
    config = "lease: 1s\n"
    for _ in range(many(8, 100)):
        service = Service(tmp_path / "s", config=config)
        try:
            eventually(lambda service=service: not service.session_files(), "they are gone")
            with service.client() as client:
                session = client.session()
                session.load(SMALL)
                begun = threading.Event()
                unfinished = draw.randbytes(12 << 20)
                uploaded = []

                def upload(session=session, uploaded=uploaded):
                    for i in range(10):
                        data = draw.randbytes(draw.randint(0, 2 << 20))
                        with contextlib.suppress(grpc.RpcError):
                            session.upload(data, name=f"w/{i}", model=2)
                            uploaded.append(data)

                def upload_more(session=session, unfinished=unfinished, begun=begun):
                    for chunk in session.chunks(unfinished, model=3):
                        begun.set()
                        yield chunk

                small = threading.Thread(target=upload)
                small.start()
                client.start("LoadModelComponent", upload_more())
                client.start("Run", session.run_request([X], repeat_for_milliseconds=5000))
                assert begun.wait(PATIENCE)
                time.sleep(draw.uniform(0, 0.15))
                os.kill(service.pid, signal.SIGKILL)
                small.join(PATIENCE)
            service.wait()
            service.gone()  # workers and executors don't outlive it
            acknowledged = acknowledged[-5:] + uploaded
            with serving(tmp_path / "s", config=config) as again:
                check_blobs(again, acknowledged, [unfinished])
        finally:
            service.kill()
    names = [path.name for path in (tmp_path / "s/state/blobs").iterdir()]
    assert not [name for name in names if not re.fullmatch("[0-9a-f]{64}", name)], "half blobs"


# ---- Connections that are cut ----

JOINED = """
pools:
  - {name: bench}
"""


@pytest.mark.timeout(LONG)
@pytest.mark.parametrize("way", ["cut", "freeze"])
def test_workers_connection(tmp_path, way):
    """Detected on both sides; the session is told, the slot comes back with the worker."""
    with serving(tmp_path / "s", config=JOINED) as service, service.client() as client:
        proxy = Proxy(service.address)
        worker = Program([PROGRAM, "worker", "--server", proxy.address, "--hardware", "bench",
                          "--insecure"])
        try:
            service.said("worker.joined")
            for _ in range(many(2 if way == "cut" else 1, 20 if way == "cut" else 3)):
                session = client.session("bench/onnxrt-cpu")
                session.load(endless())
                seen = len(service.log)
                run = client.start("Run", session.run_request(
                    [np.zeros(4, np.float32), np.int64(1 << 60)]), timeout=200)
                eventually(lambda: worker.children("executor"), "it runs")
                getattr(proxy, way)()
                result, = run.result().result_per_backend
                assert result.error_value.code == base.ERROR_INTERNAL, result
                assert "lost" in result.error_value.message
                assert "lost" in session.run([X, X])[0].error_value.message
                session.close()
                # The worker finds out, too, and its executors end before it comes back.
                proxy.thaw()
                service.said("worker.joined", after=seen, timeout=200)
                eventually(lambda: not worker.children("executor"), "the executor is gone")
                session = client.session("bench/onnxrt-cpu")
                session.load(SMALL)
                check_small(session.infer([X])[0][0])
                session.close()
        finally:
            proxy.close()
            worker.kill()


@pytest.mark.timeout(LONG)
def test_closing_while_the_worker_is_being_lost(tmp_path):
    """The first of many errors makes the client close, while it is still being told the others."""
    with serving(tmp_path / "s", config=JOINED) as service, service.client() as client:
        proxy = Proxy(service.address)
        worker = Program([PROGRAM, "worker", "--server", proxy.address, "--hardware", "bench",
                          "--insecure"])
        try:
            seen = 0
            for _ in range(many(6, 100)):
                service.said("worker.joined", after=seen)
                session = client.session("bench/onnxrt-cpu")
                session.load(endless())
                told = threading.Event()
                runs = [client.start("Run", session.run_request(
                    [np.zeros(4, np.float32), np.int64(1 << 60)])) for _ in range(64)]
                for run in runs:
                    run.add_done_callback(lambda _, told=told: told.set())
                session.heartbeat()
                seen = len(service.log)
                proxy.cut()
                assert told.wait(PATIENCE)
                session.close()
                assert sum(outcome(run, False, closed=True) for run in runs) == len(runs)
        finally:
            proxy.close()
            worker.kill()


@pytest.mark.timeout(LONG)
def test_clients_connection(tmp_path):
    """A client that comes back within the lease goes on; one that doesn't is forgotten."""
    with serving(tmp_path / "s") as service:
        proxy = Proxy(service.address)
        try:
            with service.client(address=proxy.address) as client:
                session = client.session(LOCAL, lease_s=20)
                session.load(SMALL)
                run = client.start("Run", session.run_request([X], repeat_for_milliseconds=20000))
                eventually(lambda: client.status().sessions[0].idle_ms == 0, "it runs")
                proxy.cut()
                with pytest.raises(grpc.RpcError) as error:
                    run.result()
                assert error.value.code() == Code.UNAVAILABLE

                def again():
                    with contextlib.suppress(grpc.RpcError):
                        return session.infer([X])

                check_small(eventually(again, "it goes on")[0][0])
                session.close()
                client.session(LOCAL, lease_s=1)
            proxy.close()
            with service.client() as other:
                other.session().close()
        finally:
            proxy.close()


# ---- Many clients, few hosts ----

class Visitors:
    """Clients that acquire and release hosts; what each saw, and how many held one at a time."""

    def __init__(self, slots):
        self.slots, self.lock = slots, threading.Lock()
        self.holding, self.most = 0, 0
        self.numbers = itertools.count()
        self.visits = {}  # by the backend's name: when it was asked for, when that was answered

    def visit(self, client, draw):
        backend = f"{LOCAL}[ort.visit={next(self.numbers)}]"  # by which the history knows it
        asked = time.monotonic()
        value = client.create(backend).result_value
        session = Session(client, value.session_uuid, 1)
        self.visits[backend] = asked, time.monotonic()
        if not value.ready and draw.random() < 0.1:
            session.close()  # Ctrl-C in the queue
            return
        if not value.ready:
            place = value.queue.place
            while not (reply := session.wait_once()).ready:
                assert reply.queue.place <= place, "nobody is put in front"
                place = reply.queue.place
        with self.lock:
            self.holding += 1
            self.most = max(self.most, self.holding)
            assert self.holding <= self.slots, "a host was granted twice"
        session.heartbeat()
        with self.lock:
            self.holding -= 1
        session.close()

    def check_order(self, state):
        """Nobody who had an answer before another one asked was granted after that one."""
        with contextlib.closing(sqlite3.connect(state / "state.db")) as history:
            granted = history.execute("SELECT backends, ready_ms FROM sessions WHERE ready_ms > 0 "
                                      "ORDER BY ready_ms DESC").fetchall()
        assert len(granted) >= len(self.visits) * 0.8
        earliest = float("inf")
        for _, together in itertools.groupby(granted, lambda row: row[1]):
            times = [self.visits[backend] for backend, _ in together]
            assert max(asked for asked, _ in times) < earliest, "order was inverted"
            earliest = min(earliest, *(answered for _, answered in times))


@pytest.mark.timeout(LONG)
def test_many_clients_and_two_slots(tmp_path):
    clients, total = 64, many(960, 10000)
    visitors = Visitors(slots=2)
    config = "pools:\n  - {name: local, count: 2}\n"
    with serving(tmp_path / "s", config=config) as service:
        def use(number):
            draw = random.Random(SEED + number)
            with service.client() as client:
                for _ in range(total // clients):
                    visitors.visit(client, draw)

        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            list(pool.map(use, range(clients)))
        assert visitors.most == 2
        assert len(visitors.visits) == total // clients * clients
        with service.client() as client:
            hardware, = client.status().hardware
            assert (hardware.hosts, hardware.free, hardware.waiting) == (2, 2, 0)
    visitors.check_order(service.state)


class Work:
    """What a client does all day, in an order of its own; results must be right."""

    def __init__(self, client, draw):
        self.client, self.draw = client, draw

    def cancelled(self, session):
        run = self.client.start("Run", session.run_request([X], repeat_for_milliseconds=200))
        time.sleep(self.draw.uniform(0, 0.02))
        run.cancel()

    def upload(self, session):
        data = self.draw.randbytes(self.draw.randint(0, 3 << 20))
        session.upload(data, model=2, name=f"w/{self.draw.getrandbits(60)}")
        session.cached(data, model=3, name=f"w/{self.draw.getrandbits(60)}")

    def half_an_upload(self, session):
        def half():
            yield next(session.chunks(b"x" * 1000, model=4, name="half"))
            raise RuntimeError("enough")

        with pytest.raises(grpc.RpcError):
            self.client.call("LoadModelComponent", half())

    def run(self, session):
        check_small(session.infer([X], num_repeats=self.draw.randint(1, 20))[0][0])

    def ask(self, _session):
        self.client.backends()
        self.client.status()

    def day(self):
        backends = [["a/onnxrt-cpu"], ["b/onnxrt-cpu"], ["a/onnxrt-cpu", "b/onnxrt-cpu[threads=1]"]]
        session = self.client.session(*self.draw.choice(backends))
        session.load(SMALL)
        for _ in range(5):
            work = self.draw.choice([self.cancelled, self.upload, self.half_an_upload, self.run,
                                     self.run, self.ask])
            work(session)
        self.run(session)
        if self.draw.random() < 0.8:
            session.close()  # or the lease ends it


@pytest.mark.timeout(LONG)
def test_many_clients_at_work(tmp_path):
    """And the configuration is read again meanwhile, and metrics are."""
    config = (f"http: 127.0.0.1:{free_port()}\nlease: 2s\n"
              "pools:\n  - {name: a, count: 1}\n  - {name: b, count: 1}\n")
    with serving(tmp_path / "s", config=config) as service:
        def use(number):
            draw = random.Random(SEED + number)
            with service.client() as client:
                for _ in range(many(3, 60)):
                    Work(client, draw).day()

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            days = [pool.submit(use, number) for number in range(8)]
            while not all(day.done() for day in days):
                concurrent.futures.wait(days, timeout=0.2)
                service.signal(signal.SIGHUP)
                service.metric("prony_sessions")
            for day in days:
                day.result()
        with service.client() as client:
            eventually(lambda: [h.free for h in client.status().hardware] == [1, 1], "all are free")
            eventually(lambda: not service.session_files(), "the files are gone")
        for name, path in blob_files(service).items():
            assert hashlib.sha256(path.read_bytes()).hexdigest() == name
