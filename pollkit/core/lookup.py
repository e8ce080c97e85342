"""Dotted paths into JSON: 'data.state', 'items.0.id', 'data.resultJson|json.resultUrls'.

House rules: a path that leads nowhere finds None; nothing here raises for the data's sake.
"""
import json
from typing import Any, NamedTuple, Tuple

from ..errors import ConfigError

_DECODE = "|json"


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
                data = _decoded(data)
            elif isinstance(data, dict):
                data = data.get(step, otherwise)
            elif isinstance(data, list) and step.isdecimal() and int(step) < len(data):
                data = data[int(step)]
            else:
                return otherwise
        return data


def _decoded(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None
