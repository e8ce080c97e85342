"""Rate limits in PostgreSQL. A bucket is a row, with its instants in seconds from its writing."""

from typing import Callable, Dict, Optional, Tuple, TypeVar

from ...records import StoredBucket
from ...storage import Buckets
from ...stored_buckets import bucket_from_text, bucket_to_text
from ..connection.database import DatabaseTables
from ..connection.session import Row, Session

_CREATE = """INSERT INTO pollkit.bucket (rule, state, written_at, name) VALUES (%s, %s, $now, %s)
    ON CONFLICT DO NOTHING RETURNING name"""
_UPDATE = """UPDATE pollkit.bucket SET rule = %s, state = %s, written_at = $now WHERE name = %s
    RETURNING name"""
_READ = "SELECT rule, state, written_at, $now FROM pollkit.bucket WHERE name = %s"
_T = TypeVar("_T")


class PostgresBuckets(DatabaseTables, Buckets):
    """Rate limits in PostgreSQL."""

    is_remote = True

    def all(self) -> Dict[str, StoredBucket]:
        """All buckets, by name; see Buckets."""
        rows = self._database.query(
            "SELECT name, rule, state, written_at, $now FROM pollkit.bucket ORDER BY name"
        )
        return {row[0]: self._load(row[1:]) for row in rows}

    def read(self, name: str) -> Optional[StoredBucket]:
        """The bucket, if there is one; see Buckets."""
        rows = self._database.query(_READ, name)
        return self._load(rows[0]) if rows else None

    def update(
        self,
        name: str,
        change: Callable[[Optional[StoredBucket]], Tuple[Optional[StoredBucket], _T]],
    ) -> _T:
        """Replace the bucket by the one that `change` returns; see Buckets."""

        def work(db: Session) -> _T:
            rows = db.query(_READ + " FOR UPDATE", name)
            stored = self._load(rows[0]) if rows else None
            after, result = change(stored)
            if after is None:
                return result
            text = bucket_to_text(after.bucket, self._database.clock.now())
            is_stored = db.query(_UPDATE if rows else _CREATE, after.rule, text, name)
            return result if is_stored else work(db)  # another process has just created it

        return self._database.run(work)

    def _load(self, row: Row) -> StoredBucket:
        rule, state, written_at, server_now = row
        now = self._database.clock.now()
        bucket = bucket_from_text(state, now - (server_now - written_at), self._database.name)
        return StoredBucket(rule, bucket, now)
