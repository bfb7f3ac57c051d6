"""The service's page, from outside: what it answers to whom, and to those who mean harm."""
import contextlib
import datetime
import http.client
import itertools
import json
import os
import re
import shutil
import signal
import socket
import ssl
import threading
import time

import grpc
import jsonschema
import pytest

from conftest import BUILD, PROGRAM, ROOT, run_program, sh
from service import (LOCAL, PATIENCE, SMALL, Session, base, create_request, eventually, free_port,
                     make_certificate, serving)

LAB = "lab/onnxrt-cpu"
CONFIG = """
listen: 127.0.0.1:0
http: 127.0.0.1:{http}
tls: {{certificate: cert.pem, key: key.pem}}
pools:
  - {{name: lab, count: 1, processor: The box, usd_per_hour: 0.31}}
log: json
"""
JSON = {"Content-Type": "application/json"}
STATUS = jsonschema.Draft202012Validator(json.loads((ROOT / "docs" / "prony.status.schema.json").read_text()))
GETS = ["/api/status", "/api/sessions", "/api/measurements", "/api/report?id=1", "/report?id=1"]
POSTS = {"/api/close": {"session": "0" * 12}, "/api/admin": {"action": "pause", "target": "x"},
         "/api/sign-in": {"token": "x"}, "/api/sign-out": {}}
SOURCES = itertools.count(2)


class Answer:
    def __init__(self, response):
        self.status, self.headers = response.status, response.headers
        self.data = response.read()
        self.text = self.data.decode()

    @property
    def json(self):
        return json.loads(self.text)

    @property
    def error(self):
        """What it says is wrong: one sentence, and nothing besides."""
        assert list(self.json) == ["error"] and "\n" not in self.json["error"], self.text
        return self.json["error"]


class Page:
    """A browser without a screen: keeps one cookie, and comes from an address of its own, so that
    its wrong tries are its own."""

    def __init__(self, service, ca=None):
        self.service, self.ca, self.cookie = service, ca, None
        self.port = service.http_port
        self.source = "127.0.{}.{}".format(*divmod(next(SOURCES), 256))

    def connection(self, source=None):
        where = {"timeout": PATIENCE, "source_address": (source or self.source, 0)}
        if not self.ca:
            return http.client.HTTPConnection("127.0.0.1", self.port, **where)
        return http.client.HTTPSConnection("127.0.0.1", self.port, **where,
                                           context=ssl.create_default_context(cafile=self.ca))

    def ask(self, method, path, body=None, headers=(), cookie=None):
        headers = dict(headers)
        if cookie or self.cookie:
            headers["Cookie"] = f"prony_session={cookie or self.cookie}"
        with contextlib.closing(self.connection()) as connection:
            connection.request(method, path, body, headers)
            answer = Answer(connection.getresponse())
        self.check(path, answer)
        return answer

    def check(self, path, answer):
        """What holds for every answer."""
        self.service.messages.append(answer.text.replace("\n", " "))
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert not [name for name in answer.headers if name.lower().startswith("access-control")]
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; ") and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        if path.startswith("/api/") and answer.status != 204:
            assert answer.headers["Content-Type"] == "application/json"
            assert "script-src" not in policy
            assert answer.status < 400 or not answer.text or answer.error

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def post(self, path, body, headers=None, **more):
        return self.ask("POST", path, json.dumps(body), JSON | dict(headers or {}), **more)

    def sign_in(self, token):
        answer = self.post("/api/sign-in", {"token": token})
        if answer.status == 204:
            self.cookie = re.match(r"prony_session=([\w-]{43});", answer.headers["Set-Cookie"])[1]
            self.service.secrets.append(self.cookie)
        return answer

    def status(self):
        answer = self.get("/api/status")
        assert answer.status == 200, answer.text
        STATUS.validate(answer.json)
        return answer.json


def start(folder, *options, config, **more):
    port = free_port()
    context = serving(folder, *options, config=config.format(http=port), **more)
    return context, port


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    make_certificate(folder)
    context, port = start(folder, config=CONFIG)
    with context as service:
        service.http_port, service.ca = port, folder / "cert.pem"
        service.tokens = {user: service.token(user, *options) for user, options in (
            ("ann", ()), ("bob", ()), ("gone", ()), ("root", ["--admin"]), ("host", ["--worker"]))}
        sh(PROGRAM, "token", "revoke", "gone", "--state", service.state)
        yield service


@pytest.fixture
def browse(service):
    """browse("ann"): a page that the user has signed in to; browse(): nobody has."""
    def make(user=None):
        page = Page(service, service.ca)
        if user:
            assert page.sign_in(service.tokens[user]).status == 204
        return page
    return make


@pytest.fixture
def clients(service):
    """clients("ann"): a gRPC client."""
    made = []

    def make(user):
        made.append(service.client(service.tokens[user], service.ca))
        return made[-1]
    yield make
    for client in made:
        client.channel.close()


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A service without TLS: its user's own."""
    context, port = start(tmp_path_factory.mktemp("plain"), config="http: 127.0.0.1:{http}\n")
    with context as service:
        service.http_port = port
        yield service


def label_of(page, state=None):
    return next(s["id"] for s in page.status()["sessions"]
                if s["yours"] and (state is None or s["state"] == state))


# ---- Signing in ----

def test_the_cookie(service, browse, plain):
    page = browse()
    answer = page.sign_in(service.tokens["ann"])
    assert (answer.status, answer.text) == (204, "")
    attributes = answer.headers["Set-Cookie"].split("; ")[1:]
    assert sorted(attributes) == ["HttpOnly", "Max-Age=43200", "Path=/", "SameSite=Strict", "Secure"]
    assert page.status()["you"] == {"user": "ann", "admin": False, "signed_in_by": "token"}
    assert browse("root").status()["you"] == {"user": "root", "admin": True, "signed_in_by": "token"}
    # Two of the same user's are two.
    other = browse("ann")
    assert other.cookie != page.cookie and page.status() and other.status()
    page = Page(plain)
    assert "Secure" not in page.sign_in(plain.token("ann")).headers["Set-Cookie"]


def stale_cookies(service, browse):
    """Cookies that are none, or not any more."""
    out = browse("ann")
    signed_out, cookie = out.post("/api/sign-out", {}), out.cookie
    assert signed_out.status == 204
    assert re.match(r"prony_session=; .*Max-Age=0", signed_out.headers["Set-Cookie"])
    late = browse()
    late.sign_in(service.token("late"))
    assert late.status()["you"]["user"] == "late"
    sh(PROGRAM, "token", "revoke", "late", "--state", service.state)
    return {"none": None, "empty": "", "made up": "A" * 43, "long": "A" * 4000,
            "signed out": cookie, "revoked": late.cookie, "the token": service.tokens["ann"],
            "the wrong case": browse("bob").cookie.swapcase()}


def test_nothing_without_a_sign_in(service, browse, clients):
    session = clients("ann").session(LAB)
    page = browse()
    label = label_of(browse("ann"))
    for what, cookie in stale_cookies(service, browse).items():
        for path in GETS:
            for method in ("GET", "HEAD"):
                answer = page.ask(method, path, cookie=cookie)
                assert answer.status == 401, (what, path)
        answer = page.post("/api/close", {"session": label}, cookie=cookie)
        assert (answer.status, answer.error) == (401, "not signed in"), what
    # The page itself knows nothing, so anybody may have it.
    assert page.get("/").status == 200
    # A token is for signing in only, never in a header or an address.
    token = service.tokens["ann"]
    assert page.get("/api/status", headers={"Authorization": f"Bearer {token}"}).status == 401
    assert page.get(f"/api/status?token={token}").status == 401
    session.heartbeat()
    session.close()


@pytest.mark.parametrize("token, said", [
    ("wrong", "the token isn't valid here"), ("", "the token isn't valid here"),
    ("prony_" + "0" * 43, "the token isn't valid here"), ("x" * 3000, "the token isn't valid here"),
    ("gone", "the token isn't valid here"), ("host", "the token is a worker's, not a user's"),
    ("prony_\u00e4\u0000", None)])
def test_wrong_tokens(service, browse, token, said):
    page = browse()
    answer = page.sign_in(service.tokens.get(token, token))
    assert "Set-Cookie" not in answer.headers
    if said:
        assert (answer.status, answer.error) == (401, said)
    else:
        assert answer.status == 400


def test_tries_are_limited(service, browse):
    page = browse()
    for _ in range(10):
        assert page.sign_in("wrong").status == 401
    # Also a right one has to wait now, so trying tells nothing; elsewhere nobody has to.
    answer = page.sign_in(service.tokens["ann"])
    assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
    assert "wait" in answer.error and "Set-Cookie" not in answer.headers
    assert browse().sign_in(service.tokens["ann"]).status == 204
    eventually(lambda: page.sign_in(service.tokens["ann"]).status == 204, "one may try again")


def test_sign_ins_are_bounded(service, browse):
    pages = [browse("bob") for _ in range(17)]
    assert pages[0].get("/api/status").status == 401
    assert all(page.get("/api/status").status == 200 for page in pages[1:])


def test_signing_out_ends_one_sign_in(browse):
    one, two = browse("ann"), browse("ann")
    assert one.post("/api/sign-out", {}).status == 204
    assert one.get("/api/status").status == 401 and two.get("/api/status").status == 200
    assert browse().post("/api/sign-out", {}).status == 204  # nobody is signed out


# ---- Without TLS: this user's own ----

def test_own_connections_need_no_token(plain):
    page = Page(plain)
    assert page.status()["you"] == {"user": "local", "admin": True, "signed_in_by": "loopback"}
    for path in ("/api/sessions", "/api/measurements"):
        assert page.get(path).status == 200
    # A cookie of old is no obstacle.
    assert page.get("/api/status", cookie="A" * 43).json["you"]["signed_in_by"] == "loopback"
    page.sign_in(plain.token("ann"))
    assert page.status()["you"] == {"user": "ann", "admin": False, "signed_in_by": "token"}
    assert page.post("/api/sign-out", {}).status == 204
    assert page.status()["you"]["signed_in_by"] == "loopback"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_connections_of_other_users_do(plain):
    class Nobodys(Page):
        def connection(self, source=None):
            connection = super().connection(source)
            os.seteuid(65534)
            try:
                connection.connect()
            finally:
                os.seteuid(0)
            return connection

    page = Nobodys(plain)
    for path in GETS:
        assert page.get(path).status == 401, path
    assert page.post("/api/close", {"session": "x"}).status == 401
    page.sign_in(plain.token("guest"))
    assert page.status()["you"] == {"user": "guest", "admin": False, "signed_in_by": "token"}
    assert page.get("/metrics").status == 200


# ---- How the service is ----

def test_status_is_what_the_command_says(service, browse, clients, workdir):
    session = clients("ann").session(LAB)
    waiting = clients("bob").create(LAB).result_value
    (workdir / "token").write_text(service.tokens["root"])
    listed = json.loads(sh(PROGRAM, "status", "--server", service.address, "--ca", service.ca,
                           "--token-file", workdir / "token", "--format", "json"))
    shown = browse("root").status()
    for extra in ("time_ms", "you", "sessions_left_out", "workers_left_out"):
        assert shown.pop(extra) is not None
    assert abs(shown["uptime_ms"] - listed["uptime_ms"]) < PATIENCE * 1000
    moving = {"uptime_ms", "age_ms", "waited_ms", "idle_ms", "connected_ms", "held_ms", "yours"}

    def still(value):
        if isinstance(value, dict):
            return {k: still(v) for k, v in value.items() if k not in moving}
        return [still(v) for v in value] if isinstance(value, list) else value

    for status in (shown, listed):
        status["sessions"].sort(key=lambda s: s["user"])
    assert still(shown) == still(listed)
    first, second = shown["sessions"]
    assert (first["user"], first["state"], first["place"]) == ("ann", "ready", None)
    assert (second["user"], second["state"], second["place"]) == ("bob", "waiting", 1)
    assert second["waited_ms"] >= 0 and not first["yours"] and not second["yours"]
    assert shown["hardware"][0] == {"name": "lab", "processor": "The box", "usd_per_hour": 0.31,
                                    "hosts": 1, "free": 0, "waiting": 1, "paused": False, "note": None}
    assert shown["workers"][0]["session"] == first["id"]
    # Users see their own, and how many others there are.
    own = browse("bob").status()
    assert [s["user"] for s in own["sessions"]] == ["bob"] and own["sessions"][0]["yours"]
    assert own["sessions_others"] == 1
    clients("bob").call("CloseSession", base.CloseSessionRequest(session_uuid=waiting.session_uuid))
    session.close()


# ---- Closing ----

def test_closing_ones_own_session(browse, clients):
    ready, page = clients("ann").session(LAB), browse("ann")
    client = clients("bob")
    behind = Session(client, client.create(LAB).result_value.session_uuid, 1)
    label = label_of(page)
    assert page.post("/api/close", {"session": label}).status == 204
    # It is gone, who waited has the host, and its client is told.
    behind.wait()
    code, said = ready.client.refused("Heartbeat", base.HeartbeatRequest(session_uuid=ready.uuid))
    assert code == grpc.StatusCode.FAILED_PRECONDITION and "closed" in said
    assert page.post("/api/close", {"session": label}).status == 404
    assert not page.status()["sessions"]

    def kept():
        sessions = page.get("/api/sessions?limit=1").json["sessions"]
        return sessions and sessions[0]["outcome"] == "closed on the service's page" and sessions[0]
    row = eventually(kept, "the session is in the history")
    assert row["user"] == "ann" and row["yours"] and row["backends"] == LAB
    assert row["created_ms"] <= row["ready_ms"] <= row["ended_ms"]
    behind.close()


def test_closing_a_session_that_waits(browse, clients):
    session = clients("ann").session(LAB)
    waiting = clients("bob").create(LAB).result_value
    page = browse("bob")
    assert page.post("/api/close", {"session": label_of(page, "waiting")}).status == 204
    code, _ = clients("bob").refused("WaitUntilSessionReady", base.WaitUntilSessionReadyRequest(
        session_uuid=waiting.session_uuid))
    assert code == grpc.StatusCode.FAILED_PRECONDITION
    session.heartbeat()
    session.close()


def test_an_administrator_gives_orders(browse, clients):
    session = clients("ann").session(LAB)
    root, bob = browse("root"), browse("bob")
    label = label_of(browse("ann"))
    answer = bob.post("/api/admin", {"action": "close", "target": label})
    assert (answer.status, answer.error) == (403, "this needs an administrator's token")
    session.heartbeat()
    worker = root.status()["workers"][0]
    assert worker["user"] == "ann" and worker["held_ms"] is not None
    assert bob.status()["workers"][0]["user"] is None
    for action, target in (("pause", "lab"), ("disable", worker["id"]), ("close", label)):
        assert root.post("/api/admin", {"action": action, "target": target}).status == 204
    eventually(lambda: root.status()["workers"][0]["state"] == "disabled", "the session has left")
    assert root.status()["hardware"][0]["paused"]
    for action, target in (("resume", "lab"), ("enable", worker["id"])):
        assert root.post("/api/admin", {"action": action, "target": target}).status == 204
    assert root.status()["workers"][0]["state"] == "free"
    assert root.post("/api/admin", {"action": "notice", "text": "a notice"}).status == 204
    assert bob.status()["notice"] == "a notice"
    assert root.post("/api/admin", {"action": "notice"}).status == 204
    for order, status in (({"action": "fly"}, 400), ({"action": "close", "target": label}, 404)):
        assert root.post("/api/admin", order).status == status


@pytest.mark.parametrize("who", ["bob", "root"])
def test_sessions_of_others_stay(browse, clients, who):
    session = clients("ann").session(LAB)
    label = label_of(browse("ann"))
    answer = browse(who).post("/api/close", {"session": label})
    assert (answer.status, answer.error) == (403, "the session belongs to another user")
    session.heartbeat()
    session.close()


@pytest.mark.parametrize("label", ["", "0" * 12, "x" * 2000, "../..", "%s%n", "'; DROP TABLE x"])
def test_sessions_that_arent_there(browse, label):
    assert browse("ann").post("/api/close", {"session": label}).status == 404


def test_closing_ends_a_measurement(browse, clients, service, workdir):
    """Its client says so and ends, instead of waiting."""
    (workdir / "token").write_text(service.tokens["ann"])
    sh(PROGRAM, "synth", "mlp", "-o", workdir / "m.onnx")
    outcome = []

    def measure():
        outcome.append(run_program(
            [PROGRAM, "profile", workdir / "m.onnx", "--server", service.address, "--ca", service.ca,
             "--token-file", workdir / "token", "--backend", LAB, "--max-time", "60"]))

    thread = threading.Thread(target=measure)
    thread.start()
    page = browse("ann")
    label = eventually(lambda: next((s["id"] for s in page.status()["sessions"]
                                     if s["models"] > 0), None), "it measures")
    assert page.post("/api/close", {"session": label}).status == 204
    thread.join(PATIENCE)
    assert not thread.is_alive() and outcome[0].status != 0, outcome
    assert "closed" in outcome[0].stderr


# ---- Pages of others ----

FOREIGN = [{"Origin": "https://example.org"}, {"Origin": "null"}, {"Origin": ""},
           {"Origin": "https://127.0.0.1"}, {"Origin": "https://127.0.0.1:1"},
           {"Origin": "https://127.0.0.1:{port}.example.org"}, {"Origin": "127.0.0.1:{port}"},
           {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
           {"Sec-Fetch-Site": "cross-site", "Origin": "https://127.0.0.1:{port}"}]


def test_other_pages_can_do_nothing(service, browse, clients):
    session, page = clients("ann").session(LAB), browse("ann")
    label = label_of(page)
    for headers in FOREIGN:
        headers = {k: v.format(port=page.port) for k, v in headers.items()}
        for path, body in (POSTS | {"/api/close": {"session": label}}).items():
            answer = page.post(path, body, headers)
            assert (answer.status, answer.error) == (403, "the request comes from another site"), headers
            assert "Set-Cookie" not in answer.headers
    # What a form can send isn't JSON.
    forms = ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain",
             "text/plain; application/json", "application/jsonx", ""]
    for media in forms:
        for path, body in (POSTS | {"/api/close": {"session": label}}).items():
            answer = page.post(path, body, {"Content-Type": media})
            assert answer.status == 415, (path, media)
    answer = page.ask("POST", "/api/close", json.dumps({"session": label}))
    assert answer.status == 415
    # A browser asks first whether it may; it may not.
    answer = page.ask("OPTIONS", "/api/close", headers={
        "Origin": "https://example.org", "Access-Control-Request-Method": "POST"})
    assert answer.status == 405
    # Nor is anything told.
    for path in GETS[:4]:
        for site in ("cross-site", "same-site"):
            assert page.get(path, headers={"Sec-Fetch-Site": site}).status == 403
    session.heartbeat()
    # Our own page is like that.
    for headers in ({"Origin": f"https://127.0.0.1:{page.port}", "Sec-Fetch-Site": "same-origin"},
                    {"Sec-Fetch-Site": "none"}):
        assert page.get("/api/status", headers=headers).status == 200
    media = {"Content-Type": "Application/JSON; charset=utf-8",
             "Origin": f"https://127.0.0.1:{page.port}", "Sec-Fetch-Site": "same-origin"}
    assert page.post("/api/close", {"session": label}, media).status == 204


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1.example.org", "10.0.0.1", "0.0.0.0", ""])
def test_other_hosts_names(plain, host):
    page = Page(plain)
    for path in ["/", *GETS, "/nothing"]:
        answer = page.get(path, headers={"Host": host})
        assert answer.status == 403 and "unknown host name" in answer.text, path
    for path, body in POSTS.items():
        assert page.post(path, body, {"Host": host}).status == 403
    for path in ("/metrics", "/healthz"):
        assert page.get(path, headers={"Host": host}).status == 200
    for name in ("localhost", f"LOCALHOST:{page.port}", "[::1]:1"):
        assert page.get("/api/status", headers={"Host": name}).status == 200


# ---- Methods and bodies ----

def test_methods(browse):
    page = browse("ann")
    for path in ["/", "/metrics", "/healthz", *GETS]:
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
            answer = page.ask(method, path, headers=JSON)
            assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD"), (method, path)
    for path in POSTS:
        for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS"):
            answer = page.ask(method, path)
            assert (answer.status, answer.headers["Allow"]) == (405, "POST"), (method, path)
    for path in ("/", "/metrics", "/healthz", "/api/sessions"):
        whole, head = page.get(path), page.ask("HEAD", path)
        assert head.status == whole.status == 200 and head.data == b""
        assert head.headers["Content-Type"] == whole.headers["Content-Type"]
        if path != "/metrics":
            assert head.headers["Content-Length"] == str(len(whole.data))
    for path in ("/api", "/api/", "/api/status/", "/API/status", "//", "/report/", "/..", "/%2e%2e/",
                 "/api/nothing", "/index.html", "/favicon.ico"):
        assert page.get(path).status == 404, path


MALFORMED = [b"", b"{", b"[]", b"null", b"1", b'"x"', b"{}", b'{"token": 1, "session": 1}',
             b'{"token": null, "session": null}', b'{"token": ["x"], "session": {}}',
             b'{"token": "a", "token": "b", "session": "a", "session": "b"}',
             b'{"token": "x", "session": "x"} x', b'{"token": "\xff", "session": "\xff"}',
             b'{"token": "a\\u0000", "session": "a\\u0000"}', b"\0" * 100, b"[" * 4000,
             b'{"a":' * 700, b"token=x&session=x", b'\xef\xbb\xbf{"token": "x"}']


@pytest.mark.parametrize("body", MALFORMED, ids=[repr(b[:20]) for b in MALFORMED])
def test_malformed_bodies(browse, body):
    page = browse("ann")
    for path in ("/api/sign-in", "/api/close"):
        answer = page.ask("POST", path, body, JSON)
        assert answer.status == 400, answer.text
        assert answer.error.startswith("the body ")


def test_large_bodies(service, browse):
    page = browse("ann")
    padded = json.dumps({"token": "x", "pad": ""})
    for size, status in ((4096, 401), (4097, 413), (100_000, 413), (1 << 20, 413)):
        body = padded.replace('""', '"' + "p" * (size - len(padded)) + '"')
        assert len(body) == size
        assert page.ask("POST", "/api/sign-in", body, JSON).status == status, size
    # Who announces too much isn't listened to.
    with contextlib.closing(page.connection()) as connection:
        connection.putrequest("POST", "/api/sign-in")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(1 << 40))
        connection.endheaders()
        assert connection.getresponse().status == 413
    # Nor who never ends.
    with contextlib.closing(page.connection()) as connection:
        connection.putrequest("POST", "/api/sign-in")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        with pytest.raises(OSError):
            for _ in range(10_000):
                connection.send(b"10000\r\n" + b" " * 65536 + b"\r\n")
    assert page.status()
    # Headers have their limit too. The service may hang up before all of them were sent.
    for query, headers in (("", {"X-Pad": "p" * 40_000}), ("", {"Cookie": "c=" + "p" * 40_000}),
                           ("?" + "x" * 60_000, {})):
        with contextlib.closing(page.connection()) as connection, contextlib.suppress(OSError):
            connection.request("GET", "/api/status" + query, headers=headers)
            assert connection.getresponse().status in (413, 414, 431)
    # What browsers send is well within it: 8 KB of other services' cookies.
    cookies = "; ".join(f"c{i}={'x' * 90}" for i in range(80)) + f"; prony_session={page.cookie}"
    with contextlib.closing(page.connection()) as connection:
        connection.request("GET", "/api/status", headers={"Cookie": cookies})
        assert connection.getresponse().status == 200


def test_slow_bodies_are_cut_off(service, browse):
    page = browse("ann")
    connections = []
    for _ in range(20):
        connection = page.connection()
        connection.putrequest("POST", "/api/sign-in")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "1000")
        connection.endheaders()
        connections.append(connection)
    begun, answers, answered = time.monotonic(), 0, 0
    while connections:
        assert time.monotonic() - begun < PATIENCE, f"{len(connections)} are still open"
        for connection in list(connections):
            try:
                connection.send(b" ")
                connection.sock.settimeout(0.001)
                if connection.sock.recv(1) == b"":
                    raise ConnectionError
            except (TimeoutError, ssl.SSLWantReadError):
                continue
            except OSError:
                connection.close()
                connections.remove(connection)
        if connections:
            answers = answered  # those that came while some were open
        assert page.status()
        answered += 1
        time.sleep(0.3)
    assert time.monotonic() - begun > 9
    assert answers > 0


def test_many_connections(service, browse):
    """One machine can't have all of them; and who only holds them makes room after a while."""
    page = browse("ann")
    idle = []
    for other in (browse(), browse()):
        assert page.status()
        idle += [socket.create_connection(("127.0.0.1", page.port), timeout=PATIENCE,
                                          source_address=(other.source, 0)) for _ in range(300)]
    eventually(lambda: with_errors(page.status), "the page answers again")
    for connection in idle:
        connection.close()


def with_errors(function):
    with contextlib.suppress(OSError, http.client.HTTPException):
        return function()


def test_a_connection_is_kept(service, browse):
    page = browse("ann")
    headers = {"Cookie": f"prony_session={page.cookie}"}
    with contextlib.closing(page.connection()) as connection:
        connection.connect()
        sock = connection.sock
        for path in ["/api/status", "/api/sessions", "/api/status", "/"] * 20:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            assert answer.status == 200 and answer.read()
            assert connection.sock is sock


# ---- The history and its reports ----

@pytest.fixture(scope="module")
def measured(service, tmp_path_factory):
    """Two of ann's measurements, as her client saved them, and one of bob's."""
    folder = tmp_path_factory.mktemp("measured")
    hostile = "<script>alert(1)</script>&amp;'\".onnx".replace("/", "_")
    sh(PROGRAM, "synth", "mlp", "-o", folder / hostile)
    shutil.copy(folder / hostile, folder / "mlp.onnx")

    def command(user, *arguments):
        (folder / user).write_text(service.tokens[user])
        return sh(PROGRAM, *arguments, "--server", service.address, "--ca", service.ca,
                  "--token-file", folder / user)

    short = ("--max-time", "0.5", "--launches", "1")
    command("ann", "profile", folder / hostile, *short, "--backend", LAB, "--format", "json",
            "-o", folder / "profile.json")
    command("bob", "profile", folder / "mlp.onnx", *short, "--backend", LAB, "--format", "json",
            "-o", folder / "bob.json")
    command("ann", "layers", folder / "mlp.onnx", *short, "--backend", LAB, "-o",
            folder / "layers.yml", "--format", "json")
    page = Page(service, service.ca)
    page.sign_in(service.tokens["root"])
    rows = eventually(lambda: len(rows := page.get("/api/measurements").json["measurements"]) >= 3
                      and rows, "they are in the history")
    return folder, hostile, rows


def test_measurements_are_kept(measured, browse):
    folder, hostile, rows = measured
    assert [(r["user"], r["model"]) for r in rows[:3]] == [
        ("ann", "mlp.onnx"), ("bob", "mlp.onnx"), ("ann", hostile)]
    for row in rows:
        assert row["backends"] == LAB and row["report_bytes"] > 1000 and not row["yours"]
        assert 0 < row["duration_ms"] < 240_000
        assert abs(time.time() * 1000 - row["created_ms"]) < 3600_000
    assert [r["id"] for r in rows] == sorted((r["id"] for r in rows), reverse=True)
    own = browse("bob").get("/api/measurements").json
    assert [(r["user"], r["yours"]) for r in own["measurements"]] == [("bob", True)]
    assert own["more"] is False


def test_a_stored_report_is_the_clients(measured, browse):
    folder, hostile, rows = measured
    page = browse("ann")
    answer = page.get(f"/api/report?id={rows[2]['id']}")
    assert answer.status == 200 and len(answer.data) == rows[2]["report_bytes"]
    stored, saved = answer.json, json.loads((folder / "profile.json").read_text())
    assert stored["model"].pop("path") == hostile
    assert saved["model"].pop("path") == str(folder / hostile)
    assert saved.pop("hosts")  # which of several machines: there is one
    # Each says when it began, by its own clock.
    created = [datetime.datetime.fromisoformat(r.pop("created")) for r in (stored, saved)]
    assert abs(created[0] - created[1]) < datetime.timedelta(seconds=PATIENCE)
    assert stored == saved
    result = stored["results"][0]["backend"]
    assert (result["hardware"], result["processor"], result["usd_per_hour"]) == (
        "lab", "The box", 0.31)
    # And so is the page, which `prony report` makes of it.
    (folder / "stored.json").write_bytes(answer.data)
    sh(PROGRAM, "report", folder / "stored.json", "--format", "html", "-o", folder / "stored.html")
    shown = page.get(f"/report?id={rows[2]['id']}")
    assert shown.headers["Content-Type"] == "text/html; charset=utf-8"
    assert shown.text == (folder / "stored.html").read_text()
    assert "<script>alert" not in shown.text
    policy = shown.headers["Content-Security-Policy"]
    assert "script-src 'sha256-" in policy and "connect-src" not in policy
    layers = page.get(f"/api/report?id={rows[0]['id']}").json
    assert layers["schema"] == "prony.layer-profile/1" and layers["file"] == "mlp.onnx"
    assert page.get(f"/report?id={rows[0]['id']}").status == 200


def test_a_list_has_verdicts_and_medians(measured, browse):
    _, _, rows = measured
    page = browse("ann")
    for row in rows[1:3]:
        if row["user"] != "ann":
            continue
        stored = page.get(f"/api/report?id={row['id']}").json
        summary = row["summary"]
        assert summary["verdict"] == stored["verdict"] or summary["verdict"].endswith("…")
        assert [(r["median_ns"], r["low_ns"]) for r in summary["results"]] == [
            (r["stats"]["median_ns"], r["stats"]["low_ns"]) for r in stored["results"]]
    assert rows[0]["summary"] is None  # layers


def test_two_measurements_are_compared(measured, browse):
    _, _, rows = measured
    page = browse("ann")
    own = [row["id"] for row in rows if row["user"] == "ann"]
    newest, oldest = own[1], own[-1]
    shown = page.get(f"/report?id={newest}&before={oldest}")
    assert shown.status == 200 and "prony.profile-comparison/1" in shown.text
    assert "script-src 'sha256-" in shown.headers["Content-Security-Policy"]
    assert page.get(f"/report?id={own[0]}&before={oldest}").status == 422  # layers
    theirs = next(row["id"] for row in rows if row["user"] == "bob")
    for other in (theirs, 999999):
        assert page.get(f"/report?id={newest}&before={other}").status == 404
    assert page.get(f"/report?id={newest}&before=x").status == 400


def test_reports_of_others(measured, browse):
    _, _, rows = measured
    for who, status in (("ann", 404), ("bob", 200), ("root", 200)):
        page = browse(who)
        for path in ("/api/report", "/report"):
            assert page.get(f"{path}?id={rows[1]['id']}").status == status, (who, path)
            assert page.get(f"{path}?id=999999").status == 404
    # Somebody else's is like none.
    page = browse("ann")
    assert (page.get(f"/api/report?id={rows[1]['id']}").text
            == page.get("/api/report?id=999999").text)


BAD_NUMBERS = ["", "0", "-1", "x", "1x", "1.0", "+1", "%201", "9" * 19, "0x1", "%00", "1%00"]


@pytest.mark.parametrize("number", BAD_NUMBERS)
def test_bad_numbers(measured, browse, number):
    page = browse("ann")
    for path in ("/api/report?id=", "/report?id=", "/api/sessions?before=", "/api/sessions?limit=",
                 "/api/measurements?before=", "/api/measurements?limit="):
        if number != "1%00":  # which the server takes for 1
            assert page.get(path + number).status == 400, path
    assert page.get("/api/report").status == 400 and page.get("/report").status == 400


@pytest.mark.parametrize("what", ["sessions", "measurements"])
def test_lists_have_pages(measured, browse, what):
    page = browse("root")
    whole = page.get(f"/api/{what}?limit=1000").json
    assert len(whole[what]) >= 3
    found, before = [], ""
    while True:
        part = page.get(f"/api/{what}?limit=2{before}").json
        found += part[what]
        if not part["more"]:
            break
        assert len(part[what]) == 2
        before = f"&before={found[-1]['id']}"
    assert found[-len(whole[what]):] == whole[what] or found == whole[what]
    assert page.get(f"/api/{what}?before=1").json == {what: [], "more": False}


# ---- The server ----

def test_the_pages_policy(browse):
    answer = browse().get("/")
    assert answer.status == 200 and answer.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'" and policy["connect-src"] == "'self'"
    assert re.fullmatch(r"'sha256-\S+'", policy["script-src"])
    assert re.fullmatch(r"'sha256-\S+'", policy["style-src"])
    assert policy["img-src"] == "data:" and policy["frame-ancestors"] == "'none'"
    assert policy["base-uri"] == policy["form-action"] == "'none'"


def test_metrics_are_as_they_were(service, browse, plain):
    for page in (browse(), Page(plain)):
        answer = page.get("/metrics")
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert re.search(r"^prony_hosts\{", answer.text, re.MULTILINE)
        assert page.get("/healthz").text == "ok\n"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of old versions of TLS
def test_a_new_certificate(tmp_path):
    make_certificate(tmp_path)
    context, port = start(tmp_path, config=CONFIG)
    with context as service:
        service.http_port, service.tokens = port, {"ann": service.token("ann")}
        old = tmp_path / "old.pem"
        shutil.copy(tmp_path / "cert.pem", old)
        before = Page(service, old)
        assert before.sign_in(service.tokens["ann"]).status == 204
        # Plain HTTP is nothing here, and neither is what is broken.
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as bare:
            with pytest.raises((OSError, http.client.HTTPException)):
                bare.request("GET", "/metrics")
                bare.getresponse()
        context = ssl.create_default_context(cafile=old)
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with pytest.raises(ssl.SSLError):
            context.wrap_socket(socket.create_connection(("127.0.0.1", port)),
                                server_hostname="127.0.0.1")
        make_certificate(tmp_path)
        at = len(service.log)
        service.signal(signal.SIGHUP)
        after = Page(service, tmp_path / "cert.pem")
        eventually(lambda: with_errors(lambda: after.get("/healthz")), "it has the new certificate")
        with pytest.raises(ssl.SSLError):
            before.get("/healthz")
        # Who is signed in stays so.
        assert after.get("/api/status", cookie=before.cookie).status == 200
        # A certificate that is none changes nothing.
        (tmp_path / "key.pem").write_text("no key")
        service.signal(signal.SIGHUP)
        service.said("config.(tls|refused)", after=at)
        assert after.get("/healthz").status == 200


def test_addresses_that_others_reach(tmp_path):
    """Without TLS they get metrics and nothing else."""
    context, port = start(tmp_path, config="http: 0.0.0.0:{http}\n")
    with context as service:
        service.http_port = port
        assert "has no TLS" in service.said(r"warning http ")
        assert not [line for line in service.out if line and "page" in line]
        page = Page(service)
        for path in ("/", "/nothing", *GETS):
            answer = page.get(path)
            assert answer.status == 403 and "has no TLS" in answer.text
        for path, body in POSTS.items():
            assert "has no TLS" in page.post(path, body).error
        assert page.get("/metrics").status == page.get("/healthz").status == 200


def test_it_says_where_the_page_is(tmp_path):
    with serving(tmp_path, "--http", "127.0.0.1:0") as service:
        url = service.said("shows its page at", "out").split()[-1]
        service.http_port = int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)/", url)[1])
        assert Page(service).get("/").status == 200


def test_without_node(tmp_path):
    """A prony that was built without pages says so, and has all the rest."""
    context, port = start(tmp_path, config="http: 127.0.0.1:{http}\n",
                          env={"PRONY_NET_LIB": str(BUILD / "tests/libprony_net_without_pages.so")})
    with context as service:
        service.http_port = port
        page = Page(service)
        for path in ("/", "/report?id=1"):
            answer = page.get(path)
            assert answer.status == 503 and answer.text.count("\n") == 1
            assert answer.text.endswith("built without Node 18 or later (package nodejs)\n")
            assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert page.status()["you"]["user"] == "local"
        assert page.get("/metrics").status == page.get("/api/measurements").status == 200
        assert not [line for line in service.out if line and "page" in line]


def test_under_load(tmp_path):
    """A thousand sessions wait: the page gets some of them, and soon."""
    context, port = start(tmp_path, config="http: 127.0.0.1:{http}\nlease: 5m\n")
    with context as service:
        service.http_port = port
        page = Page(service)
        ann = Page(service)
        token = service.token("ann")
        assert ann.sign_in(token).status == 204
        with service.client() as local, service.client(token) as anns:
            mine = anns.session(LOCAL)
            calls = [local.start("CreateSession", create_request(LOCAL)) for _ in range(1000)]
            for call in calls:
                assert call.result(timeout=PATIENCE).HasField("result_value")
            anns.create(LOCAL)
            before = service.spent()
            for _ in range(20):
                status = page.status()
            took = (service.spent() - before) / 20
            assert len(status["sessions"]) == 200 and status["sessions_left_out"] == 802
            assert status["hardware"][0]["waiting"] == 1001
            # One's own first, in the order of the queue.
            assert [s["place"] for s in status["sessions"]] == list(range(1, 201))
            assert all(s["yours"] for s in status["sessions"])
            print(f"status of 1,002 sessions: {1e3 * took:.1f} ms of processor time")
            assert took < 0.5
            own = ann.status()
            assert [s["state"] for s in own["sessions"]] == ["ready", "waiting"]
            assert own["sessions"][1]["place"] == 1001 and own["sessions_others"] == 1000
            assert own["sessions_left_out"] == 0
            # Closing one's own works as ever, and so do clients, while many look.
            stop = threading.Event()

            def look():
                looking = Page(service)
                while not stop.is_set():
                    looking.status()

            threads = [threading.Thread(target=look) for _ in range(4)]
            for thread in threads:
                thread.start()
            mine.load(SMALL)
            assert ann.post("/api/close", {"session": own["sessions"][0]["id"]}).status == 204
            eventually(lambda: page.status()["sessions"][0]["state"] == "ready", "the next one is")
            stop.set()
            for thread in threads:
                thread.join()
        # The page says that the service ends; a second signal ends those who wait.
        service.signal(signal.SIGTERM)
        service.said("service.drain")
        assert page.status()["draining"] and page.get("/healthz").status == 503


def test_it_ends_with_pages_open(tmp_path):
    make_certificate(tmp_path)
    context, port = start(tmp_path, config=CONFIG)
    with context as service:
        service.http_port = port
        page = Page(service, tmp_path / "cert.pem")
        page.sign_in(service.token("root", "--admin"))
        connections = []
        for _ in range(20):
            connection = page.connection()
            connection.request("GET", "/api/sessions",
                               headers={"Cookie": f"prony_session={page.cookie}"})
            connections.append(connection)
        service.stop()
        for connection in connections:
            connection.close()
