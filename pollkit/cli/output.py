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


def write(text: str) -> None:
    """Write text to stdout; what its encoding lacks is spelled out."""
    sys.stdout.write(_encodable(text))


def as_text(value: Any) -> str:
    """Text as it is, anything else as JSON."""
    if not isinstance(value, str):
        return as_json(value)
    return _encodable(value) + "\n"


def _encodable(text: str) -> str:
    encoding = _encoding()
    if (
        getattr(sys.stdout, "errors", "") == "surrogateescape"
    ):  # no locale, as in cron on Python 3.6: UTF-8, then
        return text.encode("utf-8", "backslashreplace").decode(encoding, "surrogateescape")
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"
