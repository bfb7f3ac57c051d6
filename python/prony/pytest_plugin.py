"""The fixture `prony` of pytest: tests on how fast a model is, which fail with the report.

    def test_speed(prony):
        prony.profile("model.onnx", "onnxrt-cpu").assert_faster_than("20 ms")

    def test_new_version(prony):
        prony.profile("new.onnx").assert_not_slower_than("old.onnx", "3%")

The program measures and judges; nothing is called faster that its interval doesn't show. docs/check.md has the rest.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import tempfile
import warnings
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from prony._backend import Backends
    from prony.files import ModelReport, ModelResult, Path

_UNITS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "ms": 1.0, "s": 1e3, "min": 6e4}
# Options of `prony profile` that prony.yml has, too, and where.
_MAPS = {"dim": "dims", "shape": "shapes", "input": "inputs"}
_MEASURE = ("max_time", "launches", "repeats", "warmups", "precision", "difference", "seed", "timeout")
_PERCENT = ("precision", "difference")
_TIMES = ("max_time", "timeout")


class PronyWarning(UserWarning):
    """A limit that a measurement could neither show to hold nor to be broken."""


def _milliseconds(text: str) -> float:
    match = re.fullmatch(r"([0-9.]+(?:e[-+]?[0-9]+)?)\s*([a-zµμ]+)", text.strip())
    try:
        if match:
            return float(match[1]) * _UNITS[match[2]]
    except (ValueError, KeyError):
        pass
    raise ValueError(f"{text!r} is not a time such as '20 ms'")


def _percent(value: str | float) -> str:
    """As prony.yml has it; a number is a fraction."""
    return value.strip() if isinstance(value, str) and value.strip().endswith("%") else f"{100 * float(value):g}%"


def _shown(milliseconds: float) -> str:
    for unit, factor in (("s", 1e3), ("ms", 1.0), ("µs", 1e-3)):
        if milliseconds >= factor:
            return f"{milliseconds / factor:.3g} {unit}"
    return f"{milliseconds * 1e6:.3g} ns"


class Measured:
    """A model and how to measure it. It is measured when somebody asks, and once."""

    def __init__(self, model: Path, backends: Backends, options: dict[str, Any],
                 properties: list[tuple[str, object]]) -> None:
        self.model = os.fspath(model)
        self._backends, self._options, self._properties = backends, options, properties
        self._report: ModelReport | None = None
        if not os.path.exists(self.model):
            raise FileNotFoundError(f"no model '{self.model}'")

    @property
    def report(self) -> ModelReport:
        """What `prony profile` found."""
        from prony import files

        if self._report is None:
            self._report = files.profile(self.model, self._backends, **self._options)
            self._properties.append(("prony", self._report.verdict))
        return self._report

    def assert_faster_than(self, limit: str) -> None:
        """Passes when the 95 % interval of the median lies below the limit, such as "20 ms", on every backend
        and at every size."""
        __tracebackhide__ = True
        most = _milliseconds(limit)
        faults = [fault for fault in (_slow(result, most) for result in self.report.results) if fault]
        if faults:
            raise AssertionError("\n".join([f"{self.model} is not shown to be faster than {limit}:", *faults, "",
                                            self.report.text()]))

    def assert_not_slower_than(self, baseline: Path | Measured, by: str | float = 0.0, *,
                               strict: bool = False) -> None:
        """Fails when this model is shown to be slower than the baseline by more than `by`, such as "3%": the rule of
        `prony check`. The baseline is another model, which is measured side by side with this one, or a saved
        profile (.json). What isn't shown is a warning, or, if it is strict, fails."""
        __tracebackhide__ = True
        old = baseline.model if isinstance(baseline, Measured) else os.fspath(baseline)
        data, text, passed = self._check(os.path.abspath(old), _percent(by), strict)
        self._properties.append(("prony", data["verdict"]))
        if not passed:
            raise AssertionError(f"{self.model} against {old}:\n{text}")
        if data["not_shown"]:
            warnings.warn(PronyWarning(f"{self.model} against {old}: {data['verdict']}"), stacklevel=2)

    def _check(self, old: str, by: str, strict: bool) -> tuple[dict[str, Any], str, bool]:
        """What `prony check` found, as JSON and as text, and whether it passed."""
        from prony import _native
        from prony.errors import OctomlProfileError

        with tempfile.TemporaryDirectory(prefix="prony-") as folder:
            config, found = pathlib.Path(folder, "prony.yml"), pathlib.Path(folder, "check.json")
            config.write_text(json.dumps(self._config(old, by), ensure_ascii=False))  # which is YAML
            words = [_native.program(), "check", "-c", str(config), "--json", str(found)]
            done = subprocess.run([*words, "--strict"] if strict else words, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True)
            if not found.exists():
                raise OctomlProfileError(done.stderr.strip().removeprefix("prony: error: "))
            return json.loads(found.read_text()), done.stdout, done.returncode == 0

    def _config(self, old: str, by: str) -> dict[str, Any]:
        from prony._backend import BackendSpec

        model: dict[str, Any] = {
            "path": os.path.abspath(self.model), "name": os.path.basename(self.model), "limits": {"time": by},
            "old": {"report": old} if old.endswith(".json") else old}
        measure: dict[str, Any] = {}
        if isinstance(self._backends, (str, BackendSpec)):
            model["backends"] = [str(self._backends)]
        elif self._backends is not None:
            model["backends"] = [str(one) for one in self._backends]
        for name, value in self._options.items():
            if name in _MAPS:
                pairs = [value] if isinstance(value, str) else value
                model[_MAPS[name]] = {key: _from_here(text) for key, text in (one.split("=", 1) for one in pairs)}
            elif name == "inputs":
                model["inputs"] = os.path.abspath(value)
            elif name in _MEASURE:
                measure[name] = _percent(value) if name in _PERCENT else value if name in _TIMES else int(value)
            else:
                raise ValueError(f"assert_not_slower_than has no use for the option {name!r}")
        return {"models": [model], "measure": measure}


def _from_here(text: str) -> str:
    """A file's path from the root, because prony.yml is elsewhere."""
    return "@" + os.path.abspath(text[1:]) if text.startswith("@") else text


def _slow(result: ModelResult, most: float) -> str | None:
    where = f"  {result.backend} ({result.sizes}): "
    if result.error is not None or result.median_ms is None:
        return where + (result.error or "nothing was measured")
    if result.low_ms is None or result.high_ms is None:
        return (f"{where}{_shown(result.median_ms)}, but too few processes for an interval; measure with 5 launches "
                "or more")
    if result.high_ms < most:
        return None
    interval = f"{_shown(result.median_ms)} (95 %: {_shown(result.low_ms)} to {_shown(result.high_ms)})"
    if result.low_ms > most:
        return f"{where}{interval} is slower"
    return f"{where}{interval} includes the limit; a longer max_time or more launches would narrow it"


class Prony:
    """What the fixture `prony` is."""

    def __init__(self, properties: list[tuple[str, object]]) -> None:
        self._properties = properties

    def profile(self, model: Path, backends: Backends = None, **options: Any) -> Measured:
        """A model on backends (default: every runtime that is found); options are the program's: `max_time=5`."""
        return Measured(model, backends, options, self._properties)


def _unavailable() -> str | None:
    """Why the program can't run here; None: it can."""
    try:
        from prony import _native
    except ImportError as fault:
        return str(fault)
    try:
        done = subprocess.run([_native.program(), "--version"], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True)
    except (OSError, _native.Error) as fault:
        return str(fault)
    return None if done.returncode == 0 else f"it ended with status {done.returncode}: {done.stderr.strip()}"


def _prony(request: Any) -> Prony:
    why = _unavailable()
    if why is not None:
        refuse = pytest.skip if request.config.getoption("prony_unavailable") == "skip" else pytest.fail
        refuse(f"prony can't run here: {why}")
    return Prony(request.node.user_properties)


_prony.__doc__ = "Measures models: prony.profile('m.onnx').assert_faster_than('20 ms')."
prony = pytest.fixture(name="prony")(_prony)


def pytest_addoption(parser: Any) -> None:
    parser.getgroup("prony").addoption(
        "--prony-unavailable", dest="prony_unavailable", choices=("fail", "skip"), default="fail",
        help="what tests with the fixture prony do where prony can't run (default: fail)")
