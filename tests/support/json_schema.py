"""A validator for the part of JSON Schema that `pollkit help schema` uses.

It is stricter than the standard: a key that the schema does not describe is an error, so that the
schema stays complete, and so is a keyword that the validator does not know.
"""

import re

TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}
NOTES = {"description", "title", "format", "$schema", "$defs"}
KNOWN = NOTES | set(
    "$ref anyOf enum type pattern minimum maximum required properties items".split()
)


def find_errors(value, schema, root, place="$"):
    """The errors of a value, each with its place; `root` is the whole schema."""
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    errors = []
    if "$ref" in schema:
        errors += find_errors(value, _resolve(schema["$ref"], root), root, place)
    if "anyOf" in schema:
        tried = [find_errors(value, one, root, place) for one in schema["anyOf"]]
        if all(tried):
            errors.append("%s: none of the alternatives: %s" % (place, tried))
    if "enum" in schema and value not in schema["enum"]:
        errors.append("%s: %r is not in %s" % (place, value, schema["enum"]))
    if "type" in schema and not _has_type(value, schema["type"]):
        errors.append("%s: %r is not of type %s" % (place, value, schema["type"]))
        return errors
    if "pattern" in schema and not re.search(schema["pattern"], value):
        errors.append("%s: %r does not match" % (place, value))
    return errors + _range_errors(value, schema, place) + _part_errors(value, schema, root, place)


def _resolve(reference, root):
    found = root
    for name in reference.partition("#/")[2].split("/"):
        found = found[name]
    return found


def _has_type(value, types):
    names = [types] if isinstance(types, str) else types
    if isinstance(value, bool):
        return False
    return any(isinstance(value, TYPES[name]) for name in names)


def _range_errors(value, schema, place):
    if not isinstance(value, (int, float)):
        return []
    is_low = value < schema.get("minimum", value)
    is_high = value > schema.get("maximum", value)
    return ["%s: %r is out of range" % (place, value)] if is_low or is_high else []


def _part_errors(value, schema, root, place):
    """The errors of the values in an object or an array."""
    errors = []
    if isinstance(value, list) and "items" in schema:
        for index, one in enumerate(value):
            errors += find_errors(one, schema["items"], root, "%s[%d]" % (place, index))
    if isinstance(value, dict) and "properties" in schema:
        properties = schema["properties"]
        errors += [
            "%s: %s is missing" % (place, key) for key in schema["required"] if key not in value
        ]
        for key, one in value.items():
            if key not in properties:
                errors.append("%s: the schema has no %s" % (place, key))
            else:
                errors += find_errors(one, properties[key], root, "%s.%s" % (place, key))
    return errors
