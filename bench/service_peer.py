"""What bench/service measures prony against: a plain pair of Python grpcio and ONNX Runtime on the
same contract, as somebody would write it in an afternoon. bench/service starts both.

    service_peer.py serve PROTO FOLDER             prints its port
    service_peer.py client PROTO PORT MODEL DIMS   commands as bench/service_client.c has them, and
                                                   "lengths run|infer": bytes of a Run and its answer
"""
import concurrent.futures
import hashlib
import os
import pathlib
import statistics
import sys
import threading
import time
import uuid

import grpc
import numpy as np

sys.path.insert(0, sys.argv[2])
import inference_base_pb2 as base
import remote_inference_pb2_grpc as service

CHUNK = 1 << 20
OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Service(service.RemoteInferenceServicer):
    def __init__(self, folder):
        self.folder = folder
        self.files = {}
        self.models = {}
        self.lock = threading.Lock()

    def CreateSession(self, request, context):
        return base.CreateSessionReply(result_value=base.CreateSessionResultValue(
            session_uuid=request.session_uuid, ready=True))

    def CloseSession(self, request, context):
        return base.CloseSessionReply()

    def attach(self, request, digest):
        with self.lock:
            self.files.setdefault((request.session_uuid, request.model_id), {})[request.filename] = \
                self.folder / digest
        return [base.LoadModelComponentResult(result_value=base.LoadModelComponentResultValue())]

    def LoadCachedModelComponent(self, request, context):
        digest = request.sha256_hash.hex()
        if not (self.folder / digest).exists():
            context.abort(grpc.StatusCode.NOT_FOUND, "no such file")
        return base.LoadCachedModelComponentReply(result_per_backend=self.attach(request, digest))

    def LoadModelComponent(self, requests, context):
        """Hashed and written as it comes, and safe on the disk before it is there."""
        first = None
        digest = hashlib.sha256()
        temporary = self.folder / f"tmp-{uuid.uuid4()}"
        with open(temporary, "wb") as file:
            for request in requests:
                first = first or request
                digest.update(request.chunk)
                file.write(request.chunk)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, self.folder / digest.hexdigest())
        return base.LoadModelComponentReply(
            result_per_backend=self.attach(first, digest.hexdigest()))

    def LoadModel(self, request, context):
        import onnxruntime
        key = request.session_uuid, request.model_id
        self.models[key] = onnxruntime.InferenceSession(self.files[key]["model.onnx"],
                                                        providers=["CPUExecutionProvider"])
        return base.LoadModelReply(result_per_backend=[
            base.LoadModelResult(result_value=base.LoadModelResultValue())])

    def Run(self, request, context):
        model = self.models[request.session_uuid, request.model_id]
        inputs = {}
        for value, name in zip(request.inputs, model.get_inputs()):
            tensor = value.tensor
            inputs[name.name] = np.frombuffer(tensor.data, np.float32).reshape(tensor.shape)
        times = []
        for _ in range(request.num_warmups):
            model.run(None, inputs)
        for _ in range(request.num_repeats or 1):
            start = time.perf_counter_ns()
            outputs = model.run(None, inputs)
            times.append(time.perf_counter_ns() - start)
        result = base.ResultValue(run_times_nanos=times)
        if request.mode == base.INFERENCE:
            result.outputs.extend(base.Value(tensor=base.Tensor(
                dtype=base.TENSOR_DTYPE_F32, shape=output.shape, data=output.tobytes()))
                for output in outputs)
        return base.RunReply(result_per_backend=[base.RunResult(result_value=result)])


def serve(folder):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), options=OPTIONS)
    service.add_RemoteInferenceServicer_to_server(Service(pathlib.Path(folder)), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    server.stop(0)


class Client:
    def __init__(self, port, model, dims):
        self.stub = service.RemoteInferenceStub(grpc.insecure_channel(f"127.0.0.1:{port}", OPTIONS))
        self.session = uuid.uuid4().bytes
        self.stub.CreateSession(base.CreateSessionRequest(session_uuid=self.session))
        self.n_models = 0
        data = pathlib.Path(model).read_bytes()
        self.model = self.send("model.onnx", data, hashlib.sha256(data).digest())
        self.stub.LoadModel(base.LoadModelRequest(session_uuid=self.session, model_id=self.model,
                                                  model_format=base.MODEL_FORMAT_ONNX))
        shape = [int(dim) for dim in dims.split("x")]
        self.input = np.full(shape, 0.5, np.float32)
        self.data = bytearray()

    def request(self, kind):
        """Made for each call, as its data is new in practice."""
        array = self.input
        tensor = base.Tensor(dtype=base.TENSOR_DTYPE_F32, shape=array.shape, data=array.tobytes())
        return base.RunRequest(session_uuid=self.session, model_id=self.model,
                               inputs=[base.Value(tensor=tensor)],
                               input_map_per_backend=[base.InputMap(input_value_indices=[0])],
                               num_repeats=1, mode=base.INFERENCE if kind == "infer" else
                               base.PROFILING)

    def run(self, kind):
        result = self.stub.Run(self.request(kind)).result_per_backend[0].result_value
        for value in result.outputs:
            np.frombuffer(value.tensor.data, np.float32).reshape(value.tensor.shape)

    def run_many(self, kind, calls):
        times = []
        for _ in range(calls):
            start = time.perf_counter_ns()
            self.run(kind)
            times.append(time.perf_counter_ns() - start)
        return int(statistics.median(times))

    def send(self, name, data, digest):
        self.n_models += 1
        common = {"session_uuid": self.session, "model_id": self.n_models, "model_component_id": 1,
                  "filename": name}
        try:
            self.stub.LoadCachedModelComponent(
                base.LoadCachedModelComponentRequest(sha256_hash=digest, **common))
            return self.n_models
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.NOT_FOUND:
                raise
        view = memoryview(data)
        self.stub.LoadModelComponent(
            base.LoadModelComponentRequest(chunk=bytes(view[at:at + CHUNK]),
                                           **(common if at == 0 else {}))
            for at in range(0, len(data), CHUNK))
        return self.n_models

    def upload(self, mib, seed):
        if len(self.data) != mib << 20:
            self.data = bytearray(np.random.default_rng(1).bytes(mib << 20))
        self.data[:8] = seed.to_bytes(8, "little")
        digest = hashlib.sha256(self.data).digest()
        start = time.perf_counter_ns()
        self.send("weights", self.data, digest)
        return time.perf_counter_ns() - start

    def command(self, name, *words):
        if name == "lengths":
            request = self.request(words[0])
            return f"{request.ByteSize()} {self.stub.Run(request).ByteSize()}"
        if name == "upload":
            return self.upload(int(words[0]), int(words[1]))
        return self.run_many(name, int(words[0]))


def main():
    role, _, *arguments = sys.argv[1:]
    if role == "serve":
        serve(*arguments)
        return
    client = Client(*arguments)
    for line in sys.stdin:
        print(client.command(*line.split()), flush=True)


if __name__ == "__main__":
    main()
