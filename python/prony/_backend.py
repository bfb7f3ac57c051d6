"""Names of backends: hardware/software[option,key=value]."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

ONNX_SOFTWARE = ("onnxrt-", "openvino-")


class BackendOptions(dict[str, str]):
    """Options of a backend: "fp16" has the value "", "threads=2" the value "2"."""

    @staticmethod
    def parse(spec: str) -> BackendOptions:
        """From "option,key=value"."""
        return _parse_options(spec, spec)

    def __str__(self) -> str:
        options = (f"{key}={value}" if value else key for key, value in self.items())
        return f"[{','.join(options)}]" if self else ""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


def _parse_options(text: str, spec: str) -> BackendOptions:
    options = BackendOptions()
    if not text.strip():
        return options
    for part in text.split(","):
        key, *value = (word.strip() for word in part.split("="))
        if len(value) > 1:
            raise ValueError(f"'{spec}' is not a backend: '{part.strip()}' has a second '='")
        if not key:
            raise ValueError(f"'{spec}' is not a backend: an option has no name")
        options[key] = value[0] if value else ""
    return options


@dataclasses.dataclass(frozen=True, eq=False)
class BackendSpec:
    """One backend. Options keep their order; specs are equal when options are equal as a map."""

    hardware_platform: str
    software_backend: str
    backend_options: Mapping[str, str] = dataclasses.field(default_factory=BackendOptions)

    @staticmethod
    def parse(spec: str) -> BackendSpec:
        """From its text; ValueError says what is wrong with it."""
        text, options = spec.strip(), ""
        if text.endswith("]"):
            text, bracket, options = text[:-1].partition("[")
            if not bracket:
                raise ValueError(f"'{spec}' is not a backend: it has a ']' without '['")
        if "[" in text or "]" in text or "[" in options or "]" in options:
            raise ValueError(f"'{spec}' is not a backend: its brackets don't match")
        hardware, slash, software = (part.strip() for part in text.partition("/"))
        if not slash or not hardware or not software:
            raise ValueError(
                f"'{spec}' is not a backend: write hardware/software, such as 'local/onnxrt-cpu'")
        return BackendSpec(hardware, software, _parse_options(options, spec))

    @property
    def plain(self) -> str:
        """Without options: what a server lists."""
        return f"{self.hardware_platform}/{self.software_backend}"

    def __str__(self) -> str:
        return f"{self.plain}{BackendOptions(self.backend_options)}"

    def __repr__(self) -> str:
        return f"BackendSpec({str(self)!r})"

    def __format__(self, format_spec: str) -> str:
        return format(str(self), format_spec)

    def _key(self) -> tuple[str, frozenset[tuple[str, str]]]:
        return self.plain, frozenset(self.backend_options.items())

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, BackendSpec) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())


Backends = str | BackendSpec | Iterable[str | BackendSpec] | None


def parse_backends(backends: Backends) -> list[BackendSpec]:
    """One text, one spec, or a list of either; None is none."""
    if backends is None:
        return []
    if isinstance(backends, (str, BackendSpec)) or not isinstance(backends, Iterable):
        backends = [backends]
    return [spec if isinstance(spec, BackendSpec) else _parse(spec) for spec in backends]


def _parse(spec: object) -> BackendSpec:
    if not isinstance(spec, str):
        raise TypeError(f"{spec!r} is not a backend: write one such as 'local/onnxrt-cpu', or a "
                        "list of them")
    return BackendSpec.parse(spec)


def takes_onnx(backend: str) -> bool:
    """Whether a backend, given by its name, takes ONNX; the others take FXPROTO."""
    return backend.partition("/")[2].startswith(ONNX_SOFTWARE)
