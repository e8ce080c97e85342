"""The rate limit that pollers share, as arithmetic (GCRA, the "leaky bucket as a meter").

House rules: a Bucket is an immutable value; every function takes `now` and returns a new one. No
slot is granted twice or too early, so over any window of W seconds there are at most
rate * W + burst grants.

Theory. One number replaces a bucket of tokens: `full_at`, the instant at which the bucket would be
full again. A grant moves it on by one interval; the next grant is possible as soon as `full_at` is
at most burst - 1 intervals away. Slots can be reserved ahead; they are granted in the order of the
requests. Limits over longer periods, such as 5000 a day, are counted besides: see windows.py.

A pause cancels every slot that is not used yet: its holder sees that `pause_count` has grown, and
reserves again. A pause also empties the bucket: a server that has just sent a 429 must not get a
burst.

If no limit is known (`rate` is None), the bucket starts slowly, with START_RATE after a small
burst, and doubles the rate every second. That spreads a wave of jobs but does not delay a few. The
first 429 ends that and sets a learned rate: half of the actual rate at that moment. It grows
slowly, and each further 429 halves it. (Additive increase would need to know the scale; doubling
every DOUBLING_S does not.)
"""

from typing import NamedTuple, Optional, Tuple

from ..reading.rate_limit_headers import Quota
from ..reading.verdict import Reading, Verdict
from ..units import LONG_AGO, NEVER, Limit
from .windows import Window, windows_from_limit

DOUBLING_S = 300.0  # a learned rate doubles in this time without a 429
FLOW_S = 10.0  # the actual rate is measured over this time
LOWEST_RATE = 1 / 60.0
START_RATE = 10.0
START_BURST = 5.0
PRICE_LASTS_S = 60.0  # a shadow price is out of date if the bucket was full for so long
ENOUGH_RATE = 10000.0  # from here on there is no limit
# One request may take so much longer to arrive than the next. Twice as much for '60/m', or in
# proportion to longer periods, would only delay polls: 2 % with 60/m, 3 % with 1000/h.
LONGEST_MARGIN_S = 1.0
MARGIN_SHARE = 1 / 29.0  # of a period shorter than 29 s


class Bucket(NamedTuple):
    """The state of one limit. Shared buckets store it by field name."""

    rate: Optional[float]  # grants per second; None: no limit known
    burst: float = 1.0
    learned: bool = False  # the rate was learned from a 429
    full_at: float = LONG_AGO
    paused_until: float = LONG_AGO
    pause_count: int = 0  # slots reserved before the last pause are void
    slow_interval: float = 0.0  # seconds between polls that spread the rest of a quota
    slow_until: float = LONG_AGO  # when the quota is renewed
    slow_next: float = LONG_AGO
    flow: float = 0.0  # recent grants, each fading out over FLOW_S
    flow_from: float = LONG_AGO
    flow_at: float = LONG_AGO
    rate_at: float = LONG_AGO  # when a learned rate was last changed
    windows: Tuple[Window, ...] = ()  # the limits over longer periods
    shadow_price: float = 0.0  # seconds of delay that one more request would save, when last known


_FULL_AT = Bucket._fields.index("full_at")


def bucket_from_limit(limit: Optional[Limit]) -> Bucket:
    """A bucket for a limit as it is written.

    The server may count '60/m' in fixed windows. So, without a burst, 60 polls are spread over a
    little more than a minute: even if some take longer to arrive than others, no window has more.
    A burst is used as given.
    """
    if limit is None:
        return Bucket(None, START_BURST)
    windows = windows_from_limit(limit)
    if limit.burst:
        return Bucket(limit.polls / limit.per, float(limit.burst), windows=windows)
    margin_s = min(LONGEST_MARGIN_S, limit.per * MARGIN_SHARE)
    return Bucket(limit.polls / (limit.per + margin_s), windows=windows)


def reserve(
    bucket: Bucket, now: float, latest: float = NEVER, is_final_poll: bool = False
) -> Tuple[Bucket, float]:
    """Reserve the next slot and return its instant; if that is after `latest`, reserve nothing.

    A final poll is delayed only by a known limit and by a pause, not by our own caution: a learned
    rate, or a quota that is spread out.
    """
    # Every poll comes here, and max() takes as long as ten comparisons.
    start = now if now > bucket.paused_until else bucket.paused_until
    ready_at = start
    rate = _rate(bucket, start)
    interval = 1 / rate if rate else 0.0
    ignores_rate = is_final_poll and is_guess(bucket)
    if rate and not ignores_rate:
        next_slot = bucket.full_at - (bucket.burst - 1) * interval
        if next_slot > start:
            ready_at = next_slot
    is_slow = ready_at < bucket.slow_until
    if is_slow and not is_final_poll:
        ready_at = max(ready_at, min(bucket.slow_next, bucket.slow_until))
    for window in bucket.windows:
        ready_at = max(ready_at, window.room_at)
    if ready_at > latest:
        return bucket, ready_at
    if bucket.windows:
        windows = tuple(window.add_grant(ready_at, now) for window in bucket.windows)
        bucket = bucket._replace(windows=windows)
    if is_slow:
        bucket = bucket._replace(slow_next=ready_at + bucket.slow_interval)
    elif bucket.slow_next != LONG_AGO:
        bucket = bucket._replace(slow_next=LONG_AGO)
    full_from = ready_at if ready_at > bucket.full_at else bucket.full_at
    full_at = full_from + interval
    if bucket.rate is None:
        return _add_to_flow(bucket, start, full_at), ready_at
    # The usual case with a limit: slicing is faster than _replace.
    return Bucket._make(bucket[:_FULL_AT] + (full_at,) + bucket[_FULL_AT + 1 :]), ready_at


def current_shadow_price(bucket: Bucket, now: float) -> float:
    """Seconds of delay that one more request would save; 0 unless the limit delays polls now."""
    if bucket.rate is None or bucket.full_at < now - PRICE_LASTS_S:
        return 0.0
    return bucket.shadow_price


def is_guess(bucket: Bucket) -> bool:
    """Whether the rate is a guess or learned, and no limit is known."""
    return bucket.rate is None or bucket.learned


def grant_interval(bucket: Bucket) -> float:
    """Seconds between two grants of a known limit; 0 if none is known."""
    return 0.0 if bucket.rate is None or bucket.learned else 1 / bucket.rate


def pause(bucket: Bucket, now: float, until: float) -> Bucket:
    """Grant nothing before `until`."""
    if until <= max(now, bucket.paused_until):
        return bucket
    bucket = restart(bucket)  # otherwise all who wait would poll at the end of the pause
    rate = _rate(bucket, now)
    interval = 1 / rate if rate else 0.0
    # Slots after `now` become void, so at most one burst has been used up.
    used_until = min(bucket.full_at, now + bucket.burst * interval)
    return bucket._replace(
        full_at=max(used_until, until + (bucket.burst - 1) * interval),
        slow_next=LONG_AGO,
        paused_until=until,
        pause_count=bucket.pause_count + 1,
        windows=tuple(window.drop_after(now) for window in bucket.windows),
    )


def restart(bucket: Bucket) -> Bucket:
    """Start slowly again, if no limit is known: many jobs may have become due meanwhile."""
    return bucket._replace(flow=0.0) if bucket.rate is None else bucket


def apply_feedback(bucket: Bucket, reading: Reading, now: float, until: float) -> Bucket:
    """Update the bucket after a reply: a 429, or a quota that runs low.

    A 429 pauses for its Retry-After; without one, until `until`, when its own job is polled again.
    """
    if reading.verdict is Verdict.LIMITED:
        if reading.retry_after:
            until = now + reading.retry_after
        return apply_429(bucket, now, until)
    return bucket if reading.quota is None else apply_quota(bucket, reading.quota, now)


def apply_429(bucket: Bucket, now: float, until: float) -> Bucket:
    """Pause after a 429; if no limit is known, learn one."""
    # Replies to requests that were in flight together count once: the first pauses the bucket.
    if is_guess(bucket) and now >= bucket.paused_until:
        rate = _rate(bucket, now) if bucket.learned else None
        if rate is None:
            rate = bucket.flow / min(FLOW_S, max(1.0, now - bucket.flow_from))
        bucket = bucket._replace(
            rate=max(LOWEST_RATE, rate / 2), burst=1.0, learned=True, rate_at=max(now, until)
        )
    return pause(bucket, now, until)


def apply_quota(bucket: Bucket, quota: Quota, now: float) -> Bucket:
    """Slow down before a limit is hit, if the server reports that little of a quota is left.

    The rest is spread evenly over the time until the quota is renewed. If nothing is left, the
    bucket pauses until then; if plenty is left, nothing changes. If the server only names its
    limit, a bucket that knows none adopts it.
    """
    if quota.remaining is None:
        return _adopt_limit(bucket, quota, now)
    if quota.reset_s is None or not quota.is_low:
        return bucket
    if quota.remaining < 1:
        return pause(bucket, now, now + quota.reset_s)
    interval = quota.reset_s / quota.remaining
    return bucket._replace(
        slow_interval=interval,
        slow_until=now + quota.reset_s,
        slow_next=max(bucket.slow_next, now + interval),
    )


def _adopt_limit(bucket: Bucket, quota: Quota, now: float) -> Bucket:
    if not is_guess(bucket) or not quota.limit or not quota.window_s:
        return bucket
    named = bucket_from_limit(Limit(quota.limit, quota.window_s))
    full_at = max(bucket.full_at, now)
    return bucket._replace(rate=named.rate, burst=named.burst, learned=False, full_at=full_at)


def _rate(bucket: Bucket, now: float) -> Optional[float]:
    """Grants per second at this instant; None: no limit."""
    if bucket.rate is None:
        age = now - bucket.flow_from if bucket.flow else 0.0
        rate = START_RATE * 2 ** min(30.0, age)
        return rate if rate < ENOUGH_RATE else None
    if not bucket.learned:
        return bucket.rate
    return bucket.rate * 2 ** min(30.0, max(0.0, now - bucket.rate_at) / DOUBLING_S)


def _add_to_flow(bucket: Bucket, now: float, full_at: float) -> Bucket:
    """Count a grant, for a bucket that may have to learn its rate."""
    if not bucket.flow:
        return bucket._replace(flow=1.0, flow_from=now, flow_at=now, full_at=full_at)
    faded = bucket.flow * max(0.0, 1 - (now - bucket.flow_at) / FLOW_S)
    return bucket._replace(flow=faded + 1, flow_at=now, full_at=full_at)
