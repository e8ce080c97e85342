"""A range of time for which one process alone has a shared limit.

House rules: a TokenRange is an immutable value.

Theory. To ask a database server for every token takes longer than the poll. So a process reserves
`count` tokens at once: `full_at` of the bucket moves on by as many intervals, and the process may
use the limit for as long, one token per interval, the last one an interval before the end. So two
tokens of the range are at least an interval apart, and so are its last one and the first one of the
next process: no window has more tokens than the limit allows. Tokens that are not used in time are
lost, also if the process dies.
"""

from typing import NamedTuple, Tuple

from ..units import NEVER
from .bucket import Bucket


class TokenRange(NamedTuple):
    """The rest of a range."""

    next_at: float  # the next token can be used from here on
    last_at: float  # no token can be used after this
    interval: float

    @property
    def is_used_up(self) -> bool:
        """Whether no token was lost so far, and none is left."""
        return self.next_at > self.last_at

    def reserve(self, now: float, latest: float) -> "Tuple[TokenRange, float]":
        """Take the next token and return its instant, NEVER if there is none.

        If its instant is after `latest`, it is not taken.
        """
        ready_at = max(now, self.next_at)
        if ready_at > self.last_at:
            return self, NEVER
        if ready_at > latest:
            return self, ready_at
        return self._replace(next_at=ready_at + self.interval), ready_at


NO_TOKENS = TokenRange(NEVER, 0.0, 0.0)


def reserve_range(bucket: Bucket, now: float, count: int) -> Tuple[Bucket, TokenRange]:
    """Reserve the `count` tokens after one that was granted at `now`.

    Only the known rate of the bucket delays them: see `can_use_ranges`.
    """
    interval = 1 / bucket.rate if bucket.rate else 0.0
    after = bucket._replace(full_at=bucket.full_at + count * interval)
    return after, TokenRange(now + interval, now + count * interval, interval)


def can_use_ranges(bucket: Bucket, now: float) -> bool:
    """Whether nothing but its known rate delays the tokens of a bucket."""
    is_known = bucket.rate is not None and not bucket.learned
    return is_known and not bucket.windows and now >= bucket.slow_until
