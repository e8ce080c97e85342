"""TokenBucket: one limit for the threads of a process."""

import threading
from typing import Optional, Union

from ...core.limits import bucket as arithmetic
from ...core.reading.reader import Reading
from ...core.units import NEVER, Limit, parse_limit, to_seconds
from ...errors import ConfigError
from ..clock import Clock


class TokenBucket:
    """A rate limit that pollers in any number of threads share.

    `count` tokens every `per` seconds, at most `burst` at once; without a count no limit is
    known and one is learned from 429s. Waiting is first come, first served; nobody holds the
    lock while sleeping.

    >>> bucket = TokenBucket(60, per=60, burst=5)
    >>> [bucket.reserve(now=100.0) for _ in range(7)]
    [100.0, 100.0, 100.0, 100.0, 100.0, 101.0, 102.0]
    """

    def __init__(
        self,
        count: Optional[float] = None,
        per: Union[str, float] = 1.0,
        burst: float = 1,
        clock: Optional[Clock] = None,
    ) -> None:
        if count is not None and not (_number(count) and count > 0):
            raise ConfigError("a bucket's count must be above zero, not %r" % (count,))
        if to_seconds(per, "per") <= 0:
            raise ConfigError("a bucket's period must be above zero, not %r" % (per,))
        if not _number(burst) or burst < 1:
            raise ConfigError("a bucket's burst is at least 1, not %r" % (burst,))
        rate = None if count is None else count / to_seconds(per)
        self._bucket = (
            arithmetic.bucket_from_limit(None)
            if rate is None
            else arithmetic.Bucket(rate, float(burst))
        )
        self._clock = clock or Clock()
        self._lock = threading.Lock()

    @classmethod
    def from_limit(
        cls, limit: Union[str, Limit, None], clock: Optional[Clock] = None
    ) -> "TokenBucket":
        """A bucket for a limit as profiles write it: '60/m', '10/s burst 20'."""
        bucket = cls(clock=clock)
        bucket._bucket = arithmetic.bucket_from_limit(
            parse_limit(limit) if isinstance(limit, str) else limit
        )
        return bucket

    @property
    def pause_count(self) -> int:
        """How often the bucket was paused: a slot that was reserved before the last time is void."""
        return self._bucket.pause_count

    @property
    def interval(self) -> float:
        """How far two polls are apart once the burst is used up; 0 where no limit is known."""
        return arithmetic.grant_interval(self._bucket)

    @property
    def spacing(self) -> float:
        """How far two polls are always apart: the interval, where there is no burst to draw on."""
        return self.interval if self._bucket.burst < 2 else 0.0

    def reserve(self, now: float, latest: float = NEVER, last_look: bool = False) -> float:
        """Take the next slot: the instant it may be used; one after `latest` is told, not taken.

        For a `last_look` only a pause and a known limit count, not what was learned or guessed.
        """
        with self._lock:
            self._bucket, ready_at = arithmetic.reserve(self._bucket, now, latest, last_look)
        return ready_at

    def acquire(
        self, timeout: Union[str, float, None] = None, stop: Optional[threading.Event] = None
    ) -> bool:
        """Wait for a token; False where none came within `timeout`, or `stop` was set."""
        now = self._clock.now()
        latest = NEVER if timeout is None else now + to_seconds(timeout, "timeout")
        pauses = -1
        while True:
            if pauses != self.pause_count:
                pauses = (
                    self.pause_count
                )  # before reserving: a pause in between then costs a slot, not a limit
                ready_at = self.reserve(now, latest)
            if ready_at > latest or (stop is not None and stop.is_set()):
                return False
            if ready_at <= now:
                return True
            self._clock.sleep_until(ready_at, stop)
            now = self._clock.now()

    def pause(self, now: float, until: float) -> None:
        """Grant nothing before `until`."""
        with self._lock:
            self._bucket = arithmetic.pause(self._bucket, now, until)

    def apply_feedback(self, reading: Reading, now: float, until: float) -> None:
        """Take in what a reply says about the limit; after a 429, pause until `until`."""
        with self._lock:
            self._bucket = arithmetic.apply_feedback(self._bucket, reading, now, until)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e12
