"""What a reply's headers say about when to ask again, and instants as replies write them.

House rules: servers are believed only where they make sense. What is malformed, negative or
absurd is left out, and never raises. Instants are seconds since 1970; those of one reply are
compared with that reply's own Date, so that a wrong clock on either side does no harm.
"""

import re
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

LONGEST_S = 366 * 86400.0  # a server that asks for more than a year is not to be believed
LONGEST_VALUE = 1000  # characters of a header that is parsed; a longer one counts as malformed
_LONGEST_INSTANT = 100  # characters of a timestamp

# A reply with none of these has nothing to say here, and most replies have none.
HEADERS = frozenset(
    (
        "retry-after",
        "ratelimit",
        "ratelimit-remaining",
        "x-ratelimit-remaining",
        "x-rate-limit-remaining",
        "retry-after-ms",
        "x-ms-retry-after-ms",
    )
)

_MONTHS = {
    name: i + 1 for i, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split())
}
_NUMBER = re.compile(r"\d{1,18}(?:\.\d{1,9})?", re.ASCII)
_FIXDATE = re.compile(
    r"\w{3,9}, ?(\d{1,2})[ -](\w{3})[ -](\d{2,4}) (\d\d):(\d\d):(\d\d)(?: GMT| UTC)?", re.ASCII
)
_ASCTIME = re.compile(r"\w{3} (\w{3}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})", re.ASCII)
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)? ?(Z|[+-]\d\d:?\d\d)?",
    re.IGNORECASE | re.ASCII,
)
_POLICY = re.compile(r'"([^"]*)"((?:\s*;\s*[\w*.-]+=(?:"[^"]*"|[^;,"\s]+))*)')
# A name is matched from its beginning only: from each of its letters would take quadratic time.
_PARAMETER = re.compile(r"(?<![\w*.-])([\w*.-]+)\s*=\s*(\d{1,18})(?![\w.])", re.ASCII)
_WAITS = (("retry-after-ms", 0.001), ("x-ms-retry-after-ms", 0.001), ("retry-after", 1.0))
_COUNTS = tuple(
    (prefix + "remaining", prefix + "reset", prefix + "limit")
    for prefix in ("ratelimit-", "x-ratelimit-", "x-rate-limit-")
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Quota(NamedTuple):
    """What a server says is left of its limit."""

    remaining: float
    reset_s: Optional[float] = None
    limit: Optional[float] = None

    def __str__(self) -> str:
        of = "" if self.limit is None else " of %g" % self.limit
        reset = "" if self.reset_s is None else ", reset in %g s" % self.reset_s
        return "%g%s requests left%s" % (self.remaining, of, reset)


def parse_retry_after(
    headers: Mapping[str, str], received_at: Optional[float]
) -> Tuple[Optional[float], str]:
    """Seconds to wait, and a complaint where the header is there but can't be meant.

    RFC 9110, 10.2.3: seconds, or an HTTP-date; a date is measured against the server's own
    clock. Milliseconds, where a vendor sends them, are the more exact and come first.
    """
    complaint = ""
    for name, unit in _WAITS:
        text = headers.get(name)
        if text is None:
            continue
        wait = None
        if len(text) <= LONGEST_VALUE:
            wait = _wait(text, unit, headers, received_at)
        if wait is not None and wait <= LONGEST_S:
            return wait, complaint
        complaint = "ignored %s: %s, which makes no sense" % (name, _brief(text))
    return None, complaint


def usable_etag(headers: Mapping[str, str]) -> Optional[str]:
    """The ETag to repeat in the next request; None if it is so long that a server may refuse it."""
    found = headers.get("etag")
    return found if found is not None and len(found) <= LONGEST_VALUE else None


def _wait(
    text: str, unit: float, headers: Mapping[str, str], received_at: Optional[float]
) -> Optional[float]:
    """The seconds that a header asks to wait; None if it is malformed."""
    longest = max(text.split(","), key=lambda part: _number(part) or 0.0)  # it may be sent twice
    wait = _number(longest)
    if wait is not None:
        return wait * unit
    date = parse_http_date(text)
    now = server_time(headers, received_at)
    if date is None or now is None:
        return None
    return max(0.0, date - now)


def parse_quota(headers: Mapping[str, str], received_at: Optional[float]) -> Optional[Quota]:
    """What is left of the limit, in any of the dialects; None where nothing usable is said.

    draft-ietf-httpapi-ratelimit-headers up to 06 has RateLimit-Remaining and -Reset (seconds),
    07 one dictionary, from 08 on a list of policies; X-RateLimit-* came before all of them,
    and its reset is seconds to go or an instant, as each vendor pleases.
    """
    combined = headers.get("ratelimit")
    if combined is not None and len(combined) <= LONGEST_VALUE:
        found = _policies(combined, headers.get("ratelimit-policy", "")[:LONGEST_VALUE])
        if found is not None:
            return found
    for remaining, reset, limit in _COUNTS:
        left = _number(headers[remaining]) if remaining in headers else None
        if left is not None:
            return Quota(
                left,
                _reset(headers, reset, received_at) if reset in headers else None,
                _number(headers[limit].partition(",")[0]) if limit in headers else None,
            )
    return None


def _policies(combined: str, policy: str) -> Optional[Quota]:
    # Draft 10: `RateLimit: "default";r=50;t=30`, `RateLimit-Policy: "default";q=100;w=60`.
    sizes = {name: _parameters(rest) for name, rest in _POLICY.findall(policy)}
    quotas = []
    for name, rest in _POLICY.findall(combined):
        said, size = _parameters(rest), sizes.get(name, {})
        if "r" in said:
            quotas.append(Quota(said["r"], _believable(said.get("t")), size.get("q")))
    said = _parameters(combined)
    if "remaining" in said:  # draft 07: `RateLimit: limit=100, remaining=50, reset=30`
        quotas.append(Quota(said["remaining"], _believable(said.get("reset")), said.get("limit")))
    return min(quotas, key=lambda q: q.remaining) if quotas else None


def _parameters(text: str) -> Dict[str, float]:
    return {name: float(value) for name, value in _PARAMETER.findall(text)}


def _reset(headers: Mapping[str, str], name: str, received_at: Optional[float]) -> Optional[float]:
    value = _number(headers[name])
    if value is None or value < 1e9:
        return _believable(value)
    now = server_time(headers, received_at)
    if now is None:
        return None
    instant = value / 1000 if value >= 1e12 else value
    return _believable(max(0.0, instant - now))


def _believable(wait: Optional[float]) -> Optional[float]:
    return wait if wait is not None and wait <= LONGEST_S else None


def parse_http_date(text: str) -> Optional[float]:
    """An HTTP-date in any of its three forms (RFC 9110, 5.6.7)."""
    if len(text) > _LONGEST_INSTANT:
        return None
    match = _FIXDATE.fullmatch(text.strip())
    if match:
        day, month, year, hour, minute, second = match.groups()
    else:
        match = _ASCTIME.fullmatch(text.strip())
        if not match:
            return None
        month, day, hour, minute, second, year = match.groups()
    number = int(year)
    if len(year) == 2:  # the obsolete form: a year that seems 50 years ahead is in the past
        number += 2000 if number < 70 else 1900
    return _instant(
        number, _MONTHS.get(month.lower(), 0), int(day), int(hour), int(minute), int(second)
    )


def server_time(headers: Mapping[str, str], received_at: Optional[float]) -> Optional[float]:
    """The server's clock as the reply left it.

    Date has whole seconds. Where our own clock agrees with it, ours supplies the fraction.
    """
    date = parse_http_date(headers["date"]) if "date" in headers else None
    if date is None or received_at is None:
        return received_at if date is None else date
    return min(max(received_at, date), date + 1.0)


def parse_timestamp(value: Any) -> Optional[float]:
    """An instant as JSON has it: ISO 8601, or seconds or milliseconds since 1970."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return _since_1970(value)
    if not isinstance(value, str) or len(value) > _LONGEST_INSTANT:
        return None
    match = _ISO.fullmatch(value.strip())
    if not match:
        number = _number(value)
        return parse_http_date(value) if number is None else _since_1970(number)
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    at = _instant(int(year), int(month), int(day), int(hour), int(minute), int(second or 0))
    if at is None:
        return None
    if zone and zone not in "zZ":
        minutes = int(zone[1:3]) * 60 + int(zone[-2:])
        at -= minutes * 60 * (-1 if zone[0] == "-" else 1)
    return at + float("0." + (fraction or "0"))


def _since_1970(value: float) -> Optional[float]:
    if not 1e8 < value < 1e13:  # 1973 to 2286: anything else is no instant
        return None
    return value / 1000 if value > 1e11 else float(value)


def _instant(
    year: int, month: int, day: int, hour: int, minute: int, second: int
) -> Optional[float]:
    try:
        # A leap second (…:60) is a legal HTTP-date; datetime knows none.
        at = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=timezone.utc)
    except ValueError:
        return None
    return (at - _EPOCH) / timedelta(seconds=1)


def _number(text: str) -> Optional[float]:
    match = _NUMBER.fullmatch(text.strip())
    return float(match.group()) if match else None


def _brief(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
