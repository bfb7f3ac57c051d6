"""The audit log: who did what from where, every time, and never a token."""
import hashlib
import json
import signal
import stat

import grpc

from conftest import PROGRAM, run_program
from service import (LOCAL, SMALL, X, base, create_request, eventually, free_port,
                     make_certificate, own, serving)

CONFIG = """
listen: 127.0.0.1:0
http: 127.0.0.1:{http}
tls: {{certificate: cert.pem, key: key.pem}}
pools:
  - {{name: local, count: 1}}
quota: {{users: {{bob: 0}}}}
audit: audit.jsonl
"""


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def of(path, event):
    """All of one kind, without what differs from run to run."""
    kept = [{k: v for k, v in line.items() if k not in ("time", "level", "event")}
            for line in read(path) if line["event"] == event]
    for line in kept:
        assert line.pop("from", "ipv4:127.0.0.1:1").startswith("ipv4:127.0.0.1:")
    return kept


def test_what_is_kept(tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    certificate, _ = make_certificate(folder)
    log = folder / "audit.jsonl"
    with serving(folder, config=CONFIG.format(http=free_port())) as service:
        tokens = {user: service.token(user, *options) for user, options in
                  (("ann", []), ("bob", []), ("root", ["--admin"]))}
        ann, bob, root, wrong = (service.client(token, certificate) for token in
                                 (*tokens.values(), "prony_" + "x" * 43))
        service.secrets.append("prony_" + "x" * 43)
        with ann, bob, root, wrong:
            session = ann.session()
            label = ann.status().sessions[0].id
            session.load(SMALL)
            session.cached(SMALL, model=2)
            session.infer([X])
            session.close()
            bob.create(LOCAL)
            wrong.refused("Ping", base.PingRequest())
            ann.refused("Admin", own.AdminRequest(action="pause", target="local"))
            root.call("Admin", own.AdminRequest(action="notice", text=tokens["ann"]))
        sha256 = hashlib.sha256(SMALL).hexdigest()
        who = {"user": "ann", "session": label}
        assert of(log, "session.open") == [{**who, "backends": LOCAL}]
        assert of(log, "session.end") == [{**who, "outcome": "closed", "runs": 1}]
        file = {**who, "file": "model.onnx", "sha256": sha256, "bytes": len(SMALL)}
        assert of(log, "upload") == [{**file, "model": 1}]
        assert of(log, "cached") == [{**file, "model": 2}]
        assert of(log, "load") == [{**who, "model": 1, "sha256": sha256, "backends": LOCAL}]
        quota, token, right = of(log, "refused")
        assert (quota["user"], quota["backends"]) == ("bob", LOCAL) and "limit is 0" in quota["error"]
        assert token == {"method": "/octoml_profile.RemoteInference/Ping",
                         "code": "UNAUTHENTICATED", "error": "the token isn't valid here"}
        assert (right["user"], right["code"]) == ("ann", "PERMISSION_DENIED")
        assert of(log, "admin") == [{"user": "root", "action": "notice", "text": "prony_***"}]
        assert not [secret for secret in service.secrets if secret in log.read_text()]
        assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_file_that_was_renamed_is_opened_again(tmp_path):
    folder = tmp_path / "s"
    log, old = folder / "audit.jsonl", folder / "audit.jsonl.1"
    with serving(folder, config="listen: 127.0.0.1:0\naudit: audit.jsonl\n") as service:
        with service.client() as client:
            for number in (signal.SIGUSR1, signal.SIGHUP):
                client.session().close()
                log.rename(old)
                client.session().close()  # nobody has told the service yet
                said = len(service.log)
                service.signal(number)
                service.said("audit.reopened", after=said)
                client.session().close()
                assert [len([x for x in read(f) if x["event"] == "session.open"])
                        for f in (old, log)] == [2, 1], number
                log.unlink()
                service.signal(signal.SIGUSR1)
                eventually(log.exists, "there is a new one")


def test_no_line_is_left_out(tmp_path):
    """The log holds repeated events back after a hundred; this one doesn't."""
    folder = tmp_path / "s"
    with serving(folder, config="listen: 127.0.0.1:0\naudit: audit.jsonl\n") as service:
        with service.client() as client:
            for _ in range(150):
                code, _ = client.refused("CreateSession", create_request())
                assert code == grpc.StatusCode.INVALID_ARGUMENT
                client.session().close()
        assert len(of(folder / "audit.jsonl", "session.open")) == 150


def test_a_file_that_cannot_be_opened(tmp_path):
    (tmp_path / "serve.yml").write_text("audit: nowhere/audit.jsonl\n")
    result = run_program([PROGRAM, "serve", "--config", tmp_path / "serve.yml", "--state",
                          tmp_path / "state"])
    assert result.status == 1 and "nowhere/audit.jsonl" in result.stderr
