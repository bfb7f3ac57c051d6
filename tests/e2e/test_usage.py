"""What users had of the hosts, and what is reserved for them."""
import csv
import io
import json
import signal
import time

import grpc

from conftest import PROGRAM, run_program
from service import LOCAL, Service, base, eventually, make_certificate, own, serving
from test_admin import TLS, admin, hardware, order, refused

PRICED = TLS.replace("count: 1", "count: 1, usd_per_hour: 3600")
HOUR_MS = 3600_000


def now_ms():
    return int(time.time() * 1000)


def reserve(client, target, user, begins_in_ms, ends_in_ms, hosts=None):
    now = now_ms()
    return client.call("Admin", own.AdminRequest(
        action="reserve", target=target, user=user, from_ms=now + begins_in_ms,
        to_ms=now + ends_in_ms, hosts=hosts)).done


def uses(client, since=None):
    return client.call("Usage", own.UsageRequest(since=since)).uses


def users(service, certificate, *names):
    return [service.client(service.token(name, *(["--admin"] if name == "boss" else [])),
                           certificate) for name in names]


def held(client):
    """Opens a session and closes it; the seconds in between, at most."""
    begun = time.monotonic()
    session = client.session(LOCAL)
    session.heartbeat()
    session.close()
    return time.monotonic() - begun


def test_users_see_what_they_had_and_administrators_see_all(tmp_path):
    (tmp_path / "s").mkdir()
    certificate, _ = make_certificate(tmp_path / "s")
    month = time.strftime("%Y-%m", time.gmtime())
    with serving(tmp_path / "s", config=PRICED) as service:
        boss, ann, bob = users(service, certificate, "boss", "ann", "bob")
        with boss, ann, bob:
            most = held(ann) + held(ann)
            held(bob)
            (row,) = uses(ann)
            assert (row.month, row.user, row.hardware, row.sessions) in (
                (month, "ann", "local", 2), (time.strftime("%Y-%m", time.gmtime()), "ann", "local", 2))
            assert 0 < row.host_s <= most and abs(row.usd - row.host_s) < 1e-6
            assert [use.user for use in uses(boss)] == ["ann", "bob"]
            assert uses(boss, since="2999-01") == []
            assert ann.refused("Usage", own.UsageRequest(since="may"))[1] == (
                "'may' is not a month, such as 2026-11")
            before = row.host_s
    # They survive a restart, and go on.
    with serving(tmp_path / "s", config=PRICED) as service:
        boss, ann = users(service, certificate, "boss", "ann")
        with boss, ann:
            held(ann)
            (row,) = uses(ann)
            assert row.sessions == 3 and row.host_s > before


def test_a_session_that_goes_on_is_counted_so_far(tmp_path):
    with serving(tmp_path / "s") as service, service.client() as client:
        session = client.session(LOCAL)
        first = uses(client)[0].host_s
        eventually(lambda: uses(client)[0].host_s > first, "it costs more")
        session.close()


def test_the_command_line_shows_usage(tmp_path):
    with serving(tmp_path / "s") as service, service.client() as client:
        status = [PROGRAM, "status", "--server", service.address, "--usage"]
        assert run_program(status).stdout == "No host was held yet.\n"
        held(client)
        header, *_ = filter(None, run_program(status).stdout.splitlines())
        assert header.split() == ["Month", "User", "Hardware", "Sessions", "Host-hours", "Price", "($)"]
        (row,) = csv.DictReader(io.StringIO(run_program([*status, "--format", "csv"]).stdout))
        assert (row["user"], row["hardware"], row["sessions"]) == ("local", "local", "1")
        assert float(row["host_hours"]) >= 0
        document = json.loads(run_program([*status, "--format", "json"]).stdout)
        assert document["schema"] == "prony.usage/1"
        (use,) = document["uses"]
        assert use["sessions"] == 1 and use["host_s"] > 0 and use["usd"] == 0
        refusal = run_program([*status, "--since", "November"])
        assert refusal.status != 0 and "is not a month" in refusal.stderr
    for words, fault in ((["--since", "2026-11"], "--since is for --usage"),
                         (["--format", "csv"], "--format csv is for --usage"),
                         (["--usage", "--watch"], "--usage cannot be combined with --watch")):
        result = run_program([PROGRAM, "status", *words])
        assert result.status == 2 and fault in result.stderr


def test_a_reserved_host_is_kept_for_its_user(tmp_path):
    (tmp_path / "s").mkdir()
    certificate, _ = make_certificate(tmp_path / "s")
    with serving(tmp_path / "s", config=TLS) as service:
        boss, ann, bob = users(service, certificate, "boss", "ann", "bob")
        with boss, ann, bob:
            done = reserve(boss, "local", "bob", -1000, HOUR_MS)
            assert done.startswith("reservation 1: 1 host of local for bob, 20")
            waiting = ann.create(LOCAL).result_value
            assert not waiting.ready
            assert waiting.queue.note.startswith("1 host is reserved for others, until 20")
            session = bob.session(LOCAL)  # passes who came before
            session.close()
            (row,) = ann.status().reservations
            assert row.active and not row.HasField("user")
            assert boss.status().reservations[0].user == "bob"
            assert not ann.status().sessions[0].state == "ready"
            assert order(boss, "cancel", "1") == "cancelled reservation 1"
            eventually(lambda: ann.status().sessions[0].state == "ready", "it is anybody's")
            order(boss, "close", boss.status().sessions[0].id)
            assert refused(boss, "cancel", "1")[0] == grpc.StatusCode.NOT_FOUND
            assert refused(ann, "reserve", "local")[0] == grpc.StatusCode.PERMISSION_DENIED


def test_reservations_begin_end_and_survive_a_restart(tmp_path):
    (tmp_path / "s").mkdir()
    certificate, _ = make_certificate(tmp_path / "s")
    service = Service(tmp_path / "s", config=TLS)
    try:
        (boss,) = users(service, certificate, "boss")
        with boss:
            host = boss.status().workers[0].name
            reserve(boss, host, "bob", HOUR_MS, 2 * HOUR_MS)
            reserve(boss, "local", "bob", -1000, HOUR_MS)
            reserve(boss, "local", "ann", 300, 1500)
            service.said("reservation.begin id=3")
            service.said("reservation.end id=3")
            assert [r.active for r in boss.status().reservations] == [True, False]
            for fields, fault in ((("local", "bob", 10, 10), "must end after it begins"),
                                  (("local", "bob", -10, -5), "would be over already"),
                                  (("nowhere", "bob", 0, 1000), "there is no pool or worker 'nowhere'"),
                                  (("local", "", 0, 1000), "needs a user")):
                target, user, begins, ends = fields
                now = now_ms()
                assert fault in boss.refused("Admin", own.AdminRequest(
                    action="reserve", target=target, user=user, from_ms=now + begins,
                    to_ms=now + ends))[1]
        service.signal(signal.SIGKILL)
        service.wait()
    finally:
        service.kill()
    with serving(tmp_path / "s", config=TLS) as again:
        (ann,) = users(again, certificate, "ann")
        with ann:
            waiting = ann.create(LOCAL).result_value
            assert not waiting.ready and "reserved for others" in waiting.queue.note
            assert len(ann.status().reservations) == 2
            ann.call("CloseSession",
                     base.CloseSessionRequest(session_uuid=waiting.session_uuid))


def test_the_command_line_reserves(tmp_path):
    with serving(tmp_path / "s") as service, service.client() as client:
        assert admin(service, "reserve", "local", "--user", "ann", "--for", "2h").startswith(
            "reservation 1: 1 host of local for ann, ")
        assert hardware(client).free == 0
        shown = run_program([PROGRAM, "status", "--server", service.address]).stdout
        assert "Reserved" in shown and "ann" in shown
        assert admin(service, "cancel", "1") == "cancelled reservation 1\n"
        assert hardware(client).free == 1
        assert admin(service, "reserve", "local", "--user", "ann", "--from", "2999-01-01 10:00", "--to",
                     "2999-01-01 11:00", status=2)
    for words, fault in ((["reserve", "local"], "'reserve' needs --user"),
                         (["reserve", "local", "--user", "a"], "needs either --to or --for"),
                         (["pause", "local", "--user", "a"], "are for 'reserve'"),
                         (["reserve", "local", "--user", "a", "--to", "noon", "--server", "x:1"],
                          "--to: 'noon' is not a time")):
        result = run_program([PROGRAM, "admin", *words])
        assert result.status == 2 and fault in result.stderr, result.stderr
