"""Who may do what: tokens, TLS, other people's sessions, and workers' own calls."""
import contextlib
import hashlib
import json
import re
import signal
import socket
import ssl
import threading
import urllib.request

import grpc
import pytest

from conftest import PROGRAM, run_program, sh
from service import (ONNX, PATIENCE, SMALL, X, Client, Program, base, check_small, create_request,
                     eventually, free_port, make_certificate, own, pb, serving)

Code = grpc.StatusCode
LAB = "lab/onnxrt-cpu"
CONFIG = """
listen: 127.0.0.1:0
tls: {certificate: cert.pem, key: key.pem}
pools:
  - {name: lab, count: 1}
  - {name: bench}
log: json
http: 127.0.0.1:%d
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("access")
    make_certificate(folder)
    with serving(folder, config=CONFIG % free_port()) as service:
        service.ca = folder / "cert.pem"
        service.tokens = {user: service.token(user, *options) for user, options in (
            ("ann", ()), ("bob", ()), ("gone", ()), ("root", ["--admin"]), ("host", ["--worker"]))}
        sh(PROGRAM, "token", "revoke", "gone", "--state", service.state)
        yield service


@pytest.fixture
def connect(service):
    """connect("ann"): a client with the user's token, or with any other text as one."""
    clients = []

    def make(user=None):
        clients.append(service.client(service.tokens.get(user, user), service.ca))
        return clients[-1]

    yield make
    for client in clients:
        client.channel.close()


@pytest.fixture
def session(connect):
    session = connect("ann").session(LAB)
    yield session
    session.close()


def requests(uuid):
    """Every call that clients have: its name, and a request that would be right."""
    component = {"session_uuid": uuid, "model_id": 1, "model_component_id": 1,
                 "filename": "model.onnx"}
    return {
        "Ping": base.PingRequest(),
        "ListSupportedBackends": pb.ListSupportedBackendsRequest(),
        "CreateSession": create_request(LAB),
        "Status": own.StatusRequest(),
        "WaitUntilSessionReady": base.WaitUntilSessionReadyRequest(session_uuid=uuid),
        "Heartbeat": base.HeartbeatRequest(session_uuid=uuid),
        "CloseSession": base.CloseSessionRequest(session_uuid=uuid),
        "LoadModelComponent": [base.LoadModelComponentRequest(chunk=SMALL, **component)],
        "LoadCachedModelComponent": base.LoadCachedModelComponentRequest(
            sha256_hash=hashlib.sha256(SMALL).digest(), **component),
        "LoadModel": base.LoadModelRequest(session_uuid=uuid, model_id=1, model_format=ONNX),
        "Run": base.RunRequest(session_uuid=uuid, model_id=1),
        "Runs": [base.RunRequest(session_uuid=uuid, model_id=1)],
        "Measure": own.MeasureRequest(session_uuid=uuid, model_id=1),
    }


WORKERS = {"Attach": [own.WorkerReport(hello=own.Hello(hardware="bench"))],
           "Fetch": own.FetchRequest(sha256=hashlib.sha256(SMALL).digest())}
OF_NOBODY = ("Ping", "ListSupportedBackends", "CreateSession", "Status")
OF_SESSIONS = [name for name in requests(b"") if name not in OF_NOBODY]


def refused(client, name, request):
    # A stream of requests is an iterator for grpcio.
    return client.refused(name, iter(request) if isinstance(request, list) else request)


@pytest.mark.parametrize("who", [None, "wrong", "gone", "prony_" + "0" * 43, " ", "x" * 4000],
                         ids=["none", "wrong", "revoked", "made up", "blank", "long"])
@pytest.mark.parametrize("name", [*requests(b""), *WORKERS])
def test_no_wrong_and_revoked_tokens(connect, session, who, name):
    request = {**requests(session.uuid), **WORKERS}[name]
    assert refused(connect(who), name, request)[0] == Code.UNAUTHENTICATED


@pytest.mark.parametrize("name", OF_SESSIONS)
@pytest.mark.parametrize("who", ["bob", "root"])
def test_sessions_of_others(connect, session, who, name):
    assert refused(connect(who), name, requests(session.uuid)[name])[0] == Code.PERMISSION_DENIED
    session.heartbeat()


@pytest.mark.parametrize("name", OF_SESSIONS)
def test_after_close(connect, name):
    session = connect("ann").session(LAB)
    session.close()
    if name == "CloseSession":
        session.close()
        return
    request = requests(session.uuid)[name]
    assert refused(session.client, name, request)[0] == Code.FAILED_PRECONDITION


@pytest.mark.parametrize("name", [*requests(b""), *WORKERS])
def test_tokens_of_workers_and_of_users(connect, session, name):
    who = "ann" if name in WORKERS else "host"
    request = {**requests(session.uuid), **WORKERS}[name]
    assert refused(connect(who), name, request)[0] == Code.PERMISSION_DENIED


@pytest.mark.parametrize("name", WORKERS)
def test_an_administrator_is_no_worker(connect, session, name):
    assert refused(connect("root"), name, WORKERS[name])[0] == Code.PERMISSION_DENIED


@pytest.mark.parametrize("header", ["Basic {}", "bearer", "Bearer", "Bearer  ", "{}", "Bearer {} {}"])
def test_other_headers(service, connect, header):
    client = connect()
    client.metadata = [("authorization", header.format(*[service.tokens["ann"]] * 2))]
    assert client.refused("Ping", base.PingRequest())[0] == Code.UNAUTHENTICATED


def test_a_token_works_and_the_session_with_it(session):
    session.load(SMALL)
    check_small(session.infer([X])[0][0])


def test_revoking_takes_effect_at_once(service, connect):
    token = service.token("carl")
    client = connect(token)
    session = client.session(LAB)
    sh(PROGRAM, "token", "revoke", "carl", "--state", service.state)
    for name, request in requests(session.uuid).items():
        assert refused(client, name, request)[0] == Code.UNAUTHENTICATED, name
    # Who had one before it was taken away, has none; an administrator sees the session end.
    again = connect(service.token("carl"))
    again.call("CloseSession", base.CloseSessionRequest(session_uuid=session.uuid))


def entries(service, event, after=0):
    return [e for e in map(json.loads, filter(None, service.log[after:])) if e["event"] == event]


def counted(service, name):
    """A metric of the service, which speaks TLS there, too."""
    where = re.search(r"http: (\S+)", service.config.read_text()).group(1)
    trust = ssl.create_default_context(cafile=service.ca)
    with urllib.request.urlopen(f"https://{where}/metrics", timeout=PATIENCE, context=trust) as answer:
        found = re.search(rf"^{re.escape(name)} (\S+)$", answer.read().decode(), re.MULTILINE)
    return float(found.group(1))


def test_changes_of_tokens_are_logged_and_counted(service):
    """Also while nobody calls. The first use of a token is known at once."""
    seen = len(service.log)
    before = [counted(service, f'prony_token_changes_total{{change="{what}"}}')
              for what in ("added", "revoked")]
    token = service.token("dora")
    added = json.loads(service.said('"event":"token".*dora', after=seen))
    assert (added["change"], added["role"]) == ("added", "user")

    def row():
        return next(line for line in sh(PROGRAM, "token", "list", "--state", service.state).splitlines()
                    if line.startswith("dora"))
    assert added["id"] in row() and "never" in row()
    with service.client(token, service.ca) as client:
        client.ping()
    eventually(lambda: "never" not in row(), "the use of the token is saved")
    sh(PROGRAM, "token", "revoke", "dora", "--state", service.state)
    assert json.loads(service.said('"change":"revoked".*dora', after=seen))["id"] == added["id"]
    after = [counted(service, f'prony_token_changes_total{{change="{what}"}}')
             for what in ("added", "revoked")]
    assert [b - a for a, b in zip(before, after)] == [1, 1]


def test_refusals_are_logged_and_slowed_down(service, connect):
    """Many wrong tokens of one address are answered late; a right one is not."""
    seen = len(service.log)
    refused = 'prony_refusals_total{reason="token"}'
    slowed = "prony_refusals_delayed_total"
    before = counted(service, refused)
    assert connect("wrong").refused("Ping", base.PingRequest())[0] == Code.UNAUTHENTICATED
    said = json.loads(service.said("call.refused", after=seen))
    assert said["method"] == "Ping" and said["from"].startswith("ipv4:127.0.0.1")
    assert counted(service, refused) == before + 1
    client = connect("wrong")
    for _ in range(20):  # rounds: a slow machine is forgiven meanwhile
        calls = [client.start("Ping", base.PingRequest()) for _ in range(200)]
        connect("ann").ping()
        assert {call.exception().code() for call in calls} == {Code.UNAUTHENTICATED}
        if counted(service, slowed):
            break
    assert counted(service, slowed) > 0


def test_nobody_takes_every_place(service, connect, session):
    """Without a word in the configuration: so many sessions of a user may wait, then others still can."""
    client = connect("bob")
    waiting = [client.create(LAB).result_value for _ in range(50)]
    try:
        assert not any(reply.ready for reply in waiting)
        error = client.create(LAB).error_value
        assert error.code == base.ERROR_INSUFFICIENT_QUOTA and "50 sessions" in error.message
        other = connect("root").create(LAB).result_value
        assert other.queue.place == 51
        connect("root").call("CloseSession", base.CloseSessionRequest(session_uuid=other.session_uuid))
    finally:
        for reply in waiting:
            client.call("CloseSession", base.CloseSessionRequest(session_uuid=reply.session_uuid))


def test_backends_have_a_limit(connect):
    client = connect("bob")
    held = [client.create(*[LAB] * 64).result_value for _ in range(2)]
    error = client.create(LAB).error_value
    for reply in held:
        client.call("CloseSession", base.CloseSessionRequest(session_uuid=reply.session_uuid))
    assert error.code == base.ERROR_INSUFFICIENT_QUOTA and "limit is 128" in error.message


def test_list_of_tokens(service):
    listed = sh(PROGRAM, "token", "list", "--state", service.state)
    for user in ("ann", "bob", "root", "host"):
        assert user in listed
    assert not [t for t in service.tokens.values() if t in listed]
    state = b"".join(p.read_bytes() for p in service.state.glob("state.db*"))
    assert not [t for t in service.tokens.values() if t.encode() in state]


@pytest.mark.parametrize("arguments", [["add"], ["add", "a b"], ["add", ""], ["revoke", "nobody"],
                                       ["add", "x", "--admin", "--worker"], ["list", "x"], ["hide"]])
def test_token_misuse(service, arguments):
    done = run_program([PROGRAM, "token", *arguments, "--state", service.state])
    assert done.status != 0 and not done.stdout
    assert done.stderr.startswith("prony: error: ")


def test_status_for_users_and_administrators(connect, session):
    mine = connect("ann").status()
    assert [s.user for s in mine.sessions] == ["ann"] and mine.sessions_others == 0
    others = connect("bob").status()
    assert not others.sessions and others.sessions_others == 1
    assert [s.user for s in connect("root").status().sessions] == ["ann"]
    assert "ann" not in str(others) and session.uuid.hex() not in str(mine)


def test_the_queue_tells_no_names(connect, session):
    reply = connect("bob").create(LAB).result_value
    assert list(reply.queue.holders) == [hashlib.sha256(b"ann").hexdigest()[:12]]
    connect("bob").call("CloseSession", base.CloseSessionRequest(session_uuid=reply.session_uuid))


def test_plain_connections_are_not_served(service):
    with Client(service.address) as client:
        assert client.refused("Ping", base.PingRequest(), timeout=5)[0] in (
            Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED)


def old_tls(context):
    """Makes it speak nothing newer than 1.1, which today's libraries do only when they are told to."""
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    return context


def handshake(context, port):
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as secure:
            return secure.version()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_tls_is_not_spoken(service):
    port = int(service.address.rpartition(":")[2])
    context = ssl.create_default_context(cafile=str(service.ca))
    context.set_alpn_protocols(["h2"])
    assert handshake(context, port) in ("TLSv1.2", "TLSv1.3")
    with pytest.raises(ssl.SSLError):
        handshake(old_tls(context), port)
    # With one who speaks it, this client does.
    other = old_tls(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    other.load_cert_chain(service.ca, service.folder / "key.pem")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def answer():
            with contextlib.suppress(OSError), other.wrap_socket(listener.accept()[0], True) as end:
                end.recv(1)

        thread = threading.Thread(target=answer)
        thread.start()
        assert handshake(context, listener.getsockname()[1]) == "TLSv1.1"
        thread.join(PATIENCE)


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0"])
def test_beyond_this_machine_there_is_no_service_without_tls(tmp_path, listen):
    done = run_program([PROGRAM, "serve", "--listen", listen, "--state", tmp_path / "state"])
    assert done.status != 0 and "needs a certificate" in done.stderr


def bench_worker(service, tmp_path, token, ca=None):
    file = tmp_path / "token"
    file.write_text(token + "\n")
    return Program([PROGRAM, "worker", "--server", service.address, "--hardware", "bench",
                    "--token-file", file, "--ca", ca or service.ca])


def test_worker_over_tls(service, connect, tmp_path):
    worker = bench_worker(service, tmp_path, service.tokens["host"])
    try:
        service.said('worker.joined.*"bench"')
        session = connect("ann").session("bench/onnxrt-cpu", LAB)
        session.load(SMALL)
        for outputs in session.infer([X]):
            check_small(outputs[0])
        # A file that its session doesn't have is none of the worker's business.
        other = connect("host").refused("Fetch", own.FetchRequest(sha256=bytes(32)))
        assert other[0] == Code.NOT_FOUND
        chunks = connect("host").call("Fetch", WORKERS["Fetch"])
        assert b"".join(c.chunk for c in chunks) == SMALL
        session.close()
        assert connect("host").refused("Fetch", WORKERS["Fetch"])[0] == Code.NOT_FOUND
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    finally:
        worker.kill()
    assert service.tokens["host"] not in worker.text()


@pytest.mark.parametrize("who", ["ann", "gone", "wrong"])
def test_workers_that_are_refused(service, tmp_path, who):
    """It ends, because another try wouldn't change it."""
    worker = bench_worker(service, tmp_path, service.tokens.get(who, who))
    try:
        assert worker.wait() != 0
        assert "refuses this worker" in worker.text()
        assert service.tokens.get(who, "Bearer") not in worker.text()
    finally:
        worker.kill()


def test_worker_of_another_authority(service, tmp_path):
    """Whose certificate isn't trusted gets no token."""
    certificate, _ = make_certificate(tmp_path)
    worker = bench_worker(service, tmp_path, service.tokens["host"], certificate)
    try:
        worker.said("worker.disconnected")
    finally:
        worker.kill()


@pytest.mark.parametrize("hello, said", [
    ({"hardware": "bench", "version": "0.0.1"}, "one minor version"), ({"hardware": "moon"}, "no pool"),
    ({"hardware": "../x"}, "x"), ({"hardware": "bench", "key": "0" * 64}, "key"),
    ({"hardware": "lab", "key": ""}, "key")])
def test_hellos_that_are_refused(connect, hello, said):
    hello = {"version": connect("ann").status().version, **hello}
    code, text = refused(connect("host"), "Attach", [own.WorkerReport(hello=own.Hello(**hello))])
    assert code in (Code.INVALID_ARGUMENT, Code.PERMISSION_DENIED, Code.UNIMPLEMENTED,
                    Code.FAILED_PRECONDITION), text
    assert said in text


def test_reload_reads_the_certificate_again(service):
    """A certificate that ran out is replaced without a restart."""
    old = service.ca.read_text()
    reloads = 'prony_certificate_reloads_total{outcome="%s"}'
    before = counted(service, reloads % "ok")
    make_certificate(service.folder)
    seen = len(service.log)
    service.signal(signal.SIGHUP)
    service.said("tls.reloaded", after=seen)
    assert counted(service, reloads % "ok") == before + 1 and counted(service, reloads % "failed") == 0

    def answered():
        with service.client(service.tokens["ann"], service.ca) as client:
            try:
                return client.call("Ping", base.PingRequest(), timeout=20) is not None
            except grpc.RpcError:
                return False

    assert old != service.ca.read_text()
    eventually(answered, "the new certificate is used")
