"""SharedBucket: one limit for every process that names the same file.

The arithmetic is core/bucket's own; the Bucket is a row in the file, its instants written as
seconds from the Moment of writing, so that a clock that is set moves none of them
(ledger_time.py). Who asks for a token reads the row; who gets one writes it back in a transaction
that nobody else can be in. Nothing is held in between, so a process that dies takes nothing along
but the tokens it had not used, and a pause is seen by whoever asks next.

Theory of blocks. Where the rate is high, a transaction for each token would cost more than the
poll. So `block` tokens are taken at once, used within `block / rate` seconds (BLOCK_S at most, so
that a pause is seen soon enough) and lost if they are not. Used by then, those of any window of W
seconds were taken within W + block/rate seconds: at most rate·W + block + burst. So the row is kept
for a burst that is smaller by one block, and what is used never exceeds rate·W + burst. Where the
burst is too small to be shared out like this, tokens are taken one by one.
"""

import json
from typing import Any, Callable, Dict, Optional, Tuple, Union

from ...core.limits import bucket as arithmetic
from ...core.limits.bucket import Bucket
from ...core.reading.reader import Reading, Verdict
from ...core.units import LONG_AGO, NEVER, Limit, parse_limit
from ...errors import LedgerError
from ..clock import Clock
from ..ledger.ledger_clock import Moment, Stopwatch, convert_moment
from ..ledger.schema import ledger_file
from ..sqlite_file import Connection, SqliteFile
from .token_bucket import TokenBucket

BLOCK_S = 0.05
INSTANTS = ("full_at", "paused_until", "slow_until", "slow_next", "flow_from", "flow_at", "rate_at")


class SharedBucket(TokenBucket):
    """A rate limit that threads and processes share by naming a file, their ledger or one of its own.

    `limit` is as profiles write it: '60/m', '10/s burst 20'; who names none goes by what the file
    says, or learns one from 429s together with all others. Buckets of different `name` are
    different limits. Of a limit that was changed, the one who came last is right.

    >>> import os, tempfile
    >>> path, clock = os.path.join(tempfile.mkdtemp(), "limits.db"), Clock()
    >>> here, there, now = SharedBucket(path, "1/s burst 2"), SharedBucket(path), clock.now()
    >>> [round(bucket.reserve(now) - now) for bucket in (here, there, here, there)]
    [0, 0, 1, 2]
    """

    def __init__(
        self,
        path: Union[str, SqliteFile],
        limit: Union[str, Limit, None] = None,
        name: str = "default",
        clock: Optional[Clock] = None,
    ) -> None:
        super().__init__(clock=clock)
        self._file = path if isinstance(path, SqliteFile) else ledger_file(path)
        self._stopwatch = Stopwatch(self._clock)
        self._name = name
        self._spare, self._spare_until = 0, LONG_AGO  # what is left of a block, and when it is lost
        limit = parse_limit(limit) if isinstance(limit, str) else limit
        if limit is not None or self._file.read(self._row) is None:
            self._file.write(lambda db: self._agree(db, limit))

    @property
    def pause_count(self) -> int:
        """How often the bucket was paused, by whomever: a slot that was reserved before the last time is void."""
        return self._now().pause_count

    @property
    def interval(self) -> float:
        """How far two polls are apart once the burst is used up; 0 where no limit is known."""
        return arithmetic.grant_interval(self._now())

    @property
    def spacing(self) -> float:
        """How far two polls are always apart: the interval, where there is no burst to draw on."""
        bucket = self._now()
        return arithmetic.grant_interval(bucket) if bucket.burst < 2 else 0.0

    def close(self) -> None:
        """Let go of the file; it is opened again when it is used again."""
        self._file.close()

    def reserve(self, now: float, latest: float = NEVER, last_look: bool = False) -> float:
        """Take the next slot: the instant it may be used; one after `latest` is told, not taken.

        `now` is this instant on the bucket's clock. For a `last_look` only a pause and a known
        limit count, not what was learned or guessed.
        """
        with self._lock:
            if self._spare and max(now, self._clock.now()) <= self._spare_until:
                self._spare -= 1
                return now
            # Who is refused asks often: to say no takes no transaction.
            ready_at = arithmetic.reserve(_thrifty(self._now()), now, latest, last_look)[1]
            if ready_at > latest:
                return ready_at
            ready_at, self._spare, self._spare_until = self._file.write(
                lambda db: self._take(db, now, latest, last_look)
            )
        return ready_at

    def pause(self, now: float, until: float) -> None:
        """Grant nothing before `until`, to anybody."""
        self._change(lambda bucket: arithmetic.pause(bucket, now, until))

    def apply_feedback(self, reading: Reading, now: float, until: float) -> None:
        """Take in what a reply says about the limit; after a 429, everybody pauses until `until`."""
        if reading.verdict is Verdict.LIMITED or reading.quota is not None:
            self._change(lambda bucket: arithmetic.apply_feedback(bucket, reading, now, until))

    def _take(
        self, db: Connection, now: float, latest: float, last_look: bool
    ) -> Tuple[float, int, float]:
        """A slot, and how many more may be used until when."""
        row, at = self._row(db), self._stopwatch.read()
        before, now_really = (
            self._bucket_of(row, at),
            max(now, at.now),
        )  # the transaction had to be waited for
        latest = max(latest, now_really)
        bucket, ready_at = arithmetic.reserve(_thrifty(before), now_really, latest, last_look)
        if ready_at > latest:
            return ready_at, 0, LONG_AGO
        spare, block = 0, _block(before)
        while ready_at <= now_really and spare < block - 1:
            bucket, next_at = arithmetic.reserve(bucket, now_really, now_really)
            if next_at > now_really:
                break
            spare += 1
        self._write(db, row[0], bucket._replace(burst=before.burst), at)
        return (
            now if ready_at <= now_really else ready_at,
            spare,
            now_really + block / before.rate if before.rate and spare else LONG_AGO,
        )

    def _change(self, change: Callable[[Bucket], Bucket]) -> None:
        def work(db: Connection) -> None:
            row, at = self._row(db), self._stopwatch.read()
            before = self._bucket_of(row, at)
            thrifty = _thrifty(before)
            after = change(thrifty)
            if after is not thrifty:
                self._write(
                    db, row[0], after._replace(burst=before.burst) if _block(before) else after, at
                )

        with self._lock:
            self._spare = 0
            self._file.write(work)

    def _agree(self, db: Connection, limit: Optional[Limit]) -> None:
        """See to it that the file has the bucket, and keeps the limit, if one is named."""
        row, at, rule, bucket = (
            self._row(db),
            self._stopwatch.read(),
            str(limit or ""),
            arithmetic.bucket_from_limit(limit),
        )
        if row is None:
            self._write(db, rule, bucket, at)
        elif limit is not None and row[0] != rule:
            before, interval = self._bucket_of(row, at), arithmetic.grant_interval(bucket)
            full_at = min(max(before.full_at, at.now), at.now + bucket.burst * interval)
            # Slots that were reserved under the other limit are void.
            self._write(
                db,
                rule,
                bucket._replace(
                    full_at=full_at,
                    paused_until=before.paused_until,
                    pause_count=before.pause_count + 1,
                ),
                at,
            )

    def _now(self) -> Bucket:
        row, at = self._file.read(lambda db: (self._row(db), self._stopwatch.read()))
        if row is not None and (row[1] != at.boot or row[3] > at.wall):
            # Another boot, or a clock that was set back: noted, so that time goes on from here.
            return self._file.write(self._noted)
        return self._bucket_of(row, at)

    def _noted(self, db: Connection) -> Bucket:
        row, at = self._row(db), self._stopwatch.read()
        bucket = self._bucket_of(row, at)
        self._write(db, row[0], bucket, at)
        return bucket

    def _row(self, db: Connection) -> Any:
        return db.execute(
            "SELECT rule, boot, now, wall, state FROM buckets WHERE name = ?", (self._name,)
        ).fetchone()

    def _bucket_of(self, row: Any, at: Moment) -> Bucket:
        """A row as a bucket, its instants on our clock."""
        if row is None:
            raise LedgerError(
                "%s no longer has the bucket %r: was the file replaced?"
                % (self._file.path, self._name)
            )
        begin = convert_moment(Moment(*row[1:4]), at)
        try:
            state: Dict[str, Any] = json.loads(row[4])
            known = {
                field: value + begin if field in INSTANTS else value
                for field, value in state.items()
                if field in Bucket._fields
            }
            return Bucket(**known)
        except (ValueError, TypeError):
            raise LedgerError("%s is damaged: move it away" % self._file.path) from None

    def _write(self, db: Connection, rule: str, bucket: Bucket, at: Moment) -> None:
        state = {
            field: value - at.now if field in INSTANTS else value
            for field, value in bucket._asdict().items()
            if value != LONG_AGO
        }
        db.execute(
            "INSERT OR REPLACE INTO buckets (name, rule, boot, now, wall, state) VALUES (?, ?, ?, ?, ?, ?)",
            (self._name, rule) + at + (json.dumps(state, separators=(",", ":")),),
        )


def _block(bucket: Bucket) -> int:
    """How many tokens are taken at once; 0: one by one."""
    if bucket.rate is None or bucket.learned:
        return 0
    block = int(min(bucket.burst / 2, bucket.rate * BLOCK_S))
    return block if block > 1 else 0


def _thrifty(bucket: Bucket) -> Bucket:
    """The bucket with the burst that is left when a block may be in use at any time."""
    block = _block(bucket)
    return bucket._replace(burst=bucket.burst - block) if block else bucket
