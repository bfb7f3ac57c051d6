"""octoml-profile's functions, where its programs import them from, and its switches: what can't be
compiled or fails on a backend raises instead of being reported."""

from prony import ProfileHandle, accelerate, remote_inference, remote_profile

__all__ = ["ProfileHandle", "RAISE_ON_COMPILATION_ERROR", "RAISE_ON_RUNTIME_ERROR", "accelerate",
           "remote_inference", "remote_profile"]

RAISE_ON_COMPILATION_ERROR = False
RAISE_ON_RUNTIME_ERROR = False
