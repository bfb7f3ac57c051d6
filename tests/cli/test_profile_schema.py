"""docs/prony.profile.schema.json says what the program reads and writes, neither less nor more."""
import copy
import json

import jsonschema
import pytest

from conftest import ROOT

SCHEMA = json.loads((ROOT / "docs" / "prony.profile.schema.json").read_text())
PROFILES = sorted(path for kind in ("profile", "compare")
                  for path in (ROOT / "tests" / "data").glob(f"{kind}-*.json"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
REMOVED = object()
# A recorded program contradicts itself in more ways than the schema can say: what it refuses there
# the program must refuse, but not the other way round.
CONTRADICTIONS = {"footprint", "segments", "graph", "results", "totals", "local", "count", "mean_ns",
                  "min_ns", "max_ns", "samples_ns", "failed", "failures", "graphs", "id",
                  "compiled", "total_ns", "checks"}
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
    """Every place of a profile; of lists only the first entry, but for segments, which differ."""
    if place:
        yield place
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*place, key))
    elif value and isinstance(value, list):
        for index in range(len(value) if place[-1] == "segments" else 1):
            yield from places(value[index], (*place, index))


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


def alterations(profile, skipped):
    """A profile with every value replaced by others and removed, and the place of the change."""
    for place in places(profile):
        if skipped & set(place[-2:]):
            continue
        values = [None, -3, 0.5, True, "odd", [], {}]
        if isinstance(place[-1], str):
            values.append(REMOVED)
        for value in values:
            yield place, value, altered(profile, place, value)


def agree(prony, path, profile, below=()):
    """The program takes a profile exactly when the schema does."""
    for result in profile["results"]:
        for key in ("samples_ns", "launch", "block"):
            result[key] = result[key][:1]
    tried = 0
    for place, value, changed in alterations(profile, BEYOND_SCHEMA):
        if place[:len(below)] != below:
            continue
        path.write_text(json.dumps(changed))
        done = prony("report", path)
        assert done.status == (0 if VALIDATOR.is_valid(changed) else 1), (
            f"{place} = {value!r}: {done.stderr}")
        tried += 1
    assert tried > 300


def test_program_and_schema_agree(prony, workdir):
    profile = json.loads((ROOT / "tests" / "data" / "profile-several.json").read_text())
    profile["results"] = profile["results"][3:5]
    agree(prony, workdir / "altered.json", profile)


def test_program_and_schema_agree_on_load(prony, workdir):
    profile = json.loads((ROOT / "tests" / "data" / "profile-load.json").read_text())
    (first, _, third) = profile["results"]
    first["load"]["rows"] = first["load"]["rows"][2:3]
    first["load"]["error"] = third["load"]["error"]
    profile["results"] = [first]
    # The rest was tried above.
    agree(prony, workdir / "altered.json", profile, below=("results", 0, "load"))

def test_program_and_schema_agree_on_ops(prony, workdir):
    """The same of where the time goes, with the result that has something in every list."""
    profile = json.loads((ROOT / "tests" / "data" / "profile-ops.json").read_text())
    profile["results"] = profile["results"][1:2]
    tried = 0
    path = workdir / "altered.json"
    for place, value, changed in alterations({"ops": profile["results"][0]["ops"]}, set()):
        whole = copy.deepcopy(profile)
        whole["results"][0].pop("ops")
        whole["results"][0].update(changed)
        path.write_text(json.dumps(whole))
        done = prony("report", path)
        assert done.status == (0 if VALIDATOR.is_valid(whole) else 1), (
            f"{place} = {value!r}: {done.stderr}")
        tried += 1
    assert tried > 300


def test_program_and_schema_agree_on_recordings(prony, workdir):
    profile = json.loads((ROOT / "tests" / "data" / "profile-recorded-program.json").read_text())
    # The keys that any profile has were tried above.
    recorded = {key: profile[key] for key in ("model", "language", "graphs", "profiles")}
    recorded["profiles"] = [profile["profiles"][3]]
    recorded["profiles"][0]["segments"] = recorded["profiles"][0]["segments"][2:]
    recorded["profiles"][0]["footprint"] = recorded["profiles"][0]["footprint"][1:]
    tried = 0
    path = workdir / "altered.json"
    for place, value, changed in alterations(recorded, set()):
        whole = {**{key: profile[key] for key in profile if key not in recorded}, **changed}
        path.write_text(json.dumps(whole))
        done = prony("report", path)
        valid = VALIDATOR.is_valid(whole)
        key = next(part for part in reversed(place) if isinstance(part, str))
        allowed = {0, 1} if valid and key in CONTRADICTIONS else {0 if valid else 1}
        assert done.status in allowed, f"{place} = {value!r}: {done.stderr}"
        tried += 1
    assert tried > 300


def test_program_and_schema_agree_on_sweeps(prony, workdir):
    profile = json.loads((ROOT / "tests" / "data" / "profile-sweep.json").read_text())
    point = profile["points"][0]
    profile["results"] = profile["results"][:2]
    tried = 0
    path = workdir / "altered.json"
    for place, value, changed in alterations({"swept": point["swept"]}, set()):
        # One point, because how many were swept must be the same everywhere.
        whole = {**profile, "points": [{**{k: point[k] for k in point if k != "swept"}, **changed}]}
        path.write_text(json.dumps(whole))
        done = prony("report", path)
        assert done.status == (0 if VALIDATOR.is_valid(whole) else 1), (
            f"{place} = {value!r}: {done.stderr}")
        tried += 1
    assert tried > 20
