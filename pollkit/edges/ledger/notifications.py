"""Notifications of finished jobs. Internal; the Notifier uses it.

A notification is pending from the moment its job's outcome is written. It is claimed with a
lease, delivered, and only then marked as notified; so it is delivered at least once. After a day
of failed attempts it is given up.
"""

import json
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ...core.model import one_line
from ..sqlite_file import Connection
from .ledger_file import LedgerFile
from .rows import Page, read_page

GIVE_UP_S = 86400.0


class NotificationFailed(Exception):
    """A notification could not be delivered; the text says why."""


class Notification(NamedTuple):
    """A finished job to report, claimed by this process."""

    key: int
    id: str
    ended_at: float  # in ledger time
    attempt: int  # 1 for the first
    metadata: Optional[Dict[str, Any]]
    outcome: Dict[str, Any]  # as in JSON
    last_error: Optional[str] = None  # why the attempt before this one failed

    def to_line(self) -> bytes:
        """The outcome as a line of JSON."""
        return (json.dumps(self.outcome) + "\n").encode("ascii")


class Notifications:
    """The notifications that a ledger has to deliver."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def next_at(self) -> Optional[float]:
        """When a notification can next be claimed, on the ledger's clock; None if none pends."""
        return self._file.earliest("tell_at")

    def claim(self, count: int, lease_s: float = 60.0) -> List[Notification]:
        """Claim up to `count` pending notifications, the oldest first; fewer if they are large.

        If this process reports neither success nor failure, they are due again after `lease_s`.
        """

        def work(db: Connection) -> Page:
            now = self._file.time(db).now
            page = read_page(
                db.execute(
                    "SELECT key, id, ended_at, tells + 1, tell_error, metadata, outcome "
                    "FROM jobs JOIN outcomes USING (key) "
                    "WHERE tell_at <= ? ORDER BY tell_at LIMIT ?",
                    (now, count),
                )
            )
            db.executemany(
                "UPDATE jobs SET tell_at = ?, tells = tells + 1, "
                "tell_from = COALESCE(tell_from, ?) WHERE key = ?",
                [(now + lease_s, now, row[0]) for row in page.rows],
            )
            return page

        next_at = self.next_at()
        if next_at is None or next_at > self._file.clock.now():
            return []
        parse_json = self._file.parse_json
        return [
            Notification(
                key, name, ended_at, attempt, parse_json(metadata), parse_json(outcome), error
            )
            for key, name, ended_at, attempt, error, metadata, outcome in self._file.write(
                work
            ).rows
        ]

    def mark_notified(self, notification: Notification) -> None:
        """Record that a notification was delivered."""
        self._file.write(
            lambda db: db.execute(
                "UPDATE jobs SET told_at = ?, tell_at = NULL, tell_error = NULL "
                "WHERE key = ? AND ended_at = ?",
                (self._file.time(db).now, notification.key, notification.ended_at),
            )
        )

    def record_failure(
        self,
        notification: Notification,
        error: str,
        retry_in_s: float,
        give_up_s: float = GIVE_UP_S,
    ) -> bool:
        """Record that a notification failed; whether it will be tried again.

        It will not if the first attempt was at least `give_up_s` ago.
        """

        def work(db: Connection) -> bool:
            now = self._file.time(db).now
            which = (notification.key, notification.ended_at)
            db.execute(
                "UPDATE jobs SET tell_error = ?, "
                "tell_at = CASE WHEN tell_from <= ? THEN NULL ELSE ? END "
                "WHERE key = ? AND ended_at = ? AND tell_at IS NOT NULL",
                (one_line(error), now - give_up_s, now + retry_in_s, *which),
            )
            pending = db.execute(
                "SELECT 1 FROM jobs WHERE key = ? AND ended_at = ? AND tell_at IS NOT NULL", which
            ).fetchone()
            return pending is not None

        return self._file.write(work)

    def release(self, notifications: Sequence[Notification]) -> None:
        """Let any process claim these at once, unless another process has claimed them since."""

        def work(db: Connection) -> None:
            now = self._file.time(db).now
            db.executemany(
                "UPDATE jobs SET tell_at = ? WHERE key = ? AND ended_at = ? AND tells = ? "
                "AND tell_at IS NOT NULL",
                [(now, each.key, each.ended_at, each.attempt) for each in notifications],
            )

        if notifications:
            self._file.write(work)
