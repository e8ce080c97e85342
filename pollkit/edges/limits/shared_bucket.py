"""SharedBucket: one rate limit for all processes that name the same file.

The arithmetic is that of core/limits/bucket.py. The Bucket is a row in the file. Its instants are
stored in seconds from the Moment of writing, so that setting the clock moves none of them (see
ledger_clock.py). To get a token, a process reads the row and writes it back in one transaction.
Nothing is held in between: a process that dies loses only the tokens it had not used, and a pause
applies to every process at its next request.

Theory of blocks. If the rate is high, one transaction per token would cost more than the poll. So
a process takes `block` tokens at once, uses them within `block / rate` seconds (at most BLOCK_S,
so that a pause is noticed soon) and discards the rest. The tokens used in any window of W seconds
were therefore taken within W + block/rate seconds: at most rate·W + block + burst. To stay within
rate·W + burst, the row is kept for a burst that is smaller by one block. If the burst is too small
for that, tokens are taken one by one.
"""

import json
from typing import Any, Callable, Dict, NamedTuple, Optional, Union

from ...core.limits import bucket as arithmetic
from ...core.limits.bucket import Bucket
from ...core.units import LONG_AGO, NEVER, Limit, parse_limit
from ...errors import LedgerError
from ..clock import Clock
from ..ledger.ledger_clock import Moment, convert_moment
from ..ledger.ledger_file import LedgerFile
from ..sqlite_file import Connection
from .token_bucket import TokenBucket

BLOCK_S = 0.05
INSTANTS = ("full_at", "paused_until", "slow_until", "slow_next", "flow_from", "flow_at", "rate_at")


class _Stored(NamedTuple):
    """A bucket as the file has it."""

    rule: str  # its limit as text
    bucket: Bucket  # its instants are on our clock
    at: Moment  # when it was read
    clock_changed: bool  # since it was written: a reboot, or a wall clock that was set back


class _Grant(NamedTuple):
    """A slot, and further tokens that may be used until an instant."""

    ready_at: float
    spare: int = 0
    spare_until: float = LONG_AGO


class SharedBucket(TokenBucket):
    """A rate limit that threads and processes share by naming a file: a ledger or a separate file.

    `limit` is as in a profile: '60/m', '10/s burst 20'. Without one, the limit in the file
    applies; if there is none either, all processes together learn one from 429s. If two processes
    name different limits, the latest applies to all. Each `name` is a separate limit.

    >>> import os, tempfile
    >>> path, clock = os.path.join(tempfile.mkdtemp(), "limits.db"), Clock()
    >>> here, there, now = SharedBucket(path, "1/s burst 2"), SharedBucket(path), clock.now()
    >>> [round(bucket.reserve(now) - now) for bucket in (here, there, here, there)]
    [0, 0, 1, 2]
    """

    def __init__(
        self,
        path: Union[str, LedgerFile],
        limit: Union[str, Limit, None] = None,
        name: str = "default",
        clock: Optional[Clock] = None,
    ) -> None:
        super().__init__(clock=clock)
        self._file = path if isinstance(path, LedgerFile) else LedgerFile(path, self._clock)
        self._name = name
        self._spare = 0  # tokens left of a block
        self._spare_until = LONG_AGO
        if isinstance(limit, str):
            limit = parse_limit(limit)
        if limit is not None or self._file.read(self._select) is None:
            self._file.write(lambda db: self._apply_limit(db, limit))

    def close(self) -> None:
        """Close the file; it is opened again when it is next used."""
        self._file.close()

    def reserve(self, now: float, latest: float = NEVER, is_final: bool = False) -> float:
        """Reserve the next slot and return its instant; if that is after `latest`, reserve none.

        `now` is this instant on the bucket's clock. The final poll of a job (`is_final`) ignores
        a limit that was learned or guessed; only a pause and a known limit delay it.
        """
        with self._lock:
            if self._spare and max(now, self._clock.now()) <= self._spare_until:
                self._spare -= 1
                return now
            # A caller that gets no slot asks often: to refuse it takes no transaction.
            bucket = _without_block(self._current())
            _, ready_at = arithmetic.reserve(bucket, now, latest, is_final)
            if ready_at > latest:
                return ready_at
            grant = self._file.write(lambda db: self._take(db, now, latest, is_final))
            self._spare = grant.spare
            self._spare_until = grant.spare_until
        return grant.ready_at

    def _take(self, db: Connection, asked_at: float, latest: float, is_final: bool) -> _Grant:
        stored = self._load(db)
        now = max(asked_at, stored.at.now)  # waiting for the transaction may have taken a while
        latest = max(latest, now)
        bucket = _without_block(stored.bucket)
        bucket, ready_at = arithmetic.reserve(bucket, now, latest, is_final)
        if ready_at > latest:
            return _Grant(ready_at)
        block = _block_size(stored.bucket)
        spare = 0
        while ready_at <= now and spare < block - 1:
            bucket, next_at = arithmetic.reserve(bucket, now, now)
            if next_at > now:
                break
            spare += 1
        self._store(db, stored.rule, bucket._replace(burst=stored.bucket.burst), stored.at)
        if ready_at > now:
            return _Grant(ready_at)
        if stored.bucket.rate is None or not spare:
            return _Grant(asked_at)
        return _Grant(asked_at, spare, now + block / stored.bucket.rate)

    def _change(self, change: Callable[[Bucket], Bucket]) -> None:
        def work(db: Connection) -> None:
            stored = self._load(db)
            before = _without_block(stored.bucket)
            after = change(before)
            if after is before:
                return
            if _block_size(stored.bucket):
                after = after._replace(burst=stored.bucket.burst)
            self._store(db, stored.rule, after, stored.at)

        with self._lock:
            self._spare = 0
            self._file.write(work)

    def _apply_limit(self, db: Connection, limit: Optional[Limit]) -> None:
        """Create the bucket, or change its limit if another one is given."""
        rule = str(limit or "")
        bucket = arithmetic.bucket_from_limit(limit)
        if self._select(db) is None:
            self._store(db, rule, bucket, self._file.moment())
            return
        stored = self._load(db)
        if limit is None or stored.rule == rule:
            return
        now = stored.at.now
        latest_full_at = now + bucket.burst * arithmetic.grant_interval(bucket)
        bucket = bucket._replace(
            full_at=min(max(stored.bucket.full_at, now), latest_full_at),
            paused_until=stored.bucket.paused_until,
            pause_count=stored.bucket.pause_count + 1,  # slots under the old limit are void
        )
        self._store(db, rule, bucket, stored.at)

    def _current(self) -> Bucket:
        stored = self._file.read(self._load)
        if stored.clock_changed:
            stored = self._file.write(self._store_again)
        return stored.bucket

    def _store_again(self, db: Connection) -> _Stored:
        """Write the bucket with the current Moment, so that time counts from here."""
        stored = self._load(db)
        self._store(db, stored.rule, stored.bucket, stored.at)
        return stored

    def _select(self, db: Connection) -> Any:
        return db.execute(
            "SELECT rule, boot, now, wall, state FROM buckets WHERE name = ?", (self._name,)
        ).fetchone()

    def _load(self, db: Connection) -> _Stored:
        row = self._select(db)
        if row is None:
            raise LedgerError(
                "%s no longer has the bucket %r: was the file replaced?"
                % (self._file.path, self._name)
            )
        rule, *moment, text = row
        at = self._file.moment()
        written = Moment(*moment)
        clock_changed = written.boot != at.boot or written.wall > at.wall
        bucket = self._parse(text, convert_moment(written, at))
        return _Stored(rule, bucket, at, clock_changed)

    def _parse(self, text: str, written_at: float) -> Bucket:
        try:
            state: Dict[str, Any] = json.loads(text)
            for field in INSTANTS:
                if field in state:
                    state[field] += written_at
            known = {field: state[field] for field in state if field in Bucket._fields}
            return Bucket(**known)
        except (ValueError, TypeError):
            raise LedgerError("%s is damaged: move it away" % self._file.path) from None

    def _store(self, db: Connection, rule: str, bucket: Bucket, at: Moment) -> None:
        state = {
            field: value - at.now if field in INSTANTS else value
            for field, value in bucket._asdict().items()
            if value != LONG_AGO
        }
        db.execute(
            "INSERT OR REPLACE INTO buckets (name, rule, boot, now, wall, state) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (self._name, rule, *at, json.dumps(state, separators=(",", ":"))),
        )


def _block_size(bucket: Bucket) -> int:
    """How many tokens are taken at once; 0 if they are taken one by one."""
    if bucket.rate is None or bucket.learned:
        return 0
    block = int(min(bucket.burst / 2, bucket.rate * BLOCK_S))
    return block if block > 1 else 0


def _without_block(bucket: Bucket) -> Bucket:
    """The bucket with the burst that remains if a block may be in use at any time."""
    block = _block_size(bucket)
    return bucket._replace(burst=bucket.burst - block) if block else bucket
