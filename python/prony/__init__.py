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

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prony import errors, report
    from prony._accelerate import accelerate
    from prony._backend import BackendSpec
    from prony._native import version as __version__
    from prony._profiling import ProfileHandle, remote_inference, remote_profile
    from prony._session import (
        InferenceSession, RemoteInferenceSession, get_default_backends, get_supported_backends)
    from prony.errors import (
        CompilationError, CreateSessionError, LoadModelError, OctomlProfileError)
    from prony.files import Comparison, ModelReport, TraceReport, compare, explore, profile

__all__ = ["BackendSpec", "Comparison", "CompilationError", "CreateSessionError", "InferenceSession",
           "LoadModelError", "ModelReport", "OctomlProfileError", "ProfileHandle",
           "RemoteInferenceSession", "TraceReport", "__version__", "accelerate", "compare", "errors",
           "explore", "get_default_backends", "get_supported_backends", "profile",
           "remote_inference", "remote_profile", "report"]

# Where the names are from, in the order above. They are imported when they are asked for: the command
# `prony` works without PyTorch, and doesn't wait for it.
_HOMES = {
    "accelerate": "prony._accelerate",
    "BackendSpec": "prony._backend",
    "ProfileHandle": "prony._profiling",
    "remote_inference": "prony._profiling",
    "remote_profile": "prony._profiling",
    "InferenceSession": "prony._session",
    "RemoteInferenceSession": "prony._session",
    "get_default_backends": "prony._session",
    "get_supported_backends": "prony._session",
    "CompilationError": "prony.errors",
    "CreateSessionError": "prony.errors",
    "LoadModelError": "prony.errors",
    "OctomlProfileError": "prony.errors",
    "Comparison": "prony.files",
    "ModelReport": "prony.files",
    "TraceReport": "prony.files",
    "compare": "prony.files",
    "explore": "prony.files",
    "profile": "prony.files",
}
_EXTRA = frozenset({"torch", "numpy", "onnx", "onnxscript"})  # what prony[torch] brings


def _import(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("prony._native").version
    if name in ("errors", "report"):
        return importlib.import_module(f"prony.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'prony' has no attribute {name!r}")


def __getattr__(name: str) -> Any:
    try:
        value = _import(name)
    except ModuleNotFoundError as fault:
        if fault.name not in _EXTRA:
            raise
        raise ImportError(f"prony.{name} needs {fault.name}, which is not installed: "
                          "pip install 'prony[torch]'", name=fault.name) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
