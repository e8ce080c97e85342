"""JMESPath expressions of waiters, as tests of our rules.

Only the forms that occur in waiters: paths with [] and [N], `length(PATH)` compared with a number,
`PATH == 'text'` and `PATH != 'text'`, and `&&` between these. Any other expression is refused.
"""

import re
from typing import Any, List, NamedTuple, Optional

from ...errors import ConfigError

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<length>length\s*\()
      | (?P<path>"?[A-Za-z_][^\s()'`&|=!<>,?]*|\[\][^\s()'`&|=!<>,?]*)
      | '(?P<text>[^']*)'
      | `(?P<literal>[^`]*)`
      | (?P<operator>==|!=|>=|<=|>|<|&&)
      | (?P<close>\))
    )""",
    re.VERBOSE,
)
_INDEX = re.compile(r"\[(\d+)\]")
_QUOTED_NAME = re.compile(r'"([\w-]+)"')
_BARE = re.compile(r"[A-Za-z_][\w./-]*")
_RESERVED = ("true", "false", "null", "and", "any", "none", "in", "if")
_OPPOSITES = {"==": "!=", "!=": "==", ">": "<=", "<": ">=", ">=": "<", "<=": ">"}


class Comparison(NamedTuple):
    """One comparison of an expression: a path, or the length of its list, with a value."""

    path: str
    is_length: bool
    operator: str
    value: Any

    def opposite(self) -> "Comparison":
        """The comparison that holds exactly if this one does not."""
        return self._replace(operator=_OPPOSITES[self.operator])

    def to_test(self) -> str:
        """The comparison as a test of a rule."""
        if self.is_length:
            return _count_test(self.path, self.operator, self.value)
        if self.operator not in ("==", "!="):
            raise ConfigError("it compares a value by %s" % self.operator)
        return "%s %s %s" % (self.path, self.operator, value_text(self.value))


def parse_path(text: str) -> str:
    """A JMESPath path in our notation: 'a[].b', 'a[0].b' and '"a-b".c'."""
    path = _INDEX.sub(r".\1", text.strip().replace("[*]", "[]"))
    path = _QUOTED_NAME.sub(r"\1", path).lstrip(".")
    if not re.fullmatch(r"(?:\[\]|[\w-]+(?:\[\])?)(?:\.[\w-]+(?:\[\])?)*", path):
        raise ConfigError("%r is not a plain path" % text)
    return path


def parse_comparisons(text: str) -> Optional[List[Comparison]]:
    """The comparisons of an expression, which must all hold; None if it is a plain path."""
    tokens = _split(text)
    if [kind for kind, _ in tokens] == ["path"]:
        return None
    comparisons = []
    while tokens:
        comparisons.append(_take_comparison(tokens, text))
        if tokens and tokens.pop(0) != ("operator", "&&"):
            raise ConfigError("%r is too complicated" % text)
    return comparisons


def value_text(value: Any) -> str:
    """A value as it is written in a rule."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return str(value)
    if not isinstance(value, str):
        raise ConfigError("it compares with %r, which is neither text nor a number" % (value,))
    if _BARE.fullmatch(value) and value not in _RESERVED:
        return value
    return "'%s'" % value.replace("'", "''")


def _split(text: str) -> List[Any]:
    tokens = []
    at = 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise ConfigError("%r is too complicated" % text)
        tokens.append((match.lastgroup, match.group(match.lastgroup)))
        at = match.end()
    return tokens


def _take_comparison(tokens: List[Any], text: str) -> Comparison:
    kinds = [kind for kind, _ in tokens]
    is_length = kinds[:3] == ["length", "path", "close"]
    if is_length:
        tokens.pop(0)
    elif kinds[:1] != ["path"]:
        raise ConfigError("%r is too complicated" % text)
    path = parse_path(tokens.pop(0)[1])
    if is_length:
        tokens.pop(0)
    has_operator = len(tokens) >= 2 and tokens[0][0] == "operator" and tokens[0][1] != "&&"
    if not has_operator or tokens[1][0] not in ("text", "literal"):
        raise ConfigError("%r is too complicated" % text)
    operator = tokens.pop(0)[1]
    kind, value = tokens.pop(0)
    if kind == "literal":
        value = _literal(value)
    return Comparison(path, is_length, operator, value)


def _literal(text: str) -> Any:
    """The value of a JSON literal in backticks; the quotes around a text may be missing."""
    import json

    try:
        return json.loads(text)
    except ValueError:
        return text


def _count_test(path: str, operator: str, number: Any) -> str:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ConfigError("it compares a length with %r" % (number,))
    if operator == ">=":
        operator = ">"
        number -= 1
    elif operator == "<=":
        operator = "<"
        number += 1
    if number < 0:
        raise ConfigError("it compares a length with a negative number")
    return "count %s %s %d" % (path, operator, number)
