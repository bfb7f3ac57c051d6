"""What a PyTorch function takes and costs on a backend, before it is deployed there."""

from prony._native import version as __version__

__all__ = ["__version__"]
