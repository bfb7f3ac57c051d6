"""Which service a program uses, and with which token."""
import contextlib
import os
import pathlib
import pty
import stat
import subprocess
import sys

import pytest

import prony
from prony import _access, _native, _service
from python_parts import PATIENCE, serving

SOMEWHERE = "example.org:443"


def run(*argv):
    return subprocess.run([str(a) for a in argv], check=True, capture_output=True, text=True,
                          timeout=PATIENCE).stdout


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A service with TLS, its certificate, and a token that it takes."""
    folder = tmp_path_factory.mktemp("guarded")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost",
        "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    token = run(_native.program(), "token", "add", "tester", "--state", folder / "state").split()[-1]
    with serving(folder, "--tls-cert", certificate, "--tls-key", key) as service:
        yield service.address, str(certificate), token


def test_the_endpoint(monkeypatch):
    assert _access.endpoint() is None
    monkeypatch.setenv("OCTOML_PROFILE_ENDPOINT", "old:1")
    assert _access.endpoint() == "old:1"
    monkeypatch.setenv("PRONY_ENDPOINT", "own:1")
    assert _access.endpoint() == "own:1"
    monkeypatch.setenv("PRONY_ENDPOINT", "")
    assert _access.endpoint() == "old:1"
    assert _access.endpoint("given:1") == "given:1"


def test_without_an_endpoint_it_is_the_embedded_service():
    try:
        access = _access.resolve(access_token="not used")
        assert access.embedded and access.token is None
        assert access.server == _service.address() and access.server.startswith("unix:/")
        _native.ping(**access.arguments())
    finally:
        _service.stop()


def test_a_token_is_looked_for_where_users_keep_it(monkeypatch, tmp_path):
    assert _native.lacks_token(SOMEWHERE)
    assert not _native.lacks_token(SOMEWHERE, "given")
    for name in ("PRONY_TOKEN", "OCTOML_PROFILE_API_TOKEN"):
        with monkeypatch.context() as context:
            context.setenv(name, "secret")
            assert not _native.lacks_token(SOMEWHERE)
    for path in ("prony/token", "octoml_profile/access_token"):
        kept = tmp_path / ".config" / path
        kept.parent.mkdir(parents=True)
        kept.write_text("secret\n")
        assert not _native.lacks_token(SOMEWHERE)
        kept.unlink()
    assert _native.lacks_token(SOMEWHERE)


def test_no_token_without_tls():
    for server, options in ((SOMEWHERE, {"insecure": True}), ("localhost:1", {}), ("unix:/x", {})):
        assert not _native.lacks_token(server, **options)
        assert _access.resolve(server, **options).server == server  # and nobody is asked


def test_without_a_terminal_nobody_is_asked(guarded):
    address, certificate, _ = guarded
    access = _access.resolve(address, ca_file=certificate)
    assert access.token is None
    with pytest.raises(_native.Error, match="requires a token") as failed:
        _native.list_backends(**access.arguments())
    assert failed.value.code == _native.EDENIED


@pytest.mark.parametrize("name, source", [("PRONY_TOKEN", "PRONY_TOKEN"), (None, "the caller")])
def test_a_refused_token_says_where_it_came_from(guarded, monkeypatch, name, source):
    address, certificate, _ = guarded
    if name:
        monkeypatch.setenv(name, "wrong")
    access = _access.resolve(address, ca_file=certificate, access_token=None if name else "wrong")
    with pytest.raises(_native.Error, match=f"refuses the token of {source}"):
        _native.ping(**access.arguments())
    assert "wrong" not in repr(access)


def test_a_given_token(guarded):
    address, certificate, token = guarded
    access = _access.resolve(address, ca_file=certificate, access_token=token)
    session = _native.Session(["local/onnxrt-cpu"], **access.arguments())
    assert session.backends == ["local/onnxrt-cpu"]
    session.close()


@pytest.mark.parametrize("named", ["by the argument", "by PRONY_CA"])
def test_a_certificate_that_signs_itself(guarded, monkeypatch, named):
    address, certificate, token = guarded
    where = {"server_addr": address, "access_token": token}
    with pytest.raises(prony.CreateSessionError, match="PRONY_CA or ca_file"):
        prony.RemoteInferenceSession("local/onnxrt-cpu", **where)
    if named == "by PRONY_CA":
        monkeypatch.setenv("PRONY_CA", certificate)
    else:
        where["ca_file"] = pathlib.Path(certificate)
    assert "local/onnxrt-cpu" in map(str, prony.get_supported_backends(**where))
    assert "local/onnxrt-cpu" in map(str, prony.get_default_backends(**where))
    with prony.RemoteInferenceSession("local/onnxrt-cpu", **where) as session:
        assert [str(spec) for spec in session.backends] == ["local/onnxrt-cpu"]
    with prony.remote_profile(backends="local/onnxrt-cpu", print_results_to=None, **where):
        pass
    with prony.remote_inference(backend="local/onnxrt-cpu", **where):
        pass


def test_an_authority_that_cannot_be_read(guarded, tmp_path):
    address, _, token = guarded
    missing = tmp_path / "missing.pem"
    with pytest.raises(prony.CreateSessionError, match="missing.pem"):
        prony.RemoteInferenceSession("local/onnxrt-cpu", address, access_token=token, ca_file=missing)


def test_the_embedded_service_is_not_asked_for_a_certificate(monkeypatch, tmp_path):
    monkeypatch.setenv("PRONY_CA", str(tmp_path / "missing.pem"))
    try:
        assert prony.get_supported_backends()
    finally:
        _service.stop()


ASK = """
import sys
from prony import _access, _native
access = _access.resolve(sys.argv[1], ca_file=sys.argv[2])
_native.ping(**access.arguments())
print("let in")
"""


def converse(guarded, answers):
    """What a person sees who types these when asked; and the program's status and output."""
    address, certificate, _ = guarded
    main, terminal = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", ASK, address, certificate], stdin=terminal,
                          stderr=terminal, stdout=subprocess.PIPE, text=True,
                          start_new_session=True) as process:
        os.close(terminal)
        shown = b""
        for number, answer in enumerate(answers, 1):
            while shown.count(b"token for") < number:
                shown += os.read(main, 1000)
            os.write(main, answer.encode() + b"\n")
        with contextlib.suppress(OSError):
            while piece := os.read(main, 1000):
                shown += piece
        status = process.wait(PATIENCE)
        said = process.stdout.read()
    os.close(main)
    return shown.decode(), status, said


def test_the_prompt_checks_and_keeps(guarded, tmp_path):
    _, _, token = guarded
    shown, status, said = converse(guarded, ["wrong", token])
    assert (status, said) == (0, "let in\n")
    assert token not in shown and "refuses the token" in shown
    kept = tmp_path / ".config/prony/token"
    assert kept.read_text() == f"{token}\n" and stat.S_IMODE(kept.stat().st_mode) == 0o600
    shown, status, said = converse(guarded, [])
    assert (shown, status, said) == ("", 0, "let in\n")


def test_the_prompt_gives_up(guarded, tmp_path):
    shown, status, _ = converse(guarded, ["wrong", "no token", "wrong again"])
    assert status == 1 and shown.count("token for") == 3 and "refuses the token" in shown
    shown, status, _ = converse(guarded, [""])
    assert status == 1 and "no token was given" in shown
    assert not (tmp_path / ".config").exists()
