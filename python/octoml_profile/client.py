"""octoml-profile's sessions, where its programs import them from."""

from octoml_profile.inference_session import (
    BackendOptions, BackendSpec, FileDescription, InferenceSession, ModelRunner, RunResult)
from prony._backend import Backends as BackendSpecType
from prony._native import FORMAT_FXPROTO as MODEL_FORMAT_FXPROTO
from prony._native import FORMAT_ONNX as MODEL_FORMAT_ONNX
from prony._progress import human_readable_size
from prony._runner import RemoteModelRunner
from prony._runner import RunMode as RUN_MODE
from prony._session import RemoteInferenceSession, get_default_backends, get_supported_backends
from prony.errors import CreateSessionError, LoadModelError

MAX_GRPC_MESSAGE_SIZE = 1 << 30

__all__ = ["BackendOptions", "BackendSpec", "BackendSpecType", "CreateSessionError",
           "FileDescription", "InferenceSession", "LoadModelError", "MAX_GRPC_MESSAGE_SIZE",
           "MODEL_FORMAT_FXPROTO", "MODEL_FORMAT_ONNX", "ModelRunner", "RUN_MODE",
           "RemoteInferenceSession", "RemoteModelRunner", "RunResult", "get_default_backends",
           "get_supported_backends", "human_readable_size"]
