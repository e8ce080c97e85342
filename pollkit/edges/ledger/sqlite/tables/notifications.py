"""Notifications in an SQLite file."""

from typing import List, Optional, Sequence

from .....core.model import one_line
from ....sqlite_file import Connection
from ...damage import check_values
from ...records import Notification
from ...storage import GIVE_UP_S, Notifications
from ...stored_jobs import LedgerTime
from ..ledger_file import FileTables, Page, read_page

_CHECKED = ("key", "id", "ended_at", "notify_attempts")


class SqliteNotifications(FileTables, Notifications):
    """Notifications in an SQLite file."""

    def next_at(self) -> Optional[float]:
        """When a notification can next be claimed; see Notifications."""
        (at,) = self._file.read_instants(
            lambda db: db.execute("SELECT MIN(notify_at) FROM jobs").fetchone()
        )
        return at

    def claim(self, count: int, lease_s: float = 60.0) -> List[Notification]:
        """Claim pending notifications; see Notifications."""

        def work(db: Connection, time: LedgerTime) -> Page:
            owner = self._file.owner.register(db, time.now + lease_s)
            page = read_page(
                db.execute(
                    "SELECT key, id, ended_at, notify_attempts + 1, metadata, "
                    "outbox_at IS NOT NULL, notify_error, outcome "
                    "FROM jobs JOIN outcomes USING (key) "
                    "WHERE notify_at <= ? ORDER BY notify_at LIMIT ?",
                    (time.now, count),
                )
            )
            for key, name, ended_at, attempt, *_ in page.rows:
                check_values((key, name, ended_at, attempt), _CHECKED, self._file.path, name)
            db.executemany(
                "UPDATE jobs SET owner = ?, notify_at = ?, notify_attempts = notify_attempts + 1, "
                "notify_since = COALESCE(notify_since, ?) WHERE key = ?",
                [(owner, time.now + lease_s, time.now, row[0]) for row in page.rows],
            )
            return page

        next_at = self.next_at()
        if next_at is None or next_at > self._file.clock.now():
            return []
        parse_json = self._file.parse_json
        return [
            Notification(
                key=key,
                id=name,
                ended_at=ended_at,
                attempt=attempt,
                metadata=parse_json(metadata, name),
                outcome=parse_json(outcome, name),
                is_in_outbox=bool(in_outbox),
                last_error=last_error,
            )
            for key, name, ended_at, attempt, metadata, in_outbox, last_error, outcome in (
                self._file.write_timed(work).rows
            )
        ]

    def mark_in_outbox(self, notifications: Sequence[Notification]) -> None:
        """Record that the outbox has these lines; see Notifications."""
        if notifications:
            self._file.write_timed(
                lambda db, time: db.executemany(
                    "UPDATE jobs SET outbox_at = ? WHERE key = ? AND ended_at = ?",
                    [(time.now, each.key, each.ended_at) for each in notifications],
                )
            )

    def mark_notified(self, notification: Notification) -> None:
        """Record that a notification was delivered; see Notifications."""
        self._file.write_timed(
            lambda db, time: db.execute(
                "UPDATE jobs SET notified_at = ?, notify_at = NULL, notify_error = NULL, "
                "owner = NULL WHERE key = ? AND ended_at = ?",
                (time.now, notification.key, notification.ended_at),
            )
        )

    def record_failure(
        self,
        notification: Notification,
        error: str,
        retry_in_s: float,
        give_up_s: float = GIVE_UP_S,
    ) -> bool:
        """Record that a notification failed; see Notifications."""

        def work(db: Connection, time: LedgerTime) -> bool:
            which = (notification.key, notification.ended_at)
            db.execute(
                "UPDATE jobs SET notify_error = ?, owner = NULL, "
                "notify_at = CASE WHEN notify_since <= ? THEN NULL ELSE ? END "
                "WHERE key = ? AND ended_at = ? AND notify_at IS NOT NULL",
                (one_line(error), time.now - give_up_s, time.now + retry_in_s, *which),
            )
            pending = db.execute(
                "SELECT 1 FROM jobs WHERE key = ? AND ended_at = ? AND notify_at IS NOT NULL", which
            ).fetchone()
            return pending is not None

        return self._file.write_timed(work)

    def release(self, notifications: Sequence[Notification]) -> None:
        """Let any process claim these at once; see Notifications."""
        if notifications:
            self._file.write_timed(
                lambda db, time: db.executemany(
                    "UPDATE jobs SET notify_at = ?, owner = NULL WHERE key = ? AND ended_at = ? "
                    "AND notify_attempts = ? AND notify_at IS NOT NULL",
                    [(time.now, each.key, each.ended_at, each.attempt) for each in notifications],
                )
            )

    def delivered(self, keys: Sequence[int]) -> List[int]:
        """Those of the jobs that were notified; see Notifications."""
        query = "SELECT 1 FROM jobs WHERE key = ? AND notified_at IS NOT NULL"
        return self._file.read(
            lambda db: [key for key in keys if db.execute(query, (key,)).fetchone()]
        )
