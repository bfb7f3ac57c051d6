"""What a report says and what its schema describes, to hold the one against the other."""


def keys(value, place=()):
    """Every key of a report, list indices left out."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*place, key)
            yield from keys(inner, (*place, key))
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner, place)


def described(schema, root, place=()):
    """Every key that a schema describes."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    for key, inner in schema.get("properties", {}).items():
        yield (*place, key)
        yield from described(inner, root, (*place, key))
    for inner in [schema["items"]] if "items" in schema else schema.get("anyOf", []):
        yield from described(inner, root, place)
