"""The JSON that a command reads from a file, from standard input or from an argument."""

import json
import sys
from typing import Any

from ...core.submitting.request import LARGEST_BODY
from ...errors import ConfigError


def read_json(source: str) -> Any:
    """The JSON in a file, or in standard input if the source is '-'; otherwise a ConfigError."""
    name = "standard input" if source == "-" else source
    if source == "-" and sys.stdin is None:
        raise ConfigError("standard input is closed: there is no JSON to submit; name a file")
    try:
        if source == "-":
            data = sys.stdin.buffer.read(LARGEST_BODY + 1)
        else:
            with open(source, "rb") as file:
                data = file.read(LARGEST_BODY + 1)
    except OSError as error:
        raise ConfigError("%s can't be read: %s" % (name, error.strerror)) from None
    if len(data) > LARGEST_BODY:
        raise ConfigError("%s is larger than %d MB" % (name, LARGEST_BODY >> 20))
    try:
        return parse_json(data.decode("utf-8-sig"))
    except ValueError as error:
        raise ConfigError("%s is not JSON: %s" % (name, error)) from None


def parse_json(text: str) -> Any:
    """The value of a JSON text; otherwise a ValueError that names the mistake and its place."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _refuse_constant(name: str) -> None:
    raise ValueError("%s is no number in JSON" % name)
