"""Dotted paths into decoded JSON.

    data.state                      a field of an object
    items.0.id                      an element of a list
    tasks[].state                   this field of every element, as a list
    data.resultJson|json.urls       JSON inside a string

House rules: a path that leads nowhere finds None; no data makes a path raise.
"""

import re
from typing import TYPE_CHECKING, Any, List, NamedTuple, Optional, Tuple

from ....errors import ConfigError
from ..json_decoding import decode_inner_json

_DECODE = "|json"
_EACH = "[]"
_BRACKETS = r"""\[(\d+|'[^']*'|"[^"]*")\]"""

if TYPE_CHECKING:  # for a quicker start, as in units.py
    Rest = Optional["Path"]
else:
    Rest = object


class Path(NamedTuple("Path", [("text", str), ("steps", Tuple[str, ...]), ("in_each", Rest)])):
    """A compiled path; `in_each` is the rest of it, to be followed in every element of a list.

    >>> Path("data.made|json.urls.0").find({"data": {"made": '{"urls": ["a"]}'}})
    'a'
    >>> Path("tasks[].state").find({"tasks": [{"state": "done"}, {"state": "running"}]})
    ['done', 'running']
    """

    __slots__ = ()

    def __new__(cls, text: str) -> "Path":
        text = text.strip()
        if "[" in text.replace(_EACH, "") or text.startswith("$."):
            raise ConfigError(_jsonpath_message(text))
        parts = text.split(".")
        steps: List[str] = []
        in_each = None
        for number, part in enumerate(parts):
            is_list = part.endswith(_EACH)
            name = part[: -len(_EACH)] if is_list else part
            is_reply_itself = is_list and number == 0 and not name
            if not is_reply_itself:
                steps.extend(_parse_steps(name, text))
            if is_list:
                rest = parts[number + 1 :]
                in_each = Path(".".join(rest)) if rest else _ELEMENT
                break
        return super().__new__(cls, text, tuple(steps), in_each)

    def find(self, data: Any, default: Any = None) -> Any:
        """The value at the path, or `default` if the path leads nowhere."""
        for step in self.steps:
            if step is _DECODE:
                data = decode_inner_json(data)
            elif isinstance(data, dict):
                if step not in data:
                    return default
                data = data[step]
            elif isinstance(data, list) and step.isdecimal() and int(step) < len(data):
                data = data[int(step)]
            else:
                return default
        if self.in_each is None:
            return data
        return self._find_in_each(data) if isinstance(data, list) else default

    def _find_in_each(self, elements: List[Any]) -> List[Any]:
        """The values in the elements that have one; a list of lists becomes one list."""
        assert self.in_each is not None
        found = [self.in_each.find(element) for element in elements]
        present = [value for value in found if value is not None]
        if self.in_each.in_each is None:
            return present
        return [value for values in present for value in values]


def parse_single_path(text: str) -> Path:
    """A path that leads to one value; a ConfigError if it has []."""
    path = Path(text)
    if path.in_each is not None:
        raise ConfigError(
            "path %r leads to several values: judge them by rules, such as "
            "'done if all %s == VALUE' or 'failed if any %s == VALUE'"
            % (path.text, path.text, path.text)
        )
    return path


_PARAMETER_NAME = r"[\w.%$\[\]-]+"  # as in a URL: page[after], $skiptoken


def split_next_page(text: str) -> Tuple[Optional[Path], str]:
    """The path of the next page, and the parameter that takes it; '' if it is a link.

    The path is None if the link is in the header Link.
    """
    words = text.lower().split()
    if words == ["header", "link"]:
        return None, ""
    path, word, parameter = (text.strip() + " ").partition(" as ")
    has_bad_parameter = word and not re.fullmatch(_PARAMETER_NAME, parameter.strip())
    is_other_header = len(words) == 2 and words[0] == "header"
    if has_bad_parameter or is_other_header:
        raise ConfigError("%r: write PATH, PATH as PARAMETER, or header Link" % text)
    return parse_single_path(path), parameter.strip()


def _parse_steps(name: str, text: str) -> List[str]:
    """The steps of one part of a path: a key, and perhaps the decoding of its value."""
    key, bar, filter_name = name.partition("|")
    if not key or _EACH in key or (bar and filter_name != "json"):
        raise ConfigError(
            "path %r: write it as data.state, items.0.id, tasks[].state or data.made|json.urls"
            % text
        )
    return [key, _DECODE] if bar else [key]


def _jsonpath_message(text: str) -> str:
    """The message for a path in the syntax of JSONPath, with the path in ours if there is one."""
    dotted = re.sub(_BRACKETS, lambda match: "." + match.group(1).strip("'\""), text)
    dotted = dotted.replace("[*]", _EACH)
    if dotted.startswith("$"):
        dotted = dotted[1:]
    dotted = dotted.lstrip(".")
    if "[" in dotted.replace(_EACH, "") or not dotted:
        return (
            "path %r uses JSONPath, which is not supported: write it as data.state, items.0.id "
            "or tasks[].state" % text
        )
    return "path %r is JSONPath: write it as %s" % (text, dotted)


_ELEMENT: Path = Path._make(("", (), None))  # the element itself
