"""What goes wrong, by name; all of them can be caught as OctomlProfileError."""

from __future__ import annotations


class OctomlProfileError(RuntimeError):
    """Any error of prony itself; errors of the user's own function pass as they are. octoml-profile
    raised RuntimeError for some, and its programs catch that."""

    def __init__(self, message: str, kwargs: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.kwargs = kwargs


class CreateSessionError(OctomlProfileError):
    """A session couldn't be opened: no such server, no such backend, no such token."""


class CompilationError(OctomlProfileError):
    """A graph couldn't be captured or exported, and that mattered (strict, or remote inference)."""


class LoadModelError(OctomlProfileError):
    """A graph was refused by the backend that had to run it."""


class MisuseError(OctomlProfileError, ValueError):
    """What was asked for can't be; octoml-profile raised either of the two for such."""
