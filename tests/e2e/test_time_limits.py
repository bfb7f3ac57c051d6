"""Limits of time of sessions: they strike, not without a word before, and work isn't idleness."""
import grpc
import pytest

from conftest import PROGRAM, run_program
from service import SMALL, X, base, eventually, serving

CONFIG = "listen: 127.0.0.1:0\npools:\n  - {{name: local, count: 1{pool}}}\nlimits: {{{limits}}}\n"


def config(limits="", pool=""):
    return CONFIG.format(limits=limits, pool=pool)


def beat(session):
    """The notice of a heartbeat; None when the session has ended."""
    try:
        return session.heartbeat().notice
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.FAILED_PRECONDITION
        return None


def beats_until_the_end(session):
    said = []

    def over():
        said.append(beat(session))
        return said[-1] is None
    eventually(over, "the limit strikes")
    return {text for text in said if text}


def why(session):
    return session.client.refused("Heartbeat", base.HeartbeatRequest(session_uuid=session.uuid))[1]


def test_heartbeats_alone_are_not_work(tmp_path):
    with serving(tmp_path / "s", config=config("session_idle: 4s")) as service:
        with service.client() as client:
            session = client.session()
            text, = beats_until_the_end(session)  # the same one each time
            assert text.startswith("this session ends at ")
            assert text.endswith(" UTC unless it is used: one may be idle for 4 s")
            assert why(session).endswith("it was idle for longer than sessions may be")
            eventually(lambda: client.status().hardware[0].free == 1, "the host is back")


def test_work_puts_the_end_off(tmp_path):
    with serving(tmp_path / "s", config=config("session_idle: 8s")) as service:
        with service.client() as client:
            session = client.session()
            session.load(SMALL)
            eventually(lambda: beat(session), "the end is announced")
            session.infer([X])
            assert beat(session) == ""
            session.close()


def test_the_longest_session(tmp_path):
    with serving(tmp_path / "s", config=config("session_time: 4s")) as service:
        with service.client() as client:
            session = client.session()
            session.load(SMALL)
            said = set()

            def over():
                notice = beat(session)
                said.add(notice)
                if notice is not None:
                    client.start("Run", session.run_request([X], mode=base.INFERENCE)).exception()
                return notice is None
            eventually(over, "the limit strikes, although it works")
            text, = said - {"", None}
            assert text.endswith(" UTC: one may last 4 s")
            assert why(session).endswith("it reached the time limit of sessions")
            # The time in the queue doesn't count, and the next one has its own.
            client.session().close()


@pytest.mark.parametrize("limits, pool, says", [
    ("session_time: 2h", "", "2 h"),
    ("session_time: 2h, per_user: {local: {session_time: 1h}}", "", "1 h"),
    ("session_time: 1h, per_user: {local: {session_time: 2h}}", "", "2 h"),
    ("session_time: 1h, per_user: {local: {session_time: none}}", "", None),
    ("session_time: 1h, per_user: {ann: {session_time: none}}", "", "1 h"),
    ("session_time: 2h", ", session_time: 1h", "1 h"),
    ("session_time: 1h", ", session_time: 2h", "1 h"),
    ("", ", session_idle: 1h", "1 h"),
    ("", "", None)])
def test_the_strictest_holds(tmp_path, limits, pool, says):
    with serving(tmp_path / "s", config=config(limits, pool)) as service:
        with service.client() as client:
            session = client.session()
            note = client.status().sessions[0].note
            assert note.endswith(f" {says}") if says else note == "", note
            assert beat(session) == ""  # it is far away
            session.close()


@pytest.mark.parametrize("limits, fault", [
    ("session_time: 0.1s", "'0.1s' is not between 1 s and"),
    ("session_idle: soon", "'soon' is not a duration such as 30s or 10m"),
    ("per_user: 3", "'per_user': not a map of users and their limits"),
    ("per_user: {ann: {session: 1h}}", "unknown key 'session'")])
def test_faults(tmp_path, limits, fault):
    (tmp_path / "serve.yml").write_text(config(limits))
    result = run_program([PROGRAM, "serve", "--config", tmp_path / "serve.yml", "--state",
                          tmp_path / "state"])
    assert result.status != 0 and fault in result.stderr
