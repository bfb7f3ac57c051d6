"""What tests of the front end share."""
import json
import subprocess

from prony import _native

# Two of them are enough for what isn't about them; compiling with inductor takes seconds a graph.
ONNXRT, EAGER, OPENVINO, INDUCTOR = (f"local/{software}" for software in (
    "onnxrt-cpu", "torch-eager-cpu", "openvino-cpu", "torch-inductor-cpu"))


class AnyGraphs(list):
    """Equal to any n ascending ids: which ones a session gives depends on what it has loaded."""

    def __init__(self, n):
        super().__init__(range(n))

    def __eq__(self, other):
        return len(other) == len(self) and all(a < b for a, b in zip(other, other[1:]))


class Outcome:
    """What a profiled block recorded, and printed."""

    def __init__(self, report, printed):
        self.report, self.printed = report, printed

    @property
    def profile(self):
        [profile] = self.report.profiles
        return profile

    def check(self, calls, graphs, backends=(ONNXRT, EAGER), repeats=2):
        """One profile, whose graphs ran everywhere; all calls but the first count."""
        profile = self.profile
        assert not self.report.compilation_errors and not self.report.runtime_errors
        assert (profile.num_runs, profile.num_discarded_runs) == (calls - 1, 1), profile
        assert profile.footprint == graphs
        assert len(profile.segments) == 2 * len(graphs) + 1
        for segment in profile.segments:
            if segment.graph_id is None:
                assert segment.results_per_backend["Uncompiled"].num_samples == calls - 1
                continue
            assert list(segment.results_per_backend) == list(backends)
            for result in segment.results_per_backend.values():
                assert (result.num_samples, result.num_failures) == ((calls - 1) * repeats, 0)
                assert result.mean_ms > 0
        for total in profile.total_per_backend.values():
            assert total.estimated_total_ms > profile.total_uncompiled_ms
        return profile


def cache(session):
    """What the session's service says about its cache: `bytes`, and `misses`, which are uploads."""
    done = subprocess.run([_native.program(), "status", "--server", session._access.server,
                           "--format", "json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["cache"]
