"""docs/prony.layer-profile.schema.json says what `prony layers --format json` writes."""
import json

import jsonschema
import pytest

from conftest import ROOT
from schema import described, keys

MODEL = ROOT / "tests" / "data" / "mlp.onnx"
CASES = [["-i", "1"], ["-i", "8", "--launches", "2"], ["-i", "1", "-l", "2"]]


@pytest.fixture(scope="module")
def schema():
    content = json.loads((ROOT / "docs" / "prony.layer-profile.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(content)
    return jsonschema.Draft202012Validator(content)


def test_report_is_what_the_schema_says(prony, schema):
    written = set()
    for i, arguments in enumerate(CASES):
        done = prony("layers", MODEL, *arguments, "-o", f"{i}.yml", "--format", "json")
        assert (done.stderr, done.status) == ("", 0)
        report = json.loads(done.stdout)
        schema.validate(report)
        written |= set(keys(report))
    assert written == set(described(schema.schema, schema.schema))
