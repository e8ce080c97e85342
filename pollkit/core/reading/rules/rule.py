"""Rules: a profile's own way to judge a reply. rule_parser.py explains how they are written.

House rules: rules are tried in order, and the first one whose tests all hold gives the verdict.
They judge replies with any HTTP status. No data makes a test raise. A test about a field that the
reply does not have never holds, except for `missing`: a reply with other content than expected
must not end a wait.
"""

import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

from ...model import one_line
from ..fields.json_paths import Path
from ..verdict import Verdict
from .error_codes import find_error_codes

COUNT_COMPARISONS: Dict[str, Callable[[int, int], bool]] = {
    "==": lambda count, number: count == number,
    "!=": lambda count, number: count != number,
    "<": lambda count, number: count < number,
    ">": lambda count, number: count > number,
}
_MISSING = object()
_AMBIGUOUS = re.compile(r"true|false|null|-?[0-9.]*(?:[eE][+-]?[0-9]+)?")  # also if it is text
_READ_VALUES = 1000  # of a list, to show up to _SHOWN_VALUES different ones
_SHOWN_VALUES = 5


# Stands for the data of a body that is not JSON: it has no fields, and misses none.
UNREADABLE = object()


class Evidence(NamedTuple):
    """The parts of a reply that rules judge. `http` is None for the value of a callable."""

    data: Any
    http: Optional[int] = None
    headers: Mapping[str, str] = {}

    @property
    def is_http_error(self) -> bool:
        """Whether the HTTP status is an error."""
        return self.http is not None and self.http >= 400

    @property
    def error_codes(self) -> Optional[Tuple[str, ...]]:
        """The reply's own error codes, if it has any; None if it is no error."""
        return find_error_codes(self.data, self.http, self.headers)


class HttpTest(NamedTuple):
    """Whether the HTTP status is one of these, such as 404 or 5xx."""

    codes: Tuple[str, ...]

    def holds(self, evidence: Evidence) -> bool:
        text = str(evidence.http)
        return text in self.codes or text[:1] + "xx" in self.codes

    def found(self, evidence: Evidence) -> str:
        return "no HTTP status" if evidence.http is None else "http %d" % evidence.http


class ErrorTest(NamedTuple):
    """Whether the reply's own error code is one of these; no codes: whether it is an error."""

    codes: Tuple[str, ...]
    is_expected: bool = True

    def holds(self, evidence: Evidence) -> bool:
        found = evidence.error_codes
        if self.codes:
            return any(code in self.codes for code in found or ())
        return (found is not None) == self.is_expected

    def found(self, evidence: Evidence) -> str:
        found = evidence.error_codes
        if found is None:
            return "no error"
        return "error " + one_line(", ".join(found) or "without a code", 80)


class ValueTest(NamedTuple):
    """Whether the values at a path are, or are not, among the expected ones.

    `quantity` is all or any for the values of a list, otherwise empty.
    """

    quantity: str
    path: Path
    is_equal: bool
    values: Tuple[Any, ...]

    def holds(self, evidence: Evidence) -> bool:
        found = self._find(evidence)
        results = [self._matches(value) == self.is_equal for value in found]
        if self.quantity == "any":
            return any(results)
        return bool(results) and all(results)

    def found(self, evidence: Evidence) -> str:
        values = self._find(evidence)
        if not values:
            return "nothing at " + self.path.text
        texts = list(dict.fromkeys(map(_rule_text, values[:_READ_VALUES])))
        return "%s is %s" % (self.path.text, ", ".join(texts[:_SHOWN_VALUES]))

    def _find(self, evidence: Evidence) -> List[Any]:
        value = self.path.find(evidence.data, _MISSING)
        if value is _MISSING:
            return []
        if self.quantity and isinstance(value, list):
            return value
        return [value]

    def _matches(self, value: Any) -> bool:
        return any(_is_same(value, expected) for expected in self.values)


class PresenceTest(NamedTuple):
    """Whether there is a value at a path, or none."""

    path: Path
    is_expected: bool

    def holds(self, evidence: Evidence) -> bool:
        if evidence.data is UNREADABLE:  # perhaps the page of a proxy: it says nothing
            return False
        return (self.path.find(evidence.data) is not None) == self.is_expected

    def found(self, evidence: Evidence) -> str:
        is_there = self.path.find(evidence.data) is not None
        return "%s is %s" % (self.path.text, "there" if is_there else "missing")


class CountTest(NamedTuple):
    """Whether a list has so many elements, or a text so many characters."""

    path: Path
    comparison: str
    number: int

    def holds(self, evidence: Evidence) -> bool:
        value = self.path.find(evidence.data)
        if not isinstance(value, (list, dict, str)):
            return False
        return COUNT_COMPARISONS[self.comparison](len(value), self.number)

    def found(self, evidence: Evidence) -> str:
        value = self.path.find(evidence.data)
        if not isinstance(value, (list, dict, str)):
            return "no list at " + self.path.text
        return "%s has %d" % (self.path.text, len(value))


Test = Union[HttpTest, ErrorTest, ValueTest, PresenceTest, CountTest]


class Rule(NamedTuple):
    """One rule: its text, its verdict, and the tests that must all hold."""

    text: str
    verdict: Verdict
    tests: Tuple[Test, ...]

    def matches(self, evidence: Evidence) -> bool:
        """Whether all tests hold."""
        return all(test.holds(evidence) for test in self.tests)

    def status(self, evidence: Evidence) -> Optional[str]:
        """The value that the rule compares, as the status of the job; None if there is none."""
        for test in self.tests:
            if isinstance(test, ValueTest) and not test.quantity:
                return _value_text(test.path.find(evidence.data))
        return None

    def explain(self, evidence: Evidence) -> str:
        """The values that the tests found in the reply."""
        return "; ".join(test.found(evidence) for test in self.tests)

    def count_held(self, evidence: Evidence) -> int:
        """How many of the tests hold."""
        return sum(test.holds(evidence) for test in self.tests)


def _is_same(value: Any, expected: Any) -> bool:
    """Whether a value of a reply is the expected one; true is not 1."""
    return value == expected and isinstance(value, bool) == isinstance(expected, bool)


def _rule_text(value: Any) -> str:
    """A value as it is written in a rule: text that looks like a number is in quotes."""
    text = _value_text(value)
    return "'%s'" % text if isinstance(value, str) and _AMBIGUOUS.fullmatch(value) else text


def _value_text(value: Any) -> str:
    """A value in a few words; it may be large."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return one_line(str(value)[:200], 40)
