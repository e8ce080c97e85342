"""SharedBucket: one rate limit for all processes that name the same file.

The arithmetic is that of core/limits/bucket.py. The storage of a ledger keeps the Bucket. To get a
token, a process reads it and writes it back in one atomic update. Nothing is held in between: a
process that dies loses only the tokens it had not used, and a pause applies to every process at
its next request.

Theory of blocks. If the rate is high, one update per token would cost more than the poll. So
a process takes `block` tokens at once, uses them within `block / rate` seconds (at most BLOCK_S,
so that a pause is noticed soon) and discards the rest. The tokens used in any window of W seconds
were therefore taken within W + block/rate seconds: at most rate·W + block + burst. To stay within
rate·W + burst, the row is kept for a burst that is smaller by one block. If the burst is too small
for that, tokens are taken one by one.

If the storage is a server (Buckets.is_remote), an update takes several round trips. Then a block is
for up to a second, and if the burst is too small for blocks, a process reserves a range of time for
itself (core/limits/token_range.py): twice as long as the last one if that did not suffice, a
second at most. A process reuses the values that it read for a second, so all hosts notice a pause
within that time.
"""

from typing import Callable, NamedTuple, Optional, Tuple, Union

from ...core.limits import bucket as arithmetic
from ...core.limits.bucket import Bucket
from ...core.limits.token_range import NO_TOKENS, TokenRange, can_use_ranges, reserve_range
from ...core.limits.windows import windows_from_limit
from ...core.units import LONG_AGO, NEVER, Limit, parse_limit
from ...errors import LedgerError
from ..clock import Clock
from ..ledger.opening import open_storage
from ..ledger.records import StoredBucket
from ..ledger.storage import Storage
from .token_bucket import TokenBucket

BLOCK_S = 0.05
REMOTE_BLOCK_S = 1.0


class _Grant(NamedTuple):
    """A slot, and further tokens: some that may be used until an instant, or a range."""

    ready_at: float
    spare: int = 0
    spare_until: float = LONG_AGO
    range: TokenRange = NO_TOKENS


class SharedBucket(TokenBucket):
    """A rate limit that processes share by naming a ledger or a separate file; hosts, a database.

    `limit` is as in a profile: '60/m', '10/s burst 20', '60/m, 5000/d'. Without one, the limit in
    the file applies; if there is none either, all processes together learn one from 429s. If two
    processes name different limits, the latest applies to all. Each `name` is a separate limit.

    >>> import os, tempfile
    >>> path, clock = os.path.join(tempfile.mkdtemp(), "limits.db"), Clock()
    >>> here, there, now = SharedBucket(path, "1/s burst 2"), SharedBucket(path), clock.now()
    >>> [round(bucket.reserve(now) - now) for bucket in (here, there, here, there)]
    [0, 0, 1, 2]
    """

    def __init__(
        self,
        path: Union[str, Storage],
        limit: Union[str, Limit, None] = None,
        name: str = "default",
        clock: Optional[Clock] = None,
    ) -> None:
        super().__init__(clock=clock)
        self._storage = path if isinstance(path, Storage) else open_storage(path, self._clock)
        self._buckets = self._storage.buckets
        self._name = name
        self._spare = 0  # tokens left of a block
        self._spare_until = LONG_AGO
        self._range = NO_TOKENS
        self._range_size = 0  # tokens to reserve beside the next one
        self._is_short = False  # whether a token was delayed since the last update
        self._block_s = REMOTE_BLOCK_S if self._buckets.is_remote else BLOCK_S
        self._latest: Optional[Bucket] = None  # as last read
        self._read_at = LONG_AGO
        if isinstance(limit, str):
            limit = parse_limit(limit)
        if limit is not None or self._buckets.read(name) is None:
            now = self._clock.now()
            self._buckets.update(name, lambda stored: (_apply_limit(stored, limit, now), None))

    def close(self) -> None:
        """Close the file; it is opened again when it is next used."""
        self._storage.close()

    def reserve(self, now: float, latest: float = NEVER, is_final: bool = False) -> float:
        """Reserve the next slot and return its instant; if that is after `latest`, reserve none.

        `now` is this instant on the bucket's clock. The final poll of a job (`is_final`) ignores
        a limit that was learned or guessed; only a pause and a known limit delay it.
        """
        with self._lock:
            ready_at = self._reserve(now, latest, is_final)
            self._is_short = self._is_short or ready_at > now
            return ready_at

    def _reserve(self, now: float, latest: float, is_final: bool) -> float:
        if self._spare and max(now, self._clock.now()) <= self._spare_until:
            self._spare -= 1
            return now
        self._range, ready_at = self._range.reserve(now, latest)
        if ready_at < NEVER:
            return ready_at
        # A caller that gets no slot asks often: to refuse it takes no update.
        bucket = _without_block(self._current(), self._block_s)
        _, ready_at = arithmetic.reserve(bucket, now, latest, is_final)
        if ready_at > latest:
            return ready_at
        self._range_size = self._next_range_size(bucket)
        grant = self._buckets.update(
            self._name, lambda stored: self._take(stored, now, latest, is_final)
        )
        self._is_short = False
        self._read_at = LONG_AGO
        self._spare = grant.spare
        self._spare_until = grant.spare_until
        self._range = grant.range
        return grant.ready_at

    def _next_range_size(self, bucket: Bucket) -> int:
        """How many tokens to reserve beside the next one, if the storage is a server."""
        is_busy = self._is_short and self._range.is_used_up
        if not is_busy or not self._buckets.is_remote or bucket.rate is None:
            return 0
        return min(2 * self._range_size + 1, int(bucket.rate * REMOTE_BLOCK_S))

    def _take(
        self, found: Optional[StoredBucket], asked_at: float, latest: float, is_final: bool
    ) -> Tuple[Optional[StoredBucket], _Grant]:
        """Take a token or a block; the bucket to store, and the grant."""
        stored = self._check(found)
        now = max(asked_at, stored.read_at)  # waiting for the update may have taken a while
        latest = max(latest, now)
        bucket = _without_block(stored.bucket, self._block_s)
        bucket, ready_at = arithmetic.reserve(bucket, now, latest, is_final)
        if ready_at > latest:
            return None, _Grant(ready_at)
        block = _block_size(stored.bucket, self._block_s)
        spare = 0
        while ready_at <= now and spare < block - 1:
            bucket, next_at = arithmetic.reserve(bucket, now, now)
            if next_at > now:
                break
            spare += 1
        rest = NO_TOKENS
        if ready_at <= now and not block and can_use_ranges(bucket, now):
            bucket, rest = reserve_range(bucket, now, self._range_size)
        bucket = bucket._replace(burst=stored.bucket.burst, shadow_price=self.shadow_price)
        after = stored._replace(bucket=bucket)
        if ready_at > now:
            return after, _Grant(ready_at)
        if stored.bucket.rate is None or not spare:
            return after, _Grant(asked_at, range=rest)
        return after, _Grant(asked_at, spare, now + block / stored.bucket.rate)

    def _change(self, change: Callable[[Bucket], Bucket]) -> None:
        def work(found: Optional[StoredBucket]) -> Tuple[Optional[StoredBucket], None]:
            stored = self._check(found)
            before = _without_block(stored.bucket, self._block_s)
            after = change(before)
            if after is before:
                return None, None
            if _block_size(stored.bucket, self._block_s):
                after = after._replace(burst=stored.bucket.burst)
            return stored._replace(bucket=after), None

        with self._lock:
            self._spare = 0
            self._range = NO_TOKENS
            self._buckets.update(self._name, work)
            self._read_at = LONG_AGO

    def _current(self) -> Bucket:
        now = self._clock.now()
        is_fresh = self._buckets.is_remote and now < self._read_at + REMOTE_BLOCK_S
        if self._latest is None or not is_fresh:
            self._latest = self._check(self._buckets.read(self._name)).bucket
            self._read_at = now
        return self._latest

    def _check(self, stored: Optional[StoredBucket]) -> StoredBucket:
        if stored is None:
            raise LedgerError(
                "%s no longer has the bucket %r: was the file replaced?"
                % (self._storage.name, self._name)
            )
        return stored


def copy_bucket(
    storage: Storage, limit: Union[str, Limit, None], name: str, clock: Clock
) -> TokenBucket:
    """A bucket of this process only, in the state in which a SharedBucket would be now."""
    parsed = parse_limit(limit) if isinstance(limit, str) else limit
    stored = storage.buckets.read(name)
    current = _apply_limit(stored, parsed, clock.now()) or stored
    copy = TokenBucket(clock=clock)
    if current is not None:
        copy._bucket = current.bucket
    return copy


def _apply_limit(
    stored: Optional[StoredBucket], limit: Optional[Limit], now: float
) -> Optional[StoredBucket]:
    """A new bucket, or the stored one with another limit; None if nothing changes."""
    rule = str(limit or "")
    bucket = arithmetic.bucket_from_limit(limit)
    if stored is None:
        return StoredBucket(rule, bucket, now)
    if limit is None or stored.rule == rule:
        return None
    now = stored.read_at
    latest_full_at = now + bucket.burst * arithmetic.grant_interval(bucket)
    bucket = bucket._replace(
        full_at=min(max(stored.bucket.full_at, now), latest_full_at),
        paused_until=stored.bucket.paused_until,
        pause_count=stored.bucket.pause_count + 1,  # slots under the old limit are void
        windows=windows_from_limit(limit, stored.bucket.windows),
    )
    return stored._replace(rule=rule, bucket=bucket)


def _block_size(bucket: Bucket, block_s: float) -> int:
    """How many tokens are taken at once; 0 if they are taken one by one."""
    if bucket.rate is None or bucket.learned:
        return 0
    if bucket.windows:  # the unused tokens of a block would count
        return 0
    block = int(min(bucket.burst / 2, bucket.rate * block_s))
    return block if block > 1 else 0


def _without_block(bucket: Bucket, block_s: float) -> Bucket:
    """The bucket with the burst that remains if a block may be in use at any time."""
    block = _block_size(bucket, block_s)
    return bucket._replace(burst=bucket.burst - block) if block else bucket
