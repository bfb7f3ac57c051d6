"""The names of octoml-profile, for programs that were written for it."""

from prony import __version__

__all__ = ["__version__"]
