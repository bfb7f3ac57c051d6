"""octoml-profile's functions, where its programs import them from, and its switches: what can't be
compiled or fails on a backend raises instead of being reported."""

from typing import Any

from octoml_profile import log_util
from prony import ProfileHandle, accelerate, remote_inference, remote_profile

__all__ = ["ProfileHandle", "RAISE_ON_COMPILATION_ERROR", "RAISE_ON_RUNTIME_ERROR", "accelerate",
           "filelog", "remote_inference", "remote_profile"]  # noqa: F822 -- made when asked for

RAISE_ON_COMPILATION_ERROR = False
RAISE_ON_RUNTIME_ERROR = False


def __getattr__(name: str) -> Any:
    if name == "filelog":
        return log_util.get_file_logger(__name__)
    raise AttributeError(f"module 'octoml_profile.dynamo' has no attribute {name!r}")
