"""Dotted paths into decoded JSON: 'data.state', 'items.0.id', 'data.resultJson|json.resultUrls'.

House rules: a path that leads nowhere finds None; no data makes a path raise.
"""

from typing import Any, NamedTuple, Tuple

from ...errors import ConfigError
from .json_decoding import decode_inner_json

_DECODE = "|json"


class Path(NamedTuple("Path", [("text", str), ("steps", Tuple[str, ...])])):
    """A compiled path; `|json` decodes JSON inside a string.

    >>> Path("data.made|json.urls.0").find({"data": {"made": '{"urls": ["a"]}'}})
    'a'
    """

    __slots__ = ()

    def __new__(cls, text: str) -> "Path":
        steps = []
        for part in text.strip().split("."):
            key, bar, filter_name = part.partition("|")
            if not key or (bar and filter_name != "json"):
                raise ConfigError(
                    "path %r: write it as data.state, items.0.id or data.made|json.urls" % text
                )
            steps.append(key)
            if bar:
                steps.append(_DECODE)
        return super().__new__(cls, text.strip(), tuple(steps))

    def find(self, data: Any, default: Any = None) -> Any:
        """The value at the path, or `default` if the path leads nowhere."""
        for step in self.steps:
            if step is _DECODE:
                data = decode_inner_json(data)
            elif isinstance(data, dict):
                data = data.get(step, default)
            elif isinstance(data, list) and step.isdecimal() and int(step) < len(data):
                data = data[int(step)]
            else:
                return default
        return data
