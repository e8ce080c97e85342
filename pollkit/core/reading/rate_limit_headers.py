"""The headers about when to send the next request: Retry-After and the rate limits.

House rules: a value that is malformed, negative or absurd is ignored, and never raises; but if the
number of remaining requests is negative, the quota is overdrawn, and it counts as 0. To support
another header, add it to _RETRY_AFTER_HEADERS or _QUOTA_HEADERS. If it has another syntax, parse
it in parse_retry_after or parse_quota, and list it in RELEVANT_HEADERS: without one of those
headers, a reply is not parsed.
"""

import re
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from .fields.timestamps import parse_http_date, parse_number, parse_timestamp, server_time

LONGEST_S = 366 * 86400.0  # a longer delay than a year is absurd
LONGEST_VALUE = 1000  # characters; a longer header counts as malformed

# Each with its unit in seconds. Milliseconds come first, because they are more exact.
_RETRY_AFTER_HEADERS = (
    ("retry-after-ms", 0.001),
    ("x-ms-retry-after-ms", 0.001),
    ("retry-after", 1.0),
)
# The headers with the remaining requests, the reset and the limit, in each dialect.
_QUOTA_HEADERS = (
    ("ratelimit-remaining", "ratelimit-reset", "ratelimit-limit"),
    ("x-ratelimit-remaining", "x-ratelimit-reset", "x-ratelimit-limit"),
    ("x-rate-limit-remaining", "x-rate-limit-reset", "x-rate-limit-limit"),
    (  # OpenAI; its other headers count tokens
        "x-ratelimit-remaining-requests",
        "x-ratelimit-reset-requests",
        "x-ratelimit-limit-requests",
    ),
    (
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
        "anthropic-ratelimit-requests-limit",
    ),
)
# A reply without any of these headers changes nothing: a quota can't be spread without its reset.
RELEVANT_HEADERS = frozenset(
    ["ratelimit", "ratelimit-policy"]
    + [name for name, _ in _RETRY_AFTER_HEADERS]
    + [reset_name for _, reset_name, _ in _QUOTA_HEADERS]
)

LOW_QUOTA = 10.0  # a quota is low with fewer requests left than this, or than a tenth of the limit
_SHORTEST_RESET_S = 0.001

# The patterns are compiled when they are first used: that takes 0.6 ms, and few replies need them.
_POLICY = r'"([^"]*)"((?:\s*;\s*[\w*.-]+=(?:"[^"]*"|[^;,"\s]+))*)'
# A name is matched from its first letter only: to try each of its letters takes quadratic time.
_PARAMETER = r"(?a)(?<![\w*.-])([\w*.-]+)\s*=\s*(-?\d{1,18})(?![\w.])"
_REMAINING_PARAMETERS = ("r", "remaining")
_QUOTED = r'"[^"]*"'
_UNIT = r';\s*qu\s*=\s*"?([\w-]+)'
# As OpenAI writes a reset: 6m0s, 1.5s, 120ms.
_GO_DURATION = r"(?a)(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9}(?:\.\d{1,9})?)s)?"
_GO_MILLISECONDS = r"(?a)(\d{1,9}(?:\.\d{1,9})?)ms"


class Quota(NamedTuple):
    """The remaining requests within one limit of the server's.

    `remaining` is None if the server names only the limit: so many requests per `window_s`.
    """

    remaining: Optional[float]
    reset_s: Optional[float] = None
    limit: Optional[float] = None
    window_s: Optional[float] = None

    def __str__(self) -> str:
        if self.remaining is None:
            return "%g requests per %g s" % (self.limit or 0, self.window_s or 0)
        limit = "" if self.limit is None else " of %g" % self.limit
        reset = "" if self.reset_s is None else ", reset in %g s" % self.reset_s
        return "%g%s requests left%s" % (self.remaining, limit, reset)

    @property
    def is_low(self) -> bool:
        """Whether so little is left that it must be spread over the time until the reset."""
        if self.remaining is None or self.reset_s is None:
            return False
        return self.remaining < max(LOW_QUOTA, (self.limit or 0) / 10)

    @property
    def can_change_limit(self) -> bool:
        """Whether a bucket may have to adapt: not if plenty is left."""
        return self.remaining is None or self.is_low

    @property
    def per_second(self) -> float:
        """The requests per second that the quota allows until it is renewed."""
        if self.remaining is None:
            return (self.limit or 0) / (self.window_s or 1)
        return self.remaining / max(_SHORTEST_RESET_S, self.reset_s or LONGEST_S)


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
        warning = _ignored(name, text)
    return None, warning


def _ignored(name: str, text: str) -> str:
    shown = text if len(text) <= 40 else text[:37] + "..."
    return "ignored %s: %r, which makes no sense" % (name, shown)


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
    """The quota that allows least, in any of the header dialects; None if no header is usable.

    draft-ietf-httpapi-ratelimit-headers has RateLimit-Remaining and -Reset (in seconds) up to
    version 06, one dictionary in 07, and a list of policies from 08 on. X-RateLimit-* is older than
    all of these; depending on the vendor, its reset is a number of seconds or an instant.
    """
    quotas = []
    if "ratelimit" in headers or "ratelimit-policy" in headers:
        quotas = _parse_combined(headers.get("ratelimit", ""), headers.get("ratelimit-policy", ""))
    for remaining_name, reset_name, limit_name in _QUOTA_HEADERS:
        if remaining_name not in headers:
            continue
        remaining = parse_number(headers[remaining_name])
        if remaining is None and _is_overdrawn(headers, remaining_name, limit_name):
            remaining = 0.0
        if remaining is not None:
            reset_s = None
            if reset_name in headers:
                reset_s = _parse_reset(headers[reset_name], headers, received_at)
            limit = None
            if limit_name in headers:
                # Up to draft 06, the policies follow the limit: `60, 60;w=60`.
                limit = parse_number(headers[limit_name].partition(",")[0])
            quotas.append(Quota(remaining, reset_s, limit))
    if len(quotas) == 1:  # most servers use one dialect
        return quotas[0]
    return min(quotas, key=_precedence, default=None)


def quota_warning(headers: Mapping[str, str], quota: Optional[Quota]) -> str:
    """The warning about the headers that this quota was read from; '' if they are all right."""
    if quota is None:
        return _unreadable_warning(headers) or _negative_warning(headers)
    is_complete = quota.reset_s is not None and quota.limit is not None
    return "" if is_complete else _negative_warning(headers)


def _unreadable_warning(headers: Mapping[str, str]) -> str:
    """The warning about a RateLimit header that has no number in it; '' if there is none.

    Some servers send other things in X-RateLimit-*, so only the headers of the draft count.
    """
    for name in ("ratelimit", "ratelimit-policy"):
        text = headers.get(name, "").strip()
        is_readable = len(text) <= LONGEST_VALUE and _signed_parameters(text)
        if text and not is_readable:
            return _ignored(name, text)
    return ""


def _negative_warning(headers: Mapping[str, str]) -> str:
    """The warning about a negative reset or limit, which is ignored; '' if there is none.

    It does not quote the number: a reset may be another one in each reply.
    """
    for remaining_name, reset_name, limit_name in _QUOTA_HEADERS:
        if remaining_name not in headers:
            continue
        for name in (reset_name, limit_name):
            is_negative = name in headers and _is_negative(headers[name].partition(",")[0])
            if is_negative and not _is_unlimited(headers, remaining_name, limit_name):
                return "ignored %s, which is negative" % name
    for name in ("ratelimit", "ratelimit-policy"):
        text = headers.get(name, "")
        if "-" in text and len(text) <= LONGEST_VALUE and _negative_parameters(text):
            return "ignored a negative number in %s" % name
    return ""


def _is_overdrawn(headers: Mapping[str, str], remaining_name: str, limit_name: str) -> bool:
    """Whether less than nothing is left, and not because the limit is -1 as well: unlimited."""
    is_unlimited = _is_unlimited(headers, remaining_name, limit_name)
    return not is_unlimited and _is_negative(headers[remaining_name])


def _is_unlimited(headers: Mapping[str, str], remaining_name: str, limit_name: str) -> bool:
    """Whether both the remaining requests and the limit are negative."""
    return _is_negative(headers[remaining_name]) and _is_negative(headers.get(limit_name, ""))


def _is_negative(text: str) -> bool:
    number = text.strip()
    return number.startswith("-") and parse_number(number[1:]) is not None


def _precedence(quota: Quota) -> Tuple[bool, bool, float]:
    """Sorts quotas: first those that are low, last those that only name a limit."""
    return not quota.is_low, quota.remaining is None, quota.per_second


def has_limit_headers(headers: Mapping[str, str], received_at: Optional[float]) -> bool:
    """Whether the headers mark an error as a rate limit: a Retry-After, or an empty quota."""
    quota = parse_quota(headers, received_at)
    is_empty = quota is not None and quota.remaining == 0
    return is_empty or parse_retry_after(headers, received_at)[0] is not None


def _parse_combined(combined: str, policy: str) -> List[Quota]:
    """The quotas of RateLimit and RateLimit-Policy, in the syntax of draft 07 or of 08 and later.

    A policy that counts something else than requests (`qu`) is ignored. A policy that the RateLimit
    header does not mention still names a limit.
    """
    # Draft 10: `RateLimit: "default";r=50;t=30`, `RateLimit-Policy: "default";q=100;w=60`.
    if len(combined) > LONGEST_VALUE or len(policy) > LONGEST_VALUE:
        return []
    policies = {}
    other_units = set()
    for name, text in re.findall(_POLICY, policy):
        unit = re.search(_UNIT, text)
        if unit is not None and unit.group(1) != "requests":
            other_units.add(name)
        else:
            policies[name] = _parameters(text)
    quotas = []
    for name, text in re.findall(_POLICY, combined):
        values = _parameters(text)
        named = policies.pop(name, {})
        if "r" in values and name not in other_units:
            reset_s = _limit_delay(values.get("t"))
            quotas.append(Quota(values["r"], reset_s, named.get("q")))
    for named in policies.values():
        if named.get("q") and _limit_delay(named.get("w")):
            quotas.append(Quota(None, None, named["q"], named["w"]))
    # Draft 07: `RateLimit: limit=100, remaining=50, reset=30`.
    values = _parameters(combined)
    if "remaining" in values:
        reset_s = _limit_delay(values.get("reset"))
        quotas.append(Quota(values["remaining"], reset_s, values.get("limit")))
    return quotas


def _parameters(text: str) -> Dict[str, float]:
    """The numbers from 0; a negative number of remaining requests counts as 0."""
    values = {}
    for name, value in _signed_parameters(text):
        if value >= 0:
            values[name] = value
        elif name in _REMAINING_PARAMETERS:
            values[name] = 0.0
    return values


def _negative_parameters(text: str) -> List[str]:
    """The names of negative numbers that are ignored."""
    values = _signed_parameters(text)
    return [name for name, value in values if value < 0 and name not in _REMAINING_PARAMETERS]


def _signed_parameters(text: str) -> List[Tuple[str, float]]:
    plain = re.sub(_QUOTED, "", text)  # a comment may look like a parameter
    return [(name, float(value)) for name, value in re.findall(_PARAMETER, plain)]


def _parse_reset(
    text: str, headers: Mapping[str, str], received_at: Optional[float]
) -> Optional[float]:
    """The seconds until the reset, which is given as seconds, a duration or an instant."""
    if not text:
        return None
    value = parse_number(text)
    if value is not None and value < 1e9:
        return _limit_delay(value)
    if value is None:
        duration = _parse_go_duration(text.strip())
        if duration is not None:
            return _limit_delay(duration)
    instant = parse_timestamp(text)
    now = server_time(headers, received_at)
    if instant is None or now is None:
        return None
    return _limit_delay(max(0.0, instant - now))


def _parse_go_duration(text: str) -> Optional[float]:
    """A duration as Go prints it, in seconds."""
    milliseconds = re.fullmatch(_GO_MILLISECONDS, text)
    if milliseconds:
        return float(milliseconds.group(1)) / 1000
    match = re.fullmatch(_GO_DURATION, text)
    if not match or not text:
        return None
    hours, minutes, seconds = match.groups()
    return 3600.0 * int(hours or 0) + 60.0 * int(minutes or 0) + float(seconds or 0)


def _limit_delay(delay: Optional[float]) -> Optional[float]:
    """A delay, or None if it is absurdly long."""
    return delay if delay is not None and delay <= LONGEST_S else None
