"""A service that workers attach to, as tests need it: it sends commands and keeps the answers."""
import contextlib
import hashlib
import os
import queue
import signal
import subprocess
import threading
from concurrent import futures

import grpc

from conftest import PATIENCE
from protos import own as pb

WAIT = PATIENCE


class Attached:
    """One worker's connection."""

    def __init__(self, context):
        self.context = context
        self.commands = queue.Queue()
        self.reports = queue.Queue()
        self.hello = None
        self.last_id = 0

    def send(self, **body):
        self.last_id += 1
        self.commands.put(pb.WorkerCommand(id=self.last_id, **body))
        return self.last_id

    def report(self, wanted=None):
        """The next report, which must be the answer to the command `wanted`."""
        report = self.reports.get(timeout=WAIT)
        assert report is not None, "the worker has gone"
        assert wanted is None or report.id == wanted
        return report

    def ask(self, **body):
        return self.report(self.send(**body))

    def end(self):
        """The service hangs up."""
        self.commands.put(None)


class Service:
    """Speaks prony.Workers. `refuse` is what attaching is answered with, if anything."""

    def __init__(self):
        self.attached = queue.Queue()
        self.files = {}
        self.fetched = []
        self.refuse = None
        self.server = None
        self.port = 0

    def start(self):
        method = grpc.method_handlers_generic_handler("prony.Workers", {
            "Attach": grpc.stream_stream_rpc_method_handler(
                self._attach, pb.WorkerReport.FromString, pb.WorkerCommand.SerializeToString),
            "Fetch": grpc.unary_stream_rpc_method_handler(
                self._fetch, pb.FetchRequest.FromString, pb.FetchChunk.SerializeToString)})
        self.server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[method],
                                  options=[("grpc.so_reuseport", 0)])
        self.port = self.server.add_insecure_port(f"127.0.0.1:{self.port}")
        self.server.start()

    def stop(self):
        self.server.stop(0).wait()

    def keep(self, data, name="model.onnx"):
        """A file that can be fetched, as a command names it."""
        digest = hashlib.sha256(data).digest()
        self.files[digest] = data
        return pb.ModelFile(name=name, sha256=digest, bytes=len(data))

    def worker(self):
        attached = self.attached.get(timeout=WAIT)
        attached.hello = attached.report().hello
        return attached

    def _attach(self, reports, context):
        if self.refuse:
            context.abort(*self.refuse)
        attached = Attached(context)

        def listen():
            with contextlib.suppress(grpc.RpcError, ValueError):
                for report in reports:
                    attached.reports.put(report)
            attached.reports.put(None)
            attached.commands.put(None)

        threading.Thread(target=listen, daemon=True).start()
        self.attached.put(attached)
        while (command := attached.commands.get()) is not None:
            yield command

    def _fetch(self, request, context):
        self.fetched.append(request.sha256)
        data = self.files.get(request.sha256)
        if data is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such blob")
        for at in range(0, max(len(data), 1), 1 << 16):
            yield pb.FetchChunk(chunk=data[at:at + (1 << 16)])


class Worker:
    """A running `prony worker`."""

    def __init__(self, program, port, folder, *options, env=None, **more):
        self.process = subprocess.Popen(
            [str(program), "worker", "--server", f"127.0.0.1:{port}", "--insecure",
             "--hardware", "r6i.large", *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            start_new_session=True, env={**os.environ, "TMPDIR": str(folder), **(env or {})}, **more)

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait(self):
        """Its exit status and what it said."""
        _, said = self.process.communicate(timeout=WAIT)
        return self.process.returncode, said

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
