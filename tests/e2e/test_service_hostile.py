"""Input that was made to hurt: the service refuses it, answers others meanwhile, and stays small."""
import contextlib
import hashlib
import os
import socket
import threading

import grpc
import numpy as np
import pytest

from service import (LOCAL, PATIENCE, SMALL, X, Session, base, blob_files, check_small, create_request,
                     eventually, half_files, own, resident_bytes, serving, tensor)

Code = grpc.StatusCode
CONFIG = """
limits: {message: 4 MiB, model: 64 MiB, sessions: 50, models_per_session: 5}
lease: 20s
"""
MOST_MEMORY = 200 << 20  # of the service, whatever comes


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("hostile"), config=CONFIG) as service:
        yield service
        assert resident_bytes(service.pid) < MOST_MEMORY


@pytest.fixture
def client(service):
    with service.client() as client:
        yield client


@pytest.fixture
def session(client):
    session = client.session()
    yield session
    # It works after all that.
    session.load(SMALL, model=4)
    check_small(session.infer([X], model=4)[0][0])
    session.close()


def invalid(client, name, request):
    code, said = client.refused(name, request)
    assert code == Code.INVALID_ARGUMENT, said
    return said


# ---- Connections ----

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
HALVES = {
    "nothing": b"", "half a preface": PREFACE[:10], "a preface": PREFACE,
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "garbage": bytes(range(256)) * 40,
    "a giant frame": PREFACE + SETTINGS + b"\xff\xff\xff\1\4\0\0\0\1",
    "half a frame": PREFACE + SETTINGS + b"\0\0\x10\1\4\0\0\0\1abc",
    "data of no stream": PREFACE + SETTINGS + b"\0\0\1\0\0\0\0\0\5x",
    "pings": PREFACE + SETTINGS + b"\0\0\x08\6\0\0\0\0\0abcdefgh" * 1000,
    "resets": PREFACE + SETTINGS + b"\0\0\4\3\0\0\0\0\1\0\0\0\0" * 1000,
}


@pytest.mark.parametrize("data", HALVES.values(), ids=HALVES.keys())
def test_half_open_connections(service, client, data):
    host, _, port = service.address.rpartition(":")
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            s = stack.enter_context(socket.create_connection((host, int(port)), PATIENCE))
            with contextlib.suppress(OSError):  # it may have been closed already
                s.sendall(data)
        client.ping()
        client.session().close()


def test_many_idle_connections(service):
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(service.client()) for _ in range(100)]
        for client in clients:
            client.ping()


# ---- Messages ----

UNARY = ["Ping", "ListSupportedBackends", "CreateSession", "WaitUntilSessionReady", "Heartbeat",
         "CloseSession", "LoadCachedModelComponent", "LoadModel", "Run"]
WITH_FIELDS = [name for name in UNARY if name not in ("Ping", "ListSupportedBackends")]
NONSENSE = {
    "cut short": b"\x0a\x10abc", "endless varint": b"\xff" * 20, "field 0": b"\x02\x00",
    "group": b"\x0b" * 100, "wrong type": b"\x0d\1\2\3\4" + b"\x15\1\2\3\4",
    "huge length": b"\x0a\xff\xff\xff\xff\x0f", "text": b"hello, is this the service?",
    "random": bytes((i * 7919 + 13) % 256 for i in range(1000)),
}


@pytest.mark.parametrize("name", WITH_FIELDS)
@pytest.mark.parametrize("data", NONSENSE.values(), ids=NONSENSE.keys())
def test_malformed_messages(client, name, data):
    with pytest.raises(grpc.RpcError) as error:
        client.raw(f"/octoml_profile.RemoteInference/{name}", data)
    assert error.value.code() == Code.INVALID_ARGUMENT and error.value.details()
    client.ping()


@pytest.mark.parametrize("path", ["octoml_profile.RemoteInference/LoadModelComponent",
                                  "prony.Prony/Measure", "prony.Workers/Attach",
                                  "prony.Workers/Fetch"])
@pytest.mark.parametrize("data", NONSENSE.values(), ids=NONSENSE.keys())
def test_malformed_messages_of_streams(client, path, data):
    call = client.channel.stream_stream(f"/{path}")(iter([data]), timeout=PATIENCE)
    with pytest.raises(grpc.RpcError) as error:
        list(call)
    client.messages.append(error.value.details())
    assert error.value.code() in (Code.INVALID_ARGUMENT, Code.NOT_FOUND)
    client.ping()


@pytest.mark.parametrize("name", WITH_FIELDS)
def test_messages_of_the_wrong_type(client, session, name):
    """Requests of other calls; whatever they mean here, they may not do harm."""
    uuid = os.urandom(16)
    others = {"Run": Session(client, uuid, 1).run_request([X]),
              "CreateSession": create_request(LOCAL), "Status": own.StatusReply(version="1"),
              "Attach": own.WorkerReport(id=1, hello=own.Hello(hardware="x"))}
    others.pop(name, None)
    for other in others.values():
        with contextlib.suppress(grpc.RpcError):
            client.raw(f"/octoml_profile.RemoteInference/{name}", other.SerializeToString())
    client.call("CloseSession", base.CloseSessionRequest(session_uuid=uuid))
    assert [s.state for s in client.status().sessions] == ["ready"]


@pytest.fixture(autouse=True)
def no_more_sessions(service):
    """Whatever a test began, the next one finds free hardware."""
    yield
    with service.client() as client:
        eventually(lambda: client.backends().details[0].free == 1, "the hardware is free")


def test_oversized_messages(service, client, session):
    before = resident_bytes(service.pid)
    big = np.zeros(8 << 20, np.uint8)
    for _ in range(5):
        assert client.refused("Run", session.run_request([big]))[0] == Code.RESOURCE_EXHAUSTED
        with pytest.raises(grpc.RpcError) as error:
            session.upload(big.tobytes(), size=len(big))
        assert error.value.code() == Code.RESOURCE_EXHAUSTED
        with pytest.raises(grpc.RpcError) as error:
            client.raw("/octoml_profile.RemoteInference/Ping", big.tobytes())
        assert error.value.code() == Code.RESOURCE_EXHAUSTED
    assert resident_bytes(service.pid) < before + (64 << 20)


def test_compressed_messages_are_not_looked_at(client):
    call = client.channel.unary_unary("/octoml_profile.RemoteInference/Heartbeat")
    with pytest.raises(grpc.RpcError) as error:
        call(bytes(3 << 20), timeout=PATIENCE, compression=grpc.Compression.Gzip)
    assert error.value.code() in (Code.INVALID_ARGUMENT, Code.UNIMPLEMENTED, Code.INTERNAL)


def test_metadata_that_is_too_large(service, client):
    with service.client() as other:
        other.metadata = [("x-junk", "x" * (1 << 20))]
        with pytest.raises(grpc.RpcError):
            other.ping()
    client.ping()


# ---- Sessions ----

def test_ten_thousand_backends(client):
    said = invalid(client, "CreateSession", create_request(*[LOCAL] * 10000))
    assert "10000" in said


def test_backend_of_ten_thousand_options(client):
    pairs = [base.BackendOption(key=f"k{i}", value="v" * 100) for i in range(10000)]
    request = base.CreateSessionRequest(backends=[base.BackendSpec(
        hardware_platform="local", software_backend="onnxrt-cpu", backend_options=pairs)])
    code, _ = client.refused("CreateSession", request)
    assert code in (Code.INVALID_ARGUMENT, Code.RESOURCE_EXHAUSTED)


@pytest.mark.parametrize("key, value", [("threads", "9" * 10000), ("threads", "1]"), ("a=b", "c"),
                                        ("threads", "1,opt=all"), ("", "1"), ("thr\neads", "1"),
                                        ("ort.session.x", "/etc/passwd\x01")])
def test_odd_options(client, key, value):
    request = base.CreateSessionRequest(backends=[base.BackendSpec(
        hardware_platform="local", software_backend="onnxrt-cpu",
        backend_options=[base.BackendOption(key=key, value=value)])])
    try:
        reply = client.call("CreateSession", request)
        assert reply.error_value.code == base.ERROR_BACKEND_NONEXISTENT, reply
    except grpc.RpcError as error:
        assert error.code() in (Code.INVALID_ARGUMENT, Code.RESOURCE_EXHAUSTED)


def test_limit_of_sessions(client):
    uuids = [client.create(LOCAL).result_value.session_uuid for _ in range(50)]
    code, said = client.refused("CreateSession", create_request(LOCAL))
    assert code == Code.RESOURCE_EXHAUSTED and "50" in said
    for uuid in reversed(uuids):
        client.call("CloseSession", base.CloseSessionRequest(session_uuid=uuid))


# ---- Uploads ----

def upload(client, *messages):
    return client.refused("LoadModelComponent", iter(messages))


def test_chunks_without_a_first_message(client):
    code, said = upload(client, base.LoadModelComponentRequest(chunk=b"x"))
    assert code == Code.INVALID_ARGUMENT and "first message" in said


def test_upload_without_messages(client):
    assert upload(client)[0] == Code.INVALID_ARGUMENT


def test_second_first_message(client, session):
    message = next(session.chunks(b"x"))
    assert upload(client, message, message)[0] == Code.INVALID_ARGUMENT


@pytest.mark.parametrize("missing", ["session_uuid", "model_id", "model_component_id", "filename"])
def test_first_message_that_lacks_something(client, session, missing):
    message = next(session.chunks(b"x"))
    message.ClearField(missing)
    assert upload(client, message)[0] == Code.INVALID_ARGUMENT


def test_component_ids_count_from_one(client, session):
    message = next(session.chunks(b"x"))
    message.model_component_id = 0
    assert upload(client, message)[0] == Code.INVALID_ARGUMENT


def test_upload_that_stops(service, client):
    """A client that says no more holds nobody up, and its session ends when it goes."""
    stop = threading.Event()
    session = client.session()

    def half():
        yield next(session.chunks(b"x" * 1000))
        stop.wait(PATIENCE)

    with service.client() as other:
        call = other.start("LoadModelComponent", half())
        client.ping()
        session.heartbeat()
        session.close()
        stop.set()
        with pytest.raises(grpc.RpcError) as error:
            call.result()
        assert error.value.code() == Code.FAILED_PRECONDITION


def test_model_that_is_too_large(service, client, session):
    before = len(blob_files(service))
    chunk = os.urandom(1 << 20)

    def endless():
        yield next(session.chunks(chunk))
        while True:
            yield base.LoadModelComponentRequest(chunk=chunk)

    code, said = client.refused("LoadModelComponent", endless())
    assert code == Code.RESOURCE_EXHAUSTED and "larger" in said
    eventually(lambda: not half_files(service), "no half file is left")
    assert len(blob_files(service)) == before


def test_too_many_models(client):
    session = client.session()
    for model in range(5):
        session.upload(b"x", model=model)
    with pytest.raises(grpc.RpcError) as error:
        session.upload(b"x", model=5)
    assert error.value.code() == Code.RESOURCE_EXHAUSTED
    session.close()


NAMES = ["", ".", "..", "/", "/etc/passwd", "../x", "a/../b", "a/../../b", "a//b", "a/", "./a", "a/.",
         "x" * 10000, "a/" * 5000 + "a", "x" * 256, "\n", "a\x01b", "a\x7fb", "a\u0085b", "a\x1b[31m",
         "model.onnx\0", "\0", "a\0/../../b"]


def outside(service):
    """All files but those of sessions and of the cache."""
    return {os.path.join(folder, name) for folder, _, names in os.walk(service.folder)
            for name in names
            if not folder.startswith((f"{service.state}/sessions", f"{service.state}/blobs"))}


@pytest.mark.parametrize("name", NAMES, ids=lambda n: repr(n)[:20])
def test_names_of_files(service, client, session, name):
    before = outside(service)
    message = next(session.chunks(b"x"))
    message.filename = name
    assert upload(client, message)[0] == Code.INVALID_ARGUMENT
    session.upload(b"x", name="fine", model=3)
    request = base.LoadCachedModelComponentRequest(
        session_uuid=session.uuid, model_id=1, model_component_id=1, filename=name,
        sha256_hash=hashlib.sha256(b"x").digest())
    invalid(client, "LoadCachedModelComponent", request)
    request = own.MeasureRequest(session_uuid=session.uuid, model_id=3, model_file=name or "..")
    if "\0" in name:
        invalid(client, "Measure", request)
    else:
        assert client.call("Measure", request)[-1].error.message
    assert outside(service) == before


def test_name_that_is_no_utf8(client, session):
    good = next(session.chunks(b"x", name="NAME")).SerializeToString()
    call = client.channel.stream_unary("/octoml_profile.RemoteInference/LoadModelComponent")
    with pytest.raises(grpc.RpcError) as error:
        call(iter([good.replace(b"NAME", b"\xff\xfe\x80\xc0")]), timeout=PATIENCE)
    assert error.value.code() == Code.INVALID_ARGUMENT


@pytest.mark.parametrize("length", [0, 1, 20, 31, 33, 64, 10000])
def test_hashes_of_another_length(client, session, length):
    with pytest.raises(grpc.RpcError) as error:
        session.cached(b"", sha256=b"\1" * length)
    assert error.value.code() == Code.INVALID_ARGUMENT


@pytest.mark.parametrize("mask", [b"\0\0", b"\2", b"\xff", b"\0" * 10000, b"\1\0"])
def test_masks_that_are_too_long(client, session, mask):
    for call in (lambda: session.upload(SMALL, backends_to_skip_bitmask=mask),
                 lambda: session.cached(SMALL, backends_to_skip_bitmask=mask),
                 lambda: session.upload(SMALL, model=2) and session.load_reply(
                     2, backends_to_skip_bitmask=mask)):
        with pytest.raises(grpc.RpcError) as error:
            call()
        assert error.value.code() == Code.INVALID_ARGUMENT


def test_masks_that_are_too_short(client):
    session = client.session(*[LOCAL] * 9)
    for mask in (b"\1", b"\0", b"\0\2", b"\0\0\0"):
        with pytest.raises(grpc.RpcError) as error:
            session.upload(SMALL, backends_to_skip_bitmask=mask)
        assert error.value.code() == Code.INVALID_ARGUMENT
    reply = session.upload(SMALL, backends_to_skip_bitmask=b"\xfe\1")
    assert [r.WhichOneof("result") for r in reply.result_per_backend] == \
        ["result_value"] + ["skipped"] * 8
    session.close()


# ---- Runs ----

def run(session, *tensors, maps=([0],)):
    return base.RunRequest(session_uuid=session.uuid, model_id=1,
                           inputs=[base.Value(tensor=t) for t in tensors],
                           input_map_per_backend=[base.InputMap(input_value_indices=m)
                                                  for m in maps])


TENSORS = {
    "negative": tensor(X, shape=[-2, 4]), "negative twice": tensor(X, shape=[-2, -4]),
    "too little data": tensor(X, data=b"1234"), "too much data": tensor(X, data=bytes(1000)),
    "no data": tensor(X, data=b""), "no shape": tensor(X, shape=[]),
    "huge": tensor(X, shape=[1 << 62, 4]),
    "overflow to 0": tensor(X, shape=[1 << 32, 1 << 32], data=b""),
    "overflow to 32": tensor(X, shape=[(1 << 62) + 2, 4]), "least": tensor(X, shape=[-(1 << 63), 4]),
    "rank 1000": tensor(X, shape=[1] * 1000 + [2, 4]), "no such type": tensor(X, onnx_dtype=999),
    "type of text": tensor(X, onnx_dtype=8), "negative type": tensor(X, onnx_dtype=-1),
}


@pytest.mark.parametrize("bad", TENSORS.values(), ids=TENSORS.keys())
def test_tensors(client, session, bad):
    session.load(SMALL)
    code, said = client.refused("Run", run(session, bad))
    assert code in (Code.INVALID_ARGUMENT, Code.RESOURCE_EXHAUSTED), said


MAPS = {"beyond": [[1]], "negative": [[-1]], "least": [[-(1 << 31)]], "too many": [[0, 0]],
        "of two backends": [[0], [0]], "empty": [[]], "ten thousand": [[0] * 10000],
        "ten thousand backends": [[0]] * 10000}


@pytest.mark.parametrize("maps", MAPS.values(), ids=MAPS.keys())
def test_maps(client, session, maps):
    session.load(SMALL, inputs=["x"], outputs=["y"])
    invalid(client, "Run", run(session, tensor(X), maps=maps))


def test_value_without_a_tensor(client, session):
    session.load(SMALL)
    request = run(session, tensor(X))
    request.inputs.append(base.Value())
    with contextlib.suppress(grpc.RpcError):
        reply = client.call("Run", request)
        assert reply.result_per_backend[0].WhichOneof("result")


@pytest.mark.parametrize("fields", [{"num_repeats": (1 << 64) - 1}, {"num_warmups": (1 << 64) - 1},
                                    {"repeat_for_milliseconds": (1 << 64) - 1}])
def test_huge_repeats(service, client, session, fields):
    """They go on until the client has enough of it; others are answered, and memory is bounded."""
    session.load(SMALL)
    call = client.start("Run", session.run_request([X], **fields), timeout=2)
    with service.client() as other:
        for _ in range(20):
            other.ping()
    try:
        result, = call.result().result_per_backend
        assert result.error_value.message
    except grpc.RpcError as error:
        assert error.code() in (Code.DEADLINE_EXCEEDED, Code.INVALID_ARGUMENT,
                                Code.RESOURCE_EXHAUSTED)
    assert resident_bytes(service.pid) < MOST_MEMORY


def test_memory_after_many_small_attacks(service, client):
    """What is refused is forgotten."""
    def attack(n):
        for _ in range(n):
            session = client.session()
            upload(client, base.LoadModelComponentRequest(chunk=b"x" * 100000))
            message = next(session.chunks(b"x" * 100000))
            upload(client, message, message)
            client.refused("Run", session.run_request([X]))
            invalid(client, "CreateSession", create_request(*[LOCAL] * 100))
            session.close()

    attack(100)
    before = resident_bytes(service.pid)
    attack(300)
    assert resident_bytes(service.pid) < before + (8 << 20)
