"""Notifications in PostgreSQL."""

from typing import List, Optional, Sequence

from .....core.model import one_line
from ... import stored_jobs
from ...damage import check_values
from ...records import Notification
from ...storage import GIVE_UP_S, Notifications
from ...stored_jobs import parse_json
from ..connection.database import DatabaseTables

_THAT_OUTCOME = """WHERE notification.job = %s AND EXISTS (
    SELECT 1 FROM pollkit.outcome WHERE outcome.job = notification.job AND ended_at = %s)"""
_THOSE_OUTCOMES = """FROM pollkit.outcome
    JOIN unnest(%s::bigint[], %s::float8[], %s::int[]) AS mine (job, ended_at, attempt)
    USING (job, ended_at) WHERE notification.job = outcome.job"""


class PostgresNotifications(DatabaseTables, Notifications):
    """Notifications in PostgreSQL."""

    def next_at(self) -> Optional[float]:
        """When a notification can next be claimed; see Notifications."""
        ((at, server_now),) = self._database.query(
            "SELECT min(notify_at), $now FROM pollkit.notification WHERE notify_at IS NOT NULL"
        )
        return None if at is None else float(at) - self._database.time_at(server_now).offset

    def claim(self, count: int, lease_s: float = 60.0) -> List[Notification]:
        """Claim pending notifications; see Notifications."""
        place = self._database.name
        rows = self._database.query(
            """WITH picked AS MATERIALIZED (
                SELECT job, notify_at FROM pollkit.notification WHERE notify_at <= $now
                ORDER BY notify_at, job LIMIT %s FOR UPDATE SKIP LOCKED),
            sized AS MATERIALIZED (
                SELECT job, notify_at, sum(octet_length(outcome)) OVER (ORDER BY notify_at, job)
                    - octet_length(outcome) AS size_before
                FROM picked JOIN pollkit.outcome USING (job)),
            claimed AS (
                UPDATE pollkit.notification SET notify_at = $now + %s, attempts = attempts + 1,
                    since = COALESCE(since, $now)
                FROM sized WHERE notification.job = sized.job AND size_before < %s
                RETURNING notification.*, sized.notify_at AS was_at)
            SELECT key, id, ended_at, attempts, metadata, outcome, outbox_at IS NOT NULL, error
            FROM claimed JOIN pollkit.outcome USING (job) JOIN pollkit.job ON key = claimed.job
            ORDER BY was_at, key""",
            count,
            float(lease_s),
            stored_jobs.PAGE_CHARACTERS,
        )
        for _, name, ended_at, *_ in rows:
            check_values((ended_at,), ("ended_at",), place, name)
        return [
            Notification(
                key=key,
                id=name,
                ended_at=ended_at,
                attempt=attempt,
                metadata=parse_json(metadata, place, name),
                outcome=parse_json(outcome, place, name),
                is_in_outbox=is_in_outbox,
                last_error=last_error,
            )
            for key, name, ended_at, attempt, metadata, outcome, is_in_outbox, last_error in rows
        ]

    def mark_in_outbox(self, notifications: Sequence[Notification]) -> None:
        """Record that the outbox has these lines; see Notifications."""
        if notifications:
            self._database.query(
                "UPDATE pollkit.notification SET outbox_at = $now " + _THOSE_OUTCOMES,
                *_columns(notifications),
            )

    def mark_notified(self, notification: Notification) -> None:
        """Record that a notification was delivered; see Notifications."""
        self._database.query(
            "UPDATE pollkit.notification SET notified_at = $now, notify_at = NULL, error = NULL "
            + _THAT_OUTCOME,
            notification.key,
            notification.ended_at,
        )

    def record_failure(
        self,
        notification: Notification,
        error: str,
        retry_in_s: float,
        give_up_s: float = GIVE_UP_S,
    ) -> bool:
        """Record that a notification failed; see Notifications."""
        rows = self._database.query(
            "UPDATE pollkit.notification SET error = %s, notify_at = "
            "CASE WHEN since <= $now - %s THEN NULL ELSE $now + %s END "
            + _THAT_OUTCOME
            + " AND notify_at IS NOT NULL RETURNING notify_at",
            one_line(error),
            float(give_up_s),
            float(retry_in_s),
            notification.key,
            notification.ended_at,
        )
        return bool(rows) and rows[0][0] is not None

    def release(self, notifications: Sequence[Notification]) -> None:
        """Let any process claim these at once; see Notifications."""
        if notifications:
            self._database.query(
                "UPDATE pollkit.notification SET notify_at = $now "
                + _THOSE_OUTCOMES
                + " AND attempts = attempt AND notify_at IS NOT NULL",
                *_columns(notifications),
            )

    def delivered(self, keys: Sequence[int]) -> List[int]:
        """Those of the jobs that were notified; see Notifications."""
        rows = self._database.query(
            "SELECT job FROM pollkit.notification "
            "WHERE job = ANY(%s::bigint[]) AND notified_at IS NOT NULL",
            list(keys),
        )
        return [job for (job,) in rows]


def _columns(notifications: Sequence[Notification]) -> List[List[object]]:
    return [
        [each.key for each in notifications],
        [each.ended_at for each in notifications],
        [each.attempt for each in notifications],
    ]
