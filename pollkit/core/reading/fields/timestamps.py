"""Instants as replies write them: HTTP-dates, ISO 8601, and numbers of seconds since 1970.

House rules: an instant is a float, in seconds since 1970. A malformed value gives None, and never
raises. Instants of one reply are compared with that reply's own Date, so that a wrong clock on
either side does no harm.
"""

import re
from datetime import datetime, timedelta, timezone
from typing import Any, Mapping, Optional

_LONGEST_TEXT = 100  # characters of a timestamp
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,9})?", re.ASCII)
# Compiled when they are first used: that takes 0.3 ms, and most replies need none.
_FIXDATE = r"(?a)\w{3,9}, ?(\d{1,2})[ -](\w{3})[ -](\d{2,4}) (\d\d):(\d\d):(\d\d)(?: GMT| UTC)?"
_ASCTIME = r"(?a)\w{3} (\w{3}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})"
_ISO = (
    r"(?ai)(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?"
    r" ?(Z|[+-]\d\d:?\d\d)?"
)


def server_time(headers: Mapping[str, str], received_at: Optional[float]) -> Optional[float]:
    """The server's time when it sent the reply; our own time if there is no Date.

    Date has whole seconds. If our own clock agrees with it, ours supplies the fraction; otherwise
    the start of that second counts, so that a Retry-After date is never undercut.
    """
    date = parse_http_date(headers["date"]) if "date" in headers else None
    if date is None:
        return received_at
    clocks_agree = received_at is not None and date <= received_at <= date + 1.0
    return received_at if clocks_agree else date


def parse_http_date(text: str) -> Optional[float]:
    """An HTTP-date in any of its three forms (RFC 9110, 5.6.7)."""
    if len(text) > _LONGEST_TEXT:
        return None
    match = re.fullmatch(_FIXDATE, text.strip())
    if match:
        day, month, year, hour, minute, second = match.groups()
    else:
        match = re.fullmatch(_ASCTIME, text.strip())
        if not match:
            return None
        month, day, hour, minute, second, year = match.groups()
    if month.lower() not in _MONTHS:
        return None
    month_number = _MONTHS.index(month.lower()) + 1
    if len(year) == 2:  # the obsolete form: a year that seems 50 years ahead is in the past
        year = ("20" if int(year) < 70 else "19") + year
    return _instant(int(year), month_number, int(day), int(hour), int(minute), int(second))


def parse_timestamp(value: Any) -> Optional[float]:
    """An instant in JSON: ISO 8601, an HTTP-date, or seconds or milliseconds since 1970."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return _since_1970(value)
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        return None
    number = parse_number(value)
    if number is not None:
        return _since_1970(number)
    match = re.fullmatch(_ISO, value.strip())
    return _iso_instant(match) if match else parse_http_date(value)


def parse_number(text: str) -> Optional[float]:
    """A plain decimal number from 0, without a sign or an exponent."""
    if not text:  # saves time: most of the headers are absent
        return None
    match = _NUMBER.fullmatch(text.strip())
    return float(match.group()) if match else None


def _iso_instant(match: "re.Match[str]") -> Optional[float]:
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    at = _instant(int(year), int(month), int(day), int(hour), int(minute), int(second or 0))
    if at is None:
        return None
    if zone and zone not in "zZ":
        offset_s = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
        at += offset_s if zone[0] == "-" else -offset_s
    return at + float("0." + (fraction or "0"))


def _since_1970(value: float) -> Optional[float]:
    if not 1e8 < value < 1e13:  # 1973 to 2286: any other number is no instant
        return None
    return value / 1000 if value > 1e11 else float(value)


def _instant(
    year: int, month: int, day: int, hour: int, minute: int, second: int
) -> Optional[float]:
    # A leap second (…:60) is a legal HTTP-date, but datetime rejects it.
    second = min(second, 59)
    try:
        at = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    except ValueError:
        return None
    return (at - _EPOCH) / timedelta(seconds=1)
