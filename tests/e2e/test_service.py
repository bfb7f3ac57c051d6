"""What each call of the service does, with real clients (grpcio), workers and executors."""
import contextlib
import hashlib
import io
import json
import os
import queue
import re
import signal
import socket
import threading
import time

import grpc
import jsonschema
import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import PROGRAM, ROOT, run_program, sh
from service import (CHUNK, FXPROTO, LOCAL, ORT, PATIENCE, SMALL, X, Client, Program, Session, affine, array, base,
                     blob_files, check_small, create_request, endless, eventually, expanding, free_port,
                     half_files, model_bytes, own, pb, serving, slow_to_load, start_endless_measurement,
                     subtraction, tensor)

Code = grpc.StatusCode
OPENVINO = "local/openvino-cpu"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("service"), "--log-format", "json") as service:
        yield service


@pytest.fixture
def client(service):
    with service.client() as client:
        yield client
        # What a test forgot to close would make the next one wait.
        eventually(lambda: not client.status().sessions, "all sessions are closed")


@pytest.fixture
def session(client):
    session = client.session()
    yield session
    session.close()


@pytest.fixture
def pair(client):
    """A session of two backends, which share the host."""
    session = client.session(LOCAL, OPENVINO)
    yield session
    session.close()


def names(specs):
    return [f"{s.hardware_platform}/{s.software_backend}" for s in specs]


def kinds(reply):
    return [result.WhichOneof("result") for result in reply.result_per_backend]


def error_of(result):
    assert result.HasField("error_value"), result
    return result.error_value.code, result.error_value.message


# ---- What there is ----

def test_ping_answers_nothing(client):
    assert client.ping() == base.PingReply()


def test_backends_presets_and_details(client):
    reply = client.backends()
    presets = {p.preset_name: names(p.backends) for p in reply.presets}
    assert names(reply.backends) == [LOCAL, OPENVINO]
    # octoml-profile's client can use no other software.
    assert presets == {"default": [LOCAL], "all": [LOCAL, OPENVINO]}
    details = {f"{d.hardware_platform}/{d.software_backend}": d for d in reply.details}
    assert list(details) == [LOCAL, OPENVINO]
    assert details[LOCAL].runtime_version.startswith("ONNX Runtime 1.")
    assert "threads" in details[LOCAL].options and details[LOCAL].processor
    assert (details[LOCAL].hosts, details[LOCAL].free) == (1, 1)


def test_listing_needs_no_hardware(client, session):
    assert client.backends().details[0].free == 0


def test_health_service(client):
    assert client.raw("/grpc.health.v1.Health/Check", b"") == b"\x08\x01"  # SERVING


def test_unknown_method(client):
    with pytest.raises(grpc.RpcError) as error:
        client.raw("/octoml_profile.RemoteInference/Explode", b"")
    assert error.value.code() == Code.UNIMPLEMENTED


# ---- Sessions ----

def test_session_is_ready_at_once_and_has_a_cookie(client):
    call = client.start("CreateSession", create_request(LOCAL))
    value = call.result().result_value
    assert value.ready and len(value.session_uuid) == 16
    cookies = [v for k, v in call.initial_metadata() if k == "set-cookie"]
    assert len(cookies) == 1 and value.session_uuid.hex() not in cookies[0]
    client.call("CloseSession", base.CloseSessionRequest(session_uuid=value.session_uuid))


@pytest.mark.parametrize("backend, said", [
    ("local/torch-eager-cpu", "no software"), ("r6i.large/onnxrt-cpu", "no hardware"),
    ("local/onnxrt-cpu[colour=red]", "no option 'colour'"),
    ("local/onnxrt-cpu[threads=-1]", "threads"),
    ("local/onnxrt-cpu[lib=/etc/passwd]", "'lib'")])
def test_unknown_backends_and_options(client, backend, said):
    error = client.create(LOCAL, backend).error_value
    assert error.code == base.ERROR_BACKEND_NONEXISTENT and said in error.message


@pytest.mark.parametrize("hardware, software", [("", "onnxrt-cpu"), ("local", ""), ("a/b", "c"),
                                                ("local", "onnxrt-cpu[threads=1]"), ("l\nl", "x")])
def test_malformed_backends(client, hardware, software):
    request = base.CreateSessionRequest(
        backends=[base.BackendSpec(hardware_platform=hardware, software_backend=software)])
    code, _ = client.refused("CreateSession", request)
    assert code == Code.INVALID_ARGUMENT


def test_options_of_the_runtimes_own(client):
    client.session("local/onnxrt-cpu[threads=1,ort.session.intra_op.allow_spinning=0]").close()


def test_no_backends(client):
    assert client.refused("CreateSession", create_request())[0] == Code.INVALID_ARGUMENT


def test_own_uuid_and_its_duplicates(client):
    uuid = bytes(range(16))
    session = client.session(LOCAL, session_uuid=uuid)
    assert session.uuid == uuid
    code, said = client.refused("CreateSession", create_request(LOCAL, session_uuid=uuid))
    assert code == Code.INVALID_ARGUMENT and "already in use" in said
    session.close()
    client.session(LOCAL, session_uuid=uuid).close()


@pytest.mark.parametrize("uuid", [b"", b"short", bytes(17), bytes(5000)])
def test_uuid_of_another_length(client, uuid):
    for name, request in (
            ("CreateSession", create_request(LOCAL, session_uuid=uuid)),
            ("Heartbeat", base.HeartbeatRequest(session_uuid=uuid)),
            ("CloseSession", base.CloseSessionRequest(session_uuid=uuid)),
            ("WaitUntilSessionReady", base.WaitUntilSessionReadyRequest(session_uuid=uuid))):
        assert client.refused(name, request)[0] == Code.INVALID_ARGUMENT, name


def test_queue_place_and_grant(service, client, session):
    value = client.create(LOCAL).result_value
    assert not value.ready
    assert (value.queue.hardware, value.queue.place) == ("local", 1)
    third = client.create(LOCAL).result_value
    assert third.queue.place == 2
    (holder,) = third.queue.holders
    assert holder == hashlib.sha256(b"local").hexdigest()[:12]
    waiting = Session(client, value.session_uuid, 1)
    last = Session(client, third.session_uuid, 1)
    polls = [client.start("WaitUntilSessionReady",
                          base.WaitUntilSessionReadyRequest(session_uuid=s.uuid))
             for s in (waiting, last)]
    session.close()
    assert polls[0].result().ready
    assert not polls[1].result().ready or polls[1].result().queue.place == 1
    # Nothing can be done with a session that waits, and a heartbeat is life all the same.
    assert client.refused("LoadModel", base.LoadModelRequest(
        session_uuid=last.uuid, model_id=1, model_format=base.MODEL_FORMAT_ONNX))[0] == \
        Code.FAILED_PRECONDITION
    last.heartbeat()
    waiting.close()
    last.wait()
    last.close()


def test_long_poll_ends_and_says_to_ask_again(client, session):
    waiting = Session(client, client.create(LOCAL).result_value.session_uuid, 1)
    begun = time.monotonic()
    reply = waiting.wait_once()
    assert not reply.ready and reply.queue.place == 1 and time.monotonic() - begun > 1
    assert reply.queue.waited_ms >= 1000
    # A second one who asks for the same session takes the place of the first.
    first = client.start("WaitUntilSessionReady",
                         base.WaitUntilSessionReadyRequest(session_uuid=waiting.uuid))
    eventually(lambda: client.start(
        "WaitUntilSessionReady",
        base.WaitUntilSessionReadyRequest(session_uuid=waiting.uuid)) and first.done(),
        "the first is told to ask again")
    assert not first.result().ready
    waiting.close()


def test_closing_while_queued_ends_the_wait(client, session):
    waiting = Session(client, client.create(LOCAL).result_value.session_uuid, 1)
    poll = client.start("WaitUntilSessionReady",
                        base.WaitUntilSessionReadyRequest(session_uuid=waiting.uuid))
    waiting.close()
    with pytest.raises(grpc.RpcError) as error:
        poll.result()
    assert error.value.code() == Code.FAILED_PRECONDITION
    # Nobody is in front of the next one.
    value = client.create(LOCAL).result_value
    assert value.queue.place == 1
    Session(client, value.session_uuid, 1).close()


def test_closing_frees_hardware_and_files_and_is_idempotent(service, client):
    session = client.session()
    session.load(SMALL)
    check_small(session.infer([X])[0][0])
    assert len(service.session_files()) == 1
    executors = set(service.children("executor"))
    assert executors
    for _ in range(3):
        session.close()
    eventually(lambda: client.backends().details[0].free == 1, "the hardware is free")
    eventually(lambda: not service.session_files(), "the files are gone")
    eventually(lambda: not executors & set(service.children("executor")), "executors are gone")
    assert client.refused("Heartbeat", base.HeartbeatRequest(session_uuid=session.uuid))[0] == \
        Code.FAILED_PRECONDITION


def test_closing_ends_what_runs(client, session):
    session.load(endless())
    run = client.start("Run", session.run_request([np.zeros(4, np.float32), np.int64(1 << 60)]))
    eventually(lambda: client.status().sessions[0].idle_ms == 0, "it runs")
    session.close()
    result, = run.result().result_per_backend
    assert result.error_value.code == base.ERROR_MODEL_INFERENCE
    client.session().close()


def test_lease_of_a_session_without_life(service, client):
    session = client.session(LOCAL, lease_s=1.0)
    waiting = client.create(LOCAL).result_value
    # The first one says nothing any more; the second one waits, which is life.
    other = Session(client, waiting.session_uuid, 1)
    other.wait()
    assert client.refused("Heartbeat", base.HeartbeatRequest(session_uuid=session.uuid))[0] == \
        Code.FAILED_PRECONDITION
    other.close()
    eventually(lambda: any('"expired: no heartbeat"' in line for line in service.log if line),
               "the log says why")


def test_signs_of_life(client):
    session = client.session(LOCAL, lease_s=6.0)
    end = time.monotonic() + 8
    while time.monotonic() < end:
        session.heartbeat()
        time.sleep(0.1)
    session.close()
    # For a client without heartbeats a call that is open is life, however long it takes.
    session = client.session(LOCAL, lease_s=2.0)

    def slowly():
        yield next(session.chunks(b"x" * 1000, name="slow"))
        time.sleep(4)

    session.call("LoadModelComponent", slowly())
    session.heartbeat()
    session.close()


def label(session):
    """By which the log knows it."""
    return hashlib.sha256(session.uuid).hexdigest()[:12]


def run_without_end(session):
    return session.client.start("Run", session.run_request(
        [np.zeros(4, np.float32), np.int64(1 << 60)], mode=base.INFERENCE))


def measure_without_end(session):
    return start_endless_measurement(session)


def upload_without_end(session):
    def chunks():
        yield next(session.chunks(b"x" * 1000, name="slow"))
        session.ended.wait(PATIENCE)

    session.ended = threading.Event()
    return session.client.start("LoadModelComponent", chunks())


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize("call", [run_without_end, measure_without_end, upload_without_end])
def test_who_sends_heartbeats_and_stops_is_given_up(service, client, call, announced):
    """A client that was stopped in the middle of a call: its connection is as it was."""
    session = client.session(LOCAL, lease_s=2.0, beats=announced)
    session.load(endless())
    if not announced:
        session.heartbeat()
        session.heartbeat()
    begun = call(session)
    service.said(f'session.end.*{label(session)}.*"expired: no heartbeat"')
    with contextlib.suppress(AttributeError):
        session.ended.set()
    with contextlib.suppress(grpc.RpcError):  # or the reply has the error
        list(begun) if call is measure_without_end else begun.result()


def test_who_died_in_the_queue_gets_no_new_lease(service, client):
    first = client.session(LOCAL, lease_s=2.0)
    with service.client() as mortal:
        dead = Session(mortal, mortal.create(LOCAL, lease_s=4.0).result_value.session_uuid, 1)
        dead.place()
    after = Session(client, client.create(LOCAL, lease_s=5.0).result_value.session_uuid, 1)
    ends = [service.said(f'session.end.*{label(s)}') for s in (first, dead, after)]
    assert ends == [line for line in service.log if line in ends]  # in this order
    assert all('"expired: no heartbeat"' in line for line in ends)


def test_lease_is_never_longer_than_the_services_own(client):
    session = client.session(LOCAL, lease_s=1e18)
    session.close()
    for odd in (-1.0, 0.0, float("nan"), float("inf"), 1e-300):
        client.session(LOCAL, lease_s=odd).close()


# ---- Files ----

@pytest.mark.parametrize("size", [1, 1000, len(SMALL), CHUNK])
def test_upload_in_chunks(session, size):
    assert kinds(session.upload(SMALL, size=size)) == ["result_value"]
    session.load_reply()
    check_small(session.infer([X])[0][0])


def test_large_upload_is_stored_as_it_was(service, session):
    data = np.random.default_rng(1).bytes(5 * CHUNK + 17)
    session.upload(data, name="weights/0")
    path = blob_files(service)[hashlib.sha256(data).hexdigest()]
    assert path.read_bytes() == data


def test_empty_file(service, session):
    assert kinds(session.upload(b"", name="external_data")) == ["result_value"]
    assert blob_files(service)[hashlib.sha256(b"").hexdigest()].read_bytes() == b""


def test_file_that_isnt_there_must_be_uploaded(client, session):
    data = np.random.default_rng(2).bytes(1000)
    with pytest.raises(grpc.RpcError) as error:
        session.cached(data)
    assert error.value.code() == Code.NOT_FOUND
    session.upload(data, name="a")
    assert kinds(session.cached(data, name="b")) == ["result_value"]


def test_cached_file_is_loaded(session):
    session.upload(SMALL, model=7)
    session.cached(SMALL, model=8)
    assert kinds(session.load_reply(8)) == ["result_value"]
    check_small(session.infer([X], model=8)[0][0])


def test_same_file_is_held_once(service, session):
    weights = np.random.default_rng(3).bytes(1 << 20)
    for model in (1, 2, 3):
        session.upload(weights, model=model, name="weights/0")
        session.upload(SMALL, model=model)
        session.load_reply(model)
    path = blob_files(service)[hashlib.sha256(weights).hexdigest()]
    linked = [p for p in service.state.rglob("*") if p.is_file() and p.samefile(path)]
    assert len(linked) == 4  # the blob, and a name of it in each model's folder
    same = [p for p in service.state.rglob("*") if p.is_file() and p.stat().st_size == 1 << 20]
    assert set(linked) == set(same)


def test_file_twice_in_a_model(client, session):
    session.upload(SMALL)
    with pytest.raises(grpc.RpcError) as error:
        session.upload(SMALL)
    assert error.value.code() == Code.INVALID_ARGUMENT


# ---- Masks and loading ----

def test_skip_masks(pair):
    assert kinds(pair.upload(SMALL, backends_to_skip_bitmask=b"\x02")) == ["result_value", "skipped"]
    assert kinds(pair.cached(SMALL, backends_to_skip_bitmask=b"\x01")) == ["skipped", "result_value"]
    assert kinds(pair.load_reply(backends_to_skip_bitmask=b"\x02")) == ["result_value", "skipped"]
    first, second = pair.run([X])
    assert first.HasField("result_value")
    assert error_of(second) == (base.ERROR_MODEL_INFERENCE,
                                "this backend was not asked to load the model")
    assert kinds(pair.load_reply(backends_to_skip_bitmask=b"\x01")) == ["skipped", "result_value"]
    for outputs in pair.infer([X]):
        check_small(outputs[0])


def test_failure_of_one_backend_is_its_own(pair):
    """OpenVINO gets a file that isn't a model."""
    pair.upload(SMALL, backends_to_skip_bitmask=b"\x02")
    pair.upload(b"nonsense", backends_to_skip_bitmask=b"\x01")
    first, second = pair.load_reply().result_per_backend
    assert first.HasField("result_value")
    assert error_of(second)[0] == base.ERROR_MODEL_LOAD
    first, second = pair.run([X])
    assert first.HasField("result_value")
    assert error_of(second)[0] == base.ERROR_MODEL_INFERENCE and error_of(second)[1]


def test_loading_says_how_long_it_took_and_with_what(session):
    session.upload(SMALL)
    value = session.load_reply().result_per_backend[0].result_value
    assert value.load_ns > 0 and value.runtime_version.startswith("ONNX Runtime")
    assert "seccomp" in value.sandbox


def test_runtimes_own_error(session):
    session.upload(model_bytes([helper.make_node("NoSuchOperator", ["x"], ["y"])],
                               [("x", TensorProto.FLOAT, [1])], [("y", TensorProto.FLOAT, [1])]))
    code, said = error_of(session.load_reply().result_per_backend[0])
    assert code == base.ERROR_MODEL_LOAD and "NoSuchOperator" in said


def test_fxproto_is_not_for_onnx_backends(pair):
    pair.upload(b"graph", name="model.dat")
    for result in pair.load_reply(format=FXPROTO).result_per_backend:
        code, said = error_of(result)
        assert code == base.ERROR_MODEL_LOAD and "ONNX" in said


def test_loading_without_files(client, session):
    request = base.LoadModelRequest(session_uuid=session.uuid, model_id=5,
                                    model_format=base.MODEL_FORMAT_ONNX)
    assert client.refused("LoadModel", request)[0] == Code.NOT_FOUND
    session.upload(b"x", model=5, name="external_data")
    code, said = error_of(session.load_reply(5).result_per_backend[0])
    assert code == base.ERROR_MODEL_LOAD and "model.onnx" in said


def external_model(location="external_data"):
    """The small model with its weight in a file: model and weight."""
    model = onnx.load_from_string(SMALL)
    weight, = (w for w in model.graph.initializer if w.name == "w")
    data = weight.raw_data
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, text in (("location", location), ("offset", "0"), ("length", str(len(data)))):
        entry = weight.external_data.add()
        entry.key, entry.value = key, text
    return model.SerializeToString(), data


@pytest.mark.parametrize("name", ["external_data", "weights/0", "deep/er/data.bin"])
def test_external_data(pair, name):
    model, data = external_model(name)
    pair.upload(model)
    pair.upload(data, name=name)
    assert kinds(pair.load_reply()) == ["result_value"] * 2
    for outputs in pair.infer([X]):
        check_small(outputs[0])


def test_missing_external_data(pair):
    pair.upload(external_model()[0])
    for result in pair.load_reply().result_per_backend:
        code, said = error_of(result)
        assert code == base.ERROR_MODEL_LOAD and "external_data" in said


# ---- Running ----

def test_profiling_returns_times_and_no_outputs(pair):
    pair.load(SMALL)
    for fields in ({"mode": base.PROFILING}, {}):
        for result in pair.run([X], num_repeats=5, num_warmups=2, **fields):
            value = result.result_value
            assert len(value.run_times_nanos) == 5 and min(value.run_times_nanos) > 0
            assert not value.outputs


def test_neither_repeats_nor_time_is_one_run(session):
    session.load(SMALL)
    result, = session.run([X])
    assert len(result.result_value.run_times_nanos) == 1
    result, = session.run([X], num_warmups=3)
    assert len(result.result_value.run_times_nanos) == 1


def test_as_many_runs_as_fit(session):
    session.load(SMALL)
    result, = session.run([X], repeat_for_milliseconds=200)
    times = result.result_value.run_times_nanos
    assert len(times) > 10 and sum(times) <= 1e9


def test_inference(pair):
    pair.load(SMALL)
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((seed + 1, 4), np.float32)
        for outputs in pair.infer([x], num_repeats=2):
            check_small(outputs[0], x)


def test_input_maps_reorder(pair):
    pair.load(subtraction(), inputs=["a", "b"], outputs=["y"])
    x, y = np.float32([5, 7, 9]), np.float32([1, 2, 3])
    forward, backward = pair.infer([x, y], maps=[[0, 1], [1, 0]])
    np.testing.assert_array_equal(forward[0], x - y)
    np.testing.assert_array_equal(backward[0], y - x)
    same, _ = pair.infer([x, y], maps=[[0, 0], [1, 1]])
    np.testing.assert_array_equal(same[0], x - x)


def test_names_order_inputs_and_pick_outputs(session):
    model = model_bytes(
        [helper.make_node("Sub", ["a", "b"], ["difference"]),
         helper.make_node("Add", ["a", "b"], ["sum"])],
        [("a", TensorProto.FLOAT, [2]), ("b", TensorProto.FLOAT, [2])],
        [("difference", TensorProto.FLOAT, [2]), ("sum", TensorProto.FLOAT, [2])])
    session.load(model, inputs=["b", "a"], outputs=["sum", "difference"])
    b, a = np.float32([1, 2]), np.float32([10, 20])
    total, difference = session.infer([b, a])[0]
    np.testing.assert_array_equal(total, a + b)
    np.testing.assert_array_equal(difference, a - b)
    session.upload(model, model=2)
    code, said = error_of(session.load_reply(2, inputs=["a", "c"]).result_per_backend[0])
    assert code == base.ERROR_MODEL_LOAD and "'c'" in said


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int16", "int32",
                                   "int64", "uint8", "uint16", "uint32", "uint64", "bool"])
def test_dtypes(session, dtype):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    session.load(model_bytes([helper.make_node("Identity", ["x"], ["y"])],
                             [("x", kind, [2, 3])], [("y", kind, [2, 3])]))
    x = (np.arange(6).reshape(2, 3) % 2 if dtype == "bool" else
         np.arange(6).reshape(2, 3) * 13).astype(dtype)
    y = session.infer([x])[0][0]
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)


def test_bfloat16_by_its_onnx_number(session):
    session.load(model_bytes([helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
                              helper.make_node("Cast", ["f"], ["y"], to=TensorProto.BFLOAT16)],
                             [("x", TensorProto.BFLOAT16, [3])], [("y", TensorProto.BFLOAT16, [3])]))
    x = np.array([1.5, -2.25, 1e30], ml_dtypes.bfloat16)
    y = session.infer([tensor(x, onnx_dtype=TensorProto.BFLOAT16)])[0][0]
    np.testing.assert_array_equal(y.astype(np.float32), x.astype(np.float32))


def test_scalars_and_empty_tensors(session):
    session.load(model_bytes([helper.make_node("Identity", ["x"], ["y"])],
                             [("x", TensorProto.FLOAT, None)], [("y", TensorProto.FLOAT, None)]))
    for x in (np.float32(3), np.zeros((0, 4), np.float32), np.ones((1, 1, 2), np.float32)):
        np.testing.assert_array_equal(session.infer([x])[0][0], x)


def test_several_models(pair):
    weights = [np.full((4, 2), k, np.float32) for k in range(1, 5)]
    for k, weight in enumerate(weights):
        pair.load(affine(weight), model=10 + k)
    for k in (3, 0, 2, 1, 0):
        for outputs in pair.infer([X], model=10 + k):
            np.testing.assert_allclose(outputs[0], X @ weights[k] + 1, rtol=1e-5)


def test_large_tensors(session):
    x = np.random.default_rng(4).standard_normal((16 << 20) // 4, np.float32)
    session.load(model_bytes([helper.make_node("Neg", ["x"], ["y"])],
                             [("x", TensorProto.FLOAT, ["n"])], [("y", TensorProto.FLOAT, ["n"])]))
    for _ in range(3):
        np.testing.assert_array_equal(session.infer([x])[0][0], -x)


def test_run_of_a_model_that_isnt_there(client, session):
    code, _ = client.refused("Run", session.run_request([X], model=99))
    assert code == Code.NOT_FOUND
    session.upload(SMALL)  # not loaded
    assert client.refused("Run", session.run_request([X]))[0] == Code.NOT_FOUND


def test_failed_run_says_why(session):
    session.load(SMALL)
    code, said = error_of(session.run([np.zeros((2, 5), np.float32)])[0])
    assert code == base.ERROR_MODEL_INFERENCE and said
    check_small(session.infer([X])[0][0])


def test_deadline_and_cancellation_end_a_run(client, session):
    session.load(endless(), model=1)
    session.load(SMALL, model=2)
    request = session.run_request([np.zeros(4, np.float32), np.int64(1 << 60)])
    assert client.refused("Run", request, timeout=1)[0] == Code.DEADLINE_EXCEEDED
    check_small(session.infer([X], model=2)[0][0])
    run = client.start("Run", request)
    eventually(lambda: client.status().sessions[0].idle_ms == 0, "it runs")
    run.cancel()
    check_small(session.infer([X], model=2)[0][0])


def ends(call):
    """Cancels a call that is under way; whether it ended for that."""
    call.cancel()
    with pytest.raises((grpc.RpcError, grpc.FutureCancelledError)):
        list(call) if hasattr(call, "__next__") else call.result()
    assert call.code() == Code.CANCELLED


def test_deadline_and_cancellation_end_loading(client, session):
    session.upload(slow_to_load(), model=1)
    session.load(SMALL, model=2)
    request = base.LoadModelRequest(session_uuid=session.uuid, model_id=1,
                                    model_format=base.MODEL_FORMAT_ONNX)
    assert client.refused("LoadModel", request, timeout=1)[0] == Code.DEADLINE_EXCEEDED
    check_small(session.infer([X], model=2)[0][0])
    ends(client.start("LoadModel", request))
    check_small(session.infer([X], model=2)[0][0])


def test_deadline_and_cancellation_end_a_measurement(client, session):
    session.load(SMALL)
    long = own.MeasureRequest(session_uuid=session.uuid, model_id=1, model_file="model.onnx",
                              dims=["batch=2"], settings=SETTINGS.replace('"repeats": 5',
                                                                          '"repeats": 100000000'))
    stream = client.start("Measure", long)
    assert next(stream).HasField("progress")
    ends(stream)
    check_small(session.infer([X])[0][0])
    assert client.refused("Measure", long, timeout=1)[0] == Code.DEADLINE_EXCEEDED
    check_small(session.infer([X])[0][0])


def test_deadline_and_cancellation_end_a_wait_and_an_upload(service, client, session):
    waiting = Session(client, client.create(LOCAL).result_value.session_uuid, 1)
    request = base.WaitUntilSessionReadyRequest(session_uuid=waiting.uuid)
    assert client.refused("WaitUntilSessionReady", request, timeout=0.5)[0] == Code.DEADLINE_EXCEEDED
    ends(client.start("WaitUntilSessionReady", request))
    assert not waiting.place().ready  # it has its place all the same
    waiting.close()
    stop = threading.Event()

    def half():
        yield next(session.chunks(b"x" * 1000, name="half"))
        stop.wait(60)

    assert client.refused("LoadModelComponent", half(), timeout=1)[0] == Code.DEADLINE_EXCEEDED
    eventually(lambda: not half_files(service), "no half file is left")
    upload = client.start("LoadModelComponent", half())
    eventually(lambda: half_files(service), "it is being written")
    ends(upload)
    eventually(lambda: not half_files(service), "no half file is left")
    stop.set()
    session.upload(b"x" * 1000, name="half")


def test_two_calls_of_a_session_take_turns(client, session):
    session.load(SMALL)
    runs = [client.start("Run", session.run_request([X * k], mode=base.INFERENCE, num_repeats=20))
            for k in range(20)]
    for k, run in enumerate(runs):
        result, = run.result().result_per_backend
        check_small(array(result.result_value.outputs[0].tensor), X * k)


class Runs:
    """A call of Runs: ask() sends a request and waits for its answer."""

    def __init__(self, client):
        self.requests = queue.Queue()
        self.call = client.start("Runs", iter(self.requests.get, None))

    def ask(self, request):
        self.requests.put(request)
        return next(self.call).result_per_backend

    def end(self):
        self.requests.put(None)
        assert not list(self.call)
        return self.call.code()


def test_many_runs_in_one_call(client, pair):
    pair.load(SMALL)
    runs = Runs(client)
    for k in range(50):
        for result in runs.ask(pair.run_request([X * k], mode=base.INFERENCE)):
            check_small(array(result.result_value.outputs[0].tensor), X * k)
    # Others of the session's take turns with them.
    check_small(pair.infer([X])[0][0])
    assert runs.end() == Code.OK


def test_a_refused_run_ends_its_call(client, session):
    session.load(SMALL)
    for request, code in ((session.run_request([X], model=9), Code.NOT_FOUND),
                          (session.run_request([X, X], maps=[[0, 7]]), Code.INVALID_ARGUMENT)):
        runs = Runs(client)
        assert runs.ask(session.run_request([X]))[0].HasField("result_value")
        with pytest.raises(grpc.RpcError) as refused:
            runs.ask(request)
        assert refused.value.code() == code
    # One that fails isn't refused.
    session.load(endless(), model=2)
    runs = Runs(client)
    assert runs.ask(session.run_request([X, X], model=2))[0].HasField("error_value")
    assert runs.ask(session.run_request([X]))[0].HasField("result_value")
    assert runs.end() == Code.OK


def test_many_runs_can_be_left_in_the_middle(client, session):
    session.load(endless(), model=1)
    session.load(SMALL, model=2)
    runs = Runs(client)
    assert runs.ask(session.run_request([X], model=2))[0].HasField("result_value")
    runs.requests.put(session.run_request([np.zeros(4, np.float32), np.int64(1 << 60)]))
    eventually(lambda: client.status().sessions[0].idle_ms == 0, "it runs")
    runs.call.cancel()
    check_small(session.infer([X], model=2)[0][0])


# ---- Measuring ----

SETTINGS = json.dumps({"seed": 1, "precision": 0.01, "smallest_difference": 0.005, "launches": 2,
                       "repeats": 5, "warmups": 2, "max_time_s": 60, "tolerance": 1e-3,
                       "reference": None})


def test_measure(service, client, pair):
    """A small real measurement through the worker."""
    pair.upload(SMALL)
    events = pair.measure(model_file="model.onnx", dims=["batch=2"], settings=SETTINGS)
    assert all(e.hardware == "local" and e.host == 0 for e in events)
    progress = [json.loads(e.progress) for e in events if e.HasField("progress")]
    assert progress
    last = events[-1]
    assert last.HasField("result"), str(last)[:500]
    profile = json.loads(last.result)
    jsonschema.validate(profile, json.loads((ROOT / "docs/prony.profile.schema.json").read_text()))
    assert [r["backend"]["name"] for r in profile["results"]] == [LOCAL, OPENVINO]
    for result in profile["results"]:
        assert result["error"] is None and len(result["samples_ns"]) == 5, result
    assert str(service.folder) not in last.result.decode()
    # And the session goes on.
    pair.load_reply()
    check_small(pair.infer([X])[1][0])


def test_measure_that_fails(client, session):
    session.upload(b"nonsense")
    event = session.measure(model_file="model.onnx")[-1]
    assert event.error.message
    assert client.refused("Heartbeat", base.HeartbeatRequest(session_uuid=bytes(16)))[0] == \
        Code.FAILED_PRECONDITION


@pytest.mark.parametrize("model, n, limits, shown, why", [
    (expanding(), np.array([400_000_000]), "session_memory: 600 MiB",
     "600 s for one run or load, 600 MiB of memory for an executor", "the memory limit is 600 MiB"),
    (endless(), np.array(1 << 60), "run_timeout: 2s", "2.00 s for one run or load\n",
     "took longer than 2 s; the service allows no more"),
], ids=["memory", "time"])
def test_limits_hold_for_measurements(tmp_path, model, n, limits, shown, why):
    """Whatever the client asks for."""
    values = io.BytesIO()
    np.save(values, n)
    with serving(tmp_path / "s", config=f"limits: {{{limits}}}\n") as service, \
            service.client() as client:
        assert f"Limits: {shown}" in sh(PROGRAM, "status", "--server", service.address)
        session = client.session(LOCAL)
        session.upload(model)
        session.upload(values.getvalue(), name="n.npy")
        event = session.measure(model_file="model.onnx", inputs=["n=@n.npy"], timeout_s=604800,
                                settings=SETTINGS)[-1]
        (result,) = json.loads(event.result)["results"]
        assert why in result["error"]["message"], result["error"]
        session.close()


# ---- The service as a whole ----

def check_log(lines):
    """All are JSON. Returns the events."""
    entries = [json.loads(line) for line in lines if line is not None]
    for entry in entries:
        assert entry["level"] in ("info", "warning", "error") and entry["time"].endswith("Z")
    return {entry["event"] for entry in entries}


def test_logs_are_json(service, client):
    """Also what workers say, and a worker that is killed."""
    seen = len(service.log)
    os.kill(service.children("worker")[0], signal.SIGKILL)
    service.said("worker.joined", after=seen)
    client.session().close()
    assert {"session.ready", "session.end", "worker.attached", "worker.joined"} <= check_log(service.log)


@pytest.mark.parametrize("config, said", [
    ("log: json\nlisten: 127.0.0.1:{port}", "127.0.0.1:{port}"),
    ("log: json\nhttp: 127.0.0.1:{port}", "127.0.0.1:{port}")])
def test_errors_are_json_too(tmp_path, config, said):
    """The last line of a service that cannot start."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (tmp_path / "serve.yml").write_text(config.format(port=port))
        failed = Program([PROGRAM, "serve", "--config", tmp_path / "serve.yml", "--state",
                          tmp_path / "state"])
        assert failed.wait() == 1
    assert "prony" in check_log(failed.log)
    assert said.format(port=port) in json.loads(failed.log[-2])["error"]


def test_log_of_a_worker(tmp_path):
    with serving(tmp_path / "s", config=JOINED) as service:
        joined = worker(service, "--insecure", "--log-format", "json")
        try:
            joined.said("worker.attached")
        finally:
            joined.signal(signal.SIGTERM)
            assert joined.wait() == 0
        assert check_log(joined.log) == {"worker.attached", "worker.left"}
        refused = Program([PROGRAM, "worker", "--server", service.address, "--hardware", "other",
                           "--insecure", "--log-format", "json"])
        assert refused.wait() == 2
        assert "no pool of hardware 'other'" in json.loads(refused.log[-2])["error"]
        check_log(refused.log)


def test_status(client, session):
    session.load(SMALL)
    session.infer([X])
    status = client.status()
    assert status.version == sh(PROGRAM, "--version").split()[-1] and not status.draining
    (hardware,), (own_session,), (worker,) = status.hardware, status.sessions, status.workers
    assert (hardware.name, hardware.hosts, hardware.free, hardware.waiting) == ("local", 1, 0, 0)
    assert (own_session.user, own_session.state, list(own_session.backends)) == \
        ("local", "ready", [LOCAL])
    assert (own_session.models, own_session.runs) == (1, 1)
    assert session.uuid.hex() not in str(status)
    assert worker.state == "held" and worker.session == own_session.id
    assert status.cache.blobs > 0 and status.cache.limit_bytes == 20 << 30


CONFIG = """
http: 127.0.0.1:{http}
pools:
  - {{name: lab, processor: Abacus 9000, usd_per_hour: {price}, count: 1, software: [onnxrt-cpu]}}
  - {{name: r6i.large, count: 1}}
  - {{name: empty}}
presets:
  quick: lab/onnxrt-cpu
  default: [r6i.large/onnxrt-cpu, "lab/onnxrt-cpu[threads=1]"]
quota: {{default: 3, users: {{nobody: 1}}}}
"""


@pytest.fixture(scope="module")
def pools(tmp_path_factory):
    """A service with two kinds of hardware."""
    config = CONFIG.format(http=free_port(), price=0.31)
    with serving(tmp_path_factory.mktemp("pools"), config=config) as pools:
        yield pools


def test_prices_processors_and_presets_come_from_the_file(pools):
    with pools.client() as client:
        reply = client.backends()
        details = {f"{d.hardware_platform}/{d.software_backend}": d for d in reply.details}
        assert list(details) == ["lab/onnxrt-cpu", "r6i.large/onnxrt-cpu", "r6i.large/openvino-cpu"]
        lab = details["lab/onnxrt-cpu"]
        assert (lab.processor, lab.usd_per_hour) == ("Abacus 9000", 0.31)
        known = details["r6i.large/onnxrt-cpu"]
        assert (known.processor, known.usd_per_hour) == ("Intel Ice Lake CPU", 0.126)
        presets = {p.preset_name: p.backends for p in reply.presets}
        assert names(presets["quick"]) == ["lab/onnxrt-cpu"]
        assert names(presets["default"]) == ["r6i.large/onnxrt-cpu", "lab/onnxrt-cpu"]
        assert presets["default"][1].backend_options[0].key == "threads"
        assert names(presets["all"]) == list(details)


def test_two_hosts_of_one_session(pools):
    backends = ["lab/onnxrt-cpu", "r6i.large/openvino-cpu", "r6i.large/onnxrt-cpu"]
    with pools.client() as client:
        session = client.session(*backends)
        assert [h.free for h in client.status().hardware if h.name != "empty"] == [0, 0]
        session.load(SMALL)
        for outputs in session.infer([X]):
            check_small(outputs[0])
        # Half of what another one needs isn't held while it waits for the rest.
        session.close()
        one = client.session("lab/onnxrt-cpu")
        both = client.create("lab/onnxrt-cpu", "r6i.large/onnxrt-cpu").result_value
        assert not both.ready and both.queue.hardware == "lab"
        third = client.create("r6i.large/onnxrt-cpu")
        assert third.error_value.code == base.ERROR_INSUFFICIENT_QUOTA
        one.close()
        both = Session(client, both.session_uuid, 2)
        both.wait()
        both.close()


def test_quota(pools):
    with pools.client() as client:
        sessions = [client.session("lab/onnxrt-cpu", "lab/onnxrt-cpu[threads=1]", "lab/onnxrt-cpu")]
        error = client.create("r6i.large/onnxrt-cpu").error_value
        assert error.code == base.ERROR_INSUFFICIENT_QUOTA and "close" in error.message
        sessions[0].close()
        client.session("r6i.large/onnxrt-cpu").close()


def test_hardware_that_nobody_has_is_an_error(pools):
    with pools.client() as client:
        error = client.create("nowhere/onnxrt-cpu").error_value
        assert error.code == base.ERROR_BACKEND_NONEXISTENT


def test_metrics(pools):
    created = pools.metric("prony_sessions_total")
    with pools.client() as client:
        session = client.session("lab/onnxrt-cpu")
        session.load(SMALL)
        session.infer([X])
        assert pools.metric("prony_sessions") == 1
        assert pools.metric('prony_hosts{hardware="lab",state="held"}') == 1
        session.close()
    assert pools.metric("prony_sessions_total") == created + 1
    assert pools.metric("prony_runs_total") >= 1
    assert pools.metric("prony_uploaded_bytes_total") >= len(SMALL)
    # Closing is answered before the host is back, if that takes a while.
    eventually(lambda: pools.metric('prony_hosts{hardware="lab",state="held"}') == 0, "it is free")
    assert pools.http("/healthz") == (200, "ok\n")
    assert pools.http("/secrets")[0] == 404


NUMBER = r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|Inf|NaN)"
LABELS = r'\{[a-z_]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\["\\n])*")*\}'
SAMPLE = re.compile(rf"((?:prony|process)_[a-z_]+)({LABELS})? {NUMBER}")


def test_metrics_are_as_prometheus_reads_them(pools):
    """The text format 0.0.4: each metric once, described before its samples, and none of them twice."""
    _, text = pools.http("/metrics")
    assert text.endswith("\n")
    described, seen, kind = set(), set(), None
    for line in text.splitlines():
        if help_ := re.fullmatch(r"# HELP ((?:prony|process)_[a-z_]+) \S.*", line):
            name = help_[1]
            assert name not in described
            described.add(name)
            kind = None
        elif type_ := re.fullmatch(r"# TYPE (\S+) (counter|gauge|histogram)", line):
            assert type_[1] == name and kind is None
            kind = type_[2]
            assert name.endswith("_total") == (kind == "counter")
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample and kind and sample[0].split(" ")[0] not in seen, line
            parts = r"_(bucket|sum|count)" if kind == "histogram" else ""
            assert re.fullmatch(name + parts, sample[1]), line
            seen.add(sample[0].split(" ")[0])
    assert len(seen) > 8


def test_reload(pools):
    before = pools.config.read_text()
    at = len(pools.log)
    pools.config.write_text(before.replace("0.31", "0.5").replace("default: 3", "default: 1"))
    pools.signal(signal.SIGHUP)
    pools.said("config.change", after=at)
    with pools.client() as client:
        eventually(lambda: client.backends().details[0].usd_per_hour == 0.5, "the price has changed")
        assert client.create("lab/onnxrt-cpu", "lab/onnxrt-cpu").error_value.code == \
            base.ERROR_INSUFFICIENT_QUOTA
        # A file with a fault changes nothing, and the line says where it is.
        at = len(pools.log)
        pools.config.write_text("pools:\n  - {name: lab, count: many}\n")
        pools.signal(signal.SIGHUP)
        assert ":2" in pools.said("config.refused", after=at) or "line 2" in pools.log[at]
        assert len(client.backends().backends) == 3
        # A pool that is taken out goes, and comes back.
        pools.config.write_text("\n".join(line for line in before.splitlines()
                                          if "r6i" not in line))
        pools.signal(signal.SIGHUP)
        eventually(lambda: names(client.backends().backends) == ["lab/onnxrt-cpu"], "r6i is gone")
        pools.config.write_text(before)
        pools.signal(signal.SIGHUP)
        eventually(lambda: len(client.backends().backends) == 3, "r6i is back")


def test_workers_that_never_come_are_not_waited_for(tmp_path):
    """Of hardware whose workers don't start any more there is none, until they do."""
    runtime = tmp_path / "libonnxruntime.so.1"
    runtime.symlink_to(ORT)
    env = {"PRONY_ORT_LIB": str(runtime), "PRONY_OPENVINO_LIB": str(tmp_path / "none.so"),
           "PRONY_PYTHON": str(tmp_path / "none")}
    with serving(tmp_path / "s", env=env) as service, service.client() as client:
        holder = client.session()
        waiting = Session(client, client.create(LOCAL).result_value.session_uuid, 1)
        runtime.unlink()
        seen = len(service.log)
        os.kill(service.children("worker")[0], signal.SIGKILL)
        with pytest.raises(grpc.RpcError) as error:
            waiting.wait()
        assert error.value.code() == Code.FAILED_PRECONDITION
        service.said("session.end.*its hardware is gone", after=seen)
        assert client.create(LOCAL).error_value.code == base.ERROR_BACKEND_NONEXISTENT
        holder.close()
        runtime.symlink_to(ORT)
        service.said("worker.joined", after=seen)
        client.session().close()


def test_drain(tmp_path):
    """SIGTERM takes no new sessions and lets the others finish."""
    with serving(tmp_path / "s") as service, service.client() as client:
        session = client.session()
        session.load(SMALL)
        service.signal(signal.SIGTERM)
        eventually(lambda: client.status().draining, "it drains")
        assert client.refused("CreateSession", create_request(LOCAL))[0] == Code.UNAVAILABLE
        assert client.raw("/grpc.health.v1.Health/Check", b"") == b"\x08\x02"  # NOT_SERVING
        runs = Runs(client)
        assert runs.ask(session.run_request([X]))[0].HasField("result_value")
        session.close()
        # A call that nobody ends isn't waited for.
        assert service.wait() == 0


def test_second_signal_ends_sessions(tmp_path):
    with serving(tmp_path / "s") as service, service.client() as client:
        session = client.session()
        session.load(SMALL)
        service.signal(signal.SIGTERM)
        eventually(lambda: client.status().draining, "it drains")
        service.signal(signal.SIGTERM)
        assert service.wait() == 0


def test_one_service_per_state_folder(service, program):
    done = run_program([program, "serve", "--state", service.state])
    assert done.status != 0 and "serves on" not in done.stdout
    assert len(done.stderr.strip().splitlines()) == 1


# ---- Workers that join ----

JOINED = """
pools:
  - {name: bench}
"""


def worker(service, *options, address=None):
    return Program([PROGRAM, "worker", "--server", address or service.address, "--hardware", "bench",
                    *options])


def use_bench(client):
    """Everything that a host does, on one elsewhere."""
    session = client.session("bench/onnxrt-cpu", "bench/openvino-cpu")
    model, data = external_model("weights/0")
    session.upload(model)
    session.upload(data, name="weights/0")
    assert kinds(session.load_reply()) == ["result_value"] * 2
    for outputs in session.infer([X], num_repeats=3, num_warmups=1):
        check_small(outputs[0])
    session.upload(b"nonsense", model=2)
    for result in session.load_reply(2).result_per_backend:
        assert error_of(result)[0] == base.ERROR_MODEL_LOAD
    for result in session.run([np.zeros((2, 5), np.float32)]):
        assert error_of(result)[0] == base.ERROR_MODEL_INFERENCE
    session.close()


def bench_joined(client):
    return any(h.name == "bench" and h.hosts for h in client.status().hardware)


def test_worker_over_loopback(tmp_path):
    """Joins, works, measures, reconnects to a service that was restarted, and leaves."""
    with serving(tmp_path / "s", config=JOINED) as service, service.client() as client:
        port = service.address
        joined = worker(service, "--insecure")
        try:
            service.said("worker.joined")
            use_bench(client)
            session = client.session("bench/onnxrt-cpu")
            session.upload(SMALL)
            event = session.measure(model_file="model.onnx", dims=["batch=2"],
                                    settings=SETTINGS)[-1]
            assert event.HasField("result"), event
            assert json.loads(event.result)["results"][0]["backend"]["name"] == "bench/onnxrt-cpu"
            session.close()
            service.stop()
            joined.said("worker.disconnected")
            with serving(tmp_path / "again", "--listen", port, config=JOINED) as again:
                again.said("worker.joined")
                with again.client() as other:
                    use_bench(other)
                    joined.signal(signal.SIGTERM)
                    assert joined.wait() == 0
                    joined.said("worker.left")
                    eventually(lambda: not bench_joined(other), "it has left")
            joined.gone()
        finally:
            joined.kill()


def test_worker_leaves_after_its_session(tmp_path):
    with serving(tmp_path / "s", config=JOINED) as service, service.client() as client:
        joined = worker(service, "--insecure")
        try:
            service.said("worker.joined")
            session = client.session("bench/onnxrt-cpu")
            session.load(SMALL)
            joined.signal(signal.SIGTERM)
            eventually(lambda: client.status().workers[0].note == "draining",
                       "it takes no further session")
            check_small(session.infer([X])[0][0])
            session.close()
            assert joined.wait() == 0
        finally:
            joined.kill()


def test_configured_hardware_is_there_before_its_workers(tmp_path):
    """It can be waited for, and what it offers is known once a worker has said so: while none is
    connected, and after a restart."""
    folder = tmp_path / "s"
    with serving(folder, config=JOINED) as service, service.client() as client:
        reply = client.create("bench/onnxrt-cpu").result_value
        assert not reply.ready and reply.queue.note == "no worker is connected"
        assert [h.note for h in client.status().hardware] == ["no worker is connected"]
        waiting = Session(client, reply.session_uuid, 1)
        joined = worker(service, "--insecure")
        try:
            waiting.wait()
            listed = names(client.backends().backends)
            assert "bench/onnxrt-cpu" in listed
        finally:
            joined.kill()
        waiting.close()
        eventually(lambda: not bench_joined(client), "the worker is gone")
        assert names(client.backends().backends) == listed
        reply = client.create("bench/onnxrt-cpu").result_value
        assert not reply.ready
        Session(client, reply.session_uuid, 1).close()
    with serving(folder, config=JOINED) as service, service.client() as client:
        reply = client.backends()
        assert names(reply.backends) == listed and not any(d.hosts for d in reply.details)
        assert reply.details[0].runtime_version and reply.details[0].options
        for wrong in ("bench/torch-eager-cuda", "bench/onnxrt-cpu[colour=red]"):
            error = client.create(wrong).error_value
            assert error.code == base.ERROR_BACKEND_NONEXISTENT, wrong
        waiting = Session(client, client.create("bench/onnxrt-cpu").result_value.session_uuid, 1)
        # A pool that is taken out takes its hardware with it.
        service.config.write_text("pools: [{name: other}]")
        service.signal(signal.SIGHUP)
        with pytest.raises(grpc.RpcError, match="its hardware is gone"):
            waiting.wait()
        assert client.create("bench/onnxrt-cpu").error_value.code == base.ERROR_BACKEND_NONEXISTENT


def test_a_list_waits_for_the_services_own_workers(tmp_path):
    """Its first start: who asks before a worker has looked for runtimes is answered when it has."""
    python, go = tmp_path / "python", tmp_path / "go"
    python.write_text(f"#!/bin/sh\nwhile [ ! -e '{go}' ]; do sleep 0.02; done\nexit 1\n")
    python.chmod(0o755)
    address = f"127.0.0.1:{free_port()}"
    starting = Program([PROGRAM, "serve", "--state", tmp_path / "state", "--listen", address],
                       env={"PRONY_PYTHON": str(python)})
    try:
        with Client(address) as client:
            grpc.channel_ready_future(client.channel).result(PATIENCE)
            listing = client.start("ListSupportedBackends", pb.ListSupportedBackendsRequest())
            assert [h.hosts for h in client.status().hardware] == [0]
            assert not listing.done()
            go.touch()
            assert LOCAL in names(listing.result().backends)
    finally:
        starting.kill()


def attach(client, *reports):
    """A worker's stream, and where its further reports are put."""
    out = queue.SimpleQueue()
    for report in reports:
        out.put(report)
    return client.start("Attach", iter(out.get, None)), out


def test_workers_that_keep_silent_are_cut_off(tmp_path):
    """One says no hello; one never ends its session, for whose client closing takes no time."""
    version = sh(PROGRAM, "--version").split()[-1]
    hello = own.Hello(hardware="bench", version=version, software=[own.Software(name="onnxrt-cpu")])
    with serving(tmp_path / "s", config=JOINED) as service, service.client() as client:
        silent, _ = attach(client)
        stuck, reports = attach(client, own.WorkerReport(hello=hello))
        service.said("worker.joined")
        session = client.session("bench/onnxrt-cpu")
        session.upload(SMALL)
        loading = client.start("LoadModel", base.LoadModelRequest(
            session_uuid=session.uuid, model_id=1, model_format=base.MODEL_FORMAT_ONNX))
        for answer in ({"done": True}, {"loaded": own.Loaded(load_ns=1)}):
            reports.put(own.WorkerReport(id=next(stuck).id, **answer))
        assert kinds(loading.result()) == ["result_value"]
        session.close()
        assert not stuck.done() and not silent.done()
        assert next(stuck).WhichOneof("body") == "end"
        for stream, said in ((stuck, "the session wasn't ended in time"),
                             (silent, "there was no hello")):
            with pytest.raises(grpc.RpcError) as error:
                next(stream)
            assert (error.value.code(), error.value.details()) == (Code.ABORTED, said)
        eventually(lambda: not bench_joined(client), "the host is gone")


def test_worker_that_answers_in_another_order(tmp_path):
    """It has ended the session, and then says what became of the run that this ended."""
    version = sh(PROGRAM, "--version").split()[-1]
    hello = own.Hello(hardware="bench", version=version, software=[own.Software(name="onnxrt-cpu")])
    with serving(tmp_path / "s", config=JOINED) as service, service.client() as client:
        stream, reports = attach(client, own.WorkerReport(hello=hello))
        service.said("worker.joined")
        for _ in range(3):
            session = client.session("bench/onnxrt-cpu")
            session.upload(SMALL)
            loading = client.start("LoadModel", base.LoadModelRequest(
                session_uuid=session.uuid, model_id=1, model_format=base.MODEL_FORMAT_ONNX))
            for answer in ({"done": True}, {"loaded": own.Loaded(load_ns=1)}):
                reports.put(own.WorkerReport(id=next(stream).id, **answer))
            assert kinds(loading.result()) == ["result_value"]
            run = client.start("Run", session.run_request([X]))
            commands = [next(stream)]
            session.close()
            commands += [next(stream), next(stream)]
            assert [c.WhichOneof("body") for c in commands] == ["run", "cancel", "end"]
            reports.put(own.WorkerReport(id=commands[2].id, done=True))
            code, said = error_of(run.result().result_per_backend[0])
            assert (code, said) == (base.ERROR_MODEL_INFERENCE, "the session was closed")
            for late in ({"ran": base.ResultValue()}, {"error": base.ErrorValue(
                    message="late", code=base.ERROR_INTERNAL)}, {"done": True}):
                reports.put(own.WorkerReport(id=commands[0].id, **late))
        reports.put(None)
