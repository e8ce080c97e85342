"""Profiles from waiters: botocore's waiters-2.json, or a Smithy model in JSON.

A waiter has a list of acceptors; the first that matches decides, as with our rules. Each acceptor
becomes one rule. A waiter with an acceptor that no rule can express is refused as a whole.
"""

import json
import os
import re
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from ...core.profiles.profile import Profile, validate_profile
from ...core.waiting.pace import Backoff, Fixed
from ...errors import ConfigError
from .catalog import is_name
from .jmespath import parse_comparisons, parse_path, value_text

_VERDICTS = {"success": "done", "failure": "failed", "retry": "pending"}
_TRAIT = "smithy.waiters#waitable"
# botocore's matchers and Smithy's comparators, with the word before the path in a rule.
_QUANTITIES = {
    "path": "",
    "pathAll": "all ",
    "pathAny": "any ",
    "stringEquals": "",
    "booleanEquals": "",
    "allStringEquals": "all ",
    "anyStringEquals": "any ",
}
LARGEST = 50000000  # bytes of a file; the largest Smithy models have a tenth of that
_NOT_IN_INI = re.compile(r"\s;|[\r\n]")  # a comment, or the end of the line
_SMITHY_MIN_DELAY_S = 2
_SMITHY_MAX_DELAY_S = 120


class Imported(NamedTuple):
    """A waiter as a profile, or the reason why it can't be one."""

    name: str
    profile: Optional[Profile]
    problem: str = ""


def import_file(path: str) -> List[Imported]:
    """The waiters in a file; a ConfigError if it can't be read or has none."""
    try:
        with open(os.path.expanduser(path), "rb") as file:
            content = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or "not a usable path"
        raise ConfigError("can't read %s: %s" % (path, reason)) from None
    if len(content) > LARGEST:
        raise ConfigError("%s is too large: over %d bytes" % (path, LARGEST))
    try:
        return import_waiters(content.decode("utf-8-sig", "replace"))
    except ConfigError as error:
        raise ConfigError("%s %s" % (path, error)) from None


def import_waiters(text: str) -> List[Imported]:
    """The waiters in the text of a file, or a ConfigError."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError("is not JSON") from None
    waiters: Iterable[Tuple[str, Any]] = ()
    build = _botocore_profile
    if isinstance(data, dict) and isinstance(data.get("waiters"), dict):
        waiters = data["waiters"].items()
    elif isinstance(data, dict) and isinstance(data.get("shapes"), dict):
        waiters = _smithy_waiters(data)
        build = _smithy_profile
    imported: List[Imported] = []
    names = set()
    for name, waiter in waiters:
        one = _import(name, waiter, build)
        if name in names:  # the waiters of two operations of a Smithy model
            one = Imported(name, None, "another waiter in the file has this name")
        imported.append(one)
        names.add(name)
    if not imported:
        raise ConfigError(
            "has no waiters: it should be a waiters-2.json of botocore, or a Smithy model in JSON"
        )
    return imported


def _import(name: str, waiter: Any, build: Callable[[str, Any], Profile]) -> Imported:
    try:
        profile = validate_profile(build(name, waiter))
        if not is_name(name):
            raise ConfigError("its name can't be that of a profile")
        if not profile.rules:
            raise ConfigError("it has no acceptors")
        if any(map(_NOT_IN_INI.search, profile.rules)):
            raise ConfigError("a value has a semicolon or a line break, which no profile can have")
        return Imported(name, profile)
    except ConfigError as error:
        return Imported(name, None, str(error))
    except KeyError as error:
        problem = "%s is missing, or not a known word" % error
    except (AttributeError, TypeError, ValueError):
        problem = "a value has the wrong type"
    return Imported(name, None, "it is not written as expected: " + problem)


def _botocore_profile(name: str, waiter: Dict[str, Any]) -> Profile:
    rules = [
        "%s if %s" % (_VERDICTS[acceptor["state"]], _botocore_test(acceptor))
        for acceptor in waiter["acceptors"]
    ]
    delay_s = float(waiter["delay"])
    if delay_s <= 0:
        raise ConfigError("its delay must be above zero, not %g" % delay_s)
    timeout_s = delay_s * int(waiter["maxAttempts"])
    return Profile(name=name, rules=rules, pace=Fixed(delay_s), timeout=timeout_s)


def _botocore_test(acceptor: Dict[str, Any]) -> str:
    matcher = acceptor["matcher"]
    expected = acceptor["expected"]
    if matcher == "status":
        return "http %d" % expected
    if matcher == "error":
        return _error_test(expected)
    if matcher in _QUANTITIES:
        return _value_test(_QUANTITIES[matcher], acceptor["argument"], expected)
    raise ConfigError("there is no rule for the matcher %r" % matcher)


def _error_test(expected: Any) -> str:
    if isinstance(expected, bool):
        return "error any" if expected else "error none"
    return "error " + value_text(expected)


def _value_test(quantity: str, argument: str, expected: Any) -> str:
    comparisons = parse_comparisons(argument)
    if comparisons is None:
        path = parse_path(argument)
        if "[]" in path and not quantity:
            raise ConfigError("%r is a list, which is compared with one value" % argument)
        return "%s%s == %s" % (quantity, path, value_text(expected))
    if quantity or not isinstance(expected, bool):
        raise ConfigError("%r is too complicated" % argument)
    if not expected:
        if len(comparisons) > 1:
            raise ConfigError("%r is too complicated when it is false" % argument)
        comparisons = [comparisons[0].opposite()]
    return " and ".join(comparison.to_test() for comparison in comparisons)


def _smithy_waiters(model: Dict[str, Any]) -> Iterator[Tuple[str, Any]]:
    for shape in model["shapes"].values():
        traits = shape.get("traits") if isinstance(shape, dict) else None
        waiters = traits.get(_TRAIT) if isinstance(traits, dict) else None
        if isinstance(waiters, dict):
            yield from waiters.items()


def _smithy_profile(name: str, waiter: Dict[str, Any]) -> Profile:
    rules = [
        "%s if %s" % (_VERDICTS[acceptor["state"]], _smithy_test(acceptor["matcher"]))
        for acceptor in waiter["acceptors"]
    ]
    min_s = float(waiter.get("minDelay", _SMITHY_MIN_DELAY_S))
    max_s = float(waiter.get("maxDelay", _SMITHY_MAX_DELAY_S))
    return Profile(name=name, rules=rules, pace=Backoff(min_s, max(min_s, max_s), factor=2))


def _smithy_test(matcher: Dict[str, Any]) -> str:
    if "success" in matcher:
        return "error none" if matcher["success"] else "error any"
    if "errorType" in matcher:
        return _error_test(matcher["errorType"].rpartition("#")[2])
    if "output" not in matcher:
        raise ConfigError("there is no rule for the matcher %s" % ", ".join(matcher))
    output = matcher["output"]
    comparator = output["comparator"]
    expected: Any = output["expected"]
    if comparator == "booleanEquals":
        expected = expected == "true"
    return _value_test(_QUANTITIES[comparator], output["path"], expected)
