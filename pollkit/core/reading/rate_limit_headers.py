"""The headers about when to send the next request: Retry-After and the rate limits.

House rules: a value that is malformed, negative or absurd is ignored, and never raises. To support
another header, add it to _RETRY_AFTER_HEADERS or _QUOTA_PREFIXES. If it has another syntax, parse
it in parse_retry_after or parse_quota, and list it in RELEVANT_HEADERS: without one of those
headers, a reply is not parsed.
"""

import re
from typing import Dict, Mapping, NamedTuple, Optional, Tuple

from .timestamps import parse_http_date, parse_number, server_time

LONGEST_S = 366 * 86400.0  # a longer delay than a year is absurd
LONGEST_VALUE = 1000  # characters; a longer header counts as malformed

# Each with its unit in seconds. Milliseconds come first, because they are more exact.
_RETRY_AFTER_HEADERS = (
    ("retry-after-ms", 0.001),
    ("x-ms-retry-after-ms", 0.001),
    ("retry-after", 1.0),
)
_QUOTA_PREFIXES = ("ratelimit-", "x-ratelimit-", "x-rate-limit-")
_QUOTA_HEADERS = tuple(
    (prefix + "remaining", prefix + "reset", prefix + "limit") for prefix in _QUOTA_PREFIXES
)
# Most replies have none of these headers, and need no parsing.
RELEVANT_HEADERS = frozenset(
    ["ratelimit"]
    + [name for name, _ in _RETRY_AFTER_HEADERS]
    + [remaining_name for remaining_name, _, _ in _QUOTA_HEADERS]
)

_POLICY = re.compile(r'"([^"]*)"((?:\s*;\s*[\w*.-]+=(?:"[^"]*"|[^;,"\s]+))*)')
# A name is matched from its first letter only: to try each of its letters takes quadratic time.
_PARAMETER = re.compile(r"(?<![\w*.-])([\w*.-]+)\s*=\s*(\d{1,18})(?![\w.])", re.ASCII)


class Quota(NamedTuple):
    """The remaining requests within the server's rate limit."""

    remaining: float
    reset_s: Optional[float] = None
    limit: Optional[float] = None

    def __str__(self) -> str:
        limit = "" if self.limit is None else " of %g" % self.limit
        reset = "" if self.reset_s is None else ", reset in %g s" % self.reset_s
        return "%g%s requests left%s" % (self.remaining, limit, reset)


def parse_retry_after(
    headers: Mapping[str, str], received_at: Optional[float]
) -> Tuple[Optional[float], str]:
    """The seconds to wait, and a warning if a header is present but makes no sense.

    RFC 9110, 10.2.3: seconds, or an HTTP-date; a date is compared with the server's own clock.
    """
    warning = ""
    for name, unit in _RETRY_AFTER_HEADERS:
        text = headers.get(name)
        if text is None:
            continue
        delay = _parse_delay(text, unit, headers, received_at)
        if delay is not None:
            return delay, warning
        shown = text if len(text) <= 40 else text[:37] + "..."
        warning = "ignored %s: %r, which makes no sense" % (name, shown)
    return None, warning


def _parse_delay(
    text: str, unit: float, headers: Mapping[str, str], received_at: Optional[float]
) -> Optional[float]:
    if len(text) > LONGEST_VALUE:
        return None
    # A header that was sent twice arrives as one, with a comma; the longest delay counts.
    numbers = [number for number in map(parse_number, text.split(",")) if number is not None]
    if numbers:
        return _limit_delay(max(numbers) * unit)
    date = parse_http_date(text)
    now = server_time(headers, received_at)
    if date is None or now is None:
        return None
    return _limit_delay(max(0.0, date - now))


def parse_quota(headers: Mapping[str, str], received_at: Optional[float]) -> Optional[Quota]:
    """The remaining quota in any of the header dialects; None if no header is usable.

    draft-ietf-httpapi-ratelimit-headers has RateLimit-Remaining and -Reset (in seconds) up to
    version 06, one dictionary in 07, and a list of policies from 08 on. X-RateLimit-* is older than
    all of these; depending on the vendor, its reset is a number of seconds or an instant.
    """
    combined = headers.get("ratelimit")
    if combined is not None and len(combined) <= LONGEST_VALUE:
        quota = _parse_combined(combined, headers.get("ratelimit-policy", "")[:LONGEST_VALUE])
        if quota is not None:
            return quota
    for remaining_name, reset_name, limit_name in _QUOTA_HEADERS:
        remaining = parse_number(headers.get(remaining_name, ""))
        if remaining is not None:
            reset_s = _parse_reset(headers.get(reset_name, ""), headers, received_at)
            # Up to draft 06, the policies follow the limit: `60, 60;w=60`.
            limit = parse_number(headers.get(limit_name, "").partition(",")[0])
            return Quota(remaining, reset_s, limit)
    return None


def has_limit_headers(headers: Mapping[str, str], received_at: Optional[float]) -> bool:
    """Whether the headers mark an error as a rate limit: a Retry-After, or an empty quota."""
    quota = parse_quota(headers, received_at)
    is_empty = quota is not None and quota.remaining == 0
    return is_empty or parse_retry_after(headers, received_at)[0] is not None


def _parse_combined(combined: str, policy: str) -> Optional[Quota]:
    """The smallest quota of a RateLimit header, in the syntax of draft 07 or of 08 and later."""
    # Draft 10: `RateLimit: "default";r=50;t=30`, `RateLimit-Policy: "default";q=100;w=60`.
    policies = {name: _parameters(text) for name, text in _POLICY.findall(policy)}
    quotas = []
    for name, text in _POLICY.findall(combined):
        values = _parameters(text)
        if "r" in values:
            limit = policies.get(name, {}).get("q")
            quotas.append(Quota(values["r"], _limit_delay(values.get("t")), limit))
    # Draft 07: `RateLimit: limit=100, remaining=50, reset=30`.
    values = _parameters(combined)
    if "remaining" in values:
        reset_s = _limit_delay(values.get("reset"))
        quotas.append(Quota(values["remaining"], reset_s, values.get("limit")))
    return min(quotas, key=lambda quota: quota.remaining) if quotas else None


def _parameters(text: str) -> Dict[str, float]:
    return {name: float(value) for name, value in _PARAMETER.findall(text)}


def _parse_reset(
    text: str, headers: Mapping[str, str], received_at: Optional[float]
) -> Optional[float]:
    """The seconds until the reset, which is given as seconds or as an instant."""
    value = parse_number(text)
    if value is None or value < 1e9:
        return _limit_delay(value)
    now = server_time(headers, received_at)
    if now is None:
        return None
    instant = value / 1000 if value >= 1e12 else value
    return _limit_delay(max(0.0, instant - now))


def _limit_delay(delay: Optional[float]) -> Optional[float]:
    """A delay, or None if it is absurdly long."""
    return delay if delay is not None and delay <= LONGEST_S else None
