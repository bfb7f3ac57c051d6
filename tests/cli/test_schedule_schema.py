"""docs/prony.schedule.schema.json says what `prony schedule --format json` writes."""
import json

import jsonschema
import pytest

from conftest import ROOT
from schema import described, keys

FILES = ROOT / "tests" / "data" / "pipeline"
CASES = [["-m", "uneven"], ["-m", "block"], ["-m", "heavy"], ["-m", "block", "--max-stages", "1"],
         ["-m", "block", "--objective", "latency"],
         ["-m", "block", "--objective", "cost", "--min-throughput", "20"],
         ["-m", "block", "--objective", "cost", "--max-latency", "0.1"]]


@pytest.fixture(scope="module")
def schema():
    content = json.loads((ROOT / "docs" / "prony.schedule.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(content)
    return jsonschema.Draft202012Validator(content)


@pytest.mark.parametrize("arguments", CASES, ids=" ".join)
def test_report_is_what_the_schema_says(prony, schema, arguments):
    done = prony("schedule", *arguments, "--format", "json", cwd=FILES)
    assert done.status == 0, done.stderr
    report = json.loads(done.stdout)
    schema.validate(report)
    figure = {"throughput": "period_s", "latency": "latency_s", "cost": "usd_per_hour"}
    for item in report["one_more"]:
        assert set(item) == {"type", "hosts", "used", figure[report["objective"]]}


def test_schema_describes_what_is_written(prony, schema):
    written = set()
    for arguments in CASES:
        done = prony("schedule", *arguments, "--format", "json", cwd=FILES)
        written |= set(keys(json.loads(done.stdout)))
    # tests/e2e/test_simulate.py looks into simulations, which need a runtime.
    assert written == {key for key in described(schema.schema, schema.schema)
                       if key[0] != "simulation" or len(key) == 1}


def test_schema_refuses_what_is_not_a_report(prony, schema):
    report = json.loads(prony("schedule", "-m", "block", "--format", "json", cwd=FILES).stdout)
    del report["stages"][0]["idle"]
    assert list(schema.iter_errors(report))
