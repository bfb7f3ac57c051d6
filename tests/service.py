"""A service for tests: `prony serve` on a state folder of its own, clients in plain grpcio, and small
models. A service that is stopped must leave nothing behind; what it said to clients must not tell where
its files lie, and tokens are never said at all."""
import contextlib
import hashlib
import io
import itertools
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import grpc
import numpy as np
from onnx import TensorProto, helper, numpy_helper

from conftest import BUILD, PATIENCE, PROGRAM, sh
from protos import base, own, own_rpc, remote as pb, remote_rpc as rpc

ORT = os.environ.get("PRONY_ORT_LIB", str(BUILD / "deps/onnxruntime/libonnxruntime.so.1"))
SOAK = bool(os.environ.get("PRONY_SOAK"))
ONNX, FXPROTO = base.MODEL_FORMAT_ONNX, base.MODEL_FORMAT_FXPROTO
CHUNK = 1 << 20
LOCAL = "local/onnxrt-cpu"


def many(usually, soak):
    """How often a loop runs: in `make test`, and in `make soak`."""
    return soak if SOAK else usually


def eventually(condition, what, timeout=PATIENCE):
    """The first true value of condition(), which is asked until then."""
    end = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < end, f"{what}: not within {timeout} s"
        time.sleep(0.01)
    return value


# ---- Processes ----

def session_of(pid):
    """The session in which a process is, or None: it is gone, or has only to be reaped."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] == "Z" else int(fields[3])
    except OSError:
        return None


def processes_of(session):
    """Process ids of a session, and what each is: 'serve', 'worker', 'executor'."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and session_of(entry.name) == session:
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                found[int(entry.name)] = words[1].decode() if len(words) > 1 else ""
    return found


def resident_bytes(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1)) << 10


class Program:
    """A program that runs for long: what it says is kept, line by line, as it comes."""

    def __init__(self, argv, env=None, cwd=None):
        self.process = subprocess.Popen(
            [str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, cwd=cwd,
            env={**os.environ, **(env or {})})
        self.pid = self.process.pid
        self.out, self.log = [], []
        self.changed = threading.Condition()
        self.readers = [threading.Thread(target=self.read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.out),
                                     (self.process.stderr, self.log))]
        for reader in self.readers:
            reader.start()

    def read(self, stream, lines):
        for line in stream:
            with self.changed:
                lines.append(line.decode(errors="replace").rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            lines.append(None)  # the end
            self.changed.notify_all()

    def said(self, pattern, where="log", after=0, timeout=PATIENCE):
        """The first line that matches, at position `after` or later; waits for it."""
        lines = getattr(self, where)

        def look():
            for line in lines[after:]:
                if line is not None and re.search(pattern, line):
                    return line
            return None if not lines or lines[-1] is not None else False

        with self.changed:
            found = None
            end = time.monotonic() + timeout
            while (found := look()) is None:
                left = end - time.monotonic()
                assert left > 0, f"'{pattern}' didn't come in {timeout} s\n{self.text()}"
                self.changed.wait(left)
        assert found, f"it ended before '{pattern}' came\n{self.text()}"
        return found

    def text(self):
        return "\n".join(str(line) for line in [*self.out, *self.log])

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=PATIENCE):
        status = self.process.wait(timeout)
        for reader in self.readers:
            reader.join(PATIENCE)
        return status

    def children(self, kind):
        """Process ids of those of its session that are of this kind, oldest first."""
        return sorted(pid for pid, what in processes_of(self.pid).items() if what == kind)

    def spent(self):
        """Seconds of processor time that it has had: how busy the machine is doesn't count."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def gone(self):
        """Waits until no process of its session is left."""
        eventually(lambda: not processes_of(self.pid), "its processes are gone")

    def kill(self):
        """Ends it and its children, whatever they do."""
        for pid in [self.pid, *processes_of(self.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.wait()
        self.gone()


# ---- The service ----

class Service(Program):
    """`prony serve`. `config` is YAML, or None."""

    def __init__(self, folder, *options, config=None, env=None, program=PROGRAM):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(exist_ok=True)
        self.state = self.folder / "state"
        self.config = self.folder / "serve.yml"
        arguments = ["--state", self.state, *options]
        if config is not None:
            self.config.write_text(config)
            arguments += ["--config", self.config]
        self.messages = []  # that clients of this service got
        self.secrets = []   # that nobody may ever say
        super().__init__([program, "serve", *arguments], env=env)
        try:
            self.address = self.said("serves on", "out").split()[-1]
        except BaseException:
            self.kill()
            raise

    def client(self, token=None, ca=None, address=None):
        return Client(address or self.address, token, ca, self.messages)

    def token(self, user, *options):
        """Adds one, and keeps an eye on it."""
        token = sh(PROGRAM, "token", "add", user, *options, "--state", self.state).split()[-1]
        self.secrets.append(token)
        return token

    def http(self, path):
        where = next(line.split()[-1] for line in self.config.read_text().splitlines()
                     if line.startswith("http:"))
        try:
            with urllib.request.urlopen(f"http://{where}{path}", timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as fault:
            return fault.code, fault.read().decode()

    def metric(self, name):
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.http("/metrics")[1], re.MULTILINE)
        return float(found.group(1)) if found else None

    def session_files(self):
        return list((self.state / "sessions").glob("*"))

    def check_discretion(self):
        for text in self.messages:
            assert "\n" not in text and str(self.folder) not in text, text
        said = "\n".join(self.messages) + self.text()
        assert not [s for s in self.secrets if s in said]

    def stop(self, status=0):
        """Ends it as an administrator would; nothing may be left of it."""
        self.signal(signal.SIGTERM)
        ended = self.wait()
        self.gone()
        assert ended == status, self.text()
        assert not self.session_files()
        assert not (self.state / "workers").exists()
        assert "Sanitizer" not in self.text(), self.text()
        self.check_discretion()


@contextlib.contextmanager
def serving(folder, *options, **more):
    service = Service(folder, *options, **more)
    try:
        yield service
        service.stop()
    except BaseException:
        print(service.text(), file=sys.stderr)  # pytest shows it
        raise
    finally:
        service.kill()


def free_port():
    """One that nobody listens on at the moment, and that no connection is given by chance."""
    for _ in range(1000):
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", random.SystemRandom().randrange(10000, 32768)))
            return s.getsockname()[1]
    raise AssertionError("no port is free")


def make_certificate(folder):
    """A certificate for this machine that signs itself, and its key."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    sh("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
       "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost",
       "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    return certificate, key


# ---- Connections ----

class Proxy:
    """Passes bytes on to an address; cut() ends all connections, freeze() lets nothing through."""

    def __init__(self, address):
        self.host, _, port = address.rpartition(":")
        self.port = int(port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.sockets = []
        self.flowing = threading.Event()
        self.flowing.set()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection((self.host, self.port))
                self.sockets += [near, far]
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self.carry, args=ends, daemon=True).start()

    def carry(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.flowing.wait()
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        """Connections end, as if the cable was pulled and the other side had rebooted."""
        sockets, self.sockets = self.sockets, []
        for s in sockets:
            with contextlib.suppress(OSError):
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                s.shutdown(socket.SHUT_RDWR)
            s.close()

    def freeze(self):
        self.flowing.clear()

    def thaw(self):
        self.flowing.set()

    def close(self):
        self.listener.close()
        self.thaw()
        self.cut()


# ---- Clients ----

class Client:
    """One connection. call("Ping", …) for any method by its name; what it answered with is kept."""

    METHODS = {name: (stub, service) for service, stub, names in (
        ("octoml_profile.RemoteInference", rpc.RemoteInferenceStub,
         "Ping ListSupportedBackends CreateSession WaitUntilSessionReady Heartbeat CloseSession "
         "LoadModelComponent LoadCachedModelComponent LoadModel Run"),
        ("prony.Prony", own_rpc.PronyStub, "Status Admin Usage Runs Measure"),
        ("prony.Workers", own_rpc.WorkersStub, "Attach Fetch")) for name in names.split()}
    STREAMS = ("Runs", "Measure", "Attach", "Fetch")

    def __init__(self, address, token=None, ca=None, messages=None):
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
                   ("grpc.use_local_subchannel_pool", 1)]
        credentials = None
        if ca:
            credentials = grpc.ssl_channel_credentials(pathlib.Path(ca).read_bytes())
        self.channel = (grpc.secure_channel(address, credentials, options) if ca
                        else grpc.insecure_channel(address, options))
        self.metadata = [("authorization", f"Bearer {token}")] if token else []
        self.messages = [] if messages is None else messages
        self.stubs = {stub: stub(self.channel) for stub, _ in self.METHODS.values()}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def start(self, name, request, timeout=PATIENCE):
        """The call as grpcio has it: a future, or a stream."""
        method = getattr(self.stubs[self.METHODS[name][0]], name)
        begin = method if name in self.STREAMS else method.future
        return begin(request, timeout=timeout, metadata=self.metadata)

    def call(self, name, request, timeout=PATIENCE):
        """The reply, or for a stream of them the list; grpc.RpcError is raised."""
        under_way = self.start(name, request, timeout)
        try:
            reply = list(under_way) if name in self.STREAMS else under_way.result()
        except grpc.RpcError as error:
            self.messages.append(error.details())
            raise
        for part in reply if isinstance(reply, list) else [reply]:
            self.messages += re.findall(r'message: "(.*)"', errors_of(part))
        return reply

    def refused(self, name, request, timeout=PATIENCE):
        """The code and the text with which a call is refused."""
        try:
            reply = self.call(name, request, timeout)
        except grpc.RpcError as error:
            assert error.details(), name
            return error.code(), error.details()
        raise AssertionError(f"{name} answered {str(reply)[:500]}")

    def raw(self, path, data, timeout=PATIENCE):
        """Bytes to a method and back."""
        call = self.channel.unary_unary(path)
        try:
            return call(data, timeout=timeout, metadata=self.metadata)
        except grpc.RpcError as error:
            self.messages.append(error.details())
            raise

    def ping(self):
        return self.call("Ping", base.PingRequest())

    def status(self):
        return self.call("Status", own.StatusRequest())

    def backends(self):
        return self.call("ListSupportedBackends", pb.ListSupportedBackendsRequest())

    def create(self, *backends, **fields):
        """The reply of CreateSession."""
        return self.call("CreateSession", create_request(*backends, **fields))

    def session(self, *backends, **fields):
        """A session that is ready."""
        reply = self.create(*(backends or [LOCAL]), **fields)
        assert reply.HasField("result_value"), reply
        session = Session(self, reply.result_value.session_uuid, len(backends) or 1)
        if not reply.result_value.ready:
            session.wait()
        return session


def errors_of(reply):
    """The replies' errors as text: only they may be long, so tensors aren't."""
    results = getattr(reply, "result_per_backend", [reply])
    return "\n".join(str(r.error_value) for r in results
                     if "error_value" in r.DESCRIPTOR.fields_by_name and r.HasField("error_value"))


def spec(text):
    """"hardware/software[key=value,…]" as a message."""
    hardware, software, options = re.fullmatch(r"([^/]*)/([^\[]*)(?:\[(.*)\])?", text).groups()
    pairs = [pair.partition("=") for pair in options.split(",")] if options else []
    return base.BackendSpec(
        hardware_platform=hardware, software_backend=software,
        backend_options=[base.BackendOption(key=k, value=v) for k, _, v in pairs])


def create_request(*backends, **fields):
    return base.CreateSessionRequest(backends=[spec(b) for b in backends], **fields)


class Session:
    """One that was created; `n` is the number of its backends."""

    def __init__(self, client, uuid, n):
        self.client, self.uuid, self.n = client, uuid, n
        self.components = itertools.count(1)

    def call(self, name, request, **more):
        return self.client.call(name, request, **more)

    def wait(self):
        while not self.wait_once().ready:
            pass

    def wait_once(self, timeout=PATIENCE):
        return self.call("WaitUntilSessionReady",
                         base.WaitUntilSessionReadyRequest(session_uuid=self.uuid), timeout=timeout)

    def place(self):
        """What it is told while it waits, at once: a second one who asks has the first answered."""
        request = base.WaitUntilSessionReadyRequest(session_uuid=self.uuid)
        first, second = (self.client.start("WaitUntilSessionReady", request) for _ in range(2))
        reply = first.result()
        second.cancel()
        return reply

    def heartbeat(self):
        return self.call("Heartbeat", base.HeartbeatRequest(session_uuid=self.uuid))

    def close(self):
        return self.call("CloseSession", base.CloseSessionRequest(session_uuid=self.uuid))

    def chunks(self, data, model=1, name="model.onnx", size=CHUNK, **fields):
        """The messages of an upload."""
        yield base.LoadModelComponentRequest(
            session_uuid=self.uuid, model_id=model, model_component_id=next(self.components),
            filename=name, chunk=data[:size], **fields)
        for at in range(size, len(data), size):
            yield base.LoadModelComponentRequest(chunk=data[at:at + size])

    def upload(self, data, **fields):
        return self.call("LoadModelComponent", self.chunks(data, **fields))

    def cached(self, data, model=1, name="model.onnx", sha256=None, **fields):
        return self.call("LoadCachedModelComponent", base.LoadCachedModelComponentRequest(
            session_uuid=self.uuid, model_id=model, model_component_id=next(self.components),
            sha256_hash=hashlib.sha256(data).digest() if sha256 is None else sha256, filename=name,
            **fields))

    def load_reply(self, model=1, format=ONNX, inputs=(), outputs=(), **fields):
        return self.call("LoadModel", base.LoadModelRequest(
            session_uuid=self.uuid, model_id=model, model_format=format, input_names=inputs,
            output_names=outputs, **fields))

    def load(self, data, model=1, inputs=(), outputs=(), **fields):
        """Uploads and loads a model that all backends must take."""
        self.upload(data, model=model, **fields)
        for result in self.load_reply(model, inputs=inputs, outputs=outputs).result_per_backend:
            assert result.HasField("result_value"), result

    def run_request(self, inputs, model=1, maps=None, **fields):
        maps = maps or [range(len(inputs))] * self.n
        return base.RunRequest(
            session_uuid=self.uuid, model_id=model, inputs=[value(x) for x in inputs],
            input_map_per_backend=[base.InputMap(input_value_indices=m) for m in maps], **fields)

    def run(self, inputs, timeout=PATIENCE, **fields):
        """The results of all backends."""
        reply = self.call("Run", self.run_request(inputs, **fields), timeout=timeout)
        assert len(reply.result_per_backend) == self.n
        return reply.result_per_backend

    def infer(self, inputs, **fields):
        """The outputs of each backend, as arrays."""
        results = self.run(inputs, mode=base.INFERENCE, **fields)
        for result in results:
            assert result.HasField("result_value"), result
        return [[array(v.tensor) for v in r.result_value.outputs] for r in results]

    def measure(self, model=1, **fields):
        return self.call("Measure", own.MeasureRequest(session_uuid=self.uuid, model_id=model,
                                                       **fields))


# ---- Tensors and models ----

DTYPES = {np.dtype(name): getattr(base, f"TENSOR_DTYPE_{wire}") for name, wire in (
    ("float16", "F16"), ("float32", "F32"), ("float64", "F64"), ("int8", "I8"), ("int16", "I16"),
    ("int32", "I32"), ("int64", "I64"), ("uint8", "UINT8"), ("uint16", "UINT16"),
    ("uint32", "UINT32"), ("uint64", "UINT64"), ("bool", "BOOL"))}
NUMPY = {number: dtype for dtype, number in DTYPES.items()}


def tensor(x, **fields):
    return base.Tensor(**{"dtype": DTYPES.get(x.dtype, base.TENSOR_DTYPE_F32), "shape": x.shape,
                          "data": np.ascontiguousarray(x).tobytes(), **fields})


def value(x):
    """An array, or a tensor that was made already, as the wire has it."""
    return base.Value(tensor=x if isinstance(x, base.Tensor) else tensor(x))


def array(t):
    if t.HasField("onnx_dtype"):
        dtype = helper.tensor_dtype_to_np_dtype(t.onnx_dtype)
    else:
        dtype = NUMPY[t.dtype]
    return np.frombuffer(t.data, dtype).reshape(t.shape)


def model_bytes(nodes, inputs, outputs, initializers=()):
    """inputs and outputs: name, type, shape."""
    infos = [[helper.make_tensor_value_info(*info) for info in infos] for infos in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *infos, initializer=list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    return model.SerializeToString()


def affine(weight):
    """y = x @ weight + 1: its data."""
    n, m = weight.shape
    return model_bytes(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "one"], ["y"])],
        [("x", TensorProto.FLOAT, ["batch", n])], [("y", TensorProto.FLOAT, ["batch", m])],
        [numpy_helper.from_array(weight.astype(np.float32), "w"),
         numpy_helper.from_array(np.float32(1), "one")])


WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
SMALL = affine(WEIGHT)
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


def check_small(y, x=X):
    np.testing.assert_allclose(y, x @ WEIGHT + 1, rtol=1e-5)


def subtraction(dtype=TensorProto.FLOAT, shape=(3,)):
    """y = a - b: shows in which order inputs came."""
    return model_bytes([helper.make_node("Sub", ["a", "b"], ["y"])],
                       [("a", dtype, shape), ("b", dtype, shape)], [("y", dtype, shape)])


def endless():
    """A loop that takes for ever, at least until somebody ends it: y = x + 1, n times."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]),
         helper.make_node("Add", ["at", "one"], ["next"])], "body",
        [helper.make_tensor_value_info(*i) for i in
         (("i", TensorProto.INT64, []), ("go", TensorProto.BOOL, []), ("at", TensorProto.FLOAT, [4]))],
        [helper.make_tensor_value_info(*i) for i in
         (("go_on", TensorProto.BOOL, []), ("next", TensorProto.FLOAT, [4]))])
    return model_bytes(
        [helper.make_node("Loop", ["n", "yes", "x"], ["y"], body=body)],
        [("x", TensorProto.FLOAT, [4]), ("n", TensorProto.INT64, [])],
        [("y", TensorProto.FLOAT, [4])],
        [numpy_helper.from_array(np.array(True), "yes"),
         numpy_helper.from_array(np.float32(1), "one")])


def start_endless_measurement(session):
    """Of endless(), which must have been uploaded."""
    count = io.BytesIO()
    np.save(count, np.array(1 << 60))
    session.upload(count.getvalue(), name="n.npy")
    return session.client.start("Measure", own.MeasureRequest(
        session_uuid=session.uuid, model_id=1, model_file="model.onnx", inputs=["n=@n.npy"]))


def slow_to_load():
    """y = x + 0, where the 0 is what is left of products that a runtime works out when it loads this."""
    products = [helper.make_node("MatMul", [f"m{i}", f"m{i}"], [f"m{i + 1}"]) for i in range(300)]
    return model_bytes(
        [helper.make_node("ConstantOfShape", ["sizes"], ["m0"]), *products,
         helper.make_node("ReduceMax", ["m300"], ["zero"], keepdims=0),
         helper.make_node("Add", ["x", "zero"], ["y"])],
        [("x", TensorProto.FLOAT, [4])], [("y", TensorProto.FLOAT, [4])],
        [numpy_helper.from_array(np.array([3000, 3000]), "sizes")])


def expanding():
    """y = as many ones as n says: takes the memory that the client asks for."""
    return model_bytes([helper.make_node("Expand", ["one", "n"], ["all"]),
                        helper.make_node("ReduceSum", ["all"], ["y"], keepdims=0)],
                       [("n", TensorProto.INT64, [1])], [("y", TensorProto.FLOAT, [])],
                       [numpy_helper.from_array(np.float32(1), "one")])


def blob_files(service):
    """What the cache holds, by the hash that each file's name says."""
    return {path.name: path for path in (service.state / "blobs").rglob("*")
            if path.is_file() and re.fullmatch(r"[0-9a-f]{64}", path.name)}


def half_files(service):
    """What it has of uploads that haven't ended."""
    whole = blob_files(service)
    return [path for path in (service.state / "blobs").rglob("*") if path.name not in whole]
