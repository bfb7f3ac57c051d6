"""Models and traces in files: what the program's `profile`, `explore` and `report` give, as objects.

    report = prony.profile("model.onnx", backends=["onnxrt-cpu", "openvino-cpu"], dim=["batch=8"])
    print(report.verdict)
    for result in report.results:
        print(result.backend, result.median_ms)

The program does the work, so whatever it has an option for has an argument here: `max_time=5` is
`--max-time 5`, `ops=True` is `--ops`, and a list is an option given several times.
"""

from __future__ import annotations

import dataclasses
import html
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from prony import _access, _native
from prony._backend import Backends, BackendSpec
from prony.errors import OctomlProfileError

if TYPE_CHECKING:
    import pandas

Path = str | os.PathLike[str]

_USAGE = 2  # the exit status of what was asked for in the wrong way


def _options(given: dict[str, Any]) -> list[str]:
    """Arguments as options: True is one without a value; None and False are none."""
    words: list[str] = []
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        several = isinstance(value, Iterable) and not isinstance(value, (str, os.PathLike))
        for one in value if several else [value]:
            if one is True:
                words.append(option)
            elif one is not None and one is not False:
                words += [option, os.fspath(one) if isinstance(one, os.PathLike) else str(one)]
    return words


def _run(words: Sequence[str], token: str | None = None, folder: str | None = None) -> str:
    """What the program prints. Its warnings are for standard error, and its error is raised."""
    environment = {**os.environ, **({"PRONY_TOKEN": token} if token else {})}
    done = subprocess.run([_native.program(), *words], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, env=environment, cwd=folder)
    said = done.stderr.splitlines()
    errors = [line.removeprefix("prony: error: ") for line in said if line.startswith("prony: error: ")]
    if done.returncode and (errors or not done.stdout):
        text = errors[-1] if errors else f"prony ended with status {done.returncode}"
        raise ValueError(text) if done.returncode == _USAGE else OctomlProfileError(text)
    for line in said:
        print(line, file=sys.stderr)
    return done.stdout


class FileReport:
    """What the program wrote as JSON; the subclasses have its rows."""

    def __init__(self, data: dict[str, Any], words: Sequence[str]) -> None:
        self._data = data
        self._words = list(words)
        """What makes the other formats of the same."""

    @property
    def verdict(self) -> str:
        """The answer in a sentence."""
        return str(self._data["verdict"])

    @property
    def rows(self) -> list[Any]:
        """What to_dataframe() has."""
        raise NotImplementedError

    def to_json(self) -> str:
        """As the program writes it (docs/*.schema.json)."""
        return json.dumps(self._data, indent=2) + "\n"

    def text(self, **options: Any) -> str:
        """As the program prints it; options as `prony report` has them."""
        return _run([*self._words, *_options(options)])

    def print(self, file: TextIO | None = None, **options: Any) -> None:
        """Prints text()."""
        print(self.text(**options), end="", file=sys.stdout if file is None else file)

    def save(self, path: Path) -> None:
        """Writes to_json() to a file, or, if it ends in `.html`, a page with pictures."""
        text = self.text(format="html") if os.fspath(path).endswith(".html") else self.to_json()
        pathlib.Path(path).write_text(text)

    def to_dataframe(self) -> pandas.DataFrame:
        """One row for each of rows; needs pandas."""
        import pandas as pd

        return pd.DataFrame([dataclasses.asdict(row) for row in self.rows])

    def _repr_html_(self) -> str:
        """For notebooks."""
        shown = [dataclasses.asdict(row) for row in self.rows]
        names = list(shown[0]) if shown else []
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(_cell(row[name]))}</td>" for name in names)
                       + "</tr>" for row in shown)
        return f"<p>{html.escape(self.verdict)}</p><table><tr>{head}</tr>{body}</table>"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.verdict}>"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3g}"
    return " ".join(value) if isinstance(value, list) else str(value)


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value / by


# ---- Profiles ----

@dataclasses.dataclass(frozen=True)
class ModelResult:
    """A model on a backend at one point of a sweep; None where something isn't known."""

    backend: str
    sizes: str
    median_ms: float | None
    low_ms: float | None
    """The 95 % interval of the median."""
    high_ms: float | None
    mean_ms: float | None
    sd_ms: float | None
    min_ms: float | None
    max_ms: float | None
    num_samples: int
    flags: list[str]
    error: str | None


class ModelReport(FileReport):
    """What `prony profile` found out."""

    def __init__(self, data: dict[str, Any], words: Sequence[str] = ()) -> None:
        super().__init__(data, words)
        self.results: list[ModelResult] = [_model_result(result, data) for result in data["results"]]

    @property
    def rows(self) -> list[ModelResult]:
        return self.results

    @property
    def notes(self) -> list[str]:
        """Sentences for the reader."""
        return list(self._data["notes"])

    def text(self, **options: Any) -> str:
        with tempfile.TemporaryDirectory(prefix="prony-") as folder:
            path = pathlib.Path(folder, "profile.json")
            path.write_text(self.to_json())
            return _run(["report", str(path), *_options(options)])


def _model_result(result: dict[str, Any], data: dict[str, Any]) -> ModelResult:
    stats = result["stats"] or {}
    median, low, high, mean, sd, least, most = (
        _scaled(stats.get(f"{name}_ns"), 1e6)
        for name in ("median", "low", "high", "mean", "sd", "min", "max"))
    error = result["error"]
    sizes = ", ".join(f"{one['name']} {'x'.join(map(str, one['shape']))}"
                      for one in data["points"][result["point"]]["inputs"])
    return ModelResult(
        result["backend"]["name"], sizes, median, low, high, mean, sd, least, most,
        len(result["samples_ns"]), result["flags"], error["message"] if error else None)


def profile(model: Path, backends: Backends = None, *, server_addr: str | None = None,
            access_token: str | None = None, ca_file: Path | None = None,
            **options: Any) -> ModelReport:
    """Measures an ONNX file as `prony profile` does: here, or on the service at `server_addr`,
    `PRONY_ENDPOINT` or `OCTOML_PROFILE_ENDPOINT`. Options are the program's: `max_time=5`."""
    if backends is None or isinstance(backends, (str, BackendSpec)):
        backends = [] if backends is None else [backends]
    specs = [str(spec) for spec in backends]
    server = _access.endpoint(server_addr)
    words = ["profile", os.fspath(model), "--format", "json", *_options({
        "backend": specs, "server": server, "ca": ca_file, **options})]
    return ModelReport(json.loads(_run(words, access_token)))


# ---- Traces ----

@dataclasses.dataclass(frozen=True)
class TraceGroup:
    """An operator, or what else times are grouped by, or a kernel; times are of all analysed runs."""

    device: str
    name: str
    duration_us: float
    pct: float
    count: int
    mean_per_run_us: float | None


class TraceReport(FileReport):
    """What `prony explore` found in a trace of ONNX Runtime."""

    def __init__(self, data: dict[str, Any], words: Sequence[str]) -> None:
        super().__init__(data, words)
        self.groups: list[TraceGroup] = [
            _trace_group(device, group) for device in ("cpu", "gpu") for group in data[device]["groups"]]

    @property
    def rows(self) -> list[TraceGroup]:
        return self.groups

    @property
    def warnings(self) -> list[str]:
        """What is odd about the trace."""
        return list(self._data["warnings"])


def _trace_group(device: str, group: dict[str, Any]) -> TraceGroup:
    known = ("duration_us", "pct", "count", "per_run")
    name = " ".join(str(value) for key, value in group.items()
                    if key not in known and isinstance(value, str))
    return TraceGroup(device, name, group["duration_us"], group["pct"], group["count"],
                      (group.get("per_run") or {}).get("mean_us"))


def explore(trace: Path, **options: Any) -> TraceReport:
    """Reads a trace of ONNX Runtime as `prony explore` does; options are the program's: `start=1`."""
    words = ["explore", os.fspath(trace), *_options(options)]
    return TraceReport(json.loads(_run([*words, "--format", "json"])), words)


# ---- Comparisons ----

@dataclasses.dataclass(frozen=True)
class ComparedRow:
    """A backend at one point, in both profiles."""

    file: str
    backend: str
    sizes: str | None
    verdict: str
    regression: bool
    ratio: float | None
    low: float | None
    high: float | None


class Comparison(FileReport):
    """What `prony report BEFORE AFTER` says."""

    def __init__(self, data: dict[str, Any], files: list[tuple[str, str]],
                 options: dict[str, Any]) -> None:
        super().__init__(data, [])
        self._files, self._options = files, options
        self.compared: list[ComparedRow] = [
            _compared_row(file["after"]["file"], row) for file in data["files"] for row in file["rows"]]

    @property
    def rows(self) -> list[ComparedRow]:
        return self.compared

    @property
    def regressions(self) -> int:
        """Rows that are slower by more than `fail_over`, or than what counts."""
        return int(self._data["regressions"])

    def text(self, **options: Any) -> str:
        return _compare(self._files, {**self._options, **options})


def _compared_row(file: str, row: dict[str, Any]) -> ComparedRow:
    ratio = row.get("ratio") or {}
    return ComparedRow(file, row["backend"], row.get("sizes"), row["verdict"], row["regression"],
                       ratio.get("estimate"), ratio.get("low"), ratio.get("high"))


def _compare(files: list[tuple[str, str]], options: dict[str, Any]) -> str:
    with tempfile.TemporaryDirectory(prefix="prony-") as folder:
        for name, text in files:
            pathlib.Path(folder, name).write_text(text)
        return _run(["report", *(f"./{name}" if name.startswith("-") else name for name, _ in files),
                     *_options(options)], folder=folder)


def compare(before: Path | ModelReport, *after: Path | ModelReport, **options: Any) -> Comparison:
    """Compares profiles, as objects or saved ones, with the first, as `prony report` does."""
    if not after:
        raise ValueError("compare takes two profiles or more")
    files: list[tuple[str, str]] = []
    for one in (before, *after):
        if isinstance(one, ModelReport):
            name, text = "after.json" if files else "before.json", one.to_json()
        else:
            name, text = os.path.basename(os.fspath(one)), pathlib.Path(one).read_text()
        if name in dict(files):
            name = f"{len(files) + 1}-{name}"
        files.append((name, text))
    return Comparison(json.loads(_compare(files, {**options, "format": "json"})), files, options)
