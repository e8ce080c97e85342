"""How rules are written: one per line.

    done    if http 404
    failed  if any tasks[].state in FAILED, CANCELLED
    done    if all tasks[].state == SUCCEEDED
    done    if count items == 0
    failed  if error QuotaExceeded, LimitExceeded
    pending if missing data.job and http 200

The tests, with the parts that vary in upper case:

    http CODE, ...        the HTTP status is one of these; 5xx means 500 to 599
    error CODE, ...       the reply's own error code is one of these (see error_codes.py)
    error any             the reply is an error; none: it is no error
    PATH == VALUE         also != and `in VALUE, ...`
    all PATH == VALUE     every value of a list; not if the list is empty or missing
    any PATH == VALUE     at least one value of a list
    missing PATH          there is no such field, or it is null
    present PATH          there is such a field, and it is not null
    count PATH > N        the length of a list; also <, == and !=

A value is a word, 'quoted text' (with '' for a quote in it), a number, true, false or null. Words
compare exactly, and text never equals a number.
"""

import re
from typing import Any, List, Optional, Sequence, Tuple, Union

from ....errors import ConfigError
from ...model import one_line
from ..fields.json_paths import Path
from ..verdict import VERDICTS
from .rule import (
    COUNT_COMPARISONS,
    CountTest,
    ErrorTest,
    HttpTest,
    PresenceTest,
    Rule,
    Test,
    ValueTest,
)

LONGEST_RULE = 2000  # characters
_TOKEN = re.compile(r"\s*('(?:[^']|'')*'|==|!=|<=|>=|=|<|>|,|[^\s,'=!<>]+)")
_HTTP = re.compile(r"[1-5](?:[0-9]{2}|xx)")
_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")
_CONSTANTS = {"true": True, "false": False, "null": None}
_COMPARISONS = ("==", "!=", "in")
_PUNCTUATION = (",", "==", "!=", "<=", ">=", "=", "<", ">")


class RuleError(ConfigError):
    """A mistake in a rule; `index` is the number of its line, from 0."""

    def __init__(self, message: str, index: int = 0) -> None:
        super().__init__(message, index)
        self.index = index

    def __str__(self) -> str:
        return str(self.args[0])


def split_rules(rules: Union[str, Sequence[str]]) -> Tuple[str, ...]:
    """The texts of rules, from a list or from a text with one rule per line."""
    lines = rules.split("\n") if isinstance(rules, str) else list(rules)
    return tuple(line.strip() for line in lines)


def parse_rules(rules: Union[str, Sequence[str]]) -> Tuple[Rule, ...]:
    """Parse rules, or raise a RuleError."""
    parsed = []
    for index, text in enumerate(split_rules(rules)):
        if not text:
            continue
        try:
            parsed.append(_Parser(text).parse())
        except ConfigError as error:
            raise RuleError("%r: %s" % (one_line(text, 80), error), index) from None
    return tuple(parsed)


class _Parser:
    """Parses one rule, token by token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _split(text)
        self._at = 0

    def parse(self) -> Rule:
        verdict = self._next("a rule begins with done, failed or pending")
        if verdict not in VERDICTS:
            raise ConfigError("begins with %r: write done, failed or pending" % verdict)
        if self._next("write 'if' after %s" % verdict) != "if":
            raise ConfigError("write 'if' after %s" % verdict)
        tests = [self._test()]
        while self._peek() is not None:
            word = self._next("")
            if word == "or":
                raise ConfigError("there is no 'or': write another rule instead")
            if word != "and":
                raise ConfigError("write 'and' between two tests, before %r" % word)
            tests.append(self._test())
        return Rule(self._text, VERDICTS[verdict], tuple(tests))

    def _test(self) -> Test:
        word = self._next("a test is missing at the end")
        is_field_name = self._peek() in _COMPARISONS  # such as a field named error
        if word == "http" and not is_field_name:
            return HttpTest(tuple(map(_http_code, self._list())))
        if word == "error" and not is_field_name:
            return _error_test(self._list())
        if word in ("missing", "present") and not is_field_name:
            path = _path(self._next("name the field that is %s" % word))
            return PresenceTest(path, word == "present")
        if word == "count" and not is_field_name:
            return self._count_test()
        quantity = ""
        if word in ("all", "any") and not is_field_name:
            quantity = word
            word = self._next("name the list after %s" % word)
        return self._value_test(quantity, word)

    def _value_test(self, quantity: str, word: str) -> ValueTest:
        path = _path(word)
        if path.in_each is not None and not quantity:
            raise ConfigError("write 'all' or 'any' before %s, which has several values" % word)
        comparison = self._next("write ==, != or in after %s" % word)
        if comparison not in _COMPARISONS:
            raise ConfigError("write ==, != or in after %s, not %r" % (word, comparison))
        texts = self._list()
        if comparison != "in" and len(texts) > 1:
            raise ConfigError("%s takes one value: write 'in' before several" % comparison)
        if word == "http" and all(map(_HTTP.fullmatch, texts)):
            # A field may have that name, but its values are hardly like this.
            raise ConfigError("write 'http %s' for the HTTP status" % ", ".join(texts))
        return ValueTest(quantity, path, comparison != "!=", tuple(map(_value, texts)))

    def _count_test(self) -> CountTest:
        path = _path(self._next("name the list after count"))
        comparison = self._next("write ==, !=, < or > after the list")
        if comparison not in COUNT_COMPARISONS:
            message = "write ==, !=, < or > after count and its list, not %r"
            raise ConfigError(message % comparison)
        number = self._next("write a number after %s" % comparison)
        if not re.fullmatch("[0-9]{1,9}", number):
            raise ConfigError("count compares with a whole number, not %r" % number)
        return CountTest(path, comparison, int(number))

    def _list(self) -> List[str]:
        """One or more texts, separated by commas."""
        texts = [self._operand()]
        while self._peek() == ",":
            self._at += 1
            texts.append(self._operand())
        return texts

    def _operand(self) -> str:
        text = self._next("a value is missing at the end")
        if text in _PUNCTUATION:
            raise ConfigError("a value is missing before %r" % text)
        if text.startswith('"'):
            raise ConfigError("%s has double quotes: write 'text' in single ones" % text)
        return text

    def _peek(self) -> Optional[str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next(self, problem: str) -> str:
        token = self._peek()
        if token is None:
            raise ConfigError(problem)
        self._at += 1
        return token


def _split(text: str) -> List[str]:
    if len(text) > LONGEST_RULE:
        raise ConfigError("is longer than %d characters" % LONGEST_RULE)
    tokens = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ConfigError("can't be read from %r on: is a quote open?" % text[at : at + 20])
        tokens.append(match.group(1))
        at = match.end()
    return tokens


def _http_code(text: str) -> str:
    if not _HTTP.fullmatch(text):
        raise ConfigError("%r is not an HTTP status: write 404 or 5xx" % text)
    return text


def _error_test(texts: List[str]) -> ErrorTest:
    if len(texts) == 1 and texts[0] in ("any", "none"):
        return ErrorTest((), texts[0] == "any")
    for text in ("any", "none"):
        if text in texts:
            raise ConfigError("'error %s' takes no other codes: remove them" % text)
    return ErrorTest(tuple(_unquote(text) for text in texts))


def _path(text: str) -> Path:
    if text.startswith("'"):
        raise ConfigError("%s is a value, not the path of a field" % text)
    if "(" in text:
        raise ConfigError("%s: rules have no functions; 'count PATH > 0' compares a length" % text)
    return Path(text)


def _value(text: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    return _unquote(text)


def _unquote(text: str) -> str:
    return text[1:-1].replace("''", "'") if text.startswith("'") else text
