#!/usr/bin/env python3
"""A client of `prony serve` in plain Python, made from the .proto files alone.

    pip install grpcio grpcio-tools numpy onnx
    prony serve --listen 127.0.0.1:50051
    python3 grpc_client.py 127.0.0.1:50051 model.onnx [BACKEND ...]

Uploads the model, runs it ten times on each backend (those of the preset "default" when none is
named) with inputs of ones, and prints the times. With PRONY_TOKEN set the connection has TLS.
"""
import contextlib
import hashlib
import os
import pathlib
import statistics
import sys
import tempfile
import threading

import grpc
import grpc_tools.protoc
import numpy as np
import onnx

CHUNK = 1 << 20
HEARTBEAT_S = 10


def modules():
    """What protoc makes of the .proto files: beside the examples, or where PRONY_PROTO says."""
    source = pathlib.Path(os.environ.get("PRONY_PROTO", pathlib.Path(__file__).parent.parent / "proto"))
    folder = tempfile.mkdtemp()
    if grpc_tools.protoc.main(["protoc", f"-I{source}", f"--python_out={folder}",
                               f"--grpc_python_out={folder}", "inference_base.proto",
                               "remote_inference.proto"]) != 0:
        sys.exit(f"no .proto files in '{source}'; PRONY_PROTO can name their folder")
    sys.path.insert(0, folder)
    import inference_base_pb2 as base
    import remote_inference_pb2 as remote
    import remote_inference_pb2_grpc as service
    return base, remote, service


base, remote, service = modules()

DTYPES = {np.dtype("float16"): base.TENSOR_DTYPE_F16, np.dtype("float32"): base.TENSOR_DTYPE_F32,
          np.dtype("float64"): base.TENSOR_DTYPE_F64, np.dtype("int8"): base.TENSOR_DTYPE_I8,
          np.dtype("int16"): base.TENSOR_DTYPE_I16, np.dtype("int32"): base.TENSOR_DTYPE_I32,
          np.dtype("int64"): base.TENSOR_DTYPE_I64, np.dtype("uint8"): base.TENSOR_DTYPE_UINT8,
          np.dtype("bool"): base.TENSOR_DTYPE_BOOL}


def connect(address):
    options = [("grpc.max_receive_message_length", 1 << 30), ("grpc.max_send_message_length", 1 << 30)]
    token = os.environ.get("PRONY_TOKEN")
    if not token:
        return grpc.insecure_channel(address, options)
    credentials = grpc.composite_channel_credentials(grpc.ssl_channel_credentials(),
                                                     grpc.access_token_call_credentials(token))
    return grpc.secure_channel(address, credentials, options)


def backend_spec(text):
    """hardware/software[key=value,…]"""
    names, _, options = text.rstrip("]").partition("[")
    hardware, slash, software = names.partition("/")
    if not slash:
        sys.exit(f"'{text}' is not hardware/software")
    pairs = [option.partition("=") for option in options.split(",") if option]
    return base.BackendSpec(hardware_platform=hardware, software_backend=software,
                            backend_options=[base.BackendOption(key=k.strip(), value=v.strip())
                                             for k, _, v in pairs])


@contextlib.contextmanager
def session(stub, backends):
    """Hosts of its own, as soon as they are free; a heartbeat keeps them."""
    reply, call = stub.CreateSession.with_call(base.CreateSessionRequest(backends=backends), timeout=30)
    if reply.HasField("error_value"):
        sys.exit(reply.error_value.message)
    uuid = reply.result_value.session_uuid
    cookie = [("cookie", value) for key, value in call.initial_metadata() if key == "set-cookie"]
    ready = reply.result_value.ready
    ended = threading.Event()

    def beat():
        while not ended.wait(HEARTBEAT_S):
            stub.Heartbeat(base.HeartbeatRequest(session_uuid=uuid), metadata=cookie, timeout=10)

    try:
        while not ready:
            waited = stub.WaitUntilSessionReady(base.WaitUntilSessionReadyRequest(session_uuid=uuid),
                                                metadata=cookie, timeout=120)
            ready = waited.ready
            if waited.HasField("queue"):
                print(f"waiting for {waited.queue.hardware}: place {waited.queue.place}", file=sys.stderr)
        threading.Thread(target=beat, daemon=True).start()
        yield uuid, cookie
    finally:
        ended.set()
        stub.CloseSession(base.CloseSessionRequest(session_uuid=uuid), metadata=cookie, timeout=1)


def upload(stub, uuid, cookie, component, name, data):
    """By its hash; in pieces only when the service doesn't have it."""
    try:
        stub.LoadCachedModelComponent(base.LoadCachedModelComponentRequest(
            session_uuid=uuid, model_id=1, model_component_id=component, filename=name,
            sha256_hash=hashlib.sha256(data).digest()), metadata=cookie, timeout=30)
        return
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.NOT_FOUND:
            raise
    first = base.LoadModelComponentRequest(session_uuid=uuid, model_id=1, filename=name,
                                           model_component_id=component, chunk=data[:CHUNK])
    later = (base.LoadModelComponentRequest(chunk=data[at:at + CHUNK])
             for at in range(CHUNK, len(data), CHUNK))
    stub.LoadModelComponent((m for part in ([first], later) for m in part), metadata=cookie,
                            timeout=600)


def ones(value):
    """An input of ones; open dimensions are 1."""
    kind = value.type.tensor_type
    shape = [dim.dim_value or 1 for dim in kind.shape.dim]
    array = np.ones(shape, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return base.Value(tensor=base.Tensor(dtype=DTYPES[array.dtype], shape=shape, data=array.tobytes()))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    address, path, names = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    model = onnx.load(path, load_external_data=False)
    files = {"model.onnx": path.read_bytes()}
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                files[entry.value] = (path.parent / entry.value).read_bytes()
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    with connect(address) as channel:
        stub = service.RemoteInferenceStub(channel)
        stub.Ping(base.PingRequest(), timeout=10)
        backends = [backend_spec(name) for name in names]
        if not backends:
            listed = stub.ListSupportedBackends(remote.ListSupportedBackendsRequest(), timeout=10)
            backends = next((list(p.backends) for p in listed.presets if p.preset_name == "default"), [])
        with session(stub, backends) as (uuid, cookie):
            for component, (name, data) in enumerate(files.items(), 1):
                upload(stub, uuid, cookie, component, name, data)
            loaded = stub.LoadModel(base.LoadModelRequest(
                session_uuid=uuid, model_id=1, model_format=base.MODEL_FORMAT_ONNX,
                input_names=[value.name for value in inputs],
                output_names=[value.name for value in model.graph.output]), metadata=cookie, timeout=300)
            order = base.InputMap(input_value_indices=range(len(inputs)))
            ran = stub.Run(base.RunRequest(
                session_uuid=uuid, model_id=1, inputs=[ones(value) for value in inputs],
                input_map_per_backend=[order] * len(backends), num_warmups=1, num_repeats=10,
                mode=base.PROFILING), metadata=cookie, timeout=600)
    for backend, load, run in zip(backends, loaded.result_per_backend, ran.result_per_backend):
        name = f"{backend.hardware_platform}/{backend.software_backend}"
        failed = load if load.HasField("error_value") else run if run.HasField("error_value") else None
        if failed:
            print(f"{name}  failed: {failed.error_value.message}")
        else:
            times = run.result_value.run_times_nanos
            print(f"{name}  median of {len(times)} runs: {statistics.median(times) / 1e6:.3f} ms")


if __name__ == "__main__":
    main()
