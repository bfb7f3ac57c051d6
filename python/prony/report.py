"""What was recorded: typed fields, and the reports that `prony report` makes of it."""

from __future__ import annotations

import collections
import dataclasses
import html
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from prony import _dump, _native
from prony.errors import OctomlProfileError

if TYPE_CHECKING:
    import pandas

UNCOMPILED = "Uncompiled"
"""Under which a local segment has its times."""

LAYOUTS = ("summary", "segments", "classic")
"""Of the text."""

_LETTERS_MAX = 100


@dataclasses.dataclass(frozen=True)
class PerBackendResult:
    """A segment on a backend; times are means of all samples."""

    mean_ms: float | None
    num_samples: int
    num_failures: int
    sd_ms: float | None = None
    min_ms: float | None = None
    max_ms: float | None = None

    def total_ms(self) -> float | None:
        """Of all samples together."""
        return None if self.mean_ms is None else self.mean_ms * self.num_samples


@dataclasses.dataclass(frozen=True)
class Segment:
    """Local code (`graph_id` is None) or a graph."""

    graph_id: int | None
    results_per_backend: dict[str, PerBackendResult]

    def total_ms(self) -> float:
        """Of all samples on all backends: for sorting."""
        return sum(result.total_ms() or 0.0 for result in self.results_per_backend.values())


@dataclasses.dataclass(frozen=True)
class PerBackendError:
    """Why a graph failed on a backend, and how many samples each reason cost."""

    graph_id: int
    error_messages_to_count: dict[str, int]


@dataclasses.dataclass(frozen=True)
class OutputCheck:
    """An output of a backend against the one that was computed here; None where a difference can't
    be taken."""

    name: str
    same_shape: bool
    max_abs: float | None
    max_rel: float | None
    cosine: float | None


@dataclasses.dataclass(frozen=True)
class GraphCheck:
    """What a graph gave on a backend in its first run, against what was computed here."""

    graph_id: int
    backend: str
    mismatch: bool
    failure: str | None
    """Why nothing could be compared; None: it could."""
    outputs: list[OutputCheck]


@dataclasses.dataclass(frozen=True)
class FirstCall:
    """Where the time of a graph's first call went; None where it isn't known."""

    graph_id: int
    capture_ms: float | None
    lower_ms: float | None
    export_ms: float | None
    upload_ms: float | None
    all_loaded_ms: float | None
    """On all backends, with what was left of their start."""
    load_ms: dict[str, float | None]
    """By backend, and so is the next."""
    first_run_ms: dict[str, float | None]
    """Without the timed runs: inputs are bound, compilers compile."""


@dataclasses.dataclass(frozen=True)
class TotalPerBackendResult:
    """What one call comes to on a backend; None where it isn't known."""

    estimated_total_ms: float | None
    errors: list[PerBackendError]
    backend_ms: float | None = None
    usd_per_million: float | None = None
    median_total_ms: float | None = None
    """Over calls, with its 95 % interval; the fields above are means."""
    low_ms: float | None = None
    high_ms: float | None = None
    median_backend_ms: float | None = None
    local_graphs_ms: float | None = None
    """Of the total: graphs that ran locally because they didn't there."""
    flags: list[str] = dataclasses.field(default_factory=list)
    """IMPRECISE, MISMATCH, PARTIAL."""


@dataclasses.dataclass(frozen=True)
class GraphResult:
    """A graph as Dynamo captured it, and why it ends; None where the report was read from a file."""

    graph_id: int
    graph_module: Any
    compile_reason: Any


@dataclasses.dataclass(frozen=True)
class Profile:
    """Calls of one function that ran the same graphs."""

    func_name: str
    segments: list[Segment]
    total_uncompiled_ms: float | None
    total_per_backend: dict[str, TotalPerBackendResult]
    num_runs: int
    num_repeats: int
    num_discarded_runs: int
    compilation_occurred: bool
    compilation_errors: list[str] = dataclasses.field(default_factory=list)
    """What couldn't be captured, exported or loaded of this function's graphs."""
    graph_results: list[GraphResult] = dataclasses.field(default_factory=list, repr=False)
    _part: Callable[[], Report] | None = dataclasses.field(default=None, repr=False, compare=False)

    def print(self, report_path_prefix: str | os.PathLike[str] | None = None, *,
              file: TextIO | None = None, verbose: bool = False) -> None:
        """Prints this profile alone. With a prefix, its segments and graphs are written to
        `<prefix>.profile.txt` and `<prefix>.graph_dump.txt`."""
        if self._part is None:
            raise OctomlProfileError("the profile isn't part of a report")
        report = self._part()
        report.print(file=file, verbose=verbose)
        if report_path_prefix is not None:
            prefix = os.fspath(report_path_prefix)
            pathlib.Path(f"{prefix}.profile.txt").write_text(
                report.text(verbose=verbose, layout="segments"))
            pathlib.Path(f"{prefix}.graph_dump.txt").write_text(report.graph_dump(self))
            print(f"Segments and graphs: {prefix}.*", file=sys.stdout if file is None else file)

    @property
    def footprint(self) -> list[int]:
        """The graphs of a call, in their order."""
        return [s.graph_id for s in self.segments if s.graph_id is not None]


class Report:
    """All profiles of a `remote_profile` block."""

    def __init__(self, data: dict[str, Any], sources: dict[int, _dump.Source] | None = None,
                 compilation_errors: list[str] | None = None,
                 runtime_errors: list[str] | None = None) -> None:
        self._data = data
        self._sources = dict(sources or {})
        self.report_dir: str | None = None
        """Where write_details() has written last."""
        backends = [result["backend"]["name"] for result in data["results"]]
        self.profiles: list[Profile] = [
            self._complete(_profile(p, backends), i, compilation_errors or [])
            for i, p in enumerate(data.get("profiles", []))]
        self.checks: list[GraphCheck] = [
            GraphCheck(graph["id"], name, check["mismatch"], check["failure"],
                       [OutputCheck(*(output[field.name] for field in dataclasses.fields(OutputCheck)))
                        for output in check["outputs"]])
            for graph in data.get("graphs", ())
            if any(graph["id"] in profile.footprint for profile in self.profiles)
            for name, check in zip(backends, graph.get("checks") or ()) if check]
        self.first_calls: list[FirstCall] = [
            _first_call(graph["id"], graph["start"], backends)
            for graph in data.get("graphs", ()) if graph.get("start") and
            any(graph["id"] in profile.footprint for profile in self.profiles)]
        self.compilation_errors: list[str] = list(compilation_errors or [])
        self.runtime_errors: list[str] = list(runtime_errors or []) + [
            text for text in _failures(self.profiles) if text not in (runtime_errors or [])]

    def _complete(self, profile: Profile, index: int, errors: list[str]) -> Profile:
        """With what the JSON hasn't: errors of its own, its graphs, and a report of it alone."""
        graphs = list(dict.fromkeys(profile.footprint))
        own = [text for text in errors if f"in '{profile.func_name}'" in text or
               any(text.startswith(f"Graph #{graph} ") for graph in graphs)]
        results = [GraphResult(graph, source and source.module, source and source.compile_reason)
                   for graph in graphs for source in [self._sources.get(graph)]]

        def part() -> Report:
            data = {**self._data, "profiles": [self._data["profiles"][index]]}
            return Report(data, self._sources, own)

        return dataclasses.replace(profile, compilation_errors=own, graph_results=results, _part=part)

    def graph_dump(self, profile: Profile) -> str:
        """The graphs of a profile: where they are from, why they end, and what is in them."""
        graphs = dict.fromkeys(profile.footprint)
        return "\n".join(_dump.text(i, self._sources[i]) for i in graphs if i in self._sources)

    @property
    def mismatches(self) -> list[GraphCheck]:
        """Those whose outputs differ by more than rounding: their times are those of another result."""
        return [check for check in self.checks if check.mismatch]

    @property
    def verdict(self) -> str:
        """The sentence that the report begins with."""
        return str(self._data.get("verdict", ""))

    @property
    def notes(self) -> list[str]:
        """Sentences for the reader."""
        return list(self._data["notes"])

    def to_json(self) -> str:
        """The profile as `prony report` reads it (docs/prony.profile.schema.json)."""
        return json.dumps(self._data, indent=2) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes to_json() to a file."""
        pathlib.Path(path).write_text(self.to_json())

    def to_dataframe(self) -> pandas.DataFrame:
        """One row per profile, segment and backend; needs pandas."""
        import pandas as pd

        numbers: dict[str, int] = {}
        rows = []
        for profile in self.profiles:
            number = numbers[profile.func_name] = numbers.get(profile.func_name, 0) + 1
            for index, segment in enumerate(profile.segments):
                rows += [{"function": profile.func_name, "profile": number, "segment": index,
                          "graph_id": segment.graph_id, "backend": backend,
                          **dataclasses.asdict(result)}
                         for backend, result in segment.results_per_backend.items()]
        columns = ["function", "profile", "segment", "graph_id", "backend",
                   *(field.name for field in dataclasses.fields(PerBackendResult))]
        return pd.DataFrame(rows, columns=columns).astype({"graph_id": "Int64"})

    def print(self, file: TextIO | None = None, verbose: bool = False,
              layout: str = "summary") -> None:
        """Prints it: layout "summary", "segments" or "classic"; `verbose` shows every segment."""
        print(self.text(verbose=verbose, layout=layout), end="",
              file=sys.stdout if file is None else file)

    def text(self, verbose: bool = False, layout: str = "summary") -> str:
        """What print() prints."""
        if layout not in LAYOUTS:
            raise ValueError(f"there is no layout '{layout}'; there are: {', '.join(LAYOUTS)}")
        options = ["--layout", layout] + (["--verbose"] if verbose else [])
        return self._report(*options) + self._problems()

    def write_details(self, folder: str | os.PathLike[str], verbose: bool = False) -> str:
        """Writes segments and graphs of each profile to files; the summary that says where."""
        folder = pathlib.Path(folder)
        self.report_dir = str(folder)
        options = ["--details", str(folder)] + (["--verbose"] if verbose else [])
        text = self._report(*options)
        for profile, stem, label in zip(self.profiles, *_names(self.profiles)):
            dump = self.graph_dump(profile)
            if dump:
                path = folder / f"{stem}.graph_dump.txt"
                path.write_text(dump)
                text += f"Graphs of {label}: {path}\n"
        return text + self._problems()

    def _report(self, *options: str) -> str:
        with tempfile.TemporaryDirectory(prefix="prony-") as folder:
            path = pathlib.Path(folder, "profile.json")
            self.save(path)
            done = subprocess.run([_native.program(), "report", path, *options],
                                  capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise OctomlProfileError(done.stderr.strip().removeprefix("prony: error: "))
        return done.stdout

    def _problems(self) -> str:
        """What isn't in the table: loads that failed on some backends, and a server that went."""
        shown = set(_failures(self.profiles))
        problems = [text for text in [*self.compilation_errors, *self.runtime_errors]
                    if text not in shown and not self._is_shown(text)]
        return "".join(f"Problem: {text}\n" for text in problems)

    def _is_shown(self, text: str) -> bool:
        """Whether it says of a graph of some profile that it ran locally, as the summary does."""
        graphs = {graph for profile in self.profiles for graph in profile.footprint}
        return any(text.startswith(f"Graph #{graph} ran locally because ") for graph in graphs)

    def _repr_html_(self) -> str:
        """For notebooks."""
        parts = []
        for profile in self.profiles:
            rows = "".join(_html_row(backend, total)
                           for backend, total in profile.total_per_backend.items())
            local = _ms(profile.total_uncompiled_ms)
            parts.append(
                f"<h4>{html.escape(profile.func_name)}: {profile.num_runs} runs, "
                f"{profile.num_discarded_runs} more discarded</h4>"
                "<table><tr><th>Backend</th><th>Backend Time (ms)</th><th>Total Time (ms)</th>"
                f"<th>95 % interval</th><th>Cost ($/MReq)</th><th>Flags</th></tr>{rows}</table>"
                f"<p>Times are medians. Local code: {local} ms per run.</p>")
        problems = [f"MISMATCH: the outputs of Graph #{check.graph_id} on {check.backend} differ from "
                    "those computed locally." for check in self.mismatches]
        problems += [*self.notes, *self.compilation_errors, *self.runtime_errors]
        items = "".join(f"<li>{html.escape(text)}</li>" for text in problems)
        return "".join(parts or ["<p>Nothing was recorded.</p>"]) + (f"<ul>{items}</ul>" * bool(items))

    def __repr__(self) -> str:
        names = ", ".join(f"{p.func_name} ({p.num_runs} runs)" for p in self.profiles)
        return f"<Report: {names or 'nothing was recorded'}>"


def _ms(value: float | None) -> str:
    return "N/A" if value is None else f"{value:.3g}" if value < 100 else f"{value:.1f}"


def _html_row(backend: str, total: TotalPerBackendResult) -> str:
    cost = "N/A" if total.usd_per_million is None else f"${total.usd_per_million:.3g}"
    interval = "" if total.low_ms is None else f"{_ms(total.low_ms)} to {_ms(total.high_ms)}"
    cells = (backend, _ms(total.median_backend_ms), _ms(total.median_total_ms), interval, cost,
             " ".join(total.flags))
    return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"


def _scaled(value: float | None) -> float | None:
    return None if value is None else value / 1e6


def _first_call(graph: int, start: dict[str, Any], backends: list[str]) -> FirstCall:
    capture, lower, export, upload, load = (
        _scaled(start[f"{part}_ns"]) for part in ("capture", "lower", "export", "upload", "load"))
    loads, runs = ({name: _scaled(one[key]) for name, one in zip(backends, start["backends"])}
                   for key in ("load_ns", "prepare_ns"))
    return FirstCall(graph, capture, lower, export, upload, load, loads, runs)


def _result(times: dict[str, Any] | None, failed: int) -> PerBackendResult:
    if not times or not times["count"]:
        return PerBackendResult(None, 0, failed)
    return PerBackendResult(
        _scaled(times["mean_ns"]), times["count"], failed, _scaled(times["sd_ns"]),
        _scaled(times["min_ns"]), _scaled(times["max_ns"]))


def _profile(data: dict[str, Any], backends: list[str]) -> Profile:
    segments = []
    errors: dict[str, list[PerBackendError]] = {name: [] for name in backends}
    for segment in data["segments"]:
        if segment["graph"] is None:
            results = {UNCOMPILED: _result(segment["local"], 0)}
        else:
            results = {}
            for name, result in zip(backends, segment["results"]):
                results[name] = _result(result["times"], result["failed"])
                if result["failures"]:
                    errors[name].append(PerBackendError(segment["graph"], {
                        f["message"]: f["count"] for f in result["failures"]}))
        segments.append(Segment(segment["graph"], results))
    totals = {
        name: TotalPerBackendResult(
            _scaled(total["total_ns"]), errors[name], _scaled(total["backend_ns"]),
            total["usd_per_million"], _scaled(total.get("median_ns")), _scaled(total.get("low_ns")),
            _scaled(total.get("high_ns")), _scaled(total.get("backend_median_ns")),
            _scaled(total.get("local_graphs_ns")), total.get("flags", []))
        for name, total in zip(backends, data["totals"])}
    return Profile(data["function"], segments, _scaled(data["local_ns"]), totals, data["runs"],
                   data["repeats"], data["discarded_runs"], data["compiled"])


def _failures(profiles: list[Profile]) -> list[str]:
    """Distinct failures of runs."""
    found = [f"Graph #{error.graph_id} on {backend}: {message}"
             for profile in profiles for backend, total in profile.total_per_backend.items()
             for error in total.errors for message in error.error_messages_to_count]
    return list(dict.fromkeys(found))


def _names(profiles: list[Profile]) -> tuple[list[str], list[str]]:
    """Names of files without their endings, as `prony report --details` gives them; and what it calls
    the profiles."""
    totals = collections.Counter(profile.func_name for profile in profiles)
    numbers: collections.Counter[str] = collections.Counter()
    taken: collections.Counter[str] = collections.Counter()
    stems, labels = [], []
    for name in (profile.func_name for profile in profiles):
        numbers[name] += 1
        safe = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" * len(c.encode())
                       for c in name)[:_LETTERS_MAX] or "_"
        if safe[0] in ".-":
            safe = "_" + safe[1:]
        stem = f"{safe}_{numbers[name]}"
        taken[stem] += 1
        stems.append(stem if taken[stem] == 1 else f"{stem}-{taken[stem]}")
        labels.append(f"{name}[{numbers[name]}/{totals[name]}]")
    return stems, labels
