"""Rate limits in an SQLite file.

A bucket is a row. Its instants are stored in seconds from the Moment of writing, so that setting
the clock moves none of them (see ledger_clock.py).
"""

import json
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple, TypeVar

from ....core.limits.bucket import Bucket
from ....core.units import LONG_AGO
from ....errors import LedgerError
from ...sqlite_file import Connection
from ..records import StoredBucket
from ..storage import Buckets
from .ledger_clock import Moment, convert_moment
from .ledger_file import LedgerFile

INSTANTS = ("full_at", "paused_until", "slow_until", "slow_next", "flow_from", "flow_at", "rate_at")
_T = TypeVar("_T")


class _Row(NamedTuple):
    """A bucket, and the moment at which it was read."""

    stored: StoredBucket
    at: Moment
    clock_changed: bool  # since it was written: a reboot, or a wall clock that was set back


class SqliteBuckets(Buckets):
    """Rate limits in an SQLite file."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def read(self, name: str) -> Optional[StoredBucket]:
        """The bucket, if there is one; see Buckets."""
        row = self._file.read(lambda db: self._load(db, name))
        if row is None:
            return None
        if row.clock_changed:  # write it again, so that time counts from here
            return self._file.write(lambda db: self._store_again(db, name))
        return row.stored

    def update(
        self,
        name: str,
        change: Callable[[Optional[StoredBucket]], Tuple[Optional[StoredBucket], _T]],
    ) -> _T:
        """Replace the bucket by the one that `change` returns; see Buckets."""

        def work(db: Connection) -> _T:
            row = self._load(db, name)
            at = self._file.moment() if row is None else row.at
            after, result = change(None if row is None else row.stored)
            if after is not None:
                self._store(db, name, after, at)
            return result

        return self._file.write(work)

    def _store_again(self, db: Connection, name: str) -> Optional[StoredBucket]:
        row = self._load(db, name)
        if row is None:
            return None
        self._store(db, name, row.stored, row.at)
        return row.stored

    def _load(self, db: Connection, name: str) -> Optional[_Row]:
        row = db.execute(
            "SELECT rule, boot, now, wall, state FROM buckets WHERE name = ?", (name,)
        ).fetchone()
        if row is None:
            return None
        rule, *moment, text = row
        at = self._file.moment()
        written = Moment(*moment)
        clock_changed = written.boot != at.boot or written.wall > at.wall
        bucket = self._parse(text, convert_moment(written, at))
        return _Row(StoredBucket(rule, bucket, at.now), at, clock_changed)

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

    def _store(self, db: Connection, name: str, stored: StoredBucket, at: Moment) -> None:
        state = {
            field: value - at.now if field in INSTANTS else value
            for field, value in stored.bucket._asdict().items()
            if value != LONG_AGO
        }
        db.execute(
            "INSERT OR REPLACE INTO buckets (name, rule, boot, now, wall, state) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (name, stored.rule, *at, json.dumps(state, separators=(",", ":"))),
        )
