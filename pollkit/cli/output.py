"""Data for stdout, whatever its encoding: JSON as readable as it allows, text never refused."""
import json
import sys
from typing import Any


def as_json(value: Any) -> str:
    """A value as one line of JSON."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode(_encoding())
    except UnicodeError:
        text = json.dumps(value)
    return text + "\n"


def as_text(value: Any) -> str:
    """Text as it is, anything else as JSON."""
    if not isinstance(value, str):
        return as_json(value)
    encoding = _encoding()
    return value.encode(encoding, "backslashreplace").decode(encoding) + "\n"


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"
