"""Uses a service through octoml-profile's own client, unchanged: its session layer, as its PyTorch
front end does. Runs in build/venv-torch, because that client imports torch.

    octoml_client.py ADDRESS FOLDER      FOLDER has model.onnx (y = x @ w + 1) and w.npy
"""
import pathlib
import sys

import numpy as np
import torch
from octoml_profile import RemoteInferenceSession, get_default_backends, get_supported_backends
from octoml_profile.dynamo import _load_fxproto_model
from octoml_profile.inference_session import LazyInMemoryFile, OnDiskFile
from octoml_profile.protos import remote_inference_pb2 as pb

address, folder = sys.argv[1], pathlib.Path(sys.argv[2])
where = {"server_addr": address, "insecure": True}
weight = np.load(folder / "w.npy")
x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


def check(results):
    """One result per backend, and the outputs are right."""
    for backend, result in results.items():
        assert result.error_value is None, (backend, result.error_value)
        np.testing.assert_allclose(result.result_value.outputs[0], x @ weight + 1, rtol=1e-5)


class Affine(torch.nn.Module):
    """The same in PyTorch."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.from_numpy(weight))

    def forward(self, x):
        return (x @ self.weight + 1,)


DEFAULT = ["local/onnxrt-cpu", "local/torch-eager-cpu", "local/torch-inductor-cpu"]
assert [str(b) for b in get_supported_backends(**where)] == \
    ["local/onnxrt-cpu", "local/openvino-cpu", *DEFAULT[1:]]
assert [str(b) for b in get_default_backends(**where)] == DEFAULT
# Its defaults, with a graph in both formats, the second one of its own making.
with RemoteInferenceSession(None, **where) as session:
    assert [str(b) for b in session.backends] == DEFAULT
    session.load_model(1, [0], pb.MODEL_FORMAT_ONNX, [OnDiskFile(str(folder), "model.onnx")], ["x"],
                       ["y"])
    graph = torch.fx.symbolic_trace(Affine())
    with torch.no_grad():
        _load_fxproto_model(session, 1, [1, 2], graph, (torch.from_numpy(x),))
    results = session.create_runner(1, [[0], [0], [0]]).submit_run(
        [x], num_repeats=3, num_warmups=1, mode=pb.INFERENCE)()
    assert len(results) == 3
    check(results)
with RemoteInferenceSession(["local/onnxrt-cpu"], **where) as session:
    file = OnDiskFile(str(folder), "model.onnx")
    # The second model's file is in the cache, and the third one is large enough for many chunks.
    big = np.random.default_rng(0).bytes(3 << 20)
    junk = LazyInMemoryFile("weights/0", lambda: (len(big), iter([big])))
    for model, files in ((1, [file]), (2, [file]), (3, [file, junk])):
        session.load_model(model, [0], pb.MODEL_FORMAT_ONNX, files, ["x"], ["y"])
        runner = session.create_runner(model, [[0]])
        check(runner.submit_run([x], num_repeats=3, num_warmups=1, mode=pb.INFERENCE)())
        profiled, = runner.submit_run([x], num_repeats=5, num_warmups=1)().values()
        assert len(profiled.result_value.run_times_nanos) == 5
        assert not profiled.result_value.outputs
    # What can't run is an error of that backend.
    failed, = session.create_runner(1, [[0]]).submit_run([x[:, :3]], num_repeats=1)().values()
    assert failed.result_value is None and failed.error_value.message
session = RemoteInferenceSession(["local/onnxrt-cpu", "local/openvino-cpu[threads=1]"], **where)
session.load_model(1, [0, 1], pb.MODEL_FORMAT_ONNX, [file], ["x"], ["y"])
check(session.create_runner(1, [[0], [0]]).submit_run([x], num_repeats=2, mode=pb.INFERENCE)())
for backends, said in ((["local/torch-eager-cuda"], "not supported"),
                       (["local/onnxrt-cpu[colour=red]"], "colour")):
    try:
        RemoteInferenceSession(backends, **where)
    except (ValueError, RuntimeError) as error:
        assert said in str(error), error
    else:
        raise AssertionError(f"{backends} should have been refused")
print("done")  # the session that is left is closed at exit
