"""Who is served first, with users of their own: fair shares, over the wire."""
import contextlib
import signal
import sqlite3
import time

from service import LOCAL, Session, eventually, make_certificate, serving

CONFIG = """
listen: 127.0.0.1:0
tls: {certificate: cert.pem, key: key.pem}
pools:
  - {name: local, count: 1}
queue: %s
"""


class User:
    """A client, and the sessions that it asked for."""

    def __init__(self, client):
        self.client = client
        self.sessions = []

    def ask(self):
        reply = self.client.create(LOCAL).result_value
        self.sessions.append(Session(self.client, reply.session_uuid, 1))
        return reply

    def states(self):
        return sorted((s.state, s.place) for s in self.client.status().sessions)

    def close(self):
        for session in self.sessions:
            session.close()


@contextlib.contextmanager
def service_of(folder, queue, *names):
    """A service, and its users; they close what they asked for."""
    folder.mkdir(exist_ok=True)
    certificate, _ = make_certificate(folder)
    with serving(folder, config=CONFIG % queue) as service, contextlib.ExitStack() as stack:
        users = [User(stack.enter_context(service.client(service.token(name), certificate)))
                 for name in names]
        yield service, *users
        for user in users:
            user.close()


def test_whoever_floods_a_fair_queue_waits_for_others(tmp_path):
    for queue, place in (("first-come", 3), ("fair", 1)):
        with service_of(tmp_path / queue, queue, "ann", "bob") as (_, ann, bob):
            assert ann.ask().ready
            for _ in range(2):
                assert not ann.ask().ready
            assert bob.ask().queue.place == place
            ann.sessions.pop(0).close()
            if queue == "fair":
                assert bob.states() == [("ready", 0)]
                assert ann.states() == [("waiting", 1), ("waiting", 2)]


def test_a_reload_makes_the_queue_fair(tmp_path):
    with service_of(tmp_path / "s", "first-come", "ann", "bob") as (service, ann, bob):
        for user in (ann, ann, bob):
            user.ask()
        assert bob.states() == [("waiting", 2)]
        service.config.write_text(CONFIG % "fair")
        service.signal(signal.SIGHUP)
        service.said("queue: fair instead of first-come")
        eventually(lambda: bob.states() == [("waiting", 1)], "bob is ahead")


def test_what_was_had_before_a_restart_counts(tmp_path):
    with service_of(tmp_path / "s", "fair", "cid") as (service, _):
        state = service.state / "state.db"
    now = int(time.time() * 1000)
    with contextlib.closing(sqlite3.connect(state)) as db, db:
        db.execute("INSERT INTO sessions (user, backends, created_ms, ready_ms, ended_ms, models, runs,"
                   " outcome) VALUES ('ann', 'local/onnxrt-cpu, local/openvino-cpu', ?, ?, ?, 0, 0, '')",
                   (now - 7200_000, now - 7200_000, now - 3600_000))
    with service_of(tmp_path / "s", "fair", "dan", "ann", "bob") as (_, dan, ann, bob):
        for user in (dan, ann, bob):
            user.ask()
        assert (bob.states(), ann.states()) == ([("waiting", 1)], [("waiting", 2)])
