"""What an administrator does to a running service, over the wire and from the command line."""
import grpc

from conftest import PROGRAM, run_program
from service import LOCAL, SMALL, Program, Session, base, eventually, make_certificate, own, serving

LAB = "lab/onnxrt-cpu"
TWO = "listen: 127.0.0.1:0\npools:\n  - {name: local, count: 1}\n  - {name: lab}\n"
TLS = """
listen: 127.0.0.1:0
tls: {certificate: cert.pem, key: key.pem}
pools:
  - {name: local, count: 1}
"""


def order(client, action, target=None, text=None):
    return client.call("Admin", own.AdminRequest(action=action, target=target, text=text)).done


def refused(client, action, target=None, text=None):
    return client.refused("Admin", own.AdminRequest(action=action, target=target, text=text))


def worker(client, hardware="local"):
    """The one of that hardware."""
    return next(w for w in client.status().workers if w.hardware == hardware)


def hardware(client, name="local"):
    return next(h for h in client.status().hardware if h.name == name)


def admin(service, *words, status=0):
    result = run_program([PROGRAM, "admin", *words, "--server", service.address])
    assert result.status == status, result.stderr
    return result.stderr if status else result.stdout


def test_a_session_is_closed_and_its_client_is_told(tmp_path):
    with serving(tmp_path / "s") as service, service.client() as client:
        session = client.session()
        label = client.status().sessions[0].id
        assert order(client, "close", label) == f"closed session {label} of local"
        code, text = client.refused("Heartbeat", base.HeartbeatRequest(session_uuid=session.uuid))
        assert code == grpc.StatusCode.FAILED_PRECONDITION
        assert text == "there is no such session: it ended, closed by an administrator"
        eventually(lambda: hardware(client).free == 1, "the host is free")
        assert refused(client, "close", label)[0] == grpc.StatusCode.NOT_FOUND


def test_a_paused_pool_grants_nothing_until_it_is_resumed(tmp_path):
    with serving(tmp_path / "s") as service, service.client() as client:
        held = client.session()
        assert order(client, "pause", "local") == "paused pool local"
        held.load(SMALL)  # who holds a host keeps it
        held.close()
        eventually(lambda: hardware(client).free == 1, "the host is back")
        waiting = client.create(LOCAL).result_value
        assert not waiting.ready and waiting.queue.note == "paused by an administrator"
        row = hardware(client)
        assert row.paused and row.note == "paused by an administrator" and row.waiting == 1
        order(client, "resume", "local")
        assert client.status().sessions[0].state == "ready"
        assert not hardware(client).paused
        order(client, "close", client.status().sessions[0].id)
        assert refused(client, "pause", "nowhere") == (
            grpc.StatusCode.NOT_FOUND, "there is no pool 'nowhere'")


def test_a_disabled_host_takes_no_session_until_it_is_enabled(tmp_path):
    with serving(tmp_path / "s") as service, service.client() as client:
        held = client.session()
        row = worker(client)
        assert (row.state, row.user) == ("held", "local") and row.HasField("held_ms")
        assert order(client, "disable", row.id) == f"disabled {row.id}"
        assert (worker(client).state, worker(client).note) == ("held", "disabled")
        held.load(SMALL)
        held.close()
        eventually(lambda: worker(client).state == "disabled", "the session has left")
        assert not client.create(LOCAL).result_value.ready
        order(client, "enable", row.name)  # by the host's name, too
        assert client.status().sessions[0].state == "ready"
        order(client, "close", client.status().sessions[0].id)
        assert refused(client, "disable", "w99")[1] == "there is no worker 'w99'"


def test_a_drained_worker_leaves_after_its_session(tmp_path):
    with serving(tmp_path / "s", config=TWO) as service, service.client() as client:
        code, text = refused(client, "drain", worker(client).id)
        assert code == grpc.StatusCode.INVALID_ARGUMENT and "disable it" in text
        program = Program([PROGRAM, "worker", "--server", service.address, "--hardware", "lab"])
        try:
            service.said("worker.joined hardware=lab")
            session = client.session(LAB)
            assert order(client, "drain", worker(client, "lab").id)
            assert worker(client, "lab").note == "draining"
            session.load(SMALL)  # it has the host until it ends
            assert program.process.poll() is None
            session.close()
            assert program.wait() == 0
            left = client.create(LAB).result_value  # the pool is still configured
            assert not left.ready and left.queue.note == "no worker is connected"
            Session(client, left.session_uuid, 1).close()
            free = Program([PROGRAM, "worker", "--server", service.address, "--hardware", "lab"])
            service.said("worker.joined hardware=lab", after=len(service.log))
            order(client, "drain", worker(client, "lab").id)
            assert free.wait() == 0
        finally:
            program.kill()


def test_clients_show_a_notice(tmp_path):
    (tmp_path / "model.onnx").write_bytes(SMALL)
    with serving(tmp_path / "s") as service, service.client() as client:
        text = "down for an upgrade at 18:00"
        assert order(client, "notice", text=text) == "clients are shown the notice"
        session = client.session()
        assert session.heartbeat().notice == text
        session.close()
        profile = [PROGRAM, "profile", tmp_path / "model.onnx", "--server", service.address,
                   "--backend", LOCAL, "--repeats", "2", "--launches", "1"]
        shown = run_program(profile)
        assert f"prony: notice: {text}\n" in shown.stderr and shown.status == 0
        status = run_program([PROGRAM, "status", "--server", service.address])
        assert f"Notice: {text}\n" in status.stdout
        assert order(client, "notice") == "there is no notice"
        assert "notice" not in run_program(profile).stderr
        session = client.session()
        assert not session.heartbeat().HasField("notice")
        session.close()
        assert refused(client, "notice", text="a\nb")[1] == "a notice is one line of text"
        assert "more than 1023" in refused(client, "notice", text="x" * 1024)[1]


def test_only_administrators_give_orders(tmp_path):
    (tmp_path / "s").mkdir()
    certificate, _ = make_certificate(tmp_path / "s")
    with serving(tmp_path / "s", config=TLS) as service:
        boss, ann = (service.client(service.token(user, *options), certificate)
                     for user, options in (("boss", ["--admin"]), ("ann", [])))
        with boss, ann:
            session = ann.session()
            label = ann.status().sessions[0].id
            for action in ("close", "disable", "pause", "notice", "nonsense"):
                assert refused(ann, action, label) == (
                    grpc.StatusCode.PERMISSION_DENIED, "this needs an administrator's token")
            session.heartbeat()
            assert refused(boss, "nonsense", "x")[0] == grpc.StatusCode.INVALID_ARGUMENT
            assert refused(boss, "close")[1] == "'close' needs a target"
            assert worker(boss).user == "ann"
            order(boss, "close", label)
            other = boss.session()
            assert not worker(ann).HasField("user")  # is nobody else's business
            other.close()


def test_the_command_line(tmp_path):
    with serving(tmp_path / "s") as service, service.client() as client:
        client.session()
        label = client.status().sessions[0].id
        header, *rows = filter(None, admin(service, "who").splitlines())
        row = next(line for line in rows if label in line)
        assert header.split() == ["Worker", "Host", "Hardware", "State", "User", "Session", "Held",
                                  "for"]
        assert row.split()[2:6] == ["local", "held", "local", label]
        assert admin(service, "pause", "local") == "paused pool local\n"
        assert admin(service, "resume", "local") == "resumed pool local\n"
        assert admin(service, "notice", "hello") == "clients are shown the notice\n"
        assert admin(service, "close", label) == f"closed session {label} of local\n"
        assert "there is no session" in admin(service, "close", label, status=1)
    for words, fault in ((["drain"], "'drain' needs a worker"),
                         (["fly"], "'fly' is not one of who, close"),
                         (["who", "x"], "'who' takes no argument, but there is 'x'"),
                         (["who"], "--server is needed")):
        result = run_program([PROGRAM, "admin", *words])
        assert result.status == 2 and fault in result.stderr
