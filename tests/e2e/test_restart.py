"""A restart of the service doesn't end the sessions that can go on."""
import contextlib
import signal
import sqlite3

import grpc
import pytest

from conftest import PROGRAM
from service import LOCAL, SMALL, Program, Service, Session, X, base, eventually, free_port

CONFIG = "listen: 127.0.0.1:{port}\npools:\n  - {{name: local, count: 1}}\nlease: 60s\n"


def end(service, how):
    """Killed, or told twice: the second signal says not to wait for sessions."""
    if how == signal.SIGTERM:
        service.signal(how)
        service.said("service.drain")
    service.signal(how)
    service.wait()
    service.gone()


@contextlib.contextmanager
def restarts(tmp_path):
    """Gives a function that starts the service, again and again, at one address."""
    config = CONFIG.format(port=free_port())
    started = []

    def start():
        started.append(Service(tmp_path / "s", config=config))
        return started[-1]

    try:
        yield start
    except BaseException:
        print(*(service.text() for service in started), sep="\n")
        raise
    finally:
        for service in started:
            service.kill()


def again(service, session):
    """The session, as its client sees it through a new connection."""
    return Session(service.client(), session.uuid, 1)


def kept(service):
    """How many sessions, and parts of them, are in the state."""
    with contextlib.closing(sqlite3.connect(service.state / "state.db")) as db:
        return tuple(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
                     for table in ("live_sessions", "live_parts"))


def infer(session, model=1):
    """The outputs for one fixed input."""
    return [out.tolist() for out in session.infer([X], model=model)[0]]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_session_goes_on_with_its_models(tmp_path, how):
    with restarts(tmp_path) as start:
        service = start()
        with service.client() as client:
            session = client.session(LOCAL)
            session.load(SMALL)
            before = infer(session)
            session.load(SMALL, model=2)
        eventually(lambda: kept(service) == (1, 4), "what it has is noted")
        end(service, how)
        service = start()
        service.said("sessions.restored sessions=1")
        session = again(service, session)
        session.wait()
        assert infer(session) == before  # without uploading or loading anything
        assert infer(session, model=2) == before
        session.close()
        eventually(lambda: kept(service) == (0, 0), "it has ended")
        assert session.client.refused("Heartbeat", base.HeartbeatRequest(
            session_uuid=session.uuid))[0] == grpc.StatusCode.FAILED_PRECONDITION
        service.stop()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_those_who_wait_keep_their_places(tmp_path, how):
    with restarts(tmp_path) as start:
        service = start()
        with service.client() as client:
            holder = client.session(LOCAL)
            waiting = [Session(client, client.create(LOCAL).result_value.session_uuid, 1)
                       for _ in range(3)]
            waiting.pop(0).close()
        eventually(lambda: kept(service) == (3, 0), "all are noted")
        end(service, how)
        service = start()
        holder = again(service, holder)
        holder.wait()  # its host is its own again, before those who wait
        waiting = [again(service, session) for session in waiting]
        assert [session.place().queue.place for session in waiting] == [1, 2]
        holder.close()
        waiting[0].wait()
        assert waiting[1].place().queue.place == 1
        for session in waiting:
            session.close()
        service.stop()


def test_a_program_that_waits_or_works_goes_on(tmp_path):
    (tmp_path / "model.onnx").write_bytes(SMALL)
    with restarts(tmp_path) as start:
        service = start()
        with service.client() as client:
            holder = client.session(LOCAL)
            program = Program([PROGRAM, "profile", tmp_path / "model.onnx", "--server", service.address,
                               "--backend", LOCAL, "--repeats", "2", "--launches", "1"])
            try:
                eventually(lambda: len(client.status().sessions) == 2, "it waits")
                eventually(lambda: kept(service) == (2, 0), "both are noted")
                end(service, signal.SIGKILL)
                service = start()
                holder = again(service, holder)
                holder.wait()
                holder.close()
                assert program.wait() == 0, program.text()
            finally:
                program.kill()
        service.stop()
