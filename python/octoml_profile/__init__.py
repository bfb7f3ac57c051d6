"""The names of octoml-profile, for programs that were written for it; prony does the work."""

from octoml_profile import errors, report
from prony import (
    BackendSpec, CompilationError, CreateSessionError, InferenceSession, LoadModelError,
    OctomlProfileError, ProfileHandle, RemoteInferenceSession, __version__, accelerate,
    get_default_backends, get_supported_backends, remote_inference, remote_profile)

__all__ = ["BackendSpec", "CompilationError", "CreateSessionError", "InferenceSession",
           "LoadModelError", "OctomlProfileError", "ProfileHandle", "RemoteInferenceSession",
           "__version__", "accelerate", "errors", "get_default_backends",
           "get_supported_backends", "remote_inference", "remote_profile", "report"]
