"""docs/*.schema.json are what the tables say that reports are written and read by, and the pages' types
come from them."""
import json
import shutil
import subprocess

import jsonschema
import pytest

from conftest import BUILD, ROOT

SCHEMAS = [ROOT / "docs" / f"prony.{name}.schema.json"
           for name in ("profile", "profile-comparison", "check", "layer-profile", "history", "history-list",
                        "history-prune", "machine", "schedule", "status")]


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.name)
def test_documents_are_generated(path, prony):
    done = prony("generate", path.name)
    assert done.status == 0, done.stderr
    assert done.stdout == path.read_text(), f"run: build/prony generate {path.name} > docs/{path.name}"


def test_an_added_field_is_in_schema_and_types():
    """Of the record to which tests/unit/test_schema.c adds a field; JSON and CSV are looked at there."""
    text = subprocess.run([BUILD / "tests/unit/test_schema", "schema"], check=True, text=True,
                          capture_output=True).stdout
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["added_ns"] == {
        "description": "How long it took.", "type": ["number", "null"], "unit": "ns", "minimum": 0}
    assert schema["required"] == ["name", "bytes", "added_ns"]
    if not shutil.which("node"):
        pytest.skip("no Node")
    module = (ROOT / "web" / "types.mjs").as_uri()
    types = subprocess.run(
        ["node", "--input-type=module", "-e",
         f"import {{ types }} from '{module}'; process.stdout.write(types([{text}]))"],
        check=True, text=True, capture_output=True).stdout
    assert 'declare module "prony/thing"' in types
    assert "    /** How long it took. */\n    added_ns: number | null;\n" in types
