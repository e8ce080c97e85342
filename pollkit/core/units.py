"""Durations and limits as people write them: '500ms', '1h30m', '60/m', '10/s burst 20'.

House rules: a duration is a float in seconds. What is printed parses back to the same value,
except for `rounded_duration`, which is for messages.
"""

import re
from typing import NamedTuple, Union

from ..errors import ConfigError

NEVER = float("inf")  # an instant that never comes
LONG_AGO = -NEVER  # an instant before all others

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_PIECE = re.compile(r"(%s)(ms|s|m|h|d)" % _NUMBER)
_DURATION = re.compile(r"(?:%s(?:ms|s|m|h|d))+|%s" % (_NUMBER, _NUMBER))
_LIMIT = re.compile(r"(%s)\s*/\s*(%s)?(ms|s|m|h|d)(?:\s+burst\s+([0-9]+))?" % (_NUMBER, _NUMBER))
_LONGEST = 10 * 365 * 86400.0  # beyond ten years a duration is a mistake, not a wish


def to_seconds(value: Union[str, float], what: str = "duration") -> float:
    """A duration in seconds, from a number or from text such as '1h30m'; a bare number is seconds.

    >>> to_seconds("1h30m")
    5400.0
    """
    if isinstance(value, str):
        text = value.strip().lower()
        if not _DURATION.fullmatch(text):
            raise ConfigError(
                "%s %s is not a duration: write 500ms, 5s, 2m or 1h30m" % (what, _brief(value))
            )
        pieces = _PIECE.findall(text)
        # Rounded, so that 5m23.833s is 323.833 and not the sum of two floats.
        result = (
            round(sum(float(n) * _UNITS[unit] for n, unit in pieces), 9) if pieces else float(text)
        )
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError("%s must be seconds or text such as '5s', not %s" % (what, _brief(value)))
    elif not 0 <= value <= _LONGEST:  # before float(): an int may be too large for one
        raise ConfigError("%s %s is out of range: from 0 to ten years" % (what, _brief(value)))
    else:
        result = float(value)
    if not 0 <= result <= _LONGEST:  # also false for nan
        raise ConfigError("%s %s is out of range: from 0 to ten years" % (what, _brief(value)))
    return result


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 24 else text[:21] + "..."


def duration_text(duration: float) -> str:
    """The shortest usual way to write a duration, to the microsecond.

    >>> duration_text(5400), duration_text(0.5), duration_text(2.5)
    ('1h30m', '500ms', '2.5s')
    """
    micros = int(round(duration * 1e6))
    if 0 < micros < 1000000:
        return _decimal(micros, 1000) + "ms"
    minutes, micros = divmod(micros, 60 * 1000000)
    hours, minutes = divmod(minutes, 60)
    text = ("%dh" % hours if hours else "") + ("%dm" % minutes if minutes else "")
    return text + _decimal(micros, 1000000) + "s" if micros or not text else text


def rounded_duration(duration: float) -> str:
    """A duration in a message for people: two or three digits, or two units.

    >>> rounded_duration(319.763309), rounded_duration(12.34), rounded_duration(2.54)
    ('5m20s', '12s', '2.5s')
    """
    if duration >= 3600:
        return duration_text(60.0 * round(duration / 60))
    if duration >= 10:
        return duration_text(round(duration))
    return duration_text(round(max(0.0, duration), 1 if duration >= 1 else 3))


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    digits = ("%d" % (unit + rest))[1:].rstrip("0")
    return "%d.%s" % (whole, digits) if digits else "%d" % whole


class Limit(NamedTuple):
    """At most `polls` polls in any `per` seconds; `burst` only where somebody named one."""

    polls: float
    per: float
    burst: int = 0

    def __str__(self) -> str:
        unit = next((u for u, s in _UNITS.items() if s == self.per), None)
        text = "%s/%s" % (_number_text(self.polls), unit or duration_text(self.per))
        return text + (" burst %d" % self.burst if self.burst else "")


def percent(fraction: float) -> int:
    """A fraction in whole percent; 100 only for all of it.

    >>> percent(0.29)
    29
    """
    return int(fraction * 100 + 1e-9)  # 0.29 x 100 is 28.999999999999996


def _number_text(value: float) -> str:
    return "%d" % value if value == int(value) else repr(value)


def parse_limit(text: str) -> Limit:
    """A limit from text.

    >>> parse_limit("10/s burst 20")
    Limit(polls=10.0, per=1.0, burst=20)
    """
    match = _LIMIT.fullmatch(text.strip().lower())
    if not match:
        raise ConfigError("limit %r is not a limit: write 60/m, 10/s burst 20 or 1000/h" % text)
    count, per = float(match.group(1)), float(match.group(2) or 1) * _UNITS[match.group(3)]
    if not (1e-6 <= count / per <= 1e6 if per else False):
        raise ConfigError("limit %r is out of range" % text)
    if match.group(4) == "0":
        raise ConfigError("limit %r: a burst is at least 1" % text)
    return Limit(count, per, int(match.group(4) or 0))
