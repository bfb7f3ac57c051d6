"""prony's library, in C: sessions, graphs, recording and reports."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, TypeAlias, TypeVar, final

T = TypeVar("T")

version: str

EUSAGE: int
ENOMEM: int
EIO: int
ENOENT: int
EFORMAT: int
EUNSUPPORTED: int
ELIMIT: int
EUNAVAILABLE: int
ERUNTIME: int
ECRASH: int
ETIMEDOUT: int
ECANCELED: int
EDENIED: int

FORMAT_ONNX: int
FORMAT_FXPROTO: int

Tensor: TypeAlias = tuple[str, int, Sequence[int], int, int]
"""name, element type (ONNX's number), dims, address, bytes"""

File: TypeAlias = tuple[str, bytes | tuple[int, int], bytes | None]
"""name, contents (or their address and size), SHA-256 if it is known"""

Form: TypeAlias = tuple[int, Sequence[File], Sequence[str], Sequence[str], str | None]
"""format, files, names of inputs and outputs, why there is no such form"""

Output: TypeAlias = tuple[str, int, tuple[int, ...], bytes]
"""name, element type, dims, data"""

class Error(Exception):
    code: int

@final
class Session:
    def __new__(
        cls,
        backends: Sequence[str],
        *,
        server: str,
        token: str | None = None,
        insecure: bool = False,
        ca_file: str | None = None,
        repeats: int = 10,
        warmups: int = 1,
        strict: bool = False,
        notice: Callable[[dict[str, Any]], object] | None = None,
        timeout_s: float = 120.0,
        hardware_file: str | None = None,
        instead_of: Sequence[str] | None = None,
    ) -> Session: ...
    @property
    def backends(self) -> list[str]: ...
    @property
    def closed(self) -> bool: ...
    def load(
        self, name: str, forms: Sequence[Form], refusals: tuple[str | None, ...] = ...
    ) -> Graph: ...
    def local_graph(self, name: str, reason: str) -> Graph: ...
    @property
    def waited_ns(self) -> int: ...
    def region(
        self,
        name: str,
        function: Callable[..., T],
        arguments: tuple[Any, ...] = (),
        named: dict[str, Any] = ...,
    ) -> tuple[T, str | None]: ...
    def region_compiled(self) -> None: ...
    def restart(self, repeats: int, warmups: int, strict: bool = False) -> None: ...
    def profile(self) -> Profile: ...
    def close(self) -> None: ...

@final
class Graph:
    @property
    def id(self) -> int: ...
    @property
    def failures(self) -> list[str | None]: ...
    @property
    def local_reason(self) -> str | None: ...
    def run(
        self,
        tensors: Sequence[Tensor],
        backend: str | None = None,
        outputs: bool = False,
    ) -> list[Output] | None: ...
    def measure(
        self,
        tensors: Sequence[Tensor],
        repeats: int = 1,
        warmups: int = 0,
        outputs: bool = False,
    ) -> list[tuple[list[int], list[Output] | None, str | None]]: ...
    def start(
        self, tensors: Sequence[Tensor], outputs: bool = False, overlap: bool = False
    ) -> Run: ...

@final
class Layout:
    def __new__(
        cls,
        weights: tuple[Any, ...],
        positions: tuple[int, ...],
        inputs: Sequence[Tensor],
        input_positions: tuple[int, ...],
    ) -> Layout: ...
    def fits(self, arguments: tuple[Any, ...], /) -> bool: ...

@final
class StandIn:
    def __new__(
        cls,
        otherwise: Callable[[tuple[Any, ...]], Any],
        local: Callable[..., Any],
        failed: Callable[[Graph, Error], None],
    ) -> StandIn: ...
    def call(self, *arguments: Any) -> Any: ...
    def expect(self, layout: Layout, graph: Graph, overlap: bool) -> None: ...
    def forget(self) -> None: ...

@final
class Run:
    def computed(self) -> None: ...
    def expect(self, tensors: Sequence[Tensor], /) -> None: ...
    def finish(self, backend: str | None = None) -> list[Output] | None: ...
    def cancel(self) -> None: ...

@final
class Profile:
    def report(
        self, format: str = "text", layout: str = "summary", verbose: bool = False
    ) -> str: ...
    def json(self) -> str: ...
    def save(self, path: str | PathLike[str], /) -> None: ...

def ping(
    server: str, token: str | None = None, insecure: bool = False, ca_file: str | None = None
) -> None: ...
def list_backends(
    server: str, token: str | None = None, insecure: bool = False, ca_file: str | None = None
) -> tuple[list[dict[str, Any]], dict[str, list[str]]]: ...
def lacks_token(
    server: str, token: str | None = None, insecure: bool = False, ca_file: str | None = None
) -> bool: ...
def save_token(token: str, /) -> None: ...
def check_process() -> None: ...
def sha256(address: int, bytes: int, /) -> bytes: ...
def program() -> str: ...
def fx_pack(tree: dict[str, Any], /) -> bytes: ...
def fx_unpack(data: bytes, /) -> dict[str, Any]: ...
def executor_main(hooks: Any, /) -> int: ...
