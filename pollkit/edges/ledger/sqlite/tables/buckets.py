"""Rate limits in an SQLite file.

A bucket is a row. Its instants are stored in seconds from the Moment of writing, so that setting
the clock moves none of them (see ledger_clock.py).
"""

from typing import Callable, Dict, NamedTuple, Optional, Tuple, TypeVar

from ....sqlite_file import Connection
from ...damage import check_values
from ...records import StoredBucket
from ...storage import Buckets
from ...stored_buckets import bucket_from_text, bucket_to_text
from ..ledger_clock import Moment, convert_moment
from ..ledger_file import FileTables

_T = TypeVar("_T")
_COLUMNS = "rule, boot, now, wall, state"


class _Row(NamedTuple):
    """A bucket, and the moment at which it was read."""

    stored: StoredBucket
    at: Moment
    clock_changed: bool  # since it was written: a reboot, or a wall clock that was set back


class SqliteBuckets(FileTables, Buckets):
    """Rate limits in an SQLite file."""

    def all(self) -> Dict[str, StoredBucket]:
        """All buckets, by name; see Buckets."""
        query = "SELECT name, %s FROM buckets ORDER BY name" % _COLUMNS
        return self._file.read(
            lambda db: {
                name: self._parse(*columns).stored
                for name, *columns in db.execute(query).fetchall()
            }
        )

    def read(self, name: str) -> Optional[StoredBucket]:
        """The bucket, if there is one; see Buckets."""
        row = self._file.read(lambda db: self._load(db, name))
        if row is None:
            return None
        if row.clock_changed:  # write it again, so that time counts from here
            return self.update(name, lambda stored: (stored, stored))
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

    def _load(self, db: Connection, name: str) -> Optional[_Row]:
        row = db.execute("SELECT %s FROM buckets WHERE name = ?" % _COLUMNS, (name,)).fetchone()
        return None if row is None else self._parse(*row)

    def _parse(self, rule: str, boot: str, now: float, wall: float, text: str) -> _Row:
        check_values((rule,), ("rule",), self._file.path, None)
        at = self._file.moment()
        written = Moment(boot, now, wall)
        clock_changed = written.boot != at.boot or written.wall > at.wall
        bucket = bucket_from_text(text, convert_moment(written, at), self._file.path)
        return _Row(StoredBucket(rule, bucket, at.now), at, clock_changed)

    def _store(self, db: Connection, name: str, stored: StoredBucket, at: Moment) -> None:
        db.execute(
            "INSERT OR REPLACE INTO buckets (name, rule, boot, now, wall, state) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (name, stored.rule, *at, bucket_to_text(stored.bucket, at.now)),
        )
