"""Dotted paths into decoded JSON: 'data.state', 'items.0.id', 'data.resultJson|json.resultUrls'.

House rules: a path that leads nowhere finds None; no data makes a path raise.
"""

import re
from typing import Any, NamedTuple, Tuple

from ...errors import ConfigError
from .json_decoding import decode_inner_json

_DECODE = "|json"
_BRACKETS = re.compile(r"""\[(\d+|'[^']*'|"[^"]*")\]""")


class Path(NamedTuple("Path", [("text", str), ("steps", Tuple[str, ...])])):
    """A compiled path; `|json` decodes JSON inside a string.

    >>> Path("data.made|json.urls.0").find({"data": {"made": '{"urls": ["a"]}'}})
    'a'
    """

    __slots__ = ()

    def __new__(cls, text: str) -> "Path":
        text = text.strip()
        if "[" in text or text.startswith("$."):
            raise ConfigError(_jsonpath_message(text))
        steps = []
        for part in text.split("."):
            key, bar, filter_name = part.partition("|")
            if not key or (bar and filter_name != "json"):
                raise ConfigError(
                    "path %r: write it as data.state, items.0.id or data.made|json.urls" % text
                )
            steps.append(key)
            if bar:
                steps.append(_DECODE)
        return super().__new__(cls, text, tuple(steps))

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


def _jsonpath_message(text: str) -> str:
    """The message for a path in the syntax of JSONPath, with the path in ours if there is one."""
    dotted = _BRACKETS.sub(lambda match: "." + match.group(1).strip("'\""), text)
    if dotted.startswith("$"):
        dotted = dotted[1:]
    dotted = dotted.lstrip(".")
    if "[" in dotted or not dotted:
        return (
            "path %r uses JSONPath, which is not supported: write it as data.state or items.0.id"
            % text
        )
    return "path %r is JSONPath: write it as %s" % (text, dotted)
