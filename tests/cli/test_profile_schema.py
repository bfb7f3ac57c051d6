"""docs/prony.profile.schema.json says what the program reads and writes, neither less nor more."""
import copy
import json

import jsonschema
import pytest

from conftest import ROOT

SCHEMA = json.loads((ROOT / "docs" / "prony.profile.schema.json").read_text())
PROFILES = sorted((ROOT / "tests" / "data").glob("profile-*.json"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
REMOVED = object()
# That three lists are equally long, that statistics are there for samples only, and which type
# names exist, is more than the schema can say.
BEYOND_SCHEMA = {"samples_ns", "launch", "block", "stats", "type"}


def test_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert PROFILES


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_stored_profiles(path, prony):
    VALIDATOR.validate(json.loads(path.read_text()))
    written = prony("report", path, "--format", "json")
    assert written.status == 0, written.stderr
    assert written.stdout == path.read_text()


def places(value, place=()):
    """Every place of a profile, of lists only the first entry."""
    if place:
        yield place
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*place, key))
    elif value and isinstance(value, list):
        yield from places(value[0], (*place, 0))


def altered(profile, place, value=REMOVED):
    changed = copy.deepcopy(profile)
    at = changed
    for key in place[:-1]:
        at = at[key]
    if value is REMOVED:
        del at[place[-1]]
    else:
        at[place[-1]] = value
    return changed


def test_program_and_schema_agree(prony, workdir):
    """Every value of a profile is replaced by others and removed; the program takes the result
    exactly when the schema does."""
    profile = json.loads((ROOT / "tests" / "data" / "profile-several.json").read_text())
    profile["results"] = profile["results"][3:5]
    for result in profile["results"]:
        for key in ("samples_ns", "launch", "block"):
            result[key] = result[key][:1]
    tried = 0
    path = workdir / "altered.json"
    for place in places(profile):
        if BEYOND_SCHEMA & set(place[-2:]):
            continue
        values = [None, -3, 0.5, True, "odd", [], {}]
        if isinstance(place[-1], str):
            values.append(REMOVED)
        for value in values:
            changed = altered(profile, place, value)
            path.write_text(json.dumps(changed))
            done = prony("report", path)
            assert done.status == (0 if VALIDATOR.is_valid(changed) else 1), (
                f"{place} = {value!r}: {done.stderr}")
            tried += 1
    assert tried > 300
