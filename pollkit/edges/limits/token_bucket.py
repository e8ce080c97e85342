"""TokenBucket: one rate limit for the threads of a process."""

import threading
from typing import Callable, Optional, Union

from ...core.limits import bucket as arithmetic
from ...core.limits.bucket import Bucket
from ...core.reading.verdict import Reading, Verdict
from ...core.units import NEVER, Limit, parse_limit, to_seconds
from ...errors import ConfigError
from ..clock import Clock


class TokenBucket:
    """A rate limit that pollers in any number of threads share.

    `count` polls per `per` seconds (1 by default), at most `burst` of them at once. Or `count` is
    a limit as in a profile: '60/m', '10/s burst 20', or several, such as '60/m, 5000/d'. For a
    limit without a burst, the bucket is a little slower than the limit. So even a server that
    counts in fixed windows never counts too many polls. Without a count, the bucket learns a limit
    from 429s.

    Callers get tokens in the order in which they ask.

    >>> bucket = TokenBucket(60, per=60, burst=5)
    >>> [bucket.reserve(now=100.0) for _ in range(7)]
    [100.0, 100.0, 100.0, 100.0, 100.0, 101.0, 102.0]
    >>> TokenBucket("10/s burst 20").interval
    0.1
    """

    def __init__(
        self,
        count: Union[float, str, Limit, None] = None,
        per: Union[str, float, None] = None,
        burst: Optional[float] = None,
        clock: Optional[Clock] = None,
    ) -> None:
        self._bucket = _build_bucket(count, per, burst)
        self._clock = clock or Clock()
        self._lock = threading.Lock()
        # Seconds of delay that one more request would save, by the caller's queue. A SharedBucket
        # stores it with the next token.
        self.shadow_price = 0.0

    @property
    def pause_count(self) -> int:
        """How often the bucket was paused: slots reserved before the last pause are void."""
        return self._current().pause_count

    @property
    def interval(self) -> float:
        """Seconds between two polls once the burst is used up; 0 if no limit is known."""
        return arithmetic.grant_interval(self._current())

    @property
    def spacing(self) -> float:
        """Seconds that are always between two polls: the interval, or 0 if a burst is allowed."""
        bucket = self._current()
        return arithmetic.grant_interval(bucket) if bucket.burst < 2 else 0.0

    def reserve(self, now: float, latest: float = NEVER, is_final: bool = False) -> float:
        """Reserve the next slot and return its instant; if that is after `latest`, reserve none.

        `now` is this instant on the bucket's clock. The final poll of a job (`is_final`) ignores
        a limit that was learned or guessed; only a pause and a known limit delay it.
        """
        with self._lock:
            self._bucket, ready_at = arithmetic.reserve(self._bucket, now, latest, is_final)
        return ready_at

    def acquire(
        self, timeout: Union[str, float, None] = None, stop: Optional[threading.Event] = None
    ) -> bool:
        """Wait for a token; False if none comes within `timeout`, or if `stop` is set."""
        now = self._clock.now()
        latest = NEVER if timeout is None else now + to_seconds(timeout, "timeout")
        pauses = -1
        while True:
            if pauses != self.pause_count:
                # Read before reserving: a pause in between then costs a slot, not the limit.
                pauses = self.pause_count
                ready_at = self.reserve(now, latest)
            is_stopped = stop is not None and stop.is_set()
            if ready_at > latest or is_stopped:
                return False
            if ready_at <= now:
                return True
            self._clock.sleep_until(ready_at, stop)
            now = self._clock.now()

    def pause(self, now: float, until: float) -> None:
        """Grant nothing before `until`."""
        self._change(lambda bucket: arithmetic.pause(bucket, now, until))

    def apply_feedback(self, reading: Reading, now: float, until: float) -> None:
        """Apply the rate limit headers of a reply; after a 429, pause until `until`."""
        if reading.verdict is Verdict.LIMITED or reading.quota is not None:
            self._change(lambda bucket: arithmetic.apply_feedback(bucket, reading, now, until))

    def restart(self) -> None:
        """Start slowly again after an outage, if no limit is known."""
        self._change(arithmetic.restart)

    # A SharedBucket overrides these two, and `reserve`.

    def _current(self) -> Bucket:
        return self._bucket

    def _change(self, change: Callable[[Bucket], Bucket]) -> None:
        with self._lock:
            self._bucket = change(self._bucket)


def _build_bucket(
    count: Union[float, str, Limit, None], per: Union[str, float, None], burst: Optional[float]
) -> Bucket:
    limit = parse_limit(count) if isinstance(count, str) else count
    per_s = to_seconds(1.0 if per is None else per, "per")
    if per_s <= 0:
        raise ConfigError("a bucket's period must be above zero, not %r" % (per,))
    if burst is not None and not (_is_number(burst) and burst >= 1):
        raise ConfigError("a bucket's burst is at least 1, not %r" % (burst,))
    if limit is None:
        return arithmetic.bucket_from_limit(None)
    if not isinstance(limit, Limit):
        if not (_is_number(limit) and limit > 0):
            raise ConfigError(
                "a bucket's count must be above zero, or a limit such as '60/m', not %r" % (count,)
            )
        return Bucket(limit / per_s, float(burst or 1))
    if per is not None:
        raise ConfigError("%r has a period: write TokenBucket('60/m') without per" % (count,))
    if burst is None:
        return arithmetic.bucket_from_limit(limit)
    if limit.burst:
        raise ConfigError("%r has a burst: leave out burst=%r" % (count, burst))
    return arithmetic.bucket_from_limit(limit._replace(burst=burst))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e12
