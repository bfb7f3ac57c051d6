"""What a PyTorch function takes and costs on a backend, before it is deployed there.

    import torch
    from prony import accelerate, remote_profile

    @accelerate
    def predict(x):
        return torch.softmax(net(x), dim=-1)

    with remote_profile():
        for _ in range(10):
            predict(torch.randn(1, 100))

docs/pytorch.md has the rest.
"""

from prony import errors, report
from prony._accelerate import accelerate
from prony._backend import BackendSpec
from prony._native import version as __version__
from prony._profiling import ProfileHandle, remote_inference, remote_profile
from prony._session import (
    InferenceSession, RemoteInferenceSession, get_default_backends, get_supported_backends)
from prony.errors import (
    CompilationError, CreateSessionError, LoadModelError, OctomlProfileError)

__all__ = ["BackendSpec", "CompilationError", "CreateSessionError", "InferenceSession",
           "LoadModelError", "OctomlProfileError", "ProfileHandle", "RemoteInferenceSession",
           "__version__", "accelerate", "errors", "get_default_backends",
           "get_supported_backends", "remote_inference", "remote_profile", "report"]
