"""docs/prony.trace.schema.json says what `prony explore --format json` writes, neither less nor
more."""
import json

import jsonschema
import pytest

from conftest import ROOT

SCHEMA = json.loads((ROOT / "docs" / "prony.trace.schema.json").read_text())
TRACES = ROOT / "tests" / "data" / "trace"
CASES = [["parallel.json"], ["parallel.json", "--by", "node,provider,shape", "-s", "2"],
         ["gpu.json", "-m", "--shape-sensitive", "--dimension-sensitive"],
         ["gpu.json", "--filter", "Nothing"]]


def keys(value, place=()):
    """Every key of a report, list indices left out."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*place, key)
            yield from keys(inner, (*place, key))
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner, place)


def described(schema, place=()):
    """Every key that a schema describes."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    for key, inner in schema.get("properties", {}).items():
        yield (*place, key)
        yield from described(inner, (*place, key))
    if "items" in schema:
        yield from described(schema["items"], place)


@pytest.fixture
def reports(prony):
    found = []
    for name, *options in CASES:
        done = prony("explore", TRACES / name, "--format", "json", *options)
        assert done.status == 0, done.stderr
        found.append(json.loads(done.stdout))
    return found


def test_reports_follow_the_schema(reports):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for report in reports:
        jsonschema.Draft202012Validator(SCHEMA).validate(report)


def test_schema_describes_what_is_written(reports):
    assert {key for report in reports for key in keys(report)} == set(described(SCHEMA))
