"""`prony serve --backup` and `--restore`: a copy of the state, taken while the service works or not."""
import json
import os
import shutil
import sqlite3
import threading

import pytest

from conftest import PROGRAM, run_program, sh
from service import SMALL, X, check_small, eventually, make_certificate, serving

TLS = """
listen: 127.0.0.1:0
tls: {certificate: cert.pem, key: key.pem}
"""


SETTINGS = json.dumps({"seed": 1, "precision": 0.01, "smallest_difference": 0.005, "launches": 1, "repeats": 2,
                       "warmups": 1, "max_time_s": 60, "tolerance": 1e-3, "reference": None})


def backup(state, file):
    return sh(PROGRAM, "serve", "--state", state, "--backup", file)


def serve(*options):
    return run_program([PROGRAM, "serve", *options])


def restore(file, state):
    return serve("--state", state, "--restore", file)


def refused(done, text):
    assert done.status != 0 and text in done.stderr and done.stderr.count("error: ") == 1, done


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A backup with some pages of tokens."""
    folder = tmp_path_factory.mktemp("saved")
    for i in range(60):
        sh(PROGRAM, "token", "add", f"user{i}", "--state", folder / "s")
    assert "60 tokens, 0 past sessions, 0 measurements" in backup(folder / "s", folder / "b")
    return folder / "b"


def test_restored_into_a_new_folder(tmp_path):
    """Tokens let in and what was measured is there; uploads are sent again."""
    make_certificate(tmp_path)
    with serving(tmp_path, config=TLS) as service:
        token = service.token("ann")
        with service.client(token, tmp_path / "cert.pem") as client:
            session = client.session()
            session.upload(SMALL)
            session.measure(model_file="model.onnx", dims=["batch=2"], settings=SETTINGS)
            said = backup(service.state, tmp_path / "b")  # in the middle of a session
            session.close()
    assert "1 token, 0 past sessions, 1 measurement\n" in said
    assert os.stat(tmp_path / "b").st_mode & 0o777 == 0o600
    shutil.rmtree(service.state)
    done = restore(tmp_path / "b", service.state)
    assert done.status == 0 and "restored" in done.stdout and "1 measurement\n" in done.stdout
    assert sorted(os.listdir(service.state)) == ["serve.lock", "state.db"]
    with serving(tmp_path, config=TLS) as again, \
            again.client(token, tmp_path / "cert.pem") as client:
        session = client.session()
        session.load(SMALL)
        check_small(session.infer([X])[0][0])
        session.close()
    assert "1 measurement\n" in backup(again.state, tmp_path / "b2")


def test_taken_while_sessions_come_and_go(tmp_path):
    """What ended before the backup began is in it, and the service doesn't notice."""
    closed, go_on = [], threading.Event()
    go_on.set()
    with serving(tmp_path / "s") as service, service.client() as client:
        def sessions():
            while go_on.is_set():
                client.session().close()
                closed.append(None)

        thread = threading.Thread(target=sessions)
        thread.start()
        try:
            for n in range(1, 4):
                eventually(lambda n=n: len(closed) >= 3 * n, "sessions")
                before = len(closed)
                backup(service.state, tmp_path / "b")
                with sqlite3.connect(tmp_path / "b") as db:
                    assert db.execute("SELECT count(*) FROM sessions").fetchone()[0] >= before - 1
                    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        finally:
            go_on.clear()
            thread.join()
    assert sorted(os.listdir(tmp_path)) == ["b", "s"]


def test_an_older_one_is_migrated_and_a_newer_one_refused(saved, tmp_path):
    with serving(tmp_path / "now") as service:
        pass
    with sqlite3.connect(service.state / "state.db") as db:
        version, = db.execute("PRAGMA user_version").fetchone()
    older, newer = tmp_path / "older", tmp_path / "newer"
    with sqlite3.connect(older) as db:  # as the first version had it
        with sqlite3.connect(saved) as source:
            tables = source.execute("SELECT sql FROM sqlite_master WHERE name IN ('tokens', 'generations', "
                                    "'blobs', 'sessions', 'reports', 'tokens_added', 'tokens_revoked') "
                                    "ORDER BY type").fetchall()
            user = source.execute("SELECT id, hash, user, role, created_ms FROM tokens").fetchone()
        for sql, in tables:
            db.execute(sql)
        db.execute("CREATE TABLE measurements (id INTEGER PRIMARY KEY AUTOINCREMENT, user TEXT NOT NULL, model TEXT "
                   "NOT NULL, backends TEXT NOT NULL, created_ms INTEGER NOT NULL, duration_ms INTEGER NOT NULL, "
                   "report_bytes INTEGER NOT NULL)")
        db.execute("INSERT INTO tokens (id, hash, user, role, created_ms) VALUES (?, ?, ?, ?, ?)", user)
        db.execute("PRAGMA application_id = 0x70726f6e")
        db.execute("PRAGMA user_version = 1")
    assert restore(older, tmp_path / "r").status == 0
    with sqlite3.connect(tmp_path / "r" / "state.db") as db:
        assert db.execute("PRAGMA user_version").fetchone() == (version,)
        assert db.execute("SELECT user FROM tokens").fetchall() == [(user[2],)]
        assert db.execute("SELECT summary FROM measurements").fetchall() == []
    shutil.copy(saved, newer)
    with sqlite3.connect(newer) as db:
        db.execute("PRAGMA user_version = 9999")
    refused(restore(newer, tmp_path / "n"), "newer prony")
    assert not (tmp_path / "n" / "state.db").exists()


def test_what_is_refused(saved, tmp_path):
    whole = saved.read_bytes()
    file, state = tmp_path / "b", tmp_path / "r"
    for at in (0, 10, 99, 4096, len(whole) // 2, len(whole) - 4096):
        file.write_bytes(whole[:at])
        refused(restore(file, state), f"'{file}'")
    page = whole.index(b"user5") // 4096 * 4096
    file.write_bytes(whole[:page] + bytes(4096) + whole[page + 4096:])
    refused(restore(file, state), f"backup '{file}' is damaged")
    refused(restore(tmp_path / "none", state), f"cannot read '{tmp_path / 'none'}'")
    assert not (state / "state.db").exists()
    file.write_bytes(whole)  # what was refused is in nobody's way
    assert restore(file, state).status == 0
    refused(restore(file, state), "has the state of a service already")
    with serving(tmp_path / "s") as service:
        refused(restore(file, service.state), "another 'prony serve' uses the state folder")
    refused(serve("--state", tmp_path / "no", "--backup", tmp_path / "x"), "cannot read")
    assert not (tmp_path / "no").exists() and not (tmp_path / "x").exists()
    assert "--backup cannot be combined with --restore" in \
        serve("--backup", "a", "--restore", "b").stderr
