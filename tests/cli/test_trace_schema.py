"""The schemas in docs/ say what `prony explore --format json` writes, neither less nor more."""
import json

import jsonschema
import pytest

from conftest import ROOT
from schema import described, keys

TRACES = ROOT / "tests" / "data" / "trace"
RUNS = ROOT / "examples" / "traces"
CASES = {
    "prony.trace": [["parallel.json"], ["parallel.json", "--by", "node,provider,shape", "-s", "2"],
                    ["gpu.json", "-m", "--shape-sensitive", "--dimension-sensitive"],
                    ["gpu.json", "--filter", "Nothing"],
                    ["memory-patterns.json.gz", "--by", "node"],
                    [RUNS / "run_0.json", RUNS / "run_1.json"]],
    "prony.trace-comparison": [["parallel.json", "--compare", TRACES / "gpu.json"],
                               ["parallel.json", "--compare", TRACES / "parallel.json", "--by",
                                "node,provider,shape"],
                               ["gpu.json", "--shape-sensitive", "--dimension-sensitive",
                                "--compare", TRACES / "gpu.json"],
                               ["memory-patterns.json.gz", "--by", "node,provider,shape",
                                "--compare", TRACES / "memory-patterns.json.gz"]],
}


@pytest.fixture(params=CASES)
def schema(request):
    return json.loads((ROOT / "docs" / f"{request.param}.schema.json").read_text())


@pytest.fixture
def reports(prony, schema):
    found = []
    for name, *options in CASES[schema["title"].partition("/")[0]]:
        done = prony("explore", TRACES / name, "--format", "json", *options)
        assert done.status == 0, done.stderr
        found.append(json.loads(done.stdout))
    return found


def test_reports_follow_the_schema(reports, schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    for report in reports:
        jsonschema.Draft202012Validator(schema).validate(report)


def test_schema_describes_what_is_written(reports, schema):
    written = {key for report in reports for key in keys(report)}
    # A difference has the keys that it is grouped by, and no table is grouped by all of them.
    spare = {(place, key) for place in ("run", "nodes")
             for key in ("node", "op", "provider", "input_type_shape")}
    assert written - spare == set(described(schema, schema)) - spare
