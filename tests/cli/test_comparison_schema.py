"""docs/prony.profile-comparison.schema.json says what `prony report OLD NEW --format json` writes,
neither less nor more."""
import json

import jsonschema
import pytest

from conftest import ROOT
from schema import described, keys

DATA = ROOT / "tests" / "data"
SCHEMA = json.loads((ROOT / "docs" / "prony.profile-comparison.schema.json").read_text())
CASES = [["compare-before", "compare-after"], ["compare-sweep-before", "compare-sweep-after"],
         ["compare-before", "profile-several", "profile-tiny", "profile-single"],
         ["profile-several", "profile-several"]]


@pytest.fixture
def reports(prony):
    found = []
    for names in CASES:
        for options in ([], ["--force"]):
            done = prony("report", *(DATA / f"{name}.json" for name in names), "--format", "json",
                         *options)
            assert done.status == 0, done.stderr
            found.append(json.loads(done.stdout))
    return found


def test_reports_follow_the_schema(reports):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for report in reports:
        jsonschema.Draft202012Validator(SCHEMA).validate(report)


def test_schema_describes_what_is_written(reports):
    assert {key for report in reports for key in keys(report)} == set(described(SCHEMA, SCHEMA))


def test_a_forced_report_says_so(reports):
    assert [report["forced"] for report in reports] == [False, True] * len(CASES)
