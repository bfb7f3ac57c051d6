"""The errors of octoml-profile, where its programs import them from."""

from prony.errors import CompilationError, CreateSessionError, LoadModelError, OctomlProfileError

__all__ = ["CompilationError", "CreateSessionError", "LoadModelError", "OctomlProfileError"]
