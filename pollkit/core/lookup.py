"""JSON as servers send it, and dotted paths into it: 'data.state', 'items.0.id', 'data.resultJson|json.resultUrls'.

House rules: a path that leads nowhere finds None; no path raises for the data's sake.
"""
import json
from typing import Any, NamedTuple, Tuple

from ..errors import ConfigError

DEEPEST = 100  # levels of lists and objects: whoever reads an outcome may not bear many more
_DECODER = json.JSONDecoder(parse_constant=lambda name: None)  # NaN is no JSON; nor would it be in an outcome
_DECODE = "|json"
_INFINITY = float("inf")


class Path(NamedTuple("Path", [("text", str), ("steps", Tuple[str, ...])])):
    """A compiled path; `|json` reads JSON inside a string.

    >>> Path("data.made|json.urls.0").find({"data": {"made": '{"urls": ["a"]}'}})
    'a'
    """

    __slots__ = ()

    def __new__(cls, text: str) -> "Path":
        steps = []
        for part in text.strip().split("."):
            key, bar, filter_name = part.partition("|")
            if not key or (bar and filter_name != "json"):
                raise ConfigError("path %r: write it as data.state, items.0.id or data.made|json.urls" % text)
            steps += [key, _DECODE] if bar else [key]
        return super().__new__(cls, text.strip(), tuple(steps))

    def find(self, data: Any, otherwise: Any = None) -> Any:
        """What stands at the path, or `otherwise` where it leads nowhere."""
        for step in self.steps:
            if step is _DECODE:
                data = _inside(data)
            elif isinstance(data, dict):
                data = data.get(step, otherwise)
            elif isinstance(data, list) and step.isdecimal() and int(step) < len(data):
                data = data[int(step)]
            else:
                return otherwise
        return data


class Unbearable(ValueError):
    """It may well be JSON, but Python can't take it; says why."""


def decoded(body: bytes) -> Any:
    """What a body says, or a ValueError."""
    # UTF-8 is what JSON is written in (RFC 8259, 8.1); older software may still send UTF-16 or 32.
    is_usual = body[0] < 0x80 and b"\0" not in body[:4]  # no byte-order mark, and no wide characters
    try:
        return _DECODER.decode(body.decode("utf-8" if is_usual else json.detect_encoding(body)))
    except RecursionError:
        raise Unbearable("JSON that can't be read: it is nested too deep") from None
    except ValueError as error:
        if type(error) is ValueError:  # what is no JSON, or no text, has a class of its own
            raise Unbearable("JSON that can't be read: a number in it is too long") from None
        raise


def as_text(value: Any) -> str:
    """Somebody else's data as a text to be shown."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):  # it holds itself, or is nested too deep
        return "data that can't be shown"


def plain(data: Any) -> Any:
    """Decoded JSON as it can be written again, or a ValueError where it is nested too deep.

    A number such as 1e999, which would be Infinity then, is null.

    >>> plain({"a": [1e999, 2]})
    {'a': [None, 2]}
    """
    is_finite, level = True, [data]
    for _ in range(DEEPEST + 1):
        is_finite = is_finite and _INFINITY not in level and -_INFINITY not in level
        level = [inner for outer in level if isinstance(outer, (dict, list))
                 for inner in (outer.values() if isinstance(outer, dict) else outer)]
        if not level:
            return data if is_finite else _DECODER.decode(json.dumps(data))
    raise ValueError("it is nested more than %d levels deep" % DEEPEST)


def _inside(text: Any) -> Any:
    try:
        return _DECODER.decode(text)
    except (TypeError, ValueError, RecursionError):
        return None
