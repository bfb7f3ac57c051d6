"""A service in Python, made from the .proto files alone: it computes with onnx's own reference and
measures with `prony profile`, and can be told to be slow, to drop calls, and to answer nonsense."""
import concurrent.futures
import hashlib
import pathlib
import subprocess
import tempfile
import threading

import grpc
import numpy as np
import onnx
import onnx.reference
from onnx import helper

from conftest import BUILD
from protos import base, own, remote

WIRE_TYPES = {onnx.TensorProto.FLOAT: base.TENSOR_DTYPE_F32, onnx.TensorProto.INT64: base.TENSOR_DTYPE_I64,
              onnx.TensorProto.DOUBLE: base.TENSOR_DTYPE_F64, onnx.TensorProto.BOOL: base.TENSOR_DTYPE_BOOL}
NUMPY_TYPES = {wire: helper.tensor_dtype_to_np_dtype(dtype) for dtype, wire in WIRE_TYPES.items()}


def spec(text):
    hardware, _, software = text.partition("/")
    return base.BackendSpec(hardware_platform=hardware, software_backend=software)


class Fake:
    """One service; its fields may be changed at any time."""

    def __init__(self, *backends):
        self.backends = list(backends) or ["metal/onnxrt-cpu"]
        self.presets = {"all": self.backends}
        self.details = [remote.BackendDetails(hardware_platform=b.partition("/")[0],
                                              software_backend=b.partition("/")[2],
                                              processor="Some Metal", usd_per_hour=0.36,
                                              runtime_version="Reference 1.0", hosts=1, free=1)
                        for b in self.backends]
        self.cookie = ""
        self.queue = []           # answers to WaitUntilSessionReady before it is ready
        self.wait = None          # called in WaitUntilSessionReady
        self.fail = {}            # method → statuses that its next calls end with
        self.raw = {}             # method → bytes to answer with
        self.metadata = []        # (method, metadata) of all calls
        self.calls = []           # names of all methods called
        self.streams = 0          # calls of Runs
        self.lacks = set()        # methods that it doesn't have; before it starts
        self.sessions = set()
        self.closed = threading.Event()
        self.blobs = {}
        self.models = {}          # (session, id) → name → hash
        self.loaded = {}
        self.load_error = {}      # backend → message
        self.run_error = {}
        self.times = 1            # factor on the number of times that Run answers with
        self.measure = self.measure_here
        self.specs = {}

    # ---- Behaviour ----

    def list(self, _request, _context):
        return remote.ListSupportedBackendsReply(
            backends=[spec(b) for b in self.backends], details=self.details,
            presets=[remote.BackendPreset(preset_name=name, backends=[spec(b) for b in backends])
                     for name, backends in self.presets.items()])

    def create(self, request, context):
        if self.cookie:
            context.send_initial_metadata([("set-cookie", self.cookie)])
        self.sessions.add(request.session_uuid)
        self.specs[request.session_uuid] = list(request.backends)
        value = base.CreateSessionResultValue(session_uuid=request.session_uuid,
                                              ready=not self.queue, runs="Runs" not in self.lacks)
        return base.CreateSessionReply(result_value=value)

    def wait_ready(self, _request, _context):
        if self.wait:
            self.wait()
        if not self.queue:
            return base.WaitUntilSessionReadyReply(ready=True)
        return base.WaitUntilSessionReadyReply(ready=False, queue=self.queue.pop(0))

    def close(self, request, _context):
        self.sessions.discard(request.session_uuid)
        self.closed.set()
        return base.CloseSessionReply()

    def component_results(self, session):
        ok = base.LoadModelComponentResult(result_value=base.LoadModelComponentResultValue())
        return [ok] * len(self.specs[session])

    def cached(self, request, context):
        if request.sha256_hash not in self.blobs:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such blob")
        model = self.models.setdefault((request.session_uuid, request.model_id), {})
        model[request.filename] = request.sha256_hash
        return base.LoadCachedModelComponentReply(
            result_per_backend=self.component_results(request.session_uuid))

    def component(self, requests, _context):
        first, data = None, b""
        for request in requests:
            first = first or request
            assert len(request.chunk) <= 1 << 20
            data += request.chunk
        digest = hashlib.sha256(data).digest()
        self.blobs[digest] = data
        model = self.models.setdefault((first.session_uuid, first.model_id), {})
        model[first.filename] = digest
        return base.LoadModelComponentReply(
            result_per_backend=self.component_results(first.session_uuid))

    def name(self, backend):
        return f"{backend.hardware_platform}/{backend.software_backend}"

    def write(self, key, folder):
        for name, digest in self.models[key].items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.blobs[digest])

    def load(self, request, _context):
        key = (request.session_uuid, request.model_id)
        with tempfile.TemporaryDirectory() as folder:
            self.write(key, folder)
            model = onnx.load(f"{folder}/model.onnx")
        self.loaded[key] = (model, list(request.input_names), list(request.output_names))
        results = []
        for backend in self.specs[request.session_uuid]:
            message = self.load_error.get(self.name(backend))
            results.append(base.LoadModelResult(
                error_value=base.ErrorValue(message=message, code=base.ERROR_MODEL_LOAD))
                if message else base.LoadModelResult(result_value=base.LoadModelResultValue(
                    load_ns=1000, runtime_version="Reference 1.0", sandbox="nothing")))
        return base.LoadModelReply(result_per_backend=results)

    def run(self, request, _context):
        model, names, outputs = self.loaded[request.session_uuid, request.model_id]
        arrays = [np.frombuffer(v.tensor.data, NUMPY_TYPES[v.tensor.dtype]).reshape(v.tensor.shape)
                  for v in request.inputs]
        results = []
        for backend, order in zip(self.specs[request.session_uuid], request.input_map_per_backend,
                                  strict=True):
            message = self.run_error.get(self.name(backend))
            if message:
                results.append(base.RunResult(error_value=base.ErrorValue(
                    message=message, code=base.ERROR_MODEL_INFERENCE)))
                continue
            feed = {name: arrays[i] for name, i in zip(names, order.input_value_indices, strict=True)}
            found = onnx.reference.ReferenceEvaluator(model).run(outputs, feed)
            value = base.ResultValue(run_times_nanos=[7000] * (request.num_repeats * self.times))
            if request.mode == base.INFERENCE:
                value.outputs.extend(self.value(array) for array in found)
            results.append(base.RunResult(result_value=value))
        return base.RunReply(result_per_backend=results)

    def value(self, array):
        dtype = WIRE_TYPES[helper.np_dtype_to_tensor_dtype(array.dtype)]
        return base.Value(tensor=base.Tensor(dtype=dtype, shape=array.shape, data=array.tobytes()))

    def hosts(self, session):
        """hardware → its backends, in the session's order."""
        hosts = {}
        for backend in self.specs[session]:
            hosts.setdefault(backend.hardware_platform, []).append(backend)
        return hosts

    def profile(self, request, backends, *options):
        """What a host would measure: `prony profile` on this machine, with few repeats."""
        with tempfile.TemporaryDirectory() as folder:
            self.write((request.session_uuid, request.model_id), folder)
            arguments = [BUILD / "prony", "profile", request.model_file, "--format", "json",
                         "--launches", "2", "--repeats", "8", "--warmups", "1", *options]
            for backend in backends:
                given = ",".join(f"{o.key}={o.value}" for o in backend.backend_options)
                arguments += ["-b", f"{backend.software_backend}[{given}]"]
            for option, values in (("--dim", request.dims), ("--shape", request.shapes),
                                   ("--input", request.inputs)):
                for value in values:
                    arguments += [option, value]
            if request.inputs_folder:
                arguments += ["--inputs", request.inputs_folder]
            done = subprocess.run(arguments, cwd=folder, capture_output=True, check=False, timeout=600)
            assert done.returncode == 0, done.stderr
            return done.stdout

    def measure_here(self, request, _context):
        for i, (hardware, backends) in enumerate(self.hosts(request.session_uuid).items()):
            yield own.MeasureEvent(host=i, hardware=hardware,
                                   result=self.profile(request, backends))

    def status(self, _request, _context):
        return own.StatusReply(
            version="9.9", uptime_ms=7200000,
            hardware=[own.HardwareStatus(name="metal", processor="Some Metal", hosts=2, free=1,
                                         waiting=1)],
            sessions=[own.SessionStatus(id="4f1a", user="ann", state="waiting", place=1,
                                        backends=["metal/onnxrt-cpu"], waited_ms=61000)],
            workers=[own.WorkerStatus(name="rack-1\x1b[31m", hardware="metal", state="held",
                                      software=["onnxrt-cpu 1.30.0"])],
            cache=own.CacheStatus(blobs=3, bytes=1 << 20, limit_bytes=1 << 30, hits=2, misses=3),
            sessions_others=4)

    # ---- gRPC ----

    METHODS = {
        "octoml_profile.RemoteInference": {
            "Ping": ("unary", base.PingRequest, lambda self, r, c: base.PingReply()),
            "ListSupportedBackends": ("unary", remote.ListSupportedBackendsRequest, list),
            "CreateSession": ("unary", base.CreateSessionRequest, create),
            "WaitUntilSessionReady": ("unary", base.WaitUntilSessionReadyRequest, wait_ready),
            "Heartbeat": ("unary", base.HeartbeatRequest, lambda self, r, c: base.HeartbeatReply()),
            "CloseSession": ("unary", base.CloseSessionRequest, close),
            "LoadCachedModelComponent": ("unary", base.LoadCachedModelComponentRequest, cached),
            "LoadModelComponent": ("stream_unary", base.LoadModelComponentRequest, component),
            "LoadModel": ("unary", base.LoadModelRequest, load),
            "Run": ("unary", base.RunRequest, run),
        },
        "prony.Prony": {
            "Status": ("unary", own.StatusRequest, status),
            "Runs": ("stream_stream", base.RunRequest, lambda self, r, c: self.run(r, c)),
            "Measure": ("unary_stream", own.MeasureRequest,
                        lambda self, r, c: self.measure(r, c)),
        },
    }

    def begin(self, method, context):
        self.calls.append(method)
        self.metadata.append((method, dict(context.invocation_metadata())))
        if self.fail.get(method):
            context.abort(self.fail[method].pop(0), "told to fail")

    def handler(self, method, kind, request_type, function):
        def answer(request, context):
            self.begin(method, context)
            if method in self.raw:
                return self.raw[method]
            return function(self, request, context)

        def answers(request, context):
            self.begin(method, context)
            if method in self.raw:
                yield self.raw[method]
                return
            yield from function(self, request, context)

        def each(requests, context):
            """A call of many, each as if it were one of its own."""
            self.streams += 1
            alone = self.handler(method.removesuffix("s"), "unary", request_type, function)
            for request in requests:
                yield alone.unary_unary(request, context)

        wrap, answer = {"unary": (grpc.unary_unary_rpc_method_handler, answer),
                        "stream_unary": (grpc.stream_unary_rpc_method_handler, answer),
                        "stream_stream": (grpc.stream_stream_rpc_method_handler, each),
                        "unary_stream": (grpc.unary_stream_rpc_method_handler, answers)}[kind]
        return wrap(answer, request_type.FromString,
                    lambda m: m if isinstance(m, bytes) else m.SerializeToString())

    def start(self, address="127.0.0.1:0", credentials=None):
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8),
                                  options=[("grpc.max_receive_message_length", 1 << 30)])
        for service, methods in self.METHODS.items():
            self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
                service, {name: self.handler(name, *m) for name, m in methods.items()
                          if name not in self.lacks}),))
        port = (self.server.add_secure_port(address, credentials) if credentials
                else self.server.add_insecure_port(address))
        self.server.start()
        self.address = f"{address.rpartition(':')[0]}:{port}"
        return self

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.server.stop(None).wait()
