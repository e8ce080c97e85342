"""The rate limit that pollers share, as arithmetic (GCRA, the 'leaky bucket as a meter').

House rules: a Bucket is an immutable value; every function takes `now` and gives back a new
one. No slot is ever granted twice and none is granted early, so that over any window of W
seconds there are at most rate·W + burst grants.

Theory. One number does the work of a bucket of tokens: `full_at`, the instant at which the
bucket would be full again. A grant moves it on by one interval; one may be had as soon as
`full_at` is at most burst - 1 intervals away. Grants may be reserved ahead; they come in the
order in which they were asked for, first come, first served.

A pause makes void every slot that is not used yet: whoever holds one finds that `pause_count` has
grown, and reserves again. It also empties the bucket: a server that has just said 'too many' is
not met with a burst.

Where no limit is known (`rate` None), the bucket starts slowly, START_RATE after a small burst,
and doubles it every second: a wave of jobs is spread, a few are not held back. The first 429
ends that. From then on the bucket has a rate of its own: half of what it was doing when it was
told off, growing back slowly, halved again at the next 429 (additive increase would need to know
the scale; doubling every DOUBLING_S does not).
"""

from typing import NamedTuple, Optional, Tuple

from ..reading.rate_limit_headers import Quota
from ..reading.reader import Reading, Verdict
from ..units import Limit

DOUBLING_S = 300.0  # a learned rate doubles in this time without a 429
FLOW_S = 10.0  # over how long one's own flow is measured
LOWEST_RATE = 1 / 60.0
START_RATE, START_BURST, ENOUGH_RATE = 10.0, 5.0, 10000.0
LOW_QUOTA = 10.0  # with fewer requests left than this, or than a tenth of the limit, slow down
NEVER = float("-inf")
ALWAYS = float("inf")


class Bucket(NamedTuple):
    """The state of one limit."""

    rate: Optional[float]  # grants a second; None: no limit known
    burst: float = 1.0
    learned: bool = False  # the rate was found out by being told off
    full_at: float = NEVER
    paused_until: float = NEVER
    pause_count: int = 0  # how many there were: slots reserved before the last are void
    slow_interval: float = 0.0  # what is left of a quota, spread until it is renewed
    slow_until: float = NEVER
    slow_next: float = NEVER
    flow: float = 0.0  # grants, each fading away over FLOW_S
    flow_from: float = NEVER
    flow_at: float = NEVER
    rate_at: float = NEVER  # when a learned rate was last changed


_FULL_AT = Bucket._fields.index("full_at")


def bucket_from_limit(limit: Optional[Limit]) -> Bucket:
    """A bucket that keeps a limit as written.

    '60/m' is what a server counts, perhaps in fixed windows: with burst 1 and 58/60 of the
    rate no window can hold more than its count. A burst that is named is taken at its word.
    """
    if limit is None:
        return Bucket(None, START_BURST)
    if limit.burst:
        return Bucket(limit.polls / limit.per, float(limit.burst))
    return Bucket(limit.polls / limit.per * 58 / 60)


def reserve(
    bucket: Bucket, now: float, latest: float = ALWAYS, last_look: bool = False
) -> Tuple[Bucket, float]:
    """Take the next slot: the instant at which it may be used.

    A slot later than `latest` is told but not taken. What only we ourselves think wise, a
    learned rate or a quota spread thin, does not stand in the way of a `last_look`; a known
    limit and a pause do.
    """
    ready_at = start = max(now, bucket.paused_until)
    rate = _rate(bucket, start)
    interval = 1 / rate if rate else 0.0
    if rate and not (last_look and is_guess(bucket)):
        ready_at = max(start, bucket.full_at - (bucket.burst - 1) * interval)
    slow = ready_at < bucket.slow_until
    if slow and not last_look:
        ready_at = max(ready_at, min(bucket.slow_next, bucket.slow_until))
    if ready_at > latest:
        return bucket, ready_at
    if bucket.rate is None:
        bucket = _flowed(bucket, now)
    full_at = max(bucket.full_at, ready_at) + interval
    if not slow and bucket.slow_next == NEVER:  # as a rule; and _replace takes its time
        return Bucket._make(bucket[:_FULL_AT] + (full_at,) + bucket[_FULL_AT + 1 :]), ready_at
    return bucket._replace(
        full_at=full_at, slow_next=ready_at + bucket.slow_interval if slow else NEVER
    ), ready_at


def is_guess(bucket: Bucket) -> bool:
    """Whether the rate is the bucket's own idea rather than a limit that somebody named."""
    return bucket.rate is None or bucket.learned


def grant_interval(bucket: Bucket) -> float:
    """Seconds between two grants where a limit is known; 0 where none is."""
    return 0.0 if bucket.rate is None or bucket.learned else 1 / bucket.rate


def pause(bucket: Bucket, now: float, until: float) -> Bucket:
    """Grant nothing before `until`."""
    if until <= max(now, bucket.paused_until):
        return bucket
    rate = _rate(bucket, now)
    interval = 1 / rate if rate else 0.0
    # Of the slots up to here, those that count were used by now: no more than that is owed.
    owed = min(bucket.full_at, now + bucket.burst * interval)
    return bucket._replace(
        full_at=max(owed, until + (bucket.burst - 1) * interval),
        slow_next=NEVER,
        paused_until=until,
        pause_count=bucket.pause_count + 1,
    )


def apply_feedback(bucket: Bucket, reading: Reading, now: float, until: float) -> Bucket:
    """What a reply means for everyone: a 429, or a quota that runs low.

    A 429 pauses for as long as it says; where it names no time, until its own job asks again.
    """
    if reading.verdict is Verdict.LIMITED:
        return apply_429(bucket, now, now + reading.retry_after if reading.retry_after else until)
    return bucket if reading.quota is None else apply_quota(bucket, reading.quota, now)


def apply_429(bucket: Bucket, now: float, until: float) -> Bucket:
    """A 429 came: everyone pauses, and a bucket that knows no limit learns one."""
    if is_guess(bucket) and now >= bucket.paused_until:
        # Replies to requests that were under way together say one thing, and are heard once.
        rate = bucket.flow / min(FLOW_S, max(1.0, now - bucket.flow_from))
        if bucket.learned:
            rate = _rate(bucket, now) or rate
        bucket = bucket._replace(
            rate=max(LOWEST_RATE, rate / 2), burst=1.0, learned=True, rate_at=max(now, until)
        )
    return pause(bucket, now, until)


def apply_quota(bucket: Bucket, quota: Quota, now: float) -> Bucket:
    """Slow down before a limit is hit, when the server says how little is left of it.

    What is left is spread evenly over the time until it is renewed; with nothing left, that
    is a pause. With plenty left, nothing happens.
    """
    if quota.reset_s is None or quota.remaining >= max(LOW_QUOTA, (quota.limit or 0) / 10):
        return bucket
    if quota.remaining < 1:
        return pause(bucket, now, now + quota.reset_s)
    interval = quota.reset_s / quota.remaining
    return bucket._replace(
        slow_interval=interval,
        slow_until=now + quota.reset_s,
        slow_next=max(bucket.slow_next, now + interval),
    )


def _rate(bucket: Bucket, now: float) -> Optional[float]:
    """Grants a second at this instant; None: as many as anybody wants."""
    if bucket.rate is None:
        rate = START_RATE * 2 ** min(30.0, now - bucket.flow_from) if bucket.flow else START_RATE
        return rate if rate < ENOUGH_RATE else None
    if not bucket.learned:
        return bucket.rate
    return bucket.rate * 2 ** min(30.0, max(0.0, now - bucket.rate_at) / DOUBLING_S)


def _flowed(bucket: Bucket, now: float) -> Bucket:
    """One more grant, for a bucket that may have to find out its own rate."""
    if not bucket.flow:
        return bucket._replace(flow=1.0, flow_from=now, flow_at=now)
    faded = bucket.flow * max(0.0, 1 - (now - bucket.flow_at) / FLOW_S)
    return bucket._replace(flow=faded + 1, flow_at=now)
