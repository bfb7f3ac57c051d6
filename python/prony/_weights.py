"""Weights as files: bytes in memory, hashed once for as long as they don't change."""

from __future__ import annotations

import dataclasses
import threading

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from prony import _native


@dataclasses.dataclass(frozen=True)
class File:
    """The bytes of a tensor, row by row. `holds` keeps them where they are."""

    address: int
    nbytes: int
    sha256: bytes
    holds: torch.Tensor


def packed(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in this machine's memory, row by row; the tensor itself if it is so already."""
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()


def version(tensor: torch.Tensor) -> int:
    """A number that changes when the tensor is written to; -1: there is none to ask."""
    return -1 if tensor.is_inference() else tensor._version


class Hashes:
    """SHA-256 of tensors. One that was hashed isn't hashed again while its memory lives and nobody has
    written to it. Tensors themselves aren't kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[int, ...], tuple[StorageWeakRef, int, bytes]] = {}
        self._prune_at = 1024
        self.hashed_bytes = 0

    def file(self, tensor: torch.Tensor) -> File:
        """The file of a tensor as it is now."""
        storage = StorageWeakRef(tensor.untyped_storage())
        key = (storage.cdata, tensor.data_ptr(), *tensor.shape, *tensor.stride())
        now = version(tensor)
        data = packed(tensor)
        address, nbytes = data.data_ptr(), data.nbytes
        with self._lock:
            known = self._known.get(key)
            if known is None or known[1] != now or now == -1:
                known = (storage, now, _native.sha256(address, nbytes))
                self._known[key] = known
                self.hashed_bytes += nbytes
                self._prune()
        return File(address, nbytes, known[2], data)

    def _prune(self) -> None:
        if len(self._known) >= self._prune_at:
            self._known = {key: known for key, known in self._known.items()
                           if not known[0].expired()}
            self._prune_at = 2 * len(self._known) + 1024


hashes = Hashes()
