"""The texts of the live display: when a job is polled next, rates, outages, times.

Functions named `..._texts` return a text in several lengths, the longest first.
"""

from typing import List, NamedTuple, Optional

from ...core.model import one_line
from ...core.scheduling.outages import Outage
from ...core.units import Limit, duration_text, percent
from ...core.waiting.wait_state import FAULT, LIMIT, RETRY_AFTER, WaitState
from ..output.streams import count_text

RATE_TOLERANCE = 1.2  # replies that come late and together look like a higher rate
POLLING_NOW = ["polling now", "now", ""]
_REASONS = {RETRY_AFTER: "Retry-After", FAULT: "fault"}


class Report(NamedTuple):
    """The progress of a job, and when it was reported."""

    fraction: float
    at: float


def next_poll_texts(progress: WaitState, now: float, fault: str = "") -> List[str]:
    """When the next poll is, and the reason if it is not the pace; the longest text first."""
    delay_s = progress.next_at - now
    if progress.ending is not None:
        return [""]
    if delay_s <= 0:
        return POLLING_NOW
    if progress.why == LIMIT:
        return limit_texts(delay_s)
    if delay_s < 9.95:
        delay = "%.1fs" % max(0.1, delay_s)
    else:
        delay = duration_text(round(delay_s))
    short = ["next in " + delay, "in " + delay, ""]
    reason = _REASONS.get(progress.why)
    if reason is None:
        return ["next poll in " + delay] + short
    long = "next poll in %s (%s)" % (delay, reason)
    if fault and progress.why == FAULT:
        return ["next poll in %s (%s)" % (delay, one_line(fault, 90)), long] + short
    return [long, "in %s (%s)" % (delay, reason)] + short


def limit_texts(delay_s: float) -> List[str]:
    """That the rate limit delays the next poll, and for how long; the longest text first."""
    delay = duration_text(max(1, round(delay_s)))
    return [
        "waits for the rate limit, about " + delay,
        "rate limit, about " + delay,
        "limit " + delay,
        "limit",
        "",
    ]


def rate_texts(polls: int, within_s: float, limit: Optional[Limit]) -> List[str]:
    """The requests per minute, next to the limit if there is one; the longest text first.

    A burst uses tokens that the bucket has saved before, so the time in which it saved them
    counts, too. Otherwise, a burst of 5 in the first second would be shown as 300 per minute.
    """
    if limit is not None:
        allowed = limit.polls / limit.per * 60
        saved_s = limit.burst * limit.per / limit.polls
        rate = polls / (within_s + saved_s) * 60
        # A higher rate is possible if jobs of several origins or profiles have a limit each.
        if rate <= allowed * RATE_TOLERANCE:
            rate = min(rate, allowed)
            return [
                "%s per minute of %.0f allowed" % (count_text(round(rate), "request"), allowed),
                "%.0f/%.0f per min" % (rate, allowed),
            ]
    rate = polls / within_s * 60
    return ["%s per minute" % count_text(round(rate), "request"), "%.0f/min" % rate]


def outage_texts(outage: Outage, now: float) -> List[str]:
    """That an origin is down, for how long, and when it is polled again."""
    origin = one_line(outage.origin, 100)
    text = "%s: down for %s" % (origin, clock_text(now - outage.began_at))
    delay_s = outage.next_probe_at - now
    if delay_s <= 0:
        return [text + ", trying now", text]
    delay = duration_text(max(1, round(delay_s)))
    return ["%s, next try in %s" % (text, delay), "%s, next in %s" % (text, delay), text]


def eta(first: Optional[Report], latest: Optional[Report], now: float) -> Optional[float]:
    """Seconds until the job finishes at the speed between two reports; None if that is unknown."""
    if first is None or latest is None or first.at >= latest.at:
        return None
    speed = (latest.fraction - first.fraction) / (latest.at - first.at)
    remaining_s = latest.at + (1 - latest.fraction) / speed - now
    return remaining_s if remaining_s > 0 else None


def percent_text(fraction: float) -> str:
    """A fraction in percent."""
    return "%d%%" % percent(min(1.0, max(0.0, fraction)))


def amount_texts(fraction: float, total: Optional[float]) -> List[str]:
    """A fraction in percent and, if the total is a whole number, in counts; the longest first."""
    percentage = percent_text(fraction)
    if total is None or total % 1:
        return [percentage]
    count = round(fraction * total)
    return ["%s (%d of %d)" % (percentage, count, total), "%d/%d" % (count, total), percentage]


def clock_text(duration: float) -> str:
    """0:12, 12:34, 1:02:03."""
    minutes, seconds = divmod(int(max(0.0, duration)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return "%d:%02d:%02d" % (hours, minutes, seconds)
    return "%d:%02d" % (minutes, seconds)


def spinner(now: float) -> str:
    """A character that changes four times per second, to show that the command is running."""
    return "|/-\\"[int(now * 4) % 4]
