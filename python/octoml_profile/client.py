"""octoml-profile's sessions, where its programs import them from."""

from prony import BackendSpec, RemoteInferenceSession, get_default_backends, get_supported_backends
from prony._native import FORMAT_FXPROTO as MODEL_FORMAT_FXPROTO
from prony._native import FORMAT_ONNX as MODEL_FORMAT_ONNX

__all__ = ["BackendSpec", "MODEL_FORMAT_FXPROTO", "MODEL_FORMAT_ONNX", "RemoteInferenceSession",
           "get_default_backends", "get_supported_backends"]
