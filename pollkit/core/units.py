"""Durations and limits as people write them: '500ms', '1h30m', '60/m', '60/m, 5000/d'.

House rules: a duration is a float in seconds. A printed text parses back to the same value, except
for that of `rounded_duration`, which is for messages.
"""

import re
from typing import TYPE_CHECKING, NamedTuple, Tuple, Union

from ..errors import ConfigError

# If a type has a name in quotes, `typing` compiles it. The first time takes 10 million
# instructions, 4 % of a whole `wait`, so only type checkers see such types.
if TYPE_CHECKING:
    from datetime import timedelta

    Duration = Union[float, str, timedelta]
    Limits = Tuple["Limit", ...]
else:
    Duration = Union[float, str]
    Limits = tuple

NEVER = float("inf")  # an instant that never comes
LONG_AGO = -NEVER  # an instant before all others

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_PIECE = r"(%s)(ms|s|m|h|d)" % _NUMBER
_DURATION = r"(?:%s(?:ms|s|m|h|d))+|%s" % (_NUMBER, _NUMBER)
_LIMIT = r"(%s)\s*/\s*(%s)?(ms|s|m|h|d)(?:\s+burst\s+([0-9]+))?" % (_NUMBER, _NUMBER)
_LARGEST_BURST = 1000000
_MOST_LIMITS = 4  # that apply at the same time
LONGEST_S = 10 * 365 * 86400.0  # a duration of over ten years is a mistake


def to_seconds(value: Duration, name: str = "duration") -> float:
    """A duration in seconds, from a number of seconds, a text such as '1h30m', or a timedelta.

    >>> to_seconds("1h30m")
    5400.0
    """
    # A timedelta is recognised by its method: to import datetime would delay every start.
    total_seconds = getattr(type(value), "total_seconds", None)
    if total_seconds is not None:
        value = total_seconds(value)
    seconds = _parse_duration(value, name) if isinstance(value, str) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise ConfigError("%s must be seconds or text such as '5s', not %s" % (name, _brief(value)))
    if not 0 <= seconds <= LONGEST_S:  # also true for nan
        raise ConfigError("%s %s is out of range: from 0 to ten years" % (name, _brief(value)))
    return float(seconds)


def _parse_duration(text: str, name: str) -> float:
    lowered = text.strip().lower()
    if not re.fullmatch(_DURATION, lowered):
        subject = "" if name == "duration" else name + " "
        raise ConfigError(
            "%s%s is not a duration: write 500ms, 5s, 2m or 1h30m" % (subject, _brief(text))
        )
    pieces = re.findall(_PIECE, lowered)
    if not pieces:
        return float(lowered)
    # Rounded, so that 5m23.833s is 323.833 and not the sum of two floats.
    return round(sum(float(number) * _UNITS[unit] for number, unit in pieces), 9)


def is_number(value: object) -> bool:
    """Whether a value is an int or a float; True and False are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def number_text(value: float) -> str:
    """A number without a needless '.0'."""
    return "%d" % value if value == int(value) else repr(value)


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
    text = "%dh" % hours if hours else ""
    if minutes:
        text += "%dm" % minutes
    if micros or not text:
        text += _decimal(micros, 1000000) + "s"
    return text


def rounded_duration(duration: float) -> str:
    """A duration for messages: two or three digits, or two units.

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
    """At most `polls` polls in any `per` seconds; `burst` is 0 if the user named none.

    `others` are limits over longer periods, which apply at the same time.
    """

    polls: float
    per: float
    burst: float = 0
    others: Limits = ()

    @property
    def parts(self) -> Limits:
        """All limits that apply at the same time, the one over the shortest period first."""
        return (self,) + self.others

    def __str__(self) -> str:
        units = [unit for unit, seconds in _UNITS.items() if seconds == self.per]
        text = "%s/%s" % (number_text(self.polls), units[0] if units else duration_text(self.per))
        if self.burst:
            text += " burst %d" % self.burst
        return ", ".join([text] + [str(other) for other in self.others])


def parse_limit(text: str) -> Limit:
    """A limit from text, or several that apply at the same time.

    >>> parse_limit("10/s burst 20")
    Limit(polls=10.0, per=1.0, burst=20, others=())
    >>> parse_limit("5000/d, 60/m").others
    (Limit(polls=5000.0, per=86400.0, burst=0, others=()),)
    """
    parts = text.split(",")
    if len(parts) > _MOST_LIMITS:
        raise ConfigError("limit %.40r has more than %d parts" % (text, _MOST_LIMITS))
    shortest, *others = sorted(map(_parse_one_limit, parts), key=lambda limit: limit.per)
    periods = {limit.per for limit in others} | {shortest.per}
    if len(periods) < len(parts):
        raise ConfigError("limit %r names a period twice: keep the smaller limit" % text)
    for limit in others:
        if limit.burst:
            message = "limit %r: only the shortest period can have a burst"
            raise ConfigError(message % text)
        if limit.polls != int(limit.polls):
            message = "limit %r: write a whole number of polls for the longer periods"
            raise ConfigError(message % text)
    return shortest._replace(others=tuple(others))


def _parse_one_limit(text: str) -> Limit:
    match = re.fullmatch(_LIMIT, text.strip().lower())
    if not match:
        message = "limit %r is not a limit: write 60/m, 10/s burst 20 or 1000/h"
        raise ConfigError(message % text.strip())
    count = float(match.group(1))
    per = float(match.group(2) or 1) * _UNITS[match.group(3)]
    burst = match.group(4)
    if per == 0 or not 1e-6 <= count / per <= 1e6:
        raise ConfigError("limit %r is out of range: write 60/m, 10/s or 1000/h" % text)
    if burst is None:
        return Limit(count, per)
    # Ten digits are enough to see that it is too large: int() rejects thousands of them.
    if not 1 <= int(burst[:10]) <= _LARGEST_BURST:
        raise ConfigError(
            "limit %.40r: the burst must be a number from 1 to %d" % (text, _LARGEST_BURST)
        )
    return Limit(count, per, int(burst))


def percent(fraction: float) -> int:
    """A fraction in whole percent; 100 only for all of it.

    >>> percent(0.29)
    29
    """
    return int(fraction * 100 + 1e-9)  # 0.29 x 100 is 28.999999999999996
