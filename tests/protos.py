"""The messages and stubs that protoc makes of proto/*.proto, in a folder of this process's own."""
import os
import sys
import tempfile

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # connections that end are nothing to talk about

from grpc_tools import protoc

from conftest import ROOT

_folder = tempfile.TemporaryDirectory(prefix="prony-proto-")
assert protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"--python_out={_folder.name}",
                    f"--grpc_python_out={_folder.name}", "inference_base.proto", "remote_inference.proto",
                    "prony.proto", "fxgraph.proto"]) == 0
sys.path.insert(0, _folder.name)

import fxgraph_pb2 as fx
import inference_base_pb2 as base
import prony_pb2 as own
import prony_pb2_grpc as own_rpc
import remote_inference_pb2 as remote
import remote_inference_pb2_grpc as remote_rpc

__all__ = ["base", "fx", "own", "own_rpc", "remote", "remote_rpc"]
